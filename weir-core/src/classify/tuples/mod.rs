//! Rules as hash tables: one table for many rules, however many there are.
//!
//! Rules that test the same fields and prefix lengths form a *tuple* and fit into one hash table,
//! keyed by the fields under that mask [srinivasan99 §4]. Rules test many combinations, so a
//! table here takes a coarser mask than its rules have, as long as few rules fall together
//! [daly19 §4]: there are fewer tables to ask, and each rule found is compared in full.
//!
//! A `Table` is a filter of two bits a pattern, which says of most packets that no rule of the
//! table has them and stays in a near cache; and buckets of a cache line, with room for two
//! `Pattern`s in the order of the rules, or for one and the place of the others. What a packet
//! costs among many rules is lines that are far away and branches that nobody foresees: so filters
//! are asked without a branch, and so are both patterns of a bucket. Tables are asked in the order
//! of their first rules, and none of which every rule stands behind what was found already.
//!
//! Invariant: every rule that accepts a packet has a pattern in the bucket of that packet, in the
//! tables of its address family or in those for rules that test no address.

mod build;

use alloc::vec::Vec;
use core::ops::Range;

use super::key::{Family, Key, fold, leading, ports_of, words_of};
use super::rule::{InterfaceId, Match, Rule};
use crate::packet::Headers;

/// The tables of a list of rules.
#[derive(Clone, Debug)]
pub struct Tuples {
    /// Rules that test no address; asked for every packet.
    any: Tables<0>,
    v4: Tables<1>,
    v6: Tables<4>,
    /// What patterns want of the second word of fields; the first wants nothing.
    links: Vec<Link>,
    /// Rules whose patterns are partial: those with long lists of sources and of destinations.
    listed: Vec<(u32, Match)>,
}

/// What to do after a pattern: go on to those of rules below the number.
pub type Below = u32;

impl Tuples {
    /// The tables of these rules.
    pub fn new(rules: &[Rule]) -> Tuples {
        build::tuples(rules, build::Repeats::LeftOut)
    }

    /// The tables of these rules, in which [`Tuples::candidates`] finds every rule: also parts of
    /// rules that earlier ones say already.
    pub fn with_repeats(rules: &[Rule]) -> Tuples {
        build::tuples(rules, build::Repeats::Kept)
    }

    /// The first rule that accepts the packet.
    #[inline]
    pub fn first(&self, key: &Key, interface: InterfaceId, headers: &Headers) -> Option<u32> {
        let found = self.walk(key, headers, u32::MAX, |pattern, reached, below| {
            let accepts = reached & pattern.accepts(key);
            if pattern.link != 0 && accepts && pattern.rule < below {
                let rest = || accepts_link(pattern.link, key, &self.links);
                let whole = || self.accepts_listed(pattern.rule, interface, headers);
                let all = if pattern.is_partial() { whole() } else { rest() };
                return if all { pattern.rule } else { below };
            }
            // No rule where it does not accept; no branch, for nobody foresees it.
            below.min(pattern.rule | u32::from(accepts).wrapping_sub(1))
        });
        (found != u32::MAX).then_some(found)
    }

    /// Calls `each` with every rule below number `below` that may accept the packet, in no order
    /// that means anything; a rule may come twice. `each` answers how to go on, and is called with
    /// `None` for a rule that was looked at in vain, so that it can count.
    pub fn candidates(
        &self,
        key: &Key,
        headers: &Headers,
        below: Below,
        mut each: impl FnMut(Option<u32>, Below) -> Below,
    ) {
        self.walk(key, headers, below, |pattern, reached, below| {
            if pattern.rule >= below {
                return below;
            }
            let may =
                reached && pattern.accepts(key) && accepts_link(pattern.link, key, &self.links);
            each(may.then_some(pattern.rule), below)
        });
    }

    /// How many tables a packet is looked up in at most.
    pub fn tables(&self) -> usize {
        self.any.0.len() + self.v4.0.len().max(self.v6.0.len())
    }

    #[inline]
    fn walk(
        &self,
        key: &Key,
        headers: &Headers,
        below: Below,
        mut each: impl FnMut(&Conditions, bool, Below) -> Below,
    ) -> Below {
        let below = match Family::of_packet(headers) {
            None => below,
            Some(Family::V4) => self.v4.walk(key, below, &mut each),
            Some(Family::V6) => self.v6.walk(key, below, &mut each),
        };
        self.any.walk(key, below, &mut each)
    }

