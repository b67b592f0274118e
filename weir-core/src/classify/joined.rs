//! Rules of classes that join while the classifier runs, added and removed one class at a time.
//!
//! They are tried behind all rules that the classifier was built with. Of those that accept a
//! packet the one with the longest prefixes decides, as in a routing table, so that it does not
//! matter which class joined first; of several such the one whose class has the first leaf. Each
//! rule becomes a few patterns: a key of the packet under a mask of those
//! bits that the rule demands (`key.rs`). All patterns are in one hash table of chains; a packet is
//! looked up once for each mask in use, and each rule found is compared in full. All memory is
//! allocated at the start and comes with the rules ([`RuleSet`]), so joining and leaving allocate
//! and free nothing, and take time in proportion to the patterns of the class.
//! Invariant: the result equals that of comparing every rule.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::key::{Bits, Family, Key, Single, field_words, fold, leading, words_of};
use super::rule::{InterfaceId, Match, PortRange, Prefix, Rule, Target};
use crate::ids::LeafId;
use crate::packet::Headers;

/// The rules of a class, ready to join; a policy and all classifiers made from it share them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RuleSet {
    rules: Box<[Rule]>,
    /// With the number of the rule; first those of the first one.
    patterns: Box<[(Words, Words, u16)]>,
}

/// Rules by the places of their classes.
#[derive(Clone, Debug)]
pub(super) struct JoinedRules {
    /// The leaf of the first place.
    first: LeafId,
    /// By place.
    sets: Vec<Option<Arc<RuleSet>>>,
    masks: Vec<Mask>,
    /// By hash, the first pattern of the chain.
    chains: Vec<u32>,
    patterns: Vec<Pattern>,
    /// The first pattern that is free; the others follow as a chain.
    free: u32,
    free_count: usize,
    /// Classes of which a rule has details.
    detailed: usize,
}

/// The words of a key.
pub(super) type Words = [u64; 6];

#[derive(Clone, Copy, Debug)]
struct Mask {
    words: Words,
    /// How many patterns have it; 0 for one that is free.
    patterns: u32,
}

#[derive(Clone, Copy, Debug)]
struct Pattern {
    key: Words,
    mask: u8,
    rule: u16,
    place: u32,
    next: u32,
}

impl RuleSet {
    /// Makes the patterns of these rules.
    ///
    /// # Errors
    /// When there are more rules than a class may join with; the text has the bound.
    pub fn new(rules: Vec<Rule>) -> Result<Arc<RuleSet>, String> {
        if rules.len() > RULES_MAX {
            return Err(alloc::format!(
                "{} rules are more than the {RULES_MAX} of a class that joins; write lists of \
                 prefixes or ports",
                rules.len()
            ));
        }
        let numbered = rules.iter().zip(0u16..);
        let patterns = numbered.flat_map(|(rule, number)| patterns(&rule.matches, number));
        let patterns = patterns.collect();
        Ok(Arc::new(RuleSet { rules: rules.into(), patterns }))
    }

    /// Returns the rules in the order in which they were declared.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    fn tests_details(&self) -> bool {
        self.rules.iter().any(|rule| rule.matches.details.is_some())
    }
}

/// Returns value and mask of each combination of the values in the lists of a rule. Where there are
/// too many, lists are replaced by what their values have in common.
pub(super) fn patterns(matches: &Match, rule: u16) -> Vec<(Words, Words, u16)> {
    let mut singles = singles(matches);
    let mut rows = Vec::new();
    for family in families(matches) {
        let [mut sources, mut destinations] =
            [&matches.sources, &matches.destinations].map(|list| of_family(list, family));
        if sources.len() * destinations.len() * singles.len() > PATTERNS_MAX {
            singles.truncate(1);
            singles[0] = Single::default();
        }
        if sources.len() * destinations.len() > PATTERNS_MAX {
            (sources, destinations) = (common(&sources), common(&destinations));
        }
        let addresses = sources.iter().flat_map(|source| {
            destinations.iter().map(move |destination| address_words(family, *source, *destination))
        });
        for (bits, bits_mask) in addresses {
            rows.extend(singles.iter().map(|single| {
                let (value, mask) = field_words(matches, *single);
                (joined(bits, value), joined(bits_mask, mask), rule)
            }));
        }
    }
    rows
}

