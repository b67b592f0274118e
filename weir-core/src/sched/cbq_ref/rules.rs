//! The rules of `cbq-ref`, with times in seconds: which class may send, which one is next, and how
//! its estimator moves.
//!
//! A choice is stored until something happens, since a search changes state: a second call at the
//! same instant returns the same leaf. Invariant: the ring of a priority holds its leaves,
//! backlogged or not; `active` is one of them.

use super::class::{Class, Maxidle, Plan, Plans};
use crate::ids::{ClassId, LeafId};
use crate::parameter::BuildError;
use crate::sched::loans::Loans;
use crate::sched::{Borrowed, ClassSpec, Kin, Tree, Waiting};
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::Bytes;
use alloc::format;
use alloc::vec::Vec;

/// Class-based queueing by the reference, for callers whose clock is in seconds.
///
/// [`CbqRef`](super::CbqRef) calls it at whole nanoseconds. ns-2's own clock is a float: to get its
/// results to the packet, call it at ns-2's instants.
pub struct Rules {
    classes: Vec<Class>,
    plans: Plans,
    of_leaf: Vec<u32>,
    active: [Option<usize>; PRIORITIES],
    weights: Option<Weights>,
    sharing: Sharing,
    /// The highest level that lends under top-level sharing.
    toplevel: u8,
    /// Of the link, in bit/s.
    bandwidth: f64,
    /// The number of backlogged leaves.
    waiting: usize,
    /// When the last packet leaves the wire.
    free_at: f64,
    /// The result of `select` at an instant, as long as nothing has happened since.
    answer: Option<(f64, Answer)>,
    /// The number of classes from each up to its top class, both counted.
    depths: Vec<u8>,
    loans: Loans,
}

/// Which leaf may send.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Answer {
    /// This leaf may, at the account of this class; `None` if it sends only because the link would
    /// otherwise idle.
    Leaf(LeafId, Option<ClassId>),
    /// No leaf may until this instant has passed, unless a packet arrives.
    After(f64),
    /// No leaf holds a packet.
    Idle,
}

/// Which class may borrow from which ancestor [algorithms §1].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Formal,
    AncestorOnly,
    TopLevel,
}

/// The sums from which the weighted round robin derives weights: for each priority, over all its
/// classes, interior ones included.
struct Weights {
    maxpkt: u64,
    count: [u64; PRIORITIES],
    share: [f64; PRIORITIES],
}

/// A class and its lender; without one it sends only because the link would otherwise idle.
type Choice = (usize, Option<usize>);

impl Rules {
    /// Builds the rules for `tree`, with no packet waiting.
    ///
    /// # Errors
    /// When a class has no share or a share of 0 %.
    pub fn build(tree: &Tree) -> Result<Self, BuildError> {
        let bandwidth = tree.rate().bits_per_second() as f64;
        let maxpkt = tree.params().bytes("maxpkt").map_or(MAXPKT_DEFAULT, |bytes| bytes.get());
        let (classes, plans) = classes(tree, bandwidth, maxpkt)?;
        let sharing = match tree.params().choice("algorithm") {
            Some("formal") => Sharing::Formal,
            Some("top-level") => Sharing::TopLevel,
            _ => Sharing::AncestorOnly,
        };
        let weighted = tree.params().choice("general") == Some("wrr");
        let mut this = Self {
            of_leaf: tree.leaves().map(|(leaf, _)| tree.class_of(leaf).0).collect(),
            active: [None; PRIORITIES],
            weights: weighted
                .then(|| Weights::of(classes.iter().map(|class| plans.at(class.plan)), maxpkt)),
            sharing,
            toplevel: LEVEL_MAX,
            bandwidth,
            waiting: 0,
            free_at: 0.0,
            answer: None,
            classes,
            plans,
            depths: tree.classes().map(|(id, _)| tree.path(id).count() as u8).collect(),
            loans: Loans::new(tree),
        };
        for (leaf, _) in tree.leaves() {
            this.insert(this.of_leaf(leaf));
        }
        Ok(this)
    }

