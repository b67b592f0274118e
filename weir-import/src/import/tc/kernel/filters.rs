//! Filters of a dump as words of `tc` [linux]. Numbers of attributes and places in structures are
//! those of <linux/pkt_cls.h>.

use super::super::actions::munged;
use super::attributes::{Attributes, number, wire};
use super::{Message, above, handle};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Writes a filter; none for the entry that stands for all filters of a priority.
pub(super) fn filter(one: &Message<'_>) -> Option<String> {
    if one.handle == 0 {
        return None;
    }
    let (prio, protocol) = (one.info >> 16, (one.info as u16).swap_bytes());
    let protocol = if cfg!(target_endian = "little") { protocol } else { one.info as u16 };
    let mut text = above(one.parent);
    let _ = write!(text, " protocol {protocol:#06x} prio {prio}");
    let own = Attributes::parse(one.options);
    match one.kind {
        "u32" => u32_filter(one.handle, &own, &mut text)?,
        "fw" => {
            let mask = own.number(5).unwrap_or(0xffff_ffff);
            let _ = write!(text, " handle {:#x}/{mask:#x} fw", one.handle);
            tail(&own, [1, 2, 4], &mut text);
        }
        "basic" => {
            let _ = write!(text, " handle {:#x} basic", one.handle);
            text += &ematches(&own.inside(2));
            tail(&own, [1, 4, 3], &mut text);
        }
        "flower" => {
            let _ = write!(text, " handle {:#x} flower", one.handle);
            text += &flower(&own);
            tail(&own, [1, 0, 3], &mut text);
        }
        "matchall" => {
            text += " matchall";
            tail(&own, [1, 0, 2], &mut text);
        }
        kind => drop(write!(text, " {kind}")),
    }
    Some(text)
}

/// Writes a hash table or a node of one: its handle has 12 bits of the table, 8 of the bucket and
/// 12 of the node.
fn u32_filter(node: u32, own: &Attributes<'_>, text: &mut String) -> Option<()> {
    let (table, bucket, number_of) = (node >> 20, node >> 12 & 0xff, node & 0xfff);
    if let Some(divisor) = own.number(4) {
        // The kernel makes the first table of a priority by itself.
        if table & 0x800 > 0 {
            return None;
        }
        let _ = write!(text, " handle {table:x}: u32 divisor {divisor}");
        return Some(());
    }
    let _ = write!(text, " handle {table:x}:{bucket:x}:{number_of:x} u32 ht {table:x}:{bucket:x}:");
    if let Some(selector) = own.get(5) {
        keys(selector, text);
    }
    if let Some(mark) = own.get(10) {
        let (value, mask) = (number(mark, 0, 4)?, number(mark, 4, 4)?);
        let _ = write!(text, " match mark {value:#x} {mask:#x}");
    }
    if let Some(link) = own.number(3).filter(|link| *link > 0) {
        let _ = write!(text, " link {:x}:", link >> 20);
    }
    tail(own, [1, 6, 7], text);
    Some(())
}

/// Writes a `struct tc_u32_sel`.
fn keys(selector: &[u8], text: &mut String) {
    let part = |at: usize, length: usize| number(selector, at, length).unwrap_or(0);
    let flags = part(0, 1);
    let whole = |from: usize, length: usize| {
        selector.get(from..from + length).map_or(0, |bytes| wire(bytes) as u32)
    };
    let many = usize::try_from(part(2, 1)).unwrap_or(0);
    for key in (0..many).map(|key| SELECTOR + key * KEY) {
        let (mask, value) = (whole(key, 4), whole(key + 4, 4));
        let (offset, behind) = (part(key + 8, 4) as u32 as i32, part(key + 12, 4) > 0);
        let place = if behind { "nexthdr+" } else { "" };
        let _ = write!(text, " match u32 {value:#010x} {mask:#010x} at {place}{offset}");
    }
    let hash = whole(12, 4);
    if hash > 0 {
        let _ = write!(text, " hashkey mask {hash:#010x} at {}", part(10, 2) as u16 as i16);
    }
    if flags & (OFFSET | VARIABLE | EAT) == 0 {
        return;
    }
    *text += " offset";
    if flags & OFFSET > 0 {
        let _ = write!(text, " plus {}", part(6, 2));
    }
    if flags & VARIABLE > 0 {
        let (at, shift) = (part(8, 2) as u16 as i16, part(1, 1));
        let _ = write!(text, " at {at} mask {:04x} shift {shift}", whole(4, 2));
    }
    *text += if flags & EAT > 0 { " eat" } else { "" };
}

