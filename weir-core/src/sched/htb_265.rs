//! HTB as Linux 2.4 to 2.6.5 ran it, faults and all [algorithms §5.2-5.9].
//!
//! The rules are those of the sound form; times and lengths have the resolution of the old kernel
//! and its `tc` `[linux]`, which is what the paper measured [benita §4]. Classes are examined on
//! the ticks of a clock of `hz`, so one whose bucket is smaller than a tick of its rate starves.
//! With `hysteresis` a class sends until its tokens are a whole bucket below zero, and so exceeds
//! its ceil by two bursts. Costs come from a table of 256 lengths, each rounded down to a
//! cell, so small packets cost too little, and those longer than the table no more than its last
//! row.
//!
//! Not rebuilt: the direct queue (every packet here has a leaf), the limit of 500 events a level
//! and call, and the microseconds in which the kernel counts tokens, which are exact here. `mpu`
//! and `overhead` are the framing of the link.
//!
//! Invariant: a class that waits for tokens is examined on ticks only, and at most a second after
//! its event is due.

use super::htb::engine::{Engine, Precision};
use super::htb::params::{CEIL, Defaults, PRIO, R2Q, RATE, burst, cburst, quantum};
use super::{
    Borrowed, Calls, Changes, Cost, Descriptor, Discipline, Explains, Kin, Promises, Tree, Waiting,
    Why,
};
use crate::ids::LeafId;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::units::{Bytes, Duration, Instant};

/// Hierarchical token buckets of the year 2004.
pub type Htb265 = Engine<Jiffies>;

/// The precision of the old kernel: ticks, hysteresis and rounded lengths.
pub struct Jiffies {
    hz: u64,
    hysteresis: bool,
    /// The logarithm of the length of a cell of the rate table; without it lengths are exact.
    cell_log: Option<u32>,
}

impl Discipline for Htb265 {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "htb-2.6.5",
        summary: "HTB as in Linux 2.6.5: events on clock ticks, hysteresis, rounded rate tables.",
        parameters: PARAMETERS,
        sources: &["benita §2", "linux sch_htb", "algorithms §5"],
        promises: Promises {
            work_conserving: false,
            hierarchical: true,
            exact_wake: false,
            cost: Cost::Logarithmic,
        },
    };

    const CALLS: Calls = Calls { peeks: false, ..Calls::DEFAULT };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let params = tree.params();
        let hz = params.number("hz").unwrap_or(HZ_DEFAULT).clamp(1, HZ_MAX);
        let mtu = params.bytes("mtu").unwrap_or(MTU_DEFAULT).get();
        let exact = params.choice("rtab") == Some("exact");
        let precision = Jiffies {
            hz,
            hysteresis: params.flag("hysteresis").unwrap_or(true),
            cell_log: (!exact).then(|| cell_log(mtu)),
        };
        let defaults = Defaults {
            keyword: Self::DESCRIPTOR.keyword,
            tick_hz: hz,
            burst_low: MTU_DEFAULT,
            quantum_low: Bytes::ZERO,
        };
        Engine::new(tree, precision, &defaults)
    }
}

impl Explains for Htb265 {
    #[inline]
    fn why(&self, now: Instant, leaf: LeafId, from: Instant) -> Why {
        self.why_waited(now, leaf, from)
    }

    fn borrowed(&self, leaf: LeafId) -> Borrowed {
        self.loans_of(leaf)
    }
}

impl Changes for Htb265 {
    fn inherit(&mut self, now: Instant, old: &Self, kin: &Kin) {
        self.take_over(now, old, kin);
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        self.knows(waiting)
    }
}

impl Precision for Jiffies {
    fn hysteresis(&self) -> bool {
        self.hysteresis
    }

    fn counted(&self, bytes: Bytes) -> Bytes {
        let Some(cell_log) = self.cell_log else { return bytes };
        // [algorithms §5.7] Row i holds the time of i cells; what is longer has the last row.
        Bytes::new((bytes.get() >> cell_log).min(ROWS - 1) << cell_log)
    }

    fn event(&self, now: Instant, wait: Duration) -> Instant {
        // [algorithms §5.5] The wait is rounded up to ticks, at least one, but counted from the
        // tick before now: so an event may come early, and is then put off once more.
        let wait = self.jiffies_until(wait.as_nanos()).max(1);
        self.at_jiffy(self.jiffies(now).saturating_add(wait))
    }

    fn tick(&self, at: Instant) -> Instant {
        let tick = self.at_jiffy(self.jiffies(at));
        if tick >= at { tick } else { self.at_jiffy(self.jiffies(at) + 1) }
    }

    fn patience(&self, now: Instant, all_wait: impl Fn() -> bool) -> Instant {
        // [algorithms §5.5] A level without an event counts as one second, and five are the most.
        self.event(now, Duration::from_secs(if all_wait() { 5 } else { 1 }))
    }
}

