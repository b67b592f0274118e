//! A minimum over a window of time that moves: the delay of a path without a queue.
//!
//! BBR keeps the least round trip likewise, and empties the queue to measure it anew [bbr3 §5.3.4];
//! what passes here is others' traffic, so the window is longer. Two epochs, of which the older is
//! forgotten. A path that is silent forgets nothing.

use crate::saved::saved;
use weir_core::units::{Duration, Instant};

/// The smallest of the values of the last one to two epochs. Values may be negative: differences of
/// clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Baseline {
    current: i64,
    previous: i64,
    since: Instant,
}

saved!(Baseline { current, previous, since });

impl Default for Baseline {
    fn default() -> Self {
        Self { current: i64::MAX, previous: i64::MAX, since: Instant::ZERO }
    }
}

impl Baseline {
    /// Adds a value and returns by how much it exceeds the minimum.
    #[inline]
    pub fn add(&mut self, at: Instant, value: i64) -> u64 {
        if at.since(self.since) >= EPOCH && self.current != i64::MAX {
            (self.previous, self.current) = (self.current, i64::MAX);
            self.since = at;
        }
        if self.current == i64::MAX {
            self.since = self.since.max(at);
        }
        self.current = self.current.min(value);
        value.saturating_sub(self.value().unwrap_or(value)).max(0) as u64
    }

    /// Returns the minimum, if there was a value.
    pub fn value(&self) -> Option<i64> {
        Some(self.current.min(self.previous)).filter(|value| *value != i64::MAX)
    }

    /// Takes `value` for the minimum until it is forgotten, as one that was known before.
    pub fn seed(&mut self, at: Instant, value: i64) {
        *self = Self { current: i64::MAX, previous: value, since: at };
    }

    /// Forgets all but `value`.
    pub fn restart(&mut self, at: Instant, value: i64) {
        *self = Self { current: value, previous: i64::MAX, since: at };
    }
}

/// A minimum is forgotten after one to two of these. Satellites of Starlink change every 15 s.
const EPOCH: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO.after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_minimum_is_forgotten_after_two_epochs_and_not_by_silence() {
        let mut baseline = Baseline::default();
        assert_eq!(baseline.add(at(100), 50), 0);
        assert_eq!(baseline.add(at(101), 70), 20);
        // Silence.
        assert_eq!(baseline.add(at(1000), 70), 20);
        assert_eq!(baseline.add(at(1014), 70), 20);
        assert_eq!(baseline.add(at(1016), 70), 0);
    }

    #[test]
    fn a_restart_takes_the_new_minimum() {
        let mut baseline = Baseline::default();
        baseline.add(at(1), 10);
        baseline.restart(at(2), 30);
        assert_eq!(baseline.add(at(2), 35), 5);
    }
}
