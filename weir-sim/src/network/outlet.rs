//! An outlet in operation: a link, perhaps a driver behind its scheduler, and what is measured.
//!
//! Invariant: the queue lengths kept here are those of the link whenever a call returns.

use super::plan::{Driver as Model, OutletPlan, Point, TapPlan};
use super::tap::Tap;
use crate::behind::RunningBehind;
use crate::bins::Bins;
use crate::classes::{ClassSums, phase_start};
use crate::interval::Interval;
use crate::meter::{Handed, LinkMeter, since};
use crate::random::Random;
use std::borrow::Cow;
use weir_core::account::{Account, LeafAccount};
use weir_core::change::Change;
use weir_core::event::{Departure, Dropped};
use weir_core::ids::LeafId;
use weir_core::link::{AnyLink, Arrival, Graft, LinkPlan, Packet};
use weir_core::parameter::BuildError;
use weir_core::sched::{Kin, RefitError, Tree};
use weir_core::units::{Duration, Instant, Rate, Share};
use weir_trace::drive::Drive;
use weir_trace::driver::waiting::Waiting;
use weir_trace::driver::{Driver, Outcome};
use weir_trace::explain::Explained;

/// An outlet in operation.
pub(crate) struct Outlet<'a> {
    port: Port,
    /// The plan that its link has; its own once a class joined it.
    pub plan: Cow<'a, LinkPlan>,
    /// When its next event is, as far as one is planned.
    pub planned: Option<Instant>,
    pub log: Log,
    /// The service of each class until the last change.
    pub classes: ClassSums,
    pub passage: Passage,
}

/// The way from the wire to the other end, on which chance acts.
pub(crate) struct Passage {
    random: Random,
    delay: Duration,
    /// The probability of a loss, in parts of 2^32.
    loss: u64,
    jitter: Duration,
    /// The bottleneck before it.
    pub behind: Option<RunningBehind>,
    /// Packets lost there that count.
    pub lost: u64,
}

enum Port {
    /// The line chooses the next packet when it has room.
    Line(Drive),
    Driver(Box<Driver>),
}

/// The events at an outlet since the engine last handled them, and its measurements.
pub(crate) struct Log {
    /// Handed out since this was last emptied.
    pub leaving: Vec<Departure>,
    /// Dropped since this was last emptied.
    pub dropped: Vec<Dropped>,
    /// Packets that passed a tap since this was last emptied: which tap, when.
    pub tapped: Vec<(usize, Instant, Departure)>,
    pub meter: LinkMeter,
    pub waiting: Waiting,
    /// How often the scheduler was polled, and how often while more than one leaf had packets.
    pub runs: [u64; 2],
    pub taps: Vec<Tap>,
    pub explained: Option<Explained>,
    pub bins: Option<Bins>,
    pub counting: bool,
}

impl Passage {
    fn new(plan: &OutletPlan, window: Interval, random: Random) -> Self {
        let whole = u64::from(Share::WHOLE.ppb());
        let loss = (u64::from(plan.loss.ppb()) << 32) / whole;
        let behind = plan.behind.as_ref().map(|behind| RunningBehind::new(behind, window));
        Self { random, delay: plan.delay, loss, jitter: plan.jitter, behind, lost: 0 }
    }

    /// Returns when a frame of `length` bytes of a source arrives whose last bit left the wire at
    /// `finished`; `None` if it is lost.
    pub fn arrival(&mut self, finished: Instant, (length, source): (u32, u32)) -> Option<Instant> {
        let finished = match &mut self.behind {
            Some(behind) => behind.pass(finished, length, source as usize)?,
            None => finished,
        };
        if self.loss > 0 && self.random.bits() >> 32 < self.loss {
            return None;
        }
        let arrives = finished.after(self.delay);
        if self.jitter == Duration::ZERO {
            return Some(arrives);
        }
        let more = self.random.below(self.jitter.as_nanos() + 1);
        Some(arrives.after(Duration::from_nanos(more)))
    }
}

impl<'a> Outlet<'a> {
    /// An outlet of `plan`, whose link is that of `link`.
    pub fn new(
        plan: &OutletPlan,
        link: &'a LinkPlan,
        window: Interval,
        random: Random,
    ) -> Result<Self, BuildError> {
        let port = match (plan.driver, plan.tick) {
            (Model::Line, None) => Port::Line(Drive::new(link)?),
            (model, tick) => Port::Driver(Box::new(Driver::new(link, model, tick)?)),
        };
        let leaves = link.tree.leaf_count();
        Ok(Self {
            port,
            plan: Cow::Borrowed(link),
            planned: None,
            log: Log {
                leaving: Vec::new(),
                dropped: Vec::new(),
                tapped: Vec::new(),
                meter: LinkMeter::new(leaves, window),
                waiting: Waiting::new(leaves),
                runs: [0; 2],
                taps: Vec::new(),
                explained: None,
                bins: None,
                counting: false,
            },
            classes: ClassSums::default(),
            passage: Passage::new(plan, window, random),
        })
    }

