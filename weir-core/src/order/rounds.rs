//! Deficit round robin in which newcomers go first [rfc8290 §4.2; linux]: of the leaves of a
//! scheduler, or of the flows in a leaf.
//!
//! A member that becomes backlogged joins the *new* list with a quantum of deficit. The new list
//! goes before the old one. A member that has used up its deficit gains a quantum and goes to the
//! end of the old list. So does one that is found empty in the new list: it cannot come back at
//! once as a newcomer while others wait. Linux removes it where the old list is empty; the RFC does
//! not. One that is found empty in the old list leaves. A member is found empty by a later choice,
//! not when its last packet leaves; a choice when none waits finds all members empty. A choice
//! costs at most two rounds through the lists, however small the quantum is, and on the average a
//! few steps if a quantum covers a packet. Members may form groups, each with two lists of its own:
//! the flows of each host. Invariant: `listed` counts the members of both lists of each group.

use super::lists::Lists;
use crate::parameter::{Kind, Params};
use crate::state::state;
use alloc::vec::Vec;

/// The source that is followed where sources differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rules {
    /// Linux's `sch_fq_codel`.
    Linux,
    /// The letter of the RFC.
    Rfc8290,
}

/// The two lists of each group, and the members' deficits.
pub(crate) struct Rounds {
    rules: Rules,
    quantum: i64,
    /// Bytes that each member may still send in its turn; negative if it sent more.
    deficits: Vec<i64>,
    lists: Lists,
    /// By group.
    listed: Vec<u32>,
}

impl Rounds {
    /// Returns empty lists of one group; members are numbered from 0 and get `quantum` bytes at a
    /// time.
    pub(crate) fn new(members: usize, quantum: u32, rules: Rules) -> Self {
        Self {
            rules,
            quantum: i64::from(quantum.max(1)),
            deficits: alloc::vec![0; members],
            lists: Lists::new(LISTS, members),
            listed: alloc::vec![0],
        }
    }

    /// Returns lists of no group and no member.
    pub(crate) fn without_groups(quantum: u32, rules: Rules) -> Self {
        let lists = Lists::new(0, 0);
        Self { lists, listed: Vec::new(), ..Self::new(0, quantum, rules) }
    }

    /// Adds a group, whose number is one more than the last one's.
    pub(crate) fn add_group(&mut self) {
        self.lists.add_lists(LISTS);
        self.listed.push(0);
    }

    /// Adds a member, whose number is one more than the last one's.
    pub(crate) fn add(&mut self) {
        self.deficits.push(0);
        self.lists.add_item();
    }

    /// As [`Rounds::join_group`], where there is one group.
    #[inline]
    pub(crate) fn join(&mut self, member: u32) {
        self.join_group(0, member);
    }

    /// Records that `member` of `group` is backlogged now: it is a newcomer, unless it is still
    /// listed.
    #[inline]
    pub(crate) fn join_group(&mut self, group: usize, member: u32) {
        if !self.lists.contains(member) {
            self.enlist((group, NEW), member, self.quantum);
        }
    }

    #[inline]
    fn enlist(&mut self, (group, list): (usize, usize), member: u32, deficit: i64) {
        self.deficits[member as usize] = deficit;
        self.lists.push(group * LISTS + list, member);
        self.listed[group] += 1;
    }

    /// As [`Rounds::choose_of`], where there is one group.
    #[inline]
    pub(crate) fn choose(&mut self, waits: impl FnMut(u32) -> bool) -> Option<u32> {
        self.choose_of(0, waits)
    }

    /// Returns the member of `group` whose turn it is, where `waits` says which members are
    /// backlogged; `None` if none is. A second call returns the same member.
    #[inline]
    pub(crate) fn choose_of(
        &mut self,
        group: usize,
        mut waits: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let (new, old) = (group * LISTS + NEW, group * LISTS + OLD);
        let mut passed = 0;
        loop {
            let list = if self.lists.first(new).is_some() { new } else { old };
            let member = self.lists.first(list)?;
            let deficit = &mut self.deficits[member as usize];
            if *deficit <= 0 {
                *deficit += self.quantum;
                self.lists.pop(list);
                self.lists.push(old, member);
                passed += 1;
                if passed >= self.listed[group] {
                    self.skip_rounds(group);
                    passed = 0;
                }
                continue;
            }
            if waits(member) {
                return Some(member);
            }
            self.lists.pop(list);
            let may_leave = self.rules == Rules::Linux && self.lists.first(old).is_none();
            if list == new && !may_leave {
                self.lists.push(old, member);
            } else {
                debug_assert!(self.listed[group] > 0, "a member of a list is counted");
                self.listed[group] -= 1;
            }
        }
    }

