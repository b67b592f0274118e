//! Who of many sources sends next: a tournament between their next instants.
//!
//! A tree of losers: each inner node keeps the later of the two that met there, the first of all
//! stands above. When the first one's next instant is known it meets the losers on its way up
//! again, which are found by its number alone, so no step waits for the one before it to read
//! memory.
//! Invariant: sources come out by time, and at one time in the order in which they were put in, as
//! from [`crate::events::Events`], which is the plain way to say the same.

use weir_core::units::Instant;

/// The next instant of each source.
#[derive(Clone, Debug)]
pub(crate) struct Senders {
    /// The first one, then the losers; [`NEVER`] for who sends no more.
    keys: Vec<u128>,
    inserted: u64,
}

impl Senders {
    /// Sources 0 to `count` - 1, of which those in `first` send, put in by that order.
    pub fn new(count: usize, first: impl Iterator<Item = (Instant, u32)>) -> Self {
        assert!(count <= SENDERS_MAX, "{count} sources are more than have a number here");
        // As deep for each, so that nobody has to foretell how deep.
        let places = count.next_power_of_two();
        let mut senders = Self { keys: Vec::new(), inserted: 0 };
        // The earlier of each pair, from the sources up; children stand at twice a parent's place.
        let mut winners = vec![NEVER; 2 * places];
        for (at, source) in first {
            winners[places + source as usize] = senders.key(at, source);
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

    /// The source that sends next, if it does before `until`, which is at most [`SENDERS_END`].
    #[inline]
    pub fn first_before(&self, until: Instant) -> Option<u32> {
        let key = self.keys[0];
        let at = Instant::from_nanos((key >> 64) as u64);
        (at < until).then_some((key as u64 & SOURCE_MASK) as u32)
    }

    /// `source`, the first, sends next at `next`, or no more.
    #[inline]
    pub fn replace_first(&mut self, source: u32, next: Option<Instant>) {
        let mut key = next.map_or(NEVER, |at| self.key(at, source));
        let keys = self.keys.as_mut_slice();
        let mut node = (keys.len() + source as usize) / 2;
        while node > 0 {
            let loser = &mut keys[node];
            // Who is first cannot be foretold, so nothing branches on it: all ones if `key` is,
            // from the sign, for both are below 2^127.
            let first = (key.wrapping_sub(*loser) as i128 >> 127) as u128;
            let swap = (key ^ *loser) & first;
            (*loser, key) = (key ^ swap, *loser ^ swap);
            node /= 2;
        }
        keys[0] = key;
    }

    /// The time in the upper half, then the order, then who it is; [`NEVER`] after the end.
    #[inline]
    fn key(&mut self, at: Instant, source: u32) -> u128 {
        let low = (self.inserted << SOURCE_BITS) | u64::from(source);
        // Beyond 2^44 packets, ten days of work, those of one instant come by number.
        self.inserted = (self.inserted + 1).min(INSERTED_MAX);
        if at > SENDERS_END {
            return NEVER;
        }
        (u128::from(at.as_nanos()) << 64) | u128::from(low)
    }
}

/// The most sources that a tournament knows.
pub(crate) const SENDERS_MAX: usize = 1 << SOURCE_BITS;
const SOURCE_BITS: u32 = 20;
const SOURCE_MASK: u64 = (1 << SOURCE_BITS) - 1;
const INSERTED_MAX: u64 = (1 << (64 - SOURCE_BITS)) - 1;
/// Who sends later than this cannot be told apart from who never sends.
pub(crate) const SENDERS_END: Instant = Instant::from_nanos((1 << 63) - 2);
/// Later than every instant.
const NEVER: u128 = u128::MAX >> 1;

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
        while let Some((at, source)) = events.first() {
            let just_after = Instant::from_nanos(at.as_nanos() + 1);
            assert_eq!(senders.first_before(at), None, "{count} sources, packet {sent}");
            assert_eq!(senders.first_before(just_after), Some(source), "packet {sent}");
            let next = Instant::from_nanos(at.as_nanos() + random.below(20));
            sent += 1;
            if random.below(200) == 0 {
                events.pop();
                senders.replace_first(source, None);
            } else {
                events.replace_first(next, source);
                senders.replace_first(source, Some(next));
            }
        }
        assert_eq!(senders.first_before(SENDERS_END), None);
    }

    #[test]
    fn sources_send_in_the_order_of_the_plain_queue() {
        for count in [0, 1, 2, 3, 4, 5, 7, 8, 31, 100, 1000] {
            check(count);
        }
    }
}
