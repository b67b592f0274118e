//! How reports show units in JSON.

use serde::Serializer;
use weir_core::units::{Duration, Rate};

/// A time in seconds.
pub fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_nanos() as f64 / 1e9)
}

/// A time in µs.
pub fn micros<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_nanos() as f64 / 1e3)
}

/// A time in µs, if there is one.
pub fn micros_or_null<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => micros(time, to),
        None => to.serialize_none(),
    }
}

/// A rate in bit/s.
pub fn bits_per_second<S: Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(rate.bits_per_second())
}