    /// From now on a tap takes down what passes.
    pub fn tap(&mut self, plan: TapPlan) {
        self.log.taps.push(Tap::new(plan, &self.plan.tree));
    }

    /// Begins to explain why packets wait.
    pub fn explain(&mut self, slowest: usize) {
        match &mut self.port {
            Port::Line(drive) => drive.explain(),
            Port::Driver(driver) => driver.link.explain(Instant::ZERO, true),
        }
        self.log.explained = Some(Explained::new(&self.plan.tree, slowest));
    }

    /// When it acts by itself next.
    pub fn due(&self) -> Option<Instant> {
        match &self.port {
            Port::Line(drive) => drive.due(),
            Port::Driver(driver) => driver.due(),
        }
    }

    /// Does what is due up to `at`, included.
    pub fn advance(&mut self, at: Instant) {
        let log = &mut self.log;
        match &mut self.port {
            Port::Line(drive) => {
                if drive.due().is_none_or(|due| due > at) {
                    return;
                }
                log.all_departed(drive.serve(&[], at));
                log.settle_drive(drive);
            }
            Port::Driver(driver) => driver.advance(at, log),
        }
    }

    /// Returns the packets that wait, as the link alone would send them up to `until`.
    pub fn rest(&mut self, until: Instant) -> Vec<Departure> {
        match &mut self.port {
            Port::Line(drive) => drive.serve(&[], until).to_vec(),
            Port::Driver(driver) => {
                let mut left = Vec::new();
                driver.link.serve(&[], until, &mut left);
                left
            }
        }
    }

    /// Returns its link, to note segments.
    pub fn link_mut(&mut self) -> &mut dyn AnyLink {
        match &mut self.port {
            Port::Line(drive) => drive.link_mut(),
            Port::Driver(driver) => driver.link.as_mut(),
        }
    }

    /// Offers a packet at `at`.
    pub fn offer(&mut self, at: Instant, leaf: LeafId, packet: Packet) {
        // A packet offered just before may leave first.
        self.advance(at);
        self.log.waiting.add(at, leaf);
        match &mut self.port {
            Port::Line(drive) => {
                self.log.all_departed(drive.serve(&[Arrival { at, leaf, packet }], at));
                self.log.settle_drive(drive);
            }
            Port::Driver(driver) => driver.offer(at, leaf, packet, &mut self.log),
        }
        self.log.waiting.note(leaf);
    }

    /// Its link sends at another rate from now on; it was advanced to `at`.
    pub fn set_rate(&mut self, at: Instant, rate: Rate) {
        match &mut self.port {
            Port::Line(drive) => drive.set_rate(at, rate),
            Port::Driver(driver) => {
                driver.link.set_rate(at, rate);
                driver.start(at, &mut self.log);
            }
        }
    }

    /// Whether packets wait for its scheduler.
    pub fn waits(&self) -> bool {
        match &self.port {
            Port::Line(drive) => drive.backlog() > 0,
            Port::Driver(driver) => driver.link.backlog() > 0,
        }
    }

    /// Its node received a packet.
    pub fn received(&mut self, at: Instant) {
        if let Port::Driver(driver) = &mut self.port {
            driver.advance(at, &mut self.log);
            driver.received(at, &mut self.log);
        }
    }

