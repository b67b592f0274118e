//! The history of classes in units that people read: bits and packets a second, bytes and µs.
//!
//! This is the one form of it. A replay ([`Series::history`]), a simulation, the seconds of a
//! running link, its statuses and a written report each fill it; the page, plots, data files and
//! Python show it. Invariant: all rows of a class have a value for each interval, `None` where it
//! is not known; a row that a source never knows may be empty.

use super::{ClassSeries, Lent, Series, edges};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use weir_core::units::Instant;

/// Classes over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The ends of the intervals that values are of, in ms since 1970.
    pub t: Vec<f64>,
    /// Of each class, a value for each interval.
    pub classes: BTreeMap<String, ClassHistory>,
    /// Of each class that had drops: packets a second, by reason.
    pub drops: BTreeMap<String, BTreeMap<String, Vec<Option<f64>>>>,
    /// Who lent to whom.
    pub loans: Vec<Loan>,
}

/// A class over time. Bytes are those that the policy charges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassHistory {
    /// Bits a second that left.
    pub sent_bps: Vec<Option<f64>>,
    /// Bits a second that arrived, before drops.
    pub offered_bps: Vec<Option<f64>>,
    /// Bytes that waited at the end of the interval; of a simulation, their mean in it.
    pub backlog_bytes: Vec<Option<f64>>,
    /// The median delay of what left.
    pub p50_us: Vec<Option<f64>>,
    /// The delay that 99 in 100 did not exceed.
    pub p99_us: Vec<Option<f64>>,
    /// Packets dropped or lost, a second.
    pub dropped_pps: Vec<Option<f64>>,
    /// The part of `sent_bps` on the account of other classes.
    pub borrowed_bps: Vec<Option<f64>>,
}

/// A class in an interval: the values of [`ClassHistory`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassPoint {
    /// Bits a second that left.
    pub sent_bps: Option<f64>,
    /// Bits a second that arrived.
    pub offered_bps: Option<f64>,
    /// Bytes that waited.
    pub backlog_bytes: Option<f64>,
    /// The median delay.
    pub p50_us: Option<f64>,
    /// The delay that 99 in 100 did not exceed.
    pub p99_us: Option<f64>,
    /// Packets dropped or lost, a second.
    pub dropped_pps: Option<f64>,
    /// Bits a second on the account of other classes.
    pub borrowed_bps: Option<f64>,
}

/// A loan in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loan {
    /// The place of the interval in [`History::t`].
    pub t: usize,
    /// The class that sent.
    pub borrower: String,
    /// The class on whose account; `None` for the link itself.
    pub lender: Option<String>,
    /// Bits a second.
    pub bps: f64,
}

/// Delays of a class over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// The ends of the intervals, in ms since 1970.
    pub t: Vec<f64>,
    /// Ascending edges of bins: bin `i` has delays from edge `i` to edge `i + 1`, without the
    /// latter. What is outside counts in the first or the last bin.
    pub edges_us: Vec<f64>,
    /// For each interval, the packets in each bin.
    pub counts: Vec<Vec<u64>>,
}

impl ClassPoint {
    /// A class that did nothing: no packet left, so there is no delay.
    pub const IDLE: Self = Self {
        sent_bps: Some(0.0),
        offered_bps: Some(0.0),
        backlog_bytes: Some(0.0),
        p50_us: None,
        p99_us: None,
        dropped_pps: Some(0.0),
        borrowed_bps: Some(0.0),
    };

    fn values(self) -> [Option<f64>; ROWS] {
        let Self { sent_bps, offered_bps, backlog_bytes, p50_us, p99_us, .. } = self;
        let Self { dropped_pps, borrowed_bps, .. } = self;
        [sent_bps, offered_bps, backlog_bytes, p50_us, p99_us, dropped_pps, borrowed_bps]
    }
}

impl ClassHistory {
    /// A class of which nothing is known in so many intervals.
    pub fn unknown(intervals: usize) -> Self {
        let mut unknown = Self::default();
        unknown.resize(intervals, ClassPoint::default());
        unknown
    }

    /// Adds an interval.
    pub fn push(&mut self, point: ClassPoint) {
        self.rows().into_iter().zip(point.values()).for_each(|(row, value)| row.push(value));
    }

    /// Cuts all rows to so many intervals, or fills them up with `point`.
    pub fn resize(&mut self, intervals: usize, point: ClassPoint) {
        let rows = self.rows().into_iter().zip(point.values());
        rows.for_each(|(row, value)| row.resize(intervals, value));
    }

    /// Cuts rows that are longer to so many intervals.
    pub fn truncate(&mut self, intervals: usize) {
        self.rows().into_iter().for_each(|row| row.truncate(intervals));
    }

