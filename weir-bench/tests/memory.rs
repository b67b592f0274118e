//! The memory of links is measured, and bounded. A single test, so that no other test allocates.

use weir_bench::bench::memory::{self, CLASS_BYTES_MAX, PACKET_BYTES_MAX};
use weir_host::pages::LargePages;

#[global_allocator]
static ALLOCATOR: LargePages = LargePages;

/// Schedulers that use more bytes per idle class than the limit: bounds slightly above their
/// present use.
const ABOVE: &[(&str, f64)] = &[("htb", 260.0), ("cbq", 320.0), ("hfsc", 320.0)];

#[test]
fn classes_and_packets_stay_within_their_bytes() {
    for keyword in ["fifo", "priq", "drr", "wrr", "sfq", "qfq", "htb", "cbq", "hfsc"] {
        let rows = memory::measure(&[keyword.to_owned()], 10_000, |_| {}).expect("registered");
        let row = &rows[0];
        let above = ABOVE.iter().find(|row| row.0 == keyword);
        let class_bytes_max = above.map_or(CLASS_BYTES_MAX, |row| row.1);
        assert!((16.0..=class_bytes_max).contains(&row.class_bytes), "{row:?}");
        assert!((16.0..=PACKET_BYTES_MAX).contains(&row.packet_bytes), "{row:?}");
        assert_eq!(row.holds, row.class_bytes <= CLASS_BYTES_MAX, "{row:?}");
    }
    assert!(memory::measure(&["fiffo".to_owned()], 1, |_| {}).is_err());
}
