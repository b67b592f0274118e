//! Packets that went into the link and have not been seen behind it.
//!
//! Invariant: packets with one key come out in the order in which they went in; at most
//! [`WAITING_MAX`] wait, and the oldest is given up first.

use std::collections::{HashMap, VecDeque};

/// A packet that went in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entered {
    pub key: u64,
    /// When it came before the link, in nanoseconds.
    pub at: i128,
    pub leaf: u32,
    pub bytes: u32,
}

/// The packets that wait.
#[derive(Default)]
pub(super) struct Waiting {
    /// In the order in which they went in; `None` for one that came out.
    packets: VecDeque<Option<Entered>>,
    /// The next packet with the same key, as its number.
    nexts: VecDeque<u64>,
    /// The number of the first.
    first: u64,
    /// The first and the last packet with a key, by number.
    keys: HashMap<u64, (u64, u64)>,
}

impl Waiting {
    /// Takes a packet that went in; returns one that is given up for it.
    pub fn enter(&mut self, packet: Entered) -> Option<Entered> {
        let given_up = if self.packets.len() >= WAITING_MAX { self.give_up() } else { None };
        let number = self.first + self.packets.len() as u64;
        self.packets.push_back(Some(packet));
        self.nexts.push_back(NONE);
        match self.keys.get_mut(&packet.key) {
            Some((_, last)) => {
                let place = (*last - self.first) as usize;
                self.nexts[place] = number;
                *last = number;
            }
            None => {
                self.keys.insert(packet.key, (number, number));
            }
        }
        given_up
    }

    /// Returns the first packet with this key, which now came out.
    pub fn leave(&mut self, key: u64) -> Option<Entered> {
        let number = self.keys.get(&key)?.0;
        let place = (number - self.first) as usize;
        let packet = self.packets[place].take();
        self.unlink(key, self.nexts[place]);
        while let Some(None) = self.packets.front() {
            self.drop_front();
        }
        packet
    }

    /// Returns the oldest packet if it went in before `at`, and forgets it.
    pub fn expire(&mut self, at: i128) -> Option<Entered> {
        let oldest = (*self.packets.front()?)?;
        if oldest.at < at { self.give_up() } else { None }
    }

    /// Returns the oldest packet and forgets it.
    pub fn give_up(&mut self) -> Option<Entered> {
        let oldest = (*self.packets.front()?)?;
        self.unlink(oldest.key, *self.nexts.front()?);
        self.drop_front();
        while let Some(None) = self.packets.front() {
            self.drop_front();
        }
        Some(oldest)
    }

    fn unlink(&mut self, key: u64, next: u64) {
        if next == NONE {
            self.keys.remove(&key);
        } else if let Some(entry) = self.keys.get_mut(&key) {
            entry.0 = next;
        }
    }

    fn drop_front(&mut self) {
        self.packets.pop_front();
        self.nexts.pop_front();
        self.first += 1;
    }
}

/// Bound: packets between two captures that wait to be found again, 128 MiB of them; with one more,
/// the oldest is given up.
pub const WAITING_MAX: usize = 1 << 20;
const NONE: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// `in` is keys that enter in turn; `out` is keys that leave, each with when that one entered.
    fn check(enter: &[u64], leave: &[(u64, Option<i128>)], left: &[i128]) {
        let mut waiting = Waiting::default();
        for (at, &key) in enter.iter().enumerate() {
            let packet = Entered { key, at: at as i128, leaf: 0, bytes: 1 };
            assert_eq!(waiting.enter(packet), None);
        }
        for &(key, expected) in leave {
            assert_eq!(waiting.leave(key).map(|packet| packet.at), expected, "{enter:?} {key}");
        }
        let rest: Vec<_> =
            std::iter::from_fn(|| waiting.give_up()).map(|packet| packet.at).collect();
        assert_eq!(rest, left, "{enter:?} {leave:?}");
        assert!(waiting.keys.is_empty() && waiting.packets.is_empty());
    }

    #[test]
    fn equal_packets_leave_in_their_order() {
        check(&[1, 2, 3], &[(2, Some(1)), (1, Some(0)), (3, Some(2)), (3, None)], &[]);
        check(&[7, 7, 7], &[(7, Some(0)), (7, Some(1))], &[2]);
        check(&[7, 8, 7, 8], &[(8, Some(1)), (8, Some(3)), (8, None)], &[0, 2]);
        check(&[], &[(1, None)], &[]);
    }

    #[test]
    fn old_packets_expire_in_order() {
        let mut waiting = Waiting::default();
        for (at, key) in [(0, 5), (10, 5), (20, 6)] {
            waiting.enter(Entered { key, at, leaf: 0, bytes: 1 });
        }
        assert_eq!(waiting.expire(0), None);
        assert_eq!(waiting.expire(15).map(|packet| packet.at), Some(0));
        assert_eq!(waiting.expire(15).map(|packet| packet.at), Some(10));
        assert_eq!(waiting.expire(15), None);
        assert_eq!(waiting.leave(5), None);
        assert_eq!(waiting.leave(6).map(|packet| packet.at), Some(20));
    }
}
