//! The messages that a node sends: signed, numbered, sent again until they are acknowledged
//! [rfc2747, rfc2961].
//!
//! Identifiers are used on interfaces whose neighbours all understand them, and where a node learns
//! that, with those that say so. A message that brings
//! news asks for an acknowledgement and is sent again after Rf, 2 Rf, ... until it comes. A refresh
//! of acknowledged news is only its identifier, in a Srefresh to the neighbour that acknowledged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use weir_core::classify::InterfaceId;
use weir_core::random::Random;
use weir_core::units::{Duration, Instant};

use super::action::{Action, Counts, Event, FlowId, Packet, Removal};
use super::params::{InterfaceParams, NodeParams, Route, Routes};
use crate::integrity::{Guard, Verdict};
use crate::wire::{Body, Carried, EPOCH_MAX, Identified, Message, MessageId, Receipt, Session};

/// The time of a call, and the routes that hold then.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub(super) now: Instant,
    routes: &'a dyn Routes,
    /// Why flows go that go during the call.
    pub(super) removal: Removal,
}

impl<'a> Call<'a> {
    /// A call by a message or an application.
    pub fn new(now: Instant, routes: &'a dyn Routes) -> Self {
        Self { now, routes, removal: Removal::Torn }
    }

    /// Returns the same call, during which flows are removed for another reason.
    pub(super) fn because(self, removal: Removal) -> Self {
        Self { removal, ..self }
    }

    pub(super) fn route(&self, destination: IpAddr, source: IpAddr) -> Route {
        self.routes.route(destination, source)
    }
}

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub struct To {
    pub interface: InterfaceId,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ttl: u8,
    pub alert: bool,
    /// Whether its receiver understands identifiers.
    pub understood: bool,
}

/// A message with an identifier.
#[derive(Clone, Debug)]
struct Sent {
    /// The session whose state its identifier refreshes; none if it is never refreshed.
    session: Option<Session>,
    /// The message, until it is acknowledged or given up.
    waiting: Option<Waiting>,
    /// The neighbour that acknowledged it.
    receiver: Option<IpAddr>,
}

#[derive(Clone, Debug)]
struct Waiting {
    to: To,
    message: Message,
    at: Instant,
    wait: Duration,
    attempts: u32,
}

/// The actions that are due, and the messages that may be sent again.
pub struct Outbox {
    pub params: NodeParams,
    pub random: Random,
    pub counts: Counts,
    guards: Vec<Option<Guard>>,
    actions: VecDeque<Action>,
    /// Where this node's refreshes lie between those of others.
    phase: u64,
    next_id: u32,
    next_flow: u64,
    sent: BTreeMap<u32, Sent>,
    /// When messages without an acknowledgement are sent again.
    pub again: BTreeSet<(Instant, u32)>,
    receipts: BTreeMap<(InterfaceId, IpAddr), Vec<Receipt>>,
    summaries: BTreeMap<(InterfaceId, IpAddr), Vec<u32>>,
    /// Neighbours that say that they understand identifiers, where that is learned.
    capable: BTreeSet<(InterfaceId, IpAddr)>,
    /// The identifiers of the last messages that are never refreshed, and the neighbours that sent
    /// them: such a message may come again although it was acknowledged.
    once: BTreeSet<(IpAddr, MessageId)>,
    once_order: VecDeque<(IpAddr, MessageId)>,
}

impl Outbox {
    pub fn new(mut params: NodeParams) -> Self {
        // Less would refresh all the time.
        params.timers.period = params.timers.period.max(PERIOD_MIN);
        params.epoch &= EPOCH_MAX;
        let guards = params.interfaces.iter();
        let guards = guards.map(|interface| interface.security.as_ref().and_then(Guard::new));
        let mut random = Random::new(params.seed, 0);
        Self {
            phase: random.bits() >> 1,
            random,
            guards: guards.collect(),
            counts: Counts::default(),
            actions: VecDeque::new(),
            next_id: 1,
            next_flow: 0,
            sent: BTreeMap::new(),
            again: BTreeSet::new(),
            receipts: BTreeMap::new(),
            summaries: BTreeMap::new(),
            capable: BTreeSet::new(),
            once: BTreeSet::new(),
            once_order: VecDeque::new(),
            params,
        }
    }

