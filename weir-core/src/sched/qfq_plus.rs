//! QFQ+: quick fair queueing of aggregates, as Linux's `qfq` is `[linux sch_qfq]`
//! [algorithms §4.9].
//!
//! Up to eight leaves of one weight and one longest packet form an *aggregate*. Aggregates are
//! ordered by tags in virtual time, by groups and slots, as leaves are in `qfq`. The one *in
//! service* sends until its budget, a longest packet for each member, does not cover the next
//! packet; then the next aggregate is chosen. In an aggregate the members take turns as in deficit
//! round robin. A leaf that gets a packet longer than its longest moves to another aggregate.
//! Weights count as they are written, so virtual time is slower the more classes there are, also
//! idle ones. Invariant: while a leaf waits an aggregate is in service; an aggregate with a leaf
//! that waits is in service or in the slot that `place` names; and a group with a filled slot is
//! in one of the four states.
//!
//! Differences from Linux: tags are moved back before they would wrap around; a group that drops
//! empty unblocks the ones that it blocked; and where several aggregates of a kind have room, the
//! first one gets the next member.

use super::qfq::groups::{Group, SLOTS};
use super::service::Weighted;
use super::{
    Changes, ClassSpec, Cost, Descriptor, Discipline, Explains, Head, Promises, Scheduler,
    Selection, Service, Tree, Waiting,
};
use crate::ids::LeafId;
use crate::order::lists::Lists;
use crate::order::weights::counted;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::{Reader, State, StateError, Writer, load_rows, save_rows, state};
use crate::units::{Bytes, Instant};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Quick fair queueing of aggregates.
pub struct QfqPlus {
    leaves: Vec<Leaf>,
    aggregates: Vec<Aggregate>,
    /// Aggregates with room for a member: weight, longest packet, number. Both are 0 for one
    /// without members.
    open: BTreeSet<(u32, u32, u32)>,
    groups: Vec<Group>,
    /// The slots of all groups, [`SLOTS`] each.
    slots: Lists,
    /// By state, a bit for each group with a filled slot: [`READY`] plus [`EARLY`], if it starts
    /// after virtual time, plus [`BLOCKED`], if a ready one of longer slots finishes before it.
    states: [u32; 4],
    virtual_time: u64,
    /// Virtual time when an aggregate was chosen last.
    chosen_at: u64,
    in_service: Option<u32>,
    /// The sum of the weights of all leaves.
    weights: u64,
    waiting: u32,
}

struct Leaf {
    weight: u32,
    aggregate: u32,
    /// Bytes that it may still send in its turn.
    deficit: i64,
    /// Charged length of the first packet; [`NOTHING`] while none waits.
    head: u32,
}

/// Leaves that are ordered as one.
#[derive(Clone, Copy, Default)]
struct Aggregate {
    /// The weight of each member.
    weight: u32,
    /// The longest packet of a member; its quantum.
    longest: u32,
    members: u32,
    start: u64,
    finish: u64,
    group: u8,
    /// The list of its slot; meaningless while it is in none.
    place: u32,
    /// Bytes that it may send in service, then and now.
    granted: u32,
    budget: u32,
    turns: Turns,
}

/// The members that wait, in the order of their turns.
#[derive(Clone, Copy, Default)]
struct Turns {
    leaves: [u32; MEMBERS_MAX as usize],
    count: u8,
}

impl Discipline for QfqPlus {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "qfq-plus",
        summary: "Quick fair queueing of up to eight leaves at a time, as Linux's `qfq`.",
        parameters: PARAMETERS,
        sources: &["linux sch_qfq", "qfq13 §III", "algorithms §4.9"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let count = tree.leaf_count();
        let group = |index: u32| Group::new(index as usize, SHORTEST + index);
        let mut plus = Self {
            leaves: Vec::with_capacity(count),
            aggregates: Vec::new(),
            open: BTreeSet::new(),
            groups: (0..GROUPS).map(group).collect(),
            slots: Lists::new(SLOTS * GROUPS as usize, 0),
            states: [0; 4],
            virtual_time: 0,
            chosen_at: 0,
            in_service: None,
            weights: 0,
            waiting: 0,
        };
        for (leaf, class) in tree.leaves() {
            let (weight, longest) = (weight(class), longest(tree, class));
            plus.leaves.push(Leaf { weight, aggregate: 0, deficit: 0, head: NOTHING });
            plus.join(leaf.0, longest);
        }
        Ok(plus)
    }
}

