//! Which class of a priority is next [algorithms §3.7-3.8].
//!
//! As in ALTQ a search visits all classes of a priority, those with children too, so its cost
//! grows with their number. Invariant: the next search begins at `active` of a circle.

use super::class::{Class, Classes, NONE};
use super::clock::Stamp;
use super::params::{General, PRIORITY_MAX, Switches, mtu};
use super::sharing::{Permission, Sharing};
use crate::sched::Tree;
use crate::state::state;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The general scheduler. The classes hold the credits of their turns.
pub(super) struct Rounds {
    general: General,
    forgives_debt: bool,
    /// One circle a priority.
    pub circles: Vec<Circle>,
}

/// The classes of one priority, each of which refers to the next.
pub(super) struct Circle {
    /// The class at which the next search begins; [`NONE`] if the circle is empty.
    active: u32,
    /// The number of backlogged classes.
    backlogged: u32,
    /// The backlogged classes in the order of their turns; only under `drr`.
    list: VecDeque<u32>,
}

/// The class that sends next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    pub class: usize,
    pub permission: Permission,
}

impl Rounds {
    /// Builds the circles of `tree`; no turn has begun.
    pub fn build(tree: &Tree, classes: &mut Classes, switches: &Switches) -> Self {
        let mut circles = Vec::with_capacity(PRIORITY_MAX as usize + 1);
        for priority in 0..=PRIORITY_MAX as u8 {
            let of_priority = |class: &u32| classes.place(*class).priority == priority;
            let members: Vec<_> = classes.as_declared(tree).filter(of_priority).collect();
            weigh(&members, classes, switches, mtu(tree) as i64);
            for (&member, next) in members.iter().zip(members.iter().cycle().skip(1)) {
                classes.list[member as usize].next = *next;
            }
            let active = members.first().copied().unwrap_or(NONE);
            circles.push(Circle { active, backlogged: 0, list: VecDeque::new() });
        }
        let Switches { general, forgives_debt, .. } = *switches;
        Self { general, forgives_debt, circles }
    }

    /// Records that `class` is backlogged now.
    pub fn join(&mut self, priority: u8, class: usize) {
        let circle = &mut self.circles[usize::from(priority)];
        circle.backlogged += 1;
        if self.general == General::Drr {
            circle.list.push_back(class as u32);
        }
    }

    /// Records that `class`, whose number is `number`, is no longer backlogged.
    pub fn leave(&mut self, priority: u8, number: usize, class: &mut Class) {
        let circle = &mut self.circles[usize::from(priority)];
        circle.backlogged -= 1;
        if self.general == General::Drr {
            circle.list.retain(|&member| member != number as u32);
            class.begin(false);
            class.credit = 0;
        }
    }

    /// Returns the permitted class whose turn it is. `first` becomes the first class that is not
    /// permitted but may borrow.
    pub fn choose(
        &mut self,
        sharing: &mut Sharing,
        now: Stamp,
        first: &mut Option<usize>,
    ) -> Option<Choice> {
        for priority in (0..self.circles.len()).rev() {
            if self.circles[priority].backlogged == 0 {
                continue;
            }
            let mut search = Search { sharing, now, first };
            let choice = match self.general {
                General::Wrr => self.choose_wrr(priority, &mut search),
                General::Prr => self.choose_prr(priority, &mut search),
                General::Drr => self.choose_drr(priority, &mut search),
            };
            if choice.is_some() {
                return choice;
            }
        }
        None
    }

    /// Searches twice: the second time a class that is permitted but lacks credit is chosen.
    fn choose_wrr(&mut self, priority: usize, search: &mut Search) -> Option<Choice> {
        let mut lacking = false;
        for second in [false, true] {
            if second && !lacking {
                return None;
            }
            let start = self.circles[priority].active;
            let mut at = start;
            loop {
                let number = at as usize;
                let (class, plan) = search.sharing.classes.at_with_plan(number);
                if !second && class.credit <= 0 {
                    class.credit += plan.weight;
                }
                let (credit, next) = (class.credit, class.next);
                if let Some(permission) = search.permit(at) {
                    if credit > 0 || second {
                        return Some(Choice { class: number, permission });
                    }
                    lacking = true;
                }
                // [algorithms §3.8] A class that is passed over loses its credit and its debt.
                let credit = if self.forgives_debt { 0 } else { credit.min(0) };
                search.sharing.classes.list[number].credit = credit;
                at = next;
                if at == start {
                    break;
                }
            }
        }
        None
    }

    fn choose_prr(&mut self, priority: usize, search: &mut Search) -> Option<Choice> {
        let start = self.circles[priority].active;
        let mut at = start;
        loop {
            if let Some(permission) = search.permit(at) {
                return Some(Choice { class: at as usize, permission });
            }
            at = search.sharing.classes.at(at).next;
            if at == start {
                return None;
            }
        }
    }

