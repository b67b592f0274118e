//! The counts of the link: per leaf, in packets and charged bytes.
//!
//! Invariant, at every instant: offered = sent + dropped (by reason) + backlog. The account holds
//! no delays; a caller that wants them records `at - arrived` of each departure in a [`Histogram`].

use crate::event::DropReason;
use crate::ids::LeafId;
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::{Bytes, Duration};
use alloc::vec::Vec;

/// Bound: leaves with a histogram of delays (9 KB each); a link with more leaves has none.
pub const HISTOGRAMS_MAX: usize = 4096;

/// A number of packets and their charged bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Whole packets, of any length.
    pub packets: u64,
    /// Bytes as the scheduler charges them, framing included.
    pub bytes: u64,
}

/// The account of one leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeafAccount {
    /// Packets that were offered.
    pub offered: Count,
    /// Packets that were handed to the line.
    pub sent: Count,
    /// Packets that were dropped, by reason in the order of [`DropReason::ALL`].
    pub dropped: [Count; DropReason::ALL.len()],
    /// Packets that wait now.
    pub backlog: Count,
}

/// The accounts of all leaves.
#[derive(Clone, Debug)]
pub struct Account {
    leaves: Vec<LeafAccount>,
    retired: LeafAccount,
}

/// Counts of durations in buckets 3 % wide, from 1 ns to 18 minutes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    min: Duration,
    max: Duration,
}

/// The durations of a short time, in little memory: only buckets that counted some.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sparse {
    buckets: Vec<(u16, u32)>,
    count: u64,
    sum: u128,
    min: Duration,
    max: Duration,
}

/// A quantile, as well as the buckets of a histogram tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quantile {
    /// Interpolated between the ends of the bucket, as if its durations were spread evenly.
    pub value: Duration,
    /// The true quantile is at most this far from `value`: less than 1/32 of it. Zero where all
    /// durations of the bucket are known to be equal.
    pub resolution: Duration,
}

impl Count {
    /// Counts one packet.
    pub const fn add(&mut self, bytes: Bytes) {
        self.packets += 1;
        self.bytes += bytes.get();
    }

    /// Whether a link can have counted that much.
    const fn is_sound(&self) -> bool {
        self.packets <= Self::MOST && self.bytes <= Self::MOST
    }

    /// More than any link counts, and so little that many such counts can be added.
    const MOST: u64 = 1 << 56;

