//! Rules: conditions on packets, independent of the algorithm that searches them.
//!
//! A packet that lacks a field does not satisfy a condition on that field: ports of an ICMP packet
//! or of a later fragment, addresses of an ARP frame. An absent condition is always satisfied. Only
//! [`VlanTest::Untagged`] demands that a field is absent; a packet without a mark has mark 0.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use super::details::Details;
use super::hash::Spread;
use super::marks::MarkTest;
use super::services::service_port;
use super::tags::VlanTest;
use crate::ids::{LeafId, MeterId};
use crate::packet::fields::decimal;
use crate::packet::{
    Addresses, Dscp, Ecn, EtherType, FieldError, FlowKey, Headers, MacAddress, Protocol,
};

/// Packets that satisfy `matches` go to `leaf`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The conditions, which a packet must satisfy together.
    pub matches: Match,
    /// The leaf of its packets.
    pub leaf: LeafId,
    /// The meter that polices its packets, in place of their class's.
    pub meter: Option<MeterId>,
    /// The hash and the number of leaves, from `leaf` on, over which its packets are spread.
    pub spread: Option<Spread>,
    /// The headers by which the leaf's dropper separates flows, if it does.
    pub flow: FlowKey,
    /// The key that a [`MatchOrder`](super::MatchOrder) other than `first` sorts by, if it is
    /// written.
    pub sort_key: Option<u32>,
}

impl Rule {
    /// A rule for one leaf, without a meter of its own and without a sort key.
    pub fn new(matches: Match, leaf: LeafId) -> Rule {
        Rule { matches, leaf, meter: None, spread: None, flow: FlowKey::Connection, sort_key: None }
    }

    /// Returns the target of its packets.
    pub const fn target(&self) -> Target {
        Target { leaf: self.leaf, meter: self.meter, spread: self.spread, flow: self.flow }
    }
}

/// Where packets go, and which meter polices them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Target {
    /// The leaf, or the first of those over which packets are spread.
    pub leaf: LeafId,
    /// The rule's own meter.
    pub meter: Option<MeterId>,
    /// How packets are spread over leaves; with none, all go to `leaf`.
    pub spread: Option<Spread>,
    /// The headers by which the leaf's dropper separates flows.
    pub flow: FlowKey,
}

impl From<LeafId> for Target {
    fn from(leaf: LeafId) -> Target {
        Target { leaf, meter: None, spread: None, flow: FlowKey::Connection }
    }
}

/// Conditions on a packet; all of them must hold. The default has none and accepts every packet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Match {
    /// Prefixes of the source; if empty, any source matches, and so does a packet without
    /// addresses.
    pub sources: Vec<Prefix>,
    /// Prefixes of the destination; if empty, as for `sources`.
    pub destinations: Vec<Prefix>,
    /// The transport protocol; `None` for any.
    pub protocol: Option<Protocol>,
    /// Ranges of the source port, of any protocol that has ports; if empty, any packet matches.
    pub source_ports: Vec<PortRange>,
    /// Ranges of the destination port; if empty, as for `source_ports`.
    pub destination_ports: Vec<PortRange>,
    /// DiffServ code points; if empty, any packet matches.
    pub dscps: Vec<Dscp>,
    /// The ECN field; `None` for any.
    pub ecn: Option<Ecn>,
    /// The only or outer VLAN tag.
    pub vlan: Option<VlanTest>,
    /// The inner VLAN tag of two.
    pub vlan_inner: Option<VlanTest>,
    /// The ethertype behind all tags.
    pub ethertype: Option<EtherType>,
    /// The interface by which the packet came in.
    pub interface: Option<InterfaceId>,
    /// Stations that send the frame; if empty, any frame matches, and so does a packet without
    /// an Ethernet header.
    pub source_macs: Vec<MacAddress>,
    /// Stations that the frame goes to; if empty, as for `source_macs`.
    pub destination_macs: Vec<MacAddress>,
    /// The mark that a firewall gave the packet.
    pub mark: Option<MarkTest>,
    /// Conditions that few rules have.
    pub details: Option<Box<Details>>,
}

