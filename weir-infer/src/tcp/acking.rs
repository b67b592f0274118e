//! How a receiver acknowledges: segment by segment, every second one, or many at once.

use serde::Serialize;
use weir_core::units::Duration;

/// How a receiver acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acks {
    /// Each segment.
    Each,
    /// Every second one, and a single one after this time.
    Delayed(#[serde(serialize_with = "crate::shown::seconds")] Duration),
    /// Several at once, as hosts and cards do that join segments.
    Joined,
    /// Too few were seen.
    #[default]
    Unknown,
}

/// Acknowledgements without data, by the segments that they acknowledge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Acking {
    /// Of one segment, of two, and of more.
    pub counts: [u32; 3],
    /// Of one segment, those that were held back, and for how long in sum.
    pub held: (u32, Duration),
    last: u64,
}

impl Acking {
    /// Returns what most acknowledgements do.
    pub fn policy(&self) -> Acks {
        let [one, two, more] = self.counts;
        // The last segment of an object has none to wait for.
        let (held, time) = self.held;
        match one + two + more {
            all if all < ACKS_MIN => Acks::Unknown,
            all if more * 2 > all => Acks::Joined,
            _ if two > one / 4 || held * 2 > one => {
                let mean = time.as_nanos().checked_div(u64::from(held));
                Acks::Delayed(mean.map_or(HELD_USUAL, Duration::from_nanos))
            }
            _ => Acks::Each,
        }
    }

    /// Returns the offset below which all is acknowledged.
    pub fn acked(&self) -> u64 {
        self.last
    }

    /// Takes an acknowledgement of all below `to`, of so many segments, `held` after the last of
    /// them came.
    pub fn acknowledge(
        &mut self,
        to: u64,
        segments: u64,
        held: Option<Duration>,
        least: Option<Duration>,
    ) {
        self.last = to;
        let Some(held) = held.filter(|_| segments > 0) else { return };
        self.counts[(segments as usize - 1).min(2)] += 1;
        let held = Duration::from_nanos(
            held.as_nanos().saturating_sub(least.map_or(0, Duration::as_nanos)),
        );
        if segments == 1 && held > HELD_MIN {
            self.held = (self.held.0 + 1, self.held.1.plus(held));
        }
    }
}

/// Below this an acknowledgement was not held back.
const HELD_MIN: Duration = Duration::from_millis(3);
/// Linux's least time for which an acknowledgement is held back.
const HELD_USUAL: Duration = Duration::from_millis(40);
/// Fewer acknowledgements show no policy.
const ACKS_MIN: u32 = 4;
