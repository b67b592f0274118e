//! The formal rule, evaluated as things change: no packet looks at all classes.
//!
//! A class may send if it conforms, or if a class above it conforms from which it may borrow and no
//! class of a lower level anywhere is unsatisfied [algorithms §1]. So those who may send are those
//! below the unsatisfied classes of the lowest level that has any: one row of rings a level.
//! Invariant: a class is active if something waits below it that could borrow up to it. Active
//! classes that may borrow are in the ring of their parent, whether they need to or not, so that
//! none loses its turn by conforming now and then. Those that conform are in the row of their
//! level, the others among the waits. When a class lends, no row below is occupied, so whoever is
//! in its ring needs to borrow.

use super::classes::{Classes, General};
use super::ring::Rings;
use super::waits::{Waits, Wake};
use crate::ids::LeafId;
use crate::sched::tree::DEPTH_MAX;
use crate::sched::{Head, Kin, Selection, Why};
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
#[derive(Clone, Copy)]
struct Seat {
    row: Row,
    /// The priorities for which the class is active.
    active: u8,
    /// Its nodes for turns in its row and for turns at its parent, of the lowest priority; a leaf
    /// has one of each, other classes one a priority.
    own: u32,
    borrow: u32,
    /// Its ring of children that may borrow, of the lowest priority.
    ring: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// Conforms: in the row of its level.
    Ready,
    /// Overlimit: waits.
    Waiting,
    /// Overlimit and waits; `efficient` lets those below it send when nobody else may.
    LastResort,
}

impl Formal {
    /// The engine for `classes`, nothing waiting.
    pub fn new(classes: Classes, general: General, efficient: bool) -> Self {
        let priorities = classes.priorities();
        let interior = classes.iter().filter(|class| class.leaf.is_none()).count();
        let mut rings = Rings::new(general, (ROWS + interior) * priorities);
        let mut seats = Vec::with_capacity(classes.iter().len());
        let mut ring = ROWS * priorities;
        for (index, class) in classes.iter().enumerate() {
            let nodes = if class.leaf.is_some() { 1 } else { priorities };
            let own = rings.add_nodes(index, nodes);
            let borrow = rings.add_nodes(index, nodes);
            seats.push(Seat { row: Row::Waiting, active: 0, own, borrow, ring: ring as u32 });
            if class.leaf.is_none() {
                ring += priorities;
            }
        }
        rings.shrink();
        let waits = Waits::new(seats.len());
        Self { classes, seats, rings, ready: [0; ROWS], waits, efficient }
    }

