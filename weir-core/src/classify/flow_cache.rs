//! A cache of decisions by flow, so that only a flow's first packet is looked up in the rules.
//!
//! The key is everything that rules can test, so a hit is exact: packets with one key satisfy the
//! same rules. The table is set-associative: a seeded hash chooses a set of `WAYS` places, and two
//! bytes of the hash say which of them may hold the key. All memory is allocated at the start. A
//! full set replaces its places in turn.
//!
//! **Rule changes.** Each entry holds the generation of the rules it was made under, and an entry
//! of an older generation is a miss. So a change of rules costs nothing here and leaves no stale
//! decision.
//!
//! **Hostile packets** that miss cost an entry each and push out others' entries; the set that they
//! hit depends on the seed. The hash is fast, not cryptographic: an attacker that learns the seed
//! can fill one set. The only loss is time, one search of the rules for a packet.

use alloc::vec::Vec;

use super::Decision;
use super::key::{Key, fold};
use crate::random::Random;

/// Decisions for the flows seen last.
#[derive(Clone, Debug)]
pub struct FlowCache {
    marks: Vec<[u16; WAYS]>,
    entries: Vec<Entry>,
    generation: u64,
    turn: usize,
    hash_keys: [u64; 7],
}

/// Fits a cache line.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    generation: u64,
    /// The rule, or [`Decision::NONE`].
    found: Decision,
}

const _: () = assert!(size_of::<Entry>() <= 64);

impl FlowCache {
    /// Returns an empty cache for at least `flows` flows, rounded up to a power of two, at most
    /// [`FLOWS_MAX`].
    pub fn new(flows: u32, seed: u64) -> FlowCache {
        let entries = flows.clamp(WAYS as u32, FLOWS_MAX).next_power_of_two() as usize;
        let mut random = Random::new(seed, HASH_STREAM);
        let empty = Entry { key: NO_KEY, generation: 0, found: Decision::NONE };
        FlowCache {
            marks: alloc::vec![[0; WAYS]; entries / WAYS],
            entries: alloc::vec![empty; entries],
            generation: 1,
            turn: 0,
            hash_keys: core::array::from_fn(|_| random.bits()),
        }
    }

    /// Returns the number of flows that fit.
    pub fn flows(&self) -> usize {
        self.entries.len()
    }

    /// Invalidates all entries; called when the rules change.
    pub fn next_generation(&mut self) {
        self.generation += 1;
    }

    /// Returns the hash of a key, for [`FlowCache::recall`] and [`FlowCache::remember`].
    #[inline]
    pub fn hash(&self, key: &Key) -> u64 {
        let keys = &self.hash_keys;
        let fields = fold(key.fields[0] ^ keys[0], key.fields[1] ^ keys[1]);
        let source = fold(key.addresses[0] ^ keys[2], key.addresses[1] ^ keys[3]);
        let destination = fold(key.addresses[2] ^ keys[4], key.addresses[3] ^ keys[5]);
        fold(fields ^ source.rotate_left(17), destination ^ fields.rotate_left(31) ^ keys[6])
    }

    /// Returns the cached decision for this key, which may be [`Decision::NONE`].
    #[inline]
    pub fn recall(&self, hash: u64, key: &Key) -> Option<Decision> {
        let (set, mark) = self.place(hash);
        let marks = &self.marks[set];
        let entries = &self.entries[set * WAYS..(set + 1) * WAYS];
        for (entry, _) in entries.iter().zip(marks).filter(|(_, other)| **other == mark) {
            if entry.key == *key && entry.generation == self.generation {
                return Some(entry.found);
            }
        }
        None
    }

    /// Stores the decision for this key, which is not in the cache.
    pub fn remember(&mut self, hash: u64, key: &Key, found: Decision) {
        let (set, mark) = self.place(hash);
        let entries = &self.entries[set * WAYS..(set + 1) * WAYS];
        let stale = entries.iter().position(|entry| entry.generation != self.generation);
        let way = stale.unwrap_or(self.turn % WAYS);
        self.turn = self.turn.wrapping_add(1);
        self.marks[set][way] = mark;
        self.entries[set * WAYS + way] = Entry { key: *key, generation: self.generation, found };
    }

    #[inline]
    fn place(&self, hash: u64) -> (usize, u16) {
        (hash as usize & (self.marks.len() - 1), (hash >> 48) as u16)
    }
}

/// Places in a set.
const WAYS: usize = 4;
/// Bound: flows that the cache remembers unless the plan says otherwise; another flow replaces one.
/// One megabyte, which stays in a core's cache.
pub const FLOWS_DEFAULT: u32 = 1 << 14;
/// Bound: flows of the largest cache, 64 MiB; a plan with more gets this many.
pub const FLOWS_MAX: u32 = 1 << 20;
const NO_KEY: Key = Key { addresses: [0; 4], fields: [0; 2] };
/// The stream of random numbers that the hash takes its keys from.
const HASH_STREAM: u64 = 0x666c_6f77;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rank: u32) -> Decision {
        Decision::new(rank, rank + 1)
    }

    fn key(number: u64) -> Key {
        Key { addresses: [number, 0, 0, 0], fields: [7, 8] }
    }

    #[test]
    fn a_hit_has_the_same_key_and_generation() {
        let mut cache = FlowCache::new(16, 1);
        let hash = cache.hash(&key(1));
        cache.remember(hash, &key(1), found(5));
        assert_eq!(cache.recall(hash, &key(1)), Some(found(5)));
        // The same place, but another packet.
        assert_eq!(cache.recall(hash, &key(2)), None);
        cache.next_generation();
        assert_eq!(cache.recall(hash, &key(1)), None);
        cache.remember(hash, &key(1), Decision::NONE);
        assert_eq!(cache.recall(hash, &key(1)), Some(Decision::NONE));
    }

    #[test]
    fn a_full_set_replaces_one_place() {
        let mut cache = FlowCache::new(WAYS as u32, 1);
        for number in 0..=WAYS as u64 {
            let hash = cache.hash(&key(number));
            cache.remember(hash, &key(number), found(number as u32));
        }
        let known = |number: &u64| cache.recall(cache.hash(&key(*number)), &key(*number)).is_some();
        assert_eq!((0..=WAYS as u64).filter(known).count(), WAYS);
        assert!(known(&(WAYS as u64)), "the newest is there");
    }

    #[test]
    fn every_key_that_fits_is_found_again() {
        let mut cache = FlowCache::new(FLOWS_DEFAULT, 9);
        for number in 0..1000 {
            let hash = cache.hash(&key(number));
            cache.remember(hash, &key(number), found(number as u32));
        }
        let right = |number: &u64| {
            let answer = cache.recall(cache.hash(&key(*number)), &key(*number));
            answer == Some(found(*number as u32))
        };
        assert_eq!((0..1000).filter(right).count(), 1000);
    }

    #[test]
    fn keys_spread_over_sets_under_every_seed() {
        for seed in 0..8 {
            let cache = FlowCache::new(1 << 12, seed);
            let mut load = alloc::vec![0; cache.marks.len()];
            for number in 0..4096u64 {
                load[cache.place(cache.hash(&key(number))).0] += 1;
            }
            assert!(load.iter().all(|count| *count <= 20), "seed {seed}: {:?}", load.iter().max());
        }
    }
}
