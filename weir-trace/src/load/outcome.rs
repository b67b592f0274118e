//! The departures and drops of a record, and whether a replay of its load has the same.
//!
//! Invariant: what is compared is what `weir replay --record` compares, every field of each
//! departure and each drop, in the order of the record.

use super::{Happened, Load};
use crate::recorded::{departed, dropped, plain};
use weir_core::event::{Departure, Dropped};
use weir_core::ids::Handle;
use weir_core::units::Instant;

/// The departures and drops of a record.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The packets that left, with the handles of the record.
    pub departures: Vec<Departure>,
    /// The packets that were dropped, with the handles of the record.
    pub drops: Vec<Dropped>,
    /// The handle that the record gives each packet of the load.
    pub(super) handles: Vec<u32>,
}

/// A comparison of a replay with an outcome, up to an instant.
#[derive(Debug)]
pub struct Compared<'a> {
    load: &'a Load,
    outcome: &'a Outcome,
    /// How many were the same so far.
    departures: usize,
    drops: usize,
    until: Instant,
    difference: Option<(Instant, String)>,
}

impl<'a> Compared<'a> {
    /// Nothing was compared yet; `load` and `outcome` are of one record, and later differences than
    /// `until` are none.
    pub fn new(load: &'a Load, outcome: &'a Outcome, until: Instant) -> Self {
        Self { load, outcome, departures: 0, drops: 0, until, difference: None }
    }

    /// Compares what happened next.
    pub fn note(&mut self, happened: &Happened<'_>) {
        if self.difference.is_some() {
            return;
        }
        match happened {
            Happened::Left(left) if left.at <= self.until => {
                let handle = self.recorded(left.handle);
                let found = plain(Departure { handle, ..**left });
                let expected = self.outcome.departures.get(self.departures).copied().map(plain);
                self.departures += 1;
                if expected != Some(found) {
                    let expected = expected.filter(|row| row.at <= self.until);
                    let at = expected.map_or(found.at, |row| row.at.min(found.at));
                    self.differs(at, expected.as_ref().map(departed), departed(&found));
                }
            }
            Happened::Dropped(one, _) if one.at <= self.until => {
                let handle = self.recorded(one.handle);
                let found = Dropped { handle, ..**one };
                let expected = self.outcome.drops.get(self.drops).copied();
                self.drops += 1;
                if expected != Some(found) {
                    let expected = expected.filter(|row| row.at <= self.until);
                    let at = expected.map_or(found.at, |row| row.at.min(found.at));
                    self.differs(at, expected.as_ref().map(dropped), dropped(&found));
                }
            }
            _ => {}
        }
    }

    /// Returns when the replay differs first from the record, and how; `None` if it does not.
    pub fn finish(mut self) -> Option<(Instant, String)> {
        if self.difference.is_none() {
            let in_time = |at: &Instant| *at <= self.until;
            let departures = self.outcome.departures.get(self.departures);
            let drops = self.outcome.drops.get(self.drops);
            if let Some(left) = departures.copied().filter(|left| in_time(&left.at)) {
                self.differs(left.at, Some(departed(&left)), "nothing more".to_owned());
            } else if let Some(one) = drops.copied().filter(|one| in_time(&one.at)) {
                self.differs(one.at, Some(dropped(&one)), "nothing more".to_owned());
            }
        }
        self.difference
    }

    /// Returns the handle that the record gives a packet of the replay.
    fn recorded(&self, handle: Handle) -> Handle {
        let place = self.load.place(handle);
        let recorded = place.and_then(|place| self.outcome.handles.get(place));
        recorded.map_or(handle, |&recorded| Handle(recorded))
    }

    fn differs(&mut self, at: Instant, expected: Option<String>, found: String) {
        let expected = expected.unwrap_or_else(|| "nothing more".to_owned());
        self.difference = Some((at, format!("recorded: {expected}; found: {found}")));
    }
}