impl Jiffies {
    /// Returns the number of the last tick that is not after `now`.
    fn jiffies(&self, now: Instant) -> u64 {
        let ticks = u128::from(now.as_nanos()) * u128::from(self.hz) / NANOS;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Returns the ticks in `nanos` nanoseconds, rounded up.
    fn jiffies_until(&self, nanos: u64) -> u64 {
        let ticks = (u128::from(nanos) * u128::from(self.hz)).div_ceil(NANOS);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Returns the first nanosecond of a tick: rounded up, so that it is in the tick.
    fn at_jiffy(&self, jiffy: u64) -> Instant {
        let nanos = (u128::from(jiffy) * NANOS).div_ceil(u128::from(self.hz));
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Returns the logarithm of the smallest cell for which 256 rows reach `mtu` [algorithms §5.7].
fn cell_log(mtu: u64) -> u32 {
    (0..u64::BITS - 1).find(|&log| mtu >> log < ROWS).unwrap_or(0)
}

const PARAMETERS: &[Parameter] = &[
    RATE,
    CEIL,
    burst("a tick of rate + 1600 B"),
    cburst("a tick of ceil + 1600 B"),
    quantum("rate in byte/s / r2q, 1000 B to 200000 B"),
    PRIO,
    R2Q,
    Parameter {
        name: "hz",
        scope: Scope::Link,
        kind: Kind::Number(1, HZ_MAX),
        default: Some("100"),
        summary: "Ticks of the kernel's clock in a second; classes are examined on ticks only.",
    },
    Parameter {
        name: "hysteresis",
        scope: Scope::Link,
        kind: Kind::Flag,
        default: Some("true"),
        summary: "Let a class send until its tokens are a whole bucket below zero.",
    },
    Parameter {
        name: "rtab",
        scope: Scope::Link,
        kind: Kind::Choice(&["floor", "exact"]),
        default: Some("floor"),
        summary: "Costs by a table of lengths rounded down, as old tc filled it, or exact.",
    },
    Parameter {
        name: "mtu",
        scope: Scope::Link,
        kind: Kind::Size(1, MTU_MAX),
        default: Some("1600 B"),
        summary: "The length that the table reaches; above 2047 B its cells grow beyond 8 B.",
    },
];

/// The resolution in which a rate table is indexed.
const ROWS: u64 = 256;
const NANOS: u128 = 1_000_000_000;
/// The clock of the machine that the paper measured [algorithms §5.9].
const HZ_DEFAULT: u64 = 100;
const HZ_MAX: u64 = 10_000;
const MTU_DEFAULT: Bytes = Bytes::new(1600);
const MTU_MAX: u64 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    fn jiffies(hz: u64, cell_log: Option<u32>) -> Jiffies {
        Jiffies { hz, hysteresis: true, cell_log }
    }

    #[test]
    fn cells_are_the_smallest_of_which_256_rows_reach_the_mtu() {
        let rows = [(1, 0), (255, 0), (256, 1), (1600, 3), (2047, 3), (2048, 4), (65_535, 8)];
        for (mtu, log) in rows {
            assert_eq!(cell_log(mtu), log, "{mtu}");
        }
    }

    #[test]
    fn lengths_are_rounded_down_to_cells_and_end_with_the_table() {
        let rows = [(7, 0), (8, 8), (60, 56), (508, 504), (1496, 1496), (1499, 1496), (9000, 2040)];
        for (length, counted) in rows {
            assert_eq!(jiffies(100, Some(3)).counted(Bytes::new(length)), Bytes::new(counted));
            assert_eq!(jiffies(100, None).counted(Bytes::new(length)), Bytes::new(length));
        }
    }

    #[test]
    fn events_come_on_ticks_counted_from_the_tick_before_now() {
        // Now and wait in microseconds; the event.
        let rows =
            [(0, 1, 10_000), (0, 10_000, 10_000), (0, 10_001, 20_000), (9_999, 5_000, 10_000)];
        for (now, wait, event) in rows {
            let now = Instant::from_nanos(now * 1000);
            let at = jiffies(100, None).event(now, Duration::from_micros(wait));
            assert_eq!(at, Instant::from_nanos(event * 1000), "{now:?} {wait}");
        }
    }

    #[test]
    fn every_event_is_later_than_now_and_on_a_tick_of_any_clock() {
        for hz in [1, 3, 100, 1000, 1024, 9973, 10_000] {
            let clock = jiffies(hz, None);
            let mut now = 0u64;
            for step in 0..1000u64 {
                let wait = Duration::from_nanos(step * step * 777);
                let event = clock.event(Instant::from_nanos(now), wait);
                assert!(event.as_nanos() > now, "{hz} {now}");
                assert_eq!(clock.tick(event), event, "{hz} {now}");
                now = now.saturating_add(step * 1_234_567_891 + 1);
            }
            assert_eq!(clock.event(Instant::MAX, Duration::ZERO), Instant::MAX);
        }
    }
}