impl Scheduler for QfqPlus {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, head: Head) {
        let length = length_of(head.length);
        self.waiting += 1;
        self.fit(leaf, length);
        let state = &mut self.leaves[leaf.index()];
        let index = state.aggregate;
        state.head = length;
        state.deficit = i64::from(self.aggregates[index as usize].longest);
        self.begin_turns(leaf.0, index);
    }

    #[inline]
    fn joined(&mut self, _now: Instant, leaf: LeafId, length: Bytes) {
        self.fit(leaf, length_of(length));
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        if self.waiting == 0 {
            return Selection::Idle;
        }
        let Some(index) = self.in_service else { return Selection::Idle };
        let aggregate = &mut self.aggregates[index as usize];
        let first = aggregate.turns.first();
        if let Some(leaf) = first
            && self.leaves[leaf as usize].head <= aggregate.budget
        {
            return Selection::Leaf(LeafId(leaf));
        }
        aggregate.end_service();
        aggregate.grant();
        if first.is_some() {
            aggregate.start = aggregate.finish;
            aggregate.finish = aggregate.start + aggregate.span(aggregate.budget_max());
            self.schedule(index);
        }
        self.in_service = self.choose();
        let next = self.in_service.and_then(|next| self.aggregates[next as usize].turns.first());
        next.map_or(Selection::Idle, |leaf| Selection::Leaf(LeafId(leaf)))
    }

    #[inline]
    fn charge(&mut self, _now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let length = length_of(sent);
        let state = &mut self.leaves[leaf.index()];
        let aggregate = &mut self.aggregates[state.aggregate as usize];
        debug_assert_eq!(self.in_service, Some(state.aggregate), "it is in service");
        debug_assert_eq!(aggregate.turns.first(), Some(leaf.0), "the leaf whose turn it is sends");
        aggregate.budget = aggregate.budget.saturating_sub(length);
        state.deficit -= i64::from(length);
        state.head = next.map_or(NOTHING, |next| length_of(next.length));
        if next.is_none() {
            aggregate.turns.remove(leaf.0);
            self.waiting -= 1;
        } else if state.deficit < i64::from(state.head) {
            state.deficit += i64::from(aggregate.longest);
            aggregate.turns.rotate();
        }
        self.virtual_time += u64::from(length) * self.per_byte();
        if self.virtual_time >= RENEWAL {
            self.renew();
        }
        if let Some(next) = next {
            self.fit(leaf, length_of(next.length));
        }
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        let was_waiting = state.head != NOTHING;
        state.head = head.map_or(NOTHING, |head| length_of(head.length));
        match head {
            Some(head) => self.fit(leaf, length_of(head.length)),
            None if was_waiting => {
                self.waiting -= 1;
                self.end_turns(leaf.0);
            }
            None => {}
        }
    }

    #[inline]
    fn found_nothing(&mut self) {
        if let Some(index) = self.in_service.take() {
            let aggregate = &mut self.aggregates[index as usize];
            aggregate.end_service();
            aggregate.grant();
        }
    }
}

impl Explains for QfqPlus {
    /// [qfq13 §III] As for `qfq`, with a budget in place of a packet; and in the aggregate each
    /// other member may send two longest packets before.
    fn service(tree: &Tree) -> Service {
        let kinds: Vec<_> =
            tree.leaves().map(|(_, class)| (weight(class), longest(tree, class))).collect();
        let weights: u64 = kinds.iter().map(|&(weight, _)| u64::from(weight)).sum();
        let most = kinds.iter().map(|&(_, longest)| u64::from(longest * MEMBERS_MAX)).max();
        let row = |&(weight, longest): &(u32, u32)| {
            let slots = 3u128 << (SHORTEST + u32::from(group_of(weight, longest)));
            let slots = (slots * u128::from(weights)).div_ceil(u128::from(ONE));
            let turns = u128::from(longest) * 3 * u128::from(weights) / u128::from(weight);
            let late = (slots + turns).min(u128::from(u64::MAX / 4)) as u64;
            let late = Bytes::new(late + 2 * most.unwrap_or(0)).plus(tree.mtu()).plus(tree.mtu());
            let ahead = Bytes::new(u64::from(longest) * (6 * u64::from(MEMBERS_MAX) + 2));
            Weighted { weight: u64::from(weight), ahead, late }
        };
        Service::Fluid(kinds.iter().map(row).collect())
    }
}

