//! Rules as hash tables: one table for many rules, however many there are.
//!
//! Rules that test the same fields and prefix lengths form a *tuple* and fit into one hash table,
//! keyed by the fields under that mask [srinivasan99 §4]. Rules test many combinations, so a
//! table here takes a coarser mask than its rules have, as long as few rules fall together
//! [daly19 §4]: there are fewer tables to ask, and each rule found is compared in full.
//!
//! A `Table` is a row of `Slot`s. A slot says by a bit of the hash of most packets that no rule of
//! the table has them, and where its `Pattern`s are: in `Block`s of a cache line, in the order of
//! the rules. What a packet costs among many rules is lines that are far away and branches that
//! nobody foresees: so all slots are asked without a branch, and so are both patterns of a block.
//! Tables are asked in the order of their first rules, and none of which every rule stands behind
//! what was found already.
//!
//! Invariant: every rule that accepts a packet has a pattern in the slot of that packet, in the
//! tables of its address family or in those for rules that test no address.

mod build;

use alloc::vec::Vec;

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
        let mut first = First { tuples: self, key, interface, headers };
        let found = self.walk(key, headers, u32::MAX, &mut first);
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
        each: impl FnMut(Option<u32>, Below) -> Below,
    ) {
        self.walk(key, headers, below, &mut Candidates { tuples: self, key, each });
    }

    /// How many tables a packet is looked up in at most.
    pub fn tables(&self) -> usize {
        self.any.tables.len() + self.v4.tables.len().max(self.v6.tables.len())
    }

    #[inline]
    fn walk(&self, key: &Key, headers: &Headers, below: Below, search: &mut impl Search) -> Below {
        let below = match Family::of_packet(headers) {
            None => below,
            Some(Family::V4) => self.v4.walk(key, below, search),
            Some(Family::V6) => self.v6.walk(key, below, search),
        };
        self.any.walk(key, below, search)
    }

    #[cold]
    fn accepts_listed(&self, rule: u32, interface: InterfaceId, headers: &Headers) -> bool {
        let place = self.listed.binary_search_by_key(&rule, |row| row.0);
        place.is_ok_and(|place| self.listed[place].1.accepts(interface, headers))
    }
}

/// The tables for `WORDS` words of addresses.
#[derive(Clone, Debug)]
struct Tables<const WORDS: usize> {
    tables: Vec<Table<WORDS>>,
    /// The lowest rule of each table, for as many tables as are asked at once; and behind them of
    /// none, where the search ends.
    firsts: Vec<[u32; CHUNK + 1]>,
    /// Of all tables, one after the other; and one that ends the last.
    slots: Vec<Slot>,
    /// Patterns in the order of their slots, and in a slot of the rules.
    blocks: Vec<Block<WORDS>>,
}

impl<const WORDS: usize> Tables<WORDS> {
    #[inline]
    fn walk(&self, key: &Key, mut below: Below, search: &mut impl Search) -> Below {
        let words = Words::<WORDS>::of(key);
        for (number, chunk) in self.tables.chunks(CHUNK).enumerate() {
            let firsts = &self.firsts[number];
            if firsts[0] >= below {
                break;
            }
            let (slots, mut held) = self.held(chunk, &words);
            loop {
                let index = held.trailing_zeros() as usize % (CHUNK + 1);
                if firsts[index] >= below {
                    break;
                }
                held &= held - 1;
                below = self.walk_slot(slots[index], &words, below, search);
            }
        }
        below
    }

    /// The slots of the words in these tables, and a bit for each table that may hold them, with
    /// one more for the end. Asked without a branch, so that memory is waited for at once.
    #[inline]
    fn held(&self, chunk: &[Table<WORDS>], words: &Words<WORDS>) -> ([u32; CHUNK + 1], u32) {
        let (mut slots, mut held) = ([0; CHUNK + 1], 1 << CHUNK);
        for (index, table) in chunk.iter().enumerate().take(CHUNK) {
            let hash = table.mask.hash(words);
            let slot = table.slot(hash);
            slots[index] = slot;
            held |= (self.slots[slot as usize].marks >> mark(hash) & 1) << index;
        }
        (slots, held)
    }

    /// Goes through the patterns of a slot, which has some.
    #[inline]
    fn walk_slot(
        &self,
        slot: u32,
        words: &Words<WORDS>,
        mut below: Below,
        search: &mut impl Search,
    ) -> Below {
        let [start, end] = [slot, slot + 1].map(|slot| self.slots[slot as usize].start as usize);
        let mut next = start;
        loop {
            let stop = end.min(next + STRETCH);
            for block in &self.blocks[next..stop] {
                below = search.block(block, words, below);
            }
            // Rules only rise: where these reach what was found, the next cannot precede it.
            let done = |block: &Block<WORDS>| block.0[0].conditions.rule >= below;
            if stop == end || done(&self.blocks[stop]) {
                return below;
            }
            next = stop;
        }
    }
}

/// What is done with patterns that a packet may satisfy.
trait Search {
    /// Looks at a block and answers how to go on: to rules below the number.
    fn block<const WORDS: usize>(
        &mut self,
        block: &Block<WORDS>,
        words: &Words<WORDS>,
        below: Below,
    ) -> Below;
}

/// Looks for the first rule.
struct First<'a> {
    tuples: &'a Tuples,
    key: &'a Key,
    interface: InterfaceId,
    headers: &'a Headers,
}