    /// Its link changes to another plan, one that was built before the run. Returns the former plan
    /// and what was counted under it.
    pub fn change(
        &mut self,
        at: Instant,
        (to, heir): (Cow<'a, LinkPlan>, LeafId),
    ) -> (Cow<'a, LinkPlan>, Account) {
        self.advance(at);
        let before = self.account();
        if self.log.counting {
            self.classes.add(&self.plan.tree, before.leaves(), &self.log.meter);
        }
        let kin = Kin::by_name(&self.plan.tree, &to.tree);
        let from = std::mem::replace(&mut self.plan, to);
        let change = Change { from: &from, to: &self.plan, heir };
        let changed = match &mut self.port {
            Port::Line(drive) => drive.change(at, change),
            Port::Driver(driver) => driver.change(at, change),
        };
        changed.expect("the plan was built before the run");
        let after = self.account();
        self.log.meter.restart(phase_start(&before, &after, &kin));
        let lengths = after.leaves().iter().map(|leaf| leaf.backlog.packets as u32);
        self.log.waiting.restart(at, lengths);
        self.log.change(&self.plan.tree);
        match &mut self.port {
            Port::Line(drive) => self.log.settle_drive(drive),
            Port::Driver(driver) => {
                self.log.settle(driver.link.as_mut());
                driver.start(at, &mut self.log);
            }
        }
        (from, before)
    }

    /// A class joins its link at a place, is retuned there, or leaves it.
    ///
    /// # Errors
    /// When the scheduler refuses it; then nothing changed.
    pub fn graft(&mut self, at: Instant, graft: Graft) -> Result<(), RefitError> {
        self.advance(at);
        let (leaf, heir, is_new) = match &graft {
            Graft::Remove { leaf, heir } => (*leaf, Some(*heir), false),
            Graft::Take { leaf, .. } => (*leaf, None, true),
            Graft::Retune { leaf, .. } | Graft::Reset { leaf, .. } => (*leaf, None, false),
            Graft::Add { .. } => return Err(RefitError::NeedsChange("it names no place")),
        };
        let (before, name) = (self.leaf(leaf), self.plan.tree.leaf(leaf).name.clone());
        let plan = self.plan.to_mut();
        match &mut self.port {
            Port::Line(drive) => drive.graft(at, plan, graft)?,
            Port::Driver(driver) => driver.graft(at, plan, graft)?,
        }
        if heir.is_some() {
            self.class_left((leaf, name), &before);
        }
        self.log.change(&self.plan.tree);
        match &mut self.port {
            Port::Line(drive) => self.log.settle_drive(drive),
            Port::Driver(driver) => {
                self.log.settle(driver.link.as_mut());
            }
        }
        for leaf in heir.into_iter().chain([leaf]) {
            let packets = self.leaf(leaf).backlog.packets as u32;
            self.log.waiting.set(at, leaf, packets, is_new);
        }
        if let Port::Driver(driver) = &mut self.port {
            driver.start(at, &mut self.log);
        }
        Ok(())
    }

    /// Adds what a class counted that left its place; packets that waited count where they went.
    fn class_left(&mut self, (leaf, name): (LeafId, String), now: &LeafAccount) {
        let meter = &mut self.log.meter;
        if self.log.counting {
            let own = since(now, &meter.before[leaf.index()]);
            self.classes.add_leaf((&self.plan.tree, leaf, name), &own, &meter.handed[leaf.index()]);
        }
        meter.before[leaf.index()] = LeafAccount::default();
        meter.handed[leaf.index()] = Handed::default();
    }

    fn leaf(&self, leaf: LeafId) -> LeafAccount {
        match &self.port {
            Port::Line(drive) => drive.leaf(leaf),
            Port::Driver(driver) => driver.link.leaf_account(leaf),
        }
    }

    /// Begins the report: earlier events no longer count.
    pub fn begin_report(&mut self, at: Instant) {
        self.log.counting = true;
        self.log.meter.before = self.account().leaves().to_vec();
        self.log.waiting.begin(at);
    }

    /// Returns the link's own account, from the start.
    pub fn account(&self) -> Account {
        match &self.port {
            Port::Line(drive) => drive.account(),
            Port::Driver(driver) => driver.link.account(),
        }
    }
}

impl Log {
    /// From now on these are the classes.
    fn change(&mut self, tree: &Tree) {
        self.taps.iter_mut().for_each(|tap| tap.change(tree));
        if let Some(explained) = &mut self.explained {
            explained.change(tree);
        }
        if let Some(bins) = &mut self.bins {
            bins.change(tree);
        }
    }

    /// Counts what left without a driver: each departure is one poll of the scheduler.
    fn all_departed(&mut self, departures: &[Departure]) {
        for departure in departures {
            self.asked();
            self.departed(departure);
            self.passed(Point::Software, departure.at, departure);
        }
    }

    fn departed(&mut self, departure: &Departure) {
        self.meter.departed(departure, self.counting);
        self.waiting.remove(departure.at, departure.leaf);
        if let Some(bins) = &mut self.bins {
            bins.add(departure);
        }
        self.leaving.push(*departure);
        self.passed(Point::Discipline, departure.at, departure);
        self.passed(Point::Wire, departure.finished, departure);
    }

    fn passed(&mut self, point: Point, at: Instant, departure: &Departure) {
        if !self.counting {
            return;
        }
        for (place, tap) in self.taps.iter().enumerate() {
            if tap.plan.point == point {
                self.tapped.push((place, at, *departure));
            }
        }
    }

    fn settle_drive(&mut self, drive: &mut Drive) {
        drive.take_dropped(&mut |dropped| {
            self.waiting.remove(dropped.at, dropped.leaf);
            self.dropped.push(dropped);
        });
        let counting = self.counting;
        if let Some(explained) = &mut self.explained {
            drive.take_sojourns(&mut |all| {
                if counting {
                    all.iter().for_each(|sojourn| explained.add(sojourn));
                }
            });
        }
    }
}

impl Outcome for Log {
    fn asked(&mut self) {
        if self.counting {
            self.runs[0] += 1;
            self.runs[1] += u64::from(self.waiting.backlogged() > 1);
            self.waiting.asked();
        }
    }

    fn handed_out(&mut self, departure: &Departure) {
        self.departed(departure);
    }

    fn left_software(&mut self, at: Instant, departure: &Departure) {
        self.passed(Point::Software, at, departure);
    }

    fn settle(&mut self, link: &mut dyn AnyLink) -> bool {
        let before = self.dropped.len();
        link.take_dropped(&mut |dropped| {
            self.waiting.remove(dropped.at, dropped.leaf);
            self.dropped.push(dropped);
        });
        let counting = self.counting;
        if let Some(explained) = &mut self.explained {
            link.take_sojourns(&mut |all| {
                if counting {
                    all.iter().for_each(|sojourn| explained.add(sojourn));
                }
            });
        }
        self.dropped.len() > before
    }
}
