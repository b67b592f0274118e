//! Link sharing: among siblings the one with the smallest virtual time [algorithms §6.4-6.5].
//!
//! The children of a class are a *family* and stand side by side; so do those of the link. A
//! family's virtual time is never set back: where the rules let a parent's new period begin at 0
//! with an offset for its children, it goes on from the largest time of the last period, which is
//! the same. It counts bytes of the family's fastest slope, about, and 2^-32 of them as fractions,
//! which are kept but do not decide. A few families are told together what their children were
//! served by deadlines (*owed*), before anybody reads their times; the sum moves them as each part
//! would. Invariant: virtual times of active children are at least the
//! `floor` of the family, unless an upper limit held them back; the floor stays below
//! [`LOWER_AT`], as all times of the family are lowered when it gets there.

use super::curve::{Curves, Progress, Slope};
use super::family::{Family, KEY_MAX, Part, Times};
use super::leaf::{Kind, Leaf, Mark, Own};
use super::limit::{Limits, NONE};
use crate::prefetch::Prefetch;
use crate::units::Instant;
use alloc::vec::Vec;

/// The tree of link sharing.
#[derive(Clone)]
pub(super) struct LinkShare {
    pub(super) leaves: Vec<Leaf>,
    pub(super) families: Vec<Family>,
    pub(super) kinds: Vec<Kind>,
    pub(super) times: Times,
    /// The families whose children's bytes the classes above were not yet told of.
    pub(super) owing: Vec<u32>,
    /// Where choices begin: above, every class is alone and plain, so nothing there matters.
    pub(super) top: u32,
    /// The children of mixed families.
    pub(super) mixed: Vec<Child>,
    /// What few classes have, by [`LinkShare::place`]; empty if nobody has.
    pub(super) rare: Vec<Rare>,
    pub(super) curves: Curves,
    pub(super) bends: Vec<Progress>,
    pub(super) limits: Limits,
    /// Where children under upper limits wait, by family; [`NONE`] if there are none.
    pub(super) lanes: Vec<u32>,
    /// Between a change of the tree and the first packet after it: classes that were active go on
    /// where they were.
    pub(super) resuming: bool,
    /// Which do, by [`LinkShare::place`].
    pub(super) resumes: Vec<Resumes>,
}

/// A class, by the number of its leaf or that of the family of its children.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Child(u32);

/// The rarer state of a class; each [`NONE`] for most.
#[derive(Clone, Copy)]
pub(super) struct Rare {
    /// Its entry among the limits, if one is on it or below.
    pub(super) limit: u32,
    /// Its link-share curve, if that has two slopes, in fractions of the family's virtual time.
    pub(super) bend: u32,
    /// Its real-time curve, if that has two slopes.
    pub(super) guarantee: u32,
}

/// What of a class goes on where it was before the tree was changed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Resumes {
    pub(super) share: bool,
    pub(super) guarantee: bool,
}

/// What became of a leaf's packet.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) bytes: u32,
    /// Whether link sharing chose it.
    pub(super) shared: bool,
    pub(super) emptied: bool,
}

impl Child {
    pub(super) const fn leaf(leaf: u32) -> Self {
        Self(leaf | LEAF)
    }

    /// The class whose children are this family.
    pub(super) const fn family(family: u32) -> Self {
        Self(family)
    }

    /// Its leaf, or else its family.
    #[inline]
    pub(super) const fn either(self) -> Result<u32, u32> {
        if self.0 & LEAF != 0 { Ok(self.0 & !LEAF) } else { Err(self.0) }
    }

    pub(super) const fn number(self) -> u32 {
        self.0
    }
}

impl Rare {
    pub(super) const NOTHING: Rare = Rare { limit: NONE, bend: NONE, guarantee: NONE };
}

/// The virtual time `key` and its fraction, after `bytes` more of a straight curve.
#[inline(always)]
fn go_on((key, fraction): (u64, u32), slope: &Slope, bytes: u32) -> (u64, u32) {
    if let Some(time) = slope.short_cost(bytes, u64::from(fraction)) {
        let whole = (time >> FRACTION_BITS) as u64;
        return (key.saturating_add(whole).min(KEY_MAX), time as u32);
    }
    go_on_long((key, fraction), slope, bytes)
}

