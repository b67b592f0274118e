//! A port that several workers share: the loop's sides of all shares, as one port.
//!
//! Each share takes frames of some flows ([`ShareHandle`](crate::port::ShareHandle)), and what the
//! loop sends goes to one of them by its flow, so that order within a flow is kept. A worker that
//! hangs or fails takes its own flows with it until another one has its place: a share whose queue
//! is full holds up the port only as long as its worker goes on.
//!
//! Invariant: frames of one flow are sent by one share, whichever way they came.

use std::os::fd::RawFd;
use std::sync::Arc;

use super::loop_side::WorkedPort;
use crate::pool::{FrameId, FramePool};
use crate::port::{
    LaneRules, NewRings, Port, PortCounters, PortState, Reached, Received, Room, Sent, ShareHandle,
    SortHandle,
};
use crate::stations::Address;
use weir_core::fnv::{BASIS, fnv1a};
use weir_core::packet::{Addresses, Fragment, Headers};
use weir_host::error::Result;

/// The loop's sides of the shares, that of share 0 first.
pub(super) struct Spread {
    shares: Vec<WorkedPort>,
    /// Whether each has all rings, or all but the first have ring 0 alone.
    have_all_rings: bool,
}

impl Spread {
    pub fn new(shares: Vec<WorkedPort>, have_all_rings: bool) -> Self {
        assert!(!shares.is_empty(), "a port has a share at least");
        Self { shares, have_all_rings }
    }

    fn first(&self) -> &WorkedPort {
        &self.shares[0]
    }

    fn first_mut(&mut self) -> &mut WorkedPort {
        &mut self.shares[0]
    }

    fn share_of(&self, flow: u8) -> usize {
        usize::from(flow) % self.shares.len()
    }

    /// Does the same at each share; returns an error if there is one. Where each has receive queues
    /// of its own, it is the first one that has frames come to all of them: that one is last then.
    fn each(&mut self, act: impl FnMut(&mut WorkedPort) -> Result<()>) -> Result<()> {
        let shares = self.shares.iter_mut();
        let outcomes: Vec<_> = if self.have_all_rings {
            shares.rev().map(act).collect()
        } else {
            shares.map(act).collect()
        };
        outcomes.into_iter().collect()
    }

    /// Returns the shares that have rings which a policy sorts frames into.
    fn sorted(&mut self) -> &mut [WorkedPort] {
        let count = if self.have_all_rings { self.shares.len() } else { 1 };
        &mut self.shares[..count]
    }
}

/// Returns a number that all frames of a flow have, one of 256; 0 for those of no flow, and for
/// fragments, of which most have no ports.
pub(super) fn flow(headers: &Headers) -> u8 {
    if headers.fragment != Fragment::None {
        return 0;
    }
    let hash = match headers.addresses {
        Addresses::Unknown => return 0,
        Addresses::V4 { source, destination } => {
            fnv1a(fnv1a(BASIS, &source.octets()), &destination.octets())
        }
        Addresses::V6 { source, destination } => {
            fnv1a(fnv1a(BASIS, &source.octets()), &destination.octets())
        }
    };
    let protocol = headers.protocol.map_or(0, |protocol| protocol.0);
    let ports = headers.ports.map_or([0; 2], |ports| [ports.source, ports.destination]);
    let [source, destination] = ports.map(u16::to_be_bytes);
    let hash = fnv1a(hash, &[protocol, source[0], source[1], destination[0], destination[1]]);
    // The highest bits depend on all others.
    (hash.wrapping_mul(SPREADING) >> 56) as u8
}