    fn rows(&mut self) -> [&mut Vec<Option<f64>>; ROWS] {
        let Self { sent_bps, offered_bps, backlog_bytes, p50_us, p99_us, .. } = self;
        let Self { dropped_pps, borrowed_bps, .. } = self;
        [sent_bps, offered_bps, backlog_bytes, p50_us, p99_us, dropped_pps, borrowed_bps]
    }
}

impl Series {
    /// Returns these bins, of at most `classes_max` classes: those that were offered most in all.
    /// `epoch_ns` is the wall clock at instant 0.
    pub fn history(&self, epoch_ns: u64, classes_max: usize, bins: Range<usize>) -> History {
        let mut order: Vec<&ClassSeries> = self.classes.iter().collect();
        order.sort_by_key(|class| std::cmp::Reverse(class.offered.iter().sum::<u64>()));
        order.truncate(classes_max);
        let with_drops = order.iter().filter(|class| !class.drops.is_empty());
        let drops = with_drops.map(|class| {
            let rates = |row: &[u32]| self.rates(bins.clone(), |bin| f64::from(row[bin]));
            let reasons = class.drops.iter().map(|(reason, row)| (reason.to_string(), rates(row)));
            (class.name.clone(), reasons.collect())
        });
        let class =
            |class: &&ClassSeries| (class.name.clone(), self.class_history(class, bins.clone()));
        let inside = self.loans.iter().filter(|lent| bins.contains(&lent.bin));
        History {
            t: self.times(epoch_ns, bins.clone()),
            classes: order.iter().map(class).collect(),
            drops: drops.collect(),
            loans: inside.map(|lent| self.loan(lent, bins.start)).collect(),
        }
    }

    /// Returns the packets of a class by time and delay in these bins.
    pub fn heat(&self, epoch_ns: u64, class: &ClassSeries, bins: Range<usize>) -> Heat {
        let edges = edges();
        let mut counts = vec![vec![0; edges.len() - 1]; bins.len()];
        for &(bin, cell, packets) in &class.heat {
            if bins.contains(&(bin as usize)) {
                counts[bin as usize - bins.start][usize::from(cell)] += u64::from(packets);
            }
        }
        let edges_us = edges.iter().map(|&edge| edge as f64 / 1e3).collect();
        Heat { t: self.times(epoch_ns, bins), edges_us, counts }
    }

    fn class_history(&self, class: &ClassSeries, bins: Range<usize>) -> ClassHistory {
        let bits = |row: &[u64]| self.rates(bins.clone(), |bin| row[bin] as f64 * 8.0);
        let micros = |row: &[Option<u64>]| -> Vec<Option<f64>> {
            row[bins.clone()].iter().map(|nanos| nanos.map(|nanos| nanos as f64 / 1e3)).collect()
        };
        let dropped = |bin: usize| class.drops.values().map(|row| u64::from(row[bin])).sum::<u64>();
        let backlog = class.backlog[bins.clone()].iter();
        ClassHistory {
            sent_bps: bits(&class.sent),
            offered_bps: bits(&class.offered),
            backlog_bytes: backlog.map(|&bytes| Some(bytes as f64)).collect(),
            p50_us: micros(&class.delay_p50),
            p99_us: micros(&class.delay_p99),
            dropped_pps: self.rates(bins.clone(), |bin| dropped(bin) as f64),
            borrowed_bps: bits(&class.borrowed),
        }
    }

    fn loan(&self, lent: &Lent, first: usize) -> Loan {
        Loan {
            t: lent.bin - first,
            borrower: self.classes[lent.borrower].name.clone(),
            lender: Some(self.classes[lent.lender].name.clone()),
            bps: lent.bytes as f64 * 8.0 / self.window.seconds(lent.bin),
        }
    }

    /// Returns amounts of bins as amounts a second.
    fn rates(&self, bins: Range<usize>, amount: impl Fn(usize) -> f64) -> Vec<Option<f64>> {
        bins.map(|bin| Some(amount(bin) / self.window.seconds(bin))).collect()
    }

    fn times(&self, epoch_ns: u64, bins: Range<usize>) -> Vec<f64> {
        bins.map(|bin| wall_ms(epoch_ns, self.window.end(bin))).collect()
    }
}

/// Returns an instant in ms since 1970.
pub fn wall_ms(epoch_ns: u64, at: Instant) -> f64 {
    // Whole milliseconds first: the sum in nanoseconds has more digits than a float.
    let nanos = u128::from(epoch_ns) + u128::from(at.as_nanos());
    (nanos / 1_000_000) as f64 + (nanos % 1_000_000) as f64 / 1e6
}

/// The rows of a class.
const ROWS: usize = 7;