/// The same where a byte takes 2^64 or more.
#[inline(never)]
fn go_on_long((key, fraction): (u64, u32), slope: &Slope, bytes: u32) -> (u64, u32) {
    let time = u128::from(key) << FRACTION_BITS | u128::from(fraction);
    let time = time + slope.cost(bytes);
    ((time >> FRACTION_BITS).min(u128::from(KEY_MAX)) as u64, time as u32)
}

/// What a packet moves at one active class of a family. If the class idles, so may the one above,
/// which becomes the service.
#[inline(always)]
fn move_on(
    own: &mut Own,
    family: &mut Family,
    times: &mut Times,
    kinds: &[Kind],
    service: &mut Sent,
) {
    // Who has no siblings competes with nobody, so its virtual time may stand still.
    if family.size == 1 && !service.emptied {
        return;
    }
    let word = times.word_mut(own.slot);
    // No limit holds the class, so the word is the time alone.
    let before = *word;
    let slope = &kinds[own.kind as usize].share;
    let (mut time, mut fraction) = go_on((before, own.fraction), slope, service.bytes);
    if service.emptied {
        own.fraction = fraction;
        service.emptied = family.leave(time);
        return times.take_out(family, own.slot, before, time);
    }
    if time < family.floor {
        (time, fraction) = (family.floor, 0);
    }
    own.fraction = fraction;
    *word = time;
    times.went_on(family, own.slot, (before, time));
}

/// The classes above a family will be told of `bytes` of its children; answers whether they can
/// wait.
#[inline(always)]
fn owe((family, number): (&mut Family, u32), bytes: u32, owing: &mut Vec<u32>) -> bool {
    let Some(owed) = family.owed.checked_add(bytes) else { return false };
    if family.owed == 0 && owed > 0 {
        owing.push(number);
    }
    family.owed = owed;
    true
}

impl LinkShare {
    /// The leaf that link sharing chooses now.
    #[inline]
    pub(super) fn first(&mut self, now: Instant) -> Option<u32> {
        self.settle();
        let mut below = self.top;
        loop {
            if self.families[below as usize].is_limited {
                self.admit_due(below, now);
            }
            let family = &mut self.families[below as usize];
            let slot = self.times.lowest(family)?;
            match self.child(below, slot).either() {
                Ok(leaf) => return Some(leaf),
                Err(family) => below = family,
            }
        }
    }

    /// The class in `slot`, which is one of the family.
    #[inline]
    pub(super) fn child(&self, family: u32, slot: u32) -> Child {
        let family = &self.families[family as usize];
        let at = family.first + (slot - family.start);
        if family.is_mixed { self.mixed[at as usize] } else { Child(at) }
    }

    /// Its place in a row of all classes.
    #[inline]
    pub(super) fn place(&self, class: Child) -> usize {
        match class.either() {
            Ok(leaf) => leaf as usize,
            Err(family) => self.leaves.len() + family as usize,
        }
    }

    #[inline]
    pub(super) fn rare(&self, class: Child) -> Rare {
        if self.rare.is_empty() { Rare::NOTHING } else { self.rare[self.place(class)] }
    }

    #[inline]
    pub(super) fn resumes(&self, class: Child) -> Resumes {
        if self.resuming { self.resumes[self.place(class)] } else { Resumes::default() }
    }

    #[inline]
    pub(super) fn own(&self, class: Child) -> Own {
        match class.either() {
            Ok(leaf) => self.leaves[leaf as usize].own,
            Err(family) => self.families[family as usize].own,
        }
    }

    /// What a class begins with.
    pub(super) fn set_own(&mut self, class: Child, own: Own) {
        match class.either() {
            Ok(leaf) => self.leaves[leaf as usize].own = own,
            Err(family) => self.families[family as usize].own = own,
        }
    }

    /// Asks for a leaf.
    #[inline(always)]
    pub(super) fn touch(&self, leaf: u32, prefetch: Prefetch) {
        // Leaves are not cache lines: both ends.
        let this = &self.leaves[leaf as usize];
        prefetch.ask_both_ends(this);
    }

    /// Asks for the virtual time and the family of a leaf that was asked for before.
    #[inline(always)]
    pub(super) fn touch_above(&self, leaf: u32, prefetch: Prefetch) {
        let own = self.leaves[leaf as usize].own;
        self.times.touch(own.slot, prefetch);
        prefetch.ask_both_ends(&self.families[own.family as usize]);
    }

