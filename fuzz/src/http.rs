//! Target `http`: meets any bytes as requests of HTTP, to a link and to its page.

use std::sync::{Arc, OnceLock};
use weir_gateway::live::Live;
use weir_gateway::source::Source;
use weir_link::status::{Amount, ClassStatus, LaneStatus, Status};

/// Reads the input as both servers read what a client sends, and answers.
pub fn http(input: &[u8]) {
    weir_gateway::api::exercise(input);
    static PAGE: OnceLock<Arc<dyn Source>> = OnceLock::new();
    let page = PAGE.get_or_init(|| Arc::new(Live::gone([&status(0), &status(1000)])));
    weir_gateway::page::exercise(input, Arc::clone(page));
}

/// A link whose class sent so many packets.
fn status(packets: u64) -> Status {
    let sent = Amount { packets, bytes: 100 * packets };
    let class = ClassStatus {
        name: "voice".to_owned(),
        offered: sent,
        sent,
        dropped: vec![("full".to_owned(), Amount { packets: packets / 10, bytes: 0 })],
        bins: Some(vec![(1_015_807, packets)]),
        ..ClassStatus::default()
    };
    let lane = LaneStatus { name: "up".to_owned(), classes: vec![class], ..LaneStatus::default() };
    Status { lanes: vec![lane], ..Status::default() }
}
