//! Counts of the run loop for alarms, and where it leaves them for another thread.
//!
//! Invariant: the loop never waits for a reader. Where a reader has the gauge, the loop leaves its
//! counts at its next look.

use std::sync::{Arc, Mutex, PoisonError};

use weir_core::account::Histogram;
use weir_core::ids::LeafId;
use weir_core::units::{Duration, Instant};

/// The counts of a leaf that conditions of alarms read.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeafMeasures {
    /// Packets that came for it, lost ones among them.
    pub offered: u64,
    /// Packets dropped or lost.
    pub dropped: u64,
    /// Charged bytes that left.
    pub sent_bytes: u64,
    /// The largest backlog at the looks since the counts before, in bytes.
    pub backlog_max: u64,
    /// Whether packets waited at all of those looks.
    pub waits: bool,
    /// Delays since the start or a mark.
    pub delays: Histogram,
}

/// Where counts are left.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    left: Mutex<Option<(Instant, Vec<LeafMeasures>)>>,
}

impl Gauge {
    /// Returns what was left, and when, if that is not what was left at `known`.
    pub fn newer(&self, known: Option<Instant>) -> Option<(Instant, Vec<LeafMeasures>)> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.as_ref().filter(|(at, _)| Some(*at) != known).cloned()
    }
}

/// The loop's side: the leaves of a bridge that are watched.
#[derive(Debug, Default)]
pub(crate) struct Gauged {
    gauge: Arc<Gauge>,
    places: Vec<(usize, LeafId)>,
    peaks: Vec<Peak>,
    left_at: Instant,
}

/// The extremes of a leaf since its counts were left last.
#[derive(Clone, Copy, Debug)]
struct Peak {
    backlog_max: u64,
    waits: bool,
}

/// Nothing was seen yet.
const NOTHING: Peak = Peak { backlog_max: 0, waits: true };

impl Gauged {
    /// Watches these leaves of lanes too; returns where they are in the gauge.
    pub fn add(&mut self, leaves: Vec<(usize, LeafId)>) -> (Arc<Gauge>, Vec<usize>) {
        let mut place = |leaf: (usize, LeafId)| {
            let known = self.places.iter().position(|place| *place == leaf);
            known.unwrap_or_else(|| {
                self.places.push(leaf);
                self.peaks.push(NOTHING);
                self.places.len() - 1
            })
        };
        let places = leaves.into_iter().take(WATCHED_MAX).map(&mut place).collect();
        (Arc::clone(&self.gauge), places)
    }

    /// Looks at the leaves; `backlog` returns how many bytes wait, and `counts` everything.
    pub fn sample(
        &mut self,
        now: Instant,
        backlog: impl Fn(usize, LeafId) -> u64,
        counts: impl Fn(usize, LeafId) -> LeafMeasures,
    ) {
        for (peak, (lane, leaf)) in self.peaks.iter_mut().zip(&self.places) {
            let bytes = backlog(*lane, *leaf);
            peak.backlog_max = peak.backlog_max.max(bytes);
            peak.waits &= bytes > 0;
        }
        if self.places.is_empty() || now.since(self.left_at) < WINDOW {
            return;
        }
        let Ok(mut left) = self.gauge.left.try_lock() else { return };
        let all = self.places.iter().zip(&mut self.peaks).map(|((lane, leaf), peak)| {
            let Peak { backlog_max, waits } = std::mem::replace(peak, NOTHING);
            LeafMeasures { backlog_max, waits, ..counts(*lane, *leaf) }
        });
        *left = Some((now, all.collect()));
        self.left_at = now;
    }
}

/// Bound: leaves of one class that an alarm watches; further ones are not watched. Copying the
/// counts of one takes about a microsecond.
const WATCHED_MAX: usize = 256;

/// How often the loop leaves its counts.
const WINDOW: Duration = Duration::from_secs(1);
