//! A service curve, inverted: the worst-case time in which a number of bytes is served.
//!
//! Invariant: [`Serving::time`] never falls as bytes grow, and grows by no more than bytes over
//! [`Serving::rate`] in the long run.

/// The service of one leaf.
#[derive(Clone, PartialEq, Debug)]
pub struct Server {
    /// From the beginning of a busy period of the leaf.
    pub fresh: Serving,
    /// From any instant at which packets of the leaf wait; `None` if unknown.
    pub standing: Option<Serving>,
}

/// How long serving bytes takes; in seconds and bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Serving {
    /// `late`, then at `rate`.
    Late {
        /// In bytes a second.
        rate: f64,
        /// The longest time before it begins.
        late: f64,
    },
    /// A fixed delay for all that may wait, at the rate that is left.
    Fixed {
        /// In bytes a second.
        rate: f64,
        /// In seconds.
        delay: f64,
    },
    /// A visit a round, each worth `gain` bytes; the first `debt` bytes are lost.
    Rounds {
        /// In bytes a visit.
        gain: f64,
        /// Bytes lost at first.
        debt: f64,
        /// The time that the others take in a round, in seconds.
        others: f64,
        /// A delay that occurs once, in seconds.
        late: f64,
        /// Bytes a second of the line.
        line: f64,
    },
    /// A rate that pauses for up to `wait` whenever a whole `burst` was saved up.
    Bucket {
        /// In bytes a second.
        rate: f64,
        /// In bytes: a debt that is served first.
        debt: f64,
        /// The longest time without service although within the rate.
        wait: f64,
        /// The most bytes that a pause is worth.
        burst: f64,
        /// The time that all longer pauses lose together, if that is bounded.
        lost: Option<Lost>,
    },
    /// Slope `m1` for `d`, then `m2`; each byte at most `late` after that.
    Curve {
        /// Bytes a second at first.
        m1: f64,
        /// The length of the first slope.
        d: f64,
        /// Bytes a second after it.
        m2: f64,
        /// The lateness, in seconds.
        late: f64,
    },
}

/// The most time that pauses lose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lost {
    /// In seconds, once.
    pub once: f64,
    /// The part of all time.
    pub part: f64,
}

impl Lost {
    /// Returns what is lost beside `seconds`.
    fn beside(self, seconds: f64) -> f64 {
        (seconds + self.once) / (1.0 - self.part) - seconds
    }
}

impl Server {
    /// Returns the smallest burst that outlasts every pause, in bytes, and the server with it, if
    /// the burst is shorter.
    pub(super) fn with_lasting_burst(&self) -> Option<(f64, Server)> {
        let Serving::Bucket { rate, wait, burst, .. } = self.fresh else { return None };
        let needed = (rate * wait).ceil();
        let with = |serving: Serving| match serving {
            Serving::Bucket { rate, debt, wait, .. } => {
                Serving::Bucket { rate, debt, wait, burst: needed, lost: None }
            }
            other => other,
        };
        let server = Server { fresh: with(self.fresh), standing: self.standing.map(with) };
        (burst < rate * wait).then_some((needed, server))
    }
}

impl Serving {
    /// Returns the time after which `bytes` are served, whatever follows them.
    pub fn time(&self, bytes: f64) -> f64 {
        match *self {
            Serving::Late { rate, late } => late + bytes / rate,
            Serving::Fixed { delay, .. } => delay,
            Serving::Rounds { gain, debt, others, late, line } => {
                let visits = ((bytes + debt) / gain).ceil().max(1.0);
                late + visits * others + bytes / line
            }
            Serving::Bucket { rate, debt, wait, burst, lost } => {
                // The time of a pause beyond the burst is lost, at most once for each burst.
                let each = if burst >= rate * wait { 0.0 } else { (bytes / burst).ceil() * wait };
                let served = (bytes + debt) / rate + wait;
                served + lost.map_or(each, |lost| lost.beside(served).min(each))
            }
            Serving::Curve { m1, d, m2, late } => {
                let time = if bytes <= m1 * d { bytes / m1 } else { d + (bytes - m1 * d) / m2 };
                late + time
            }
        }
    }

    /// Returns the rate in the long run, in bytes a second.
    pub fn rate(&self) -> f64 {
        match *self {
            Serving::Late { rate, .. } | Serving::Fixed { rate, .. } => rate,
            Serving::Rounds { gain, others, line, .. } => gain / (others + gain / line),
            Serving::Bucket { rate, wait, burst, lost, .. } if burst < rate * wait => {
                let each = pausing(rate, wait, burst);
                lost.map_or(each, |lost| each.max(rate * (1.0 - lost.part)))
            }
            Serving::Bucket { rate, .. } => rate,
            Serving::Curve { m2, .. } => m2,
        }
    }

