//! Longest drop: leaves share one limit in bytes, and when together they hold more, the leaf that
//! is longest by its weight drops its first packet, whichever leaf the arriving packet is in.
//! ALTQ's dropper for its WFQ, there the *high-water mark* [quadros §3] [algorithms §4.1].
//!
//! The arriving packet is queued first, so it may be the one dropped. ALTQ breaks ties by the place
//! in its ring, from the leaf whose turn it is; here the leaf that has been backlogged longer
//! loses, so that the dropper needs nothing from the scheduler. `shared.rs` counts what each leaf
//! holds.

use super::{Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline};
use super::{Membership, Place};
use crate::account::Count;
use crate::parameter::{BuildError, Kind, Parameter, Params, Scope};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;

/// The weighted longest-queue dropper.
pub struct Longest {
    membership: Box<Membership>,
}

impl DropperDiscipline for Longest {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "longest",
        summary: "Leaves share a limit; the longest by weight drops its first packet.",
        parameters: &[
            Parameter {
                name: "limit",
                scope: Scope::Queue,
                kind: Kind::Size(LIMIT_MIN, LIMIT_MAX),
                default: Some("65536 B"),
                summary: "The most that leaves with this dropper hold together; equal in all.",
            },
            Parameter {
                name: "weight",
                scope: Scope::Queue,
                kind: Kind::Number(1, WEIGHT_MAX),
                default: Some("100"),
                summary: "The leaf's part of the limit, relative to the others.",
            },
        ],
        sources: &["quadros §3", "altq altq_wfq", "algorithms §4.1"],
    };

    fn build(params: &Params, _place: Place) -> Result<Self, BuildError> {
        let limit = params.bytes("limit").unwrap_or(Bytes::new(LIMIT_DEFAULT));
        let weight = params.number("weight").unwrap_or(WEIGHT_DEFAULT).clamp(1, WEIGHT_MAX) as u32;
        Ok(Self { membership: Box::new(Membership { limit, weight }) })
    }
}

impl Dropper for Longest {
    fn admit(&mut self, _now: Instant, _arriving: Candidate, _backlog: Count) -> Admission {
        Admission::Accept
    }

    fn membership(&self) -> Option<Membership> {
        Some(*self.membership)
    }
}

/// ALTQ's minimum, in bytes.
const LIMIT_MIN: u64 = 1500;
const LIMIT_MAX: u64 = 1 << 40;
const LIMIT_DEFAULT: u64 = 65_536;
const WEIGHT_DEFAULT: u64 = 100;
const WEIGHT_MAX: u64 = 65_535;