impl Changes for QfqPlus {
    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let length = |head: Option<Head>| head.map_or(NOTHING, |head| length_of(head.length));
        let takes_turns = |leaf: usize| {
            let turns = &self.aggregates[self.leaves[leaf].aggregate as usize].turns;
            turns.iter().any(|other| other as usize == leaf)
        };
        let is_known = |leaf: usize, head: Option<Head>| {
            self.leaves[leaf].head == length(head) && takes_turns(leaf) == head.is_some()
        };
        let turns: usize = self.aggregates.iter().map(|one| one.turns.iter().count()).sum();
        self.waiting as usize == waiting.leaves()
            && turns == waiting.leaves()
            && waiting.all(is_known)
            && (self.waiting == 0 || self.in_service.is_some())
            && (0..self.aggregates.len() as u32).all(|index| self.is_placed(index))
            && self.groups_agree()
            && self.virtual_time < RENEWAL
    }
}

impl QfqPlus {
    /// Virtual time of a byte of the line.
    #[inline]
    fn per_byte(&self) -> u64 {
        (ONE / self.weights.max(1)).max(1)
    }

    /// Puts `leaf`, which is in no aggregate, into one for packets of up to `longest` bytes.
    fn join(&mut self, leaf: u32, longest: u32) {
        let weight = self.leaves[leaf as usize].weight;
        let kind = |weight, longest| (weight, longest, 0)..=(weight, longest, u32::MAX);
        let first = |range| self.open.range(range).next().map(|row| row.2);
        let index = first(kind(weight, longest)).unwrap_or_else(|| {
            let unused = self.open.range(kind(0, 0)).next().copied();
            let index = unused.map_or(self.aggregates.len() as u32, |row| row.2);
            match unused {
                Some(row) => _ = self.open.remove(&row),
                None => {
                    self.aggregates.push(Aggregate::default());
                    self.slots.add_item();
                }
            }
            let group = group_of(weight, longest);
            let fresh = Aggregate { weight, longest, group, ..Aggregate::default() };
            self.aggregates[index as usize] = fresh;
            index
        });
        self.leaves[leaf as usize].aggregate = index;
        self.resize(index, self.aggregates[index as usize].members + 1);
    }

    /// Gives an aggregate another number of members.
    fn resize(&mut self, index: u32, members: u32) {
        let aggregate = &mut self.aggregates[index as usize];
        let Aggregate { weight, longest, members: before, .. } = *aggregate;
        self.open.remove(&(weight, longest, index));
        self.weights += u64::from(weight) * u64::from(members);
        self.weights -= u64::from(weight) * u64::from(before);
        aggregate.members = members;
        match members {
            0 => {
                *aggregate = Aggregate::default();
                self.open.insert((0, 0, index));
            }
            MEMBERS_MAX => {}
            _ => _ = self.open.insert((weight, longest, index)),
        }
    }

    /// Makes sure that the aggregate of `leaf` allows packets of `length` bytes.
    #[inline]
    fn fit(&mut self, leaf: LeafId, length: u32) {
        let index = self.leaves[leaf.index()].aggregate;
        if length > self.aggregates[index as usize].longest {
            self.move_leaf(leaf.0, length);
        }
    }

    /// Moves `leaf` to an aggregate for packets of up to `longest` bytes.
    #[cold]
    fn move_leaf(&mut self, leaf: u32, longest: u32) {
        let before = self.leaves[leaf as usize].aggregate;
        let waits = self.end_turns(leaf);
        let members = self.aggregates[before as usize].members - 1;
        self.resize(before, members);
        if members == 0 && self.in_service == Some(before) {
            self.in_service = self.choose();
        }
        self.join(leaf, longest);
        if waits {
            self.begin_turns(leaf, self.leaves[leaf as usize].aggregate);
        }
    }

    /// Lets `leaf`, which has a packet, take turns in its aggregate.
    #[inline]
    fn begin_turns(&mut self, leaf: u32, index: u32) {
        let aggregate = &mut self.aggregates[index as usize];
        let was_idle = aggregate.turns.first().is_none();
        aggregate.turns.push(leaf);
        if !was_idle || self.in_service == Some(index) {
            return;
        }
        aggregate.grant();
        let start = self.fresh_start(index);
        let aggregate = &mut self.aggregates[index as usize];
        aggregate.start = start;
        aggregate.finish = start + aggregate.span(aggregate.budget_max());
        if self.in_service.is_none() {
            self.in_service = Some(index);
            (self.virtual_time, self.chosen_at) = (start, start);
        } else {
            self.schedule(index);
        }
    }

    /// Takes `leaf` out of the turns of its aggregate; returns whether it was there.
    fn end_turns(&mut self, leaf: u32) -> bool {
        let index = self.leaves[leaf as usize].aggregate;
        let aggregate = &mut self.aggregates[index as usize];
        if !aggregate.turns.remove(leaf) {
            return false;
        }
        if aggregate.turns.first().is_some() {
            return true;
        }
        if self.in_service == Some(index) {
            aggregate.end_service();
            self.in_service = self.choose();
            return true;
        }
        aggregate.finish = aggregate.start;
        self.leave_slot(index);
        true
    }