    fn set_fraction(&mut self, class: Child, fraction: u32) {
        match class.either() {
            Ok(leaf) => self.leaves[leaf as usize].own.fraction = fraction,
            Err(family) => self.families[family as usize].own.fraction = fraction,
        }
    }

    /// Whether it has a link-share curve.
    pub(super) fn shares(&self, class: Child) -> bool {
        class.either().map_or(true, |leaf| self.leaves[leaf as usize].is(Mark::SHARES))
    }

    /// When somebody fits under all upper limits, if nobody does now.
    pub(super) fn wake(&self) -> Option<Instant> {
        let lane = self.lanes.get(LINK as usize).filter(|&&lane| lane != NONE)?;
        self.limits.earliest(*lane)
    }

    /// From when on the leaf fits under the limits of its own and above.
    pub(super) fn released(&self, leaf: u32) -> Instant {
        let (mut at, mut released) = (Child::leaf(leaf), Instant::ZERO);
        loop {
            let limit = self.rare(at).limit;
            if limit != NONE {
                released = released.max(self.limits.own(limit));
            }
            let family = self.own(at).family;
            if family == LINK {
                return released;
            }
            at = Child::family(family);
        }
    }

    /// [algorithms §6.4] The leaf becomes backlogged.
    #[inline]
    pub(super) fn enter(&mut self, now: Instant, leaf: u32) {
        let this = &self.leaves[leaf as usize];
        if self.resuming || !this.is(Mark::PLAIN) {
            return self.enter_any(now, leaf);
        }
        let mut own = this.own;
        if !self.has_leaves_alone(own.family) {
            self.settle();
        }
        if self.join_plain(own) {
            self.leaves[leaf as usize].own.fraction = 0;
        }
        if own.family != self.top && self.families[own.family as usize].active == 1 {
            self.settle();
        }
        while own.family != self.top && self.families[own.family as usize].active == 1 {
            let family = own.family;
            own = self.families[family as usize].own;
            if self.join_plain(own) {
                self.families[family as usize].own.fraction = 0;
            }
        }
    }

    /// A class with a straight curve and no limit on it or above becomes active; answers whether
    /// its virtual time moved for that.
    #[inline(always)]
    fn join_plain(&mut self, own: Own) -> bool {
        let family = &mut self.families[own.family as usize];
        family.active += 1;
        let mean = if family.active == 1 {
            (family.floor, family.has_risen) = (family.top, false);
            family.floor
        } else {
            self.times.mean(family)
        };
        let before = self.times.key(own.slot);
        self.times.put(family, own.slot, before.max(mean), Part::In);
        if family.floor > LOWER_AT {
            self.lower(own.family);
        }
        before < mean
    }

    /// The same for any leaf.
    #[inline(never)]
    fn enter_any(&mut self, now: Instant, leaf: u32) {
        self.settle();
        let mut at = Child::leaf(leaf);
        let mut newly = self.shares(at);
        loop {
            let (own, limit) = (self.own(at), self.rare(at).limit);
            if newly {
                if limit != NONE && !self.resumes(at).share {
                    self.limits.restart(&self.curves, limit, now);
                }
                self.join(at, own);
            } else if limit == NONE {
                return;
            }
            if limit == NONE {
                let family = &mut self.families[own.family as usize];
                self.times.put(family, own.slot, self.times.key(own.slot), Part::In);
            } else {
                self.put(now, at, self.times.key(own.slot));
            }
            newly = newly && self.families[own.family as usize].active == 1;
            if own.family == self.top {
                return;
            }
            at = Child::family(own.family);
        }
    }

    /// [algorithms §6.5] The leaf was served, or lost its last packet to a drop: what that moves,
    /// from the leaf up to the link.
    #[inline]
    pub(super) fn serve(&mut self, now: Instant, leaf: u32, service: Sent) {
        if self.resuming {
            self.end_resuming();
        }
        self.settle();
        if self.leaves[leaf as usize].is(Mark::PLAIN) {
            self.serve_plain::<true>(leaf, service);
        } else {
            self.serve_any(now, leaf, service);
        }
    }

