//! Series as rates in JSON, as the dashboard draws them.

use super::{ClassSeries, Lent, Series, edges};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::units::Instant;

/// The history of classes, in the units of the dashboard.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct History {
    /// The end of each bin, in ms since 1970.
    pub t: Vec<f64>,
    /// The width of a bin.
    pub step_ms: f64,
    /// Each class by name.
    pub classes: BTreeMap<String, ClassHistory>,
    /// Packets a second that were dropped, by class and reason.
    pub drops: BTreeMap<String, BTreeMap<&'static str, Vec<f64>>>,
    /// Loans between classes, by bin.
    pub loans: Vec<HistoryLoan>,
    /// The number of classes that were left out, the smallest.
    pub left_out: usize,
}

/// The history of one class, bin after bin.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassHistory {
    /// The rate that it sent.
    pub sent_bps: Vec<f64>,
    /// The rate that it was offered.
    pub offered_bps: Vec<f64>,
    /// The bytes that wait at the end of each bin.
    pub backlog_bytes: Vec<u64>,
    /// The median of its delays.
    pub p50_us: Vec<Option<f64>>,
    /// The 99th percentile of its delays.
    pub p99_us: Vec<Option<f64>>,
    /// Packets dropped, a second.
    pub dropped_pps: Vec<f64>,
    /// The rate that it sent on loan.
    pub borrowed_bps: Vec<f64>,
}

/// The rate that a class sent on loan in a bin.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HistoryLoan {
    /// The number of the bin.
    pub t: usize,
    /// The class that borrowed.
    pub borrower: String,
    /// The class that lent.
    pub lender: String,
    /// The rate, in bit/s.
    pub bps: f64,
}

/// The packets of a class by time and delay.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Heat {
    /// The end of each bin of time, in ms since 1970.
    pub t: Vec<f64>,
    /// The edges of the bins of delay; what is below the first or above the last counts in the bin
    /// beside it.
    pub edges_us: Vec<f64>,
    /// For each bin of time the packets in each bin of delay.
    pub counts: Vec<Vec<u32>>,
}

impl Series {
    /// Returns the series as rates, of at most `classes_max` classes: those that were offered most.
    /// `epoch_ns` is the wall clock at instant 0.
    pub fn history(&self, epoch_ns: u64, classes_max: usize) -> History {
        let mut order: Vec<&ClassSeries> = self.classes.iter().collect();
        order.sort_by_key(|class| std::cmp::Reverse(class.offered.iter().sum::<u64>()));
        let left_out = order.len().saturating_sub(classes_max);
        order.truncate(classes_max);
        let classes = order.iter().map(|class| (class.name.clone(), self.class_history(class)));
        let per_second = |row: &Vec<u32>| self.rates(row.iter().map(|&count| count.into()), 1.0);
        let reasons = |class: &ClassSeries| -> BTreeMap<&'static str, Vec<f64>> {
            class.drops.iter().map(|(&reason, row)| (reason, per_second(row))).collect()
        };
        let with_drops = order.iter().filter(|class| !class.drops.is_empty());
        History {
            t: self.times(epoch_ns),
            step_ms: self.window.step.as_nanos() as f64 / 1e6,
            classes: classes.collect(),
            drops: with_drops.map(|class| (class.name.clone(), reasons(class))).collect(),
            loans: self.loans.iter().map(|lent| self.loan(lent)).collect(),
            left_out,
        }
    }

    /// Returns the packets of a class by time and delay.
    pub fn heat(&self, epoch_ns: u64, class: &ClassSeries) -> Heat {
        let edges = edges();
        let mut counts = vec![vec![0; edges.len() - 1]; self.window.bins()];
        for &(bin, cell, packets) in &class.heat {
            counts[bin as usize][usize::from(cell)] += packets;
        }
        let edges_us = edges.iter().map(|&edge| edge as f64 / 1e3).collect();
        Heat { t: self.times(epoch_ns), edges_us, counts }
    }

    fn class_history(&self, class: &ClassSeries) -> ClassHistory {
        let bits = |row: &[u64]| self.rates(row.iter().map(|&bytes| bytes as f64), 8.0);
        let micros = |row: &[Option<u64>]| -> Vec<Option<f64>> {
            row.iter().map(|nanos| nanos.map(|nanos| nanos as f64 / 1e3)).collect()
        };
        let bins = 0..self.window.bins();
        let dropped = bins.map(|bin| class.drops.values().map(|row| f64::from(row[bin])).sum());
        ClassHistory {
            sent_bps: bits(&class.sent),
            offered_bps: bits(&class.offered),
            backlog_bytes: class.backlog.clone(),
            p50_us: micros(&class.delay_p50),
            p99_us: micros(&class.delay_p99),
            dropped_pps: self.rates(dropped, 1.0),
            borrowed_bps: bits(&class.borrowed),
        }
    }

    fn loan(&self, lent: &Lent) -> HistoryLoan {
        HistoryLoan {
            t: lent.bin,
            borrower: self.classes[lent.borrower].name.clone(),
            lender: self.classes[lent.lender].name.clone(),
            bps: lent.bytes as f64 * 8.0 / self.window.seconds(lent.bin),
        }
    }

    /// Returns amounts of bins as amounts a second, times `factor`.
    fn rates(&self, amounts: impl Iterator<Item = f64>, factor: f64) -> Vec<f64> {
        let rate = |(bin, amount): (usize, f64)| amount * factor / self.window.seconds(bin);
        amounts.enumerate().map(rate).collect()
    }

    fn times(&self, epoch_ns: u64) -> Vec<f64> {
        (0..self.window.bins()).map(|bin| wall_ms(epoch_ns, self.window.end(bin))).collect()
    }
}

/// Returns an instant in ms since 1970.
pub fn wall_ms(epoch_ns: u64, at: Instant) -> f64 {
    // Whole milliseconds first: the sum in nanoseconds has more digits than a float.
    let nanos = u128::from(epoch_ns) + u128::from(at.as_nanos());
    (nanos / 1_000_000) as f64 + (nanos % 1_000_000) as f64 / 1e6
}
