//! A ring of flows and how long each is: turns by allotment, and the longest flow at once
//! [mckenney90; linux] [algorithms §9.9].
//!
//! A flow that becomes backlogged goes to the end of the ring with an allotment of one quantum. The
//! flow in front sends while its allotment is above zero, and its last packet may overdraw it; then
//! the flow gains a quantum and goes to the end. A flow that has no packet leaves at once, and what
//! it overdrew is forgotten. Lengths and the quantum count in units, rounded up.
//!
//! Flows with equally many packets form a list, the one first that came to that number last: when
//! the leaf is full, the first of the longest flows loses a packet. A flow above `depth` stays in
//! the list of those with `depth` packets. Invariant: a flow is in the ring and in one list if it
//! has a packet, and else in none.

use crate::state::{Reader, State, StateError, Writer};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The ring of the flows of one leaf, by their numbers from 1 on.
pub(super) struct Ring {
    plan: RingPlan,
    round: VecDeque<u32>,
    flows: Vec<Member>,
    /// By number of packets, the first flow of that list; [`NO_FLOW`] without one. Empty before the
    /// first flow.
    lists: Vec<u32>,
    /// The number of packets of the longest flows, at most `depth`.
    longest: usize,
}

/// The parameters of a ring.
#[derive(Clone, Copy)]
pub(super) struct RingPlan {
    /// The most flows at a time.
    pub flows: u32,
    /// The most packets of a flow.
    pub depth: u32,
    /// The number of bytes in which turns count.
    pub unit: u32,
    pub quantum: u32,
    /// Whether a flow loses its first packet, not its last.
    pub from_head: bool,
}

#[derive(Clone, Copy, Default)]
struct Member {
    /// Units that it may still send in its turn.
    allotment: i64,
    packets: u32,
    /// Its neighbours in the list of flows with as many packets; [`NO_FLOW`] without one.
    before: u32,
    behind: u32,
}

impl Ring {
    /// Returns an empty ring.
    pub(super) fn new(plan: RingPlan) -> Self {
        let (round, flows, lists) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { plan, round, flows, lists, longest: 0 }
    }

    /// Adds a flow, whose number is one more than the last one's.
    pub(super) fn add(&mut self) {
        if self.lists.is_empty() {
            self.lists = alloc::vec![NO_FLOW; self.plan.depth as usize + 1];
        }
        self.flows.push(Member::default());
    }

    /// Records that a packet joined `flow`.
    pub(super) fn join(&mut self, flow: u32) {
        let quantum = self.units(self.plan.quantum);
        let member = &mut self.flows[flow as usize];
        if member.packets == 0 {
            member.allotment = quantum;
            self.round.push_back(flow);
        }
        let packets = member.packets + 1;
        self.set_packets(flow, packets);
    }

    /// Returns whether the packet that joined `flow` last is one too many for it, or the flow is
    /// one too many for the ring.
    pub(super) fn refuses(&self, flow: u32) -> bool {
        let packets = self.flows[flow as usize].packets;
        packets > self.plan.depth || packets == 1 && self.round.len() > self.plan.flows as usize
    }

    /// Returns the flow whose turn it is. A second call returns the same flow.
    pub(super) fn choose(&mut self) -> Option<u32> {
        let quantum = self.units(self.plan.quantum);
        let mut passed = 0;
        loop {
            let flow = *self.round.front()?;
            let member = &mut self.flows[flow as usize];
            if member.allotment > 0 {
                return Some(flow);
            }
            member.allotment += quantum;
            self.round.rotate_left(1);
            passed += 1;
            if passed > self.round.len() {
                self.skip_rounds(quantum);
                passed = 0;
            }
        }
    }

    /// Records that the first packet of `flow`, whose turn it is, was taken to be sent.
    pub(super) fn took(&mut self, flow: u32, charged: u32) {
        let units = self.units(charged);
        if self.lost(flow) {
            // An allotment is at most a quantum, and a flow sends above zero only.
            self.flows[flow as usize].allotment -= units;
        }
    }

    /// Records that a packet of `flow` is gone; returns whether it has others.
    pub(super) fn lost(&mut self, flow: u32) -> bool {
        let packets = self.flows[flow as usize].packets;
        assert!(packets > 0, "only a flow with packets loses one");
        let packets = packets - 1;
        self.set_packets(flow, packets);
        if packets == 0 {
            self.leave(flow);
        }
        packets > 0
    }

    /// Returns the flow that loses a packet when the leaf is full: the longest, or that in front if
    /// each has one packet; and the number of its packets, at most `depth`.
    pub(super) fn longest(&self) -> Option<(u32, usize)> {
        match self.longest {
            0 => None,
            1 => self.round.front().map(|&flow| (flow, 1)),
            longest => Some((self.lists[longest], longest)),
        }
    }

    /// Returns whether flows lose their first packets, not their last.
    pub(super) fn drops_from_head(&self) -> bool {
        self.plan.from_head
    }

    /// Returns the number of packets of `flow`.
    pub(super) fn packets(&self, flow: u32) -> u32 {
        self.flows[flow as usize].packets
    }

