//! Hosts in one leaf and the flows of each: hosts take turns, and the flows of a host take turns in
//! its turns, newcomers before others on both levels [rfc8290 §4.2].
//!
//! Two tables are exact: a host is found by its address, a flow by its host and the number of 32
//! bits that the port computes of its headers. So no two hosts share turns by chance, nor do flows
//! of different hosts. A full table gives the place of an idle host or flow to the new one. Where a
//! search of [`SEARCH_MAX`] places finds no idle one, the packet joins the *rest*: one flow of one
//! host, for all of these. Such packets are counted.
//!
//! A flow that becomes backlogged while its host waits for a turn may send one packet ahead of all
//! turns, on credit: if the flow is new or the packet fits into what is left of its quantum, and
//! the host owes less than a quantum. If the host owes more, it sends that packet first in the
//! host's next turn. Host and flow are charged. So the wait of a sparse flow does not grow with the
//! number of hosts and flows, and all share as without it.
//!
//! Invariants: a host that holds packets, and each of its flows that does, is listed; the packets
//! of a host are the sum of those of its flows.

use super::flows::Flow;
use super::store::NONE;
use crate::account::Count;
use crate::order::lists::Lists;
use crate::order::rounds::{Rounds, Rules};
use crate::packet::Host;
use crate::random::Random;
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::{Bytes, Duration};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The hosts and flows of one leaf. Flows have the numbers of [`FlowQueues`](super::FlowQueues): 0
/// is the unknown one, which has no turns.
pub(super) struct Hosts {
    plan: HostsPlan,
    /// The first is the rest. Empty until a packet arrives.
    hosts: Vec<Member>,
    /// By the flow's number, to whom it belongs; the second flow is that of the rest.
    owners: Vec<Owner>,
    by_address: Index,
    by_flow: Index,
    /// Hosts take turns here, each by its number.
    turns: Rounds,
    /// The turns of flows, a group for each host.
    inner: Rounds,
    /// Flows that may send a packet ahead of their host's turn.
    ahead: VecDeque<u32>,
    /// By host, the flows that send a packet first in its turn, since it owed too much for more.
    first: Lists,
    search: Search,
    /// The sums of hosts whose places others have now.
    former: Tally,
    /// Packets that joined the rest.
    crowded: u64,
}

/// The parameters of a policy for hosts, and the seed of the link.
#[derive(Clone, Copy)]
pub(super) struct HostsPlan {
    /// Bytes that a host sends in a turn, and a flow in a turn of its host.
    pub quantum: u32,
    pub seed: u64,
}

#[derive(Clone, Copy, Default)]
struct Member {
    host: Host,
    held: Count,
    /// The packets in the chains of its flows: all but one that is chosen.
    chained: u32,
    tally: Tally,
}

/// The sums of a host so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Tally {
    sent: Count,
    dropped: Count,
    /// The sum of the times that its packets waited, in nanoseconds.
    waited: u64,
    waited_max: Duration,
}

#[derive(Clone, Copy, Default)]
struct Owner {
    /// The number of the host.
    host: u32,
    /// Distinguishes it from other flows of the host.
    flow: u32,
    /// Whether it is in `ahead`.
    is_ahead: bool,
}

/// Where the next search for an idle place begins.
#[derive(Clone, Copy, Default)]
struct Search {
    host: u32,
    flow: u32,
}

/// The numbers of entries of a table by their hash, chained by bucket.
#[derive(Default)]
struct Index {
    /// The first entry of each bucket.
    heads: Vec<u32>,
    nexts: Vec<u32>,
}

/// The sums of one host of a leaf since it became known, and the packets that it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostAccount {
    /// The host.
    pub host: Host,
    /// Packets that left, and their charged bytes.
    pub sent: Count,
    /// Packets that were dropped after they had joined the queue.
    pub dropped: Count,
    /// Packets that wait.
    pub backlog: Count,
    /// The mean time that packets waited which left.
    pub delay_mean: Duration,
    /// The longest time that a packet waited which left.
    pub delay_max: Duration,
}

/// The hosts of a leaf that have places.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostAccounts {
    /// Those that sent most bytes, first.
    pub hosts: Vec<HostAccount>,
    /// The number of hosts in the table.
    pub known: u32,
    /// All hosts that are not listed, those whose places others have now and the rest included.
    pub others: HostAccount,
    /// Packets that found the tables full of busy hosts or flows, and so shared one queue.
    pub crowded: u64,
}

