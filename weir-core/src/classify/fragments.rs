//! A table of the targets of first fragments, so that later fragments can follow.
//!
//! The table is set-associative: the key's hash chooses a set of [`WAYS`] places. A new entry
//! takes, in this order: the place of the same key, a free place, the place that expires first. All
//! memory is allocated at the start, no iteration order can vary between runs, and a flood of
//! datagrams costs only forgotten entries. An entry lives as long as a receiver would still
//! reassemble the datagram.
//!
//! Invariant: a key is in at most one place.

use alloc::format;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::rule::Target;
use crate::ids::{LeafId, MeterId};
use crate::packet::{Addresses, FieldError, FlowKey, Headers};
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::{Duration, Instant};

/// The size of a fragment table and the lifetime of its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentLimits {
    entries: u32,
    timeout: Duration,
}

impl FragmentLimits {
    /// Limits for `entries` datagrams (rounded up to a power of two), each remembered for
    /// `timeout`.
    ///
    /// # Errors
    /// If `entries` is not in [`ENTRIES_MIN`]`..=`[`ENTRIES_MAX`].
    pub fn new(entries: u32, timeout: Duration) -> Result<FragmentLimits, FieldError> {
        if (ENTRIES_MIN..=ENTRIES_MAX).contains(&entries) {
            return Ok(FragmentLimits { entries: entries.next_power_of_two(), timeout });
        }
        Err(FieldError::new(
            "fragment table size",
            &format!("{entries}"),
            "is not in 4..=1048576",
            format!("write {ENTRIES_DEFAULT}, or the number of datagrams in flight"),
        ))
    }

    /// Returns the number of datagrams remembered.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns how long each datagram is remembered.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl Default for FragmentLimits {
    fn default() -> FragmentLimits {
        FragmentLimits { entries: ENTRIES_DEFAULT, timeout: TIMEOUT_DEFAULT }
    }
}

/// The fields that all fragments of a datagram share.
///
/// The protocol is one of them in IPv4 [RFC 791 §3.2] but not in IPv6 [RFC 8200 §4.5], where a
/// later fragment may not even carry it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentKey {
    addresses: Addresses,
    protocol: u8,
    id: u32,
}

impl FragmentKey {
    /// Returns the key of a fragment; none for a packet without addresses.
    pub fn of(headers: &Headers, id: u32) -> Option<FragmentKey> {
        let protocol = match headers.addresses {
            Addresses::Unknown => return None,
            Addresses::V4 { .. } => headers.protocol?.0,
            Addresses::V6 { .. } => 0,
        };
        Some(FragmentKey { addresses: headers.addresses, protocol, id })
    }

    /// Returns the same hash on every machine and in every run. It is not secret: an attacker can
    /// make entries collide, and then fragments are matched on their own headers.
    fn hash(&self) -> u64 {
        let words = match self.addresses {
            Addresses::Unknown => [0; 4],
            Addresses::V4 { source, destination } => v4_words(source, destination),
            Addresses::V6 { source, destination } => v6_words(source, destination),
        };
        let last = u64::from(self.protocol) << 32 | u64::from(self.id);
        words.into_iter().fold(mix(last), |hash, word| mix(hash ^ word))
    }
}

fn v4_words(source: Ipv4Addr, destination: Ipv4Addr) -> [u64; 4] {
    let pair = u64::from(u32::from(source)) << 32 | u64::from(u32::from(destination));
    [pair, 0, 0, 0]
}

fn v6_words(source: Ipv6Addr, destination: Ipv6Addr) -> [u64; 4] {
    let (source, destination) = (u128::from(source), u128::from(destination));
    [(source >> 64) as u64, source as u64, (destination >> 64) as u64, destination as u64]
}

/// Spreads every bit over the word: the finisher of SplitMix64.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Targets of first fragments, by key.
#[derive(Clone, Debug)]
pub struct FragmentTable {
    sets: Vec<[Option<Entry>; WAYS]>,
    timeout: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: FragmentKey,
    target: Target,
    expires: Instant,
}

impl FragmentTable {
    /// Allocates all entries; none is used.
    pub fn new(limits: FragmentLimits) -> FragmentTable {
        let sets = limits.entries as usize / WAYS;
        assert!(sets.is_power_of_two(), "a set is chosen by masking the hash");
        FragmentTable { sets: alloc::vec![[None; WAYS]; sets], timeout: limits.timeout }
    }

    /// Stores the target of a first fragment. If the fragment comes again, the latest target
    /// replaces it.
    pub fn remember(&mut self, now: Instant, key: FragmentKey, target: Target) {
        let entry = Entry { key, target, expires: now.after(self.timeout) };
        let index = self.set_index(&key);
        let set = &mut self.sets[index];
        let place = set.iter().position(|place| holds(place, &key));
        let place = place.unwrap_or_else(|| victim(set));
        set[place] = Some(entry);
    }

    /// Returns the target of this datagram's first fragment, if it is still remembered.
    pub fn recall(&self, now: Instant, key: &FragmentKey) -> Option<Target> {
        let set = &self.sets[self.set_index(key)];
        let entry = set.iter().flatten().find(|entry| entry.key == *key)?;
        (now < entry.expires).then_some(entry.target)
    }

    /// Forgets the datagrams whose fragments go to `leaf`. Looks at every entry.
    pub fn forget(&mut self, leaf: LeafId) {
        for entry in self.sets.as_flattened_mut() {
            entry.take_if(|entry| entry.target.leaf == leaf);
        }
    }

