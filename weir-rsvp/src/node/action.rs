//! The inputs of a node and its outputs.

use std::net::IpAddr;

use weir_core::classify::InterfaceId;
use weir_core::units::Instant;

use crate::intserv::{Adspec, Flowspec, Tspec};
use crate::wire::{Cause, ErrorSpec, Filter, Priority, Reservation, Session, Style};

/// An RSVP message that arrived, without its IP header.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The interface by which it arrived.
    pub interface: InterfaceId,
    /// The source address of the IP header.
    pub source: IpAddr,
    /// The destination address of the IP header.
    pub destination: IpAddr,
    /// The IP TTL or hop limit with which it arrived.
    pub ttl: u8,
    /// The message, without the IP header.
    pub bytes: &'a [u8],
}

/// An RSVP message to send: IP protocol 46.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The interface by which it leaves.
    pub interface: InterfaceId,
    /// The IP source; of a Path that of the sender, which need not be this node's.
    pub source: IpAddr,
    /// The destination address for the IP header.
    pub destination: IpAddr,
    /// The IP TTL or hop limit.
    pub ttl: u8,
    /// The header has the router alert option, so that routers on the way read it.
    pub alert: bool,
    /// The message, without an IP header.
    pub bytes: Vec<u8>,
}

/// The next step that a node requests of its driver.
#[derive(Clone, PartialEq, Debug)]
pub enum Poll {
    /// Carry this out, and poll again.
    Action(Action),
    /// The driver polls again at this instant, or when something arrives before.
    At(Instant),
    /// Nothing until something arrives.
    Idle,
}

/// A step that the driver carries out.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Send this message.
    Send(Packet),
    /// Change traffic control; the driver reports the result.
    Control(Control),
    /// Tell an application of this host.
    Event(Event),
}

/// A flow in traffic control.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowId(pub u64);

/// A change of traffic control.
#[derive(Clone, PartialEq, Debug)]
pub enum Control {
    /// Install a flow. `Node::answer` says whether it was admitted.
    Add(FlowId, Request),
    /// Change an installed flow. If that is refused, the flow stays as it is. Wants an answer, too.
    Modify(FlowId, Request),
    /// Remove a flow, for this reason. Wants no answer.
    Remove(FlowId, Removal),
}

/// Why a flow goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// A neighbour, or an application of this host, wants it no more: a tear, or another style.
    Torn,
    /// A neighbour did not refresh it.
    Expired,
    /// The packets go another way.
    Rerouted,
}

/// A flow for traffic control: TC_AddFlowspec and TC_AddFilter in one [rfc2205 §3.11.2].
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// The session to which the packets belong.
    pub session: Session,
    /// The interface by which the flow leaves.
    pub interface: InterfaceId,
    /// The style, which says whether the senders share.
    pub style: Style,
    /// The merged flowspec of all next hops on the interface.
    pub flowspec: Flowspec,
    /// The most that the senders send, bounded by the reservation: the effective Tspec.
    pub tspec: Tspec,
    /// The senders whose packets may use it; of WF those that are known now.
    pub filters: Vec<Filter>,
    /// Where the flow has to be policed.
    pub police: Police,
    /// The neighbours that reserve.
    pub hops: Vec<IpAddr>,
    /// The highest priority that one of them gives the reservation `[rfc3181]`.
    pub priority: Option<Priority>,
}

/// Where a flow is policed [rfc2205 §3.11.2].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Police {
    /// It enters the network here (`E_Police_Flag`).
    pub entry: bool,
    /// Flows of several senders merge here (`M_Police_Flag`).
    pub merge: bool,
    /// Less is reserved here than on another branch (`B_Police_Flag`).
    pub branch: bool,
}

/// A notice to an application of this host.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A sender is there, or it changed.
    Path {
        /// The session to which it sends.
        session: Session,
        /// Its address and port.
        sender: Filter,
        /// The traffic that it announces.
        tspec: Tspec,
        /// The properties of the path so far.
        adspec: Option<Adspec>,
    },
    /// A sender withdrew, or its state expired.
    PathGone {
        /// The session to which it sent.
        session: Session,
        /// Its address and port.
        sender: Filter,
    },
    /// For a sender of this host: what is reserved for it on the first hop; `None` if no more.
    Reserved {
        /// The session of the sender.
        session: Session,
        /// The merged reservation of the receivers.
        reservation: Option<Reservation>,
    },
    /// For a sender of this host: its Path failed somewhere.
    PathError {
        /// The session of the sender.
        session: Session,
        /// The error, and the node that found it.
        error: ErrorSpec,
        /// The sender, if the message names it.
        sender: Option<Filter>,
    },
    /// For a receiver of this host: its reservation failed somewhere.
    ResvError {
        /// The session of the receiver.
        session: Session,
        /// The error, and the node that found it.
        error: ErrorSpec,
        /// The reservation that failed, or the part of it.
        reservation: Reservation,
    },
    /// For a receiver of this host: its reservation stands.
    Confirmed {
        /// The session of the receiver.
        session: Session,
        /// The node that says so.
        node: IpAddr,
    },
}

/// Counters of a node, from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Messages that arrived, faulty ones included.
    pub received: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were no RSVP, named a hop that is none, or were longer than 8 KiB.
    pub malformed: u64,
    /// Messages whose digest or number was wrong.
    pub insecure: u64,
    /// Messages that meant nothing to this node: of unknown state, from the wrong interface.
    pub stray: u64,
    /// State that a full table did not take.
    pub full: u64,
    /// Messages that could not be sent, for the interface has no address of that family, or they
    /// were longer than a packet.
    pub unaddressed: u64,
    /// Messages sent again, for no acknowledgement came.
    pub retransmitted: u64,
    /// Error messages that this node caused.
    pub refused: u64,
}

/// Why a call of an application is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostError {
    /// The Tspec or flowspec describes no flow.
    Unsound(Cause),
    /// The session has no such sender, or none at all.
    NoSender,
    /// Another style is reserved in the session.
    Style,
    /// A table is full.
    Full,
    /// Sender and session are of different address families, or no interface has an address.
    Family,
    /// The flow descriptors do not have the form of their style.
    Form,
}

impl std::fmt::Display for HostError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostError::Unsound(cause) => {
                write!(f, "{cause}: rate and bucket must be positive, the bucket hold a packet")
            }
            HostError::NoSender => f.write_str("no such sender: wait until its Path has come"),
            HostError::Style => f.write_str("another style is reserved; release that first"),
            HostError::Full => f.write_str("the node's tables are full; release something"),
            HostError::Family => {
                f.write_str("sender and session need addresses of one family, and the node, too")
            }
            HostError::Form => f.write_str(
                "WF takes one flowspec without senders, FF a flowspec for each sender, SE one \
                 flowspec with its senders",
            ),
        }
    }
}

impl std::error::Error for HostError {}
