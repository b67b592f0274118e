//! A worker: the thread, and its side of each port that it has.

use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, mpsc};

use super::exchange::{Arrived, Facts, Resting, Shared, Task, WorkerEnds};
use super::rest::{Notice, Rest};
use super::spread::flow;
use super::{BATCH, Reopen, SLOTS};
use crate::pool::{FrameId, FramePool};
use crate::port::lookup::FrameLookup;
use crate::port::{Found, NewRings, Port, PortCounters, PortState, RINGS_MAX, Reached, Received};
use weir_host::error::{Result, SystemError};
use weir_host::wait::{WaitPolicy, Waiter, monotonic_ns, set_exact_timers};

/// The ports of one worker.
pub(super) struct Crew {
    resting: Vec<Resting>,
    sides: Vec<Side>,
    notice: Arc<Notice>,
    rest: Rest,
}

/// How a worker reaches the loop, for one port.
pub(super) struct AtLoop {
    pub ends: WorkerEnds,
    pub requests: mpsc::Receiver<Task>,
    pub shared: Arc<Shared>,
    /// Whether ports have shares, which send by flows.
    pub notes_flows: bool,
}

/// A worker's side of a port.
pub(super) struct Side {
    /// `None` from a failure until it was opened again.
    port: Option<Box<dyn Port>>,
    reopen: Reopen,
    ends: WorkerEnds,
    requests: mpsc::Receiver<Task>,
    shared: Arc<Shared>,
    notes_flows: bool,
    /// Whether it was made without a port.
    opens_itself: bool,
    /// `None` until the loop gives one.
    view: Option<FramePool>,
    /// Looks frames up, in the rules that the loop told last.
    lookup: Option<FrameLookup>,
    /// For each ring, frames for which the queue had no room, the last one first.
    inbox: Vec<Vec<Received>>,
    /// For each ring, how many frames were passed on.
    passed: [u64; RINGS_MAX],
    /// Frames that the port has not taken yet.
    outbox: Vec<FrameId>,
    /// The slots, free or with the port, above which it gives some back.
    slots_max: usize,
    /// Whether frames come in, by the loop's last word.
    intake: bool,
    /// Whether the loop is gone.
    is_over: bool,
    refreshed_ns: u64,
    counted_ns: u64,
    /// Whether its descriptors may be others than before.
    is_refreshed: bool,
    /// Whether frames moved since then.
    is_uncounted: bool,
    /// The counts of ports that failed, and of what the worker itself lost.
    counted: PortCounters,
}

impl Crew {
    pub fn new(notice: Arc<Notice>) -> Self {
        let rest = Rest::new(Arc::clone(&notice));
        Self { resting: Vec::new(), sides: Vec::new(), notice, rest }
    }

    /// Returns what wakes it.
    pub fn notice(&self) -> Arc<Notice> {
        Arc::clone(&self.notice)
    }

    pub fn add(&mut self, side: Resting) {
        self.resting.push(side);
    }

