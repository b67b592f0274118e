//! The formal rule, evaluated as things change: no packet looks at all classes.
//!
//! A class may send if it conforms, or if a class above it conforms from which it may borrow and no
//! class of a lower level anywhere is unsatisfied [algorithms §1]. So those who may send are those
//! below the unsatisfied classes of the lowest level that has any: one row of rings a level.
//! Invariant: an active class that conforms is in the row of its level; one that is overlimit and may
//! borrow is in the ring of its parent, which makes the parent active; every other active class
//! waits. All that are overlimit are among the waits.

use super::classes::{Classes, General};
use super::ring::Rings;
use super::waits::{Waits, Wake};
use crate::ids::LeafId;
use crate::sched::tree::DEPTH_MAX;
use crate::sched::{Head, Selection};
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// The engine of the formal rule.
pub(super) struct Formal {
    classes: Classes,
    seats: Vec<Seat>,
    rings: Rings,
    /// For each level the priorities that have a conforming class.
    ready: [u8; ROWS],
    waits: Waits,
    efficient: bool,
}

/// Where a class stands.
struct Seat {
    place: Place,
    /// The priorities for which something waits at or below the class and is not served below it.
    active: u8,
    /// Its node for the lowest priority; a leaf has one node, others one a priority.
    node: u32,
    /// Its ring of borrowing children for the lowest priority.
    ring: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Conforms: in the row of its level.
    Ready,
    /// Overlimit: in the ring of its parent.
    Borrowing,
    /// Overlimit and may not borrow, but `efficient` serves it when nobody else may send.
    LastResort,
    /// Overlimit and may not borrow.
    Blocked,
}

impl Formal {
    /// The engine for `classes`, nothing waiting.
    pub fn new(classes: Classes, general: General, efficient: bool) -> Self {
        let priorities = classes.priorities();
        let interior = classes.iter().filter(|class| class.leaf.is_none()).count();
        let mut rings = Rings::new(general, (ROWS + interior) * priorities);
        let mut seats = Vec::with_capacity(classes.iter().len());
        let mut ring = (ROWS * priorities) as u32;
        for (index, class) in classes.iter().enumerate() {
            let node = rings.add_node(index);
            seats.push(Seat { place: Place::Blocked, active: 0, node, ring });
            if class.leaf.is_none() {
                (1..priorities).for_each(|_| _ = rings.add_node(index));
                ring += priorities as u32;
            }
        }
        let waits = Waits::new(seats.len());
        Self { classes, seats, rings, ready: [0; ROWS], waits, efficient }
    }

    /// `leaf` has a first packet now, or another one, or none.
    pub fn set_head(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        let class = self.classes.of_leaf(leaf);
        let bit = 1 << self.classes.at(class).priority;
        let was_backlogged = self.classes.at(class).backlogged;
        self.classes.set_head(class, head.map(|head| head.length));
        match (was_backlogged, head.is_some()) {
            (false, true) => self.activate(now, class, bit),
            (true, false) => self.deactivate(class, bit),
            _ => {}
        }
    }

    /// Who may send.
    pub fn select(&mut self, now: Instant) -> Selection {
        self.wake_due(now);
        for level in 0..ROWS {
            if self.ready[level] != 0 {
                let rank = self.ready[level].ilog2() as usize;
                let class = self.turn(self.row(level, rank), rank, level);
                let leaf = self.classes.at(class).leaf.expect("a turn ends at a leaf");
                return Selection::Leaf(leaf);
            }
        }
        let (classes, seats) = (&self.classes, &self.seats);
        let earliest = self.waits.earliest(|class| wake(classes, seats, class));
        earliest.map_or(Selection::Idle, Selection::At)
    }

