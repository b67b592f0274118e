//! A load that a link had: what arrived and when, and the policies in force; and the link driven
//! through it once more, by these policies or by changed ones.
//!
//! The load is *open*: packets arrive as they did, whatever becomes of those before them. So a
//! replay with the policies of the load repeats it, and a replay with changed ones shows what the
//! same arrivals would have met; senders that react to loss or delay would have sent otherwise.
//! Invariant: a replay depends on load and plans only.

mod fork;
mod outcome;
mod port;
mod record;

pub use fork::{Edit, Fork};
pub use outcome::{Compared, Outcome};
pub use port::Runs;
pub use record::{ARRIVALS_MAX, RecordHead, RecordWay, directions, head};

use crate::drive::Drive;
use crate::driver::driven;
use crate::driver::model::Driver;
use crate::record::{File, policy};
use port::Port;
use std::collections::BTreeMap;
use weir_core::change::Change;
use weir_core::event::{Departure, Dropped};
use weir_core::explain::Sojourn;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{Arrival, LinkPlan};
use weir_core::packet::Segment;
use weir_core::parameter::BuildError;
use weir_core::queue::Reading;
use weir_core::state::Reader;
use weir_core::units::{Duration, Instant, Rate};
use weir_policy::finding::Outcome as Checked;
use weir_policy::policy::Policy;

/// The arrivals and other events of a link, and the policies by which it served.
#[derive(Clone, Debug)]
pub struct Load {
    /// The policies, in the order of time; there is a first.
    pub stages: Vec<Stage>,
    /// The packets in the order of their instants; the leaf is one of the stage in force.
    pub arrivals: Vec<Arrival>,
    /// The segments of the arrivals at these places; empty if no queue of a stage looks into them.
    pub segments: BTreeMap<usize, Segment>,
    /// Events other than arrivals, in the order of time: up to when the link was served before
    /// each, and after how many arrivals.
    pub events: Vec<(Instant, usize, Event)>,
    /// The instant at which it begins.
    pub start: Instant,
    /// When it ends; what waits then leaves afterwards.
    pub end: Instant,
    /// The state of the link when it begins; `None` if nothing had happened yet.
    pub begin: Option<Begin>,
    /// For each packet that left, how late it was handed out, and how long the port then took;
    /// empty if that was not recorded.
    pub late: Vec<Option<(Duration, Option<Duration>)>>,
    /// Frames that were lost outside the link, by cause.
    pub lost: BTreeMap<&'static str, u64>,
    /// Why it is less than was recorded, if it is.
    pub fault: Option<String>,
    /// The link that had it, if that is known.
    pub link: Option<LinkWay>,
    /// The stage from which on the model of a driver takes the packets, in place of the line.
    pub driver: Option<(usize, Driver)>,
}

/// A direction of a link, as `weir set` names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkWay {
    /// The words that name the link: its name, or `--control SOCKET`.
    pub words: Vec<String>,
    /// The direction, if others of the link have another policy; otherwise it must be left out.
    pub direction: Option<String>,
}

/// The state of a link at an instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begin {
    /// The latest instant that was passed to the link.
    pub now: Instant,
    /// The state as the link saved it.
    pub state: Vec<u8>,
}

/// A policy, and since when it was in force.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Since when; of the first since the load begins.
    pub at: Instant,
    /// The name of its file.
    pub name: String,
    /// The text of the policy.
    pub text: String,
    /// The files that it names.
    pub files: Vec<File>,
    /// The names of the ports that its rules may name; `None` if any.
    pub ports: Option<Vec<String>>,
    /// The policy as read.
    pub policy: Policy,
}

/// An event of a link other than an arrival.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The link gives up what it could have sent before this instant.
    Forfeit(Instant),
    /// The link drops what is older than the age of its leaf.
    DropOlder {
        /// The instant from which ages count back.
        clock: Instant,
        /// The age of each leaf of the stage in force.
        ages: Vec<Duration>,
    },
    /// The link sends at this rate from the instant on.
    Rate(Instant, Rate),
    /// The policy of this stage comes into force.
    Stage(usize),
}

