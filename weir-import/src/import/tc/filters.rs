//! Reads filters: `u32`, `flower`, `basic`, `matchall` and `fw` [linux, algorithms §11.3].
//!
//! A `u32` key reads a word at an offset; a key at a field of IPv4, of IPv6, or of ports behind a
//! header without options, becomes a condition on that field. Others are lost.

use super::super::altq::with_tos;
use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, inline, quoted, rate_value};
use super::super::words::{Words, number};
use super::units::{handle, rate, size};
use super::{A_HANDLE, Device, Handle, OBJECTS_MAX};
use std::net::{IpAddr, Ipv4Addr};

/// A filter.
pub(super) struct Filter {
    /// `None`: the root.
    pub parent: Option<Handle>,
    pub line: LineId,
    /// The smaller is tried first.
    pub rank: u64,
    pub target: Handle,
    /// The rules that it becomes.
    pub rules: Vec<Vec<Key>>,
}

/// A filter while its conditions are read.
struct Draft {
    line: LineId,
    version: Version,
    keys: Vec<Key>,
    /// Value and mask of the traffic class.
    tos: Option<(u8, u8)>,
    target: Option<Handle>,
    police: Option<String>,
}

/// The packets that `protocol` accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    All,
    Four,
    Six,
}

/// Reads `[parent H] [protocol P] [prio N] [handle H] KIND CONDITIONS [flowid H] [police ...]`.
pub(super) fn read(
    words: &mut Words,
    line: LineId,
    device: &mut Device,
    reading: &mut Reading,
) -> Option<()> {
    let version = Version::All;
    let (keys, tos, target, police) = Default::default();
    let mut draft = Draft { line, version, keys, tos, target, police };
    let (parent, prio) = conditions(words, &mut draft, reading)?;
    if device.filters.len() >= OBJECTS_MAX * 16 {
        reading.lost(line, "the device has too many filters");
        return None;
    }
    // [algorithms §11.3] Without a priority it precedes all present filters.
    let prio = prio.filter(|prio| *prio > 0);
    let before = || device.least_prio.map_or(0xc000, |least| least.saturating_sub(1));
    let prio = prio.unwrap_or_else(before);
    device.least_prio = Some(device.least_prio.map_or(prio, |least| least.min(prio)));
    let Some(mut target) = draft.target else {
        reading.lost(line, "it names no class with `flowid` or `classid`");
        return None;
    };
    if target.0 == 0 {
        target.0 = parent.map_or(0, |parent| parent.0);
    }
    let rank = (prio << 32) | device.filters.len() as u64;
    let rules = draft.rules();
    device.filters.push(Filter { parent, line, rank, target, rules });
    Some(())
}

/// Reads the words before and behind the kind of a filter: its parent and its priority.
fn conditions(
    words: &mut Words,
    draft: &mut Draft,
    reading: &mut Reading,
) -> Option<(Option<Handle>, Option<u64>)> {
    let line = draft.line;
    let (mut parent, mut prio) = (None, None);
    let kind = loop {
        let word = words.need("a kind of filter such as `flower`", reading)?;
        match word.text.as_str() {
            "parent" => parent = Some(words.value(A_HANDLE, handle, reading)?),
            "root" => {}
            "ingress" => {
                reading.lost(line, "a policy is for departing packets, not for arriving ones");
                return None;
            }
            "egress" => {}
            "protocol" => protocol(words, draft, reading)?,
            "prio" | "pref" | "priority" => {
                let in_range = |text: &str| number(text).filter(|prio| *prio <= 0xffff);
                prio = Some(words.value("a priority up to 65535", in_range, reading)?);
            }
            "handle" => drop(words.need("a handle", reading)?),
            "estimator" => {
                words.need("an interval", reading)?;
                words.need("a time", reading)?;
            }
            _ => break word,
        }
    };
    match kind.text.as_str() {
        "u32" => u32_conditions(words, draft, reading)?,
        "flower" => flower(words, draft, reading)?,
        "basic" => basic(words, draft, reading)?,
        "matchall" => tail(words, draft, reading)?,
        "fw" => {
            let why = "the firewall's marks are not in the packet: write the conditions that set \
                       the mark as `match` of the class";
            reading.lost(line, why);
            return None;
        }
        "route" | "rsvp" | "tcindex" | "bpf" | "cgroup" | "flow" => {
            reading.lost(line, format!("Weir has no `{}` filter", kind.text));
            return None;
        }
        other => {
            reading.unknown((other, kind.span), "kind of filter", &KINDS);
            return None;
        }
    }
    Some((parent, prio))
}

