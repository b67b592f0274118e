//! The token bucket of meters: exact, without a timer.
//!
//! A token is an eighth of a billionth of a byte, what a rate of 1 bit/s gives in a nanosecond. So
//! no refill rounds, however short the time and slow the rate. Invariant: tokens never exceed
//! depth.

use crate::parameter::{Kind, Parameter, Params};
use crate::state::state;
use crate::units::{Bytes, Duration, Instant, Rate};

/// A token bucket, built from two parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bucket {
    bits_per_second: u64,
    depth: u64,
    tokens: u64,
    filled_at: Instant,
    /// Refilled only when it holds too few tokens, as in ALTQ.
    lazy: bool,
}

impl Bucket {
    /// A full bucket of the parameters `rate` and `depth`, which must be written.
    pub(super) fn new(params: &Params, rate: &str, depth: &str) -> Self {
        let depth = params.bytes(depth).unwrap_or(Bytes::ZERO).get().min(DEPTH_MAX) * BYTE;
        Self {
            bits_per_second: params.rate(rate).unwrap_or(Rate::MIN).bits_per_second(),
            depth,
            tokens: depth,
            filled_at: Instant::ZERO,
            lazy: params.flag("lazy") == Some(true),
        }
    }

    /// Returns whether it holds enough tokens for `length`.
    pub(super) fn covers(&mut self, now: Instant, length: Bytes) -> bool {
        let cost = cost(length);
        if !self.lazy || self.tokens < cost {
            self.fill(now.since(self.filled_at));
            self.filled_at = now;
        }
        self.tokens >= cost
    }

    /// Takes the tokens of `length`, which it covers.
    pub(super) fn take(&mut self, length: Bytes) {
        self.tokens = self.tokens.saturating_sub(cost(length));
    }

    fn fill(&mut self, time: Duration) {
        let gained = u128::from(time.as_nanos()) * u128::from(self.bits_per_second);
        debug_assert!(self.tokens <= self.depth, "tokens never exceed depth");
        let room = self.depth - self.tokens;
        self.tokens += if gained < u128::from(room) { gained as u64 } else { room };
    }

    /// Returns the rate at which it fills.
    pub(super) const fn rate(&self) -> u64 {
        self.bits_per_second
    }
}

/// Longer packets than any depth cost as much as 2^31 bytes.
fn cost(length: Bytes) -> u64 {
    length.get().min(2 * DEPTH_MAX) * BYTE
}

/// The parameter row that all meters with buckets share.
pub(super) const LAZY: Parameter = super::row(
    "lazy",
    Kind::Flag,
    Some("false"),
    "Whether a bucket fills only when it holds too little, as in ALTQ: twice the depth may pass.",
);
/// The values that a depth takes.
pub(super) const DEPTH: Kind = Kind::Size(1, DEPTH_MAX);

/// The tokens of a byte.
const BYTE: u64 = 8_000_000_000;
/// 1 GiB: twice that in tokens still fits 64 bits.
const DEPTH_MAX: u64 = 1 << 30;

state!(Bucket {
    tokens, filled_at;
    kept: bits_per_second, depth, lazy;
    check: |bucket: &Self| bucket.tokens <= bucket.depth
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Quantity;

    fn bucket(rate: u64, depth: u64) -> Bucket {
        let rate = Rate::new(rate).expect("not zero");
        let params = Params::new()
            .with("rate", Quantity::Rate(rate))
            .with("depth", Quantity::Bytes(Bytes::new(depth)));
        Bucket::new(&params, "rate", "depth")
    }

    #[test]
    fn a_million_short_refills_lose_no_token() {
        let mut bucket = bucket(7, 1000);
        bucket.take(Bytes::new(1000));
        for nanos in 1..=1_000_000 {
            assert!(!bucket.covers(Instant::from_nanos(nanos * 1142), Bytes::new(1000)));
        }
        // 7 bit/s in 1.142 s: one byte, less 6 nanobits.
        assert!(!bucket.covers(Instant::from_nanos(1_142_857_142), Bytes::new(1)));
        assert!(bucket.covers(Instant::from_nanos(1_142_857_143), Bytes::new(1)));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut bucket = bucket(400_000_000_000, DEPTH_MAX);
        assert!(bucket.covers(Instant::MAX, Bytes::new(DEPTH_MAX)));
        bucket.take(Bytes::new(u64::MAX));
        assert_eq!(bucket.tokens, 0);
        assert!(!bucket.covers(Instant::MAX, Bytes::new(1)));
        assert!(bucket.covers(Instant::MAX, Bytes::ZERO));
        assert!(!bucket.covers(Instant::MAX, Bytes::new(u64::MAX)));
    }

    #[test]
    fn only_a_lazy_bucket_lets_twice_its_depth_pass() {
        for (lazy, passed) in [(false, 10), (true, 20)] {
            let mut bucket = Bucket { lazy, ..bucket(1_000_000, 10_000) };
            let now = Instant::from_nanos(5_000_000_000);
            let mut count = 0;
            while bucket.covers(now, Bytes::new(1000)) {
                bucket.take(Bytes::new(1000));
                count += 1;
            }
            assert_eq!(count, passed);
        }
    }
}
