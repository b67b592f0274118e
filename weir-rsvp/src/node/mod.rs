//! A node: a router or host that speaks RSVP [rfc2205, rfc2209].
//!
//! The driver calls [`Node::receive`] for each message that arrives, and [`Node::poll`] until it
//! returns an instant: then it polls again at that instant, or after the next call of another kind.
//! Traffic control is the driver's: a [`Control`] action asks for a flow, and [`Node::answer`] says
//! what came of it. Routing is an argument, for it changes under the node.
//!
//! The invariant to keep in mind: after each call, the requests to traffic control and the messages
//! to neighbours follow from the state of the session (`state::SessionState::reconcile`).

mod action;
mod control;
mod host;
mod merge;
mod outbox;
mod params;
mod path;
mod resv;
mod state;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;

use weir_core::classify::InterfaceId;
use weir_core::units::Instant;

pub use action::Request;
pub use action::{
    Action, Arrival, Control, Counts, Event, FlowId, HostError, Packet, Police, Poll, Removal,
};
pub use host::{Announcement, Claim};
pub use merge::merged;
pub use outbox::Call;
pub use params::{InterfaceParams, Limits, NodeParams, Route, Routes, Timers};
pub use view::{FlowView, ReservationView, SenderView, SessionView};

use crate::wire::{
    Body, Cause, Confirmation, ErrorSpec, Filter, Hello, Hop, Message, MessageId, Receipt, Session,
    Unread,
};
use outbox::Outbox;
use state::{Neighbour, SessionState};

/// A node of RSVP, router or host, without sockets or clock.
pub struct Node {
    out: Outbox,
    sessions: BTreeMap<Session, SessionState>,
    timers: BTreeSet<(Instant, Session)>,
    flows: BTreeMap<FlowId, Session>,
    /// The session that a neighbour's message identifier stands for.
    session_by_id: BTreeMap<(IpAddr, MessageId), Session>,
}

impl Node {
    /// A node without sessions.
    pub fn new(params: NodeParams) -> Self {
        Self {
            out: Outbox::new(params),
            sessions: BTreeMap::new(),
            timers: BTreeSet::new(),
            flows: BTreeMap::new(),
            session_by_id: BTreeMap::new(),
        }
    }

    /// Takes a message. What is wrong with it is counted, and answered where the protocol says so.
    pub fn receive(&mut self, call: Call<'_>, arrival: Arrival<'_>) {
        self.out.counts.received += 1;
        if self.out.interface(arrival.interface).is_none() {
            self.out.counts.stray += 1;
            return;
        }
        let parsed = Some(arrival.bytes).filter(|bytes| bytes.len() <= MESSAGE_BYTES_MAX);
        let Some(Ok(message)) = parsed.map(Message::parse) else {
            self.out.counts.malformed += 1;
            return;
        };
        let neighbour = neighbour_of(&message).unwrap_or(arrival.source);
        if !self.out.check(arrival.interface, neighbour, &message, arrival.bytes) {
            return;
        }
        self.out.learn(arrival.interface, neighbour, message.capable);
        for (session, number) in self.out.take_receipts(arrival.source, &message.receipts) {
            self.on_session(session, |state, out| state.send_again(call, number, out));
        }
        match message.body {
            Body::Bundle(messages) => {
                messages.iter().for_each(|message| self.take(call, &arrival, message));
            }
            _ => self.take(call, &arrival, &message),
        }
    }

    /// Returns the next action, or the instant of the next call.
    pub fn poll(&mut self, call: Call<'_>) -> Poll {
        self.out.retransmit(call.now);
        while let Some(&(_, session)) = self.timers.first().filter(|(at, _)| *at <= call.now) {
            self.on_session(session, |state, out| {
                if let Some(removal) = state.refresh_senders(call, out) {
                    state.reconcile(call.because(removal), out);
                }
                state.refresh_reservations(call.because(Removal::Expired), out);
            });
        }
        if let Some(action) = self.out.next() {
            return Poll::Action(action);
        }
        let timer = self.timers.first().map(|(at, _)| *at);
        let again = self.out.again.first().map(|(at, _)| *at);
        let due = timer.into_iter().chain(again).min();
        due.map_or(Poll::Idle, Poll::At)
    }

