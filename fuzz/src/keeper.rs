//! Targets `authority`, `report` and `reservations`: what a forwarder, or the process of
//! reservations, that was taken over may send its keeper.

use weir_daemon::keeper;
use weir_link::authority;

/// Sends the input to an authority server, whose ports have no interface: it must refuse whatever
/// it is asked.
pub fn authority(input: &[u8]) {
    authority::exercise(input);
}

/// Reads the input as a report, and writes it down as a keeper does.
pub fn report(input: &[u8]) {
    keeper::messages::exercise(input);
}

/// Reads the input as what the process of reservations says, and tells it as a keeper does.
pub fn reservations(input: &[u8]) {
    keeper::rsvp::exercise(input);
}
