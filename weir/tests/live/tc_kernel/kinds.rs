//! Random filters of all kinds, some with policers, and the packets that try them.

use super::script::Script;
use weir_core::random::Random;

/// A packet with what the kernel knows beside its bytes.
pub struct Sent {
    /// The VLANs of its tags, the outer one first.
    pub tags: Vec<u8>,
    pub mark: u32,
    /// Without tags.
    pub frame: Vec<u8>,
}

impl Sent {
    /// The device of the guest that adds the tags.
    pub fn device(&self) -> String {
        self.tags.iter().fold("v0".to_owned(), |name, tag| format!("{name}.{tag}"))
    }

    /// The bytes on the wire.
    pub fn tagged(&self) -> Vec<u8> {
        let tags = self.tags.iter().flat_map(|tag| [0x81, 0, 0, *tag]);
        let (stations, rest) = self.frame.split_at(12);
        stations.iter().copied().chain(tags).chain(rest.iter().copied()).collect()
    }
}

/// Draws up to ten filters more for a script.
pub fn add(script: &mut Script, random: &mut Random) {
    for _ in 0..1 + random.below(10) {
        let at = random.below(script.filters.len() as u32 + 1) as usize;
        let line = filter(&script.leaves, random);
        script.filters.insert(at, line);
    }
}

fn pick<'l>(list: &[&'l str], random: &mut Random) -> &'l str {
    list[random.below(list.len() as u32) as usize]
}

fn filter(leaves: &[u32], random: &mut Random) -> String {
    let leaf = leaves[random.below(leaves.len() as u32) as usize];
    let protocol = pick(&["ip", "ip", "ipv6", "all", "802.1q", "arp", "0x88cc"], random);
    let prio = 1 + random.below(30);
    let (before, conditions) = match random.below(8) {
        0..2 => fw(random),
        2..6 => (String::new(), flower(protocol, random)),
        6 => (String::new(), "matchall".to_owned()),
        _ => (String::new(), basic(random)),
    };
    let bare = !["flower", "matchall"].iter().any(|kind| conditions.starts_with(kind));
    let police = police(bare, random);
    let mark = mark(protocol, random);
    format!(
        "filter add dev v0 parent 1: protocol {protocol} prio {prio}{before} {conditions} classid \
         1:{leaf:x}{police}{mark}"
    )
}

fn fw(random: &mut Random) -> (String, String) {
    let handles = ["5", "0x10/0xf0", "017", "0x13", "0x3/0xf", "1/1", "0x12/0xf0", "0", "6/0xff"];
    (format!(" handle {}", pick(&handles, random)), "fw".to_owned())
}

fn flower(protocol: &str, random: &mut Random) -> String {
    let mut text = "flower".to_owned();
    let word = |one_in: u32, text: String, random: &mut Random| match random.below(one_in) {
        0 => text,
        _ => String::new(),
    };
    let mut add = |words: String| text.push_str(&words);
    let mut inner = protocol;
    if protocol == "802.1q" {
        let id = 1 + random.below(3);
        add(word(2, format!(" vlan_id {id}"), random));
        inner = pick(&["", "ip", "ipv6", "802.1q"], random);
        if !inner.is_empty() {
            add(format!(" vlan_ethtype {inner}"));
        }
    }
    let station = pick(&["02:00:00:00:00:76", "02:00:00:00:00:75"], random);
    add(word(8, format!(" src_mac {station}"), random));
    let ip = ["ip", "ipv6"].contains(&inner);
    if !ip {
        return text;
    }
    let four = ["10.0.0.1", "10.0.0.0/8", "192.0.2.128/25"];
    let six = ["2001:db8::1", "2001:db8:1::/48", "2001::/16"];
    let addresses = if inner == "ip" { four } else { six };
    for key in ["src_ip", "dst_ip"] {
        add(word(4, format!(" {key} {}", pick(&addresses, random)), random));
    }
    let proto = pick(&["tcp", "udp", "udp", "sctp", "2f", "icmp"], random);
    let ported = ["tcp", "udp", "sctp"].contains(&proto);
    let proto = if proto == "icmp" && inner == "ipv6" { "icmpv6" } else { proto };
    if random.below(3) > 0 {
        add(format!(" ip_proto {proto}"));
        for key in ["src_port", "dst_port"] {
            let port = pick(&["53", "80", "22-443", "50-60", "5004"], random);
            add(word(3, format!(" {key} {port}"), random).repeat(usize::from(ported)));
        }
    }
    let tos = pick(&["b8/fc", "0x10", "3/3", "20/e0"], random);
    add(word(6, format!(" ip_tos {tos}"), random));
    let flags = pick(&["frag", "nofrag", "firstfrag", "nofirstfrag"], random);
    add(word(12, format!(" ip_flags {flags}"), random));
    text
}

