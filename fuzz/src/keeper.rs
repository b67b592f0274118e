//! Targets `desk` and `report`: what a forwarder that was taken over may send its keeper.

use weir_live::{authority, keeper};

/// Sends the input to a desk, whose ports have no interface: it must refuse whatever it is asked.
pub fn desk(input: &[u8]) {
    authority::exercise(input);
}

/// Reads the input as a report, and writes it down as a keeper does.
pub fn report(input: &[u8]) {
    keeper::messages::exercise(input);
}
