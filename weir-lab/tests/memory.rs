//! What links keep in memory is measured, and bounded. One test, so that nobody else allocates.

use weir_lab::bench_memory::{self, CLASS_BYTES_MAX, PACKET_BYTES_MAX};
use weir_live::pages::LargePages;

#[global_allocator]
static ALLOCATOR: LargePages = LargePages;

#[test]
fn classes_and_packets_of_the_main_schedulers_keep_to_their_bytes() {
    for keyword in ["fifo", "drr", "qfq", "hfsc", "htb", "cbq"] {
        let rows = bench_memory::measure(Some(keyword), 10_000, |_| {}).expect("registered");
        assert!(rows[0].holds, "{rows:?}");
        assert!(
            rows[0].class_bytes > 16.0 && rows[0].packet_bytes > 16.0,
            "{rows:?} is too little"
        );
        assert!(rows[0].class_bytes <= CLASS_BYTES_MAX && rows[0].packet_bytes <= PACKET_BYTES_MAX);
    }
    assert!(bench_memory::measure(Some("fiffo"), 1, |_| {}).is_err());
}
