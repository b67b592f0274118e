//! Weighted fair queueing, packet by packet generalised processor sharing [parekh93 §III]
//! [algorithms §4.2].
//!
//! A fluid twin of the link, in which all that wait share the line at every instant by weight, runs
//! beside it; each packet has the virtual time at which the fluid finishes it, and the smallest of
//! these goes first, of equals that of the leaf declared first. So no packet is finished later than
//! in the fluid by more than a largest packet takes, though many may be finished far earlier.
//! Invariant: `first` holds each leaf that waits, by the finish tag of its first packet; one that
//! does not wait has left its start tag there: the finish of what it sent last, or later.
//!
//! The fluid counts at the rate of the link and in charged bytes, but never beyond what the line
//! was handed. Drops: a dropped packet costs its leaf nothing, and the next one starts where the
//! first did. The fluid takes as many bytes out as the packet in front had; that is exact where the
//! front is dropped, else an estimate, which is put right when the leaf runs empty.

mod fluid;
mod starts;

use super::service::Weighted;
use crate::order::tournament::{Lane, Order};
use crate::order::weights::{WEIGHT, Weights, counted, written};
use super::{
    Cost, Descriptor, Discipline, Head, Kin, Promises, Scheduler, Selection, Service, Tree,
};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;
use fluid::Fluid;
use starts::{Queue, Starts};

/// Weighted fair queueing.
pub struct Wfq {
    leaves: Vec<Leaf>,
    first: (Order, Lane),
    fluid: Fluid,
    starts: Starts,
    shift: u32,
}

/// A leaf; its start tag follows from what `first` says of it.
#[derive(Clone, Copy)]
struct Leaf {
    /// When the first packet came, in halves so that nothing is padded, the upper one first, and
    /// its length; meaningless where none waits.
    arrived: [u32; 2],
    length: u32,
    /// Packets are numbered as they come; this is the first one's.
    number: u32,
    /// The last one's.
    last: u32,
    starts: Queue,
}

impl Discipline for Wfq {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "wfq",
        summary: "Weighted fair queueing: no packet finishes later than in the fluid by more than \
                  one packet.",
        parameters: &[WEIGHT],
        sources: &["parekh93 §III", "algorithms §4.2"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Logarithmic,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let weights = Weights::of(tree);
        let leaf = Leaf { arrived: [0; 2], length: 0, number: 0, last: 0, starts: Queue::EMPTY };
        Ok(Self {
            leaves: alloc::vec![leaf; tree.leaf_count()],
            first: order(tree.leaf_count()),
            fluid: Fluid::new(tree, &weights),
            starts: Starts::new(),
            shift: weights.shift,
        })
    }

    /// A leaf that was ahead of the fluid is still ahead by as many bytes of the line, so that the
    /// fluid drains it for as long; what one lagged behind, at most a packet, is forgotten.
    fn inherit(&mut self, now: Instant, old: &Self, kin: &Kin) {
        self.fluid.inherit(now, &old.fluid);
        for (new, before) in kin.leaves() {
            let start = old.start(before);
            let ahead = start.saturating_sub(old.fluid.virtual_time());
            let ahead = u128::from(ahead) << self.shift >> old.shift;
            let ahead = ahead.min(1 << AHEAD_BITS) as u64;
            if ahead > 0 {
                let begin = self.fluid.begin(new, ahead);
                self.leave(new, begin + ahead);
            }
        }
    }

    /// [parekh93 §III] No packet is later than in the fluid by more than a packet. But a leaf may
    /// be ahead of it until the tag of its next packet is that of the lightest leaf's.
    fn service(tree: &Tree) -> Service {
        let packet = tree.mtu();
        let lightest = written(tree).min().unwrap_or(1);
        let ahead = |weight: u64| packet.get().saturating_mul(1 + weight.div_ceil(lightest));
        let row = |weight| Weighted { weight, ahead: Bytes::new(ahead(weight)), late: packet };
        Service::Fluid(written(tree).map(row).collect())
    }
}

