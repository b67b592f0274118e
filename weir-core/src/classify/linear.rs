//! The plain classifier: tries every rule in turn; the first that matches decides.
//!
//! The cost grows with the number of rules. It is the oracle for every faster algorithm: for the
//! same rules and packets, both return the same rule.

use alloc::vec::Vec;

use super::key::Key;
use super::rule::{InterfaceId, Match, Rule};
use super::{ClassifierDescriptor, Decision, RuleSearch};
use crate::packet::Headers;

/// A list of rules with the places of their targets, searched in order.
#[derive(Clone, Debug)]
pub struct LinearRules(Vec<(Match, u32)>);

impl RuleSearch for LinearRules {
    const DESCRIPTOR: ClassifierDescriptor = ClassifierDescriptor {
        keyword: "linear",
        summary: "Every rule in turn, without a flow cache: the plain reference.",
        sources: &["algorithms §11.4"],
        cached: false,
    };

    fn build(rules: &[Rule], targets: &[u32]) -> LinearRules {
        let matches = rules.iter().map(|rule| rule.matches.clone());
        LinearRules(matches.zip(targets.iter().copied()).collect())
    }

    fn first_match(
        &self,
        _key: &Key,
        interface: InterfaceId,
        headers: &Headers,
    ) -> Option<Decision> {
        let mut ranked = self.0.iter().zip(0..);
        let found = ranked.find(|((matches, _), _)| matches.accepts(interface, headers));
        found.map(|(&(_, target), rank)| Decision::new(rank, target))
    }

    fn tables(&self) -> usize {
        1
    }
}
