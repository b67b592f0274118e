//! Reads the words of a filter: what stands before its kind, the conditions of `u32`, `flower`,
//! `matchall` and `fw`, and policers [linux, algorithms §11.3].

use super::super::lines::{LineId, Reading};
use super::super::sketch::{inline, quoted, rate_value};
use super::super::words::{Word, Words, bad_value, number};
use super::draft::{Accepts, Draft, EthernetType, Mark};
use super::units::{base0, handle, kernel_burst, rate, size};
use super::{A_HANDLE, ARRIVING, HOOKS, Handle, basic, pedit, short};
use std::net::{IpAddr, Ipv4Addr};
use weir_core::classify::FlagTest;
use weir_core::packet::MacAddress;
use weir_policy::codes;

/// Reads the words before the kind of a filter, and the kind if there is one.
pub(super) fn head(
    words: &mut Words,
    draft: &mut Draft,
    reading: &mut Reading,
) -> Option<Option<Word>> {
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "parent" if words.accept("root") => {}
            "parent" => draft.parent = Some(words.value(A_HANDLE, handle, reading)?),
            "root" => {}
            "ingress" => draft.parent = Some(INGRESS_HOOK),
            "egress" => draft.parent = Some(EGRESS_HOOK),
            "handle" => draft.handle = Some(words.need("a handle", reading)?),
            "flowid" | "classid" | "match" | "police" | "action" => {
                let message = "the kind of filter is missing";
                let cure = "write a kind such as `u32` before the conditions";
                reading.error(&codes::INCOMPLETE, word.span, message, cure);
                return None;
            }
            text => match short(text, &HEAD) {
                Some("protocol") => {
                    protocol(words, draft, reading)?;
                    draft.outer = draft.accepts;
                }
                Some("preference" | "priority") => {
                    let in_range = |text: &str| base0(text, 0xffff);
                    draft.prio = Some(words.value("a priority up to 65535", in_range, reading)?);
                }
                Some(_) => {
                    words.need("an interval", reading)?;
                    words.need("a time", reading)?;
                }
                None => return of_root(draft, words, reading).map(|()| Some(word)),
            },
        }
    }
    of_root(draft, words, reading).map(|()| None)
}

/// Reports a filter of a hook, which chooses no class of the root discipline. What it redirects
/// is shaped where it then leaves.
fn of_root(draft: &Draft, words: &Words, reading: &mut Reading) -> Option<()> {
    let Some(hook) = draft.parent.filter(|parent| parent.0 == HOOKS) else { return Some(()) };
    let mut rest = words.rest().iter().skip_while(|word| word.text != "mirred");
    if rest.any(|word| word.text == "redirect") {
        let device = rest.find(|word| word.text != "dev").map_or("", |word| word.text.as_str());
        let note = format!("these packets leave by `{device}`: what shapes it is their policy");
        reading.noted(draft.line, note);
        return None;
    }
    let why = if hook == EGRESS_HOOK { EGRESS } else { ARRIVING };
    reading.lost(draft.line, why);
    None
}

/// Reads the words behind the kind of a filter.
pub(super) fn conditions(
    kind: &Word,
    words: &mut Words,
    draft: &mut Draft,
    reading: &mut Reading,
) -> Option<()> {
    match kind.text.as_str() {
        "u32" => u32_conditions(words, draft, reading)?,
        "flower" => flower(words, draft, reading)?,
        "basic" => basic::read(words, draft, reading)?,
        "matchall" => tail(words, draft, reading)?,
        "fw" => fw(words, draft, reading)?,
        "flow" => flow(words, draft, reading)?,
        other if OTHER_KINDS.contains(&other) => {
            reading.lost(draft.line, format!("Weir has no `{other}` filter"));
            return None;
        }
        other => {
            reading.unknown((other, kind.span), "kind of filter", &KINDS);
            return None;
        }
    }
    Some(())
}

/// Reads `flow hash keys dst divisor 1024`.
fn flow(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let mut found = None;
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "hash" | "handle" | "baseclass" => {}
            "keys" => found = Some(words.need("keys such as `dst`", reading)?),
            "divisor" | "perturb" => drop(words.need("a number", reading)?),
            _ => return unread(&format!("flow {}", word.text), draft, reading),
        }
    }
    let keys = found.map_or_else(String::new, |word| word.text);
    let Some((_, hash)) = FLOW_KEYS.iter().find(|row| row.0 == keys) else {
        return unread(&format!("flow keys {keys}"), draft, reading);
    };
    draft.set("hash", quoted(hash));
    Some(())
}

