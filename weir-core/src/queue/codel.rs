//! CoDel: drops what waited too long, when its turn comes [rfc8289 §5; algorithms §9.6].
//!
//! Once every packet of an `interval` has waited longer than `target` the first is dropped, and
//! then one after each interval divided by the root of their number, until one has waited less.
//! The root is the exact integer one.
//!
//! A dropper sees one packet at a time: after a drop the link selects anew, and the next packet of
//! this leaf may leave later than its turn would have been. So the next drop is set when that
//! packet comes, as it would be in a loop of drops.
//!
//! Invariant: no drop by age while at most a largest packet waits behind the first.

use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN, Limit, Place,
    Release, limit, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Kind, Params};
use crate::units::{Bytes, Dimension, Duration, Instant};
use alloc::boxed::Box;

/// CoDel.
pub struct CoDel(Box<State>);

struct State {
    limit: Limit,
    target: Duration,
    interval: Duration,
    mtu: Bytes,
    ecn: bool,
    /// From then on packets have waited too long for an interval.
    first_above: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    /// Whether `drop_next` is still that of the last drop.
    dropped: bool,
    /// Drops since dropping began; and what it was when it began.
    count: u32,
    count_before: u32,
}

impl DropperDiscipline for CoDel {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "codel",
        summary: "Drops what waited too long, when its turn comes.",
        parameters: &[
            limit("1000 packets"),
            row(
                "target",
                Kind::Quantity(Dimension::Duration),
                "5 ms",
                "How long packets may wait at all times.",
            ),
            row(
                "interval",
                Kind::Quantity(Dimension::Duration),
                "100 ms",
                "How long they may wait longer before the first is dropped.",
            ),
            ECN,
        ],
        sources: &["rfc8289", "algorithms §9.6"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        Ok(Self(Box::new(State {
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            target: params.duration("target").unwrap_or(Duration::from_millis(5)),
            interval: params.duration("interval").unwrap_or(Duration::from_millis(100)),
            mtu: place.mtu,
            ecn: params.flag("ecn") == Some(true),
            first_above: None,
            dropping: false,
            drop_next: Instant::ZERO,
            dropped: false,
            count: 0,
            count_before: 0,
        })))
    }
}

impl Dropper for CoDel {
    fn admit(&mut self, _now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        if self.0.limit.fits(arriving.length, backlog) {
            return Admission::Accept;
        }
        Admission::Refuse(DropReason::Full)
    }

    fn release(&mut self, now: Instant, first: Candidate, backlog: Count) -> Release {
        let state = &mut *self.0;
        let late = state.is_late(now, first, backlog);
        if state.dropping && !state.keeps_dropping(now, late) || !state.dropping && !late {
            return Release::Send;
        }
        let mark = state.ecn && first.is_markable();
        if state.dropping {
            state.count = state.count.saturating_add(1);
            state.dropped = true;
            if mark {
                state.set_next();
            }
        } else {
            state.begin(now);
        }
        if mark { Release::Mark } else { Release::Drop(DropReason::Late) }
    }

    fn emptied(&mut self, _now: Instant) {
        self.0.first_above = None;
        self.0.dropping = false;
        self.0.dropped = false;
    }
}

impl State {
    /// Whether packets have waited longer than the target for an interval.
    fn is_late(&mut self, now: Instant, first: Candidate, backlog: Count) -> bool {
        let behind = Bytes::new(backlog.bytes).minus(first.length);
        if now.since(first.arrived) < self.target || behind <= self.mtu {
            self.first_above = None;
            return false;
        }
        now > *self.first_above.get_or_insert(now.after(self.interval))
    }

    /// While dropping: whether the next drop is due.
    fn keeps_dropping(&mut self, now: Instant, late: bool) -> bool {
        if !late {
            self.dropping = false;
            self.dropped = false;
            return false;
        }
        if self.dropped {
            self.set_next();
        }
        now >= self.drop_next
    }

    /// Sets the next drop after the last one.
    fn set_next(&mut self) {
        self.drop_next = self.drop_next.after(self.spacing());
        self.dropped = false;
    }

    /// The first drop. If dropping ended only lately it goes on at nearly the same rate.
    fn begin(&mut self, now: Instant) {
        self.dropping = true;
        let drops = self.count.wrapping_sub(self.count_before);
        let lately = Duration::from_nanos(self.interval.as_nanos().saturating_mul(16));
        let again = drops > 1 && now.since(self.drop_next) < lately;
        self.count = if again { drops } else { 1 };
        self.count_before = self.count;
        self.drop_next = now.after(self.spacing());
    }