    #[cold]
    fn end_resuming(&mut self) {
        self.resuming = false;
        self.resumes = Vec::new();
    }

    /// The plain case: straight curves and no limit from the leaf up. Only if that is `POSSIBLE`,
    /// link sharing may have chosen it. Few families are told together what their children were
    /// served by deadlines, before link sharing needs to know.
    #[inline(always)]
    pub(super) fn serve_plain<const POSSIBLE: bool>(&mut self, leaf: u32, mut service: Sent) {
        if POSSIBLE {
            self.note_choice(self.leaves[leaf as usize].own, service);
        }
        let Self { leaves, families, times, kinds, owing, top, .. } = self;
        let (is_few, own) = (families.len() <= FEW, &mut leaves[leaf as usize].own);
        let number = own.family;
        let family = &mut families[number as usize];
        move_on(own, family, times, kinds, &mut service);
        if number == *top {
            return;
        }
        if !POSSIBLE && is_few {
            if !service.emptied && owe((family, number), service.bytes, owing) {
                return;
            }
            self.settle();
        }
        // Most trees have no more classes than one between leaf and top.
        let above = self.serve_at::<POSSIBLE>(number, &mut service);
        if above != self.top {
            self.serve_above(above, service);
        }
    }

    /// Tells the classes above what their children were served.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        if !self.owing.is_empty() {
            self.settle_all();
        }
    }

    #[inline(never)]
    fn settle_all(&mut self) {
        while let Some(family) = self.owing.pop() {
            let bytes = core::mem::take(&mut self.families[family as usize].owed);
            self.serve_above(family, Sent { bytes, shared: false, emptied: false });
        }
    }

    /// Whether all children of a family are leaves.
    #[inline(always)]
    fn has_leaves_alone(&self, family: u32) -> bool {
        let family = &self.families[family as usize];
        !family.is_mixed && family.first & LEAF != 0
    }

    /// The same for the classes above the children of a family.
    #[inline(never)]
    fn serve_above(&mut self, mut family: u32, mut service: Sent) {
        while family != self.top {
            family = self.serve_at::<true>(family, &mut service);
        }
    }

    /// What a packet moves at the active class above a family; answers the family that it is in.
    #[inline(always)]
    fn serve_at<const POSSIBLE: bool>(&mut self, below: u32, service: &mut Sent) -> u32 {
        let mut own = self.families[below as usize].own;
        if POSSIBLE {
            self.note_choice(own, *service);
        }
        let Self { families, times, kinds, .. } = self;
        let family = &mut families[own.family as usize];
        move_on(&mut own, family, times, kinds, service);
        families[below as usize].own.fraction = own.fraction;
        own.family
    }

    /// Raises the floor of a family to the time at which a child was chosen, if it was.
    #[inline(always)]
    fn note_choice(&mut self, own: Own, service: Sent) {
        let is_alone = self.families[own.family as usize].size == 1 && !service.emptied;
        if service.shared && !is_alone {
            self.raise_floor(own.family, self.times.key(own.slot));
        }
    }

    /// The same for any leaf.
    #[inline(never)]
    fn serve_any(&mut self, now: Instant, leaf: u32, mut service: Sent) {
        let mut at = Child::leaf(leaf);
        loop {
            service.emptied = self.serve_class(now, at, service);
            let family = self.own(at).family;
            if family == self.top {
                return;
            }
            at = Child::family(family);
        }
    }

    /// What a packet moves at one class; answers whether its parent becomes idle.
    fn serve_class(&mut self, now: Instant, at: Child, service: Sent) -> bool {
        let Sent { bytes, shared, emptied } = service;
        let (own, limit) = (self.own(at), self.rare(at).limit);
        if limit != NONE {
            self.limits.advance(&self.curves, limit, now, bytes);
        }
        if !self.shares(at) {
            return false;
        }
        if shared {
            self.raise_floor(own.family, self.times.key(own.slot));
        }
        let before = self.times.key(own.slot);
        let key = self.advance(at, bytes);
        if emptied {
            if limit != NONE {
                self.limits.leave(limit);
            }
            let family = &mut self.families[own.family as usize];
            self.times.take_out(family, own.slot, before, key);
            return family.leave(key);
        }
        if self.is_active(at) {
            let key = self.catch_up(at, key);
            self.put(now, at, key);
        } else {
            self.times.keep(own.slot, key);
        }
        false
    }

    /// Whether a class takes part in link sharing now.
    pub(super) fn is_active(&self, class: Child) -> bool {
        match class.either() {
            Ok(leaf) => {
                let leaf = &self.leaves[leaf as usize];
                leaf.is(Mark::SHARES) && leaf.is(Mark::BACKLOGGED)
            }
            Err(family) => self.families[family as usize].active > 0,
        }
    }

    /// Takes over the virtual times and limits of the classes of `old`; `kin` pairs them. A class
    /// whose curve changed, or its parent, or the unit of its family, starts anew.
    pub(super) fn inherit(&mut self, old: &LinkShare, kin: impl Iterator<Item = (Child, Child)>) {
        self.resuming = true;
        let mut settled;
        let mut old = old;
        if !old.owing.is_empty() {
            settled = old.clone();
            settled.settle();
            old = &settled;
        }
        let kin: Vec<_> = kin.collect();
        let count = self.leaves.len() + self.families.len();
        let mut origins = alloc::vec![None; count];
        self.resumes = alloc::vec![Resumes::default(); count];
        for &(new, from) in &kin {
            origins[self.place(new)] = Some(from);
        }
        for (new, from) in kin {
            let limits = (self.rare(new).limit, old.rare(from).limit);
            if limits.0 != NONE && limits.1 != NONE {
                let from = (&old.limits, &old.curves, limits.1);
                self.limits.inherit(&self.curves, limits.0, from);
            }
            let (own, that) = (self.own(new), old.own(from));
            let above = &old.families[that.family as usize];
            let parent = self.parent(own.family).and_then(|parent| origins[self.place(parent)]);
            let family = &mut self.families[own.family as usize];
            if (parent, family.scale) != (old.parent(that.family), above.scale)
                || self.kinds[own.kind as usize].share != old.kinds[that.kind as usize].share
                || !self.inherit_bend(old, new, from)
            {
                continue;
            }
            let family = &mut self.families[own.family as usize];
            (family.floor, family.top) = (above.floor, above.top);
            family.has_risen = above.has_risen;
            self.times.keep(own.slot, old.times.key(that.slot));
            self.set_fraction(new, that.fraction);
            let place = self.place(new);
            self.resumes[place].share = old.is_active(from);
        }
    }

    /// Goes on with a curve of two slopes; answers whether both or neither has the same one.
    fn inherit_bend(&mut self, old: &LinkShare, new: Child, from: Child) -> bool {
        let (bend, other) = (self.rare(new).bend, old.rare(from).bend);
        match (self.bends.get_mut(bend as usize), old.bends.get(other as usize)) {
            (None, None) => true,
            (Some(bend), Some(other))
                if self.curves.at(bend.curve) == old.curves.at(other.curve) =>
            {
                bend.position = other.position;
                true
            }
            _ => false,
        }
    }

    /// The class whose children a family is.
    fn parent(&self, family: u32) -> Option<Child> {
        (family != LINK).then_some(Child::family(family))
    }

    /// Gives a class that becomes active its virtual time: its own, or a mean one if that is
    /// later, so that nobody saves up while idle, and nobody who comes back starves.
    #[inline]
    fn join(&mut self, at: Child, own: Own) {
        let family = &mut self.families[own.family as usize];
        family.active += 1;
        let is_first = family.active == 1;
        if self.resuming && self.resumes(at).share {
            return;
        }
        let family = &mut self.families[own.family as usize];
        let mean = if is_first {
            if !self.resuming {
                (family.floor, family.has_risen) = (family.top, false);
            }
            family.floor
        } else {
            self.times.mean(family)
        };
        let before = self.times.key(own.slot);
        if before < mean {
            self.times.keep(own.slot, mean);
            self.set_fraction(at, 0);
        }
        if !self.bends.is_empty() {
            self.restart_bend(at, before.max(mean));
        }
        if self.families[own.family as usize].floor > LOWER_AT {
            self.lower(own.family);
        }
    }

    fn restart_bend(&mut self, at: Child, key: u64) {
        let bend = self.rare(at).bend;
        if let Some(bend) = self.bends.get_mut(bend as usize) {
            let curve = self.curves.at(bend.curve);
            curve.restart(&mut bend.position, i128::from(key) << FRACTION_BITS);
        }
    }

    /// The virtual time of a class after `bytes` more.
    fn advance(&mut self, at: Child, bytes: u32) -> u64 {
        let bend = self.rare(at).bend;
        if let Some(bend) = self.bends.get_mut(bend as usize) {
            let curve = self.curves.at(bend.curve);
            curve.advance(&mut bend.position, bytes);
            let reached = curve.reached(&bend.position).max(0) as u128 >> FRACTION_BITS;
            return reached.min(u128::from(KEY_MAX)) as u64;
        }
        let own = self.own(at);
        let slope = &self.kinds[own.kind as usize].share;
        let (key, fraction) = go_on((self.times.key(own.slot), own.fraction), slope, bytes);
        self.set_fraction(at, fraction);
        key
    }

    /// [algorithms §6.5] Who was held back does not make up for it.
    fn catch_up(&mut self, at: Child, key: u64) -> u64 {
        let floor = self.families[self.own(at).family as usize].floor;
        if key >= floor {
            return key;
        }
        self.set_fraction(at, 0);
        let bend = self.rare(at).bend;
        if let Some(bend) = self.bends.get_mut(bend as usize) {
            bend.position.delay(i128::from(floor - key) << FRACTION_BITS);
        }
        floor
    }

    /// Puts an active class where its virtual time and its limits belong.
    fn put(&mut self, now: Instant, at: Child, key: u64) {
        let own = self.own(at);
        let fits = self.fits(now, at);
        let family = &mut self.families[own.family as usize];
        self.times.put(family, own.slot, key, if fits { Part::In } else { Part::Held });
    }

    /// Whether an active class may be chosen now, as far as limits on it or below go.
    fn fits(&mut self, now: Instant, at: Child) -> bool {
        let limit = self.rare(at).limit;
        if limit == NONE {
            return true;
        }
        let held = at.either().err().filter(|&family| {
            let family = &mut self.families[family as usize];
            self.times.lowest(family).is_none()
        });
        // Without a child that fits there is one that waits, or the class would be idle.
        let below = held.and_then(|family| self.limits.earliest(self.lanes[family as usize]));
        self.limits.place(limit, now, below.unwrap_or(Instant::ZERO))
    }

    /// Lets the children take part whose time under the upper limits has come.
    fn admit_due(&mut self, family: u32, now: Instant) {
        let lane = self.lanes[family as usize];
        let family = &mut self.families[family as usize];
        while let Some(slot) = self.limits.pop_due(lane, now) {
            self.times.put(family, slot, self.times.key(slot), Part::In);
        }
    }

    fn raise_floor(&mut self, family: u32, key: u64) {
        let this = &mut self.families[family as usize];
        if key > this.floor {
            (this.floor, this.has_risen) = (key, true);
            if key > LOWER_AT {
                self.lower(family);
            }
        }
    }

    /// Lowers all times of a family, so that they never reach the end. It takes 2^60 bytes of the
    /// fastest slope, or 16 packets of one that is 2^39 times slower, to come here again.
    #[cold]
    fn lower(&mut self, family: u32) {
        let this = &mut self.families[family as usize];
        let by = this.floor - ORIGIN;
        this.floor = ORIGIN;
        this.top = this.top.saturating_sub(by);
        self.times.lower(this, by);
        if self.bends.is_empty() {
            return;
        }
        let (start, size) = (this.start, this.size);
        for slot in start..start + size {
            let bend = self.rare(self.child(family, slot)).bend;
            if let Some(bend) = self.bends.get_mut(bend as usize) {
                bend.position.delay(-(i128::from(by) << FRACTION_BITS));
            }
        }
    }
}

/// The family of the link's own children.
pub(super) const LINK: u32 = 0;
/// Where virtual times begin: so far from 0 that an earlier line of a curve is not cut off.
pub(super) const ORIGIN: u64 = 1 << 60;
/// Where they are lowered.
const LOWER_AT: u64 = 1 << 61;
/// Up to so many families it pays to wait, for each then owes for several packets.
const FEW: usize = 12;
/// Bits of the fraction.
const FRACTION_BITS: u32 = 32;
/// The bit of a class that is a leaf.
const LEAF: u32 = 1 << 31;
