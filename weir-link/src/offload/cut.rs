//! Cuts a super-packet: each segment gets the headers, with lengths, identifications, sequence
//! numbers and checksums of its own, and its part of the payload.
//!
//! Invariant: the segments' payloads in a row are the super-packet's payload.

use super::layers::{
    Carrier, ETHERNET_LEN, IP6_LEN, JUMBO_LEN, Layers, Network, PROTOCOL_TCP, PROTOCOL_UDP,
};
use super::{Kind, OffloadError, SEGMENTS_MAX, Tag, copy_tagged, put, word};
use weir_core::packet::Checksum;

const UDP_LEN: usize = 8;
const TCP_LEN_MIN: usize = 20;
pub(super) const TCP_FIN_PSH: u8 = 0x09;
pub(super) const TCP_CWR: u8 = 0x80;

/// The parts of a super-packet, within the frame that it was planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The headers, with offsets within a segment.
    layers: Layers,
    is_tcp: bool,
    has_checksum: bool,
    /// Whether the field of the checksum is left for later.
    leaves_sum: bool,
    /// The length of the headers of a segment.
    headers: usize,
    /// How many of their first bytes come before the option that segments do not have.
    before_gap: usize,
    /// The payload, within the super-packet.
    payload: usize,
    end: usize,
    size: usize,
}

impl Cut {
    pub(super) fn plan(
        frame: &[u8],
        kind: Kind,
        named: Option<usize>,
        size: usize,
    ) -> Result<Self, OffloadError> {
        let mut layers = Layers::find(frame, kind, named)?;
        let Network { at, next: transport, end, is_jumbo, .. } = layers.network;
        let payload = transport + transport_len(frame, transport, kind.is_tcp)?;
        if payload > end {
            return Err(OffloadError::Short);
        }
        // [RFC 768] A UDP checksum of zero says that the sender made none.
        let is_optional = !kind.is_tcp && !layers.network.is_ip6 && named.is_none();
        let has_checksum = !is_optional || word(frame, transport + 6) != 0;
        let gap = if is_jumbo { JUMBO_LEN } else { 0 };
        layers.network.next -= gap;
        let headers = payload - gap;
        let before_gap = if is_jumbo { at + IP6_LEN } else { headers };
        let is_tcp = kind.is_tcp;
        let cut = Self {
            layers,
            is_tcp,
            has_checksum,
            leaves_sum: false,
            headers,
            before_gap,
            payload,
            end,
            size,
        };
        let first = layers.tunnel.map_or(at, |tunnel| tunnel.network.at);
        if size == 0 || cut.count() > SEGMENTS_MAX || size + (headers - first) > 0xffff {
            return Err(OffloadError::BadSize);
        }
        Ok(cut)
    }

    pub(super) fn count(&self) -> usize {
        (self.end - self.payload).div_ceil(self.size).max(1)
    }

    pub(super) fn is_plain_tcp(&self) -> bool {
        let Network { at, is_ip6, next, .. } = self.layers.network;
        let is_bare = at == ETHERNET_LEN && self.layers.tunnel.is_none();
        // No extension header: those behind the first segment are found by their lengths alone.
        self.is_tcp && is_bare && (!is_ip6 || next == at + IP6_LEN)
    }

    pub(super) fn without_sums(self) -> Self {
        Self { leaves_sum: self.is_plain_tcp(), ..self }
    }

    /// Returns the length of the longest segment, without a tag that is put back.
    pub(super) fn longest(&self) -> usize {
        self.headers + self.size.min(self.end - self.payload)
    }

    pub(super) fn write(
        &self,
        frame: &[u8],
        tag: Option<Tag>,
        index: usize,
        out: &mut [u8],
    ) -> Option<usize> {
        let count = self.count();
        if index >= count {
            return None;
        }
        let from = (self.payload + index * self.size).min(self.end);
        let to = (from + self.size).min(self.end);
        let shift = copy_tagged(&frame[..self.before_gap], tag, out)?;
        let behind_gap = self.headers - self.before_gap;
        let len = shift + self.headers + (to - from);
        // Offsets from here on are those of a segment without the tag, as planned.
        let segment = out.get_mut(shift..len)?;
        segment[self.before_gap..self.headers]
            .copy_from_slice(&frame[self.payload - behind_gap..self.payload]);
        segment[self.headers..].copy_from_slice(&frame[from..to]);
        self.fix_network(frame, segment, index);
        let transport = self.layers.network.next;
        if self.is_tcp {
            let offset = u32::try_from(from - self.payload).ok()?;
            fix_tcp(segment, transport, offset, index == 0, index + 1 == count);
        } else {
            put(segment, transport + 4, length16(segment.len() - transport));
        }
        self.fix_checksum(segment);
        self.fix_tunnel(segment, index);
        Some(len)
    }

