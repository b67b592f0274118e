//! Tins in one leaf, and in each the turns of its flows: newcomers before others, quanta divided by
//! the number of busy flows of a host, and COBALT for each flow `[linux]` [algorithms §9.20].
//!
//! A tin has priority over those before it while it sends less than its part of the rate; the tins
//! that send more go in the order in which they would have come up to it. Where no rate is known,
//! tins take turns by weight.
//!
//! A flow is *sparse* from its first packet until it has used up a quantum, and *bulk* from then
//! on, as long as it has packets when its turn comes. A flow that is found empty is *decaying*
//! while its COBALT has not come to rest; each choice looks at one of these first.
//!
//! Invariants: a flow that holds packets is in the list of sparse flows or of bulk flows of its
//! tin; a host's count is that of its bulk flows.

mod cobalt;
mod codes;
mod ranks;
mod ways;

pub(super) use codes::TinMap;
pub(super) use ways::PLACES;

use super::flows::{AckFilter, Flow};
use super::store::NONE;
use super::{Candidate, Release};
use crate::event::DropReason;
use crate::order::linked::LinkedLists;
use crate::packet::Host;
use crate::random::Random;
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::{Bytes, Duration, Instant, Rate};
use alloc::boxed::Box;
use alloc::vec::Vec;
use cobalt::{Cobalt, Terms};
use ranks::Ranks;
use ways::{Found, Ways};

/// The parameters of a policy for tins, and the seed of the link.
#[derive(Clone, Copy)]
pub(super) struct TinsPlan {
    pub map: TinMap,
    /// Whether the flows of a source, and of a destination, share quanta.
    pub divides: Sides,
    /// By which the tins have their parts; `None` if it is not known.
    pub rate: Option<Rate>,
    pub target: Duration,
    pub interval: Duration,
    pub mtu: u32,
    /// Whether packets lose their DSCP.
    pub washes: bool,
    /// Which acknowledgements are dropped.
    pub acks: Option<AckFilter>,
    pub seed: u64,
}

/// Which of the two hosts of a flow count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sides {
    /// Neither.
    None,
    /// One, which the port passes as the packet's host.
    One,
    /// Both, half of the packet's host each.
    Both,
}

/// The tins and flows of one leaf. Flows have the numbers of [`FlowQueues`](super::FlowQueues): 0
/// is the unknown one, which has no turns.
pub(super) struct Tins {
    plan: TinsPlan,
    tins: Vec<Tin>,
    /// By the flow's number.
    members: Vec<Member>,
    /// For each tin those of sparse, bulk and decaying flows.
    lists: LinkedLists,
    ranks: Ranks,
    /// The tins with flows in their lists of sparse and of bulk flows, a bit each.
    busy: u8,
    /// The tin that sent last.
    current: usize,
    /// The instant of the last arrival or departure.
    now: Instant,
    /// The flow that lost a packet when its turn had come, which it still is; 0 for none.
    goes_on: u32,
    random: Random,
    /// The bytes of buffers that the packets take which wait in chains.
    buffered: u64,
}

/// The clock of a tin, its tables, and who waits in it.
struct Tin {
    terms: Terms,
    /// Bytes that a flow may send in its turn, if its hosts have no other.
    quantum: i64,
    share: codes::TinShare,
    pace: Pace,
    /// When it comes up to its part of the rate.
    next: Instant,
    deficit: i64,
    /// Packets in the chains of its flows.
    packets: u32,
    /// The flows in its lists of sparse and of bulk flows.
    busy: u32,
    flows: Ways<Way>,
    sides: [Ways<Busy>; 2],
}

/// The time that bytes take at a rate, in the arithmetic of `[linux]`: nanoseconds a byte, shifted.
#[derive(Clone, Copy)]
struct Pace {
    nanos: u64,
    shift: u32,
}

/// A flow in the table of its tin.
#[derive(Clone, Copy, Default)]
struct Way {
    tag: u32,
    /// Its number; 0 in a place that none has.
    flow: u32,
}

/// A host in the table of its tin.
#[derive(Clone, Copy, Default)]
struct Busy {
    tag: u32,
    /// The number of its bulk flows.
    flows: u32,
}

/// One flow.
#[derive(Clone, Copy, Default)]
struct Member {
    tin: u8,
    /// Its place in the table of its tin, and those of its hosts in theirs.
    place: u16,
    hosts: [u16; 2],
    /// In the list of bulk flows, but it was empty when it came there, so no host counts it.
    waits: bool,
    deficit: i64,
    cobalt: Cobalt,
}

