//! Finds functions of the kernel that programs may call, in the kernel's own description of its
//! types (BTF, the kernel's document `bpf/btf.rst`).

use std::fs;

/// Returns the number of a function in the kernel's types; `None` if there is none, or no
/// description.
pub(super) fn function(name: &str) -> Option<i32> {
    find(&fs::read("/sys/kernel/btf/vmlinux").ok()?, name)
}

/// Returns the number of the function `name` in this description.
fn find(bytes: &[u8], name: &str) -> Option<i32> {
    let magic = bytes.get(..2)?;
    let header_len = word(bytes, 4)?;
    if magic != MAGIC.to_ne_bytes() {
        return None;
    }
    let section = |at: usize| {
        let start = header_len.checked_add(word(bytes, at)?)?;
        bytes.get(start..start.checked_add(word(bytes, at + 4)?)?)
    };
    let (types, strings) = (section(8)?, section(16)?);
    let is_named = |at: usize| {
        let rest = strings.get(at..)?;
        Some(rest.strip_prefix(name.as_bytes())?.first() == Some(&0))
    };
    let mut at = 0;
    // Number 0 is `void`, which has no entry.
    for number in 1.. {
        let info = word(types, at + 4)?;
        let (kind, count) = (info >> 24 & 0x1f, info & 0xffff);
        if kind == FUNCTION && is_named(word(types, at)?) == Some(true) {
            return Some(number);
        }
        at += ENTRY_LEN + trailer(kind, count);
    }
    None
}

/// Returns the bytes behind the 12 of an entry with `count` parts.
fn trailer(kind: usize, count: usize) -> usize {
    match kind {
        INTEGER | VARIABLE | DECLARATION_TAG => 4,
        ARRAY => 12,
        STRUCTURE | UNION | SECTION | ENUMERATION_64 => 12 * count,
        ENUMERATION | PROTOTYPE => 8 * count,
        _ => 0,
    }
}

/// <linux/btf.h>, `BTF_MAGIC`.
const MAGIC: u16 = 0xeb9f;
/// The length of `struct btf_type`.
const ENTRY_LEN: usize = 12;
// <linux/btf.h>, `BTF_KIND_*`.
const INTEGER: usize = 1;
const ARRAY: usize = 3;
const STRUCTURE: usize = 4;
const UNION: usize = 5;
const ENUMERATION: usize = 6;
const FUNCTION: usize = 12;
const PROTOTYPE: usize = 13;
const VARIABLE: usize = 14;
const SECTION: usize = 15;
const DECLARATION_TAG: usize = 17;
const ENUMERATION_64: usize = 19;

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at.checked_add(4)?)?.first_chunk()?;
    usize::try_from(u32::from_ne_bytes(*word)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description with these entries: name, kind, number of parts, bytes behind.
    fn description(entries: &[(&str, u32, u32, usize)]) -> Vec<u8> {
        let (mut types, mut strings) = (Vec::new(), vec![0]);
        for (name, kind, count, behind) in entries {
            for word in [strings.len() as u32, kind << 24 | count, 0] {
                types.extend(word.to_ne_bytes());
            }
            types.extend(vec![0xff; *behind]);
            strings.extend([name.as_bytes(), &[0]].concat());
        }
        let mut bytes = [&0xeb9fu16.to_ne_bytes()[..], &[1, 0]].concat();
        for word in [24, 0, types.len(), types.len(), strings.len()] {
            bytes.extend((word as u32).to_ne_bytes());
        }
        [bytes, types, strings].concat()
    }

    #[test]
    fn a_function_is_found_behind_entries_of_every_length() {
        let entries = [
            ("int", 1, 0, 4),
            ("array", 3, 0, 12),
            ("wanted", 4, 2, 24),
            ("pointer", 2, 0, 0),
            ("choice", 6, 3, 24),
            ("prototype", 13, 1, 8),
            ("wanted_too", 12, 0, 0),
            ("wanted", 12, 0, 0),
        ];
        let bytes = description(&entries);
        for (name, expected) in [("wanted", Some(8)), ("wanted_too", Some(7)), ("int", None)] {
            assert_eq!(find(&bytes, name), expected, "{name}");
        }
        for len in 0..bytes.len() - 7 {
            assert_eq!(find(&bytes[..len], "wanted"), None, "{len} bytes of it");
        }
    }
}
