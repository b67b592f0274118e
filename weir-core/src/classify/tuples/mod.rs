//! Rules as hash tables: one table holds many rules.
//!
//! Rules that test the same fields and prefix lengths form a *tuple* and fit into one hash table,
//! keyed by the fields under that mask [srinivasan99 §4]. Rules test many combinations, so a table
//! here takes a coarser mask than its rules have, as long as few rules share a bucket [daly19 §4]:
//! there are fewer tables to search, and each rule found is compared in full.
//!
//! A `Table` is a row of `Slot`s. A slot has a bit for each hash value that one of its `Pattern`s
//! has, which rules out most packets without a match, and the place of its patterns: they are in
//! `Block`s of a cache line each, in match order. With many rules the cost of a packet is cache
//! misses and branches that the processor mispredicts: so all slots are tested without a branch,
//! and so are both patterns of a block. Tables are searched in the order of their first rules, and
//! a table is skipped when all its rules come after the match found. Few cache misses depend on
//! each other: a slot, then a block, and no further one, since a pattern holds the target of its
//! rule.
//!
//! Invariant: every rule that accepts a packet has a pattern in the slot of that packet, in the
//! tables of its address family or in those for rules that test no address.

mod build;

use alloc::vec::Vec;

use super::Decision;
use super::key::{Family, Key, Service, leading, words_of};
use super::rule::{InterfaceId, Match, Rule};
use crate::packet::Headers;

/// The tables of a list of rules.
#[derive(Clone, Debug)]
pub struct Tuples {
    /// Rules that test no address; searched for every packet.
    any: Tables<0>,
    v4: Tables<1>,
    v6: Tables<4>,
    /// Conditions of patterns on the second word of fields; the first entry has none.
    links: Vec<Link>,
    /// Rules whose patterns are partial: those with long lists of sources and of destinations.
    listed: Vec<(u32, Match)>,
}

/// How to go on after a pattern: only rules below this number matter.
pub type Below = u32;

impl Tuples {
    /// Builds the tables of these rules, with the places of their targets.
    pub fn new(rules: &[Rule], targets: &[u32]) -> Tuples {
        build::tuples(rules, targets, build::Repeats::LeftOut)
    }

    /// Builds the tables of these rules so that [`Tuples::candidates`] finds every rule, including
    /// parts that an earlier rule repeats.
    pub fn with_repeats(rules: &[Rule]) -> Tuples {
        build::tuples(rules, &[], build::Repeats::Included)
    }

    /// Returns the first rule that accepts the packet.
    #[inline]
    pub fn first(&self, key: &Key, interface: InterfaceId, headers: &Headers) -> Option<Decision> {
        let mut first = First { tuples: self, key, interface, headers };
        let found = self.walk(key, headers, Decision::NONE, &mut first);
        (found != Decision::NONE).then_some(found)
    }

    /// Calls `each` with every rule below number `below` that may accept the packet, in an
    /// unspecified order; a rule may come twice. `each` returns how to go on, and is called with
    /// `None` for a rule that did not match, so that it can count.
    pub fn candidates(
        &self,
        key: &Key,
        headers: &Headers,
        below: Below,
        each: impl FnMut(Option<u32>, Below) -> Below,
    ) {
        let mut candidates = Candidates { tuples: self, key, each };
        self.walk(key, headers, Decision::new(below, 0), &mut candidates);
    }

    /// Returns the most tables that one packet is looked up in.
    pub fn tables(&self) -> usize {
        self.any.tables.len() + self.v4.tables.len().max(self.v6.tables.len())
    }