    /// Traffic control answers a `Control::Add` or `Control::Modify`. Returns false if nothing is
    /// waiting for the answer: the flow has gone meanwhile, and a `Control::Remove` of it follows.
    pub fn answer(&mut self, call: Call<'_>, flow: FlowId, answer: Result<(), Cause>) -> bool {
        let Some(session) = self.flows.get(&flow).copied() else { return false };
        self.on_session(session, |state, out| state.answer(call, flow, answer, out))
    }

    /// Traffic control takes back a flow that it admitted: the next hops get `cause`. Returns
    /// whether there was such a flow.
    pub fn preempt(&mut self, call: Call<'_>, flow: FlowId, cause: Cause) -> bool {
        let Some(session) = self.flows.get(&flow).copied() else { return false };
        self.on_session(session, |state, out| state.preempt(call, flow, cause, out))
    }

    /// Routes of some destinations changed: their Path messages follow after the settling time
    /// [rfc2205 §3.6].
    pub fn routes_changed(&mut self, now: Instant, affected: impl Fn(IpAddr) -> bool) {
        let at = now.after(self.out.params.timers.settle);
        let hit: Vec<Session> =
            self.sessions.keys().filter(|session| affected(session.destination)).copied().collect();
        for session in hit {
            self.on_session(session, |state, _| {
                for sender in state.senders.values_mut() {
                    sender.refresh_at = sender.refresh_at.min(at);
                }
            });
        }
    }

    /// A sender of this host begins, or changes what it sends.
    pub fn announce(
        &mut self,
        call: Call<'_>,
        announcement: Announcement,
    ) -> Result<(), HostError> {
        if self.out.own_address(announcement.session.destination).is_none() {
            return Err(HostError::Family);
        }
        let session = announcement.session;
        if self.is_full(&session) {
            return Err(HostError::Full);
        }
        self.on_session(session, |state, out| state.announce(call, announcement, out))
    }

    /// A sender of this host ends.
    pub fn withdraw(
        &mut self,
        call: Call<'_>,
        session: Session,
        sender: Filter,
    ) -> Result<(), HostError> {
        self.on_session(session, |state, out| state.withdraw(call, &sender, out))
    }

    /// A receiver of this host reserves, in place of what it reserved in the session before.
    pub fn reserve(&mut self, call: Call<'_>, claim: Claim) -> Result<(), HostError> {
        self.on_session(claim.session, |state, out| state.claim(call, claim, out))
    }

    /// A receiver of this host reserves no more.
    pub fn release(&mut self, call: Call<'_>, session: Session) -> Result<(), HostError> {
        self.on_session(session, |state, out| state.release(call, out))
    }

