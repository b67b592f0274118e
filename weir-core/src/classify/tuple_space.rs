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
use super::marks::MarkRules;
use super::rule::{InterfaceId, Rule};
use super::tuples::Tuples;
use super::{ClassifierDescriptor, Decision, RuleSearch};
use crate::packet::Headers;

/// The rules, in tables; those that test stations or marks beside them.
#[derive(Clone, Debug)]
pub struct TupleSpace {
    tuples: Box<Tuples>,
    beside: Option<Box<Beside>>,
}

/// The rules that test what the tables do not hold.
#[derive(Clone, Debug)]
struct Beside {
    macs: MacRules,
    marks: MarkRules,
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
        TupleSpace { tuples, beside: Beside::new(rules, targets) }
    }

    #[inline]
    fn first_match(
        &self,
        key: &Key,
        interface: InterfaceId,
        headers: &Headers,
    ) -> Option<Decision> {
        let found = self.tuples.first(key, interface, headers);
        match &self.beside {
            None => found,
            Some(beside) => beside.first(interface, headers, found),
        }
    }

    fn tables(&self) -> usize {
        self.tuples.tables()
    }
}

impl Beside {
    /// Lists the rules that test stations or marks; none if there is no such rule.
    fn new(rules: &[Rule], targets: &[u32]) -> Option<Box<Beside>> {
        let macs = MacRules::new(rules, targets);
        let marks = MarkRules::new(rules, targets);
        let is_empty = macs.is_empty() && marks.is_empty();
        (!is_empty).then(|| Box::new(Beside { macs, marks }))
    }

    /// Returns the first rule that accepts the packet, of these and the one found in the tables.
    fn first(
        &self,
        interface: InterfaceId,
        headers: &Headers,
        found: Option<Decision>,
    ) -> Option<Decision> {
        let below = found.unwrap_or(Decision::NONE);
        let below = self.macs.first(interface, headers, below);
        let found = self.marks.first(interface, headers, below);
        (found != Decision::NONE).then_some(found)
    }
}