/// The tables of a leaf, made with its first packet: of many leaves most never have one.
pub(super) struct LateHosts {
    plan: HostsPlan,
    made: Option<Box<Hosts>>,
}

impl LateHosts {
    pub(super) fn new(plan: HostsPlan) -> Self {
        Self { plan, made: None }
    }

    /// Makes the tables if there are none yet.
    #[inline(always)]
    pub(super) fn tables(&mut self) -> &mut Hosts {
        let plan = &self.plan;
        self.made.get_or_insert_with(
            #[cold]
            #[inline(never)]
            || Box::new(Hosts::new(*plan)),
        )
    }

    /// Asks the tables something; those that were not made yet are as new ones.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&Hosts) -> T) -> T {
        match &self.made {
            Some(hosts) => ask(hosts),
            None => ask(&Hosts::new(self.plan)),
        }
    }

    /// See [`Hosts::clear`].
    pub(super) fn clear(&mut self, flows: &mut [Flow]) {
        if let Some(hosts) = &mut self.made {
            hosts.clear(flows);
        }
    }
}

impl Hosts {
    /// No hosts.
    pub(super) fn new(plan: HostsPlan) -> Self {
        Self {
            plan,
            hosts: Vec::new(),
            owners: Vec::new(),
            by_address: Index::default(),
            by_flow: Index::default(),
            turns: Rounds::new(0, plan.quantum, Rules::Rfc8290),
            inner: Rounds::without_groups(plan.quantum, Rules::Rfc8290),
            ahead: VecDeque::new(),
            first: Lists::new(0, 0),
            search: Search::default(),
            former: Tally::default(),
            crowded: 0,
        }
    }

    /// Makes the rest, before the first packet: the unknown flow, and its own.
    pub(super) fn begin(&mut self, flows: &mut Vec<Flow>) {
        self.add_host(Host::NONE);
        for _ in [UNKNOWN, REST_FLOW] {
            self.add_flow(flows, Owner { host: REST, ..Owner::default() });
        }
    }

    /// Returns the number of the flow of a packet, which may be new.
    pub(super) fn number(&mut self, flows: &mut Vec<Flow>, host: Host, flow: u32) -> u32 {
        let number = self.host_number(host).and_then(|host| self.flow_number(flows, host, flow));
        self.crowded += u64::from(number.is_none());
        number.unwrap_or(REST_FLOW)
    }

    /// Returns the number of a host; `None` if it is new and all places are busy.
    fn host_number(&mut self, host: Host) -> Option<u32> {
        let hash = self.plan.hash(host.folded());
        let known = self.by_address.find(hash, |number| self.hosts[number as usize].host == host);
        if known.is_some() {
            return known;
        }
        let number = if self.hosts.len() < HOSTS_MAX {
            self.add_host(host)
        } else {
            let number = self.idle_host()?;
            let member = Member { host, ..Member::default() };
            let before = core::mem::replace(&mut self.hosts[number as usize], member);
            self.by_address.remove(self.plan.hash(before.host.folded()), number);
            self.former = self.former.plus(before.tally);
            number
        };
        self.index_host(number);
        Some(number)
    }

    fn flow_number(&mut self, flows: &mut Vec<Flow>, host: u32, flow: u32) -> Option<u32> {
        let hash = self.plan.flow_hash(host, flow);
        let is = |number: u32| {
            let owner = self.owners[number as usize];
            (owner.host, owner.flow) == (host, flow)
        };
        let known = self.by_flow.find(hash, is);
        if known.is_some() {
            return known;
        }
        let owner = Owner { host, flow, is_ahead: false };
        let number = if self.owners.len() < FLOWS_MAX {
            self.add_flow(flows, owner)
        } else {
            let number = self.idle_flow(flows)?;
            let before = core::mem::replace(&mut self.owners[number as usize], owner);
            self.by_flow.remove(self.plan.flow_hash(before.host, before.flow), number);
            // CoDel begins anew with it.
            let state = &mut flows[number as usize];
            *state = Flow::EMPTY;
            state.lapsed = true;
            number
        };
        self.index_flow(number);
        Some(number)
    }

