//! The formal rule, evaluated as things change: no packet looks at all classes.
//!
//! A class may send if it conforms, or if a class above it conforms from which it may borrow and no
//! class of a lower level anywhere is unsatisfied [algorithms §1]. So those who may send are those
//! below the unsatisfied classes of the lowest level that has any: one row of rings a level.
//! Invariant: a class is active if something waits below it that could borrow up to it. Active
//! classes that may borrow are in the ring of their parent, whether they need to or not, so that
//! none loses its turn by conforming now and then; a leaf may be only noted for it until the ring
//! is asked. Those that conform are in the row of their
//! level, the others among the waits. When a class lends, no row below is occupied, so whoever is
//! in its ring needs to borrow.

use super::classes::{AtParent, Class, Classes, General, Plan, Row, counted};
use super::comers::NOTES_MAX;
use super::path::{Due, Found, NONE, Path};
use super::places::{LAST_RESORT, Places, ROWS};
use super::ring::Rings;
use super::waits::Waits;
use crate::ids::LeafId;
use crate::prefetch::Prefetch;
use crate::sched::{Head, Kin, Selection, Why};
use crate::units::{Bytes, Instant};

/// The engine of the formal rule.
pub(super) struct Formal {
    classes: Classes,
    places: Places,
    rings: Rings,
    /// For each row the priorities that have a conforming class.
    ready: [u8; ROWS],
    /// A bit for each row that has any.
    rows: u16,
    waits: Waits,
    /// To the leaf whose turn it is, as long as no ring that it comes by changes.
    path: Path,
    efficient: bool,
}

impl Formal {
    /// The engine for `classes`, nothing waiting.
    pub fn new(classes: Classes, general: General, efficient: bool) -> Self {
        let places = Places::new(&classes);
        let mut rings = Rings::new(general, places.nodes(&classes), places.rings(&classes));
        if classes.leaves() > FOLLOWED_MIN {
            // Leaves of the lowest priority that conform.
            rings.follow(places.row_ring(0, 0), classes.leaves());
        }
        let waits = Waits::new(classes.link());
        Self {
            classes,
            places,
            rings,
            ready: [0; ROWS],
            rows: 0,
            waits,
            path: Path::EMPTY,
            efficient,
        }
    }