impl Match {
    /// Returns whether the packet satisfies every condition.
    pub fn accepts(&self, interface: InterfaceId, headers: &Headers) -> bool {
        self.accepts_link(interface, headers)
            && met(self.protocol, headers.protocol)
            && any_is(&self.dscps, headers.dscp())
            && met(self.ecn, headers.ecn())
            && self.accepts_ports(headers)
            && any_contains(&self.sources, headers.addresses.source())
            && any_contains(&self.destinations, headers.addresses.destination())
            && any_is(&self.source_macs, headers.macs.map(|macs| macs.source))
            && any_is(&self.destination_macs, headers.macs.map(|macs| macs.destination))
            && self.mark.is_none_or(|mark| mark.accepts(headers.mark))
            && self.details.as_ref().is_none_or(|details| details.accepts(headers))
    }

    /// Returns how many bits of these addresses the longest prefixes demand that contain them.
    pub fn address_bits(&self, addresses: &Addresses) -> u32 {
        let longest = |list: &[Prefix], address: Option<IpAddr>| {
            let own = list.iter().filter(|one| address.is_some_and(|it| one.contains(it)));
            own.map(|one| u32::from(one.prefix_len())).max().unwrap_or(0)
        };
        longest(&self.sources, addresses.source())
            + longest(&self.destinations, addresses.destination())
    }

    /// Returns whether a condition tests ports, so that no later fragment can satisfy it by itself.
    pub fn needs_ports(&self) -> bool {
        !self.source_ports.is_empty() || !self.destination_ports.is_empty()
    }

    /// Returns whether a condition tests what the transport header has: ports, TCP's flags, the
    /// type of a message.
    pub fn needs_transport(&self) -> bool {
        self.needs_ports() || self.details.as_ref().is_some_and(|details| details.needs_transport())
    }

    /// Returns whether a condition tests Ethernet stations.
    pub fn tests_macs(&self) -> bool {
        !self.source_macs.is_empty() || !self.destination_macs.is_empty()
    }

    /// Returns whether a condition tests stations or marks, which keys and tables do not hold.
    pub fn tests_beside(&self) -> bool {
        self.tests_macs() || self.mark.is_some()
    }

    fn accepts_link(&self, interface: InterfaceId, headers: &Headers) -> bool {
        met(self.interface, Some(interface))
            && met(self.ethertype, headers.ethertype)
            && self.vlan.is_none_or(|vlan| vlan.accepts(headers.vlan))
            && self.vlan_inner.is_none_or(|vlan| vlan.accepts(headers.vlan_inner))
    }

    fn accepts_ports(&self, headers: &Headers) -> bool {
        in_range(&self.source_ports, headers.ports.map(|ports| ports.source))
            && in_range(&self.destination_ports, headers.ports.map(|ports| ports.destination))
    }
}

fn met<T: PartialEq>(wanted: Option<T>, found: Option<T>) -> bool {
    wanted.is_none() || wanted == found
}

fn any_is<T: PartialEq>(wanted: &[T], found: Option<T>) -> bool {
    wanted.is_empty() || found.is_some_and(|found| wanted.contains(&found))
}

fn in_range(wanted: &[PortRange], found: Option<u16>) -> bool {
    let within = |port| wanted.iter().any(|range| range.contains(port));
    wanted.is_empty() || found.is_some_and(within)
}

fn any_contains(wanted: &[Prefix], found: Option<IpAddr>) -> bool {
    let within = |address| wanted.iter().any(|prefix| prefix.contains(address));
    wanted.is_empty() || found.is_some_and(within)
}

/// The port of the datapath by which a packet came in, numbered by the deployment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InterfaceId(pub u16);

/// A block of addresses: those that agree in their first bits, as in `10.0.0.0/8`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prefix(Block);

/// Stores network and mask rather than a length, so that testing a packet takes one `and` and one
/// comparison.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Block {
    V4 { network: u32, mask: u32 },
    V6 { network: u128, mask: u128 },
}

