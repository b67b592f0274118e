//! The rules of a classifier, looked up: what the headers of a packet decide by themselves.
//!
//! A lookup has no state but a cache of answers, which decides nothing. So several threads may look
//! packets up in the same [`Rules`], each with a cache of its own, and find the same. The rest,
//! such as later fragments and classes that joined, is up to the one classifier.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::details::Details;
use super::flow_cache::FlowCache;
use super::key::{DETAILS_MAX, Key};
use super::rule::{InterfaceId, Rule, Target};
use super::{AnySearch, Decision};
use crate::packet::{Fragment, Headers};

/// Rules, ready to be searched; they do not change.
#[derive(Debug)]
pub struct Rules {
    search: AnySearch,
    /// By rank: place among the rules as declared. Empty if rank and place are equal.
    declared: Vec<u32>,
    /// The distinct targets of rules: many rules have few targets, which stay in the processor's
    /// cache.
    targets: Vec<Target>,
    /// Conditions of rules on more than the fields of keys; `None` if no rule has one.
    beside: Option<Box<Beside>>,
    /// The flows of a cache in front of them, 0 for none, and its seed.
    flows: u32,
    seed: u64,
}

/// Conditions of rules on more than the fields of keys.
#[derive(Debug)]
struct Beside {
    /// Whether one tests stations or marks.
    stations_or_marks: bool,
    /// The distinct details of rules.
    details: Vec<Details>,
}

/// Rules with a flow cache in front of them.
#[derive(Clone, Debug)]
pub struct Lookup {
    rules: Arc<Rules>,
    cache: Option<FlowCache>,
    flows_max: u32,
}

impl Rules {
    /// Makes rules in match order, each with its place as declared, ready for the algorithm of this
    /// keyword, which is registered, with a cache of so many flows and its seed.
    pub(super) fn new(
        keyword: &str,
        arranged: Vec<(u32, Rule)>,
        (flows, seed): (u32, u64),
    ) -> Rules {
        let (declared, rules): (Vec<u32>, Vec<Rule>) = arranged.into_iter().unzip();
        let in_order = declared.iter().zip(0..).all(|(place, rank)| *place == rank);
        let (targets, places) = distinct(rules.iter().map(Rule::target));
        Rules {
            search: AnySearch::build(keyword, &rules, &places),
            declared: if in_order { Vec::new() } else { declared },
            targets,
            beside: Beside::of(&rules),
            flows,
            seed,
        }
    }

    /// Other rules for the same algorithm and cache.
    pub(super) fn with(&self, arranged: Vec<(u32, Rule)>) -> Rules {
        Rules::new(self.search.keyword(), arranged, (self.flows, self.seed))
    }

    pub(super) fn targets(&self) -> &Vec<Target> {
        &self.targets
    }

    /// Returns the most tables that the algorithm looks into for one packet.
    pub(super) fn tables(&self) -> usize {
        self.search.tables()
    }

    /// Returns whether a rule has details.
    pub(super) fn tests_details(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| !beside.details.is_empty())
    }

    /// Returns the key of a packet, and whether it has all that rules test.
    #[inline]
    pub(super) fn key(&self, interface: InterfaceId, headers: &Headers) -> (Key, bool) {
        let mut key = Key::of(interface, headers);
        let has_all = self.beside.as_ref().is_none_or(|beside| beside.add(&mut key, headers));
        (key, has_all)
    }

    /// Returns the target of a decision, and the place of its rule as declared.
    #[inline]
    pub(super) fn target(&self, found: Decision) -> (Target, u32) {
        let rank = found.rank();
        let declared = *self.declared.get(rank as usize).unwrap_or(&rank);
        (self.targets[found.target() as usize], declared)
    }
}

impl Lookup {
    /// A lookup in these rules, whose cache has as many flows as they want, but at most so many.
    pub fn new(rules: Arc<Rules>, flows_max: u32) -> Lookup {
        let flows = rules.flows.min(flows_max);
        let cache = (flows > 0).then(|| FlowCache::new(flows, rules.seed));
        Lookup { rules, cache, flows_max }
    }

    /// Takes other rules. If they want the same cache it stays, with no answer in it.
    pub fn replace(&mut self, rules: Arc<Rules>) {
        if (rules.flows, rules.seed) != (self.rules.flows, self.rules.seed) {
            *self = Lookup::new(rules, self.flows_max);
            return;
        }
        self.rules = rules;
        if let Some(cache) = &mut self.cache {
            cache.next_generation();
        }
    }

    /// Returns the rules.
    #[inline]
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Returns the decision for a packet that came in by `interface`, [`Decision::NONE`] if no rule
    /// matches; `None` for a fragment, about which others of its datagram have a say.
    #[inline]
    pub fn find(&mut self, interface: InterfaceId, headers: &Headers) -> Option<Decision> {
        (headers.fragment == Fragment::None).then(|| self.search(interface, headers))
    }

    /// As [`Lookup::find`], of any packet by its own headers.
    #[inline]
    pub(super) fn search(&mut self, interface: InterfaceId, headers: &Headers) -> Decision {
        let rules = &*self.rules;
        let (key, has_all) = rules.key(interface, headers);
        let Some(cache) = self.cache.as_mut().filter(|_| has_all) else {
            return rules.search.first_match(&key, interface, headers).unwrap_or(Decision::NONE);
        };
        let hash = cache.hash(&key);
        cache.recall(hash, &key).unwrap_or_else(|| {
            let found = rules.search.first_match(&key, interface, headers);
            let found = found.unwrap_or(Decision::NONE);
            cache.remember(hash, &key, found);
            found
        })
    }
}

impl Beside {
    fn of(rules: &[Rule]) -> Option<Box<Beside>> {
        let stations_or_marks = rules.iter().any(|rule| rule.matches.tests_beside());
        let mut details: Vec<Details> = Vec::new();
        for one in rules.iter().filter_map(|rule| rule.matches.details.as_deref()) {
            // More do not fit into a key, so how many more there are does not matter.
            if details.len() <= DETAILS_MAX && !details.contains(one) {
                details.push(one.clone());
            }
        }
        let is_empty = !stations_or_marks && details.is_empty();
        (!is_empty).then(|| Box::new(Beside { stations_or_marks, details }))
    }

    /// Adds to a key what rules test beside its fields; returns false if it has no room for that.
    fn add(&self, key: &mut Key, headers: &Headers) -> bool {
        if self.stations_or_marks && !key.add_beside(headers) || self.details.len() > DETAILS_MAX {
            return false;
        }
        let met = self.details.iter().map(|details| details.accepts(headers));
        key.add_details(met.rev().fold(0, |bits, met| bits << 1 | u16::from(met)));
        true
    }
}

/// Returns each distinct target once, and by rank the place of the rule's target among these.
fn distinct(targets: impl Iterator<Item = Target>) -> (Vec<Target>, Vec<u32>) {
    let mut known = BTreeMap::new();
    let mut distinct = Vec::new();
    let place = |target| {
        *known.entry(target).or_insert_with(|| {
            distinct.push(target);
            distinct.len() as u32 - 1
        })
    };
    let places = targets.map(place).collect();
    (distinct, places)
}
