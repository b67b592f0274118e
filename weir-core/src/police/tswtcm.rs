//! The time sliding window three colour marker [rfc2859 §3; algorithms §10].
//!
//! It holds no tokens but the average rate over a window, and draws at random: above a rate,
//! packets get the worse colour in proportion to the excess of the average. So marks are spread
//! over flows, and no burst is marked as a whole.
//!
//! The average is in 2^-8 byte/s. Invariant: at or below the committed rate all packets are green.

use super::{COLOURS, GREEN, Meter, MeterDescriptor, MeterDiscipline, Metered, RED, YELLOW, row};
use crate::ids::MeterId;
use crate::parameter::{BuildError, Kind, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::{Dimension, Duration, Instant, Rate};

/// The time sliding window marker.
pub struct TswTcm {
    /// In the unit of the average.
    committed: u64,
    peak: u64,
    /// Nanoseconds, at least [`WINDOW_MIN`].
    window: u64,
    average: u64,
    /// When the last packet arrived.
    last: Option<Instant>,
    random: Random,
}

impl MeterDiscipline for TswTcm {
    const DESCRIPTOR: MeterDescriptor = MeterDescriptor {
        keyword: "tswtcm",
        summary: "An average rate: above the committed some are yellow, above the peak red.",
        parameters: &[
            row("rate", Kind::Quantity(Dimension::Rate), None, "The committed rate."),
            row("peak_rate", Kind::Quantity(Dimension::Rate), None, "The peak rate."),
            row(
                "window",
                Kind::Quantity(Dimension::Duration),
                Some("500 ms"),
                "The time over which the average is taken.",
            ),
        ],
        outcomes: COLOURS,
        sources: &["rfc2859", "altq", "algorithms §10"],
    };

    fn build(params: &Params, id: MeterId, seed: u64) -> Result<Self, BuildError> {
        let rate = |name| params.rate(name).unwrap_or(Rate::MIN).bits_per_second();
        let (committed, peak) = (rate("rate"), rate("peak_rate"));
        if peak < committed {
            let message = alloc::format!(
                "a peak rate of {peak} bit/s is below the committed one of {committed} bit/s; \
                 raise it"
            );
            return Err(BuildError::in_link("peak_rate", message));
        }
        let window = params.duration("window").unwrap_or(Duration::from_millis(500)).as_nanos();
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&window) {
            let message = alloc::format!(
                "a window of {window} ns is not in 1 ms to 1 h; write `500 ms`, which suits TCP"
            );
            return Err(BuildError::in_link("window", message));
        }
        let [committed, peak] = [committed, peak].map(|bits| bits.saturating_mul(UNIT / 8));
        let random = Random::new(seed ^ STREAM, id.index() as u64);
        Ok(Self { committed, peak, window, average: committed, last: None, random })
    }
}

impl Meter for TswTcm {
    fn measure(&mut self, now: Instant, packet: Metered) -> usize {
        let passed = now.since(self.last.unwrap_or(now)).as_nanos();
        self.last = Some(now);
        let length = u128::from(packet.length.get()) * u128::from(NANOS * UNIT);
        let filled = u128::from(self.average) * u128::from(self.window) + length;
        let average = filled / (u128::from(self.window) + u128::from(passed));
        self.average = u64::try_from(average).unwrap_or(u64::MAX);
        self.colour()
    }
}

impl TswTcm {
    /// Draws the colour of a packet.
    fn colour(&mut self) -> usize {
        if self.average <= self.committed {
            return GREEN;
        }
        let drawn = self.random.bits() >> 32;
        let of_average =
            |rate: u64| ((u128::from(rate) << 32) / u128::from(self.average.max(1))) as u64;
        let red = of_average(self.average.saturating_sub(self.peak));
        let yellow = of_average(self.average.min(self.peak) - self.committed);
        match drawn {
            drawn if drawn < red => RED,
            drawn if drawn < red + yellow => YELLOW,
            _ => GREEN,
        }
    }
}

const NANOS: u64 = 1_000_000_000;
/// One byte per second in the unit of the average.
const UNIT: u64 = 256;
/// A shorter window would average over single packets.
const WINDOW_MIN: u64 = 1_000_000;
const WINDOW_MAX: u64 = 3600 * NANOS;
/// A stream different from that of the dropper of the same number.
const STREAM: u64 = 0x7377_5f74_636d_5f00;