    /// Serves the ports until the loop is gone.
    pub fn run(mut self, wait: WaitPolicy) {
        let take = |side: Resting| side.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.sides = self.resting.drain(..).filter_map(take).collect();
        // Where the kernel refuses, what the loop hands over is noticed 50 us later.
        let _coarse = set_exact_timers();
        let mut descriptors = self.descriptors();
        let mut waiter = Waiter::new(wait, &descriptors);
        let mut now = monotonic_ns();
        while !self.sides.iter().all(|side| side.is_over) {
            let failed = waiter.has_failed();
            let mut worked = false;
            for side in &mut self.sides {
                worked |= side.turn_or_fail(now, failed);
            }
            if worked {
                waiter.worked(now);
                now = monotonic_ns();
                continue;
            }
            if failed || self.sides.iter_mut().any(|side| std::mem::take(&mut side.is_refreshed)) {
                let watched = self.descriptors();
                if watched != descriptors || failed {
                    waiter = Waiter::new(wait, &watched);
                    descriptors = watched;
                }
            }
            let deadline = self.sides.iter().filter_map(|side| side.deadline(now)).min();
            if self.rest.is_short(&waiter, now, deadline) {
                now = self.rest.wait(&mut waiter, now, deadline).unwrap_or_else(|_| monotonic_ns());
                continue;
            }
            // The loop waits for no worker that sleeps until a frame wakes it.
            self.sides.iter().for_each(|side| side.look_is(Reached::All));
            let began = now;
            now = self.rest.wait(&mut waiter, now, deadline).unwrap_or_else(|_| monotonic_ns());
            self.sides.iter().for_each(|side| side.look_is(Reached::Looked(began)));
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let ports = self.sides.iter().filter_map(|side| side.port.as_ref());
        let ports = ports.flat_map(|port| port.descriptors());
        ports.chain([self.rest.descriptor()]).collect()
    }
}

impl Side {
    /// A side of a port, which it opens itself where there is none.
    pub fn new(port: Option<Box<dyn Port>>, reopen: Reopen, at_loop: AtLoop, intake: bool) -> Self {
        let AtLoop { ends, requests, shared, notes_flows } = at_loop;
        let held_max = shared.facts().room.held_max;
        Self {
            slots_max: SLOTS + held_max,
            opens_itself: port.is_none(),
            notes_flows,
            port,
            reopen,
            ends,
            requests,
            shared,
            view: None,
            lookup: None,
            inbox: (0..RINGS_MAX).map(|_| Vec::new()).collect(),
            passed: [0; RINGS_MAX],
            outbox: Vec::with_capacity(BATCH),
            intake,
            is_over: false,
            refreshed_ns: 0,
            counted_ns: 0,
            is_refreshed: true,
            is_uncounted: true,
            counted: PortCounters::default(),
        }
    }

    /// As [`Side::turn`]; a panic there costs the port and its frames, which are counted, and no
    /// more. Another port is opened in its place later.
    fn turn_or_fail(&mut self, now_ns: u64, is_failed: bool) -> bool {
        if self.shared.is_given_up.load(Ordering::Acquire) {
            return self.leave();
        }
        let turn = AssertUnwindSafe(|| self.turn(now_ns, is_failed));
        catch_unwind(turn).unwrap_or_else(|_panic| {
            self.fail();
            true
        })
    }

    /// Gives up the port, with the frames that the worker has of it.
    fn fail(&mut self) {
        self.shared.set_state(PortState::Gone);
        // The panic may have left it in any state, and it may panic again while it is dropped.
        let port = self.port.take();
        let _again = catch_unwind(AssertUnwindSafe(|| drop(port)));
        let counters = &mut self.counted;
        self.shared.read_counters(counters);
        let to_send = std::mem::take(&mut self.outbox).len() as u64;
        self.shared.finished.fetch_add(to_send, Ordering::Relaxed);
        self.inbox.iter_mut().for_each(Vec::clear);
        let lost = self.view.as_mut().map_or(0, FramePool::free_all);
        self.counted.worker_failed += lost as u64;
        (0..RINGS_MAX).for_each(|ring| self.shared.set_reached(ring, Reached::All));
        self.shared.set_counters(self.counted);
        self.refreshed_ns = monotonic_ns();
    }

    /// Gives the loop back every slot, as it gave up the port.
    fn leave(&mut self) -> bool {
        let port = self.port.take();
        let _again = catch_unwind(AssertUnwindSafe(|| drop(port)));
        if let Some(mut view) = self.view.take() {
            while let Ok(slot) = self.ends.fill.pop() {
                view.take_free(slot);
            }
            while let Ok(frame) = self.ends.sending.pop() {
                view.take(frame);
            }
            view.free_all();
            while let Some(slot) = view.pass_free() {
                let pushed = self.ends.surplus.push(slot);
                assert!(pushed.is_ok(), "the queue has room for all slots of a port");
            }
        }
        !std::mem::replace(&mut self.is_over, true)
    }

