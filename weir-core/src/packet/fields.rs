//! Values of single header fields, as types that print the way they are written in a policy.
//!
//! Each type parses with `FromStr`, refuses with a [`FieldError`] that names value, limit and cure,
//! and prints with `Display` text that parses back to the same value.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Why a text or number is not a valid value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldError {
    field: &'static str,
    value: String,
    limit: &'static str,
    cure: String,
}

impl FieldError {
    /// `value` is not a valid `field` because of `limit`; `cure` says what to write instead.
    ///
    /// The message shows the beginning of a long value.
    pub fn new(
        field: &'static str,
        value: &str,
        limit: &'static str,
        cure: impl Into<String>,
    ) -> FieldError {
        let value = value.chars().take(VALUE_CHARS_MAX).collect();
        FieldError { field, value, limit, cure: cure.into() }
    }

    /// Returns what to write instead: a clause without a full stop.
    pub fn cure(&self) -> &str {
        &self.cure
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: {}; {}", self.field, self.value, self.limit, self.cure)
    }
}

impl core::error::Error for FieldError {}

/// An IP protocol number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Protocol(pub u8);

/// Numbers of the IANA registry.
impl Protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// Control messages of IPv4.
    pub const ICMP: Protocol = Protocol(1);
    /// Transmission control protocol.
    pub const TCP: Protocol = Protocol(6);
    /// User datagram protocol.
    pub const UDP: Protocol = Protocol(17);
    /// DCCP, datagrams under congestion control.
    pub const DCCP: Protocol = Protocol(33);
    /// IPv6 routing header.
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Protocol = Protocol(44);
    /// IPsec's encryption.
    pub const ESP: Protocol = Protocol(50);
    /// IPsec's authentication header.
    pub const AH: Protocol = Protocol(51);
    /// Control messages of IPv6.
    pub const ICMPV6: Protocol = Protocol(58);
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
    /// SCTP, streams of messages.
    pub const SCTP: Protocol = Protocol(132);
    /// IPv6 mobility header.
    pub const MOBILITY: Protocol = Protocol(135);
    /// UDP with a partial checksum.
    pub const UDP_LITE: Protocol = Protocol(136);
    /// Host identity protocol.
    pub const HIP: Protocol = Protocol(139);
    /// IPv6 multihoming.
    pub const SHIM6: Protocol = Protocol(140);
}

impl Protocol {
    /// Returns whether its header begins with a source and a destination port.
    pub fn has_ports(self) -> bool {
        use Protocol as P;
        matches!(self, P::TCP | P::UDP | P::DCCP | P::SCTP | P::UDP_LITE)
    }

    /// Returns whether it is an IPv6 extension header that the parser can skip. ESP is not: what
    /// follows is encrypted.
    pub fn is_extension(self) -> bool {
        use Protocol as P;
        matches!(
            self,
            P::HOP_BY_HOP
                | P::ROUTING
                | P::FRAGMENT
                | P::AH
                | P::DESTINATION_OPTIONS
                | P::MOBILITY
                | P::HIP
                | P::SHIM6
        )
    }
}

impl FromStr for Protocol {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Protocol, FieldError> {
        match number_of(PROTOCOL_NAMES, text).or_else(|| decimal(text, u8::MAX.into())) {
            Some(number) => Ok(Protocol(number as u8)),
            None => Err(FieldError::new(
                "protocol",
                text,
                "is neither a protocol name Weir knows nor a number in 0..=255",
                "write a name such as tcp, udp, icmp or icmpv6, or the IANA number",
            )),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        named(f, PROTOCOL_NAMES, self.0.into())
    }
}

/// A DiffServ code point, 0..=63 [RFC 2474].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Dscp(u8);

impl Dscp {
    /// The code point of this number.
    ///
    /// # Errors
    /// If it is above 63.
    pub fn new(code: u8) -> Result<Dscp, FieldError> {
        if code <= DSCP_MAX {
            return Ok(Dscp(code));
        }
        Err(FieldError::new(
            "DSCP",
            &alloc::format!("{code}"),
            "is above 63, the largest of six bits",
            alloc::format!("if this is a whole TOS byte, write its upper six bits, {}", code >> 2),
        ))
    }

    /// The code point in a TOS or traffic class byte: its upper six bits.
    pub fn of_traffic_class(byte: u8) -> Dscp {
        Dscp(byte >> 2)
    }

    /// Returns the number, 0..=63.
    pub fn code(self) -> u8 {
        self.0
    }
}

impl FromStr for Dscp {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Dscp, FieldError> {
        match number_of(DSCP_NAMES, text).or_else(|| decimal(text, u8::MAX.into())) {
            Some(code) => Dscp::new(code as u8),
            None => Err(FieldError::new(
                "DSCP",
                text,
                "is neither a code point name Weir knows nor a number in 0..=63",
                "write a name such as ef, af41, cs1, va or le, or the number",
            )),
        }
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        named(f, DSCP_NAMES, self.0.into())
    }
}

/// Explicit congestion notification, the two bits beside the DSCP [RFC 3168 §5].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ecn {
    /// The endpoints do not understand marks.
    NotCapable,
    /// Capable, code point 1.
    Ect1,
    /// Capable, code point 2.
    Ect0,
    /// Congestion was experienced (CE).
    Congested,
}

impl Ecn {
    /// The field in a TOS or traffic class byte: its lower two bits.
    pub fn of_traffic_class(byte: u8) -> Ecn {
        match byte & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Congested,
        }
    }
}