    /// Puts a leaf's class into the ring of its priority, right behind the active one.
    fn insert(&mut self, class: usize) {
        let priority = self.priority(class);
        let ahead = *self.active[priority].get_or_insert(class);
        // The first member of a ring is its own successor.
        let after = if ahead == class { class } else { self.classes[ahead].next() };
        self.classes[class].set_next(after);
        self.classes[ahead].set_next(class);
    }

    /// Returns the class of a leaf.
    pub(super) fn of_leaf(&self, leaf: LeafId) -> usize {
        self.of_leaf[leaf.index()] as usize
    }

    /// Returns the parameters of a class.
    fn plan(&self, class: usize) -> &Plan {
        self.plans.at(self.classes[class].plan)
    }

    fn priority(&self, class: usize) -> usize {
        self.plan(class).priority.into()
    }

    /// Returns the class from which `class` can borrow directly.
    fn above(&self, class: usize) -> Option<usize> {
        self.classes[class].parent().filter(|_| self.plan(class).borrow)
    }

    /// Records that `leaf` is offered a packet. If it, or the parent that lends to it, is not
    /// overlimit, that class lowers the cutoff [algorithms §2.5].
    pub fn offered(&mut self, now: f64, leaf: LeafId) {
        self.answer = None;
        if self.sharing != Sharing::TopLevel {
            return;
        }
        let class = self.of_leaf(leaf);
        let lender = self.above(class);
        if self.classes[class].undertime < now {
            self.toplevel = 1;
        } else if lender.is_some_and(|lender| self.classes[lender].undertime < now) {
            self.toplevel = self.toplevel.min(2);
        }
    }

    /// Records that `leaf`, which was empty, has a packet.
    pub fn enqueued(&mut self, now: f64, leaf: LeafId) {
        self.answer = None;
        // When the link became idle it searched for a packet, and a search takes credit away.
        if self.waiting == 0 && self.free_at < now {
            self.classes.iter_mut().for_each(|class| class.credit = 0);
        }
        let class = self.of_leaf(leaf);
        let class = &mut self.classes[class];
        self.waiting += usize::from(!class.backlogged);
        class.backlogged = true;
        class.packets = 1;
    }

    /// Records that `leaf` has one packet more.
    pub fn joined(&mut self, leaf: LeafId) {
        self.answer = None;
        let class = self.of_leaf(leaf);
        let class = &mut self.classes[class];
        class.packets = class.packets.saturating_add(1);
    }

    /// Records that a packet of `leaf` was dropped; `more` wait.
    pub fn dropped(&mut self, leaf: LeafId, more: bool) {
        self.answer = None;
        self.remove(self.of_leaf(leaf), more);
    }

    fn remove(&mut self, class: usize, more: bool) {
        let class = &mut self.classes[class];
        self.waiting += usize::from(more);
        self.waiting -= usize::from(class.backlogged);
        class.backlogged = more;
        class.packets = if more { class.packets.saturating_sub(1) } else { 0 };
    }

    /// Returns which leaf may send [algorithms §2.6].
    pub fn select(&mut self, now: f64) -> Answer {
        if let Some((_, answer)) = self.answer.filter(|&(at, _)| at == now) {
            return answer;
        }
        let answer = self.choose(now);
        self.answer = Some((now, answer));
        answer
    }

    fn choose(&mut self, now: f64) -> Answer {
        if self.waiting == 0 {
            return Answer::Idle;
        }
        let choice = if self.weights.is_some() { self.wrr(now) } else { self.prr(now) };
        if let Some((class, lender)) = choice {
            let leaf = self.classes[class].leaf().expect("only leaves are in a ring");
            return Answer::Leaf(leaf, lender.map(|lender| ClassId(lender as u32)));
        }
        // No backlogged class may borrow, else the first of them would be sent: each waits for its
        // own undertime.
        let waiting = self.classes.iter().filter(|class| class.backlogged);
        let undertime = waiting.map(|class| class.undertime).fold(f64::INFINITY, f64::min);
        Answer::After(undertime.max(now))
    }

