//! Foresees when the next frame arrives, from the intervals between the last ones.
//!
//! Waking a halted processor costs 50-60 us. A loop that knows when the next frame is due wakes
//! before it and polls, and the frame meets a processor that is awake. Voice, video and anything
//! else that is sent by a clock has such intervals; frames that arrive at random have not, and for
//! them there is no forecast.
//!
//! The estimate is that of a retransmission timer: a moving mean of the intervals, and of how far
//! they are from it. The window in which to poll lasts from two deviations, and the time that
//! waking takes, before the frame is due until two deviations after. A window longer than
//! 1/[`SHARE`] of the mean interval is not worth its processor time, so no more than that share is
//! ever spent on polling for a forecast. There is one window for each arrival: if the frame does
//! not come, the loop sleeps until it does, and an idle link costs nothing.

use std::ops::Range;

/// Polling in foresight takes at most one part in this many of a processor's time.
pub const SHARE: u64 = 4;
/// Arrivals closer together than this are one burst: the loop is still awake.
const BURST_NS: u64 = 50_000;
/// Frames further apart than this are not worth an early wake-up.
const INTERVAL_MAX_NS: u64 = 100_000_000;
/// An interval counts an eighth in the mean, as a deviation does.
const WEIGHT: u64 = 8;
/// The time from the end of a sleep to polling.
const WAKE_NS: u64 = 80_000;
/// No clock is exact.
const MARGIN_NS: u64 = 10_000;

/// The estimates of one port's arrivals: see the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forecast {
    /// When the last burst began; 0 before the first.
    last_ns: u64,
    /// The mean interval between the beginnings of bursts; 0 before the second.
    mean_ns: u64,
    /// The mean distance of an interval from the mean.
    deviation_ns: u64,
}

impl Forecast {
    /// Learns that frames arrived.
    pub fn arrived(&mut self, now_ns: u64) {
        let interval = now_ns.saturating_sub(self.last_ns);
        if interval < BURST_NS {
            return;
        }
        let first = self.last_ns == 0;
        self.last_ns = now_ns;
        match self.mean_ns {
            _ if first => {}
            0 => self.start(interval),
            _ => self.learn(interval),
        }
    }

    /// Returns when to poll for the next frame.
    pub fn window(&self) -> Option<Range<u64>> {
        if self.mean_ns == 0 || self.mean_ns > INTERVAL_MAX_NS {
            return None;
        }
        let due = self.last_ns + self.mean_ns;
        let either_side = 2 * self.deviation_ns + MARGIN_NS;
        let window = due.saturating_sub(WAKE_NS + either_side)..due + either_side;
        (window.end - window.start <= self.mean_ns / SHARE).then_some(window)
    }

    /// A first interval says nothing about deviations: half of it makes the window too long.
    fn start(&mut self, interval: u64) {
        let interval = interval.min(2 * INTERVAL_MAX_NS);
        (self.mean_ns, self.deviation_ns) = (interval, interval / 2);
    }

    /// A pause counts as two intervals, so that the mean soon recovers from it.
    fn learn(&mut self, interval: u64) {
        let interval = interval.min(2 * self.mean_ns);
        let distance = interval.abs_diff(self.mean_ns);
        self.mean_ns = moved(self.mean_ns, interval);
        self.deviation_ns = moved(self.deviation_ns, distance);
    }
}

/// Moves a mean towards a value.
fn moved(mean: u64, value: u64) -> u64 {
    (mean * (WEIGHT - 1) + value) / WEIGHT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames arrive after each of these intervals, in us; the window is that to the next, in us
    /// after the last.
    fn check(what: &str, intervals: &[u64], expected: Option<Range<u64>>) {
        let mut now = 1_000_000_000;
        let mut forecast = Forecast::default();
        forecast.arrived(now);
        for interval in intervals {
            now += interval * 1000;
            forecast.arrived(now);
        }
        let after = |at: u64| at.saturating_sub(now) / 1000;
        let window = forecast.window().map(|window| after(window.start)..after(window.end));
        assert_eq!(window, expected, "{what}");
    }

    #[test]
    fn frames_of_a_clock_are_foreseen_and_others_are_not() {
        let alternating: Vec<u64> = (0..400).map(|at| 1_000 + 20 * (at % 2)).collect();
        let random: Vec<u64> = (0..400).map(|at| 1_000 + (at * at * 7919) % 1_500).collect();
        let paused = [&[1_000; 60][..], &[9_000_000], &[1_000; 24]].concat();
        check("nothing is known", &[], None);
        check("one interval", &[1_000], None);
        check("a clock of 1 ms", &[1_000; 60], Some(909..1_010));
        check("a clock of 20 ms", &[20_000; 60], Some(19_902..20_017));
        check("a clock that jitters", &alternating, Some(899..1_041));
        check("no clock", &random, None);
        check("right after a pause", &paused[..61], None);
        check("after a pause", &paused, Some(870..1_059));
        check("too fast to sleep", &[200; 60], None);
        check("too slow", &[150_000; 60], None);
        check("bursts of a clock", &[[1_000, 5, 5]; 60].concat(), Some(909..1_010));
    }

    #[test]
    fn windows_take_no_more_than_their_share() {
        for jitter in 0..400 {
            let (mut now, mut forecast, mut polled) = (1_000_000, Forecast::default(), 0);
            let start = now;
            for at in 0..1_000u64 {
                now += 800_000 + (at * 7919) % (1 + jitter * 1_000);
                forecast.arrived(now);
                polled += forecast.window().map_or(0, |window| window.end - window.start);
            }
            // A mean lags behind its values.
            assert!(polled * SHARE <= (now - start) * 11 / 10, "{jitter}: {polled}");
        }
    }
}
