//! Rules that test the addresses of Ethernet stations, beside the tables for all others.
//!
//! Few policies have such rules, so neither the key of packets nor the tables hold station
//! addresses. Each such rule is listed under every station that it names: a packet costs two binary
//! searches, and a comparison with each rule for its stations. Invariant: a rule with a condition
//! on stations is listed under each station of a packet that can satisfy it.

use alloc::vec::Vec;

use super::Decision;
use super::rule::{InterfaceId, Match, Rule};
use crate::packet::{Headers, MacAddress};

/// The rules of a list that test stations.
#[derive(Clone, Debug, Default)]
pub struct MacRules {
    rules: Vec<(Match, Decision)>,
    /// Rules by a source that they name, in match order; as places in `rules`.
    by_source: Vec<(MacAddress, u32)>,
    /// Rules that name destinations only, by these.
    by_destination: Vec<(MacAddress, u32)>,
}

impl MacRules {
    /// Lists those of `rules` that test stations, with the places of their targets.
    pub fn new(rules: &[Rule], targets: &[u32]) -> MacRules {
        let mut list = MacRules::default();
        for ((rule, target), rank) in rules.iter().zip(targets).zip(0..) {
            // Rules that test marks as well are listed with those.
            if rule.matches.tests_macs() && rule.matches.mark.is_none() {
                list.add(&rule.matches, Decision::new(rank, *target));
            }
        }
        list.by_source.sort_unstable();
        list.by_destination.sort_unstable();
        list
    }

    fn add(&mut self, matches: &Match, decision: Decision) {
        let place = self.rules.len() as u32;
        let (index, macs) = match matches.source_macs.is_empty() {
            true => (&mut self.by_destination, &matches.destination_macs),
            false => (&mut self.by_source, &matches.source_macs),
        };
        index.extend(macs.iter().map(|mac| (*mac, place)));
        self.rules.push((matches.clone(), decision));
    }

    /// Returns whether no rule tests stations.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the first rule that accepts the packet, if it comes before `below`; else `below`.
    pub fn first(&self, interface: InterfaceId, headers: &Headers, below: Decision) -> Decision {
        let Some(macs) = headers.macs else { return below };
        let accepts = |rule: &Match| rule.accepts(interface, headers);
        let found = first_under(&self.by_source, macs.source, &self.rules, below, accepts);
        first_under(&self.by_destination, macs.destination, &self.rules, found, accepts)
    }
}

/// Returns the first of the rules that `index` lists under `key` which accepts the packet, if it
/// comes before `below`; else `below`. The index is sorted, and has places in `rules`.
pub(super) fn first_under<K: Ord>(
    index: &[(K, u32)],
    key: K,
    rules: &[(Match, Decision)],
    below: Decision,
    accepts: impl Fn(&Match) -> bool,
) -> Decision {
    let start = index.partition_point(|row| row.0 < key);
    let own = index[start..].iter().take_while(|row| row.0 == key);
    let rules = own.map(|row| &rules[row.1 as usize]);
    let mut earlier = rules.take_while(|rule| rule.1 < below);
    let found = earlier.find(|rule| accepts(&rule.0));
    found.map_or(below, |rule| rule.1)
}
