//! A port with a delay and losses: the path behind it is longer and worse than the cable is.
//!
//! Frames that leave wait for the delay, in order, and a part of them, chosen by seeded random
//! numbers, is lost. So paths of many milliseconds can be had on real packets.
//! Invariant: each frame taken over is waiting, was given to the inner port, or is counted lost.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

use delegate::delegate;
use weir_core::random::Random;
use weir_core::units::{Duration, Share};

use super::{
    BATCH, LaneRules, NewRings, Port, PortCounters, PortState, Reached, Received, Room, Sent,
    ShareHandle, SortHandle,
};
use crate::pool::{FrameId, FramePool};
use crate::stations::Address;
use weir_host::error::Result;
use weir_host::wait::monotonic_ns;

/// Bound: frames that wait for the delay of one port, 100 ms at 300 000 frames/s; further ones wait
/// before it.
pub const WAITING_MAX: usize = 32_768;

/// The impairments of a path.
#[derive(Clone, Copy, Debug)]
pub struct Impairment {
    /// How much later each frame leaves; at most [`WAITING_MAX`] frames wait, and while so many do
    /// the port is busy.
    pub delay: Duration,
    /// The part of the frames that is lost.
    pub loss: Share,
    /// The seed of the random numbers that choose them.
    pub seed: u64,
}

impl Default for Impairment {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            loss: Share::from_ppb(0).expect("nothing is a share"),
            seed: 0,
        }
    }
}

impl Impairment {
    /// Returns whether nothing is wrong.
    pub fn is_none(&self) -> bool {
        self.delay == Duration::ZERO && self.loss.ppb() == 0
    }

    /// Returns the most frames that wait.
    pub(super) fn held_max(&self) -> usize {
        if self.is_none() { 0 } else { WAITING_MAX }
    }
}

pub(super) struct Impaired {
    inner: Box<dyn Port>,
    impairment: Impairment,
    random: Random,
    /// Frames with the instants at which they leave.
    waiting: VecDeque<(u64, FrameId)>,
    lost: u64,
}

impl Impaired {
    pub(super) fn new(inner: Box<dyn Port>, impairment: Impairment) -> Self {
        let random = Random::new(impairment.seed, 0);
        Self { inner, impairment, random, waiting: VecDeque::new(), lost: 0 }
    }

    fn is_lost(&mut self) -> bool {
        let of_2_32 = (u64::from(self.impairment.loss.ppb()) << 32) / 1_000_000_000;
        of_2_32 > 0 && self.random.chance(of_2_32)
    }
}

impl Port for Impaired {
    delegate! {
        to self.inner {
            fn kind(&self) -> &'static str;
            fn interface(&self) -> &str;
            fn address(&self) -> Option<Address>;
            fn mtu(&self) -> usize;
            fn warnings(&self) -> Vec<String>;
            fn attach(&mut self, pool: &mut FramePool) -> Result<()>;
            fn descriptors(&self) -> Vec<RawFd>;
            fn rings(&self) -> usize;
            fn shares(&self) -> usize;
            fn queues(&self) -> usize;
            fn look_up_in(&mut self, rules: &LaneRules);
            fn receive(
                &mut self,
                ring: usize,
                frames_max: usize,
                pool: &mut FramePool,
                out: &mut Vec<Received>,
            ) -> Reached;
            fn sorter(&self) -> Option<Arc<dyn SortHandle>>;
            fn sharers(&self) -> Option<Arc<dyn ShareHandle>>;
            fn begin_sorting(&mut self, made: &mut NewRings) -> bool;
            fn end_sorting(&mut self, retired: u8);
            fn lent(&self) -> usize;
            fn state(&self) -> PortState;
            fn refresh(&mut self) -> PortState;
            fn set_up(&mut self, up: bool) -> Result<()>;
            fn set_intake(&mut self, open: bool) -> Result<()>;
        }
    }

    fn room(&self) -> Room {
        let room = self.inner.room();
        Room { held_max: WAITING_MAX + room.held_max, ..room }
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[FrameId]) -> Sent {
        let due = monotonic_ns() + self.impairment.delay.as_nanos();
        let mut outcome = Sent::default();
        let last = self.waiting.back().map(|(at, _)| *at);
        assert!(
            last.is_none_or(|last| last <= due),
            "frames leave in the order in which they came"
        );
        for frame in frames {
            if self.waiting.len() == WAITING_MAX {
                break;
            }
            outcome.taken += 1;
            if self.is_lost() {
                self.lost += 1;
                pool.release(*frame);
            } else {
                self.waiting.push_back((due, *frame));
            }
        }
        self.reclaim(pool);
        outcome
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        let now = monotonic_ns();
        loop {
            let mut due = [FrameId(0); BATCH];
            let waiting = self.waiting.iter().take(BATCH).take_while(|(at, _)| *at <= now);
            let count = due.iter_mut().zip(waiting).map(|(due, (_, frame))| *due = *frame).count();
            let sent = self.inner.send(pool, &due[..count]);
            assert!(sent.taken <= count, "a port takes frames that it is given");
            self.waiting.drain(..sent.taken);
            if count == 0 || sent.taken < count {
                break;
            }
        }
        self.inner.reclaim(pool);
    }

    fn deadline(&self) -> Option<u64> {
        let next = self.waiting.front().map(|(at, _)| *at);
        next.into_iter().chain(self.inner.deadline()).min()
    }

    fn held(&self) -> usize {
        self.waiting.len() + self.inner.held()
    }

    fn counters(&mut self) -> PortCounters {
        let counters = self.inner.counters();
        PortCounters { impaired: counters.impaired + self.lost, ..counters }
    }
}
