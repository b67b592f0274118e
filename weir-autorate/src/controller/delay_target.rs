//! `delay-target`: keeps the delay behind the link at half a target; Weir's own.
//!
//! While a queue stands in the modem, what comes through *is* the capacity, as BBR's delivery rate
//! is [bbr3 §4.5]. So the rate goes straight there, times a factor that brings the queue to its
//! goal within a horizon. Upwards the link
//! knows what it sent in the last round trip: the queue is what of that the capacity cannot have
//! carried yet, which is known a round trip before its delay shows.
//!
//! While no queue stands and frames wait in the link, the link is the bottleneck: the rate grows
//! quickly until one does. Invariant: whatever stands in the modem after such growth is at most
//! what grew within a round trip and an interval.

use super::{Controller, Decision, Descriptor, Limits, Reason, scaled};
use crate::measure::Measure;
use crate::saved::saved;
use alloc::boxed::Box;
use weir_core::units::{Bytes, Duration, Instant, Rate};

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    name: "delay-target",
    summary: "to what comes through the modem while a queue stands there, and up while none does",
    build: || Box::new(DelayTarget::default()),
};

#[derive(Debug, Default)]
struct DelayTarget {
    /// The last interval.
    at: Instant,
    /// The last interval in which a delay was known.
    heard_at: Instant,
    /// When the delay was above the target last.
    late_at: Instant,
    /// When the rate was lowered last for losses without a delay; `None` if long ago.
    lost_at: Option<Instant>,
    /// Since when the delay has been above the target, the rate before, and the least and the
    /// largest delay since.
    risen: Option<Instant>,
    from: u64,
    least: Duration,
    most: Duration,
}

saved!(DelayTarget { at, heard_at, late_at, lost_at, risen, from, least, most });

/// A queue in the modem, as far as it may and as far as it does stand.
struct Goal {
    /// A delay up to this one is none.
    none: Duration,
    /// The delay that is aimed at.
    delay: Duration,
}

impl Controller for DelayTarget {
    fn decide(&mut self, limits: &Limits, rate: Rate, measure: &Measure) -> Decision {
        let keep = Decision { rate, reason: Reason::Steady, rebase: false };
        if measure.at < self.at {
            *self = Self::default();
        }
        self.at = measure.at;
        let Some(delay) = measure.delay else { return keep };
        // Senders repeat now the packets that the silence lost: that is no policer.
        if self.at.since(self.heard_at) > SILENT {
            self.late_at = self.at;
        }
        self.heard_at = self.at;
        self.note(limits, rate, delay);
        if self.is_path(limits, rate, measure) {
            self.risen = None;
            let rate = Rate::new(self.from).unwrap_or(rate);
            return Decision { rate, reason: Reason::Path, rebase: true };
        }
        let goal = Goal::of(limits, rate);
        if delay > goal.none {
            return follow(limits, rate, measure, &goal);
        }
        if self.is_policed(measure) {
            return self.lower(rate, measure);
        }
        self.grow(rate, measure)
    }
}

impl Goal {
    /// [rfc8289 §4.4] A queue below a packet or two is no standing one, whatever the target is: and
    /// an acknowledgement waits for a second segment [rfc9293 §3.8.6.3], which the link itself
    /// sends a packet's time later.
    fn of(limits: &Limits, rate: Rate) -> Goal {
        let packet = rate.transmit_time(PACKET).as_nanos();
        let target = limits.target().as_nanos();
        Goal {
            none: Duration::from_nanos((target / 5).max(packet.saturating_mul(2))),
            delay: Duration::from_nanos((target / 2).max(packet.saturating_mul(5) / 2)),
        }
    }
}

impl DelayTarget {
    /// Notes for how long the delay has been above the target.
    fn note(&mut self, limits: &Limits, rate: Rate, delay: Duration) {
        if delay <= limits.target() {
            self.risen = None;
            return;
        }
        self.late_at = self.at;
        if self.risen.is_none() {
            (self.risen, self.from) = (Some(self.at), rate.bits_per_second());
            (self.least, self.most) = (delay, delay);
        }
        (self.least, self.most) = (self.least.min(delay), self.most.max(delay));
    }

    /// Returns whether the delay is that of a longer path: it stands, though the rate is a fifth
    /// lower, and all that is sent comes through.
    fn is_path(&self, limits: &Limits, rate: Rate, measure: &Measure) -> bool {
        let Some(risen) = self.risen else { return false };
        let is_long = measure.at.since(risen) > STANDS;
        let is_low = rate > limits.min() && rate.bits_per_second() / 4 < self.from / 5;
        let stands = self.least.as_nanos() / 4 > self.most.as_nanos() / 5;
        is_long && is_low && stands && measure.is_limited && !is_short(measure)
    }

    /// Returns whether frames are lost where no queue stands: by a policer. A queue that was full
    /// is followed by repeats, too.
    fn is_policed(&self, measure: &Measure) -> bool {
        measure.is_lossy && measure.is_limited && measure.at.since(self.late_at) > REPAIRS
    }

    /// Lowers the rate for losses: once, until it is known what that did.
    fn lower(&mut self, rate: Rate, measure: &Measure) -> Decision {
        let trip = measure.round_trip.unwrap_or(EFFECT_MAX).min(EFFECT_MAX).as_nanos();
        let effect = Duration::from_nanos(trip * 2);
        if self.lost_at.is_some_and(|at| measure.at.since(at) < effect) {
            return Decision { rate, reason: Reason::Steady, rebase: false };
        }
        self.lost_at = Some(measure.at);
        Decision { rate: scaled(rate, 9, 10), reason: Reason::Loss, rebase: false }
    }

