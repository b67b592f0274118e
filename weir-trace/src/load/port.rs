//! The line behind the scheduler of a load's link, or, from a stage on, the model of a driver.
//!
//! A driver of the model is called by interrupts, so the stalls of a live link's run loop do not
//! hold it: it forfeits nothing and drops nothing for its age. Invariant: a packet is in the link,
//! in the driver, or was told.

use crate::drive::Drive;
use crate::driver::model::Driver as Model;
use crate::driver::waiting::Waiting;
use crate::driver::{Driver, Outcome};
use serde::Serialize;
use std::mem;
use weir_core::change::Change;
use weir_core::event::{Departure, Dropped};
use weir_core::explain::Sojourn;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Arrival, LinkPlan};
use weir_core::packet::Segment;
use weir_core::parameter::BuildError;
use weir_core::queue::Reading;
use weir_core::units::{Instant, Rate};

/// How often a driver asked the scheduler for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Runs {
    /// In all, also where nothing waited.
    pub all: u64,
    /// While packets waited in several leaves.
    pub contended: u64,
}

/// The line or the driver that takes packets from a scheduler.
pub(super) enum Port {
    /// The line chooses the next packet when it has room.
    Line(Drive),
    Driver(Box<Driven>),
}

/// A link whose packets a driver takes.
pub(super) struct Driven {
    driver: Driver,
    log: Log,
    /// Of the last call.
    departures: Vec<Departure>,
}

/// Events since they were last reported.
struct Log {
    left: Vec<Departure>,
    dropped: Vec<Dropped>,
    waiting: Waiting,
    runs: Runs,
}

impl Port {
    /// From now on a driver takes the packets of a link with this plan.
    pub fn drive_by(
        &mut self,
        model: Model,
        plan: &LinkPlan,
        at: Instant,
    ) -> Result<(), BuildError> {
        let Self::Line(drive) = self else { return Ok(()) };
        let driver = Driver::of(drive.take_link(plan.build()?), model);
        let mut driven = Driven { driver, log: Log::new(), departures: Vec::new() };
        driven.enter(plan, at);
        *self = Self::Driver(Box::new(driven));
        Ok(())
    }

    pub fn explain_from(&mut self, now: Instant) {
        match self {
            Self::Line(drive) => drive.explain_from(now),
            Self::Driver(driven) => driven.driver.link.explain(now, true),
        }
    }

    /// Serves the link as [`Drive::serve`] does.
    pub fn serve(&mut self, arrivals: &[Arrival], until: Instant) -> &[Departure] {
        match self {
            Self::Line(drive) => drive.serve(arrivals, until),
            Self::Driver(driven) => driven.serve(arrivals, until),
        }
    }

    /// Changes the link's plan at `at`, up to which it has been served.
    pub fn change(&mut self, at: Instant, change: Change<'_>) -> Result<(), BuildError> {
        match self {
            Self::Line(drive) => drive.change(at, change),
            Self::Driver(driven) => {
                let plan = change.to;
                driven.driver.change(at, change)?;
                driven.enter(plan, at);
                Ok(())
            }
        }
    }

    /// The rate of the link was set; a driver's line has its own.
    pub fn set_rate(&mut self, at: Instant, rate: Rate) {
        if let Self::Line(drive) = self {
            drive.set_rate(at, rate);
        }
    }

    /// The run loop of the link stalled; only the line waits for it.
    pub fn forfeit_before(&mut self, instant: Instant) {
        if let Self::Line(drive) = self {
            drive.forfeit_before(instant);
        }
    }

    /// The run loop dropped what was too old after a stall.
    pub fn drop_older(&mut self, oldest: &dyn Fn(LeafId) -> Instant) {
        if let Self::Line(drive) = self {
            drive.drop_older(oldest);
        }
    }

    pub fn take_dropped(&mut self, each: &mut dyn FnMut(Dropped)) {
        match self {
            Self::Line(drive) => drive.take_dropped(each),
            Self::Driver(driven) => driven.log.dropped.drain(..).for_each(each),
        }
    }