/// Writes the class, the policer and the actions, which have these attributes.
fn tail(own: &Attributes<'_>, [class, policer, actions]: [u16; 3], text: &mut String) {
    if let Some(class) = own.number(class) {
        let _ = write!(text, " classid {}", handle(class as u32));
    }
    let single = own.inside(policer);
    if policer > 0 && single.get(1).is_some() {
        *text += &(" ".to_owned() + &police(&single));
    }
    for (_, action) in own.inside(actions).iter() {
        let action = Attributes::parse(action);
        let kind = action.get(1).and_then(|kind| kind.split(|byte| *byte == 0).next());
        let kind = kind.and_then(|kind| std::str::from_utf8(kind).ok()).unwrap_or("");
        let words = match kind {
            "police" => police(&action.inside(2)),
            "pedit" => pedit(&action.inside(2)),
            kind if super::plain(kind) => kind.to_owned(),
            _ => continue,
        };
        let _ = write!(text, " action {words}");
    }
}

/// Writes a `struct tc_pedit_sel`, whose keys are words in the order of the wire, with the header
/// of each, of which older forms say nothing.
fn pedit(own: &Attributes<'_>) -> String {
    let all = own.get(4).or_else(|| own.get(2)).unwrap_or(&[]);
    let headers: Vec<u64> =
        own.each(5).map(|key| Attributes::parse(key).number(1).unwrap_or(0)).collect();
    let mut text = "pedit".to_owned();
    for (at, key) in all.get(PEDIT_HEAD..).unwrap_or(&[]).chunks_exact(PEDIT_KEY).enumerate() {
        let header = match headers.get(at).copied().unwrap_or(0) {
            0 => "network",
            2 => "ipv4",
            3 => "ipv6",
            _ => "another",
        };
        let (kept, value) = (wire(&key[..4]) as u32, wire(&key[4..8]) as u32);
        let place = number(key, 8, 4).unwrap_or(0);
        text += &(" ".to_owned() + &munged(header, place, value, kept));
    }
    text
}

/// Writes a `struct tc_police`.
fn police(own: &Attributes<'_>) -> String {
    let Some(all) = own.get(1) else { return "police".to_owned() };
    let word = |at| number(all, at, 4).unwrap_or(0);
    let rate = own.number(8).unwrap_or_else(|| word(28));
    let bytes = u128::from(word(12)) * 64 * u128::from(rate) / 1_000_000_000;
    let result = |code: u64| match code as u32 as i32 {
        0 => "pass",
        1 => "reclassify",
        2 => "drop",
        3 => "pipe",
        _ => "continue",
    };
    let size = super::super::units::written_burst(
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1),
        rate.saturating_mul(8),
    );
    let within = own.number(5).map_or("pass", result);
    format!(
        "police rate {}bit burst {size} conform-exceed {}/{within}",
        rate.saturating_mul(8),
        result(word(4))
    )
}

/// Writes the conditions of `basic`: comparisons of bytes, and of the VLAN.
fn ematches(tree: &Attributes<'_>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let list = tree.inside(2);
    for (_, one) in list.iter() {
        let part = |at, length| number(one, at, length).unwrap_or(0);
        let (kind, flags) = (part(2, 2), part(4, 2));
        let body = one.get(8..).unwrap_or(&[]);
        let words = match kind {
            COMPARES => compared(body),
            META => vlan(&Attributes::parse(body)),
            _ => None,
        };
        let words = words.unwrap_or_else(|| format!("kind-{kind}()"));
        let not = if flags & INVERTED > 0 { "not " } else { "" };
        let join = if flags & 3 == 2 { "or" } else { "and" };
        parts.push(format!("{not}{words} {join} "));
    }
    let whole = parts.concat();
    let whole = whole.trim_end().trim_end_matches("and").trim_end();
    if whole.is_empty() { String::new() } else { format!(" match '{whole}'") }
}

/// Reads a `struct tcf_em_cmp`.
fn compared(body: &[u8]) -> Option<String> {
    let (value, mask, offset) = (number(body, 0, 4)?, number(body, 4, 4)?, number(body, 8, 2)?);
    let (one, other) = (number(body, 10, 1)?, number(body, 11, 1)?);
    let (align, layer, operand) = (one & 0xf, other & 0xf, other >> 4);
    let bits = [(1, 8), (2, 16), (4, 32)].iter().find(|row| row.0 == align)?.1;
    let operand = ["eq", "gt", "lt"].get(usize::try_from(operand).ok()?)?;
    let mask = if mask > 0 { format!(" mask {mask:#x}") } else { String::new() };
    Some(format!("cmp(u{bits} at {offset} layer {layer}{mask} {operand} {value})"))
}