state!(TswTcm { average, last, random; kept: committed, peak, window });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bytes, Quantity};

    const ID: MeterId = match MeterId::from_index(0) {
        Some(id) => id,
        None => panic!("the first"),
    };

    fn params(rows: &[(&'static str, &str)]) -> Params {
        rows.iter().fold(Params::new(), |params, &(name, text)| {
            let quantity: Quantity = text.parse().expect("rows hold quantities");
            params.with(name, quantity)
        })
    }

    /// Returns the colours of 100 000 packets of 1000 bytes at `megabits`, after a settling time,
    /// as fractions of 1.
    fn colours(megabits: u64) -> [f64; 3] {
        let params = params(&[("rate", "4 Mbit/s"), ("peak_rate", "6 Mbit/s")]);
        let mut meter = TswTcm::build(&params, ID, 1).expect("the peak is above");
        let packet = Metered { length: Bytes::new(1000), traffic_class: 0 };
        let mut counts = [0.0; 3];
        for step in 0..110_000 {
            let colour = meter.measure(Instant::from_nanos(step * 8_000_000 / megabits), packet);
            if step >= 10_000 {
                counts[colour] += 1e-5;
            }
        }
        counts
    }

    #[test]
    fn colours_are_drawn_in_proportion_to_the_excess_of_the_average() {
        // Mbit/s offered; green, yellow, red: 4, then up to 6, then the rest of the rate offered.
        let rows = [
            (3, [1.0, 0.0, 0.0]),
            (5, [0.8, 0.2, 0.0]),
            (6, [4.0 / 6.0, 2.0 / 6.0, 0.0]),
            (8, [0.5, 0.25, 0.25]),
            (40, [0.1, 0.05, 0.85]),
        ];
        for (megabits, expected) in rows {
            let real = colours(megabits);
            for (real, expected) in real.iter().zip(expected) {
                assert!((real - expected).abs() < 0.01, "{megabits} Mbit/s: {real} {expected}");
            }
        }
    }

    #[test]
    fn the_average_follows_the_formula() {
        let params = params(&[("rate", "8 kbit/s"), ("peak_rate", "9 kbit/s"), ("window", "1 s")]);
        let mut meter = TswTcm::build(&params, ID, 1).expect("the peak is above");
        let mut exact = 1000.0;
        let (mut now, mut random) = (0u64, Random::new(9, 9));
        for _ in 0..10_000 {
            let (wait, length) = (u64::from(random.below(2_000_000_000)), random.below(65_536));
            now += wait;
            let seconds = if meter.last.is_some() { wait as f64 / 1e9 } else { 0.0 };
            exact = (exact + f64::from(length)) / (1.0 + seconds);
            let length = Bytes::new(u64::from(length));
            meter.measure(Instant::from_nanos(now), Metered { length, traffic_class: 0 });
            let real = meter.average as f64 / UNIT as f64;
            assert!((real - exact).abs() < 0.05 + exact * 1e-9, "{real} for {exact}");
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        let params = params(&[("rate", "1 bit/s"), ("peak_rate", "400 Gbit/s")]);
        let mut meter = TswTcm::build(&params, ID, 1).expect("the peak is above");
        for at in [0, 0, 1, u64::MAX, u64::MAX] {
            for length in [0, 65_535, u64::from(u32::MAX)] {
                let packet = Metered { length: Bytes::new(length), traffic_class: 0 };
                meter.measure(Instant::from_nanos(at), packet);
            }
        }
    }

    #[test]
    fn a_short_window_and_a_low_peak_are_refused() {
        let rows = [
            ([("rate", "1 bit/s"), ("peak_rate", "2 bit/s"), ("window", "1 us")], "in 1 ms to 1 h"),
            ([("rate", "3 bit/s"), ("peak_rate", "2 bit/s"), ("window", "1 s")], "is below"),
        ];
        for (rows, message) in rows {
            let error = TswTcm::build(&params(&rows), ID, 1).err().expect("is refused");
            assert!(error.message.contains(message), "{error}");
        }
    }
}
