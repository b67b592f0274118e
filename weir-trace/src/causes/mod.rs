//! Why the packets of a load waited and were dropped: packet by packet, loans over time, and drops
//! with the state of their queue.
//!
//! [`look`] replays a [`Load`] with its own policies, one packet at a time, and the link explains
//! each sojourn ([`weir_core::explain`]); what others sent meanwhile is counted from departures.
//! Invariant: the parts of a packet's delay sum to it, to the nanosecond.

mod drops;
mod report;
mod stories;

pub use drops::DropGroup;
pub use stories::{Rates, Story, Turns, Within};

use crate::explain::{ExplainReport, Explained, SLOWEST_DEFAULT};
use crate::load::{Detail, Happened, Load};
use drops::Drops;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use stories::Stories;
use weir_core::explain::Sojourn;
use weir_core::parameter::BuildError;
use weir_core::tree::Tree;
use weir_core::units::Duration;

/// Which packets to tell of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ask {
    /// Only those of this class and the classes below it; tables have these classes, too.
    pub class: Option<String>,
    /// The packet with this number, from 1, among these; otherwise the slowest.
    pub packet: Option<u64>,
    /// How many of the slowest.
    pub worst: usize,
    /// Only those that ended in this time, after such a delay.
    pub within: Option<Within>,
}

/// Packets with the reasons of their delays.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Found {
    /// The packets, the slowest first.
    pub stories: Vec<Story>,
    /// How many fit what was asked for, those among them.
    pub matched: u64,
}

/// Why packets of a load waited and were dropped.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Causes {
    /// How long the load lasted, in seconds.
    pub seconds: f64,
    /// The packets that arrived.
    pub packets: u64,
    /// The parts of the sojourns of each class, and who lent.
    pub classes: ExplainReport,
    /// The packets asked for.
    pub stories: Vec<Story>,
    /// The width of the bins of `loans`, in seconds.
    pub bin_s: f64,
    /// The bytes of each borrower from each lender, in the order of time.
    pub loans: Vec<Loan>,
    /// The packets dropped, by class and reason.
    pub drops: Vec<DropGroup>,
    /// Frames lost outside the link, by cause.
    pub lost: BTreeMap<&'static str, u64>,
}

/// The bytes that a class borrowed in a bin of time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Loan {
    /// When the bin begins, from the start of the load.
    pub from_s: f64,
    /// The class that borrowed.
    pub borrower: String,
    /// The class that lent.
    pub lender: String,
    /// The bytes sent on loan.
    pub bytes: u64,
}

/// Replays `load` and finds why packets waited and were dropped.
///
/// # Errors
/// When a plan of the load does not build.
pub fn look(load: &Load, ask: &Ask) -> Result<Causes, BuildError> {
    let plans = load.plans();
    let explained = Explained::new(&plans[0].tree, SLOWEST_DEFAULT.min(ask.worst));
    let mut looking = Looking {
        load,
        stage: 0,
        explained: explained.about(load.start, ask.class.as_deref()),
        stories: Stories::new(load, ask),
        drops: Drops::new(load),
        loans: BTreeMap::new(),
        bin: bin(load),
        asked: ask.class.as_deref().map(|class| asked(load, class)),
    };
    let detail = Detail { single: true, explained: true, ..Detail::default() };
    load.replay(&plans, detail, &mut |happened| looking.note(happened))?;
    Ok(looking.finish())
}

/// Replays `load`, up to the end of the time asked for, and finds the packets asked for.
///
/// # Errors
/// When a plan of the load does not build.
pub fn packets(load: &Load, ask: &Ask) -> Result<Found, BuildError> {
    let mut stories = Stories::new(load, ask);
    let stop = Some(ask.within.map_or(load.end, |within| within.to.min(load.end)));
    let detail = Detail { explained: true, stop, ..Detail::default() };
    load.replay(&load.plans(), detail, &mut |happened| stories.note(&happened))?;
    let matched = stories.matched();
    Ok(Found { stories: stories.finish(), matched })
}

struct Looking<'a> {
    load: &'a Load,
    stage: usize,
    explained: Explained,
    stories: Stories<'a>,
    drops: Drops<'a>,
    /// By bin, borrower and lender.
    loans: BTreeMap<(u64, String, String), u64>,
    bin: Duration,
    /// The classes that the tables have, if not all.
    asked: Option<BTreeSet<String>>,
}

impl Looking<'_> {
    fn note(&mut self, happened: Happened<'_>) {
        self.stories.note(&happened);
        match happened {
            Happened::Stage(stage) => {
                self.stage = stage;
                self.explained.change(&self.load.stages[stage].policy.link.tree);
            }
            Happened::Dropped(dropped, held) => self.drops.add(self.stage, dropped, held),
            Happened::Waited(sojourn) => {
                self.explained.add(sojourn);
                self.lent(sojourn);
            }
            Happened::Offered(_) | Happened::Left(_) | Happened::Ran(_) | Happened::Tick(..) => {}
        }
    }

    fn lent(&mut self, sojourn: &Sojourn) {
        let Some(lender) = sojourn.lender.filter(|_| sojourn.dropped.is_none()) else { return };
        let policy = &self.load.stages[self.stage].policy;
        let length = self.load.place(sojourn.handle);
        let length = length.map_or(0, |place| self.load.arrivals[place].packet.length);
        let since = sojourn.at.since(self.load.start.min(sojourn.at));
        let bin = since.as_nanos() / self.bin.as_nanos();
        let borrower = policy.leaf_name(sojourn.leaf).to_owned();
        let lender = policy.link.tree.class(lender).name.clone();
        *self.loans.entry((bin, borrower, lender)).or_default() += u64::from(length);
    }

    fn finish(self) -> Causes {
        let seconds = |duration: Duration| duration.as_nanos() as f64 / 1e9;
        let bin_s = seconds(self.bin);
        let loan = |((bin, borrower, lender), bytes): ((u64, String, String), u64)| Loan {
            from_s: bin as f64 * bin_s,
            borrower,
            lender,
            bytes,
        };
        let mut causes = Causes {
            seconds: seconds(self.load.duration()),
            packets: self.load.arrivals.len() as u64,
            classes: self.explained.report(),
            stories: self.stories.finish(),
            bin_s,
            loans: self.loans.into_iter().map(loan).collect(),
            drops: self.drops.finish(),
            lost: self.load.lost.clone(),
        };
        if let Some(asked) = self.asked {
            causes.classes.classes.retain(|row| asked.contains(&row.name));
            let is_asked = |loan: &Loan| asked.contains(&loan.borrower);
            causes.loans.retain(|loan| is_asked(loan) || asked.contains(&loan.lender));
            causes.drops.retain(|row| asked.contains(&row.class));
        }
        causes
    }
}

/// Returns the names of the class asked for and of those below it, in any stage.
fn asked(load: &Load, class: &str) -> BTreeSet<String> {
    let trees = load.stages.iter().map(|stage| &stage.policy.link.tree);
    let below = |tree: &Tree| -> Vec<String> {
        let path = |at| tree.path(at).any(|above| tree.class(above).name == class);
        let rows = tree.classes().filter(|row| path(row.0));
        rows.map(|row| row.1.name.clone()).collect()
    };
    trees.flat_map(below).collect()
}

/// Returns the width of bins: a tenth of the load.
fn bin(load: &Load) -> Duration {
    Duration::from_nanos((load.duration().as_nanos() / BINS).max(1))
}

const BINS: u64 = 10;
