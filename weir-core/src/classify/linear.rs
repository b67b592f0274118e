//! The plain classifier: every rule in turn, the first that matches decides.
//!
//! Cost grows with the number of rules. It is the oracle for any faster algorithm: same rules, same
//! packets, same index.

use alloc::vec::Vec;

use super::rule::{InterfaceId, Rule, Target};
use crate::packet::Headers;

/// A list of rules, searched in order.
#[derive(Clone, Debug)]
pub struct LinearRules {
    rules: Vec<Rule>,
}

impl LinearRules {
    /// The algorithm over these rules.
    pub fn new(rules: Vec<Rule>) -> LinearRules {
        LinearRules { rules }
    }

    /// Index and target of the first rule that matches.
    pub fn first_match(
        &self,
        interface: InterfaceId,
        headers: &Headers,
    ) -> Option<(usize, Target)> {
        let mut rules = self.rules.iter().enumerate();
        let (index, rule) = rules.find(|(_, rule)| rule.matches.accepts(interface, headers))?;
        Some((index, rule.target()))
    }
}
