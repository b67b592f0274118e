//! A copy of a node's sessions, for `status` and tests.

use std::net::IpAddr;

use weir_core::classify::InterfaceId;
use weir_core::units::Instant;

use super::action::{FlowId, Request};
use super::state::{Neighbour, SessionState};
use crate::intserv::{Flowspec, Tspec};
use crate::wire::{Filter, Reservation, Session, Style};

/// A session and all that a node knows of it.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionView {
    /// The key of the session.
    pub session: Session,
    /// Its senders, with their path state.
    pub senders: Vec<SenderView>,
    /// Its reservations, with their reservation state.
    pub reservations: Vec<ReservationView>,
    /// The flows in traffic control.
    pub flows: Vec<FlowView>,
    /// The last Resv for each previous hop; without an address, for the senders of this host.
    pub upstream: Vec<(Option<IpAddr>, Reservation)>,
    /// Previous hops where a reservation failed, until when.
    pub blockades: Vec<(IpAddr, Flowspec, Instant)>,
}

/// The path state of a sender.
#[derive(Clone, PartialEq, Debug)]
pub struct SenderView {
    /// Its address and port.
    pub sender: Filter,
    /// The previous hop; none for a sender of this host.
    pub hop: Option<(InterfaceId, IpAddr)>,
    /// The traffic that it announces.
    pub tspec: Tspec,
    /// The interfaces by which its packets leave.
    pub outgoing: Vec<InterfaceId>,
    /// Whether this host receives it.
    pub local: bool,
    /// When it is forgotten without a refresh.
    pub expires: Option<Instant>,
}

/// A next hop's reservation.
#[derive(Clone, PartialEq, Debug)]
pub struct ReservationView {
    /// The next hop; none for a receiver of this host.
    pub hop: Option<(InterfaceId, IpAddr)>,
    /// How its senders share it.
    pub style: Style,
    /// The service and rate that it requests.
    pub flowspec: Flowspec,
    /// The senders; empty with WF.
    pub filters: Vec<Filter>,
    /// Whether all of it is admitted.
    pub admitted: bool,
    /// When it is forgotten without a refresh.
    pub expires: Option<Instant>,
}

/// A flow in traffic control.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowView {
    /// The identifier that the node chose.
    pub id: FlowId,
    /// The request that traffic control carries out; `None` before the first reply.
    pub installed: Option<Request>,
    /// Whether an answer is due.
    pub pending: bool,
}

impl SessionState {
    /// Returns what there is to see.
    pub fn view(&self) -> SessionView {
        let senders = self.senders.iter().map(|(filter, sender)| SenderView {
            sender: *filter,
            hop: sender.from.map(|from| (from.interface, from.hop.address)),
            tspec: sender.tspec,
            outgoing: sender.outgoing.clone(),
            local: sender.local,
            expires: sender.expires,
        });
        let reservations = self.reservations.iter().map(|reserved| ReservationView {
            hop: reserved.from.map(|from| (from.interface, from.hop.address)),
            style: reserved.style,
            flowspec: reserved.wanted.flowspec,
            filters: reserved.wanted.filters.clone(),
            admitted: reserved.is_settled(),
            expires: reserved.expires,
        });
        let flows = self.flows.iter().map(|flow| FlowView {
            id: flow.id,
            installed: flow.installed.clone(),
            pending: flow.asked.is_some(),
        });
        let address = |from: Option<Neighbour>| from.map(|from| from.hop.address);
        let upstream = self.upstreams.iter().map(|up| (address(up.from), up.sent.clone()));
        let blockades = self.blockades.iter();
        SessionView {
            session: self.key,
            senders: senders.collect(),
            reservations: reservations.collect(),
            flows: flows.collect(),
            upstream: upstream.collect(),
            blockades: blockades
                .map(|one| (one.from.hop.address, one.flowspec, one.until))
                .collect(),
        }
    }
}
