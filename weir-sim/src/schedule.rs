//! The packets or transfers of a source, without a link: for generators that send on a real
//! network.
//!
//! Invariant: the packets of a [`Packets`] have the instants and lengths that the source offers to
//! its link in a run with the same seed, and a [`Transfers`] gives the transfers and pauses of
//! such a run, since both are the code that the run uses.

use crate::random::Random;
use crate::run::open_loop;
use crate::scenario::{Source, Transfer};
use crate::script::{Playback, Turn, Turns};
use crate::source::OpenLoop;
use weir_core::units::{Duration, Instant};

pub use crate::source::Sending;

/// The packets or transfers of a source.
#[derive(Debug)]
pub enum Schedule {
    /// Packets, regardless of what becomes of them.
    Packets(Packets),
    /// Transfers, each on a connection of its own.
    Transfers(Transfers),
}

/// The packets of a source, in the order of their instants.
#[derive(Debug)]
pub struct Packets(OpenLoop);

/// The transfers of a source of connections, one after another.
#[derive(Debug)]
pub struct Transfers {
    transfer: Option<Transfer>,
    /// The transfers, if a model of an application gives them instead of the plan.
    work: Option<Box<dyn Turns>>,
    random: Random,
}

impl Schedule {
    /// The schedule of `source` in a run with this seed.
    pub fn new(seed: u64, source: &Source) -> Self {
        let random = Random::stream(seed, &source.name);
        if !source.traffic.connects() {
            return Self::Packets(Packets(open_loop(source, random)));
        }
        Self::Transfers(Transfers::of_source(source, random))
    }
}

impl Iterator for Packets {
    type Item = Sending;

    fn next(&mut self) -> Option<Sending> {
        let at = self.0.next_at().filter(|&at| at < Instant::MAX)?;
        let datagram = self.0.datagram();
        Some(Sending { at, length: self.0.send(), datagram })
    }
}

impl Transfers {
    /// The transfers of `source`, whose hosts drew a seed each from `random` before.
    fn of_source(source: &Source, mut random: Random) -> Self {
        for _host in ["sender", "receiver"] {
            random.bits();
        }
        let work = source.traffic.work().map(|work| work.start());
        Self::new(source.traffic.transfer(), work, random)
    }

    /// The transfers that `work` gives, or else the plan.
    pub(crate) fn new(
        transfer: Option<Transfer>,
        work: Option<Box<dyn Turns>>,
        random: Random,
    ) -> Self {
        Self { transfer, work, random }
    }

    /// Returns the pause after a turn whose transfer `took` so long; `None` if it was the last.
    pub fn pause(&mut self, turn: Turn, took: Duration) -> Option<Duration> {
        match &mut self.work {
            Some(work) => work.pause(turn, took),
            None => turn.pause,
        }
    }

    /// Returns how the receiver's playback went so far, if it plays.
    /// `ongoing` is how long the present transfer takes already.
    pub fn playback(&self, ongoing: Option<Duration>) -> Option<Playback> {
        self.work.as_ref().and_then(|work| work.playback(ongoing))
    }

    /// Returns the same of a source whose transfers a model of an application makes.
    pub(crate) fn with_work(self, work: Box<dyn Turns>) -> Self {
        Self { work: Some(work), ..self }
    }
}

impl Iterator for Transfers {
    type Item = Turn;

    /// The next transfer; `None` without one.
    fn next(&mut self) -> Option<Turn> {
        match (&mut self.work, self.transfer) {
            (Some(work), _) => work.next(&mut self.random),
            (None, Some(transfer)) => {
                let pause = transfer.think.map(|think| think.draw(&mut self.random));
                Some(Turn { bytes: Some(transfer.bytes), pause })
            }
            (None, None) => Some(Turn { bytes: None, pause: None }),
        }
    }
}
