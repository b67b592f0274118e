//! Ports whose frames other threads receive and send.
//!
//! Nine tenths of what a frame costs are the kernel's way in and out, its copy, and the work that
//! senders left undone. So each port is given to a *worker*, and the loop keeps the decisions
//! alone, in one order, as without workers. A worker has a view of the pool ([`FramePool::view`]):
//! it gets free slots, fills them, passes each frame to the loop, and gets back those to be sent.
//! Slots pass by queues without locks (`exchange.rs`), one for each ring, so that a flood in one
//! ring holds up no other. What is rare, such as to close the intake, is a request that the loop
//! waits for. The threads start with the loop ([`Workers::start`]), behind what a process gives up
//! before it forwards; until then the loop's side does what is to be done at a port.
//!
//! A worker that panics loses its ports and no more: it counts their frames, and opens them again.
//! One that hangs is given up (`given_up.rs`): another thread opens its ports, and the slots that
//! it has come back when it goes on.
//! Invariant: each slot is in the view of the loop, in that of one worker, or in one queue.

mod exchange;
mod given_up;
mod loop_side;
mod side;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock, PoisonError, mpsc};
use std::thread;

use super::{BATCH, Port, RINGS_MAX, Room};
use exchange::{Arrived, Exchange, Facts, Notice, Resting};
use given_up::{Again, OTHER_VIEW};
use loop_side::{AtWorker, WorkedPort};
use side::{AtLoop, Crew, Side};
use weir_host::error::{Result, SystemError};
use weir_host::wait::{WaitPolicy, usable_cpus};

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
}

impl Workers {
    /// Gives ports, whose intake is open or not, to at most so many workers; returns what the loop
    /// has of each.
    ///
    /// # Errors
    /// When the system has no descriptor more.
    pub fn employ(
        ports: Vec<(Box<dyn Port>, Reopen)>,
        workers: usize,
        intake: bool,
    ) -> Result<(Self, Vec<Box<dyn Port>>)> {
        assert!(ports.len() < OTHER_VIEW as usize, "each port has two views of its own");
        let workers = workers.clamp(1, ports.len().max(1));
        let notices = (0..workers).map(|_| Notice::new().map(Arc::new));
        let notices = notices.collect::<Result<Vec<_>>>()?;
        let mut crews: Vec<_> = notices.iter().cloned().map(Crew::new).collect();
        let mut loop_sides: Vec<Box<dyn Port>> = Vec::new();
        let wait = Arc::new(OnceLock::new());
        for (index, (port, reopen)) in ports.into_iter().enumerate() {
            let facts = Facts::of(port.as_ref());
            let Exchange { loop_ends, worker_ends, shared } = Exchange::of(facts, port.state())?;
            let (requests, requested) = mpsc::channel();
            let (resting, notice) = (Resting::default(), Arc::clone(&notices[index % workers]));
            let view = index as u32 + 1;
            let at_worker = AtWorker { requests, resting: Arc::clone(&resting), notice, view };
            let again = Again { reopen: reopen.clone(), wait: Arc::clone(&wait), intake };
            let ends = (loop_ends, at_worker);
            let loop_side = WorkedPort::new(port.as_ref(), ends, &shared, again);
            loop_sides.push(Box::new(loop_side));
            let at_loop = AtLoop { ends: worker_ends, requests: requested, shared };
            let side = Side::new(Some(port), reopen, at_loop, intake);
            *resting.lock().unwrap_or_else(PoisonError::into_inner) = Some(side);
            crews[index % workers].add(resting);
        }
        Ok((Self { crews, wait }, loop_sides))
    }

    /// Starts those that have not started, as threads that wait so; where they and the loop have
    /// fewer processors than threads, none of them polls.
    ///
    /// # Errors
    /// When the system has no thread more.
    pub fn start(&mut self, wait: WaitPolicy) -> Result<()> {
        let processors = usable_cpus().map_or(0, |usable| usable.len());
        let is_crowded = processors <= self.crews.len();
        let wait = if is_crowded { WaitPolicy::Block } else { wait };
        // They start once; those that take another's place wait the same.
        let wait = *self.wait.get_or_init(|| wait);
        let mut crews = self.crews.drain(..).enumerate();
        crews.try_for_each(|(number, crew)| start(crew, format!("worker-{number}"), wait))
    }
}

/// Starts a worker as a thread of this name.
fn start(crew: Crew, name: String, wait: WaitPolicy) -> Result<()> {
    let started = thread::Builder::new().name(name).spawn(move || crew.run(wait));
    started.map(|_runs| ()).map_err(|cause| SystemError::new("start a worker", cause))
}

/// Returns the room of a port that is given to a worker.
pub(crate) fn room(room: Room) -> Room {
    let queues = RINGS_MAX * RECEIVED_MAX * size_of::<Arrived>();
    // Those of a worker that hangs are missing until it goes on, and another one has its own.
    let held_max = room.held_max + 2 * SLOTS + SENDING_MAX + BATCH;
    Room { held_max, ring_bytes: room.ring_bytes + queues, ..room }
}
