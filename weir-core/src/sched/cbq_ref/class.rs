//! A class of `cbq-ref`: its estimator, and what makes it wait [algorithms §2.7, §2.8].
//!
//! Floating point, in the order of operations of ns-2, so that every comparison falls as it does
//! there [ns2 queue/cbq.cc]. No value here can be undefined: a share is at least one part in 10⁹.

use crate::ids::{ClassId, LeafId};
use crate::state::{Reader, State, StateError, Writer, state};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A class with its estimator. Times are seconds.
pub(super) struct Class {
    /// The average idle time: how much later packets come than at the class's rate.
    avgidle: f64,
    /// When its last packet left the wire.
    last: f64,
    /// It is overlimit until this instant, which is included.
    pub undertime: f64,
    /// The bytes that it may still send in this turn of the weighted round robin; at most its
    /// weight.
    pub credit: i64,
    /// Packets that wait in the leaf.
    pub packets: u32,
    /// The class above, [`NONE`] at the top.
    parent: u32,
    /// The leaf's number; [`NONE`] for a class with children.
    leaf: u32,
    /// The next leaf's class of its priority.
    next: u32,
    /// The number of its plan.
    pub plan: u32,
    delayed: bool,
    pub backlogged: bool,
}

/// The parameters that classes with equal parameters share. Times are seconds, rates bytes a
/// second.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// May borrow from the class above, the only one that it can borrow from directly.
    pub borrow: bool,
    /// A leaf is at level 1.
    pub level: u8,
    /// Priority 0 is served first.
    pub priority: u8,
    /// The part of the link's rate.
    pub share: f64,
    pub rate: f64,
    /// The most that the average idle time can be.
    pub maxidle: Maxidle,
    pub extradelay: f64,
}

/// A bound on the average idle time.
#[derive(Clone, Copy)]
pub(super) enum Maxidle {
    /// Written in the policy.
    Written(f64),
    /// Derived from share and priority.
    Auto(f64),
}

/// The distinct plans of all classes.
#[derive(Default)]
pub(super) struct Plans {
    rows: Vec<Plan>,
}

/// Adds plans to [`Plans`], each distinct one once.
pub(super) struct Planner<'a> {
    plans: &'a mut Plans,
    alike: BTreeMap<Likeness, u32>,
}

/// The bits that distinguish plans. The rate is not among them: it follows from the share.
type Likeness = (bool, u8, u8, u64, (bool, u64), u64);

impl Plans {
    #[inline]
    pub fn at(&self, plan: u32) -> &Plan {
        &self.rows[plan as usize]
    }

    /// Returns a planner that adds further plans.
    pub fn planner(&mut self) -> Planner<'_> {
        let numbered = self.rows.iter().zip(0..);
        let alike = numbered.map(|(plan, number)| (plan.likeness(), number)).collect();
        Planner { plans: self, alike }
    }
}

impl Planner<'_> {
    /// Returns the number of `plan`, which is added if it is new.
    pub fn number(&mut self, plan: Plan) -> u32 {
        let rows = &mut self.plans.rows;
        let number = *self.alike.entry(plan.likeness()).or_insert(rows.len() as u32);
        if number as usize == rows.len() {
            rows.push(plan);
        }
        number
    }

    pub fn at(&self, plan: u32) -> &Plan {
        self.plans.at(plan)
    }
}

impl Plan {
    fn likeness(&self) -> Likeness {
        let maxidle = match self.maxidle {
            Maxidle::Written(seconds) => (true, seconds.to_bits()),
            Maxidle::Auto(seconds) => (false, seconds.to_bits()),
        };
        let (share, extradelay) = (self.share.to_bits(), self.extradelay.to_bits());
        (self.borrow, self.level, self.priority, share, maxidle, extradelay)
    }

    /// Returns the plan of a class that had the plan `old` before a change. The bound on idle time
    /// stays as it was unless one of the two policies writes it [algorithms §2.7].
    pub fn inherit(self, old: &Plan) -> Plan {
        match (self.maxidle, old.maxidle) {
            (Maxidle::Auto(_), Maxidle::Auto(_)) => Plan { maxidle: old.maxidle, ..self },
            _ => self,
        }
    }
}

impl Class {
    /// A class that has sent nothing yet.
    pub fn new(parent: Option<ClassId>, leaf: Option<LeafId>, plan: u32) -> Self {
        Self {
            avgidle: 0.0,
            last: 0.0,
            undertime: 0.0,
            credit: 0,
            packets: 0,
            parent: parent.map_or(NONE, |parent| parent.0),
            leaf: leaf.map_or(NONE, |leaf| leaf.0),
            next: NONE,
            plan,
            delayed: false,
            backlogged: false,
        }
    }

    pub fn parent(&self) -> Option<usize> {
        (self.parent != NONE).then_some(self.parent as usize)
    }

    /// `None` for a class with children.
    pub fn leaf(&self) -> Option<LeafId> {
        (self.leaf != NONE).then_some(LeafId(self.leaf))
    }

