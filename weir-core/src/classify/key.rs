//! The header fields that rules can test, packed into six words to be masked, hashed and compared.
//!
//! Absence is a value: each field that a packet may lack has a bit that says whether it is present,
//! and a condition on the field tests that bit. So a packet without ports or tag does not satisfy
//! `sport = "0-65535"` or `vlan = 0`, as `rule.rs` demands.
//!
//! Invariant: two packets with the same key satisfy the same rules, those aside that test Ethernet
//! stations or marks, which are in a key only after [`Key::add_beside`], and those with details,
//! for which there is [`Key::add_details`].

use core::net::IpAddr;

use super::rule::{InterfaceId, Match, PortRange, Prefix};
use super::tags::VlanTest;
use crate::packet::{Addresses, Dscp, Headers, MacAddress};

/// A packet as rules see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// IPv4: source and destination in the first word. IPv6: two words each.
    pub addresses: [u64; 4],
    /// All other fields; see the constants of this file.
    pub fields: [u64; 2],
}

impl Key {
    /// Returns the key of a packet that came in by `interface`.
    #[inline]
    pub fn of(interface: InterfaceId, headers: &Headers) -> Key {
        let (addresses, family) = address_words(&headers.addresses);
        let ports = headers.ports.map_or(0, |ports| {
            PORTS_KNOWN | u64::from(ports.source) | u64::from(ports.destination) << DPORT
        });
        let protocol =
            headers.protocol.map_or(0, |value| PROTOCOL_KNOWN | u64::from(value.0) << PROTOCOL);
        let class = headers.traffic_class.map_or(0, |byte| CLASS_KNOWN | u64::from(byte) << CLASS);
        let vlan = headers.vlan.map_or(0, |tag| VLAN_KNOWN | u64::from(tag.id()));
        let inner = headers.vlan_inner.map_or(0, |tag| INNER_KNOWN | u64::from(tag.id()) << INNER);
        let ethertype =
            headers.ethertype.map_or(0, |value| ETHERTYPE_KNOWN | u64::from(value.0) << ETHERTYPE);
        let link = vlan | inner | ethertype | u64::from(interface.0) << INTERFACE;
        Key { addresses, fields: [ports | protocol | class | family, link] }
    }

    /// Adds the packet's stations and mark, in words that its addresses leave free, for the flow
    /// cache; tables do not read these words. Returns false for IPv6, whose addresses leave none
    /// free.
    pub fn add_beside(&mut self, headers: &Headers) -> bool {
        if matches!(headers.addresses, Addresses::V6 { .. }) {
            return false;
        }
        let known = |mac: MacAddress| MAC_KNOWN | mac.bits();
        self.addresses[1] = headers.macs.map_or(0, |macs| known(macs.source));
        self.addresses[2] = headers.macs.map_or(0, |macs| known(macs.destination));
        self.addresses[3] = headers.mark.into();
        true
    }
}

impl Key {
    /// Adds which of the details of rules the packet satisfies, a bit for each of at most
    /// [`DETAILS_MAX`], in bits that its fields leave free, for the flow cache; tables do not read
    /// these bits.
    pub fn add_details(&mut self, met: u16) {
        self.fields[0] |= u64::from(met) << DETAILS;
        self.fields[1] |= u64::from(met >> DETAILS_IN_FIRST) << DETAILS_REST;
    }
}

fn address_words(addresses: &Addresses) -> ([u64; 4], u64) {
    match *addresses {
        Addresses::Unknown => ([0; 4], 0),
        Addresses::V4 { source, destination } => {
            let pair = u64::from(u32::from(source)) << 32 | u64::from(u32::from(destination));
            ([pair, 0, 0, 0], FAMILY_V4)
        }
        Addresses::V6 { source, destination } => {
            let (source, destination) = (u128::from(source), u128::from(destination));
            let high = |address: u128| (address >> 64) as u64;
            let words = [high(source), source as u64, high(destination), destination as u64];
            (words, FAMILY_V6)
        }
    }
}

