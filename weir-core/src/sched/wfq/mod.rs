//! Weighted fair queueing, packet by packet generalised processor sharing [parekh93 §III]
//! [algorithms §4.2].
//!
//! A fluid model of the link, in which all backlogged leaves share the line at every instant by
//! weight, runs beside it. Each packet has the virtual time at which the fluid finishes it; the
//! smallest of these goes first, among equals that of the leaf declared first. So no packet is
//! finished later than in the fluid by more than the time of a largest packet, though many may be
//! finished much earlier. Invariant: `waiting` holds each backlogged leaf, by the finish tag of its
//! first packet.
//!
//! The fluid counts at the rate of the link and in charged bytes, but never beyond what the line
//! was handed. Drops: a dropped packet costs its leaf nothing, and the next one starts where the
//! first did. The fluid removes as many bytes as the first packet had; that is exact where the
//! first is dropped, else an estimate, which is corrected when the leaf empties.

mod fluid;
mod starts;

use super::service::Weighted;
use super::{
    Calls, Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Scheduler,
    Selection, Service, Tree, Waiting,
};
use crate::ids::LeafId;
use crate::order::heap::Heaps;
use crate::order::weights::{WEIGHT, Weights, counted, written};
use crate::parameter::BuildError;
use crate::state::{Reader, State, StateError, Writer};
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;
use fluid::Fluid;
use starts::{Queue, Starts};

/// Weighted fair queueing.
pub struct Wfq {
    leaves: Vec<Leaf>,
    waiting: Heaps<u64>,
    fluid: Fluid,
    starts: Starts,
    shift: u32,
}

#[derive(Clone, Copy)]
struct Leaf {
    /// The start tag of the first packet while one waits; else the finish tag of the last one sent,
    /// or a later one.
    start: u64,
    head: Option<Head>,
    /// The number of the first packet; packets are numbered as they arrive.
    number: u32,
    /// The number of the last packet.
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

    const CALLS: Calls = Calls { per_packet: true, ..Calls::DEFAULT };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let weights = Weights::of(tree);
        let leaf = Leaf { start: 0, head: None, number: 0, last: 0, starts: Queue::EMPTY };
        Ok(Self {
            leaves: alloc::vec![leaf; tree.leaf_count()],
            waiting: Heaps::new(&[tree.leaf_count()], tree.leaf_count()),
            fluid: Fluid::new(tree, &weights),
            starts: Starts::new(),
            shift: weights.shift,
        })
    }
}

impl Scheduler for Wfq {
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        if self.waiting.contains(leaf.0) {
            return self.joined(now, leaf, head.length);
        }
        self.advance(now);
        let fresh = self.fluid.arrived(leaf, counted(head.length)).unwrap_or(0);
        let state = &mut self.leaves[leaf.index()];
        state.last = state.number;
        let start = state.start.max(fresh);
        self.set_head(leaf, start, Some(head));
    }

    fn joined(&mut self, now: Instant, leaf: LeafId, length: Bytes) {
        self.advance(now);
        let fresh = self.fluid.arrived(leaf, counted(length));
        let state = &mut self.leaves[leaf.index()];
        state.last = state.last.wrapping_add(1);
        if let Some(start) = fresh {
            self.starts.push(&mut state.starts, state.last, start);
        }
        // The packet that was dropped for this one was the only one.
        if state.last == state.number && fresh.is_some() {
            let Leaf { start, head, .. } = *state;
            self.renumber(leaf, start, head);
        }
    }

    fn select(&mut self, _now: Instant) -> Selection {
        let first = self.waiting.first(0);
        first.map_or(Selection::Idle, |(_, leaf)| Selection::Leaf(LeafId(leaf)))
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        self.advance(now);
        let length = counted(sent);
        self.fluid.handed(length);
        let lead_max = self.fluid.virtual_time() + LEAD_MAX;
        let state = &mut self.leaves[leaf.index()];
        debug_assert!(state.head.is_some(), "a selected leaf is backlogged");
        let finish = state.start + length * self.fluid.inverse(leaf);
        state.number = state.number.wrapping_add(1);
        self.renumber(leaf, finish.min(lead_max), next);
    }

    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        self.advance(now);
        let state = &mut self.leaves[leaf.index()];
        let Some(before) = state.head else { return };
        state.number = state.number.wrapping_add(1);
        self.fluid.dropped(leaf, counted(before.length));
        if head != Some(before) {
            let start = state.start;
            self.renumber(leaf, start, head);
        }
    }
}

