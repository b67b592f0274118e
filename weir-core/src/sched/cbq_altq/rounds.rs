//! Whose turn it is among the classes of one priority [algorithms §3.7-3.8].
//!
//! As in ALTQ a search goes round all classes of a priority, those with children too, so its cost
//! grows with them. Invariant: `active` of a circle is where the next search begins.

use super::class::Classes;
use super::clock::Stamp;
use super::params::{General, PRIORITY_MAX, Switches, mtu};
use super::sharing::{Permission, Sharing};
use crate::sched::Tree;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The general scheduler.
pub(super) struct Rounds {
    general: General,
    forgives_debt: bool,
    /// By priority.
    pub circles: Vec<Circle>,
    turns: Vec<Turn>,
}

/// The classes of one priority.
#[derive(Default)]
pub(super) struct Circle {
    members: Vec<u32>,
    active: usize,
    /// How many of them have something to send.
    backlogged: u32,
    /// Those, in the order of their turns; only under `drr`.
    list: VecDeque<u32>,
}

/// The turn of a class.
#[derive(Clone, Copy, Default)]
struct Turn {
    /// Bytes that it gains per turn.
    weight: i64,
    /// What is left of them; a debt if negative.
    credit: i64,
    /// Whether its turn under `drr` has begun.
    begun: bool,
    /// Its place in its circle.
    place: usize,
}

/// The class that is to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    pub class: usize,
    pub permission: Permission,
}

impl Rounds {
    /// Everybody's turn is still to come.
    pub fn build(tree: &Tree, classes: &Classes, switches: &Switches) -> Self {
        let mut circles = Vec::new();
        circles.resize_with(PRIORITY_MAX as usize + 1, Circle::default);
        let mut turns = alloc::vec![Turn::default(); classes.list.len()];
        // The root is made before all others.
        let others = (0..classes.list.len()).filter(|&class| class != classes.root);
        for class in core::iter::once(classes.root).chain(others) {
            let circle = &mut circles[usize::from(classes.list[class].priority)];
            turns[class].place = circle.members.len();
            circle.members.push(class as u32);
        }
        for circle in &circles {
            circle.weigh(classes, switches, mtu(tree) as i64, &mut turns);
        }
        let Switches { general, forgives_debt, .. } = *switches;
        Self { general, forgives_debt, circles, turns }
    }

    /// Bytes that a class gains per turn.
    #[cfg(test)]
    pub fn weight(&self, class: usize) -> i64 {
        self.turns[class].weight
    }

    /// Something waits in `class` now.
    pub fn join(&mut self, priority: u8, class: usize) {
        let circle = &mut self.circles[usize::from(priority)];
        circle.backlogged += 1;
        if self.general == General::Drr {
            circle.list.push_back(class as u32);
        }
    }

    /// Nothing waits in `class` any more.
    pub fn leave(&mut self, priority: u8, class: usize) {
        let circle = &mut self.circles[usize::from(priority)];
        circle.backlogged -= 1;
        if self.general == General::Drr {
            circle.list.retain(|&member| member != class as u32);
            self.turns[class].begun = false;
            self.turns[class].credit = 0;
        }
    }

    /// The permitted class whose turn it is. `first` becomes the first class that is not permitted
    /// but may borrow.
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

    /// A second time round gives the turn to a class that is permitted but lacks credit.
    fn choose_wrr(&mut self, priority: usize, search: &mut Search) -> Option<Choice> {
        let mut lacking = false;
        for second in [false, true] {
            if second && !lacking {
                return None;
            }
            for class in self.circles[priority].since_active() {
                let turn = &mut self.turns[class as usize];
                if !second && turn.credit <= 0 {
                    turn.credit += turn.weight;
                }
                if let Some(permission) = search.permit(class) {
                    if turn.credit > 0 || second {
                        return Some(Choice { class: class as usize, permission });
                    }
                    lacking = true;
                }
                // [algorithms §3.8] Who is passed over loses its credit, and is forgiven its debt.
                turn.credit = if self.forgives_debt { 0 } else { turn.credit.min(0) };
            }
        }
        None
    }

