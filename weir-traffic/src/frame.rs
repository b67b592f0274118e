//! Ethernet frames of a stream: the simulator's headers, two stations, a payload with a mark.
//!
//! Invariant: a frame has the length that was asked for, up to [`FRAME_MAX`]; its IPv4 header
//! checksum is right, and so is the UDP checksum over IPv6, where a host needs one.

use weir_core::packet::{Addresses, Checksum, Headers};
use weir_host::netlink::Mac;
use weir_sim::{Content, frame};

/// The longest frame: a super-packet has no place here.
pub const FRAME_MAX: u32 = 65_535;

/// Makes the frames of one stream.
#[derive(Clone, Debug)]
pub struct FrameMaker {
    headers: Headers,
    stations: [u8; 12],
    /// The bytes before the network header.
    link: usize,
    /// The bytes before the payload.
    front: usize,
}

impl FrameMaker {
    /// Frames with these headers, for a station, from one.
    pub fn new(headers: &Headers, to: Mac, from: Mac) -> Self {
        let mut stations = [0; 12];
        stations[..6].copy_from_slice(&to.0);
        stations[6..].copy_from_slice(&from.0);
        let mut bytes = Vec::new();
        frame::write(headers, FRAME_MAX, &Content::Nothing, None, &mut bytes);
        let tags = [headers.vlan, headers.vlan_inner].into_iter().flatten().count();
        Self { headers: *headers, stations, link: 14 + 4 * tags, front: bytes.len() }
    }

    /// Returns the bytes of a frame before its payload.
    pub fn front(&self) -> usize {
        self.front
    }

    /// Writes a frame of `length` bytes; its payload begins with `payload`, as far as it has room,
    /// and continues with zeros. `id` is the identification of an IPv4 packet.
    pub fn write(&self, length: u32, id: u16, payload: &[u8], out: &mut Vec<u8>) {
        let length = length.min(FRAME_MAX);
        frame::write(&self.headers, length, &Content::Nothing, None, out);
        let stations = out.len().min(12);
        out[..stations].copy_from_slice(&self.stations[..stations]);
        let whole = out.len() == self.front;
        let room = (length as usize).saturating_sub(out.len());
        out.extend_from_slice(&payload[..payload.len().min(room)]);
        out.resize(length as usize, 0);
        if whole {
            self.complete(id, out);
        }
    }

    /// Writes the identification and the checksums.
    fn complete(&self, id: u16, out: &mut [u8]) {
        let packet = &mut out[self.link..];
        match self.headers.addresses {
            Addresses::V4 { .. } => {
                packet[4..6].copy_from_slice(&id.to_be_bytes());
                packet[10..12].fill(0);
                let mut sum = Checksum::default();
                sum.add(&packet[..20]);
                packet[10..12].copy_from_slice(&sum.finish().to_be_bytes());
            }
            Addresses::V6 { .. } if packet.len() >= 48 && packet[6] == UDP => {
                packet[46..48].fill(0);
                let mut sum = Checksum::default();
                let length = packet.len() as u32 - 40;
                sum.add(&(length + u32::from(UDP)).to_be_bytes());
                sum.add(&packet[8..]);
                packet[46..48].copy_from_slice(&sum.finish_nonzero().to_be_bytes());
            }
            _ => {}
        }
    }
}

const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use weir_core::packet::{Ports, Protocol, VlanTag};

    /// A frame of each length has its length, and headers that read back.
    fn check(addresses: Addresses, vlan: Option<u16>) {
        let ports = Ports { source: 7, destination: 5001 };
        let mut headers = Headers::of_flow(addresses, Protocol::UDP, ports);
        headers.vlan = vlan.map(VlanTag);
        let maker = FrameMaker::new(&headers, Mac([9; 6]), Mac([8; 6]));
        let mut out = Vec::new();
        for length in [0, 1, 13, 14, 33, 41, 42, 60, 61, 62, 63, 86, 100, 1514, 9000] {
            maker.write(length, 0x1234, &[0xab; 24], &mut out);
            assert_eq!(out.len() as u32, length);
            if (length as usize) < maker.front() {
                continue;
            }
            let read = Headers::parse_ethernet(&out);
            assert_eq!(
                (read.addresses, read.ports, read.vlan),
                (addresses, Some(ports), headers.vlan)
            );
            let room = (out.len() - maker.front()).min(24);
            assert!(out[maker.front()..][..room].iter().all(|byte| *byte == 0xab));
            let packet = &out[maker.link..];
            let mut sum = Checksum::default();
            match addresses {
                Addresses::V6 { .. } => {
                    sum.add_word(packet.len() as u16 - 40 + 17);
                    sum.add(&packet[8..]);
                }
                _ => sum.add(&packet[..20]),
            }
            assert_eq!(sum.finish(), 0, "{length}: the checksum is right");
        }
    }

    #[test]
    fn frames_have_every_length_and_right_checksums() {
        let four = Addresses::V4 {
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 2),
        };
        let six = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
        check(four, None);
        check(four, Some(7));
        check(six, None);
        check(six, Some(7));
    }
}