/// The tables of a leaf, made with its first packet: of many leaves most never have one.
pub(super) struct LateTins {
    plan: TinsPlan,
    made: Option<Box<Tins>>,
}

impl LateTins {
    pub(super) fn new(plan: TinsPlan) -> Self {
        Self { plan, made: None }
    }

    /// Makes the tables if there are none yet.
    #[inline(always)]
    pub(super) fn tables(&mut self) -> &mut Tins {
        let plan = &self.plan;
        self.made.get_or_insert_with(
            #[cold]
            #[inline(never)]
            || Box::new(Tins::new(*plan)),
        )
    }

    /// Asks the tables something; those that were not made yet are as new ones.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&Tins) -> T) -> T {
        match &self.made {
            Some(tins) => ask(tins),
            None => ask(&Tins::new(self.plan)),
        }
    }

    /// Counts on another rate from now on; tins that take turns by weight count on none.
    pub(super) fn follow_rate(&mut self, rate: Rate) {
        if self.plan.rate.is_none() {
            return;
        }
        self.plan.rate = Some(rate);
        let Some(made) = &mut self.made else { return };
        made.plan = self.plan;
        for (number, tin) in made.tins.iter_mut().enumerate() {
            (tin.terms, tin.quantum, tin.share, tin.pace) = Tin::parts(&self.plan, number);
        }
    }

    pub(super) fn washes(&self) -> bool {
        self.plan.washes
    }
}

impl Tins {
    fn new(plan: TinsPlan) -> Self {
        let tins = plan.map.tins();
        Self {
            plan,
            tins: (0..tins).map(|tin| Tin::new(&plan, tin)).collect(),
            members: Vec::new(),
            lists: LinkedLists::new(tins * LISTS),
            ranks: Ranks::default(),
            busy: 0,
            current: 0,
            now: Instant::ZERO,
            goes_on: 0,
            random: Random::new(plan.seed, STREAM),
            buffered: 0,
        }
    }

    /// Makes the unknown flow, before the first packet.
    pub(super) fn begin(&mut self, flows: &mut Vec<Flow>) {
        self.add_flow(flows, Member::default());
    }

    fn add_flow(&mut self, flows: &mut Vec<Flow>, member: Member) -> u32 {
        flows.push(Flow::EMPTY);
        self.members.push(member);
        self.lists.add_item();
        self.members.len() as u32 - 1
    }