    /// Returns the sessions in order.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> {
        self.sessions.values().map(SessionState::view)
    }

    /// Returns how many sessions there are.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns a copy of a session's state, for `status` and tests.
    pub fn session(&self, session: &Session) -> Option<SessionView> {
        self.sessions.get(session).map(SessionState::view)
    }

    /// Returns how many messages wait for an acknowledgement: before a node ends, those that tear
    /// state should have come.
    pub fn unacknowledged(&self) -> usize {
        self.out.again.len()
    }

    /// Returns what the node counted.
    pub fn counts(&self) -> Counts {
        self.out.counts
    }

    /// Changes what an interface offers to flows. Senders' next refreshes tell it.
    pub fn set_offers(&mut self, interface: InterfaceId, offers: crate::intserv::Characterization) {
        let index = usize::from(interface.0);
        if let Some(interface) = self.out.params.interfaces.get_mut(index) {
            interface.offers = offers;
        }
    }

    /// Numbers signed messages from here on at least from `sequence`, such as the time in
    /// nanoseconds: then several nodes may speak for one address.
    pub fn raise_sequence(&mut self, sequence: u64) {
        self.out.raise_sequence(sequence);
    }

    /// Changes the addresses of an interface. Messages to come name the new ones.
    pub fn set_addresses(&mut self, interface: InterfaceId, addresses: Vec<IpAddr>) {
        let index = usize::from(interface.0);
        if let Some(interface) = self.out.params.interfaces.get_mut(index) {
            interface.addresses = addresses;
        }
    }

    /// Takes a message whose digest is right.
    fn take(&mut self, call: Call<'_>, arrival: &Arrival<'_>, message: &Message) {
        let hop = neighbour_of(message);
        let neighbour = hop.unwrap_or(arrival.source);
        if is_mixed(message) || hop.is_some_and(|hop| !is_station(hop)) {
            self.out.counts.malformed += 1;
            return;
        }
        // With itself as a neighbour, a node would refresh its own state for ever.
        if hop.is_some_and(|hop| self.out.is_own(hop)) {
            self.out.counts.stray += 1;
            return;
        }
        if self.acknowledge(arrival, message, neighbour) {
            return;
        }
        match &message.body {
            Body::Path(path) => {
                let session = path.session;
                if let Some(cause) = self.path_refused(&session) {
                    let came = (path, arrival.interface);
                    path::refuse_path(call.now, came, cause, &mut self.out);
                    return;
                }
                self.on_session(session, |state, out| {
                    state.path(call, arrival, message, path, out);
                });
                self.remember(neighbour, message, session);
            }
            Body::Resv(resv) => {
                let Some(from) = self.next_hop(resv.hop) else { return };
                let session = resv.session;
                self.on_session(session, |state, out| state.resv(call, from, message, out));
                self.remember(neighbour, message, session);
            }
            Body::Srefresh(ids) => self.refresh(call, arrival, ids),
            Body::ResvConf(confirmation) => self.confirmation(call, confirmation, message),
            Body::Hello(hello) => self.hello(arrival, *hello),
            Body::Unread(unread) => self.refuse_unread(call, arrival, message.refused, unread),
            Body::Ack | Body::Bundle(_) | Body::Challenge(_) | Body::Response(_) => {}
            _ => self.take_known(call, arrival, message),
        }
    }

    /// Takes a message that means something only in a session that is known.
    fn take_known(&mut self, call: Call<'_>, arrival: &Arrival<'_>, message: &Message) {
        let Some(session) = message.body.session() else { return };
        if !self.sessions.contains_key(&session) {
            self.out.counts.stray += 1;
            return;
        }
        let from = match &message.body {
            Body::ResvTear(tear) => self.next_hop(tear.hop),
            _ => None,
        };
        let id = message.id.map(|identified| identified.id);
        self.on_session(session, |state, out| match (&message.body, from) {
            (Body::PathTear(tear), _) => state.path_tear(call, arrival, (tear, id), out),
            (Body::ResvTear(tear), Some(from)) => {
                state.resv_tear(call, from, (tear, id), out);
            }
            (Body::PathErr(error), _) => {
                state.path_error(call.now, error, &message.carried, out);
            }
            (Body::ResvErr(error), _) => state.resv_error(call, arrival, error, out),
            _ => {}
        });
    }

    /// Answers a Path or Resv that holds an object of an unknown type, and so no more than what an
    /// error repeats [rfc2205 §3.10, §A.7].
    fn refuse_unread(
        &mut self,
        call: Call<'_>,
        arrival: &Arrival<'_>,
        cause: Option<Cause>,
        unread: &Unread,
    ) {
        let Some(hop) = unread.hop else { return };
        let by = match unread.is_resv {
            true => self.next_hop(hop).map(|from| from.interface),
            false => Some(arrival.interface),
        };
        let (Some(interface), Some(cause)) = (by, cause) else { return };
        let Some(to) = self.out.neighbour(interface, hop.address) else { return };
        self.out.counts.refused += 1;
        let error = ErrorSpec { node: to.source, in_place: false, not_guilty: false, cause };
        let own = Hop { address: to.source, ..hop };
        let mut repeated = unread.clone();
        repeated.hop = unread.is_resv.then_some(own);
        self.out.send_news(call.now, to, (Body::Refusal(repeated, error), &[]), None);
    }

    /// Returns why no state may be made for a session.
    fn path_refused(&self, session: &Session) -> Option<Cause> {
        // [rfc2205 §3.2] Port 0 and other ports of one destination cannot be told apart.
        let (low, high) = (Session { port: 0, ..*session }, Session { port: u16::MAX, ..*session });
        let others = Bound::Excluded(low);
        let conflict = match session.port {
            0 => self.sessions.range((others, Bound::Included(high))).next().is_some(),
            _ => self.sessions.contains_key(&low),
        };
        match () {
            () if conflict => Some(Cause::DESTINATION_PORTS),
            () if self.is_full(session) => Some(Cause::SYSTEM),
            () => None,
        }
    }

    fn is_full(&self, session: &Session) -> bool {
        let is_new = !self.sessions.contains_key(session);
        is_new && self.sessions.len() >= self.out.params.limits.sessions
    }

    /// The next hop that a Resv names: the handle is that of the interface by which the Path left.
    fn next_hop(&mut self, hop: Hop) -> Option<Neighbour> {
        let interface = u16::try_from(hop.handle).map(InterfaceId).ok();
        let interface = interface.filter(|interface| self.out.interface(*interface).is_some());
        if interface.is_none() {
            self.out.counts.stray += 1;
        }
        interface.map(|interface| Neighbour { interface, hop })
    }

    /// Notes the receipt that a message asks for. Returns whether it is older than what it would
    /// change [rfc2961 §4.6], or came before and is never refreshed.
    fn acknowledge(&mut self, arrival: &Arrival<'_>, message: &Message, neighbour: IpAddr) -> bool {
        let Some(identified) = message.id else { return false };
        if identified.acknowledge {
            let receipt = Receipt { id: identified.id, known: true };
            self.out.receipt(arrival.interface, neighbour, receipt);
        }
        let id = Some(identified.id);
        let same = |from: Option<Neighbour>, hop| from.is_some_and(|from| from.hop == hop);
        match &message.body {
            Body::Path(path) => self.sessions.get(&path.session).is_some_and(|state| {
                let sender = state.senders.get(&path.sender.template);
                sender
                    .is_some_and(|one| same(one.from, path.hop) && path::is_older(id, one.came_as))
            }),
            Body::Resv(resv) => self.sessions.get(&resv.session).is_some_and(|state| {
                let mut reservations = state.reservations.iter();
                reservations.any(|one| same(one.from, resv.hop) && path::is_older(id, one.came_as))
            }),
            Body::Bundle(_) | Body::Srefresh(_) => false,
            _ => self.out.is_repeated(neighbour, identified.id),
        }
    }

    /// Remembers the session that a message identifier stands for, as long as its state lives.
    fn remember(&mut self, neighbour: IpAddr, message: &Message, session: Session) {
        let Some(id) = message.id.map(|id| id.id) else { return };
        let Some(state) = self.sessions.get_mut(&session) else { return };
        if came_as(state, neighbour, id).next().is_some() {
            self.session_by_id.insert((neighbour, id), session);
        }
        // Bounded: whatever is no longer the identifier of some state is swept out.
        let state_max = self.sessions.len() * TOLD_PER_SESSION + TOLD_SPARE;
        if self.session_by_id.len() > state_max {
            let sessions = &mut self.sessions;
            self.session_by_id.retain(|(neighbour, id), session| {
                let state = sessions.get_mut(session);
                state.is_some_and(|state| came_as(state, *neighbour, *id).next().is_some())
            });
        }
    }

    /// Takes a summary refresh: each identifier refreshes the state that it stands for
    /// [rfc2961 §5].
    fn refresh(&mut self, call: Call<'_>, arrival: &Arrival<'_>, ids: &[MessageId]) {
        for id in ids {
            let session = self.session_by_id.get(&(arrival.source, *id)).copied();
            let known = session.is_some_and(|session| {
                let lifetime = self.out.params.timers.lifetime(self.out.params.timers.period);
                let expires = call.now.after(lifetime);
                self.on_session(session, |state, _| {
                    let mut found = false;
                    for life in came_as(state, arrival.source, *id) {
                        (*life, found) = (Some(expires), true);
                    }
                    found
                })
            });
            if !known {
                let receipt = Receipt { id: *id, known: false };
                self.out.receipt(arrival.interface, arrival.source, receipt);
            }
        }
    }

    /// [rfc3209 §5.3] Answers a neighbour that asks whether this node is alive. The node itself
    /// does not ask: soft state tells it.
    fn hello(&mut self, arrival: &Arrival<'_>, hello: Hello) {
        if hello.answers {
            return;
        }
        let Some(mut to) = self.out.neighbour(arrival.interface, arrival.source) else { return };
        // An instance is never 0.
        let source = self.out.params.epoch | 1 << 24;
        to.ttl = 1;
        let answer = Hello { answers: true, source, destination: hello.source };
        self.out.send(to, Body::Hello(answer), &[]);
    }

    fn confirmation(&mut self, call: Call<'_>, confirmation: &Confirmation, message: &Message) {
        if !self.out.is_own(confirmation.receiver) {
            resv::send_confirmation(call, confirmation, &message.carried, &mut self.out);
            return;
        }
        if let Some(state) = self.sessions.get_mut(&confirmation.session) {
            state.confirmed(confirmation, &mut self.out);
        } else {
            self.out.counts.stray += 1;
        }
    }

    /// Changes a session, which may be new, and keeps timers and the index of flows in step.
    fn on_session<T>(
        &mut self,
        session: Session,
        change: impl FnOnce(&mut SessionState, &mut Outbox) -> T,
    ) -> T {
        let state = self.sessions.entry(session).or_insert_with(|| SessionState::new(session));
        let before: Vec<FlowId> = state.flows.iter().map(|flow| flow.id).collect();
        let result = change(state, &mut self.out);
        for flow in before {
            self.flows.remove(&flow);
        }
        self.flows.extend(state.flows.iter().map(|flow| (flow.id, session)));
        state.shrink();
        let due = state.next_due();
        if state.due != due {
            if let Some(former) = state.due {
                self.timers.remove(&(former, session));
            }
            self.timers.extend(due.map(|due| (due, session)));
            state.due = due;
        }
        if state.is_empty() {
            assert!(state.due.is_none(), "a session without state waits for nothing");
            self.sessions.remove(&session);
        }
        result
    }
}