impl Search for First<'_> {
    /// Without a branch, for nobody foresees which pattern of a block a packet satisfies.
    #[inline]
    fn block<const WORDS: usize>(
        &mut self,
        block: &Block<WORDS>,
        words: &Words<WORDS>,
        below: Below,
    ) -> Below {
        let Block(patterns) = block;
        let bits = patterns
            .iter()
            .enumerate()
            .fold(0u32, |bits, (index, pattern)| bits | u32::from(pattern.accepts(words)) << index);
        let conditions = &patterns[bits.trailing_zeros() as usize % BLOCK].conditions;
        if conditions.link != 0 {
            return self.rest(block, bits, below);
        }
        let none = u32::from(bits != 0).wrapping_sub(1);
        below.min(conditions.rule | none)
    }
}

impl First<'_> {
    /// The first of the patterns of these bits that is satisfied in full.
    #[inline(never)]
    fn rest<const WORDS: usize>(&self, block: &Block<WORDS>, bits: u32, below: Below) -> Below {
        let mut found = block.0.iter().enumerate().filter(|(index, _)| bits >> index & 1 == 1);
        let found = found.find(|(_, pattern)| {
            let Conditions { rule, link, .. } = pattern.conditions;
            if rule >= below {
                return false;
            }
            match pattern.conditions.is_partial() {
                true => self.tuples.accepts_listed(rule, self.interface, self.headers),
                false => accepts_link(link, self.key, &self.tuples.links),
            }
        });
        found.map_or(below, |(_, pattern)| pattern.conditions.rule)
    }
}

/// Looks for all rules.
struct Candidates<'a, F> {
    tuples: &'a Tuples,
    key: &'a Key,
    each: F,
}

impl<F: FnMut(Option<u32>, Below) -> Below> Search for Candidates<'_, F> {
    fn block<const WORDS: usize>(
        &mut self,
        block: &Block<WORDS>,
        words: &Words<WORDS>,
        mut below: Below,
    ) -> Below {
        for pattern in &block.0 {
            let Conditions { rule, link, .. } = pattern.conditions;
            if rule < below {
                let may =
                    pattern.accepts(words) && accepts_link(link, self.key, &self.tuples.links);
                below = (self.each)(may.then_some(rule), below);
            }
        }
        below
    }
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
    /// The first of its slots, and how many follow it: one less than a power of two.
    slots: (u32, u32),
}

impl<const WORDS: usize> Table<WORDS> {
    #[inline]
    fn slot(&self, hash: u64) -> u32 {
        self.slots.0 + (hash as u32 & self.slots.1)
    }
}

/// A place for the patterns that share a hash: from block `start` to that of the next slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    start: u32,
    /// A bit for each pattern, by its hash: most packets that have none of them are known by that.
    marks: u32,
}

/// The bit of a hash in a slot's marks.
#[inline]
fn mark(hash: u64) -> u32 {
    (hash >> 59) as u32
}

/// Patterns of one slot, compared without a branch between them; the last ones may be nobody's.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block<const WORDS: usize>([Pattern<WORDS>; BLOCK]);

/// A rule, or a part of one that has several prefixes. It is as small as it gets, since what a
/// packet costs among many rules is memory that is far away.
#[derive(Clone, Copy, Debug)]
struct Pattern<const WORDS: usize> {
    addresses: [u64; WORDS],
    conditions: Conditions,
}

impl<const WORDS: usize> Pattern<WORDS> {
    /// Whether the packet has the addresses and what the pattern says of the first word of fields.
    #[inline]
    fn accepts(&self, words: &Words<WORDS>) -> bool {
        self.accepts_addresses(words) & self.conditions.accepts(words.fields[0])
    }

    #[inline]
    fn accepts_addresses(&self, words: &Words<WORDS>) -> bool {
        let differing: [u64; WORDS] =
            core::array::from_fn(|index| words.addresses[index] ^ self.addresses[index]);
        let (source, destination) = self.conditions.lens;
        match differing[..] {
            [both] => {
                // Of each half the leading bits, as many as the prefix is long, go into the upper.
                let leading = |half: u64, len: u8| half << (len & 63);
                let both = leading(both >> 32, source) | leading(both & LOWER_HALF, destination);
                both >> 32 == 0
            }
            [source_high, source_low, destination_high, destination_low] => {
                let leads = words_of(Family::V6, leading(source), leading(destination));
                let differing = [source_high, source_low, destination_high, destination_low];
                (0..4).fold(0, |bits, index| bits | differing[index] & leads[index]) == 0
            }
            _ => true,
        }
    }
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
    /// The second word of fields: a place in `Tuples::links` or [`PARTIAL`].
    link: u16,
}

// A cache line, of those that most packets meet.
const _: () = assert!(size_of::<Block<0>>() == 64 && size_of::<Block<1>>() == 64);

/// Value and mask of the second word of fields.
type Link = (u64, u64);

impl Conditions {
    /// Whether the packet has what the pattern says of the first word of fields. Computed without
    /// a branch: which patterns of a bucket a packet fails is hard to foresee.
    #[inline]
    fn accepts(&self, field: u64) -> bool {
        let upper = (field >> 32) as u32;
        let (source, destination) = ports_of(field);
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

fn accepts_link(link: u16, key: &Key, links: &[Link]) -> bool {
    links.get(usize::from(link)).is_none_or(|(value, mask)| key.fields[1] & mask == *value)
}

/// Patterns that leave out something: the whole rule has to be asked.
const PARTIAL: u16 = u16::MAX;
/// The lower half of a word.
const LOWER_HALF: u64 = 0xffff_ffff;
/// Tables whose memory is waited for at once.
const CHUNK: usize = 8;
/// Patterns in a block.
const BLOCK: usize = 2;
/// Blocks that are gone through before it is asked whether the next may still decide: more than
/// most slots have, for nobody foresees the answer.
const STRETCH: usize = 4;
/// Odd and irregular: from SplitMix64 and its finisher.
const HASH_KEYS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
