//! The loop's side of a recorder.

use super::RECORDS_MAX;
use super::queue::Sender;
use crate::lane::{Lane, Loss};
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::units::Instant;
use weir_trace::record::{self, End, Step};

/// The steps of a lane in this turn; nothing while there is no record.
///
/// Serves that did nothing in a row are one step, up to the last: a loop that polls makes millions
/// a second, and no decision depends on how often it does (ARCHITECTURE.md, "Time").
#[derive(Default)]
pub(crate) struct Steps {
    out: Option<Vec<u8>>,
    /// Up to when the link was served in vain since the last step.
    idle: Option<Instant>,
}

impl Steps {
    /// Returns where steps are appended, if they are recorded.
    #[inline]
    pub(crate) fn get(&mut self) -> Option<&mut Vec<u8>> {
        let out = self.out.as_mut()?;
        if let Some(until) = self.idle.take() {
            Step::Serve { until }.write(out);
        }
        Some(out)
    }

    /// Appends that the link was served in vain, if it was.
    fn write_idle(&mut self) {
        let _written = self.get();
    }

    /// Appends a step, if steps are recorded.
    #[inline]
    pub(crate) fn note(&mut self, step: &Step<'_>) {
        if let Some(steps) = self.get() {
            step.write(steps);
        }
    }

    /// Appends that the link was served: it was offered so many frames, and handed these out.
    #[inline]
    pub(crate) fn served(&mut self, until: Instant, offered: usize, departures: &[Departure]) {
        let Some(out) = &mut self.out else { return };
        if offered == 0 && departures.is_empty() {
            self.idle = Some(until);
            return;
        }
        self.idle = None;
        Step::Serve { until }.write(out);
        departures.iter().for_each(|left| Step::Departure(*left).write(out));
    }

    /// Returns the steps that wait to be handed over.
    fn waiting(&mut self) -> Option<&mut Vec<u8>> {
        self.out.as_mut().filter(|steps| !steps.is_empty())
    }

    fn begin(&mut self) {
        self.out.get_or_insert_with(|| Vec::with_capacity(TURN_BYTES));
    }

    fn end(&mut self) {
        *self = Self::default();
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
        // Once a turn: a wish that comes from here on is granted in the next.
        let hear = |is_wished, sender: &mut Sender| sender.hear_state_wish() | is_wished;
        if on.senders.iter_mut().fold(false, hear) {
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
            let is_on = !sender.take_state_wish() || begin(sender, lanes);
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

/// More than the steps of most turns take.
const TURN_BYTES: usize = 256 << 10;
