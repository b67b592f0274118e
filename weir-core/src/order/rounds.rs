//! Rounds by deficit in which newcomers go first [rfc8290 §4.2]: of the leaves of a scheduler, or
//! of the flows in a leaf.
//!
//! A member that becomes backlogged joins the *new* list with a quantum of deficit. The new list
//! goes before the old one. Who has used up the deficit gains a quantum and goes to the end of the
//! old list. So does who is found empty in the new list: it cannot come back at once as a newcomer
//! while others wait. Who is found empty in the old list leaves.
//! Invariant: a member stands in one list at most, and in it once.

use alloc::vec::Vec;

/// Who is in the lists, and in which order.
pub(crate) struct Rounds {
    quantum: i64,
    members: Vec<Member>,
    new: List,
    old: List,
    /// Members in both lists.
    listed: u32,
}

#[derive(Clone, Copy)]
struct Member {
    /// Bytes that it may still send before the next one's turn; negative if it sent more.
    deficit: i64,
    /// Who stands behind it; [`END`] if nobody does, [`OUT`] if it stands in no list.
    next: u32,
}

/// A chain of members.
#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

impl Rounds {
    /// Nobody is listed; members are numbered from 0 and get `quantum` bytes at a time.
    pub(crate) fn new(members: usize, quantum: u32) -> Self {
        Self {
            quantum: i64::from(quantum.max(1)),
            members: alloc::vec![Member::OUT; members],
            new: List::EMPTY,
            old: List::EMPTY,
            listed: 0,
        }
    }

    /// Adds a member, whose number is one more than the last one's.
    pub(crate) fn add(&mut self) {
        self.members.push(Member::OUT);
    }

    /// `member` is backlogged now: as a newcomer, unless it is listed still.
    #[inline]
    pub(crate) fn join(&mut self, member: u32) {
        if self.enlist(member) {
            self.new.push(&mut self.members, member);
        }
    }

    fn enlist(&mut self, member: u32) -> bool {
        let state = &mut self.members[member as usize];
        if state.next != OUT {
            return false;
        }
        state.deficit = self.quantum;
        self.listed += 1;
        true
    }

    /// Whose turn it is, where `waits` tells who is backlogged; `None` if nobody is. Asked again,
    /// it answers the same.
    #[inline]
    pub(crate) fn choose(&mut self, waits: impl Fn(u32) -> bool) -> Option<u32> {
        let mut passed = 0;
        loop {
            let is_new = self.new.first != END;
            let member = if is_new { self.new.first } else { self.old.first };
            if member == END {
                return None;
            }
            if self.members[member as usize].deficit <= 0 {
                self.pop(is_new);
                self.members[member as usize].deficit += self.quantum;
                self.old.push(&mut self.members, member);
                passed += 1;
                if passed >= self.listed {
                    self.skip_rounds();
                    passed = 0;
                }
                continue;
            }
            if waits(member) {
                return Some(member);
            }
            self.pop(is_new);
            if is_new {
                self.old.push(&mut self.members, member);
            } else {
                self.members[member as usize].next = OUT;
                self.listed -= 1;
            }
        }
    }

    /// `member` sent `length` bytes.
    #[inline]
    pub(crate) fn charge(&mut self, member: u32, length: u64) {
        let state = &mut self.members[member as usize];
        state.deficit = state.deficit.saturating_sub_unsigned(length).max(-DEBT_MAX);
    }

    /// How many bytes `member`, whose turn it is, may send before the next one's.
    #[inline]
    pub(crate) fn deficit(&self, member: u32) -> u64 {
        self.members[member as usize].deficit.max(0).unsigned_abs()
    }

    /// Nobody waits: nobody is listed any longer.
    #[inline]
    pub(crate) fn clear(&mut self) {
        for list in [core::mem::replace(&mut self.new, List::EMPTY), self.old] {
            let mut member = list.first;
            while member != END {
                member = core::mem::replace(&mut self.members[member as usize].next, OUT);
            }
        }
        self.old = List::EMPTY;
        self.listed = 0;
    }

    /// Everybody who is listed, the new list first; and whether it is that one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, bool)> {
        let chain = |first: u32, is_new: bool| {
            let some = |member: u32| (member != END).then_some(member);
            core::iter::successors(some(first), move |&member| {
                some(self.members[member as usize].next)
            })
            .map(move |member| (member, is_new))
        };
        chain(self.new.first, true).chain(chain(self.old.first, false))
    }

    /// Puts `member` behind those listed, in the new list or the old one, with what `then` had left
    /// in `before`: at most a quantum.
    pub(crate) fn resume(&mut self, member: u32, is_new: bool, before: &Rounds, then: u32) {
        if !self.enlist(member) {
            return;
        }
        let deficit = before.members[then as usize].deficit;
        self.members[member as usize].deficit = deficit.min(self.quantum);
        let list = if is_new { &mut self.new } else { &mut self.old };
        list.push(&mut self.members, member);
    }

    /// Takes the first out of a list that is not empty.
    fn pop(&mut self, is_new: bool) {
        let list = if is_new { &mut self.new } else { &mut self.old };
        list.first = self.members[list.first as usize].next;
    }

    /// Everybody was passed and nobody may send. Gives all of them the quanta of all further rounds
    /// in which that is so, at once: a choice ends after two rounds, however small quanta are.
    #[cold]
    fn skip_rounds(&mut self) {
        let deficits = self.iter().map(|(member, _)| self.members[member as usize].deficit);
        let most = deficits.max().unwrap_or(1);
        if most > 0 {
            return;
        }
        // After this many more it is above zero.
        let rounds = most.unsigned_abs() / self.quantum.unsigned_abs();
        let gain = rounds as i64 * self.quantum;
        let mut member = self.old.first;
        while member != END {
            let state = &mut self.members[member as usize];
            state.deficit += gain;
            member = state.next;
        }
    }
}