    /// The next leaf's class of its priority.
    pub fn next(&self) -> usize {
        self.next as usize
    }

    /// Sets the next leaf's class of its priority.
    pub fn set_next(&mut self, next: usize) {
        self.next = next as u32;
    }

    /// Returns whether it may send at its own account; then it is no longer delayed.
    pub fn permits_itself(&mut self, now: f64) -> bool {
        let permitted = self.undertime < now;
        self.delayed &= !permitted;
        permitted
    }

    /// Updates the estimator for a packet of `length` bytes that is on the wire for `time` from
    /// `now`.
    pub fn update(&mut self, plan: &Plan, now: f64, length: f64, time: f64) {
        let finished = now + time;
        let idle = (finished - self.last) - length / plan.rate;
        let mut average = self.avgidle;
        average += (idle - average) / WEIGHT;
        if average > plan.maxidle.seconds() {
            average = plan.maxidle.seconds();
        }
        self.avgidle = average;
        if average <= 0.0 {
            self.undertime = finished + time * (1.0 / plan.share - 1.0);
            self.undertime += (1.0 - WEIGHT) * average;
        }
        self.last = finished;
    }

    /// Records that it wants to send and may not: the first time its debt is replaced by
    /// `extradelay`.
    pub fn delay(&mut self, plan: &Plan, now: f64) {
        let delay = self.undertime - now + plan.extradelay;
        if delay > 0.0 && !self.delayed {
            self.undertime += plan.extradelay;
            self.undertime -= (1.0 - WEIGHT) * self.avgidle;
            self.delayed = true;
        }
    }

    /// Takes over the state of the estimator from `old`.
    pub fn inherit(&mut self, old: &Class) {
        self.avgidle = old.avgidle;
        self.last = old.last;
        self.undertime = old.undertime;
        self.delayed = old.delayed;
        self.credit = old.credit;
    }

    fn is_finite(&self) -> bool {
        [self.avgidle, self.last, self.undertime].into_iter().all(f64::is_finite)
    }
}

impl Maxidle {
    /// Returns the bound for a class of this share and priority, on a link whose largest packet
    /// takes `packet` seconds: 8 packets at once for each step of priority [algorithms §2.2].
    pub fn auto(share: f64, priority: usize, packet: f64) -> Self {
        let gain = gain_to_the(8 * priority as u32);
        let first = ((1.0 / share) - 1.0) * (1.0 - gain) / gain;
        let second = 1.0 - GAIN;
        Maxidle::Auto(packet * if first > second { first } else { second })
    }

    fn seconds(self) -> f64 {
        match self {
            Maxidle::Written(seconds) | Maxidle::Auto(seconds) => seconds,
        }
    }

    /// Returns the seconds that were derived: a change of the tree keeps those of a class.
    pub fn derived(self) -> Option<f64> {
        match self {
            Maxidle::Written(_) => None,
            Maxidle::Auto(seconds) => Some(seconds),
        }
    }
}

/// Returns [`GAIN`] to the power `n`: 15/16 multiplied `n` times in 120 binary digits, so that only
/// the result is rounded.
fn gain_to_the(n: u32) -> f64 {
    const ONE: u128 = 1 << 120;
    let power = (0..n).fold(ONE, |power, _| power - power / 16);
    power as f64 / ONE as f64
}

/// No class, or no leaf.
const NONE: u32 = u32::MAX;
/// The average moves by 1/16 of its distance from each new value: `POWEROFTWO` in ns-2.
const WEIGHT: f64 = 16.0;
/// The part of the average that remains one packet later: `automaxidle_gain_` in ns-2.
const GAIN: f64 = 0.9375;

state!(Class {
    avgidle, last, undertime, credit, packets, delayed, backlogged;
    kept: parent, leaf, next, plan;
    check: |class: &Self| class.is_finite()
});

// No other part of the core has floats.
impl State for f64 {
    fn save(&self, to: &mut Writer) {
        to.word(self.to_bits());
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        *self = f64::from_bits(from.word()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;

    #[test]
    fn a_power_of_the_gain_is_the_libraries() {
        for n in (0..=72).step_by(8) {
            assert_eq!(gain_to_the(n), GAIN.powf(f64::from(n)), "{n}");
        }
    }

    #[test]
    fn the_automatic_bound_lets_eight_packets_through_for_each_priority() {
        // [algorithms §2.2] with t = 8·1024/1.5e6 s; the last two are t/16.
        let rows = [
            (0.3, 1, 0.008_615),
            (0.98, 8, 0.006_823),
            (1.0, 8, 0.000_341_3),
            (0.5, 0, 0.000_341_3),
        ];
        for (share, priority, expected) in rows {
            let bound = Maxidle::auto(share, priority, 8.0 * 1024.0 / 1.5e6).seconds();
            assert!((bound / expected - 1.0).abs() < 1e-3, "{share} {priority}: {bound}");
        }
    }
}
