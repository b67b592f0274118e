//! Times in JSON: seconds, as in Weir's other results.

use serde::Serializer;
use weir_core::units::Duration;

/// Writes a time in seconds.
pub fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_nanos() as f64 / 1e9)
}

/// Writes two times in seconds, `null` for one that is unknown.
pub fn pair_of_seconds<S: Serializer>(
    times: &[Option<Duration>; 2],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.map(|time| time.map(|time| time.as_nanos() as f64 / 1e9)))
}
