//! The quanta of turns: in proportion to the rates inside each group of classes that take turns
//! with each other, those of one level or of one family.
//!
//! The lightest class of a group has a quantum of one largest packet [algorithms §3.15]. If the
//! heaviest would then hold the turn for more than a number of packets, it gets that, and the
//! lighter ones collect credit over up to [`ROUNDS_MAX`] rounds for a packet; beyond that
//! proportions are cut. Invariant: a group's bounds are the least and the largest rate in it, each
//! with how many classes have it.

use crate::units::Rate;
use alloc::vec::Vec;

/// The quanta of the groups of one kind.
pub(super) struct Quanta {
    groups: Vec<Group>,
    /// Credit for one largest packet.
    packet: u64,
    /// The longest turn in largest packets.
    turn_max: u64,
}

/// The rates of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Group {
    lightest: Extreme,
    heaviest: Extreme,
}

/// A rate in bit/s, and how many classes have it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Extreme {
    rate: u64,
    classes: u32,
}

impl Quanta {
    /// The quanta of classes with these groups and rates; there are `groups` groups.
    pub(super) fn new(
        classes: impl Iterator<Item = (usize, Rate)>,
        groups: usize,
        packet: u64,
        turn_max: u64,
    ) -> Self {
        let mut this = Self { groups: alloc::vec![Group::EMPTY; groups], packet, turn_max };
        for (group, rate) in classes {
            this.groups[group].add(rate.bits_per_second());
        }
        this
    }

    /// Returns the quantum of a class of this group and rate.
    pub(super) fn of(&self, group: usize, rate: Rate) -> i32 {
        let Group { lightest, heaviest } = self.groups[group];
        let (turn, whole) = if heaviest.rate / self.turn_max <= lightest.rate {
            (u128::from(self.packet), lightest.rate)
        } else {
            (u128::from(self.packet) * u128::from(self.turn_max), heaviest.rate)
        };
        let quantum = turn * u128::from(rate.bits_per_second()) / u128::from(whole);
        // At most 127 packets of 2^16 bytes, even where rates are a few bit/s.
        (quantum as i32).max((self.packet / ROUNDS_MAX) as i32)
    }

    /// A class of `group` has another rate; returns whether the others keep their quanta. If not,
    /// the group must be counted again.
    pub(super) fn replace(&mut self, group: usize, before: Rate, rate: Rate) -> bool {
        let group = &mut self.groups[group];
        let Group { lightest, heaviest } = *group;
        group.lightest.take(before.bits_per_second());
        group.heaviest.take(before.bits_per_second());
        if group.lightest.classes == 0 || group.heaviest.classes == 0 {
            return before == rate;
        }
        group.add(rate.bits_per_second());
        (group.lightest.rate, group.heaviest.rate) == (lightest.rate, heaviest.rate)
    }

    /// Counts a group again, whose classes have these rates.
    pub(super) fn recount(&mut self, group: usize, rates: impl Iterator<Item = Rate>) {
        let group = &mut self.groups[group];
        *group = Group::EMPTY;
        rates.for_each(|rate| group.add(rate.bits_per_second()));
    }
}

impl Group {
    const EMPTY: Group = Group {
        lightest: Extreme { rate: u64::MAX, classes: 0 },
        heaviest: Extreme { rate: 0, classes: 0 },
    };

    fn add(&mut self, rate: u64) {
        self.lightest.put(rate, rate < self.lightest.rate);
        self.heaviest.put(rate, rate > self.heaviest.rate);
    }
}

impl Extreme {
    fn put(&mut self, rate: u64, is_beyond: bool) {
        if is_beyond {
            *self = Extreme { rate, classes: 0 };
        }
        self.classes += u32::from(rate == self.rate);
    }

    fn take(&mut self, rate: u64) {
        self.classes -= u32::from(rate == self.rate && self.classes > 0);
    }
}

/// The most rounds that a class collects credit for a largest packet.
const ROUNDS_MAX: u64 = 64;