    /// Adds a host to the index, which has no other of its address.
    fn index_host(&mut self, number: u32) {
        let Self { plan, hosts, .. } = self;
        let hash = |number: u32| plan.hash(hosts[number as usize].host.folded());
        self.by_address.insert(number, hash);
    }

    /// Adds a flow to the index, which has no other flow of the host that is alike.
    fn index_flow(&mut self, number: u32) {
        let Self { plan, owners, .. } = self;
        let hash = |number: u32| {
            let Owner { host, flow, .. } = owners[number as usize];
            plan.flow_hash(host, flow)
        };
        self.by_flow.insert(number, hash);
    }

    fn add_host(&mut self, host: Host) -> u32 {
        self.hosts.push(Member { host, ..Member::default() });
        self.turns.add();
        self.inner.add_group();
        self.first.add_lists(1);
        self.hosts.len() as u32 - 1
    }

    fn add_flow(&mut self, flows: &mut Vec<Flow>, owner: Owner) -> u32 {
        flows.push(Flow::EMPTY);
        self.owners.push(owner);
        self.inner.add();
        self.first.add_item();
        self.owners.len() as u32 - 1
    }

    /// Returns a host without packets and turns.
    fn idle_host(&mut self) -> Option<u32> {
        for _ in 0..SEARCH_MAX {
            self.search.host = (self.search.host + 1) % self.hosts.len() as u32;
            let number = self.search.host;
            let is_busy = self.hosts[number as usize].held.packets > 0;
            if number != REST && !is_busy && !self.turns.contains(number) {
                return Some(number);
            }
        }
        None
    }

    /// Returns a flow without packets and turns.
    fn idle_flow(&mut self, flows: &[Flow]) -> Option<u32> {
        for _ in 0..SEARCH_MAX {
            self.search.flow = (self.search.flow + 1) % self.owners.len() as u32;
            let number = self.search.flow;
            let is_listed = self.inner.contains(number) || self.first.contains(number);
            let is_busy = flows[number as usize].packets > 0 || is_listed;
            if number > REST_FLOW && !is_busy && !self.owners[number as usize].is_ahead {
                return Some(number);
            }
        }
        None
    }

    /// Records that a packet joined the chain of `flow`, which held none if it `began`.
    pub(super) fn join(&mut self, flow: u32, charged: u32, began: bool) {
        if flow == UNKNOWN {
            return;
        }
        let host = self.owners[flow as usize].host;
        self.count(flow, charged);
        self.hosts[host as usize].chained += 1;
        let fits = || self.inner.deficit(flow) >= i64::from(charged);
        let has_credit = !self.inner.contains(flow) || fits();
        if began && has_credit && self.turns.contains(host) {
            let is_ahead = core::mem::replace(&mut self.owners[flow as usize].is_ahead, true);
            if !is_ahead {
                self.ahead.push_back(flow);
            }
        }
        self.inner.join_group(host as usize, flow);
        self.turns.join(host);
    }

    /// Counts a packet of `flow`.
    pub(super) fn count(&mut self, flow: u32, charged: u32) {
        if flow != UNKNOWN {
            let held = &mut self.hosts[self.owners[flow as usize].host as usize].held;
            *held = held.plus(Count { packets: 1, bytes: u64::from(charged) });
        }
    }

    /// As [`Hosts::join`], for a packet of a flow that has its turns.
    pub(super) fn put_back(&mut self, flow: u32) {
        if flow != UNKNOWN {
            self.hosts[self.owners[flow as usize].host as usize].chained += 1;
        }
    }

    /// Returns the flow whose turn it is. The flows that are found empty lapse.
    pub(super) fn choose(&mut self, flows: &mut [Flow]) -> Option<u32> {
        let Self { plan, hosts, owners, turns, inner, ahead, first, .. } = self;
        while let Some(flow) = ahead.pop_front() {
            let owner = &mut owners[flow as usize];
            owner.is_ahead = false;
            if flows[flow as usize].head == NONE {
                continue;
            }
            if turns.deficit(owner.host) > -i64::from(plan.quantum) {
                return Some(flow);
            }
            if !first.contains(flow) {
                first.push(owner.host as usize, flow);
            }
        }
        let host = turns.choose(|host| {
            let waits = hosts[host as usize].chained > 0;
            if !waits {
                lapse(inner, first, host, flows);
            }
            waits
        })?;
        while let Some(flow) = first.pop(host as usize) {
            if flows[flow as usize].head != NONE && inner.deficit(flow) > 0 {
                return Some(flow);
            }
        }
        inner.choose_of(host as usize, |flow| {
            let flow = &mut flows[flow as usize];
            flow.lapsed |= flow.head == NONE;
            flow.head != NONE
        })
    }