    /// Returns the start tag of an aggregate that becomes backlogged: its last finish tag while
    /// this is ahead of virtual time by at most a slot. Otherwise virtual time or, if a group of
    /// longer slots would block it then, the finish of that group.
    fn fresh_start(&self, index: u32) -> u64 {
        let Aggregate { finish, group: at, .. } = self.aggregates[index as usize];
        let group = &self.groups[usize::from(at)];
        let limit = group.round(self.virtual_time) + (1 << group.shift);
        let rounded = group.round(finish);
        if finish > self.virtual_time && rounded <= limit {
            return finish;
        }
        let longer = self.states[READY] >> at << at;
        match self.groups.get(longer.trailing_zeros() as usize) {
            Some(next) if rounded > next.finish() => limit.min(next.finish()),
            _ => self.virtual_time,
        }
    }

    /// Puts an aggregate into the slot of its start tag, as the first of that slot.
    fn schedule(&mut self, index: u32) {
        let Aggregate { start: tag, group: at, .. } = self.aggregates[index as usize];
        let group = &mut self.groups[usize::from(at)];
        let start = group.round(tag);
        if group.filled == 0 || group.start > tag {
            let is_alone = group.filled == 0 && self.in_service.is_none();
            if is_alone && self.states[READY] == 0 {
                self.virtual_time = self.virtual_time.max(start);
            }
            group.begin_at(start);
            let list = group.fill(start);
            self.place(index, list);
            self.classify(usize::from(at));
            return;
        }
        let list = group.fill(start);
        self.place(index, list);
    }

    fn place(&mut self, index: u32, list: usize) {
        self.slots.push_first(list, index);
        self.aggregates[index as usize].place = list as u32;
    }

    /// Takes an aggregate out of its slot.
    fn leave_slot(&mut self, index: u32) {
        let Aggregate { place, group: at, .. } = self.aggregates[index as usize];
        let (list, at) = (place as usize, usize::from(at));
        self.slots.remove(list, index);
        if self.slots.first(list).is_some() {
            return;
        }
        let group = &mut self.groups[at];
        let (is_front, finish) = (list == group.front_list(), group.finish());
        group.clear(list);
        if is_front {
            group.advance();
            self.classify(at);
            self.unblock(at, finish);
        }
    }

    /// Takes the aggregate that is served next out of its slot; `None` if none is in a slot.
    fn choose(&mut self) -> Option<u32> {
        self.make_eligible();
        let at = self.states[READY].trailing_zeros() as usize;
        let group = self.groups.get_mut(at)?;
        let (list, finish) = (group.front_list(), group.finish());
        let chosen = self.slots.pop(list);
        if self.slots.first(list).is_none() {
            group.advance();
            self.classify(at);
            self.unblock(at, finish);
        }
        chosen
    }

    /// Makes the groups eligible that virtual time has passed since the last choice; where none is
    /// ready, virtual time goes to the start of the shortest.
    fn make_eligible(&mut self) {
        let early = self.states[EARLY] | self.states[EARLY | BLOCKED];
        if self.states[READY] == 0
            && let Some(group) = self.groups.get(early.trailing_zeros() as usize)
        {
            self.virtual_time = self.virtual_time.max(group.start);
        }
        let flipped = (self.virtual_time ^ self.chosen_at) >> SHORTEST;
        self.chosen_at = self.virtual_time;
        if early != 0 {
            let passed = (1u64 << (u64::BITS - flipped.leading_zeros()).min(GROUPS)) - 1;
            self.change_states(passed as u32, EARLY, READY);
            self.change_states(passed as u32, EARLY | BLOCKED, BLOCKED);
        }
        if self.states[READY] == 0 {
            self.classify_all();
        }
    }

    /// Classifies all groups anew, from the longest slots down, since none is ready: virtual time
    /// goes to the first start.
    #[cold]
    fn classify_all(&mut self) {
        let filled = self.groups.iter().filter(|group| group.filled != 0);
        let Some(first) = filled.map(|group| group.start).min() else { return };
        self.virtual_time = self.virtual_time.max(first);
        self.chosen_at = self.virtual_time;
        (0..self.groups.len()).rev().for_each(|at| self.classify(at));
    }

