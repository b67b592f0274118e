//! The identity of a policy: a short number that two texts are very unlikely to share.

use std::fmt;
use weir_core::fnv::{BASIS, fnv1a};

/// FNV-1a of 64 bits over the file of a policy and the lists that it reads, in their order.
/// It tells versions of a policy apart; it is no protection against who forges one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Identity(u64);

impl Identity {
    /// The identity of a policy whose file has these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut identity = Self(BASIS);
        identity.add(bytes);
        identity
    }

    /// Adds a part that comes and goes while a link runs; a second time takes it out again.
    pub fn toggle(&mut self, part: &[u8]) {
        self.0 ^= Self::of(part).0;
    }

    /// Adds the bytes of a list.
    pub fn add(&mut self, bytes: &[u8]) {
        // One byte more, so that bytes that move from one file to the next count.
        self.0 = fnv1a(fnv1a(self.0, bytes), &[0xff]);
    }
}

impl Default for Identity {
    /// The identity of an empty text.
    fn default() -> Self {
        Self::of(&[])
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_every_border_counts() {
        let of = |parts: &[&str]| {
            let mut identity = Identity::of(parts[0].as_bytes());
            parts[1..].iter().for_each(|part| identity.add(part.as_bytes()));
            identity.to_string()
        };
        let rows: &[&[&str]] = &[&[""], &["a"], &["b"], &["a", ""], &["a", "b"], &["ab"]];
        let all: std::collections::BTreeSet<_> = rows.iter().map(|row| of(row)).collect();
        assert_eq!(all.len(), rows.len());
        assert!(all.iter().all(|text| text.len() == 16), "{all:?}");
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
    }
}
