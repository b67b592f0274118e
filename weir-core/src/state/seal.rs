//! The frame around the state in a checkpoint: kind and version in front, the plan's hash, and a
//! checksum behind.
//!
//! A checkpoint is: its kind (a byte), its version (a number), the length of what follows up to the
//! checksum (a word), the hash of the plan (a word), the state, and the checksum of all that (a
//! word). The checksum finds damage, not forgery: what is loaded is checked too.

use super::{Reader, StateError, Writer};
use core::hash::{Hash, Hasher};

/// The kind of object that a checkpoint holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Link = b'L',
    Classifier = b'C',
}

/// The version that is written and read. It changes with each change of what any part writes:
/// decisions to the bit cannot be had from the state of another version.
pub(super) const VERSION: u64 = 1;

/// Writes a checkpoint around what `save` writes.
pub(crate) fn seal(to: &mut Writer, kind: Kind, plan: u64, save: impl FnOnce(&mut Writer)) {
    let start = to.bytes().len();
    to.byte(kind as u8);
    to.number(VERSION);
    let length_at = to.bytes().len();
    to.word(0);
    let body = to.bytes().len();
    to.word(plan);
    save(to);
    to.replace_word(length_at, (to.bytes().len() - body) as u64);
    to.word(checksum(&to.bytes()[start..]));
}

/// Returns a reader of the state in the next checkpoint, which must be of this kind and plan; reads
/// on behind the checkpoint.
pub(crate) fn open<'b>(
    from: &mut Reader<'b>,
    kind: Kind,
    plan: u64,
) -> Result<Reader<'b>, StateError> {
    let whole = from.rest();
    if from.byte()? != kind as u8 {
        return Err(StateError::Kind);
    }
    let version = from.number()?;
    if version != VERSION {
        return Err(StateError::Version(version));
    }
    let length = usize::try_from(from.word()?).map_err(|_| StateError::Cut)?;
    let mut body = Reader::new(from.bytes(length)?);
    let sealed = &whole[..whole.len() - from.rest().len()];
    if from.word()? != checksum(sealed) {
        return Err(StateError::Checksum);
    }
    if body.word()? != plan {
        return Err(StateError::OtherPlan);
    }
    Ok(body)
}

/// Gives a checkpoint whose state was edited the length and the checksum of what it holds now. A
/// checkpoint thus forged has to be refused, or do no harm: tests use this.
pub fn forge(checkpoint: &mut [u8]) {
    let sum_at = checkpoint.len().saturating_sub(WORD);
    if let Some(length) = checkpoint.get_mut(LENGTH_AT..LENGTH_AT + WORD) {
        let body = sum_at.saturating_sub(LENGTH_AT + WORD) as u64;
        length.copy_from_slice(&body.to_le_bytes());
    }
    let (sealed, sum) = checkpoint.split_at_mut(sum_at);
    if sum.len() == WORD {
        sum.copy_from_slice(&checksum(sealed).to_le_bytes());
    }
}

/// Returns the checksum of `bytes`.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = PlanHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Where the length is: behind the kind and a version of one byte.
const LENGTH_AT: usize = 2;
/// The bytes of a word.
const WORD: usize = 8;

/// Hashes a plan, on every machine to the same number. Each step mixes as SplitMix64 does.
pub(crate) struct PlanHasher(u64);

impl PlanHasher {
    pub(crate) const fn new() -> Self {
        Self(0x7765_6972)
    }

    /// Returns the hash of `value`.
    pub(crate) fn of(value: &impl Hash) -> u64 {
        let mut hasher = Self::new();
        value.hash(&mut hasher);
        hasher.finish()
    }

    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = mixed ^ mixed >> 31;
    }
}

impl Hasher for PlanHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|&word| self.mix(u64::from_le_bytes(word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last));
        self.mix(bytes.len() as u64);
    }

    // Whatever the machine's order of bytes and width of an index.
    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.mix(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_that_changes_is_found() {
        let mut to = Writer::new();
        to.byte(9);
        seal(&mut to, Kind::Link, 7, |to| to.number(1_000_000));
        let mut whole = to.into_bytes();
        let read = |bytes: &[u8], kind, plan| {
            let mut from = Reader::new(&bytes[1..]);
            let number = open(&mut from, kind, plan).and_then(|mut body| body.number())?;
            Ok((number, from.rest().len()))
        };
        assert_eq!(read(&whole, Kind::Link, 7), Ok((1_000_000, 0)));
        assert_eq!(read(&whole, Kind::Classifier, 7), Err(StateError::Kind));
        assert_eq!(read(&whole, Kind::Link, 8), Err(StateError::OtherPlan));
        for cut in 1..whole.len() {
            assert_eq!(read(&whole[..cut], Kind::Link, 7), Err(StateError::Cut), "{cut}");
        }
        for place in 1..whole.len() {
            whole[place] ^= 1;
            assert!(read(&whole, Kind::Link, 7).is_err(), "{place}");
            whole[place] ^= 1;
        }
        whole[2] = 2;
        assert_eq!(read(&whole, Kind::Link, 7), Err(StateError::Version(2)));
    }
}
