//! Ports whose frames other threads receive and send.
//!
//! Nine tenths of what a frame costs are the kernel's way in and out, its copy, and the work that
//! senders left undone. So each port is given to a *worker*, and the loop keeps the decisions
//! alone, in one order, as without workers. A worker has a view of the pool ([`FramePool::view`]):
//! it gets free slots, fills them, passes each frame to the loop, and gets back those to be sent.
//! Slots pass by queues without locks (`exchange.rs`), one for each ring, so that a flood in one
//! ring holds up no other. Where there are more workers than ports, several share one, each with
//! flows of its own (`spread.rs`). What is rare, such as to close the intake, is a request that the
//! loop waits for. The threads start with the loop ([`Workers::start`]), behind what a process
//! gives up before it forwards; until then the loop's side does what is to be done at a port.
//!
//! A worker that panics loses its ports, or its share of one, and no more: it counts their frames,
//! and opens them again. One that hangs is given up (`given_up.rs`): another thread opens its
//! ports, and the slots that it has come back when it goes on.
//! Invariant: each slot is in the view of the loop, in that of one worker, or in one queue.

mod exchange;
mod given_up;
mod loop_side;
mod rest;
mod side;
mod spread;
#[cfg(test)]
mod tests;

use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock, PoisonError, mpsc};
use std::thread;

use super::lookup::FrameLookup;
use super::{BATCH, Port, PortState, RINGS_MAX, Room, SHARES_MAX, ShareHandle};
use exchange::{Arrived, Exchange, Facts, Resting};
use given_up::{Again, OTHER_VIEW};
use loop_side::{AtWorker, Known, WorkedPort};
use rest::{Notice, Rest};
use side::{AtLoop, Crew, Side};
use spread::Spread;
use weir_host::error::{Result, SystemError};
use weir_host::wait::{WaitPolicy, Waiter, usable_cpus};

/// Bound: free slots that a worker has for a port beside those that the port itself lends; while
/// none is left frames wait in the rings.
const SLOTS: usize = 2048;
/// Bound: frames on their way from a worker to the loop, for each ring; more wait in the ring.
const RECEIVED_MAX: usize = 1024;
/// Bound: frames on their way from the loop to a worker; more wait in the lane's outbox.
const SENDING_MAX: usize = 1024;

/// How a port is opened again after its worker failed; `None` where that cannot be.
pub(crate) type Reopen = Option<Arc<dyn Fn() -> Result<Box<dyn Port>> + Send + Sync>>;

/// The workers of a bridge.
#[derive(Default)]
pub(crate) struct Workers {
    /// Those that have not started.
    crews: Vec<Crew>,
    /// How they wait, from their start on.
    wait: Arc<OnceLock<WaitPolicy>>,
    /// How the loop waits for them; `None` where there are none.
    rest: Option<Rest>,
}

impl Workers {
    /// Gives ports, whose intake is open or not, to at most so many workers, and those that can be
    /// shared to as many as they have shares; returns what the loop has of each.
    ///
    /// # Errors
    /// When the system has no descriptor more.
    pub fn employ(
        ports: Vec<(Box<dyn Port>, Reopen)>,
        workers: usize,
        intake: bool,
    ) -> Result<(Self, Vec<Box<dyn Port>>)> {
        let ports = ports.into_iter().map(|(port, reopen)| Given::of(port, reopen));
        let ports: Vec<_> = ports.collect();
        let shares = ports.iter().map(Given::shares).sum::<usize>();
        assert!(shares < OTHER_VIEW as usize, "each share has two views of its own");
        let notices = (0..workers.clamp(1, shares.max(1))).map(|_| Notice::new().map(Arc::new));
        let notices = notices.collect::<Result<Vec<_>>>()?;
        let crews = notices.into_iter().map(Crew::new).collect();
        let notes_flows = shares > ports.len();
        let wait = Arc::default();
        let for_loop = Arc::new(Notice::new()?);
        let rest = Some(Rest::new(Arc::clone(&for_loop)));
        let mut hiring = Hiring { crews, for_loop, wait, intake, notes_flows, employed: 0 };
        let mut loop_sides: Vec<Box<dyn Port>> = Vec::new();
        for given in ports {
            loop_sides.push(hiring.employ(given));
        }
        Ok((Self { crews: hiring.crews, wait: hiring.wait, rest }, loop_sides))
    }

    /// Starts those that have not started, as threads that wait so; where they and the loop have
    /// fewer processors than threads, none of them polls. Returns how the loop is to wait.
    ///
    /// # Errors
    /// When the system has no thread more.
    pub fn start(&mut self, wait: WaitPolicy) -> Result<WaitPolicy> {
        if self.rest.is_none() {
            return Ok(wait);
        }
        let processors = usable_cpus().map_or(0, |usable| usable.len());
        let is_crowded = processors <= self.crews.len();
        let wait = if is_crowded { WaitPolicy::Block } else { wait };
        // They start once; those that take another's place wait the same.
        let wait = *self.wait.get_or_init(|| wait);
        let mut crews = self.crews.drain(..).enumerate();
        crews.try_for_each(|(number, crew)| start(crew, format!("worker-{number}"), wait))?;
        Ok(wait)
    }