    /// Records that a packet was taken out of the chain of `flow`.
    pub(super) fn took(&mut self, flow: u32) {
        if flow != UNKNOWN {
            self.hosts[self.owners[flow as usize].host as usize].chained -= 1;
        }
    }

    /// Records that a packet of `flow` left, or that it was dropped.
    pub(super) fn left(&mut self, flow: u32, charged: u32, sent: bool) {
        let host = self.owners[flow as usize].host;
        let member = &mut self.hosts[host as usize];
        let tally = &mut member.tally;
        let sum = if sent { &mut tally.sent } else { &mut tally.dropped };
        sum.add(Bytes::new(u64::from(charged)));
        if flow == UNKNOWN {
            return;
        }
        member.held.packets -= 1;
        member.held.bytes -= u64::from(charged);
        if sent {
            self.turns.charge(host, u64::from(charged));
            self.inner.charge(flow, u64::from(charged));
        }
    }

    /// Records for how long a packet of `flow` waited that leaves.
    pub(super) fn waited(&mut self, flow: u32, time: Duration) {
        let tally = &mut self.hosts[self.owners[flow as usize].host as usize].tally;
        tally.waited = tally.waited.saturating_add(time.as_nanos());
        tally.waited_max = tally.waited_max.max(time);
    }

    /// Forgets all turns, as a choice does when no packet waits.
    pub(super) fn clear(&mut self, flows: &mut [Flow]) {
        for (host, _) in self.turns.iter() {
            lapse(&mut self.inner, &mut self.first, host, flows);
        }
        self.turns.clear();
        for flow in self.ahead.drain(..) {
            self.owners[flow as usize].is_ahead = false;
        }
    }

    /// Records that all packets were taken out.
    pub(super) fn forget_packets(&mut self) {
        for member in &mut self.hosts {
            (member.held, member.chained) = (Count::default(), 0);
        }
    }

    /// Returns the flow that holds most bytes of the host that holds most, but for the leaf's first
    /// packet, which is of the flow `first`; and the bytes of that host. Of equals, the first in
    /// the order of turns.
    pub(super) fn longest(
        &self,
        flows: &[Flow],
        (first, chosen): (u32, u64),
    ) -> Option<(u32, u64)> {
        let first_host = self.owners.get(first as usize).map(|owner| owner.host);
        let mut longest: Option<(u32, u64)> = None;
        for (host, _) in self.turns.iter() {
            let member = &self.hosts[host as usize];
            let own = if first != UNKNOWN && first_host == Some(host) { chosen } else { 0 };
            let behind = member.held.bytes - own;
            if member.chained > 0 && longest.is_none_or(|row| behind > row.1) {
                longest = Some((host, behind));
            }
        }
        let (host, bytes) = longest?;
        let mut most: Option<(u32, u64)> = None;
        for (flow, _) in self.inner.iter_of(host as usize) {
            let own = if flow == first { chosen } else { 0 };
            let state = &flows[flow as usize];
            let behind = state.bytes - own;
            if state.head != NONE && most.is_none_or(|row| behind > row.1) {
                most = Some((flow, behind));
            }
        }
        Some((most?.0, bytes))
    }

    /// Returns the accounts of the hosts that sent most bytes, at most so many.
    pub(super) fn accounts(&self, most: usize) -> HostAccounts {
        let mut order: Vec<_> = (1..self.hosts.len()).collect();
        let key = |&at: &usize| {
            let member = &self.hosts[at];
            (core::cmp::Reverse(member.tally.sent.bytes), member.host)
        };
        let most = most.min(order.len());
        if most < order.len() {
            order.select_nth_unstable_by_key(most, key);
        }
        let (shown, left_out) = order.split_at_mut(most);
        shown.sort_unstable_by_key(key);
        let rest = self.hosts.first().copied().unwrap_or_default();
        let others = Member { tally: self.former.plus(rest.tally), ..rest };
        let others = left_out.iter().fold(others, |sum, &at| sum.plus(self.hosts[at]));
        HostAccounts {
            hosts: shown.iter().map(|&at| self.hosts[at].account()).collect(),
            known: self.hosts.len().saturating_sub(1) as u32,
            others: others.account(),
            crowded: self.crowded,
        }
    }