/// Reads the `handle` and what follows `fw`.
fn fw(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let Some(handle) = draft.handle.clone() else {
        let why = "without `handle` a mark is itself the number of a class: write a filter for \
                   each mark";
        reading.lost(draft.line, why);
        return None;
    };
    let Some(mark) = Mark::parse(&handle.text) else {
        bad_value(&handle, "a mark of 32 bits, with or without /MASK", reading);
        return None;
    };
    if mark.value == 0 {
        reading.lost(draft.line, "the kernel refuses it: `handle` is 0");
        return None;
    }
    draft.mark = Some(mark);
    if words.peek() == Some("indev") {
        return unread("indev", draft, reading);
    }
    tail(words, draft, reading)
}

fn protocol(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let word = words.need("a protocol such as `ip`", reading)?;
    let named = PROTOCOLS.iter().find(|row| row.0.eq_ignore_ascii_case(&word.text));
    let number = || base0(&word.text, 0xffff).map(|number| number as u16);
    let Some(number) = named.map(|row| row.1).or_else(number) else {
        let known = ["ip", "ipv6", "all", "arp", "802.1q", "802_3"];
        reading.unknown((&word.text, word.span), "protocol", &known);
        return None;
    };
    draft.accepts = match number {
        0x0001 => Accepts::Untyped,
        0x0003 => Accepts::All,
        0x8100 | 0x88a8 => Accepts::Tagged,
        number => Accepts::Type(EthernetType(number)),
    };
    Some(())
}

/// Reads what may follow conditions: a target, and a policer.
pub(super) fn tail(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    while words.peek().is_some() {
        tail_word(words, draft, reading)?;
    }
    Some(())
}

/// Reads one of the words that are no condition of its kind, or any word of `u32`.
fn tail_word(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let word = words.take()?;
    let text = short(&word.text, &TAIL).unwrap_or(&word.text);
    match text {
        "match" if draft.kind == "u32" => {
            draft.selector.get_or_insert_default().read(words, reading)?;
        }
        "ht" | "link" | "hashkey" | "offset" | "divisor" | "order" if draft.kind == "u32" => {
            draft.links.read(text, words, reading)?;
        }
        "sample" if draft.kind == "u32" => return unread("sample", draft, reading),
        "flowid" | "classid" => draft.target = Some(words.value(A_HANDLE, target, reading)?),
        "police" if ["flower", "matchall"].contains(&draft.kind.as_str()) => {
            let why = "tc refuses it: behind this kind of filter it reads `action police`";
            reading.lost(draft.line, why);
            return None;
        }
        "police" => police(words, draft, reading)?,
        "action" | "actions" if words.accept("police") => police(words, draft, reading)?,
        "action" | "actions" if words.accept("pedit") => pedit::read(words, draft, reading)?,
        "action" | "actions" if words.accept("csum") => pedit::checksums(words, reading)?,
        "action" | "actions" => {
            let action = words.take().map_or_else(String::new, |word| word.text);
            if !["ok", "pass"].contains(&action.as_str()) {
                reading.lost(draft.line, format!("Weir has no action `{action}` of a filter"));
                return None;
            }
        }
        "skip_hw" | "skip_sw" => {}
        other => {
            let known = ["flowid", "classid", "police", "action"];
            reading.unknown((other, word.span), "word behind conditions", &known);
            return None;
        }
    }
    Some(())
}

/// Parses the handle of a class; a number alone is a minor one, which names no class.
fn target(text: &str) -> Option<Handle> {
    handle(text).or_else(|| Some((0, u16::from_str_radix(text, 16).ok()?)))
}

/// Reads `police rate R burst B [mtu M] [drop | pass | continue | conform-exceed ...]`.
fn police(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let (mut bits, mut depth, mut out) = (0, 0, "drop");
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
            "peakrate" | "avrate" | "overhead" | "linklayer" | "index" => {
                let note = format!("`{word}` of `police` is left out");
                reading.approximated(draft.line, note);
                words.take();
                words.need("a value", reading)?;
            }
            "conform-exceed" => {
                words.take();
                let action = words.need("an action such as `drop`", reading)?;
                let (beyond, within) =
                    action.text.split_once('/').unwrap_or((&action.text, "pass"));
                out = exceed(beyond, draft.line, reading);
                if !["pass", "ok", "pipe"].contains(&within) {
                    let note = format!("packets within the rate pass, and not `{within}`");
                    reading.approximated(draft.line, note);
                }
            }
            action if POLICE_ACTIONS.contains(&action) => {
                out = exceed(action, draft.line, reading);
                words.take();
            }
            _ => break,
        }
    }
    if bits == 0 || depth == 0 {
        reading.approximated(draft.line, "`police` without `rate` and `burst` is left out");
        return Some(());
    }
    let depth = kernel_burst(depth, bits).clamp(1, 1 << 30);
    let depth = quoted(&format!("{depth} B"));
    let keys = [("rate", rate_value(bits)), ("depth", depth), ("out", quoted(out))];
    draft.police = Some(inline(&keys));
    Some(())
}