    #[cold]
    fn accepts_listed(&self, rule: u32, interface: InterfaceId, headers: &Headers) -> bool {
        let place = self.listed.binary_search_by_key(&rule, |row| row.0);
        place.is_ok_and(|place| self.listed[place].1.accepts(interface, headers))
    }
}

/// The tables for `WORDS` words of addresses.
#[derive(Clone, Debug)]
struct Tables<const WORDS: usize>(Vec<Table<WORDS>>);

impl<const WORDS: usize> Tables<WORDS> {
    #[inline]
    fn walk(
        &self,
        key: &Key,
        mut below: Below,
        each: &mut impl FnMut(&Conditions, bool, Below) -> Below,
    ) -> Below {
        let words = Words::<WORDS>::of(key);
        for chunk in self.0.chunks(CHUNK) {
            if chunk[0].first >= below {
                break;
            }
            let (hashes, mut held) = held(chunk, &words);
            while held != 0 {
                let index = held.trailing_zeros() as usize;
                held &= held - 1;
                let table = &chunk[index];
                if table.first >= below {
                    break;
                }
                below = table.walk(hashes[index], &words, below, each);
            }
        }
        below
    }
}

/// The hashes of these words under the masks of tables, and a bit for each table whose filter does
/// not exclude them. Filters are asked without a branch, so that they are waited for at once.
#[inline]
fn held<const WORDS: usize>(chunk: &[Table<WORDS>], words: &Words<WORDS>) -> ([u64; CHUNK], u32) {
    let (mut hashes, mut held) = ([0; CHUNK], 0);
    for (index, (table, hash)) in chunk.iter().zip(&mut hashes).enumerate() {
        *hash = table.mask.hash(words);
        held |= u32::from(table.may_hold(*hash)) << index;
    }
    (hashes, held)
}

/// The words under a mask, or the mask.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Words<const WORDS: usize> {
    addresses: [u64; WORDS],
    fields: [u64; 2],
}

impl<const WORDS: usize> Words<WORDS> {
    #[inline]
    fn of(key: &Key) -> Words<WORDS> {
        let addresses = key.addresses.first_chunk().expect("a key has the words of any family");
        Words { addresses: *addresses, fields: key.fields }
    }

    /// The hash of `words` under this mask, one long product for each word of addresses. Rules
    /// alone decide who shares a bucket, so packets cannot make collisions.
    #[inline]
    fn hash(&self, words: &Words<WORDS>) -> u64 {
        let [first, second] = [0, 1].map(|index| words.fields[index] & self.fields[index]);
        let fields = (first ^ HASH_KEYS[0]).wrapping_add(second.wrapping_mul(HASH_KEYS[1]));
        let mut hash = HASH_KEYS[2];
        for (word, mask) in words.addresses.iter().zip(&self.addresses) {
            hash = fold(hash ^ (word & mask), fields);
        }
        if WORDS == 0 { fold(hash, fields) } else { hash }
    }
}

/// The rules that share a mask.
#[derive(Clone, Debug)]
struct Table<const WORDS: usize> {
    mask: Words<WORDS>,
    /// The lowest rule in it.
    first: u32,
    /// Bits of the hashes that occur.
    filter: Vec<u64>,
    buckets: Vec<Bucket<WORDS>>,
    /// The patterns of full buckets behind the first of each.
    others: Vec<Pattern<WORDS>>,
}

/// A place for the patterns that share a hash: two, or one and an [`OTHERS`].
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket<const WORDS: usize>([Pattern<WORDS>; 2]);

impl<const WORDS: usize> Table<WORDS> {
    #[inline]
    fn may_hold(&self, hash: u64) -> bool {
        let (word, bits) = self.filter_place(hash);
        self.filter[word] & bits == bits
    }

    /// A word of the filter, and two bits in it.
    #[inline]
    fn filter_place(&self, hash: u64) -> (usize, u64) {
        let high = (hash >> 32) as usize;
        (high >> 12 & (self.filter.len() - 1), 1 << (high & 63) | 1 << (high >> 6 & 63))
    }