/// Returns value and mask of a pair of prefixes.
fn address_words(family: Option<Family>, source: Bits, destination: Bits) -> ([u64; 4], [u64; 4]) {
    let words =
        |source, destination| family.map_or([0; 4], |family| words_of(family, source, destination));
    let mask = words(leading(source.len), leading(destination.len));
    (words(source.bits, destination.bits), mask)
}

pub(super) fn joined(addresses: [u64; 4], fields: [u64; 2]) -> Words {
    let [a, b, c, d] = addresses;
    [a, b, c, d, fields[0], fields[1]]
}

/// Returns the families of the packets that a rule can match; `None` for any packet.
fn families(matches: &Match) -> Vec<Option<Family>> {
    if matches.sources.is_empty() && matches.destinations.is_empty() {
        return alloc::vec![None];
    }
    let has = |list: &[Prefix], family| {
        list.is_empty() || list.iter().any(|prefix| Family::of(prefix) == family)
    };
    let both = [Family::V4, Family::V6].into_iter();
    let met =
        both.filter(|family| has(&matches.sources, *family) && has(&matches.destinations, *family));
    met.map(Some).collect()
}

fn of_family(list: &[Prefix], family: Option<Family>) -> Vec<Bits> {
    if list.is_empty() {
        return alloc::vec![Bits::ANY];
    }
    list.iter().filter(|prefix| Some(Family::of(prefix)) == family).map(Bits::of).collect()
}

fn common(list: &[Bits]) -> Vec<Bits> {
    alloc::vec![list.iter().copied().reduce(Bits::common).unwrap_or(Bits::ANY)]
}

fn singles(matches: &Match) -> Vec<Single> {
    fn each<T: Copy>(list: &[T]) -> Vec<Option<T>> {
        match list.len() {
            1..=PATTERNS_MAX => list.iter().copied().map(Some).collect(),
            _ => alloc::vec![None],
        }
    }
    let sources: Vec<Option<PortRange>> = each(&matches.source_ports);
    let destinations = each(&matches.destination_ports);
    let dscps = each(&matches.dscps);
    let mut rows = Vec::new();
    for &source in &sources {
        for &destination in &destinations {
            let single = |dscp: &Option<_>| Single { ports: [source, destination], dscp: *dscp };
            rows.extend(dscps.iter().map(single));
        }
    }
    rows
}

/// Returns the hash of a key under a mask.
pub(super) fn hash(key: &Words, mask: u32) -> u64 {
    let seed = u64::from(mask) + 1;
    key.iter().fold(seed.wrapping_mul(SPREAD), |hash, word| {
        fold(hash ^ word ^ SPREAD, SPREAD).wrapping_add(hash.rotate_left(23))
    })
}

impl JoinedRules {
    /// Room for the rules of so many classes, whose leaves begin with `first`.
    pub fn new(first: LeafId, places: usize) -> JoinedRules {
        let capacity = (places * PATTERNS_EACH).max(PATTERNS_LEAST);
        let pattern = |next| Pattern { key: [0; 6], mask: 0, rule: 0, place: 0, next };
        let mut patterns: Vec<_> = (1..=capacity as u32).map(pattern).collect();
        patterns[capacity - 1].next = NONE;
        JoinedRules {
            first,
            sets: alloc::vec![None; places],
            masks: Vec::with_capacity(MASKS_MAX),
            chains: alloc::vec![NONE; (2 * capacity).next_power_of_two()],
            patterns,
            free: 0,
            free_count: capacity,
            detailed: 0,
        }
    }

