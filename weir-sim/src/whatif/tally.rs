//! The fate of the packets and objects of one flow, in a capture or in a simulation, and the
//! figures of several flows together.

use crate::whatif::quality::{self, Path};
use serde::Serialize;
use weir_core::account::Histogram;
use weir_core::units::Duration;

/// The fate of the packets and objects of one flow.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Frames that left the link.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that the link dropped.
    pub dropped: u64,
    /// From offer to departure; empty where a capture does not tell.
    pub delays: Histogram,
    /// How long each object took, in the order of their ends.
    pub objects: Vec<Duration>,
    /// Whether a person hears or feels each late packet: a call or a game.
    pub is_interactive: bool,
}

/// A figure of a group of flows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The rate of the frames that left, in bit/s.
    Throughput,
    /// The median completion time of objects, in seconds.
    CompletionP50,
    /// 95 % of the objects took no longer, in seconds.
    CompletionP95,
    /// The median delay in the link, in seconds.
    DelayP50,
    /// 99 % of the packets waited no longer, in seconds.
    DelayP99,
    /// The part of the packets that was dropped.
    Loss,
    /// The quality of a call on the scale R, 0 to 100; the mean over its flows.
    Quality,
    /// The part of the packets of calls and games that came too late or never.
    Late,
}

impl Measure {
    /// Every one, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::Throughput,
        Self::CompletionP50,
        Self::CompletionP95,
        Self::DelayP50,
        Self::DelayP99,
        Self::Loss,
        Self::Quality,
        Self::Late,
    ];

    /// Returns the title in tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Throughput => "Mbit/s",
            Self::CompletionP50 => "object p50 ms",
            Self::CompletionP95 => "object p95 ms",
            Self::DelayP50 => "delay p50 ms",
            Self::DelayP99 => "delay p99 ms",
            Self::Loss => "loss %",
            Self::Quality => "call R",
            Self::Late => "late %",
        }
    }

    /// Returns whether more is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::Quality)
    }

    /// Returns whether an error is a part of the value; otherwise it is a difference.
    pub const fn is_relative(self) -> bool {
        !matches!(self, Self::Loss | Self::Quality | Self::Late)
    }

    /// Returns the least error that is believed: what no user notices, or what the figure resolves.
    pub const fn resolution(self) -> f64 {
        match self {
            Self::Throughput => 2e3,
            Self::CompletionP50 | Self::CompletionP95 => 1e-3,
            Self::DelayP50 | Self::DelayP99 => 5e-4,
            Self::Loss => 5e-4,
            Self::Quality => 0.5,
            Self::Late => 1e-3,
        }
    }

    /// Returns the value in the unit of its title.
    pub fn shown(self, value: f64) -> f64 {
        value
            * match self {
                Self::Throughput => 1e-6,
                Self::CompletionP50 | Self::CompletionP95 | Self::DelayP50 | Self::DelayP99 => 1e3,
                Self::Loss | Self::Late => 100.0,
                Self::Quality => 1.0,
            }
    }
}

/// The figures of a group, in the order of [`Measure::ALL`]; `None` where there is nothing to
/// measure.
pub type Figures = [Option<f64>; Measure::ALL.len()];

impl Tally {
    /// Counts a frame that left after `delay`.
    pub fn sent(&mut self, length: u32, delay: Option<Duration>) {
        self.packets += 1;
        self.bytes += u64::from(length);
        if let Some(delay) = delay {
            self.delays.record(delay);
        }
    }

    /// Returns the median completion time of its objects, in seconds.
    pub fn completion(&self) -> Option<f64> {
        quantile(&mut self.objects.clone(), 0.5)
    }

    /// Returns the path that the packets met, as a call hears it.
    fn path(&self) -> Option<Path> {
        let measured = self.delays.count();
        let all = self.packets + self.dropped;
        if !self.is_interactive || measured == 0 {
            return None;
        }
        let least = self.delays.quantile(1).value;
        let limit = least.plus(quality::PLAYOUT);
        let late: u64 = self
            .delays
            .counts()
            .filter(|row| Histogram::shortest(row.0) > limit)
            .map(|row| row.1)
            .sum();
        let late = late as f64 / measured as f64 * self.packets as f64;
        Some(Path { delay: least, lost: (late + self.dropped as f64) / all.max(1) as f64 })
    }
}

