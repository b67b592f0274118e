//! The table of flows: which frame belongs to which, and from which side it was seen.
//!
//! Invariant: each frame is counted once, where its sender's side saw it.

use crate::datagrams::{Packets, Row};
use crate::frame::{Key, Odd, Place, Seen, Segment, Where};
use crate::tcp::Connection;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weir_core::packet::Protocol;
use weir_core::units::Instant;

/// The flows so far.
#[derive(Default)]
pub struct Table {
    places: BTreeMap<Key, usize>,
    /// In the order of their first frames.
    pub flows: Vec<Flow>,
    /// Frames of flows that the table has no room for, and their bytes.
    pub left_out: [u64; 2],
    /// Packets that were not kept, since too many were.
    pub not_kept: u64,
    kept: u64,
}

/// One flow.
pub struct Flow {
    /// Its ends.
    pub key: Key,
    /// When its first frame passed.
    pub first: Instant,
    /// When its last frame passed.
    pub last: Instant,
    /// The frames of each end.
    pub packets: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
    /// The traffic class of the first frame with data of each end.
    pub classes: [Option<u8>; 2],
    /// The direction of the link in which each end's frames pass.
    pub ways: [Option<Way>; 2],
    /// Segments of TCP that could not be read.
    pub unread: u64,
    /// Why its frames are in no flow of ports.
    pub odd: Option<Odd>,
    /// Its connection, or its packets.
    pub content: Content,
    points: [Option<u16>; 2],
    /// Whether frames of it were seen at the first, and at the second of two captures.
    pub is_at: [bool; 2],
}

/// The content of a flow.
pub enum Content {
    /// A connection of TCP.
    Tcp(Box<Connection>),
    /// Packets.
    Packets(Packets),
}

/// The outcome of adding a frame.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// It is seen for the first time.
    pub counts: bool,
    /// The direction in which it passes.
    pub way: Option<Way>,
}

/// A direction of the link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// This direction of a record.
    Lane(u16),
    /// From inside to outside.
    Up,
    /// From outside to inside.
    Down,
}

impl Table {
    /// Returns how many flows two captures have, and how many of them both have.
    pub fn of_two(&self) -> [usize; 2] {
        self.flows.iter().fold([0; 2], |[one, both], flow| {
            let [first, second] = flow.is_at;
            [one + usize::from(first || second), both + usize::from(first && second)]
        })
    }

    /// Takes a frame; returns whether it counts, and in which direction it passes.
    pub fn add(&mut self, seen: &Seen<'_>) -> Passed {
        let (key, side, odd) = identify(seen);
        let mut segment = None;
        if odd.is_none() && key.protocol == Protocol::TCP.0 {
            segment = seen.segment();
        }
        let Some(place) = self.place(key, side, segment.as_ref(), seen.at) else {
            self.left_out[0] += 1;
            self.left_out[1] += u64::from(seen.length);
            return Passed { counts: true, way: None };
        };
        let flow = &mut self.flows[place];
        flow.odd = flow.odd.or(odd);
        let position = flow.position(side, seen.place);
        flow.last = flow.last.max(seen.at);
        if position != Place::NearReceiver {
            flow.count(side, seen, segment.as_ref());
        }
        match (&mut flow.content, segment) {
            (Content::Tcp(connection), Some(segment)) => {
                connection.passes(&segment, side, position, seen.at);
            }
            (Content::Tcp(_), None) => flow.unread += 1,
            (Content::Packets(packets), _) if position != Place::NearReceiver => {
                if self.kept < PACKETS_MAX {
                    self.kept += 1;
                    packets.rows.push(Row::new(seen.at, seen.length, side));
                    packets.first[side] = packets.first[side].or_else(|| payload(seen));
                } else {
                    self.not_kept += 1;
                }
            }
            (Content::Packets(_), _) => {}
        }
        Passed { counts: position != Place::NearReceiver, way: flow.ways[side] }
    }

