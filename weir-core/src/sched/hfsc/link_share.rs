//! Link sharing: from the link down, of the active children that fit under their upper limits the
//! one with the smallest virtual time [algorithms §6.4-6.5].
//!
//! The virtual time of a class is when its link-share curve reaches what it was sent, by whichever
//! criterion. Where ALTQ lets a parent's new period begin at 0 and gives its children an offset, a
//! virtual time here goes on from the largest of the last period, which is the same. A class is
//! *active* while packets of leaves with link-share curves wait in it or below. Invariant: an
//! active class stands in `latest` and either in `fitting` or, if its fit time was in the future
//! when it was last looked at, in `held`, in the lane of its family.

use super::curve::{Curve, CurveId, Curves, Rules};
use super::params::ClassPlan;
use super::runtime::{FAR, Runtime};
use super::ticks;
use super::upper_limit::{self, UpperLimit};
use crate::ids::{ClassId, LeafId};
use crate::order::heap::Heaps;
use crate::sched::{Kin, Refit, Tree};
use crate::state::state;
use crate::units::Instant;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The tree of link sharing.
pub(super) struct LinkShare {
    classes: Vec<Class>,
    /// The first is the link's; the others are those of classes with children.
    families: Vec<Family>,
    curves: Curves,
    limits: Vec<UpperLimit>,
    limit_curves: Curves,
    /// By family: active children that fit, by virtual time, of equals the one that has it longer.
    fitting: Heaps<Turn>,
    /// By family: active children that an upper limit holds back, by fit time.
    held: Heaps<Instant>,
    /// By family: all active children, the largest virtual time first.
    latest: Heaps<Reverse<i128>>,
    /// How many virtual times were set.
    turns: u64,
}

struct Class {
    /// The family that it is in.
    family: u32,
    below: Below,
    /// The number of its link-share curve, if it has one.
    curve: Option<CurveId>,
    /// How far it has come on its curve.
    runtime: Runtime,
    turn: Turn,
    /// The number of its upper limit, if it or a class below has one.
    limit: Option<u32>,
}

/// The key by which siblings are ordered. Packed, so that it takes 24 bytes and not 32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(Rust, packed(8))]
struct Turn {
    /// When the link-share curve of the class reaches what it was sent.
    virtual_time: i128,
    /// The number of that virtual time among all that were set: of equal ones the first goes first.
    number: u64,
}

#[derive(Clone, Copy)]
enum Below {
    Leaf(LeafId),
    /// The family of its children.
    Family(u32),
}

/// The children of a class, or those of the link.
#[derive(Clone, Copy)]
struct Family {
    /// The class whose children they are; the link has none.
    parent: Option<u32>,
    /// The largest virtual time at which a child was chosen in this period, ALTQ's `cvtmin`; before
    /// that, where the period began.
    chosen: i128,
    /// Whether link sharing has chosen a child in this period.
    has_chosen: bool,
    /// The largest virtual time at which a child became idle, ALTQ's `cvtmax`.
    idled: i128,
}

/// The account of one packet that a leaf sent.
#[derive(Clone, Copy)]
pub(super) struct Served {
    pub(super) bytes: u32,
    /// Whether link sharing chose it.
    pub(super) by_share: bool,
    /// The packet was the last of its leaf.
    pub(super) empties: bool,
}

impl LinkShare {
    pub(super) fn new(tree: &Tree, plans: &[ClassPlan]) -> Self {
        let rules = Rules::from_params(tree.params());
        let (mut curves, mut limit_curves) = (Curves::new(rules), Curves::new(rules));
        let (limits, numbers) = upper_limit::build(tree, plans, &mut limit_curves);
        let (families, below) = families(tree);
        let mut classes = Vec::with_capacity(plans.len());
        for ((id, class), plan) in tree.classes().zip(plans) {
            let children = Below::Family(below[id.index()]);
            classes.push(Class {
                family: class.parent.map_or(LINK, |parent| below[parent.index()]),
                below: tree.leaf_of(id).map_or(children, Below::Leaf),
                curve: plan.link_share.map(|spec| curves.add(spec)),
                runtime: Runtime::IDLE,
                turn: Turn::default(),
                limit: numbers[id.index()],
            });
        }
        let mut sharing = alloc::vec![0; families.len()];
        let mut limited = sharing.clone();
        for class in &classes {
            sharing[class.family as usize] += usize::from(class.curve.is_some());
            limited[class.family as usize] += usize::from(class.limit.is_some());
        }
        let count = classes.len();
        Self {
            classes,
            families,
            curves,
            fitting: Heaps::new(&sharing, count),
            held: Heaps::new(&limited, if limits.is_empty() { 0 } else { count }),
            latest: Heaps::new(&sharing, count),
            limits,
            limit_curves,
            turns: 0,
        }
    }

