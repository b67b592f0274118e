//! Rules that test a packet's mark, beside the tables for all others.
//!
//! A mark is a number that a firewall gave the packet on one machine: it is not in the packet's
//! bytes. Few policies test it, so neither the key of packets nor the tables hold it. Each such
//! rule is listed under its mask and value: a packet costs one binary search for each mask that the
//! rules have. Invariant: a packet can satisfy only rules listed under its mark with their mask
//! applied.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::Decision;
use super::macs::first_under;
use super::rule::{InterfaceId, Match, Rule};
use crate::packet::{FieldError, Headers};

/// A condition on a packet's mark: those of its bits that the mask selects have this value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MarkTest {
    mask: u32,
    value: u32,
}

impl MarkTest {
    /// The marks that are `value` under `mask`.
    ///
    /// # Errors
    /// If `value` has bits outside `mask`: no mark would satisfy it.
    pub fn new(value: u32, mask: u32) -> Result<MarkTest, FieldError> {
        if value & !mask == 0 {
            return Ok(MarkTest { mask, value });
        }
        Err(FieldError::new(
            "mark",
            &alloc::format!("{value:#x}/{mask:#x}"),
            "has bits outside its mask, so no packet matches",
            alloc::format!("write {:#x}/{mask:#x}, or a mask with more bits", value & mask),
        ))
    }

    /// Returns whether this mark satisfies the condition; a packet without a mark has mark 0.
    pub fn accepts(self, mark: u32) -> bool {
        mark & self.mask == self.value
    }

    /// Returns whether every mark that satisfies `inner` satisfies this condition.
    pub fn covers(self, inner: MarkTest) -> bool {
        self.mask & !inner.mask == 0 && self.accepts(inner.value)
    }

    /// Returns which values the hexadecimal digit at `place`, from the lowest, may have, in ranges
    /// with both ends included.
    pub fn digits(self, place: u32) -> Vec<(u8, u8)> {
        let digit = |bits: u32| (bits >> (4 * place) & 0xf) as u8;
        let (value, mask) = (digit(self.value), digit(self.mask));
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for one in (0..16).filter(|one| one & mask == value) {
            match ranges.last_mut().filter(|range| range.1 + 1 == one) {
                Some(range) => range.1 = one,
                None => ranges.push((one, one)),
            }
        }
        ranges
    }

    /// Returns the bits that the mark must have.
    pub fn value(self) -> u32 {
        self.value
    }

    /// Returns the bits that are tested.
    pub fn mask(self) -> u32 {
        self.mask
    }
}

impl FromStr for MarkTest {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<MarkTest, FieldError> {
        let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
        match (number(value), number(mask)) {
            (Some(value), Some(mask)) => MarkTest::new(value, mask),
            _ => Err(FieldError::new(
                "mark",
                text,
                "is not a number of 32 bits with an optional mask",
                "write for instance 5, 0x10 or 0x10/0xf0",
            )),
        }
    }
}

impl fmt::Display for MarkTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mask {
            u32::MAX => write!(f, "{}", self.value),
            mask => write!(f, "{:#x}/{mask:#x}", self.value),
        }
    }
}

/// The hexadecimal digits of a mark.
pub const MARK_DIGITS: u32 = u32::BITS / 4;

/// Parses a decimal number, or a hexadecimal one behind `0x`.
fn number(text: &str) -> Option<u32> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((text, 10), |digits| (digits, 16));
    let signed = digits.starts_with('+');
    u32::from_str_radix(digits, radix).ok().filter(|_| !signed)
}

/// The rules of a list that test marks.
#[derive(Clone, Debug, Default)]
pub struct MarkRules {
    rules: Vec<(Match, Decision)>,
    /// Rules by what they demand of a mark, in match order; as places in `rules`.
    by_mark: Vec<(MarkTest, u32)>,
    /// Each mask once.
    masks: Vec<u32>,
}

impl MarkRules {
    /// Lists those of `rules` that test marks, with the places of their targets.
    pub fn new(rules: &[Rule], targets: &[u32]) -> MarkRules {
        let mut list = MarkRules::default();
        for ((rule, target), rank) in rules.iter().zip(targets).zip(0..) {
            let Some(mark) = rule.matches.mark else { continue };
            list.by_mark.push((mark, list.rules.len() as u32));
            list.masks.push(mark.mask);
            list.rules.push((rule.matches.clone(), Decision::new(rank, *target)));
        }
        list.by_mark.sort_unstable();
        list.masks.sort_unstable();
        list.masks.dedup();
        list
    }

    /// Returns whether no rule tests marks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the first rule that accepts the packet, if it comes before `below`; else `below`.
    pub fn first(&self, interface: InterfaceId, headers: &Headers, below: Decision) -> Decision {
        self.masks.iter().fold(below, |below, &mask| {
            let wanted = MarkTest { mask, value: headers.mark & mask };
            let accepts = |rule: &Match| rule.accepts(interface, headers);
            first_under(&self.by_mark, wanted, &self.rules, below, accepts)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_mark_is_read_in_the_forms_that_firewalls_print() {
        let rows = [
            ("5", Some("5")),
            ("0x10", Some("16")),
            ("0x10/0xf0", Some("0x10/0xf0")),
            ("16/0xff", Some("0x10/0xff")),
            ("0/0", Some("0x0/0x0")),
            ("4294967295", Some("4294967295")),
            ("4294967296", None),
            ("0x11/0xf0", None),
            ("+5", None),
            ("0x+5", None),
            ("-1", None),
            ("5/", None),
            ("", None),
        ];
        for (text, wanted) in rows {
            let read = text.parse::<MarkTest>().ok();
            assert_eq!(read.map(|mark| mark.to_string()).as_deref(), wanted, "{text}");
            let back = wanted.and_then(|text| text.parse().ok());
            assert_eq!(back, read, "{text} printed");
        }
    }

    #[test]
    fn a_test_covers_those_that_select_the_same_bits_and_more() {
        let rows = [
            ("0x10/0xf0", "0x13", true),
            ("0x10/0xf0", "0x13/0xff", true),
            ("0x10/0xf0", "0x20", false),
            ("0x10/0xf0", "0x10/0x30", false),
            ("0/0", "7", true),
            ("7", "7", true),
            ("7", "0/0", false),
        ];
        for (outer, inner, wanted) in rows {
            let read = |text: &str| text.parse::<MarkTest>().expect("it is a mark");
            assert_eq!(read(outer).covers(read(inner)), wanted, "{outer} {inner}");
        }
    }
}
