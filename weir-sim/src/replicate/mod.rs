//! Several runs of one scenario, each with another seed, and their combined results.
//!
//! [`each`] runs them side by side; a [`Summary`] gives means with their confidence intervals.

mod parallel;

pub use parallel::{Outcome, each};
pub use weir_trace::parallel::{cores, map};

use crate::host::Calibrated;
use crate::network::OutletReport;
use crate::report::{ClassReport, Report};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::fmt;
use weir_policy::table::number_table as table;

/// Reads a figure off a report.
type Figure<'a> = &'a dyn Fn(&Report) -> f64;

/// Finds the mean of a figure over all runs.
type Over<'a> = &'a dyn Fn(Figure<'_>) -> Estimate;
/// Finds rows of classes in a report.
type Classes<'a> = &'a dyn Fn(&Report) -> &[ClassReport];

/// Several runs of one scenario, each with another seed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The name of the scenario.
    pub scenario: String,
    /// The scheduler's keyword at the start.
    pub scheduler: &'static str,
    /// The calibration of a host that was in force, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Calibrated>,
    /// How many were requested.
    pub asked: usize,
    /// The seeds of those that ended, in order.
    pub seeds: Vec<u64>,
    /// Whether several runs gave the same to the last packet: nothing is random, and there are no
    /// intervals.
    pub alike: bool,
    /// The part of the time in which the line was sending.
    pub utilisation: Estimate,
    /// The figures of each class.
    pub classes: Vec<ClassSummary>,
    /// The figures of each source.
    pub sources: Vec<SourceSummary>,
    /// Every outlet of a network; empty of one link.
    pub outlets: Vec<OutletSummary>,
}

/// One outlet of a network over all runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OutletSummary {
    /// The name of the link.
    pub link: String,
    /// The node that it leads away from.
    pub from: String,
    /// The part of the time in which its line was sending.
    pub utilisation: Estimate,
    /// The figures of its classes.
    pub classes: Vec<ClassSummary>,
}

/// One class over all runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassSummary {
    /// The name of the class.
    pub name: String,
    /// The rate that it sent, in bit/s.
    pub sent_bps: Estimate,
    /// The packets it lost.
    pub dropped_packets: Estimate,
    /// Its delays in µs, from offer to handing out.
    pub delay_p50_us: Estimate,
    /// The delay that 99 in 100 packets do not exceed, in µs.
    pub delay_p99_us: Estimate,
    /// The mean delay, in µs.
    pub delay_mean_us: Estimate,
}

/// One source over all runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SourceSummary {
    /// The name of the source.
    pub name: String,
    /// Payload that reached the receiving application, in bit/s.
    pub goodput_bps: Estimate,
    /// The packets it lost.
    pub lost_packets: Estimate,
    /// From the sender to the last bit at the receiver, in µs.
    pub delay_p99_us: Estimate,
}

/// A mean with its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The mean over the runs.
    pub mean: f64,
    /// The true mean is within this of it with a probability of 95 %, if runs are normally
    /// distributed (Student's t), and by how much each run's value may be wrong itself; `None` of a
    /// single run.
    pub within: Option<f64>,
}

impl Estimate {
    /// The estimate from `values`, in their order.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return Self { mean, within: None };
        }
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let deviation = (squares / (count - 1.0)).sqrt();
        let student = StudentsT::new(0.0, 1.0, count - 1.0).expect("there are two values or more");
        let t = student.inverse_cdf(1.0 - (1.0 - CONFIDENCE) / 2.0);
        Self { mean, within: Some(t * deviation / count.sqrt()) }
    }
}

impl Estimate {
    /// The estimate if each value may be wrong by `resolution` on the average.
    pub(crate) fn widened(self, resolution: f64) -> Self {
        Self { within: self.within.map(|within| within + resolution), ..self }
    }

