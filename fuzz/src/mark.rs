//! Target `mark`: reads any bytes as payloads of packets, and counts them as a receiver does.

use weir_traffic::arrivals::{Arrival, Arrivals};
use weir_traffic::mark::{MARK_BYTES, Mark};

/// Reads the input as payloads of 24 bytes each.
///
/// # Panics
/// If a mark does not read back, or the counts of what arrived contradict each other.
pub fn mark(input: &[u8]) {
    let mut arrivals = Arrivals::default();
    let mut packets = 0;
    for (at, payload) in input.chunks(MARK_BYTES).enumerate() {
        let mark = Mark::read(payload);
        if let Some(mark) = mark {
            assert_eq!(Mark::read(&mark.bytes()), Some(mark), "it reads back");
        }
        let at_ns = at as u64;
        let bytes = payload.len() as u64;
        arrivals.packet(&Arrival { mark, bytes, at_ns, at_of_mark_ns: at as i64 });
        packets += 1;
    }
    let report = arrivals.report("udp", String::new(), None);
    assert!(report.packets <= packets, "an end mark is no packet");
    assert!(report.duplicated + report.reordered <= report.packets, "a packet is one of them");
}
