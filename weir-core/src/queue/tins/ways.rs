//! Tables of sets of eight places, in which a hash finds its place or takes a free one of its set
//! `[linux]`: a flow has a queue of its own unless eight others of its set have packets.
//!
//! A set is allocated with its first entry.

use crate::state::{Reader, State, StateError, Writer};
use alloc::vec::Vec;

/// A table of [`PLACES`] places.
pub(super) struct Ways<T> {
    /// By set, its number in `sets`, from 1 on; 0 before its first entry.
    numbers: [u8; SETS],
    sets: Vec<[T; WAYS]>,
}

/// The result of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// The place that this hash has.
    Own(u16),
    /// A free place.
    Free(u16),
    /// The place that the hash would have had, which another one uses.
    Taken(u16),
}

impl<T: Copy + Default> Ways<T> {
    /// Returns a table with nothing in it.
    pub(super) fn new() -> Self {
        Self { numbers: [0; SETS], sets: Vec::new() }
    }

    /// Searches the set of `hash`, from its own place on.
    #[inline]
    pub(super) fn find(
        &self,
        hash: u32,
        is_own: impl Fn(&T) -> bool,
        is_free: impl Fn(&T) -> bool,
    ) -> Found {
        let place = hash as usize % PLACES;
        let (set, first) = (place / WAYS, place % WAYS);
        let number = self.numbers[set];
        if number == 0 {
            return Found::Free(place as u16);
        }
        let rows = &self.sets[number as usize - 1];
        let at = |way: usize| (first + way) % WAYS;
        let found = |way: usize| (set * WAYS + at(way)) as u16;
        if let Some(way) = (0..WAYS).find(|&way| is_own(&rows[at(way)])) {
            return Found::Own(found(way));
        }
        let free = (0..WAYS).find(|&way| is_free(&rows[at(way)]));
        free.map_or(Found::Taken(place as u16), |way| Found::Free(found(way)))
    }

    /// Returns the entry of a place.
    #[inline]
    pub(super) fn get(&self, place: u16) -> T {
        let number = self.numbers[usize::from(place) / WAYS];
        let rows = usize::from(number).checked_sub(1).and_then(|number| self.sets.get(number));
        rows.map_or(T::default(), |rows| rows[usize::from(place) % WAYS])
    }

    /// Returns the entry of a place for mutation.
    #[inline]
    pub(super) fn entry(&mut self, place: u16) -> &mut T {
        let number = &mut self.numbers[usize::from(place) / WAYS];
        if *number == 0 {
            self.sets.push([T::default(); WAYS]);
            *number = self.sets.len() as u8;
        }
        &mut self.sets[usize::from(*number) - 1][usize::from(place) % WAYS]
    }

    /// Returns whether the table has this place, and its set is allocated.
    pub(super) fn has(&self, place: u16) -> bool {
        self.numbers.get(usize::from(place) / WAYS).is_some_and(|&number| number > 0)
    }

    /// Changes all entries.
    pub(super) fn for_each(&mut self, change: impl FnMut(&mut T)) {
        self.sets.iter_mut().flatten().for_each(change);
    }
}

/// Allocated sets, each with its number, in the order of their numbers.
impl<T: State + Copy + Default> State for Ways<T> {
    fn save(&self, to: &mut Writer) {
        let Self { numbers, sets } = self;
        to.number(sets.len() as u64);
        for (set, &number) in numbers.iter().enumerate().filter(|row| *row.1 > 0) {
            set.save(to);
            sets[usize::from(number) - 1].save(to);
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        *self = Self { numbers: [0; SETS], sets: Vec::new() };
        let mut before = None;
        for _ in 0..from.count(SETS, "sets of a table")? {
            let set = from.index(SETS, "set of a table")?;
            if before.is_some_and(|before| before >= set) {
                return Err(StateError::Invalid("sets of a table"));
            }
            before = Some(set);
            let mut rows = [T::default(); WAYS];
            rows.load(from)?;
            self.sets.push(rows);
            self.numbers[set] = self.sets.len() as u8;
        }
        Ok(())
    }
}

/// Bound: places of a table; a flow beyond shares the queue of another, and a host its count.
pub(in super::super) const PLACES: usize = 1024;
/// Places of a set.
const WAYS: usize = 8;
const SETS: usize = PLACES / WAYS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_eight_and_then_shares() {
        let mut ways: Ways<u32> = Ways::new();
        let hash = |number: u32| number * PLACES as u32 + 21;
        let find = |ways: &Ways<u32>, hash| ways.find(hash, |&row| row == hash, |&row| row == 0);
        assert_eq!(ways.get(21), 0);
        let places: Vec<Found> = (1..=8)
            .map(|number| {
                let found = find(&ways, hash(number));
                if let Found::Free(place) = found {
                    *ways.entry(place) = hash(number);
                }
                found
            })
            .collect();
        let expected = [21, 22, 23, 16, 17, 18, 19, 20].map(Found::Free);
        assert_eq!(places, expected, "from the own place on, round the set");
        assert_eq!(find(&ways, hash(9)), Found::Taken(21));
        assert_eq!(find(&ways, hash(4)), Found::Own(16));
        *ways.entry(19) = 0;
        assert_eq!(find(&ways, hash(9)), Found::Free(19));
        assert_eq!(find(&ways, 5), Found::Free(5));
    }

    #[test]
    fn a_checkpoint_gives_the_same_table() {
        let mut ways: Ways<u32> = Ways::new();
        for place in [1000, 3, 7, 512, 513] {
            *ways.entry(place) = u32::from(place) + 5;
        }
        let mut bytes = Writer::new();
        ways.save(&mut bytes);
        let bytes = bytes.into_bytes();
        let mut again: Ways<u32> = Ways::new();
        again.load(&mut Reader::new(&bytes)).expect("it was written so");
        assert!((0..PLACES as u16).all(|place| again.get(place) == ways.get(place)));
        assert!(Ways::<u32>::new().load(&mut Reader::new(&[2, 5])).is_err());
    }
}
