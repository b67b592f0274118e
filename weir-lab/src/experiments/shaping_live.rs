//! Shaping accuracy, live: one token-bucket class at 1 Mbit/s to 1 Gbit/s with small, medium and
//! full packets, wherever 500 000 packets/s suffice; the rate at the receiver by length on the
//! wire, from the first departure to the last. The kernel's HTB is measured beside it in the same
//! run.
//!
//! Rebuilds and extends the accuracy table of [benita §4], which the paper measured in the kernel.
//! The rate may be off by one packet, by which the two ends of a measurement are uncertain, and
//! 0.01 %; with a busy process on each processor by 0.1 % of 10 s.

use super::{Experiment, Own};
use crate::busy::Busy;
use crate::rows::{Row, Rows};
use std::time::Duration;
use weir_bench::rig::{self, Flow, Measured, Setup};
use weir_core::units::Rate;
use weir_testbed::RIGHT;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "shaping-live",
    summary: "one htb class, 1 Mbit/s to 1 Gbit/s, 64 to 1500 B: the rate, beside the kernel's HTB",
    measure: None,
    own: Some(Own::live(run)),
};

/// The limits in percent of the rate: beside one packet, and under load.
const LIMIT: f64 = 0.01;
const LIMIT_LOADED: f64 = 0.1;
const RATES_MBIT: [u64; 4] = [1, 10, 100, 1000];
const IP_LENGTHS: [u32; 3] = [64, 512, 1500];
/// A frame at either end may be some ms late, which counts for less the longer the measurement is.
const LOADED_SECONDS: f64 = 10.0;
/// The part of the grid that is measured under load.
const LOADED: [(u64, u32); 6] =
    [(1, 1500), (10, 64), (10, 1500), (100, 64), (100, 1500), (1000, 1500)];
/// The rate that the generator and the bridge reach on a processor each.
const PACKETS_PER_SECOND_MAX: u64 = 500_000;
/// Bytes that the policy counts beside the IP packet.
const HEADER: u32 = 14;

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    let mut measure = |point: &Point, side: Side| {
        let subject = format!("{} Mbit/s, {} B{}", point.bits / 1_000_000, point.ip, side.suffix());
        rows.measure(&subject, |options| {
            point.measure(subject.clone(), side, options.duration).map(Some)
        })
    };
    for point in grid() {
        measure(&point, Side::Weir)?;
        measure(&point, Side::Kernel)?;
    }
    LOADED
        .into_iter()
        .try_for_each(|(mbit, ip)| measure(&Point { bits: mbit * 1_000_000, ip }, Side::WeirLoaded))
}

/// Every rate with every length that it needs few enough packets for.
fn grid() -> Vec<Point> {
    let point = |mbit: u64, ip| Point { bits: mbit * 1_000_000, ip };
    let all = RATES_MBIT.iter().flat_map(|&mbit| IP_LENGTHS.map(|ip| point(mbit, ip)));
    all.filter(|point| point.packets_per_second() <= PACKETS_PER_SECOND_MAX as f64).collect()
}

/// A rate and a length of packets.
struct Point {
    bits: u64,
    ip: u32,
}

/// The bridge that shapes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Weir,
    WeirLoaded,
    Kernel,
}

impl Side {
    fn suffix(self) -> &'static str {
        match self {
            Self::Weir => "",
            Self::WeirLoaded => ", under load",
            Self::Kernel => ", the kernel",
        }
    }
}

impl Point {
    fn frame(&self) -> u32 {
        self.ip + HEADER
    }

    fn packets_per_second(&self) -> f64 {
        self.bits as f64 / f64::from(self.frame() * 8)
    }

    fn measure(&self, subject: String, side: Side, duration: Duration) -> Result<Row, String> {
        let _busy = match side {
            Side::WeirLoaded => Some(Busy::start(2).map_err(|error| error.to_string())?),
            _ => None,
        };
        // The kernel is there to compare with: less of its time says enough.
        let duration = if side == Side::Kernel { duration.div_f64(KERNEL_PART) } else { duration };
        let measured = self.shape(side, duration)?;
        let packet = 100.0 / (self.packets_per_second() * duration.as_secs_f64());
        let limit = match side {
            Side::Weir => ((LIMIT + packet) * 1e4).ceil() / 1e4,
            Side::WeirLoaded => LIMIT_LOADED * (LOADED_SECONDS / duration.as_secs_f64()).max(1.0),
            Side::Kernel => f64::INFINITY,
        };
        Ok(Row::rate(subject, measured.total_rate(self.frame()), self.bits as f64, limit))
    }

    fn shape(&self, side: Side, duration: Duration) -> Result<Measured, String> {
        let policy = rig::policy(&self.policy()).map_err(|error| error.to_string())?;
        let offered = Rate::new(self.bits * OFFERED_PERCENT / 100).ok_or("the rate is zero")?;
        let setup = Setup {
            policy: &policy,
            flows: &[Flow { port: rig::FIRST_PORT, rate: offered }],
            frame_length: self.frame() as usize,
            warmup: WARMUP,
            duration,
        };
        let measured = match side {
            Side::Weir | Side::WeirLoaded => rig::run(&setup),
            Side::Kernel => rig::run_kernel(&setup, &self.tc_lines()),
        };
        measured.map_err(|error| error.to_string())
    }

    /// The line is ten times as fast, so that the class shapes, not the line. The burst is the
    /// default. The queue bridges a pause of the generator.
    fn policy(&self) -> String {
        let limit = (self.packets_per_second() * QUEUE_SECONDS).clamp(100.0, QUEUE_MAX);
        format!(
            "[link]\nrate = \"{} bit/s\"\nscheduler = \"htb\"\n\n\
             [class.all]\nrate = \"{} bit/s\"\ndefault = true\n\
             queue = {{ limit = \"{limit:.0} packets\" }}\n",
            self.bits * 10,
            self.bits
        )
    }

    fn tc_lines(&self) -> [String; 2] {
        [
            format!("qdisc add dev {RIGHT} root handle 1: htb default 1"),
            format!("class add dev {RIGHT} parent 1: classid 1:1 htb rate {}bit", self.bits),
        ]
    }
}

/// Enough to keep the queue backlogged although the sender stalls sometimes.
const OFFERED_PERCENT: u64 = 150;
const WARMUP: Duration = Duration::from_secs(1);
const QUEUE_SECONDS: f64 = 0.05;
const QUEUE_MAX: f64 = 8000.0;
/// The kernel is measured for one part in so many of the duration.
const KERNEL_PART: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_what_half_a_million_packets_a_second_allow() {
        let points: Vec<_> =
            grid().iter().map(|point| (point.bits / 1_000_000, point.ip)).collect();
        assert_eq!(points.len(), 11);
        assert!(!points.contains(&(1000, 64)) && points.contains(&(1000, 512)));
        assert!(LOADED.iter().all(|point| points.contains(point)));
    }
}