    pub fn take_sojourns(&mut self, all: &mut dyn FnMut(&[Sojourn])) {
        match self {
            Self::Line(drive) => drive.take_sojourns(all),
            Self::Driver(driven) => driven.driver.link.take_sojourns(all),
        }
    }

    /// Returns how often a driver asked since the last call.
    pub fn take_runs(&mut self) -> Option<Runs> {
        let Self::Driver(driven) = self else { return None };
        Some(mem::take(&mut driven.log.runs)).filter(|runs| runs.all > 0)
    }

    /// Returns the packets and the bytes that wait in a leaf.
    pub fn waiting(&self, leaf: LeafId) -> (u64, u64) {
        let backlog = match self {
            Self::Line(drive) => drive.leaf(leaf).backlog,
            Self::Driver(driven) => driven.driver.link.leaf_account(leaf).backlog,
        };
        (backlog.packets, backlog.bytes)
    }

    /// Returns whether a leaf looks into segments: [`AnyLink::reads_segments`].
    pub fn reads_segments(&self, leaf: LeafId) -> bool {
        match self {
            Self::Line(drive) => drive.reads_segments(leaf),
            Self::Driver(driven) => driven.driver.link.reads_segments(leaf),
        }
    }

    /// Records the segment of a packet that is offered next: [`AnyLink::note`].
    pub fn note(&mut self, handle: Handle, segment: Option<Segment>) {
        match self {
            Self::Line(drive) => drive.link_mut().note(handle, segment),
            Self::Driver(driven) => driven.driver.link.note(handle, segment),
        }
    }

    pub fn reading(&self, leaf: LeafId) -> Option<Reading> {
        match self {
            Self::Line(drive) => drive.reading(leaf),
            Self::Driver(driven) => driven.driver.link.reading(leaf),
        }
    }

    pub fn backlog(&self) -> u32 {
        match self {
            Self::Line(drive) => drive.backlog(),
            Self::Driver(driven) => driven.driver.link.backlog(),
        }
    }
}

impl Driven {
    fn serve(&mut self, arrivals: &[Arrival], until: Instant) -> &[Departure] {
        let Self { driver, log, departures } = self;
        for arrival in arrivals {
            driver.advance(arrival.at, log);
            log.waiting.add(arrival.at, arrival.leaf);
            driver.offer(arrival.at, arrival.leaf, arrival.packet, log);
        }
        driver.advance(until, log);
        departures.clear();
        departures.append(&mut log.left);
        departures
    }

    /// A plan is in force, and what waits may go.
    fn enter(&mut self, plan: &LinkPlan, at: Instant) {
        let Self { driver, log, .. } = self;
        log.settle(driver.link.as_mut());
        let length = |leaf| driver.link.leaf_account(LeafId(leaf)).backlog.packets as u32;
        log.waiting.restart(at, (0..plan.tree.leaf_count() as u32).map(length));
        driver.start(at, log);
    }
}

impl Log {
    fn new() -> Self {
        let (left, dropped) = (Vec::new(), Vec::new());
        Self { left, dropped, waiting: Waiting::new(0), runs: Runs::default() }
    }
}

impl Outcome for Log {
    fn asked(&mut self) {
        self.runs.all += 1;
        self.runs.contended += u64::from(self.waiting.backlogged() > 1);
    }

    fn handed_out(&mut self, departure: &Departure) {
        self.waiting.remove(departure.at, departure.leaf);
        self.left.push(*departure);
    }

    fn left_software(&mut self, _at: Instant, _departure: &Departure) {}

    fn settle(&mut self, link: &mut dyn AnyLink) -> bool {
        let before = self.dropped.len();
        link.take_dropped(&mut |dropped| {
            self.waiting.remove(dropped.at, dropped.leaf);
            self.dropped.push(dropped);
        });
        self.dropped.len() > before
    }
}
