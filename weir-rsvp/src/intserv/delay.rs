//! The formulas of guaranteed service `[rfc2212]`: delay bounds, buffers, slack.
//!
//! Rates are bytes a second, sizes and the term C bytes, the term D microseconds. A packet waits no
//! longer at an element of rate R than in a pipe of that rate, and C/R + D more.

use super::adspec::Terms;
use super::spec::{Rspec, Tspec};

/// The bound on queueing delay from end to end, in microseconds `[rfc2212]`.
///
/// `terms` are the totals of the path. A peak rate that is unknown counts as infinite.
pub fn queueing_delay_max(tspec: &Tspec, rate: f32, terms: Terms) -> f64 {
    let (r, p) = (f64::from(tspec.rate), f64::from(tspec.peak));
    let (b, m) = (f64::from(tspec.bucket), f64::from(tspec.packet_max));
    let (rate, c, d) = (f64::from(rate), f64::from(terms.c), f64::from(terms.d));
    let burst = match () {
        () if p <= rate => 0.0,
        // The limit of (p-R)/(p-r) for growing p.
        () if p.is_infinite() => (b - m).max(0.0) / rate,
        () => (b - m).max(0.0) / rate * ((p - rate) / (p - r)),
    };
    (burst + (m + c) / rate) * MICROS + d
}

/// The bound on delay from end to end: queueing, and the path's latency in microseconds.
pub fn delay_max(tspec: &Tspec, rate: f32, terms: Terms, latency: u32) -> f64 {
    queueing_delay_max(tspec, rate, terms) + f64::from(latency)
}

/// The least rate R, at least the token rate, whose bound on queueing delay is at most `delay`
/// microseconds; none if even an infinite rate misses it `[rfc2212]`.
pub fn rate_for_delay(tspec: &Tspec, terms: Terms, delay: f64) -> Option<f32> {
    let (r, p) = (f64::from(tspec.rate), f64::from(tspec.peak));
    let (b, m) = (f64::from(tspec.bucket), f64::from(tspec.packet_max));
    let c = f64::from(terms.c);
    let left = (delay - f64::from(terms.d)) / MICROS;
    if left <= 0.0 {
        return None;
    }
    let above_peak = (m + c) / left;
    let burst = (b - m).max(0.0);
    let below_peak = if p.is_infinite() {
        (burst + m + c) / left
    } else {
        let stretch = burst / (p - r).max(f64::MIN_POSITIVE);
        (stretch * p + m + c) / (left + stretch)
    };
    let rate = if above_peak >= p { above_peak } else { below_peak.min(p) };
    let rate = round_up(rate.max(r));
    (rate.is_finite()).then_some(rate)
}

/// The buffer in bytes that an element needs so that it loses nothing, where `since` are the sums
/// of C and D since the flow was last reshaped `[rfc2212]`.
pub fn buffer(tspec: &Tspec, rate: f32, since: Terms) -> f64 {
    let (r, p) = (f64::from(tspec.rate), f64::from(tspec.peak));
    let (b, m) = (f64::from(tspec.bucket), f64::from(tspec.packet_max));
    let rate = f64::from(rate);
    let wait = f64::from(since.c) / rate + f64::from(since.d) / MICROS;
    if p.is_infinite() {
        // A burst of any speed: the bucket, and what comes at the token rate meanwhile.
        return b + wait * r;
    }
    let burst_time = if p > r { (b - m).max(0.0) / (p - r) } else { f64::INFINITY };
    let x = match () {
        () if burst_time < wait => r,
        () if p > rate => rate,
        () => p,
    };
    let burst = if p > x && p > r { (b - m).max(0.0) * (p - x) / (p - r) } else { 0.0 };
    m + burst + wait * x
}

/// The largest slack that may go on upstream when an element reserves `rate` where `asked` came
/// from downstream; none if that would break the bound `[rfc2212]`.
///
/// `to_here` is the sum of C from the sender to this element.
pub fn slack_spent(tspec: &Tspec, asked: Rspec, rate: f32, to_here: u32) -> Option<Rspec> {
    if rate < tspec.rate || rate > asked.rate {
        return None;
    }
    let length = f64::from(tspec.bucket) + f64::from(to_here);
    let more = length / f64::from(rate) - length / f64::from(asked.rate);
    let slack = f64::from(asked.slack) - more * MICROS;
    // Rounded down: less slack promises more.
    (slack >= 0.0).then_some(Rspec { rate, slack: slack as u32 })
}