impl Draft {
    fn rules(mut self) -> Vec<Vec<Key>> {
        let has_address = self.keys.iter().any(|(key, _)| *key == "src" || *key == "dst");
        let has_type = self.keys.iter().any(|(key, _)| *key == "ethertype");
        if !has_address && !has_type {
            let version = match self.version {
                Version::All => None,
                Version::Four => Some("ipv4"),
                Version::Six => Some("ipv6"),
            };
            self.keys.splice(0..0, version.map(|version| ("ethertype", quoted(version))));
        }
        let mut rules = match self.tos {
            Some((tos, mask)) if mask > 0 => with_tos(&self.keys, tos, mask),
            _ => vec![self.keys],
        };
        for rule in &mut rules {
            rule.extend(self.police.clone().map(|police| ("police", police)));
        }
        rules
    }

    /// Replaces an earlier value of this field.
    fn set(&mut self, key: &'static str, value: String) {
        self.keys.retain(|(other, _)| *other != key);
        self.keys.push((key, value));
    }
}

fn protocol(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let word = words.need("a protocol such as `ip`", reading)?;
    let ethertype = match word.text.as_str() {
        "ip" | "0x800" | "0x0800" => {
            draft.version = Version::Four;
            return Some(());
        }
        "ipv6" | "0x86dd" => {
            draft.version = Version::Six;
            return Some(());
        }
        "all" => return Some(()),
        "arp" => "arp".to_owned(),
        "802.1q" | "802.1Q" | "802.1ad" => return Some(()),
        text => match number(text).filter(|number| *number <= 0xffff) {
            Some(number) => format!("{number:#06x}"),
            None => {
                let known = ["ip", "ipv6", "all", "arp", "802.1q"];
                reading.unknown((text, word.span), "protocol", &known);
                return None;
            }
        },
    };
    draft.set("ethertype", quoted(&ethertype));
    Some(())
}

/// Reads what may follow conditions: a target, and a policer.
fn tail(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "flowid" | "classid" => draft.target = Some(words.value(A_HANDLE, handle, reading)?),
            "police" => police(words, draft, reading)?,
            "action" | "actions" => {
                if words.accept("police") {
                    police(words, draft, reading)?;
                    continue;
                }
                let action = words.take().map_or_else(String::new, |word| word.text);
                if ["ok", "pass"].contains(&action.as_str()) {
                    continue;
                }
                reading.lost(draft.line, format!("Weir has no action `{action}` of a filter"));
                return None;
            }
            "skip_hw" | "skip_sw" => {}
            other => {
                let known = ["flowid", "classid", "police", "action"];
                reading.unknown((other, word.span), "word behind conditions", &known);
                return None;
            }
        }
    }
    Some(())
}

