//! The loop's side of a port that a worker has: a port like any other.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::exchange::{Facts, LoopEnds, Resting, Shared, Task};
use super::given_up::{Again, GivenUp, Pulse};
use super::rest::Notice;
use super::side::Side;
use super::{BATCH, SENDING_MAX, SLOTS};
use crate::pool::{FrameId, FramePool};
use crate::port::{
    LaneRules, NewRings, Port, PortCounters, PortState, RINGS_MAX, Reached, Received, Room, Sent,
    ShareHandle, SortHandle,
};
use crate::stations::Address;
use weir_host::error::{Result, SystemError};
use weir_host::wait::monotonic_ns;

/// How the loop reaches the worker of a port.
pub(super) struct AtWorker {
    pub requests: mpsc::Sender<Task>,
    /// The worker's side, until the worker starts.
    pub resting: Resting,
    /// Wakes the worker.
    pub notice: Arc<Notice>,
    /// The number of the worker's view of the pool.
    pub view: u32,
}

/// The loop's side of a port.
pub(super) struct WorkedPort {
    pub(super) ends: LoopEnds,
    pub(super) at_worker: AtWorker,
    pub(super) shared: Arc<Shared>,
    sorter: Option<Arc<dyn SortHandle>>,
    pub(super) facts: Facts,
    state: PortState,
    /// The counts of this worker, and those of one before that was given up.
    pub(super) counters: PortCounters,
    pub(super) before: PortCounters,
    /// The slots that the worker has, or that are on their way; and how many of them it gets.
    pub(super) away: usize,
    away_wanted: usize,
    /// How many frames were passed on to be sent.
    pub(super) passed: u64,
    /// For each ring, how many frames were taken.
    pub(super) taken: [u64; RINGS_MAX],
    /// A view without slots of the memory that the worker's view has.
    pub(super) own: Option<FramePool>,
    /// Frames that were on their way when the pool got other memory, or when a worker was given
    /// up, with their rings.
    pub(super) moved: VecDeque<(usize, Received)>,
    pub(super) again: Again,
    /// The rules in which the worker looks frames up, and whether it is still to be told.
    pub(super) rules: Option<LaneRules>,
    pub(super) has_news: bool,
    pub(super) pulse: Pulse,
    /// Whether the worker hangs, and is to be given up.
    pub(super) is_hung: bool,
    pub(super) given_up: Option<GivenUp>,
}

/// A port as it was when a worker got it.
#[derive(Clone)]
pub(super) struct Known {
    pub facts: Facts,
    pub state: PortState,
    pub sorter: Option<Arc<dyn SortHandle>>,
}

impl WorkedPort {
    pub fn new(
        Known { facts, state, sorter }: Known,
        (ends, at_worker): (LoopEnds, AtWorker),
        shared: &Arc<Shared>,
        again: Again,
    ) -> Self {
        Self {
            ends,
            at_worker,
            shared: Arc::clone(shared),
            sorter,
            away_wanted: SLOTS + facts.room.held_max,
            facts,
            state,
            counters: PortCounters::default(),
            before: PortCounters::default(),
            away: 0,
            passed: 0,
            taken: [0; RINGS_MAX],
            own: None,
            moved: VecDeque::new(),
            again,
            rules: None,
            has_news: false,
            pulse: Pulse::default(),
            is_hung: false,
            given_up: None,
        }
    }

