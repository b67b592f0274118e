//! The state of a session: its senders, reservations, flows, and what went upstream [rfc2209 §1].
//!
//! Messages and timers change senders, reservations and blockades; `reconcile` derives from them
//! which flows traffic control should have and what each previous hop should know, and acts on the
//! difference to what they have. So the rules of `[rfc2209]` that follow a change are in one place.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_core::classify::InterfaceId;
use weir_core::units::Instant;

use super::action::{FlowId, Request};
use super::outbox::{Call, Outbox};
use crate::intserv::{Adspec, Flowspec, Tspec};
use crate::wire::{Carried, Filter, Hop, MessageId, Reservation, Session, Style};

/// A session with the state blocks of [rfc2209 §1].
#[derive(Clone, Debug)]
pub struct SessionState {
    pub key: Session,
    /// Boxed, since a node of a `BTreeMap` has room for eleven, and most sessions have one.
    pub senders: BTreeMap<Filter, Box<Sender>>,
    pub reservations: Vec<Reserved>,
    pub flows: Vec<Flow>,
    pub upstreams: Vec<Upstream>,
    pub blockades: Vec<Blockade>,
    /// Counts changes of reservations: an answer of traffic control covers those that came before
    /// it was asked.
    pub generation: u64,
    /// When the session is in the node's queue of timers.
    pub due: Option<Instant>,
}

/// A sender: the path state block of [rfc2209 §1].
#[derive(Clone, Debug)]
pub struct Sender {
    /// The previous hop and the interface where it is; none for a sender of this host.
    pub from: Option<Neighbour>,
    pub tspec: Tspec,
    pub adspec: Option<Box<Adspec>>,
    pub policies: Vec<Vec<u8>>,
    pub carried: Vec<Carried>,
    pub police: bool,
    /// The TTL with which the next Path leaves.
    pub ttl: u8,
    /// The interfaces by which its packets leave.
    pub outgoing: Vec<InterfaceId>,
    /// Whether this host is a receiver.
    pub local: bool,
    /// When it is forgotten without a refresh; never for a sender of this host.
    pub expires: Option<Instant>,
    pub refresh_at: Instant,
    /// The identifier of the Path that brought it.
    pub came_as: Option<MessageId>,
    /// The previous hop of before a change of route, until its state expires.
    pub former: Option<(Neighbour, Instant)>,
    /// Identifiers of the Path messages that were sent, by interface.
    pub message_ids: Vec<(InterfaceId, u32)>,
}

/// A previous hop and the interface where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Neighbour {
    pub interface: InterfaceId,
    pub hop: Hop,
}

/// A reservation: the reservation state block of [rfc2209 §1].
#[derive(Clone, Debug)]
pub struct Reserved {
    /// The next hop and the interface where it is; none for a receiver of this host.
    pub from: Option<Neighbour>,
    pub style: Style,
    pub wanted: Wanted,
    /// The part of it that traffic control admitted.
    pub admitted: Option<Wanted>,
    /// The session's generation when `wanted` last changed.
    pub generation: u64,
    /// The receiver that wants to know when it stands.
    pub confirm: Option<IpAddr>,
    /// POLICY_DATA and objects of unknown classes, which go on upstream.
    pub opaque: OpaqueObjects,
    pub expires: Option<Instant>,
    /// The identifier of the Resv that brought it.
    pub came_as: Option<MessageId>,
}

/// Objects that travel with a reservation and are not read here.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OpaqueObjects {
    pub policies: Vec<Vec<u8>>,
    pub carried: Vec<Carried>,
}

/// The request of a reservation.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    pub flowspec: Flowspec,
    /// The senders; empty with WF.
    pub filters: Vec<Filter>,
    /// With WF, the senders that the reservation may reach; empty for all.
    pub scope: Vec<IpAddr>,
}

/// A flow of traffic control: the traffic control state block of [rfc2209 §1]. What most flows do
/// not have for long is boxed.
#[derive(Clone, Debug)]
pub struct Flow {
    pub id: FlowId,
    pub interface: InterfaceId,
    /// With FF the sender.
    pub sender: Option<Filter>,
    pub installed: Option<Request>,
    /// The request whose reply is due, with the session's generation at that time.
    pub asked: Option<Box<(Request, u64)>>,
    /// The request that was refused last, with the generation of that time.
    pub refused: Option<Box<(Request, u64)>>,
}

/// A previous hop and the last Resv that it was sent.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// None for senders of this host.
    pub from: Option<Neighbour>,
    pub sent: Reservation,
    pub scope: Vec<IpAddr>,
    pub opaque: OpaqueObjects,
    pub refresh_at: Instant,
    pub id: Option<u32>,
}