    /// Returns the estimate in another unit.
    pub fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, within: self.within.map(|within| within * factor) }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = f.precision().unwrap_or(1);
        write!(f, "{:.precision$}", self.mean)?;
        match self.within {
            Some(within) => write!(f, " ± {within:.precision$}"),
            None => Ok(()),
        }
    }
}

impl Summary {
    /// Combines `reports`, of one scenario and in the order of their seeds; `None` without any.
    pub fn of(reports: &[Report], asked: usize) -> Option<Self> {
        let first = reports.first()?;
        let alike = alike(reports);
        // Of runs that are one run there is no interval.
        let counted = if alike { &reports[..1] } else { reports };
        let over =
            |of: &dyn Fn(&Report) -> f64| Estimate::of(&counted.iter().map(of).collect::<Vec<_>>());
        let source = |place: usize| SourceSummary {
            name: first.sources[place].name.clone(),
            goodput_bps: over(&|report| report.sources[place].goodput_bps as f64),
            lost_packets: over(&|report| report.sources[place].lost.packets as f64),
            delay_p99_us: over(&|report| micros(report.sources[place].delay.p99))
                .widened(over(&|report| micros(report.sources[place].delay.resolution[2])).mean),
        };
        Some(Self {
            scenario: first.scenario.clone(),
            scheduler: first.link.scheduler,
            host: first.host.clone(),
            asked,
            seeds: reports.iter().map(|report| report.seed).collect(),
            alike,
            utilisation: over(&|report| report.link.utilisation),
            classes: ClassSummary::all(&over, first, &|report| &report.classes),
            sources: (0..first.sources.len()).map(source).collect(),
            outlets: OutletSummary::all(&over, first),
        })
    }
}

/// Whether several reports differ in nothing but their seeds.
fn alike(reports: &[Report]) -> bool {
    let Some((first, rest)) = reports.split_first() else { return false };
    let is_first = |report: &Report| Report { seed: first.seed, ..report.clone() } == *first;
    !rest.is_empty() && rest.iter().all(is_first)
}

impl OutletSummary {
    fn all(over: Over<'_>, first: &Report) -> Vec<Self> {
        let outlets = |report: &Report| report.network.as_ref().map_or(0, |it| it.outlets.len());
        let summary = |place: usize| {
            let own = outlet(first, place);
            Self {
                link: own.link.clone(),
                from: own.from.clone(),
                utilisation: over(&|report| outlet(report, place).utilisation),
                classes: ClassSummary::all(over, first, &|report| &outlet(report, place).classes),
            }
        };
        (0..outlets(first)).map(summary).collect()
    }
}

fn outlet(report: &Report, place: usize) -> &OutletReport {
    let network = report.network.as_ref().expect("all runs are of one network");
    &network.outlets[place]
}

impl ClassSummary {
    /// Of each class that `classes` finds in the report of a run.
    fn all(over: Over<'_>, first: &Report, classes: Classes<'_>) -> Vec<Self> {
        // Of queues of a hash those that no run used are left out, as in reports.
        let is_shown = |place: &usize| {
            !classes(first)[*place].hashed
                || over(&|report| classes(report)[*place].offered.packets as f64).mean > 0.0
        };
        let places = (0..classes(first).len()).filter(is_shown);
        places.map(|place| Self::of(place, over, first, classes)).collect()
    }

