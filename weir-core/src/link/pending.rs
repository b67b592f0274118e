//! Frames that were classified and not yet offered to the link: the run loop and a replay share the
//! rule by which they are offered, so that the two cannot differ.

use crate::packet::Arrival;
use crate::units::Instant;
use alloc::vec::Vec;

/// The frames of a lane that its link has not been offered, and the lane's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    arrivals: Vec<Arrival>,
    /// The latest instant that was passed to the classifier.
    classified: Instant,
    /// The latest instant that was passed to the link.
    now: Instant,
}

impl Pending {
    /// None, at this time of the link and of its classifier, with room for so many.
    pub fn at(now: Instant, classified: Instant, room: usize) -> Self {
        Self { arrivals: Vec::with_capacity(room), classified, now }
    }

    /// Returns the latest instant that was passed to the link.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the latest instant that was passed to the classifier.
    pub fn classified(&self) -> Instant {
        self.classified
    }

    /// Returns the frames that wait, in the order in which they were classified.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// As [`Pending::arrivals`], to move them to other leaves.
    pub fn arrivals_mut(&mut self) -> &mut Vec<Arrival> {
        &mut self.arrivals
    }

    /// Returns the instant at which a frame with this stamp is offered. A stamp may be a little
    /// earlier than the link's time.
    pub fn offer_at(&self, stamp: Instant) -> Instant {
        self.now.max(stamp)
    }

    /// Returns the instant at which a frame that is offered at `at` is classified. Frames of
    /// several rings are classified ring by ring.
    pub fn classify_at(&mut self, at: Instant) -> Instant {
        self.classified = self.classified.max(at);
        self.classified
    }

    /// Adds a frame, in any order of instants.
    pub fn push(&mut self, arrival: Arrival) {
        self.arrivals.push(arrival);
    }

    /// Returns the instant of the latest frame that waits.
    pub fn last(&mut self) -> Option<Instant> {
        if !self.arrivals.is_sorted_by_key(|arrival| arrival.at) {
            self.arrivals.sort_by_key(|arrival| arrival.at);
        }
        self.arrivals.last().map(|arrival| arrival.at)
    }

    /// Offers the frames that are due at `until`, in the order of their instants, and advances the
    /// link's time to it.
    pub fn serve<T>(&mut self, until: Instant, offer: impl FnOnce(&[Arrival]) -> T) -> T {
        // Sorts.
        self.last();
        let due = self.arrivals.partition_point(|arrival| arrival.at <= until);
        for arrival in &mut self.arrivals[..due] {
            arrival.at = arrival.at.max(self.now);
        }
        self.now = until;
        let served = offer(&self.arrivals[..due]);
        self.arrivals.drain(..due);
        served
    }

    /// Advances the link's time to `instant`, where it forfeits what it could have sent before.
    pub fn forfeit_before(&mut self, instant: Instant) {
        self.now = self.now.max(instant);
    }
}
