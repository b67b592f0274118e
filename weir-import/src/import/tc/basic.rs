//! Reads `basic` filters: comparisons of bytes at places of a header, and of the VLAN [linux].

use super::super::lines::Reading;
use super::super::sketch::{Key, quoted};
use super::super::words::{Words, number};
use super::conditions::{tail, unread};
use super::draft::{Accepts, Draft, EthernetType};
use super::selector::{OTHERS, PORTED, Selector};

/// Reads `basic [match 'cmp(...) and meta(...)'] flowid H`.
pub(super) fn read(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    if !words.accept("match") {
        return tail(words, draft, reading);
    }
    // The expression is one quoted word, or several up to `flowid`.
    let mut text = String::new();
    let ends = ["flowid", "classid", "action", "police"];
    while words.peek().is_some_and(|word| !ends.contains(&word)) {
        text.extend(words.take().map(|word| word.text + " "));
    }
    let mut bytes = false;
    for part in text.replace(" AND ", " and ").split(" and ") {
        let part = part.trim();
        let inside = |name: &str| {
            let part = part.strip_prefix(name)?.trim_start().strip_prefix('(')?;
            Some(part.strip_suffix(')')?.split_whitespace().collect::<Vec<_>>())
        };
        let known = match (inside("cmp"), inside("meta")) {
            (Some(fields), _) => {
                bytes = true;
                compare(&fields, draft)
            }
            (_, Some(fields)) => vlan(&fields, draft),
            _ => None,
        };
        if known.is_none() {
            return unread(part, draft, reading);
        }
    }
    if bytes {
        compared(draft, reading)?;
    }
    tail(words, draft, reading)
}

/// Reads `u16 at 2 layer 2 [mask M] eq|gt|lt N`.
fn compare(fields: &[&str], draft: &mut Draft) -> Option<()> {
    let [width, "at", offset, "layer", layer, rest @ ..] = fields else { return None };
    let (mask, rest) = match rest {
        ["mask", mask, rest @ ..] => (Some(number(mask)?), rest),
        rest => (None, rest),
    };
    let rest = rest.strip_prefix(&["trans"]).unwrap_or(rest);
    let [operator, value] = rest else { return None };
    let bytes = WIDTHS.iter().find(|row| row.0 == *width)?.1;
    let full = u64::from(u32::MAX >> (32 - 8 * bytes));
    let (mask, value) = (mask.unwrap_or(full), number(value)?);
    let offset = i64::try_from(number(offset)?).ok()?;
    let transport = ["2", "transport"].contains(layer);
    if !transport && !["1", "network"].contains(layer) {
        return None;
    }
    let port =
        if transport && bytes == 2 { PORTS.iter().find(|row| row.0 == offset) } else { None };
    if let Some((_, key)) = port.filter(|_| mask == full) {
        let (first, last) = range(operator, value, full)?;
        let text =
            if first == last { first.to_string() } else { quoted(&format!("{first}-{last}")) };
        draft.set(key, text);
        return Some(());
    }
    if *operator != "eq" || value & !mask != 0 || value > full {
        return None;
    }
    if offset == 9 && !transport && mask == 0xff && bytes == 1 {
        draft.set("proto", value.to_string());
        return Some(());
    }
    if offset == 1 && !transport && bytes == 1 {
        let (tos, mask) = (value as u8, mask as u8);
        draft.tos = Some((tos, mask));
        return Some(());
    }
    let addresses = [(12, "src"), (16, "dst")];
    let row = addresses.iter().find(|row| (row.0..row.0 + 4).contains(&offset))?;
    let mut selector = Selector::default();
    selector.compare(offset, bytes, (value as u32, mask as u32))?;
    let (bits, covered) = selector.word(row.0);
    let length = covered.leading_ones();
    if transport || covered.count_ones() != length || length == 0 {
        return None;
    }
    draft.set(row.1, quoted(&format!("{}/{length}", std::net::Ipv4Addr::from(bits))));
    Some(())
}

/// Returns the first and the last value that a comparison accepts.
fn range(operator: &str, value: u64, max: u64) -> Option<(u64, u64)> {
    let range = match operator {
        "eq" => (value, value),
        "gt" => (value + 1, max),
        "lt" => (0, value.checked_sub(1)?),
        _ => return None,
    };
    (range.0 <= range.1 && range.1 <= max).then_some(range)
}

/// Reads `vlan [mask M] eq N`.
fn vlan(fields: &[&str], draft: &mut Draft) -> Option<()> {
    let (mask, value) = match fields {
        ["vlan" | "vlan_tag", "mask", mask, "eq", value] => (number(mask)?, value),
        ["vlan" | "vlan_tag", "eq", value] => (VLAN_MASK, value),
        _ => return None,
    };
    let value = number(value).filter(|id| mask == VLAN_MASK && *id < VLAN_MASK)?;
    if let Accepts::Type(_) = draft.accepts {
        return None;
    }
    draft.set("vlan", value.to_string());
    Some(())
}

/// Reports what a `basic` filter compares in packets that have something else there.
fn compared(draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    match draft.accepts {
        Accepts::Type(EthernetType::IPV4) => {}
        Accepts::All => {
            let has_address = draft.has("src") || draft.has("dst");
            if !has_address {
                draft.set("ethertype", quoted(&EthernetType::IPV4.text()));
            }
            reading.approximated(draft.line, OTHERS);
        }
        _ => {
            let why = "Weir finds the fields at these places for `protocol ip` only";
            reading.lost(draft.line, why);
            return None;
        }
    }
    if draft.has("sport") || draft.has("dport") {
        let ported = |(key, value): &Key| *key == "proto" && PORTED.contains(&value.as_str());
        let note = match draft.keys.iter().any(ported) {
            true => "the kernel compares bytes in place of the ports of fragments",
            false => "the kernel compares these bytes in packets of any transport protocol",
        };
        reading.approximated(draft.line, note);
    }
    Some(())
}

/// The words for the bytes that are compared.
const WIDTHS: [(&str, u32); 3] = [("u8", 1), ("u16", 2), ("u32", 4)];
/// Where ports are.
const PORTS: [(i64, &str); 2] = [(0, "sport"), (2, "dport")];
/// The bits of a tag that are the VLAN.
const VLAN_MASK: u64 = 0xfff;
