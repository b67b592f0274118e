//! The hash functions by which a class spreads packets over its leaves: those of ALTQ's WFQ
//! [algorithms §4.1], and two for hosts, made of the same folds.
//!
//! ALTQ hashed addresses and ports in network byte order as a little-endian machine reads them;
//! this code does so on every machine. The hashes are short folds: an attacker can aim packets at
//! one queue, so they reproduce ALTQ and protect no flow.
//!
//! ALTQ hashes an IPv6 packet by its flow label, where it hashes an IPv4 packet by addresses. Weir
//! does not store flow labels: a caller that has one passes it, and without it the queue is 0, as
//! for a packet that is not IP. Most senders leave the label 0, and ALTQ put all of those into
//! queue 0 as well. The hashes for hosts, which ALTQ lacks, hash the addresses of IPv6 as well.

use crate::ids::LeafId;
use crate::packet::{Addresses, Headers};
use core::net::{Ipv4Addr, Ipv6Addr};

/// The headers that are hashed to choose a packet's queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum AltqHash {
    /// The destination's address; ALTQ's default.
    #[default]
    Destination,
    /// The sender's port.
    SourcePort,
    /// Addresses, ports and protocol.
    Full,
    /// The source's address; not in ALTQ.
    Source,
    /// Both addresses; not in ALTQ.
    Hosts,
}

impl AltqHash {
    /// Returns the queue of a packet among `queues`, without a flow label; 0 if `queues` is 0.
    pub fn queue(self, headers: &Headers, queues: u32) -> u32 {
        self.queue_by_label(headers, 0, queues)
    }

    /// Returns the queue of a packet with this IPv6 flow label.
    pub fn queue_by_label(self, headers: &Headers, label: u32, queues: u32) -> u32 {
        let port = |port: u16| u32::from(port.swap_bytes());
        let source = headers.ports.map_or(0, |ports| port(ports.source));
        let destination = headers.ports.map_or(0, |ports| port(ports.destination));
        let protocol = headers.protocol.map_or(0, |protocol| u32::from(protocol.0));
        let value = match (self, headers.addresses) {
            (_, Addresses::Unknown) => 0,
            (AltqHash::SourcePort, _) => fold_port(source),
            (AltqHash::Source, addresses) => fold_address(hosts(addresses).0),
            (AltqHash::Hosts, addresses) => {
                let (source, destination) = hosts(addresses);
                // Rotated, or two neighbours that send to each other would share a queue with all
                // pairs of the same difference.
                fold_address(source ^ destination.rotate_left(5))
            }
            (_, Addresses::V6 { .. }) => label,
            (AltqHash::Destination, Addresses::V4 { destination, .. }) => {
                fold_address(word(destination))
            }
            (AltqHash::Full, Addresses::V4 { source: from, destination: to }) => {
                fold_address(word(to) ^ word(from)) ^ fold_port(destination ^ source ^ protocol)
            }
        };
        value.checked_rem(queues).unwrap_or(0)
    }
}

/// A hash that sends packets to one of several consecutively numbered leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Spread {
    /// The headers that are hashed.
    pub hash: AltqHash,
    /// The number of leaves.
    pub queues: u32,
}

impl Spread {
    /// Returns the leaf of a packet; `first` is the leaf of hash 0.
    pub fn leaf(self, first: LeafId, headers: &Headers) -> LeafId {
        LeafId(first.0.saturating_add(self.hash.queue(headers, self.queues)))
    }
}

/// Returns a word of each address, that of IPv6 folded.
fn hosts(addresses: Addresses) -> (u32, u32) {
    match addresses {
        Addresses::Unknown => (0, 0),
        Addresses::V4 { source, destination } => (word(source), word(destination)),
        Addresses::V6 { source, destination } => (folded(source), folded(destination)),
    }
}

fn folded(address: Ipv6Addr) -> u32 {
    let bits = u128::from(address).swap_bytes();
    (0..4).fold(0, |word, part| word ^ (bits >> (32 * part)) as u32)
}

/// Returns an address as a little-endian machine reads it.
fn word(address: Ipv4Addr) -> u32 {
    u32::from_le_bytes(address.octets())
}

fn fold_address(word: u32) -> u32 {
    word ^ word >> 8 ^ word >> 16 ^ word >> 24
}

