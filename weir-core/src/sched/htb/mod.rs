//! Hierarchical token buckets, sound: exact times, no tick, no hysteresis [algorithms §5.1-5.6].
//!
//! By Martin Devera `[htb]`; the rules are those of Linux. A class sends at its own `rate`; when
//! its tokens are used up it borrows from the nearest ancestor that has some, up to its `ceil`.
//! Own rate goes before borrowed rate, among classes of one level the smaller `prio` goes first,
//! and siblings take turns of a quantum. Differences from Linux: no packet passes unclassified,
//! events are exact to the nanosecond and never cut short, and events of one instant run in the
//! order of class numbers. As in Linux a packet costs at most a minute of tokens, so rates below
//! 65 535 B a minute (8.7 kbit/s) are exact only for packets that take less.
//!
//! Linux's functions are found so, in `engine.rs`: `htb_do_events` is `wake`, `htb_lookup_leaf`
//! `next_leaf`, `htb_charge_class` `charge_path`, `htb_change_class_mode` `change_mode`,
//! `htb_activate_prios` and `htb_deactivate_prios` `activate` and `deactivate`; in `turns.rs` its
//! rows (`hprio`) are rows, and its class-internal feeds (`clprio`) feeds. `bucket.rs` has the
//! tokens.
//!
//! The historic form beside it uses the same engine; this file has the exact precision.

mod bucket;
pub(in crate::sched) mod engine;
pub(in crate::sched) mod params;
mod turns;

use super::service::{Buckets, Excess};
use super::{
    Borrowed, Calls, Changes, Cost, Descriptor, Discipline, Explains, Kin, Promises, Refit,
    RefitError, Service, Tree, Waiting, Why,
};
use crate::ids::LeafId;
use crate::parameter::{BuildError, Parameter};
use crate::units::{Bytes, Duration, Instant};
use engine::{Engine, Precision};
use params::{CEIL, Defaults, LeafPlan, PRIO, R2Q, RATE, burst, cburst, quantum};

/// HTB in exact time and length.
pub type Htb = Engine<Exact>;

/// Exact times and lengths.
pub struct Exact;

impl Precision for Exact {
    #[inline]
    fn hysteresis(&self) -> bool {
        false
    }

    #[inline]
    fn counted(&self, bytes: Bytes) -> Bytes {
        bytes
    }

    #[inline]
    fn event(&self, now: Instant, wait: Duration) -> Instant {
        now.after(wait)
    }

    #[inline]
    fn tick(&self, at: Instant) -> Instant {
        at
    }

    #[inline]
    fn patience(&self, _now: Instant, _all_wait: impl Fn() -> bool) -> Instant {
        Instant::MAX
    }
}

impl Discipline for Htb {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "htb",
        summary: "Hierarchical token buckets: a rate for each class, and borrowing up to its ceil.",
        parameters: PARAMETERS,
        sources: &["benita §2", "algorithms §5"],
        promises: Promises {
            work_conserving: false,
            hierarchical: true,
            exact_wake: true,
            cost: Cost::Logarithmic,
        },
    };

    const CALLS: Calls = Calls { peeks: false, ..Calls::DEFAULT };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        Engine::new(tree, Exact, &Self::defaults(tree))
    }
}

impl Explains for Htb {
    #[inline]
    fn why(&self, now: Instant, leaf: LeafId, from: Instant) -> Why {
        self.why_waited(now, leaf, from)
    }

    fn borrowed(&self, leaf: LeafId) -> Borrowed {
        self.loans_of(leaf)
    }

    fn service(tree: &Tree) -> Service {
        let defaults = Self::defaults(tree);
        let row = |leaf| LeafPlan::bucket(tree, tree.class_of(leaf), &defaults);
        let leaves: Option<_> = tree.leaves().map(|(leaf, _)| row(leaf)).collect();
        let buckets = |leaves| Service::Buckets(Buckets { leaves, excess: Excess::Turns });
        leaves.map_or(Service::Unknown, buckets)
    }
}

impl Changes for Htb {
    const REFITS: bool = true;

    fn inherit(&mut self, now: Instant, old: &Self, kin: &Kin) {
        self.take_over(now, old, kin);
    }

    fn refit(
        &mut self,
        now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        let defaults = Self::defaults(tree);
        self.refit_leaf(now, tree, leaf, refit, &defaults)
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        self.knows(waiting)
    }
}

impl Htb {
    fn defaults(tree: &Tree) -> Defaults {
        Defaults {
            keyword: Self::DESCRIPTOR.keyword,
            tick_hz: TICK_HZ,
            // A class that is served late by one packet must not lose tokens.
            burst_low: tree.mtu().max(BURST_LOW),
            // Below one packet a turn would be a packet whatever the quantum [algorithms §5.10 H4].
            quantum_low: tree.mtu(),
        }
    }
}

const PARAMETERS: &[Parameter] = &[
    RATE,
    CEIL,
    burst("4 ms of rate + 1600 B"),
    cburst("4 ms of ceil + 1600 B"),
    quantum("rate in byte/s / r2q, 1000 B to 200000 B, at least the largest packet"),
    PRIO,
    R2Q,
];

/// The bursts that tc writes with a tick of 250 Hz: 4 ms of the rate and 1600 B.
const TICK_HZ: u64 = 250;
const BURST_LOW: Bytes = Bytes::new(1600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ClassId;
    use crate::parameter::Params;
    use crate::sched::ClassSpec;
    use crate::units::{Quantity, Rate};
    use alloc::string::ToString;

    fn refusal(params: Params) -> BuildError {
        let class = ClassSpec { name: "video".to_string(), parent: None, params };
        let tree = Tree::new(Rate::MIN, Bytes::new(1514), Params::new(), alloc::vec![class]);
        Htb::build(&tree.expect("a tree")).err().expect("refused")
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_the_cure() {
        let rate = |bits| Quantity::Rate(Rate::new(bits).expect("not zero"));
        let rows = [
            (Params::new(), "rate", "write the rate"),
            (
                Params::new().with("rate", rate(7)).with("ceil", rate(6)),
                "ceil",
                "ceil 6 bit/s is below its rate 7 bit/s",
            ),
        ];
        for (params, parameter, text) in rows {
            let error = refusal(params);
            assert_eq!((error.class, error.parameter), (Some(ClassId(0)), Some(parameter)));
            assert!(error.message.contains("class video") && error.message.contains(text));
        }
    }
}
