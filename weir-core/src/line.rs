//! The line: when it has sent what it was handed, and from when on it takes more.
//!
//! It keeps fractions of a nanosecond, so that it loses no rate; what it answers is rounded up, so
//! never early. Invariant: `finished` is `free_at`, rounded up.

use crate::units::{Bytes, FineInstant, Instant, Pace, Rate};

/// The pace of the line and what it has still to send.
pub(crate) struct Line {
    pace: Pace,
    /// Bytes that it takes before it has sent what it was handed earlier.
    buffer: Bytes,
    /// When it has sent everything that it was handed.
    free_at: FineInstant,
    finished: Instant,
}

impl Line {
    /// An idle line.
    pub(crate) const fn new(rate: Rate, buffer: Bytes) -> Self {
        let pace = Pace::of(rate);
        Self { pace, buffer, free_at: FineInstant::ZERO, finished: Instant::ZERO }
    }

    /// When the line has room for another packet, to the nanosecond.
    pub(crate) const fn ready_at(&self) -> Instant {
        self.free_at.before(self.pace, self.buffer).round_up()
    }

    /// What [`Line::has_room`] compares with; one value serves every packet of one instant.
    pub(crate) const fn horizon(&self, now: Instant) -> FineInstant {
        FineInstant::from_instant(now).after(self.pace, self.buffer)
    }

    /// Whether [`Line::ready_at`] is not after the instant of `horizon`, without rounding.
    pub(crate) fn has_room(&self, horizon: FineInstant) -> bool {
        self.free_at <= horizon
    }

    /// Hands the line a packet of `wire` bytes; answers when its last bit is sent.
    pub(crate) fn send(&mut self, now: Instant, wire: Bytes) -> Instant {
        // Within the nanosecond in which the line falls idle the fraction is kept, or each packet
        // would start up to a nanosecond late and the line would lose rate.
        let start =
            if self.finished >= now { self.free_at } else { FineInstant::from_instant(now) };
        self.free_at = start.after(self.pace, wire);
        self.finished = self.free_at.round_up();
        self.finished
    }

    /// The line starts anew at `instant` if it has been idle or behind until then.
    pub(crate) fn forfeit_before(&mut self, instant: Instant) {
        self.free_at = self.free_at.max(FineInstant::from_instant(instant));
        self.finished = self.free_at.round_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_exactly_from_when_it_says() {
        let rows = [(1u64, 0u64), (999, 2_000), (24_000_000_000, 1), (400_000_000_000, 2_048)];
        for (rate, buffer) in rows {
            let mut line = Line::new(Rate::new(rate).expect("not zero"), Bytes::new(buffer));
            let mut now = Instant::ZERO;
            for wire in 1..2_000u64 {
                let ready_at = line.ready_at().max(now);
                assert!(line.has_room(line.horizon(ready_at)), "{rate} {buffer} {wire}");
                let before = Instant::from_nanos(ready_at.as_nanos().saturating_sub(1));
                if ready_at > now {
                    assert!(!line.has_room(line.horizon(before)), "{rate} {buffer} {wire}");
                }
                // Sometimes the line idles for a while.
                now = Instant::from_nanos(ready_at.as_nanos() + if wire % 7 == 0 { 9 } else { 0 });
                let finished = line.send(now, Bytes::new(wire * wire % 1_500 + 1));
                assert_eq!(finished, line.free_at.round_up());
            }
        }
    }
}
