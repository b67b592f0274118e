//! The counts of an instant, and what happened between two of them.

use super::tree::{Tree, Way};
use crate::json::Varies;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_core::account::Histogram;
use weir_core::units::Duration;
use weir_link::status::{AutorateStatus, ClassStatus, Found, LaneStatus, Loan, Status};

/// The counts of all directions at an instant.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The instant, in milliseconds since 1970.
    pub t: f64,
    /// Since the ports were opened: what lies between two instants is measured by it.
    uptime_ns: u64,
    pub tree: Arc<Tree>,
    ways: Vec<WayTally>,
    /// Since when the link's ring has packets, in milliseconds since 1970.
    pub kept: Option<f64>,
    /// Whether delays are counted in it.
    pub has_bins: bool,
}

/// The counts of a direction: those of each class, by place; of inner classes the sums of their
/// leaves.
#[derive(Clone, Debug, Default)]
struct WayTally {
    classes: Vec<Option<Counts>>,
    /// Of each leaf that borrowed: its place, that of the lender (`None` for the link), bytes.
    loans: Vec<(usize, Option<usize>, u64)>,
    found: Found,
    varies: Option<Varies>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    offered_bytes: u64,
    sent_bytes: u64,
    backlog_bytes: u64,
    /// Packets dropped, by reason.
    dropped: Vec<(Arc<str>, u64)>,
    /// Bytes on the account of others above this class.
    borrowed: u64,
    /// Packets, by the longest delay of a bin in ns.
    bins: Vec<(u64, u64)>,
}

/// The differences of counts between two instants, for each direction.
#[derive(Debug, Default)]
pub struct Between {
    /// The later instant, in milliseconds since 1970.
    pub t: f64,
    pub ways: Vec<WayBetween>,
}

/// The differences of a direction's counts.
#[derive(Clone, Debug, Default)]
pub struct WayBetween {
    /// By place; `None` for a class that was not told of.
    pub classes: Vec<Option<ClassBetween>>,
    /// Borrower, lender (`None` for the link) and bits a second.
    pub loans: Vec<(usize, Option<usize>, f64)>,
    /// How often a second the scheduler found packets of no class, of one, and of several.
    pub found: (f64, f64, f64),
    /// How its rate is at the later instant, if it varies.
    pub varies: Option<Varies>,
}

/// The differences of a class's counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassBetween {
    pub sent_bps: f64,
    pub offered_bps: f64,
    pub backlog_bytes: f64,
    pub borrowed_bps: f64,
    /// Packets a second, by reason; those that were none are left out.
    pub dropped: Vec<(Arc<str>, f64)>,
    /// Packets by the longest delay of a bin in ns, ascending; `None` where they were not counted.
    pub delays: Option<Vec<(u64, u64)>>,
}

impl Tally {
    /// The counts of a status, which are those of the instant `t`.
    pub fn of(status: &Status, tree: &Arc<Tree>, t: f64, has_bins: bool) -> Self {
        let ways = tree.ways.iter().zip(&status.lanes);
        Self {
            t,
            uptime_ns: status.uptime_ns,
            kept: status.kept_ns.map(|nanos| t - nanos as f64 / 1e6),
            tree: Arc::clone(tree),
            ways: ways.map(|(way, lane)| WayTally::of(way, lane)).collect(),
            has_bins,
        }
    }

    /// Returns how long before `later` this was, in seconds; `None` if both have nothing to do with
    /// each other: another process or another policy counts.
    pub fn seconds_to(&self, later: &Tally) -> Option<f64> {
        let same = Arc::ptr_eq(&self.tree, &later.tree);
        let nanos = later.uptime_ns.checked_sub(self.uptime_ns).filter(|nanos| *nanos > 0 && same);
        nanos.map(|nanos| nanos as f64 / 1e9)
    }

    /// Returns what happened from this instant to `later`, so many seconds later.
    pub fn to(&self, later: &Tally, seconds: f64) -> Between {
        let ways = self.ways.iter().zip(&later.ways);
        let has_bins = self.has_bins && later.has_bins;
        let way = |(before, now): (&WayTally, &WayTally)| before.to(now, seconds, has_bins);
        Between { t: later.t, ways: ways.map(way).collect() }
    }
}

impl WayTally {
    fn of(way: &Way, lane: &LaneStatus) -> Self {
        let classes = vec![None; way.shown.classes.len()];
        let varies = lane.autorate.as_ref().map(varies);
        let mut tally = Self { classes, loans: Vec::new(), found: lane.found, varies };
        for class in &lane.classes {
            if let Some(place) = way.leaf(&class.name) {
                tally.add(class, place, (way, lane));
            }
        }
        tally
    }