    /// Returns whether there is room for these rules in place of those that `leaf` has.
    ///
    /// # Errors
    /// When there is none; the text has the bound and the cure.
    pub fn fits(&self, leaf: LeafId, set: &RuleSet) -> Result<(), String> {
        let own = self.set(leaf).map_or(0, |set| set.patterns.len());
        if set.patterns.len() > self.free_count + own {
            return Err(alloc::format!(
                "its rules stand for {} combinations of values, and the places have room for {} \
                 more; write prefixes and ranges, or more `places`",
                set.patterns.len(),
                self.free_count + own
            ));
        }
        let mut fresh: Vec<Words> = Vec::new();
        for (key, mask, _) in &set.patterns {
            let known = self.mask(mask);
            if known.is_none() && !fresh.contains(mask) {
                fresh.push(*mask);
            }
            let length = known.map_or(0, |mask| self.chain_of(key, mask).count());
            let own = set.patterns.iter().filter(|other| (&other.0, &other.1) == (key, mask));
            if length + own.count() > ALIKE_MAX {
                return Err(alloc::format!(
                    "{length} rules of classes at places test the same values as one of its rules, \
                     {ALIKE_MAX} may; write a condition that tells them apart, such as an address"
                ));
            }
        }
        let free = MASKS_MAX - self.masks.iter().filter(|mask| mask.patterns > 0).count();
        if fresh.len() > free {
            return Err(alloc::format!(
                "its rules test {} combinations of fields and prefix lengths that no other class \
                 at a place tests; there is room for {free} more of {MASKS_MAX}; write rules like \
                 the others'",
                fresh.len()
            ));
        }
        Ok(())
    }

    /// Replaces the rules of `leaf`, none for a class that leaves; returns those that it had. The
    /// new ones must fit.
    pub fn replace(&mut self, leaf: LeafId, set: Option<Arc<RuleSet>>) -> Option<Arc<RuleSet>> {
        let place = self.place(leaf)?;
        let before = self.sets[place].take();
        let detailed = |set: &Arc<RuleSet>| usize::from(set.tests_details());
        self.detailed -= before.as_ref().map_or(0, detailed);
        self.detailed += set.as_ref().map_or(0, detailed);
        if let Some(before) = &before {
            before.patterns.iter().for_each(|row| self.remove(place as u32, row));
        }
        if let Some(set) = &set {
            set.patterns.iter().for_each(|row| self.insert(place as u32, row));
        }
        self.sets[place] = set;
        before
    }

    /// Returns whether a rule has details.
    pub fn tests_details(&self) -> bool {
        self.detailed > 0
    }

    /// Returns the target of the rule that decides about the packet, whose key is `key`, and the
    /// number of the rule in its class.
    pub fn first(
        &self,
        key: &Key,
        interface: InterfaceId,
        headers: &Headers,
    ) -> Option<(Target, u16)> {
        let words = joined(key.addresses, key.fields);
        let mut found: Option<(Reverse<u32>, u32, u16)> = None;
        for (number, mask) in self.masks.iter().enumerate().filter(|row| row.1.patterns > 0) {
            let masked = core::array::from_fn(|word| words[word] & mask.words[word]);
            for pattern in self.chain_of(&masked, number as u8) {
                let matches = &self.rule(pattern).matches;
                if matches.accepts(interface, headers) {
                    let bits = Reverse(matches.address_bits(&headers.addresses));
                    let rank = (bits, pattern.place, pattern.rule);
                    found = Some(found.map_or(rank, |found| found.min(rank)));
                }
            }
        }
        let (_, place, rule) = found?;
        let set = self.sets[place as usize].as_ref()?;
        Some((set.rules[usize::from(rule)].target(), rule))
    }

    fn set(&self, leaf: LeafId) -> Option<&RuleSet> {
        self.sets[self.place(leaf)?].as_deref()
    }

    fn place(&self, leaf: LeafId) -> Option<usize> {
        let place = leaf.index().checked_sub(self.first.index())?;
        (place < self.sets.len()).then_some(place)
    }