    /// Whether these can be the turns of these flows, of which `first` holds one packet more than
    /// its chain if it `is_chosen`.
    pub(super) fn is_sound(&self, flows: &[Flow]) -> bool {
        let listed = |(number, flow): (usize, &Flow)| {
            flow.packets == 0 || number as u32 == UNKNOWN || self.inner.contains(number as u32)
        };
        let own = |host: usize| {
            let mut members = self.inner.iter_of(host);
            members.all(|(flow, _)| {
                flow != UNKNOWN && self.owners[flow as usize].host as usize == host
            })
        };
        let has_turn = |host: usize| {
            let is_busy = self.hosts[host].held.packets > 0;
            self.turns.contains(host as u32)
                || !is_busy && self.inner.iter_of(host).next().is_none()
        };
        let first = |host: usize| {
            let mut members = self.first.iter(host);
            let is_own = |flow: u32| self.owners[flow as usize].host as usize == host;
            members.all(|flow| flow != UNKNOWN && is_own(flow) && self.turns.contains(host as u32))
        };
        let hosts = 0..self.hosts.len();
        flows.iter().enumerate().all(listed)
            && hosts.clone().all(own)
            && hosts.clone().all(has_turn)
            && self.ahead.iter().all(|&flow| flow > UNKNOWN)
            && hosts.clone().all(first)
    }

    /// Writes who is in the tables; the turns come behind.
    pub(super) fn save_tables(&self, to: &mut Writer) {
        to.number(self.hosts.len() as u64);
        self.hosts.save(to);
        self.owners.save(to);
    }

    /// Reads what [`Hosts::save_tables`] wrote, with so many flows.
    pub(super) fn load_tables(
        &mut self,
        flows: &mut Vec<Flow>,
        count: usize,
        from: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        *self = Self::new(self.plan);
        self.begin(flows);
        let hosts = from.count(HOSTS_MAX, "hosts")?;
        while self.hosts.len() < hosts {
            self.add_host(Host::NONE);
        }
        self.hosts.load(from)?;
        while self.owners.len() < count {
            self.add_flow(flows, Owner::default());
        }
        self.owners.load(from)?;
        let is_rest = |flow: usize| self.owners.get(flow).is_some_and(|owner| owner.host == REST);
        if self.hosts.len() != hosts || self.owners.len() != count || !is_rest(0) || !is_rest(1) {
            return Err(StateError::Invalid("hosts"));
        }
        self.index_all()
    }

    fn index_all(&mut self) -> Result<(), StateError> {
        for number in 1..self.hosts.len() as u32 {
            let host = self.hosts[number as usize].host;
            let hash = self.plan.hash(host.folded());
            let is = |other: u32| self.hosts[other as usize].host == host;
            if self.by_address.find(hash, is).is_some() {
                return Err(StateError::Invalid("host twice"));
            }
            self.index_host(number);
        }
        for number in REST_FLOW + 1..self.owners.len() as u32 {
            let Owner { host, flow, .. } = self.owners[number as usize];
            let hash = self.plan.flow_hash(host, flow);
            let is = |other: u32| {
                let owner = self.owners[other as usize];
                (owner.host, owner.flow) == (host, flow)
            };
            if host as usize >= self.hosts.len() || self.by_flow.find(hash, is).is_some() {
                return Err(StateError::Invalid("flow of a host"));
            }
            self.index_flow(number);
        }
        Ok(())
    }
}

