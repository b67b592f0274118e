//! The formulas of guaranteed service `[rfc2212]`: a rate's delay bound, and a bound's rate.
//!
//! Rates are bytes a second, sizes and the term C bytes, the term D microseconds. A packet waits no
//! longer at an element of rate R than in a pipe of that rate, and C/R + D more.

use super::adspec::Terms;
use super::spec::Tspec;

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
}