    /// The leaf that link sharing chooses now.
    #[inline]
    pub(super) fn first(&mut self, now: Instant) -> Option<LeafId> {
        let mut family = LINK;
        loop {
            if self.families[family as usize].chosen > LOWER_AT {
                self.lower(family);
            }
            self.release(now, family);
            let class = self.first_child(family)?;
            match self.classes[class as usize].below {
                Below::Leaf(leaf) => return Some(leaf),
                Below::Family(below) => family = below,
            }
        }
    }

    /// The child of a family with the smallest virtual time of those that fit. The keys in
    /// `fitting` may be older and smaller than the virtual times; the first key is updated until it
    /// is that of its class.
    #[inline]
    fn first_child(&mut self, family: u32) -> Option<u32> {
        loop {
            let (turn, class) = self.fitting.first(family as usize)?;
            let this = &self.classes[class as usize];
            if this.turn == turn {
                return Some(class);
            }
            self.fitting.increase(family as usize, class, this.turn);
        }
    }

    /// When a class fits under all upper limits, if none does now.
    pub(super) fn next_fit(&self) -> Option<Instant> {
        self.held.first(LINK as usize).map(|(time, _)| time)
    }

    /// From when on a class fits under its own limit and those above; `None` if it does not share.
    pub(super) fn fits_from(&self, class: ClassId) -> Option<(Instant, u8)> {
        self.classes[class.index()].curve?;
        let path = core::iter::successors(Some(class.0), |&at| self.parent(at)).zip(0..);
        let limits = path.filter_map(|(at, level)| Some((self.limit(at)?.fit, level)));
        Some(limits.max_by_key(|row| row.0).unwrap_or((Instant::ZERO, 0)))
    }

    /// [algorithms §6.4] A leaf becomes backlogged: it becomes active, and so do the classes above
    /// it that were not. Those that `resumes` marks were so before the tree was changed, and go on
    /// where they were.
    pub(super) fn init_vf(&mut self, now: Instant, leaf: ClassId, resumes: Option<&[bool]>) {
        let mut activates = self.classes[leaf.index()].curve.is_some();
        let mut at = Some(leaf.0);
        while let Some(class) = at {
            let is_limited = self.classes[class as usize].limit.is_some();
            if activates {
                activates = self.activate(now, class, resumes);
            } else if !is_limited {
                // No fit time depends on what is below.
                return;
            }
            if is_limited {
                self.update_f(now, class);
            }
            at = self.parent(class);
        }
    }

    /// [algorithms §6.5] A leaf sent a packet, or lost its last one to a drop: updates virtual
    /// times and limits, from the leaf up to the link.
    pub(super) fn update_vf(&mut self, now: Instant, leaf: ClassId, served: Served) {
        let (mut at, mut idles) = (Some(leaf.0), served.empties);
        while let Some(class) = at {
            let this = &mut self.classes[class as usize];
            let family = &mut self.families[this.family as usize];
            at = family.parent;
            if served.by_share {
                family.note_choice(this.turn.virtual_time);
            }
            let is_active = self.latest.contains(class);
            if let Some(limit) = this.limit {
                let limit = &mut self.limits[limit as usize];
                limit.update(&self.limit_curves, now, served.bytes, is_active);
            }
            let Some(curve) = this.curve else {
                idles = false;
                continue;
            };
            this.update_v(self.curves.at(curve), served.bytes);
            self.turns += 1;
            this.turn.number = self.turns;
            if idles {
                idles = self.deactivate(class);
            } else if is_active {
                this.catch_up(self.curves.at(curve), family.chosen);
                let (lane, time) = (this.family as usize, Reverse(this.turn.virtual_time));
                self.latest.decrease(lane, class, time);
                if this.limit.is_some() {
                    self.update_f(now, class);
                }
            }
        }
    }

