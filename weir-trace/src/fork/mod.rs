//! Two futures of a moment of a record: the recorded one, and one with changed values from the
//! moment on.
//!
//! [`fork`] takes the link as it was at the moment, sets the values as `weir set` would have done,
//! and gives it the rest of the record. Both futures are *open loop*: frames come as they did, are
//! lost outside the link as they were, and the run loop stalls as it did; senders that react to
//! loss or delay would have sent otherwise. Invariant: with values that change nothing, the fork is
//! compared with the record as `weir replay --record` does, and equal to the bit.

mod report;

pub use report::{ClassTotals, ForkReport};

use crate::driver::model::Driver;
use crate::load::{Compared, Edit, Fork, Load, Outcome, head};
use crate::series::{CELLS_MAX, Series, Window};
use std::io::Read;
use weir_core::units::{Duration, Instant};

/// A direction of a record, read once for any number of forks.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The name of the direction.
    pub direction: String,
    /// The arrivals and events of its link.
    pub load: Load,
    /// The departures and drops of the record.
    pub outcome: Outcome,
    /// The wall clock at instant 0, in nanoseconds since 1970.
    pub epoch_ns: u64,
}

/// The request for a fork.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The instant at which the second future begins to differ.
    pub at: Instant,
    /// The changes of the policy at that instant.
    pub edits: Vec<Edit>,
    /// How long the futures are; until the end of the record at most.
    pub length: Duration,
    /// The width of bins; by default one that suits the length.
    pub step: Option<Duration>,
    /// The model of a driver that takes the packets from the moment on, in place of the line; the
    /// stalls of the run loop do not hold it.
    pub driver: Option<Driver>,
}

/// Two futures of one instant.
#[derive(Clone, Debug)]
pub struct Forked {
    /// The future of the record.
    pub recorded: Series,
    /// The future with the changes.
    pub forked: Series,
    /// When the second differs first from the record, and how.
    pub difference: Option<(Instant, String)>,
    /// The packets that came in this time.
    pub packets: u64,
    /// Why the record is less than was recorded, if it is.
    pub fault: Option<String>,
}

impl Recorded {
    /// Reads a direction of a record: the one called `direction`, or the only one.
    ///
    /// # Errors
    /// As [`Load::of_record`]; `record` opens the record, and is called twice.
    pub fn read<R: Read>(
        record: impl Fn() -> Result<R, String>,
        direction: Option<&str>,
    ) -> Result<Self, String> {
        let head = head(record()?)?;
        let (load, outcome) = Load::with_outcome(record()?, direction)?;
        let first = || head.directions.first().map(|row| row.name.clone());
        let direction = direction.map(str::to_owned).or_else(first).unwrap_or_default();
        Ok(Self { direction, load, outcome, epoch_ns: head.epoch_ns })
    }

    /// Returns an instant in nanoseconds since 1970 as an instant of the record; the first if it is
    /// earlier than the record.
    pub fn instant(&self, wall_ns: u64) -> Instant {
        Instant::from_nanos(wall_ns.saturating_sub(self.epoch_ns)).max(self.load.start)
    }
}

/// Forks a record.
///
/// # Errors
/// When the moment is outside the record, a value cannot be set, this version of Weir does not make
/// the record again, or the futures would have too many bins.
pub fn fork(recorded: &Recorded, record: impl Read, ask: &Ask) -> Result<Forked, String> {
    let load = &recorded.load;
    let window = window(load, ask)?;
    let fork = Fork { at: ask.at, edits: ask.edits.clone(), driver: ask.driver };
    let changed = match fork.edits.is_empty() && fork.driver.is_none() {
        true => None,
        false => Some(Load::forked(record, Some(&recorded.direction), &fork)?),
    };
    let future = |of: &Load| -> Result<(Series, Option<(Instant, String)>), String> {
        let mut compared = Compared::new(of, &recorded.outcome, window.to);
        let series = Series::of(of, &of.plans(), window, &mut |it| compared.note(it))?;
        Ok((series, compared.finish()))
    };
    let (series, difference) = future(load)?;
    let packets = load.arrivals.iter().filter(|it| window.bin(it.at).is_some()).count() as u64;
    let fault = load.fault.clone();
    let Some(changed) = changed else {
        let forked = series.clone();
        return Ok(Forked { recorded: series, forked, difference, packets, fault });
    };
    if let Some((at, difference)) = difference {
        let at = at.since(load.start.min(at));
        return Err(format!(
            "this version of Weir does not make the record again ({at} after its beginning, \
             {difference}), so nothing can be forked; use the version that recorded"
        ));
    }
    let (forked, difference) = future(&changed)?;
    Ok(Forked { recorded: series, forked, difference, packets, fault })
}

fn window(load: &Load, ask: &Ask) -> Result<Window, String> {
    let (from, to) = (ask.at, ask.at.after(ask.length).min(load.end));
    let length = load.end.since(load.start.min(load.end));
    if from < load.start || from >= load.end {
        let seconds = |time: Duration| format!("{:.3} s", time.as_nanos() as f64 / 1e9);
        let what = match from < load.start {
            true => format!("{} before the record begins", seconds(load.start.since(from))),
            false => format!("{} after its beginning", seconds(from.since(load.start))),
        };
        let length = seconds(length);
        return Err(format!(
            "the record does not hold that moment, which is {what}; it lasts {length}: take a \
             moment in it"
        ));
    }
    if ask.length == Duration::ZERO {
        return Err("a future of no time has nothing to show; take a longer one".to_owned());
    }
    // A fork has one stage more than the record.
    let stages = load.stages.iter().chain(load.stages.last());
    let classes: u64 = stages.map(|it| it.policy.link.tree.classes().count() as u64).sum();
    let bins = BINS_DEFAULT.min(CELLS_MAX / classes.max(1));
    let step = ask.step.unwrap_or_else(|| Window::step_for(to.since(from), bins));
    Ok(Window { from, to, step })
}

/// The most bins of a future, unless a width is asked for.
pub const BINS_DEFAULT: u64 = 300;