    /// Charges `member` for `length` bytes.
    #[inline]
    pub(crate) fn charge(&mut self, member: u32, length: u64) {
        let deficit = &mut self.deficits[member as usize];
        *deficit = deficit.saturating_sub_unsigned(length).max(-DEBT_MAX);
    }

    /// As [`Rounds::clear_group`], where there is one group.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.clear_group(0);
    }

    /// Removes all members of `group` from its lists, as a choice does when none waits.
    #[inline]
    pub(crate) fn clear_group(&mut self, group: usize) {
        for list in [NEW, OLD] {
            while self.lists.pop(group * LISTS + list).is_some() {}
        }
        self.listed[group] = 0;
    }

    /// As [`Rounds::iter_of`], where there is one group.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, bool)> {
        self.iter_of(0)
    }

    /// Returns all listed members of `group`, the new list first, each with whether it is in the
    /// new list.
    pub(crate) fn iter_of(&self, group: usize) -> impl Iterator<Item = (u32, bool)> {
        let members = move |list| {
            self.lists.iter(group * LISTS + list).map(move |member| (member, list == NEW))
        };
        members(NEW).chain(members(OLD))
    }

    /// Appends `member` to the new list or the old one, with the deficit that `then` had in
    /// `before`, at most a quantum.
    pub(crate) fn resume(&mut self, member: u32, is_new: bool, before: &Rounds, then: u32) {
        if !self.lists.contains(member) {
            let deficit = before.deficits[then as usize].min(self.quantum);
            self.enlist((0, if is_new { NEW } else { OLD }), member, deficit);
        }
    }

    /// Returns the bytes that `member`, which is listed, may still send in its turn.
    pub(crate) fn deficit(&self, member: u32) -> i64 {
        self.deficits[member as usize]
    }

    /// Returns whether `member` is in a list.
    pub(crate) fn contains(&self, member: u32) -> bool {
        self.lists.contains(member)
    }

    /// Whether this can be the state of any rounds.
    fn is_sound(&self) -> bool {
        let within = |deficit: &i64| (-DEBT_MAX..=DEBT_MAX).contains(deficit);
        let mut groups = self.listed.iter().enumerate();
        groups.all(|(group, &listed)| listed as usize == self.iter_of(group).count())
            && self.deficits.iter().all(within)
    }

    /// Gives each member of `group`, none of which may send, the quanta of all further rounds in
    /// which that is so, at once.
    #[cold]
    fn skip_rounds(&mut self, group: usize) {
        let deficits = self.iter_of(group).map(|(member, _)| self.deficits[member as usize]);
        let most = deficits.max().unwrap_or(1);
        if most > 0 {
            return;
        }
        // After this many more quanta the largest deficit is above zero.
        let rounds = most.unsigned_abs() / self.quantum.unsigned_abs();
        let gain = rounds as i64 * self.quantum;
        for member in self.lists.iter(group * LISTS + OLD) {
            self.deficits[member as usize] += gain;
        }
    }
}

impl Rules {
    /// The values of [`Rules::NAME`], the default first.
    pub(crate) const KIND: Kind = Kind::Choice(&[Rules::DEFAULT, "rfc8290"]);
    /// The name of the parameter.
    pub(crate) const NAME: &str = "rules";
    pub(crate) const DEFAULT: &str = "linux";

    /// The rules that `params` name.
    pub(crate) fn from_params(params: &Params) -> Rules {
        match params.choice(Rules::NAME) {
            Some("rfc8290") => Rules::Rfc8290,
            _ => Rules::Linux,
        }
    }
}

/// The number of lists of a group.
const LISTS: usize = 2;
/// The list of newcomers.
const NEW: usize = 0;
/// The list of the others.
const OLD: usize = 1;
/// The largest debt, whatever was sent; well within the range of the type.
const DEBT_MAX: i64 = 1 << 60;

