//! Code points that frames get from the other way of their connection.
//!
//! The first frame that a connection sends against a lane's direction decides which code point its
//! frames in this direction have: what conntrack with tc's `ctinfo` does on a router. It is written
//! before the frame is classified, so that rules, queues and records see it. A connection is told
//! by 64 bits of a keyed hash over its addresses, protocol and ports: two of 65 536 share them once
//! in ten thousand million tables, and nobody who does not know the key can make two that do.
//! Invariant: the places of a set are in the order in which their connections were last seen.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;

use weir_core::packet::{Dscp, Headers, LinkType, TcpFlags, write_traffic_class};

use crate::pool::FramePool;
use crate::port::{Found, Received};

/// The connections whose code point is known.
pub(super) struct Connections {
    /// Differs between processes and tables.
    key: RandomState,
    sets: Box<[Set]>,
}

/// Connections with the same part of their hashes; the first was seen last. One cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Set([Option<Connection>; WAYS]);

#[derive(Clone, Copy)]
struct Connection {
    hash: NonZeroU64,
    /// In seconds of CLOCK_MONOTONIC.
    seen: u32,
    dscp: Dscp,
}

const _: () = assert!(size_of::<Set>() == 64, "a lookup takes one line of memory");

impl Connections {
    pub fn new() -> Self {
        let sets = vec![Set::default(); CONNECTIONS_MAX / WAYS].into_boxed_slice();
        Self { key: RandomState::new(), sets }
    }

    /// Notes a frame that goes the other way.
    pub fn note(&mut self, Received { headers, at_ns, .. }: &Received) {
        let Some((hash, dscp)) = self.hash(headers, Way::Other).zip(headers.dscp()) else { return };
        let begins = headers.tcp_flags().is_some_and(|flags| flags.contains(TcpFlags::SYN));
        let (seen, set) = (seconds(*at_ns), self.set(hash));
        match set.find(hash) {
            Some(known) => {
                if begins || seen.saturating_sub(known.seen) > IDLE_S {
                    known.dscp = dscp;
                }
                known.seen = seen;
            }
            None => set.add(Connection { hash, seen, dscp }),
        }
    }

    /// Gives a frame of this direction the code point of its connection, if that is known.
    pub fn restore(&mut self, received: &mut Received, pool: &mut FramePool) {
        let Received { frame, at_ns, headers, found } = received;
        let Some(hash) = self.hash(headers, Way::This) else { return };
        let Some(known) = self.set(hash).find(hash) else { return };
        known.seen = seconds(*at_ns);
        let Some(before) = headers.traffic_class else { return };
        let restored = known.dscp.code() << 2 | before & ECN;
        if restored != before {
            write_traffic_class(LinkType::Ethernet, pool.bytes_mut(*frame), restored);
            headers.traffic_class = Some(restored);
            // It was of the code point before.
            *found = Found::NOTHING;
        }
    }

    /// Returns the hash of a connection, the same for its frames of both ways; `None` if it cannot
    /// be told without ports.
    fn hash(&self, headers: &Headers, way: Way) -> Option<NonZeroU64> {
        let ports = headers.ports?;
        let near = (headers.addresses.source()?, ports.source);
        let far = (headers.addresses.destination()?, ports.destination);
        let ends = if way == Way::Other { [near, far] } else { [far, near] };
        let hash = self.key.hash_one((ends, headers.protocol?.0));
        Some(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MAX))
    }

    fn set(&mut self, hash: NonZeroU64) -> &mut Set {
        // Its number is as good as any other bits of the hash.
        let number = hash.get() as usize % self.sets.len();
        &mut self.sets[number]
    }
}

/// Where a frame goes, seen from the lane.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    This,
    Other,
}

impl Set {
    /// Returns a connection, which is the first from now on.
    fn find(&mut self, hash: NonZeroU64) -> Option<&mut Connection> {
        let is_it = |place: &Option<Connection>| place.is_some_and(|known| known.hash == hash);
        let place = self.0.iter().position(is_it)?;
        self.0[..=place].rotate_right(1);
        self.0[0].as_mut()
    }

    /// Adds a connection in place of the one that was not seen for longest.
    fn add(&mut self, connection: Connection) {
        self.0.rotate_right(1);
        self.0[0] = Some(connection);
    }
}

fn seconds(at_ns: u64) -> u32 {
    u32::try_from(at_ns / 1_000_000_000).unwrap_or(u32::MAX)
}