impl Prefix {
    /// The addresses that share their first `len` bits with `address`.
    ///
    /// # Errors
    /// If `len` is above 32 (IPv4) or 128 (IPv6), or `address` has bits set beyond `len`, which is
    /// as likely a slip in the one as in the other.
    pub fn new(address: IpAddr, len: u8) -> Result<Prefix, FieldError> {
        let prefix = Prefix::masked(address, len)?;
        if prefix.network() == address {
            return Ok(prefix);
        }
        Err(FieldError::new(
            "prefix",
            &format!("{address}/{len}"),
            "has address bits set beyond its length",
            format!("write {prefix} for the block, or {address} for the one address"),
        ))
    }

    /// Reads `address/length`, or an address alone for that one address.
    ///
    /// # Errors
    /// If the text is neither, or as [`Prefix::new`].
    pub fn parse(text: &str) -> Result<Prefix, FieldError> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| malformed_prefix(text))?;
        let len = match len {
            Some(len) => decimal(len, u8::MAX.into()).ok_or_else(|| malformed_prefix(text))?,
            None => u16::from(len_max(address)),
        };
        Prefix::new(address, len as u8)
    }

    /// Returns whether the block contains the address. No IPv6 block contains an IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.0, address) {
            (Block::V4 { network, mask }, IpAddr::V4(a)) => u32::from(a) & mask == network,
            (Block::V6 { network, mask }, IpAddr::V6(a)) => u128::from(a) & mask == network,
            _ => false,
        }
    }

    /// Returns the lowest address of the block.
    pub fn network(&self) -> IpAddr {
        match self.0 {
            Block::V4 { network, .. } => IpAddr::V4(network.into()),
            Block::V6 { network, .. } => IpAddr::V6(network.into()),
        }
    }

    /// Returns the number of leading bits that all addresses of the block share.
    pub fn prefix_len(&self) -> u8 {
        match self.0 {
            Block::V4 { mask, .. } => mask.count_ones() as u8,
            Block::V6 { mask, .. } => mask.count_ones() as u8,
        }
    }

    fn masked(address: IpAddr, len: u8) -> Result<Prefix, FieldError> {
        let max = len_max(address);
        if len > max {
            return Err(FieldError::new(
                "prefix",
                &format!("{address}/{len}"),
                "is longer than its address: 32 bits in IPv4, 128 in IPv6",
                format!("write a length of 0..={max}"),
            ));
        }
        Ok(Prefix(match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                Block::V4 { network: u32::from(address) & mask, mask }
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                Block::V6 { network: u128::from(address) & mask, mask }
            }
        }))
    }
}

impl FromStr for Prefix {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Prefix, FieldError> {
        Prefix::parse(text)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), self.prefix_len())
    }
}

fn malformed_prefix(text: &str) -> FieldError {
    FieldError::new(
        "prefix",
        text,
        "is not an IPv4 or IPv6 address with an optional length",
        "write for instance 10.0.0.0/8, 192.0.2.1 or 2001:db8::/32",
    )
}

fn len_max(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Ports from a first to a last one, both included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// The ports `first..=last`.
    ///
    /// # Errors
    /// If `first` is above `last`.
    pub fn new(first: u16, last: u16) -> Result<PortRange, FieldError> {
        if first <= last {
            return Ok(PortRange { first, last });
        }
        Err(FieldError::new(
            "port range",
            &format!("{first}-{last}"),
            "begins above its end",
            format!("write {last}-{first}"),
        ))
    }

    /// A range of `port` alone.
    pub fn single(port: u16) -> PortRange {
        PortRange { first: port, last: port }
    }

    /// Returns whether the range contains the port.
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Returns the lowest port.
    pub fn first(&self) -> u16 {
        self.first
    }

    /// Returns the highest port.
    pub fn last(&self) -> u16 {
        self.last
    }
}

impl FromStr for PortRange {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<PortRange, FieldError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        if let (Some(first), Some(last)) = (decimal(first, u16::MAX), decimal(last, u16::MAX)) {
            return PortRange::new(first, last);
        }
        match service_port(text) {
            Some(port) => Ok(PortRange::single(port)),
            None => Err(FieldError::new(
                "port range",
                text,
                "is neither a port or range of ports in 0..=65535 nor a service that Weir knows",
                "write for instance 80, 5004-5010 or https",
            )),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}