    /// `leaf`, just selected, sent a packet.
    pub fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let class = self.classes.of_leaf(leaf);
        self.pay(class, sent);
        self.set_head(now, leaf, next);
        self.classes.charge(now, class, sent);
        let (link, mut at) = (self.classes.link(), class);
        while at != link {
            let overlimit = !self.classes.at(at).meter.conforms(now);
            if overlimit && self.seats[at].active != 0 && self.seats[at].place == Place::Ready {
                self.change_place(now, at);
            }
            at = self.classes.parent(at);
        }
    }

    /// Moves the classes that conform by now into their rows.
    fn wake_due(&mut self, now: Instant) {
        loop {
            let (classes, seats) = (&self.classes, &self.seats);
            let due = self.waits.pop_due(now, |class| wake(classes, seats, class));
            let Some(class) = due else { return };
            self.change_place(now, class);
        }
    }

    /// The class whose turn it is in `ring`, and below it, down to a leaf.
    ///
    /// Ends: every round adds a quantum to each credit, and one of them must reach one packet.
    fn turn(&mut self, ring: usize, rank: usize, level: usize) -> usize {
        loop {
            let node = self.rings.front(ring).expect("an active priority has a class in its ring");
            let at = self.rings.class(node);
            let mut leaf = at;
            if self.classes.at(at).leaf.is_none() {
                leaf = self.turn(self.seats[at].ring as usize + rank, rank, FEED);
            }
            if self.rings.covers(node, self.classes.at(leaf).head) {
                return leaf;
            }
            self.rings.refill(node, self.quantum(at, level));
            self.rings.turn_to(ring, self.rings.next(node));
        }
    }

    /// Takes a packet from the credit of each turn that led to it.
    fn pay(&mut self, class: usize, sent: Bytes) {
        let rank = self.classes.at(class).priority;
        let mut at = class;
        loop {
            let Some(ring) = self.ring_of(at, rank.into()) else { return };
            self.rings.pay(ring, self.node(at, rank.into()), sent);
            if self.seats[at].place != Place::Borrowing {
                return;
            }
            at = self.classes.parent(at);
        }
    }

    /// Something of the priorities `bits` begins to wait at `class`.
    fn activate(&mut self, now: Instant, class: usize, bits: u8) {
        let (mut at, mut bits) = (class, bits);
        while bits != 0 {
            assert_eq!(self.seats[at].active & bits, 0, "a class becomes active once");
            if self.seats[at].active == 0 {
                self.seats[at].place = self.place(now, at);
            }
            self.seats[at].active |= bits;
            if self.seats[at].place != Place::Ready {
                self.waits.push(at, self.classes.at(at).meter.conforms_at());
            }
            bits = self.join(at, bits);
            at = self.classes.parent(at);
        }
    }

    /// Nothing of the priorities `bits` waits at `class` any more.
    fn deactivate(&mut self, class: usize, bits: u8) {
        let (mut at, mut bits) = (class, bits);
        while bits != 0 {
            self.seats[at].active &= !bits;
            bits = self.leave(at, bits);
            at = self.classes.parent(at);
        }
    }

    /// `class`, active, became overlimit or conforms again.
    fn change_place(&mut self, now: Instant, class: usize) {
        let bits = self.seats[class].active;
        self.deactivate(class, bits);
        self.activate(now, class, bits);
    }

    fn place(&self, now: Instant, class: usize) -> Place {
        let at = self.classes.at(class);
        if at.meter.conforms(now) {
            return Place::Ready;
        }
        match (at.borrow, self.efficient && at.leaf.is_none()) {
            (true, _) => Place::Borrowing,
            (false, true) => Place::LastResort,
            (false, false) => Place::Blocked,
        }
    }

    /// Puts `class` into its rings; answers the priorities that are new to its parent.
    fn join(&mut self, class: usize, bits: u8) -> u8 {
        let mut fresh = 0;
        let level = self.level(class);
        // Who conforms is owed its rate, so its first turn covers a packet whatever its quantum.
        let least = if level == FEED { 0 } else { self.classes.packet() };
        let credit = self.quantum(class, level).max(least);
        for rank in ranks(bits) {
            let Some(ring) = self.ring_of(class, rank) else { return 0 };
            if self.rings.push(ring, self.node(class, rank), credit) {
                fresh |= 1 << rank;
            }
        }
        if level == FEED {
            return fresh;
        }
        self.ready[level] |= fresh;
        0
    }

    /// Takes `class` out of its rings; answers the priorities that its parent loses with it.
    fn leave(&mut self, class: usize, bits: u8) -> u8 {
        let mut emptied = 0;
        let level = self.level(class);
        for rank in ranks(bits) {
            let Some(ring) = self.ring_of(class, rank) else { return 0 };
            if self.rings.remove(ring, self.node(class, rank)) {
                emptied |= 1 << rank;
            }
        }
        if level == FEED {
            return emptied;
        }
        self.ready[level] &= !emptied;
        0
    }

    /// The row that `class` is in, [`FEED`] if it is in no row.
    fn level(&self, class: usize) -> usize {
        match self.seats[class].place {
            Place::Ready => self.classes.at(class).level.into(),
            Place::LastResort => LAST_RESORT,
            Place::Borrowing | Place::Blocked => FEED,
        }
    }

    /// The ring that `class` takes turns in, `None` if it only waits.
    fn ring_of(&self, class: usize, rank: usize) -> Option<usize> {
        match self.seats[class].place {
            Place::Ready | Place::LastResort => Some(self.row(self.level(class), rank)),
            Place::Borrowing => Some(self.seats[self.classes.parent(class)].ring as usize + rank),
            Place::Blocked => None,
        }
    }

    fn row(&self, level: usize, rank: usize) -> usize {
        level * self.classes.priorities() + rank
    }

    fn node(&self, class: usize, rank: usize) -> u32 {
        let rank = if self.classes.at(class).leaf.is_some() { 0 } else { rank };
        self.seats[class].node + rank as u32
    }

    fn quantum(&self, class: usize, level: usize) -> i64 {
        let class = self.classes.at(class);
        if level == FEED { class.quantum_borrow } else { class.quantum_own }
    }
}

fn wake(classes: &Classes, seats: &[Seat], class: usize) -> Wake {
    if seats[class].active == 0 || seats[class].place == Place::Ready {
        return Wake::Gone;
    }
    Wake::Until(classes.at(class).meter.conforms_at())
}

/// The numbers of the bits that are set.
fn ranks(bits: u8) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)))
        .take_while(|&bits| bits != 0)
        .map(|bits| bits.trailing_zeros() as usize)
}

/// The row of blocked classes for `efficient`: after the link's.
const LAST_RESORT: usize = DEPTH_MAX + 1;
const ROWS: usize = LAST_RESORT + 1;
/// No row: the ring of a parent.
const FEED: usize = usize::MAX;
