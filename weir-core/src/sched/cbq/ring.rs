//! The general scheduler: rings of classes that take turns, and the credit of each for its turn.
//!
//! Invariant: a class is in at most one of these rings; the first one has the turn.

use crate::state::{Reader, State, StateError, Writer};
use alloc::vec::Vec;

/// How permitted classes of one priority take turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum General {
    /// Deficit round robin: a turn ends before the packet that it does not cover [drr95 §3].
    Drr,
    /// Weighted round robin by bytes: a turn ends after that packet, and the next turn is shorter
    /// by what was overdrawn; ALTQ forgave it [algorithms §3.8].
    Wrr,
    /// Packet round robin: a turn is one packet.
    Prr,
}

/// Numbered rings, and the classes in them.
pub(super) struct Rings {
    places: Vec<Place>,
    /// The first class of each ring; [`NONE`] for an empty ring.
    fronts: Vec<u32>,
    general: General,
}

#[derive(Clone, Copy)]
struct Place {
    previous: u32,
    next: u32,
    credit: i32,
}

impl Rings {
    /// Empty rings for classes numbered below `classes`.
    pub fn new(general: General, classes: usize, rings: usize) -> Self {
        let place = Place { previous: NONE, next: NONE, credit: 0 };
        let (places, fronts) = (alloc::vec![place; classes], alloc::vec![NONE; rings]);
        Self { places, fronts, general }
    }

    /// Returns the class that has the turn.
    pub fn front(&self, ring: usize) -> Option<usize> {
        let front = self.fronts[ring];
        (front != NONE).then_some(front as usize)
    }

    /// The class after this one in its ring.
    pub fn next(&self, class: usize) -> usize {
        self.places[class].next as usize
    }

    /// Gives the turn to `class`, which is in the ring.
    pub fn turn_to(&mut self, ring: usize, class: usize) {
        self.fronts[ring] = class as u32;
    }

    /// Appends `class`, with `credit` for its first turn; returns whether the ring was empty.
    pub fn push(&mut self, ring: usize, class: usize, credit: i32) -> bool {
        let front = self.fronts[ring];
        let (mut previous, mut next) = (class as u32, class as u32);
        if front == NONE {
            self.fronts[ring] = class as u32;
        } else {
            next = front;
            previous = core::mem::replace(&mut self.places[front as usize].previous, class as u32);
            self.places[previous as usize].next = class as u32;
        }
        // A debt remains while the class is not backlogged, so it cannot escape one by emptying.
        let credit = self.places[class].credit.min(0) + credit;
        self.places[class] = Place { previous, next, credit };
        front == NONE
    }

    /// Removes `class`; returns whether the ring is empty now.
    pub fn remove(&mut self, ring: usize, class: usize) -> bool {
        let Place { previous, next, .. } = self.places[class];
        if next as usize == class {
            self.fronts[ring] = NONE;
            return true;
        }
        self.places[previous as usize].next = next;
        self.places[next as usize].previous = previous;
        if self.fronts[ring] as usize == class {
            self.fronts[ring] = next;
        }
        false
    }

    /// Returns whether the turn of `class` covers a packet of `length`.
    pub fn covers(&self, class: usize, length: u32) -> bool {
        match self.general {
            General::Drr => self.places[class].credit >= units(length),
            General::Wrr => self.places[class].credit > 0,
            General::Prr => true,
        }
    }

    /// Adds a quantum to the credit of `class`, whose turn does not cover its packet.
    pub fn refill(&mut self, class: usize, quantum: i32) {
        let credit = &mut self.places[class].credit;
        *credit = credit.saturating_add(quantum);
    }

    /// Charges `class`, which is in `ring`, for a packet of `length`.
    pub fn pay(&mut self, ring: usize, class: usize, length: u32) {
        let place = &mut self.places[class];
        if self.general != General::Prr {
            place.credit = (place.credit - units(length)).max(CREDIT_MIN);
        } else if self.fronts[ring] as usize == class {
            self.fronts[ring] = place.next;
        }
    }

    /// Returns the debt of `class` for turns.
    pub fn debt(&self, class: usize) -> i32 {
        self.places[class].credit.min(0)
    }

    /// Sets the debt of `class`, which is in no ring, for turns.
    pub fn set_debt(&mut self, class: usize, debt: i32) {
        self.places[class].credit = debt;
    }
}

/// Returns the credit for `bytes`.
#[inline]
fn units(bytes: u32) -> i32 {
    (bytes.min(LENGTH_MAX) << CREDIT_BITS) as i32
}

/// Credit is counted in 2^-8 bytes, so that small quanta keep their proportions.
pub(super) const CREDIT_BITS: u32 = 8;
/// The largest debt for turns; a larger one would delay the ring by rounds of refills.
const CREDIT_MIN: i32 = -(1 << (18 + CREDIT_BITS));
/// Bound: bytes of a packet in a turn; a longer one counts as one of this length. Several of them
/// and a quantum, which is at most about 2^22 bytes, fit into a credit.
const LENGTH_MAX: u32 = 1 << 21;
/// Ends a ring of classes.
const NONE: u32 = u32::MAX;

/// The classes of each ring from its front on, and the credits of all; the places follow.
impl State for Rings {
    fn save(&self, to: &mut Writer) {
        let Self { places, fronts, general: _ } = self;
        for ring in 0..fronts.len() {
            to.number(self.members(ring).count() as u64);
            self.members(ring).for_each(|class| class.save(to));
        }
        for Place { previous: _, next: _, credit } in places {
            credit.save(to);
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let mut seen = alloc::vec![false; self.places.len()];
        for ring in 0..self.fronts.len() {
            self.fronts[ring] = NONE;
            for _ in 0..from.count(self.places.len(), "ring")? {
                let class = from.index(self.places.len(), "class of a ring")?;
                if core::mem::replace(&mut seen[class], true) {
                    return Err(StateError::Invalid("class in two rings"));
                }
                self.push(ring, class, 0);
            }
        }
        for Place { credit, .. } in &mut self.places {
            credit.load(from)?;
            if *credit < CREDIT_MIN {
                return Err(StateError::Invalid("credit"));
            }
        }
        Ok(())
    }
}

impl Rings {
    /// Returns the classes of a ring, from its front on.
    fn members(&self, ring: usize) -> impl Iterator<Item = usize> {
        let front = self.front(ring);
        let next = move |&class: &usize| Some(self.next(class)).filter(|&next| Some(next) != front);
        core::iter::successors(front, next)
    }

    /// Returns the ring of each class that is in one.
    pub fn of_classes(&self) -> Vec<Option<usize>> {
        let mut rings = alloc::vec![None; self.places.len()];
        for ring in 0..self.fronts.len() {
            self.members(ring).for_each(|class| rings[class] = Some(ring));
        }
        rings
    }
}