fn fold_port(port: u32) -> u32 {
    port ^ port >> 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ports, Protocol};

    fn headers(source: &str, destination: &str, protocol: Protocol, ports: (u16, u16)) -> Headers {
        let parsed = "an address";
        let addresses = if source.contains(':') {
            Addresses::V6 {
                source: source.parse().expect(parsed),
                destination: destination.parse().expect(parsed),
            }
        } else {
            Addresses::V4 {
                source: source.parse().expect(parsed),
                destination: destination.parse().expect(parsed),
            }
        };
        let ports = Ports { source: ports.0, destination: ports.1 };
        Headers::of_flow(addresses, protocol, ports)
    }

    #[test]
    fn queues_follow_the_folds() {
        use AltqHash::{Destination, Full, Hosts, Source, SourcePort};
        // By hand: 10 ^ 1 ^ 2 ^ 3 = 10, 192 ^ 168 ^ 0 ^ 7 = 111. Port 5001 is 0x1389, in memory
        // 0x8913: 0x8913 ^ 0x89 = 0x899a. The whole fold of an address has upper bytes too, which
        // show where the number of queues is not a power of two: 0x0302010a ^ 0x030201 ^ 0x0302 ^
        // 0x03 = 0x0301000a.
        let udp = headers("192.168.0.7", "10.1.2.3", Protocol::UDP, (5001, 80));
        let ipv6 = headers("2001:db8::1", "2001:db8::2", Protocol::UDP, (5001, 80));
        let rows = [
            (Destination, udp, 0, 256, 10),
            (Destination, udp, 0, 16, 10),
            (Destination, udp, 0, 1000, 0x0301_000a % 1000),
            (SourcePort, udp, 0, 256, 0x9a),
            (SourcePort, udp, 0, 1000, 0x899a % 1000),
            // 0x5000 ^ 0x8913 ^ 17 = 0xd902; 0x02 ^ 0xd9 = 0xdb; and 10 ^ 111 = 0x65.
            (Full, udp, 0, 256, 0xdb ^ 0x65),
            (Destination, ipv6, 0x1_2345, 256, 0x45),
            (Full, ipv6, 0x1_2345, 1000, 0x1_2345 % 1000),
            (Full, ipv6, 0, 256, 0),
            (SourcePort, ipv6, 0x1_2345, 256, 0x9a),
            (Source, udp, 0, 256, 192 ^ 168 ^ 7),
            // 0x0302010a rotated left by 5 is 0x60402140: 0x60 ^ 0x40 ^ 0x21 ^ 0x40 = 0x41.
            (Hosts, udp, 0, 256, 0x41 ^ 192 ^ 168 ^ 7),
            // 0x20 ^ 0x01 ^ 0x0d ^ 0xb8 ^ 0x01 = 0x95, whatever the label.
            (Source, ipv6, 0x1_2345, 256, 0x95),
            (Source, Headers::UNKNOWN, 7, 256, 0),
            (Hosts, Headers::UNKNOWN, 7, 256, 0),
            (Full, Headers::UNKNOWN, 7, 256, 0),
            (SourcePort, Headers::UNKNOWN, 7, 256, 0),
            (Destination, udp, 0, 1, 0),
            (Destination, udp, 0, 0, 0),
        ];
        for (hash, headers, label, queues, queue) in rows {
            let found = hash.queue_by_label(&headers, label, queues);
            assert_eq!(found, queue, "{hash:?} of {headers:?} among {queues}");
            if label == 0 {
                assert_eq!(hash.queue(&headers, queues), queue);
            }
        }
    }

    #[test]
    fn among_256_the_destination_gives_the_xor_of_its_bytes() {
        for bits in (0..u32::MAX).step_by(99_991) {
            let address = Ipv4Addr::from(bits);
            let udp = headers("1.2.3.4", "0.0.0.0", Protocol::UDP, (1, 2));
            let addresses = Addresses::V4 { source: Ipv4Addr::LOCALHOST, destination: address };
            let xor = address.octets().into_iter().fold(0, |sum, byte| sum ^ byte);
            let queue = AltqHash::Destination.queue(&Headers { addresses, ..udp }, 256);
            assert_eq!(queue, u32::from(xor), "{address}");
        }
    }
}
