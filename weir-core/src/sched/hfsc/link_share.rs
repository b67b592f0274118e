//! Link sharing: from the link down, of the active children that fit under their upper limits the
//! one with the smallest virtual time [algorithms §6.4-6.5].
//!
//! The virtual time of a class is when its link-share curve reaches what it was sent, by whichever
//! criterion. Where ALTQ lets a parent's new period begin at 0 and gives its children an offset, a
//! virtual time here goes on from the largest of the last period, which is the same. A class is
//! *active* while packets of leaves with link-share curves wait in it or below. Invariant: an active
//! class stands in `latest` and either in `fitting` or, if its fit time was in the future when it
//! was last looked at, in `held`, in the lane of its family.

use super::curve::{Curves, FAR, Runtime};
use super::params::ClassPlan;
use super::upper_limit::{self, UpperLimit};
use crate::ids::{ClassId, LeafId};
use crate::order::heap::Heaps;
use crate::sched::{Kin, Tree};
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
    /// By family: active children that fit, by virtual time, of equals the one active first.
    fitting: Heaps<(i128, u64)>,
    /// By family: active children that an upper limit holds back, by fit time.
    held: Heaps<Instant>,
    /// By family: all active children, the largest virtual time first.
    latest: Heaps<Reverse<i128>>,
    /// How many times a class became active.
    activations: u64,
}

struct Class {
    /// The family that it is in.
    family: u32,
    below: Below,
    /// The number of its link-share curve, if it has one.
    curve: Option<u32>,
    /// How far it has come on its curve.
    runtime: Runtime,
    /// When its curve reaches what it was sent.
    virtual_time: i128,
    /// Which activation made it active.
    activation: u64,
    /// The number of its upper limit, if it or a class below has one.
    limit: Option<u32>,
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
    active: u32,
    /// The largest virtual time at which a child was chosen in this period, ALTQ's `cvtmin`; before
    /// that, where the period began.
    chosen: i128,
    /// Whether `chosen` has risen in this period.
    has_risen: bool,
    /// The largest virtual time at which a child became idle, ALTQ's `cvtmax`.
    idled: i128,
}

/// What became of a packet of a leaf.
#[derive(Clone, Copy)]
pub(super) struct Served {
    pub(super) bytes: u32,
    /// Whether link sharing chose it.
    pub(super) by_share: bool,
    /// Whether it was the last.
    pub(super) empties: bool,
}

