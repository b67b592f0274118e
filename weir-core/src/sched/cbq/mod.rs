//! Class-based queueing in its sound form [algorithms §3.15]: the link-sharing rules of Floyd and
//! Jacobson `[floyd95]` over exact meters.
//!
//! Where the papers' CBQ estimates an average idle time with a filter, an expected packet length
//! and a clock tick, each class here has a bucket counted in bytes, so that neither the length of
//! packets nor a late timer changes a share. The link stands above all classes and always lends: it
//! paces itself. Siblings divide what their parent has left in proportion to their rates.
//! Invariant: only a class that may not borrow, or that stands below one, ever waits for its meter.

mod classes;
mod comers;
mod formal;
mod meter;
mod path;
mod places;
mod ring;
mod scan;
#[cfg(test)]
mod tests;
mod trail;
mod waits;

use super::service::{Buckets, Excess};
use super::{
    Cost, Descriptor, Discipline, Head, Kin, Promises, Scheduler, Selection, Service, Tree, Why,
};
use crate::ids::LeafId;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::prefetch::Prefetch;
use crate::units::{Bytes, Dimension, Instant};
use classes::{Classes, General, PRIORITY_MAX};
use formal::Formal;
use scan::{Scan, Sharing};

/// Class-based queueing.
pub struct Cbq {
    engine: Engine,
}

/// The formal rule has an engine that never looks at all classes; the other rules are scanned.
#[expect(clippy::large_enum_variant, reason = "a link has one, and the larger is read often")]
enum Engine {
    Formal(Formal),
    Scan(Scan),
}

impl Discipline for Cbq {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "cbq",
        summary: "Link sharing: each class its rate, siblings share an excess first.",
        parameters: PARAMETERS,
        sources: &["floyd95", "risso99 §3", "algorithms §3.15"],
        promises: Promises {
            work_conserving: false,
            hierarchical: true,
            exact_wake: true,
            cost: Cost::Logarithmic,
        },
    };

    const RUNS: bool = true;

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let classes = Classes::build(tree)?;
        let general = match tree.params().choice("general") {
            Some("wrr") => General::Wrr,
            Some("prr") => General::Prr,
            _ => General::Drr,
        };
        let efficient = tree.params().flag("efficient").unwrap_or(false);
        let sharing = match tree.params().choice("sharing") {
            Some("ancestor-only") => Sharing::AncestorOnly,
            Some("top-level") => Sharing::TopLevel,
            _ => Sharing::Formal,
        };
        let engine = match sharing {
            Sharing::Formal => Engine::Formal(Formal::new(classes, general, efficient)),
            _ => Engine::Scan(Scan::new(classes, sharing, general, efficient)),
        };
        Ok(Self { engine })
    }

    fn inherit(&mut self, now: Instant, old: &Self, kin: &Kin) {
        match (&mut self.engine, &old.engine) {
            (Engine::Formal(engine), Engine::Formal(old)) => engine.take_over(now, old, kin),
            (Engine::Scan(engine), Engine::Scan(old)) => engine.take_over(now, old, kin),
            // Turns of another kind begin anew; what was used of the rates stays used.
            (Engine::Formal(engine), Engine::Scan(old)) => {
                engine.classes_mut().take_over(now, old.classes(), kin);
            }
            (Engine::Scan(engine), Engine::Formal(old)) => {
                engine.classes_mut().take_over(now, old.classes(), kin);
            }
        }
    }

    /// Under the formal rule nobody borrows while a conforming leaf waits; under the others a class
    /// of higher priority may, as long as it likes.
    fn service(tree: &Tree) -> Service {
        let formal = matches!(tree.params().choice("sharing"), None | Some("formal"));
        let classes = Classes::build(tree).ok().filter(|_| formal);
        // Turns of a packet divide by packets, and a link that would idle is anybody's.
        let is_plain = tree.params().choice("general") != Some("prr")
            && tree.params().flag("efficient") != Some(true);
        let excess = if is_plain { Excess::Rates } else { Excess::Unknown };
        classes.map_or(Service::Unknown, |classes| {
            Service::Buckets(Buckets { leaves: classes.buckets(tree), excess })
        })
    }
}