    /// `leaf`, which was empty, has a first packet.
    #[inline]
    pub fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        let class = self.classes.of_leaf(leaf);
        if self.classes.at(class).backlogged {
            return self.classes.set_head(class, Some(head.length));
        }
        self.classes.set_head(class, Some(head.length));
        self.activate_leaf(now, class);
    }

    /// `leaf` has a first packet now, or another one, or none.
    pub fn set_head(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        let class = self.classes.of_leaf(leaf);
        let was_backlogged = self.classes.at(class).backlogged;
        self.classes.set_head(class, head.map(|head| head.length));
        match (was_backlogged, head.is_some()) {
            (false, true) => self.activate_leaf(now, class),
            (true, false) => self.deactivate_leaf(class),
            _ => {}
        }
    }

    /// Who may send.
    pub fn select(&mut self, now: Instant) -> Selection {
        self.wake_due(now);
        for level in 0..ROWS {
            if self.ready[level] != 0 {
                let rank = self.ready[level].ilog2() as usize;
                let class = self.turn(self.row_ring(level, rank), rank, true);
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
        let overlimit = self.pay(now, class, sent);
        match next {
            // It stays where it is, as each further packet of a run leaves it.
            Some(head) => self.classes.set_head(class, Some(head.length)),
            None => {
                self.classes.set_head(class, None);
                self.deactivate_leaf(class);
            }
        }
        if overlimit {
            self.leave_ready(now, class);
        }
    }

    /// Moves `class` and those above it that do not conform any more out of their rows.
    #[inline(never)]
    fn leave_ready(&mut self, now: Instant, class: usize) {
        let (link, mut at) = (self.classes.link(), class);
        while at != link {
            let overlimit = !self.classes.at(at).meter.conforms(now);
            if overlimit && self.seats[at].active != 0 && self.seats[at].row == Row::Ready {
                self.change_row(now, at);
            }
            at = self.classes.parent(at);
        }
    }

    /// How many bytes `leaf`, just selected, may send in a row: as long as every turn that led to
    /// it covers them, and no class on the way up changes its row.
    pub fn allowance(&self, now: Instant, leaf: LeafId) -> Bytes {
        let class = self.classes.of_leaf(leaf);
        let bytes = self.turn_left(class);
        if bytes == Bytes::ZERO {
            return bytes;
        }
        let link = self.classes.link();
        let mut at = class;
        while at != link {
            let class = self.classes.at(at);
            let (meter, terms) = (&class.meter, self.classes.terms(class));
            let is_ready = self.seats[at].active != 0 && self.seats[at].row == Row::Ready;
            if !(if is_ready { meter.covers(terms, now, bytes) } else { terms.may_owe(bytes) }) {
                return Bytes::ZERO;
            }
            at = class.parent as usize;
        }
        bytes
    }

    /// The leaves that conform and whose turns come next.
    pub fn line_up(&self, leaves: &mut [LeafId]) -> usize {
        if self.ready[0] == 0 {
            return 0;
        }
        let ring = self.row_ring(0, self.ready[0].ilog2() as usize);
        let first = self.rings.front(ring);
        let (mut node, mut count) = (first, 0);
        while let Some((place, at)) = leaves.get_mut(count).zip(node) {
            let leaf = self.classes.at(self.rings.class(at)).leaf;
            *place = leaf.expect("the row of the lowest level holds leaves");
            count += 1;
            node = Some(self.rings.next(at)).filter(|&next| Some(next) != first);
        }
        count
    }

    /// Reads what a packet of `leaf` needs.
    #[inline]
    pub fn touch(&self, leaf: LeafId) {
        let class = self.classes.of_leaf(leaf);
        let Seat { own, borrow, .. } = self.seats[class];
        let credits = self.rings.credit(own) ^ self.rings.credit(borrow);
        core::hint::black_box((self.classes.at(class).level, credits));
    }

    /// What the turns that lead to a leaf, from its lender down, have left for it.
    #[inline]
    fn turn_left(&self, class: usize) -> Bytes {
        let rank = self.classes.at(class).priority.into();
        let (mut at, mut credit) = (class, i64::MAX);
        loop {
            let lends = self.row(at).is_some();
            let first = if lends { self.seats[at].own } else { self.seats[at].borrow };
            credit = credit.min(self.rings.credit(self.node(first, at, rank)));
            if lends {
                return self.rings.bytes(credit);
            }
            at = self.classes.parent(at);
        }
    }

    /// Why `leaf` could not send earlier; its lender is the class whose row gave the turn.
    #[inline]
    pub fn why(&self, leaf: LeafId, from: Instant) -> Why {
        let class = self.classes.of_leaf(leaf);
        // Most often it sends at its own account, and its meter has let it for long.
        let own = &self.classes.at(class).meter;
        if self.row(class).is_some() && own.conforms_at() <= from {
            return Why::FREE;
        }
        self.why_held(class, from)
    }

    #[inline(never)]
    fn why_held(&self, class: usize, from: Instant) -> Why {
        let lender = self.classes.chain(class).find(|&at| self.row(at).is_some());
        self.classes.why(class, self.efficient, lender, from)
    }

    /// Takes over meters, and the debts of turns.
    pub fn take_over(&mut self, now: Instant, old: &Self, kin: &Kin) {
        self.classes.take_over(now, &old.classes, kin);
        for (new, was) in kin.classes() {
            let (new, was) = (new.index(), was.index());
            let ranks = self.node_count(new).min(old.node_count(was)) as u32;
            for rank in 0..ranks {
                let (seat, before) = (&self.seats[new], &old.seats[was]);
                self.rings.take_debt(seat.own + rank, &old.rings, before.own + rank);
                self.rings.take_debt(seat.borrow + rank, &old.rings, before.borrow + rank);
            }
        }
    }

    /// How many nodes a class has in rows, and as many at its parent.
    fn node_count(&self, class: usize) -> usize {
        if self.classes.at(class).leaf.is_some() { 1 } else { self.classes.priorities() }
    }

    /// The classes, for an engine of another kind.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The same, to be changed.
    pub fn classes_mut(&mut self) -> &mut Classes {
        &mut self.classes
    }

    /// Moves the classes that conform by now into their rows.
    #[inline]
    fn wake_due(&mut self, now: Instant) {
        loop {
            let (classes, seats) = (&self.classes, &self.seats);
            let due = self.waits.pop_due(now, |class| wake(classes, seats, class));
            let Some(class) = due else { return };
            self.change_row(now, class);
        }
    }

    /// The class whose turn it is in `ring`, and below it, down to a leaf.
    ///
    /// Ends: every round adds a quantum to each credit, and one of them must reach one packet.
    fn turn(&mut self, ring: usize, rank: usize, own: bool) -> usize {
        loop {
            let node = self.rings.front(ring).expect("an active priority has a class in its ring");
            let at = self.rings.class(node);
            let mut leaf = at;
            if self.classes.at(at).leaf.is_none() {
                leaf = self.turn(self.seats[at].ring as usize + rank, rank, false);
            }
            if self.rings.covers(node, self.classes.at(leaf).head) {
                return leaf;
            }
            let quanta = self.classes.quanta(at);
            let quantum = if own { quanta.own } else { quanta.borrow };
            self.rings.refill(node, quantum);
            self.rings.turn_to(ring, self.rings.next(node));
        }
    }

    /// Takes a packet from the turn of the lender and of every class that was overlimit, and counts
    /// it with the meters; answers whether a class that had conformed is overlimit now.
    ///
    /// Whoever permitted it: if only what the parent lent counted, a class with children that live
    /// on their own rates would get their rates on top of its part of an excess.
    fn pay(&mut self, now: Instant, class: usize, sent: Bytes) -> bool {
        let rank = self.classes.at(class).priority.into();
        let (link, mut at, mut lent) = (self.classes.link(), class, false);
        let mut overlimit = false;
        while !(lent && at == link) {
            let Seat { row, active, own, .. } = self.seats[at];
            if active != 0 && row == Row::Waiting {
                self.pay_parent(at, rank, sent);
            } else if active != 0 && !lent {
                let row = self.row(at).expect("it does not wait");
                self.rings.pay(self.row_ring(row, rank), self.node(own, at, rank), sent);
                lent = true;
            }
            if at == link {
                break;
            }
            let (class, terms) = self.classes.at_with_terms(at);
            class.meter.charge(terms, now, sent);
            overlimit |= row == Row::Ready && !class.meter.conforms(now);
            assert!(lent || class.borrow, "a leaf that was selected may send");
            at = class.parent as usize;
        }
        overlimit
    }

    /// Takes a packet from the turn of `class` at its parent, if it has one, whatever its priority.
    #[inline(never)]
    fn pay_parent(&mut self, class: usize, rank: usize, sent: Bytes) {
        let active = self.seats[class].active;
        if active == 0 || !self.classes.at(class).borrow {
            return;
        }
        let rank = if active >> rank & 1 == 1 { rank } else { active.ilog2() as usize };
        let node = self.node(self.seats[class].borrow, class, rank);
        self.rings.pay(self.parent_ring(class, rank), node, sent);
    }

    /// What [`Formal::activate`] does, for a leaf that was empty: it has one priority.
    fn activate_leaf(&mut self, now: Instant, class: usize) {
        let (at, quanta) = (self.classes.at(class), self.classes.quanta(class));
        let (rank, parent) = (usize::from(at.priority), at.parent as usize);
        let seat = &mut self.seats[class];
        seat.active = 1 << rank;
        if at.meter.conforms(now) {
            seat.row = Row::Ready;
            self.ready[0] |= 1 << rank;
            self.rings.push(rank, seat.own, quanta.own.max(self.classes.packet()));
        } else {
            seat.row = Row::Waiting;
            self.waits.push(class, at.meter.conforms_at());
        }
        let (borrows, node) = (at.borrow, seat.borrow);
        let ring = self.seats[parent].ring as usize + rank;
        if borrows && self.rings.push(ring, node, quanta.borrow) {
            self.activate(now, parent, 1 << rank);
        }
    }

    /// The mirror image of `activate_leaf`.
    fn deactivate_leaf(&mut self, class: usize) {
        let at = self.classes.at(class);
        let (rank, parent) = (usize::from(at.priority), at.parent as usize);
        let seat = &mut self.seats[class];
        seat.active = 0;
        if seat.row == Row::Ready && self.rings.remove(rank, seat.own) {
            self.ready[0] &= !(1 << rank);
        }
        let node = seat.borrow;
        let ring = self.seats[parent].ring as usize + rank;
        if at.borrow && self.rings.remove(ring, node) {
            self.deactivate(parent, 1 << rank);
        }
    }

    /// Something of the priorities `bits` begins to wait at `class`.
    #[inline(never)]
    fn activate(&mut self, now: Instant, class: usize, bits: u8) {
        let (mut at, mut bits) = (class, bits);
        while bits != 0 {
            let active = self.seats[at].active;
            assert_eq!(active & bits, 0, "a class becomes active once for a priority");
            self.seats[at].active |= bits;
            if active == 0 {
                self.find_row(now, at);
            }
            self.enter_row(at, bits);
            bits = if self.classes.at(at).borrow { self.enter_parent(at, bits) } else { 0 };
            at = self.classes.parent(at);
        }
    }

    /// Nothing of the priorities `bits` waits at `class` any more.
    #[inline(never)]
    fn deactivate(&mut self, class: usize, bits: u8) {
        let (mut at, mut bits) = (class, bits);
        while bits != 0 {
            self.leave_row(at, bits);
            self.seats[at].active &= !bits;
            bits = if self.classes.at(at).borrow { self.leave_parent(at, bits) } else { 0 };
            at = self.classes.parent(at);
        }
    }

    /// `class`, active, became overlimit or conforms again.
    fn change_row(&mut self, now: Instant, class: usize) {
        let bits = self.seats[class].active;
        self.leave_row(class, bits);
        self.find_row(now, class);
        self.enter_row(class, bits);
    }

    /// Settles to which row `class` belongs now.
    #[inline]
    fn find_row(&mut self, now: Instant, class: usize) {
        let at = self.classes.at(class);
        self.seats[class].row = if at.meter.conforms(now) {
            Row::Ready
        } else {
            self.waits.push(class, at.meter.conforms_at());
            let last = self.efficient && !at.borrow && at.leaf.is_none();
            if last { Row::LastResort } else { Row::Waiting }
        };
    }

    #[inline]
    fn enter_row(&mut self, class: usize, bits: u8) {
        let Some(row) = self.row(class) else { return };
        // Who conforms is owed its rate, so its first turn covers a packet whatever its quantum.
        let credit = self.classes.quanta(class).own.max(self.classes.packet());
        for rank in ranks(bits) {
            let node = self.node(self.seats[class].own, class, rank);
            self.rings.push(self.row_ring(row, rank), node, credit);
        }
        self.ready[row] |= bits;
    }

    #[inline]
    fn leave_row(&mut self, class: usize, bits: u8) {
        let Some(row) = self.row(class) else { return };
        for rank in ranks(bits) {
            let node = self.node(self.seats[class].own, class, rank);
            if self.rings.remove(self.row_ring(row, rank), node) {
                self.ready[row] &= !(1 << rank);
            }
        }
    }

    /// Puts `class` among those that borrow from its parent; answers what is new to the parent.
    #[inline]
    fn enter_parent(&mut self, class: usize, bits: u8) -> u8 {
        let credit = self.classes.quanta(class).borrow;
        let mut fresh = 0;
        for rank in ranks(bits) {
            let node = self.node(self.seats[class].borrow, class, rank);
            if self.rings.push(self.parent_ring(class, rank), node, credit) {
                fresh |= 1 << rank;
            }
        }
        fresh
    }

    /// Takes `class` from those that borrow from its parent; answers what the parent loses.
    #[inline]
    fn leave_parent(&mut self, class: usize, bits: u8) -> u8 {
        let mut emptied = 0;
        for rank in ranks(bits) {
            let node = self.node(self.seats[class].borrow, class, rank);
            if self.rings.remove(self.parent_ring(class, rank), node) {
                emptied |= 1 << rank;
            }
        }
        emptied
    }

    /// The row that a class is in, if it is active.
    #[inline]
    fn row(&self, class: usize) -> Option<usize> {
        if self.seats[class].active == 0 {
            return None;
        }
        match self.seats[class].row {
            Row::Ready => Some(self.classes.at(class).level.into()),
            Row::LastResort => Some(LAST_RESORT),
            Row::Waiting => None,
        }
    }

    #[inline]
    fn row_ring(&self, row: usize, rank: usize) -> usize {
        row * self.classes.priorities() + rank
    }

    #[inline]
    fn parent_ring(&self, class: usize, rank: usize) -> usize {
        self.seats[self.classes.parent(class)].ring as usize + rank
    }

    /// The node of a priority; a leaf has but one.
    #[inline]
    fn node(&self, first: u32, class: usize, rank: usize) -> u32 {
        if self.classes.at(class).leaf.is_some() { first } else { first + rank as u32 }
    }
}

fn wake(classes: &Classes, seats: &[Seat], class: usize) -> Wake {
    if seats[class].active == 0 || seats[class].row == Row::Ready {
        return Wake::Gone;
    }
    Wake::Until(classes.at(class).meter.conforms_at())
}

/// The numbers of the bits that are set.
#[inline]
fn ranks(mut bits: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let rank = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        rank
    })
}

/// The row of blocked classes for `efficient`: after the link's.
const LAST_RESORT: usize = DEPTH_MAX + 1;
const ROWS: usize = LAST_RESORT + 1;