    /// Charges `leaf`, just selected, for a packet of `length`; `more` wait.
    pub fn charge(&mut self, now: f64, leaf: LeafId, length: u64, more: bool) {
        let answer = self.answer.take().map(|(_, answer)| answer);
        let Some(Answer::Leaf(chosen, lender)) = answer else {
            panic!("the leaf that sends was selected and nothing has happened since");
        };
        assert_eq!(chosen, leaf, "the selected leaf sends");
        let class = self.of_leaf(leaf);
        self.remove(class, more);
        let stays = lender.is_some() && self.weights.is_some() && self.pay(class, length);
        let active = if stays { class } else { self.classes[class].next() };
        let priority = self.priority(class);
        self.active[priority] = Some(active);
        let time = 8.0 * length as f64 / self.bandwidth;
        self.free_at = now + time;
        let lender_class = lender.map(ClassId::index);
        if lender_class != Some(class) {
            // Without a lender it is the link that would otherwise idle.
            let depth = lender_class.map_or(0, |lender| usize::from(self.depths[lender]));
            self.loans.count(leaf, depth, Bytes::new(length));
        }
        if let Some(lender) = lender {
            let mut above = Some(class);
            while let Some(at) = above {
                let class = &mut self.classes[at];
                class.update(self.plans.at(class.plan), now, length as f64, time);
                above = class.parent();
            }
            self.departed(now, class, lender.index());
        }
    }

    /// Takes a packet from the credit of a class; returns whether its turn goes on.
    fn pay(&mut self, class: usize, length: u64) -> bool {
        let class = &mut self.classes[class];
        if class.credit > 0 {
            class.credit = class.credit.saturating_sub_unsigned(length);
        }
        class.credit > 0
    }

    /// Moves the cutoff after a packet of `class` [algorithms §2.6].
    fn departed(&mut self, now: f64, class: usize, lender: usize) {
        let level = self.plan(lender).level;
        if self.sharing == Sharing::TopLevel && self.toplevel >= level {
            let done = self.classes[class].packets <= 1 || self.classes[lender].undertime > now;
            self.toplevel = if done { LEVEL_MAX } else { level };
        }
    }

    /// Packet by packet: chooses the first class that may send, in the order of priorities and
    /// rings.
    fn prr(&mut self, now: f64) -> Option<Choice> {
        let mut first = None;
        for priority in 0..PRIORITIES {
            let Some(start) = self.active[priority] else { continue };
            let mut at = start;
            loop {
                if self.classes[at].backlogged {
                    first = first.or_else(|| self.above(at).and(Some(at)));
                    if let Some(lender) = self.permit(at, now) {
                        return Some((at, Some(lender)));
                    }
                    self.delay(at, now);
                }
                at = self.classes[at].next();
                if at == start {
                    break;
                }
            }
        }
        first.map(|class| (class, None))
    }

    /// Chooses by weights [algorithms §2.6b].
    fn wrr(&mut self, now: f64) -> Option<Choice> {
        let mut first = None;
        for priority in 0..PRIORITIES {
            let Some(start) = self.active[priority] else { continue };
            let (choice, short) = self.wrr_round(start, now, &mut first, true);
            if choice.is_some() {
                return choice;
            }
            // Some classes may send and only lack credit: the first of them sends.
            if short {
                let (choice, _) = self.wrr_round(start, now, &mut first, false);
                if choice.is_some() {
                    return choice;
                }
            }
        }
        first.map(|class| (class, None))
    }

    /// Searches a ring once, with or without weights; returns the class that sends, and whether
    /// some class only lacks credit.
    fn wrr_round(
        &mut self,
        start: usize,
        now: f64,
        first: &mut Option<usize>,
        weighing: bool,
    ) -> (Option<Choice>, bool) {
        let mut short = false;
        let mut at = start;
        loop {
            if weighing && self.classes[at].credit <= 0 {
                let weight = self.weight(at);
                self.classes[at].credit = self.classes[at].credit.saturating_add(weight);
            }
            if self.classes[at].backlogged {
                *first = first.or_else(|| self.above(at).and(Some(at)));
                match self.permit(at, now) {
                    None => self.delay(at, now),
                    Some(lender) if self.classes[at].credit > 0 || !weighing => {
                        return (Some((at, Some(lender))), short);
                    }
                    Some(_) => short = true,
                }
            }
            self.classes[at].credit = 0;
            at = self.classes[at].next();
            if at == start {
                return (None, short);
            }
        }
    }

