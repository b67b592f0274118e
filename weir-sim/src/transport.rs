//! Transports: what a connection between two hosts is to the run, whether TCP or QUIC.
//!
//! A run lets one side work at an instant, carries what it sends to the other, and wakes it when it
//! asked for that. Invariant: whenever [`Transport::serve`] returns, the applications have nothing
//! left to read or write, and that side nothing to send at that instant.

pub(crate) use crate::conversation::Side;

use crate::packets::Content;
use crate::random::Random;
use crate::scenario::Scenario;
use weir_core::units::{Duration, Instant};

/// The result of serving a host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    /// Bytes that reached the receiving application.
    pub received: u64,
    /// The duration of a transfer or an exchange that was completed now.
    pub completed: Option<Duration>,
    /// When the host must be served again, if nothing comes before and it is not already planned.
    pub wake: Option<Instant>,
    /// When the other host must be, since what its application does next follows from this.
    pub wake_other: Option<Instant>,
}

/// A sender and a receiver, and the transfers between them, one connection after another.
pub(crate) trait Transport {
    /// Opens a connection for the next transfer, if there is one, in place of an earlier
    /// connection. Serve the receiver next, and then the sender.
    fn open(&mut self, now: Instant);

    /// Lets the sending application write no more; a transfer that it has begun is still sent.
    fn close(&mut self);

    /// Counts connections, so that packets of an earlier one are known as such; 0 before the first.
    fn number(&self) -> u32;

    /// How long the receiver's packets travel.
    fn return_delay(&self) -> Duration;

    /// The pause until the next transfer, after one that took so long; `None` without another.
    fn think(&mut self, took: Duration) -> Option<Duration>;

    /// Whether the wake-up of `side` at `at` still counts; it does once.
    fn wakes(&mut self, side: Side, at: Instant) -> bool;

    /// Lets `side` receive the content of a packet, or fire its timers if there is none, and do all
    /// it can. What it sends goes to the end of `out`.
    fn serve(
        &mut self,
        now: Instant,
        side: Side,
        content: Content,
        out: &mut Vec<Content>,
    ) -> Served;
}

/// The time that a host takes to answer a packet, at random; answers keep their order.
#[derive(Clone, Debug)]
pub(crate) struct Processing {
    random: Random,
    most: Duration,
    last: Instant,
}

impl Processing {
    /// That of the receiver of each source.
    pub fn all(scenario: &Scenario) -> Vec<Self> {
        let of = |name: &str| Self {
            random: Random::stream(scenario.seed, &format!("processing of {name}")),
            most: scenario.jitter.processing,
            last: Instant::ZERO,
        };
        scenario.sources.iter().map(|source| of(&source.name)).collect()
    }

    /// When an answer leaves to what arrives now.
    pub fn done(&mut self, now: Instant) -> Instant {
        if self.most > Duration::ZERO {
            self.last = self.last.max(now.after(self.random.up_to(self.most)));
        }
        self.last.max(now)
    }
}

/// The earliest wake-up of a host that is planned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarm(Option<Instant>);

impl Alarm {
    /// Returns when to wake the host, which is due then, unless an earlier wake-up is planned.
    pub fn plan(&mut self, now: Instant, due: Option<Instant>) -> Option<Instant> {
        // All that can be done now is done: what wants to run at once waits a microsecond.
        let due = due?;
        let at = if due > now { due } else { now.after(Duration::from_micros(1)) };
        if self.0.is_some_and(|planned| planned <= at) {
            return None;
        }
        self.0 = Some(at);
        self.0
    }

    /// Whether a wake-up at `at` still counts; it does once.
    pub fn counts(&mut self, at: Instant) -> bool {
        let counts = self.0 == Some(at);
        if counts {
            self.0 = None;
        }
        counts
    }
}