    /// Recomputes the state of a group.
    fn classify(&mut self, at: usize) {
        self.states.iter_mut().for_each(|groups| *groups &= !(1 << at));
        let group = &self.groups[at];
        if group.filled == 0 {
            return;
        }
        let longer = self.states[READY] >> at << at;
        let next = self.groups.get(longer.trailing_zeros() as usize);
        let early = if group.start > self.virtual_time { EARLY } else { 0 };
        let is_blocked = next.is_some_and(|next| group.finish() > next.finish());
        let blocked = if is_blocked { BLOCKED } else { 0 };
        self.states[early | blocked] |= 1 << at;
    }

    /// Unblocks the groups that only group `at`, which finished at `finish` until now, blocked.
    fn unblock(&mut self, at: usize, finish: u64) {
        let longer = self.states[READY] >> at >> 1 << at << 1;
        let next = self.groups.get(longer.trailing_zeros() as usize);
        if next.is_some_and(|next| next.finish() <= finish) {
            return;
        }
        let shorter = (1 << at) - 1;
        self.change_states(shorter, BLOCKED, READY);
        self.change_states(shorter, EARLY | BLOCKED, EARLY);
    }

    fn change_states(&mut self, groups: u32, from: usize, to: usize) {
        let moved = self.states[from] & groups;
        self.states[from] &= !moved;
        self.states[to] |= moved;
    }

    /// Moves all tags back by a multiple of every slot.
    #[cold]
    fn renew(&mut self) {
        let most = SHORTEST + GROUPS;
        let back = (self.virtual_time - RENEWAL / 2) >> most << most;
        self.virtual_time -= back;
        self.chosen_at = self.chosen_at.saturating_sub(back);
        for aggregate in &mut self.aggregates {
            aggregate.start = aggregate.start.saturating_sub(back);
            aggregate.finish = aggregate.finish.saturating_sub(back);
        }
        for group in &mut self.groups {
            group.start = group.start.saturating_sub(back);
        }
    }

    /// Checks a loaded state: whether an aggregate that waits is in service or in its slot, and no
    /// other is.
    fn is_placed(&self, index: u32) -> bool {
        let aggregate = &self.aggregates[index as usize];
        let waits = aggregate.turns.first().is_some() && self.in_service != Some(index);
        let is_own = |leaf: u32| self.leaves[leaf as usize].aggregate == index;
        waits == self.slots.contains(index) && aggregate.turns.iter().all(is_own)
    }

    /// Checks a loaded state: whether each group that holds aggregates is in one state, and no
    /// other is in any.
    fn groups_agree(&self) -> bool {
        let states = |at: usize| self.states.iter().filter(|groups| *groups >> at & 1 == 1).count();
        let agrees = |(at, group): (usize, &Group)| states(at) == usize::from(group.filled != 0);
        let is_known = self.states.iter().all(|groups| groups >> GROUPS == 0);
        is_known && self.groups.iter().enumerate().all(agrees)
    }
}

impl Aggregate {
    /// Bytes that it may send in service.
    fn budget_max(&self) -> u32 {
        self.members * self.longest
    }

    /// Virtual time of so many bytes of it.
    fn span(&self, bytes: u32) -> u64 {
        u64::from(bytes) * (ONE / u64::from((self.weight * self.members).max(1)))
    }

    /// Sets the finish tag to that of the bytes that it sent.
    fn end_service(&mut self) {
        let sent = self.granted.saturating_sub(self.budget).min(self.budget_max());
        self.finish = self.start + self.span(sent);
    }

    fn grant(&mut self) {
        self.granted = self.budget_max();
        self.budget = self.granted;
    }
}

impl Turns {
    #[inline]
    fn first(&self) -> Option<u32> {
        (self.count > 0).then_some(self.leaves[0])
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        self.leaves.into_iter().take(usize::from(self.count))
    }

    /// Appends a leaf, one of at most [`MEMBERS_MAX`].
    fn push(&mut self, leaf: u32) {
        self.leaves[usize::from(self.count)] = leaf;
        self.count += 1;
    }

    fn rotate(&mut self) {
        self.leaves[..usize::from(self.count)].rotate_left(1);
    }

    /// Removes a leaf; returns whether it was there.
    fn remove(&mut self, leaf: u32) -> bool {
        let Some(at) = self.iter().position(|other| other == leaf) else { return false };
        self.leaves[at..usize::from(self.count)].rotate_left(1);
        self.count -= 1;
        true
    }
}

/// The group of an aggregate whose first member has this weight and longest packet: how often its
/// slot doubles the shortest.
fn group_of(weight: u32, longest: u32) -> u8 {
    let span = u64::from(longest) * (ONE / u64::from(weight));
    let bits = u64::BITS - (span - 1).leading_zeros();
    bits.saturating_sub(SHORTEST).min(GROUPS - 1) as u8
}

