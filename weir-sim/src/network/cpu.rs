//! A router's processor: interrupts precede all other work, so that a flood of packets starves
//! forwarding `[algorithms §13.5]`.
//!
//! Each incoming packet takes its cost at once; the remaining time forwards the packets of the
//! input queue, one after another. Beyond saturation, more incoming packets mean fewer forwarded.

use super::plan::Cpu;
use std::collections::VecDeque;
use weir_core::ids::Handle;
use weir_core::units::{Duration, Instant};

/// A processor in operation.
pub(crate) struct Processor {
    plan: Cpu,
    /// The input queue, and what forwarding each will cost.
    queue: VecDeque<(Handle, Duration)>,
    /// The packet that is forwarded now, and when that is done unless an interrupt comes.
    job: Option<(Handle, Instant)>,
    /// When the interrupts of all incoming packets are done.
    interrupted_until: Instant,
    /// When its next event is, as far as one is planned.
    pub planned: Option<Instant>,
    /// Packets that found the input queue full, since the report began.
    pub dropped: u64,
    /// Packets forwarded since then.
    pub forwarded: u64,
}

impl Processor {
    pub fn new(plan: Cpu) -> Self {
        Self {
            plan,
            queue: VecDeque::new(),
            job: None,
            interrupted_until: Instant::ZERO,
            planned: None,
            dropped: 0,
            forwarded: 0,
        }
    }

    /// Returns the cost of forwarding an IP packet of `length` to an outlet with `classes` classes.
    pub fn cost(&self, length: u32, classes: usize) -> Duration {
        self.plan.forwarding(length, classes)
    }

    /// Takes an incoming packet; returns whether the input queue has room for it.
    pub fn receive(&mut self, at: Instant, handle: Handle, cost: Duration) -> bool {
        self.interrupted_until = self.interrupted_until.max(at).after(self.plan.receive);
        if let Some((_, done)) = &mut self.job {
            *done = done.after(self.plan.receive);
        }
        let room = self.queue.len() < self.plan.queue as usize;
        if room {
            self.queue.push_back((handle, cost));
        }
        self.begin(at);
        room
    }

    /// When what it forwards is done.
    pub fn due(&self) -> Option<Instant> {
        self.job.map(|job| job.1)
    }

    /// The packet that is forwarded at `at`, if it is done by then.
    pub fn forward(&mut self, at: Instant) -> Option<Handle> {
        let (handle, _) = self.job.take_if(|job| job.1 <= at)?;
        self.begin(at);
        Some(handle)
    }

    /// Returns the number of packets that it holds.
    pub fn under_way(&self) -> usize {
        self.queue.len() + usize::from(self.job.is_some())
    }

    fn begin(&mut self, at: Instant) {
        if self.job.is_none()
            && let Some((handle, cost)) = self.queue.pop_front()
        {
            self.job = Some((handle, self.interrupted_until.max(at).after(cost)));
        }
    }
}
