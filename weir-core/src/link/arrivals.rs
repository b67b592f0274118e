//! The rate at which packets arrive, as CAKE estimates it for a link that shapes behind the
//! bottleneck [linux sch_cake, `autorate-ingress`].
//!
//! Packets come in bursts. A pause that is longer than the usual one, an average that follows short
//! pauses slowly and long ones fast, ends a window; the bytes of the window over its length are a
//! sample of the rate, and a peak follows larger samples fast and smaller ones slowly. Of the peak
//! 15/16 is the rate of the link. Invariant: the rate is at least 1 bit/s.

use crate::state::state;
use crate::units::{Instant, Rate};

/// The estimate, with which each window ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivalRate {
    /// When the last packet came.
    last: Instant,
    /// The usual pause between packets, in ns.
    pause: u64,
    /// When the window began, and the bytes that came since.
    begun: Instant,
    bytes: u64,
    /// Bytes a second.
    peak: u64,
    /// Whether a packet has come.
    has_begun: bool,
}

impl ArrivalRate {
    /// An estimate that begins with the rate of the plan.
    pub(super) const fn new(planned: Rate) -> Self {
        let start = Instant::ZERO;
        let bytes = planned.bits_per_second() / 8;
        let peak = if bytes < PEAK_MAX { bytes } else { PEAK_MAX };
        Self { last: start, pause: 0, begun: start, bytes: 0, peak, has_begun: false }
    }

    /// Counts a packet of `length` bytes that arrives at `now`; returns the rate of the link from
    /// now on if it ends a window.
    pub(super) fn arrive(&mut self, now: Instant, length: u32) -> Option<Rate> {
        if !self.has_begun {
            // In the kernel that pause, and the window, begin with the machine.
            let pause = average(0, PAUSE_MAX);
            let peak = average(self.peak, 0);
            *self = Self { last: now, pause, begun: now, bytes: 0, peak, has_begun: true };
            return Some(self.rate());
        }
        self.bytes = self.bytes.saturating_add(length.into());
        let pause = now.since(self.last.min(now)).as_nanos().min(PAUSE_MAX);
        self.last = now;
        self.pause = average(self.pause, pause);
        if pause <= self.pause {
            return None;
        }
        let length = u128::from(now.since(self.begun.min(now)).as_nanos().max(1));
        let sample = u128::from(self.bytes) * SECOND / length;
        self.peak = average(self.peak, sample.min(PEAK_MAX.into()) as u64);
        (self.begun, self.bytes) = (now, 0);
        Some(self.rate())
    }

    /// Returns the rate of the link for the present peak.
    fn rate(&self) -> Rate {
        Rate::new(((self.peak * 15) >> 4) * 8).unwrap_or(Rate::MIN)
    }
}

/// Moves an average a quarter of the way to a larger sample, and a 256th of it to a smaller one.
const fn average(of: u64, sample: u64) -> u64 {
    let shift = if sample > of { 2 } else { 8 };
    of - (of >> shift) + (sample >> shift)
}

/// The longest pause that counts, in ns.
const PAUSE_MAX: u64 = 1_000_000_000;
const SECOND: u128 = 1_000_000_000;
/// Bytes a second; eight times as many bit/s are a rate.
const PEAK_MAX: u64 = 1 << 56;

state!(ArrivalRate { last, pause, begun, bytes, peak, has_begun });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Duration;

    /// Bursts of packets of 1500 bytes, `gap` ns from one to the next at the line's rate, each
    /// after a pause; returns the last rate in bit/s.
    fn check(planned: u64, (bursts, packets, gap): (u64, u64, u64), pause: u64) -> u64 {
        let rate = |bits| Rate::new(bits).expect("rows hold rates");
        let mut arrivals = ArrivalRate::new(rate(planned));
        let (mut at, mut set) = (Instant::from_nanos(1), planned);
        for _ in 0..bursts {
            for _ in 0..packets {
                at = at.after(Duration::from_nanos(gap));
                if let Some(rate) = arrivals.arrive(at, 1500) {
                    set = rate.bits_per_second();
                }
            }
            at = at.after(Duration::from_nanos(pause));
        }
        set
    }

    #[test]
    fn the_rate_is_fifteen_sixteenths_of_the_peak_at_which_packets_arrive() {
        // A packet each 120 us is 100 Mbit/s; short pauses do not hide it.
        let full = check(10_000_000, (200, 400, 120_000), 200_000);
        assert!((92_000_000..95_000_000).contains(&full), "{full}");
        // Half the time nothing comes: a window holds a burst and a pause.
        let half = check(10_000_000, (3000, 100, 120_000), 12_000_000);
        assert!((45_000_000..49_000_000).contains(&half), "{half}");
        // The peak falls by a 256th a window.
        let slow = check(100_000_000, (100, 40, 1_200_000), 2_000_000);
        assert!((60_000_000..75_000_000).contains(&slow), "{slow}");
    }

    #[test]
    fn no_arrival_makes_a_rate_of_zero_or_none() {
        let mut arrivals = ArrivalRate::new(Rate::MIN);
        for at in [0, 0, 1, u64::MAX / 2, u64::MAX] {
            let rate = arrivals.arrive(Instant::from_nanos(at), u32::MAX);
            assert!(rate.is_none_or(|rate| rate >= Rate::MIN));
        }
    }
}
