//! The headers of a packet, read once, in a small `Copy` record.
//!
//! [`Headers::parse`] is total: any bytes give a record. Fields that cannot be read stay unknown,
//! and [`Headers::depth`] says how far reading got. So a hostile, truncated or foreign packet takes
//! no special path: it matches fewer rules and ends in the default class.

mod checksum;
mod encapsulation;
pub(crate) mod fields;
mod flow;
mod link;
mod mac;
mod parse;
mod scheduled;
mod segment;
mod unread;
mod wireless;
mod write;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use checksum::Checksum;
pub use encapsulation::MPLS_LABELS_MAX;
pub use fields::{Dscp, Ecn, EtherType, FieldError, Pcp, Protocol, VlanId};
pub use flow::{FlowKey, Host};
pub use link::{FRAME_RELAY_ADDRESS_MAX, LinkType, NFLOG_ATTRIBUTES_MAX};
pub use mac::{MacAddress, Macs};
pub use parse::{EXTENSIONS_MAX, VLAN_TAGS_MAX};
pub use scheduled::{Arrival, Head, Packet};
pub use segment::Segment;
pub use unread::{Unread, UnreadCounts};
pub use wireless::RADIOTAP_WORDS_MAX;
pub use write::write_traffic_class;

/// The headers of one packet, as far as they could be read.
///
/// The fields are public because this is a record without invariants: a simulated source fills one
/// in without making bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// The addresses of the network layer.
    pub addresses: Addresses,
    /// Length of the IP packet in bytes, header included, as its header claims. Unknown where the
    /// header cannot say: jumbograms, and segments that a network card will cut (length 0).
    pub network_len: Option<u32>,
    /// Its place in a fragmented datagram.
    pub fragment: Fragment,
    /// Transport ports; never known for a later fragment.
    pub ports: Option<Ports>,
    /// Ethertype behind all VLAN tags; that of the IP packet where one was read in a PPPoE session
    /// or behind MPLS labels, and that of SNAP in an IEEE 802.3 frame, which has a length there.
    pub ethertype: Option<EtherType>,
    /// The only or the outer VLAN tag.
    pub vlan: Option<VlanTag>,
    /// The tag behind the outer one (QinQ).
    pub vlan_inner: Option<VlanTag>,
    /// The transport protocol: behind the extension headers, for IPv6.
    pub protocol: Option<Protocol>,
    /// The byte that holds DSCP and ECN (IPv4 TOS, IPv6 traffic class).
    pub traffic_class: Option<u8>,
    /// The part of the transport header that rules may test beside ports.
    pub transport: Transport,
    /// The stations of an Ethernet frame. For every packet the parser copies twelve bytes more, for
    /// rules that few policies have; but without these no rule can name a device.
    pub macs: Option<Macs>,
    /// The mark that a firewall of this machine gave the packet; 0 without one. It is not in the
    /// packet's bytes: only ports that know it set it.
    pub mark: u32,
    /// Length in bytes of what precedes the network header: link header, VLAN tags, SNAP, PPPoE,
    /// labels.
    pub link_len: u16,
    /// How far reading got.
    pub depth: Depth,
    /// Why the IP header could not be read, if the frame may have one.
    pub unread: Option<Unread>,
}

// One and a half cache lines. A further field must be worth its cost for every packet.
const _: () = assert!(size_of::<Headers>() <= 96);

impl Headers {
    /// Nothing could be read.
    pub const UNKNOWN: Headers = Headers {
        addresses: Addresses::Unknown,
        network_len: None,
        fragment: Fragment::None,
        ports: None,
        ethertype: None,
        vlan: None,
        vlan_inner: None,
        protocol: None,
        traffic_class: None,
        transport: Transport::Unknown,
        macs: None,
        mark: 0,
        link_len: 0,
        depth: Depth::Nothing,
        unread: None,
    };

    /// Returns the headers of a whole IP packet of a flow, without a link layer, as a simulated
    /// source sends it.
    pub fn of_flow(addresses: Addresses, protocol: Protocol, ports: Ports) -> Headers {
        Headers {
            addresses,
            ethertype: addresses.ethertype(),
            protocol: Some(protocol),
            ports: Some(ports),
            traffic_class: Some(0),
            depth: Depth::Transport,
            ..Headers::UNKNOWN
        }
    }

    /// Adds an outer tag that the network interface removed. Linux strips the outer tag before
    /// AF_PACKET and delivers it beside the frame.
    ///
    /// `link_len` stays as it is: it describes the bytes as received.
    pub fn with_stripped_tag(self, tag: VlanTag) -> Headers {
        Headers { vlan: Some(tag), vlan_inner: self.vlan, ..self }
    }