    /// Returns the longest delay under an arrival curve of `burst` and `rate`: the horizontal
    /// distance of the two curves. `None` if it is unbounded.
    pub fn delay(&self, (burst, rate): (f64, f64)) -> Option<f64> {
        if rate > self.rate() * (1.0 + 1e-9) {
            return None;
        }
        if let Serving::Bucket { rate: own, debt, wait, burst: saved, lost: Some(lost) } = *self
            && saved < own * wait
            && rate > pausing(own, wait, saved)
        {
            // Pauses after each burst would delay later arrivals more than the first.
            let served = (burst + debt) / own + wait;
            return Some(served + lost.beside(served));
        }
        let at = |bytes: f64| {
            let came = if bytes <= burst || rate <= 0.0 { 0.0 } else { (bytes - burst) / rate };
            let reachable = bytes <= burst || rate > 0.0;
            if reachable { self.time(bytes) - came } else { 0.0 }
        };
        Some(self.kinks(burst).into_iter().map(at).fold(at(burst), f64::max))
    }

    /// Returns the largest backlog under an arrival curve: the vertical distance of the curves,
    /// where service comes in whole packets of up to `packet` bytes.
    pub fn backlog(&self, (burst, rate): (f64, f64), packet: f64) -> Option<f64> {
        (rate <= self.rate() * (1.0 + 1e-9)).then(|| {
            let after = |served: f64| burst + rate * self.time(served + packet) - served;
            match *self {
                Serving::Fixed { delay, .. } => burst + rate * delay,
                Serving::Rounds { gain, debt, .. } => {
                    // Behind so many bytes the next packet takes one visit more than the first.
                    let visits = ((packet + debt) / gain).ceil().max(1.0);
                    let jump = visits * gain - debt - packet;
                    after(0.0).max(after(jump * (1.0 + 1e-9) + 1e-6))
                }
                Serving::Curve { m1, d, .. } => after(0.0).max(after(m1 * d)),
                // What waits arrived within the longest delay.
                Serving::Bucket { .. } => burst + rate * self.delay((burst, rate)).unwrap_or(0.0),
                _ => after(0.0),
            }
        })
    }

    /// Returns the amounts of bytes beyond which the time jumps, or grows faster than before.
    fn kinks(&self, burst: f64) -> [f64; 2] {
        let just_more = |bytes: f64| bytes * (1.0 + 1e-9) + 1e-6;
        match *self {
            Serving::Rounds { gain, debt, .. } => {
                let visits = ((burst + debt) / gain).ceil().max(1.0);
                [burst, just_more(visits * gain - debt).max(burst)]
            }
            Serving::Bucket { burst: saved, .. } => {
                [burst, just_more((burst / saved).ceil() * saved).max(burst)]
            }
            Serving::Curve { m1, d, .. } => [burst, (m1 * d).max(burst)],
            _ => [burst; 2],
        }
    }
}