    /// Moves frames between the port and the loop; returns whether there were any.
    fn turn(&mut self, now_ns: u64, is_failed: bool) -> bool {
        self.shared.turned_ns.store(now_ns, Ordering::Relaxed);
        let worked = self.obey();
        if now_ns.saturating_sub(self.refreshed_ns) >= REFRESH_INTERVAL_NS || is_failed {
            self.refreshed_ns = now_ns;
            self.is_uncounted = true;
            self.shared.is_opening.store(true, Ordering::Relaxed);
            self.refresh();
            self.shared.is_opening.store(false, Ordering::Relaxed);
        }
        let (Some(view), Some(port)) = (&mut self.view, &mut self.port) else { return worked };
        while let Ok(slot) = self.ends.fill.pop() {
            view.take_free(slot);
        }
        while let Ok(rules) = self.ends.rules.pop() {
            FrameLookup::take_up(&mut self.lookup, rules);
        }
        port.reclaim(view);
        let moved = self.receive(now_ns) | self.send();
        self.give_back();
        self.is_uncounted |= moved | is_failed;
        if self.is_uncounted && now_ns.saturating_sub(self.counted_ns) >= COUNT_INTERVAL_NS {
            (self.counted_ns, self.is_uncounted) = (now_ns, false);
            self.count();
        }
        worked | moved
    }

    /// Does what the loop asked for.
    fn obey(&mut self) -> bool {
        match self.requests.try_recv() {
            Ok(task) => {
                self.is_refreshed = true;
                task(self);
                true
            }
            Err(mpsc::TryRecvError::Empty) => false,
            Err(mpsc::TryRecvError::Disconnected) => {
                self.is_over = true;
                (self.port, self.view) = (None, None);
                false
            }
        }
    }

    /// Takes frames from the rings and passes them to the loop, as many as both have room for.
    fn receive(&mut self, now_ns: u64) -> bool {
        let (Some(view), Some(port)) = (&mut self.view, &mut self.port) else { return false };
        let mut passed = false;
        for ring in 0..port.rings() {
            let (inbox, queue) = (&mut self.inbox[ring], &mut self.ends.received[ring]);
            let mut looked = None;
            // With fewer slots a super-packet would be lost in part; it waits in the ring.
            if inbox.is_empty() && view.free_count() >= SLOTS_MIN {
                looked = Some(match port.receive(ring, BATCH, view, inbox) {
                    Reached::Behind(at_ns) => Reached::Behind(at_ns),
                    Reached::All | Reached::Looked(_) => Reached::Looked(now_ns),
                });
                inbox.reverse();
            }
            let mut last = None;
            while let Some(received) = inbox.last().filter(|_| !queue.is_full()) {
                let Received { frame, at_ns, headers, .. } = *received;
                if self.notes_flows {
                    view.set_flow(frame, flow(&headers));
                }
                let lookup = self.lookup.as_mut();
                let found = lookup.map_or(Found::NOTHING, |lookup| lookup.find(&headers));
                let frame = view.pass(frame);
                let pushed = queue.push(Arrived { frame, at_ns, headers, found });
                assert!(pushed.is_ok(), "the queue has room");
                last = Some(at_ns);
                self.passed[ring] += 1;
                inbox.pop();
            }
            passed |= last.is_some();
            // Frames for which the queue has no room wait as if they were in the ring. Where it did
            // not look, it has come no further.
            let is_passed = inbox.is_empty();
            let behind = last.filter(|_| !is_passed).map(Reached::Behind);
            if let Some(reached) = behind.or(looked.filter(|_| is_passed)) {
                self.shared.set_reached(ring, reached);
            }
        }
        if passed {
            self.shared.for_loop.give();
        }
        passed
    }

    /// Gives the port what the loop passed on.
    fn send(&mut self) -> bool {
        let (Some(view), Some(port)) = (&mut self.view, &mut self.port) else { return false };
        while self.outbox.len() < BATCH {
            let Ok(frame) = self.ends.sending.pop() else { break };
            self.outbox.push(view.take(frame));
        }
        if self.outbox.is_empty() {
            return false;
        }
        let most = self.outbox.len().min(BATCH);
        let taken = port.send(view, &self.outbox[..most]).taken;
        self.outbox.drain(..taken);
        self.shared.finished.fetch_add(taken as u64, Ordering::Relaxed);
        taken > 0
    }

    /// Gives the loop the slots that are not needed here.
    fn give_back(&mut self) {
        let Some(view) = &mut self.view else { return };
        // Slots that the port has beyond its share came with frames that were to be sent.
        let held = self.port.as_ref().map_or(0, |port| port.held());
        while view.free_count() + held > self.slots_max && !self.ends.surplus.is_full() {
            let Some(slot) = view.pass_free() else { break };
            let pushed = self.ends.surplus.push(slot);
            assert!(pushed.is_ok(), "the queue has room");
        }
    }