    /// Has the worker do something at its side, and waits for the answer, until it counts as one
    /// that hangs: what is asked for must not be done later. Where nothing can take the place of a
    /// worker, one that never answers is one of a forwarder that hangs, which its watchdog ends.
    fn ask<T: Send + 'static>(
        &mut self,
        task: impl FnOnce(&mut Side) -> T + Send + 'static,
    ) -> Result<T> {
        let resting = self.at_worker.resting.lock();
        if let Some(side) = &mut *resting.unwrap_or_else(PoisonError::into_inner) {
            return Ok(task(side));
        }
        let (answer, answered) = mpsc::sync_channel(1);
        // Whoever sets it first, the worker that begins or the loop that waits no more.
        let settled = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&settled);
        let task = move |side: &mut Side| {
            if !begun.swap(true, Ordering::AcqRel) {
                // Where nobody waits any more, nobody reads it.
                let _late = answer.send(task(side));
            }
        };
        let interface = self.facts.interface.clone();
        let silent =
            |why| SystemError::refused(format!("reach the worker of `{interface}`"), why, "");
        let sent = self.at_worker.requests.send(Box::new(task));
        sent.map_err(|_| silent("it has ended"))?;
        self.at_worker.notice.give();
        loop {
            match answered.recv_timeout(ANSWER_WAIT) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(silent("it has ended")),
                Err(RecvTimeoutError::Timeout) if self.is_silent() && self.can_give_up() => {
                    settled.store(true, Ordering::Release);
                    self.is_hung = true;
                    return Err(silent("it hangs; another takes its place"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Looks whether the worker turns.
    fn is_silent(&mut self) -> bool {
        self.pulse.is_missing(&self.shared, monotonic_ns())
    }

    /// Returns whether the worker had not turned for a while when the loop looked last.
    pub(super) fn stands_still(&self) -> bool {
        self.is_hung || self.pulse.is_weak()
    }

    /// Gives up a frame that the worker was to send.
    pub(super) fn lose(&mut self, pool: &mut FramePool, frame: FrameId) {
        pool.release(frame);
        self.before.worker_failed += 1;
    }

    /// Takes up what the worker saw of the interface.
    fn look(&mut self) {
        self.facts.clone_from(&self.shared.facts());
    }

    /// Tells the worker its rules, if it does not know them and its queue has room.
    fn tell_rules(&mut self) {
        let Some(rules) = self.rules.as_ref().filter(|_| self.has_news) else { return };
        // The loop looks up what comes meanwhile.
        self.has_news = self.ends.rules.push(rules.clone()).is_err();
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
        self.facts.kind
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
        super::room(self.facts.room, 1)
    }

    /// Gives the worker a view of the pool. Where it had one before, of other memory, frames on
    /// their way from it move to the new memory.
    fn attach(&mut self, pool: &mut FramePool) -> Result<()> {
        let view = pool.view(self.at_worker.view);
        self.fill(pool);
        let (passed, attached) = self.ask(|side| side.attach(view))?;
        if let Some(mut former) = self.own.replace(pool.view(self.at_worker.view)) {
            for (ring, passed) in passed.into_iter().enumerate() {
                while self.taken[ring] < passed {
                    let arrived = self.ends.received[ring].pop();
                    let arrived = arrived.expect("it was passed on");
                    let frame = pool.take_from(&mut former, arrived.frame);
                    self.moved.push_back((ring, arrived.received_as(frame)));
                    (self.taken[ring], self.away) = (self.taken[ring] + 1, self.away - 1);
                }
            }
        }
        self.look();
        attached
    }

    /// None: its workers wake the loop by what all workers have in common.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn rings(&self) -> usize {
        self.facts.rings
    }

    fn shares(&self) -> usize {
        1
    }

    fn queues(&self) -> usize {
        self.facts.rings
    }

    fn look_up_in(&mut self, rules: &LaneRules) {
        (self.rules, self.has_news) = (Some(rules.clone()), true);
        self.tell_rules();
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
        }
        let queue = &mut self.ends.received[ring];
        // Read first: what the worker passes on meanwhile is found by the next turn.
        let reached = self.shared.reached(ring);
        let count = queue.slots().min(frames_max);
        for _ in 0..count {
            let Ok(arrived) = queue.pop() else { break };
            out.push(arrived.received_as(pool.take(arrived.frame)));
        }
        self.taken[ring] += count as u64;
        self.away -= count;
        match out.last() {
            Some(last) if !queue.is_empty() => Reached::Behind(last.at_ns),
            _ => reached,
        }
    }

    fn sorter(&self) -> Option<Arc<dyn SortHandle>> {
        self.sorter.clone()
    }

    fn sharers(&self) -> Option<Arc<dyn ShareHandle>> {
        None
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
            self.at_worker.notice.give();
        }
        Sent { taken, ..Sent::default() }
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        if self.is_hung && self.can_give_up() {
            self.give_up(pool);
        }
        self.collect(pool);
        self.tell_rules();
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
        let given_up = self.given_up.as_ref().map_or(0, |given_up| given_up.away);
        self.away + self.moved.len() + given_up
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
        let is_silent = self.is_silent();
        self.is_hung |= is_silent && self.can_give_up();
        let is_gone = is_silent || self.is_hung;
        self.state = if is_gone { PortState::Gone } else { self.shared.state() };
        self.state
    }

    fn set_up(&mut self, up: bool) -> Result<()> {
        self.ask(move |side| side.set_up(up))?
    }

    fn set_intake(&mut self, open: bool) -> Result<()> {
        self.again.intake = open;
        self.ask(move |side| side.set_intake(open))?
    }

    fn counters(&mut self) -> PortCounters {
        self.shared.read_counters(&mut self.counters);
        self.before.plus(&self.counters)
    }
}

/// How long the loop waits for an answer before it looks whether the worker hangs.
const ANSWER_WAIT: Duration = Duration::from_millis(100);
/// How soon the loop looks again while frames are with a worker, which wakes it before.
const LOOK_AGAIN_NS: u64 = 1_000_000;