    #[inline]
    fn walk(
        &self,
        key: &Key,
        headers: &Headers,
        below: Decision,
        search: &mut impl Search,
    ) -> Decision {
        let service = Service::of(key.fields[0]);
        let below = match Family::of_packet(headers) {
            None => below,
            Some(Family::V4) => self.v4.walk(&Packet::of(key, service), below, search),
            Some(Family::V6) => self.v6.walk(&Packet::of(key, service), below, search),
        };
        self.any.walk(&Packet::of(key, service), below, search)
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
    /// The lowest rule of each table, in groups that are searched at once; behind them a sentinel,
    /// where the search ends.
    firsts: Vec<[u32; PLACES]>,
    /// The slots of all tables, one table after the other; and one sentinel slot.
    slots: Vec<Slot>,
    /// Patterns in the order of their slots, and within a slot in match order.
    blocks: Vec<Block<WORDS>>,
    /// Whether some table tests the second word of fields.
    linked: bool,
}

impl<const WORDS: usize> Tables<WORDS> {
    #[inline]
    fn walk(
        &self,
        packet: &Packet<WORDS>,
        mut below: Decision,
        search: &mut impl Search,
    ) -> Decision {
        for (number, chunk) in self.tables.chunks(CHUNK).enumerate() {
            let firsts = &self.firsts[number];
            if firsts[0] >= below.rank() {
                break;
            }
            let (slots, mut held) = self.held(chunk, &packet.words);
            loop {
                let index = held.trailing_zeros() as usize % PLACES;
                if firsts[index] >= below.rank() {
                    break;
                }
                held &= held - 1;
                below = self.walk_slot(slots[index], packet, below, search);
            }
        }
        below
    }

    /// Returns the slots of the words in these tables, and a bit for each table that may match,
    /// with one more for the end. Branch-free, so that the cache misses overlap.
    #[inline]
    fn held(&self, chunk: &[Table<WORDS>], words: &Words<WORDS>) -> ([u32; PLACES], u32) {
        match self.linked {
            false => self.held_by(chunk, |mask| mask.hash(words)),
            true => self.held_by(chunk, |mask| mask.hash_linked(words)),
        }
    }

    /// As `held`, with the hash function given.
    #[inline]
    fn held_by(
        &self,
        chunk: &[Table<WORDS>],
        hash: impl Fn(&Words<WORDS>) -> u64,
    ) -> ([u32; PLACES], u32) {
        let (mut slots, mut held) = ([0; PLACES], 1 << CHUNK);
        for (index, table) in chunk.iter().enumerate().take(CHUNK) {
            let (slot, mark) = table.place(hash(&table.mask));
            slots[index] = slot;
            held |= (self.slots[slot as usize].marks >> mark & 1) << index;
        }
        (slots, held)
    }

    /// Goes through the patterns of a slot, which has some.
    #[inline]
    fn walk_slot(
        &self,
        slot: u32,
        packet: &Packet<WORDS>,
        mut below: Decision,
        search: &mut impl Search,
    ) -> Decision {
        let [start, end] = [slot, slot + 1].map(|slot| self.slots[slot as usize].start as usize);
        let mut next = start;
        loop {
            let stop = end.min(next + STRETCH);
            for block in &self.blocks[next..stop] {
                below = search.block(block, packet, below);
            }
            // Rules only rise: once they reach the match found, no later one can precede it.
            let done = |block: &Block<WORDS>| block.0[0].conditions.decision >= below;
            if stop == end || done(&self.blocks[stop]) {
                return below;
            }
            next = stop;
        }
    }
}

/// A visitor of the blocks whose patterns a packet may satisfy.
trait Search {
    /// Looks at a block; returns how to go on: only rules before this decision matter.
    fn block<const WORDS: usize>(
        &mut self,
        block: &Block<WORDS>,
        packet: &Packet<WORDS>,
        below: Decision,
    ) -> Decision;
}

/// Looks for the first rule.
struct First<'a> {
    tuples: &'a Tuples,
    key: &'a Key,
    interface: InterfaceId,
    headers: &'a Headers,
}

impl Search for First<'_> {
    /// Branch-free, since which pattern of a block a packet satisfies is unpredictable.
    #[inline]
    fn block<const WORDS: usize>(
        &mut self,
        block: &Block<WORDS>,
        packet: &Packet<WORDS>,
        below: Decision,
    ) -> Decision {
        let Block(patterns) = block;
        let bits = patterns.iter().enumerate().fold(0u32, |bits, (index, pattern)| {
            bits | u32::from(pattern.accepts(packet)) << index
        });
        let conditions = &patterns[bits.trailing_zeros() as usize % BLOCK].conditions;
        if conditions.link != 0 {
            return self.rest(block, bits, below);
        }
        below.min(conditions.decision.only_if(bits != 0))
    }
}

