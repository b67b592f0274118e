//! Finds the class that joined whose rule takes all packets of another rule: it accepts them, and
//! has prefixes as long as the other rule's, or the longer ones would decide (`joined.rs`).
//!
//! As in `cover.rs`, a rule that covers another one accepts an example packet of it. Rules of
//! classes that join have patterns: a key under a mask (`joined.rs`). They are kept here in order,
//! so the classes with a pattern that the example has are found by one search for each mask, and
//! only their rules are compared in full.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::cover::{LOOKS_MAX, covers, example};
use super::joined::{Words, hash, joined, patterns};
use super::key::Key;
use super::rule::{Match, Rule};
use crate::ids::LeafId;
use crate::packet::Addresses;

/// The patterns of classes that joined, searched for one that covers a rule.
#[derive(Clone, Debug, Default)]
pub struct JoinedCovers {
    /// `None` where no row has the number.
    masks: Vec<Option<Words>>,
    /// The number of a mask, the hash of a key under it, and a leaf that has this pattern.
    rows: BTreeSet<(u32, u64, LeafId)>,
}

impl JoinedCovers {
    /// Adds the rules of a leaf, which has none.
    pub fn insert(&mut self, leaf: LeafId, rules: &[Rule]) {
        for (key, mask) in rows(rules) {
            let unused = || self.masks.iter().position(Option::is_none);
            let number = self.mask(&mask).or_else(unused).unwrap_or(self.masks.len());
            if number == self.masks.len() {
                self.masks.push(None);
            }
            self.masks[number] = Some(mask);
            self.rows.insert((number as u32, hash(&key, number as u32), leaf));
        }
    }

    /// Removes the rules that a leaf has.
    pub fn remove(&mut self, leaf: LeafId, rules: &[Rule]) {
        for (key, mask) in rows(rules) {
            // Two rules of a leaf may have one pattern.
            let Some(at) = self.mask(&mask) else { continue };
            let number = at as u32;
            self.rows.remove(&(number, hash(&key, number), leaf));
            let of_mask = (number, 0, LeafId(0))..=(number, u64::MAX, LeafId(u32::MAX));
            if self.rows.range(of_mask).next().is_none() {
                self.masks[at] = None;
            }
        }
    }

    fn mask(&self, words: &Words) -> Option<usize> {
        self.masks.iter().position(|mask| mask.as_ref() == Some(words))
    }

    /// Returns the first leaf with a rule that covers `inner`; `leaf` itself is left out.
    /// `rules_of` returns the rules of a leaf.
    pub fn first<'r>(
        &self,
        (leaf, inner): (LeafId, &Match),
        rules_of: impl Fn(LeafId) -> &'r [Rule],
    ) -> Option<LeafId> {
        let (interface, headers) = example(inner)?;
        let key = Key::of(interface, &headers);
        let words = joined(key.addresses, key.fields);
        let numbered = self.masks.iter().zip(0u32..);
        let found = numbered.filter_map(|(mask, number)| {
            let mask = mask.as_ref()?;
            let masked = core::array::from_fn(|word| words[word] & mask[word]);
            let hash = hash(&masked, number);
            let alike = (number, hash, LeafId(0))..=(number, hash, LeafId(u32::MAX));
            let mut leaves = self.rows.range(alike).map(|row| row.2).take(LOOKS_MAX as usize);
            leaves.find(|other| {
                let takes = |rule: &Rule| takes(&rule.matches, inner, &headers.addresses);
                *other != leaf && rules_of(*other).iter().any(takes)
            })
        });
        found.min()
    }
}

/// Returns whether a rule covers another one whose prefixes are no longer; `example` are addresses
/// of the other one.
fn takes(outer: &Match, inner: &Match, example: &Addresses) -> bool {
    covers(outer, inner) && outer.address_bits(example) >= inner.address_bits(example)
}

/// Returns key and mask of each pattern.
fn rows(rules: &[Rule]) -> impl Iterator<Item = (Words, Words)> {
    let all = rules.iter().flat_map(|rule| patterns(&rule.matches, 0));
    all.map(|(key, mask, _)| (key, mask))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::cover::tests::random_match;
    use crate::random::Random;
    use alloc::collections::BTreeMap;

    /// The oracle: compares with every rule of every other leaf.
    fn naive(all: &BTreeMap<LeafId, Vec<Rule>>, leaf: LeafId, inner: &Match) -> Option<LeafId> {
        let (_, headers) = example(inner)?;
        let takes = |rule: &Rule| takes(&rule.matches, inner, &headers.addresses);
        let mut others = all.iter().filter(|(other, _)| **other != leaf);
        others.find(|(_, rules)| rules.iter().any(takes)).map(|(other, _)| *other)
    }

    #[test]
    fn the_patterns_find_the_same_leaf_as_comparing_all_rules() {
        let mut found = 0;
        for seed in 0..200 {
            let mut random = Random::new(seed, 0);
            let (mut all, mut index) = (BTreeMap::new(), JoinedCovers::default());
            for _ in 0..60 {
                let leaf = LeafId(random.below(12));
                let rule = |_| Rule::new(random_match(&mut random), leaf);
                let rules: Vec<Rule> = (0..2).map(rule).collect();
                for rule in &rules {
                    let expected = naive(&all, leaf, &rule.matches);
                    let rules_of = |leaf| all[&leaf].as_slice();
                    assert_eq!(index.first((leaf, &rule.matches), rules_of), expected, "{seed}");
                    found += u32::from(expected.is_some());
                }
                if let Some(before) = all.remove(&leaf) {
                    index.remove(leaf, &before);
                } else {
                    index.insert(leaf, &rules);
                    all.insert(leaf, rules);
                }
            }
            for (leaf, rules) in all {
                index.remove(leaf, &rules);
            }
            assert!(index.rows.is_empty(), "seed {seed}: {index:?}");
            assert!(index.masks.iter().all(Option::is_none), "seed {seed}: {index:?}");
        }
        assert!(found > 500, "{found}");
    }
}