    /// `leaf`, which was empty, has a first packet.
    #[inline]
    pub fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        self.classes.set_head(leaf, Some(head.length));
        if self.classes.at(leaf.index()).active == 0 {
            self.activate_leaf(now, leaf.index());
        }
    }

    /// `leaf` has a first packet now, or another one, or none.
    pub fn set_head(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        self.classes.set_head(leaf, head.map(|head| head.length));
        match (self.classes.at(leaf.index()).active != 0, head.is_some()) {
            (false, true) => self.activate_leaf(now, leaf.index()),
            (true, false) => self.deactivate_leaf(leaf.index()),
            _ => {}
        }
    }

    /// Who may send.
    #[inline(always)]
    pub fn select(&mut self, now: Instant) -> Selection {
        if self.waits.soonest() <= now {
            self.wake_due(now);
        }
        let Found { leaf, credit, alone, quantum } = self.path.found;
        let needed = self.rings.needed(self.classes.at(leaf as usize).head);
        if needed > credit {
            return self.select_anew();
        }
        if alone != NONE {
            self.rings.cover(alone, quantum, needed);
        }
        Selection::Leaf(LeafId(leaf))
    }

    /// The same where the turn of the last leaf does not cover its packet, or has ended.
    #[inline(never)]
    fn select_anew(&mut self) -> Selection {
        if self.rows == 0 {
            return self.earliest().map_or(Selection::Idle, Selection::At);
        }
        let leaf = match self.turn_of_sibling() {
            Some(leaf) => leaf,
            None => self.turn(),
        };
        self.find_dues(leaf);
        Selection::Leaf(LeafId(leaf as u32))
    }

    /// `leaf`, just selected, sent a packet.
    ///
    /// The packet is taken from the turn of the lender and of every class that was overlimit, and
    /// counts with all meters. Whoever permitted it: if only what the parent lent counted, a class
    /// with children that live on their own rates would get their rates on top of its part of an
    /// excess.
    #[inline(always)]
    pub fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let sent = counted(sent);
        let price = self.rings.price(sent);
        if !self.path.owes(leaf.0) {
            self.find_dues(leaf.index());
        }
        let (due, above) = self.path.dues();
        let mut overlimit =
            due.ready & !self.classes.charge_one(leaf.index(), &due.terms, now, sent);
        self.rings.pay(due.node, price);
        for due in above {
            let class = due.class as usize;
            overlimit |= due.ready & !self.classes.charge_one(class, &due.terms, now, sent);
            if due.node != NONE {
                self.rings.pay(due.node, price);
            }
        }
        self.path.pay(price);
        // It stays where it is, as each further packet of a run leaves it.
        self.classes.set_head(leaf, next.map(|next| next.length));
        if self.rings.are_of_one_packet() {
            self.pass_on(leaf.index());
        }
        if next.is_none() {
            self.deactivate_leaf(leaf.index());
        }
        if overlimit {
            self.leave_ready(now, leaf.index());
        }
    }

    /// Finds what packets of `leaf`, which may send, are charged to as long as the way to it is
    /// kept. Siblings that borrow owe the same from their parent on.
    #[inline(never)]
    fn find_dues(&mut self, leaf: usize) {
        let class = self.classes.at(leaf);
        let Plan { terms, place, .. } = self.classes.plan_of(class);
        let lends = class.row == Row::Ready;
        assert!(lends || place.borrow, "a leaf that was selected may send");
        let due = Due {
            class: leaf as u32,
            node: Places::of_leaf(leaf, !lends),
            ready: lends,
            may_owe: terms.may_owe(),
            terms: terms.short,
        };
        let (parent, rank) = (class.parent, place.rank.into());
        debug_assert_eq!(self.path.found.leaf, leaf as u32, "a leaf that sends was selected");
        if !self.path.set_due((leaf as u32, parent, lends), due) {
            self.find_dues_above(parent as usize, rank, lends);
        }
    }

    /// The same from `parent` on up for a packet of a rank, which somebody below has lent or not.
    fn find_dues_above(&mut self, parent: usize, rank: usize, mut lent: bool) {
        let (link, mut at) = (self.classes.link(), parent);
        while at != link {
            let class = self.classes.at(at);
            let Plan { terms, place, .. } = self.classes.plan_of(class);
            let (active, waits) = (class.active, class.row == Row::Waiting);
            let mut node = NONE;
            if active != 0 && (if waits { place.borrow } else { !lent }) {
                // Whatever the packet's priority, the turn at the parent pays.
                let has_rank = active >> rank & 1 == 1;
                let rank = if has_rank { rank } else { active.ilog2() as usize };
                node = self.places.of_family(at, rank, waits);
                lent |= !waits;
            }
            let ready = class.is_ready();
            let (may_owe, terms) = (terms.may_owe(), terms.short);
            self.path.push_due(Due { class: at as u32, node, ready, may_owe, terms });
            at = class.parent as usize;
        }
    }

    /// Where turns are of one packet each: ends those that a packet of `leaf` takes.
    #[cold]
    fn pass_on(&mut self, leaf: usize) {
        self.path.clear();
        let rank = usize::from(self.classes.plan(leaf).place.rank);
        let (link, mut at, mut lent) = (self.classes.link(), leaf, false);
        while at != link {
            let active = self.classes.at(at).active;
            let waits = active != 0 && self.classes.at(at).row == Row::Waiting;
            if waits && self.borrows(at) {
                let has_rank = active >> rank & 1 == 1;
                let rank = if has_rank { rank } else { active.ilog2() as usize };
                let ring = self.parent_ring(at, rank);
                self.complete(ring);
                self.rings.pass_on(ring, self.places.borrow(at, rank));
            } else if let Some(row) = self.row(at).filter(|_| !lent) {
                self.rings.pass_on(self.places.row_ring(row, rank), self.places.own(at, rank));
                lent = true;
            }
            at = self.classes.parent(at);
        }
    }

    /// Moves `class` and those above it that do not conform any more out of their rows.
    #[inline(never)]
    fn leave_ready(&mut self, now: Instant, class: usize) {
        let (link, mut at) = (self.classes.link(), class);
        while at != link {
            if self.classes.at(at).is_ready() && !self.classes.conforms(at, now) {
                self.change_row(now, at);
            }
            at = self.classes.parent(at);
        }
    }

    /// How many bytes `leaf`, just selected, may send in a row: as long as every turn that led to
    /// it covers them, no class on the way up changes its row, and none that is overlimit would
    /// owe less for packet after packet.
    #[inline]
    pub fn allowance(&self, now: Instant, leaf: LeafId) -> Bytes {
        let Found { credit, alone, .. } = self.path.found;
        if self.rings.are_of_one_packet() || !self.path.owes(leaf.0) {
            return Bytes::ZERO;
        }
        let covered = if alone == NONE { credit } else { credit.min(self.rings.credit(alone)) };
        let mut bytes = Rings::bytes(covered);
        for due in self.path.all_dues() {
            bytes = match due.ready {
                true => self.classes.room(due.class as usize, &due.terms, now, bytes),
                false => bytes.min(due.may_owe),
            };
        }
        Bytes::new(bytes.into())
    }

    /// The leaves that conform and whose turns come next.
    pub fn line_up(&self, leaves: &mut [LeafId]) -> usize {
        if self.ready[0] == 0 {
            return 0;
        }
        let ring = self.places.row_ring(0, self.ready[0].ilog2() as usize);
        let mut nodes = [0; LINED_UP_MAX];
        let nodes = &mut nodes[..leaves.len().min(LINED_UP_MAX)];
        let count = self.rings.line_up(ring, nodes);
        for (place, &node) in leaves.iter_mut().zip(&nodes[..count]) {
            // The row of the lowest level holds leaves.
            *place = LeafId(self.places.class(node) as u32);
        }
        count
    }

    /// Asks for what finding further leaves will need.
    pub fn ask_for_order(&self, prefetch: Prefetch) {
        self.rings.ask_for_order(LINED_UP_MAX, prefetch);
    }

    /// Asks for what a packet of `leaf` needs.
    #[inline]
    pub fn touch(&self, leaf: LeafId, prefetch: Prefetch) {
        let class = leaf.index();
        self.rings.ask_for_pair(Places::of_leaf(class, false), prefetch);
        prefetch.ask_both_ends(self.classes.at(class));
    }

    /// Asks for what a packet of `leaf` needs of its parent.
    #[inline]
    pub fn touch_above(&self, leaf: LeafId, prefetch: Prefetch) {
        let class = self.classes.at(leaf.index());
        let rank = self.classes.plan_of(class).place.rank.into();
        let parent = class.parent as usize;
        prefetch.ask_both_ends(self.classes.at(parent));
        self.rings.ask_for_comers(self.places.family_ring(parent, rank), prefetch);
    }

    /// Why `leaf` could not send earlier; its lender is the class whose row gave the turn.
    #[inline(always)]
    pub fn why(&self, leaf: LeafId, from: Instant) -> Why {
        // Most often it sends at its own account, and its meter has let it for long.
        let class = self.classes.at(leaf.index());
        let has_row = class.active != 0 && class.row != Row::Waiting;
        if has_row && class.meter.conforms_short(&self.classes.plan_of(class).terms.short, from) {
            return Why::FREE;
        }
        self.why_held(leaf.index(), from)
    }

    #[inline(never)]
    fn why_held(&self, class: usize, from: Instant) -> Why {
        if self.row(class).is_some() && self.classes.conforms(class, from) {
            return Why::FREE;
        }
        let lender = self.classes.chain(class).find(|&at| self.row(at).is_some());
        self.classes.why(class, self.efficient, lender, from)
    }

    /// Takes over meters, and the debts of turns.
    pub fn take_over(&mut self, now: Instant, old: &Self, kin: &Kin) {
        self.classes.take_over(now, &old.classes, kin);
        for (new, was) in kin.classes() {
            let (new, was) = (self.classes.number(new), old.classes.number(was));
            let ranks = self.node_count(new).min(old.node_count(was));
            for rank in 0..ranks {
                let (own, borrow) = (self.places.own(new, rank), self.places.borrow(new, rank));
                self.rings.take_debt(own, &old.rings, old.places.own(was, rank));
                self.rings.take_debt(borrow, &old.rings, old.places.borrow(was, rank));
            }
        }
    }

    /// How many nodes a class has in rows, and as many at its parent.
    fn node_count(&self, class: usize) -> usize {
        if class < self.classes.leaves() { 1 } else { self.classes.priorities() }
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
    #[inline(never)]
    fn wake_due(&mut self, now: Instant) {
        while let Some((at, class)) = self.first_wait(now)
            && at <= now
        {
            self.waits.take_first();
            self.classes.at_mut(class).queued = false;
            self.change_row(now, class);
        }
    }

    /// When the first class that waits conforms.
    fn earliest(&mut self) -> Option<Instant> {
        self.first_wait(Instant::MAX).map(|(at, _)| at)
    }

    /// Mends the first key among the waits until it is right or later than `limit`.
    fn first_wait(&mut self, limit: Instant) -> Option<(Instant, usize)> {
        loop {
            let (key, class) = self.waits.first()?;
            if key > limit {
                return Some((key, class));
            }
            let Class { active, row, .. } = *self.classes.at(class);
            if active == 0 || row == Row::Ready {
                self.waits.take_first();
                self.classes.at_mut(class).queued = false;
                continue;
            }
            let until = self.classes.conforms_at(class);
            if until == key {
                return Some((key, class));
            }
            self.waits.mend_first(until);
        }
    }

    /// The leaf whose turn it is: below the class whose turn it is in the lowest row that has any.
    ///
    /// A turn that does not cover the packet of the leaf goes on to the next in its ring, with
    /// another quantum for the next round. Ends: every round adds to each credit, and one of them
    /// must reach one packet.
    #[inline]
    fn turn(&mut self) -> usize {
        if self.path.is_empty() {
            self.begin_path();
        }
        loop {
            let leaf = self.path.last() as usize / 2;
            let needed = self.rings.needed(self.classes.at(leaf).head);
            let covers = |&node: &u32| self.rings.credit(node) >= needed;
            match self.path.nodes().iter().rposition(|node| !covers(node)) {
                None => {
                    self.found(leaf);
                    return leaf;
                }
                Some(depth) => self.refill(depth, needed),
            }
        }
    }

    /// What [`Formal::turn`] comes to where the turn of the last leaf is over, and goes to leaves
    /// of the same parent only; `None` if it is not that simple. What it did until then is what
    /// [`Formal::turn`] would have begun with.
    fn turn_of_sibling(&mut self) -> Option<usize> {
        let Found { leaf, alone, quantum, .. } = self.path.found;
        let (&last, above) = self.path.nodes().split_last()?;
        if !self.path.is_found() {
            return None;
        }
        let others = above.iter().filter(|&&node| node != alone);
        let covered = others.map(|&node| self.rings.credit(node)).min().unwrap_or(i32::MAX);
        if self.rings.needed(self.classes.at(leaf as usize).head) > covered {
            return None;
        }
        let (depth, ring) = (above.len(), self.path_ring(above.len()));
        let mut node = last;
        loop {
            let next = self.rings.next(node);
            let leaf = next as usize / 2;
            if next == node || leaf >= self.classes.leaves() {
                return None;
            }
            self.rings.refill(node, self.quantum(depth, node));
            self.rings.turn_to(ring, next);
            self.path.turn_to(next);
            node = next;
            let (needed, credit) =
                (self.rings.needed(self.classes.at(leaf).head), self.rings.credit(node));
            if needed > covered {
                return None;
            }
            if needed <= credit {
                if alone != NONE {
                    self.rings.cover(alone, quantum, needed);
                }
                (self.path.found.leaf, self.path.found.credit) = (leaf as u32, credit.min(covered));
                return Some(leaf);
            }
        }
    }

    /// The ring of the node at a depth of the path.
    #[inline]
    fn path_ring(&self, depth: usize) -> usize {
        match depth {
            0 => self.path.ring,
            _ => self.parent_ring(self.places.class(self.path.nodes()[depth]), self.path.rank),
        }
    }

    /// The path leads to `leaf`, whose packet all turns on it cover: how much more they do.
    fn found(&mut self, leaf: usize) {
        let mut found = Found { leaf: leaf as u32, credit: i32::MAX, alone: NONE, quantum: 0 };
        for (depth, &node) in self.path.nodes().iter().enumerate() {
            if found.alone == NONE && self.rings.next(node) == node {
                (found.alone, found.quantum) = (node, self.quantum(depth, node));
            } else {
                found.credit = found.credit.min(self.rings.credit(node));
            }
        }
        self.path.found = found;
    }

    /// What the class of `node`, at a depth of the path, gains with each turn.
    #[inline]
    fn quantum(&self, depth: usize, node: u32) -> i32 {
        let quanta = self.classes.plan(self.places.class(node)).quanta;
        let own = depth == 0 && !self.path.by_link;
        if own { quanta.own } else { quanta.borrow }
    }

    /// Puts the class that has the turn in the lowest row in the path, and those below it.
    fn begin_path(&mut self) {
        let row = self.rows.trailing_zeros() as usize % ROWS;
        let rank = self.ready[row].ilog2() as usize;
        // The link is alone in its row, so its turn never ends.
        let by_link = row == usize::from(self.places.link_level());
        let ring = match by_link {
            true => self.places.family_ring(self.classes.link(), rank),
            false => self.places.row_ring(row, rank),
        };
        self.path.begin(ring, rank, by_link);
        self.extend_path(ring);
    }

    /// The path goes on with the class that has the turn in a ring, down to a leaf.
    fn extend_path(&mut self, mut ring: usize) {
        loop {
            self.complete(ring);
            let node = self.rings.front(ring).expect("an active priority has a class in its ring");
            self.path.push(node);
            let class = self.places.class(node);
            if class < self.classes.leaves() {
                return;
            }
            ring = self.places.family_ring(class, self.path.rank);
        }
    }

    /// The turn at a depth of the path, which does not cover what is needed, has a quantum more and
    /// goes to the next in its ring. Alone there, a class has turn after turn.
    #[inline(never)]
    fn refill(&mut self, depth: usize, needed: i32) {
        let node = self.path.nodes()[depth];
        let quantum = self.quantum(depth, node);
        let next = self.rings.next(node);
        if next == node {
            self.rings.cover(node, quantum, needed);
            return;
        }
        self.rings.refill(node, quantum);
        let ring = self.path_ring(depth);
        self.rings.turn_to(ring, next);
        self.path.cut(depth);
        self.extend_path(ring);
    }

    /// What [`Formal::activate`] does, for a leaf that was empty: it has one priority.
    fn activate_leaf(&mut self, now: Instant, leaf: usize) {
        let packet = self.classes.packet();
        self.path.clear();
        let (class, Plan { terms, quanta, place }) = self.classes.at_with_plan(leaf);
        let (rank, parent) = (usize::from(place.rank), class.parent as usize);
        let (borrows, quantum) = (place.borrow, quanta.borrow);
        class.active = 1 << rank;
        let noted = class.at_parent == AtParent::Noted;
        if borrows {
            class.at_parent = AtParent::Noted;
        }
        if class.meter.conforms(terms, now) {
            class.row = Row::Ready;
            self.ready[0] |= 1 << rank;
            self.rows |= 1;
            let ring = self.places.row_ring(0, rank);
            self.rings.push(ring, Places::of_leaf(leaf, false), quanta.own.max(packet));
        } else {
            class.row = Row::Waiting;
            self.wait(leaf);
        }
        if borrows {
            let ring = self.places.family_ring(parent, rank);
            let node = Places::of_leaf(leaf, true);
            let is_first = self.rings.comers(ring).enter();
            if self.rings.comers(ring).goes_straight() {
                self.classes.at_mut(leaf).at_parent = AtParent::Linked;
                self.rings.push(ring, node, quantum);
            } else {
                self.rings.note(ring, node, quantum, noted);
                if self.rings.comers(ring).is_full() {
                    self.settle(ring);
                }
            }
            if is_first {
                self.activate(now, parent, 1 << rank);
            }
        }
    }

    /// Puts those into `ring` that are noted for it and did not go since, in the order in which
    /// they came.
    #[inline(never)]
    fn settle(&mut self, ring: usize) {
        let (mut notes, mut count) = ([(0, 0); NOTES_MAX], 0);
        let mut last = self.rings.comers(ring).take();
        while let Some(node) = last {
            let (came, before) = self.rings.noted(node);
            let class = self.classes.at_mut(self.places.class(node));
            class.at_parent = AtParent::Away;
            if class.active != 0 {
                class.at_parent = AtParent::Linked;
                notes[count] = (came, node);
                count += 1;
            }
            last = (before != NONE).then_some(before);
        }
        notes[..count].sort_unstable();
        for &(_, node) in &notes[..count] {
            self.rings.link(ring, node);
        }
    }

    /// Sees to it that all who belong into `ring` are in it.
    #[inline]
    fn complete(&mut self, ring: usize) {
        if self.rings.comers(ring).ask() {
            self.settle(ring);
        }
    }

    /// The mirror image of `activate_leaf`.
    fn deactivate_leaf(&mut self, leaf: usize) {
        self.path.clear();
        let (class, Plan { place, .. }) = self.classes.at_with_plan(leaf);
        let (rank, parent) = (usize::from(place.rank), class.parent as usize);
        let (borrows, linked) = (place.borrow, class.at_parent == AtParent::Linked);
        class.active = 0;
        let ring = self.places.row_ring(0, rank);
        if class.row == Row::Ready && self.rings.remove(ring, Places::of_leaf(leaf, false)) {
            self.empty_row(0, rank);
        }
        if borrows {
            let ring = self.places.family_ring(parent, rank);
            if linked {
                self.classes.at_mut(leaf).at_parent = AtParent::Away;
                self.rings.remove(ring, Places::of_leaf(leaf, true));
            }
            if self.rings.comers(ring).leave() {
                self.deactivate(parent, 1 << rank);
            }
        }
    }

    /// Something of the priorities `bits` begins to wait at `class`.
    #[inline(never)]
    fn activate(&mut self, now: Instant, class: usize, bits: u8) {
        let (mut at, mut bits) = (class, bits);
        while bits != 0 {
            let class = self.classes.at_mut(at);
            assert_eq!(class.active & bits, 0, "a class becomes active once for a priority");
            let was_active = class.active != 0;
            class.active |= bits;
            if !was_active {
                self.find_row(now, at);
            }
            self.enter_row(at, bits);
            bits = if self.borrows(at) { self.enter_parent(at, bits) } else { 0 };
            at = self.classes.parent(at);
        }
    }

    /// Nothing of the priorities `bits` waits at `class` any more.
    #[inline(never)]
    fn deactivate(&mut self, class: usize, bits: u8) {
        let (mut at, mut bits) = (class, bits);
        while bits != 0 {
            self.leave_row(at, bits);
            self.classes.at_mut(at).active &= !bits;
            bits = if self.borrows(at) { self.leave_parent(at, bits) } else { 0 };
            at = self.classes.parent(at);
        }
    }

    #[inline]
    fn borrows(&self, class: usize) -> bool {
        self.classes.plan(class).place.borrow
    }

    /// `class`, active, became overlimit or conforms again.
    fn change_row(&mut self, now: Instant, class: usize) {
        self.path.clear();
        let bits = self.classes.at(class).active;
        self.leave_row(class, bits);
        self.find_row(now, class);
        self.enter_row(class, bits);
    }

    /// Settles to which row `class` belongs now.
    #[inline]
    fn find_row(&mut self, now: Instant, class: usize) {
        if self.classes.conforms(class, now) {
            self.classes.at_mut(class).row = Row::Ready;
            return;
        }
        self.wait(class);
        let is_leaf = class < self.classes.leaves();
        let last = self.efficient && !is_leaf && !self.borrows(class);
        self.classes.at_mut(class).row = if last { Row::LastResort } else { Row::Waiting };
    }

    /// `class` waits for its meter, or has already been waiting.
    #[inline]
    fn wait(&mut self, class: usize) {
        if !core::mem::replace(&mut self.classes.at_mut(class).queued, true) {
            self.waits.push(class, self.classes.conforms_at(class));
        }
    }

    #[inline]
    fn enter_row(&mut self, class: usize, bits: u8) {
        let Some(row) = self.row(class) else { return };
        // Who conforms is owed its rate, so its first turn covers a packet whatever its quantum.
        let credit = self.classes.plan(class).quanta.own.max(self.classes.packet());
        for rank in ranks(bits) {
            let node = self.places.own(class, rank);
            self.rings.push(self.places.row_ring(row, rank), node, credit);
        }
        self.ready[row] |= bits;
        self.rows |= 1 << row;
    }

    #[inline]
    fn leave_row(&mut self, class: usize, bits: u8) {
        let Some(row) = self.row(class) else { return };
        for rank in ranks(bits) {
            let node = self.places.own(class, rank);
            if self.rings.remove(self.places.row_ring(row, rank), node) {
                self.empty_row(row, rank);
            }
        }
    }

    /// Nobody of this priority is in a row any more.
    #[inline]
    fn empty_row(&mut self, row: usize, rank: usize) {
        self.ready[row] &= !(1 << rank);
        if self.ready[row] == 0 {
            self.rows &= !(1 << row);
        }
    }

    /// Puts `class` among those that borrow from its parent; answers what is new to the parent.
    #[inline]
    fn enter_parent(&mut self, class: usize, bits: u8) -> u8 {
        let credit = self.classes.plan(class).quanta.borrow;
        let mut fresh = 0;
        for rank in ranks(bits) {
            let (ring, node) = (self.parent_ring(class, rank), self.places.borrow(class, rank));
            self.complete(ring);
            self.rings.push(ring, node, credit);
            if self.rings.comers(ring).enter() {
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
            let (ring, node) = (self.parent_ring(class, rank), self.places.borrow(class, rank));
            self.rings.remove(ring, node);
            if self.rings.comers(ring).leave() {
                emptied |= 1 << rank;
            }
        }
        emptied
    }

    /// The row that a class is in, if it is active.
    #[inline]
    fn row(&self, class: usize) -> Option<usize> {
        let at = self.classes.at(class);
        if at.active == 0 {
            return None;
        }
        match at.row {
            Row::Ready => Some(self.classes.plan_of(at).place.level.into()),
            Row::LastResort => Some(LAST_RESORT),
            Row::Waiting => None,
        }
    }

    #[inline]
    fn parent_ring(&self, class: usize, rank: usize) -> usize {
        self.places.family_ring(self.classes.parent(class), rank)
    }
}

/// As many leaves as a link asks for ahead.
const LINED_UP_MAX: usize = 32;
/// Up to so many leaves nobody asks whose turns come.
const FOLLOWED_MIN: usize = 4096;

/// The numbers of the bits that are set.
#[inline]
fn ranks(mut bits: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let rank = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        rank
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::sched::{ClassSpec, Tree};
    use crate::units::{Quantity, Rate};
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn a_ring_that_is_asked_has_those_present_in_the_order_in_which_they_came_last() {
        let spec = |index: usize| {
            let params = Params::new().with("rate", Quantity::Rate(Rate::MIN));
            ClassSpec { name: index.to_string(), parent: None, params }
        };
        let specs = (0..300).map(spec).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), specs);
        let classes = Classes::build(&tree.expect("a tree")).expect("each has a rate");
        let mut formal = Formal::new(classes, General::Drr, false);
        let ring = formal.places.family_ring(formal.classes.link(), 0);
        let head = Head { length: Bytes::new(100), arrived: Instant::ZERO };
        let mut present = Vec::new();
        let mut tell = |formal: &mut Formal, leaf: u32| {
            let comes = !present.contains(&leaf);
            present.retain(|&other| other != leaf);
            present.extend(comes.then_some(leaf));
            formal.set_head(Instant::ZERO, LeafId(leaf), comes.then_some(head));
            present.clone()
        };
        for step in 0..2_000u32 {
            // More than there is room for notes, so that some are put in before the ring is asked.
            let present = tell(&mut formal, step * step % 299);
            if step % 401 != 0 {
                continue;
            }
            formal.complete(ring);
            let mut order = Vec::new();
            let mut at = formal.rings.front(ring);
            while let Some(node) = at.filter(|&node| order.first() != Some(&(node / 2))) {
                order.push(node / 2);
                at = Some(formal.rings.next(node));
            }
            assert_eq!(order, present, "step {step}");
        }
    }
}