/// A step that a replay reports, in the order of time.
#[derive(Clone, Copy, Debug)]
pub enum Happened<'a> {
    /// A packet is offered.
    Offered(&'a Arrival),
    /// A packet left the link.
    Left(&'a Departure),
    /// A packet was dropped, and this is what its leaf holds now.
    Dropped(&'a Dropped, Held),
    /// Why a packet waited that left or was dropped.
    Waited(&'a Sojourn),
    /// The plan of this stage is in force.
    Stage(usize),
    /// A driver asked the scheduler for packets so often since this was last told.
    Ran(Runs),
    /// The link was served up to this instant, and the bytes that wait in each leaf are these; see
    /// [`Detail::ticks`].
    Tick(Instant, &'a [u64]),
}

/// A leaf after a drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The packets that wait there.
    pub packets: u64,
    /// The number that the decisions of its dropper rest on.
    pub reading: Option<Reading>,
}

/// The detail in which a replay is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Detail {
    /// Each packet is offered by itself, so that what a leaf holds is known at that instant.
    pub single: bool,
    /// The link explains why packets waited.
    pub explained: bool,
    /// Tells what waits at the end of each of these times.
    pub ticks: Option<Ticks>,
    /// Ends here, and does not wait until the link is empty.
    pub stop: Option<Instant>,
}

/// Instants at the same distance from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticks {
    /// The first instant.
    pub first: Instant,
    /// From each to the next; not zero.
    pub step: Duration,
}

impl Stage {
    /// Reads a policy that is in force since `at`.
    ///
    /// # Errors
    /// When the policy has errors.
    pub fn new(at: Instant, name: &str, text: &str) -> Result<Self, String> {
        Self::with_files(at, (name, text), Vec::new(), None)
    }

    /// As [`Stage::new`], for a policy that names files and ports.
    ///
    /// # Errors
    /// When the policy has errors.
    pub fn with_files(
        at: Instant,
        (name, text): (&str, &str),
        files: Vec<File>,
        ports: Option<Vec<String>>,
    ) -> Result<Self, String> {
        let policy = read((name, text), &files, ports.as_deref())?;
        let (name, text) = (name.to_owned(), text.to_owned());
        Ok(Self { at, name, text, files, ports, policy })
    }

    /// Checks the policy with another text, as a link would.
    pub fn check(&self, text: &str) -> Checked<Policy> {
        check((&self.name, text), &self.files, self.ports.as_deref())
    }

    /// Returns the policy with another text.
    ///
    /// # Errors
    /// When the text has errors.
    pub fn reread(&self, text: &str) -> Result<Policy, String> {
        read((&self.name, text), &self.files, self.ports.as_deref())
    }
}

fn read(
    (name, text): (&str, &str),
    files: &[File],
    ports: Option<&[String]>,
) -> Result<Policy, String> {
    let outcome = check((name, text), files, ports);
    let failed = outcome.failed();
    let first = outcome.findings.first().map(|finding| finding.message.clone());
    let plan = outcome.plan.filter(|_| !failed);
    plan.ok_or_else(|| first.unwrap_or_else(|| format!("{name} is not a policy")))
}

fn check((name, text): (&str, &str), files: &[File], ports: Option<&[String]>) -> Checked<Policy> {
    // A link that ran had a leaf for each place.
    let whole = |policy: Policy| if ports.is_some() { policy.with_places() } else { policy };
    policy::parse((name, text), files, ports).map(whole)
}

impl Load {
    /// A load of these arrivals under one policy, between two instants.
    pub fn new(stage: Stage, arrivals: Vec<Arrival>, (start, end): (Instant, Instant)) -> Self {
        Self {
            stages: vec![stage],
            arrivals,
            segments: BTreeMap::new(),
            events: Vec::new(),
            start,
            end,
            begin: None,
            late: Vec::new(),
            lost: BTreeMap::new(),
            fault: None,
            link: None,
            driver: None,
        }
    }

    /// Returns how long it lasts.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }

    /// Returns whether a policy of it has this class.
    pub fn has_class(&self, name: &str) -> bool {
        self.stages.iter().any(|stage| stage.policy.class(name).is_some())
    }

    /// Returns the packet that a handle of a replay stands for; `None` for one that waited when the
    /// load began.
    pub fn place(&self, handle: Handle) -> Option<usize> {
        let place = handle.0.checked_sub(HANDLES_FROM)? as usize;
        (place < self.arrivals.len()).then_some(place)
    }

    /// Returns the handle of the packet at this place.
    pub fn handle(place: usize) -> Handle {
        Handle(HANDLES_FROM + place as u32)
    }

    /// Returns the plans of its stages.
    pub fn plans(&self) -> Vec<LinkPlan> {
        let plan = |(number, stage): (usize, &Stage)| match self.driver {
            Some((first, model)) if number >= first => driven(&stage.policy.link, model),
            _ => stage.policy.link.clone(),
        };
        self.stages.iter().enumerate().map(plan).collect()
    }

    /// Drives a link through the load with a plan for each stage, until nothing waits or for
    /// [`DRAIN_MAX`] after the end, and passes what happens to `each`. Returns the number of
    /// packets that still wait.
    ///
    /// # Errors
    /// When a plan does not build.
    ///
    /// # Panics
    /// When there is not one plan for each stage.
    pub fn replay(
        &self,
        plans: &[LinkPlan],
        detail: Detail,
        each: &mut dyn FnMut(Happened<'_>),
    ) -> Result<u32, BuildError> {
        assert_eq!(plans.len(), self.stages.len(), "each stage has a plan");
        let drive = Port::Line(self.begin(plans)?);
        let floor = self.begin.as_ref().map_or(Instant::ZERO, |begin| begin.now);
        let tick = detail.ticks.map(|ticks| ticks.first);
        let mut replay = Replay { load: self, plans, drive, detail, stage: 0, tick, floor, each };
        if detail.explained {
            replay.drive.explain_from(self.start);
        }
        let stop = detail.stop.unwrap_or(Instant::MAX);
        let in_time = |served: Instant| served <= stop;
        let until = self.arrivals.partition_point(|arrival| in_time(arrival.at));
        let mut from = 0;
        for (served, before, event) in self.events.iter().take_while(|event| in_time(event.0)) {
            let before = (*before).min(until);
            replay.offer(from..before);
            replay.serve(&[], *served);
            replay.event(event)?;
            from = before;
        }
        replay.offer(from..until);
        replay.serve(&[], detail.stop.unwrap_or_else(|| self.end.after(DRAIN_MAX)));
        replay.tell_end();
        Ok(replay.drive.backlog())
    }

    /// Returns the link as it is when the load begins. A link with another plan is the one of the
    /// load, changed at that instant.
    fn begin(&self, plans: &[LinkPlan]) -> Result<Drive, BuildError> {
        let Some(begin) = &self.begin else {
            return Ok(Drive::of(plans[0].build()?, self.start));
        };
        let policy = &self.stages[0].policy;
        let mut link = policy.link.build()?;
        let mut state = Reader::new(&begin.state);
        link.load(&mut state).map_err(|error| BuildError {
            class: None,
            parameter: None,
            message: format!("the state of the link in the record: {error}"),
        })?;
        let mut drive = Drive::of(link, begin.now);
        if plans[0] != policy.link {
            let (from, to, heir) = (&policy.link, &plans[0], policy.default.leaf);
            drive.change(begin.now, Change { from, to, heir })?;
        }
        Ok(drive)
    }
}

/// A replay that goes on.
struct Replay<'a> {
    load: &'a Load,
    plans: &'a [LinkPlan],
    drive: Port,
    detail: Detail,
    stage: usize,
    /// The next of the ticks.
    tick: Option<Instant>,
    /// The instant before which the line gave up to send: up to here the link was not served.
    floor: Instant,
    each: &'a mut dyn FnMut(Happened<'_>),
}