impl First<'_> {
    /// Returns the first pattern of these bits that is satisfied in full.
    #[inline(never)]
    fn rest<const WORDS: usize>(
        &self,
        block: &Block<WORDS>,
        bits: u32,
        below: Decision,
    ) -> Decision {
        let mut found = block.0.iter().enumerate().filter(|(index, _)| bits >> index & 1 == 1);
        let found = found.find(|(_, pattern)| {
            let Conditions { decision, link, .. } = pattern.conditions;
            if decision >= below {
                return false;
            }
            match pattern.conditions.is_partial() {
                true => self.tuples.accepts_listed(decision.rank(), self.interface, self.headers),
                false => accepts_link(link, self.key, &self.tuples.links),
            }
        });
        found.map_or(below, |(_, pattern)| pattern.conditions.decision)
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
        packet: &Packet<WORDS>,
        mut below: Decision,
    ) -> Decision {
        for pattern in &block.0 {
            let Conditions { decision, link, .. } = pattern.conditions;
            if decision < below {
                let may =
                    pattern.accepts(packet) && accepts_link(link, self.key, &self.tuples.links);
                let next = (self.each)(may.then_some(decision.rank()), below.rank());
                below = Decision::new(next, 0);
            }
        }
        below
    }
}

/// A packet as tables and patterns see it.
#[derive(Clone, Copy, Debug)]
struct Packet<const WORDS: usize> {
    words: Words<WORDS>,
    service: Service,
}

impl<const WORDS: usize> Packet<WORDS> {
    #[inline]
    fn of(key: &Key, service: Service) -> Packet<WORDS> {
        Packet { words: Words::of(key), service }
    }
}

/// The words of a packet under a mask, or the mask.
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

    /// Returns the hash of `words` under this mask, without the second word of fields. It is a sum
    /// of products, so its uppermost bits depend on every bit of the words; use those. Rules alone
    /// decide which patterns share a bucket, so packets cannot cause collisions.
    #[inline]
    fn hash(&self, words: &Words<WORDS>) -> u64 {
        let mut hash = (words.fields[0] & self.fields[0]).wrapping_mul(FIELD_KEYS[0]);
        for (index, key) in ADDRESS_KEYS.iter().enumerate().take(WORDS) {
            let word = words.addresses[index] & self.addresses[index];
            hash = hash.wrapping_add(word.wrapping_mul(*key));
        }
        hash
    }

    /// Returns the hash of all `words` under this mask; equal to `hash` where the mask has no bits
    /// of the second word of fields.
    #[inline]
    fn hash_linked(&self, words: &Words<WORDS>) -> u64 {
        let link = words.fields[1] & self.fields[1];
        self.hash(words).wrapping_add(link.wrapping_mul(FIELD_KEYS[1]))
    }
}

/// The rules that share a mask.
#[derive(Clone, Debug)]
struct Table<const WORDS: usize> {
    mask: Words<WORDS>,
    /// The first of its slots.
    first: u32,
    /// How far a hash is shifted to leave the bits for a slot, and below these the bits for a mark.
    shift: u32,
}

impl<const WORDS: usize> Table<WORDS> {
    /// A table of `slots` slots, a power of two.
    fn new(mask: Words<WORDS>, first: u32, slots: u32) -> Table<WORDS> {
        Table { mask, first, shift: u64::BITS - MARK_BITS - slots.ilog2() }
    }

    /// Returns the slot of a hash, and its bit in the marks there.
    #[inline]
    fn place(&self, hash: u64) -> (u32, u32) {
        let upper = hash >> (self.shift % u64::BITS);
        (self.first + (upper >> MARK_BITS) as u32, upper as u32 % (1 << MARK_BITS))
    }
}

/// The patterns whose hashes share a slot: from block `start` to that of the next slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    start: u32,
    /// A bit for each pattern, by its hash; most packets without a match are ruled out by it.
    marks: u32,
}

/// Patterns of one slot, compared without a branch between them; the last ones may be unused.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block<const WORDS: usize>([Pattern<WORDS>; BLOCK]);

/// A rule, or a part of one that has several prefixes. Small, since with many rules the cost of a
/// packet is cache misses.
#[derive(Clone, Copy, Debug)]
struct Pattern<const WORDS: usize> {
    addresses: [u64; WORDS],
    conditions: Conditions,
}

