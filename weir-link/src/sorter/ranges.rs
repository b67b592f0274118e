//! Sets of numbers as ranges, in order and apart: what a condition of a rule accepts.

/// A set of numbers. Invariant: the ranges, whose ends are both included, ascend, and a number that
/// is not in the set lies between each two.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// The numbers that are in any of `ranges`.
    pub fn of(ranges: impl IntoIterator<Item = (u128, u128)>) -> Ranges {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        ranges.sort_unstable();
        let mut joined: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match joined.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => joined.push((low, high)),
            }
        }
        Ranges(joined)
    }

    /// The set of one number.
    pub fn one(number: impl Into<u128>) -> Ranges {
        let number = number.into();
        Ranges(vec![(number, number)])
    }

    pub fn each(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// Returns whether no number is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether some number is in both sets.
    pub fn meets(&self, other: &Ranges) -> bool {
        let (few, many) = if self.0.len() < other.0.len() { (self, other) } else { (other, self) };
        few.0.iter().any(|&(low, high)| {
            // The first range that does not end before `low`.
            let at = many.0.partition_point(|range| range.1 < low);
            many.0.get(at).is_some_and(|range| range.0 <= high)
        })
    }

    /// Returns whether every number of `inner` is in this set.
    pub fn covers(&self, inner: &Ranges) -> bool {
        inner.0.iter().all(|&(low, high)| {
            let at = self.0.partition_point(|range| range.1 < low);
            self.0.get(at).is_some_and(|range| range.0 <= low && high <= range.1)
        })
    }
}

/// A map from ranges of numbers to values. Invariant: the ranges ascend and do not meet.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeMap<T>(Vec<(u128, u128, T)>);

impl<T: Copy + PartialEq> RangeMap<T> {
    /// Gives `value` to the numbers of `ranges` that have none yet.
    pub fn fill(&mut self, ranges: &Ranges, value: T) {
        for &(low, high) in ranges.each() {
            self.fill_range(low, high, value);
        }
    }

    fn fill_range(&mut self, mut low: u128, high: u128, value: T) {
        let mut at = self.0.partition_point(|range| range.1 < low);
        while let Some(&(first, last, _)) = self.0.get(at).filter(|range| range.0 <= high) {
            if low < first {
                self.0.insert(at, (low, first - 1, value));
                at += 1;
            }
            if last >= high {
                return;
            }
            (low, at) = (last + 1, at + 1);
        }
        self.0.insert(at, (low, high, value));
    }

    /// Returns the ranges with their values; neighbours of one value are joined.
    pub fn into_joined(self) -> Vec<(u128, u128, T)> {
        let mut joined: Vec<(u128, u128, T)> = Vec::with_capacity(self.0.len());
        for (low, high, value) in self.0 {
            match joined.last_mut() {
                Some(last) if last.2 == value && last.1 + 1 == low => last.1 = high,
                _ => joined.push((low, high, value)),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u128 = u128::MAX;
    type List = &'static [(u128, u128)];

    fn set(ranges: &[(u128, u128)]) -> Ranges {
        Ranges::of(ranges.iter().copied())
    }

    #[test]
    fn ranges_are_joined_and_compared() {
        assert_eq!(set(&[(5, 6), (1, 2), (3, 4), (9, MAX), (4, 4)]), set(&[(1, 6), (9, MAX)]));
        // One set, another, whether they meet, whether the first covers the other.
        let rows: &[(List, List, bool, bool)] = &[
            (&[(1, 3), (7, 9)], &[(4, 6)], false, false),
            (&[(1, 3), (7, 9)], &[(3, 4)], true, false),
            (&[(1, 3), (7, 9)], &[(2, 3), (7, 7)], true, true),
            (&[(1, 3), (7, 9)], &[(2, 8)], true, false),
            (&[(0, MAX)], &[(MAX, MAX)], true, true),
            (&[], &[(1, 1)], false, false),
            (&[(1, 1)], &[], false, true),
        ];
        for (one, other, meet, covers) in rows {
            assert_eq!(set(one).meets(&set(other)), *meet, "{one:?} {other:?}");
            assert_eq!(set(other).meets(&set(one)), *meet, "{other:?} {one:?}");
            assert_eq!(set(one).covers(&set(other)), *covers, "{one:?} {other:?}");
        }
    }

    #[test]
    fn the_first_value_of_a_number_stays() {
        let mut map = RangeMap::default();
        map.fill(&set(&[(10, 20), (30, 40)]), 'a');
        map.fill(&set(&[(0, 12), (15, 35), (50, 50)]), 'b');
        map.fill(&set(&[(0, 60)]), 'c');
        map.fill(&set(&[(61, 70)]), 'c');
        let expected = [(0, 9, 'b'), (10, 20, 'a'), (21, 29, 'b'), (30, 40, 'a')];
        let rest = [(41, 49, 'c'), (50, 50, 'b'), (51, 70, 'c')];
        assert_eq!(map.into_joined(), [&expected[..], &rest].concat());
    }
}
