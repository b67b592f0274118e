//! CoDel's decision when packets of a queue are late, and which of them to drop [rfc8289 §5;
//! algorithms §9.6], for a leaf and for each flow in a leaf.
//!
//! Once every packet of an `interval` has waited longer than `target` the first is dropped, and
//! then one after each interval divided by the root of the number of drops, until a packet has
//! waited less. The root is the exact integer one, or that of `[linux]`, which takes one step of
//! Newton's method a drop in 16 bits: the second spacing is 1/2 of the interval, not 1/√2.
//!
//! A dropper sees one packet at a time: after a drop the link selects anew, and the next packet of
//! this queue may leave later than in a loop of drops. So the next drop time is set when that
//! packet comes, to the value that the loop would have set.
//!
//! Invariant: no packet is dropped while at most one MTU waits behind the first.

use super::{Candidate, ECN, Place, Release, row};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{Kind, Parameter, Params};
use crate::state::state;
use crate::units::{Bytes, Dimension, Duration, Instant};

/// The parameters that say when a packet is late, one set for all queues of a dropper.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    target: Duration,
    interval: Duration,
    mtu: Bytes,
    ecn: bool,
    /// Whether the root is Linux's.
    newton: bool,
}

/// The state of one queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Lateness {
    /// From this instant on packets have waited too long for an interval.
    first_above: Option<Instant>,
    drop_next: Instant,
    dropping: bool,
    /// Whether `drop_next` is still the instant of the last drop.
    dropped: bool,
    /// Linux's estimate of one over the root of `count`, in parts of 2^16.
    inverse_root: u16,
    /// Drops since dropping began; and the count when it began.
    count: u32,
    count_before: u32,
}

impl Lateness {
    /// Returns the drops since dropping began; none while it does not drop.
    pub(super) fn drops(&self) -> u32 {
        if self.dropping { self.count } else { 0 }
    }
}

impl Patience {
    /// The parameters in `params`; `ecn` is the default of marks.
    pub(super) fn from_params(params: &Params, place: Place, ecn: bool) -> Self {
        Self {
            target: params.duration(TARGET.name).unwrap_or(Duration::from_millis(5)),
            interval: params.duration(INTERVAL.name).unwrap_or(Duration::from_millis(100)),
            mtu: place.mtu,
            ecn: params.flag(ECN.name).unwrap_or(ecn),
            newton: false,
        }
    }

    /// Returns it with Linux's approximate root in place of the exact one, if `newton`.
    pub(super) fn with_newton(self, newton: bool) -> Self {
        Self { newton, ..self }
    }

    /// Returns the interval over the root of the number of drops, rounded down.
    fn spacing(&self, count: u32) -> Duration {
        let square = u128::from(self.interval.as_nanos()).pow(2);
        let spacing = (square / u128::from(count.max(1))).isqrt();
        Duration::from_nanos(spacing as u64)
    }
}

impl Lateness {
    /// Decides about the first packet, whose turn has come; `backlog` is that of its queue.
    pub(super) fn release(
        &mut self,
        patience: &Patience,
        now: Instant,
        first: Candidate,
        backlog: Count,
    ) -> Release {
        let late = self.is_late(patience, now, first, backlog);
        let due = if self.dropping { self.keeps_dropping(patience, now, late) } else { late };
        if !due {
            return Release::Send;
        }
        let mark = patience.ecn && first.is_markable();
        if self.dropping {
            self.count = self.count.saturating_add(1);
            self.step();
            self.dropped = true;
            if mark {
                self.set_next(patience);
            }
        } else {
            self.begin(patience, now);
        }
        if mark { Release::Mark } else { Release::Drop(DropReason::Late) }
    }

    /// Records that limits dropped so many packets of its queue `[linux]`.
    pub(super) fn overflowed(&mut self, packets: u32) {
        self.count = self.count.saturating_add(packets);
    }

    /// Records that the last packet left, or that the queue was found empty.
    pub(super) fn emptied(&mut self) {
        self.first_above = None;
        self.dropping = false;
        self.dropped = false;
    }

    /// Returns whether packets have waited longer than the target for an interval.
    fn is_late(
        &mut self,
        patience: &Patience,
        now: Instant,
        first: Candidate,
        backlog: Count,
    ) -> bool {
        let behind = Bytes::new(backlog.bytes).minus(first.length);
        if now.since(first.arrived) < patience.target || behind <= patience.mtu {
            self.first_above = None;
            return false;
        }
        now > *self.first_above.get_or_insert(now.after(patience.interval))
    }

    /// While dropping: returns whether the next drop is due.
    fn keeps_dropping(&mut self, patience: &Patience, now: Instant, late: bool) -> bool {
        if !late {
            self.dropping = false;
            self.dropped = false;
            return false;
        }
        if self.dropped {
            self.set_next(patience);
        }
        now >= self.drop_next
    }

    /// Sets the instant of the next drop after the last one.
    fn set_next(&mut self, patience: &Patience) {
        self.drop_next = self.drop_next.after(self.spacing(patience));
        self.dropped = false;
    }

    fn spacing(&self, patience: &Patience) -> Duration {
        if !patience.newton {
            return patience.spacing(self.count);
        }
        let nanos = u128::from(patience.interval.as_nanos()) * u128::from(self.inverse_root);
        Duration::from_nanos((nanos >> 16) as u64)
    }

    /// Moves the estimate *x* towards one over the root of `count`: x·(3 − count·x²)/2 `[linux]`.
    fn step(&mut self) {
        let estimate = u64::from(self.inverse_root) << 16;
        let square = (estimate * estimate) >> 32;
        let rest = (3u64 << 32).saturating_sub(u64::from(self.count).saturating_mul(square));
        self.inverse_root = (((rest >> 2) * estimate) >> 47) as u16;
    }

    /// Makes the first drop. If dropping ended only recently it resumes at nearly the same rate.
    fn begin(&mut self, patience: &Patience, now: Instant) {
        self.dropping = true;
        let drops = self.count.wrapping_sub(self.count_before);
        let lately = Duration::from_nanos(patience.interval.as_nanos().saturating_mul(16));
        let again = drops > 1 && now.since(self.drop_next) < lately;
        self.count = if again { drops } else { 1 };
        if again {
            self.step();
        } else {
            self.inverse_root = u16::MAX;
        }
        self.count_before = self.count;
        self.drop_next = now.after(self.spacing(patience));
    }

    #[cfg(test)]
    pub(super) fn is_dropping(&self) -> bool {
        self.dropping
    }
}

/// The parameter rows that [`Patience::from_params`] reads.
pub(super) const TARGET: Parameter = row(
    "target",
    Kind::Quantity(Dimension::Duration),
    "5 ms",
    "The delay below which no packet is late.",
);
pub(super) const INTERVAL: Parameter = row(
    "interval",
    Kind::Quantity(Dimension::Duration),
    "100 ms",
    "How long all packets must be late before the first is dropped.",
);
pub(super) const ECN_ON: Parameter = Parameter { default: Some("true"), ..ECN };

state!(Lateness { first_above, drop_next, dropping, dropped, inverse_root, count, count_before });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacings_are_exact_at_the_extremes() {
        for (nanos, count, expected) in
            [(u64::MAX, 1, u64::MAX), (100, 0, 100), (0, 5, 0), (100_000_000, 7, 37_796_447)]
        {
            let interval = Duration::from_nanos(nanos);
            let (target, mtu) = (Duration::ZERO, Bytes::ZERO);
            let patience = Patience { target, interval, mtu, ecn: false, newton: false };
            assert_eq!(patience.spacing(count).as_nanos(), expected);
        }
    }
}
