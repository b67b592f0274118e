//! The steps of a lane in one turn, for a record.

use crate::lane::Loss;
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::units::Instant;
use weir_trace::record::{self, Step};

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
    pub(super) fn write_idle(&mut self) {
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
    pub(super) fn waiting(&mut self) -> Option<&mut Vec<u8>> {
        self.out.as_mut().filter(|steps| !steps.is_empty())
    }

    pub(super) fn begin(&mut self) {
        self.out.get_or_insert_with(|| Vec::with_capacity(TURN_BYTES));
    }

    pub(super) fn end(&mut self) {
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

/// More than the steps of most turns take.
const TURN_BYTES: usize = 256 << 10;
