//! Flow queues in one leaf: a queue for each value of a hash, and whose turn it is [rfc8290 §4.1,
//! §4.2]. The turns are those of newcomers before others, those of a ring, those of hosts and then
//! of the flows of a host, those of tins and then of the flows of a tin, or those of paced flows,
//! of which none may be due yet.
//!
//! Below a scheduler that looks at first packets, the leaf's first packet is chosen when the one
//! before it leaves or is dropped, and stays first, so the head that the scheduler has seen stays
//! valid. A new flow therefore waits for one packet that was chosen before it arrived. Below others
//! it is chosen when the leaf is selected. All other packets wait in the slots of the store,
//! chained by flow. Packets that came from a leaf without flow queues, when the link was changed,
//! have no known flow; they go before all others, so that a flow's packets stay in order. So does,
//! where one queue holds all packets, the packet that finds it empty: Linux passes the queue by.
//! The state of a flow is allocated with its first packet, so a leaf with a thousand queues and
//! three flows uses memory for three.
//!
//! Invariant: a flow that holds packets is listed in the rounds, except the unknown flow; its count
//! is that of its chain plus, if the leaf's first packet is its own, that packet.

mod acks;
mod followed;
mod hash;

pub(super) use acks::AckFilter;
pub(super) use hash::{FlowHash, UNKNOWN_FLOW};

use super::hosts::{HOSTS_MAX, HostAccounts, Hosts, HostsPlan, LateHosts};
use super::paced::{Paced, PacedPacket, PacedPlan};
use super::pair::{Pair, PairPlan};
use super::ring::{Ring, RingPlan};
use super::store::{NONE, Slot};
use super::tins::{LateTins, Tins, TinsPlan};
use super::{Candidate, Limit, Release};
use crate::account::Count;
use crate::order::rounds::{Rounds, Rules};
use crate::packet::Host;
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::{Bytes, Duration, Instant};
use acks::Acks;
use alloc::vec::Vec;

/// The flow queues of one leaf.
pub struct FlowQueues {
    room: Room,
    /// By hash, the flow's number; 0 before its first packet. Empty until a packet arrives, and
    /// where flows belong to hosts or tins, whose tables number them.
    numbers: Vec<u32>,
    /// The first is that of packets whose flow is unknown.
    flows: Vec<Flow>,
    turns: Turns,
    /// Whether the leaf's first packet is chosen when the leaf is selected.
    late: bool,
    /// The charged length of the leaf's first packet, if that is chosen.
    chosen: Option<u32>,
    /// The flow of the leaf's first packet, if that is chosen.
    first: u32,
    /// The sum of packets and bytes of all flows.
    held: Count,
    batch: Batch,
    /// The flow of the packet that joined last, until the limits are enforced.
    joined: Option<u32>,
    /// The next packet passes the flows by.
    passes: bool,
    acks: Acks,
}

/// The number of queues, their order, and the limit of all together.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub queues: u32,
    pub order: Order,
    pub limit: Limit,
    pub memory: Bytes,
    /// Whether a packet that finds the queue empty passes the flows by where Linux lets it.
    pub passes: bool,
}

/// In which order flows send, and from which packets are dropped.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// Newcomers before others, with this quantum; the flow with most bytes drops from its front.
    Rounds(Rules, u32),
    /// A ring; the flow with most packets drops one.
    Ring(RingPlan),
    /// Hosts, then the flows of a host; the longest flow of the host with most bytes drops from its
    /// front.
    Hosts(HostsPlan),
    /// Tins, then the flows of a tin; the longest flow drops one packet from its front.
    Tins(TinsPlan),
    /// Two queues, told apart by the traffic class; nothing is dropped beyond the limit.
    Pair(PairPlan),
    /// Newcomers before others, each flow at its rate at most; nothing is dropped beyond the limit.
    Paced(PacedPlan),
}

impl Order {
    /// Returns which acknowledgements are dropped.
    const fn ack_filter(self) -> Option<AckFilter> {
        match self {
            Order::Tins(plan) => plan.acks,
            _ => None,
        }
    }
}

/// The turns of the flows.
enum Turns {
    Rounds(Rounds),
    Ring(Ring),
    Hosts(LateHosts),
    Tins(LateTins),
    Pair(Pair),
    Paced(Paced),
}

/// The packets of one flow in a leaf.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    /// The slot of its first packet other than the leaf's first; [`NONE`] without one.
    pub head: u32,
    /// The slot of its last packet; meaningless without a head.
    tail: u32,
    pub packets: u32,
    /// Whether its first packet arrived when none of it waited.
    began: bool,
    /// The flow was found empty since its last first packet.
    pub lapsed: bool,
    /// Its packet, the only one, passed the flows by; only in the unknown flow.
    passed: bool,
    /// How many packets of it the limits dropped since its last first packet.
    overflowed: u32,
    pub bytes: u64,
}

