//! Tuple-space search: a packet costs as many look-ups as there are tables, not as rules.
//!
//! The algorithm of V. Srinivasan, S. Suri and G. Varghese [srinivasan99 §4] with the coarser
//! tables of J. Daly and others [daly19 §4]; `tuples/` explains it. A packet is compared with the
//! few rules of one bucket of each table; a table whose first rule comes after the best match is
//! skipped.
//!
//! Invariant: the result equals that of trying every rule in order.

use alloc::boxed::Box;

use super::key::Key;
use super::macs::MacRules;
use super::rule::{InterfaceId, Rule};
use super::tuples::Tuples;
use super::{ClassifierDescriptor, Decision, RuleSearch};
use crate::packet::Headers;

/// The rules, in tables; those that test stations beside them.
#[derive(Clone, Debug)]
pub struct TupleSpace {
    tuples: Box<Tuples>,
    macs: MacRules,
}

impl RuleSearch for TupleSpace {
    const DESCRIPTOR: ClassifierDescriptor = ClassifierDescriptor {
        keyword: "tuple-space",
        summary: "Hash tables for combinations of fields; the cost does not grow with the rules.",
        sources: &["srinivasan99 §4", "daly19 §4", "algorithms §11.4"],
        cached: true,
    };

    fn build(rules: &[Rule], targets: &[u32]) -> TupleSpace {
        let tuples = Box::new(Tuples::new(rules, targets));
        TupleSpace { tuples, macs: MacRules::new(rules, targets) }
    }

    #[inline]
    fn first_match(
        &self,
        key: &Key,
        interface: InterfaceId,
        headers: &Headers,
    ) -> Option<Decision> {
        let found = self.tuples.first(key, interface, headers);
        if self.macs.is_empty() {
            return found;
        }
        let below = found.unwrap_or(Decision::NONE);
        let found = self.macs.first(interface, headers, below);
        (found != Decision::NONE).then_some(found)
    }

    fn tables(&self) -> usize {
        self.tuples.tables()
    }
}