/// Reads `police rate R burst B [mtu M] [drop | pass | continue | conform-exceed ...]`.
fn police(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let (mut bits, mut depth, mut out) = (0, 0, "drop");
    let mut goes_on = false;
    while let Some(word) = words.peek() {
        match word {
            "rate" => {
                words.take();
                bits = words.value("a rate such as 1mbit", rate, reading)?;
            }
            "burst" | "buffer" | "maxburst" => {
                words.take();
                depth = words.value("a size such as 10k", size, reading)?;
            }
            "mtu" | "minburst" | "mpu" => {
                words.take();
                words.need("a size", reading)?;
            }
            "conform-exceed" => {
                words.take();
                let action = words.need("an action such as `drop`", reading)?;
                out = if action.text.starts_with("drop") { "drop" } else { "pass" };
                goes_on = action.text.starts_with("continue");
            }
            "drop" | "shot" => drop(words.take()),
            "pass" | "ok" | "continue" | "reclassify" => {
                goes_on = word == "continue";
                words.take();
                out = "pass";
            }
            _ => break,
        }
    }
    if bits == 0 || depth == 0 {
        reading.approximated(draft.line, "`police` without `rate` and `burst` is left out");
        return Some(());
    }
    if goes_on {
        let note = "packets beyond the rate go to the class too: Weir does not pass them on to the \
                    next filter";
        reading.approximated(draft.line, note);
    }
    let depth = quoted(&format!("{} B", depth.clamp(1, 1 << 30)));
    let keys = [("rate", rate_value(bits)), ("depth", depth), ("out", quoted(out))];
    draft.police = Some(inline(&keys));
    Some(())
}

fn u32_conditions(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    loop {
        match words.peek() {
            Some("match") => {
                words.take();
                u32_match(words, draft, reading)?;
            }
            Some("link" | "ht" | "hashkey" | "divisor" | "offset" | "sample" | "order") => {
                reading.lost(draft.line, "hash tables of filters are not read");
                return None;
            }
            _ => return tail(words, draft, reading),
        }
    }
}

/// Reads `ip FIELD VALUE [MASK]`, `ip6 ...`, `tcp|udp src|dst PORT MASK`, `u8|u16|u32 VALUE MASK at
/// N`.
fn u32_match(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let layer = words.need("`ip`, `ip6`, `u32`, `u16` or `u8`", reading)?;
    match layer.text.as_str() {
        "ip" | "ip6" => {
            let six = layer.text == "ip6";
            draft.version = if six { Version::Six } else { Version::Four };
            let field = words.need("a field of the header", reading)?;
            match field.text.as_str() {
                "src" | "dst" => address(&field.text, words, draft, reading),
                "sport" => port(true, words, draft, reading),
                "dport" => port(false, words, draft, reading),
                "protocol" => masked_protocol(words, draft, reading),
                "tos" | "dsfield" | "priority" | "precedence" => {
                    let value = words.value("a byte", byte, reading)?;
                    let mask = words.value("a mask", byte, reading)?;
                    draft.tos = Some((value, mask));
                    Some(())
                }
                other => unread(other, draft, reading),
            }
        }
        "tcp" | "udp" => {
            let proto = if layer.text == "tcp" { 6 } else { 17 };
            draft.set("proto", proto.to_string());
            let field = words.need("`src` or `dst`", reading)?;
            port(field.text == "src", words, draft, reading)
        }
        "u8" | "u16" | "u32" => raw(&layer.text, words, draft, reading),
        "mark" => unread("mark", draft, reading),
        other => {
            let known = ["ip", "ip6", "tcp", "udp", "u8", "u16", "u32"];
            reading.unknown((other, layer.span), "layer of u32", &known);
            None
        }
    }
}

fn unread(field: &str, draft: &Draft, reading: &mut Reading) -> Option<()> {
    let shown: String = field.chars().take(40).collect();
    reading.lost(draft.line, format!("Weir's rules cannot match `{shown}`"));
    None
}

fn address(field: &str, words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let prefix = words.value("an address with or without /LENGTH", masked_prefix, reading)?;
    let key = if field == "src" || field == "src_ip" { "src" } else { "dst" };
    if let Some(prefix) = prefix {
        draft.set(key, quoted(&prefix));
    }
    Some(())
}