    /// Records that time passed.
    pub(super) fn at(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Returns the number of the flow of a packet: of the queue that its hash leads to.
    pub(super) fn number(
        &mut self,
        flows: &mut Vec<Flow>,
        (host, flow): (Host, u32),
        traffic_class: u8,
    ) -> u32 {
        let tin = self.plan.map.tin(traffic_class);
        let tag = self.plan.hash(u64::from(flow));
        let lists = &self.lists;
        let found = self.tins[usize::from(tin)].flows.find(
            tag,
            |way| way.flow > 0 && way.tag == tag,
            |way| way.flow == 0 || lists.list_of(way.flow).is_none(),
        );
        let (Found::Own(place) | Found::Free(place) | Found::Taken(place)) = found;
        let number = self.tins[usize::from(tin)].flows.get(place).flow;
        if matches!(found, Found::Own(_)) && lists.list_of(number).is_some() {
            return number;
        }
        let number = match number {
            0 => self.add_flow(flows, Member { tin, place, ..Member::default() }),
            number => number,
        };
        *self.tins[usize::from(tin)].flows.entry(place) = Way { tag, flow: number };
        self.set_hosts(number, host);
        number
    }

    /// Gives a flow the hosts of the packet that has its queue now.
    fn set_hosts(&mut self, flow: u32, host: Host) {
        let halves = match self.plan.divides {
            Sides::None => return,
            Sides::One => [Some(host.folded()), None],
            Sides::Both => host.halves().map(Some),
        };
        let is_counted = self.is_counted(flow);
        let member = &mut self.members[flow as usize];
        let tin = &mut self.tins[usize::from(member.tin)];
        for (side, half) in halves.into_iter().enumerate() {
            let (Some(half), table) = (half, &mut tin.sides[side]) else { continue };
            let tag = self.plan.hash(half);
            if is_counted {
                table.entry(member.hosts[side]).flows -= 1;
            }
            let found = table.find(tag, |busy| busy.tag == tag, |busy| busy.flows == 0);
            let (Found::Own(place) | Found::Free(place) | Found::Taken(place)) = found;
            let busy = table.entry(place);
            busy.tag = tag;
            busy.flows += u32::from(is_counted);
            member.hosts[side] = place;
        }
    }

    /// Returns whether its hosts count `flow` among their bulk flows.
    fn is_counted(&self, flow: u32) -> bool {
        let list = self.lists.list_of(flow).map(|list| list % LISTS);
        list == Some(BULK) && !self.members[flow as usize].waits
    }

    /// Counts `flow` for its hosts, or no longer.
    fn count_for_hosts(&mut self, flow: u32, more: bool) {
        let sides = self.plan.sides();
        let member = &self.members[flow as usize];
        let tin = &mut self.tins[usize::from(member.tin)];
        for (table, &place) in tin.sides.iter_mut().zip(&member.hosts).take(sides) {
            let flows = &mut table.entry(place).flows;
            debug_assert!(more || *flows > 0, "a host counts its bulk flows");
            *flows = if more { *flows + 1 } else { *flows - 1 };
        }
    }

    /// Returns what `flow` gains in a round: the quantum over the number of bulk flows of the
    /// busier of its hosts, rounded at random so that no flow gains by rounding.
    fn gain(&mut self, flow: u32) -> i64 {
        (self.gain_in_parts(flow) + i64::from(self.random.below(1 << GAIN_SHIFT))) >> GAIN_SHIFT
    }

    /// Returns the same in parts of 2^16.
    fn gain_in_parts(&self, flow: u32) -> i64 {
        let member = &self.members[flow as usize];
        let tin = &self.tins[usize::from(member.tin)];
        // A side that does not count has an empty table.
        let [one, other] = &tin.sides;
        let load = one.get(member.hosts[0]).flows.max(other.get(member.hosts[1]).flows);
        tin.quantum * i64::from(PARTS[load as usize])
    }

    /// Records that a packet joined the chain of `flow` now.
    pub(super) fn join(&mut self, flow: u32, charged: u32, bytes: u64) {
        self.ranks.rise(flow, bytes);
        self.buffered += buffer(charged);
        if flow == 0 {
            return;
        }
        let member = &mut self.members[flow as usize];
        let list = usize::from(member.tin) * LISTS;
        let tin = &mut self.tins[usize::from(member.tin)];
        if tin.packets == 0 {
            tin.next = tin.next.max(self.now);
        }
        tin.packets += 1;
        match self.lists.list_of(flow).map(|own| own - list) {
            None | Some(DECAYING) => {
                tin.busy += 1;
                self.busy |= 1 << (list / LISTS);
                self.lists.move_to(list + SPARSE, flow);
                self.members[flow as usize].deficit = self.gain(flow);
            }
            Some(BULK) if member.waits => {
                member.waits = false;
                self.count_for_hosts(flow, true);
            }
            Some(_) => {}
        }
    }

    /// Counts a packet that waits in the chain of `flow`.
    pub(super) fn put_back(&mut self, flow: u32, charged: u32) {
        self.buffered += buffer(charged);
        if flow > 0 {
            self.tins[usize::from(self.members[flow as usize].tin)].packets += 1;
        }
    }

    /// Records that a packet was taken out of the chain of `flow`.
    pub(super) fn took(&mut self, flow: u32, charged: u32) {
        self.buffered -= buffer(charged);
        if flow > 0 {
            self.tins[usize::from(self.members[flow as usize].tin)].packets -= 1;
        }
    }

    /// Returns the bytes of buffers that the waiting packets take.
    pub(super) fn buffered(&self) -> u64 {
        self.buffered
    }

    /// Returns the flow whose turn it is, of a leaf in which a packet waits in some chain.
    pub(super) fn choose(&mut self, flows: &[Flow]) -> Option<u32> {
        let goes_on = core::mem::take(&mut self.goes_on);
        if goes_on > 0 && flows[goes_on as usize].head != NONE {
            return Some(goes_on);
        }
        let mut looks_at_decaying = true;
        // Terminates: each further round takes a flow out of the lists of the tin.
        loop {
            self.choose_tin()?;
            let chosen = self.choose_of(self.current, flows, &mut looks_at_decaying);
            if chosen.is_some() {
                return chosen;
            }
        }
    }

    /// Sets the tin whose turn it is; `None` if none has a flow.
    fn choose_tin(&mut self) -> Option<()> {
        if self.plan.rate.is_some() {
            self.current = self.first_by_rate()?;
            return Some(());
        }
        if self.busy == 0 {
            return None;
        }
        // Terminates: after two rounds each busy tin is skipped to its last quantum of debt.
        for passed in 1.. {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.busy > 0 {
                break;
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.share.quantum;
            }
            self.current = (self.current + 1) % self.tins.len();
            if passed % (2 * self.tins.len()) == 0 {
                self.skip_rounds_of_tins();
            }
        }
        Some(())
    }

    /// Gives all tins what they gain in all further rounds but one in which no busy one may send,
    /// at once.
    #[cold]
    fn skip_rounds_of_tins(&mut self) {
        let rounds = |tin: &Tin| -tin.deficit / tin.share.quantum;
        let busy = self.tins.iter().filter(|tin| tin.busy > 0);
        let skipped = busy.map(rounds).min().unwrap_or(0) - 1;
        for tin in self.tins.iter_mut().filter(|tin| tin.deficit <= 0) {
            tin.deficit += skipped.clamp(0, rounds(tin) + 1) * tin.share.quantum;
        }
    }

    /// Returns the last of the tins that are within their parts of the rate, or that which will be
    /// first; `None` if none has a flow.
    fn first_by_rate(&self) -> Option<usize> {
        if self.busy.is_power_of_two() {
            return Some(self.busy.trailing_zeros() as usize);
        }
        let (mut first, mut earliest) = (None, Instant::MAX);
        for (number, tin) in self.tins.iter().enumerate() {
            if tin.busy > 0 && (tin.next <= self.now || tin.next <= earliest) {
                (first, earliest) = (Some(number), tin.next);
            }
        }
        first
    }

    /// Returns the flow of `tin` whose turn it is; `None` if the first one was found empty.
    fn choose_of(
        &mut self,
        tin: usize,
        flows: &[Flow],
        looks_at_decaying: &mut bool,
    ) -> Option<u32> {
        let list = tin * LISTS;
        let mut passed = 0;
        loop {
            let looks = core::mem::take(looks_at_decaying);
            let first = |kind: usize| Some((self.lists.first(list + kind)?, kind));
            let decaying = if looks { first(DECAYING) } else { None };
            let (flow, kind) = decaying.or_else(|| first(SPARSE)).or_else(|| first(BULK))?;
            let is_empty = flows[flow as usize].head == NONE;
            if self.members[flow as usize].deficit <= 0 {
                self.renew((tin, kind), flow, is_empty);
                passed += 1;
                if passed > self.tins[tin].busy {
                    self.skip_rounds(tin);
                    passed = 0;
                }
                continue;
            }
            if !is_empty {
                return Some(flow);
            }
            self.found_empty((tin, kind), flow);
            return None;
        }
    }

    /// Gives `flow`, the first of its list, which used up its quantum, another one, and the last
    /// place of the bulk flows.
    #[inline]
    fn renew(&mut self, (tin, kind): (usize, usize), flow: u32, is_empty: bool) {
        if kind == BULK {
            self.lists.rotate(tin * LISTS + BULK);
        } else {
            self.tins[tin].busy += u32::from(kind == DECAYING);
            self.busy |= 1 << tin;
            self.lists.move_to(tin * LISTS + BULK, flow);
            self.members[flow as usize].waits = is_empty;
            if !is_empty {
                self.count_for_hosts(flow, true);
            }
        }
        let gain = self.gain(flow);
        self.members[flow as usize].deficit += gain;
    }

    /// Gives each bulk flow of `tin`, none of which may send, what it gains in all further rounds
    /// in which that is so, at once.
    #[cold]
    fn skip_rounds(&mut self, tin: usize) {
        let list = tin * LISTS + BULK;
        let rounds = |flow: u32| {
            let missing = 1 - self.members[flow as usize].deficit.min(0);
            let parts = i128::from(self.gain_in_parts(flow)).max(1);
            ((i128::from(missing) << GAIN_SHIFT) / parts) as i64
        };
        // The rounding may bring a flow there one round earlier.
        let rounds = self.lists.iter(list).map(rounds).min().unwrap_or(0) - 1;
        if rounds <= 0 {
            return;
        }
        let members: Vec<u32> = self.lists.iter(list).collect();
        for flow in members {
            let parts = i128::from(self.gain_in_parts(flow)) * i128::from(rounds);
            let gain = (parts + i128::from(self.random.below(1 << GAIN_SHIFT))) >> GAIN_SHIFT;
            self.members[flow as usize].deficit += gain as i64;
        }
    }

    /// Takes `flow`, the first of its list, whose turn it is but which has no packet, out of the
    /// turns.
    fn found_empty(&mut self, (tin, kind): (usize, usize), flow: u32) {
        let member = &mut self.members[flow as usize];
        member.cobalt.found_empty(&self.tins[tin].terms, self.now);
        let rests = member.cobalt.is_at_rest(self.now);
        let decaying = tin * LISTS + DECAYING;
        if kind == DECAYING && !rests {
            return self.lists.rotate(decaying);
        }
        self.leave(flow);
        if !rests {
            self.lists.move_to(decaying, flow);
        }
    }

    /// Takes `flow` out of its list.
    fn leave(&mut self, flow: u32) {
        let Some(list) = self.lists.list_of(flow) else { return };
        if self.is_counted(flow) {
            self.count_for_hosts(flow, false);
        }
        self.members[flow as usize].waits = false;
        let tin = &mut self.tins[list / LISTS];
        tin.busy -= u32::from(list % LISTS != DECAYING);
        if tin.busy == 0 {
            self.busy &= !(1 << (list / LISTS));
        }
        self.lists.remove(flow);
    }

    /// Decides about a packet of `flow` whose turn has come; the last one of its flow is not
    /// dropped.
    pub(super) fn release(&mut self, flow: u32, first: Candidate, is_last: bool) -> Release {
        if flow == 0 {
            return Release::Send;
        }
        let member = &mut self.members[flow as usize];
        let terms = &self.tins[usize::from(member.tin)].terms;
        let judgement = member.cobalt.judge(terms, self.now, first, &mut self.random);
        if judgement.drop && !is_last {
            return Release::Drop(DropReason::Late);
        }
        if judgement.mark { Release::Mark } else { Release::Send }
    }

    /// Records that a packet of `flow` was sent.
    pub(super) fn sent(&mut self, flow: u32, charged: u32) {
        if flow == 0 {
            return;
        }
        let member = &mut self.members[flow as usize];
        let tin = &mut self.tins[usize::from(member.tin)];
        member.deficit -= i64::from(charged);
        if self.plan.rate.is_none() {
            tin.deficit -= i64::from(charged);
        }
        let time = tin.pace.time(charged);
        if tin.next < self.now {
            tin.next = tin.next.after(time);
        } else {
            tin.next = tin.next.max(self.now.after(time));
        }
    }

    /// Records that a packet of `flow` was dropped when its turn had come.
    pub(super) fn dropped(&mut self, flow: u32) {
        self.goes_on = flow;
    }

    /// Records that a packet of `flow` was dropped since the leaf was full.
    pub(super) fn overflowed(&mut self, flow: u32) {
        if flow > 0 {
            let member = &mut self.members[flow as usize];
            let terms = &self.tins[usize::from(member.tin)].terms;
            member.cobalt.overflowed(terms, self.now);
        }
    }

    /// Returns the flow with most bytes, of equals the one that came first; `bytes` are those of a
    /// flow.
    pub(super) fn longest(&mut self, flows: u32, bytes: impl Fn(u32) -> u64) -> u32 {
        self.ranks.first(flows, bytes)
    }

    /// Removes all packets, and the flows from their turns.
    pub(super) fn forget_packets(&mut self) {
        for flow in 1..self.members.len() as u32 {
            self.leave(flow);
        }
        for tin in &mut self.tins {
            tin.packets = 0;
        }
        (self.buffered, self.goes_on) = (0, 0);
        self.ranks = Ranks::default();
    }

    /// Whether these can be the turns of these flows.
    pub(super) fn is_sound(&self, flows: &[Flow]) -> bool {
        flows.iter().enumerate().skip(1).all(|(number, flow)| {
            let list = self.lists.list_of(number as u32);
            let own = usize::from(self.members[number].tin);
            let is_busy = list.is_some_and(|list| list % LISTS != DECAYING);
            let is_counted = !self.members[number].waits || flow.head == NONE;
            list.is_none_or(|list| list / LISTS == own)
                && (is_busy || flow.head == NONE)
                && is_counted
        })
    }

    /// Writes which flow is where; the turns come behind.
    pub(super) fn save_tables(&self, to: &mut Writer) {
        for member in self.members.iter().skip(1) {
            member.tin.save(to);
            member.place.save(to);
            self.tins[usize::from(member.tin)].flows.get(member.place).tag.save(to);
        }
    }

    /// Reads what [`Tins::save_tables`] wrote, with so many flows.
    pub(super) fn load_tables(
        &mut self,
        flows: &mut Vec<Flow>,
        count: usize,
        from: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        *self = Self::new(self.plan);
        self.begin(flows);
        for _ in 1..count {
            let tin = from.index(self.tins.len(), "tin of a flow")?;
            let place = from.index(PLACES, "place of a flow")? as u16;
            let mut tag = 0u32;
            tag.load(from)?;
            if self.tins[tin].flows.get(place).flow > 0 {
                return Err(StateError::Invalid("place of two flows"));
            }
            let member = Member { tin: tin as u8, place, ..Member::default() };
            let flow = self.add_flow(flows, member);
            *self.tins[tin].flows.entry(place) = Way { tag, flow };
        }
        Ok(())
    }

    /// Counts the flows of tins and hosts anew, by the lists.
    fn recount(&mut self) {
        self.busy = 0;
        for tin in &mut self.tins {
            tin.busy = 0;
            tin.sides.iter_mut().for_each(|table| table.for_each(|busy| busy.flows = 0));
        }
        for flow in 1..self.members.len() as u32 {
            let Some(list) = self.lists.list_of(flow) else { continue };
            let tin = &mut self.tins[list / LISTS];
            if list % LISTS != DECAYING {
                tin.busy += 1;
                self.busy |= 1 << (list / LISTS);
            }
            if self.is_counted(flow) {
                self.count_for_hosts(flow, true);
            }
        }
    }
}

/// The turns; the tables are written before.
impl State for Tins {
    fn save(&self, to: &mut Writer) {
        let Self {
            plan: _,
            tins,
            members,
            lists,
            ranks: _,
            busy: _,
            current,
            now,
            goes_on,
            random,
            buffered: _,
        } = self;
        members.save(to);
        tins.save(to);
        lists.save(to);
        current.save(to);
        now.save(to);
        goes_on.save(to);
        random.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.members.load(from)?;
        self.tins.load(from)?;
        self.lists.load(from)?;
        self.current = from.index(self.tins.len(), "tin that sent last")?;
        self.now.load(from)?;
        self.goes_on = from.index(self.members.len().max(1), "flow that goes on")? as u32;
        self.random.load(from)?;
        let sides = self.plan.sides();
        let is_sound = |member: &Member| {
            let tables = self.tins[usize::from(member.tin)].sides.iter().take(sides);
            let mut places = tables.zip(member.hosts);
            places.all(|(table, place)| table.has(place)) && DEFICITS.contains(&member.deficit)
        };
        let is_own = |list: usize, flow: u32| {
            flow > 0 && usize::from(self.members[flow as usize].tin) == list / LISTS
        };
        let mut lists = 0..self.tins.len() * LISTS;
        let listed = lists.all(|list| self.lists.iter(list).all(|flow| is_own(list, flow)));
        let within = self.tins.iter().all(|tin| DEFICITS.contains(&tin.deficit));
        if !self.members.iter().skip(1).all(is_sound) || !listed || !within {
            return Err(StateError::Invalid("flows of tins"));
        }
        self.recount();
        Ok(())
    }
}

impl TinsPlan {
    fn hash(&self, key: u64) -> u32 {
        (Random::new(self.seed, key).bits() >> 32) as u32
    }