fn weight(class: &ClassSpec) -> u32 {
    class.params.number("weight").unwrap_or(1).clamp(1, WEIGHT_MAX) as u32
}

/// The longest packet of a class, until a longer one comes.
fn longest(tree: &Tree, class: &ClassSpec) -> u32 {
    let longest = class.params.bytes("maxpkt").map_or(tree.mtu(), |bytes| bytes);
    length_of(longest)
}

fn length_of(length: Bytes) -> u32 {
    counted(length) as u32
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "weight",
        scope: Scope::Leaf,
        kind: Kind::Number(1, WEIGHT_MAX),
        default: Some("1"),
        summary: "The leaf's part of the line, relative to the weights of the others.",
    },
    Parameter {
        name: "maxpkt",
        scope: Scope::Leaf,
        kind: Kind::Size(512, 65_536),
        default: Some("the largest packet"),
        summary: "The leaf's longest packet, until a longer one comes; leaves with equal weights \
                  and longest packets are ordered together.",
    },
];

/// [linux sch_qfq] `QFQ_MAX_WEIGHT`, `QFQ_MAX_AGG_CLASSES`, `ONE_FP`.
const WEIGHT_MAX: u64 = 1024;
const MEMBERS_MAX: u32 = 8;
const ONE: u64 = 1 << 30;
/// [linux sch_qfq] The shortest slot, `min_slot_shift`: that of the last group is as long as the
/// budget of an aggregate of weight 1 with packets of 64 KiB.
const SHORTEST: u32 = 30 + 16 + 3 - 24;
const GROUPS: u32 = 25;
/// Bits of a group's state.
const READY: usize = 0;
const EARLY: usize = 1;
const BLOCKED: usize = 2;
/// The tag at which all tags are moved back; a finish is at most 2^48 later.
const RENEWAL: u64 = 1 << 61;
const NOTHING: u32 = u32::MAX;

state!(Leaf {
    aggregate, deficit, head; kept: weight;
    check: |leaf: &Self| leaf.deficit.unsigned_abs() <= 1 << 40
});
state!(Turns { leaves, count; check: |turns: &Self| u32::from(turns.count) <= MEMBERS_MAX });
state!(Aggregate {
    weight, longest, members, start, finish, granted, budget, turns;
    kept: group, place;
    check: Aggregate::is_sound
});

impl Aggregate {
    /// Checks a loaded one, whose group follows from its kind.
    fn is_sound(&self) -> bool {
        let is_used = (1..=WEIGHT_MAX as u32).contains(&self.weight)
            && (1..=1 << 17).contains(&self.longest)
            && (1..=MEMBERS_MAX).contains(&self.members);
        let is_unused = (self.weight, self.longest, self.members, self.turns.count) == (0, 0, 0, 0);
        (is_used || is_unused)
            && self.start.max(self.finish) < RENEWAL * 2
            && self.granted.max(self.budget) <= MEMBERS_MAX << 17
    }
}

/// Tags, and the aggregates in each group's slots from its first one on. What is open, and the sum
/// of weights, follow.
impl State for QfqPlus {
    fn save(&self, to: &mut Writer) {
        let Self {
            leaves,
            aggregates,
            open: _,
            groups,
            slots,
            states,
            virtual_time,
            chosen_at,
            in_service,
            weights: _,
            waiting,
        } = self;
        save_rows(aggregates, to);
        leaves.save(to);
        for group in groups {
            group.filled.save(to);
            if group.filled == 0 {
                continue;
            }
            group.start.save(to);
            for list in filled_lists(group) {
                to.number(slots.iter(list).count() as u64);
                slots.iter(list).for_each(|index| index.save(to));
            }
        }
        states.save(to);
        virtual_time.save(to);
        chosen_at.save(to);
        in_service.save(to);
        waiting.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.aggregates.clear();
        load_rows(&mut self.aggregates, from, self.leaves.len() + 1)?;
        self.leaves.load(from)?;
        self.count_members()?;
        for at in 0..self.groups.len() {
            self.load_group(at, from)?;
        }
        self.states.load(from)?;
        self.virtual_time.load(from)?;
        self.chosen_at.load(from)?;
        self.in_service.load(from)?;
        let is_one = |&index: &u32| (index as usize) < self.aggregates.len();
        if !self.in_service.iter().all(is_one) {
            return Err(StateError::Invalid("aggregate in service"));
        }
        self.waiting.load(from)
    }
}