impl Explains for Wfq {
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

impl Changes for Wfq {
    /// A leaf that was ahead of the fluid is still ahead by as many bytes of the line, so that the
    /// fluid drains it for as long; a leaf's lag, at most a packet, is lost.
    fn inherit(&mut self, now: Instant, old: &Self, kin: &Kin) {
        self.fluid.inherit(now, &old.fluid);
        for (new, before) in kin.leaves() {
            let start = old.leaves[before.index()].start;
            let ahead = start.saturating_sub(old.fluid.reached());
            let ahead = u128::from(ahead) << self.shift >> old.shift;
            let ahead = ahead.min(1 << AHEAD_BITS) as u64;
            if ahead > 0 {
                let begin = self.fluid.begin(new, ahead);
                self.leaves[new.index()].start = begin + ahead;
            }
        }
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let is_known = |leaf: usize, head: Option<Head>| {
            let state = &self.leaves[leaf];
            let waits = self.waiting.contains(leaf as u32);
            state.head == head && waits == head.is_some() && state.start <= TAG_MAX
        };
        waiting.all(is_known) && self.fluid.is_sound(waiting.packets, TAG_MAX)
    }
}

impl Wfq {
    /// Records which packet of `leaf` is first now, if any; the one before it ends at `start`.
    fn renumber(&mut self, leaf: LeafId, start: u64, head: Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        if head.is_none() {
            self.starts.clear(&mut state.starts);
            self.fluid.emptied(leaf, start);
            return self.set_head(leaf, start, None);
        }
        let noted = self.starts.take(&mut state.starts, state.number);
        self.set_head(leaf, start.max(noted.unwrap_or(0)), head);
    }

    /// Sets the first packet of `leaf` to `head`, which starts at `start`; without a packet,
    /// `start` is when the next one may start.
    fn set_head(&mut self, leaf: LeafId, start: u64, head: Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        (state.start, state.head) = (start, head);
        let waited = self.waiting.contains(leaf.0);
        let Some(head) = head else { return self.waiting.remove(0, leaf.0) };
        let finish = start + counted(head.length) * self.fluid.inverse(leaf);
        if waited {
            self.waiting.update(0, leaf.0, finish);
        } else {
            self.waiting.insert(0, leaf.0, finish);
        }
    }

    /// Lets the fluid run until `now`.
    fn advance(&mut self, now: Instant) {
        self.fluid.advance(now);
        if self.fluid.virtual_time() >= RENEWAL {
            self.move_back(RENEWAL / 2);
        }
    }

    /// Moves all tags back by one amount, so that none ever overflows.
    #[cold]
    fn move_back(&mut self, back: u64) {
        for leaf in &mut self.leaves {
            leaf.start = leaf.start.saturating_sub(back);
        }
        self.waiting.change_keys(|finish| finish.saturating_sub(back));
        self.fluid.move_back(back);
        self.starts.move_back(back);
    }
}

/// The tag at which all tags are moved back.
const RENEWAL: u64 = 1 << 61;
/// No tag is later.
const TAG_MAX: u64 = 1 << 63;
/// The most that a leaf runs ahead of the fluid, since it sends only while its tag is the smallest;
/// more only if the line deviates much from its rate.
const LEAD_MAX: u64 = 1 << 61;
/// No leaf is ahead of the fluid by more, after a change of the tree.
const AHEAD_BITS: u32 = 57;

impl State for Wfq {
    fn save(&self, to: &mut Writer) {
        let Self { leaves, waiting, fluid, starts, shift: _ } = self;
        for leaf in leaves {
            let Leaf { start, head, number, last, starts: queue } = leaf;
            start.save(to);
            head.save(to);
            number.save(to);
            last.save(to);
            starts.save(queue, to);
        }
        waiting.save(to);
        fluid.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.starts = Starts::new();
        for leaf in &mut self.leaves {
            let Leaf { start, head, number, last, starts: queue } = leaf;
            start.load(from)?;
            head.load(from)?;
            number.load(from)?;
            last.load(from)?;
            *queue = Queue::EMPTY;
            self.starts.load(queue, TAG_MAX, from)?;
        }
        self.waiting.load(from)?;
        self.fluid.load(from)
    }
}