    /// Returns what all packets of a flow have in common: length, place in a datagram and TCP's
    /// flags are unknown.
    pub fn in_common(self) -> Headers {
        let transport = match self.transport {
            Transport::Icmp(found) => Transport::Icmp(found),
            Transport::Tcp(_) | Transport::Unknown => Transport::Unknown,
        };
        Headers { network_len: None, fragment: Fragment::None, transport, ..self }
    }

    /// The DiffServ code point.
    pub fn dscp(&self) -> Option<Dscp> {
        self.traffic_class.map(Dscp::of_traffic_class)
    }

    /// The flags of TCP; `None` for other protocols and later fragments.
    pub fn tcp_flags(&self) -> Option<TcpFlags> {
        match self.transport {
            Transport::Tcp(flags) => Some(flags),
            _ => None,
        }
    }

    /// The type of an ICMP message; `None` for other protocols and later fragments.
    pub fn icmp(&self) -> Option<IcmpType> {
        match self.transport {
            Transport::Icmp(found) => Some(found),
            _ => None,
        }
    }

    /// The congestion notification field.
    pub fn ecn(&self) -> Option<Ecn> {
        self.traffic_class.map(Ecn::of_traffic_class)
    }
}

/// Source and destination, in one value since both are of one family or unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// Not an IP packet, or cut short before its addresses.
    Unknown,
    /// Addresses of IPv4.
    V4 {
        /// Where the packet comes from.
        source: Ipv4Addr,
        /// Where it goes to.
        destination: Ipv4Addr,
    },
    /// Addresses of IPv6.
    V6 {
        /// Where the packet comes from.
        source: Ipv6Addr,
        /// Where it goes to.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// The address the packet comes from.
    pub fn source(&self) -> Option<IpAddr> {
        match *self {
            Addresses::Unknown => None,
            Addresses::V4 { source, .. } => Some(source.into()),
            Addresses::V6 { source, .. } => Some(source.into()),
        }
    }

    /// The address the packet goes to.
    pub fn destination(&self) -> Option<IpAddr> {
        match *self {
            Addresses::Unknown => None,
            Addresses::V4 { destination, .. } => Some(destination.into()),
            Addresses::V6 { destination, .. } => Some(destination.into()),
        }
    }

    fn ethertype(&self) -> Option<EtherType> {
        match self {
            Addresses::Unknown => None,
            Addresses::V4 { .. } => Some(EtherType::IPV4),
            Addresses::V6 { .. } => Some(EtherType::IPV6),
        }
    }
}

/// Transport ports of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// The port of the sender.
    pub source: u16,
    /// The port of the receiver.
    pub destination: u16,
}

/// The part of a transport header that depends on the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Another protocol, a later fragment, or cut short.
    Unknown,
    /// The flags of TCP.
    Tcp(TcpFlags),
    /// The type of an ICMP message, of IPv4 or IPv6.
    Icmp(IcmpType),
}

/// A packet's place in a fragmented datagram, with the datagram's identification (16 bits in IPv4,
/// 32 in IPv6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fragment {
    /// A whole datagram. An IPv6 packet with a fragment header but a single fragment is whole
    /// [RFC 6946].
    None,
    /// The first fragment, with the transport header.
    First(u32),
    /// Any further fragment: payload only. Its first bytes are not ports.
    Later {
        /// The identification that all fragments of the datagram share.
        id: u32,
        /// Whether the fragment says that more follow it.
        more: bool,
    },
}

/// How far reading got. Later values imply the earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Depth {
    /// Not even the link header.
    Nothing,
    /// The link header: VLAN tags and ethertype.
    Link,
    /// The network header: addresses, DSCP, fragment.
    Network,
    /// The ports. ICMP and others that have none stay at `Network`.
    Transport,
}

/// The tag control information of a VLAN tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlanTag(pub u16);

impl VlanTag {
    /// The VLAN's number, 0..=4095; 0 means that the tag carries a priority only.
    pub fn id(self) -> u16 {
        self.0 & 0x0fff
    }

    /// The priority code point (PCP), 0..=7.
    pub fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Returns whether the frame may be dropped first (DEI).
    pub fn drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }
}

/// TCP's flag byte: CWR ECE URG ACK PSH RST SYN FIN, from the highest bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: TcpFlags = TcpFlags(0x01);
    /// SYN: opens a connection.
    pub const SYN: TcpFlags = TcpFlags(0x02);
    /// RST: aborts a connection.
    pub const RST: TcpFlags = TcpFlags(0x04);
    /// Deliver without waiting for more data.
    pub const PSH: TcpFlags = TcpFlags(0x08);
    /// The acknowledgement number is valid.
    pub const ACK: TcpFlags = TcpFlags(0x10);

    /// Returns whether all of `flags` are set.
    pub fn contains(self, flags: TcpFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// The type and the code of an ICMP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IcmpType {
    /// The number of the type; those of IPv4 and IPv6 differ.
    pub number: u8,
    /// The subject of the message, among those of its type.
    pub code: u8,
}
