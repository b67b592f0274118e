//! Finds the headers of a super-packet: the transport header that is repeated, the IP header in
//! front of it, and the tunnel around both.
//!
//! The kernel does not say that a super-packet is in a tunnel, nor in which. It says where the
//! unfinished checksum starts, which is the inner transport header. So the inner IP header is
//! looked for before that place; what lies between it and the outer IP header has one length to
//! correct, and one checksum, for UDP and GRE alike. Measured on Linux 6.18 with VXLAN.
//!
//! Invariant: every offset returned is within the frame.

use super::{Kind, OffloadError, TAG_LEN, word};
use weir_core::packet::Checksum;

pub(super) const ADDRESSES_LEN: usize = 12;
pub(super) const ETHERNET_LEN: usize = 14;
pub(super) const IP6_LEN: usize = 40;
/// The hop-by-hop header in which Linux notes the length of an IPv6 super-packet beyond 64 KiB.
pub(super) const JUMBO_LEN: usize = 8;
pub(super) const PROTOCOL_TCP: u8 = 6;
pub(super) const PROTOCOL_UDP: u8 = 17;
pub(super) const PROTOCOL_SCTP: u8 = 132;

const ETHERTYPE_IP4: u16 = 0x0800;
const ETHERTYPE_IP6: u16 = 0x86dd;
const ETHERTYPES_MPLS: [u16; 2] = [0x8847, 0x8848];
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TAGS_IN_BAND_MAX: usize = 4;
const PROTOCOL_IP4: u8 = 4;
const PROTOCOL_IP6: u8 = 41;
const PROTOCOL_GRE: u8 = 47;
const IP4_LEN_MIN: usize = 20;
const UDP_LEN: usize = 8;
const GRE_LEN: usize = 4;
const GRE_CHECKSUM: u16 = 0x8000;
/// [RFC 2890] Sequence numbers; [RFC 1701] source routes; a version that is not 0.
const GRE_UNSUPPORTED: u16 = 0x5007;
/// The inner header of an IPv6 tunnel is looked for behind at most this many extensions of 8 bytes.
const EXTENSIONS_MAX: usize = 8;

/// An IP header within a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) at: usize,
    pub(super) is_ip6: bool,
    /// Whether an IPv6 header is followed by the option of a super-packet beyond 64 KiB.
    pub(super) is_jumbo: bool,
    pub(super) protocol: u8,
    /// Where the next protocol starts.
    pub(super) next: usize,
    /// Where the packet ends.
    pub(super) end: usize,
}

/// The headers between the outer and the inner IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// Nothing: one packet in the other.
    Direct,
    /// A UDP header, and that of a tunnel such as VXLAN or GENEVE.
    Udp { at: usize, has_checksum: bool },
    /// A header of GRE.
    Gre { at: usize, has_checksum: bool },
}

/// The tunnel around a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tunnel {
    pub(super) network: Network,
    pub(super) carrier: Carrier,
}

/// The headers that are repeated in every segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layers {
    pub(super) tunnel: Option<Tunnel>,
    /// The IP header in front of the transport header.
    pub(super) network: Network,
}

impl Layers {
    /// Finds the headers of a super-packet of this kind; `named` is where the kernel says that the
    /// unfinished checksum starts.
    pub(super) fn find(
        frame: &[u8],
        kind: Kind,
        named: Option<usize>,
    ) -> Result<Self, OffloadError> {
        let (ethertype, at) = network_start(frame)?;
        let outer = match ethertype {
            ETHERTYPE_IP4 => ip4(frame, at)?,
            ETHERTYPE_IP6 => ip6(frame, at)?,
            // [RFC 3032] Labels say nothing of lengths: the packet may be anywhere behind them.
            mpls if ETHERTYPES_MPLS.contains(&mpls) => {
                let search = Search { kind, from: at, end: None };
                let network = search.before(frame, named.ok_or(OffloadError::NotAsDeclared)?)?;
                return Ok(Self { tunnel: None, network });
            }
            _ => return Err(OffloadError::NotAsDeclared),
        };
        if kind.takes(&outer) && named.is_none_or(|start| start == outer.next) {
            return Ok(Self { tunnel: None, network: outer });
        }
        let transport = named.ok_or(OffloadError::NotAsDeclared)?;
        let (carrier, from) = carrier(frame, &outer)?;
        let search = Search { kind, from, end: Some(outer.end) };
        let network = search.before(frame, transport)?;
        let is_joined = carrier != Carrier::Direct || network.at == outer.next;
        if outer.is_jumbo || !is_joined {
            return Err(OffloadError::NotAsDeclared);
        }
        Ok(Self { tunnel: Some(Tunnel { network: outer, carrier }), network })
    }
}

/// Returns the transport protocol of a frame that is in no tunnel.
pub(super) fn protocol_of(frame: &[u8]) -> Option<u8> {
    outermost(frame).map(|network| network.protocol)
}

/// Returns the outermost IP header of a frame.
pub(super) fn outermost(frame: &[u8]) -> Option<Network> {
    match network_start(frame).ok()? {
        (ETHERTYPE_IP4, at) => ip4(frame, at).ok(),
        (ETHERTYPE_IP6, at) => ip6(frame, at).ok(),
        _ => None,
    }
}

/// Returns the ethertype behind any tags still in the frame, and where the network header starts.
fn network_start(frame: &[u8]) -> Result<(u16, usize), OffloadError> {
    let mut at = ADDRESSES_LEN;
    for _ in 0..=TAGS_IN_BAND_MAX {
        if at + 2 > frame.len() {
            return Err(OffloadError::Short);
        }
        let ethertype = word(frame, at);
        if !ETHERTYPES_VLAN.contains(&ethertype) {
            return Ok((ethertype, at + 2));
        }
        at += TAG_LEN;
    }
    Err(OffloadError::NotAsDeclared)
}

