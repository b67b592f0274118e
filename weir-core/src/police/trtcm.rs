//! The two rate three colour marker [rfc2698 §3; algorithms §10].
//!
//! Above the peak rate a packet is red, above the committed rate yellow, else green. A colour-aware
//! marker never gives a packet a better colour than its DSCP already says: the drop precedence of
//! assured forwarding. A colour-blind one equals two token bucket meters, the peak outside and the
//! committed inside.
//!
//! Invariant: a red packet takes no tokens, a yellow one none of the committed bucket.

use super::bucket::{Bucket, DEPTH, LAZY};
use super::{COLOURS, GREEN, Meter, MeterDescriptor, MeterDiscipline, Metered, RED, YELLOW, row};
use crate::ids::MeterId;
use crate::parameter::{BuildError, Kind, Params};
use crate::state::state;
use crate::units::{Dimension, Instant};

/// The two rate three colour marker.
pub struct TrTcm {
    committed: Bucket,
    peak: Bucket,
    colour_aware: bool,
}

impl MeterDiscipline for TrTcm {
    const DESCRIPTOR: MeterDescriptor = MeterDescriptor {
        keyword: "trtcm",
        summary: "Two token buckets: green within the committed, yellow within the peak, else red.",
        parameters: &[
            row("rate", Kind::Quantity(Dimension::Rate), None, "The committed rate."),
            row("depth", DEPTH, None, "The largest burst that is green."),
            row("peak_rate", Kind::Quantity(Dimension::Rate), None, "The peak rate."),
            row("peak_depth", DEPTH, None, "The largest burst that is not red."),
            row(
                "colour_aware",
                Kind::Flag,
                Some("false"),
                "Whether a packet never gets a better colour than its DSCP says.",
            ),
            LAZY,
        ],
        outcomes: COLOURS,
        sources: &["rfc2698", "altq", "algorithms §10"],
    };

    fn build(params: &Params, _id: MeterId, _seed: u64) -> Result<Self, BuildError> {
        let committed = Bucket::new(params, "rate", "depth");
        let peak = Bucket::new(params, "peak_rate", "peak_depth");
        if peak.rate() < committed.rate() {
            let message = alloc::format!(
                "a peak rate of {} bit/s is below the committed one of {} bit/s; raise it",
                peak.rate(),
                committed.rate()
            );
            return Err(BuildError::in_link("peak_rate", message));
        }
        let colour_aware = params.flag("colour_aware") == Some(true);
        Ok(Self { committed, peak, colour_aware })
    }
}

impl Meter for TrTcm {
    fn measure(&mut self, now: Instant, packet: Metered) -> usize {
        let before = if self.colour_aware { colour_of(packet.traffic_class) } else { GREEN };
        if before == RED || !self.peak.covers(now, packet.length) {
            return RED;
        }
        let colour = if before == YELLOW || !self.committed.covers(now, packet.length) {
            YELLOW
        } else {
            self.committed.take(packet.length);
            GREEN
        };
        self.peak.take(packet.length);
        colour
    }
}

/// Returns the colour of a code point of assured forwarding; green for all others.
fn colour_of(traffic_class: u8) -> usize {
    let dscp = traffic_class >> 2;
    let is_assured = (10..=38).contains(&dscp) && dscp & 1 == 0;
    match dscp >> 1 & 0b11 {
        2 if is_assured => YELLOW,
        3 if is_assured => RED,
        _ => GREEN,
    }
}

state!(TrTcm { committed, peak; kept: colour_aware });

#[cfg(test)]
mod tests {
    use super::super::{AnyMeter, MeterPlan, tbmeter::TbMeter};
    use super::*;
    use crate::parameter::Value;
    use crate::random::Random;
    use crate::units::{Bytes, Quantity};

    fn params(texts: &[(&'static str, &str)], flags: &[(&'static str, bool)]) -> Params {
        let mut params = Params::new();
        for &(name, text) in texts {
            let quantity: Quantity = text.parse().expect("rows hold quantities");
            params.set(name, Value::Quantity(quantity));
        }
        for &(name, flag) in flags {
            params.set(name, Value::Flag(flag));
        }
        params
    }

