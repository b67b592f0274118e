//! Link sharing: among siblings the one with the smallest virtual time [algorithms §6.4-6.5].
//!
//! The children of a class are a *family* and stand side by side; so do those of the link. A
//! family's virtual time is never set back: where the rules let a parent's new period begin at 0
//! with an offset for its children, it goes on from the largest time of the last period, which is
//! the same. It counts bytes of the family's fastest slope, about, and 2^-32 of them as fractions,
//! which are kept but do not decide. Invariant: virtual times of active children are at least the
//! `floor` of the family, unless an upper limit held them back; the floor stays below
//! [`LOWER_AT`], as all times of the family are lowered when it gets there.

use super::curve::{Curves, Position, Slope};
use super::limit::{Limits, NONE};
use crate::sched::tournament::{KEY_MAX, Lane, Order, Part};
use crate::units::Instant;
use alloc::vec::Vec;

/// The tree of link sharing. A class is known by its slot; siblings have neighbouring slots.
pub(super) struct LinkShare {
    pub(super) classes: Vec<Class>,
    pub(super) families: Vec<Family>,
    pub(super) bends: Vec<Bend>,
    pub(super) limits: Limits,
    /// The virtual times; those of idle classes take no part.
    pub(super) order: Order,
    /// Between a change of the tree and the first packet after it: classes that were active go on
    /// where they were.
    pub(super) resuming: bool,
}

/// A class; its virtual time is in `order`.
pub(super) struct Class {
    /// Below the unit of the virtual time, in 2^-32 of it.
    pub(super) fraction: u32,
    /// The link-share curve, if it has one slope.
    pub(super) slope: Slope,
    pub(super) family: u32,
    /// The family of its children, or the number of its leaf.
    pub(super) below: u32,
    /// Its entry among the limits.
    pub(super) limit: u32,
    /// Its curve, if it has two slopes.
    pub(super) bend: u32,
    pub(super) is_leaf: bool,
    /// Whether its link-share curve is straight and no limit is on it or below.
    pub(super) is_plain: bool,
    /// Whether it has a link-share curve.
    pub(super) shares: bool,
    pub(super) active: bool,
    /// Whether it was active when the tree was changed.
    pub(super) resumes: bool,
}

/// A link-share curve of two slopes, in fractions of the family's virtual time.
pub(super) struct Bend {
    pub(super) curve: u32,
    pub(super) position: Position,
}

/// The children of a class, or those of the link.
pub(super) struct Family {
    /// The largest virtual time at which link sharing chose a child.
    pub(super) floor: u64,
    /// The largest with which a child became idle in this period.
    pub(super) top: u64,
    /// Where this period began.
    pub(super) origin: u64,
    pub(super) active: u32,
    /// The slot of the class whose children these are; [`NONE`] for those of the link.
    pub(super) parent: u32,
    /// Where its children are in `order`.
    pub(super) lane: Lane,
    /// Where children under upper limits wait; [`NONE`] if there are no such children.
    pub(super) limits: u32,
    /// By how much its unit is shifted.
    pub(super) scale: u8,
}

/// What became of a leaf's packet.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) bytes: u32,
    /// Whether link sharing chose it.
    pub(super) shared: bool,
    pub(super) emptied: bool,
}

impl Family {
    pub(super) fn new(lane: Lane) -> Self {
        let (floor, top, origin) = (ORIGIN, ORIGIN, ORIGIN);
        Self { floor, top, origin, active: 0, parent: NONE, lane, limits: NONE, scale: 0 }
    }
}

impl Family {
    /// A child with a straight curve and no limit goes on. Who has no siblings competes with
    /// nobody, so its virtual time may stand still.
    #[inline]
    fn go_on(&mut self, order: &mut Order, (class, at): (&mut Class, u32), service: Sent) {
        let key = order.key(at);
        if service.shared {
            self.floor = self.floor.max(key);
        }
        let mut key = class.go_on(key, service.bytes);
        if key < self.floor {
            (class.fraction, key) = (0, self.floor);
        }
        order.put(&mut self.lane, at, key, Part::In);
    }