/// One value of each condition that a rule may have several values of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Single {
    /// A range of source ports, and one of destination ports.
    pub ports: [Option<PortRange>; 2],
    /// The DSCP that the packet must have; `None` for any.
    pub dscp: Option<Dscp>,
}

/// Returns value and mask of the conditions other than addresses and stations. A range of ports
/// contributes the leading bits that all its ports share.
pub fn field_words(matches: &Match, single: Single) -> ([u64; 2], [u64; 2]) {
    let mut words = ConditionWords::default();
    if let Some(protocol) = matches.protocol {
        words.want(0, PROTOCOL_KNOWN, 0xff << PROTOCOL, u64::from(protocol.0) << PROTOCOL);
    }
    if let Some(dscp) = single.dscp {
        words.want(0, CLASS_KNOWN, 0xfc << CLASS, u64::from(dscp.code()) << (CLASS + 2));
    }
    if let Some(ecn) = matches.ecn {
        words.want(0, CLASS_KNOWN, 0x03 << CLASS, u64::from(ecn as u8) << CLASS);
    }
    for (ports, shift) in single.ports.into_iter().zip([0, DPORT]) {
        let Some(range) = ports else { continue };
        let mask = u64::from(shared_bits(range)) << shift;
        words.want(0, PORTS_KNOWN, mask, u64::from(range.first()) << shift & mask);
    }
    words.want_tag(VLAN_KNOWN, 0, matches.vlan);
    words.want_tag(INNER_KNOWN, INNER, matches.vlan_inner);
    if let Some(ethertype) = matches.ethertype {
        let value = u64::from(ethertype.0) << ETHERTYPE;
        words.want(1, ETHERTYPE_KNOWN, 0xffff << ETHERTYPE, value);
    }
    if let Some(interface) = matches.interface {
        words.want(1, 0, 0xffff << INTERFACE, u64::from(interface.0) << INTERFACE);
    }
    (words.value, words.mask)
}

#[derive(Default)]
struct ConditionWords {
    value: [u64; 2],
    mask: [u64; 2],
}

impl ConditionWords {
    fn want(&mut self, word: usize, known: u64, mask: u64, value: u64) {
        self.mask[word] |= known | mask;
        self.value[word] |= known | value;
    }

    fn want_tag(&mut self, known: u64, shift: u32, test: Option<VlanTest>) {
        match test {
            None => {}
            Some(VlanTest::Untagged) => self.mask[1] |= known,
            Some(VlanTest::Tagged) => self.want(1, known, 0, 0),
            Some(VlanTest::Id(vlan)) => {
                self.want(1, known, 0xfff << shift, u64::from(vlan.id()) << shift);
            }
        }
    }
}

/// Returns the mask of the leading bits in which all ports of the range agree.
fn shared_bits(range: PortRange) -> u16 {
    let differing = range.first() ^ range.last();
    u16::MAX.checked_shl(16 - differing.leading_zeros()).unwrap_or(0)
}

/// The address family of a prefix or packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Addresses of 32 bits.
    V4,
    /// Addresses of 128 bits.
    V6,
}

impl Family {
    /// Returns the family of a prefix.
    pub fn of(prefix: &Prefix) -> Family {
        if prefix.network().is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Returns the family of a packet's addresses; none without addresses.
    pub fn of_packet(headers: &Headers) -> Option<Family> {
        match headers.addresses {
            Addresses::Unknown => None,
            Addresses::V4 { .. } => Some(Family::V4),
            Addresses::V6 { .. } => Some(Family::V6),
        }
    }
}

/// The first bits of an address, left-aligned in 128 bits: a prefix of either family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    /// The bits; those beyond `len` are 0.
    pub bits: u128,
    /// The number of bits.
    pub len: u8,
}