    /// Returns the place of the flow of a frame; none if the table is full.
    fn place(
        &mut self,
        key: Key,
        side: usize,
        segment: Option<&Segment>,
        at: Instant,
    ) -> Option<usize> {
        if let Some(&place) = self.places.get(&key) {
            let again = match (&self.flows[place].content, segment) {
                (Content::Tcp(connection), Some(segment)) => connection.is_other(segment, side),
                _ => false,
            };
            if !again {
                return Some(place);
            }
        }
        if self.flows.len() == FLOWS_MAX {
            return None;
        }
        let content = match segment {
            Some(segment) => {
                let ports = key.ends.map(|end| end.port());
                Content::Tcp(Box::new(Connection::new(segment, side, ports)))
            }
            None => Content::Packets(Packets::default()),
        };
        self.places.insert(key, self.flows.len());
        self.flows.push(Flow {
            key,
            first: at,
            last: at,
            packets: [0; 2],
            bytes: [0; 2],
            classes: [None; 2],
            ways: [None; 2],
            unread: 0,
            odd: None,
            content,
            points: [None; 2],
            is_at: [false; 2],
        });
        Some(self.flows.len() - 1)
    }
}

impl Flow {
    /// Returns where the frame of the end at `side` is on its way.
    fn position(&mut self, side: usize, place: Where) -> Place {
        match place {
            Where::Point => {
                let way = || outward(self.key.ends, side);
                self.ways[side] = self.ways[side].or_else(way);
                Place::Between
            }
            Where::Enters(lane) => {
                self.ways[side].get_or_insert(Way::Lane(lane));
                Place::NearSender
            }
            Where::Leaves(_) => Place::NearReceiver,
            Where::OneOfTwo(point) => {
                self.is_at[usize::from(point)] = true;
                // A host's first frame passes the point next to it first.
                self.points[side].get_or_insert(point);
                self.points[1 - side].get_or_insert(1 - point);
                let way = if self.points[side] == Some(0) { Way::Up } else { Way::Down };
                self.ways[side].get_or_insert(way);
                match self.points[side] == Some(point) {
                    true => Place::NearSender,
                    false => Place::NearReceiver,
                }
            }
        }
    }

    fn count(&mut self, side: usize, seen: &Seen<'_>, segment: Option<&Segment>) {
        self.packets[side] += 1;
        self.bytes[side] += u64::from(seen.length);
        if segment.is_none_or(|segment| segment.payload > 0) {
            self.classes[side] = self.classes[side].or(seen.headers.traffic_class);
        }
    }
}

/// Returns the flow of a frame, its sender's place, and what is odd about it.
fn identify(seen: &Seen<'_>) -> (Key, usize, Option<Odd>) {
    match seen.flow() {
        Ok((key, side)) => (key, side, None),
        Err(odd) => match seen.hosts() {
            Some((key, side)) => (key, side, Some(odd)),
            None => (NO_IP, 0, Some(Odd::NoIp)),
        },
    }
}

/// Returns in which direction an end's frames pass, by addresses of local networks.
fn outward(ends: [SocketAddr; 2], side: usize) -> Option<Way> {
    match [ends[side], ends[1 - side]].map(|end| is_local(end.ip())) {
        [true, false] => Some(Way::Up),
        [false, true] => Some(Way::Down),
        _ => None,
    }
}

/// Returns whether hosts of a local network have such addresses.
fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            address.is_private() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
    }
}

/// Returns the first bytes of the payload of UDP.
fn payload(seen: &Seen<'_>) -> Option<[u8; 8]> {
    seen.headers.ports.filter(|_| seen.headers.protocol == Some(Protocol::UDP))?;
    let packet = seen.bytes.get(usize::from(seen.headers.link_len)..)?;
    let header = match packet.first()? >> 4 {
        4 => usize::from(packet[0] & 0x0f) * 4,
        _ => 40,
    };
    packet.get(header + 8..)?.first_chunk().copied()
}

/// The flow of all frames without IP.
const NO_IP: Key = {
    let none = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    Key { ends: [none; 2], protocol: 255, vlan: 0 }
};

/// Bound: flows that are told apart; frames of others are counted.
pub const FLOWS_MAX: usize = 1 << 18;
/// Bound: packets that are kept to be sent again, 16 bytes each; others are counted.
pub const PACKETS_MAX: u64 = 1 << 25;