    /// The interval over the root of the number of drops, rounded down.
    fn spacing(&self) -> Duration {
        let square = u128::from(self.interval.as_nanos()).pow(2);
        let spacing = (square / u128::from(self.count.max(1))).isqrt();
        Duration::from_nanos(spacing as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, params};
    use super::*;
    use alloc::vec::Vec;

    /// Packets wait `delay` microseconds each, a hundred of them at a time, served every `step`;
    /// the instants of drops in microseconds.
    fn drops(trial: &mut Trial<CoDel>, delay: u64, step: u64, until: u64) -> Vec<u64> {
        while trial.now.as_nanos() < until * 1000 {
            while trial.waiting.len() < 100 {
                trial.offer(1000, 0b10);
            }
            let early = Duration::from_micros(delay);
            for packet in &mut trial.waiting {
                packet.arrived = trial.now.before(early);
            }
            trial.serve();
            trial.pause(step);
        }
        trial.dropped.iter().map(|(at, _)| at.as_nanos() / 1000).collect()
    }

    fn at_rest(params: &Params) -> Trial<CoDel> {
        let mut trial = Trial::new(params);
        trial.now = Instant::from_nanos(1_000_000_000);
        trial
    }

    #[test]
    fn drops_come_at_the_instants_of_the_published_trace() {
        let mut trial = at_rest(&params(&[], &[]));
        let drops = drops(&mut trial, 20_000, 10, 1_510_000);
        let expected = [100.0, 200.0, 270.7, 328.4, 378.4, 423.2, 464.0, 501.8];
        let real: Vec<f64> = drops.iter().map(|&at| (at - 1_000_000) as f64 / 1000.0).collect();
        assert_eq!(real.len(), expected.len(), "{real:?}");
        for (real, expected) in real.iter().zip(expected) {
            assert!((real - expected).abs() < 0.12, "{real} instead of {expected}");
        }
        assert!(real[0] > 100.0, "just after, not at");
    }

    #[test]
    fn nobody_is_dropped_while_delays_are_short_or_the_queue_is() {
        assert!(drops(&mut at_rest(&params(&[], &[])), 4_999, 100, 3_000_000).is_empty());
        assert!(!drops(&mut at_rest(&params(&[], &[])), 5_000, 100, 3_000_000).is_empty());
        let mut trial = at_rest(&params(&[], &[]));
        for _ in 0..1000 {
            // One packet of 1000 bytes behind the first: less than a largest packet.
            while trial.waiting.len() < 2 {
                trial.offer(1000, 0);
            }
            trial.pause(20_000);
            trial.serve();
        }
        assert!(trial.dropped.is_empty());
    }

    #[test]
    fn dropping_goes_on_where_it_ended_lately() {
        let mut trial = at_rest(&params(&[], &[]));
        drops(&mut trial, 20_000, 10, 1_510_000);
        assert_eq!(trial.dropper.0.count, 8);
        drops(&mut trial, 1_000, 10, 1_520_000);
        assert!(!trial.dropper.0.dropping);
        trial.dropped.clear();
        // Eight drops before, less the one of the beginning: the next spacing is 100/√7 ms.
        let again = drops(&mut trial, 20_000, 10, 1_700_000);
        assert_eq!(again.len(), 3, "{again:?}");
        assert!((again[1] - again[0]).abs_diff(37_796) < 30, "{again:?}");
        assert!((again[2] - again[1]).abs_diff(35_355) < 30, "{again:?}");
        // Long after it begins anew.
        drops(&mut trial, 1_000, 10, 4_000_000);
        trial.dropped.clear();
        let anew = drops(&mut trial, 20_000, 10, 4_210_000);
        assert!((anew[1] - anew[0]).abs_diff(100_000) < 30, "{anew:?}");
    }

    #[test]
    fn a_late_call_drops_several_at_once() {
        let mut trial = at_rest(&params(&[], &[]));
        drops(&mut trial, 20_000, 10, 1_150_000);
        assert_eq!(trial.dropped.len(), 1);
        for packet in &mut trial.waiting {
            packet.arrived = trial.now;
        }
        // At 400 ms those of 200, 270.7, 328.4 and 378.4 are due.
        trial.pause(250_000);
        trial.serve();
        assert_eq!(trial.dropped.len(), 5);
    }

    #[test]
    fn who_understands_marks_is_marked_instead() {
        let mut trial = at_rest(&params(&[], &[("ecn", true)]));
        assert!(drops(&mut trial, 20_000, 10, 1_510_000).is_empty());
        assert_eq!(trial.marked, 8);
    }

    #[test]
    fn spacings_are_exact_at_the_extremes() {
        let mut trial = at_rest(&params(&[], &[]));
        let state = &mut trial.dropper.0;
        for (nanos, count, expected) in
            [(u64::MAX, 1, u64::MAX), (100, 0, 100), (0, 5, 0), (100_000_000, 7, 37_796_447)]
        {
            (state.interval, state.count) = (Duration::from_nanos(nanos), count);
            assert_eq!(state.spacing().as_nanos(), expected);
        }
    }
}