impl Bits {
    /// No bits: matches any address.
    pub const ANY: Bits = Bits { bits: 0, len: 0 };

    /// Returns the bits of a prefix.
    pub fn of(prefix: &Prefix) -> Bits {
        let bits = match prefix.network() {
            IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
            IpAddr::V6(address) => u128::from(address),
        };
        Bits { bits, len: prefix.prefix_len() }
    }

    /// Returns the leading bits in which both agree.
    pub fn common(self, other: Bits) -> Bits {
        let agree = (self.bits ^ other.bits).leading_zeros() as u8;
        let len = agree.min(self.len).min(other.len);
        Bits { bits: self.bits & leading(len), len }
    }
}

/// Returns a mask of the first `len` of 128 bits.
pub fn leading(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

/// Returns the words of `Key::addresses` that hold these left-aligned bits of source and
/// destination.
pub fn words_of(family: Family, source: u128, destination: u128) -> [u64; 4] {
    let high = |bits: u128| (bits >> 64) as u64;
    match family {
        Family::V4 => [high(source) & 0xffff_ffff_0000_0000 | high(destination) >> 32, 0, 0, 0],
        Family::V6 => [high(source), source as u64, high(destination), destination as u64],
    }
}

/// Folds two words into one: the halves of their product, combined. Inputs that differ in any bit
/// differ in about half the bits of the result.
#[inline]
pub fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// Beside the 48 bits of a station's address.
const MAC_KNOWN: u64 = 1 << 48;
// The first word of fields: source port in the lowest 16 bits, then these.
const DPORT: u32 = 16;
const PROTOCOL: u32 = 32;
const CLASS: u32 = 40;
const PORTS_KNOWN: u64 = 1 << 48;
const PROTOCOL_KNOWN: u64 = 1 << 49;
const CLASS_KNOWN: u64 = 1 << 50;
/// The family of the addresses. No rule tests it, but packets that differ in it differ.
const FAMILY_V4: u64 = 1 << 51;
const FAMILY_V6: u64 = 1 << 52;
// The second word of fields: the outer VLAN in the lowest 12 bits, then these.
const VLAN_KNOWN: u64 = 1 << 12;
const INNER: u32 = 13;
const INNER_KNOWN: u64 = 1 << 25;
const ETHERTYPE: u32 = 26;
const ETHERTYPE_KNOWN: u64 = 1 << 42;
const INTERFACE: u32 = 43;
/// Bound: distinct details of rules for which a key has room; with more, packets do not use the
/// flow cache.
pub const DETAILS_MAX: usize = 16;
/// Where the free bits of both words begin, and how many the first has.
const DETAILS: u32 = 53;
const DETAILS_IN_FIRST: u32 = 11;
const DETAILS_REST: u32 = 59;

/// A packet's ports, protocol and traffic class, and bits for those that it lacks.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Source and destination port.
    pub ports: (u16, u16),
    /// All bits set if the packet has no ports; else 0.
    pub ports_lack: u16,
    /// The protocol in the lower byte, the traffic class in the upper.
    pub class: u16,
    /// The bits of `class` that the packet lacks.
    pub class_lack: u16,
}

impl Service {
    /// Unpacks the first word of fields.
    #[inline]
    pub fn of(field: u64) -> Service {
        // All bits if this one is not set; without a branch.
        let lack = |known: u64| ((field >> known.trailing_zeros() & 1) as u16).wrapping_sub(1);
        Service {
            ports: (field as u16, (field >> DPORT) as u16),
            ports_lack: lack(PORTS_KNOWN),
            class: Service::class(field),
            class_lack: lack(PROTOCOL_KNOWN) & 0x00ff | lack(CLASS_KNOWN) & 0xff00,
        }
    }

    /// Returns protocol and traffic class from a first word of fields, or from a mask for it.
    #[inline]
    pub fn class(field: u64) -> u16 {
        (field >> PROTOCOL) as u16
    }
}
