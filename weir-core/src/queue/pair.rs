//! Two queues in one leaf, and whose turn it is: the low-latency queue goes first, and the classic
//! one has a part of the line nonetheless [rfc9332 §2.5; linux sch_dualpi2] [algorithms §9.15].
//!
//! A credit decides, in bytes times per cent: while both queues hold packets, a packet of the
//! low-latency queue adds its length times the classic queue's part, and one of the classic queue
//! takes its length times the other part. The classic queue sends while the credit is above zero.
//! Invariant: a queue that holds a packet has an instant since which its oldest one waits.

use crate::state::state;
use crate::units::Instant;

/// The turns of two queues.
pub(super) struct Pair {
    plan: PairPlan,
    credit: i64,
    /// Since when the first packet of each queue waits that is not the leaf's first.
    heads: [Option<Instant>; 2],
    /// Since when the leaf's first packet waits.
    first: Instant,
}

/// How packets are divided, and turns.
#[derive(Clone, Copy)]
pub(super) struct PairPlan {
    /// The bits of the ECN field of which one sends a packet to the low-latency queue.
    pub mask: u8,
    /// Whether packets of non-queue-building flows go there, too.
    pub nqb: bool,
    /// The part of the line that the classic queue has at least, in per cent.
    pub protection: u32,
    /// The largest packet.
    pub mtu: u32,
}

impl Pair {
    pub(super) fn new(plan: PairPlan) -> Self {
        Self { plan, credit: plan.credit(), heads: [None; 2], first: Instant::ZERO }
    }

    /// Returns the number of the queue for a traffic class.
    pub(super) const fn number(&self, traffic_class: u8) -> u32 {
        self.plan.number(traffic_class)
    }

    /// Returns the number of the other queue.
    pub(super) const fn other(number: u32) -> u32 {
        LOW + CLASSIC - number
    }

    /// Records since when the first packet of a queue waits, beside the leaf's first.
    pub(super) fn waits_since(&mut self, number: u32, since: Option<Instant>) {
        if let Some(head) = self.heads.get_mut((number as usize).wrapping_sub(1)) {
            *head = since;
        }
    }

    /// Records that a packet that waits since `arrived` is the leaf's first.
    pub(super) const fn took(&mut self, arrived: Instant) {
        self.first = arrived;
    }

    /// Returns since when the oldest packet of each queue waits; `first` is the queue of the
    /// leaf's first packet, if that is chosen.
    pub(super) fn waits(&self, first: Option<u32>) -> [Option<Instant>; 2] {
        let mut waits = self.heads;
        let place = first.and_then(|number| (number as usize).checked_sub(1));
        if let Some(wait) = place.and_then(|place| waits.get_mut(place)) {
            *wait = Some(self.first);
        }
        waits
    }

    /// Returns the queue whose turn it is, if a packet waits.
    pub(super) fn choose(&self, waits: impl Fn(u32) -> bool) -> Option<u32> {
        match (waits(LOW), waits(CLASSIC)) {
            (true, true) if self.credit > 0 => Some(CLASSIC),
            (true, _) => Some(LOW),
            (false, is_classic) => is_classic.then_some(CLASSIC),
        }
    }

    /// Charges a packet that was sent; the credit changes while the other queue waits.
    pub(super) const fn sent(&mut self, number: u32, charged: u32, other_waits: bool) {
        if !other_waits {
            return;
        }
        let part = self.plan.protection as i64;
        self.credit += match number {
            LOW => part * charged as i64,
            CLASSIC => -(WHOLE - part) * charged as i64,
            _ => 0,
        };
    }

    /// Forgets the turns and the packets: no packet waits, or none that counts.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.plan);
    }

    /// Whether a loaded state is possible.
    pub(super) const fn is_sound(&self) -> bool {
        self.credit.unsigned_abs() <= CREDIT_MAX
    }
}

impl PairPlan {
    /// Returns the number of the queue for a traffic class.
    pub(super) const fn number(&self, traffic_class: u8) -> u32 {
        let is_low = traffic_class & self.mask != 0;
        if is_low || self.nqb && traffic_class >> 2 == NQB { LOW } else { CLASSIC }
    }

    /// The credit at first: the queue with the larger part goes first.
    const fn credit(&self) -> i64 {
        self.mtu as i64 * (2 * self.protection as i64 - WHOLE)
    }
}

/// The low-latency queue.
pub(super) const LOW: u32 = 1;
/// The classic queue.
pub(super) const CLASSIC: u32 = 2;
/// All of the line, in per cent.
const WHOLE: i64 = 100;
/// The DSCP of non-queue-building flows.
const NQB: u8 = 45;
/// No credit is further from zero than a packet of 32 bits and a little more.
const CREDIT_MAX: u64 = 1 << 42;

state!(Pair { credit, heads, first; kept: plan });

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    /// Sends packets of these lengths while both queues wait; returns the order.
    fn order(protection: u32, low: u32, classic: u32) -> String {
        let plan = PairPlan { mask: 1, nqb: false, protection, mtu: 1500 };
        let mut pair = Pair::new(plan);
        let send = |_| {
            let number = pair.choose(|_| true).expect("both wait");
            let (length, letter) = if number == LOW { (low, 'l') } else { (classic, 'c') };
            pair.sent(number, length, true);
            letter
        };
        (0..100).map(send).collect()
    }

    #[test]
    fn the_classic_queue_has_its_part_and_no_more() {
        let classic = |order: String| order.chars().filter(|&letter| letter == 'c').count();
        assert_eq!(classic(order(0, 1500, 1500)), 0);
        assert!((9..=10).contains(&classic(order(10, 1500, 1500))));
        assert!((49..=51).contains(&classic(order(50, 1500, 1500))));
        // In bytes: three small ones for each large one.
        assert!((24..=27).contains(&classic(order(50, 500, 1500))));
        assert!(order(10, 1500, 1500).starts_with("lllll"));
        assert!(order(90, 1500, 1500).starts_with("ccccc"));
    }

    #[test]
    fn a_traffic_class_leads_to_its_queue() {
        // mask, whether NQB counts, traffic class, queue
        let rows = [
            (1, false, 0b01, LOW),
            (1, false, 0b11, LOW),
            (1, false, 0b10, CLASSIC),
            (3, false, 0b10, LOW),
            (1, false, 0, CLASSIC),
            (1, false, 45 << 2, CLASSIC),
            (1, true, 45 << 2, LOW),
            (1, true, 46 << 2, CLASSIC),
        ];
        for (mask, nqb, traffic_class, queue) in rows {
            let pair = Pair::new(PairPlan { mask, nqb, protection: 10, mtu: 1500 });
            assert_eq!(pair.number(traffic_class), queue, "{mask} {traffic_class:#b}");
        }
    }
}
