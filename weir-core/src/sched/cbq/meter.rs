//! The meter of a class: a bucket in virtual-scheduling form [algorithms §3.15].
//!
//! Invariant: what is stored never goes back, so `conforms_at` does not either; whoever remembers
//! an old `conforms_at` remembers one that is too early, never too late.

use crate::units::{Bytes, FineInstant, FineSpan, Instant, Pace, Rate, StoredInstant};

/// What a class used of its rate.
#[derive(Clone, Copy)]
pub(super) struct Meter {
    /// When everything sent would have been sent at the rate.
    theoretical: StoredInstant,
}

/// The rate of a meter and how far it may be exceeded.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub short: ShortTerms,
    /// What the burst takes at the rate, and the debt.
    burst_time: FineSpan,
    debt_time: FineSpan,
    burst: Bytes,
    debt_max: Bytes,
}

/// The same in units, for meters that are reckoned in 64 bits.
#[derive(Clone, Copy)]
pub(super) struct ShortTerms {
    pace: Pace,
    burst: u64,
    debt: u64,
    /// How many units a class may be ahead for that: none if it may not be.
    reach: u64,
}

impl ShortTerms {
    /// A place for some.
    pub const NONE: ShortTerms =
        ShortTerms { pace: Pace::of(Rate::MIN), burst: 0, debt: 0, reach: 0 };
}

impl Terms {
    /// Borrowing takes a class at most `debt_max` beyond the burst. A burst that would take longer
    /// than the longest span, a thousand years, counts as one of that length.
    pub fn new(rate: Rate, burst: Bytes, debt_max: Bytes) -> Self {
        let pace = Pace::of(rate);
        let (burst_time, debt_time) = (pace.span(burst), pace.span(debt_max));
        let spans = burst_time.short().zip(debt_time.short());
        let reach = if spans.is_some() { SHORT_REACH } else { 0 };
        let (short_burst, short_debt) = spans.unwrap_or_default();
        let short = ShortTerms { pace, burst: short_burst, debt: short_debt, reach };
        Self { short, burst_time, debt_time, burst, debt_max }
    }

    /// What may be sent at once after a pause.
    pub const fn burst(&self) -> Bytes {
        self.burst
    }

    /// How much of what is borrowed counts beyond the burst.
    pub const fn debt_max(&self) -> Bytes {
        self.debt_max
    }

    /// Of so many bytes at most it makes no difference to the debt of the class if they are charged
    /// at once or packet after packet.
    #[inline]
    pub fn may_owe(&self) -> u32 {
        (self.debt_max.get() / 2).min(u64::from(u32::MAX)) as u32
    }

    /// Up to where what was sent may reach for the class to conform at `now`.
    #[inline(always)]
    fn limit(&self, now: Instant) -> FineInstant {
        FineInstant::from_instant(now).plus(self.burst_time)
    }
}

impl Meter {
    /// A meter with all its burst to spend.
    pub const FULL: Meter = Meter { theoretical: StoredInstant::ZERO };

    /// From when on the class is not overlimit, if it sends nothing more.
    #[inline]
    pub const fn conforms_at(&self, terms: &Terms) -> Instant {
        self.theoretical.instant().minus(terms.burst_time).round_up()
    }

    /// Whether the class is not overlimit.
    #[inline]
    pub fn conforms(&self, terms: &Terms, now: Instant) -> bool {
        // At the end of time there is no later, so everybody conforms.
        self.theoretical.instant() <= terms.limit(now) || now == Instant::MAX
    }

    /// Whether the class is not overlimit, as far as 64 bits tell: if it is not so by `terms`, it
    /// may still be.
    #[inline(always)]
    pub fn conforms_short(&self, terms: &ShortTerms, now: Instant) -> bool {
        self.theoretical.instant().lead(now).is_some_and(|lead| lead <= terms.burst)
    }

    /// Whether the class, which conforms, still does when it has sent so many bytes more.
    #[inline]
    pub fn covers(&self, terms: &Terms, now: Instant, bytes: u32) -> bool {
        let start = self.theoretical.instant().max(FineInstant::from_instant(now));
        start.plus(terms.short.pace.packet(bytes)) <= terms.limit(now)
    }