state!(Rounds { deficits, lists, listed; kept: rules, quantum; check: Rounds::is_sound });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::VecDeque;

    /// The lists as the sources describe them, one step at a time.
    struct PlainRounds {
        rules: Rules,
        quantum: i64,
        deficits: Vec<i64>,
        new: VecDeque<usize>,
        old: VecDeque<usize>,
    }

    impl PlainRounds {
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
                    if is_new && (self.rules == Rules::Rfc8290 || !self.old.is_empty()) {
                        self.old.push_back(member);
                    }
                }
            }
        }
    }

    fn check(rules: Rules, seed: u64, members: usize, (quantum, longest): (u32, u32)) {
        let mut rounds = Rounds::new(members, quantum, rules);
        let deficits = alloc::vec![0; members];
        let (new, old) = (VecDeque::new(), VecDeque::new());
        let mut plain = PlainRounds { rules, quantum: i64::from(quantum), deficits, new, old };
        let mut waiting: Vec<VecDeque<u64>> = alloc::vec![VecDeque::new(); members];
        let mut random = Random::new(seed, 0);
        for _ in 0..400 {
            let member = random.below(members as u32);
            if random.below(2) == 0 {
                let length = 1 + random.below(longest);
                waiting[member as usize].push_back(u64::from(length));
                rounds.join(member);
                plain.join(member as usize);
                continue;
            }
            let chosen = rounds.choose(|member| !waiting[member as usize].is_empty());
            assert_eq!(chosen.map(|member| member as usize), plain.choose(&waiting), "seed {seed}");
            let listed: Vec<_> = rounds.iter().map(|(member, _)| member as usize).collect();
            assert!(listed.iter().eq(plain.new.iter().chain(&plain.old)), "seed {seed}");
            let Some(chosen) = chosen else { continue };
            let queue = &mut waiting[chosen as usize];
            let length = queue.pop_front().expect("a chosen member waits");
            if random.below(8) > 0 {
                // Else a drop, which is not charged.
                rounds.charge(chosen, length);
                plain.deficits[chosen as usize] -= length as i64;
            }
        }
    }

    #[test]
    fn the_order_is_that_of_the_sources_step_by_step() {
        for seed in 0..300 {
            for rules in [Rules::Linux, Rules::Rfc8290] {
                check(rules, seed, 1, (300, 1500));
                check(rules, seed, 3, (1514, 1500));
                check(rules, seed, 7, (64, 65_535));
                check(rules, seed, 12, (1, 40));
            }
        }
    }

    #[test]
    fn only_linux_forgets_a_newcomer_that_is_found_empty_beside_newcomers_only() {
        for (rules, next) in [(Rules::Linux, 0), (Rules::Rfc8290, 1)] {
            let mut rounds = Rounds::new(2, 1000, rules);
            rounds.join(0);
            rounds.charge(0, 100);
            rounds.join(1);
            // 0 is found empty; 1 sends, comes back into the same list, and sends all that it may.
            assert_eq!(rounds.choose(|member| member == 1), Some(1));
            rounds.charge(1, 1000);
            rounds.join(0);
            assert_eq!(rounds.choose(|_| true), Some(0), "{rules:?}");
            rounds.charge(0, 950);
            // With the RFC's rules 0 has 900 - 950 bytes left, with Linux's 1000 - 950.
            assert_eq!(rounds.choose(|_| true), Some(next), "{rules:?}");
        }
    }

    #[test]
    fn a_choice_ends_at_the_extremes() {
        for (quantum, length) in [(1, u64::MAX), (u32::MAX, u64::MAX), (0, 5)] {
            let mut rounds = Rounds::new(3, quantum, Rules::Linux);
            for member in 0..3 {
                rounds.join(member);
                rounds.charge(member, length);
                rounds.charge(member, length);
            }
            assert_eq!(rounds.choose(|_| true), Some(0), "all have the same debt");
            assert_eq!(rounds.choose(|_| false), None);
        }
    }

    #[test]
    fn a_member_that_comes_back_while_others_wait_is_not_a_newcomer() {
        let mut rounds = Rounds::new(2, 1000, Rules::Linux);
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