state!(Longest { ; kept: membership });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{DropReason, Verdict};
    use crate::ids::{Handle, LeafId};
    use crate::link::{AnyLink, LinkPlan, Packet};
    use crate::queue::QueuePlan;
    use crate::sched::{ClassSpec, SCHEDULERS, Tree};
    use crate::units::{Quantity, Rate};
    use alloc::boxed::Box;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn link(scheduler: &'static str, limit: u64, weights: &[u64]) -> Box<dyn AnyLink> {
        plan(scheduler, limit, weights).build().expect("builds")
    }

    fn plan(scheduler: &'static str, limit: u64, weights: &[u64]) -> LinkPlan {
        let class = |weight: &u64| ClassSpec {
            name: weight.to_string(),
            parent: None,
            params: Params::new(),
        };
        let classes = weights.iter().map(class).collect();
        let rate = Rate::new(8_000).expect("not zero");
        let tree = Tree::new(rate, Bytes::new(1500), Params::new(), classes).expect("a tree");
        let mut plan = LinkPlan::new(scheduler, tree);
        for (queue, &weight) in plan.queues.iter_mut().zip(weights) {
            let params = Params::new()
                .with("limit", Quantity::Bytes(Bytes::new(limit)))
                .with("weight", Quantity::Number(weight));
            *queue = QueuePlan { dropper: "longest", params };
        }
        plan
    }

    fn lengths(link: &dyn AnyLink) -> Vec<u64> {
        link.account().leaves().iter().map(|leaf| leaf.backlog.packets).collect()
    }

    #[test]
    fn two_flows_that_fill_the_limit_hold_as_much_as_in_altq() {
        // [algorithms §4.1] Weights 100 and w; with the header of UDP 1470 bytes are 1478.
        let rows = [(30, [34, 10]), (70, [26, 18]), (100, [22, 22]), (500, [7, 37])];
        for (weight, expected) in rows.into_iter().chain([(1000, [4, 40])]) {
            check(weight, 1470, expected);
            check(weight, 1478, expected);
        }
    }

    fn check(weight: u64, length: u32, expected: [u64; 2]) {
        for scheduler in ["altq-wfq", "drr", "fifo"] {
            let mut link = link(scheduler, LIMIT_DEFAULT, &[100, weight]);
            for handle in 0..400 {
                let packet = Packet::new(Handle(handle), length);
                link.offer(Instant::ZERO, LeafId(handle % 2), packet);
            }
            assert_eq!(lengths(&*link), expected, "{scheduler} {weight} {length}");
        }
    }

    #[test]
    fn another_leaf_or_the_arriving_packet_itself_may_be_dropped() {
        let mut link = link("fifo", 3000, &[100, 100]);
        // Leaf, length, verdict, handles dropped since, packets that wait.
        let dropped = Verdict::Dropped(DropReason::Longest);
        type Row<'r> = (u32, u32, Verdict, &'r [u32], [u64; 2]);
        let rows: [Row<'_>; 5] = [
            (0, 1000, Verdict::Queued, &[], [1, 0]),
            (0, 1000, Verdict::Queued, &[], [2, 0]),
            (1, 1500, Verdict::Queued, &[0], [1, 1]),
            (0, 1000, Verdict::Queued, &[1], [1, 1]),
            (1, 1501, Verdict::Queued, &[2], [1, 1]),
        ];
        for (handle, (leaf, length, verdict, gone, waiting)) in rows.into_iter().enumerate() {
            let packet = Packet::new(Handle(handle as u32), length);
            assert_eq!(link.offer(Instant::ZERO, LeafId(leaf), packet), verdict, "{handle}");
            let mut seen = Vec::new();
            link.take_dropped(&mut |dropped| seen.push((dropped.handle.0, dropped.reason)));
            let gone: Vec<_> = gone.iter().map(|&handle| (handle, DropReason::Longest)).collect();
            assert_eq!((seen, lengths(&*link)), (gone, waiting.to_vec()), "{handle}");
        }
        let packet = Packet::new(Handle(9), 9000);
        let mut alone = self::link("fifo", 3000, &[100]);
        assert_eq!(alone.offer(Instant::ZERO, LeafId(0), packet), dropped);
        assert_eq!(lengths(&*alone), [0]);
    }

    #[test]
    fn every_scheduler_survives_drops_in_other_leaves() {
        let mut ran = 0;
        for entry in SCHEDULERS {
            // Schedulers that require class parameters have tests of their own.
            let Ok(mut link) = plan(entry.descriptor.keyword, 6000, &[100, 1, 1000, 100]).build()
            else {
                continue;
            };
            ran += 1;
            let mut sent = Vec::new();
            for step in 0..400u32 {
                let now = Instant::from_nanos(u64::from(step) * 700_000_000);
                link.advance(now, &mut sent);
                for burst in 0..3 {
                    let length = 40 + (step * 37 + burst * 511) % 1400;
                    let leaf = LeafId((step + burst * burst) % 4);
                    link.offer(now, leaf, Packet::new(Handle(step), length));
                }
                let waiting: u64 =
                    link.account().leaves().iter().map(|leaf| leaf.backlog.bytes).sum();
                assert!(waiting <= 6000, "{}: {waiting}", entry.descriptor.keyword);
            }
            link.advance(Instant::MAX, &mut sent);
            assert_eq!(link.backlog(), 0, "{}", entry.descriptor.keyword);
        }
        assert!(ran >= 5, "most take classes without parameters");
    }
}