/// The turns; the tables are written before.
impl State for Hosts {
    fn save(&self, to: &mut Writer) {
        let Self {
            plan: _,
            hosts: _,
            owners: _,
            by_address: _,
            by_flow: _,
            turns,
            inner,
            ahead,
            first,
            search,
            former,
            crowded,
        } = self;
        turns.save(to);
        inner.save(to);
        ahead.save(to);
        first.save(to);
        search.save(to);
        former.save(to);
        crowded.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.turns.load(from)?;
        self.inner.load(from)?;
        self.ahead.load(from)?;
        self.first.load(from)?;
        self.search.load(from)?;
        self.former.load(from)?;
        self.crowded.load(from)?;
        let flows = self.owners.len();
        let is_in = |&flow: &u32| (flow as usize) < flows;
        if !self.ahead.iter().all(is_in) {
            return Err(StateError::Invalid("flow ahead of its turn"));
        }
        for &flow in &self.ahead {
            let is_ahead = core::mem::replace(&mut self.owners[flow as usize].is_ahead, true);
            if is_ahead {
                return Err(StateError::Invalid("flow twice ahead of its turn"));
            }
        }
        Ok(())
    }
}

/// Takes all flows of a host, in which no packet waits, out of its turns.
fn lapse(inner: &mut Rounds, first: &mut Lists, host: u32, flows: &mut [Flow]) {
    for (flow, _) in inner.iter_of(host as usize) {
        flows[flow as usize].lapsed = true;
    }
    inner.clear_group(host as usize);
    while first.pop(host as usize).is_some() {}
}

impl Member {
    /// Returns it with what another host holds and did.
    fn plus(self, other: Member) -> Member {
        let held = self.held.plus(other.held);
        Member { held, tally: self.tally.plus(other.tally), ..self }
    }

    fn account(&self) -> HostAccount {
        let Tally { sent, dropped, waited, waited_max } = self.tally;
        HostAccount {
            host: self.host,
            sent,
            dropped,
            backlog: self.held,
            delay_mean: Duration::from_nanos(waited / sent.packets.max(1)),
            delay_max: waited_max,
        }
    }
}

impl HostAccount {
    /// Returns it with what another host holds and did.
    pub fn plus(self, other: &HostAccount) -> HostAccount {
        let waited = |account: &HostAccount| {
            u128::from(account.delay_mean.as_nanos()) * u128::from(account.sent.packets)
        };
        let sent = self.sent.plus(other.sent);
        let mean = (waited(&self) + waited(other)) / u128::from(sent.packets.max(1));
        HostAccount {
            host: self.host,
            sent,
            dropped: self.dropped.plus(other.dropped),
            backlog: self.backlog.plus(other.backlog),
            delay_mean: Duration::from_nanos(mean as u64),
            delay_max: self.delay_max.max(other.delay_max),
        }
    }
}

impl Tally {
    fn plus(self, other: Tally) -> Tally {
        Tally {
            sent: self.sent.plus(other.sent),
            dropped: self.dropped.plus(other.dropped),
            waited: self.waited.saturating_add(other.waited),
            waited_max: self.waited_max.max(other.waited_max),
        }
    }
}

impl HostsPlan {
    fn hash(&self, key: u64) -> u64 {
        Random::new(self.seed, key).bits()
    }

    fn flow_hash(&self, host: u32, flow: u32) -> u64 {
        self.hash(u64::from(host) << 32 | u64::from(flow))
    }
}

impl Index {
    fn bucket(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.heads.len() - 1)
    }

    /// Returns the entry with this hash that `is` accepts.
    fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        if self.heads.is_empty() {
            return None;
        }
        let mut number = self.heads[self.bucket(hash)];
        while number != NONE && !is(number) {
            number = self.nexts[number as usize];
        }
        (number != NONE).then_some(number)
    }

    /// Adds an entry with the hash that `hash` gives to its number, as it does to all others.
    fn insert(&mut self, number: u32, hash: impl Fn(u32) -> u64) {
        if self.nexts.len() <= number as usize {
            self.nexts.resize(number as usize + 1, NONE);
        }
        if self.nexts.len() > self.heads.len() {
            self.spread(&hash);
        }
        self.chain(number, hash(number));
    }

    fn chain(&mut self, number: u32, hash: u64) {
        let bucket = self.bucket(hash);
        self.nexts[number as usize] = core::mem::replace(&mut self.heads[bucket], number);
    }

    /// Spreads the entries over as many buckets as there may be numbers now.
    #[cold]
    fn spread(&mut self, hash: &impl Fn(u32) -> u64) {
        let buckets = self.nexts.len().next_power_of_two().max(BUCKETS_AT_FIRST);
        let heads = core::mem::replace(&mut self.heads, alloc::vec![NONE; buckets]);
        for mut number in heads {
            while number != NONE {
                let next = self.nexts[number as usize];
                self.chain(number, hash(number));
                number = next;
            }
        }
    }

    /// Removes an entry, which is in the bucket of this hash.
    fn remove(&mut self, hash: u64, number: u32) {
        let bucket = self.bucket(hash);
        let next = self.nexts[number as usize];
        if self.heads[bucket] == number {
            self.heads[bucket] = next;
            return;
        }
        let mut before = self.heads[bucket];
        while self.nexts[before as usize] != number {
            before = self.nexts[before as usize];
        }
        self.nexts[before as usize] = next;
    }
}