    /// Removes all packets; flows lose their turns.
    pub(super) fn clear(&mut self) {
        self.round.clear();
        self.flows.fill(Member::default());
        self.lists.fill(NO_FLOW);
        self.longest = 0;
    }

    fn units(&self, bytes: u32) -> i64 {
        i64::from(bytes.max(1).div_ceil(self.plan.unit))
    }

    /// Gives all flows, none of which may send, the quanta of all rounds in which that is so.
    #[cold]
    fn skip_rounds(&mut self, quantum: i64) {
        let most = self.round.iter().map(|&flow| self.flows[flow as usize].allotment).max();
        debug_assert!(quantum > 0, "each round gives a flow something");
        let gain = (-most.unwrap_or(0)).max(0) / quantum * quantum;
        for &flow in &self.round {
            self.flows[flow as usize].allotment += gain;
        }
    }

    /// Takes `flow` out of the ring. It is in front if it sent or all are equal, and last if the
    /// ring refuses it.
    fn leave(&mut self, flow: u32) {
        if self.round.back() == Some(&flow) {
            self.round.pop_back();
        } else if self.round.front() == Some(&flow) {
            self.round.pop_front();
        } else {
            self.round.retain(|&other| other != flow);
        }
    }

    /// Returns the number of the list of flows with so many packets; 0 for no list.
    fn list(&self, packets: u32) -> usize {
        packets.min(self.plan.depth) as usize
    }

    fn set_packets(&mut self, flow: u32, packets: u32) {
        let member = &mut self.flows[flow as usize];
        let past = core::mem::replace(&mut member.packets, packets);
        let (from, to) = (self.list(past), self.list(packets));
        if from == to {
            return;
        }
        if from > 0 {
            self.unlink(flow, from);
        }
        if to > 0 {
            self.link(flow, to);
        }
        while self.longest > 0 && self.lists[self.longest] == NO_FLOW {
            self.longest -= 1;
        }
    }

    fn unlink(&mut self, flow: u32, list: usize) {
        let Member { before, behind, .. } = self.flows[flow as usize];
        if before == NO_FLOW {
            self.lists[list] = behind;
        } else {
            self.flows[before as usize].behind = behind;
        }
        if behind != NO_FLOW {
            self.flows[behind as usize].before = before;
        }
    }

    /// Puts `flow` at the front of a list.
    fn link(&mut self, flow: u32, list: usize) {
        debug_assert!(flow != NO_FLOW, "packets of no known flow are in no ring");
        let behind = core::mem::replace(&mut self.lists[list], flow);
        if behind != NO_FLOW {
            self.flows[behind as usize].before = flow;
        }
        let member = &mut self.flows[flow as usize];
        (member.before, member.behind) = (NO_FLOW, behind);
        self.longest = self.longest.max(list);
    }

    /// Returns the flows of all lists, each list from its first on, the shortest flows first.
    fn listed(&self) -> impl Iterator<Item = u32> {
        let first = self.lists.iter().copied().filter(|&flow| flow != NO_FLOW);
        let next = |&flow: &u32| {
            Some(self.flows[flow as usize].behind).filter(|&behind| behind != NO_FLOW)
        };
        first.flat_map(move |flow| core::iter::successors(Some(flow), next))
    }
}

/// The flows in their order with what they hold, then the order of the lists.
impl State for Ring {
    fn save(&self, to: &mut Writer) {
        let Self { plan: _, round, flows, lists: _, longest: _ } = self;
        to.number(round.len() as u64);
        for flow in round {
            let Member { allotment, packets, before: _, behind: _ } = flows[*flow as usize];
            flow.save(to);
            allotment.save(to);
            packets.save(to);
        }
        self.listed().for_each(|flow| flow.save(to));
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.clear();
        for _ in 0..from.count(self.flows.len(), "ring")? {
            let flow = from.index(self.flows.len(), "flow of a ring")? as u32;
            let (mut allotment, mut packets) = (0, 0);
            State::load(&mut allotment, from)?;
            State::load(&mut packets, from)?;
            let is_sound = flow != NO_FLOW && packets > 0 && ALLOTMENTS.contains(&allotment);
            if !is_sound || self.packets(flow) > 0 {
                return Err(StateError::Invalid("flow of a ring"));
            }
            self.flows[flow as usize] = Member { allotment, packets, ..Member::default() };
            self.round.push_back(flow);
        }
        let mut listed = Vec::new();
        for _ in 0..self.round.len() {
            listed.push(from.index(self.flows.len(), "flow of a list")? as u32);
        }
        let mut is_linked = alloc::vec![false; self.flows.len()];
        for &flow in listed.iter().rev() {
            let list = self.list(self.packets(flow));
            if list == 0 || core::mem::replace(&mut is_linked[flow as usize], true) {
                return Err(StateError::Invalid("flow of a list"));
            }
            self.link(flow, list);
        }
        if self.listed().eq(listed) { Ok(()) } else { Err(StateError::Invalid("lists")) }
    }
}

/// No flow: the first number is that of packets whose flow is unknown, which are in no ring.
const NO_FLOW: u32 = 0;
/// The range of an allotment, whatever the lengths and the quantum are.
const ALLOTMENTS: core::ops::RangeInclusive<i64> = -(1 << 33)..=1 << 33;