/// Packets and bytes still to be dropped from a flow.
#[derive(Clone, Copy, Default)]
struct Batch {
    flow: u32,
    packets: u32,
    bytes: u64,
}

/// A packet beyond the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Surplus {
    /// The first packet of the leaf.
    First,
    /// The first packet of a flow, by its number, other than the leaf's first.
    Behind(u32),
}

impl FlowQueues {
    pub(super) fn new(room: Room) -> Self {
        Self {
            room,
            numbers: Vec::new(),
            flows: Vec::new(),
            turns: Turns::new(room.order),
            late: false,
            chosen: None,
            first: 0,
            held: Count::default(),
            batch: Batch::default(),
            joined: None,
            passes: false,
            acks: Acks::new(room.order.ack_filter()),
        }
    }

    /// Returns the most flows, and hosts, that have a queue of their own.
    pub(super) fn places(&self) -> (u32, u32) {
        let hosts = if self.numbers_flows() { HOSTS_MAX as u32 } else { 0 };
        (self.room.queues, hosts)
    }

    /// Returns whether packets of one flow may overtake each other where their traffic classes
    /// differ: these lead to queues of their own.
    pub fn separates_classes(&self) -> bool {
        matches!(self.room.order, Order::Pair(_) | Order::Tins(_))
    }

    /// Lets the next packet pass the flows by: none waits, and Linux would send it unseen.
    pub(super) fn pass_by(&mut self) {
        debug_assert_eq!(self.held.packets, 0, "only an empty queue is passed by");
        self.passes = self.room.passes;
    }

    /// Appends the packet in `slot`, behind which nothing is chained.
    #[inline(always)]
    pub(super) fn join(&mut self, slots: &mut [Slot], slot: u32) {
        let entry = slots[slot as usize].entry;
        let passed = core::mem::take(&mut self.passes);
        let number = match &self.turns {
            Turns::Pair(pair) => {
                let number = pair.number(entry.label.traffic_class());
                self.begin_pair();
                number
            }
            _ => self.number(if passed { UNKNOWN_FLOW } else { entry.label.flow() }),
        };
        let flow = &mut self.flows[number as usize];
        flow.passed = passed;
        let began = flow.packets == 0;
        flow.began |= began;
        flow.packets += 1;
        flow.bytes += u64::from(entry.charged);
        self.held = self.held.plus(Count { packets: 1, bytes: u64::from(entry.charged) });
        let before = core::mem::replace(&mut flow.tail, slot);
        let is_head = flow.head == NONE;
        if is_head {
            flow.head = slot;
        } else {
            slots[before as usize].next = slot;
        }
        self.joined = Some(number);
        match &mut self.turns {
            Turns::Pair(pair) if is_head => pair.waits_since(number, Some(entry.arrived)),
            Turns::Pair(_) => {}
            Turns::Hosts(hosts) => hosts.tables().join(number, entry.charged, began),
            Turns::Tins(tins) => {
                let tins = tins.tables();
                tins.at(entry.arrived);
                tins.join(number, entry.charged, self.flows[number as usize].bytes);
            }
            Turns::Paced(paced) => paced.join(number, PacedPacket::of(&entry)),
            _ if number == 0 => {}
            Turns::Rounds(rounds) => rounds.join(number),
            Turns::Ring(ring) => ring.join(number),
        }
    }

    /// Returns the number of the flow of a packet where tables number flows, which a packet's
    /// label has in place of a hash; `None` elsewhere.
    #[inline]
    pub(super) fn assign(&mut self, host: Host, flow: u32, traffic_class: u8) -> Option<u16> {
        self.begin();
        let flows = &mut self.flows;
        let number = match &mut self.turns {
            Turns::Hosts(hosts) => hosts.tables().number(flows, host, flow),
            Turns::Tins(tins) => tins.tables().number(flows, (host, flow), traffic_class),
            _ => return None,
        };
        // There are fewer flows than labels have numbers.
        Some(number as u16)
    }

    /// Makes the unknown flow where tables number flows, before the first packet.
    #[inline(always)]
    fn begin(&mut self) {
        if self.flows.is_empty() {
            self.make_unknown();
        }
    }

    #[cold]
    fn make_unknown(&mut self) {
        match &mut self.turns {
            Turns::Hosts(hosts) => hosts.tables().begin(&mut self.flows),
            Turns::Tins(tins) => tins.tables().begin(&mut self.flows),
            _ => {}
        }
    }

    /// Returns whether labels have numbers of its own flows, which mean nothing in other leaves.
    pub(crate) fn numbers_flows(&self) -> bool {
        matches!(self.turns, Turns::Hosts(_) | Turns::Tins(_))
    }

