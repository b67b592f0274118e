//! Frames made from a description, for tests, without any code of Weir's parser.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::net::IpAddr;
use weir_core::random::Random;

/// A frame, described. `bytes` puts it on the wire.
#[derive(Clone, Debug)]
pub struct Frame {
    /// TPID and tag control information, outer first.
    pub tags: Vec<(u16, u16)>,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    /// Source and destination port.
    pub ports: (u16, u16),
    pub traffic_class: u8,
    pub fragment: Option<Piece>,
    /// IPv6 extension headers before any fragment header.
    pub extensions: Vec<u8>,
}

/// A fragment: identification, offset in units of eight bytes, whether more follow.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub id: u32,
    pub offset: u16,
    pub more: bool,
}

pub fn frame(protocol: u8, source: (&str, u16), destination: (&str, u16)) -> Frame {
    Frame {
        tags: Vec::new(),
        source: source.0.parse().expect("a test's own address"),
        destination: destination.0.parse().expect("a test's own address"),
        protocol,
        ports: (source.1, destination.1),
        traffic_class: 0,
        fragment: None,
        extensions: Vec::new(),
    }
}

impl Frame {
    pub fn tag(mut self, tpid: u16, tci: u16) -> Frame {
        self.tags.push((tpid, tci));
        self
    }

    pub fn class(mut self, byte: u8) -> Frame {
        self.traffic_class = byte;
        self
    }

    pub fn piece(mut self, id: u32, offset: u16, more: bool) -> Frame {
        self.fragment = Some(Piece { id, offset, more });
        self
    }

    pub fn extension(mut self, kind: u8) -> Frame {
        self.extensions.push(kind);
        self
    }

    /// Returns the Ethernet frame, tags included.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2];
        for (tpid, tci) in &self.tags {
            bytes.extend(tpid.to_be_bytes());
            bytes.extend(tci.to_be_bytes());
        }
        bytes.extend(if self.source.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] });
        bytes.extend(self.ip_bytes());
        bytes
    }

    /// Returns the packet without the link's header.
    pub fn ip_bytes(&self) -> Vec<u8> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.ipv4(source.octets(), destination.octets())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                self.ipv6(source.octets(), destination.octets())
            }
            _ => panic!("a frame has addresses of one family"),
        }
    }

    fn ipv4(&self, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let segment = self.segment();
        let piece = self.fragment.unwrap_or(Piece { id: 7, offset: 0, more: false });
        let mut bytes = vec![0x45, self.traffic_class];
        bytes.extend((20 + segment.len() as u16).to_be_bytes());
        bytes.extend((piece.id as u16).to_be_bytes());
        bytes.extend((piece.offset | u16::from(piece.more) << 13).to_be_bytes());
        bytes.extend([64, self.protocol, 0, 0]);
        bytes.extend(source);
        bytes.extend(destination);
        bytes.extend(segment);
        bytes
    }

    fn ipv6(&self, source: [u8; 16], destination: [u8; 16]) -> Vec<u8> {
        // Built from the back, since each header names the next.
        let mut next = self.protocol;
        let mut payload = self.segment();
        if let Some(piece) = self.fragment {
            let mut header = vec![next, 0];
            header.extend((piece.offset << 3 | u16::from(piece.more)).to_be_bytes());
            header.extend(piece.id.to_be_bytes());
            payload.splice(0..0, header);
            next = 44;
        }
        for &kind in self.extensions.iter().rev() {
            // Sixteen bytes: AH counts units of four bytes beyond two, the others units of eight
            // beyond one.
            let len = if kind == 51 { 2 } else { 1 };
            payload.splice(0..0, [&[next, len][..], &[0; 14][..]].concat());
            next = kind;
        }
        let class = u32::from(self.traffic_class) << 20;
        let mut bytes = (0x6000_0000 | class | 0x000a_bcde).to_be_bytes().to_vec();
        bytes.extend((payload.len() as u16).to_be_bytes());
        bytes.extend([next, 64]);
        bytes.extend(source);
        bytes.extend(destination);
        bytes.extend(payload);
        bytes
    }

    /// Ports, then zeros; TCP's flag byte says SYN and ACK.
    fn segment(&self) -> Vec<u8> {
        let mut bytes = self.ports.0.to_be_bytes().to_vec();
        bytes.extend(self.ports.1.to_be_bytes());
        bytes.resize(24, 0);
        if self.protocol == 6 {
            bytes[13] = 0x12;
        }
        bytes
    }
}

/// Seeded draws for frames and rules.
pub struct Draws(Random);

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed, 0))
    }

    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u32) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}