fn basic(random: &mut Random) -> String {
    let network =
        ["u8 at 9 layer network eq 17", "u8 at 1 layer 1 eq 0xb8", "u8 at 9 layer 1 eq 6"];
    let transport = ["u16 at 2 layer transport eq 53", "u16 at 0 layer 2 eq 80"];
    match random.below(4) {
        0 => "basic".to_owned(),
        1 => format!("basic match 'cmp({})'", pick(&transport, random)),
        2 => {
            let (one, other) = (pick(&network, random), pick(&transport, random));
            format!("basic match 'cmp({one}) and cmp({other})'")
        }
        _ => format!("basic match 'cmp({})'", pick(&network, random)),
    }
}

/// A new code point for some packets of the version of IP that the filter names.
fn mark(protocol: &str, random: &mut Random) -> String {
    let value = random.below(64) << 2;
    match (random.below(3), protocol) {
        (0, "ip") => {
            format!(
                " action pedit ex munge ip dsfield set {value} retain 252 pipe action csum ip4h"
            )
        }
        (0, "ipv6") => {
            format!(" action pedit ex munge ip6 traffic_class set {value:#x} retain 0xfc")
        }
        _ => String::new(),
    }
}

/// A policer whose bucket is full again before the next packet: only longer packets exceed it.
fn police(bare: bool, random: &mut Random) -> String {
    if random.below(3) > 0 {
        return String::new();
    }
    let action = if bare { pick(&["", "action "], random) } else { "action " };
    let burst = pick(&["200", "700"], random);
    let mut text = format!(" {action}police rate 1gbit burst {burst}");
    let exceed = ["", "drop", "continue", "reclassify", "pass", "pipe", "shot", "ok"];
    let exceed = pick(&exceed, random);
    if exceed.is_empty() {
        return text;
    }
    text.push_str(if random.below(2) == 0 { " conform-exceed " } else { " " });
    text.push_str(exceed);
    if text.contains("conform") && random.below(2) == 0 {
        text.push('/');
        text.push_str(pick(&["pass", "ok", "pipe", "drop", "continue"], random));
    }
    text
}

/// Draws a packet: with or without tags, marks and options, short or long; `whole` ones are no
/// fragments.
pub fn sent(whole: bool, random: &mut Random) -> Sent {
    let tags = match random.below(6) {
        0 | 1 => vec![1 + random.below(2) as u8],
        2 => vec![1, 2],
        _ => Vec::new(),
    };
    let mark = [0, 0, 5, 0xf, 0x10, 0x13, 0x1f, 0x23, 6][random.below(9) as usize];
    let ordinary = whole || random.below(2) == 0;
    let mut frame = super::script::frame(ordinary, random);
    if random.below(3) == 0 {
        frame[11] = 0x75;
    }
    if random.below(3) == 0 {
        lengthen(&mut frame, 300 + random.below(900) as usize);
    }
    if !whole && random.below(4) == 0 && frame[12..14] == [8, 0] {
        frame[20..22].copy_from_slice(&[[0x20, 0], [0, 9], [0x20, 9]][random.below(3) as usize]);
    }
    Sent { tags, mark, frame }
}

/// Adds bytes to an IP packet, with the length that its header says.
fn lengthen(frame: &mut Vec<u8>, bytes: usize) {
    let (place, start) = match frame[12..14] {
        [8, 0] => (16, 14),
        [0x86, 0xdd] => (18, 54),
        _ => return,
    };
    frame.resize(frame.len() + bytes, 0);
    let length = (frame.len() - start) as u16;
    frame[place..place + 2].copy_from_slice(&length.to_be_bytes());
}