    #[inline]
    fn bucket_place(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn walk(
        &self,
        hash: u64,
        words: &Words<WORDS>,
        mut below: Below,
        each: &mut impl FnMut(&Conditions, bool, Below) -> Below,
    ) -> Below {
        let Bucket([first, second]) = &self.buckets[self.bucket_place(hash)];
        below = each(&first.conditions, first.accepts_addresses(words), below);
        if second.conditions.link != OTHERS {
            return each(&second.conditions, second.accepts_addresses(words), below);
        }
        for pattern in &self.others[second.conditions.range_of_others()] {
            if pattern.conditions.rule >= below {
                break;
            }
            below = each(&pattern.conditions, pattern.accepts_addresses(words), below);
        }
        below
    }
}

/// A rule, or a part of one that has several prefixes. It is as small as it gets, since what a
/// packet costs among many rules is memory that is far away.
#[derive(Clone, Copy, Debug)]
struct Pattern<const WORDS: usize> {
    addresses: [u64; WORDS],
    conditions: Conditions,
}

impl<const WORDS: usize> Pattern<WORDS> {
    #[inline]
    fn accepts_addresses(&self, words: &Words<WORDS>) -> bool {
        let mask = address_mask::<WORDS>(self.conditions.lens);
        let differing =
            |index: usize| (words.addresses[index] & mask[index]) ^ self.addresses[index];
        (0..WORDS).fold(0, |bits, index| bits | differing(index)) == 0
    }
}

/// The mask of prefixes of these lengths, source and destination.
#[inline]
fn address_mask<const WORDS: usize>((source, destination): (u8, u8)) -> [u64; WORDS] {
    let mut mask = [0; WORDS];
    if let Some(word) = mask.first_mut().filter(|_| WORDS == 1) {
        // Shifted, the upper half leaves as many bits in the lower as the prefix is long.
        let half = |len: u8| u64::from((UPPER_HALF >> (len & 63)) as u32);
        *word = half(source) << 32 | half(destination);
    }
    if WORDS == 4 {
        mask.copy_from_slice(&words_of(Family::V6, leading(source), leading(destination)));
    }
    mask
}

/// What a pattern wants beside addresses, and how much of these.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    /// Value and mask of the upper half of the first word of fields: all but ports.
    value: u32,
    mask: u32,
    /// The first source port, and how many more; then of destination ports.
    ports: [(u16, u16); 2],
    rule: u32,
    lens: (u8, u8),
    /// The second word of fields: a place in `Tuples::links`, [`PARTIAL`] or [`OTHERS`].
    link: u16,
}

// A cache line, of those that most packets meet.
const _: () = assert!(size_of::<Bucket<0>>() == 64 && size_of::<Bucket<1>>() == 64);

/// Value and mask of the second word of fields.
type Link = (u64, u64);

impl Conditions {
    /// Whether the packet has what the pattern says of the first word of fields. Computed without
    /// a branch: which patterns of a bucket a packet fails is hard to foresee.
    #[inline]
    fn accepts(&self, key: &Key) -> bool {
        let upper = (key.fields[0] >> 32) as u32;
        let (source, destination) = ports_of(&key.fields);
        let within = |port: u16, (first, more): (u16, u16)| port.wrapping_sub(first) <= more;
        ((upper & self.mask) == self.value)
            & within(source, self.ports[0])
            & within(destination, self.ports[1])
    }

    /// Whether the rule wants more than the pattern says.
    #[inline]
    fn is_partial(&self) -> bool {
        self.link == PARTIAL
    }

    /// In the place of the second pattern of a bucket: it has these of `Table::others`.
    const fn others(range: (u32, u32)) -> Conditions {
        Conditions { value: range.0, mask: range.1, link: OTHERS, ..Conditions::NOBODY }
    }

    const fn range_of_others(&self) -> Range<usize> {
        self.value as usize..self.mask as usize
    }

    /// Accepts nothing, for no rule has this number.
    const NOBODY: Conditions = Conditions {
        value: 0,
        mask: 0,
        ports: [(0, u16::MAX); 2],
        rule: u32::MAX,
        lens: (0, 0),
        link: 0,
    };
}

#[inline(never)]
fn accepts_link(link: u16, key: &Key, links: &[Link]) -> bool {
    links.get(usize::from(link)).is_none_or(|(value, mask)| key.fields[1] & mask == *value)
}

/// Patterns that leave out something: the whole rule has to be asked.
const PARTIAL: u16 = u16::MAX;
/// What stands for several patterns.
const OTHERS: u16 = u16::MAX - 1;
/// The upper half of a word.
const UPPER_HALF: u64 = 0xffff_ffff_0000_0000;
/// Tables whose memory is waited for at once.
const CHUNK: usize = 8;
/// Odd and irregular: from SplitMix64 and its finisher.
const HASH_KEYS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