    fn set_index(&self, key: &FragmentKey) -> usize {
        key.hash() as usize & (self.sets.len() - 1)
    }
}

fn holds(place: &Option<Entry>, key: &FragmentKey) -> bool {
    place.as_ref().is_some_and(|entry| entry.key == *key)
}

/// Returns a free place; else the one that expires first, which is an expired one if there is any.
/// Of equals, the lowest.
fn victim(set: &[Option<Entry>; WAYS]) -> usize {
    let ranked = set.iter().enumerate().min_by_key(|(_, place)| place.map(|entry| entry.expires));
    ranked.map_or(0, |(index, _)| index)
}

/// Places in a set; one look-up compares them all.
pub const WAYS: usize = 4;
/// The smallest table: one set.
pub const ENTRIES_MIN: u32 = WAYS as u32;
/// Bound: datagrams that the largest table of fragments remembers, about 64 MiB; a plan with more
/// is refused.
pub const ENTRIES_MAX: u32 = 1 << 20;
/// Bound: datagrams in flight that are remembered unless the plan says otherwise; another one
/// replaces the oldest of its set. ALTQ had 8, and fragments of a ninth lost their class.
pub const ENTRIES_DEFAULT: u32 = 1024;
/// Bound: the time that a datagram is remembered; later fragments have no ports. Linux and BSD give
/// it as long to be reassembled.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

state!(
    enum FlowKey {
        Connection,
        Source,
        Destination,
        Hosts,
        WithinSource,
        WithinDestination,
        WithinBoth,
        Nothing,
    }
);

impl FragmentTable {
    /// Returns the number of sets, and how long an entry lives.
    pub(super) fn limits(&self) -> (usize, Duration) {
        (self.sets.len(), self.timeout)
    }

    /// Writes each entry with its place.
    pub(super) fn save(&self, to: &mut Writer) {
        let Self { sets, timeout: _ } = self;
        let places = || sets.as_flattened().iter().enumerate();
        let entries = || places().filter_map(|(place, entry)| Some((place, entry.as_ref()?)));
        to.number(entries().count() as u64);
        for (place, entry) in entries() {
            to.number(place as u64);
            entry.save(to);
        }
    }

    /// Reads entries whose targets are among this many leaves.
    pub(super) fn load(&mut self, leaves: usize, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.sets.fill([None; WAYS]);
        let places = self.sets.len() * WAYS;
        for _ in 0..from.count(places, "fragments")? {
            let place = from.index(places, "place of a fragment")?;
            let entry = Entry::load(leaves, from)?;
            let index = self.set_index(&entry.key);
            let set = &self.sets[index];
            let is_free = place / WAYS == index && set[place % WAYS].is_none();
            if !is_free || set.iter().any(|place| holds(place, &entry.key)) {
                return Err(StateError::Invalid("place of a fragment"));
            }
            self.sets[index][place % WAYS] = Some(entry);
        }
        Ok(())
    }
}

impl Entry {
    fn save(&self, to: &mut Writer) {
        let Self { key, target: Target { leaf, meter, spread, flow }, expires } = self;
        debug_assert!(spread.is_none(), "a fragment follows to one leaf");
        key.save(to);
        leaf.save(to);
        to.number(meter.map_or(0, |meter| meter.index() as u64 + 1));
        flow.save(to);
        expires.save(to);
    }

    fn load(leaves: usize, from: &mut Reader<'_>) -> Result<Entry, StateError> {
        let key = FragmentKey::load(from)?;
        let leaf = LeafId(from.index(leaves, "leaf of a fragment")? as u32);
        let meter = from.index(MeterId::MAX + 1, "meter of a fragment")?.checked_sub(1);
        let mut target = Target::from(leaf);
        target.meter = meter.and_then(MeterId::from_index);
        target.flow.load(from)?;
        let mut expires = Instant::ZERO;
        expires.load(from)?;
        Ok(Entry { key, target, expires })
    }
}

impl FragmentKey {
    pub(super) fn save(&self, to: &mut Writer) {
        let Self { addresses, protocol, id } = self;
        match *addresses {
            Addresses::Unknown => to.byte(0),
            Addresses::V4 { source, destination } => {
                to.byte(4);
                u32::from(source).save(to);
                u32::from(destination).save(to);
            }
            Addresses::V6 { source, destination } => {
                to.byte(6);
                u128::from(source).save(to);
                u128::from(destination).save(to);
            }
        }
        protocol.save(to);
        id.save(to);
    }

    pub(super) fn load(from: &mut Reader<'_>) -> Result<FragmentKey, StateError> {
        let (mut v4, mut v6) = ([0u32; 2], [0u128; 2]);
        let addresses = match from.byte()? {
            4 => {
                v4.load(from)?;
                let [source, destination] = v4.map(Ipv4Addr::from);
                Addresses::V4 { source, destination }
            }
            6 => {
                v6.load(from)?;
                let [source, destination] = v6.map(Ipv6Addr::from);
                Addresses::V6 { source, destination }
            }
            _ => return Err(StateError::Invalid("address of a fragment")),
        };
        let mut key = FragmentKey { addresses, protocol: 0, id: 0 };
        key.protocol.load(from)?;
        key.id.load(from)?;
        Ok(key)
    }
}
