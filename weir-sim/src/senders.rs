//! Which of many sources sends next: a tournament between their next instants.
//!
//! A tree of losers: each inner node holds the later of the two sources that were compared there,
//! and the earliest of all is above the root. When its next instant is known, that source is
//! compared with the losers on its path to the root. The path follows from its number alone, so no
//! memory access of a step depends on the step before.
//!
//! Invariant: sources come out by time, and at one time in the order in which they were put in, as
//! from [`crate::events::Events`], the plain twin.

use std::hint::select_unpredictable;
use weir_core::units::Instant;

/// The next instant of each source.
#[derive(Clone, Debug)]
pub(crate) struct Senders {
    /// The earliest, then the losers; a source that sends no more has the time of [`NEVER`].
    keys: Vec<Key>,
    inserted: u64,
}

/// When a source sends and in which order they were put in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    at: Instant,
    /// The order, and in the bits below it the number of the source.
    low: u64,
}

impl Senders {
    /// Sources 0 to `count` - 1, of which those in `first` send, put in by that order.
    pub fn new(count: usize, first: impl Iterator<Item = (Instant, u32)>) -> Self {
        assert!(count <= SENDERS_MAX, "{count} sources are more than have a number here");
        // Of equal depth for each, so that the depth needs no branch.
        let places = count.next_power_of_two().max(PLACES_MIN);
        let mut senders = Self { keys: Vec::new(), inserted: 0 };
        // The earlier of each pair, from the sources up; children stand at twice a parent's place.
        let mut winners = vec![NEVER; 2 * places];
        for (at, source) in first {
            let low = senders.inserted << SOURCE_BITS | u64::from(source);
            winners[places + source as usize] = Key { at, low };
            senders.inserted += 1;
        }
        senders.keys = vec![NEVER; places];
        for node in (1..places).rev() {
            let (one, other) = (winners[2 * node], winners[2 * node + 1]);
            winners[node] = one.min(other);
            senders.keys[node] = one.max(other);
        }
        senders.keys[0] = winners[1];
        senders
    }

    /// Takes the sources that send before `until`, one packet after the other, as many as have a
    /// place; returns how many. Each time `send` returns when the source sends next, the end of
    /// time if it sends no more.
    #[inline(always)]
    pub fn take<T>(
        &mut self,
        until: Instant,
        places: &mut [T],
        mut send: impl FnMut(u32, &mut T) -> Instant,
    ) -> usize {
        // Local copies, so that the next step does not wait for memory.
        let (mut first, mut order) = (self.keys[0], self.inserted << SOURCE_BITS);
        let mut count = 0;
        if let [_, top, low @ ..] = self.keys.as_mut_slice()
            && let Ok(losers) = <&mut [Key; 2]>::try_from(low)
        {
            // For so few sources the path of each is a constant.
            let mut second = *top;
            for place in places {
                if first.at >= until {
                    break;
                }
                let source = first.source();
                let next = Key { at: send(source, place), low: order | u64::from(source) };
                let loser = &mut losers[(source / 2 % 2) as usize];
                let winner;
                (winner, *loser) = next.meet(*loser);
                (first, second) = winner.meet(second);
                order += 1 << SOURCE_BITS;
                count += 1;
            }
            *top = second;
        } else {
            let keys = self.keys.as_mut_slice();
            for place in places {
                if first.at >= until {
                    break;
                }
                let source = first.source();
                first = Key { at: send(source, place), low: order | u64::from(source) };
                let mut node = (keys.len() + source as usize) / 2;
                while node > 0 {
                    (first, keys[node]) = first.meet(keys[node]);
                    node /= 2;
                }
                order += 1 << SOURCE_BITS;
                count += 1;
            }
        }
        self.keys[0] = first;
        // Beyond 2^43 packets, days of work, those of one instant may come in another order.
        self.inserted = (self.inserted + count as u64).min(INSERTED_MAX);
        count
    }
}

impl Key {
    /// Returns the number of the source.
    #[inline(always)]
    const fn source(self) -> u32 {
        (self.low & SOURCE_MASK) as u32
    }

    /// The earlier and the later of two.
    #[inline(always)]
    fn meet(self, other: Self) -> (Self, Self) {
        if self.at == other.at {
            return (self.min(other), self.max(other));
        }
        // The winner is unpredictable, so this must not branch.
        let is_first = self.at < other.at;
        let (first, last) = (self.at.min(other.at), self.at.max(other.at));
        let low = select_unpredictable(is_first, self.low, other.low);
        let high = select_unpredictable(is_first, other.low, self.low);
        (Self { at: first, low }, Self { at: last, low: high })
    }
}

/// The most sources that a tournament knows.
pub(crate) const SENDERS_MAX: usize = 1 << SOURCE_BITS;
const SOURCE_BITS: u32 = 20;
const SOURCE_MASK: u64 = (1 << SOURCE_BITS) - 1;
const INSERTED_MAX: u64 = 1 << (63 - SOURCE_BITS);
/// The most sources for which the paths are constants.
const PLACES_MIN: usize = 4;
/// The time of a source that sends no more: the end of time, at which no source sends.
const NEVER: Key = Key { at: Instant::MAX, low: u64::MAX };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use crate::random::Random;

    /// Sources send as from the plain queue; some stop, many send at one instant.
    fn check(count: u32) {
        let mut random = Random::stream(u64::from(count), "senders");
        let mut events = Events::new();
        let mut first = Vec::new();
        for source in 0..count {
            if random.below(8) > 0 {
                let at = Instant::from_nanos(random.below(20));
                events.push(at, source);
                first.push((at, source));
            }
        }
        let mut senders = Senders::new(count as usize, first.into_iter());
        let mut sent = 0;
        let too_early = |source: u32, (): &mut ()| panic!("{source} of {count} sends too early");
        while let Some((at, _)) = events.first() {
            assert_eq!(senders.take(at, &mut [(); 3], too_early), 0);
            let just_after = Instant::from_nanos(at.as_nanos() + 1);
            let mut places = vec![(); 1 + random.below(3) as usize];
            senders.take(just_after, &mut places, |source, ()| {
                assert_eq!(events.first(), Some((at, source)), "{count} sources, packet {sent}");
                let next = Instant::from_nanos(at.as_nanos() + random.below(20));
                sent += 1;
                if random.below(200) == 0 {
                    events.pop();
                    return Instant::MAX;
                }
                events.replace_first(next, source);
                next
            });
        }
        assert_eq!(senders.take(Instant::MAX, &mut [()], too_early), 0);
    }

    #[test]
    fn sources_send_in_the_order_of_the_plain_queue() {
        for count in [0, 1, 2, 3, 4, 5, 7, 8, 31, 100, 1000] {
            check(count);
        }
    }
}
