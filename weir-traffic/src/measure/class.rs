//! The measurements of one class: counts, delays, jitter, throughput.

use serde::Serialize;
use weir_core::account::{Count, Histogram};
use weir_core::units::{Bytes, Duration};

/// The measurements of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    entered: Count,
    left: Count,
    lost: u64,
    under_way: u64,
    delays: Histogram,
    negative: u64,
    least: Option<i128>,
    /// Sum of delays, and of their squares, in microseconds from the first delay.
    origin: i128,
    sums: (f64, f64),
    last: Option<i128>,
    jitter: f64,
}

/// The figures of one class in a report.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MeasuredClass {
    /// The name of the class.
    pub class: String,
    /// Packets before the link.
    pub packets_in: u64,
    /// Their bytes, as Ethernet frames without check sequence.
    pub bytes_in: u64,
    /// Packets behind the link.
    pub packets_out: u64,
    /// Their bytes, as Ethernet frames without check sequence.
    pub bytes_out: u64,
    /// Packets that were not seen behind it.
    pub lost: u64,
    /// `lost` as a part of the packets before the link, less those under way.
    pub lost_percent: f64,
    /// Packets that came before the link after the last one was seen behind it.
    pub under_way: u64,
    /// Bytes behind the link, over the whole measurement.
    pub throughput_mbit_s: f64,
    /// The mean of the delays.
    pub delay_mean_us: f64,
    /// The standard deviation of the delays.
    pub delay_deviation_us: f64,
    /// The shortest delay; below 0 if the clocks of the captures differ.
    pub delay_min_us: f64,
    /// Half of the delays are at most this.
    pub delay_p50_us: f64,
    /// Nine of ten are at most this.
    pub delay_p90_us: f64,
    /// 99 of a hundred.
    pub delay_p99_us: f64,
    /// The longest of the delays.
    pub delay_max_us: f64,
    /// Interarrival jitter, `[rfc3550 §6.4.1]`, at the last packet of the class.
    pub jitter_us: f64,
    /// Delays below 0, which count in no quantile.
    pub negative: u64,
}

impl Class {
    pub fn enter(&mut self, bytes: u32) {
        self.entered.add(Bytes::new(bytes.into()));
    }

    pub fn lose(&mut self, under_way: bool) {
        *(if under_way { &mut self.under_way } else { &mut self.lost }) += 1;
    }

    /// Counts a packet that came out this many nanoseconds after it went in.
    pub fn leave(&mut self, bytes: u32, delay: i128) {
        if self.left.packets == 0 {
            self.origin = delay;
        }
        self.left.add(Bytes::new(bytes.into()));
        self.least = Some(self.least.map_or(delay, |least| least.min(delay)));
        match u64::try_from(delay) {
            Ok(nanos) => self.delays.record(Duration::from_nanos(nanos)),
            Err(_) => self.negative += 1,
        }
        let micros = (delay - self.origin) as f64 / 1000.0;
        self.sums = (self.sums.0 + micros, self.sums.1 + micros * micros);
        if let Some(last) = self.last {
            // [rfc3550 §6.4.1] A sixteenth of the difference between two transit times counts.
            self.jitter += ((delay - last).abs() as f64 / 1000.0 - self.jitter) / 16.0;
        }
        self.last = Some(delay);
    }

    /// Returns whether any packet was its.
    pub fn is_used(&self) -> bool {
        self.entered.packets > 0
    }

    /// Returns what a report says of it, for a measurement that took so long.
    pub fn report(&self, class: &str, seconds: f64) -> MeasuredClass {
        let count = self.left.packets.max(1) as f64;
        let mean = self.sums.0 / count;
        let variance = (self.sums.1 / count - mean * mean).max(0.0);
        let micros = |duration: Duration| duration.as_nanos() as f64 / 1000.0;
        let quantile = |per_mille| micros(self.delays.quantile(per_mille).value);
        let judged = self.entered.packets.saturating_sub(self.under_way).max(1) as f64;
        let bits = self.left.bytes as f64 * 8e-6;
        let none = self.left.packets == 0;
        MeasuredClass {
            class: class.to_owned(),
            packets_in: self.entered.packets,
            bytes_in: self.entered.bytes,
            packets_out: self.left.packets,
            bytes_out: self.left.bytes,
            lost: self.lost,
            lost_percent: 100.0 * self.lost as f64 / judged,
            under_way: self.under_way,
            throughput_mbit_s: if seconds > 0.0 { bits / seconds } else { 0.0 },
            delay_mean_us: if none { 0.0 } else { self.origin as f64 / 1000.0 + mean },
            delay_deviation_us: variance.sqrt(),
            delay_min_us: self.least.map_or(0.0, |least| least as f64 / 1000.0),
            delay_p50_us: quantile(500),
            delay_p90_us: quantile(900),
            delay_p99_us: quantile(990),
            delay_max_us: micros(self.delays.max()),
            jitter_us: self.jitter,
            negative: self.negative,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delays in microseconds give this mean, deviation, jitter and number of negative ones.
    fn check(delays: &[i128], mean: f64, deviation: f64, jitter: f64, negative: u64) {
        let mut class = Class::default();
        for delay in delays {
            class.enter(125);
            class.leave(125, delay * 1000);
        }
        let report = class.report("it", 1.0);
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-6;
        assert!(near(report.delay_mean_us, mean), "{delays:?}: {report:?}");
        assert!(near(report.delay_deviation_us, deviation), "{delays:?}: {report:?}");
        assert!(near(report.jitter_us, jitter), "{delays:?}: {report:?}");
        assert_eq!(report.negative, negative);
        assert!(near(report.throughput_mbit_s, delays.len() as f64 / 1000.0));
    }

    #[test]
    fn delays_become_mean_deviation_and_jitter() {
        check(&[], 0.0, 0.0, 0.0, 0);
        check(&[500], 500.0, 0.0, 0.0, 0);
        check(&[100, 300], 200.0, 100.0, 200.0 / 16.0, 0);
        check(&[100, 300, 300], 700.0 / 3.0, 94.280_904_158, 200.0 / 16.0 * 15.0 / 16.0, 0);
        check(&[-100, 100], 0.0, 100.0, 12.5, 1);
    }
}
