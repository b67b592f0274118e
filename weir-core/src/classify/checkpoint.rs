//! A classifier as bytes, and back: see [`crate::state`].
//!
//! Only what later fragments follow is state. Rules, targets and marks are the policy's; the flow
//! cache holds no decision that the rules would not give, so it is not written, and a forged
//! checkpoint cannot put one there. Invariant: a classifier that was loaded and the one that was
//! saved decide the same from then on.

use super::{Classifier, Fragments};
use crate::state::{Kind, PlanHasher, Reader, StateError, Writer, open, seal};

impl Classifier {
    /// Writes a checkpoint: everything but the rules that decides where packets go.
    pub fn save(&self, to: &mut Writer) {
        seal(to, Kind::Classifier, self.fingerprint(), |to| match &self.fragments {
            Fragments::Alone | Fragments::AltqBroken => {}
            Fragments::Follow(table) => table.save(to),
            Fragments::AltqFixed(table) => table.save(to),
        });
    }

    /// Continues from a checkpoint of a classifier with the same targets, default and fragment
    /// policy, for a link with this many leaves: with the same rules, it decides from now on as
    /// that one did. After an error it must not be used.
    ///
    /// # Errors
    /// When the bytes are damaged, of another plan, or send a packet to a leaf that is not there.
    pub fn load(&mut self, leaves: usize, from: &mut Reader<'_>) -> Result<(), StateError> {
        let from = &mut open(from, Kind::Classifier, self.fingerprint())?;
        match &mut self.fragments {
            Fragments::Alone | Fragments::AltqBroken => {}
            Fragments::Follow(table) => table.load(leaves, from)?,
            Fragments::AltqFixed(table) => table.load(from)?,
        }
        let is_read = from.rest().is_empty();
        if is_read { Ok(()) } else { Err(StateError::Invalid("end of the checkpoint")) }
    }

    /// Returns the same number for classifiers of one policy, and usually another for others.
    fn fingerprint(&self) -> u64 {
        let (kind, places) = match &self.fragments {
            Fragments::Alone => (0u8, None),
            Fragments::Follow(table) => (1, Some(table.limits())),
            Fragments::AltqBroken => (2, None),
            Fragments::AltqFixed(_) => (3, None),
        };
        PlanHasher::of(&(kind, places, self.rules().targets(), self.default))
    }
}