impl Scheduler for Cbq {
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        match &mut self.engine {
            Engine::Formal(engine) => engine.enqueued(now, leaf, head),
            Engine::Scan(engine) => engine.set_head(leaf, Some(head)),
        }
    }

    #[inline(always)]
    fn select(&mut self, now: Instant) -> Selection {
        match &mut self.engine {
            Engine::Formal(engine) => engine.select(now),
            Engine::Scan(engine) => engine.select(now),
        }
    }

    #[inline(always)]
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        match &mut self.engine {
            Engine::Formal(engine) => engine.charge(now, leaf, sent, next),
            Engine::Scan(engine) => engine.charge(now, leaf, sent, next.map(|next| next.length)),
        }
    }

    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        match &mut self.engine {
            Engine::Formal(engine) => engine.set_head(now, leaf, head),
            Engine::Scan(engine) => engine.set_head(leaf, head),
        }
    }

    fn allowance(&self, now: Instant, leaf: LeafId) -> Bytes {
        match &self.engine {
            Engine::Formal(engine) => engine.allowance(now, leaf),
            Engine::Scan(_) => Bytes::ZERO,
        }
    }

    #[inline]
    fn line_up(&self, leaves: &mut [LeafId]) -> usize {
        match &self.engine {
            Engine::Formal(engine) => engine.line_up(leaves),
            Engine::Scan(_) => 0,
        }
    }

    #[inline]
    fn ask_for_order(&self, prefetch: Prefetch) {
        if let Engine::Formal(engine) = &self.engine {
            engine.ask_for_order(prefetch);
        }
    }

    #[inline]
    fn touch(&self, leaf: LeafId, prefetch: Prefetch) {
        if let Engine::Formal(engine) = &self.engine {
            engine.touch(leaf, prefetch);
        }
    }

    #[inline]
    fn touch_above(&self, leaf: LeafId, prefetch: Prefetch) {
        if let Engine::Formal(engine) = &self.engine {
            engine.touch_above(leaf, prefetch);
        }
    }

    #[inline(always)]
    fn why(&self, now: Instant, leaf: LeafId, from: Instant) -> Why {
        match &self.engine {
            Engine::Formal(engine) => engine.why(leaf, from),
            Engine::Scan(engine) => engine.why(now, leaf, from),
        }
    }

    fn offered(&mut self, now: Instant, leaf: LeafId) {
        if let Engine::Scan(engine) = &mut self.engine {
            engine.offered(now, leaf);
        }
    }
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "sharing",
        scope: Scope::Link,
        kind: Kind::Choice(&["formal", "ancestor-only", "top-level"]),
        default: Some("formal"),
        summary: "Who may borrow; all but `formal` cost time in proportion to the leaves.",
    },
    Parameter {
        name: "general",
        scope: Scope::Link,
        kind: Kind::Choice(&["drr", "wrr", "prr"]),
        default: Some("drr"),
        summary: "How classes of one priority take turns; `prr` divides by packets, not bytes.",
    },
    Parameter {
        name: "efficient",
        scope: Scope::Link,
        kind: Kind::Flag,
        default: Some("false"),
        summary: "Let classes that may borrow use a link that would idle, whatever is above them.",
    },
    Parameter {
        name: "rate",
        scope: Scope::Class,
        kind: Kind::Quantity(Dimension::Rate),
        default: None,
        summary: "What the class gets when it needs it; also its weight when an excess is divided.",
    },
    Parameter {
        name: "borrow",
        scope: Scope::Class,
        kind: Kind::Flag,
        default: Some("true"),
        summary: "Whether the class may use more than its rate when others leave it (ALTQ: off).",
    },
    Parameter {
        name: "burst",
        scope: Scope::Class,
        kind: Kind::Size(BURST_MIN, BURST_MAX),
        default: Some("4 largest packets"),
        summary: "Bytes that the class may send at once after a pause, within its rate.",
    },
    Parameter {
        name: "priority",
        scope: Scope::Leaf,
        kind: Kind::Number(0, PRIORITY_MAX),
        default: Some("1"),
        summary: "Among those that may send, the larger is served first.",
    },
];

/// Less would lose rate to the rounding of time to nanoseconds.
const BURST_MIN: u64 = 64;
const BURST_MAX: u64 = 1 << 40;
