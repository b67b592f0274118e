//! COBALT: CoDel and BLUE side by side, for one flow `[linux]` [algorithms §9.20].
//!
//! CoDel drops or marks at instants that come closer together while packets wait too long; BLUE
//! drops with a probability that rises when the leaf is full and falls when the flow is found
//! empty, and marks nothing. When delays are short again, CoDel's count of drops falls at the same
//! pace at which it rose, also while the flow is empty.
//!
//! Invariant: a flow that was at rest for an interval drops nothing before a second late packet.

use super::super::Candidate;
use crate::random::Random;
use crate::state::state;
use crate::units::{Duration, Instant};

/// When packets are late: the same for all flows of a tin.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub target: Duration,
    pub interval: Duration,
    /// The time of a full packet at the rate of the tin.
    pub full_packet: Duration,
}

/// The state of one flow.
#[derive(Clone, Copy, Default)]
pub(super) struct Cobalt {
    /// How often CoDel dropped, less what was forgotten since.
    count: u32,
    /// One over the root of `count`, in parts of 2^32. A flow that never dropped has 0 `[linux]`,
    /// so that its first drop waits for no interval.
    inverse_root: u32,
    /// The next drop; while nothing is counted, the instant from which on the flow is at rest.
    drop_next: Instant,
    /// When `blue` was changed last.
    changed: Instant,
    /// BLUE's probability, in parts of 2^32.
    blue: u32,
    dropping: bool,
}

/// The decision on a packet; BLUE may drop one that CoDel marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Judgement {
    pub mark: bool,
    pub drop: bool,
}

impl Cobalt {
    /// Decides about a packet whose turn has come.
    pub(super) fn judge(
        &mut self,
        terms: &Terms,
        now: Instant,
        first: Candidate,
        random: &mut Random,
    ) -> Judgement {
        let waited = now.since(first.arrived);
        let patience = terms.full_packet.as_nanos().saturating_mul(FULL_PACKETS);
        let is_late = waited > terms.target && waited.as_nanos() > patience;
        let mut due_at = self.drop_next;
        let is_due = self.count > 0 && now >= due_at;
        if is_late && !self.dropping {
            self.drop_next = self.next(now, terms);
        }
        self.dropping = is_late;
        if is_late {
            self.count = self.count.max(1);
        }
        let mut judgement = Judgement::default();
        if is_due && self.dropping {
            judgement.mark = first.is_markable();
            judgement.drop = !judgement.mark;
            self.count = self.count.saturating_add(1);
            due_at = self.advance(terms);
        } else if is_due {
            due_at = self.forget(terms, now);
        }
        if self.blue > 0 {
            judgement.drop |= random.chance(u64::from(self.blue));
        }
        if self.count == 0 {
            self.drop_next = now.after(terms.interval);
        } else if now > due_at && !judgement.drop {
            self.drop_next = now;
        }
        judgement
    }