    /// Returns whether packets lose their DSCP here.
    #[inline]
    pub(super) fn washes(&self) -> bool {
        matches!(&self.turns, Turns::Tins(tins) if tins.washes())
    }

    /// Records that time passed, before a choice.
    #[inline]
    pub(super) fn at(&mut self, now: Instant) {
        match &mut self.turns {
            Turns::Tins(tins) => tins.tables().at(now),
            Turns::Paced(paced) => paced.at(now),
            _ => {}
        }
    }

    /// Decides about the leaf's first packet, whose turn has come, where each flow of a tin has a
    /// COBALT.
    #[inline]
    pub(super) fn release(&mut self, now: Instant, first: Candidate) -> Release {
        let Turns::Tins(tins) = &mut self.turns else { return Release::Send };
        let is_last = self.flows[self.first as usize].head == NONE;
        let tins = tins.tables();
        tins.at(now);
        tins.release(self.first, first, is_last)
    }

    /// Returns the accounts of the hosts that sent most bytes, at most so many; `None` where hosts
    /// do not take turns.
    pub fn hosts(&self, most: usize) -> Option<HostAccounts> {
        let Turns::Hosts(hosts) = &self.turns else { return None };
        Some(hosts.with(|hosts| hosts.accounts(most)))
    }

    /// Records for how long the leaf's first packet waited, which leaves.
    pub(super) fn waited(&mut self, time: Duration) {
        if let Turns::Hosts(hosts) = &mut self.turns {
            hosts.tables().waited(self.first, time);
        }
    }

    /// Sets whether the leaf's first packet is chosen when the leaf is selected.
    pub(super) fn set_late(&mut self, late: bool) {
        self.late = late;
    }

    /// Returns whether the leaf's first packet is chosen.
    #[inline]
    pub(super) fn is_chosen(&self) -> bool {
        self.chosen.is_some()
    }

    /// Returns until when none of the packets may leave that were looked through in vain.
    #[inline]
    pub(super) fn not_before(&self) -> Option<Instant> {
        match &self.turns {
            Turns::Paced(paced) if self.chosen.is_none() => paced.not_before(),
            _ => None,
        }
    }

    /// Returns whether a packet that joined may change when a packet may leave.
    pub(super) fn has_turns(&self) -> bool {
        match &self.turns {
            Turns::Paced(paced) => paced.has_turns() || self.flows[0].head != NONE,
            _ => true,
        }
    }

    /// Returns whether the leaf's first packet is chosen when the one before it left.
    pub(super) const fn chooses_early(&self) -> bool {
        !self.late
    }

    /// Returns the bands of paced flows.
    pub(super) fn paced(&self) -> Option<&Paced> {
        match &self.turns {
            Turns::Paced(paced) => Some(paced),
            _ => None,
        }
    }

    /// Takes the packet that becomes the leaf's first out of its flow's chain; returns its slot,
    /// [`NONE`] if none waits, or none may leave before [`FlowQueues::not_before`].
    #[inline]
    pub(super) fn choose(&mut self, slots: &mut [Slot]) -> u32 {
        // As below classes of Linux, an empty leaf is not searched, so its flows stay listed.
        if self.held.packets == 0 {
            return NONE;
        }
        let flows = &mut self.flows;
        let chosen = match &mut self.turns {
            _ if flows[0].head != NONE => Some(0),
            Turns::Rounds(rounds) => rounds.choose(|flow| {
                let flow = &mut flows[flow as usize];
                flow.lapsed |= flow.head == NONE;
                flow.head != NONE
            }),
            Turns::Ring(ring) => ring.choose(),
            Turns::Hosts(hosts) => hosts.tables().choose(flows),
            Turns::Tins(tins) => tins.tables().choose(flows),
            Turns::Pair(pair) => pair.choose(|flow| flows[flow as usize].head != NONE),
            Turns::Paced(paced) => {
                let first = |flow: u32| slots.get(flows[flow as usize].head as usize);
                match paced.choose(|flow| first(flow).map(|slot| PacedPacket::of(&slot.entry))) {
                    None => return NONE,
                    chosen => chosen,
                }
            }
        };
        self.make_first(slots, chosen.expect("a flow that holds packets is listed"))
    }

    /// Takes the first packet of `flow` out of its chain, to be the leaf's first; returns its slot.
    #[inline(always)]
    fn make_first(&mut self, slots: &mut [Slot], flow: u32) -> u32 {
        debug_assert!(self.chosen.is_none(), "a leaf has one first packet");
        let slot = self.unchain(slots, flow);
        let entry = slots[slot as usize].entry;
        let charged = entry.charged;
        (self.first, self.chosen) = (flow, Some(charged));
        if let Turns::Pair(pair) = &mut self.turns {
            pair.took(entry.arrived);
        }
        if let Turns::Ring(ring) = &mut self.turns
            && flow > 0
        {
            ring.took(flow, charged);
        }
        slot
    }