    /// A class becomes active; returns whether the class above it does as well.
    fn activate(&mut self, now: Instant, class: u32, resumes: Option<&[bool]>) -> bool {
        let this = &mut self.classes[class as usize];
        let lane = this.family as usize;
        let is_first = self.latest.len(lane) == 0;
        if !resumes.is_some_and(|resumes| resumes[class as usize]) {
            if is_first && resumes.is_none() {
                // A new period of the class above.
                let family = &mut self.families[lane];
                (family.chosen, family.has_chosen) = (family.idled, false);
            }
            self.init_v(class);
            if let Some(limit) = self.classes[class as usize].limit {
                self.limits[limit as usize].init(&self.limit_curves, now);
            }
        }
        let this = &mut self.classes[class as usize];
        self.latest.insert(lane, class, Reverse(this.turn.virtual_time));
        self.fitting.insert(lane, class, this.turn);
        is_first
    }

    /// Gives a class that becomes active its virtual time: its own or, if that is later, a mean
    /// one, so that no class saves up while it idles, and none that comes back starves.
    #[inline]
    fn init_v(&mut self, class: u32) {
        let this = &mut self.classes[class as usize];
        let family = &self.families[this.family as usize];
        let latest = self.latest.first(this.family as usize).map(|(Reverse(time), _)| time);
        let by_linux = self.curves.rules() == Rules::Linux;
        let mean = match latest {
            // For Linux a virtual time of 0 says that no child was chosen.
            Some(latest) if by_linux && family.chosen == 0 => latest,
            Some(latest) if family.has_chosen && by_linux => ticks::midpoint(family.chosen, latest),
            Some(latest) if family.has_chosen => family.chosen.midpoint(latest),
            Some(latest) => latest,
            None => family.chosen,
        };
        let curve = self.curves.at(this.curve.expect("only classes that share become active"));
        // [linux] The link has no periods, so there a class that comes back has the mean even if
        // its own time is later.
        let own = match by_linux && this.family == LINK {
            true => mean,
            false => curve.reached(&this.runtime),
        };
        let time = own.max(mean);
        curve.min_with(&mut this.runtime, time);
        self.turns += 1;
        this.turn = Turn { virtual_time: time, number: self.turns };
    }

    /// A class becomes idle; returns whether the class above it does as well.
    fn deactivate(&mut self, class: u32) -> bool {
        let this = &self.classes[class as usize];
        let lane = this.family as usize;
        let family = &mut self.families[lane];
        family.idled = family.idled.max(this.turn.virtual_time);
        self.latest.remove(lane, class);
        if self.is_held(class) {
            self.held.remove(lane, class);
        } else {
            self.fitting.remove(lane, class);
        }
        self.latest.len(lane) == 0
    }

    /// Puts an active class with an upper limit, or above one, where its fit time belongs.
    fn update_f(&mut self, now: Instant, class: u32) {
        let fit = self.fit(class);
        let this = &self.classes[class as usize];
        let lane = this.family as usize;
        match (self.is_held(class), fit > now) {
            (false, false) => {}
            (true, true) => self.held.update(lane, class, fit),
            (false, true) => {
                self.fitting.remove(lane, class);
                self.held.insert(lane, class, fit);
            }
            (true, false) => {
                self.held.remove(lane, class);
                self.fitting.insert(lane, class, this.turn);
            }
        }
    }

    /// From when on an active class fits: under its own limit, and with the first child that does.
    fn fit(&self, class: u32) -> Instant {
        let own = self.limit(class).map_or(Instant::ZERO, |limit| limit.fit);
        let Below::Family(family) = self.classes[class as usize].below else { return own };
        if self.fitting.len(family as usize) > 0 {
            return own;
        }
        self.held.first(family as usize).map_or(own, |(time, _)| own.max(time))
    }

    /// Lets the children of a family that fit by now be chosen.
    #[inline]
    fn release(&mut self, now: Instant, family: u32) {
        let due = |&(time, _): &(Instant, u32)| time <= now;
        while let Some((_, class)) = self.held.first(family as usize).filter(due) {
            self.update_f(now, class);
        }
    }

    /// Lowers all times of a family before they reach the end.
    #[cold]
    fn lower(&mut self, number: u32) {
        let family = &mut self.families[number as usize];
        let by = core::mem::take(&mut family.chosen);
        family.idled -= by;
        let children = (0u32..).zip(&mut self.classes).filter(|(_, this)| this.family == number);
        for (class, this) in children {
            if let Some(curve) = this.curve {
                self.curves.at(curve).delay(&mut this.runtime, -by);
            }
            this.turn.virtual_time -= by;
            if self.latest.contains(class) {
                self.latest.update(number as usize, class, Reverse(this.turn.virtual_time));
            }
            if self.fitting.contains(class) {
                self.fitting.update(number as usize, class, this.turn);
            }
        }
    }