    /// [algorithms §3.8] A class that is not permitted keeps its place and its credit; one that
    /// lacks credit goes to the end. The loop ends, since each round adds at least [`WEIGHT_MIN`]
    /// to a credit that must reach one packet.
    fn choose_drr(&mut self, priority: usize, search: &mut Search) -> Option<Choice> {
        let list = &mut self.circles[priority].list;
        loop {
            let (mut at, mut lacking) = (0, false);
            for _ in 0..list.len() {
                let class = list[at];
                let Some(permission) = search.permit(class) else {
                    at += 1;
                    continue;
                };
                let (state, plan) = search.sharing.classes.at_with_plan(class as usize);
                if !state.begin(true) {
                    state.credit += plan.weight;
                }
                if state.head().unwrap_or(0) <= state.credit {
                    return Some(Choice { class: class as usize, permission });
                }
                state.begin(false);
                lacking = true;
                list.remove(at);
                list.push_back(class);
            }
            if !lacking {
                return None;
            }
        }
    }

    /// Charges `class`, whose number is `number`, for `length` bytes sent in its turn; `ends` if
    /// its turn is over whatever is left of it.
    pub fn pay(
        &mut self,
        priority: u8,
        (number, class): (usize, &mut Class),
        length: i64,
        ends: bool,
    ) {
        let circle = &mut self.circles[usize::from(priority)];
        match self.general {
            General::Wrr => {
                if class.credit > 0 {
                    class.credit -= length;
                }
                let over = class.credit <= 0 || ends;
                circle.active = if over { class.next } else { number as u32 };
            }
            General::Prr => circle.active = class.next,
            General::Drr => class.credit = (class.credit - length).max(0),
        }
    }

    /// Whether each circle counts its classes with packets, and lists those if turns are by a list.
    pub fn agrees(&self, classes: &Classes) -> bool {
        let numbers = || 0..classes.list.len() as u32;
        (0..).zip(&self.circles).all(|(priority, circle)| {
            let is_here = |class: u32| classes.place(class).priority == priority;
            let waits = |class: u32| is_here(class) && classes.at(class).head().is_some();
            let waiting = numbers().filter(|&class| waits(class)).count();
            let active = match circle.active {
                NONE => !numbers().any(is_here),
                active => numbers().contains(&active) && is_here(active),
            };
            let listed = circle.list.iter().filter(|&&class| {
                numbers().contains(&class)
                    && waits(class)
                    && (self.general != General::Drr || classes.at(class).credit >= 0)
            });
            let expected = if self.general == General::Drr { waiting } else { 0 };
            let mut once = circle.list.iter().copied().collect::<Vec<_>>();
            once.sort_unstable();
            once.dedup();
            active
                && circle.backlogged as usize == waiting
                && circle.list.len() == expected
                && listed.count() == expected
                && once.len() == expected
        })
    }
}

impl Circle {
    /// Returns all classes once, from the active one on.
    pub fn since_active(&self, classes: &Classes) -> impl Iterator<Item = u32> {
        let start = self.active;
        let next = move |&at: &u32| Some(classes.at(at).next).filter(|&next| next != start);
        core::iter::successors((start != NONE).then_some(start), next)
    }
}

/// [algorithms §3.8] Sets the weights of the classes of a priority: about one largest packet per
/// class and round.
fn weigh(members: &[u32], classes: &mut Classes, switches: &Switches, mtu: i64) {
    let counts = |class: &&u32| switches.counts_interior || classes.place(**class).depth == 0;
    let allotment = |class: &u32| classes.place(*class).limits.allotment;
    let counted = members.iter().filter(counts).count() as i64;
    let sum: i64 = members.iter().filter(counts).map(allotment).sum();
    let divisor = sum / (counted * mtu).max(1);
    let leaves = members.iter().filter(|&&class| classes.leaf(class as usize).is_some());
    let lightest = leaves.map(|&class| classes.place(class).rate).min().unwrap_or(1);
    for &class in members {
        let plan = classes.plan_mut(class);
        plan.weight = if switches.general == General::Drr {
            let mtu = mtu.max(WEIGHT_MIN) as u128;
            let weight = (mtu * u128::from(plan.place.rate)).div_ceil(lightest.into());
            weight.min(WEIGHT_MAX) as i64
        } else {
            // Zero if the divisor is: then each class sends one packet, in the second search.
            plan.place.limits.allotment.checked_div(divisor).unwrap_or(0)
        };
    }
}

/// One search for a class that may send.
struct Search<'a> {
    sharing: &'a mut Sharing,
    now: Stamp,
    first: &'a mut Option<usize>,
}

impl Search<'_> {
    /// Returns a permission if a packet waits in `class` and may be sent.
    fn permit(&mut self, class: u32) -> Option<Permission> {
        let class = class as usize;
        self.sharing.classes.list[class].head()?;
        let permission = self.sharing.permit(self.now, class);
        if permission.is_none() && self.sharing.classes.may_borrow(class) {
            self.first.get_or_insert(class);
        }
        permission
    }
}

/// Below this a packet of 65 535 bytes would need more than a thousand rounds.
const WEIGHT_MIN: i64 = 64;
/// Well above any turn and well below overflow.
const WEIGHT_MAX: u128 = 1 << 60;

state!(Rounds { circles; kept: general, forgives_debt });
state!(Circle { active, backlogged, list });