    /// Records that the line looked for a packet in vain: all flows are forgotten.
    pub(super) fn found_nothing(&mut self) {
        match &mut self.turns {
            Turns::Rounds(rounds) => {
                for (flow, _) in rounds.iter() {
                    self.flows[flow as usize].lapsed = true;
                }
                rounds.clear();
            }
            // An empty ring has no flows.
            Turns::Ring(_) => {}
            Turns::Hosts(hosts) => hosts.clear(&mut self.flows),
            // Linux looks at no flow while no packet waits.
            Turns::Tins(_) | Turns::Paced(_) => {}
            Turns::Pair(pair) => pair.clear(),
        }
    }

    /// Records that the leaf's first packet, charged `charged` bytes, was sent.
    #[inline]
    pub(super) fn sent(&mut self, charged: u32) {
        match &mut self.turns {
            Turns::Rounds(rounds) => rounds.charge(self.first, u64::from(charged)),
            // They are charged when the packet is chosen.
            Turns::Ring(_) | Turns::Paced(_) => {}
            Turns::Hosts(hosts) => hosts.tables().left(self.first, charged, true),
            Turns::Tins(tins) => tins.tables().sent(self.first, charged),
            Turns::Pair(pair) => {
                let other = self.flows.get(Pair::other(self.first) as usize);
                pair.sent(self.first, charged, other.is_some_and(|flow| flow.packets > 0));
            }
        }
        self.forget_first(charged);
    }

    /// Records that the leaf's first packet was dropped. That costs its flow no deficit.
    pub(super) fn dropped_first(&mut self, charged: u32) {
        match &mut self.turns {
            Turns::Hosts(hosts) => hosts.tables().left(self.first, charged, false),
            Turns::Tins(tins) => tins.tables().dropped(self.first),
            _ => {}
        }
        self.forget_first(charged);
    }

    #[inline]
    fn forget_first(&mut self, charged: u32) {
        debug_assert!(
            self.chosen.is_none_or(|chosen| chosen == charged),
            "the chosen packet leaves"
        );
        self.chosen = None;
        self.flows[self.first as usize].passed = false;
        self.left(self.first, charged);
    }

    /// Takes a packet other than the leaf's first out of the chain of `flow`, to be dropped: the
    /// first one, or in a ring without `headdrop` the last one; returns its slot.
    pub(super) fn drop_behind(&mut self, slots: &mut [Slot], flow: u32) -> u32 {
        let slot = match &mut self.turns {
            Turns::Ring(ring) if flow > 0 => {
                ring.lost(flow);
                let from_head = ring.drops_from_head();
                if from_head { self.unchain(slots, flow) } else { self.unchain_last(slots, flow) }
            }
            _ => self.unchain(slots, flow),
        };
        let charged = slots[slot as usize].entry.charged;
        match &mut self.turns {
            Turns::Hosts(hosts) => hosts.tables().left(flow, charged, false),
            Turns::Tins(tins) => tins.tables().overflowed(flow),
            _ => {}
        }
        let row = &mut self.flows[flow as usize];
        row.overflowed = row.overflowed.saturating_add(1);
        self.left(flow, charged);
        slot
    }

    /// Returns whether [`FlowQueues::surplus`] or [`FlowQueues::take_redundant`] may find a packet,
    /// after one joined.
    #[inline]
    pub(super) fn may_drop(&self) -> bool {
        let is_ring = matches!(self.turns, Turns::Ring(_));
        is_ring || self.batch.packets > 0 || self.reads_segments() || !self.fits()
    }

    /// Returns the next packet to drop while the limit is exceeded: [rfc8290 §4.1.3] from the front
    /// of the flow that holds most bytes, half of them or 64 packets at once, so that the search
    /// pays off `[linux]`. A first packet that the scheduler has seen belongs to no flow any more;
    /// it is dropped only if no other waits.
    #[inline]
    pub(super) fn surplus(&mut self) -> Option<Surplus> {
        let joined = self.joined.take();
        // Paced flows refuse what arrives beyond the limit.
        let refuses = matches!(self.turns, Turns::Paced(_));
        if refuses || self.held.packets == 1 && self.flows[0].passed {
            return None;
        }
        if let Turns::Ring(_) = self.turns {
            return self.surplus_of_ring(joined);
        }
        let Batch { flow, packets, bytes } = self.batch;
        let goes_on = packets > 0 && bytes > 0 && self.flows[flow as usize].head != NONE;
        if !goes_on {
            self.batch = Batch::default();
            if self.fits() {
                return None;
            }
            let flow = self.longest();
            let half = (self.behind(flow) / 2).max(1);
            let one_by_one = matches!(self.turns, Turns::Tins(_));
            let (packets, bytes) = if one_by_one { (1, 1) } else { (BATCH_MAX, half) };
            self.batch = Batch { flow, packets, bytes };
        }
        let is_only = self.held.packets == 1;
        Some(if is_only { Surplus::First } else { Surplus::Behind(self.batch.flow) })
    }

