//! The figures of reports: amounts of packets, what was dropped, distributions of delays.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use weir_core::account::{Count, Histogram};
use weir_core::event::DropReason;
use weir_core::units::{Duration, Instant};
use weir_policy::table::millis;
use weir_trace::shown::micros;

/// Packets with their bytes, and the rate of these over the time that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Amount {
    /// The number of packets.
    pub packets: u64,
    /// Bytes: charged ones of classes, frames of sources.
    pub bytes: u64,
    /// The rate of the bytes, rounded to bit/s.
    #[serde(rename = "bps")]
    pub bits_per_second: u64,
}

/// The dropped packets, in all and by reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dropped {
    /// Packets dropped for any reason.
    pub total: Amount,
    /// In the order of [`DropReason::ALL`].
    pub by_reason: [Amount; DropReason::ALL.len()],
}

/// A distribution of durations; quantiles are interpolated in buckets 3 % wide, the others exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Delays {
    /// How many were measured.
    pub count: u64,
    /// The median: half took no longer.
    #[serde(serialize_with = "micros")]
    pub p50: Duration,
    /// 90 % took no longer.
    #[serde(serialize_with = "micros")]
    pub p90: Duration,
    /// 99 % took no longer.
    #[serde(serialize_with = "micros")]
    pub p99: Duration,
    /// The longest, exact.
    #[serde(serialize_with = "micros")]
    pub max: Duration,
    /// The mean, exact.
    #[serde(serialize_with = "micros")]
    pub mean: Duration,
    /// How far the true quantiles may be from `p50`, `p90` and `p99`.
    #[serde(skip)]
    pub resolution: [Duration; 3],
}

/// A transfer or an exchange that was completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// When its last byte was read.
    pub ended: Instant,
    /// How long it took until then.
    pub took: Duration,
}

impl Amount {
    pub(crate) fn of(count: Count, span: Duration) -> Self {
        let bits_per_second = rate(count.bytes, span);
        Self { packets: count.packets, bytes: count.bytes, bits_per_second }
    }
}

/// Returns `bytes` in `span` as bit/s, rounded to the nearest.
pub(crate) fn rate(bytes: u64, span: Duration) -> u64 {
    let span = u128::from(span.as_nanos());
    ((u128::from(bytes) * 8_000_000_000 + span / 2) / span) as u64
}

impl Delays {
    pub(crate) fn of(histogram: &Histogram) -> Self {
        let [p50, p90, p99] = [500, 900, 990].map(|per_mille| histogram.quantile(per_mille));
        Self {
            count: histogram.count(),
            p50: p50.value,
            p90: p90.value,
            p99: p99.value,
            max: histogram.max(),
            mean: histogram.mean(),
            resolution: [p50, p90, p99].map(|quantile| quantile.resolution),
        }
    }
}

impl Serialize for Dropped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("total", &self.total)?;
        for (reason, amount) in DropReason::ALL.iter().zip(&self.by_reason) {
            map.serialize_entry(reason.name(), amount)?;
        }
        map.end()
    }
}

impl Dropped {
    /// Formats the reasons, as in `full 3, evicted 4`; `0` without any.
    pub(crate) fn reasons(&self) -> String {
        if self.total.packets == 0 {
            return "0".to_owned();
        }
        let rows = DropReason::ALL.iter().zip(&self.by_reason);
        let rows = rows.filter(|row| row.1.packets > 0);
        let words: Vec<_> = rows.map(|row| format!("{} {}", row.0.name(), row.1.packets)).collect();
        words.join(", ")
    }
}

impl Delays {
    /// The quantiles in ms for a table.
    pub(crate) fn cells(&self) -> [String; 5] {
        [self.p50, self.p90, self.p99, self.max, self.mean].map(|duration| {
            if self.count == 0 {
                return "-".to_owned();
            }
            millis(duration.as_nanos() as f64 / 1e3)
        })
    }
}
