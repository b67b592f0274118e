//! The plain values that objects hold: sessions, filters, hops, styles, identifiers of messages.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A session: the flows to one destination that share reservations [rfc2205 §1.1].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Session {
    /// Where the data packets go, unicast or multicast.
    pub destination: IpAddr,
    /// Their IP protocol number.
    pub protocol: u8,
    /// Their destination port; 0 for any.
    pub port: u16,
}

impl Session {
    /// A session of UDP packets.
    pub const fn udp(destination: IpAddr, port: u16) -> Self {
        Self { destination, protocol: 17, port }
    }

    /// Returns whether the destination is a multicast group.
    pub const fn is_multicast(&self) -> bool {
        self.destination.is_multicast()
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} protocol {} port {}", self.destination, self.protocol, self.port)
    }
}

/// A sender of a session, as SENDER_TEMPLATE and FILTER_SPEC name it [rfc2205 §A.9].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Filter {
    /// The sender's address.
    pub source: IpAddr,
    /// Which of its packets.
    pub select: Select,
}

/// Which packets of a sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Select {
    /// Packets from this port; 0 for any.
    Port(u16),
    /// Packets with this flow label, which only IPv6 has: 20 bits.
    FlowLabel(u32),
}

impl Filter {
    /// The packets of a sender from one port.
    pub const fn new(source: IpAddr, port: u16) -> Self {
        Self { source, select: Select::Port(port) }
    }

    /// The packets of a sender with a flow label.
    pub const fn labelled(source: Ipv6Addr, label: u32) -> Self {
        Self { source: IpAddr::V6(source), select: Select::FlowLabel(label & FLOW_LABEL_MAX) }
    }

    /// Returns whether this names packets by port 0, that is any.
    pub(crate) fn is_any_port(&self) -> bool {
        self.select == Select::Port(0)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.select {
            Select::Port(port) => write!(f, "{} port {port}", self.source),
            Select::FlowLabel(label) => write!(f, "{} flow label {label:#x}", self.source),
        }
    }
}

/// The largest flow label of IPv6.
pub const FLOW_LABEL_MAX: u32 = 0xf_ffff;

/// A neighbour and the interface by which it speaks [rfc2205 §A.2].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Hop {
    /// The address of the neighbour's interface.
    pub address: IpAddr,
    /// The logical interface handle: the sender of a Path chose it, and a Resv returns it.
    pub handle: u32,
}

/// How reservations of a session share, and which senders they name [rfc2205 §1.3].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Style {
    /// WF: one reservation shared by all senders.
    Wildcard,
    /// FF: a reservation for each sender.
    Fixed,
    /// SE: one reservation shared by the senders that it names.
    Shared,
}

impl Style {
    /// The option vector of STYLE [rfc2205 §A.7].
    pub const fn bits(self) -> u32 {
        match self {
            Style::Wildcard => 0b10_001,
            Style::Fixed => 0b01_010,
            Style::Shared => 0b10_010,
        }
    }

    /// The style of an option vector.
    pub const fn of_bits(bits: u32) -> Option<Style> {
        match bits & 0b11_111 {
            0b10_001 => Some(Style::Wildcard),
            0b01_010 => Some(Style::Fixed),
            0b10_010 => Some(Style::Shared),
            _ => None,
        }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Style::Wildcard => "WF",
            Style::Fixed => "FF",
            Style::Shared => "SE",
        })
    }
}

/// A sign of a neighbour that it is alive, and has been since [rfc3209 §5].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// It answers a request.
    pub answers: bool,
    /// The life of its sender: another number after each start.
    pub source: u32,
    /// The life of its receiver, as far as the sender knows; else 0.
    pub destination: u32,
}

/// The identifier of a message between two neighbours [rfc2961 §4.2].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MessageId {
    /// The life of the sender: 24 bits, another number after each start.
    pub epoch: u32,
    /// Differs between the messages of one life of the sender.
    pub number: u32,
}

/// The largest epoch: 24 bits.
pub const EPOCH_MAX: u32 = 0xff_ffff;

/// An identifier that a message carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identified {
    /// The identifier, unique for the sender and its epoch.
    pub id: MessageId,
    /// The sender wants an acknowledgement.
    pub acknowledge: bool,
}

/// A receipt of a neighbour for an identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The identifier of the message that it received or lacks.
    pub id: MessageId,
    /// The message arrived (MESSAGE_ID_ACK); else a refresh named it, and it is unknown there
    /// (MESSAGE_ID_NACK).
    pub known: bool,
}