    /// Returns the next packet to drop where flows form a ring, after one joined a flow: that one
    /// if the ring refuses it, else one of the longest flow if the limit is exceeded.
    fn surplus_of_ring(&mut self, joined: Option<u32>) -> Option<Surplus> {
        let Turns::Ring(ring) = &self.turns else { return None };
        let refused = joined.filter(|&flow| flow > 0 && ring.refuses(flow));
        let (longest, packets) = ring.longest().unwrap_or((self.first, 0));
        let unknown = self.flows.first().filter(|flow| flow.head != NONE && !flow.passed);
        let is_unknown = unknown.is_some_and(|flow| flow.packets as usize >= packets);
        let flow = match refused {
            Some(flow) => flow,
            None if self.fits() => return None,
            None if is_unknown => 0,
            None => longest,
        };
        self.batch.flow = flow;
        Some(if self.held.packets == 1 { Surplus::First } else { Surplus::Behind(flow) })
    }

    /// Takes the only packet, which is to be dropped, out of its chain; returns its slot.
    pub(super) fn take_only(&mut self, slots: &mut [Slot]) -> u32 {
        self.make_first(slots, self.batch.flow)
    }

    /// Returns the flow of the leaf's first packet, its backlog, and whether that packet arrived
    /// when none of it waited.
    pub(super) fn first(&self) -> (u32, Count, bool) {
        let flow = &self.flows[self.first as usize];
        let backlog = Count { packets: u64::from(flow.packets), bytes: flow.bytes };
        (self.first, backlog, flow.began)
    }

    /// Returns whether the flow of the leaf's first packet was found empty since the last call.
    pub(super) fn take_lapse(&mut self) -> bool {
        core::mem::take(&mut self.flows[self.first as usize].lapsed)
    }

    /// Returns how many packets of the flow of the leaf's first packet the limits dropped since the
    /// last call.
    pub(super) fn take_overflow(&mut self) -> u32 {
        core::mem::take(&mut self.flows[self.first as usize].overflowed)
    }

    /// Returns whether the leaf's first packet passed the flows by.
    pub(super) fn first_passed(&self) -> bool {
        self.flows[self.first as usize].passed
    }

    /// Returns the first slot of each flow that has one.
    pub(super) fn heads(&self) -> impl Iterator<Item = u32> {
        self.flows.iter().map(|flow| flow.head).filter(|&head| head != NONE)
    }

    /// Removes all packets, but retains the numbers of flows, and of an empty leaf the turns.
    pub(super) fn forget_packets(&mut self) {
        match &mut self.turns {
            Turns::Ring(ring) => ring.clear(),
            Turns::Rounds(rounds) if self.held.packets > 0 => rounds.clear(),
            Turns::Hosts(hosts) if self.held.packets > 0 => {
                hosts.clear(&mut self.flows);
                hosts.tables().forget_packets();
            }
            Turns::Tins(tins) if self.held.packets > 0 => tins.tables().forget_packets(),
            Turns::Pair(pair) => pair.clear(),
            Turns::Paced(paced) => paced.forget_packets(),
            Turns::Rounds(_) | Turns::Hosts(_) | Turns::Tins(_) => {}
        }
        self.joined = None;
        self.passes = false;
        self.acks.forget();
        self.chosen = None;
        self.flows.fill(Flow::EMPTY);
        self.held = Count::default();
        self.batch = Batch::default();
    }

    /// Makes the two queues of a pair, beside the unknown flow.
    fn begin_pair(&mut self) {
        if self.flows.is_empty() {
            self.numbers = alloc::vec![1, 2];
            self.flows = alloc::vec![Flow::EMPTY; PAIR];
        }
    }

    /// Returns the number of the flow of an arriving packet with this hash, and what waits of it.
    pub(super) fn arriving(&mut self, hash: u16) -> (u32, Count) {
        let number = self.number(hash);
        (number, self.backlog(number))
    }

    /// Returns what waits of the flow with this number, nothing of one that has none.
    pub(super) fn backlog(&self, flow: u32) -> Count {
        let row = self.flows.get(flow as usize);
        row.map_or_else(Count::default, |row| Count {
            packets: u64::from(row.packets),
            bytes: row.bytes,
        })
    }

    /// Returns since when the oldest packet of each of two queues waits, if one does.
    pub(super) fn pair_waits(&self) -> [Option<Instant>; 2] {
        let Turns::Pair(pair) = &self.turns else { return [None; 2] };
        pair.waits(self.chosen.map(|_| self.first))
    }