    /// A child becomes idle at the virtual time `key`; answers whether it was the last.
    #[inline]
    fn leave(&mut self, order: &mut Order, at: u32, key: u64) -> bool {
        self.top = self.top.max(key);
        self.active -= 1;
        order.put(&mut self.lane, at, key, Part::Out);
        self.active == 0
    }
}

impl Class {
    /// The virtual time of a class with a straight curve, which was `key`, after `bytes` more.
    #[inline]
    fn go_on(&mut self, key: u64, bytes: u32) -> u64 {
        let Slope { mantissa, shift } = self.slope;
        let product = u64::from(mantissa) * u64::from(bytes);
        // Nearly always 64 bits are enough; no shift is more than 42.
        if product >> (63 - u32::from(shift)) == 0 {
            let time = (product << shift) + u64::from(self.fraction);
            self.fraction = time as u32;
            return (key + (time >> FRACTION_BITS)).min(KEY_MAX);
        }
        let time = u128::from(key) << FRACTION_BITS | u128::from(self.fraction);
        let time = time + self.slope.cost(bytes);
        self.fraction = time as u32;
        (time >> FRACTION_BITS).min(u128::from(KEY_MAX)) as u64
    }
}

impl LinkShare {
    /// The leaf that link sharing chooses now.
    #[inline]
    pub(super) fn first(&mut self, now: Instant) -> Option<u32> {
        let mut below = LINK;
        loop {
            if self.families[below as usize].limits != NONE {
                self.admit_due(below, now);
            }
            let lane = &self.families[below as usize].lane;
            let class = &self.classes[self.order.lowest(lane)? as usize];
            if class.is_leaf {
                return Some(class.below);
            }
            below = class.below;
        }
    }

    /// When somebody fits under all upper limits, if nobody does now.
    pub(super) fn wake(&self) -> Option<Instant> {
        let limits = self.families[LINK as usize].limits;
        if limits == NONE { None } else { self.limits.earliest(limits) }
    }

    /// From when on the leaf in `slot` fits under the limits of its own and above.
    pub(super) fn released(&self, slot: u32) -> Instant {
        let (mut at, mut released) = (slot, Instant::ZERO);
        while at != NONE {
            let Class { limit, family, .. } = self.classes[at as usize];
            if limit != NONE {
                released = released.max(self.limits.own(limit));
            }
            at = self.families[family as usize].parent;
        }
        released
    }

    /// [algorithms §6.4] The leaf in `slot` becomes backlogged.
    pub(super) fn enter(&mut self, now: Instant, curves: &Curves, slot: u32) {
        let (mut at, mut newly) = (slot, self.classes[slot as usize].shares);
        loop {
            let Class { limit, family, resumes, .. } = self.classes[at as usize];
            if newly {
                if limit != NONE && !(resumes && self.resuming) {
                    self.limits.restart(curves, limit, now);
                }
                self.join(curves, at);
            } else if limit == NONE {
                return;
            }
            self.put(now, at, self.order.key(at));
            let family = &self.families[family as usize];
            newly = newly && family.active == 1;
            at = family.parent;
            if at == NONE {
                return;
            }
        }
    }

    /// [algorithms §6.5] The leaf in `slot` was served, or lost its last packet to a drop: what
    /// that moves, from the leaf up to the link.
    #[inline]
    pub(super) fn serve(&mut self, now: Instant, curves: &Curves, slot: u32, service: Sent) {
        self.resuming = false;
        let (mut at, mut leaves) = (slot, service.emptied);
        while at != NONE {
            let class = &mut self.classes[at as usize];
            let family = &mut self.families[class.family as usize];
            let parent = family.parent;
            // The plain case, at once: a straight curve and no limit.
            if class.is_plain && class.active && family.floor < LOWER_AT {
                if leaves {
                    let key = class.go_on(self.order.key(at), service.bytes);
                    if service.shared {
                        family.floor = family.floor.max(self.order.key(at));
                    }
                    class.active = false;
                    leaves = family.leave(&mut self.order, at, key);
                } else if !Order::is_single(&family.lane) {
                    family.go_on(&mut self.order, (class, at), service);
                }
            } else {
                leaves = self.serve_any(now, curves, at, Sent { emptied: leaves, ..service });
            }
            at = parent;
        }
    }

