//! A curve as it is written, and how far a class has come on it, in the room that both forms of
//! arithmetic share (`curve.rs`, `ticks.rs`) [algorithms §6.2].
//!
//! Times are in units of 2^-40 ns. Invariant: both numbers of a runtime curve stay within [`FAR`]
//! of zero.

use crate::state::state;
use crate::units::{Duration, Rate};

/// A curve as written: `m1` bit/s, which may be 0, for `d`, then `m2`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Spec {
    pub(super) m1: u64,
    pub(super) d: Duration,
    pub(super) m2: Rate,
}

/// A runtime curve: when each of its lines reaches what was served. With Linux's arithmetic these
/// are other numbers, which `ticks.rs` packs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Runtime {
    pub(super) first: i128,
    pub(super) second: i128,
}

impl Spec {
    /// One slope from the start.
    pub(super) const fn linear(rate: Rate) -> Self {
        Self { m1: 0, d: Duration::ZERO, m2: rate }
    }

    /// How far apart the starts of the two lines are: `d` * |`m1` - `m2`| / `m2`, rounded down.
    pub(super) fn offset(self) -> i128 {
        let m2 = u128::from(self.m2.bits_per_second());
        let product = u128::from(self.d.as_nanos()) * u128::from(self.m1).abs_diff(m2);
        let (whole, rest) = (product / m2, product % m2);
        let whole = whole.min(FAR as u128 >> FRACTION_BITS) << FRACTION_BITS;
        ((whole + (rest << FRACTION_BITS) / m2) as i128).min(FAR)
    }
}

impl Runtime {
    /// Of a class that was never served.
    pub(super) const IDLE: Runtime = Runtime { first: -FAR, second: -FAR };

    /// Checks a loaded state: both values are within `FAR`.
    fn is_sound(&self) -> bool {
        let within = -FAR..=FAR;
        within.contains(&self.first) && within.contains(&self.second)
    }

    /// Moves both times later by `time`.
    #[inline]
    pub(super) fn delay(&mut self, time: i128) {
        self.first = (self.first + time).clamp(-FAR, FAR);
        self.second = (self.second + time).clamp(-FAR, FAR);
    }
}

pub(super) const FRACTION_BITS: u32 = 40;
/// Further than any instant (2^104), and than any packet's time (2^106): times are held there.
pub(super) const FAR: i128 = 1 << 120;

state!(Runtime { first, second; check: Runtime::is_sound });
