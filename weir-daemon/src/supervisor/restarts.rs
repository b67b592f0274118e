//! How often a child that dies is started again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bound: restarts of a process within [`RESTARTS_TIME`]; after them it stays ended. A forwarder
/// that dies more often would only disturb the traffic that the fallback carries, and a gateway its
/// clients.
pub const RESTARTS_MAX: usize = 5;
/// The time in which so many restarts are too many.
pub const RESTARTS_TIME: Duration = Duration::from_secs(60);

/// The restarts of the last minute.
#[derive(Debug, Default)]
pub struct Restarts {
    times: VecDeque<Instant>,
}

impl Restarts {
    /// Counts a restart at `now`, if there may be one; returns whether there may.
    pub fn allow(&mut self, now: Instant) -> bool {
        while self.times.front().is_some_and(|first| now - *first >= RESTARTS_TIME) {
            self.times.pop_front();
        }
        let allowed = self.times.len() < RESTARTS_MAX;
        if allowed {
            self.times.push_back(now);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_restarts_a_minute_are_allowed() {
        let start = Instant::now();
        let mut restarts = Restarts::default();
        let rows = [
            (0, true),
            (1, true),
            (2, true),
            (3, true),
            (59, true),
            (59, false),
            (60, true),
            (60, false),
            (61, true),
            (200, true),
        ];
        for (second, expected) in rows {
            let now = start + Duration::from_secs(second);
            assert_eq!(restarts.allow(now), expected, "at {second} s");
        }
    }
}
