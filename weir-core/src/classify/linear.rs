//! The plain classifier: every rule in turn, the first that matches decides.
//!
//! Cost grows with the number of rules. It is the oracle for any faster algorithm: same rules, same
//! packets, same index.

use alloc::vec::Vec;

use super::key::Key;
use super::rule::{InterfaceId, Match, Rule};
use super::{ClassifierDescriptor, RuleSearch};
use crate::packet::Headers;

/// A list of rules, searched in order.
#[derive(Clone, Debug)]
pub struct LinearRules(Vec<Match>);

impl RuleSearch for LinearRules {
    const DESCRIPTOR: ClassifierDescriptor = ClassifierDescriptor {
        keyword: "linear",
        summary: "Every rule in turn, without a flow cache: the plain reference.",
        sources: &["algorithms §11.4"],
        cached: false,
    };

    fn build(rules: &[Rule]) -> LinearRules {
        LinearRules(rules.iter().map(|rule| rule.matches.clone()).collect())
    }

    fn first_match(&self, _key: &Key, interface: InterfaceId, headers: &Headers) -> Option<usize> {
        self.0.iter().position(|matches| matches.accepts(interface, headers))
    }

    fn tables(&self) -> usize {
        1
    }
}