    /// Looks whether the interface is there, or opens the port again that failed.
    fn refresh(&mut self) {
        if self.port.is_none() && !self.is_over {
            self.open_again();
        }
        self.is_refreshed = true;
        let Some(port) = &mut self.port else { return };
        self.shared.set_state(port.refresh());
        *self.shared.facts() = Facts::of(port.as_ref());
    }

    /// Opens the port again that failed; the next refresh tries again where that fails.
    fn open_again(&mut self) {
        let (Some(reopen), Some(view)) = (&self.reopen, &mut self.view) else { return };
        let Ok(mut port) = reopen() else { return };
        if port.attach(view).is_ok() && port.set_intake(self.intake).is_ok() {
            self.port = Some(port);
        }
    }

    fn count(&mut self) {
        let Some(port) = &mut self.port else { return };
        self.shared.set_counters(port.counters().plus(&self.counted));
    }

    /// Returns when there is something to do although nothing arrives.
    fn deadline(&self, now_ns: u64) -> Option<u64> {
        let of_port = self.port.as_ref().and_then(|port| port.deadline());
        let waits = !self.outbox.is_empty() || self.inbox.iter().any(|inbox| !inbox.is_empty());
        let retry = waits.then_some(now_ns + RETRY_INTERVAL_NS);
        let count = self.is_uncounted.then_some(self.counted_ns + COUNT_INTERVAL_NS);
        of_port.into_iter().chain(retry).chain(count).min()
    }

    /// Takes another view of the pool, over other memory, with the slots that it has; returns how
    /// many frames of each ring it had passed on by then, which lie in the memory of before.
    pub fn attach(&mut self, mut view: FramePool) -> ([u64; RINGS_MAX], Result<()>) {
        if let Some(mut before) = self.view.take() {
            while let Ok(frame) = self.ends.sending.pop() {
                self.outbox.push(before.take(frame));
            }
            view.adopt(before);
        }
        // Slots that the port lends to the kernel must be here by now.
        while let Ok(slot) = self.ends.fill.pop() {
            view.take_free(slot);
        }
        let attached = self.port.as_mut().map_or(Ok(()), |port| port.attach(&mut view));
        self.view = Some(view);
        (self.passed, attached)
    }

    pub fn begin_sorting(&mut self, made: &mut NewRings) -> bool {
        let has_begun = self.port.as_mut().is_some_and(|port| port.begin_sorting(made));
        self.look();
        has_begun
    }

    pub fn end_sorting(&mut self, retired: u8) {
        if let Some(port) = &mut self.port {
            port.end_sorting(retired);
        }
        self.look();
    }

    pub fn set_up(&mut self, up: bool) -> Result<()> {
        self.port.as_mut().map_or_else(|| Err(failed()), |port| port.set_up(up))
    }

    pub fn set_intake(&mut self, open: bool) -> Result<()> {
        self.intake = open;
        match &mut self.port {
            Some(port) => port.set_intake(open),
            // Until it is open no frame comes, and then as this says.
            None if self.opens_itself => Ok(()),
            None => Err(failed()),
        }
    }

    /// Says of each ring in which no frame is known to wait how far its frames were taken.
    fn look_is(&self, reached: Reached) {
        let rings = self.port.as_ref().map_or(0, |port| port.rings());
        for ring in 0..rings {
            if !matches!(self.shared.reached(ring), Reached::Behind(_)) {
                self.shared.set_reached(ring, reached);
            }
        }
    }

    fn look(&mut self) {
        if let Some(port) = &self.port {
            *self.shared.facts() = Facts::of(port.as_ref());
        }
    }
}

fn failed() -> SystemError {
    SystemError::refused("reach a port", "its worker failed, and opens it again", "")
}

/// The free slots without which no frame is taken from a ring: those of a batch, with the rest of a
/// super-packet.
const SLOTS_MIN: usize = 2 * BATCH;
/// The interval at which the interface is checked, and a port that failed is opened again.
const REFRESH_INTERVAL_NS: u64 = 100_000_000;
/// The interval at which the loop gets the counters.
const COUNT_INTERVAL_NS: u64 = 1_000_000;
/// The time after which a busy interface or loop is offered its frames again.
const RETRY_INTERVAL_NS: u64 = 50_000;