/// The next `f32` that is not below `rate`.
fn round_up(rate: f64) -> f32 {
    let near = rate as f32;
    if f64::from(near) < rate { near.next_up() } else { near }
}

/// Microseconds of a second.
const MICROS: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    const VIDEO: Tspec = Tspec {
        rate: 100_000.0,
        bucket: 11_500.0,
        peak: 200_000.0,
        packet_min: 64,
        packet_max: 1500,
    };

    #[test]
    fn the_bound_is_that_of_the_formula() {
        // [rfc2212] by hand: (b-M)/R (p-R)/(p-r) + (M+C)/R + D.
        let terms = Terms { c: 3000, d: 250 };
        let rows = [
            // p > R >= r: 10000/125000 * 75/100 = 60 ms; 4500/125000 = 36 ms; 0.25 ms.
            (125_000.0, 96_250.0),
            // R = r: 10000/100000 = 100 ms; 45 ms; 0.25 ms.
            (100_000.0, 145_250.0),
            // R >= p >= r: 4500/250000 = 18 ms; 0.25 ms.
            (250_000.0, 18_250.0),
            (200_000.0, 22_750.0),
        ];
        for (rate, expected) in rows {
            let bound = queueing_delay_max(&VIDEO, rate, terms);
            assert!((bound - expected).abs() < 1e-6, "{rate}: {bound}, not {expected}");
        }
        assert_eq!(delay_max(&VIDEO, 250_000.0, terms, 1000), 19_250.0);
        let unknown = Tspec { peak: f32::INFINITY, ..VIDEO };
        // (b-M)/R + (M+C)/R + D = 14500/125000 = 116 ms.
        assert!((queueing_delay_max(&unknown, 125_000.0, terms) - 116_250.0).abs() < 1e-6);
    }

    #[test]
    fn the_rate_for_a_delay_is_the_least_that_keeps_it() {
        let terms = Terms { c: 3000, d: 250 };
        for tspec in [VIDEO, Tspec { peak: f32::INFINITY, ..VIDEO }] {
            for delay in [18_000.0, 19_000.0, 22_749.0, 23_000.0, 60_000.0, 96_250.0, 140_000.0] {
                let rate = rate_for_delay(&tspec, terms, delay).expect("some rate keeps it");
                assert!(queueing_delay_max(&tspec, rate, terms) <= delay * (1.0 + 1e-9), "{delay}");
                let less = rate * 0.9999;
                let missed = less < tspec.rate || queueing_delay_max(&tspec, less, terms) > delay;
                assert!(missed, "{delay}: {less} would do");
            }
        }
        assert_eq!(rate_for_delay(&VIDEO, terms, 250.0), None, "D alone takes that long");
        assert_eq!(rate_for_delay(&VIDEO, terms, 1e9), Some(100_000.0), "never below r");
    }

    #[test]
    fn the_buffer_is_that_of_the_formula() {
        let none = Terms { c: 0, d: 0 };
        // At the sender R = 125000: M + (b-M)(p-R)/(p-r) = 1500 + 10000 * 0.75.
        assert_eq!(buffer(&VIDEO, 125_000.0, none), 9000.0);
        // R >= p: M.
        assert_eq!(buffer(&VIDEO, 250_000.0, none), 1500.0);
        // 40 ms since reshaping, shorter than the burst of 100 ms: X = R.
        assert_eq!(buffer(&VIDEO, 125_000.0, Terms { c: 5000, d: 0 }), 14_000.0);
        // 200 ms, longer than the burst: X = r, so M + (b-M) + 0.2 r.
        assert_eq!(buffer(&VIDEO, 125_000.0, Terms { c: 0, d: 200_000 }), 31_500.0);
    }

    #[test]
    fn slack_pays_for_a_smaller_rate() {
        let asked = Rspec { rate: 125_000.0, slack: 40_000 };
        // (b + C)/100000 - (b + C)/125000 = 0.145 - 0.116 s = 29 ms.
        let spent = slack_spent(&VIDEO, asked, 100_000.0, 3000).expect("40 ms are enough");
        assert!((10_999..=11_000).contains(&spent.slack), "{spent:?}");
        assert_eq!(slack_spent(&VIDEO, Rspec { slack: 28_000, ..asked }, 100_000.0, 3000), None);
        assert_eq!(slack_spent(&VIDEO, asked, 99_000.0, 3000), None, "below r");
        assert_eq!(slack_spent(&VIDEO, asked, 125_000.0, 3000), Some(asked));
    }
}