    /// Returns the descriptor by which they wake the loop.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.rest.as_ref().map(Rest::descriptor)
    }

    /// Returns when a wait of the loop from `now_ns` ends at the latest if the system wakes it in
    /// time.
    pub fn wakes_at(&self, waiter: &Waiter, now_ns: u64, deadline_ns: Option<u64>) -> u64 {
        match &self.rest {
            Some(rest) => rest.wakes_at(waiter, now_ns, deadline_ns),
            None => waiter.wakes_at(now_ns, deadline_ns),
        }
    }

    /// Has the loop wait, after a turn that found no work.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn wait(
        &mut self,
        waiter: &mut Waiter,
        now_ns: u64,
        deadline_ns: Option<u64>,
    ) -> Result<u64> {
        match &mut self.rest {
            Some(rest) => rest.wait(waiter, now_ns, deadline_ns),
            None => waiter.wait(now_ns, deadline_ns),
        }
    }
}

/// A port that is given to workers.
struct Given {
    port: Box<dyn Port>,
    reopen: Reopen,
    sharers: Option<Arc<dyn ShareHandle>>,
}

impl Given {
    fn of(port: Box<dyn Port>, reopen: Reopen) -> Self {
        let sharers = port.sharers();
        Self { port, reopen, sharers }
    }

    fn shares(&self) -> usize {
        self.sharers.as_ref().map_or(1, |sharers| sharers.shares())
    }
}

/// The workers of a bridge, while they get their ports.
struct Hiring {
    crews: Vec<Crew>,
    /// Wakes the loop.
    for_loop: Arc<Notice>,
    wait: Arc<OnceLock<WaitPolicy>>,
    intake: bool,
    notes_flows: bool,
    /// How many shares have a worker.
    employed: usize,
}

impl Hiring {
    /// Gives a port to workers; returns what the loop has of it.
    fn employ(&mut self, given: Given) -> Box<dyn Port> {
        let Given { port, reopen, sharers } = given;
        let (facts, state) = (Facts::of(port.as_ref()), port.state());
        let known = Known { facts, state, sorter: port.sorter() };
        let Some(sharers) = sharers else {
            return Box::new(self.employ_for(Part { known, port: Some(port), reopen }));
        };
        let (mut first, mut sides) = (Some(port), Vec::new());
        for share in 0..sharers.shares() {
            let opener = Arc::clone(&sharers);
            let reopen: Reopen = Some(Arc::new(move || opener.open(share)));
            let mut part = Part { known: known.clone(), port: first.take(), reopen };
            if part.port.is_none() {
                // Its own thread opens it.
                part.known.state = PortState::Gone;
                if !sharers.has_all_rings() {
                    part.known.facts.rings = 1;
                }
            }
            sides.push(self.employ_for(part));
        }
        Box::new(Spread::new(sides, sharers.has_all_rings()))
    }

    /// Gives a port, or a share of one, to the worker whose turn it is.
    fn employ_for(&mut self, part: Part) -> WorkedPort {
        let Part { known, port, reopen } = part;
        let crew = self.employed % self.crews.len();
        self.employed += 1;
        let crew = &mut self.crews[crew];
        let for_loop = Arc::clone(&self.for_loop);
        let Exchange { loop_ends, worker_ends, shared } =
            Exchange::of(known.facts.clone(), known.state, for_loop);
        let (requests, requested) = mpsc::channel();
        let (resting, notice) = (Resting::default(), crew.notice());
        let view = self.employed as u32;
        let at_worker = AtWorker { requests, resting: Arc::clone(&resting), notice, view };
        let (wait, notes_flows) = (Arc::clone(&self.wait), self.notes_flows);
        let again = Again { reopen: reopen.clone(), wait, intake: self.intake, notes_flows };
        let ends = (loop_ends, at_worker);
        let loop_side = WorkedPort::new(known, ends, &shared, again);
        let at_loop = AtLoop { ends: worker_ends, requests: requested, shared, notes_flows };
        let side = Side::new(port, reopen, at_loop, self.intake);
        *resting.lock().unwrap_or_else(PoisonError::into_inner) = Some(side);
        crew.add(resting);
        loop_side
    }
}

/// A port, or a share of one, as a worker gets it.
struct Part {
    known: Known,
    /// `None` where the worker opens it.
    port: Option<Box<dyn Port>>,
    reopen: Reopen,
}

/// Returns how many of so many workers share port number `index` of `ports`: all ports have equally
/// many, but for one more at the first ones.
pub(crate) fn shares(workers: usize, ports: usize, index: usize) -> usize {
    let workers = workers.min(SHARES_MAX);
    let more = usize::from(index < workers % ports);
    (workers / ports + more).clamp(1, SHARES_MAX)
}

/// Starts a worker as a thread of this name.
fn start(crew: Crew, name: String, wait: WaitPolicy) -> Result<()> {
    let started = thread::Builder::new().name(name).spawn(move || crew.run(wait));
    started.map(|_runs| ()).map_err(|cause| SystemError::new("start a worker", cause))
}

/// Returns the room of a port that is given to a worker, or to so many that share it.
pub(crate) fn room(room: Room, shares: usize) -> Room {
    let queues = RINGS_MAX * RECEIVED_MAX * size_of::<Arrived>();
    // Those of a worker that hangs are missing until it goes on, and another one has its own.
    let held_max = room.held_max + shares * (2 * SLOTS + SENDING_MAX + BATCH);
    let bytes = shares * (queues + FrameLookup::BYTES_MAX);
    Room { held_max, ring_bytes: room.ring_bytes + bytes, ..room }
}