/// Parses a prefix and clears the bits beyond its length; an inner `None` means any address.
fn masked_prefix(text: &str) -> Option<Option<String>> {
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = match address {
        "any" | "all" | "default" => return Some(None),
        _ => address.parse().ok()?,
    };
    let max: u32 = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => max,
        Some(length) => match length.parse::<Ipv4Addr>() {
            Ok(mask) if address.is_ipv4() => u32::from(mask).leading_ones(),
            _ => u32::try_from(number(length)?).ok().filter(|length| *length <= max)?,
        },
    };
    if length == 0 {
        return Some(None);
    }
    let network: IpAddr = match address {
        IpAddr::V4(one) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            Ipv4Addr::from(u32::from(one) & mask).into()
        }
        IpAddr::V6(one) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(one) & mask).into()
        }
    };
    Some(Some(format!("{network}/{length}")))
}

fn port(source: bool, words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let value = words.value("a port", word16, reading)?;
    let mask = words.value("a mask such as 0xffff", word16, reading)?;
    set_port(source, (value, mask), draft, reading)
}

/// Sets a range of ports from a mask of leading ones.
fn set_port(
    source: bool,
    (value, mask): (u16, u16),
    draft: &mut Draft,
    reading: &mut Reading,
) -> Option<()> {
    if mask.count_ones() != mask.leading_ones() {
        return unread("a port under a mask with holes", draft, reading);
    }
    let (first, last) = (value & mask, value | !mask);
    let text = if first == last { first.to_string() } else { format!("{first}-{last}") };
    if mask > 0 {
        draft.set(if source { "sport" } else { "dport" }, quoted(&text));
    }
    Some(())
}

fn masked_protocol(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let value = words.value("a protocol's number", ip_protocol, reading)?;
    let mask = words.value("a mask", byte, reading)?;
    match mask {
        0 => {}
        0xff => draft.set("proto", value.to_string()),
        _ => return unread("a part of the protocol", draft, reading),
    }
    Some(())
}

/// Reads `VALUE MASK at OFFSET`, for the offsets of fields.
fn raw(width: &str, words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let word32 = |text: &str| hexadecimal(text).and_then(|number| u32::try_from(number).ok());
    let value = words.value("a value", word32, reading)?;
    let mask = words.value("a mask", word32, reading)?;
    let mut offset = "0".to_owned();
    if words.accept("at") {
        offset = words.need("an offset", reading)?.text;
    }
    if mask == 0 {
        return Some(());
    }
    if draft.version == Version::Six {
        return unread("bytes of an IPv6 packet", draft, reading);
    }
    draft.version = Version::Four;
    match (width, offset.as_str(), mask) {
        ("u8", "1", mask) => draft.tos = Some((value as u8, mask as u8)),
        ("u8", "9", 0xff) => draft.set("proto", (value & 0xff).to_string()),
        ("u32", "12" | "16", mask) if mask.count_ones() == mask.leading_ones() => {
            let prefix = format!("{}/{}", Ipv4Addr::from(value & mask), mask.leading_ones());
            draft.set(if offset == "12" { "src" } else { "dst" }, quoted(&prefix));
        }
        ("u16", "20" | "nexthdr+0", mask) if mask <= 0xffff => {
            return set_port(true, (value as u16, mask as u16), draft, reading);
        }
        ("u16", "22" | "nexthdr+2", mask) if mask <= 0xffff => {
            return set_port(false, (value as u16, mask as u16), draft, reading);
        }
        _ => return unread(&format!("{width} at {offset}"), draft, reading),
    }
    Some(())
}