    /// Adds the counts of the leaf at `place`, to those of the classes above it as well.
    fn add(&mut self, class: &ClassStatus, place: usize, (way, lane): (&Way, &LaneStatus)) {
        let counts = Counts::of(class);
        let loan = |loan: &Loan| {
            let lender = loan.lender.and_then(|at| way.inner(lane, at));
            (place, lender, loan.bytes)
        };
        let own: Vec<_> = class.borrowed.iter().map(loan).collect();
        for above in way.above(place) {
            let sum = self.classes[above].get_or_insert_default();
            sum.add(&counts);
            // What is on the account of a class at `above` or below is no loan of `above`.
            let is_above = |lender: Option<usize>| {
                lender.is_none_or(|lender| way.above(above).any(|other| other == lender))
            };
            let crossing = own.iter().filter(|(_, lender, _)| is_above(*lender));
            sum.borrowed += crossing.map(|(_, _, bytes)| bytes).sum::<u64>();
        }
        self.loans.extend(own);
        self.classes[place] = Some(counts);
    }

    fn to(&self, now: &WayTally, seconds: f64, has_bins: bool) -> WayBetween {
        let both = self.classes.iter().zip(&now.classes);
        let class = |(before, now): (&Option<Counts>, &Option<Counts>)| {
            Some(before.as_ref()?.to(now.as_ref()?, seconds, has_bins))
        };
        let known = self.loans.iter().map(|(borrower, lender, bytes)| ((borrower, lender), bytes));
        let known: BTreeMap<_, _> = known.collect();
        let loan = |(borrower, lender, bytes): &(usize, Option<usize>, u64)| {
            let before = known.get(&(borrower, lender)).map_or(0, |bytes| **bytes);
            let lent = bytes.saturating_sub(before);
            (lent > 0).then(|| (*borrower, *lender, lent as f64 * 8.0 / seconds))
        };
        WayBetween {
            classes: both.map(class).collect(),
            loans: now.loans.iter().filter_map(loan).collect(),
            found: {
                let rate = |was: u64, is: u64| is.saturating_sub(was) as f64 / seconds;
                let (was, is) = (&self.found, &now.found);
                (rate(was.none, is.none), rate(was.one, is.one), rate(was.more, is.more))
            },
            varies: now.varies.clone(),
        }
    }
}

impl Counts {
    fn of(class: &ClassStatus) -> Self {
        let dropped = class.dropped.iter().map(|(reason, amount)| (reason, amount.packets));
        let lost = class.lost.iter().map(|(cause, packets)| (cause, *packets));
        let counted = dropped.chain(lost).filter(|(_, packets)| *packets > 0);
        Self {
            offered_bytes: class.offered.bytes,
            sent_bytes: class.sent.bytes,
            backlog_bytes: class.backlog.bytes,
            dropped: counted.map(|(reason, packets)| (reason.as_str().into(), packets)).collect(),
            borrowed: class.borrowed.iter().fold(0, |sum, loan| sum.saturating_add(loan.bytes)),
            bins: class.bins.clone().unwrap_or_default(),
        }
    }

    /// Adds those of a leaf below, without what it borrowed.
    fn add(&mut self, other: &Counts) {
        self.offered_bytes = self.offered_bytes.saturating_add(other.offered_bytes);
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
        self.backlog_bytes = self.backlog_bytes.saturating_add(other.backlog_bytes);
        for (reason, packets) in &other.dropped {
            match self.dropped.iter_mut().find(|(known, _)| known == reason) {
                Some((_, sum)) => *sum = sum.saturating_add(*packets),
                None => self.dropped.push((Arc::clone(reason), *packets)),
            }
        }
        self.bins = merged(&self.bins, &other.bins);
    }

    fn to(&self, now: &Counts, seconds: f64, has_bins: bool) -> ClassBetween {
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let lost = |(reason, packets): &(Arc<str>, u64)| {
            let before = self.dropped.iter().find(|(known, _)| known == reason);
            let lost = rate(before.map_or(0, |(_, packets)| *packets), *packets);
            (lost > 0.0).then(|| (Arc::clone(reason), lost))
        };
        ClassBetween {
            sent_bps: 8.0 * rate(self.sent_bytes, now.sent_bytes),
            offered_bps: 8.0 * rate(self.offered_bytes, now.offered_bytes),
            backlog_bytes: now.backlog_bytes as f64,
            borrowed_bps: 8.0 * rate(self.borrowed, now.borrowed),
            dropped: now.dropped.iter().filter_map(lost).collect(),
            delays: has_bins.then(|| since(&self.bins, &now.bins)),
        }
    }
}