    pub fn interface(&self, interface: InterfaceId) -> Option<&InterfaceParams> {
        self.params.interfaces.get(usize::from(interface.0))
    }

    /// Returns the interface's address of the family of `like`.
    pub fn address(&self, interface: InterfaceId, like: IpAddr) -> Option<IpAddr> {
        let mut addresses = self.interface(interface)?.addresses.iter().copied();
        addresses.find(|address| address.is_ipv4() == like.is_ipv4())
    }

    /// Returns whether this node has the address.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.params.interfaces.iter().any(|interface| interface.addresses.contains(&address))
    }

    /// Returns the address that names this node in errors to `like`.
    pub fn own_address(&self, like: IpAddr) -> Option<IpAddr> {
        let addresses = self.params.interfaces.iter().flat_map(|interface| &interface.addresses);
        addresses.copied().find(|address| address.is_ipv4() == like.is_ipv4())
    }

    /// Where a message to a neighbour goes; none if the interface has no address of its family.
    pub fn neighbour(&mut self, interface: InterfaceId, destination: IpAddr) -> Option<To> {
        let Some(source) = self.address(interface, destination) else {
            self.counts.unaddressed += 1;
            return None;
        };
        let understood = self.is_understood_by(interface, destination);
        Some(To { interface, source, destination, ttl: HOP_TTL, alert: false, understood })
    }

    /// Returns whether a neighbour understands identifiers.
    pub fn is_understood_by(&self, interface: InterfaceId, neighbour: IpAddr) -> bool {
        self.reduces(interface) || self.capable.contains(&(interface, neighbour))
    }

    /// Returns whether all neighbours of an interface understand identifiers.
    pub fn reduces(&self, interface: InterfaceId) -> bool {
        self.interface(interface).is_some_and(|one| one.reduction)
    }

    /// Notes whether a neighbour says that it understands identifiers.
    pub fn learn(&mut self, interface: InterfaceId, neighbour: IpAddr, capable: bool) {
        if !self.interface(interface).is_some_and(|one| one.learns_reduction) {
            return;
        }
        if !capable {
            self.capable.remove(&(interface, neighbour));
        } else if self.capable.len() < CAPABLE_MAX {
            self.capable.insert((interface, neighbour));
        }
    }

    /// Notes a message that is never refreshed; returns whether it came before.
    pub fn is_repeated(&mut self, neighbour: IpAddr, id: MessageId) -> bool {
        if !self.once.insert((neighbour, id)) {
            return true;
        }
        self.once_order.push_back((neighbour, id));
        if self.once_order.len() > ONCE_MAX
            && let Some(oldest) = self.once_order.pop_front()
        {
            self.once.remove(&oldest);
        }
        false
    }

    /// [rfc2205 §3.7] An instant between half and one and a half refresh periods away, so that
    /// nodes do not fall into step.
    ///
    /// Instants are rounded down to a step, counted from a phase of this node's own, so that a node
    /// and its neighbours wake once for several messages: a 300th of a period, of which 10 000
    /// sessions have some 30 refreshes each way. Where identifiers refresh it is a quarter of a
    /// period, so that one Srefresh holds many of them.
    pub fn next_refresh(&mut self, now: Instant) -> Instant {
        let period = self.params.timers.period.as_nanos();
        let fraction = self.random.bits() >> 32;
        let spread = ((u128::from(period) * u128::from(fraction)) >> 32) as u64;
        let at = now.as_nanos().saturating_add(period / 2 + spread);
        let is_reduced = self.params.interfaces.iter().any(|interface| interface.reduction);
        let step = period / if is_reduced { REDUCED_STEPS } else { PLAIN_STEPS };
        Instant::from_nanos(at - at.saturating_sub(self.phase % step) % step)
    }

    pub fn event(&mut self, event: Event) {
        self.actions.push_back(Action::Event(event));
    }

    pub fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Returns an identifier that no flow had yet.
    pub fn next_flow(&mut self) -> FlowId {
        self.next_flow += 1;
        FlowId(self.next_flow)
    }

    /// Returns the next action; receipts and summary refreshes are gathered until nothing else is
    /// left.
    pub fn next(&mut self) -> Option<Action> {
        if self.actions.is_empty() {
            self.flush();
        }
        self.actions.pop_front()
    }

    /// Sends a message once, without identifier.
    pub fn send(&mut self, to: To, body: Body, carried: &[Carried]) {
        let carried = carried.to_vec();
        self.emit(to, Message { carried, ..Message::new(to.ttl, body) });
    }

    /// Sends news: where the interface allows it with an identifier, which is returned, and again
    /// until it is acknowledged.
    pub fn send_news(
        &mut self,
        now: Instant,
        to: To,
        message: (Body, &[Carried]),
        session: Option<Session>,
    ) -> Option<u32> {
        let (body, carried) = message;
        if !to.understood || self.again.len() >= self.params.limits.unacknowledged {
            self.send(to, body, carried);
            return None;
        }
        let number = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let id = MessageId { epoch: self.params.epoch, number };
        let (id, carried) = (Some(Identified { id, acknowledge: true }), carried.to_vec());
        let message = Message { id, carried, ..Message::new(to.ttl, body) };
        self.emit(to, message.clone());
        let wait = self.params.timers.retransmit;
        let at = now.after(wait);
        let waiting = Some(Waiting { to, message, at, wait, attempts: 1 });
        self.sent.insert(number, Sent { session, waiting, receiver: None });
        self.again.insert((at, number));
        Some(number)
    }

    /// Forgets a message: its state is gone, or was sent with another number.
    pub fn forget(&mut self, number: u32) {
        if let Some(Sent { waiting: Some(waiting), .. }) = self.sent.remove(&number) {
            self.again.remove(&(waiting.at, number));
        }
    }

    /// Refreshes message `number` by its identifier alone; returns false if it was not
    /// acknowledged, so that the whole message has to be sent.
    pub fn summarise(&mut self, interface: InterfaceId, number: u32) -> bool {
        let receiver = self.sent.get(&number).and_then(|sent| sent.receiver);
        if let Some(receiver) = receiver {
            self.summaries.entry((interface, receiver)).or_default().push(number);
        }
        receiver.is_some()
    }

    /// Takes a neighbour's receipts of this node's messages; returns the sessions and numbers of
    /// those that have to be sent again.
    pub fn take_receipts(&mut self, source: IpAddr, receipts: &[Receipt]) -> Vec<(Session, u32)> {
        let mut unknown = Vec::new();
        for Receipt { id, known } in receipts {
            if id.epoch != self.params.epoch {
                continue;
            }
            let Some(sent) = self.sent.get_mut(&id.number) else { continue };
            if let Some(waiting) = sent.waiting.take() {
                self.again.remove(&(waiting.at, id.number));
            }
            if !known {
                unknown.extend(sent.session.map(|session| (session, id.number)));
            }
            if sent.session.is_none() || !known {
                self.sent.remove(&id.number);
            } else {
                sent.receiver = Some(source);
            }
        }
        unknown
    }

    /// Notes what is to be said of a neighbour's message.
    pub fn receipt(&mut self, interface: InterfaceId, neighbour: IpAddr, receipt: Receipt) {
        self.receipts.entry((interface, neighbour)).or_default().push(receipt);
    }

    /// Checks a message's digest and number, where the interface wants them; answers challenges.
    /// Returns whether the message counts.
    pub fn check(
        &mut self,
        interface: InterfaceId,
        source: IpAddr,
        message: &Message,
        bytes: &[u8],
    ) -> bool {
        let guard = self.guards.get_mut(usize::from(interface.0)).and_then(Option::as_mut);
        let Some(guard) = guard else { return true };
        let verdict = guard.check(source, message, bytes, &mut self.random);
        let reply = match (verdict, &message.body) {
            (Verdict::Good, Body::Challenge(cookie)) => Body::Response(cookie.clone()),
            (Verdict::Good, body) => return !matches!(body, Body::Response(_)),
            (Verdict::Challenge(cookie), _) => Body::Challenge(cookie),
            (Verdict::Bad(_), _) => {
                self.counts.insecure += 1;
                return false;
            }
        };
        if let Some(to) = self.neighbour(interface, source) {
            self.send(to, reply, &[]);
        }
        false
    }

    /// Continues the numbers of signed messages at `sequence`: see `Node::raise_sequence`.
    pub fn raise_sequence(&mut self, sequence: u64) {
        self.guards.iter_mut().flatten().for_each(|guard| guard.raise(sequence));
    }

    /// [rfc2961 §6.3] Sends again what was not acknowledged, after twice the wait of before.
    pub fn retransmit(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.again.first().filter(|(at, _)| *at <= now) {
            self.again.remove(&(at, number));
            let attempts_max = self.params.timers.attempts_max;
            let sent = self.sent.get_mut(&number).expect("what waits was sent");
            let waiting = sent.waiting.as_mut().expect("a time belongs to a message that waits");
            if waiting.attempts >= attempts_max {
                sent.waiting = None;
                if sent.session.is_none() {
                    self.sent.remove(&number);
                }
                continue;
            }
            waiting.attempts += 1;
            waiting.wait = waiting.wait.plus(waiting.wait);
            waiting.at = now.after(waiting.wait);
            self.again.insert((waiting.at, number));
            let (to, message) = (waiting.to, waiting.message.clone());
            self.counts.retransmitted += 1;
            self.emit(to, message);
        }
    }

    /// Turns gathered receipts and refreshes into messages.
    fn flush(&mut self) {
        let epoch = self.params.epoch;
        for ((interface, neighbour), receipts) in std::mem::take(&mut self.receipts) {
            for some in receipts.chunks(RECEIPTS_MAX) {
                let Some(to) = self.neighbour(interface, neighbour) else { break };
                let receipts = some.to_vec();
                self.emit(to, Message { receipts, ..Message::new(to.ttl, Body::Ack) });
            }
        }
        for ((interface, neighbour), numbers) in std::mem::take(&mut self.summaries) {
            for some in numbers.chunks(RECEIPTS_MAX) {
                let Some(to) = self.neighbour(interface, neighbour) else { break };
                let ids = some.iter().map(|number| MessageId { epoch, number: *number });
                self.send(to, Body::Srefresh(ids.collect()), &[]);
            }
        }
    }

    fn emit(&mut self, to: To, mut message: Message) {
        let index = usize::from(to.interface.0);
        let own = self.interface(to.interface);
        message.capable = own.is_some_and(|one| one.reduction || one.learns_reduction);
        let bytes = match self.guards.get_mut(index).and_then(Option::as_mut) {
            Some(guard) => guard.sign(message),
            None => message.build(),
        };
        if bytes.len() > PACKET_BYTES_MAX {
            self.counts.unaddressed += 1;
            return;
        }
        self.counts.sent += 1;
        let To { interface, source, destination, ttl, alert, .. } = to;
        let packet = Packet { interface, source, destination, ttl, alert, bytes };
        self.actions.push_back(Action::Send(packet));
    }
}

/// The room of a packet behind its header with options, in bytes.
const PACKET_BYTES_MAX: usize = 65_535 - 60;
/// Steps of a period at which refreshes leave.
const PLAIN_STEPS: u64 = 300;
const REDUCED_STEPS: u64 = 4;
/// The shortest refresh period.
const PERIOD_MIN: Duration = Duration::from_millis(100);
/// The TTL of messages to a neighbour.
const HOP_TTL: u8 = 64;
/// Neighbours that are known to understand identifiers.
const CAPABLE_MAX: usize = 4096;
/// Messages whose repetitions are recognised: those of a neighbour come again within 1.5 s, and
/// two thousand a second are more than a node takes.
const ONCE_MAX: usize = 4096;
/// Identifiers of a message, so that it fits a packet of 1500 bytes.
const RECEIPTS_MAX: usize = 100;