impl LinkShare {
    pub(super) fn new(tree: &Tree, plans: &[ClassPlan]) -> Self {
        let (mut curves, mut limit_curves) = (Curves::default(), Curves::default());
        let (limits, numbers) = upper_limit::build(tree, plans, &mut limit_curves);
        let (below, families) = families(tree);
        let mut classes = Vec::with_capacity(plans.len());
        for (((id, class), plan), &below_this) in tree.classes().zip(plans).zip(&below) {
            classes.push(Class {
                family: class.parent.map_or(LINK, |parent| below[parent.index()].family()),
                below: below_this,
                curve: plan.link_share.map(|spec| curves.add(spec)),
                runtime: Runtime::IDLE,
                virtual_time: 0,
                activation: 0,
                limit: numbers[id.index()],
            });
        }
        let (mut sharing, mut limited) = (alloc::vec![0; families.len()], Vec::new());
        limited.clone_from(&sharing);
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
            activations: 0,
        }
    }

    /// The leaf that link sharing chooses now.
    #[inline]
    pub(super) fn first(&mut self, now: Instant) -> Option<LeafId> {
        let mut family = LINK;
        loop {
            self.release(now, family);
            let (_, class) = self.fitting.first(family as usize)?;
            match self.classes[class as usize].below {
                Below::Leaf(leaf) => return Some(leaf),
                Below::Family(below) => family = below,
            }
        }
    }

    /// When a class fits under all upper limits, if none does now.
    pub(super) fn next_fit(&self) -> Option<Instant> {
        self.held.first(LINK as usize).map(|(time, _)| time)
    }

    /// From when on a class fits under its own limit and those above; `None` if it does not share.
    pub(super) fn fits_from(&self, class: ClassId) -> Option<Instant> {
        self.classes[class.index()].curve?;
        let path = core::iter::successors(Some(class.0), |&at| self.parent(at));
        let limits = path.filter_map(|at| self.limit(at).map(|limit| limit.fit));
        Some(limits.max().unwrap_or(Instant::ZERO))
    }

    /// [algorithms §6.4] A leaf becomes backlogged: it becomes active, and so do the classes above
    /// it that were not. Those that `resumes` marks were so before the tree was changed, and go on
    /// where they were.
    pub(super) fn init_vf(&mut self, now: Instant, leaf: ClassId, resumes: Option<&[bool]>) {
        let mut activates = self.classes[leaf.index()].curve.is_some();
        let mut at = Some(leaf.0);
        while let Some(class) = at {
            if activates {
                activates = self.activate(now, class, resumes);
            } else if self.classes[class as usize].limit.is_none() {
                // Neither its place nor one above depends on what is below.
                return;
            }
            self.place(now, class);
            at = self.parent(class);
        }
    }

    /// [algorithms §6.5] A leaf sent a packet, or lost its last one to a drop: what that moves, from
    /// the leaf up to the link.
    pub(super) fn update_vf(&mut self, now: Instant, leaf: ClassId, served: Served) {
        let Served { bytes, by_share, empties } = served;
        let (mut at, mut idles) = (Some(leaf.0), empties);
        while let Some(class) = at {
            if by_share {
                self.note_choice(class);
            }
            idles = self.serve(now, class, bytes, idles);
            at = self.parent(class);
        }
    }

    /// The class, or one below it, sent `bytes`, and perhaps it `idles` now; returns whether the
    /// class above does as well.
    #[inline]
    fn serve(&mut self, now: Instant, class: u32, bytes: u32, idles: bool) -> bool {
        let this = &mut self.classes[class as usize];
        let is_active = self.latest.contains(class);
        if let Some(limit) = this.limit {
            self.limits[limit as usize].update(&self.limit_curves, now, bytes, is_active);
        }
        let Some(curve) = this.curve.map(|curve| self.curves.at(curve)) else { return false };
        curve.serve(&mut this.runtime, bytes);
        this.virtual_time = curve.y2x(&this.runtime, 0);
        if idles {
            return self.deactivate(class);
        }
        if is_active {
            self.catch_up(class);
            self.place(now, class);
        }
        false
    }

    /// A class becomes active; returns whether the class above it does as well. Its virtual time is
    /// its own or, if that is later, a mean one, so that no class saves up while it idles, and none
    /// that comes back starves.
    fn activate(&mut self, now: Instant, class: u32, resumes: Option<&[bool]>) -> bool {
        let this = &mut self.classes[class as usize];
        let number = this.family;
        let family = &mut self.families[number as usize];
        family.active += 1;
        let is_first = family.active == 1;
        if resumes.is_some_and(|resumes| resumes[class as usize]) {
            return is_first;
        }
        if is_first && resumes.is_none() {
            (family.chosen, family.has_risen) = (family.idled, false);
        }
        let mean = match self.latest.first(number as usize) {
            Some((Reverse(latest), _)) if family.has_risen => family.chosen.midpoint(latest),
            Some((Reverse(latest), _)) => latest,
            None => family.chosen,
        };
        let curve = self.curves.at(this.curve.expect("only classes that share become active"));
        this.virtual_time = curve.y2x(&this.runtime, 0).max(mean);
        curve.min_with(&mut this.runtime, this.virtual_time);
        self.activations += 1;
        this.activation = self.activations;
        if let Some(limit) = this.limit {
            self.limits[limit as usize].init(&self.limit_curves, now);
        }
        self.lower_if_late(number);
        is_first
    }

    /// A class becomes idle; returns whether the class above it does as well.
    fn deactivate(&mut self, class: u32) -> bool {
        let this = &self.classes[class as usize];
        let lane = this.family as usize;
        let family = &mut self.families[lane];
        family.active -= 1;
        family.idled = family.idled.max(this.virtual_time);
        self.latest.remove(lane, class);
        if self.fitting.contains(class) {
            self.fitting.remove(lane, class);
        } else {
            self.held.remove(lane, class);
        }
        family.active == 0
    }

    /// Puts an active class where its virtual time and its fit time belong.
    #[inline]
    fn place(&mut self, now: Instant, class: u32) {
        let this = &self.classes[class as usize];
        let lane = this.family as usize;
        put(&mut self.latest, lane, class, Reverse(this.virtual_time));
        let key = (this.virtual_time, this.activation);
        if this.limit.is_none() {
            return put(&mut self.fitting, lane, class, key);
        }
        let fit = self.fit(class);
        if fit <= now {
            take(&mut self.held, lane, class);
            put(&mut self.fitting, lane, class, key);
        } else {
            take(&mut self.fitting, lane, class);
            put(&mut self.held, lane, class, fit);
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
            self.place(now, class);
        }
    }

    /// Link sharing chose the class at its virtual time.
    #[inline]
    fn note_choice(&mut self, class: u32) {
        let this = &self.classes[class as usize];
        let (number, family) = (this.family, &mut self.families[this.family as usize]);
        if this.virtual_time > family.chosen {
            (family.chosen, family.has_risen) = (this.virtual_time, true);
            self.lower_if_late(number);
        }
    }

    /// [algorithms §6.5] A class that an upper limit held back while others were chosen does not
    /// make up for it.
    #[inline]
    fn catch_up(&mut self, class: u32) {
        let this = &mut self.classes[class as usize];
        let chosen = self.families[this.family as usize].chosen;
        if this.virtual_time < chosen {
            this.runtime.delay(chosen - this.virtual_time);
            this.virtual_time = chosen;
        }
    }

    /// Lowers all times of a family before they reach the end.
    #[inline]
    fn lower_if_late(&mut self, number: u32) {
        if self.families[number as usize].chosen > LOWER_AT {
            self.lower(number);
        }
    }

    #[cold]
    fn lower(&mut self, number: u32) {
        let family = &mut self.families[number as usize];
        let by = core::mem::take(&mut family.chosen);
        family.idled -= by;
        for (class, this) in (0u32..).zip(&mut self.classes) {
            if this.family != number {
                continue;
            }
            this.runtime.delay(-by);
            this.virtual_time -= by;
            let lane = number as usize;
            if self.latest.contains(class) {
                self.latest.update(lane, class, Reverse(this.virtual_time));
            }
            if self.fitting.contains(class) {
                self.fitting.update(lane, class, (this.virtual_time, this.activation));
            }
        }
    }

    #[inline]
    fn parent(&self, class: u32) -> Option<u32> {
        self.families[self.classes[class as usize].family as usize].parent
    }

    /// The upper limit of a class if it or a class below has one.
    fn limit(&self, class: u32) -> Option<&UpperLimit> {
        self.classes[class as usize].limit.map(|limit| &self.limits[limit as usize])
    }

    /// Takes over what `old` knows of the classes that both trees have; returns for each class
    /// whether it was active there. A class whose link-share curve or parent is another starts anew,
    /// and so does a limit whose curve is.
    pub(super) fn inherit(&mut self, old: &Self, kin: &Kin) -> Vec<bool> {
        let mut resumes = alloc::vec![false; self.classes.len()];
        self.activations = old.activations;
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
            (this.runtime, this.virtual_time) = (that.runtime, that.virtual_time);
            this.activation = that.activation;
            resumes[new.index()] = old.latest.contains(from.0);
            let above = &old.families[that.family as usize];
            let family = &mut self.families[this.family as usize];
            (family.chosen, family.idled) = (above.chosen, above.idled);
            family.has_risen = above.has_risen;
        }
        resumes
    }

    fn inherit_limit(&mut self, old: &Self, new: ClassId, from: ClassId) {
        let Some(that) = old.limit(from.0) else { return };
        let Some(this) = self.classes[new.index()].limit else { return };
        let this = &mut self.limits[this as usize];
        let curves = this.curve.zip(that.curve);
        if curves.is_some_and(|(curve, other)| {
            self.limit_curves.at(curve) == old.limit_curves.at(other)
        }) {
            (this.runtime, this.fit) = (that.runtime, that.fit);
        }
    }
}

