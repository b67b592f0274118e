//! Weighted fair queueing, packet by packet generalised processor sharing [parekh93 §III]
//! [algorithms §4.2].
//!
//! A fluid twin of the link, in which all that wait share the line at every instant by weight, runs
//! beside it; each packet has the virtual time at which the fluid finishes it, and the smallest of
//! these goes first, of equals that of the leaf declared first. So no packet is finished later than
//! in the fluid by more than a largest packet takes, though many may be finished far earlier.
//! Invariant: `first` holds each leaf that waits, by the finish tag of its first packet; a leaf's
//! start tag is the finish of what it sent last, or later.
//!
//! The fluid counts at the rate of the link and in charged bytes, but never beyond what the line
//! was handed. Drops: a dropped packet costs its leaf nothing, and the next one starts where the
//! first did. The fluid takes as many bytes out as the packet in front had; that is exact where the
//! front is dropped, else an estimate, which is put right when the leaf runs empty.

mod fluid;
mod starts;

use super::calendar::{Calendar, Links, Member};
use super::service::Weighted;
use super::weights::{WEIGHT, Weights, counted, written};
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
    first: Calendar<0>,
    fluid: Fluid,
    starts: Starts,
    shift: u32,
}

struct Leaf {
    /// The start tag of the first packet, or the finish tag of what was sent last.
    start: u64,
    finish: u64,
    inverse: u64,
    head: Option<Head>,
    /// Packets are numbered as they come; this is the first one's.
    number: u32,
    /// The last one's.
    last: u32,
    starts: Queue,
    links: Links,
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
        let leaf = |inverse: &u64| Leaf {
            start: 0,
            finish: 0,
            inverse: *inverse,
            head: None,
            number: 0,
            last: 0,
            starts: Queue::EMPTY,
            links: Links::NOWHERE,
        };
        let leaves: Vec<_> = weights.inverses.iter().map(leaf).collect();
        let longest = weights.inverses.iter().max().copied().unwrap_or(1) * counted(tree.mtu());
        Ok(Self {
            first: Calendar::new(leaves.len(), 2 * longest),
            leaves,
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
            let start = old.leaves[before.index()].start;
            let ahead = start.saturating_sub(old.fluid.virtual_time());
            let ahead = u128::from(ahead) << self.shift >> old.shift;
            let ahead = ahead.min(1 << AHEAD_BITS) as u64;
            if ahead > 0 {
                let begin = self.fluid.begin(new, ahead);
                self.leaves[new.index()].start = begin + ahead;
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
        if self.leaves[leaf.index()].head.is_some() {
            return self.joined(now, leaf, head.length);
        }
        self.advance(now);
        let fresh = self.fluid.arrived(leaf, counted(head.length)).unwrap_or(0);
        let state = &mut self.leaves[leaf.index()];
        state.start = state.start.max(fresh);
        state.last = state.number;
        self.insert(leaf, head);
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
            self.renumber(leaf, state_head(&self.leaves, leaf));
        }
    }

    fn select(&mut self, _now: Instant) -> Selection {
        self.first.first(&self.leaves).map_or(Selection::Idle, Selection::Leaf)
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        self.advance(now);
        let length = counted(sent);
        self.fluid.handed(length);
        let lead_max = self.fluid.virtual_time() + LEAD_MAX;
        let state = &mut self.leaves[leaf.index()];
        state.start = (state.start + length * state.inverse).min(lead_max);
        state.number = state.number.wrapping_add(1);
        self.renumber(leaf, next);
    }

    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        self.advance(now);
        let state = &mut self.leaves[leaf.index()];
        let Some(before) = state.head else { return };
        state.number = state.number.wrapping_add(1);
        self.fluid.dropped(leaf, counted(before.length));
        if head != Some(before) {
            self.renumber(leaf, head);
        }
    }
}

/// The first packet of `leaf`.
fn state_head(leaves: &[Leaf], leaf: LeafId) -> Option<Head> {
    leaves[leaf.index()].head
}

impl Wfq {
    /// Puts a leaf with its start tag where its first packet belongs.
    fn insert(&mut self, leaf: LeafId, head: Head) {
        let state = &mut self.leaves[leaf.index()];
        state.finish = state.start + counted(head.length) * state.inverse;
        state.head = Some(head);
        self.first.insert(&mut self.leaves, leaf);
    }

    /// Another packet of `leaf`, which waited, is first now, or none.
    fn renumber(&mut self, leaf: LeafId, head: Option<Head>) {
        self.first.remove(&mut self.leaves, leaf);
        let state = &mut self.leaves[leaf.index()];
        let Some(head) = head else {
            state.head = None;
            self.starts.clear(&mut state.starts);
            return self.fluid.emptied(leaf, state.start);
        };
        let kept = self.starts.take(&mut state.starts, state.number);
        state.start = state.start.max(kept.unwrap_or(0));
        self.insert(leaf, head);
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
        let mut waiting = Vec::new();
        while let Some(leaf) = self.first.first(&self.leaves) {
            self.first.remove(&mut self.leaves, leaf);
            waiting.push(leaf);
        }
        for leaf in &mut self.leaves {
            leaf.start = leaf.start.saturating_sub(back);
            leaf.finish = leaf.finish.saturating_sub(back);
        }
        self.fluid.move_back(back);
        self.starts.move_back(back);
        waiting.into_iter().for_each(|leaf| self.first.insert(&mut self.leaves, leaf));
    }
}

impl Member<0> for Leaf {
    fn tag(&self) -> u64 {
        self.finish
    }

    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// At this tags are moved back.
const RENEWAL: u64 = 1 << 61;
/// A leaf sends only while its tag is the smallest, so it runs ahead of the fluid by less, unless
/// the line is far from its rate.
const LEAD_MAX: u64 = 1 << 61;
/// No leaf is ahead of the fluid by more, after a change of the tree.
const AHEAD_BITS: u32 = 57;
