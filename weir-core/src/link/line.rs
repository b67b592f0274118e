//! The line: when it has sent what it was handed, and when it takes more.
//!
//! The line counts fractions of a nanosecond, so it loses no rate; what it returns is rounded up,
//! so never early. Invariant: it falls idle `busy` after `since`, and `finished` is that instant,
//! rounded up.

use crate::state::state;
use crate::units::{Bytes, Duration, Instant, Pace, Rate};

/// The pace of the line and what it has still to send.
#[derive(Clone, Copy)]
pub(super) struct Line {
    /// When it has sent everything that it was handed, rounded up.
    finished: Instant,
    /// An instant since which it was never idle.
    since: Instant,
    /// The time from `since` that it takes to send what it was handed, in units of [`Pace`].
    busy: u64,
    pace: Pace,
    /// How long before it falls idle it takes another packet.
    lead: Duration,
    /// The lead once it was handed another packet: the time that `buffer` takes at `pace`.
    lead_next: Duration,
    buffer: Bytes,
}

impl Line {
    /// An idle line that takes `buffer` bytes ahead of what it has sent.
    pub(super) const fn new(rate: Rate, buffer: Bytes) -> Self {
        let lead = rate.transmit_time(buffer);
        let start = Instant::ZERO;
        Self {
            finished: start,
            since: start,
            busy: 0,
            pace: Pace::of(rate),
            lead,
            lead_next: lead,
            buffer,
        }
    }

    /// Sends what it is handed from now on at `rate`. What it was handed before is sent when it
    /// said, so no packet finishes before an earlier one.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.pace = Pace::of(rate);
        self.lead_next = rate.transmit_time(self.buffer);
    }

    /// Returns when the line has room for another packet.
    pub(super) const fn ready_at(&self) -> Instant {
        self.finished.before(self.lead)
    }

    /// Prepares for the packets that are handed out at `now`.
    #[inline(always)]
    pub(super) fn begin(&mut self, now: Instant) {
        // Within the nanosecond in which the line falls idle the fraction is retained, or each
        // packet would start up to a nanosecond late and the line would lose rate.
        if self.finished < now {
            self.since = now;
            self.busy = 0;
        }
    }

    /// Hands the line a packet of `wire` bytes at the instant of the last [`Line::begin`]; returns
    /// when its last bit is sent.
    #[inline(always)]
    pub(super) fn send(&mut self, wire: u32) -> Instant {
        match self.pace.extend(self.busy, wire) {
            Some(busy) => self.busy = busy,
            None => self.extend_slowly(wire),
        }
        let nanos = Pace::round_up(self.busy).as_nanos();
        let finished = self.since.as_nanos().checked_add(nanos);
        let finished = finished.map_or_else(end_of_time, Instant::from_nanos);
        debug_assert!(
            finished >= self.finished,
            "a packet never shortens what the line has to send"
        );
        self.finished = finished;
        self.lead = self.lead_next;
        finished
    }

    /// Advances `since`, where the time since then grows too long.
    #[cold]
    fn extend_slowly(&mut self, wire: u32) {
        let (whole, busy) = self.pace.extend_far(self.busy, wire);
        self.since = self.since.after(whole);
        self.busy = busy;
    }

    /// Returns when the line has sent everything that it was handed.
    pub(super) const fn finished(&self) -> Instant {
        self.finished
    }

    /// Checks a loaded state: `finished` follows from `since` and `busy`.
    fn is_sound(&self) -> bool {
        let busy = Pace::round_up(self.busy.min(i64::MAX as u64));
        self.busy <= i64::MAX as u64 && self.finished == self.since.after(busy)
    }

    /// Restarts the line at `instant` if it was idle or behind until then.
    pub(super) fn forfeit_before(&mut self, instant: Instant) {
        if self.finished < instant {
            self.finished = instant;
            self.since = instant;
            self.busy = 0;
        }
    }
}

/// Instants are capped here.
#[cold]
const fn end_of_time() -> Instant {
    Instant::MAX
}

state!(Line { finished, since, busy, lead; kept: pace, lead_next, buffer; check: Line::is_sound });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_once_the_buffer_is_within_its_limit() {
        let rows = [(1u64, 0u64), (999, 2_000), (24_000_000_000, 1), (400_000_000_000, 2_048)];
        for (rate, buffer) in rows {
            let rate = Rate::new(rate).expect("not zero");
            let mut line = Line::new(rate, Bytes::new(buffer));
            let lead = rate.transmit_time(Bytes::new(buffer));
            let mut now = Instant::ZERO;
            for wire in 1..2_000u32 {
                let ready_at = line.ready_at().max(now);
                assert!(line.finished() <= ready_at.after(lead), "{rate} {buffer} {wire}");
                let before = Instant::from_nanos(ready_at.as_nanos().saturating_sub(1));
                if ready_at > now {
                    assert!(line.finished() > before.after(lead), "{rate} {buffer} {wire}");
                }
                // Sometimes the line idles for a while.
                now = Instant::from_nanos(ready_at.as_nanos() + if wire % 7 == 0 { 9 } else { 0 });
                line.begin(now);
                let finished = line.send(wire * wire % 1_500 + 1);
                assert!(finished > now);
            }
        }
    }
}