    /// Returns the number of the flow with this hash; where hosts have flows, it is the hash.
    #[inline(always)]
    fn number(&mut self, hash: u16) -> u32 {
        if !self.numbers_flows() {
            return self.number_of_hash(hash);
        }
        self.begin();
        debug_assert!((hash as usize) < self.flows.len(), "a label has the number of a flow");
        u32::from(hash)
    }

    /// Returns the number of the flow with this hash.
    #[inline]
    fn number_of_hash(&mut self, hash: u16) -> u32 {
        if self.numbers.is_empty() {
            self.numbers = alloc::vec![0; self.room.queues as usize];
            self.add_flow();
        }
        if hash == UNKNOWN_FLOW {
            return 0;
        }
        let part = (u64::from(hash) * u64::from(self.room.queues)) >> u16::BITS;
        if self.numbers[part as usize] == 0 {
            self.numbers[part as usize] = self.add_flow();
        }
        self.numbers[part as usize]
    }

    fn add_flow(&mut self) -> u32 {
        self.flows.push(Flow::EMPTY);
        match &mut self.turns {
            Turns::Rounds(rounds) => rounds.add(),
            Turns::Ring(ring) => ring.add(),
            Turns::Hosts(_) | Turns::Tins(_) => debug_assert!(false, "their tables add flows"),
            Turns::Pair(_) => {}
            Turns::Paced(paced) => paced.add(),
        }
        self.flows.len() as u32 - 1
    }

    #[inline(always)]
    fn unchain(&mut self, slots: &mut [Slot], flow: u32) -> u32 {
        let slot = self.flows[flow as usize].head;
        match &mut self.turns {
            Turns::Hosts(hosts) => hosts.tables().took(flow),
            Turns::Tins(tins) => tins.tables().took(flow, slots[slot as usize].entry.charged),
            Turns::Paced(paced) => paced.took(PacedPacket::of(&slots[slot as usize].entry)),
            Turns::Rounds(_) | Turns::Ring(_) | Turns::Pair(_) => {}
        }
        self.acks.took(slot);
        let row = &mut self.flows[flow as usize];
        row.head = core::mem::replace(&mut slots[slot as usize].next, NONE);
        if let Turns::Pair(pair) = &mut self.turns {
            let next = slots.get(row.head as usize).map(|next| next.entry.arrived);
            pair.waits_since(flow, next);
        }
        slot
    }

    /// Takes the last packet out of the chain of `flow`, which has one: costs the length of the
    /// chain, at most `depth` unless a change brought more.
    fn unchain_last(&mut self, slots: &mut [Slot], flow: u32) -> u32 {
        let flow = &mut self.flows[flow as usize];
        let last = flow.tail;
        let mut before = flow.head;
        if before == last {
            flow.head = NONE;
            return last;
        }
        while slots[before as usize].next != last {
            before = slots[before as usize].next;
        }
        slots[before as usize].next = NONE;
        flow.tail = before;
        last
    }

    #[inline]
    fn left(&mut self, flow: u32, charged: u32) {
        if self.batch.flow == flow && self.batch.packets > 0 {
            self.batch.packets -= 1;
            self.batch.bytes = self.batch.bytes.saturating_sub(u64::from(charged));
        }
        let flow = &mut self.flows[flow as usize];
        flow.began = false;
        flow.packets -= 1;
        flow.bytes -= u64::from(charged);
        self.held.packets -= 1;
        self.held.bytes -= u64::from(charged);
    }

    #[inline]
    fn fits(&self) -> bool {
        let within = match self.room.limit {
            Limit::Packets(packets) => self.held.packets <= u64::from(packets),
            Limit::Bytes(bytes) => self.held.bytes <= bytes.get(),
        };
        let taken = match &self.turns {
            Turns::Tins(tins) => tins.with(Tins::buffered),
            _ => self.held.bytes,
        };
        within && taken <= self.room.memory.get()
    }

    /// Returns the flow that holds most bytes beside the leaf's first packet; of equals the one
    /// that is listed first.
    fn longest(&mut self) -> u32 {
        if let Turns::Tins(_) = self.turns {
            return self.longest_of_tins();
        }
        let mut longest = (self.first, None);
        let rounds = match &self.turns {
            Turns::Rounds(rounds) => rounds,
            Turns::Ring(_) | Turns::Tins(_) | Turns::Paced(_) => return longest.0,
            Turns::Pair(_) => {
                let waiting = (0..self.flows.len() as u32).filter(|&flow| self.waits(flow));
                return waiting.max_by_key(|&flow| self.behind(flow)).unwrap_or(longest.0);
            }
            Turns::Hosts(hosts) => return hosts.with(|hosts| self.longest_of_hosts(hosts)),
        };
        let listed = rounds.iter().map(|(flow, _)| flow);
        for flow in core::iter::once(0).chain(listed) {
            let bytes = Some(self.behind(flow));
            let Flow { head, passed, .. } = self.flows[flow as usize];
            if head != NONE && !passed && bytes > longest.1 {
                longest = (flow, bytes);
            }
        }
        longest.0
    }