fn ip4(frame: &[u8], at: usize) -> Result<Network, OffloadError> {
    let header = frame.get(at..at + IP4_LEN_MIN).ok_or(OffloadError::Short)?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let is_fragment = word(header, 6) & 0x3fff != 0;
    if header[0] >> 4 != 4 || header_len < IP4_LEN_MIN || is_fragment {
        return Err(OffloadError::NotAsDeclared);
    }
    // A packet too long for the field ("BIG TCP") has zero there and ends with the frame.
    let end = match usize::from(word(header, 2)) {
        0 => frame.len(),
        total => at + total,
    };
    let next = at + header_len;
    if end > frame.len() || next > end {
        return Err(OffloadError::Short);
    }
    Ok(Network { at, is_ip6: false, is_jumbo: false, protocol: header[9], next, end })
}

/// As [`ip4`], walking the extension headers that may come before the transport header.
fn ip6(frame: &[u8], at: usize) -> Result<Network, OffloadError> {
    const HOP_BY_HOP: u8 = 0;
    const DESTINATION: u8 = 60;
    let header = frame.get(at..at + IP6_LEN).ok_or(OffloadError::Short)?;
    if header[0] >> 4 != 6 {
        return Err(OffloadError::NotAsDeclared);
    }
    let (mut protocol, mut next) = (header[6], at + IP6_LEN);
    let jumbo = (protocol == HOP_BY_HOP).then(|| jumbo_len(frame, next)).flatten();
    let end = match usize::from(word(header, 4)) {
        // "BIG TCP": the length is in an option, or, in newer kernels, nowhere.
        0 => jumbo.map_or(frame.len(), |len| next.saturating_add(len)),
        len => next + len,
    };
    if end > frame.len() {
        return Err(OffloadError::Short);
    }
    // A routing header is refused with the rest: the sum would need another address.
    while protocol == HOP_BY_HOP || protocol == DESTINATION {
        let extension = frame.get(next..next + 2).ok_or(OffloadError::Short)?;
        protocol = extension[0];
        next += (usize::from(extension[1]) + 1) * 8;
    }
    if next > end {
        return Err(OffloadError::Short);
    }
    let is_jumbo = jumbo.is_some() && word(header, 4) == 0;
    Ok(Network { at, is_ip6: true, is_jumbo, protocol, next, end })
}

/// Returns the length in the jumbo option [RFC 2675 §2], if the hop-by-hop header at `at` has it
/// and no other.
fn jumbo_len(frame: &[u8], at: usize) -> Option<usize> {
    const OPTION_AND_LEN: [u8; 2] = [0xc2, 4];
    match *frame.get(at..at + JUMBO_LEN)? {
        [_, 0, option, len, a, b, c, d] if [option, len] == OPTION_AND_LEN => {
            usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()
        }
        _ => None,
    }
}

/// Returns what carries the inner packet, and from where on that may start.
fn carrier(frame: &[u8], outer: &Network) -> Result<(Carrier, usize), OffloadError> {
    let at = outer.next;
    match outer.protocol {
        PROTOCOL_IP4 | PROTOCOL_IP6 => Ok((Carrier::Direct, at)),
        PROTOCOL_UDP => {
            let header = frame.get(at..at + UDP_LEN).ok_or(OffloadError::Short)?;
            let has_checksum = word(header, 6) != 0;
            Ok((Carrier::Udp { at, has_checksum }, at + UDP_LEN))
        }
        PROTOCOL_GRE => {
            let header = frame.get(at..at + GRE_LEN).ok_or(OffloadError::Short)?;
            let flags = word(header, 0);
            if flags & GRE_UNSUPPORTED != 0 {
                return Err(OffloadError::NotAsDeclared);
            }
            let has_checksum = flags & GRE_CHECKSUM != 0;
            // The checksum and a word that is reserved follow.
            let len = if has_checksum { GRE_LEN + 4 } else { GRE_LEN };
            Ok((Carrier::Gre { at, has_checksum }, at + len))
        }
        _ => Err(OffloadError::NotAsDeclared),
    }
}

/// Looks for the IP header that is right before a transport header.
struct Search {
    kind: Kind,
    /// It starts here or later.
    from: usize,
    /// Its packet ends here, where that is known.
    end: Option<usize>,
}

impl Search {
    fn before(&self, frame: &[u8], transport: usize) -> Result<Network, OffloadError> {
        let four = (5..=15).filter_map(|words| transport.checked_sub(4 * words));
        let four = four.filter_map(|at| ip4(frame, at).ok()).filter(|found| has_sum(frame, found));
        let six = (0..=EXTENSIONS_MAX).filter_map(|n| transport.checked_sub(IP6_LEN + 8 * n));
        let six = six.filter_map(|at| ip6(frame, at).ok());
        let is_it = |found: &Network| {
            found.at >= self.from
                && found.next == transport
                && self.kind.takes(found)
                && self.end.is_none_or(|end| end == found.end)
        };
        four.chain(six).find(is_it).ok_or(OffloadError::NotAsDeclared)
    }
}

/// Returns whether the checksum of an IPv4 header is right: bytes that only look like one have
/// another.
fn has_sum(frame: &[u8], network: &Network) -> bool {
    let mut sum = Checksum::default();
    sum.add(&frame[network.at..network.next]);
    sum.fold() == 0xffff
}