impl ClassBetween {
    /// Returns the packets dropped for any reason, a second.
    pub fn dropped_pps(&self) -> f64 {
        // The sum of no floats would be -0.
        self.dropped.iter().fold(0.0, |sum, (_, rate)| sum + rate)
    }

    /// Returns the delay that so many of 1000 packets did not exceed, in µs; `None` if none left or
    /// that was not counted.
    pub fn quantile_us(&self, per_mille: u64) -> Option<f64> {
        quantile(self.delays.as_ref()?, per_mille)
    }
}

fn varies(status: &AutorateStatus) -> Varies {
    Varies {
        rate_bps: status.rate_bps as f64,
        delay_us: status.delay_us,
        target_us: status.target_us,
        text: status.text(),
    }
}

/// Returns the packets of both, by bin.
fn merged(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all = Vec::with_capacity(one.len().max(other.len()));
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    loop {
        let (from_left, from_right) = match (left.peek(), right.peek()) {
            (Some((one, _)), Some((other, _))) => (one <= other, other <= one),
            (one, other) => (one.is_some(), other.is_some()),
        };
        let first = if from_left { left.next() } else { None };
        let second = if from_right { right.next() } else { None };
        let Some((end, _)) = first.or(second) else { return all };
        let counts = [first, second].into_iter().flatten().map(|(_, count)| *count);
        all.push((*end, counts.fold(0, u64::saturating_add)));
    }
}

/// Returns the packets that came since `before`; all of them if the measurement began anew.
fn since(before: &[(u64, u64)], now: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let sum =
        |bins: &[(u64, u64)]| bins.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let before = if sum(before) > sum(now) { &[] } else { before };
    let mut rest = before.iter().peekable();
    let left = now.iter().filter_map(|(end, count)| {
        while rest.next_if(|(other, _)| other < end).is_some() {}
        let known = rest.next_if(|(other, _)| other == end).map_or(0, |(_, known)| *known);
        Some((*end, count.checked_sub(known).filter(|count| *count > 0)?))
    });
    left.collect()
}

/// Returns the delay that so many of 1000 packets did not exceed, in µs: as far into its bin as its
/// rank.
fn quantile(bins: &[(u64, u64)], per_mille: u64) -> Option<f64> {
    let all: u64 = bins.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
    let rank = (u128::from(all) * u128::from(per_mille)).div_ceil(1000).max(1) as u64;
    let mut seen = 0;
    for (end, count) in bins {
        if seen + count >= rank {
            let begin = Histogram::shortest(Duration::from_nanos(*end)).as_nanos().min(*end);
            let inside = (end - begin) as f64 * (rank - seen) as f64 / *count as f64;
            return Some((begin as f64 + inside) / 1e3);
        }
        seen += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_added_and_subtracted_by_their_ends() {
        let (one, other) = ([(10, 1), (30, 5)], [(20, 2), (30, 1), (40, 7)]);
        let both = merged(&one, &other);
        assert_eq!(both, [(10, 1), (20, 2), (30, 6), (40, 7)]);
        assert_eq!(since(&one, &both), [(20, 2), (30, 1), (40, 7)]);
        assert_eq!(since(&both, &both), []);
        assert_eq!(since(&both, &one), one, "the measurement began anew");
    }

    #[test]
    fn a_quantile_is_that_of_the_histogram_itself() {
        let (mut histogram, mut micros) = (Histogram::new(), 3);
        for _ in 0..10_000 {
            micros = micros * 48_271 % 2_147_483_647;
            histogram.record(Duration::from_micros(micros % 90_000));
        }
        let bins: Vec<_> = histogram.counts().map(|(end, count)| (end.as_nanos(), count)).collect();
        for per_mille in [1, 500, 990, 1000] {
            let wanted = histogram.quantile(per_mille as u32).value.as_nanos() as f64 / 1e3;
            let found = quantile(&bins, per_mille).expect("packets left");
            assert!((found - wanted).abs() <= wanted * 0.04 + 1.0, "{per_mille}: {found} {wanted}");
        }
        assert_eq!(quantile(&[], 500), None);
    }
}
