//! A worker that hangs: the loop gives it up, and another thread opens its port.
//!
//! A thread cannot be ended from outside, and the kernel may still write to the slots that it has.
//! So they stay with it, counted, until it goes on: then it leaves the port, and gives them back by
//! the queues that it had. One worker of a port is given up at a time; while it hangs, another one
//! that hangs leaves the port as good as gone.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, mpsc};

use super::exchange::{Arrived, Exchange, LoopEnds, Shared};
use super::loop_side::{AtWorker, WorkedPort};
use super::rest::Notice;
use super::side::{AtLoop, Crew, Side};
use super::{Reopen, start};
use crate::pool::{FramePool, PassedFrame, VIEWS_MAX};
use crate::port::{PortState, RINGS_MAX};
use weir_host::wait::WaitPolicy;

/// The means to open a port again in another thread.
pub(super) struct Again {
    pub reopen: Reopen,
    /// How workers wait; none has started before it is set.
    pub wait: Arc<OnceLock<WaitPolicy>>,
    /// Whether frames come in, by the loop's last word.
    pub intake: bool,
    /// Whether ports have shares, which send by flows.
    pub notes_flows: bool,
}

/// The queues and slots of a worker that was given up.
pub(super) struct GivenUp {
    ends: LoopEnds,
    /// Its slots.
    pub away: usize,
}

/// The signs of life of a worker, looked for at intervals of the loop: where the whole machine
/// pauses, the loop looks no more often than the worker turns.
#[derive(Default)]
pub(super) struct Pulse {
    turned_ns: u64,
    looked_ns: u64,
    missed: u32,
}

impl Pulse {
    /// Looks for one; returns whether it has been missing for long.
    pub fn is_missing(&mut self, shared: &Shared, now_ns: u64) -> bool {
        let turned_ns = shared.turned_ns.load(Ordering::Relaxed);
        if turned_ns == 0 || turned_ns != self.turned_ns {
            *self = Self { turned_ns, looked_ns: now_ns, missed: 0 };
        } else if now_ns.saturating_sub(self.looked_ns) >= LOOK_INTERVAL_NS {
            (self.looked_ns, self.missed) = (now_ns, self.missed + 1);
        }
        let is_opening = shared.is_opening.load(Ordering::Relaxed);
        self.missed >= if is_opening { MISSED_OPENING } else { MISSED_MAX }
    }
}

impl Pulse {
    /// Returns whether the last look found none.
    pub fn is_weak(&self) -> bool {
        self.missed > 0
    }
}

impl GivenUp {
    /// Takes back what the worker has returned; of the frames that it had passed on, how many there
    /// were.
    fn collect(&mut self, pool: &mut FramePool) -> u64 {
        let mut frames = 0;
        for queue in &mut self.ends.received {
            while let Ok(Arrived { frame, .. }) = queue.pop() {
                let frame = pool.take(frame);
                pool.release(frame);
                (self.away, frames) = (self.away - 1, frames + 1);
            }
        }
        while let Ok(slot) = self.ends.surplus.pop() {
            pool.take_free(slot);
            self.away -= 1;
        }
        frames
    }
}

impl WorkedPort {
    /// Returns whether another thread can take the worker's place.
    pub(super) fn can_give_up(&self) -> bool {
        self.again.reopen.is_some() && self.given_up.is_none()
    }

    /// Has another thread open the port of a worker that hangs; where the system has none, the next
    /// call tries again.
    pub(super) fn give_up(&mut self, pool: &mut FramePool) {
        let facts = self.facts.clone();
        let Ok(notice) = Notice::new() else { return };
        let Some(wait) = self.again.wait.get() else { return };
        let for_loop = Arc::clone(&self.shared.for_loop);
        let exchange = Exchange::of(facts, PortState::Gone, for_loop);
        let (requests, requested) = mpsc::channel();
        let view = self.at_worker.view ^ OTHER_VIEW;
        let at_loop = AtLoop {
            ends: exchange.worker_ends,
            requests: requested,
            shared: Arc::clone(&exchange.shared),
            notes_flows: self.again.notes_flows,
        };
        let mut side = Side::new(None, self.again.reopen.clone(), at_loop, self.again.intake);
        let (_none_passed, _no_port) = side.attach(pool.view(view));
        let resting = Arc::new(Mutex::new(Some(side)));
        let mut crew = Crew::new(Arc::new(notice));
        crew.add(Arc::clone(&resting));
        let notice = crew.notice();
        if start(crew, "worker-again".to_owned(), *wait).is_err() {
            return;
        }
        self.shared.is_given_up.store(true, Ordering::Release);
        self.count_given_up();
        for ring in 0..RINGS_MAX {
            self.take_passed(ring, pool);
        }
        let ends = std::mem::replace(&mut self.ends, exchange.loop_ends);
        let away = std::mem::take(&mut self.away);
        self.given_up = Some(GivenUp { ends, away });
        self.at_worker = AtWorker { requests, resting, notice, view };
        self.shared = exchange.shared;
        self.own = Some(pool.view(view));
        (self.passed, self.taken, self.is_hung) = (0, [0; RINGS_MAX], false);
        self.has_news = true;
        self.pulse = Pulse::default();
    }

    /// Keeps the counts of the worker, with the frames that were given to it to be sent.
    fn count_given_up(&mut self) {
        self.shared.read_counters(&mut self.counters);
        let unsent = self.passed - self.shared.finished.load(Ordering::Relaxed);
        self.before = self.before.plus(&std::mem::take(&mut self.counters));
        self.before.worker_failed += unsent;
    }

    /// Takes over the frames of a ring that the worker has passed on.
    fn take_passed(&mut self, ring: usize, pool: &mut FramePool) {
        while let Ok(arrived) = self.ends.received[ring].pop() {
            let frame = self.take_from_own(arrived.frame, pool);
            self.moved.push_back((ring, arrived.received_as(frame)));
            self.away -= 1;
        }
    }

    /// Takes a frame that the worker passed on, from the memory that its view has.
    fn take_from_own(&mut self, frame: PassedFrame, pool: &mut FramePool) -> crate::pool::FrameId {
        match &mut self.own {
            Some(own) if !Arc::ptr_eq(own.memory(), pool.memory()) => pool.take_from(own, frame),
            _ => pool.take(frame),
        }
    }

    /// Takes back what a worker returns that was given up and goes on.
    pub(super) fn collect(&mut self, pool: &mut FramePool) {
        let Some(given_up) = &mut self.given_up else { return };
        self.before.worker_failed += given_up.collect(pool);
        self.given_up.take_if(|given_up| given_up.away == 0);
    }
}

/// Views with this bit in their number are those of workers in place of others; a third one of a
/// port has the number of the first, which has left by then.
pub(super) const OTHER_VIEW: u32 = VIEWS_MAX / 2;
/// The interval at which the loop looks for a sign of life.
const LOOK_INTERVAL_NS: u64 = 90_000_000;
/// How many times in a row there may be none.
const MISSED_MAX: u32 = 8;
/// How many there may be while the kernel makes sockets: it may have to restart a card.
const MISSED_OPENING: u32 = 100;
