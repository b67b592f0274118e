//! The loop's side of a recorder.

use super::RECORDS_MAX;
use super::queue::Sender;
use crate::lane::{Lane, Loss};
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::AnyLink;
use weir_core::units::Instant;
use weir_record::{self as record, End, Fate, Pending, Step};

/// The steps of a lane in this turn; nothing while there is no record.
#[derive(Default)]
pub(crate) struct Steps(Option<Vec<u8>>);

impl Steps {
    /// Returns where steps are appended, if they are recorded.
    #[inline]
    pub(crate) fn get(&mut self) -> Option<&mut Vec<u8>> {
        self.0.as_mut()
    }

    /// Appends a step, if steps are recorded.
    #[inline]
    pub(crate) fn note(&mut self, step: &Step<'_>) {
        if let Some(steps) = &mut self.0 {
            step.write(steps);
        }
    }

    /// Appends the loss of a frame.
    #[inline]
    pub(crate) fn lost(
        &mut self,
        cause: Loss,
        (handle, leaf): (Handle, LeafId),
        length: u32,
        at: Instant,
    ) {
        self.note(&Step::Lost(record::Loss { handle, leaf, cause: cause as u8, length, at }));
    }

    /// Appends the loss of a frame that the link handed out.
    #[inline]
    pub(crate) fn lost_after(&mut self, cause: Loss, departure: &Departure, at: Instant) {
        let Departure { handle, leaf, charged, .. } = *departure;
        let length = u32::try_from(charged.get()).unwrap_or(u32::MAX);
        self.lost(cause, (handle, leaf), length, at);
    }
}

/// Who gets the steps of a loop's lanes.
#[derive(Default)]
pub(crate) struct Taps {
    senders: Vec<Sender>,
}

impl Taps {
    /// Lets these get steps, too, each from the state of the lanes on.
    pub(crate) fn add(taps: &mut Option<Box<Self>>, new: Vec<Sender>, lanes: &mut [Lane]) {
        let on = taps.get_or_insert_default();
        for mut sender in new {
            if on.senders.len() < RECORDS_MAX && begin(&mut sender, lanes) {
                on.senders.push(sender);
            } else {
                sender.end(End::State);
            }
        }
        if on.senders.is_empty() {
            *taps = None;
            return;
        }
        for lane in lanes {
            lane.steps().0.get_or_insert_with(|| Vec::with_capacity(TURN_BYTES));
        }
    }

    /// Hands over the steps of a turn. One who cannot take them gets no more.
    pub(crate) fn hand_over(taps: &mut Option<Box<Self>>, lanes: &mut [Lane]) {
        let Some(on) = taps else { return };
        for (number, lane) in (0..).zip(&mut *lanes) {
            let Some(steps) = lane.steps().get().filter(|steps| !steps.is_empty()) else {
                continue;
            };
            on.senders.retain_mut(|sender| {
                let is_on = !sender.is_closed() && sender.send(number, steps);
                if !is_on {
                    sender.end(End::Behind);
                }
                is_on
            });
            steps.clear();
        }
        if on.senders.is_empty() {
            lanes.iter_mut().for_each(|lane| lane.steps().0 = None);
            *taps = None;
        }
    }
}

/// Sends the state of each lane; returns whether there was room for it.
fn begin(sender: &mut Sender, lanes: &[Lane]) -> bool {
    let mut part = Vec::new();
    (0..).zip(lanes).all(|(number, lane)| {
        part.clear();
        lane.checkpoint(&mut part);
        sender.send(number, &part)
    })
}

/// Appends what a record of a lane begins with: the state of link and classifier, and the frames
/// that wait to be offered.
pub(crate) fn checkpoint(
    pending: &Pending,
    (link, classifier): (&dyn AnyLink, &Classifier),
    out: &mut Vec<u8>,
) {
    let state = saved(link, classifier);
    let (now, classified) = (pending.now(), pending.classified());
    Step::Checkpoint { now, classified, state: &state }.write(out);
    resumed(pending, out);
}

/// Appends the frames that wait to be offered, as they are now.
pub(crate) fn resumed(pending: &Pending, out: &mut Vec<u8>) {
    for arrival in pending.arrivals() {
        let (at, leaf, packet) = (arrival.at, arrival.leaf, arrival.packet);
        // By which port it came, the classifier has been told.
        let (port, fate) = (InterfaceId(0), Fate::Resumed);
        record::Arrival { at, port, leaf, packet, fate, headers: &[] }.write(out);
    }
}

fn saved(_link: &dyn AnyLink, _classifier: &Classifier) -> Vec<u8> {
    Vec::new()
}

/// More than the steps of most turns take.
const TURN_BYTES: usize = 256 << 10;