    /// Returns the number of hosts of a flow that count.
    fn sides(&self) -> usize {
        match self.divides {
            Sides::None => 0,
            Sides::One => 1,
            Sides::Both => 2,
        }
    }
}

impl Tin {
    fn new(plan: &TinsPlan, number: usize) -> Self {
        let (terms, quantum, share, pace) = Self::parts(plan, number);
        Self {
            terms,
            quantum,
            share,
            pace,
            next: Instant::ZERO,
            deficit: 0,
            packets: 0,
            busy: 0,
            flows: Ways::new(),
            sides: [Ways::new(), Ways::new()],
        }
    }

    /// Returns what follows from the rate of the plan.
    fn parts(plan: &TinsPlan, number: usize) -> (Terms, i64, codes::TinShare, Pace) {
        let rate = plan.rate.map_or(0, |rate| rate.bits_per_second() / 8);
        let share = plan.map.share(rate, number);
        let pace = Pace::of(share.rate);
        let full_packet = pace.time(plan.mtu);
        let nanos = |duration: Duration| duration.as_nanos();
        let target = (full_packet.as_nanos().saturating_mul(3) / 2).max(nanos(plan.target));
        let longer = nanos(plan.interval).saturating_add(target - nanos(plan.target));
        let interval = longer.max(target.saturating_mul(2));
        let terms = Terms {
            target: Duration::from_nanos(target),
            interval: Duration::from_nanos(interval),
            full_packet,
        };
        let quantum = match share.rate {
            0 => QUANTUM_MAX,
            rate => (rate >> 12).clamp(QUANTUM_MIN, QUANTUM_MAX),
        };
        (terms, quantum as i64, share, pace)
    }
}

impl Pace {
    /// The pace of a rate in bytes a second; no time at all for 0.
    fn of(rate: u64) -> Self {
        if rate == 0 {
            return Self { nanos: 0, shift: 0 };
        }
        let mut shift = 34;
        let mut nanos = (u128::from(NANOS_PER_SECOND) << shift) as u64 / rate.max(RATE_MIN);
        while nanos >> 34 > 0 {
            nanos >>= 1;
            shift -= 1;
        }
        Self { nanos, shift }
    }

