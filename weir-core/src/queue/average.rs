//! The average queue length of ALTQ's droppers, and the drops drawn from it [algorithms §9.1].
//!
//! The arithmetic is ALTQ's fixed point, to the bit: 12 fractional bits, the average multiplied by
//! the weight, powers by repeated squaring with their downward drift. Only overflow differs: values
//! that ALTQ stores in 32 bits take 64 here, where the bounds below leave room.
//!
//! Invariant: while the average is below the lower threshold, or at most one packet waits, no
//! packet is dropped.

use super::refused;
use crate::parameter::BuildError;
use crate::random::Random;
use crate::state::state;
use crate::units::{Bytes, Duration, Instant, Rate};
use alloc::format;

/// The drop curve, fixed when a dropper is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Curve {
    /// The lower threshold, scaled as the average.
    min: i64,
    /// The upper threshold, scaled as the average.
    max: i64,
    /// The logarithm of the weight.
    shift: u32,
    /// Twice the range of thresholds over the largest probability, in 12-bit fixed point.
    divisor: i64,
}

/// How the average decays while the queue is idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pause {
    shift: u32,
    /// The time of a packet in microseconds, at least 1.
    packet_time: u64,
}

/// Thresholds in packets, and the reciprocal of the largest probability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Thresholds {
    pub min: u32,
    pub max: u32,
    pub inv_pmax: u32,
}

/// The average and the state since the last drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Average {
    /// Packets, times the weight, times 2^12. At most 2^60: 2^32 packets, a weight of 2^16.
    scaled: i64,
    /// Arrivals since the last drop or mark.
    count: u32,
    /// Whether the average was between the thresholds on the last arrival.
    between: bool,
    /// The instant since when the queue is idle, if the dropper was notified and no packet has
    /// arrived since.
    idle_since: Option<Instant>,
}

/// The result of an arriving packet's draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Draw {
    Pass,
    /// It is dropped or marked.
    Early,
    /// It is dropped, also if it could be marked.
    Forced,
}

impl Curve {
    /// The curve through `thresholds`, for averages of this weight.
    ///
    /// # Errors
    /// If the lower threshold is not below the upper one.
    pub(super) fn new(thresholds: Thresholds, pause: Pause) -> Result<Self, BuildError> {
        let Thresholds { min, max, inv_pmax } = thresholds;
        if min >= max {
            return refused(
                "max",
                format!("thresholds of {min} and {max} packets leave no range; raise the upper"),
            );
        }
        let shift = pause.shift;
        Ok(Self {
            min: i64::from(min) << (shift + FRACTION),
            max: i64::from(max) << (shift + FRACTION),
            shift,
            divisor: (2 * i64::from(max - min) * i64::from(inv_pmax)) << FRACTION,
        })
    }

    /// Returns the probability of an early drop or mark, in units of 2^-32.
    fn probability(&self, average: &Average) -> u64 {
        let above = (average.scaled - self.min) >> self.shift;
        let left = self.divisor - i64::from(average.count) * above;
        if left <= 0 {
            return 1 << 32;
        }
        // `above` is below 2^24: thresholds are within 2^12 packets.
        ((above as u64) << 32) / left as u64
    }
}

impl Pause {
    /// Returns the time scale for packets of this time. Without a weight ALTQ takes 512, or less
    /// where there are few packets in a second. A weight is rounded down to a power of two.
    pub(super) fn new(weight: Option<u64>, packet_time: Option<Duration>, rate: Rate) -> Self {
        let packet_time = packet_time.unwrap_or_else(|| rate.transmit_time(Bytes::new(PACKET)));
        let packet_time = (packet_time.as_nanos() / 1000).max(1);
        let weight = weight.unwrap_or(match 1_000_000 / packet_time {
            0..50 => 64,
            50..300 => 128,
            _ => 512,
        });
        Self { shift: weight.max(1).ilog2(), packet_time }
    }

    /// Returns (1 - 1/weight)^n in 12-bit fixed point.
    fn power(self, mut n: u64) -> i64 {
        let mut square = ONE - (ONE >> self.shift);
        let mut power = ONE;
        while n > 0 && power > 0 {
            if n & 1 == 1 {
                power = (power * square) >> FRACTION;
            }
            square = (square * square) >> FRACTION;
            n >>= 1;
        }
        power
    }
}

impl Average {
    /// The average of a queue that was always empty.
    pub(super) const EMPTY: Average =
        Average { scaled: 0, count: 0, between: false, idle_since: None };

    /// Counts a packet that arrives behind `waiting` others; `skipped` of the packets that could
    /// have been sent in a pause do not count.
    pub(super) fn arrived(&mut self, now: Instant, pause: Pause, waiting: u64, skipped: u64) {
        if let Some(since) = self.idle_since.take() {
            let micros = now.since(since).as_nanos() / 1000;
            let packets = (micros / pause.packet_time).saturating_sub(skipped);
            if micros > FORGOTTEN_MICROS {
                self.scaled = 0;
            } else if packets > 0 {
                self.scaled = (self.scaled >> FRACTION) * pause.power(packets);
            }
        }
        let waiting = waiting.min(u64::from(u32::MAX)) as i64;
        self.scaled += (waiting << FRACTION) - (self.scaled >> pause.shift);
        self.count = self.count.saturating_add(1);
    }