    fn of(place: usize, over: Over<'_>, first: &Report, classes: Classes<'_>) -> Self {
        // Rows have one order in all runs: that of declaration, plan after plan.
        let of = |value: fn(&ClassReport) -> f64| {
            over(&move |report: &Report| value(&classes(report)[place]))
        };
        Self {
            name: classes(first)[place].name.clone(),
            sent_bps: of(|class| class.sent.bits_per_second as f64),
            dropped_packets: of(|class| class.dropped.total.packets as f64),
            delay_p50_us: of(|class| micros(class.delay.p50))
                .widened(of(|class| micros(class.delay.resolution[0])).mean),
            delay_p99_us: of(|class| micros(class.delay.p99))
                .widened(of(|class| micros(class.delay.resolution[2])).mean),
            delay_mean_us: of(|class| micros(class.delay.mean)),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, scheduler, asked, seeds, utilisation, classes, sources, .. } = self;
        writeln!(f, "{scenario}: {scheduler}, {} of {asked} replications", seeds.len())?;
        if let Some(host) = &self.host {
            writeln!(f, "host: {host}")?;
        }
        match self.alike {
            true => writeln!(f, "{ALIKE}")?,
            false => writeln!(f, "mean ± half of the 95 % confidence interval (Student's t)")?,
        }
        writeln!(f, "utilisation: {:.2} %\n", utilisation.times(100.0))?;
        writeln!(f, "{}\n", class_table(classes))?;
        let rows = sources.iter().map(|source| {
            let goodput = format!("{:.4}", source.goodput_bps.times(1e-6));
            let received = source.goodput_bps.mean > 0.0;
            let (lost, delay) =
                (source.lost_packets.to_string(), millis(source.delay_p99_us, received));
            vec![source.name.clone(), goodput, lost, delay]
        });
        writeln!(f, "{}", table(&["source", "goodput Mbit/s", "lost", "p99 ms"], rows))?;
        for OutletSummary { link, from, utilisation, classes } in &self.outlets {
            let used = utilisation.times(100.0);
            writeln!(f, "\n{link} from {from}, utilisation: {used:.2} %")?;
            writeln!(f, "{}", class_table(classes))?;
        }
        Ok(())
    }
}

fn class_table(classes: &[ClassSummary]) -> impl fmt::Display {
    let rows = classes.iter().map(|class| {
        let delays = [class.delay_p50_us, class.delay_p99_us, class.delay_mean_us];
        let mut row = vec![class.name.clone(), format!("{:.4}", class.sent_bps.times(1e-6))];
        row.push(class.dropped_packets.to_string());
        row.extend(delays.map(|delay| millis(delay, class.sent_bps.mean > 0.0)));
        row
    });
    table(&["class", "Mbit/s", "dropped", "p50 ms", "p99 ms", "mean ms"], rows)
}

/// Formats a delay in ms; without packets there is none.
pub(crate) fn millis(micros: Estimate, has_packets: bool) -> String {
    if has_packets { format!("{:.3}", micros.times(1e-3)) } else { "-".to_owned() }
}

pub(crate) fn micros(duration: weir_core::units::Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

/// The words in the place of intervals where runs do not differ.
pub const ALIKE: &str = "all runs gave the same: nothing in this scenario is random, so there are \
                         no intervals;\n`start_jitter` and `processing_jitter` move phases \
                         (docs/scenarios.md)";
/// Bound: replications of one command; a request for more is refused. Their reports stay in memory
/// until the end.
pub const REPLICATIONS_MAX: u64 = 10_000;
const CONFIDENCE: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;

    /// The half width of the interval around the mean of `values`.
    fn check(values: &[f64], mean: f64, within: Option<f64>) {
        let found = Estimate::of(values);
        assert!((found.mean - mean).abs() < 1e-9, "{found:?}");
        let near = |(one, other): (f64, f64)| (one - other).abs() < 1e-3 * other.max(1e-9);
        assert_eq!(found.within.is_some(), within.is_some());
        assert!(found.within.zip(within).is_none_or(near), "{found:?}, expected {within:?}");
    }

    #[test]
    fn intervals_are_those_of_students_tables() {
        check(&[5.0], 5.0, None);
        // t(0.975) of 1, 4 and 9 degrees of freedom: 12.706, 2.776, 2.262.
        check(&[0.0, 2.0], 1.0, Some(12.706));
        check(&[1.0, 2.0, 3.0, 4.0, 5.0], 3.0, Some(2.776 * 2.5f64.sqrt() / 5f64.sqrt()));
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        check(&ten, 5.5, Some(2.262 * (55.0f64 / 6.0).sqrt() / 10f64.sqrt()));
        check(&[4.0, 4.0, 4.0], 4.0, Some(0.0));
    }
}