    /// Returns the bytes that a class gains in a turn.
    fn weight(&self, class: usize) -> i64 {
        let plan = self.plan(class);
        self.weights.as_ref().map_or(0, |weights| weights.of_class(plan))
    }

    /// Records that a class wants to send and may not.
    fn delay(&mut self, class: usize, now: f64) {
        let class = &mut self.classes[class];
        class.delay(self.plans.at(class.plan), now);
    }

    /// Returns the class at whose account `class` may send, possibly itself [algorithms §2.4].
    fn permit(&mut self, class: usize, now: f64) -> Option<usize> {
        if self.classes[class].permits_itself(now) {
            return Some(class);
        }
        let mut above = self.above(class);
        while let Some(at) = above {
            let lender = &self.classes[at];
            if lender.undertime > now {
                if self.sharing == Sharing::TopLevel && self.plan(at).level > self.toplevel {
                    return None;
                }
            } else if self.lends(at, now) {
                return Some(at);
            }
            above = lender.parent();
        }
        None
    }

    /// Returns whether the parent, which is not overlimit, may lend.
    fn lends(&self, class: usize, now: f64) -> bool {
        let level = self.plan(class).level;
        match self.sharing {
            Sharing::AncestorOnly => true,
            Sharing::TopLevel => level <= self.toplevel,
            Sharing::Formal => {
                let mut below = (0..self.classes.len()).filter(|&at| self.plan(at).level < level);
                below.all(|at| self.satisfied(at, now))
            }
        }
    }

    /// Returns whether it is satisfied: not both underlimit and backlogged.
    fn satisfied(&self, class: usize, now: f64) -> bool {
        let at = &self.classes[class];
        if at.undertime >= now {
            return true;
        }
        if self.plan(class).level == LEAF_LEVEL {
            return !at.backlogged;
        }
        let needs = |leaf: usize| {
            let waits = self.classes[leaf].backlogged && self.plan(leaf).level == LEAF_LEVEL;
            waits && self.below(leaf, class)
        };
        !(0..self.classes.len()).any(needs)
    }

    /// Returns whether `class` is an ancestor of `leaf`, and every class from `leaf` up to it can
    /// borrow.
    fn below(&self, leaf: usize, class: usize) -> bool {
        core::iter::successors(self.above(leaf), |&at| self.above(at)).any(|at| at == class)
    }

    /// Returns until when `leaf` is held back, from its own undertime and its lender's; 0 if it
    /// never was.
    #[inline]
    pub fn held_until(&self, leaf: LeafId) -> f64 {
        let class = self.of_leaf(leaf);
        let mut held = self.classes[class].undertime;
        let mut above = self.above(class);
        while let Some(at) = above {
            let at = &self.classes[at];
            // Not `min`, which also tests for NaN.
            held = if at.undertime < held { at.undertime } else { held };
            above = at.parent();
        }
        held
    }

    /// Returns the lender of `leaf` if the leaf was just selected.
    pub fn lender(&self, leaf: LeafId) -> Option<ClassId> {
        match self.answer {
            Some((_, Answer::Leaf(chosen, lender))) if chosen == leaf => lender,
            _ => None,
        }
    }

    /// Returns what `leaf` has borrowed.
    pub(super) fn borrowed(&self, leaf: LeafId) -> Borrowed {
        self.loans.of(leaf)
    }

    /// Takes over the state of the classes that exist in both links: as ns-2's `newallot` where
    /// only shares differ [algorithms §2.7].
    pub fn inherit(&mut self, old: &Self, kin: &Kin) {
        let mut planner = self.plans.planner();
        for (new, was) in kin.classes() {
            let (class, was) = (&mut self.classes[new.index()], &old.classes[was.index()]);
            class.inherit(was);
            class.plan = planner.number(planner.at(class.plan).inherit(old.plans.at(was.plan)));
        }
        for (new, was) in kin.leaves() {
            let (new, was) = (self.of_leaf(new), old.of_leaf(was));
            let priority = self.priority(new);
            if old.active[priority] == Some(was) {
                self.active[priority] = Some(new);
            }
        }
        self.loans.inherit(&old.loans, kin);
        self.toplevel = old.toplevel;
        self.free_at = old.free_at;
        let same = kin.classes().count() == self.classes.len().max(old.classes.len());
        if let (Some(weights), Some(was), true) = (&mut self.weights, &old.weights, same) {
            let pairs = kin.classes().map(|(new, was)| (new.index(), was.index()));
            let plan = |class: &Class| *self.plans.at(class.plan);
            let pairs = pairs
                .map(|(new, was)| (plan(&self.classes[new]), *old.plans.at(old.classes[was].plan)));
            weights.inherit(was, &pairs.collect::<Vec<_>>());
        }
    }
}

