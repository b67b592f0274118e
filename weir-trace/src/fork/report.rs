//! Two futures as JSON and as a table.

use super::{Ask, Forked, Recorded};
use crate::load::Runs;
use crate::series::{ClassHistory, ClassSeries, Loan, Series, wall_ms};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use weir_policy::table::{Table, megabits, millis};

/// Two futures, in the units of the dashboard.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ForkReport {
    /// The name of the direction.
    pub direction: String,
    /// The moment, in ms since 1970.
    pub at: f64,
    /// The end of each bin, in ms since 1970.
    pub t: Vec<f64>,
    /// The width of a bin.
    pub step_ms: f64,
    /// The history of each class in the record, by name.
    #[serde(serialize_with = "in_whole_bytes")]
    pub recorded: BTreeMap<String, ClassHistory>,
    /// The history of each class with the changes, by name.
    #[serde(serialize_with = "in_whole_bytes")]
    pub forked: BTreeMap<String, ClassHistory>,
    /// The totals of each class in the record, by name.
    pub recorded_totals: BTreeMap<String, ClassTotals>,
    /// The totals of each class with the changes, by name.
    pub forked_totals: BTreeMap<String, ClassTotals>,
    /// How often the driver of the fork asked its scheduler for a packet, if it has one.
    pub forked_runs: Option<Runs>,
    /// Who borrowed from whom.
    pub recorded_loans: Vec<Loan>,
    /// Who would have borrowed from whom.
    pub forked_loans: Vec<Loan>,
    /// Whether the second future is the recorded one, to the bit.
    pub identical: bool,
    /// The packets that came in this time.
    pub packets: u64,
    /// Where the second future differs first from the record.
    pub first_difference: Option<String>,
    /// Frames come as they did, whatever becomes of those before.
    pub open_loop: bool,
    /// Why the record is less than was recorded, if it is.
    pub fault: Option<String>,
}

/// The totals of a class.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ClassTotals {
    /// Packets that left in this time.
    pub sent_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// The mean delay of those that left, in µs; `None` if none did.
    pub delay_mean_us: Option<f64>,
}

impl ClassTotals {
    fn of(class: &ClassSeries) -> Self {
        let (packets, delays) = class.left;
        Self {
            sent_packets: packets,
            dropped_packets: class.drops.values().flatten().map(|&drops| u64::from(drops)).sum(),
            delay_mean_us: (packets > 0).then(|| delays as f64 / packets as f64 / 1e3),
        }
    }
}

impl Forked {
    /// Returns the futures of at most `classes_max` classes each.
    pub fn report(&self, recorded: &Recorded, ask: &Ask, classes_max: usize) -> ForkReport {
        let epoch_ns = recorded.epoch_ns;
        let whole = |series: &Series| {
            series.history(epoch_ns, classes_max, series.window.inside(None, None))
        };
        let (before, after) = (whole(&self.recorded), whole(&self.forked));
        let totals = |series: &Series| {
            let named = |class: &ClassSeries| (class.name.clone(), ClassTotals::of(class));
            series.classes.iter().take(classes_max).map(named).collect()
        };
        ForkReport {
            direction: recorded.direction.clone(),
            at: wall_ms(epoch_ns, ask.at),
            t: before.t,
            step_ms: self.recorded.window.step.as_nanos() as f64 / 1e6,
            recorded: before.classes,
            forked: after.classes,
            recorded_totals: totals(&self.recorded),
            forked_totals: totals(&self.forked),
            forked_runs: self.forked.runs,
            recorded_loans: before.loans,
            forked_loans: after.loans,
            identical: self.difference.is_none(),
            packets: self.packets,
            first_difference: self.first_difference(ask),
            open_loop: true,
            fault: self.fault.clone(),
        }
    }

    /// Returns where the second future differs first from the record, as a sentence.
    pub fn first_difference(&self, ask: &Ask) -> Option<String> {
        let (at, text) = self.difference.as_ref()?;
        Some(format!("{} after the moment: {text}", at.since(ask.at.min(*at))))
    }

    /// Returns a row for each class, of futures of a single bin.
    pub fn table(&self) -> Table {
        let head = ["class", "Mbit/s", "forked", "p99 ms", "forked", "dropped", "forked"];
        let mut table = Table::new(head);
        let seconds = self.recorded.window.seconds(0);
        let rate = |class: Option<&ClassSeries>| {
            class.map_or("-".to_owned(), |it| megabits(it.sent[0] as f64 * 8.0 / seconds))
        };
        let delay = |class: Option<&ClassSeries>| {
            let delay = class.and_then(|it| it.delay_p99[0]);
            delay.map_or("-".to_owned(), |nanos| millis(nanos as f64 / 1e3))
        };
        let drops = |class: Option<&ClassSeries>| {
            let sum = class.map(|it| it.drops.values().map(|row| row[0]).sum::<u32>());
            sum.map_or("-".to_owned(), |sum| sum.to_string())
        };
        let (before, after) = (&self.recorded, &self.forked);
        let names = before.classes.iter().chain(&after.classes).map(|class| &class.name);
        let mut shown = BTreeSet::new();
        for name in names.filter(|&name| shown.insert(name)) {
            let (one, other) = (before.class(name), after.class(name));
            table.row([
                name.clone(),
                rate(one),
                rate(other),
                delay(one),
                delay(other),
                drops(one),
                drops(other),
            ]);
        }
        table
    }
}

/// Writes classes with the bytes that wait as integers.
fn in_whole_bytes<S: Serializer>(
    classes: &BTreeMap<String, ClassHistory>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(classes.iter().map(|(name, class)| (name, Written::of(class))))
}

/// A class as the report writes it.
#[derive(Serialize)]
struct Written<'a> {
    sent_bps: &'a [Option<f64>],
    offered_bps: &'a [Option<f64>],
    backlog_bytes: Vec<Option<u64>>,
    p50_us: &'a [Option<f64>],
    p99_us: &'a [Option<f64>],
    dropped_pps: &'a [Option<f64>],
    borrowed_bps: &'a [Option<f64>],
}

impl<'a> Written<'a> {
    fn of(class: &'a ClassHistory) -> Self {
        let whole = |bytes: &Option<f64>| bytes.map(|bytes| bytes as u64);
        Self {
            sent_bps: &class.sent_bps,
            offered_bps: &class.offered_bps,
            backlog_bytes: class.backlog_bytes.iter().map(whole).collect(),
            p50_us: &class.p50_us,
            p99_us: &class.p99_us,
            dropped_pps: &class.dropped_pps,
            borrowed_bps: &class.borrowed_bps,
        }
    }
}