    /// Returns the sum of both counts.
    pub const fn plus(self, other: Count) -> Count {
        Count { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl LeafAccount {
    /// Builds an account from what was sent, dropped and waits; `offered` is their sum.
    pub(crate) fn new(
        sent: Count,
        dropped: [Count; DropReason::ALL.len()],
        backlog: Count,
    ) -> Self {
        let mut account = Self { offered: Count::default(), sent, dropped, backlog };
        account.offered = sent.plus(account.dropped_total()).plus(backlog);
        account
    }

    /// Returns the number of packets and bytes dropped for any reason.
    pub fn dropped_total(&self) -> Count {
        self.dropped.iter().fold(Count::default(), |sum, &count| sum.plus(count))
    }

    /// Adds what `other` sent and dropped, without its backlog.
    pub(crate) fn plus_past(&self, other: &LeafAccount) -> Self {
        let dropped =
            core::array::from_fn(|reason| self.dropped[reason].plus(other.dropped[reason]));
        Self::new(self.sent.plus(other.sent), dropped, self.backlog)
    }

    /// Whether everything offered is sent, dropped or waiting.
    pub fn is_conserved(&self) -> bool {
        self.offered == self.sent.plus(self.dropped_total()).plus(self.backlog)
    }
}

impl Account {
    pub(crate) fn new(leaves: Vec<LeafAccount>) -> Self {
        Self { leaves, retired: LeafAccount::default() }
    }

    pub(crate) fn with_retired(self, retired: LeafAccount) -> Self {
        Self { retired, ..self }
    }

    /// Returns what the leaves that a change removed had sent and dropped. Packets that waited in
    /// them count in the leaf that took them over.
    pub const fn retired(&self) -> &LeafAccount {
        &self.retired
    }

    /// The account of one leaf.
    pub fn leaf(&self, leaf: LeafId) -> &LeafAccount {
        &self.leaves[leaf.index()]
    }

    /// Returns the accounts in the order of leaves.
    pub fn leaves(&self) -> &[LeafAccount] {
        &self.leaves
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self {
            buckets: Vec::new(),
            count: 0,
            sum: 0,
            min: Duration::from_nanos(u64::MAX),
            max: Duration::ZERO,
        }
    }

    /// An empty histogram that has its memory already.
    pub fn with_room() -> Self {
        Self { buckets: alloc::vec![0; BUCKETS], ..Self::new() }
    }

    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        let place = place_of(duration.as_nanos());
        match self.buckets.get_mut(place) {
            Some(bucket) => *bucket += 1,
            None => self.record_beyond(place),
        }
        self.count += 1;
        self.sum += u128::from(duration.as_nanos());
        self.min = self.min.min(duration);
        self.max = self.max.max(duration);
    }

    /// Counts the first duration of all, or one that is too long for a bucket of its own.
    #[cold]
    fn record_beyond(&mut self, place: usize) {
        // Allocates the 9 KB on first use only: of a hundred thousand classes few may be busy.
        self.buckets.resize(BUCKETS, 0);
        self.buckets[place.min(BUCKETS - 1)] += 1;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if self.buckets.is_empty() {
            self.buckets = alloc::vec![0; other.buckets.len()];
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Becomes equal to `other`. It costs time for the range of durations that were counted, and
    /// takes memory only the first time.
    pub fn copy_from(&mut self, other: &Histogram) {
        let range = other.range();
        if !range.is_empty() && self.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        let own = self.range();
        let is_inside = own.start >= range.start && own.end <= range.end;
        if !own.is_empty() && !is_inside {
            // The other one was cleared since.
            self.buckets[own].fill(0);
        }
        if !range.is_empty() {
            self.buckets[range.clone()].copy_from_slice(&other.buckets[range]);
        }
        let Histogram { buckets: _, count, sum, min, max } = *other;
        *self = Self { buckets: core::mem::take(&mut self.buckets), count, sum, min, max };
    }

    /// Returns the buckets that may have counted something.
    fn range(&self) -> core::ops::Range<usize> {
        if self.count == 0 {
            return 0..0;
        }
        let place = |duration: Duration| place_of(duration.as_nanos()).min(BUCKETS - 1);
        place(self.min)..place(self.max) + 1
    }

    /// Returns the durations that were counted since `earlier`, as [`Histogram::since`] does.
    pub fn sparse_since(&self, earlier: &Histogram) -> Sparse {
        let is_new = earlier.count == 0 || earlier.count > self.count;
        let before = |index: usize| {
            let bucket = earlier.buckets.get(index).filter(|_| !is_new);
            bucket.copied().unwrap_or(0)
        };
        let (mut buckets, range) = (Vec::new(), self.range());
        for (index, now) in range.clone().zip(&self.buckets[range]) {
            let count = now.saturating_sub(before(index));
            if count > 0 {
                buckets.push((index as u16, u32::try_from(count).unwrap_or(u32::MAX)));
            }
        }
        let ends = buckets.first().zip(buckets.last());
        let (min, max) = ends.map_or((Duration::ZERO, Duration::ZERO), |(first, last)| {
            let start = usize::from(first.0).checked_sub(1).map_or(0, |one| bucket_end(one) + 1);
            let end = Duration::from_nanos(bucket_end(last.0.into()));
            (Duration::from_nanos(start).max(self.min), end.min(self.max))
        });
        Sparse {
            count: buckets.iter().map(|(_, count)| u64::from(*count)).sum(),
            sum: if is_new { self.sum } else { self.sum.saturating_sub(earlier.sum) },
            buckets,
            min,
            max,
        }
    }

    /// Adds durations.
    pub fn merge_sparse(&mut self, other: &Sparse) {
        if other.count == 0 {
            return;
        }
        if self.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        for (index, count) in &other.buckets {
            self.buckets[usize::from(*index)] += u64::from(*count);
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets all durations, and keeps the memory of the buckets.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        *self = Self { buckets: core::mem::take(&mut self.buckets), ..Self::new() };
    }

    /// Returns the durations that were counted since `earlier`, a copy of this histogram; all of
    /// them if it was cleared meanwhile. Their shortest and longest are known as well as the
    /// buckets tell.
    pub fn since(&self, earlier: &Histogram) -> Self {
        if earlier.count == 0 || earlier.count > self.count {
            return self.clone();
        }
        let before = earlier.buckets.iter().chain(core::iter::repeat(&0));
        let buckets: Vec<u64> =
            self.buckets.iter().zip(before).map(|(now, then)| now.saturating_sub(*then)).collect();
        let first = buckets.iter().position(|count| *count > 0).unwrap_or(0);
        let last = buckets.iter().rposition(|count| *count > 0);
        let start = if first == 0 { 0 } else { bucket_end(first - 1) + 1 };
        Self {
            count: self.count - earlier.count,
            sum: self.sum.saturating_sub(earlier.sum),
            min: Duration::from_nanos(start).max(self.min),
            max: last
                .map_or(Duration::ZERO, |last| Duration::from_nanos(bucket_end(last)))
                .min(self.max),
            buckets,
        }
    }

    /// Returns the buckets that counted something, the shortest durations first: the longest
    /// duration of each, and its count. [`Histogram::shortest`] tells the other end of a bucket.
    pub fn counts(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let range = self.range();
        let counts = range.clone().zip(self.buckets.get(range).unwrap_or_default());
        let counts = counts.filter(|(_, count)| **count > 0);
        counts.map(|(index, count)| (Duration::from_nanos(bucket_end(index)), *count))
    }

    /// Returns the shortest duration that is counted together with `duration`.
    pub fn shortest(duration: Duration) -> Duration {
        let before = place_of(duration.as_nanos()).min(BUCKETS - 1).checked_sub(1);
        Duration::from_nanos(before.map_or(0, |before| bucket_end(before) + 1))
    }

    /// Returns the number of durations counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all durations, in ns.
    pub const fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// Returns the longest duration, exactly.
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// Returns the mean, rounded down to a nanosecond; zero if nothing was counted.
    pub fn mean(&self) -> Duration {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(mean as u64)
    }

    /// Returns the duration that `per_mille` of 1000 durations do not exceed; zero if nothing was
    /// counted.
    pub fn quantile(&self, per_mille: u32) -> Quantile {
        let rank = (u128::from(self.count) * u128::from(per_mille.min(1000))).div_ceil(1000);
        // At most the count, which fits.
        let (rank, mut seen) = ((rank as u64).max(1), 0);
        for (octave, buckets) in self.buckets.chunks(STEPS as usize).enumerate() {
            let inside: u64 = buckets.iter().sum();
            if seen + inside < rank {
                seen += inside;
                continue;
            }
            for (step, &count) in buckets.iter().enumerate() {
                if seen + count >= rank {
                    return self.inside(octave * STEPS as usize + step, rank - seen, count);
                }
                seen += count;
            }
        }
        Quantile::default()
    }

    /// Returns the duration with number `rank`, from 1, of the `count` in bucket `index`.
    fn inside(&self, index: usize, rank: u64, count: u64) -> Quantile {
        let end = if index + 1 < BUCKETS { bucket_end(index) } else { u64::MAX };
        let begin = index.checked_sub(1).map_or(0, |before| bucket_end(before) + 1);
        let (low, high) = (begin.max(self.min.as_nanos()), end.min(self.max.as_nanos()));
        let part = u128::from(high - low) * u128::from(rank) / u128::from(count);
        let value = low + part as u64;
        let resolution = (value - low).max(high - value);
        Quantile {
            value: Duration::from_nanos(value),
            resolution: Duration::from_nanos(resolution),
        }
    }
}

impl Sparse {
    /// Returns the number of durations counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all durations, in ns.
    pub const fn sum_ns(&self) -> u128 {
        self.sum
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Each power of two is divided into 32 buckets; below 32 ns each bucket is one nanosecond wide.
/// Durations that are too long return the index behind the last bucket.
const fn place_of(nanos: u64) -> usize {
    let octave = (nanos | STEPS).ilog2() - STEP_BITS;
    octave as usize * STEPS as usize + (nanos >> octave) as usize
}

/// Returns the longest duration of a bucket in ns.
const fn bucket_end(index: usize) -> u64 {
    let index = index as u64;
    if index < STEPS {
        return index;
    }
    let octave = index / STEPS - 1;
    ((STEPS + index % STEPS + 1) << octave) - 1
}

const STEP_BITS: u32 = 5;
const STEPS: u64 = 1 << STEP_BITS;
/// Up to 2^40 ns; longer durations count in the last bucket, and their exact maximum is stored
/// beside it.
const BUCKETS: usize = (STEPS as usize) * (40 - STEP_BITS as usize + 1);

state!(Count { packets, bytes; check: Count::is_sound });
state!(LeafAccount { offered, sent, dropped, backlog; check: LeafAccount::is_conserved });

/// The buckets only if a duration was counted.
impl State for Histogram {
    fn save(&self, to: &mut Writer) {
        let Self { buckets, count, sum, min, max } = self;
        count.save(to);
        if *count > 0 {
            sum.save(to);
            min.save(to);
            max.save(to);
            buckets.save(to);
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.clear();
        self.count.load(from)?;
        if self.count == 0 {
            return Ok(());
        }
        self.sum.load(from)?;
        self.min.load(from)?;
        self.max.load(from)?;
        self.buckets.resize(BUCKETS, 0);
        self.buckets.load(from)?;
        let sum = self.buckets.iter().try_fold(0u64, |sum, &row| sum.checked_add(row));
        let is_sound = sum == Some(self.count) && self.count <= Count::MOST && self.min <= self.max;
        if is_sound { Ok(()) } else { Err(StateError::Invalid("histogram")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_their_resolution() {
        let mut histogram = Histogram::new();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        for per_mille in [1, 10, 500, 900, 990, 999] {
            let Quantile { value, resolution } = histogram.quantile(per_mille);
            let exact = u64::from(per_mille) * 1000;
            assert!(value.as_nanos().abs_diff(exact) <= resolution.as_nanos(), "{per_mille}");
            assert!(resolution.as_nanos() <= exact / 31, "{per_mille}: {resolution}");
            // Evenly spread durations are found between the ends of a bucket.
            assert!(value.as_nanos().abs_diff(exact) <= exact / 200 + 1000, "{per_mille}: {value}");
        }
        assert_eq!(histogram.quantile(1000).value, histogram.max());
        assert_eq!(histogram.mean(), Duration::from_nanos(500_500));
        let mut merged = Histogram::new();
        assert_eq!(merged.quantile(500), Quantile::default());
        merged.merge(&histogram);
        assert_eq!(merged, histogram);
        merged.merge(&Histogram::new());
        assert_eq!(merged, histogram);
        merged.clear();
        assert_eq!((merged.count(), merged.quantile(500)), (0, Quantile::default()));
        merged.merge(&histogram);
        assert_eq!(merged, histogram, "nothing of before is left");
    }

    #[test]
    fn durations_since_an_earlier_copy_are_those_counted_meanwhile() {
        let mut histogram = Histogram::new();
        (0..100).for_each(|_| histogram.record(Duration::from_millis(500)));
        let earlier = histogram.clone();
        assert_eq!(histogram.since(&earlier).count(), 0);
        (1..=1000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        let window = histogram.since(&earlier);
        let p99 = window.quantile(990);
        assert_eq!(window.count(), 1000);
        assert!(p99.value.as_nanos().abs_diff(990_000) <= p99.resolution.as_nanos(), "{p99:?}");
        assert!(window.max().as_nanos().abs_diff(1_000_000) < 40_000, "{}", window.max());
        histogram.clear();
        histogram.record(Duration::from_millis(1));
        assert_eq!(histogram.since(&earlier), histogram, "it was cleared");
    }

    #[test]
    fn a_copy_is_equal_also_after_the_original_was_cleared() {
        let (mut original, mut copy) = (Histogram::new(), Histogram::new());
        let rows: [(&[u64], bool); 6] = [
            (&[], false),
            (&[5, 1_000_000], false),
            (&[1 << 45], false),
            (&[7000], true),
            (&[3], true),
            (&[], true),
        ];
        for (nanos, clears) in rows {
            if clears {
                original.clear();
            }
            nanos.iter().for_each(|nanos| original.record(Duration::from_nanos(*nanos)));
            copy.copy_from(&original);
            let rest =
                |histogram: &Histogram| Histogram { buckets: Vec::new(), ..histogram.clone() };
            assert_eq!(rest(&copy), rest(&original));
            let counts = |histogram: &Histogram| -> Vec<_> {
                let counts = histogram.buckets.iter().copied().enumerate();
                counts.filter(|(_, count)| *count > 0).collect()
            };
            assert_eq!(counts(&copy), counts(&original), "{nanos:?}");
        }
    }

    #[test]
    fn sparse_durations_add_up_to_the_window_between_two_copies() {
        let mut histogram = Histogram::new();
        let mut window = Histogram::new();
        histogram.record(Duration::from_millis(500));
        let start = histogram.clone();
        for part in 0..10_u64 {
            let earlier = histogram.clone();
            (1..=100).for_each(|micros| histogram.record(Duration::from_micros(micros << part)));
            let sparse = histogram.sparse_since(&earlier);
            assert_eq!((sparse.count(), sparse.sum_ns()), (100, 5_050_000 << part));
            window.merge_sparse(&sparse);
        }
        let wanted = histogram.since(&start);
        for per_mille in [1, 500, 990, 1000] {
            let (one, other) = (window.quantile(per_mille), wanted.quantile(per_mille));
            assert_eq!(one, other, "{per_mille}");
        }
        assert_eq!((window.count(), window.mean()), (1000, wanted.mean()));
        let mut cleared = histogram.clone();
        cleared.clear();
        cleared.record(Duration::from_millis(1));
        assert_eq!(cleared.sparse_since(&histogram).count(), 1, "it was cleared");
        assert_eq!(histogram.sparse_since(&histogram), Sparse::default());
    }

    #[test]
    fn equal_durations_have_an_exact_quantile() {
        let mut histogram = Histogram::new();
        for nanos in [1_000_003; 5] {
            histogram.record(Duration::from_nanos(nanos));
        }
        for per_mille in [0, 500, 1000] {
            let value = Duration::from_nanos(1_000_003);
            let exact = Quantile { value, resolution: Duration::ZERO };
            assert_eq!(histogram.quantile(per_mille), exact);
        }
        histogram.record(Duration::from_nanos(u64::MAX));
        assert_eq!(histogram.quantile(1000).value, Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn every_duration_is_in_its_bucket() {
        for nanos in (0..2000).chain([1 << 20, (1 << 20) - 1, (1 << 40) - 1]) {
            let index = place_of(nanos);
            assert!(nanos <= bucket_end(index), "{nanos}");
            assert!(index == 0 || nanos > bucket_end(index - 1), "{nanos}");
        }
        let mut longest = Histogram::new();
        longest.record(Duration::from_nanos(u64::MAX));
        assert_eq!(longest.buckets.iter().position(|&count| count > 0), Some(BUCKETS - 1));
    }
}