    /// Records that a packet of the flow was dropped because the leaf was full.
    pub(super) fn overflowed(&mut self, terms: &Terms, now: Instant) {
        if now.since(self.changed) > terms.target {
            self.blue = self.blue.saturating_add(BLUE_RISE);
            self.changed = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// Records that the flow was found empty.
    pub(super) fn found_empty(&mut self, terms: &Terms, now: Instant) {
        if self.blue > 0 && now.since(self.changed) > terms.target {
            self.blue = self.blue.saturating_sub(BLUE_FALL);
            self.changed = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.advance(terms);
        }
    }

    /// Returns whether nothing of the past changes what it does, so that another flow may have it.
    pub(super) fn is_at_rest(&self, now: Instant) -> bool {
        self.blue == 0 && self.count == 0 && now >= self.drop_next
    }

    /// Lowers the count by one for each drop that was due but not needed; returns the next one.
    fn forget(&mut self, terms: &Terms, now: Instant) -> Instant {
        for _ in 0..FORGOTTEN_MAX {
            if self.count == 0 || now < self.drop_next {
                return self.drop_next;
            }
            self.count -= 1;
            self.advance(terms);
        }
        self.count = 0;
        self.advance(terms)
    }

    /// Brings the root up to date with the count, and moves the next drop; returns it.
    fn advance(&mut self, terms: &Terms) -> Instant {
        self.inverse_root = match ROOTS.get(self.count as usize) {
            Some(&root) => root,
            None => newton_step(self.inverse_root, self.count),
        };
        self.drop_next = self.next(self.drop_next, terms);
        self.drop_next
    }

    /// Returns the instant after `from` by an interval over the root of the count.
    fn next(&self, from: Instant, terms: &Terms) -> Instant {
        let nanos = u128::from(terms.interval.as_nanos()) * u128::from(self.inverse_root);
        from.after(Duration::from_nanos((nanos >> u32::BITS) as u64))
    }
}

/// Moves the estimate *x* towards one over the root of `count`: x·(3 − count·x²)/2, in parts of
/// 2^32 `[linux]`.
const fn newton_step(estimate: u32, count: u32) -> u32 {
    let x = estimate as u64;
    let square = (x * x) >> 32;
    let rest = (3u64 << 32).saturating_sub((count as u64).saturating_mul(square));
    (((rest >> 2) * x) >> 31) as u32
}

/// Returns the roots of small counts, each by four steps from the one before.
const fn roots() -> [u32; 16] {
    let mut roots = [u32::MAX; 16];
    let mut estimate = u32::MAX;
    let mut count = 1;
    while count < roots.len() {
        let mut step = 0;
        while step < 4 {
            estimate = newton_step(estimate, count as u32);
            step += 1;
        }
        roots[count] = estimate;
        count += 1;
    }
    roots
}

/// One over the root of counts below 16; above, one step from the last is exact enough `[linux]`.
const ROOTS: [u32; 16] = roots();
/// Packets that waited for so many full packets are not late, however short the target is.
const FULL_PACKETS: u64 = 4;
/// The probability gains 1/256 when the leaf is full and loses 1/4096 when the flow is empty, once
/// a target.
const BLUE_RISE: u32 = 1 << 24;
const BLUE_FALL: u32 = 1 << 20;
/// Bound: drops that are forgotten at once; a flow that returns after more has a new start.
const FORGOTTEN_MAX: u32 = 1 << 16;

state!(Cobalt { count, inverse_root, drop_next, changed, blue, dropping });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use alloc::vec::Vec;

    const TERMS: Terms = Terms {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        full_packet: Duration::from_millis(1),
    };

    /// Judges a packet a millisecond, each of which waited for `waited` ms; returns the
    /// milliseconds of drops and marks.
    fn acts(cobalt: &mut Cobalt, waited: u64, class: u8, span: core::ops::Range<u64>) -> Vec<u64> {
        let mut random = Random::new(1, 0);
        let mut acts = Vec::new();
        for ms in span {
            let now = Instant::from_nanos(ms * 1_000_000);
            let arrived = now.before(Duration::from_millis(waited));
            let first =
                Candidate { length: Bytes::new(1000), arrived, traffic_class: class, flow: 1 };
            let judgement = cobalt.judge(&TERMS, now, first, &mut random);
            assert!(!judgement.mark || class & 0b11 != 0, "only markable packets are marked");
            if judgement.mark || judgement.drop {
                acts.push(ms);
            }
        }
        acts
    }

    #[test]
    fn drops_come_closer_by_the_root_and_the_first_waits_for_the_second_late_packet_only() {
        // The flow is at rest until 900 + 100; then 1000, and each after 100/root of the count.
        let mut cobalt = Cobalt::default();
        assert!(acts(&mut cobalt, 1, 0, 0..900).is_empty());
        let drops = acts(&mut cobalt, 20, 0, 900..1300);
        assert_eq!(drops, [901, 971, 1029, 1079, 1124, 1164, 1202, 1238, 1271], "{drops:?}");
        // A count that falls at the same pace; when delays grow again, drops go on where they were.
        let mut again = cobalt;
        assert!(acts(&mut again, 1, 0, 1300..1400).is_empty());
        assert!(again.count > 0 && again.count < cobalt.count, "{}", again.count);
        assert!(acts(&mut cobalt, 1, 0, 1300..3000).is_empty());
        assert_eq!(cobalt.count, 0);
    }

    #[test]
    fn packets_of_senders_that_understand_ecn_are_marked_at_the_same_instants() {
        let drops = acts(&mut Cobalt::default(), 20, 0, 900..1300);
        assert_eq!(acts(&mut Cobalt::default(), 20, 0b10, 900..1300), drops);
    }

    #[test]
    fn nothing_is_late_within_the_target_or_four_full_packets() {
        for waited in [4, 5] {
            assert!(acts(&mut Cobalt::default(), waited, 0, 0..2000).is_empty());
        }
        let slow = Terms { full_packet: Duration::from_millis(10), ..TERMS };
        let mut cobalt = Cobalt::default();
        for ms in 0..1000 {
            let now = Instant::from_nanos((1000 + ms) * 1_000_000);
            let arrived = now.before(Duration::from_millis(40));
            let first = Candidate { length: Bytes::new(1000), arrived, traffic_class: 0, flow: 1 };
            let judgement = cobalt.judge(&slow, now, first, &mut Random::new(1, 0));
            assert_eq!(judgement, Judgement::default());
        }
    }

    #[test]
    fn blue_rises_once_a_target_when_full_and_falls_when_empty() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut cobalt = Cobalt::default();
        for ms in 100..200 {
            cobalt.overflowed(&TERMS, at(ms));
        }
        // At 100, and then every 6 ms: later than the target.
        assert_eq!(cobalt.blue, 17 * BLUE_RISE);
        assert!(!cobalt.is_at_rest(at(10_000)));
        // A twentieth of what is sent now is lost, also of what could be marked.
        let mut lost = 0;
        let mut random = Random::new(1, 0);
        for ms in 200..2200 {
            let first =
                Candidate { length: Bytes::new(9), arrived: at(ms), traffic_class: 0b10, flow: 1 };
            lost += u32::from(cobalt.judge(&TERMS, at(ms), first, &mut random).drop);
        }
        assert!((100..170).contains(&lost), "{lost} of 2000");
        let mut ms = 3000;
        while !cobalt.is_at_rest(at(ms)) {
            cobalt.found_empty(&TERMS, at(ms));
            ms += 6;
        }
        assert_eq!(ms, 3000 + 6 * 17 * 16, "a sixteenth of the pace");
    }

    #[test]
    fn roots_are_near_the_truth_and_extremes_do_not_overflow() {
        let mut estimate = ROOTS[15];
        for count in 1..100_000u32 {
            estimate = *ROOTS.get(count as usize).unwrap_or(&newton_step(estimate, count));
            let truth = (1u128 << 64) / u128::from(count);
            let square = u128::from(estimate).pow(2);
            assert!(square.abs_diff(truth) < truth / 250, "{count}: {estimate}");
        }
        assert_eq!((ROOTS[0], ROOTS[1]), (u32::MAX, u32::MAX));
        let mut cobalt = Cobalt { count: u32::MAX, inverse_root: 1, ..Cobalt::default() };
        let first =
            Candidate { length: Bytes::ZERO, arrived: Instant::ZERO, traffic_class: 0, flow: 1 };
        cobalt.judge(&TERMS, Instant::MAX, first, &mut Random::new(0, 0));
        cobalt.found_empty(&TERMS, Instant::MAX);
    }
}