impl Scheduler for Wfq {
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        if self.waits(leaf) {
            return self.joined(now, leaf, head.length);
        }
        self.advance(now);
        let fresh = self.fluid.arrived(leaf, counted(head.length)).unwrap_or(0);
        let start = self.start(leaf).max(fresh);
        let state = &mut self.leaves[leaf.index()];
        state.last = state.number;
        self.insert(leaf, start, head);
    }

    fn joined(&mut self, now: Instant, leaf: LeafId, length: Bytes) {
        self.advance(now);
        let fresh = self.fluid.arrived(leaf, counted(length));
        let state = &mut self.leaves[leaf.index()];
        state.last = state.last.wrapping_add(1);
        if let Some(start) = fresh {
            self.starts.push(&mut state.starts, state.last, start);
        }
        // The packet that this one pushed out was the only one.
        if state.last == state.number && fresh.is_some() {
            self.renumber(leaf, self.start(leaf), self.head(leaf));
        }
    }

    fn select(&mut self, _now: Instant) -> Selection {
        let first = self.first.0.lowest(&self.first.1);
        first.map_or(Selection::Idle, |leaf| Selection::Leaf(LeafId(leaf)))
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        self.advance(now);
        let length = counted(sent);
        self.fluid.handed(length);
        let lead_max = self.fluid.virtual_time() + LEAD_MAX;
        let finish = self.start(leaf) + length * self.fluid.inverse(leaf);
        let state = &mut self.leaves[leaf.index()];
        state.number = state.number.wrapping_add(1);
        self.renumber(leaf, finish.min(lead_max), next);
    }

    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        self.advance(now);
        let Some(before) = self.head(leaf) else { return };
        let state = &mut self.leaves[leaf.index()];
        state.number = state.number.wrapping_add(1);
        self.fluid.dropped(leaf, counted(before.length));
        if head != Some(before) {
            self.renumber(leaf, self.start(leaf), head);
        }
    }
}

impl Wfq {
    #[inline]
    fn waits(&self, leaf: LeafId) -> bool {
        self.first.0.takes_part(leaf.0)
    }

    /// The first packet of `leaf`.
    fn head(&self, leaf: LeafId) -> Option<Head> {
        let Leaf { arrived: [upper, lower], length, .. } = self.leaves[leaf.index()];
        let nanos = u64::from(upper) << u32::BITS | u64::from(lower);
        let (length, arrived) = (Bytes::new(length.into()), Instant::from_nanos(nanos));
        self.waits(leaf).then_some(Head { length, arrived })
    }

    /// The start tag of the first packet, or the finish tag of what was sent last.
    fn start(&self, leaf: LeafId) -> u64 {
        let tag = self.first.0.key(leaf.0);
        let Some(head) = self.head(leaf) else { return tag };
        // Where tags were moved back it may have been held at zero.
        tag.saturating_sub(counted(head.length) * self.fluid.inverse(leaf))
    }

    /// Nothing waits in `leaf`, and its next packet starts at `start`.
    fn leave(&mut self, leaf: LeafId, start: u64) {
        let (order, lane) = &mut self.first;
        order.leave(lane, leaf.0, start);
    }

    /// Puts a leaf where its first packet, which starts at `start`, belongs.
    fn insert(&mut self, leaf: LeafId, start: u64, head: Head) {
        let finish = start + counted(head.length) * self.fluid.inverse(leaf);
        let state = &mut self.leaves[leaf.index()];
        let nanos = head.arrived.as_nanos();
        state.arrived = [(nanos >> u32::BITS) as u32, nanos as u32];
        state.length = u32::try_from(head.length.get()).unwrap_or(u32::MAX);
        let (order, lane) = &mut self.first;
        order.set(lane, leaf.0, finish);
    }

    /// Another packet of `leaf`, which waited, is first now, or none; what was before it ends at
    /// `start`.
    fn renumber(&mut self, leaf: LeafId, start: u64, head: Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        let Some(head) = head else {
            self.starts.clear(&mut state.starts);
            self.leave(leaf, start);
            return self.fluid.emptied(leaf, start);
        };
        let kept = self.starts.take(&mut state.starts, state.number);
        self.insert(leaf, start.max(kept.unwrap_or(0)), head);
    }

    /// Lets the fluid run until `now`.
    fn advance(&mut self, now: Instant) {
        self.fluid.advance(now);
        if self.fluid.virtual_time() >= RENEWAL {
            self.move_back(RENEWAL / 2);
        }
    }

    /// Moves all tags back by the same, so that none ever overflows.
    #[cold]
    fn move_back(&mut self, back: u64) {
        move_back(&mut self.first, back);
        self.fluid.move_back(back);
        self.starts.move_back(back);
    }
}

/// Everybody out.
fn order(leaves: usize) -> (Order, Lane) {
    let (order, lanes) = Order::new(&[leaves]);
    (order, lanes[0])
}

/// Moves the tags of all leaves back by the same.
fn move_back((order, lane): &mut (Order, Lane), back: u64) {
    for leaf in 0..lane.len() {
        let tag = order.key(leaf).saturating_sub(back);
        if order.takes_part(leaf) {
            order.set(lane, leaf, tag);
        } else {
            order.leave(lane, leaf, tag);
        }
    }
}

/// At this tags are moved back.
const RENEWAL: u64 = 1 << 61;
/// A leaf sends only while its tag is the smallest, so it runs ahead of the fluid by less, unless
/// the line is far from its rate.
const LEAD_MAX: u64 = 1 << 61;
/// No leaf is ahead of the fluid by more, after a change of the tree.
const AHEAD_BITS: u32 = 57;