impl Weights {
    /// Sums over classes in the order of declaration, on which rounding depends.
    fn of<'a>(plans: impl Iterator<Item = &'a Plan>, maxpkt: u64) -> Self {
        let mut this = Self { maxpkt, count: [0; PRIORITIES], share: [0.0; PRIORITIES] };
        for plan in plans {
            this.count[usize::from(plan.priority)] += 1;
            this.share[usize::from(plan.priority)] += plan.share;
        }
        this
    }

    /// Returns the weight in whole bytes: the conversion truncates and saturates. It is 0 where the
    /// sum of shares, after very many changes, has drifted below zero.
    fn of_class(&self, plan: &Plan) -> i64 {
        let priority = usize::from(plan.priority);
        let bytes = self.count[priority].saturating_mul(self.maxpkt);
        let per_share = bytes as f64 / self.share[priority];
        ((plan.share * per_share) as i64).max(0)
    }

    /// Adds the differences to the old sums instead of summing anew: ns-2's sums retain earlier
    /// rounding errors, and a weight is truncated to whole bytes.
    fn inherit(&mut self, old: &Self, pairs: &[(Plan, Plan)]) {
        if pairs.iter().any(|(new, old)| new.priority != old.priority) {
            return;
        }
        self.share = old.share;
        for (new, old) in pairs {
            self.share[usize::from(new.priority)] += new.share - old.share;
        }
    }
}

fn classes(tree: &Tree, bandwidth: f64, maxpkt: u64) -> Result<(Vec<Class>, Plans), BuildError> {
    let levels = levels(tree);
    let packet = maxpkt as f64 * 8.0 / bandwidth;
    let mut plans = Plans::default();
    let mut planner = plans.planner();
    let mut classes = Vec::with_capacity(tree.classes().len());
    for (id, spec) in tree.classes() {
        let share = share(id, spec)?;
        let seconds = |name| spec.params.duration(name).map(|time| time.as_nanos() as f64 / 1e9);
        let priority = spec.params.number("priority").unwrap_or(0).min(PRIORITY_MAX);
        let level = spec.params.number("level").map(|level| level.clamp(1, 32) as u8);
        let maxidle = seconds("maxidle").map(Maxidle::Written);
        let plan = planner.number(Plan {
            borrow: spec.params.flag("borrow").unwrap_or(true),
            level: level.unwrap_or(levels[id.index()]),
            priority: priority as u8,
            share,
            rate: share * (bandwidth / 8.0),
            maxidle: maxidle.unwrap_or_else(|| Maxidle::auto(share, priority as usize, packet)),
            extradelay: seconds("extradelay").unwrap_or(0.0),
        });
        classes.push(Class::new(spec.parent, tree.leaf_of(id), plan));
    }
    Ok((classes, plans))
}

fn share(id: ClassId, spec: &ClassSpec) -> Result<f64, BuildError> {
    let share = match spec.params.quantity("share") {
        Some(crate::units::Quantity::Share(share)) => share.ppb(),
        _ => 0,
    };
    if share == 0 {
        let name = &spec.name;
        let message = format!("class {name} has 0 % of the link; write a share above 0 %");
        return Err(BuildError::in_class(id, "share", message));
    }
    Ok(f64::from(share) / 1e9)
}

/// Returns the level of each class: 1 for a leaf, else one more than its highest child's.
fn levels(tree: &Tree) -> Vec<u8> {
    let mut levels = alloc::vec![LEAF_LEVEL; tree.classes().len()];
    for (leaf, _) in tree.leaves() {
        for (class, level) in tree.path(tree.class_of(leaf)).zip(LEAF_LEVEL..) {
            levels[class.index()] = levels[class.index()].max(level);
        }
    }
    levels
}