/// Returns the rate that remains of `rate` if each `burst` loses a pause of `wait`.
fn pausing(rate: f64, wait: f64, burst: f64) -> f64 {
    1.0 / (1.0 / rate + wait / burst)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oracle: searches many instants of the busy period for the longest delay.
    fn searched(serving: &Serving, (burst, rate): (f64, f64)) -> f64 {
        let at = |step: u32| {
            let came = f64::from(step) * 1e-4;
            serving.time(burst + rate * came) - came
        };
        (0..200_000).map(at).fold(0.0, f64::max)
    }

    #[test]
    fn the_delay_is_the_longest_of_a_busy_period() {
        let rounds =
            Serving::Rounds { gain: 1500.0, debt: 0.0, others: 0.01, late: 0.002, line: 1e6 };
        let bucket =
            |wait, lost| Serving::Bucket { rate: 1e5, debt: 1500.0, wait, burst: 4000.0, lost };
        let lost = |once, part| Some(Lost { once, part });
        let rows = [
            (Serving::Late { rate: 1e5, late: 0.01 }, (5000.0, 5e4)),
            (rounds, (1500.0, 1e5)),
            (rounds, (1600.0, 1.2e5)),
            (rounds, (4500.0, 1e3)),
            (Serving::Curve { m1: 4e5, d: 0.01, m2: 1e5, late: 0.001 }, (3000.0, 9e4)),
            (Serving::Curve { m1: 0.0, d: 0.01, m2: 1e5, late: 0.001 }, (3000.0, 9e4)),
            (Serving::Curve { m1: 1e4, d: 0.1, m2: 1e5, late: 0.001 }, (500.0, 9e4)),
            (bucket(0.01, None), (9e3, 1e5)),
            (bucket(0.05, None), (9e3, 4e4)),
            (bucket(0.05, lost(0.06, 0.0)), (9e3, 1e5)),
            (bucket(0.05, lost(0.06, 0.2)), (9e3, 8e4)),
        ];
        for (serving, arrival) in rows {
            let (bound, searched) = (
                serving.delay(arrival).expect("the delay is bounded"),
                searched(&serving, arrival),
            );
            assert!(
                bound * (1.0 + 1e-9) >= searched,
                "{serving:?} {arrival:?}: {bound} < {searched}"
            );
            assert!(bound <= searched * 1.01, "{serving:?} {arrival:?}: {bound} > {searched}");
        }
    }

    fn is_close(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-6 * other.abs()
    }

    /// `times` are amounts of bytes with the time of each; `rate` is that of the long run.
    fn check(serving: Serving, times: &[(f64, f64)], rate: f64) {
        for &(bytes, expected) in times {
            let time = serving.time(bytes);
            assert!(is_close(time, expected), "{serving:?}, {bytes} bytes: {time}");
        }
        assert!(is_close(serving.rate(), rate), "{serving:?}: {}", serving.rate());
    }

    #[test]
    fn times_are_those_worked_by_hand() {
        check(Serving::Late { rate: 1e5, late: 0.01 }, &[(0.0, 0.01), (5000.0, 0.06)], 1e5);
        check(Serving::Fixed { rate: 1e5, delay: 0.03 }, &[(1.0, 0.03), (9e9, 0.03)], 1e5);
        // A visit is worth 1500 bytes, of which the first one pays the 500 owed; it takes the line
        // 1.5 ms, and a round 11.5 ms.
        let rounds =
            Serving::Rounds { gain: 1500.0, debt: 500.0, others: 0.01, late: 0.002, line: 1e6 };
        let times = [(1000.0, 0.013), (1001.0, 0.023_001), (2500.0, 0.0245), (2501.0, 0.034_501)];
        check(rounds, &times, 1500.0 / 0.0115);
        // 10 ms is worth 1000 bytes, less than the burst, so no pause is lost.
        let bucket = |wait, lost| {
            let (rate, debt, burst) = (1e5, 1500.0, 4000.0);
            Serving::Bucket { rate, debt, wait, burst, lost }
        };
        check(bucket(0.01, None), &[(8500.0, 0.11)], 1e5);
        // 50 ms is worth 5000 bytes, more than the burst: each 4000 bytes lose a pause.
        check(bucket(0.05, None), &[(4000.0, 0.155), (8500.0, 0.3)], 1e5 / 2.25);
        let lost = |once, part| Some(Lost { once, part });
        check(bucket(0.05, lost(0.06, 0.0)), &[(4000.0, 0.155), (8500.0, 0.21)], 1e5);
        // The 150 ms and the 60 ms that are lost once are four fifths of the time.
        check(bucket(0.05, lost(0.06, 0.2)), &[(4000.0, 0.155), (8500.0, 0.2625)], 8e4);
        let curve = Serving::Curve { m1: 4e5, d: 0.01, m2: 1e5, late: 0.001 };
        check(curve, &[(2000.0, 0.006), (4000.0, 0.011), (5000.0, 0.021)], 1e5);
    }

    /// The delay and the backlog under an arrival curve, with packets of 1000 bytes.
    fn check_bounds(serving: Serving, arrival: (f64, f64), delay: f64, backlog: f64) {
        let found = (serving.delay(arrival), serving.backlog(arrival, 1000.0));
        let (Some(one), Some(other)) = found else { panic!("{serving:?} has bounds") };
        assert!(is_close(one, delay) && is_close(other, backlog), "{serving:?}: {one} {other}");
    }

    #[test]
    fn bounds_are_those_worked_by_hand() {
        // The burst waits longest; while the first packet is served another 20 ms arrive.
        let late = Serving::Late { rate: 1e5, late: 0.01 };
        check_bounds(late, (5000.0, 5e4), 0.06, 5000.0 + 5e4 * 0.02);
        check_bounds(late, (5000.0, 0.0), 0.06, 5000.0);
        let fixed = Serving::Fixed { rate: 1e5, delay: 0.03 };
        check_bounds(fixed, (5000.0, 5e4), 0.03, 6500.0);
        // The burst takes 1 + 7.5 ms at the steep slope, the first packet 3.5 ms.
        let curve = Serving::Curve { m1: 4e5, d: 0.01, m2: 1e5, late: 0.001 };
        check_bounds(curve, (3000.0, 5e4), 0.0085, 3175.0);
        // The first 1000 bytes take one visit and 13 ms, those behind them two and 23 ms, in which
        // 2300 arrive.
        let rounds =
            Serving::Rounds { gain: 1500.0, debt: 500.0, others: 0.01, late: 0.002, line: 1e6 };
        check_bounds(rounds, (1000.0, 1e5), 0.023, 3300.0);
    }

    #[test]
    fn more_than_the_guarantee_has_no_bound() {
        let serving = Serving::Late { rate: 1e5, late: 0.01 };
        assert_eq!(serving.delay((1500.0, 2e5)), None);
        assert_eq!(serving.backlog((1500.0, 2e5), 1500.0), None);
    }
}
