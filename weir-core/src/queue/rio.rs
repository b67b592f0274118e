//! RED with in and out, as in ALTQ [algorithms §9.3].
//!
//! Three drop precedences, read from the DSCP as AF defines them: a packet of a low one is dropped
//! by the average of its own and lower precedences alone, one of the highest by the average of all.
//! So while the line is full of in-profile packets, those out of profile are dropped first.
//! Averages and draws are those of ALTQ's RED. `levels = 2` is the version of 1999: packets of the
//! lowest precedence are "in", all others "out".
//!
//! The dropper counts the waiting packets of each precedence. A packet that it accepted and the
//! link's full store then refused shows in the backlog of the next call, and its count is reverted.
//!
//! Invariant: as in `super::average`; and a packet never counts against lower precedences.

use super::average::{Average, Curve, Draw, Pause, THRESHOLD_MAX, Thresholds};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, Limit, Place, Release,
    limit, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Kind, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::{Dimension, Instant};
use alloc::boxed::Box;

/// RED for each drop precedence, boxed to keep droppers small.
pub struct Rio(Box<State>);

struct State {
    levels: [Level; LEVELS],
    /// Levels in use, from the first.
    used: usize,
    pause: Pause,
    limit: Limit,
    /// The level of the packet accepted last, until another call shows that it waits.
    accepted: usize,
    random: Random,
}

struct Level {
    curve: Curve,
    average: Average,
    /// Packets of this precedence that wait.
    waiting: u64,
}

impl DropperDiscipline for Rio {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "rio",
        summary: "ALTQ's RED with three drop precedences from the DSCP: out of profile goes first.",
        parameters: &[
            limit("60 packets"),
            row(
                "levels",
                Kind::Number(2, 3),
                "3",
                "Precedences; 2 is the version of 1999, in and out.",
            ),
            row(
                "low_min",
                THRESHOLD,
                "35, or 20 of two",
                "`min` of the lowest precedence, in packets.",
            ),
            row("low_max", THRESHOLD, "45, or 40 of two", "Its `max`."),
            row("low_inv_pmax", INV_PMAX, "10, or 30 of two", "Its `inv_pmax`."),
            row("medium_min", THRESHOLD, "20", "`min` of the middle precedence, if there is one."),
            row("medium_max", THRESHOLD, "30", "Its `max`."),
            row("medium_inv_pmax", INV_PMAX, "10", "Its `inv_pmax`."),
            row("high_min", THRESHOLD, "5", "`min` of the highest precedence."),
            row("high_max", THRESHOLD, "15", "Its `max`."),
            row("high_inv_pmax", INV_PMAX, "10", "Its `inv_pmax`."),
            row(
                "weight",
                Kind::Number(1, 1 << 16),
                "512, less on a slow line",
                "Packets over which the averages are taken; rounded down to a power of two.",
            ),
            row(
                "pkttime",
                Kind::Quantity(Dimension::Duration),
                "that of 1000 B at the line's rate",
                "The time of a packet, by which averages decay in a pause.",
            ),
        ],
        sources: &["altq", "algorithms §9.3"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let pause = Pause::new(params.number("weight"), params.duration("pkttime"), place.rate);
        let used = params.number("levels").map_or(LEVELS, |levels| levels as usize);
        let low = if used == LEVELS { (35, 45, 10) } else { (20, 40, 30) };
        let level = |names: [&str; 3], defaults: (u64, u64, u64)| {
            let number = |name, default| params.number(name).unwrap_or(default) as u32;
            let thresholds = Thresholds {
                min: number(names[0], defaults.0),
                max: number(names[1], defaults.1),
                inv_pmax: number(names[2], defaults.2),
            };
            let curve = Curve::new(thresholds, pause)?;
            Ok(Level { curve, average: Average::EMPTY, waiting: 0 })
        };
        let low = level(["low_min", "low_max", "low_inv_pmax"], low)?;
        let medium = level(["medium_min", "medium_max", "medium_inv_pmax"], (20, 30, 10))?;
        let high = level(["high_min", "high_max", "high_inv_pmax"], (5, 15, 10))?;
        Ok(Self(Box::new(State {
            levels: if used == LEVELS { [low, medium, high] } else { [low, high, medium] },
            used,
            pause,
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            accepted: 0,
            random: Random::new(place.seed, u64::from(place.leaf.0)),
        })))
    }
}

impl Dropper for Rio {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let state = &mut *self.0;
        state.settle(backlog);
        let own = state.level_of(arriving.traffic_class);
        let mut waiting: u64 = state.levels[..own].iter().map(|level| level.waiting).sum();
        let mut own_waiting = 0;
        for (index, level) in state.levels[..state.used].iter_mut().enumerate().skip(own) {
            waiting += level.waiting;
            level.average.arrived(now, state.pause, waiting, 0);
            if index == own {
                own_waiting = waiting;
            }
        }
        let level = &mut state.levels[own];
        let draw = level.average.draw(&level.curve, own_waiting, &mut state.random);
        let reason = match draw {
            Draw::Pass if state.limit.fits(arriving.length, backlog) => {
                level.waiting += 1;
                state.accepted = own;
                return Admission::Accept;
            }
            Draw::Pass => DropReason::Full,
            Draw::Early | Draw::Forced => DropReason::Early,
        };
        for level in &mut state.levels[own..] {
            level.average.punished();
        }
        Admission::Refuse(reason)
    }

    fn release(&mut self, now: Instant, first: Candidate, backlog: Count) -> Release {
        let state = &mut *self.0;
        state.settle(backlog);
        let own = state.level_of(first.traffic_class);
        state.levels[own].waiting = state.levels[own].waiting.saturating_sub(1);
        let mut waiting = 0;
        for (index, level) in state.levels[..state.used].iter_mut().enumerate() {
            waiting += level.waiting;
            // A level without packets of its own is idle too, once those below it are gone.
            if index >= own && waiting == 0 {
                level.average.idle(now);
            }
        }
        Release::Send
    }

    fn emptied(&mut self, _now: Instant) {
        for level in &mut self.0.levels {
            level.waiting = 0;
        }
    }
}