/// A flowspec that failed upstream: the blockade state block of [rfc2209 §1].
#[derive(Clone, Copy, Debug)]
pub struct Blockade {
    pub from: Neighbour,
    /// With FF the sender.
    pub sender: Option<Filter>,
    pub flowspec: Flowspec,
    pub until: Instant,
}

impl SessionState {
    pub fn new(key: Session) -> Self {
        Self {
            key,
            senders: BTreeMap::new(),
            reservations: Vec::new(),
            flows: Vec::new(),
            upstreams: Vec::new(),
            blockades: Vec::new(),
            generation: 0,
            due: None,
        }
    }

    /// Returns whether nothing is left to remember.
    pub fn is_empty(&self) -> bool {
        self.senders.is_empty() && self.reservations.is_empty() && self.flows.is_empty()
    }

    /// Gives back room that tables took in advance: most sessions have one row in each.
    pub fn shrink(&mut self) {
        self.reservations.shrink_to_fit();
        self.flows.shrink_to_fit();
        self.upstreams.shrink_to_fit();
    }

    /// The style of the session's reservations.
    pub fn style(&self) -> Option<Style> {
        self.reservations.first().map(|reserved| reserved.style)
    }

    /// When something is to be done next.
    pub fn next_due(&self) -> Option<Instant> {
        let senders = self.senders.values();
        let senders = senders.flat_map(|sender| [sender.expires, Some(sender.refresh_at)]);
        let reservations = self.reservations.iter().map(|reserved| reserved.expires);
        let upstreams = self.upstreams.iter().map(|up| up.from.map(|_| up.refresh_at));
        let blockades = self.blockades.iter().map(|blockade| Some(blockade.until));
        senders.chain(reservations).chain(upstreams).chain(blockades).flatten().min()
    }

    /// Returns the senders that a reservation reaches: their packets leave by its interface, and it
    /// names them.
    pub fn reached<'a>(
        &'a self,
        from: Option<Neighbour>,
        wanted: &'a Wanted,
    ) -> impl Iterator<Item = (&'a Filter, &'a Sender)> {
        let senders = self.senders.iter().map(|(filter, sender)| (filter, &**sender));
        senders.filter(move |(filter, sender)| {
            sender.leaves_by(from.map(|from| from.interface)) && wanted.names(filter)
        })
    }

    /// Brings traffic control and the previous hops up to date with what is wanted.
    pub fn reconcile(&mut self, call: Call<'_>, out: &mut Outbox) {
        self.prune();
        self.reconcile_flows(call.removal, out);
        self.reconcile_upstreams(call, out);
    }

    /// Removes what no sender is left for: reservations live no longer than the path state that
    /// they follow [rfc2205 §2.4].
    fn prune(&mut self) {
        let mut reservations = std::mem::take(&mut self.reservations);
        reservations.retain_mut(|reserved| {
            let from = reserved.from;
            let alive: Vec<Filter> =
                self.reached(from, &reserved.wanted).map(|(filter, _)| *filter).collect();
            if reserved.style != Style::Wildcard {
                let keep = |wanted: &mut Wanted| {
                    wanted.filters.retain(|filter| self.is_reachable(from, filter));
                };
                keep(&mut reserved.wanted);
                reserved.admitted.iter_mut().for_each(keep);
            }
            !alive.is_empty()
        });
        self.reservations = reservations;
        let senders = &self.senders;
        let known =
            |from: &Neighbour| senders.values().any(|sender| sender.from.as_ref() == Some(from));
        self.blockades.retain(|blockade| known(&blockade.from));
    }

    fn is_reachable(&self, from: Option<Neighbour>, filter: &Filter) -> bool {
        let interface = from.map(|from| from.interface);
        self.senders.get(filter).is_some_and(|sender| sender.leaves_by(interface))
    }
}

impl Sender {
    /// Returns whether packets leave by the interface, or without one, whether they end here.
    pub fn leaves_by(&self, interface: Option<InterfaceId>) -> bool {
        interface.map_or(self.local, |interface| self.outgoing.contains(&interface))
    }
}

impl Wanted {
    /// Returns whether the reservation is for this sender.
    pub fn names(&self, sender: &Filter) -> bool {
        if self.filters.is_empty() {
            return self.scope.is_empty() || self.scope.contains(&sender.source);
        }
        self.filters.contains(sender)
    }
}

impl Reserved {
    pub fn new(from: Option<Neighbour>, style: Style, wanted: Wanted) -> Self {
        let (admitted, confirm, expires, came_as) = (None, None, None, None);
        let (generation, opaque) = (0, OpaqueObjects::default());
        Self { from, style, wanted, admitted, generation, confirm, opaque, expires, came_as }
    }

    /// Returns whether all that is wanted is admitted.
    pub fn is_settled(&self) -> bool {
        self.admitted.as_ref() == Some(&self.wanted)
    }
}
