//! Attributes of netlink, and the numbers in them.

use netlink_packet_core::NlasIterator;
use std::collections::BTreeMap;

/// The attributes of a message, or those inside another one.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes<'m>(BTreeMap<u16, &'m [u8]>);

impl<'m> Attributes<'m> {
    /// Reads attributes up to the first that is broken.
    pub(super) fn parse(bytes: &'m [u8]) -> Self {
        let all = NlasIterator::new(bytes).map_while(Result::ok);
        let value = |whole: &'m [u8], length: usize| whole.get(LENGTHS..length).unwrap_or(&[]);
        Self(all.map(|one| (one.kind(), value(one.into_inner(), one.length().into()))).collect())
    }

    /// Returns the bytes of an attribute.
    pub(super) fn get(&self, kind: u16) -> Option<&'m [u8]> {
        self.0.get(&kind).copied()
    }

    /// Returns those that an attribute holds; none where it is absent.
    pub(super) fn inside(&self, kind: u16) -> Self {
        self.get(kind).map_or_else(Self::default, Self::parse)
    }

    /// Returns a number of as many bytes as the attribute has.
    pub(super) fn number(&self, kind: u16) -> Option<u64> {
        let bytes = self.get(kind)?;
        number(bytes, 0, bytes.len())
    }

    /// Returns the numbers in the attributes inside one, which may all be of one kind.
    pub(super) fn list(&self, kind: u16) -> Vec<u64> {
        self.each(kind).filter_map(|bytes| number(bytes, 0, bytes.len())).collect()
    }

    /// Returns the bytes of each attribute inside one, which may all be of one kind.
    pub(super) fn each(&self, kind: u16) -> impl Iterator<Item = &'m [u8]> {
        let inside = NlasIterator::new(self.get(kind).unwrap_or(&[])).map_while(Result::ok);
        let value = |one: &'m [u8], length: usize| one.get(LENGTHS..length).unwrap_or(&[]);
        inside.map(move |one| value(one.into_inner(), one.length().into()))
    }

    /// Returns the attributes by their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &'m [u8])> + '_ {
        self.0.iter().map(|(kind, bytes)| (*kind, *bytes))
    }
}

/// Returns the number in `length` bytes at `at`, in the order of this machine.
pub(super) fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    match *bytes {
        [a] => Some(a.into()),
        [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
        [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
        _ => bytes.try_into().ok().map(u64::from_ne_bytes),
    }
}

/// Returns the number in at most eight bytes, in the order of the wire.
pub(super) fn wire(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Bytes before the value: the length and the kind.
const LENGTHS: usize = 4;