impl QfqPlus {
    /// Computes what follows from the members of loaded aggregates, and checks these.
    fn count_members(&mut self) -> Result<(), StateError> {
        let mut members = alloc::vec![0; self.aggregates.len()];
        for leaf in &self.leaves {
            let aggregate = self.aggregates.get(leaf.aggregate as usize);
            if aggregate.is_none_or(|aggregate| aggregate.weight != leaf.weight) {
                return Err(StateError::Invalid("aggregate of a leaf"));
            }
            members[leaf.aggregate as usize] += 1;
        }
        self.open.clear();
        self.slots = Lists::new(SLOTS * self.groups.len(), self.aggregates.len());
        for (index, aggregate) in (0..).zip(&mut self.aggregates) {
            let is_leaf = |leaf: u32| (leaf as usize) < self.leaves.len();
            if aggregate.members != members[index as usize] || !aggregate.turns.iter().all(is_leaf)
            {
                return Err(StateError::Invalid("members of an aggregate"));
            }
            if aggregate.members > 0 {
                aggregate.group = group_of(aggregate.weight, aggregate.longest);
            }
            if aggregate.members < MEMBERS_MAX {
                self.open.insert((aggregate.weight, aggregate.longest, index));
            }
        }
        Ok(())
    }

    fn load_group(&mut self, at: usize, from: &mut Reader<'_>) -> Result<(), StateError> {
        let group = &mut self.groups[at];
        group.filled.load(from)?;
        if group.filled == 0 {
            return Ok(());
        }
        group.start.load(from)?;
        let is_sound = group.filled & 1 == 1
            && group.start < RENEWAL * 2
            && group.round(group.start) == group.start;
        for list in filled_lists(group) {
            let count = from.count(self.aggregates.len(), "aggregates of a slot")?;
            for _ in 0..count {
                let index = from.index(self.aggregates.len(), "aggregate of a slot")?;
                let aggregate = &mut self.aggregates[index];
                if usize::from(aggregate.group) != at || self.slots.contains(index as u32) {
                    return Err(StateError::Invalid("aggregate of a slot"));
                }
                aggregate.place = list as u32;
                self.slots.push(list, index as u32);
            }
            if count == 0 {
                return Err(StateError::Invalid("filled slots"));
            }
        }
        if is_sound { Ok(()) } else { Err(StateError::Invalid("first slot of a group")) }
    }
}

/// The lists of a group's filled slots, from the first one on.
fn filled_lists(group: &Group) -> Vec<usize> {
    let is_filled = |(slot, _): &(usize, usize)| group.filled >> slot & 1 == 1;
    group.lists().enumerate().filter(is_filled).map(|(_, list)| list).collect()
}

#[cfg(test)]
mod tests {
    use super::super::twins::{head, tree};
    use super::*;
    use crate::random::Random;

    /// Serves leaves that always have packets, of lengths up to `longest`; returns the order, and
    /// the bytes of each.
    fn serve(plus: &mut QfqPlus, longest: u64, packets: usize) -> (Vec<u32>, Vec<u64>) {
        let now = Instant::ZERO;
        let mut random = Random::new(7, 0);
        let mut length = || 1 + u64::from(random.below(longest as u32));
        let count = plus.leaves.len();
        let mut lengths: Vec<u64> = (0..count).map(|_| length()).collect();
        let leaves = (0..count as u32).map(LeafId);
        leaves.for_each(|leaf| plus.enqueued(now, leaf, head(lengths[leaf.index()])));
        let (mut order, mut bytes) = (Vec::new(), alloc::vec![0; count]);
        for _ in 0..packets {
            let Selection::Leaf(leaf) = plus.select(now) else { panic!("all wait") };
            let sent = core::mem::replace(&mut lengths[leaf.index()], length());
            plus.joined(now, leaf, Bytes::new(lengths[leaf.index()]));
            plus.charge(now, leaf, Bytes::new(sent), Some(head(lengths[leaf.index()])));
            bytes[leaf.index()] += sent;
            order.push(leaf.0);
        }
        (order, bytes)
    }

    #[test]
    fn bytes_are_shared_by_weights() {
        for weights in [&[2, 1, 5][..], &[1; 20], &[1, 1, 1, 7, 7, 1024], &[3; 9]] {
            let mut plus = QfqPlus::build(&tree(1, weights)).expect("any weights will do");
            let (_, bytes) = serve(&mut plus, 1500, 100_000);
            let (sum, weight_sum) = (bytes.iter().sum::<u64>(), weights.iter().sum::<u64>());
            for (bytes, weight) in bytes.iter().zip(weights) {
                let fair = sum * weight / weight_sum;
                assert!(bytes.abs_diff(fair) <= 40 * 1500, "{weights:?}: {bytes}, not {fair}");
            }
        }
    }

