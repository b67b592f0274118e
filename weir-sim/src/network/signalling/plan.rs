//! The plan of signalling: which nodes speak RSVP, what they lose, who reserves what and when.

use crate::network::plan::{NodeId, OutletId};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_core::units::{Duration, Instant, Share};
use weir_policy::Policy;
use weir_policy::deployment::Excess;
use weir_rsvp::intserv::Tspec;
use weir_rsvp::node::Timers;
use weir_rsvp::receiver::Asked;
use weir_rsvp::wire::{Filter, Session, Style};

/// How a network signals, and its reservations.
#[derive(Clone, Debug)]
pub struct Signalling {
    /// The timers of all nodes.
    pub timers: Timers,
    /// Whether nodes use message identifiers and summary refreshes `[rfc2961]`.
    pub reduction: bool,
    /// The part of the messages that is lost beside what queues drop, on each link.
    pub loss: Share,
    /// When messages are lost: from the first instant up to the second.
    pub lossy: (Instant, Instant),
    /// The class below which reservations have their leaves.
    pub class: String,
    /// The treatment of packets beyond a reservation.
    pub excess: Excess,
    /// The term D of each outlet's delay bounds; without one, that which a reservation alone gets.
    pub delay: Option<Duration>,
    /// The policies, with all their places, of outlets that have the class. Other outlets let
    /// reserved flows pass as they are.
    pub policies: BTreeMap<OutletId, Policy>,
    /// The address of each node.
    pub addresses: Vec<IpAddr>,
    /// The reservations, in the order of the scenario.
    pub reservations: Vec<Reservation>,
}

/// A reservation: senders that announce their flows, and a receiver that reserves for them.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The name in reports.
    pub name: String,
    /// Where the packets go.
    pub session: Session,
    /// The host that receives them.
    pub receiver: NodeId,
    /// The senders: the host, and what its packets have in common.
    pub senders: Vec<(NodeId, Filter)>,
    /// How the senders share the reservation.
    pub style: Style,
    /// The most that each sender sends, which is reserved, too.
    pub tspec: Tspec,
    /// The service that is asked for.
    pub service: Asked,
    /// When senders announce and the receiver begins to reserve.
    pub start: Instant,
    /// When both give up.
    pub stop: Option<Instant>,
    /// Later Tspecs, in the order of time.
    pub retunes: Vec<(Instant, Tspec)>,
}

impl Reservation {
    /// The Tspec from `at` on.
    pub(crate) fn tspec_at(&self, at: Instant) -> Tspec {
        let later = self.retunes.iter().rev().find(|row| row.0 <= at);
        later.map_or(self.tspec, |row| row.1)
    }

    /// The word for its service in reports.
    pub(crate) const fn service_word(&self) -> &'static str {
        match self.service {
            Asked::ControlledLoad => "controlled-load",
            _ => "guaranteed",
        }
    }
}

/// Bound: reservations of a scenario; one with more is refused.
pub const RESERVATIONS_MAX: usize = 1 << 14;
/// Bound: senders of a reservation, as many as a node takes; a scenario with more is refused.
pub const SENDERS_MAX: usize = 48;
/// Bound: later Tspecs of a reservation; a scenario with more is refused.
pub const RETUNES_MAX: usize = 1000;
