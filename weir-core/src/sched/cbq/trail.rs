//! The order of turns in a ring, written down: a chain has to be followed node by node, each far
//! away, while this lies in a row.
//!
//! Every second node that comes to the end of the ring is noted, for the one behind it is found by
//! the chain. It is a hint. A node that is taken out before it has the turn leaves its note, so
//! what is told is late by so many nodes until the place is passed where it was.

use alloc::vec::Vec;

/// The notes; none where there is no room for any.
pub(super) struct Trail {
    notes: Vec<u32>,
    /// Where the next one goes.
    end: usize,
    /// How many nodes came and went.
    came: u32,
    gone: u32,
}

impl Trail {
    /// Nothing is noted.
    pub const NONE: Trail = Trail { notes: Vec::new(), end: 0, came: 0, gone: 0 };

    /// Room for a ring of at most so many nodes.
    pub fn new(nodes: usize) -> Self {
        Self { notes: alloc::vec![0; nodes / 2 + 1], ..Self::NONE }
    }

    /// `node` came to the end.
    #[inline]
    pub fn come(&mut self, node: u32) {
        if self.came.is_multiple_of(2)
            && let Some(note) = self.notes.get_mut(self.end)
        {
            *note = node;
            self.end = if self.end + 1 == self.notes.len() { 0 } else { self.end + 1 };
        }
        self.came = self.came.wrapping_add(1);
    }

    /// A node has gone, most often the first.
    #[inline]
    pub const fn go(&mut self) {
        self.gone = self.gone.wrapping_add(1);
    }

    /// The nodes that were noted, from the one that has the turn on.
    pub fn ahead(&self) -> impl Iterator<Item = u32> {
        // The first has the number `gone`; even numbers are noted.
        let waiting = self.came.wrapping_sub(self.gone);
        let noted = (waiting + self.came % 2) / 2;
        let (behind, ahead) = self.notes.split_at(self.end.min(self.notes.len()));
        let all = ahead.len() + behind.len();
        ahead.iter().chain(behind).copied().skip(all.saturating_sub(noted as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::VecDeque;

    #[test]
    fn it_tells_every_second_of_those_that_wait() {
        let mut random = Random::new(7, 0);
        let (mut trail, mut plain) = (Trail::new(9), VecDeque::new());
        let mut number = 0u32;
        for _ in 0..5_000 {
            match random.below(3) {
                0 if plain.len() < 9 => {
                    trail.come(100 + number);
                    plain.push_back((number, 100 + number));
                    number += 1;
                }
                1 if !plain.is_empty() => {
                    trail.go();
                    plain.pop_front();
                }
                2 if !plain.is_empty() => {
                    let (_, first) = plain.pop_front().expect("not empty");
                    trail.go();
                    trail.come(first);
                    plain.push_back((number, first));
                    number += 1;
                }
                _ => {}
            }
            let noted = plain.iter().filter(|row| row.0 % 2 == 0).map(|row| row.1);
            assert!(trail.ahead().eq(noted), "{plain:?}");
        }
    }
}