    fn meter(flags: &[(&'static str, bool)]) -> TrTcm {
        let texts = [
            ("rate", "1 Mbit/s"),
            ("depth", "2000 B"),
            ("peak_rate", "2 Mbit/s"),
            ("peak_depth", "4000 B"),
        ];
        TrTcm::build(&params(&texts, flags), ID, 0).expect("the peak is above")
    }

    const ID: MeterId = match MeterId::from_index(0) {
        Some(id) => id,
        None => panic!("the first"),
    };
    const AF21: u8 = 18 << 2;
    const AF22: u8 = 20 << 2;
    const AF23: u8 = 22 << 2;
    const EF: u8 = 46 << 2;

    #[test]
    fn colours_follow_both_buckets() {
        // milliseconds, traffic class, colour; blind, then aware
        let rows: [(u64, u8, usize, usize); 10] = [
            (0, AF21, GREEN, GREEN),
            (0, AF23, GREEN, RED),
            (0, AF22, YELLOW, YELLOW),
            (0, AF21, YELLOW, GREEN),
            (0, AF21, RED, YELLOW),
            (0, AF21, RED, RED),
            // 4 ms: 500 bytes of the committed, 1000 of the peak.
            (4, EF, YELLOW, YELLOW),
            // 12 ms: blind 1500 and 2000 bytes, since yellow took none of the committed.
            (12, EF, GREEN, GREEN),
            (12, AF22, YELLOW, YELLOW),
            (12, AF22, RED, RED),
        ];
        let (mut blind, mut aware) = (meter(&[]), meter(&[("colour_aware", true)]));
        for (row, (millis, traffic_class, by_blind, by_aware)) in rows.into_iter().enumerate() {
            let packet = Metered { length: Bytes::new(1000), traffic_class };
            let now = Instant::from_nanos(millis * 1_000_000);
            assert_eq!(blind.measure(now, packet), by_blind, "row {row}, blind");
            assert_eq!(aware.measure(now, packet), by_aware, "row {row}, aware");
        }
    }

    #[test]
    fn the_colour_is_the_drop_precedence_of_assured_forwarding() {
        for dscp in 0..64u8 {
            let expected = match dscp {
                12 | 20 | 28 | 36 => YELLOW,
                14 | 22 | 30 | 38 => RED,
                _ => GREEN,
            };
            assert_eq!(colour_of(dscp << 2 | 0b11), expected, "{dscp}");
        }
    }

    #[test]
    fn colour_blind_it_is_two_nested_token_buckets() {
        for seed in 0..2000 {
            let mut random = Random::new(seed, 0);
            let lazy = [("lazy", seed % 2 == 1)];
            let rate = 1 + u64::from(random.below(1_000_000));
            let peak_rate = rate + u64::from(random.below(1_000_000));
            let text = |number: u64, unit: &str| alloc::format!("{number} {unit}");
            let depth = text(1 + u64::from(random.below(5000)), "B");
            let peak_depth = text(1 + u64::from(random.below(5000)), "B");
            let (rate, peak_rate) = (text(rate, "bit/s"), text(peak_rate, "bit/s"));
            let inner = params(&[("rate", &rate), ("depth", &depth)], &lazy);
            let outer = params(&[("rate", &peak_rate), ("depth", &peak_depth)], &lazy);
            let mut both = inner.clone();
            for (own, name) in [("peak_rate", "rate"), ("peak_depth", "depth")] {
                both.set(own, outer.value(name).expect("was set"));
            }
            let mut marker = TrTcm::build(&both, ID, 0).expect("the peak is above");
            let mut inner = TbMeter::build(&inner, ID, 0).expect("builds");
            let mut outer = TbMeter::build(&outer, ID, 0).expect("builds");
            let mut now = 0;
            for _ in 0..100 {
                let most = 1 << (1 + random.below(31));
                now += u64::from(random.below(most));
                let length = Bytes::new(u64::from(random.below(2000)));
                let packet = Metered { length, traffic_class: 0 };
                let now = Instant::from_nanos(now);
                let nested = match outer.measure(now, packet) {
                    0 => inner.measure(now, packet),
                    _ => RED,
                };
                assert_eq!(marker.measure(now, packet), nested, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_peak_below_the_committed_rate_is_refused() {
        let texts = [("rate", "2 Mbit/s"), ("peak_rate", "1 Mbit/s")];
        let plan = MeterPlan::new("trtcm", params(&texts, &[]));
        let error = AnyMeter::build(&plan, ID, 0).err().expect("is refused");
        assert!(error.message.contains("1000000 bit/s is below the committed"), "{error}");
    }
}
