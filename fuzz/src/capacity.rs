//! Target `capacity`: reads any bytes as a capacity over time, and asks it whatever simulations do.

use weir_core::units::{Bytes, Duration, Instant};
use weir_trace::capacity::{Bottleneck, Buffer, End, Work, parse};

/// Reads the input, looped and ended, and sends packets through it.
pub fn capacity(input: &[u8]) {
    for end in [End::Loop, End::Stop] {
        let Ok(capacity) = parse(input, end) else { return };
        let capacity = capacity.starting_at(Duration::from_nanos(input.len() as u64 * 7_777_777));
        assert!(capacity.percentile(5) <= capacity.peak() && capacity.mean() <= capacity.peak());
        let mut at = Instant::ZERO;
        for _ in 0..100 {
            let Some(next) = capacity.next_change(at) else { break };
            assert!(next > at && capacity.rate_at(next) != capacity.rate_at(at));
            assert!(capacity.work_at(next) >= capacity.work_at(at));
            at = next;
        }
        let work = capacity.work_at(at).plus(Work::of(Bytes::new(1_500)));
        if let Some(sent) = capacity.instant_of(work) {
            assert!(sent == Instant::MAX || capacity.work_at(sent) >= work, "it is never early");
        }
        let mut bottleneck = Bottleneck::new(capacity, Buffer::Bytes(10_000));
        let mut last = Instant::ZERO;
        for length in [1_500, 40, 1_500, 9_000, 1] {
            let Some(sent) = bottleneck.offer(at, length) else { continue };
            assert!(sent >= last.max(at), "packets leave in their order");
            last = sent;
        }
    }
}