impl List {
    /// Puts `member`, which stands in no list, at the end.
    #[inline]
    fn push(&mut self, members: &mut [Member], member: u32) {
        members[member as usize].next = END;
        if self.first == END {
            self.first = member;
        } else {
            members[self.last as usize].next = member;
        }
        self.last = member;
    }

    const EMPTY: List = List { first: END, last: END };
}

impl Member {
    const OUT: Member = Member { deficit: 0, next: OUT };
}

/// The end of a chain.
const END: u32 = u32::MAX;
/// Stands in no list.
const OUT: u32 = u32::MAX - 1;
/// Nobody owes more, whatever was sent: far from the end of the numbers.
const DEBT_MAX: i64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::VecDeque;

    /// The lists as the RFC tells them, a step at a time.
    struct Told {
        quantum: i64,
        deficits: Vec<i64>,
        new: VecDeque<usize>,
        old: VecDeque<usize>,
    }

    impl Told {
        fn join(&mut self, member: usize) {
            if !self.new.contains(&member) && !self.old.contains(&member) {
                self.deficits[member] = self.quantum;
                self.new.push_back(member);
            }
        }

        fn choose(&mut self, waiting: &[VecDeque<u64>]) -> Option<usize> {
            loop {
                let is_new = !self.new.is_empty();
                let list = if is_new { &mut self.new } else { &mut self.old };
                let member = *list.front()?;
                if self.deficits[member] <= 0 {
                    list.pop_front();
                    self.deficits[member] += self.quantum;
                    self.old.push_back(member);
                } else if !waiting[member].is_empty() {
                    return Some(member);
                } else {
                    list.pop_front();
                    if is_new {
                        self.old.push_back(member);
                    }
                }
            }
        }
    }

    fn check(seed: u64, members: usize, quantum: u32, longest: u32) {
        let mut rounds = Rounds::new(members, quantum);
        let deficits = alloc::vec![0; members];
        let (new, old) = (VecDeque::new(), VecDeque::new());
        let mut told = Told { quantum: i64::from(quantum), deficits, new, old };
        let mut waiting: Vec<VecDeque<u64>> = alloc::vec![VecDeque::new(); members];
        let mut random = Random::new(seed, 0);
        for _ in 0..400 {
            let member = random.below(members as u32);
            if random.below(2) == 0 {
                let length = 1 + random.below(longest);
                waiting[member as usize].push_back(u64::from(length));
                rounds.join(member);
                told.join(member as usize);
                continue;
            }
            let chosen = rounds.choose(|member| !waiting[member as usize].is_empty());
            assert_eq!(chosen.map(|member| member as usize), told.choose(&waiting), "seed {seed}");
            let listed: Vec<_> = rounds.iter().map(|(member, _)| member as usize).collect();
            assert!(listed.iter().eq(told.new.iter().chain(&told.old)), "seed {seed}");
            let Some(chosen) = chosen else { continue };
            let queue = &mut waiting[chosen as usize];
            let length = queue.pop_front().expect("who is chosen waits");
            if random.below(8) > 0 {
                // Else a drop, which is not charged.
                rounds.charge(chosen, length);
                told.deficits[chosen as usize] -= length as i64;
            }
        }
    }

    #[test]
    fn the_order_is_that_of_the_rfc_step_by_step() {
        for seed in 0..300 {
            check(seed, 1, 300, 1500);
            check(seed, 3, 1514, 1500);
            check(seed, 7, 64, 65_535);
            check(seed, 12, 1, 40);
        }
    }

    #[test]
    fn a_choice_ends_at_the_extremes() {
        for (quantum, length) in [(1, u64::MAX), (u32::MAX, u64::MAX), (0, 5)] {
            let mut rounds = Rounds::new(3, quantum);
            for member in 0..3 {
                rounds.join(member);
                rounds.charge(member, length);
                rounds.charge(member, length);
            }
            assert_eq!(rounds.choose(|_| true), Some(0), "all owe the same");
            assert_eq!(rounds.choose(|_| false), None);
        }
    }

    #[test]
    fn who_comes_back_while_others_wait_is_no_newcomer() {
        let mut rounds = Rounds::new(2, 1000);
        rounds.join(0);
        rounds.charge(0, 1500);
        rounds.join(1);
        // 1 sends all that it had and is found empty: it goes behind 0.
        rounds.charge(1, 100);
        assert_eq!(rounds.choose(|member| member == 0), Some(0));
        rounds.join(1);
        assert_eq!(rounds.choose(|_| true), Some(0));
        rounds.clear();
        rounds.join(1);
        assert_eq!(rounds.choose(|_| true), Some(1));
        assert_eq!(rounds.iter().count(), 1);
    }
}