impl<const WORDS: usize> Pattern<WORDS> {
    /// Returns whether the packet has the addresses and satisfies the conditions on the first word
    /// of fields.
    #[inline]
    fn accepts(&self, packet: &Packet<WORDS>) -> bool {
        self.accepts_addresses(&packet.words) & self.conditions.accepts(&packet.service)
    }

    #[inline]
    fn accepts_addresses(&self, words: &Words<WORDS>) -> bool {
        let differing: [u64; WORDS] =
            core::array::from_fn(|index| words.addresses[index] ^ self.addresses[index]);
        let (source, destination) = self.conditions.lens;
        match differing[..] {
            [both] => {
                // Moves the leading bits of each half, as many as the prefix is long, into the
                // upper half.
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

/// The conditions of a pattern other than addresses, and the lengths of its prefixes.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    decision: Decision,
    /// Value and mask of protocol and traffic class. A tested field must be present.
    class: (u16, u16),
    /// The first source port, and the number of further ports; then the same for destination ports.
    /// Ports must be present unless both ranges are any.
    ports: [(u16, u16); 2],
    lens: (u8, u8),
    /// The second word of fields: a place in `Tuples::links` or [`PARTIAL`].
    link: u16,
}

// One cache line for the patterns that most packets meet.
const _: () = assert!(size_of::<Block<0>>() == 64 && size_of::<Block<1>>() == 64);

/// Value and mask of the second word of fields.
type Link = (u64, u64);

impl Conditions {
    /// Returns whether the packet satisfies the conditions on the first word of fields.
    /// Branch-free: which patterns of a bucket a packet fails is unpredictable.
    #[inline]
    fn accepts(&self, service: &Service) -> bool {
        let (value, mask) = self.class;
        let within = |port: u16, (first, more): (u16, u16)| {
            port.wrapping_sub(first) | service.ports_lack <= more
        };
        (((service.class ^ value) | service.class_lack) & mask == 0)
            & within(service.ports.0, self.ports[0])
            & within(service.ports.1, self.ports[1])
    }

    /// Returns the same conditions of a rule.
    fn of(self, decision: Decision) -> Conditions {
        Conditions { decision, ..self }
    }

    /// Returns the same conditions, marked as partial if the pattern leaves some out.
    fn partial_if(self, left_out: bool) -> Conditions {
        Conditions { link: if left_out { PARTIAL } else { self.link }, ..self }
    }

    /// Returns whether the rule has conditions that the pattern leaves out.
    #[inline]
    fn is_partial(&self) -> bool {
        self.link == PARTIAL
    }

    /// Accepts nothing, since no rule has this number; fills a block.
    const NONE: Conditions = Conditions {
        decision: Decision::NONE,
        class: (0, 0),
        ports: [(0, u16::MAX); 2],
        lens: (0, 0),
        link: 0,
    };
}

fn accepts_link(link: u16, key: &Key, links: &[Link]) -> bool {
    links.get(usize::from(link)).is_none_or(|(value, mask)| key.fields[1] & mask == *value)
}

/// Marks patterns that leave out a condition: the whole rule must be compared.
const PARTIAL: u16 = u16::MAX;
/// The lower half of a word.
const LOWER_HALF: u64 = 0xffff_ffff;
/// Tables whose memory is fetched together.
const CHUNK: usize = 8;
/// Patterns in a block.
const BLOCK: usize = 2;
/// Blocks compared before testing whether the next may still decide: more than most slots have,
/// since that test is unpredictable.
const STRETCH: usize = 4;
/// Places for results of a group of tables and the end: a power of two.
const PLACES: usize = 16;
/// A slot has a mark for each value of this many bits.
const MARK_BITS: u32 = 5;
/// Odd and irregular: the first numbers that SplitMix64 draws from 0, made odd.
const ADDRESS_KEYS: [u64; 4] =
    [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f5, 0x06c4_5d18_8009_454f, 0xf88b_b8a8_724c_81ed];
const FIELD_KEYS: [u64; 2] = [0x1b39_896a_51a8_749b, 0x53cb_9f0c_747e_a2eb];