    #[inline]
    fn parent(&self, class: u32) -> Option<u32> {
        self.families[self.classes[class as usize].family as usize].parent
    }

    /// Whether an active class stands in `held`.
    fn is_held(&self, class: u32) -> bool {
        self.classes[class as usize].limit.is_some() && self.held.contains(class)
    }

    /// The upper limit of a class if it or a class below has one.
    fn limit(&self, class: u32) -> Option<&UpperLimit> {
        self.classes[class as usize].limit.map(|limit| &self.limits[limit as usize])
    }

    /// Takes over what `old` knows of the classes that both trees have; returns for each class
    /// whether it was active there. A class whose link-share curve or parent is another starts
    /// anew, and so does a limit whose curve is.
    pub(super) fn inherit(&mut self, old: &Self, kin: &Kin) -> Vec<bool> {
        let mut resumes = alloc::vec![false; self.classes.len()];
        self.turns = old.turns;
        for (new, from) in kin.classes() {
            self.inherit_limit(old, new, from);
            let (parent, that) = (self.parent(new.0), &old.classes[from.index()]);
            let origin = parent.map(|parent| kin.class(ClassId(parent)));
            let this = &mut self.classes[new.index()];
            let (Some(curve), Some(other)) = (this.curve, that.curve) else { continue };
            if origin != old.parent(from.0).map(|parent| Some(ClassId(parent)))
                || self.curves.at(curve) != old.curves.at(other)
            {
                continue;
            }
            (this.runtime, this.turn) = (that.runtime, that.turn);
            resumes[new.index()] = old.latest.contains(from.0);
            let above = &old.families[that.family as usize];
            let family = &mut self.families[this.family as usize];
            (family.chosen, family.idled) = (above.chosen, above.idled);
            family.has_chosen = above.has_chosen;
        }
        resumes
    }

    /// Returns whether a leaf's class can have the curves of `plan`: there is room for those of the
    /// kinds that it had, and no other class's limit depends on them.
    pub(super) fn fits(&self, class: ClassId, plan: &ClassPlan) -> bool {
        let this = &self.classes[class.index()];
        let is_limited = self.limit(class.0).is_some_and(|limit| limit.curve.is_some());
        if this.curve.is_some() != plan.link_share.is_some()
            || is_limited != plan.upper_limit.is_some()
            || !self.curves.has_room(self.classes.len())
            || !self.limit_curves.has_room(self.classes.len())
        {
            return false;
        }
        // The credit of a class under a limit follows from the shares of its siblings and of those
        // of each class above it.
        let is_beside = |family: &Family| {
            let parent = family.parent.map(|parent| &self.classes[parent as usize]);
            parent.is_some_and(|parent| parent.family == this.family)
        };
        let shares_as_before = this.curve.zip(plan.link_share);
        let shares_as_before =
            shares_as_before.is_none_or(|(curve, spec)| self.curves.number(spec) == Some(curve));
        shares_as_before || self.limits.is_empty() || !self.families.iter().any(is_beside)
    }

    /// Gives a leaf's class, which is idle, the curves of `plan`; under another curve it starts
    /// anew.
    pub(super) fn refit(
        &mut self,
        tree: &Tree,
        class: ClassId,
        plan: &ClassPlan,
        refit: Refit<'_>,
    ) {
        let this = &mut self.classes[class.index()];
        let curve = plan.link_share.map(|spec| self.curves.add(spec));
        if refit.is_new || curve != this.curve {
            (this.curve, this.runtime, this.turn) = (curve, Runtime::IDLE, Turn::default());
        }
        let Some((number, spec)) = this.limit.zip(plan.upper_limit) else { return };
        let limit = &mut self.limits[number as usize];
        let curve = Some(self.limit_curves.add(spec));
        if refit.is_new || curve != limit.curve {
            (limit.curve, limit.runtime, limit.fit) = (curve, Runtime::IDLE, Instant::ZERO);
        }
        limit.follow(tree, refit.before, spec);
    }