    /// What a packet moves at one class; answers whether its parent becomes idle.
    fn serve_any(&mut self, now: Instant, curves: &Curves, at: u32, service: Sent) -> bool {
        let Sent { bytes, shared, emptied } = service;
        let Class { family, limit, shares, active, .. } = self.classes[at as usize];
        if limit != NONE {
            self.limits.advance(curves, limit, now, bytes);
        }
        if !shares {
            return false;
        }
        if shared {
            self.raise_floor(family, self.order.key(at));
        }
        let key = self.advance(curves, at, bytes);
        if !active {
            self.order.keep(at, key);
        } else if emptied {
            return self.leave(at, key);
        } else {
            let key = self.catch_up(at, key);
            self.put(now, at, key);
        }
        false
    }

    /// Takes over the virtual times and limits of the classes of `old`; `kin` pairs their slots. A
    /// class whose curve changed, or its parent, or the unit of its family, starts anew.
    pub(super) fn inherit(
        &mut self,
        curves: &Curves,
        (old, old_curves): (&LinkShare, &Curves),
        kin: impl Iterator<Item = (u32, u32)>,
    ) {
        self.resuming = true;
        let kin: Vec<_> = kin.collect();
        let mut slots = alloc::vec![NONE; self.classes.len()];
        kin.iter().for_each(|&(new, from)| slots[new as usize] = from);
        for (new, from) in kin {
            let (class, that) = (&mut self.classes[new as usize], &old.classes[from as usize]);
            if class.limit != NONE && that.limit != NONE {
                let from = (&old.limits, old_curves, that.limit);
                self.limits.inherit(curves, class.limit, from);
            }
            let family = &mut self.families[class.family as usize];
            let above = &old.families[that.family as usize];
            let parent = slots.get(family.parent as usize).copied().unwrap_or(NONE);
            if (parent, family.scale) != (above.parent, above.scale) || class.slope != that.slope {
                continue;
            }
            match (self.bends.get_mut(class.bend as usize), old.bends.get(that.bend as usize)) {
                (None, None) => {}
                (Some(bend), Some(other))
                    if curves.at(bend.curve) == old_curves.at(other.curve) =>
                {
                    bend.position = other.position;
                }
                _ => continue,
            }
            (family.floor, family.top, family.origin) = (above.floor, above.top, above.origin);
            (class.fraction, class.resumes) = (that.fraction, that.active);
            self.order.keep(new, old.order.key(from));
        }
    }

    /// Gives a class that becomes active its virtual time: its own, or a mean one if that is
    /// later, so that nobody saves up while idle, and nobody who comes back starves.
    fn join(&mut self, curves: &Curves, at: u32) {
        let class = &mut self.classes[at as usize];
        let own = self.order.key(at);
        let family = &mut self.families[class.family as usize];
        class.active = true;
        family.active += 1;
        if self.resuming && class.resumes {
            return;
        }
        // Nobody else is active: no need to look.
        let others = if family.active == 1 { 0 } else { self.order.highest(&family.lane) };
        let mean = match others {
            0 if self.resuming => family.floor,
            0 => {
                (family.floor, family.origin) = (family.top, family.top);
                family.top
            }
            high if family.floor != family.origin => family.floor.midpoint(high),
            high => high,
        };
        if own < mean {
            class.fraction = 0;
        }
        let key = own.max(mean);
        self.order.keep(at, key);
        if let Some(bend) = self.bends.get_mut(class.bend as usize) {
            curves.at(bend.curve).restart(&mut bend.position, i128::from(key) << FRACTION_BITS);
        }
        if self.families[class.family as usize].floor > LOWER_AT {
            self.lower(self.classes[at as usize].family);
        }
    }

