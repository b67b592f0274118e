//! Several receive queues of one interface that one thread has, as one port.
//!
//! AF_XDP does not say when a frame came, so frames of different queues are in the order in which
//! they were found; those of one flow come by one queue, and keep theirs. Frames that the thread
//! sends go by the first queue. The others are told before the first what all are told: that one
//! has the program attached, which hands frames to the sockets of all.

use std::os::fd::RawFd;
use std::sync::Arc;

use super::AfXdp;
use crate::pool::{FrameId, FramePool};
use crate::port::{
    LaneRules, NewRings, Port, PortCounters, PortState, RINGS_MAX, Reached, Received, Room, Sent,
    ShareHandle, SortHandle,
};
use crate::stations::Address;
use weir_host::error::Result;

/// One port over the sockets of several receive queues.
pub(super) struct Several {
    /// The one with the lowest number first.
    queues: Vec<AfXdp>,
    /// For each ring, the queue that is asked first when it is next received from, and the last
    /// stamp.
    turns: [(usize, u64); RINGS_MAX],
}

impl Several {
    pub fn new(queues: Vec<AfXdp>) -> Self {
        assert!(!queues.is_empty(), "a share has a queue at least");
        Self { queues, turns: [(0, 0); RINGS_MAX] }
    }

    fn first(&self) -> &AfXdp {
        &self.queues[0]
    }

    /// Does the same at each queue, at the first one last; returns an error if there is one.
    fn each(&mut self, act: impl FnMut(&mut AfXdp) -> Result<()>) -> Result<()> {
        let outcomes: Vec<_> = self.queues.iter_mut().rev().map(act).collect();
        outcomes.into_iter().collect()
    }
}

impl Port for Several {
    fn kind(&self) -> &'static str {
        self.first().kind()
    }

    fn interface(&self) -> &str {
        self.first().interface()
    }

    fn address(&self) -> Option<Address> {
        self.first().address()
    }

    fn mtu(&self) -> usize {
        self.first().mtu()
    }

    fn warnings(&self) -> Vec<String> {
        self.first().warnings()
    }

    fn room(&self) -> Room {
        self.queues.iter().map(|queue| queue.room()).fold(Room::default(), Room::with)
    }

    fn attach(&mut self, pool: &mut FramePool) -> Result<()> {
        self.each(|queue| queue.attach(pool))
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.queues.iter().flat_map(|queue| queue.descriptors()).collect()
    }

    fn rings(&self) -> usize {
        self.first().rings()
    }

    fn shares(&self) -> usize {
        1
    }

    fn queues(&self) -> usize {
        self.rings()
    }

    fn look_up_in(&mut self, _rules: &LaneRules) {
        // The loop looks up the frames that it receives here.
    }

    /// Takes an equal part from each queue; what one leaves of its part is for those behind it, and
    /// another one is the first next time.
    fn receive(
        &mut self,
        ring: usize,
        frames_max: usize,
        pool: &mut FramePool,
        out: &mut Vec<Received>,
    ) -> Reached {
        let count = self.queues.len();
        let (start, full) = (out.len(), out.len() + frames_max);
        let (first, last_ns) = &mut self.turns[ring];
        let mut is_behind = false;
        for place in 0..count {
            let queue = &mut self.queues[(*first + place) % count];
            let part = full.saturating_sub(out.len()) / (count - place);
            let reached = queue.receive(ring, part, pool, out);
            is_behind |= matches!(reached, Reached::Behind(_)) || queue.is_ready(ring);
        }
        *first = (*first + 1) % count;
        // After a stall frames count as old as they may be, in each queue the first ones.
        out[start..].sort_by_key(|received| received.at_ns);
        for received in &mut out[start..] {
            *last_ns = received.at_ns.max(*last_ns);
            received.at_ns = *last_ns;
        }
        Reached::up_to(out[start..].last(), is_behind)
    }

    fn sorter(&self) -> Option<Arc<dyn SortHandle>> {
        self.first().sorter()
    }

    fn sharers(&self) -> Option<Arc<dyn ShareHandle>> {
        self.first().sharers()
    }

    fn begin_sorting(&mut self, made: &mut NewRings) -> bool {
        for number in 0..self.queues.len() {
            if !self.queues[number].begin_sorting(made) {
                self.queues[..number].iter_mut().for_each(|begun| begun.end_sorting(0));
                return false;
            }
        }
        true
    }

    fn end_sorting(&mut self, retired: u8) {
        self.queues.iter_mut().for_each(|queue| queue.end_sorting(retired));
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[FrameId]) -> Sent {
        self.queues[0].send(pool, frames)
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        self.queues.iter_mut().for_each(|queue| queue.reclaim(pool));
    }

    fn deadline(&self) -> Option<u64> {
        self.queues.iter().filter_map(|queue| queue.deadline()).min()
    }

    fn held(&self) -> usize {
        self.queues.iter().map(|queue| queue.held()).sum()
    }

    fn lent(&self) -> usize {
        self.queues.iter().map(|queue| queue.lent()).sum()
    }

    fn state(&self) -> PortState {
        self.first().state()
    }

    fn refresh(&mut self) -> PortState {
        for queue in self.queues.iter_mut().rev() {
            queue.refresh();
        }
        self.state()
    }

    fn set_up(&mut self, up: bool) -> Result<()> {
        let set = self.queues[0].set_up(up);
        self.refresh();
        set
    }

    fn set_intake(&mut self, open: bool) -> Result<()> {
        self.each(|queue| queue.set_intake(open))
    }

    fn counters(&mut self) -> PortCounters {
        let counters = self.queues.iter_mut().map(|queue| queue.counters());
        counters.fold(PortCounters::default(), |sum, one| sum.plus(&one))
    }
}