/// The neighbour that a message names as its hop.
fn neighbour_of(message: &Message) -> Option<IpAddr> {
    match &message.body {
        Body::Path(path) => Some(path.hop.address),
        Body::PathTear(tear) => Some(tear.hop.address),
        Body::Resv(resv) => Some(resv.hop.address),
        Body::ResvTear(tear) => Some(tear.hop.address),
        Body::ResvErr(error) => Some(error.hop.address),
        Body::Unread(unread) => unread.hop.map(|hop| hop.address),
        _ => None,
    }
}

/// Returns whether an address can be that of a neighbour.
fn is_station(address: IpAddr) -> bool {
    let everybody = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(everybody || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// Bound: bytes of a message of RSVP; a longer one counts as malformed. So what a node keeps of one
/// is bounded, and so is what it sends: an answer that repeats parts of a message, and a
/// reservation that is merged from several.
const MESSAGE_BYTES_MAX: usize = 8192;

/// Returns whether session, hop and sender are of different address families, so that no such
/// flow can be.
fn is_mixed(message: &Message) -> bool {
    let v4 = |session: &Session| session.destination.is_ipv4();
    match &message.body {
        Body::Path(path) => {
            let hop = path.hop.address.is_ipv4();
            let sender = path.sender.template.source.is_ipv4();
            v4(&path.session) != hop || hop != sender
        }
        Body::Resv(resv) => v4(&resv.session) != resv.hop.address.is_ipv4(),
        _ => false,
    }
}

/// When the state expires that came from the neighbour with this identifier.
fn came_as(
    state: &mut SessionState,
    neighbour: IpAddr,
    id: MessageId,
) -> impl Iterator<Item = &mut Option<Instant>> {
    let is_it = move |from: Option<Neighbour>, came_as: Option<MessageId>| {
        from.is_some_and(|from| from.hop.address == neighbour) && came_as == Some(id)
    };
    let senders = state.senders.values_mut().filter(move |one| is_it(one.from, one.came_as));
    let reservations =
        state.reservations.iter_mut().filter(move |one| is_it(one.from, one.came_as));
    senders.map(|one| &mut one.expires).chain(reservations.map(|one| &mut one.expires))
}

/// Identifiers of neighbours that are kept for a session on average, and beside that.
const TOLD_PER_SESSION: usize = 4;
const TOLD_SPARE: usize = 1024;