/// Returns what becomes of a packet beyond the rate.
fn exceed(action: &str, line: LineId, reading: &mut Reading) -> &'static str {
    match action {
        // The same filter takes a packet again that is classified once more, and its policer finds
        // it too long again; after 16 such turns the kernel drops it.
        "drop" | "shot" | "reclassify" => "drop",
        // There is no further action, so the filter has decided.
        "pass" | "ok" | "pipe" => "pass",
        other => {
            let note = format!(
                "packets beyond the rate go to the class too: Weir does not try the next filter, \
                 as `{other}` says"
            );
            reading.approximated(line, note);
            "pass"
        }
    }
}

fn u32_conditions(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    tail(words, draft, reading)?;
    let selector = draft.selector.get_or_insert_default();
    draft.mark = selector.mark.map(|(value, mask)| Mark { value, mask });
    Some(())
}

pub(super) fn unread(field: &str, draft: &Draft, reading: &mut Reading) -> Option<()> {
    let shown: String = field.chars().take(40).collect();
    reading.lost(draft.line, format!("Weir's rules cannot match `{shown}`"));
    None
}

fn address(field: &str, words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let prefix = words.value("an address with or without /LENGTH", masked_prefix, reading)?;
    let key = if field == "src" || field == "src_ip" { "src" } else { "dst" };
    if let Some((network, length)) = prefix {
        draft.set(key, quoted(&format!("{network}/{length}")));
    }
    Some(())
}

/// Parses a prefix and clears the bits beyond its length; an inner `None` means any address.
pub(super) fn masked_prefix(text: &str) -> Option<Option<(IpAddr, u32)>> {
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = match address {
        "any" | "all" | "default" => return Some(None),
        _ => address.parse().ok().or_else(|| short_address(address))?,
    };
    let max: u32 = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => max,
        Some(length) => match length.parse::<Ipv4Addr>() {
            Ok(mask) if address.is_ipv4() => {
                let mask = u32::from(mask);
                Some(mask.leading_ones()).filter(|length| *length == mask.count_ones())?
            }
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
    Some(Some((network, length)))
}

/// Parses an address of IPv4 without its last bytes, which tc takes for zero: `10` in `10/8`.
fn short_address(text: &str) -> Option<IpAddr> {
    let mut bytes = [0; 4];
    let parts: Vec<&str> = text.split('.').collect();
    for (byte, part) in bytes.iter_mut().zip(&parts) {
        *byte = part.parse().ok()?;
    }
    (parts.len() <= 4).then(|| Ipv4Addr::from(bytes).into())
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
                if !draft.has("vlan") {
                    draft.set("vlan", quoted("any"));
                }
                if draft.accepts == Accepts::Tagged {
                    draft.set("vlan_inner", quoted("any"));
                }
            }
            "src_mac" | "dst_mac" => {
                words.take();
                let station = |text: &str| text.parse::<MacAddress>().ok();
                let masked = words.peek().is_some_and(|text| text.contains('/'));
                if masked {
                    return unread(&format!("{word} with a mask"), draft, reading);
                }
                let station =
                    words.value("an address such as 02:00:5e:10:00:01", station, reading)?;
                let key = if word == "src_mac" { "src_mac" } else { "dst_mac" };
                draft.set(key, quoted(&station.to_string()));
            }
            "tcp_flags" | "vlan_prio" | "type" | "code" => {
                words.take();
                detail(&word, words, draft, reading)?;
            }
            "indev" | "ip_ttl" | "ip_flags" | "ct_state" | "arp_op" | "enc_key_id" => {
                return unread(&word, draft, reading);
            }
            _ => tail_word(words, draft, reading)?,
        }
    }
    if draft.message.0.is_none() && draft.message.1.is_some() {
        return unread("code without type", draft, reading);
    }
    Some(())
}

/// Reads the value of a condition that few filters have.
fn detail(word: &str, words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    match word {
        "tcp_flags" => return tcp_flags(words, draft, reading),
        "vlan_prio" => {
            let priority = |text: &str| number(text).filter(|priority| *priority < 8);
            let priority = words.value("a priority up to 7", priority, reading)?;
            draft.set("pcp", priority.to_string());
        }
        _ if words.peek().is_some_and(|text| text.contains('/')) => {
            return unread(&format!("{word} with a mask"), draft, reading);
        }
        _ => {
            let byte = |text: &str| number(text).filter(|number| *number < 256);
            let value = words.value("a number up to 255", byte, reading)?;
            message(word, value, draft);
        }
    }
    Some(())
}

