//! Class-based queueing by the reference: Floyd and Jacobson's rules `[floyd95]` as ns-2 runs them
//! `[ns2 queue/cbq.cc]`, faults and all [algorithms §2]. The oracle for the sound form beside it.
//!
//! A class estimates its average idle time; below zero it is overlimit until its undertime. Floats
//! here are on purpose: with ns-2's operations in ns-2's order the results are its own, to the
//! packet. The same operations give the same bits on every machine, for there are only `+ - * /`.
//! Invariant: a class that may borrow never waits while the line is free.

mod class;
mod rules;
#[cfg(test)]
mod tests;

pub use rules::{Answer, Rules};

use super::{
    Borrowed, Calls, Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises,
    Regulation, Scheduler, Selection, Tree, Waiting, Why,
};
use crate::ids::LeafId;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::state;
use crate::units::{Bytes, Dimension, Instant};
use rules::{LEVEL_MAX, PRIORITY_MAX};

/// The reference class-based queueing.
pub struct CbqRef {
    rules: Rules,
    /// Whether a class that only its own undertime holds back is woken at that time, as ns-2 does
    /// not.
    wakes: bool,
}

impl CbqRef {
    /// Returns the rules, for a caller whose clock is in seconds. Such a caller must not call the
    /// scheduler's own methods as well.
    pub fn rules(&mut self) -> &mut Rules {
        &mut self.rules
    }
}

impl Discipline for CbqRef {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "cbq-ref",
        summary: "The reference CBQ as ns-2 simulates it, to the packet; an oracle, not for use.",
        parameters: PARAMETERS,
        sources: &["floyd95", "ns2 queue/cbq.cc", "algorithms §2"],
        promises: Promises {
            work_conserving: false,
            hierarchical: true,
            exact_wake: true,
            cost: Cost::Linear,
        },
    };

    const CALLS: Calls = Calls { per_packet: true, ..Calls::DEFAULT };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let wakes = tree.params().choice("wake") != Some("arrivals-only");
        Ok(Self { rules: Rules::build(tree)?, wakes })
    }
}

impl Scheduler for CbqRef {
    fn enqueued(&mut self, now: Instant, leaf: LeafId, _head: Head) {
        self.rules.enqueued(seconds(now), leaf);
    }

    fn joined(&mut self, _now: Instant, leaf: LeafId, _length: Bytes) {
        self.rules.joined(leaf);
    }

    fn select(&mut self, now: Instant) -> Selection {
        match self.rules.select(seconds(now)) {
            Answer::Leaf(leaf, _) => Selection::Leaf(leaf),
            Answer::After(instant) if self.wakes => Selection::At(first_after(instant)),
            Answer::After(_) => Selection::At(Instant::MAX),
            Answer::Idle => Selection::Idle,
        }
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        self.rules.charge(seconds(now), leaf, sent.get(), next.is_some());
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        self.rules.dropped(leaf, head.is_some());
    }

    fn offered(&mut self, now: Instant, leaf: LeafId) {
        self.rules.offered(seconds(now), leaf);
    }
}

impl Explains for CbqRef {
    #[inline(always)]
    fn why(&self, _now: Instant, leaf: LeafId, from: Instant) -> Why {
        let class = self.rules.of_leaf(leaf);
        let lender = self.rules.lender(leaf).filter(|lender| lender.index() != class);
        let held = self.rules.held_until(leaf);
        let released = if held <= 0.0 { Instant::ZERO } else { first_after(held) };
        // A class that may never send is released at the end of time, which is not in the past.
        if released <= from && released < Instant::MAX {
            return Why { lender, ..Why::FREE };
        }
        Why { released, regulation: Regulation::Undertime, level: 0, lender }
    }

    fn borrowed(&self, leaf: LeafId) -> Borrowed {
        self.rules.borrowed(leaf)
    }
}

impl Changes for CbqRef {
    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        self.rules.inherit(&old.rules, kin);
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        self.rules.knows(waiting)
    }
}

fn seconds(instant: Instant) -> f64 {
    instant.as_nanos() as f64 / NANOS
}