/// Bound: connections whose code point a direction knows, in one MiB; of the four that share a set
/// the one that was not seen for longest is forgotten.
const CONNECTIONS_MAX: usize = 1 << 16;
const WAYS: usize = 4;
/// After so many seconds without a frame the next one begins a connection, as Linux's conntrack has
/// it for UDP. One of TCP begins with its SYN as well.
const IDLE_S: u32 = 120;
/// The bits beside the code point.
const ECN: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const EF: u8 = 46 << 2;
    const AF41: u8 = 34 << 2;

    /// A table, and a pool for one frame at a time.
    struct Scene {
        table: Connections,
        pool: FramePool,
    }

    impl Scene {
        fn new() -> Self {
            Self { table: Connections::new(), pool: FramePool::for_mtu(1, 1500) }
        }

        fn received(&mut self, bytes: &[u8], second: u64) -> Received {
            let frame = self.pool.insert(bytes).expect("the pool is empty");
            Received::new(frame, second * 1_000_000_000, &self.pool)
        }

        fn note(&mut self, bytes: &[u8], second: u64) {
            let received = self.received(bytes, second);
            self.table.note(&received);
            self.pool.release(received.frame);
        }

        /// Returns the frame as it goes on.
        fn restore(&mut self, bytes: &[u8], second: u64) -> Vec<u8> {
            let mut received = self.received(bytes, second);
            self.table.restore(&mut received, &mut self.pool);
            let bytes = self.pool.bytes(received.frame).to_vec();
            assert_eq!(Headers::parse_ethernet(&bytes), received.headers, "headers say the same");
            self.pool.release(received.frame);
            bytes
        }

        /// Returns the traffic class with which a frame goes on.
        fn class(&mut self, bytes: &[u8], second: u64) -> u8 {
            let bytes = self.restore(bytes, second);
            Headers::parse_ethernet(&bytes).traffic_class.expect("it is of IP")
        }
    }

    /// The bytes before the ethertype of the IP packet.
    const PLAIN: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    const TAGGED: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0xa0, 5];

    /// A packet between the hosts 1 and 2, from one port to another.
    fn ip4(link: &[u8], (from, to): (u8, u8), ports: (u16, u16), rest: (u8, u8, u8)) -> Vec<u8> {
        let (protocol, class, flags) = rest;
        let mut bytes = [link, &[8, 0]].concat();
        let start = bytes.len();
        bytes.extend([0x45, class, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
        bytes.extend([10, 0, 0, from, 10, 0, 0, to]);
        let mut sum = weir_core::packet::Checksum::default();
        sum.add(&bytes[start..]);
        bytes[start + 10..start + 12].copy_from_slice(&sum.finish().to_be_bytes());
        payload(&mut bytes, ports, flags);
        bytes
    }

    fn ip6(link: &[u8], (from, to): (u8, u8), ports: (u16, u16), rest: (u8, u8, u8)) -> Vec<u8> {
        let (protocol, class, flags) = rest;
        let mut bytes = [link, &[0x86, 0xdd, 0x60 | class >> 4, class << 4, 0, 0]].concat();
        bytes.extend([0, 20, protocol, 64]);
        for end in [from, to] {
            bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
        }
        payload(&mut bytes, ports, flags);
        bytes
    }

    fn payload(bytes: &mut Vec<u8>, ports: (u16, u16), flags: u8) {
        bytes.extend(ports.0.to_be_bytes());
        bytes.extend(ports.1.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    }

    const UP: (u8, u8) = (1, 2);
    const DOWN: (u8, u8) = (2, 1);

    #[test]
    fn a_frame_gets_the_code_point_of_its_connection_and_right_sums() {
        type Make = fn(&[u8], (u8, u8), (u16, u16), (u8, u8, u8)) -> Vec<u8>;
        let kinds: [(Make, &[u8]); 4] = [(ip4, PLAIN), (ip4, TAGGED), (ip6, PLAIN), (ip6, TAGGED)];
        for (make, link) in kinds {
            for protocol in [6, 17] {
                let mut scene = Scene::new();
                scene.note(&make(link, UP, (4000, 80), (protocol, EF, 0)), 1);
                // It keeps its congestion mark; nothing else of it changes.
                let before = make(link, DOWN, (80, 4000), (protocol, AF41 | 3, 0x10));
                let wanted = make(link, DOWN, (80, 4000), (protocol, EF | 3, 0x10));
                assert_eq!(scene.restore(&before, 1), wanted, "{protocol}");
                // A connection of other ports, and one that the other host began.
                for ports in [(81, 4000), (80, 4001), (4000, 80)] {
                    let other = make(link, DOWN, ports, (protocol, 0, 0x10));
                    assert_eq!(scene.restore(&other, 1), other, "{protocol} {ports:?}");
                }
            }
        }
    }

    #[test]
    fn what_has_no_ports_stays_as_it_is() {
        let mut scene = Scene::new();
        let icmp = |way| ip4(PLAIN, way, (0, 0), (1, 0, 0));
        let mut later = ip4(PLAIN, DOWN, (80, 4000), (17, 0, 0));
        later[21] = 9;
        scene.note(&ip4(PLAIN, UP, (0, 0), (1, EF, 0)), 1);
        scene.note(&ip4(PLAIN, UP, (4000, 80), (17, EF, 0)), 1);
        let arp = [PLAIN, &[8, 6, 0, 1, 8, 0]].concat();
        for frame in [icmp(DOWN), later, arp, vec![0; 7]] {
            assert_eq!(scene.restore(&frame, 1), frame);
        }
    }

    /// The name of a row; frames of the other way, each with its second, class and flags; the class
    /// that an answer gets, and when.
    type Row = (&'static str, &'static [(u64, u8, u8)], u8, u64);

    #[test]
    fn the_first_frame_decides_until_the_connection_begins_anew() {
        const SYN: u8 = 2;
        const ACK: u8 = 16;
        let rows: [Row; 7] = [
            ("the first decides", &[(1, EF, ACK), (2, 0, ACK), (3, AF41, ACK)], EF, 4),
            ("nothing is one, too", &[(1, 0, ACK), (2, EF, ACK)], 0, 3),
            ("another SYN", &[(1, EF, SYN), (2, EF, ACK), (3, AF41, SYN)], AF41, 4),
            ("an answer begins it, too", &[(1, EF, ACK), (3, AF41, SYN | ACK)], AF41, 4),
            ("a pause", &[(1, EF, ACK), (121, AF41, ACK)], EF, 122),
            ("a long pause", &[(1, EF, ACK), (122, AF41, ACK)], AF41, 123),
            ("it waits for news", &[(1, EF, ACK)], EF, 4000),
        ];
        for (what, frames, wanted, at) in rows {
            let mut scene = Scene::new();
            for (second, class, flags) in frames {
                scene.note(&ip4(PLAIN, UP, (4000, 80), (6, *class, *flags)), *second);
            }
            let down = ip4(PLAIN, DOWN, (80, 4000), (6, 8, ACK));
            assert_eq!(scene.class(&down, at), wanted, "{what}");
        }
        // Frames of the restored way keep their connection known, too.
        let mut scene = Scene::new();
        let up = |class| ip4(PLAIN, UP, (4000, 80), (17, class, 0));
        let down = ip4(PLAIN, DOWN, (80, 4000), (17, 0, 0));
        scene.note(&up(EF), 1);
        for second in [100, 200, 300] {
            assert_eq!(scene.class(&down, second), EF);
        }
        scene.note(&up(0), 400);
        assert_eq!(scene.class(&down, 401), EF);
    }

    /// Of more connections than there is room for, those that were not seen for long are forgotten.
    #[test]
    fn a_flood_of_connections_forgets_the_oldest_of_each_set() {
        let mut scene = Scene::new();
        let up = |host: u8, port: u16| ip4(PLAIN, (host, 2), (port, 80), (17, EF, 0));
        let down = |host: u8, port: u16| ip4(PLAIN, (2, host), (80, port), (17, 0, 0));
        scene.note(&up(1, 7), 1);
        for host in 3..8 {
            for port in 0..u16::MAX {
                scene.note(&up(host, port), 2);
                if port % 100 == 0 {
                    assert_eq!(scene.class(&down(1, 7), 2), EF, "one that is seen is kept");
                }
            }
        }
        let known = |host: u8, scene: &mut Scene| {
            let ports = 0..u16::MAX;
            ports.filter(|port| scene.class(&down(host, *port), 3) == EF).count()
        };
        // The youngest 65 535 nearly fill the table: of few sets with more than four one is gone.
        let (first, last) = (known(3, &mut scene), known(7, &mut scene));
        assert!(last > 50_000 && first < 1000, "{first} {last}");
        let places = scene.table.sets.iter().flat_map(|set| set.0).flatten().count();
        assert!(places <= CONNECTIONS_MAX && places > CONNECTIONS_MAX * 9 / 10, "{places}");
    }
}