impl Below {
    /// The family of the children of a class that has some.
    fn family(self) -> u32 {
        match self {
            Below::Leaf(_) => unreachable!("a parent has children"),
            Below::Family(family) => family,
        }
    }
}

/// For each class what is below it, and the families, empty.
fn families(tree: &Tree) -> (Vec<Below>, Vec<Family>) {
    let empty = Family { parent: None, active: 0, chosen: 0, has_risen: false, idled: 0 };
    let (mut below, mut families) = (Vec::new(), alloc::vec![empty]);
    for (id, _) in tree.classes() {
        if let Some(leaf) = tree.leaf_of(id) {
            below.push(Below::Leaf(leaf));
        } else {
            below.push(Below::Family(families.len() as u32));
            families.push(Family { parent: Some(id.0), ..empty });
        }
    }
    (below, families)
}

/// Gives an item a key, in this lane or newly there.
#[inline]
fn put<K: Ord + Copy + Default>(heaps: &mut Heaps<K>, lane: usize, item: u32, key: K) {
    if heaps.contains(item) {
        heaps.update(lane, item, key);
    } else {
        heaps.insert(lane, item, key);
    }
}

/// Takes an item out of this lane if it is there.
#[inline]
fn take<K: Ord + Copy + Default>(heaps: &mut Heaps<K>, lane: usize, item: u32) {
    if heaps.contains(item) {
        heaps.remove(lane, item);
    }
}

/// The family of the link's own children.
const LINK: u32 = 0;
/// Where the times of a family are lowered.
const LOWER_AT: i128 = FAR / 2;
