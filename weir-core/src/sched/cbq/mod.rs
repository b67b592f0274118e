//! Class-based queueing in its sound form [algorithms §3.15]: the link-sharing rules of Floyd and
//! Jacobson `[floyd95]` over exact meters.
//!
//! Where the papers' estimator averages idle time with a filter, an expected packet length and a
//! clock tick, each class here has a bucket counted in bytes (`meter.rs`). The general scheduler is
//! deficit, weighted or packet round robin within a priority (`ring.rs`). The link-sharing
//! scheduler follows the formal rule (`formal.rs`), or ancestor-only or top-level sharing
//! (`scan.rs`). The link is the parent of all top classes and always lends: it paces itself.
//! Siblings divide what their parent has left in proportion to their rates. Invariant: only a class
//! that may not borrow, or is below one, ever waits for its undertime.

mod classes;
mod formal;
mod meter;
mod quanta;
mod ring;
mod scan;
#[cfg(test)]
mod tests;

use super::service::{Buckets, Excess};
use super::{
    Borrowed, Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Refit,
    RefitError, Scheduler, Selection, Service, Tree, Waiting, Why,
};
use crate::ids::LeafId;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::{Bytes, Dimension, Instant};
use classes::{Classes, PRIORITY_MAX};
use formal::Formal;
use ring::General;
use scan::{Scan, Sharing};

/// Class-based queueing.
pub struct Cbq {
    engine: Engine,
}

/// The formal rule has an engine that never examines all classes; the other rules use a scan.
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
}

impl Scheduler for Cbq {
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        self.head_changed(now, leaf, Some(head));
    }

    fn select(&mut self, now: Instant) -> Selection {
        match &mut self.engine {
            Engine::Formal(engine) => engine.select(now),
            Engine::Scan(engine) => engine.select(now),
        }
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        match &mut self.engine {
            Engine::Formal(engine) => engine.charge(now, leaf, sent, next),
            Engine::Scan(engine) => engine.charge(now, leaf, sent, next),
        }
    }

    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        match &mut self.engine {
            Engine::Formal(engine) => engine.set_head(now, leaf, head),
            Engine::Scan(engine) => engine.set_head(leaf, head),
        }
    }

    fn offered(&mut self, now: Instant, leaf: LeafId) {
        if let Engine::Scan(engine) = &mut self.engine {
            engine.offered(now, leaf);
        }
    }
}

impl Explains for Cbq {
    fn why(&self, now: Instant, leaf: LeafId, from: Instant) -> Why {
        match &self.engine {
            Engine::Formal(engine) => engine.why(leaf, from),
            Engine::Scan(engine) => engine.why(now, leaf),
        }
    }

    fn borrowed(&self, leaf: LeafId) -> Borrowed {
        match &self.engine {
            Engine::Formal(engine) => engine.classes.loans.of(leaf),
            Engine::Scan(engine) => engine.classes.loans.of(leaf),
        }
    }

    /// Under the formal rule no class borrows while a leaf that is not overlimit waits; under the
    /// others a class of higher priority may, as long as it likes.
    fn service(tree: &Tree) -> Service {
        let formal = matches!(tree.params().choice("sharing"), None | Some("formal"));
        let classes = Classes::build(tree).ok().filter(|_| formal);
        // Turns of a packet divide by packets, and any class may use a link that would idle.
        let is_plain = tree.params().choice("general") != Some("prr")
            && tree.params().flag("efficient") != Some(true);
        let excess = if is_plain { Excess::Rates } else { Excess::Unknown };
        classes.map_or(Service::Unknown, |classes| {
            Service::Buckets(Buckets { leaves: classes.buckets(tree), excess })
        })
    }
}

impl Changes for Cbq {
    const REFITS: bool = true;

    /// The used parts of bursts stay used; turns begin anew under another rule.
    fn inherit(&mut self, now: Instant, old: &Self, kin: &Kin) {
        match (&mut self.engine, &old.engine) {
            (Engine::Formal(engine), Engine::Formal(old)) => engine.inherit(now, old, kin),
            (Engine::Scan(engine), Engine::Scan(old)) => engine.inherit(now, old, kin),
            (Engine::Formal(engine), Engine::Scan(old)) => {
                engine.classes.inherit(now, &old.classes, kin);
            }
            (Engine::Scan(engine), Engine::Formal(old)) => {
                engine.classes.inherit(now, &old.classes, kin);
            }
        }
    }

    fn refit(
        &mut self,
        now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        match &mut self.engine {
            Engine::Formal(engine) => engine.refit(now, tree, leaf, refit),
            Engine::Scan(_) => Err(RefitError::NeedsChange("its `sharing` is not `formal`")),
        }
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        match &self.engine {
            Engine::Formal(engine) => engine.agrees(waiting),
            Engine::Scan(engine) => engine.agrees(waiting),
        }
    }
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "sharing",
        scope: Scope::Link,
        kind: Kind::Choice(&["formal", "ancestor-only", "top-level"]),
        default: Some("formal"),
        summary: "Which classes may borrow; all but `formal` cost time in proportion to the leaves.",
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

/// The least burst: with less, a class would lose rate to the rounding of time to nanoseconds.
const BURST_MIN: u64 = 64;
const BURST_MAX: u64 = 1 << 40;

state!(Cbq { engine });

/// The plan determines the engine.
impl State for Engine {
    fn save(&self, to: &mut Writer) {
        match self {
            Engine::Formal(engine) => engine.save(to),
            Engine::Scan(engine) => engine.save(to),
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        match self {
            Engine::Formal(engine) => engine.load(from),
            Engine::Scan(engine) => engine.load(from),
        }
    }
}
