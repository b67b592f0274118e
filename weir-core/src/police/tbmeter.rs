//! The token bucket meter: in while the bucket covers the packet, else out [algorithms §10].
//!
//! Invariant: in any interval the packets that are in have at most rate times interval plus depth
//! bytes; with `lazy`, as in ALTQ, depth counts twice.

use super::bucket::{Bucket, DEPTH, LAZY};
use super::{Action, Meter, MeterDescriptor, MeterDiscipline, Metered, row};
use crate::ids::MeterId;
use crate::parameter::{BuildError, Kind, Params};
use crate::state::state;
use crate::units::{Dimension, Instant};

/// One token bucket: a packet is in while the bucket covers it.
pub struct TbMeter(Bucket);

impl MeterDiscipline for TbMeter {
    const DESCRIPTOR: MeterDescriptor = MeterDescriptor {
        keyword: "tbmeter",
        summary: "A token bucket: packets are in while it covers them, else out.",
        parameters: &[
            row("rate", Kind::Quantity(Dimension::Rate), None, "The rate that is in."),
            row("depth", DEPTH, None, "The largest burst that is in."),
            LAZY,
        ],
        outcomes: &[("in", Action::Pass), ("out", Action::Drop)],
        sources: &["altq", "algorithms §10"],
    };

    fn build(params: &Params, _id: MeterId, _seed: u64) -> Result<Self, BuildError> {
        Ok(Self(Bucket::new(params, "rate", "depth")))
    }
}

impl Meter for TbMeter {
    fn measure(&mut self, now: Instant, packet: Metered) -> usize {
        if !self.0.covers(now, packet.length) {
            return OUT;
        }
        self.0.take(packet.length);
        IN
    }
}

const IN: usize = 0;
const OUT: usize = 1;

state!(TbMeter(bucket));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use crate::units::Quantity;

    fn meter(rate: &str, depth: &str) -> TbMeter {
        let quantity = |text: &str| -> Quantity { text.parse().expect("a quantity") };
        let params = Params::new().with("rate", quantity(rate)).with("depth", quantity(depth));
        let id = MeterId::from_index(0).expect("the first");
        TbMeter::build(&params, id, 0).expect("nothing to refuse")
    }

    #[test]
    fn the_worked_example() {
        // 1 Mbit/s and 3000 bytes; 12 ms refill 1500 bytes.
        for lazy in [false, true] {
            let mut meter = meter("1 Mbit/s", "3000 B");
            if lazy {
                let params = Params::new().with("rate", "1 Mbit/s".parse().expect("a rate"));
                let mut params = params.with("depth", "3000 B".parse().expect("a size"));
                params.set("lazy", crate::parameter::Value::Flag(true));
                meter = TbMeter(Bucket::new(&params, "rate", "depth"));
            }
            let packet = Metered { length: Bytes::new(1500), traffic_class: 0 };
            let at = [0, 0, 0, 12_000_000].map(Instant::from_nanos);
            assert_eq!(at.map(|now| meter.measure(now, packet)), [IN, IN, OUT, IN]);
            assert_eq!(meter.measure(at[3], packet), OUT);
        }
    }

    #[test]
    fn packets_that_are_in_conform_to_rate_and_depth() {
        let mut meter = meter("8 Mbit/s", "5000 B");
        let mut random = crate::random::Random::new(3, 0);
        let (mut now, mut passed) = (0u64, alloc::vec::Vec::new());
        for _ in 0..20_000 {
            now += u64::from(random.below(2_000_000));
            let length = u64::from(random.below(1500));
            let packet = Metered { length: Bytes::new(length), traffic_class: 0 };
            if meter.measure(Instant::from_nanos(now), packet) == IN {
                passed.push((now, length));
            }
        }
        // A leaky bucket as oracle: the excess over rate times time never exceeds the depth.
        let (mut level, mut last) = (0.0f64, 0);
        for (at, length) in passed {
            level = (level - (at - last) as f64 / 1e3).max(0.0) + length as f64;
            last = at;
            assert!(level <= 5000.0 + 1e-6, "{at}: {level}");
        }
    }
}