    fn time(self, bytes: u32) -> Duration {
        let nanos = (u128::from(bytes) * u128::from(self.nanos)) >> self.shift;
        Duration::from_nanos(nanos as u64)
    }
}

/// Returns the memory that Linux takes for a packet: a buffer with what it writes behind, in a
/// power of two, and the packet's descriptor. `memory` is in these bytes, as `memlimit` is there.
const fn buffer(charged: u32) -> u64 {
    let room = (charged as u64 + HEADROOM).next_multiple_of(64) + BEHIND;
    room.next_power_of_two() + DESCRIPTOR
}

/// Returns the most that the packets take if no policy says it: what the rate sends in four
/// intervals, and at least 4 MiB `[linux]`.
pub(super) fn memory(rate: Option<Rate>, interval: Duration) -> Bytes {
    let Some(rate) = rate else { return Bytes::new(MEMORY_UNLIMITED) };
    let micros = u128::from(interval.as_nanos() / 1000);
    let bytes = u128::from(rate.bits_per_second() / 8) * micros * 4 / 1_000_000;
    Bytes::new((bytes.min(u128::from(MEMORY_UNLIMITED)) as u64).max(MEMORY_MIN))
}

/// Bytes that Linux leaves free in front of a frame, and writes behind it.
const HEADROOM: u64 = 16;
const BEHIND: u64 = 320;
const DESCRIPTOR: u64 = 256;
/// The limit of 10 240 full packets.
const MEMORY_UNLIMITED: u64 = 10_240 * 1514;
const MEMORY_MIN: u64 = 4 << 20;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Bytes a second below which a rate counts as this.
const RATE_MIN: u64 = 64;
const QUANTUM_MIN: u64 = 300;
const QUANTUM_MAX: u64 = 1514;
/// Gains are computed in parts of 2^16 bytes.
const GAIN_SHIFT: u32 = 16;
/// By the number of busy flows of a host, the part of a quantum that each of them has.
const PARTS: [u16; PLACES + 1] = {
    let mut parts = [u16::MAX; PLACES + 1];
    let mut load = 1;
    while load <= PLACES {
        parts[load] = u16::MAX / load as u16;
        load += 1;
    }
    parts
};
/// The deficits that a run may reach.
const DEFICITS: core::ops::Range<i64> = -(1 << 40)..1 << 40;
/// No leaf has this number, so no other dropper draws from this stream.
const STREAM: u64 = u64::MAX - 1;
/// The lists of a tin: sparse flows, bulk flows, decaying flows.
const LISTS: usize = 3;
const _: () = assert!(codes::TINS_MAX <= u8::BITS as usize, "each tin has a bit");
const SPARSE: usize = 0;
const BULK: usize = 1;
const DECAYING: usize = 2;

state!(Tin { next, deficit, sides; kept: terms, quantum, share, pace, packets, busy, flows });
state!(Busy { tag; kept: flows });
state!(Member { hosts, waits, deficit, cobalt; kept: tin, place });
