//! Target `records`: reads any bytes as a list of recorded arrivals.

use weir_sim::kinds::exercise;

/// Reads the input as lines of `time,length,flow`.
pub fn records(input: &[u8]) {
    exercise(input);
}
