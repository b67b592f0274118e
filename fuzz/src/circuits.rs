//! Targets `circuits` and `radius`: what sources say of circuits, and what the process that reads
//! it may tell its keeper once it was taken over.

use weir_daemon::circuits::{accounting, feed};
use weir_daemon::keeper;

/// Follows the input as a feed and as a file of circuits, and reads it as messages of the process.
pub fn circuits(input: &[u8]) {
    feed::exercise(input);
    keeper::circuits::exercise(input);
}

/// Receives the input as a packet of a client of RADIUS.
pub fn radius(input: &[u8]) {
    accounting::exercise(input);
}