fn flower(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    while let Some(word) = words.peek().map(str::to_owned) {
        match word.as_str() {
            "ip_proto" => {
                words.take();
                // Numbers are hexadecimal here, and decimal in u32.
                let proto = |text: &str| match hexadecimal(text).filter(|number| *number < 256) {
                    Some(number) => Some(number),
                    None => ip_protocol(text),
                };
                let proto = words.value("a protocol", proto, reading)?;
                draft.set("proto", proto.to_string());
            }
            "src_ip" | "dst_ip" => {
                words.take();
                address(&word, words, draft, reading)?;
            }
            "src_port" | "dst_port" => {
                words.take();
                let range = words.value("a port or two, as in 80-90", port_range, reading)?;
                draft.set(if word == "src_port" { "sport" } else { "dport" }, quoted(&range));
            }
            "ip_tos" => {
                words.take();
                draft.tos = Some(words.value("a byte, or a byte/mask", masked_byte, reading)?);
            }
            "vlan_id" => {
                words.take();
                let id = |text: &str| number(text).filter(|id| *id < 4095);
                let id = words.value("a VLAN up to 4094", id, reading)?;
                draft.set("vlan", id.to_string());
            }
            "vlan_ethtype" => {
                words.take();
                protocol(words, draft, reading)?;
            }
            "indev" | "dst_mac" | "src_mac" | "tcp_flags" | "ip_ttl" | "ip_flags" | "ct_state"
            | "vlan_prio" | "arp_op" | "enc_key_id" => return unread(&word, draft, reading),
            _ => return tail(words, draft, reading),
        }
    }
    Some(())
}

/// Reads `basic [match 'cmp(...) and cmp(...)'] flowid H`.
fn basic(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    if !words.accept("match") {
        return tail(words, draft, reading);
    }
    // The expression is one quoted word, or several up to `flowid`.
    let mut text = String::new();
    while words.peek().is_some_and(|word| !["flowid", "classid", "action"].contains(&word)) {
        text.extend(words.take().map(|word| word.text + " "));
    }
    for part in text.split(" and ") {
        let part = part.trim();
        let inside = part.strip_prefix("cmp(").and_then(|part| part.strip_suffix(')'));
        let fields: Vec<&str> = inside.unwrap_or("").split_whitespace().collect();
        let ["u8" | "u16", "at", offset, "layer", layer, "eq", value] = fields.as_slice() else {
            return unread(part, draft, reading);
        };
        let Some(value) = number(value) else { return unread(part, draft, reading) };
        match (*layer, *offset) {
            ("1" | "network", "9") if value < 256 => draft.set("proto", value.to_string()),
            ("1" | "network", "1") if value < 256 => draft.tos = Some((value as u8, 0xff)),
            ("2" | "transport", "0") if value <= 0xffff => draft.set("sport", value.to_string()),
            ("2" | "transport", "2") if value <= 0xffff => draft.set("dport", value.to_string()),
            _ => return unread(part, draft, reading),
        }
    }
    tail(words, draft, reading)
}

fn byte(text: &str) -> Option<u8> {
    number(text).and_then(|number| u8::try_from(number).ok())
}

fn word16(text: &str) -> Option<u16> {
    number(text).and_then(|number| u16::try_from(number).ok())
}

/// Parses a raw value of `u32`: hexadecimal with or without `0x`.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

fn ip_protocol(text: &str) -> Option<u64> {
    let known = [("icmp", 1), ("igmp", 2), ("tcp", 6), ("udp", 17), ("icmpv6", 58), ("sctp", 132)];
    let found = known.iter().find(|row| row.0 == text).map(|row| row.1);
    found.or_else(|| number(text)).filter(|number| *number < 256)
}

fn masked_byte(text: &str) -> Option<(u8, u8)> {
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xff"));
    let byte = |text: &str| hexadecimal(text).and_then(|number| u8::try_from(number).ok());
    Some((byte(value)?, byte(mask)?))
}

fn port_range(text: &str) -> Option<String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (word16(first)?, word16(last)?);
    match first.cmp(&last) {
        std::cmp::Ordering::Less => Some(format!("{first}-{last}")),
        std::cmp::Ordering::Equal => Some(first.to_string()),
        std::cmp::Ordering::Greater => None,
    }
}

const KINDS: [&str; 5] = ["u32", "flower", "basic", "matchall", "fw"];
