//! A sender's clock, read from TCP's timestamps: how much longer than at best a segment was on its
//! way, without knowing when it was sent.
//!
//! [rfc7323 §5.4] The clock has a tick of 1 ms to 1 s, which no packet names. It is learned within
//! [`LEARN`] from the usual ones. A clock that runs otherwise gives wrong delays; the caller bounds
//! them by the round trip, which needs no clock of others.

use crate::baseline::Baseline;
use crate::saved::saved;
use weir_core::units::{Duration, Instant};

/// The clock of a sender, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderClock {
    /// Nanoseconds of a tick: 0 while it is learned.
    tick: u32,
    is_started: bool,
    first_value: u32,
    first_at: Instant,
    last_value: u32,
    last_at: Instant,
    offsets: Baseline,
    /// The least excess of a round trip since the offsets began, if one was measured: at most so
    /// long a queue stood in the way down all the time, and their least hides it.
    hidden: Option<u64>,
}

saved!(SenderClock {
    tick,
    is_started,
    first_value,
    first_at,
    last_value,
    last_at,
    offsets,
    hidden
});

impl SenderClock {
    /// Takes the timestamp of a segment that arrived at `at`; returns how much longer than at best
    /// it took, in nanoseconds, once the tick is known.
    #[inline]
    pub fn add(&mut self, at: Instant, value: u32) -> Option<u64> {
        // Of segments with one timestamp the first was sent closest to it.
        if self.is_started && value == self.last_value {
            return None;
        }
        let ticks = value.wrapping_sub(self.first_value);
        let goes_back = value.wrapping_sub(self.last_value) > u32::MAX / 2;
        let elapsed = at.since(self.first_at);
        // A line that stood still would be taken for a slow clock.
        let is_torn = self.tick == 0 && at.since(self.last_at) > PAUSE_MAX;
        self.last_at = at;
        if is_torn
            || !self.is_started
            || at < self.first_at
            || ticks > TICKS_MAX
            || elapsed > SPAN_MAX
        {
            self.restart(at, value);
            return None;
        }
        if goes_back {
            // Sent before what came before it.
            return None;
        }
        self.last_value = value;
        if self.tick == 0 {
            self.learn(at, value, elapsed);
            return None;
        }
        let offset = elapsed.as_nanos() as i64 - i64::from(ticks) * i64::from(self.tick);
        if offset < -EARLY_MAX {
            // It would have come before it was sent: the tick is another one.
            self.tick = 0;
            self.restart(at, value);
            return None;
        }
        Some(self.offsets.add(at, offset))
    }

    /// Notes by how much a round trip of now exceeds the least, both ways together.
    #[inline]
    pub fn note_excess(&mut self, excess: u64) {
        self.hidden = Some(self.hidden.map_or(excess, |hidden| hidden.min(excess)));
    }

    /// Returns whether a queue that stood since the offsets began may be taken for a part of the
    /// way.
    pub fn may_hide_queue(&self) -> bool {
        self.hidden.is_some_and(|hidden| hidden > HIDDEN_MAX.as_nanos())
    }

    /// Forgets how long the way was at best.
    pub fn forget_offsets(&mut self) {
        (self.offsets, self.hidden) = (Baseline::default(), None);
    }

    fn restart(&mut self, at: Instant, value: u32) {
        let tick = self.tick;
        *self = Self {
            tick,
            is_started: true,
            first_value: value,
            first_at: at,
            last_value: value,
            last_at: at,
            ..Self::default()
        };
    }

    /// Takes the usual tick that fits what was seen, or starts to learn anew.
    fn learn(&mut self, at: Instant, value: u32, elapsed: Duration) {
        if elapsed < LEARN {
            return;
        }
        let ticks = u64::from(value.wrapping_sub(self.first_value)).max(1);
        let tick = elapsed.as_nanos() / ticks;
        let fits = |usual: &&u32| {
            let usual = u64::from(**usual);
            tick.abs_diff(usual) * TOLERANCE <= usual
        };
        self.tick = TICKS.iter().find(fits).copied().unwrap_or(0);
        let learned = self.tick;
        self.restart(at, value);
        self.tick = learned;
    }
}

/// The ticks of the usual systems, in nanoseconds: Linux, the BSDs and macOS; older Linux; Windows
/// and others.
const TICKS: [u32; 4] = [1_000_000, 4_000_000, 10_000_000, 1_000];
/// A tick fits if it differs by at most one part in this many. A queue that grows by 100 ms while
/// it is learned changes it by a tenth.
const TOLERANCE: u64 = 5;
const LEARN: Duration = Duration::from_secs(1);
/// A longer pause between two segments ends what is learned.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The nanoseconds by which a segment may be early, as the first one waited so long.
const EARLY_MAX: i64 = 10_000_000_000;
/// The queue that may be hidden: a third of the usual target.
const HIDDEN_MAX: Duration = Duration::from_millis(5);
/// Bound: ticks since the first timestamp; after more the clock starts anew.
const TICKS_MAX: u32 = 1 << 30;
/// Bound: time since the first timestamp; after more the clock starts anew. A clock that is wrong
/// by 50 parts in a million is then wrong by 3 ms.
const SPAN_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a segment every 10 ms from a clock with this tick, which is delayed by `delay` ms at
    /// each millisecond, and returns the last delay.
    fn check(tick_ns: u64, delay: fn(u64) -> u64, milliseconds: u64) -> Option<u64> {
        let mut clock = SenderClock::default();
        let mut last = None;
        for sent in (0..milliseconds).step_by(10) {
            let value = (sent * 1_000_000 / tick_ns) as u32;
            let at = Instant::ZERO.after(Duration::from_millis(sent + 40 + delay(sent)));
            last = clock.add(at, value).or(last);
        }
        last.map(|nanos| nanos / 1_000_000)
    }

    #[test]
    fn a_usual_clock_gives_the_delay_above_the_least() {
        for tick in [1_000_000, 4_000_000, 10_000_000, 1_000] {
            let delay = check(tick, |at| if at > 3_000 { 30 } else { 0 }, 4_000);
            assert!(delay.is_some_and(|delay| (26..=34).contains(&delay)), "{tick}: {delay:?}");
        }
    }

    #[test]
    fn a_line_that_stands_still_is_no_slow_clock() {
        // For three seconds nothing comes; what was sent then comes at their end.
        let delay = check(1_000_000, |at| if at < 900 { 0 } else { 3_900 - at.min(3_900) }, 9_000);
        assert!(delay.is_some_and(|delay| delay <= 4), "{delay:?}");
    }

    #[test]
    fn a_queue_that_stood_from_the_start_is_named() {
        let mut clock = SenderClock::default();
        clock.note_excess(9_000_000);
        assert!(clock.may_hide_queue());
        clock.note_excess(3_000_000);
        assert!(!clock.may_hide_queue());
    }

    #[test]
    fn a_strange_clock_gives_none() {
        assert_eq!(check(2_000_000, |_| 0, 4_000), None);
    }
}