    /// As [`FlowQueues::longest`], where hosts have flows; the unknown flow counts as a host.
    fn longest_of_hosts(&self, hosts: &Hosts) -> u32 {
        let chosen = u64::from(self.chosen.unwrap_or(0));
        let known = hosts.longest(&self.flows, (self.first, chosen));
        let unknown = &self.flows[0];
        match known {
            Some((flow, bytes)) if unknown.head == NONE || bytes > self.behind(0) => flow,
            None if unknown.head == NONE => self.first,
            _ => 0,
        }
    }

    /// As [`FlowQueues::longest`], where flows belong to tins; the leaf's first packet counts for
    /// its flow, unless that holds no other.
    fn longest_of_tins(&mut self) -> u32 {
        let flows = &self.flows;
        let bytes = |flow: u32| match flows[flow as usize] {
            Flow { head: NONE, .. } => 0,
            Flow { bytes, .. } => bytes,
        };
        let Turns::Tins(tins) = &mut self.turns else { return self.first };
        tins.tables().longest(flows.len() as u32, bytes)
    }

    /// Returns whether a packet of `flow` waits beside the leaf's first packet.
    fn waits(&self, flow: u32) -> bool {
        self.flows[flow as usize].head != NONE
    }

    /// Returns the bytes of `flow` beside the leaf's first packet.
    fn behind(&self, flow: u32) -> u64 {
        let first = self.chosen.filter(|_| flow == self.first).unwrap_or(0);
        self.flows[flow as usize].bytes - u64::from(first)
    }
}

impl Turns {
    fn new(order: Order) -> Self {
        match order {
            Order::Rounds(rules, quantum) => Turns::Rounds(Rounds::new(0, quantum, rules)),
            Order::Ring(plan) => Turns::Ring(Ring::new(plan)),
            Order::Hosts(plan) => Turns::Hosts(LateHosts::new(plan)),
            Order::Tins(plan) => Turns::Tins(LateTins::new(plan)),
            Order::Pair(plan) => Turns::Pair(Pair::new(plan)),
            Order::Paced(plan) => Turns::Paced(Paced::new(plan)),
        }
    }
}

impl State for Turns {
    fn save(&self, to: &mut Writer) {
        match self {
            Turns::Rounds(rounds) => rounds.save(to),
            Turns::Ring(ring) => ring.save(to),
            Turns::Hosts(hosts) => hosts.with(|hosts| hosts.save(to)),
            Turns::Tins(tins) => tins.with(|tins| tins.save(to)),
            Turns::Pair(pair) => pair.save(to),
            Turns::Paced(paced) => paced.save(to),
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        match self {
            Turns::Rounds(rounds) => rounds.load(from),
            Turns::Ring(ring) => ring.load(from),
            Turns::Hosts(hosts) => hosts.tables().load(from),
            Turns::Tins(tins) => tins.tables().load(from),
            Turns::Pair(pair) => pair.load(from),
            Turns::Paced(paced) => paced.load(from),
        }
    }
}

impl Flow {
    pub(super) const EMPTY: Flow = Flow {
        head: NONE,
        tail: NONE,
        packets: 0,
        began: false,
        lapsed: false,
        passed: false,
        overflowed: 0,
        bytes: 0,
    };
}

impl FlowQueues {
    /// Writes everything but the packets, which the store holds.
    pub(super) fn save(&self, to: &mut Writer) {
        // What a flow holds follows from its packets, and what is chosen from the leaf's first.
        let Self {
            room: _,
            numbers,
            flows,
            turns,
            late: _,
            chosen,
            first,
            held: _,
            batch,
            joined: _,
            passes: _,
            acks: _,
        } = self;
        to.number(flows.len() as u64);
        if flows.is_empty() {
            return;
        }
        match turns {
            Turns::Hosts(hosts) => hosts.with(|hosts| hosts.save_tables(to)),
            Turns::Tins(tins) => tins.with(|tins| tins.save_tables(to)),
            _ => {
                let mut parts = alloc::vec![0; flows.len()];
                for (part, &number) in numbers.iter().enumerate().filter(|row| *row.1 > 0) {
                    parts[number as usize] = part;
                }
                parts[1..].save(to);
            }
        }
        flows.save(to);
        turns.save(to);
        chosen.is_some().save(to);
        first.save(to);
        batch.save(to);
    }