    fn fix_network(&self, frame: &[u8], segment: &mut [u8], index: usize) {
        let Network { at, is_jumbo, .. } = self.layers.network;
        if is_jumbo {
            // The option that segments do not have names the protocol that follows it.
            segment[at + 6] = frame[at + IP6_LEN];
        }
        fix_lengths(segment, &self.layers.network, index, segment.len());
    }

    fn fix_checksum(&self, segment: &mut [u8]) {
        if self.leaves_sum {
            return;
        }
        let Network { at, is_ip6, next: transport, .. } = self.layers.network;
        let field = transport + if self.is_tcp { 16 } else { 6 };
        put(segment, field, 0);
        if !self.has_checksum {
            return;
        }
        let protocol = if self.is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
        put(segment, field, checksum(segment, at, is_ip6, protocol, transport));
    }

    /// Corrects the headers around the packet, which must be final by now.
    fn fix_tunnel(&self, segment: &mut [u8], index: usize) {
        let Some(tunnel) = self.layers.tunnel else { return };
        let Network { at: network, is_ip6, .. } = tunnel.network;
        fix_lengths(segment, &tunnel.network, index, segment.len());
        match tunnel.carrier {
            Carrier::Direct | Carrier::Gre { has_checksum: false, .. } => {}
            Carrier::Gre { at, has_checksum: true } => {
                // [RFC 2784 §2.5] Over the GRE header and the packet in it, without addresses.
                put(segment, at + 4, 0);
                let mut sum = Checksum::default();
                sum.add(&segment[at..]);
                put(segment, at + 4, sum.finish());
            }
            Carrier::Udp { at, has_checksum } => {
                put(segment, at + 4, length16(segment.len() - at));
                put(segment, at + 6, 0);
                if has_checksum {
                    let sum = checksum(segment, network, is_ip6, PROTOCOL_UDP, at);
                    put(segment, at + 6, sum);
                }
            }
        }
    }
}

/// Corrects the lengths in an IP header of a frame that is `len` bytes long, and in IPv4 its
/// identification and checksum.
pub(super) fn fix_lengths(segment: &mut [u8], network: &Network, index: usize, len: usize) {
    let at = network.at;
    if network.is_ip6 {
        put(segment, at + 4, length16(len - at - IP6_LEN));
        return;
    }
    put(segment, at + 2, length16(len - at));
    // As Linux does for a super-packet: one identification a frame, counting up.
    let id = word(segment, at + 4).wrapping_add(index as u16);
    put(segment, at + 4, id);
    put(segment, at + 10, 0);
    let header_len = usize::from(segment[at] & 0x0f) * 4;
    let mut sum = Checksum::default();
    sum.add(&segment[at..at + header_len]);
    put(segment, at + 10, sum.finish());
}

fn fix_tcp(segment: &mut [u8], at: usize, offset: u32, first: bool, last: bool) {
    let field = [segment[at + 4], segment[at + 5], segment[at + 6], segment[at + 7]];
    let sequence = u32::from_be_bytes(field).wrapping_add(offset);
    segment[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
    // FIN and PSH belong to the last frame; CWR, which reports a reduced window, to the first.
    if !last {
        segment[at + 13] &= !TCP_FIN_PSH;
    }
    if !first {
        segment[at + 13] &= !TCP_CWR;
    }
}

/// Returns the checksum of TCP or UDP, whose field is zero, from `transport` to the end.
pub(super) fn checksum(
    segment: &[u8],
    network: usize,
    is_ip6: bool,
    protocol: u8,
    transport: usize,
) -> u16 {
    let mut sum = pseudo_header(segment, network, is_ip6, protocol, segment.len() - transport);
    sum.add(&segment[transport..]);
    sum.finish_nonzero()
}

/// Returns the sum over what a checksum of TCP or UDP covers beside its `len` bytes: addresses,
/// protocol and length.
pub(super) fn pseudo_header(
    packet: &[u8],
    network: usize,
    is_ip6: bool,
    protocol: u8,
    len: usize,
) -> Checksum {
    let mut sum = Checksum::default();
    let addresses = if is_ip6 { 8..40 } else { 12..20 };
    sum.add(&packet[network + addresses.start..network + addresses.end]);
    sum.add_word(u16::from(protocol));
    sum.add_word(length16(len));
    sum
}

pub(super) fn transport_len(frame: &[u8], at: usize, is_tcp: bool) -> Result<usize, OffloadError> {
    if !is_tcp {
        return frame.get(at..at + UDP_LEN).map(|_| UDP_LEN).ok_or(OffloadError::Short);
    }
    let header = frame.get(at..at + TCP_LEN_MIN).ok_or(OffloadError::Short)?;
    let len = usize::from(header[12] >> 4) * 4;
    if len < TCP_LEN_MIN { Err(OffloadError::NotAsDeclared) } else { Ok(len) }
}

/// A length that [`Cut::plan`] has checked to fit its field.
fn length16(len: usize) -> u16 {
    u16::try_from(len).expect("a plan keeps every segment below 64 KiB")
}