    /// The order of Linux for leaves that wait from the start, and whose packets have these lengths.
    /// A replica of the kernel's rules gives it, which gives the kernel's own order for the 14 974
    /// packets of two cases of `bench/twin/decisions`.
    #[test]
    fn the_order_is_that_of_linux() {
        let mut plus = QfqPlus::build(&tree(1, &[2, 1, 5, 1])).expect("any weights will do");
        let (now, lengths) = (Instant::ZERO, [1500, 200, 700, 1000]);
        for (leaf, length) in (0..).zip(lengths) {
            plus.enqueued(now, LeafId(leaf), head(length));
        }
        let mut order = alloc::string::String::new();
        for _ in 0..60 {
            let Selection::Leaf(leaf) = plus.select(now) else { panic!("all wait") };
            let length = lengths[leaf.index()];
            plus.charge(now, leaf, Bytes::new(length), Some(head(length)));
            order.push(char::from(b'a' + leaf.0 as u8));
        }
        assert_eq!(order, "accccaccccbbbbbbbdbbbccccccccaccccaaccbbbbbddccccaccccbbbbbb");
    }

    #[test]
    fn leaves_of_a_kind_form_aggregates_of_eight_and_a_longer_packet_moves_one() {
        let mut plus = QfqPlus::build(&tree(1, &[1; 9])).expect("any weights will do");
        let members =
            |plus: &QfqPlus| plus.aggregates.iter().map(|one| one.members).collect::<Vec<_>>();
        assert_eq!(members(&plus), [8, 1]);
        plus.enqueued(Instant::ZERO, LeafId(2), head(2000));
        assert_eq!(members(&plus), [7, 1, 1]);
        assert_eq!(plus.aggregates[plus.leaves[2].aggregate as usize].longest, 2000);
        assert_eq!(plus.select(Instant::ZERO), Selection::Leaf(LeafId(2)));
        // The last member leaves the second one, which becomes another kind.
        plus.enqueued(Instant::ZERO, LeafId(8), head(3000));
        assert_eq!(members(&plus), [7, 1, 1]);
        plus.enqueued(Instant::ZERO, LeafId(7), head(4000));
        assert_eq!(members(&plus), [6, 1, 1, 1]);
        assert_eq!(plus.weights, 9);
    }

    #[test]
    fn tags_are_moved_back_and_the_order_stays() {
        let weights = [2, 1, 5, 1, 1, 4];
        let mut late = QfqPlus::build(&tree(1, &weights)).expect("any weights will do");
        late.virtual_time = (RENEWAL - (1 << 50)) >> 50 << 50;
        late.chosen_at = late.virtual_time;
        let mut early = QfqPlus::build(&tree(1, &weights)).expect("any weights will do");
        let order = serve(&mut late, 1500, 50_000).0;
        assert!(late.virtual_time < RENEWAL - (1 << 51), "it was moved back");
        assert_eq!(order, serve(&mut early, 1500, 50_000).0);
    }

    #[test]
    fn a_drop_that_empties_an_aggregate_lets_the_others_go_on() {
        let weights = [1, 2, 3, 500, 1, 1000, 7];
        let mut plus = QfqPlus::build(&tree(1, &weights)).expect("any weights will do");
        let now = Instant::ZERO;
        let mut random = Random::new(3, 0);
        let mut waits = [0u32; 7];
        for _ in 0..200_000 {
            let leaf = LeafId(random.below(7));
            let held = &mut waits[leaf.index()];
            match random.below(5) {
                0 | 1 if *held == 0 => {
                    *held = 1 + random.below(3);
                    plus.enqueued(now, leaf, head(1 + u64::from(random.below(3000))));
                }
                2 if *held > 0 => {
                    *held -= 1;
                    plus.head_changed(now, leaf, (*held > 0).then(|| head(700)));
                }
                _ => match plus.select(now) {
                    Selection::Leaf(leaf) => {
                        let held = &mut waits[leaf.index()];
                        let sent = u64::from(plus.leaves[leaf.index()].head);
                        *held -= 1;
                        plus.charge(now, leaf, Bytes::new(sent), (*held > 0).then(|| head(1500)));
                    }
                    _ => assert!(waits.iter().all(|&held| held == 0), "a leaf waits"),
                },
            }
            assert_eq!(plus.waiting as usize, waits.iter().filter(|&&held| held > 0).count());
            assert!((0..plus.aggregates.len() as u32).all(|index| plus.is_placed(index)));
            assert!(plus.groups_agree());
        }
    }
}
