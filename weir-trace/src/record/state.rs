//! The state of a lane in a record.

use super::step::{Arrival, Fate, Step};
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::link::{AnyLink, Pending};
use weir_core::state::{Reader, StateError, Writer};

/// Appends what a record of a lane begins with: the state of link and classifier, and the frames
/// that wait to be offered.
pub fn checkpoint(
    pending: &Pending,
    (link, classifier): (&dyn AnyLink, &Classifier),
    out: &mut Vec<u8>,
) {
    let state = save(link, classifier);
    let (now, classified) = (pending.now(), pending.classified());
    Step::Checkpoint { now, classified, state: &state }.write(out);
    resumed(pending, out);
}

/// Appends the frames that wait to be offered, as they are now: also behind [`Step::Change`].
pub fn resumed(pending: &Pending, out: &mut Vec<u8>) {
    for arrival in pending.arrivals() {
        let (at, leaf, packet) = (arrival.at, arrival.leaf, arrival.packet);
        // By which port it came, the classifier has been told.
        let (port, fate) = (InterfaceId(0), Fate::Resumed);
        Arrival { at, port, leaf, packet, fate, headers: &[] }.write(out);
    }
}

/// Returns the state of [`Step::Checkpoint`].
pub fn save(link: &dyn AnyLink, classifier: &Classifier) -> Vec<u8> {
    let mut writer = Writer::new();
    link.save(&mut writer);
    classifier.save(&mut writer);
    writer.into_bytes()
}

/// Restores the state of [`Step::Checkpoint`] in a link of `leaves` leaves and a classifier that
/// were just built from the same policy.
///
/// # Errors
/// When the bytes are not the state of such a link and such a classifier.
pub fn restore(
    state: &[u8],
    link: &mut dyn AnyLink,
    classifier: &mut Classifier,
    leaves: usize,
) -> Result<(), StateError> {
    let mut reader = Reader::new(state);
    link.load(&mut reader)?;
    classifier.load(leaves, &mut reader)
}