impl FromStr for Ecn {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Ecn, FieldError> {
        let number = text.parse().ok().filter(|code| *code < ECN_NAMES.len() as u16);
        match number_of(ECN_NAMES, text).or(number) {
            Some(code) => Ok(Ecn::of_traffic_class(code as u8)),
            None => Err(FieldError::new(
                "ECN",
                text,
                "is not an ECN code point",
                "write not-ect, ect1, ect0 or ce",
            )),
        }
    }
}

impl fmt::Display for Ecn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        named(f, ECN_NAMES, *self as u16)
    }
}

/// The number of a VLAN, 0..=4094. 0 means that the tag carries a priority only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VlanId(u16);

impl VlanId {
    /// The VLAN of this number.
    ///
    /// # Errors
    /// If it is above 4094; IEEE 802.1Q reserves 4095.
    pub fn new(id: u16) -> Result<VlanId, FieldError> {
        if id <= VLAN_ID_MAX {
            return Ok(VlanId(id));
        }
        Err(VlanId::error(&alloc::format!("{id}")))
    }

    /// Returns the number, 0..=4094.
    pub fn id(self) -> u16 {
        self.0
    }

    fn error(value: &str) -> FieldError {
        FieldError::new(
            "VLAN",
            value,
            "is not a number in 0..=4094",
            "write the VLAN's number, such as 100",
        )
    }
}

impl FromStr for VlanId {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<VlanId, FieldError> {
        decimal(text, VLAN_ID_MAX).map(VlanId).ok_or_else(|| VlanId::error(text))
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The priority code point of a VLAN tag, 0..=7 (IEEE 802.1Q).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pcp(u8);

impl Pcp {
    /// Returns the number, 0..=7.
    pub fn code(self) -> u8 {
        self.0
    }
}

impl FromStr for Pcp {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Pcp, FieldError> {
        match decimal(text, PCP_MAX) {
            Some(code) => Ok(Pcp(code as u8)),
            None => Err(FieldError::new(
                "PCP",
                text,
                "is not a number in 0..=7",
                "write the priority in the VLAN tag, such as 5",
            )),
        }
    }
}

impl fmt::Display for Pcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The protocol that an Ethernet frame carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EtherType(pub u16);

/// Numbers of the IEEE registry.
impl EtherType {
    /// Internet protocol, version 4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// Address resolution for IPv4.
    pub const ARP: EtherType = EtherType(0x0806);
    /// A VLAN tag (IEEE 802.1Q).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// Internet protocol, version 6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// A packet behind MPLS labels.
    pub const MPLS: EtherType = EtherType(0x8847);
    /// A packet for several receivers behind MPLS labels.
    pub const MPLS_MULTICAST: EtherType = EtherType(0x8848);
    /// A frame of a PPPoE session. Discovery has another number.
    pub const PPPOE_SESSION: EtherType = EtherType(0x8864);
    /// A provider's outer VLAN tag (IEEE 802.1ad).
    pub const VLAN_SERVICE: EtherType = EtherType(0x88a8);
    /// Older switches' outer tag.
    pub const VLAN_OLD: EtherType = EtherType(0x9100);
}

impl EtherType {
    /// Returns whether a VLAN tag follows.
    pub fn is_vlan_tag(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::VLAN_SERVICE | EtherType::VLAN_OLD)
    }
}

impl FromStr for EtherType {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<EtherType, FieldError> {
        let hex = || text.strip_prefix("0x").and_then(hexadecimal);
        match number_of(ETHERTYPE_NAMES, text).or_else(hex) {
            Some(number) => Ok(EtherType(number)),
            None => Err(FieldError::new(
                "ethertype",
                text,
                "is neither an ethertype name Weir knows nor a number in 0x0000..=0xffff",
                "write ipv4, ipv6 or arp, or the number in hexadecimal, such as 0x88cc",
            )),
        }
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name_of(ETHERTYPE_NAMES, self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#06x}", self.0),
        }
    }
}

/// Parses decimal digits up to `max`; no sign, no space.
pub(crate) fn decimal(text: &str, max: u16) -> Option<u16> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits_only && *number <= max)
}

fn hexadecimal(text: &str) -> Option<u16> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(text, 16).ok().filter(|_| digits_only)
}

type Names = &'static [(&'static str, u16)];

fn number_of(names: Names, text: &str) -> Option<u16> {
    let found = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, number)| *number)
}

fn name_of(names: Names, number: u16) -> Option<&'static str> {
    let found = names.iter().find(|(_, named)| *named == number);
    found.map(|(name, _)| *name)
}

fn named(f: &mut fmt::Formatter<'_>, names: Names, number: u16) -> fmt::Result {
    match name_of(names, number) {
        Some(name) => f.write_str(name),
        None => write!(f, "{number}"),
    }
}

const DSCP_MAX: u8 = 63;
const VLAN_ID_MAX: u16 = 4094;
const PCP_MAX: u16 = 7;
/// Errors show this much of a value: enough to recognise it, and short for a hostile one.
const VALUE_CHARS_MAX: usize = 64;

/// Names and numbers; where a number has two names, the first is printed.
const PROTOCOL_NAMES: Names = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
    ("udp-lite", 136),
];

/// [RFC 2474, 2597, 3246, 5865, 8622].
const DSCP_NAMES: Names = &[
    ("cs0", 0),
    ("be", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

const ECN_NAMES: Names = &[("not-ect", 0), ("ect1", 1), ("ect0", 2), ("ce", 3)];

const ETHERTYPE_NAMES: Names = &[("ipv4", 0x0800), ("arp", 0x0806), ("ipv6", 0x86dd)];
