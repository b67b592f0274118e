//! Where live and simulated figures differ: shown beside the promises, which do not depend on it.

use super::figures::{ClassOutcome, Outcome};
use serde::Serialize;
use std::fmt;

/// A figure whose live value is far from its simulated one.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    /// The figure, such as `web delay p50`.
    pub what: String,
    /// The unit of both values.
    pub unit: &'static str,
    /// The value of the live link.
    pub live: f64,
    /// The value of the simulation.
    pub simulated: f64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, unit, live, simulated } = self;
        write!(f, "{what}: {live:.3} {unit} live, {simulated:.3} {unit} simulated")?;
        if *simulated > 0.0 {
            write!(f, " ({:+.0} %)", (live / simulated - 1.0) * 100.0)?;
        }
        Ok(())
    }
}

/// Returns the figures that differ by more than [`SLACK`], in the order of the report.
pub(super) fn all(outcome: &Outcome) -> Vec<Difference> {
    let mut pairs: Vec<_> = outcome.classes.iter().flat_map(of_class).collect();
    let [live, simulated] = [&outcome.live, &outcome.simulated].map(|side| &side.web);
    pairs.push(difference("web transfer p50", "ms", live.p50_ms, simulated.p50_ms));
    pairs.retain(Difference::is_large);
    pairs
}

fn of_class(class: &ClassOutcome) -> [Difference; 4] {
    let ClassOutcome { name, live, simulated, .. } = class;
    let of = |figure, unit, live, simulated| {
        difference(&format!("{name} {figure}"), unit, live, simulated)
    };
    [
        of("rate", "Mbit/s", live.rate_bps / 1e6, simulated.rate_bps / 1e6),
        of("delay p50", "ms", live.delay_p50_us / 1e3, simulated.delay_p50_us / 1e3),
        of("delay p99", "ms", live.delay_p99_us / 1e3, simulated.delay_p99_us / 1e3),
        of("drops", "packets", live.dropped as f64, simulated.dropped as f64),
    ]
}

fn difference(what: &str, unit: &'static str, live: f64, simulated: f64) -> Difference {
    Difference { what: what.to_owned(), unit, live, simulated }
}

impl Difference {
    fn is_large(&self) -> bool {
        (self.live - self.simulated).abs() > SLACK * self.simulated.abs()
    }
}

/// The part of the simulated value by which the live one may differ and not be listed.
pub(super) const SLACK: f64 = 0.15;

#[cfg(test)]
mod tests {
    use super::difference;

    /// Checks whether the pair is listed, and as what.
    fn check(live: f64, simulated: f64, large: bool, shown: &str) {
        let difference = difference("web delay p50", "ms", live, simulated);
        assert_eq!(difference.is_large(), large, "{difference}");
        assert_eq!(difference.to_string(), format!("web delay p50: {shown}"));
    }

    #[test]
    fn a_figure_is_listed_if_it_is_more_than_15_percent_off() {
        check(12.3, 8.1, true, "12.300 ms live, 8.100 ms simulated (+52 %)");
        check(8.1, 12.3, true, "8.100 ms live, 12.300 ms simulated (-34 %)");
        check(1.15, 1.0, false, "1.150 ms live, 1.000 ms simulated (+15 %)");
        check(0.0, 0.0, false, "0.000 ms live, 0.000 ms simulated");
        check(9.0, 0.0, true, "9.000 ms live, 0.000 ms simulated");
    }
}