state!(Member { host, tally; kept: held, chained });
state!(Tally { sent, dropped, waited, waited_max });
state!(Owner { host, flow; kept: is_ahead });
state!(Search { host, flow });

/// Bound: hosts of a leaf with places of their own, one of them for the rest; a further host joins
/// the rest while none is idle, and its packets are counted.
pub(super) const HOSTS_MAX: usize = 1 << 12;
/// Bound: flows of a leaf with places of their own, more than a full leaf holds packets by default;
/// a further flow joins the rest while none is idle.
pub(super) const FLOWS_MAX: usize = 1 << 15;
/// Bound: places of a full table that are searched for an idle one; behind them the packet joins
/// the rest.
const SEARCH_MAX: usize = 64;
/// The buckets of an index with few entries.
const BUCKETS_AT_FIRST: usize = 8;
/// The number of the unknown flow, and of the flow of the rest.
const UNKNOWN: u32 = 0;
const REST_FLOW: u32 = 1;
/// The number of the host that stands for those without a place.
const REST: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn the_index_agrees_with_an_ordered_map() {
        let mut index = Index::default();
        let mut keys: Vec<u64> = alloc::vec![u64::MAX; 200];
        let mut plain = BTreeMap::new();
        let mut random = Random::new(3, 0);
        let hash = |key: u64| Random::new(1, key).bits();
        for _ in 0..20_000 {
            let (number, key) = (random.below(200), u64::from(random.below(400)));
            let found = index.find(hash(key), |number| keys[number as usize] == key);
            assert_eq!(found, plain.get(&key).copied());
            let before = keys[number as usize];
            if found.is_none() {
                if before != u64::MAX {
                    index.remove(hash(before), number);
                    plain.remove(&before);
                }
                keys[number as usize] = key;
                index.insert(number, |number| hash(keys[number as usize]));
                plain.insert(key, number);
            }
        }
    }

    #[test]
    fn hosts_beyond_the_table_share_one_queue_and_are_counted_until_a_place_is_idle() {
        let (mut hosts, mut flows) = (Hosts::new(HostsPlan { quantum: 1514, seed: 1 }), Vec::new());
        hosts.begin(&mut flows);
        let host = |number: usize| Host::from_bits(number as u128 + 1);
        let places = HOSTS_MAX - 1;
        for number in 0..places {
            let flow = hosts.number(&mut flows, host(number), 7);
            hosts.join(flow, 100, true);
            flows[flow as usize].packets = 1;
        }
        assert_eq!(hosts.number(&mut flows, host(places), 7), REST_FLOW);
        assert_eq!((hosts.crowded, hosts.accounts(3).known), (1, places as u32));
        // One host sends its packet and loses its turn.
        let flow = hosts.number(&mut flows, host(64), 7);
        hosts.took(flow);
        hosts.left(flow, 100, true);
        flows[flow as usize].packets = 0;
        flows.iter_mut().skip(2).filter(|flow| flow.packets > 0).for_each(|flow| flow.head = 0);
        while hosts.turns.contains(65) {
            let next = hosts.choose(&mut flows).expect("others wait");
            hosts.turns.charge(hosts.owners[next as usize].host, 1514);
        }
        let mut number = REST_FLOW;
        for _ in 0..=places / SEARCH_MAX {
            number = hosts.number(&mut flows, host(places), 7);
            if number != REST_FLOW {
                break;
            }
        }
        assert!(number > REST_FLOW, "the place of the idle host is found");
        let others = hosts.accounts(places).others;
        assert_eq!((others.sent.packets, others.sent.bytes), (1, 100), "nothing is forgotten");
    }
}
