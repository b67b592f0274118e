//! A load that a link had: what arrived and when, and the policies in force; and the link driven
//! through it once more, by these policies or by changed ones.
//!
//! The load is *open*: packets arrive as they did, whatever becomes of those before them. So a
//! replay with the policies of the load repeats it, and a replay with changed ones shows what the
//! same arrivals would have met; senders that react to loss or delay would have sent otherwise.
//! Invariant: a replay depends on load and plans only.

mod staged;

use crate::drive::Drive;
use std::io;
use std::path::Path;
use weir_core::change::Change;
use weir_core::event::{Departure, Dropped};
use weir_core::explain::Sojourn;
use weir_core::ids::Handle;
use weir_core::link::{Arrival, LinkPlan};
use weir_core::parameter::BuildError;
use weir_core::units::{Duration, Instant};
use weir_policy::policy::{self, Policy};

/// What a link was offered, and by which policies it served.
#[derive(Clone, Debug)]
pub struct Load {
    /// The policies, in the order of time; there is a first.
    pub stages: Vec<Stage>,
    /// The packets in the order of their instants; the leaf is one of the stage in force.
    pub arrivals: Vec<Arrival>,
    /// What else happened, in the order of time.
    pub events: Vec<(Instant, Event)>,
    /// When it begins.
    pub start: Instant,
    /// When it ends; what waits then leaves afterwards.
    pub end: Instant,
}

/// A policy, and since when it was in force.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Since when.
    pub at: Instant,
    /// The name of its file.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The files that it names, each with its text.
    pub files: Vec<(String, String)>,
    /// The names of the ports that its rules may name; `None` if any.
    pub ports: Option<Vec<String>>,
    /// The policy as read.
    pub policy: Policy,
}

/// What happens to a link besides arrivals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The link gives up what it could have sent before.
    Forfeit,
    /// The policy of this stage comes into force.
    Stage(usize),
}

/// What a replay reports, in the order of time.
#[derive(Clone, Copy, Debug)]
pub enum Happened<'a> {
    /// A packet is offered.
    Offered(&'a Arrival),
    /// A packet left.
    Left(&'a Departure),
    /// A packet was dropped, and its leaf holds so many now.
    Dropped(&'a Dropped, u64),
    /// Why a packet waited that left or was dropped.
    Waited(&'a Sojourn),
    /// The plan of this stage is in force.
    Stage(usize),
}

/// What a replay looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Detail {
    /// Each packet is offered by itself, so that what a leaf holds is known at that instant.
    pub single: bool,
    /// The link explains why packets waited.
    pub explained: bool,
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
        files: Vec<(String, String)>,
        ports: Option<Vec<String>>,
    ) -> Result<Self, String> {
        let policy = read((name, text), &files, ports.as_deref())?;
        let (name, text) = (name.to_owned(), text.to_owned());
        Ok(Self { at, name, text, files, ports, policy })
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
    files: &[(String, String)],
    ports: Option<&[String]>,
) -> Result<Policy, String> {
    let named = |path: &Path| -> io::Result<Vec<u8>> {
        let file = files.iter().find(|file| Path::new(&file.0) == path);
        let file = file.or_else(|| files.iter().find(|file| path.ends_with(&file.0)));
        file.map(|file| file.1.clone().into_bytes()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "the record does not hold this file")
        })
    };
    let outcome = policy::parse_bytes(text.as_bytes(), name, ports, &named);
    let failed = outcome.failed();
    let first = outcome.findings.first().map(|finding| finding.message.clone());
    let plan = outcome.plan.filter(|_| !failed);
    plan.ok_or_else(|| first.unwrap_or_else(|| format!("{name} is not a policy")))
}

impl Load {
    /// Returns how long it lasts.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
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
        self.stages.iter().map(|stage| stage.policy.link.clone()).collect()
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
        let drive = self.begin(plans)?;
        let mut replay = Replay { load: self, plans, drive, detail, stage: 0, each };
        if detail.explained {
            replay.drive.explain_from(self.start);
        }
        let mut from = 0;
        for &(at, event) in &self.events {
            let until = from + self.arrivals[from..].partition_point(|arrival| arrival.at <= at);
            replay.offer(from..until);
            replay.serve(&[], at);
            replay.event(at, event)?;
            from = until;
        }
        replay.offer(from..self.arrivals.len());
        replay.serve(&[], self.end.after(DRAIN_MAX));
        Ok(replay.drive.backlog())
    }

    /// Returns the link as it is when the load begins.
    fn begin(&self, plans: &[LinkPlan]) -> Result<Drive, BuildError> {
        Ok(Drive::of(plans[0].build()?, self.start))
    }
}

/// A replay that goes on.
struct Replay<'a> {
    load: &'a Load,
    plans: &'a [LinkPlan],
    drive: Drive,
    detail: Detail,
    stage: usize,
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
            if let Some(last) = series.last() {
                self.serve(series, last.at);
            }
        }
    }

    fn serve(&mut self, arrivals: &[Arrival], until: Instant) {
        let each = &mut self.each;
        self.drive.serve(arrivals, until).iter().for_each(|left| each(Happened::Left(left)));
        let mut dropped = Vec::new();
        self.drive.take_dropped(&mut |one| dropped.push(one));
        for one in dropped {
            let held = self.drive.leaf(one.leaf).backlog.packets;
            each(Happened::Dropped(&one, held));
        }
        if self.detail.explained {
            self.drive.take_sojourns(&mut |all| {
                all.iter().for_each(|sojourn| each(Happened::Waited(sojourn)));
            });
        }
    }

    fn event(&mut self, at: Instant, event: Event) -> Result<(), BuildError> {
        match event {
            Event::Forfeit => self.drive.forfeit_before(at),
            Event::Stage(next) => {
                let (from, to) = (&self.plans[self.stage], &self.plans[next]);
                let heir = self.load.stages[next].policy.default.leaf;
                self.drive.change(at, Change { from, to, heir })?;
                self.stage = next;
                (self.each)(Happened::Stage(next));
            }
        }
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
