//! The sum of service curves, held to the line or to an upper limit.
//!
//! [stoica97 §IV] All curves are kept if their sum is nowhere above what serves them. A curve bends
//! once, so the sum is farthest above where one of the curves bends, or in the long run.

use std::fmt;
use weir_core::sched::service::Curve;
use weir_core::units::{Bytes, Duration, Rate};

/// A curve of two slopes, in seconds and bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slopes {
    /// Bytes a second at first.
    pub m1: f64,
    /// How long the first slope lasts.
    pub d: f64,
    /// Bytes a second after it.
    pub m2: f64,
}

/// Where curves demand more than what serves them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Overload {
    /// The seconds from the beginning to the bend where the sum is farthest above; `None` if the
    /// last slopes are above for ever.
    pub at: Option<f64>,
    /// The sum: bytes until then, or bytes a second.
    pub sum: f64,
    /// The service that there is, likewise.
    pub served: f64,
}

impl Slopes {
    /// Returns a curve of one slope, in bytes a second.
    pub fn straight(rate: f64) -> Self {
        Self { m1: rate, d: 0.0, m2: rate }
    }

    /// Returns the curve with these slopes in bit/s.
    pub fn of(m1: u64, d: Duration, m2: Rate) -> Self {
        let (m1, m2) = (m1 as f64 / 8.0, m2.bits_per_second() as f64 / 8.0);
        Self { m1, d: d.as_nanos() as f64 / 1e9, m2 }
    }

    fn first(&self) -> f64 {
        if self.d > 0.0 { self.m1 } else { self.m2 }
    }
}

impl From<Curve> for Slopes {
    fn from(Curve { m1, d, m2 }: Curve) -> Self {
        Self::of(m1, d, m2)
    }
}

/// Returns where the sum of `curves` is above `limit`, if it is anywhere.
pub fn overload(curves: impl IntoIterator<Item = Slopes>, limit: Slopes) -> Option<Overload> {
    // Bends, each with the change of the slope of the sum and of the limit.
    let mut bends: Vec<(f64, f64, f64)> = vec![(limit.d, 0.0, limit.m2 - limit.first())];
    let mut slopes = (0.0, limit.first());
    for curve in curves {
        slopes.0 += curve.first();
        bends.push((curve.d, curve.m2 - curve.first(), 0.0));
    }
    bends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut at, mut sum, mut served) = (0.0, 0.0, 0.0);
    let mut worst: Option<Overload> = None;
    for (bend, change, limits) in bends {
        sum += slopes.0 * (bend - at);
        served += slopes.1 * (bend - at);
        let farthest = worst.map_or(0.0, |worst| worst.sum - worst.served);
        if sum > served * (1.0 + SLACK) && sum - served > farthest {
            worst = Some(Overload { at: Some(bend), sum, served });
        }
        (at, slopes) = (bend, (slopes.0 + change, slopes.1 + limits));
    }
    let (sum, served) = slopes;
    let for_ever = Overload { at: None, sum, served };
    if sum > served * (1.0 + SLACK) { Some(for_ever) } else { worst }
}

impl Overload {
    /// Returns what the curves ask for, and what can be served, each as a noun.
    pub fn words(&self) -> (String, String) {
        let words = |amount: f64| match self.at {
            None => rate(amount),
            Some(at) => format!("{} ({})", Bytes::new(rounded(amount)), rate(amount / at)),
        };
        (words(self.sum), words(self.served))
    }
}

impl fmt::Display for Overload {
    /// Writes the instant: `by 5 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "by {}", Duration::from_nanos(rounded(at * 1e9))),
            None => f.write_str("in the long run"),
        }
    }
}

/// Returns a rate in bytes a second as text.
fn rate(bytes_per_second: f64) -> String {
    let bits = rounded(bytes_per_second * 8.0);
    Rate::new(bits).map_or_else(|| "0 bit/s".to_owned(), |rate| rate.to_string())
}

/// Rounds to four digits, which is what a message needs.
fn rounded(value: f64) -> u64 {
    let digits = value.max(1.0).log10().floor() as i32 + 1;
    let scale = 10_f64.powi((digits - 4).max(0));
    ((value / scale).round() * scale) as u64
}

/// The relative error that sums of slopes may have.
const SLACK: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    /// Curves as `(m1, d in ms, m2)` in Mbit/s against a limit; what is expected in words.
    fn check(curves: &[(f64, f64, f64)], limit: (f64, f64, f64), wanted: Option<&str>) {
        let slopes = |&(m1, d, m2): &(f64, f64, f64)| Slopes {
            m1: m1 * 1.25e5,
            d: d / 1e3,
            m2: m2 * 1.25e5,
        };
        let found = overload(curves.iter().map(slopes), slopes(&limit));
        let words = found.map(|found| {
            let (sum, served) = found.words();
            format!("{found}: {sum} of {served}")
        });
        assert_eq!(words.as_deref(), wanted, "{curves:?} {limit:?}");
    }

    #[test]
    fn a_sum_above_the_limit_is_found_at_its_bend_or_in_the_long_run() {
        let link = |rate| (0.0, 0.0, rate);
        check(&[(0.0, 0.0, 8.0), (0.0, 0.0, 2.0)], link(10.0), None);
        let wanted = "in the long run: 16 Mbit/s of 10 Mbit/s";
        check(&[(0.0, 0.0, 8.0), (0.0, 0.0, 8.0)], link(10.0), Some(wanted));
        let wanted = "by 5 ms: 13.75 KB (22 Mbit/s) of 12.5 KB (20 Mbit/s)";
        check(&[(12.0, 5.0, 2.0), (10.0, 5.0, 2.0)], link(20.0), Some(wanted));
        // After 4 ms the sum is 1 KB above, after 10 ms below.
        let wanted = "by 4 ms: 6 KB (12 Mbit/s) of 5 KB (10 Mbit/s)";
        check(&[(11.0, 4.0, 1.0), (1.0, 10.0, 5.0)], link(10.0), Some(wanted));
        // A curve that begins flat may end steep, if another one is steep before.
        check(&[(8.0, 5.0, 2.0), (0.0, 5.0, 8.0)], link(10.0), None);
        // A limit bends, too.
        check(&[(4.0, 10.0, 1.0)], (4.0, 10.0, 1.0), None);
        let wanted = "by 10 ms: 5 KB (4 Mbit/s) of 3.125 KB (2.5 Mbit/s)";
        check(&[(4.0, 10.0, 1.0)], (4.0, 5.0, 1.0), Some(wanted));
        check(&[(2.0, 0.0, 2.0)], (9.0, 5.0, 1.0), Some("in the long run: 2 Mbit/s of 1 Mbit/s"));
    }
}