    /// Reads what [`FlowQueues::save`] wrote; then the packets of each flow are put back.
    /// `first` is the charged length of the leaf's first packet.
    pub(super) fn load(&mut self, first: u32, from: &mut Reader<'_>) -> Result<(), StateError> {
        *self = Self { late: self.late, ..Self::new(self.room) };
        let count = from.count((self.room.queues as usize).saturating_add(1), "flows")?;
        if count == 0 {
            return Ok(());
        }
        match &mut self.turns {
            Turns::Hosts(hosts) => hosts.tables().load_tables(&mut self.flows, count, from)?,
            Turns::Tins(tins) => tins.tables().load_tables(&mut self.flows, count, from)?,
            _ => self.load_numbers(count, from)?,
        }
        self.flows.load(from)?;
        self.turns.load(from)?;
        let mut is_chosen = false;
        is_chosen.load(from)?;
        self.first = from.index(count, "flow of the first packet")? as u32;
        self.batch.load(from)?;
        if self.batch.flow as usize >= count || self.batch.packets > BATCH_MAX {
            return Err(StateError::Invalid("flow that drops"));
        }
        if is_chosen {
            self.chosen = Some(first);
            self.count(self.first, first);
        }
        Ok(())
    }

    /// Reads the hash of each flow but the unknown one.
    fn load_numbers(&mut self, count: usize, from: &mut Reader<'_>) -> Result<(), StateError> {
        let queues = self.room.queues as usize;
        self.numbers = alloc::vec![0; queues];
        self.add_flow();
        for _ in 1..count {
            let part = from.index(queues, "hash of a flow")?;
            if self.numbers[part] != 0 {
                return Err(StateError::Invalid("hash of two flows"));
            }
            self.numbers[part] = self.add_flow();
        }
        Ok(())
    }

    /// Returns the number of flows.
    pub(super) fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Returns the first slot of the flow of this number, [`NONE`] without one.
    pub(super) fn head(&self, flow: usize) -> u32 {
        self.flows[flow].head
    }

    /// Puts the packet in `slot`, behind which nothing is chained, back to the end of its flow.
    pub(super) fn put_back(&mut self, slots: &mut [Slot], slot: u32, flow: usize) {
        let entry = slots[slot as usize].entry;
        let charged = entry.charged;
        self.count(flow as u32, charged);
        match &mut self.turns {
            Turns::Hosts(hosts) => hosts.tables().put_back(flow as u32),
            Turns::Tins(tins) => tins.tables().put_back(flow as u32, charged),
            Turns::Paced(paced) => {
                paced.count(PacedPacket::of(&entry));
            }
            Turns::Rounds(_) | Turns::Ring(_) | Turns::Pair(_) => {}
        }
        let flow = &mut self.flows[flow];
        let before = core::mem::replace(&mut flow.tail, slot);
        if flow.head == NONE {
            flow.head = slot;
        } else {
            slots[before as usize].next = slot;
        }
    }

    fn count(&mut self, flow: u32, charged: u32) {
        if let Turns::Hosts(hosts) = &mut self.turns {
            hosts.tables().count(flow, charged);
        }
        let flow = &mut self.flows[flow as usize];
        flow.packets += 1;
        flow.bytes += u64::from(charged);
        self.held = self.held.plus(Count { packets: 1, bytes: u64::from(charged) });
    }

    /// Whether these can be the flows of a leaf with this many packets, which is held or not.
    pub(super) fn is_sound(&self, packets: u32, is_held: bool) -> bool {
        let is_chosen = self.late || self.chosen.is_some() || packets == 0 || is_held;
        let mut flows = self.flows.iter().enumerate();
        let turns = match &self.turns {
            Turns::Rounds(rounds) => {
                let listed = |(flow, row): (usize, &Flow)| {
                    row.packets == 0 || flow == 0 || rounds.contains(flow as u32)
                };
                // The unknown flow has no turns.
                flows.all(listed) && rounds.iter().all(|(flow, _)| flow > 0)
            }
            Turns::Ring(ring) => flows.skip(1).all(|(flow, row)| {
                let is_first = self.chosen.is_some() && self.first as usize == flow;
                ring.packets(flow as u32) == row.packets - u32::from(is_first)
            }),
            Turns::Hosts(hosts) => hosts.with(|hosts| hosts.is_sound(&self.flows)),
            Turns::Tins(tins) => tins.with(|tins| tins.is_sound(&self.flows)),
            Turns::Pair(pair) => pair.is_sound() && [0, PAIR].contains(&self.flows.len()),
            Turns::Paced(paced) => {
                let chained = self.held.packets - u64::from(self.chosen.is_some());
                paced.is_sound(chained, |flow| self.waits(flow as u32))
            }
        };
        self.held.packets == u64::from(packets) && is_chosen && turns
    }
}

state!(Flow { began, lapsed, passed, overflowed; kept: head, tail, packets, bytes });
state!(Batch { flow, packets, bytes });

/// Bound: packets dropped at once [rfc8290 §4.1.3]; the rest waits for the next drop.
const BATCH_MAX: u32 = 64;
/// The unknown flow and the two queues of a pair.
const PAIR: usize = 3;
