//! Upper limits: from when on link sharing may choose a class [algorithms §6.4-6.5].
//!
//! A class fits when its upper-limit curve reaches what it was sent. While it is active and sends
//! less than that it gathers *credit*: it may then send faster until it has caught up. Linux does
//! not bound the credit, ALTQ takes all of it away as soon as the class is a clock tick late (here
//! a largest packet). Both are wrong for a limit that is above what the class gets: link sharing
//! serves classes in turns, so a class sends nothing for a while and then faster than its limit.
//! ALTQ's rule holds it back then, and it loses its turn; Linux's lets it send without a limit
//! for as long as it sent less before.
//!
//! `bounded` gives the credit of [`Families::turn`]: as long as link sharing may let the class
//! wait. In any time a class with share *s* gets at most *s* times that time, *s* times that wait
//! and a packet [algorithms §6.7]; so a limit of at least *s* with that much credit never holds it
//! back. Invariant: `credit_max` is at least `credit_left`.

use super::curve::{CurveId, Curves, fine, round_up};
use super::params::ClassPlan;
use super::runtime::{Runtime, Spec};
use crate::ids::ClassId;
use crate::parameter::Params;
use crate::sched::Tree;
use crate::state::state;
use crate::units::{Bytes, Duration, Instant, Rate};
use alloc::vec::Vec;

/// A class with an upper limit, or one above such a class.
pub(super) struct UpperLimit {
    /// The number of its curve; `None` if it has no limit of its own.
    pub(super) curve: Option<CurveId>,
    pub(super) runtime: Runtime,
    /// From when on it fits by its own curve, ALTQ's `myf`.
    pub(super) fit: Instant,
    /// The class may be this late without losing credit.
    credit_max: Duration,
    /// The credit that remains when it is later than that.
    credit_left: Duration,
}

impl UpperLimit {
    /// A class that has no limit of its own.
    pub(super) const NONE: UpperLimit = UpperLimit {
        curve: None,
        runtime: Runtime::IDLE,
        fit: Instant::ZERO,
        credit_max: Duration::ZERO,
        credit_left: Duration::ZERO,
    };

    /// Follows another limit of its class, whose parameters were those of `before`. The credit is
    /// what siblings may cost the class, which stays, and a largest packet at its limit.
    pub(super) fn follow(&mut self, tree: &Tree, before: &Params, spec: Spec) {
        let packet = |rate: Rate| rate.transmit_time(tree.mtu());
        let was = before.rate("ul_m2").map_or(Duration::ZERO, packet);
        let other = |credit: Duration| {
            let wait = Duration::from_nanos(credit.as_nanos().saturating_sub(was.as_nanos()));
            wait.plus(packet(spec.m2))
        };
        match tree.params().choice("limit_credit") {
            Some("linux") => {}
            Some("altq") => self.credit_max = packet(spec.m2),
            _ => {
                (self.credit_max, self.credit_left) =
                    (other(self.credit_max), other(self.credit_left))
            }
        }
    }

    /// The class becomes active.
    pub(super) fn init(&mut self, curves: &Curves, now: Instant) {
        let Some(curve) = self.curve.map(|curve| curves.at(curve)) else { return };
        curve.min_with(&mut self.runtime, fine(now));
        self.fit = round_up(curve.reached(&self.runtime));
    }

    /// The class, or one below it, sent `bytes`. An active one loses the credit above its
    /// bound.
    pub(super) fn update(&mut self, curves: &Curves, now: Instant, bytes: u32, is_active: bool) {
        let Some(curve) = self.curve.map(|curve| curves.at(curve)) else { return };
        if is_active && self.fit.after(self.credit_max) < now {
            let to = fine(now) - fine(Instant::ZERO.after(self.credit_left));
            let by = to - curve.reached(&self.runtime);
            curve.delay(&mut self.runtime, by);
        }
        curve.serve(&mut self.runtime, bytes);
        self.fit = round_up(curve.reached(&self.runtime));
    }
}

/// The limits of a tree: for each class, the number of its entry if it or a class below has one.
pub(super) fn build(
    tree: &Tree,
    plans: &[ClassPlan],
    curves: &mut Curves,
) -> (Vec<UpperLimit>, Vec<Option<u32>>) {
    let (mut limits, mut numbers) = (Vec::new(), alloc::vec![None; plans.len()]);
    let families = Families::new(tree, plans);
    for (id, _) in tree.classes() {
        let Some(spec) = plans[id.index()].upper_limit else { continue };
        for class in tree.path(id) {
            numbers[class.index()].get_or_insert_with(|| {
                limits.push(UpperLimit::NONE);
                limits.len() as u32 - 1
            });
        }
        let number = numbers[id.index()].expect("a path begins with its class");
        let packet = spec.m2.transmit_time(tree.mtu());
        let credit = match tree.params().choice("limit_credit") {
            Some("linux") => (Duration::from_nanos(u64::MAX), Duration::ZERO),
            Some("altq") => (packet, Duration::ZERO),
            _ => [families.turn(id).1.plus(packet); 2].into(),
        };
        let limit = &mut limits[number as usize];
        (limit.credit_max, limit.credit_left) = credit;
        limit.curve = Some(curves.add(spec));
    }
    (limits, numbers)
}

/// The plan, with sums a family, from which the credit of `bounded` is computed.
struct Families<'a> {
    tree: &'a Tree,
    plans: &'a [ClassPlan],
    /// For the link, then for each class: its children with link-share curves, and the sum of the
    /// last slopes of these.
    totals: Vec<(u64, u128)>,
}

impl<'a> Families<'a> {
    fn new(tree: &'a Tree, plans: &'a [ClassPlan]) -> Self {
        let mut totals = alloc::vec![(0, 0); plans.len() + 1];
        for ((_, class), plan) in tree.classes().zip(plans) {
            let Some(spec) = plan.link_share else { continue };
            let total = &mut totals[place(class.parent)];
            *total = (total.0 + 1, total.1 + u128::from(spec.m2.bits_per_second()));
        }
        Self { tree, plans, totals }
    }

    /// Returns the rate that the siblings of a class share at least, and how long link sharing may
    /// let the class wait: until each class beside it, and beside each class above it, has sent a
    /// largest packet at the rate that its family shares. Rounded up.
    fn turn(&self, class: ClassId) -> (Rate, Duration) {
        let (parent, mtu) = (self.tree.class(class).parent, self.tree.mtu());
        let (rate, wait) = match parent {
            None => (self.tree.rate(), Duration::ZERO),
            Some(parent) => {
                let (above, wait) = self.turn(parent);
                let rate = self.share(parent, above);
                (rate, wait.plus(rate.transmit_time(mtu)))
            }
        };
        let packets = self.totals[place(parent)].0;
        let bytes = Bytes::new(mtu.get().saturating_mul(packets));
        (rate, wait.plus(rate.transmit_time(bytes)))
    }

    /// The part of `rate` that a class gets while all its siblings wait.
    fn share(&self, class: ClassId, rate: Rate) -> Rate {
        let spec = self.plans[class.index()].link_share.expect("a parent has a link-share curve");
        let sum = self.totals[place(self.tree.class(class).parent)].1;
        let product = u128::from(rate.bits_per_second()) * u128::from(spec.m2.bits_per_second());
        Rate::new((product / sum) as u64).unwrap_or(Rate::MIN)
    }
}

/// Where the children of a class stand in a table that begins with those of the link.
fn place(parent: Option<ClassId>) -> usize {
    parent.map_or(0, |parent| parent.index() + 1)
}

state!(UpperLimit { runtime, fit; kept: curve, credit_max, credit_left });
