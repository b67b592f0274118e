//! Disturbances of what the controllers of rates see: hosts that forge, and a clock that jumps.
//!
//! Laws and experiments set it, and no key of a scenario does. The ends of a connection take no
//! part in it, so it changes only what is concluded. Invariant: the same packet at the same instant
//! gives the same lie, so one seed is one run.

use weir_autorate::{Segment, Stamp, TcpSegment};
use weir_core::random::Random;
use weir_core::units::Instant;

/// Disturbances of what controllers of rates see.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Disturbance {
    /// The places of the sources whose TCP shows numbers that lie, in both directions.
    pub forgers: Vec<u32>,
    /// When the clock by which frames are timed jumps, in their order.
    pub jumps: Vec<Jump>,
}

/// A jump of a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    /// When it jumps.
    pub at: Instant,
    /// The instant that it shows then; it goes on from there.
    pub to: Instant,
}

impl Disturbance {
    /// Returns the instant that the clock shows.
    pub(super) fn stamp(&self, at: Instant) -> Instant {
        let last = self.jumps.iter().rfind(|jump| jump.at <= at);
        last.map_or(at, |jump| jump.to.after(at.since(jump.at)))
    }

    /// Returns what a frame of a source shows at `at` instead of `shown`.
    pub(super) fn lie(&self, at: Instant, source: u32, shown: Segment) -> Segment {
        if !self.forgers.contains(&source) || !matches!(shown, Segment::Tcp(_)) {
            return shown;
        }
        let random = &mut Random::new(at.as_nanos(), source.into());
        let value = random.below(NUMBERS);
        Segment::Tcp(TcpSegment {
            seq: random.below(NUMBERS),
            ack: Some(random.below(NUMBERS)),
            stamp: Some(Stamp { value, echo: random.below(NUMBERS) }),
            payload: random.below(1_448),
            is_reset: random.below(200) == 0,
        })
    }
}

/// Numbers are drawn below this one, so that many of them fit each other.
const NUMBERS: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_from_where_it_jumped_to() {
        let nanos = Instant::from_nanos;
        let jump = |at, to| Jump { at: nanos(at), to: nanos(to) };
        let disturbance =
            Disturbance { jumps: vec![jump(0, 1_000), jump(50, 20)], ..Disturbance::default() };
        let shown = [0, 49, 50, 70].map(|at| disturbance.stamp(nanos(at)).as_nanos());
        assert_eq!(shown, [1_000, 1_049, 20, 40]);
        assert_eq!(Disturbance::default().stamp(nanos(7)), nanos(7));
    }
}