/// Reads a comparison of the VLAN with a number.
fn vlan(own: &Attributes<'_>) -> Option<String> {
    let header = own.get(1)?;
    let (kind, operand) = (number(header, 0, 2)? & 0x7ff, number(header, 3, 1)?);
    if kind != VLAN_TAG || operand != 0 {
        return None;
    }
    let mask = own.number(2).filter(|mask| *mask > 0);
    let mask = mask.map_or_else(String::new, |mask| format!(" mask {mask:#x}"));
    Some(format!("meta(vlan{mask} eq {})", own.number(3)?))
}

fn flower(own: &Attributes<'_>) -> String {
    let mut text = String::new();
    for &(kind, word, form, masked) in FLOWER {
        let Some(value) = own.get(kind) else { continue };
        let mask = (masked > 0).then(|| own.get(masked)).flatten();
        let full = mask.is_none_or(|mask| mask.iter().all(|byte| *byte == 0xff));
        let written = match form {
            Shape::Address => address(value, mask),
            Shape::Station => station(value) + if full { "" } else { "/mask" },
            Shape::Decimal if full => wire(value).to_string(),
            Shape::Decimal => format!("{}/{:#x}", wire(value), wire(mask.unwrap_or(&[]))),
            Shape::Hexadecimal => {
                let mask = mask.map_or(0xff, wire);
                format!("{:#x}/{mask:#x}", wire(value))
            }
            Shape::Type => format!("{:#06x}", wire(value)),
            Shape::Protocol => format!("{:#x}", wire(value)),
        };
        let _ = write!(text, " {word} {written}");
    }
    for (ends, word) in [([87, 88], "src_port"), ([89, 90], "dst_port")] {
        if let [Some(first), Some(last)] = ends.map(|kind| own.get(kind)) {
            let _ = write!(text, " {word} {}-{}", wire(first), wire(last));
        }
    }
    text
}

fn station(value: &[u8]) -> String {
    let bytes: Vec<_> = value.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

fn address(value: &[u8], mask: Option<&[u8]>) -> String {
    let ones = |mask: &[u8]| mask.iter().map(|byte| byte.count_ones()).sum::<u32>();
    let length = mask.map_or(value.len() as u32 * 8, ones);
    if let Ok(bytes) = <[u8; 4]>::try_from(value) {
        return format!("{}/{length}", Ipv4Addr::from(bytes));
    }
    match <[u8; 16]>::try_from(value) {
        Ok(bytes) => format!("{}/{length}", Ipv6Addr::from(bytes)),
        Err(_) => "any".to_owned(),
    }
}

/// How an attribute of `flower` is written.
#[derive(Clone, Copy)]
enum Shape {
    Address,
    Station,
    Decimal,
    Hexadecimal,
    Type,
    Protocol,
}

/// Attributes of `flower`: the number, the word, how it is written, and the number of its mask.
const FLOWER: &[(u16, &str, Shape, u16)] = &[
    (4, "dst_mac", Shape::Station, 5),
    (6, "src_mac", Shape::Station, 7),
    (23, "vlan_id", Shape::Decimal, 0),
    (24, "vlan_prio", Shape::Decimal, 0),
    (25, "vlan_ethtype", Shape::Type, 0),
    (9, "ip_proto", Shape::Protocol, 0),
    (10, "src_ip", Shape::Address, 11),
    (12, "dst_ip", Shape::Address, 13),
    (14, "src_ip", Shape::Address, 15),
    (16, "dst_ip", Shape::Address, 17),
    (18, "src_port", Shape::Decimal, 35),
    (19, "dst_port", Shape::Decimal, 36),
    (20, "src_port", Shape::Decimal, 37),
    (21, "dst_port", Shape::Decimal, 38),
    (41, "src_port", Shape::Decimal, 39),
    (42, "dst_port", Shape::Decimal, 40),
    (71, "tcp_flags", Shape::Hexadecimal, 72),
    (73, "ip_tos", Shape::Hexadecimal, 74),
    (75, "ip_ttl", Shape::Hexadecimal, 76),
    (47, "ip_flags", Shape::Hexadecimal, 48),
];
/// Bytes of a `struct tc_u32_sel` without keys, and of a key.
const SELECTOR: usize = 16;
const KEY: usize = 16;
/// The bytes of a `struct tc_pedit_sel` before its keys, and of a key.
const PEDIT_HEAD: usize = 24;
const PEDIT_KEY: usize = 24;
/// `TC_U32_OFFSET`, `TC_U32_VAROFFSET` and `TC_U32_EAT`.
const OFFSET: u64 = 2;
const VARIABLE: u64 = 4;
const EAT: u64 = 8;
/// `TCF_EM_CMP`, `TCF_EM_META`, `TCF_EM_INVERT` and `TCF_META_ID_VLAN_TAG`.
const COMPARES: u64 = 1;
const META: u64 = 4;
const INVERTED: u64 = 4;
const VLAN_TAG: u64 = 46;