    fn choose_prr(&mut self, priority: usize, search: &mut Search) -> Option<Choice> {
        self.circles[priority].since_active().find_map(|class| {
            let permission = search.permit(class)?;
            Some(Choice { class: class as usize, permission })
        })
    }

    /// [algorithms §3.8] A class that is not permitted keeps its place and its credit; one that
    /// lacks credit goes to the end. Ends: each time round adds at least [`WEIGHT_MIN`] to a credit
    /// that must reach one packet.
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
                let turn = &mut self.turns[class as usize];
                if !core::mem::replace(&mut turn.begun, true) {
                    turn.credit += turn.weight;
                }
                if search.head(class) <= turn.credit {
                    return Some(Choice { class: class as usize, permission });
                }
                (turn.begun, lacking) = (false, true);
                list.remove(at);
                list.push_back(class);
            }
            if !lacking {
                return None;
            }
        }
    }

    /// `class` sent `length` bytes in its turn; `ends` if its turn is over whatever is left of it.
    pub fn pay(&mut self, priority: u8, class: usize, length: i64, ends: bool) {
        let circle = &mut self.circles[usize::from(priority)];
        let turn = &mut self.turns[class];
        match self.general {
            General::Wrr => {
                if turn.credit > 0 {
                    turn.credit -= length;
                }
                let over = turn.credit <= 0 || ends;
                circle.active = if over { circle.after(turn.place) } else { turn.place };
            }
            General::Prr => circle.active = circle.after(turn.place),
            General::Drr => turn.credit = (turn.credit - length).max(0),
        }
    }
}

impl Circle {
    /// All classes once, from the active one on.
    pub fn since_active(&self) -> impl Iterator<Item = u32> {
        let (before, from) = self.members.split_at(self.active);
        from.iter().chain(before).copied()
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.members.len() { 0 } else { place + 1 }
    }

    /// [algorithms §3.8] The weights: about one largest packet per class and round.
    fn weigh(&self, classes: &Classes, switches: &Switches, mtu: i64, turns: &mut [Turn]) {
        let counts = |class: &&u32| switches.counts_interior || classes.at(**class).depth == 0;
        let allotment = |class: &u32| classes.at(*class).limits.allotment;
        let counted = self.members.iter().filter(counts).count() as i64;
        let sum: i64 = self.members.iter().filter(counts).map(allotment).sum();
        let divisor = sum / (counted * mtu).max(1);
        let leaves = self.members.iter().filter(|&&class| classes.at(class).leaf.is_some());
        let lightest = leaves.map(|&class| classes.at(class).rate).min().unwrap_or(1);
        for class in &self.members {
            turns[*class as usize].weight = if switches.general == General::Drr {
                let mtu = mtu.max(WEIGHT_MIN) as u128;
                let weight = (mtu * u128::from(classes.at(*class).rate)).div_ceil(lightest.into());
                weight.min(WEIGHT_MAX) as i64
            } else {
                // Zero if the divisor is: then each class sends one packet, the second time round.
                allotment(class).checked_div(divisor).unwrap_or(0)
            };
        }
    }
}

/// One look for a class that may send.
struct Search<'a> {
    sharing: &'a mut Sharing,
    now: Stamp,
    first: &'a mut Option<usize>,
}

impl Search<'_> {
    /// Whether something waits in `class` and may be sent.
    fn permit(&mut self, class: u32) -> Option<Permission> {
        let class = class as usize;
        self.sharing.classes.list[class].head?;
        let permission = self.sharing.permit(self.now, class);
        if permission.is_none() && self.sharing.classes.may_borrow(class) {
            self.first.get_or_insert(class);
        }
        permission
    }

    fn head(&self, class: u32) -> i64 {
        self.sharing.classes.at(class).head.unwrap_or(0)
    }
}

/// Below this a packet of 65 535 bytes would need more than a thousand rounds.
const WEIGHT_MIN: i64 = 64;
/// Far above any turn, far below overflow.
const WEIGHT_MAX: u128 = 1 << 60;
