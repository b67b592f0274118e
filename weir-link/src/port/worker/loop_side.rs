//! The loop's side of a port that a worker has: a port like any other.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, PoisonError};

use super::exchange::{Arrived, Facts, LoopEnds, Notice, Resting, Shared, Task};
use super::side::Side;
use super::{BATCH, SENDING_MAX, SLOTS};
use crate::pool::{FrameId, FramePool};
use crate::port::{
    NewRings, Port, PortCounters, PortState, RINGS_MAX, Reached, Received, Room, Sent, SortHandle,
};
use crate::stations::Address;
use weir_host::error::{Result, SystemError};
use weir_host::wait::monotonic_ns;

/// How the loop reaches the worker of a port.
pub(super) struct AtWorker {
    pub requests: mpsc::Sender<Task>,
    pub resting: Resting,
    pub notice: Arc<Notice>,
    /// The number of the worker's view of the pool.
    pub view: u32,
}

/// The loop's side of a port.
pub(super) struct WorkedPort {
    kind: &'static str,
    ends: LoopEnds,
    requests: mpsc::Sender<Task>,
    /// Until the worker starts.
    resting: Resting,
    shared: Arc<Shared>,
    /// Wakes the worker.
    for_worker: Arc<Notice>,
    /// The number of the worker's view of the pool.
    view: u32,
    sorter: Option<Arc<dyn SortHandle>>,
    facts: Facts,
    state: PortState,
    counters: PortCounters,
    /// The slots that the worker has, or that are on their way; and how many of them it gets.
    away: usize,
    away_wanted: usize,
    /// How many frames were passed on to be sent.
    passed: u64,
    /// For each ring, how many frames were taken.
    taken: [u64; RINGS_MAX],
    /// A view without slots of the memory that the worker's view has.
    own: Option<FramePool>,
    /// Frames that were on their way when the pool got other memory, with their rings.
    moved: VecDeque<(usize, Received)>,
    /// Whether the last turn found nothing.
    was_idle: bool,
}

impl WorkedPort {
    pub fn new(port: &dyn Port, ends: LoopEnds, at_worker: AtWorker, shared: &Arc<Shared>) -> Self {
        let AtWorker { requests, resting, notice, view } = at_worker;
        Self {
            kind: port.kind(),
            ends,
            requests,
            resting,
            shared: Arc::clone(shared),
            for_worker: notice,
            view,
            sorter: port.sorter(),
            facts: Facts::of(port),
            state: port.state(),
            counters: PortCounters::default(),
            away: 0,
            away_wanted: SLOTS + port.room().held_max,
            passed: 0,
            taken: [0; RINGS_MAX],
            own: None,
            moved: VecDeque::new(),
            was_idle: false,
        }
    }

    /// Has the worker do something at its side, and waits for the answer, however long that takes:
    /// what is asked for must not be done later. A worker that never answers is one of a forwarder
    /// that hangs, which its watchdog ends.
    fn ask<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Side) -> T + Send + 'static,
    ) -> Result<T> {
        if let Some(side) = &mut *self.resting.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(task(side));
        }
        let (answer, answered) = mpsc::sync_channel(1);
        let task = move |side: &mut Side| {
            // Where nobody waits any more, nobody reads it.
            let _late = answer.send(task(side));
        };
        let silent = |_: mpsc::RecvError| {
            let action = format!("reach the worker of `{}`", self.facts.interface);
            SystemError::refused(action, "it has ended", "")
        };
        self.requests.send(Box::new(task)).map_err(|_| silent(mpsc::RecvError))?;
        self.for_worker.give();
        answered.recv().map_err(silent)
    }

    /// Takes up what the worker saw of the interface.
    fn look(&mut self) {
        self.facts.clone_from(&self.shared.facts());
    }

    /// Gives the worker free slots up to what it is to have.
    fn fill(&mut self, pool: &mut FramePool) {
        while self.away < self.away_wanted && !self.ends.fill.is_full() {
            let Some(slot) = pool.pass_free() else { break };
            let pushed = self.ends.fill.push(slot);
            assert!(pushed.is_ok(), "the queue has room");
            self.away += 1;
        }
    }
}

impl Port for WorkedPort {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn interface(&self) -> &str {
        &self.facts.interface
    }

    fn address(&self) -> Option<Address> {
        self.facts.address
    }

    fn mtu(&self) -> usize {
        self.facts.mtu
    }

    fn warnings(&self) -> Vec<String> {
        self.facts.warnings.clone()
    }

    fn room(&self) -> Room {
        super::room(self.facts.room)
    }