impl State {
    /// Returns the drop precedence: bits 3 and 4 of the DS byte, which AF sets to 1, 2 or 3
    /// [rfc2597 §6].
    fn level_of(&self, traffic_class: u8) -> usize {
        let precedence = usize::from(traffic_class >> 3 & 0b11).saturating_sub(1);
        precedence.min(self.used - 1)
    }

    /// Reconciles the counts with the backlog: missing packets were not queued or were removed;
    /// extra packets count as the lowest precedence.
    fn settle(&mut self, backlog: Count) {
        let counted: u64 = self.levels.iter().map(|level| level.waiting).sum();
        self.levels[0].waiting += backlog.packets.saturating_sub(counted);
        let mut missing = counted.saturating_sub(backlog.packets);
        for index in [self.accepted, 2, 1, 0] {
            let level = &mut self.levels[index];
            let taken = missing.min(if index == self.accepted { 1 } else { level.waiting });
            let taken = taken.min(level.waiting);
            level.waiting -= taken;
            missing -= taken;
        }
    }
}

const LEVELS: usize = 3;
const THRESHOLD: Kind = Kind::Number(1, THRESHOLD_MAX);
const INV_PMAX: Kind = Kind::Number(1, 1000);

state!(Rio(state));
state!(State {
    levels, accepted, random;
    kept: used, pause, limit;
    check: |state: &Self| state.accepted < LEVELS
});
state!(Level {
    average, waiting; kept: curve; check: |level: &Self| level.waiting <= u64::from(u32::MAX)
});

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, params};
    use super::*;

    const AF11: u8 = 0x28;
    const AF12: u8 = 0x30;
    const AF13: u8 = 0x38;

    #[test]
    fn the_precedence_is_that_of_assured_forwarding() {
        let three = Trial::<Rio>::new(&params(&[], &[]));
        let two = Trial::<Rio>::new(&params(&[("levels", "2")], &[]));
        // DS byte, of three levels, of two
        let rows =
            [(0, 0, 0), (AF11, 0, 0), (AF12, 1, 1), (AF13, 2, 1), (0x98, 2, 1), (0xb8, 2, 1)];
        for (byte, of_three, of_two) in rows {
            assert_eq!(three.dropper.0.level_of(byte), of_three, "{byte:#x}");
            assert_eq!(two.dropper.0.level_of(byte), of_two, "{byte:#x}");
        }
    }

    /// Offers the classes in turn to a leaf that holds `waiting` packets; returns the drops of
    /// each.
    fn drops(plan: &Params, classes: &[u8], waiting: usize) -> alloc::vec::Vec<usize> {
        let mut trial = Trial::<Rio>::new(plan);
        let mut drops = alloc::vec![0; classes.len()];
        for step in 0..60_000 {
            trial.pause(800);
            let index = step % classes.len();
            drops[index] += usize::from(!trial.offer(1000, classes[index]));
            while trial.waiting.len() > waiting {
                trial.serve();
            }
            let counted: u64 = trial.dropper.0.levels.iter().map(|level| level.waiting).sum();
            assert_eq!(counted, trial.waiting.len() as u64);
        }
        drops
    }

    #[test]
    fn out_of_profile_is_dropped_first() {
        let plan = params(&[], &[]);
        let all = drops(&plan, &[AF11, AF12, AF13], 14);
        assert_eq!(all[..2], [0, 0]);
        assert!(all[2] > 1000, "{all:?}");
        // Alone, the lowest precedence has the queue to itself up to 35 packets.
        assert_eq!(drops(&plan, &[AF11], 34), [0]);
        assert!(drops(&plan, &[AF11], 40)[0] > 500);
        // Once no packet of the highest precedence is admitted, the middle one is next.
        let all = drops(&plan, &[AF11, AF12, AF13], 34);
        assert!(all[0] == 0 && all[1] > 1000 && all[2] > 19_000, "{all:?}");
    }

    #[test]
    fn the_version_of_1999_has_in_and_out() {
        let plan = params(&[("levels", "2")], &[]);
        assert_eq!(drops(&plan, &[AF11], 19), [0]);
        assert!(drops(&plan, &[AF11], 30)[0] > 500);
        let all = drops(&plan, &[AF11, AF12, AF13], 14);
        assert!(all[0] == 0 && all[1] > 1000 && all[2] > 1000, "{all:?}");
    }

    #[test]
    fn an_accepted_packet_that_is_not_queued_is_not_counted() {
        let mut trial = Trial::<Rio>::new(&params(&[], &[]));
        trial.offer(1000, AF11);
        trial.offer(1000, AF13);
        trial.waiting.pop();
        trial.offer(1000, AF12);
        let counted = trial.dropper.0.levels.each_ref().map(|level| level.waiting);
        assert_eq!(counted, [1, 1, 0]);
    }
}