    /// The virtual time of a class after `bytes` more.
    #[inline]
    fn advance(&mut self, curves: &Curves, at: u32, bytes: u32) -> u64 {
        let class = &mut self.classes[at as usize];
        if class.bend != NONE {
            let bend = &mut self.bends[class.bend as usize];
            let curve = curves.at(bend.curve);
            curve.advance(&mut bend.position, bytes);
            let reached = curve.reached(&bend.position).max(0) as u128 >> FRACTION_BITS;
            return reached.min(u128::from(KEY_MAX)) as u64;
        }
        class.go_on(self.order.key(at), bytes)
    }

    /// [algorithms §6.5] Who was held back does not make up for it.
    #[inline]
    fn catch_up(&mut self, at: u32, key: u64) -> u64 {
        let class = &mut self.classes[at as usize];
        let floor = self.families[class.family as usize].floor;
        if key >= floor {
            return key;
        }
        class.fraction = 0;
        if let Some(bend) = self.bends.get_mut(class.bend as usize) {
            bend.position.delay(i128::from(floor - key) << FRACTION_BITS);
        }
        floor
    }

    /// A class becomes idle, its last packet counted; answers whether its parent becomes idle too.
    fn leave(&mut self, at: u32, key: u64) -> bool {
        let class = &mut self.classes[at as usize];
        class.active = false;
        if class.limit != NONE {
            self.limits.leave(class.limit);
        }
        self.families[class.family as usize].leave(&mut self.order, at, key)
    }

    /// Puts an active class where its virtual time and its limits belong.
    #[inline]
    fn put(&mut self, now: Instant, at: u32, key: u64) {
        let Class { family, limit, .. } = self.classes[at as usize];
        let fits = limit == NONE || self.fits(now, at);
        let lane = &mut self.families[family as usize].lane;
        self.order.put(lane, at, key, if fits { Part::In } else { Part::Held });
    }

    /// Whether an active class with limits on it or below may be chosen now.
    fn fits(&mut self, now: Instant, at: u32) -> bool {
        let Class { limit, below, is_leaf, .. } = self.classes[at as usize];
        let family = (!is_leaf).then(|| &self.families[below as usize]);
        let held = family.filter(|family| Order::is_empty(&family.lane));
        // Without a child that fits there is one that waits, or the class would be idle.
        let below = held.and_then(|family| self.limits.earliest(family.limits));
        self.limits.place(limit, now, below.unwrap_or(Instant::ZERO))
    }

    /// Lets the children take part whose time under the upper limits has come.
    fn admit_due(&mut self, family: u32, now: Instant) {
        let Family { lane, limits, .. } = &mut self.families[family as usize];
        while let Some(slot) = self.limits.pop_due(*limits, now) {
            self.order.put(lane, slot, self.order.key(slot), Part::In);
        }
    }

    #[inline]
    fn raise_floor(&mut self, family: u32, key: u64) {
        let this = &mut self.families[family as usize];
        if key > this.floor {
            this.floor = key;
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
        this.origin = this.origin.saturating_sub(by);
        this.top = this.top.saturating_sub(by);
        self.order.lower(&mut this.lane, by);
        for class in &self.classes[Order::items(&this.lane)] {
            if let Some(bend) = self.bends.get_mut(class.bend as usize) {
                bend.position.delay(-(i128::from(by) << FRACTION_BITS));
            }
        }
    }
}

/// The family of the link's own children.
pub(super) const LINK: u32 = 0;
/// Where virtual times begin: so far from 0 that an earlier line of a curve is not cut off.
const ORIGIN: u64 = 1 << 60;
/// Where they are lowered.
const LOWER_AT: u64 = 1 << 61;
/// Bits of the fraction.
pub(super) const FRACTION_BITS: u32 = 32;
