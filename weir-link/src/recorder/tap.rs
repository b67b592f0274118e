//! The loop's side of a recorder.

use super::RECORDS_MAX;
use super::queue::Sender;
use crate::lane::Lane;
use weir_trace::record::End;

/// Recorders that get the steps of a loop's lanes.
#[derive(Default)]
pub(crate) struct Taps {
    senders: Vec<Sender>,
}

impl Taps {
    /// Lets these get steps, too, each from the state of the lanes on.
    pub(crate) fn add(taps: &mut Option<Box<Self>>, new: Vec<Sender>, lanes: &mut [Lane]) {
        // What came before the state belongs to those who had the one before.
        Self::hand_over(taps, lanes);
        let on = taps.get_or_insert_default();
        on.senders.retain(|sender| !sender.is_closed());
        for mut sender in new {
            if on.senders.len() < RECORDS_MAX && begin(&mut sender, lanes) {
                on.senders.push(sender);
            } else {
                sender.end(End::State);
            }
        }
        if on.senders.is_empty() {
            lanes.iter_mut().for_each(|lane| lane.steps().end());
            *taps = None;
            return;
        }
        lanes.iter_mut().for_each(|lane| lane.steps().begin());
    }

    /// Hands over the steps of a turn. One who cannot take them gets no more.
    pub(crate) fn hand_over(taps: &mut Option<Box<Self>>, lanes: &mut [Lane]) {
        let Some(on) = taps else { return };
        // Once a turn: a request that comes from here on is met in the next.
        let receive =
            |was_received, sender: &mut Sender| sender.receive_state_request() | was_received;
        if on.senders.iter_mut().fold(false, receive) {
            // The state has what was served in vain, too.
            lanes.iter_mut().for_each(|lane| lane.steps().write_idle());
        }
        for (number, lane) in (0..).zip(&mut *lanes) {
            let Some(steps) = lane.steps().waiting() else { continue };
            on.senders.retain_mut(|sender| {
                let is_on = !sender.is_closed() && sender.send(number, steps);
                if !is_on {
                    sender.end(End::Behind);
                }
                is_on
            });
            steps.clear();
        }
        on.senders.retain_mut(|sender| {
            let is_on = !sender.take_state_request() || begin(sender, lanes);
            if !is_on {
                sender.end(End::State);
            }
            is_on
        });
        if on.senders.is_empty() {
            lanes.iter_mut().for_each(|lane| lane.steps().end());
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