/// The priority that is served last.
pub(super) const PRIORITY_MAX: u64 = 9;
const PRIORITIES: usize = PRIORITY_MAX as usize + 1;
/// The highest level.
pub(super) const LEVEL_MAX: u8 = 32;
const LEAF_LEVEL: u8 = 1;
/// The default of `maxpkt` in ns-2, in bytes.
const MAXPKT_DEFAULT: u64 = 1024;

state!(Weights { share; kept: maxpkt, count });

impl State for Rules {
    fn save(&self, to: &mut Writer) {
        let Self {
            classes,
            plans,
            of_leaf: _,
            active,
            weights,
            sharing: _,
            toplevel,
            bandwidth: _,
            waiting,
            free_at,
            answer,
            depths: _,
            loans,
        } = self;
        classes.save(to);
        // A change of the tree may have kept what an earlier tree derived.
        for class in classes {
            if let Some(seconds) = plans.at(class.plan).maxidle.derived() {
                seconds.save(to);
            }
        }
        active.save(to);
        if let Some(weights) = weights {
            weights.save(to);
        }
        toplevel.save(to);
        waiting.save(to);
        free_at.save(to);
        save_answer(answer, to);
        loans.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.classes.load(from)?;
        self.load_plans(from)?;
        let built = self.active;
        self.active.load(from)?;
        let priority = |class: Option<usize>| class.map(|class| self.priority(class));
        let is_leaf =
            |class: &usize| self.classes.get(*class).is_some_and(|row| row.leaf().is_some());
        if !self.active.iter().flatten().all(is_leaf)
            || !self.active.into_iter().map(priority).eq(built.into_iter().map(priority))
        {
            return Err(StateError::Invalid("active class"));
        }
        if let Some(weights) = &mut self.weights {
            weights.load(from)?;
        }
        self.toplevel.load(from)?;
        self.waiting.load(from)?;
        self.free_at.load(from)?;
        self.answer = load_answer(from)?;
        self.loans.load(from)
    }
}

/// Writes the last answer. A leaf is not selected twice: it sends, or its packet is dropped.
fn save_answer(answer: &Option<(f64, Answer)>, to: &mut Writer) {
    match *answer {
        None | Some((_, Answer::Leaf(..))) => to.byte(0),
        Some((at, Answer::After(instant))) => {
            to.byte(1);
            at.save(to);
            instant.save(to);
        }
        Some((at, Answer::Idle)) => {
            to.byte(2);
            at.save(to);
        }
    }
}

fn load_answer(from: &mut Reader<'_>) -> Result<Option<(f64, Answer)>, StateError> {
    let (mut at, mut instant) = (0.0f64, 0.0f64);
    let kind = from.index(3, "answer")?;
    if kind > 0 {
        at.load(from)?;
    }
    if kind == 1 {
        instant.load(from)?;
    }
    Ok(match kind {
        0 => None,
        1 if instant >= at => Some((at, Answer::After(instant))),
        2 => Some((at, Answer::Idle)),
        _ => return Err(StateError::Invalid("answer")),
    })
}

impl Rules {
    fn load_plans(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let mut planner = self.plans.planner();
        for class in &mut self.classes {
            let plan = *planner.at(class.plan);
            let Some(derived) = plan.maxidle.derived() else { continue };
            let mut seconds = derived;
            seconds.load(from)?;
            if seconds.to_bits() != derived.to_bits() {
                class.plan = planner.number(Plan { maxidle: Maxidle::Auto(seconds), ..plan });
            }
        }
        Ok(())
    }

    /// Checks a loaded state: the leaves in which packets wait are those that `waiting` has.
    pub(super) fn knows(&self, waiting: &Waiting<'_>) -> bool {
        let backlogged = self.classes.iter().filter(|class| class.backlogged).count();
        let is_known = |leaf: usize, head: Option<_>| {
            self.classes[self.of_leaf[leaf] as usize].backlogged == head.is_some()
        };
        let idles = matches!(self.answer, Some((_, Answer::Idle)));
        waiting.all(is_known)
            && backlogged == waiting.leaves()
            && self.waiting == backlogged
            && (!idles || backlogged == 0)
    }
}
