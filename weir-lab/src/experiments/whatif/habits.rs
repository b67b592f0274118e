//! The requests of readers, whatever carries them.
//!
//! They follow from a small generator, so that both policies of a pair meet the same readers.

use std::time::Duration;

/// Returns how long a reader looks at a page.
pub fn pause(draw: &mut u64) -> Duration {
    Duration::from_millis(200 + next(draw) % 600)
}

/// Returns the bytes of an object of a page: from 4 to 128 KB, small ones more often.
pub fn size(draw: &mut u64) -> u64 {
    4_000 << (next(draw) % 6)
}

/// Returns the next number of a linear congruence, with the constants of MMIX.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Objects of a page.
pub const OBJECTS: u32 = 4;
/// From one object to the next.
pub const GAP: Duration = Duration::from_millis(30);
/// Bytes of a request.
pub const REQUEST: usize = 400;
/// Bytes that are written or read at once.
pub const BLOCK: usize = 64 << 10;