    /// Gives the worker a view of the pool. Where it had one before, of other memory, frames on
    /// their way from it move to the new memory.
    fn attach(&mut self, pool: &mut FramePool) -> Result<()> {
        let view = pool.view(self.view);
        self.fill(pool);
        let (passed, attached) = self.ask(|side| side.attach(view))?;
        if let Some(mut former) = self.own.replace(pool.view(self.view)) {
            for (ring, passed) in passed.into_iter().enumerate() {
                while self.taken[ring] < passed {
                    let arrived = self.ends.received[ring].pop();
                    let Arrived { frame, at_ns, headers } = arrived.expect("it was passed on");
                    let frame = pool.take_from(&mut former, frame);
                    self.moved.push_back((ring, Received { frame, at_ns, headers }));
                    (self.taken[ring], self.away) = (self.taken[ring] + 1, self.away - 1);
                }
            }
        }
        self.look();
        attached
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.shared.for_loop.descriptor()]
    }

    fn rings(&self) -> usize {
        self.facts.rings
    }

    fn receive(
        &mut self,
        ring: usize,
        frames_max: usize,
        pool: &mut FramePool,
        out: &mut Vec<Received>,
    ) -> Reached {
        while self.moved.front().is_some_and(|moved| moved.0 == ring) {
            out.extend(self.moved.pop_front().map(|moved| moved.1));
            self.was_idle = false;
        }
        let queue = &mut self.ends.received[ring];
        // Read first: what the worker passes on meanwhile is found by the next turn.
        let reached = self.shared.reached(ring);
        let count = queue.slots().min(frames_max);
        for _ in 0..count {
            let Ok(Arrived { frame, at_ns, headers }) = queue.pop() else { break };
            out.push(Received { frame: pool.take(frame), at_ns, headers });
        }
        self.taken[ring] += count as u64;
        self.away -= count;
        self.was_idle &= count == 0;
        match out.last() {
            Some(last) if !queue.is_empty() => Reached::Behind(last.at_ns),
            _ => reached,
        }
    }

    fn sorter(&self) -> Option<Arc<dyn SortHandle>> {
        self.sorter.clone()
    }

    fn begin_sorting(&mut self, made: &mut NewRings) -> bool {
        let mut rings = std::mem::take(made);
        let begin = move |side: &mut Side| (side.begin_sorting(&mut rings), rings);
        let Ok((has_begun, rest)) = self.ask(begin) else { return false };
        *made = rest;
        self.look();
        has_begun
    }

    fn end_sorting(&mut self, retired: u8) {
        // The port of a worker that has ended sorts nothing any more.
        let _ended = self.ask(move |side| side.end_sorting(retired));
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[FrameId]) -> Sent {
        let most = self.away_wanted + SENDING_MAX + BATCH;
        let room = self.ends.sending.slots().min(most.saturating_sub(self.away));
        let taken = frames.len().min(room);
        for frame in &frames[..taken] {
            let pushed = self.ends.sending.push(pool.pass(*frame));
            assert!(pushed.is_ok(), "the queue has room");
        }
        self.away += taken;
        self.passed += taken as u64;
        if taken > 0 {
            self.for_worker.give();
        }
        Sent { taken, ..Sent::default() }
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        if self.was_idle {
            self.shared.for_loop.take();
        }
        self.was_idle = true;
        while let Ok(slot) = self.ends.surplus.pop() {
            pool.take_free(slot);
            self.away -= 1;
        }
        self.fill(pool);
    }

    fn deadline(&self) -> Option<u64> {
        let is_sending = self.passed != self.shared.finished.load(Ordering::Relaxed);
        let waits = |ring: usize| {
            matches!(self.shared.reached(ring), Reached::Behind(_))
                || !self.ends.received[ring].is_empty()
        };
        let is_busy = is_sending || !self.moved.is_empty() || (0..self.facts.rings).any(waits);
        is_busy.then(|| monotonic_ns() + LOOK_AGAIN_NS)
    }

    fn held(&self) -> usize {
        self.away + self.moved.len()
    }

    fn lent(&self) -> usize {
        let sending = self.passed - self.shared.finished.load(Ordering::Relaxed);
        let received: usize = self.ends.received.iter().map(|queue| queue.slots()).sum();
        self.away.saturating_sub(sending as usize + received)
    }

    /// The interface's as the worker sees it; it is as good as gone while the worker is silent.
    fn state(&self) -> PortState {
        self.state
    }

    fn refresh(&mut self) -> PortState {
        self.look();
        let turned_ns = self.shared.turned_ns.load(Ordering::Relaxed);
        let is_silent = turned_ns > 0 && monotonic_ns().saturating_sub(turned_ns) > SILENT_MAX_NS;
        self.state = if is_silent { PortState::Gone } else { self.shared.state() };
        self.state
    }

    fn set_up(&mut self, up: bool) -> Result<()> {
        self.ask(move |side| side.set_up(up))?
    }

    fn set_intake(&mut self, open: bool) -> Result<()> {
        self.ask(move |side| side.set_intake(open))?
    }

    fn counters(&mut self) -> PortCounters {
        self.shared.read_counters(&mut self.counters);
        self.counters
    }
}

/// A worker turns every 20 ms at least; the port of one that did not for so long counts as gone.
const SILENT_MAX_NS: u64 = 1_000_000_000;
/// How soon the loop looks again while frames are with a worker, which wakes it before.
const LOOK_AGAIN_NS: u64 = 1_000_000;