    fn inherit_limit(&mut self, old: &Self, new: ClassId, from: ClassId) {
        let Some(that) = old.limit(from.0) else { return };
        let Some(this) = self.classes[new.index()].limit else { return };
        let this = &mut self.limits[this as usize];
        let Some((curve, other)) = this.curve.zip(that.curve) else { return };
        if self.limit_curves.at(curve) == old.limit_curves.at(other) {
            (this.runtime, this.fit) = (that.runtime, that.fit);
        }
    }
}

impl Class {
    /// The class, or one below it, sent `bytes`.
    #[inline]
    fn update_v(&mut self, curve: &Curve, bytes: u32) {
        curve.serve(&mut self.runtime, bytes);
        self.turn.virtual_time = curve.reached(&self.runtime);
    }

    /// [algorithms §6.5] A class that an upper limit held back while a sibling was `chosen` does
    /// not make up for it.
    #[inline]
    fn catch_up(&mut self, curve: &Curve, chosen: i128) {
        let behind = chosen - self.turn.virtual_time;
        if behind > 0 {
            curve.delay(&mut self.runtime, behind);
            self.turn.virtual_time = chosen;
        }
    }
}

impl Family {
    /// Link sharing chose a child at this virtual time.
    #[inline]
    fn note_choice(&mut self, time: i128) {
        (self.chosen, self.has_chosen) = (self.chosen.max(time), true);
    }
}

/// The families, empty, and which is that of each class's children.
fn families(tree: &Tree) -> (Vec<Family>, Vec<u32>) {
    let empty = Family { parent: None, chosen: 0, has_chosen: false, idled: 0 };
    let (mut families, mut numbers) = (alloc::vec![empty], Vec::new());
    for (id, _) in tree.classes() {
        numbers.push(families.len() as u32);
        if tree.leaf_of(id).is_none() {
            families.push(Family { parent: Some(id.0), ..empty });
        }
    }
    (families, numbers)
}

/// The family of the link's own children.
const LINK: u32 = 0;
/// Where the times of a family are lowered.
const LOWER_AT: i128 = FAR / 2;

state!(LinkShare {
    classes, families, limits, fitting, held, latest, turns; kept: curves, limit_curves
});
state!(Class { runtime, turn; kept: family, below, curve, limit });
state!(packed Turn { virtual_time, number });
state!(Family {
    chosen, has_chosen, idled;
    kept: parent;
    check: |family: &Self| is_near(family.chosen) && is_near(family.idled)
});

/// Whether a time is so near to zero that sums of several do not overflow.
fn is_near(time: i128) -> bool {
    (-16 * FAR..=16 * FAR).contains(&time)
}

impl LinkShare {
    pub(super) fn class_count(&self) -> usize {
        self.classes.len()
    }

    /// Whether the class of a leaf is active exactly if it shares and packets wait in it.
    pub(super) fn knows_leaf(&self, class: ClassId, waits: bool) -> bool {
        let shares = self.classes[class.index()].curve.is_some();
        self.latest.contains(class.0) == (waits && shares)
    }

    /// Whether this can be the state at `now`, if the classes of leaves are right.
    pub(super) fn is_sound(&self, now: Instant) -> bool {
        let lane = |at: usize| {
            let is_here = |class: u32| self.classes[class as usize].family as usize == at;
            let is_held = |(fit, class): (Instant, u32)| {
                is_here(class) && self.is_held(class) && fit == self.fit(class)
            };
            self.latest.items(at).all(|row| is_here(row.1))
                && self.fitting.items(at).all(|row| is_here(row.1))
                && self.held.items(at).all(is_held)
        };
        let mut classes = 0..self.classes.len() as u32;
        self.turns <= u64::MAX >> 1
            && (0..self.families.len()).all(lane)
            && classes.all(|class| self.class_is_sound(now, class))
    }

    fn class_is_sound(&self, now: Instant, class: u32) -> bool {
        let this = &self.classes[class as usize];
        let (active, fits) = (self.latest.contains(class), self.fitting.contains(class));
        let held = self.is_held(class);
        let below = match this.below {
            Below::Leaf(_) => true,
            Below::Family(family) => active == (self.latest.len(family as usize) > 0),
        };
        let virtual_time = this.turn.virtual_time;
        below
            && active == (fits || held)
            && !(fits && held)
            && (!active || this.curve.is_some())
            && (!fits || self.fit(class) <= now)
            && is_near(virtual_time)
    }
}