    /// Draws what happens to the packet that arrived.
    pub(super) fn draw(&mut self, curve: &Curve, waiting: u64, random: &mut Random) -> Draw {
        if self.scaled < curve.min || waiting <= 1 {
            self.between = false;
            return Draw::Pass;
        }
        if self.scaled >= curve.max {
            return Draw::Forced;
        }
        if !self.between {
            // No packet is dropped at the first crossing.
            self.between = true;
            self.count = 1;
            return Draw::Pass;
        }
        if random.chance(curve.probability(self)) { Draw::Early } else { Draw::Pass }
    }

    /// Records that a packet was dropped or marked.
    pub(super) const fn punished(&mut self) {
        self.count = 0;
    }

    /// Records that the queue is idle from `now` on.
    pub(super) const fn idle(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }
}

/// Fractional bits of the fixed-point numbers.
const FRACTION: u32 = 12;
const ONE: i64 = 1 << FRACTION;
/// A pause of more than a minute resets the average to zero.
const FORGOTTEN_MICROS: u64 = 60_000_000;
/// The length of the packet whose time on the line is the unit of pauses.
const PACKET: u64 = 1000;
/// The highest threshold that can be written, in packets.
pub(super) const THRESHOLD_MAX: u64 = 1 << FRACTION;

state!(Average {
    scaled, count, between, idle_since;
    check: |average: &Self| (0..=1 << 60).contains(&average.scaled)
});

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn pause(weight: u64) -> Pause {
        let time = Some(Duration::from_micros(800));
        Pause::new(Some(weight), time, Rate::MIN)
    }

    #[test]
    fn powers_equal_the_table_with_its_drift() {
        let powers: Vec<_> = (0..14).map(|bit| pause(512).power(1 << bit)).collect();
        let table = [4088, 4080, 4064, 4032, 3969, 3845, 3609, 3179, 2467, 1485, 538, 70, 1, 0];
        assert_eq!(powers, table);
        assert_eq!(pause(512).power(0), 4096);
        assert_eq!(pause(512).power(3), (4088 * 4080) >> 12);
        assert_eq!(pause(1).power(1), 0);
        assert_eq!(pause(1 << 16).power(u64::MAX), 4096, "too fine for 12 bits: it never decays");
    }

    #[test]
    fn probabilities_equal_the_published_check() {
        let thresholds = Thresholds { min: 5, max: 15, inv_pmax: 10 };
        let curve = Curve::new(thresholds, pause(512)).expect("in order");
        // average, count, probability
        let rows = [
            (10, 1, 0.0256),
            (10, 10, 0.0333),
            (10, 20, 0.05),
            (14, 1, 0.0471),
            (14, 10, 0.0818),
            (14, 20, 0.45),
            (14, 23, 1.0),
            (5, 1000, 0.0),
        ];
        for (packets, count, expected) in rows {
            let scaled = packets << (9 + FRACTION);
            let average = Average { scaled, count, ..Average::EMPTY };
            let probability = curve.probability(&average) as f64 / f64::from(1u32 << 31) / 2.0;
            assert!((probability - expected).abs() < 6e-5, "{packets} {count}: {probability}");
        }
    }

    #[test]
    fn the_weight_follows_the_packets_in_a_second() {
        // bit/s, written, logarithm
        let rows = [
            (10_000_000, None, 9),
            (2_400_000, None, 9),
            (2_300_000, None, 7),
            (399_000, None, 6),
            (399_000, Some(512), 9),
            (1, None, 6),
            (10_000_000, Some(1000), 9),
            (400_000_000_000, None, 9),
        ];
        for (rate, written, shift) in rows {
            let rate = Rate::new(rate).expect("not zero");
            assert_eq!(Pause::new(written, None, rate).shift, shift, "{rate:?} {written:?}");
        }
    }

    #[test]
    fn the_average_follows_the_exponential_one() {
        let mut average = Average::EMPTY;
        let mut exact = 0.0;
        for step in 0..5000u64 {
            let waiting = if step % 1000 < 500 { 30 } else { 3 };
            average.arrived(Instant::ZERO, pause(512), waiting, 1);
            exact += (waiting as f64 - exact) / 512.0;
            let real = average.scaled as f64 / f64::from(1 << (9 + FRACTION));
            assert!((real - exact).abs() < 0.01, "{step}: {real} for {exact}");
        }
    }

    #[test]
    fn a_pause_lets_the_average_decay() {
        // microseconds of the pause, packets not counted, what is left of 4096
        let rows = [
            (0, 1, 4096),
            (1599, 1, 4096),
            (1600, 1, 4088),
            (1600, 0, 4080),
            (800 * 65, 1, 3609),
            (60_000_001, 1, 0),
        ];
        for (micros, skipped, left) in rows {
            let mut average = Average { scaled: 512 << 24, ..Average::EMPTY };
            average.idle(Instant::ZERO);
            let now = Instant::from_nanos(micros * 1000);
            average.arrived(now, pause(512), 0, skipped);
            let before = (512 << 12) * left;
            assert_eq!(average.scaled, before - (before >> 9), "{micros} {skipped}");
        }
    }
}