/// The first instant whose seconds are more than `past`; the end of time if there is none.
#[inline]
fn first_after(past: f64) -> Instant {
    let product = past * NANOS;
    let whole = product as i64;
    let (part, error) = (product - whole as f64, product * ROUNDED);
    // The product is farther from both neighbouring nanoseconds than any rounding error.
    if whole >= 0 && part > error && part < 1.0 - error {
        return Instant::from_nanos(whole as u64 + 1);
    }
    first_near(past)
}

/// Returns what [`first_after`] does where the product is too close to a whole nanosecond:
/// searches the nanoseconds near the product.
#[inline(never)]
fn first_near(past: f64) -> Instant {
    let near = (past * NANOS) as u64;
    let reach = (near >> 50) + 2;
    let (low, high) = (near.saturating_sub(reach), near.saturating_add(reach));
    let is_after = |nanos: u64| seconds(Instant::from_nanos(nanos)) > past;
    if is_after(high) && (low == 0 || !is_after(low)) {
        return first_between(past, low, high);
    }
    first_between(past, 0, u64::MAX)
}

/// Returns the first instant from `low` to `high` whose seconds are more than `past`, by bisection,
/// since long after the epoch several neighbouring nanoseconds have the same float.
fn first_between(past: f64, mut low: u64, mut high: u64) -> Instant {
    while low < high {
        let middle = low + (high - low) / 2;
        if seconds(Instant::from_nanos(middle)) > past {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Instant::from_nanos(low)
}

const NANOS: f64 = 1e9;
/// Exceeds the relative rounding error of a product or a quotient of floats, which is a few 2^-53.
const ROUNDED: f64 = 1.0 / (1u64 << 50) as f64;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "algorithm",
        scope: Scope::Link,
        kind: Kind::Choice(&["formal", "ancestor-only", "top-level"]),
        default: Some("ancestor-only"),
        summary: "The rule of link sharing: which class may borrow from which ancestor.",
    },
    Parameter {
        name: "general",
        scope: Scope::Link,
        kind: Kind::Choice(&["prr", "wrr"]),
        default: Some("prr"),
        summary: "How classes of one priority take turns; `prr` divides by packets, not bytes.",
    },
    Parameter {
        name: "maxpkt",
        scope: Scope::Link,
        kind: Kind::Size(1, u16::MAX as u64),
        default: Some("1024 B"),
        summary: "The largest packet, from which the weights of `wrr` and `maxidle` are derived.",
    },
    Parameter {
        name: "wake",
        scope: Scope::Link,
        kind: Kind::Choice(&["exact", "arrivals-only"]),
        default: Some("exact"),
        summary: "Whether a class wakes after its undertime or, as in ns-2, with an arrival.",
    },
    Parameter {
        name: "share",
        scope: Scope::Class,
        kind: Kind::Quantity(Dimension::Share),
        default: None,
        summary: "The part of the link, not of the parent; shares need not add up.",
    },
    Parameter {
        name: "priority",
        scope: Scope::Class,
        kind: Kind::Number(0, PRIORITY_MAX),
        default: Some("0"),
        summary: "The smallest is served first among those that may send; also sets `maxidle`.",
    },
    Parameter {
        name: "level",
        scope: Scope::Class,
        kind: Kind::Number(1, LEVEL_MAX as u64),
        default: Some("1 for a leaf, else one more than the highest below"),
        summary: "The level by which `formal` and `top-level` decide which class may lend.",
    },
    Parameter {
        name: "borrow",
        scope: Scope::Class,
        kind: Kind::Flag,
        default: Some("true"),
        summary: "Whether the class may borrow from its ancestors.",
    },
    Parameter {
        name: "maxidle",
        scope: Scope::Class,
        kind: Kind::Quantity(Dimension::Duration),
        default: Some("from share, priority and `maxpkt`"),
        summary: "The largest average idle time, which sets the burst after a pause.",
    },
    Parameter {
        name: "extradelay",
        scope: Scope::Class,
        kind: Kind::Quantity(Dimension::Duration),
        default: Some("0 s"),
        summary: "The extra time that a held-back class waits, which allows a longer steady burst.",
    },
];

state!(CbqRef { rules; kept: wakes });