impl Replay<'_> {
    fn offer(&mut self, places: std::ops::Range<usize>) {
        let load = self.load;
        let length = if self.detail.single { 1 } else { SERIES };
        for series in load.arrivals[places].chunks(length) {
            if self.detail.single {
                // Before the packet is offered, what leaves earlier leaves.
                self.serve(&[], series[0].at);
            }
            series.iter().for_each(|arrival| (self.each)(Happened::Offered(arrival)));
            self.note(series);
            if let Some(last) = series.last() {
                self.serve(series, last.at);
            }
        }
    }

    /// Passes the segments of packets on to the queues that look into them.
    fn note(&mut self, series: &[Arrival]) {
        let segments = &self.load.segments;
        if segments.is_empty() {
            return;
        }
        for arrival in series {
            if !self.drive.reads_segments(arrival.leaf) {
                continue;
            }
            let handle = arrival.packet.handle;
            let place = self.load.place(handle);
            self.drive.note(handle, place.and_then(|place| segments.get(&place)).copied());
        }
    }

    fn serve(&mut self, arrivals: &[Arrival], until: Instant) {
        let mut rest = arrivals;
        while let Some(tick) = self.tick.filter(|&tick| tick <= until) {
            let due = rest.partition_point(|arrival| arrival.at <= tick);
            self.serve_whole(&rest[..due], tick);
            rest = &rest[due..];
            self.tell_backlog(tick);
        }
        self.serve_whole(rest, until);
    }

    fn serve_whole(&mut self, arrivals: &[Arrival], until: Instant) {
        if arrivals.is_empty() && until < self.floor {
            return;
        }
        let each = &mut self.each;
        self.drive.serve(arrivals, until).iter().for_each(|left| each(Happened::Left(left)));
        self.settle();
    }

    /// Tells what waits at the end, where the last of the times is shorter than the others.
    fn tell_end(&mut self) {
        let next = self.tick.zip(self.detail.ticks.zip(self.detail.stop));
        if let Some((tick, (ticks, stop))) = next
            && tick.before(ticks.step) < stop
        {
            self.tell_backlog(stop);
        }
    }

    fn tell_backlog(&mut self, tick: Instant) {
        let leaves = self.plans[self.stage].tree.leaf_count() as u32;
        let backlog = |leaf| self.drive.waiting(LeafId(leaf)).1;
        let backlog: Vec<u64> = (0..leaves).map(backlog).collect();
        (self.each)(Happened::Tick(tick, &backlog));
        self.tick = self.detail.ticks.map(|ticks| tick.after(ticks.step));
    }

    /// Reports what the link dropped, and why packets waited.
    fn settle(&mut self) {
        let each = &mut self.each;
        let mut dropped = Vec::new();
        self.drive.take_dropped(&mut |one| dropped.push(one));
        for one in dropped {
            let (packets, reading) = (self.drive.waiting(one.leaf).0, self.drive.reading(one.leaf));
            each(Happened::Dropped(&one, Held { packets, reading }));
        }
        if let Some(runs) = self.drive.take_runs() {
            each(Happened::Ran(runs));
        }
        if self.detail.explained {
            self.drive.take_sojourns(&mut |all| {
                all.iter().for_each(|sojourn| each(Happened::Waited(sojourn)));
            });
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), BuildError> {
        match event {
            Event::Forfeit(before) => {
                self.floor = self.floor.max(*before);
                self.drive.forfeit_before(*before);
            }
            Event::DropOlder { clock, ages } => {
                self.drive.drop_older(&|leaf| match ages.get(leaf.index()) {
                    Some(&age) => clock.before(age),
                    None => Instant::ZERO,
                });
            }
            &Event::Rate(at, rate) => {
                self.floor = self.floor.max(at);
                self.drive.set_rate(at, rate);
            }
            &Event::Stage(next) => {
                let at = self.load.stages[next].at;
                self.floor = self.floor.max(at);
                let (from, to) = (&self.plans[self.stage], &self.plans[next]);
                let heir = self.load.stages[next].policy.default.leaf;
                self.drive.change(at, Change { from, to, heir })?;
                self.stage = next;
                (self.each)(Happened::Stage(next));
                if let Some((_, model)) = self.load.driver.filter(|row| next >= row.0) {
                    self.drive.drive_by(model, to, at)?;
                }
            }
        }
        self.settle();
        Ok(())
    }
}

/// Handles of packets that come; those that wait when a load begins have the numbers of the
/// frames of a link, which are smaller.
const HANDLES_FROM: u32 = 1 << 31;
/// Packets that are offered at once.
const SERIES: usize = 64;
/// How long after its end a load may go on until nothing waits.
pub const DRAIN_MAX: Duration = Duration::from_secs(10);