/// Returns the figures of these flows over so much time.
pub fn figures(flows: &[&Tally], span: Duration) -> Figures {
    let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let packets: u64 = flows.iter().map(|flow| flow.packets).sum();
    let dropped: u64 = flows.iter().map(|flow| flow.dropped).sum();
    let mut delays = Histogram::new();
    flows.iter().for_each(|flow| delays.merge(&flow.delays));
    let mut objects: Vec<Duration> = flows.iter().flat_map(|flow| flow.objects.clone()).collect();
    let paths: Vec<Path> = flows.iter().filter_map(|flow| flow.path()).collect();
    let mean = |of: &dyn Fn(&Path) -> f64| {
        let sum: f64 = paths.iter().map(of).sum();
        (!paths.is_empty()).then(|| sum / paths.len() as f64)
    };
    let delay = |per_mille| (delays.count() > 0).then(|| seconds(delays.quantile(per_mille).value));
    let offered = packets + dropped;
    let by = |measure| match measure {
        Measure::Throughput => Some(bytes as f64 * 8.0 / seconds(span).max(1e-9)),
        Measure::CompletionP50 => quantile(&mut objects, 0.5),
        Measure::CompletionP95 => quantile(&mut objects, 0.95),
        Measure::DelayP50 => delay(500),
        Measure::DelayP99 => delay(990),
        Measure::Loss => {
            (delays.count() > 0 && offered > 0).then(|| dropped as f64 / offered as f64)
        }
        Measure::Quality => mean(&|path| quality::rating(*path)),
        Measure::Late => mean(&|path| path.lost),
    };
    Measure::ALL.map(by)
}

/// How delays and completion times of some flows are distributed: their quantiles, in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    /// Of delays; without any there are none.
    pub delays: Vec<f64>,
    /// Of objects.
    pub objects: Vec<f64>,
}

/// Returns how delays and completion times of these flows are distributed.
pub(super) fn spread(flows: &[&Tally]) -> Spread {
    let mut delays = Histogram::new();
    flows.iter().for_each(|flow| delays.merge(&flow.delays));
    let mut objects: Vec<Duration> = flows.iter().flat_map(|flow| flow.objects.clone()).collect();
    let delay = |part: f64| seconds(delays.quantile((part * 1e3) as u32).value);
    Spread {
        delays: if delays.count() > 0 { QUANTILES.map(delay).to_vec() } else { Vec::new() },
        objects: QUANTILES.iter().filter_map(|part| quantile(&mut objects, *part)).collect(),
    }
}

/// The quantiles that tell a distribution.
const QUANTILES: [f64; 6] = [0.25, 0.5, 0.75, 0.9, 0.95, 0.99];

/// Returns the value that this part of them does not exceed, in seconds.
fn quantile(values: &mut [Duration], part: f64) -> Option<f64> {
    values.sort_unstable();
    let rank = (values.len() as f64 * part).ceil() as usize;
    values.get(rank.max(1) - 1).copied().map(seconds)
}

pub(super) fn seconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_all_flows_together() {
        let millis = Duration::from_millis;
        let mut call = Tally { is_interactive: true, dropped: 1, ..Tally::default() };
        (0..99).for_each(|_| call.sent(200, Some(millis(2))));
        let mut bulk =
            Tally { objects: vec![millis(400), millis(100), millis(200)], ..Tally::default() };
        (0..100).for_each(|_| bulk.sent(1500, Some(millis(50))));
        let found = figures(&[&call, &bulk], Duration::from_secs(1));
        let [throughput, p50, p95, delay, late, loss, quality, missed] = found;
        assert_eq!(throughput, Some(8.0 * (99.0 * 200.0 + 150_000.0)));
        assert_eq!((p50, p95), (Some(0.2), Some(0.4)));
        assert!(
            delay.is_some_and(|it| it > 0.001)
                && late.is_some_and(|it| (0.048..0.052).contains(&it))
        );
        assert_eq!(loss, Some(1.0 / 200.0));
        assert_eq!(missed, Some(0.01));
        assert!(quality.is_some_and(|it| (80.0..93.0).contains(&it)), "{quality:?}");
        assert_eq!(figures(&[&Tally::default()], millis(1))[1..], [None; 7]);
    }
}