impl Port for Spread {
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
        self.shares.iter().map(|share| share.room()).fold(Room::default(), Room::with)
    }

    fn attach(&mut self, pool: &mut FramePool) -> Result<()> {
        self.each(|share| share.attach(pool))
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.shares.iter().flat_map(|share| share.descriptors()).collect()
    }

    fn rings(&self) -> usize {
        self.first().rings()
    }

    fn shares(&self) -> usize {
        self.shares.len()
    }

    fn queues(&self) -> usize {
        let (rings, shares) = (self.rings(), self.shares.len());
        if self.have_all_rings { rings * shares } else { rings - 1 + shares }
    }

    fn look_up_in(&mut self, rules: &LaneRules) {
        self.shares.iter_mut().for_each(|share| share.look_up_in(rules));
    }

    fn receive(
        &mut self,
        queue: usize,
        frames_max: usize,
        pool: &mut FramePool,
        out: &mut Vec<Received>,
    ) -> Reached {
        let count = self.shares.len();
        let (share, ring) = match queue.checked_sub(count) {
            _ if self.have_all_rings => (queue % count, queue / count),
            None => (queue, 0),
            Some(behind) => (0, 1 + behind),
        };
        self.shares[share].receive(ring, frames_max, pool, out)
    }

    fn sorter(&self) -> Option<Arc<dyn SortHandle>> {
        self.first().sorter()
    }

    fn sharers(&self) -> Option<Arc<dyn ShareHandle>> {
        // They are shared already.
        None
    }

    fn begin_sorting(&mut self, made: &mut NewRings) -> bool {
        if !self.have_all_rings {
            return self.first_mut().begin_sorting(made);
        }
        for number in 0..self.shares.len() {
            // One that is gone has no frame that was sorted as before.
            let share = &mut self.shares[number];
            if !share.begin_sorting(made) && share.state() != PortState::Gone {
                self.shares[..number].iter_mut().for_each(|begun| begun.end_sorting(0));
                return false;
            }
        }
        true
    }

    fn end_sorting(&mut self, retired: u8) {
        self.sorted().iter_mut().for_each(|share| share.end_sorting(retired));
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[FrameId]) -> Sent {
        let mut sent = Sent::default();
        while sent.taken < frames.len() {
            let rest = &frames[sent.taken..];
            let number = self.share_of(pool.flow(rest[0]));
            let is_other = |frame: &FrameId| self.share_of(pool.flow(*frame)) != number;
            let run = rest.iter().position(is_other).unwrap_or(rest.len());
            let share = &mut self.shares[number];
            let taken = share.send(pool, &rest[..run]).taken;
            sent.taken += taken;
            if taken < run {
                if !share.stands_still() {
                    break;
                }
                share.lose(pool, rest[taken]);
                sent.lose(1);
            }
        }
        sent
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        self.shares.iter_mut().for_each(|share| share.reclaim(pool));
    }

    fn deadline(&self) -> Option<u64> {
        self.shares.iter().filter_map(|share| share.deadline()).min()
    }

    fn held(&self) -> usize {
        self.shares.iter().map(|share| share.held()).sum()
    }

    fn lent(&self) -> usize {
        self.shares.iter().map(|share| share.lent()).sum()
    }

    /// As the share sees it that sees the interface best: a worker that hangs says nothing of it.
    fn state(&self) -> PortState {
        let states = self.shares.iter().map(|share| share.state());
        states.min_by_key(|state| *state as u8).unwrap_or(PortState::Gone)
    }

    fn refresh(&mut self) -> PortState {
        for share in &mut self.shares {
            share.refresh();
        }
        self.state()
    }

    fn set_up(&mut self, up: bool) -> Result<()> {
        self.first_mut().set_up(up)
    }

    fn set_intake(&mut self, open: bool) -> Result<()> {
        self.each(|share| share.set_intake(open))
    }

    fn counters(&mut self) -> PortCounters {
        let mut sum = PortCounters::default();
        for (number, share) in self.shares.iter_mut().enumerate() {
            let counters = share.counters();
            sum = sum.plus(&counters);
            sum.received_by_share[number] = counters.received;
        }
        sum
    }
}

/// The golden ratio of 2^64, made odd: neighbouring numbers come far apart.
const SPREADING: u64 = 0x9e37_79b9_7f4a_7c15;