    fn rule(&self, pattern: &Pattern) -> &Rule {
        let set = self.sets[pattern.place as usize].as_ref();
        &set.expect("a pattern has a rule").rules[usize::from(pattern.rule)]
    }

    /// Returns the number of a mask that is in use.
    fn mask(&self, words: &Words) -> Option<u8> {
        let is_it = |mask: &Mask| mask.patterns > 0 && mask.words == *words;
        self.masks.iter().position(is_it).map(|number| number as u8)
    }

    /// Returns the patterns with this key under this mask.
    fn chain_of<'s>(&'s self, key: &'s Words, mask: u8) -> impl Iterator<Item = &'s Pattern> {
        let first = self.chains[self.chain(key, mask)];
        let at = |at: u32| self.patterns.get(at as usize);
        let all = core::iter::successors(at(first), move |pattern| at(pattern.next));
        all.filter(move |pattern| pattern.mask == mask && pattern.key == *key)
    }

    /// Returns the chain of a key under a mask.
    fn chain(&self, key: &Words, mask: u8) -> usize {
        (hash(key, mask.into()) >> 7) as usize & (self.chains.len() - 1)
    }

    fn insert(&mut self, place: u32, (key, words, rule): &(Words, Words, u16)) {
        let known = self.mask(words).map(usize::from);
        let unused = || self.masks.iter().position(|mask| mask.patterns == 0);
        let number = known.or_else(unused).unwrap_or(self.masks.len());
        if number == self.masks.len() {
            assert!(number < MASKS_MAX, "rules that do not fit are refused");
            self.masks.push(Mask { words: *words, patterns: 0 });
        }
        self.masks[number].words = *words;
        self.masks[number].patterns += 1;
        let (mask, chain) = (number as u8, self.chain(key, number as u8));
        let at = self.free as usize;
        assert!(self.free_count > 0, "rules that do not fit are refused");
        (self.free, self.free_count) = (self.patterns[at].next, self.free_count - 1);
        let next = self.chains[chain];
        self.patterns[at] = Pattern { key: *key, mask, rule: *rule, place, next };
        self.chains[chain] = at as u32;
    }

    fn remove(&mut self, place: u32, (key, words, rule): &(Words, Words, u16)) {
        let mask = self.mask(words).expect("its pattern has it");
        let chain = self.chain(key, mask);
        let is_it = |pattern: &Pattern| {
            (pattern.place, pattern.rule, pattern.mask) == (place, *rule, mask)
                && pattern.key == *key
        };
        let (mut before, mut at) = (None, self.chains[chain] as usize);
        while !is_it(&self.patterns[at]) {
            (before, at) = (Some(at), self.patterns[at].next as usize);
        }
        let next = self.patterns[at].next;
        match before {
            Some(before) => self.patterns[before].next = next,
            None => self.chains[chain] = next,
        }
        self.patterns[at].next = self.free;
        (self.free, self.free_count) = (at as u32, self.free_count + 1);
        self.masks[usize::from(mask)].patterns -= 1;
    }
}

/// The end of a chain.
const NONE: u32 = u32::MAX;
/// Bound: rules of a class that joins; one with more is refused.
pub const RULES_MAX: usize = 64;
/// Bound: patterns of a rule in one family; with more, some fields are tested afterwards.
const PATTERNS_MAX: usize = 16;
/// The patterns for which there is room, for each place, and in all at least.
const PATTERNS_EACH: usize = 4;
const PATTERNS_LEAST: usize = 256;
/// Bound: combinations of fields that classes at places test; a class that needs a further one is
/// refused. A packet is looked up once for each.
const MASKS_MAX: usize = 32;
/// Bound: rules of classes at places with equal values; a class with a further one is refused. A
/// packet with these values is compared with each.
const ALIKE_MAX: usize = 64;
/// An odd number with about as many bits set as not: that of SplitMix64.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