    /// Raises the rate if frames wait for it; slowly where more was lost before.
    fn grow(&mut self, rate: Rate, measure: &Measure) -> Decision {
        let keep = Decision { rate, reason: Reason::Steady, rebase: false };
        if !measure.is_limited {
            return keep;
        }
        self.lost_at = self.lost_at.filter(|at| measure.at.since(*at) < CALM);
        let step = if self.lost_at.is_some() { STEP_CALM } else { STEP };
        let bits = u128::from(rate.bits_per_second());
        let more = (bits * u128::from(1000 + step) / 1000).max(bits + 1);
        // Far more than what comes through only empties the link's own queue.
        let most = measure.through.map_or(more, |through| u128::from(through) * 2);
        let to = Rate::new(more.min(most).min(u128::from(u64::MAX)) as u64);
        let Some(to) = to.filter(|to| *to > rate) else { return keep };
        Decision { rate: to, reason: Reason::Load, rebase: false }
    }
}

/// Follows what comes through while a queue stands.
fn follow(limits: &Limits, rate: Rate, measure: &Measure, goal: &Goal) -> Decision {
    let keep = Decision { rate, reason: Reason::Steady, rebase: false };
    let delay = measure.delay.unwrap_or_default();
    let bits = rate.bits_per_second();
    // A queue to which this link did not add is another's, or more would come through.
    let is_full = measure.is_limited || measure.sent / 8 >= bits / 10;
    let is_known = is_full || is_short(measure);
    let capacity = match measure.through {
        Some(through) if is_known => through.max(1),
        _ if delay <= limits.target() || measure.offered.is_some() && !is_known => return keep,
        _ => bits - bits / 10,
    };
    let is_up = measure.under_way.is_some();
    let (horizon, most) = if is_up { (HORIZON_UP, MOST_UP) } else { (HORIZON_DOWN, MOST_DOWN) };
    let queue = queue(measure, delay, capacity);
    let surplus = queue.as_nanos() as i64 - goal.delay.as_nanos() as i64;
    let factor = 1000 - surplus.saturating_mul(1000) / horizon.as_nanos() as i64;
    let factor = factor.clamp(LEAST, most) as u64;
    let least = if is_known { bits / 2 } else { bits - bits / 10 };
    let to = u128::from(capacity) * u128::from(factor) / 1000;
    let to = (to as u64).clamp(least, bits.saturating_mul(13) / 10);
    if to.abs_diff(bits) < bits / SAME || to > bits && !measure.is_limited {
        return keep;
    }
    let reason = if to > bits { Reason::Load } else { Reason::Delay };
    Decision { rate: Rate::new(to.max(1)).unwrap_or(Rate::MIN), reason, rebase: false }
}

/// Returns the delay of the queue in the modem. Upwards it is what the link sent in the last round
/// trip, less what is on the way behind the queue: known before its end has been measured.
fn queue(measure: &Measure, delay: Duration, capacity: u64) -> Duration {
    let Some((sent, trip)) = measure.under_way.zip(measure.round_trip) else {
        return delay.min(QUEUE_MAX);
    };
    let nanos = u128::from(sent) * 8_000_000_000 / u128::from(capacity);
    let base = trip.as_nanos().saturating_sub(delay.as_nanos());
    let queue = nanos.saturating_sub(u128::from(base)).min(u128::from(QUEUE_MAX.as_nanos()));
    Duration::from_nanos(queue as u64)
}

/// Returns whether less came through than was sent a round trip before.
fn is_short(measure: &Measure) -> bool {
    let both = measure.through.zip(measure.offered);
    both.is_some_and(|(through, offered)| through / 9 < offered / 10)
}

/// The largest frame of Ethernet, with all that a line adds.
const PACKET: Bytes = Bytes::new(1538);
/// Within which time a queue is brought to its goal. The download's sender must hear of it first.
const HORIZON_UP: Duration = Duration::from_millis(100);
const HORIZON_DOWN: Duration = Duration::from_millis(150);
/// The least and the largest part of the capacity, in thousandths.
const LEAST: i64 = 300;
const MOST_UP: i64 = 1_300;
const MOST_DOWN: i64 = 1_050;
/// The growth in an interval without a queue, in thousandths: in the 50 ms until a queue shows the
/// rate is a third too high, and 16 ms stand in the modem. With losses instead of a queue, less.
const STEP: u64 = 150;
const STEP_CALM: u64 = 5;
const CALM: Duration = Duration::from_secs(10);
/// A rate that differs by less than one part in this many is the same.
const SAME: u64 = 100;
/// Bound: the queue that is drained at once; a longer one is drained no faster.
const QUEUE_MAX: Duration = Duration::from_secs(2);
/// After so long without a delay a controller was blind.
const SILENT: Duration = Duration::from_millis(500);
/// For so long senders repair what a full queue or a silence has lost.
const REPAIRS: Duration = Duration::from_secs(3);
const EFFECT_MAX: Duration = Duration::from_millis(500);
/// How long a delay stands before it can be that of a path.
const STANDS: Duration = Duration::from_millis(1_000);