    /// How many of `bytes` the class, which conforms, may send and conforms still; `None` where 64
    /// bits do not hold the times.
    #[inline(always)]
    pub fn room_short(&self, terms: &ShortTerms, now: Instant, bytes: u32) -> Option<u32> {
        let lead = self.theoretical.instant().lead(now).filter(|&lead| lead < terms.reach)?;
        let (cost, _) = terms.pace.short_packet(bytes)?;
        let room = terms.burst.saturating_sub(lead);
        Some(if cost <= room { bytes } else { terms.pace.bytes_in(room) })
    }

    /// The class, or one below it, sent a packet; answers whether it conforms now, but for
    /// the end of time.
    ///
    /// What a conforming class sends counts in full, however long the packet: that keeps the rate.
    /// What it borrows counts only up to the debt, or a class that borrowed for ten minutes would
    /// stay without its rate for ten minutes.
    #[inline]
    pub fn charge(&mut self, terms: &Terms, now: Instant, sent: u32) -> bool {
        match self.charge_short(&terms.short, now, sent) {
            Some(conforms) => conforms,
            None => self.charge_far(terms, now, sent),
        }
    }

    /// The same where 64 bits hold the times; else nothing is charged yet.
    #[inline(always)]
    pub fn charge_short(&mut self, terms: &ShortTerms, now: Instant, sent: u32) -> Option<bool> {
        let lead = self.theoretical.instant().lead(now).filter(|&lead| lead < terms.reach)?;
        let (cost, twice) = terms.pace.short_packet(sent)?;
        let mut end = lead + cost;
        if lead > terms.burst {
            let debt = terms.debt.max(twice);
            end = end.min(lead.max(terms.burst + debt));
        }
        self.theoretical = StoredInstant::soon(now, end);
        Some(end <= terms.burst)
    }

    /// The same for slow classes and long absences, where 64 bits do not hold the times.
    #[inline(never)]
    pub fn charge_far(&mut self, terms: &Terms, now: Instant, sent: u32) -> bool {
        let cost = terms.short.pace.packet(sent);
        let (theoretical, limit) = (self.theoretical.instant(), terms.limit(now));
        let start = theoretical.max(FineInstant::from_instant(now));
        let mut end = start.plus(cost);
        if theoretical > limit {
            let debt = terms.debt_time.max(cost.doubled());
            end = end.min(start.max(limit.plus(debt)));
        }
        self.theoretical = StoredInstant::of(end);
        end <= limit
    }

    /// Takes over what a class used under other terms: what it used of its burst stays used, and a
    /// debt of 5 ms stays one, as far as these terms let it owe so much.
    pub fn take_over(&mut self, terms: &Terms, now: Instant, old: &Meter, before: &Terms) {
        let bound = terms.limit(now).plus(terms.debt_time);
        let end = old.theoretical.instant().plus(terms.burst_time).minus(before.burst_time);
        self.theoretical = StoredInstant::of(end.min(bound));
    }
}

/// Some four seconds: with a burst, a debt and a packet of at most as much each, 64 bits hold it.
const SHORT_REACH: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_room_is_what_the_meter_covers_and_not_a_byte_more() {
        let mut random = Random::new(11, 0);
        for bits in [9u64, 1_000, 99_999_989, 400_000_000_000] {
            let rate = Rate::new(bits).expect("rows hold no zero");
            let terms = Terms::new(rate, Bytes::new(6_000), Bytes::new(20_000));
            let (mut meter, mut now) = (Meter::FULL, Instant::ZERO);
            for _ in 0..2_000 {
                now = now.after(rate.transmit_time(Bytes::new(random.below(1_500).into())));
                let asked = random.below(3_000);
                if let Some(room) = meter.room_short(&terms.short, now, asked) {
                    let most = (0..=asked).rev().find(|&part| meter.covers(&terms, now, part));
                    assert_eq!(room, most.unwrap_or(0), "{bits} bit/s");
                }
                meter.charge(&terms, now, random.below(1_500));
                let then = now.after(rate.transmit_time(Bytes::new(random.below(9_000).into())));
                let lead = meter.theoretical.instant().lead(then);
                let is_near = lead.is_some_and(|lead| lead < terms.short.reach);
                let conforms = meter.conforms(&terms, then);
                let short = meter.conforms_short(&terms.short, then);
                assert!(short == conforms || !short && !is_near, "{bits} bit/s");
            }
        }
    }
}
