//! The measures of a class in a window of time, from what was counted at its beginning and its end.

use weir_core::account::Histogram;
use weir_core::units::Duration;
use weir_policy::policy::Metric;

use super::LeafMeasures;

/// The counts of a class in a window: the sum over its leaves.
#[derive(Debug, Default)]
pub(super) struct Window {
    seconds: f64,
    offered: u64,
    dropped: u64,
    sent_bytes: u64,
    backlog_max: u64,
    /// Whether packets of one of its leaves waited all the time.
    pub waits: bool,
    delays: Histogram,
}

impl Window {
    /// The window of this length between each two counts of a leaf.
    pub fn of<'a>(
        length: Duration,
        leaves: impl Iterator<Item = (&'a LeafMeasures, &'a LeafMeasures)>,
    ) -> Self {
        let mut window = Self { seconds: length.as_nanos() as f64 / 1e9, ..Self::default() };
        for (before, now) in leaves {
            window.offered += now.offered.saturating_sub(before.offered);
            window.dropped += now.dropped.saturating_sub(before.dropped);
            window.sent_bytes += now.sent_bytes.saturating_sub(before.sent_bytes);
            window.backlog_max += now.backlog_max;
            window.waits |= now.waits;
            let delays = now.delays.since(&before.delays);
            if delays.count() > 0 {
                window.delays.merge(&delays);
            }
        }
        window
    }

    /// Returns the value of a metric in its unit; `None` if there was nothing to measure.
    pub fn measure(&self, metric: Metric) -> Option<f64> {
        let seconds = |duration: Duration| duration.as_nanos() as f64 / 1e9;
        let has_delays = self.delays.count() > 0;
        match metric {
            Metric::Rate => {
                (self.seconds > 0.0).then(|| self.sent_bytes as f64 * 8.0 / self.seconds)
            }
            Metric::Delay(per_mille) => {
                let quantile = || seconds(self.delays.quantile(per_mille.into()).value);
                has_delays.then(quantile)
            }
            Metric::DelayMean => has_delays.then(|| seconds(self.delays.mean())),
            Metric::Drops => Some(self.dropped as f64),
            Metric::Loss => (self.offered > 0).then(|| self.dropped as f64 / self.offered as f64),
            Metric::BacklogMax => Some(self.backlog_max as f64),
        }
    }
}

/// Returns a value of a metric with its unit.
pub(super) fn text(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Rate => format!("{:.3} Mbit/s", value / 1e6),
        Metric::Delay(_) | Metric::DelayMean => format!("{:.3} ms", value * 1e3),
        Metric::Drops => format!("{value:.0} packets"),
        Metric::Loss => format!("{:.3} %", value * 100.0),
        Metric::BacklogMax => format!("{value:.0} B"),
    }
}