/// Reads flags of TCP, of which the kernel has twelve and Weir the lower eight.
fn tcp_flags(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let flags = |text: &str| {
        let (value, mask) = text.split_once('/').unwrap_or((text, "0xfff"));
        let twelve = |text: &str| hexadecimal(text).filter(|number| *number <= 0xfff);
        Some((twelve(value)?, twelve(mask)?))
    };
    let (value, mask) = words.value("flags such as 0x2/0x12", flags, reading)?;
    let value = value & mask;
    if value > 0xff {
        return unread("tcp_flags beyond the lower eight", draft, reading);
    }
    if mask > 0xff {
        reading.approximated(draft.line, "the flags beyond the lower eight are not tested");
    }
    let test = FlagTest::new(value as u8, mask as u8).ok()?;
    if test.mask() != 0 {
        draft.set("tcp_flags", quoted(&test.to_string()));
    }
    Some(())
}

/// Adds the type or the code of a message; a code alone is kept until its type comes.
fn message(word: &str, value: u64, draft: &mut Draft) {
    match word {
        "type" => draft.message.0 = Some(value),
        _ => draft.message.1 = Some(value),
    }
    let (kind, code) = draft.message;
    let Some(kind) = kind else { return };
    let text = code.map_or(kind.to_string(), |code| quoted(&format!("{kind}/{code}")));
    draft.set("icmp_type", text);
}

fn word16(text: &str) -> Option<u16> {
    number(text).and_then(|number| u16::try_from(number).ok())
}

/// Parses a hexadecimal number with or without `0x`.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

fn ip_protocol(text: &str) -> Option<u64> {
    let known = [("icmp", 1), ("igmp", 2), ("tcp", 6), ("udp", 17), ("icmpv6", 58), ("sctp", 132)];
    let found = known.iter().find(|row| row.0 == text).map(|row| row.1);
    found.or_else(|| number(text)).filter(|number| *number < 256)
}

/// Parses a byte and its mask as `flower` reads them: tc takes digits for a decimal number where it
/// can, and for a hexadecimal one otherwise; the mask is hexadecimal.
fn masked_byte(text: &str) -> Option<(u8, u8)> {
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xff"));
    let byte = |text: &str| hexadecimal(text).and_then(|number| u8::try_from(number).ok());
    let decimal = number(value).and_then(|number| u8::try_from(number).ok());
    let (value, mask) = (decimal.or_else(|| byte(value))?, byte(mask)?);
    Some((value & mask, mask))
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

const POLICE_ACTIONS: [&str; 7] = ["drop", "shot", "pass", "ok", "continue", "reclassify", "pipe"];
/// Names of protocols behind Ethernet, as tc knows them.
const PROTOCOLS: [(&str, u16); 22] = [
    ("ip", 0x0800),
    ("ipv4", 0x0800),
    ("ipv6", 0x86dd),
    ("all", 0x0003),
    ("arp", 0x0806),
    ("802_3", 0x0001),
    ("802_2", 0x0004),
    ("snap", 0x0005),
    ("802.1q", 0x8100),
    ("802.1ad", 0x88a8),
    ("loop", 0x0060),
    ("x25", 0x0805),
    ("rarp", 0x8035),
    ("atalk", 0x809b),
    ("aarp", 0x80f3),
    ("ipx", 0x8137),
    ("ppp_mp", 0x0008),
    ("ppp_disc", 0x8863),
    ("ppp_ses", 0x8864),
    ("mpls_uc", 0x8847),
    ("mpls_mc", 0x8848),
    ("lldp", 0x88cc),
];
const KINDS: [&str; 5] = ["u32", "flower", "basic", "matchall", "fw"];
/// Kinds that Weir does not have, but for the flows of an `sfq`.
const OTHER_KINDS: [&str; 6] = ["route", "rsvp", "tcindex", "bpf", "cgroup", "flow"];
/// Words before the kind that tc takes shortened, in its order.
const HEAD: [&str; 4] = ["preference", "priority", "protocol", "estimator"];
/// Words behind it.
const TAIL: [&str; 14] = [
    "match", "offset", "hashkey", "classid", "flowid", "divisor", "order", "link", "ht", "sample",
    "action", "police", "skip_hw", "skip_sw",
];
/// The keys of a `flow` filter, and the `hash` of a queue.
const FLOW_KEYS: [(&str, &str); 4] = [
    ("dst", "dstaddr"),
    ("src", "srcaddr"),
    ("src,dst", "srcaddr,dstaddr"),
    ("dst,src", "srcaddr,dstaddr"),
];
/// The hooks of `clsact`.
const INGRESS_HOOK: Handle = (HOOKS, 0xfff2);
const EGRESS_HOOK: Handle = (HOOKS, 0xfff3);
const EGRESS: &str = "the hook is passed before the root discipline: it chooses no class there";
