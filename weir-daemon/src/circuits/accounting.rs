//! A server of RADIUS accounting: which packets are followed, and what is answered [rfc2866].
//!
//! No I/O and no clock. Every packet that a client made is answered, also one that cannot be
//! followed: the client would send it again, and it would be no better. One that comes again is
//! answered as before and changes nothing [rfc5080 §2.2.2].

use super::radius::{
    ACCT_SESSION_ID, ACCT_STATUS_TYPE, DIGEST, HEADER, NAS_IDENTIFIER, NAS_IP_ADDRESS,
    NAS_IPV6_ADDRESS, Packet,
};
use super::table::Table;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};
use weir_control::circuits::{Circuit, RadiusCounts, Session};
use weir_policy::deployment::Radius;

/// See the module.
pub struct Accounting {
    settings: Radius,
    secret: Vec<u8>,
    clients: BTreeMap<IpAddr, Allowance>,
    replies: Replies,
    counts: RadiusCounts,
}

/// How many packets a client may still send.
struct Allowance {
    left: u32,
    filled: Instant,
}

/// The responses of late.
#[derive(Default)]
struct Replies {
    known: BTreeMap<Request, Reply>,
    /// The oldest first.
    order: VecDeque<(Instant, Request)>,
}

/// Tells requests apart: client with its port, identifier and authenticator.
type Request = (SocketAddr, u8, [u8; DIGEST]);
/// A response is a header.
type Reply = [u8; HEADER];

impl Accounting {
    /// A server for the clients that the deployment names.
    pub fn new(settings: Radius, secret: &str, now: Instant) -> Self {
        let allowance = |client: &IpAddr| (*client, Allowance { left: BURST_MAX, filled: now });
        let clients = settings.clients.iter().map(allowance).collect();
        let (replies, counts) = (Replies::default(), RadiusCounts::default());
        Self { settings, secret: secret.as_bytes().to_vec(), clients, replies, counts }
    }

    /// Returns what came so far.
    pub fn counts(&self) -> RadiusCounts {
        self.counts.clone()
    }

    /// Follows a packet; returns the response.
    pub fn receive(
        &mut self,
        now: Instant,
        (from, bytes): (SocketAddr, &[u8]),
        table: &mut Table,
    ) -> Option<Reply> {
        self.counts.received += 1;
        let counts = &mut self.counts;
        let Some(allowance) = self.clients.get_mut(&from.ip().to_canonical()) else {
            counts.foreign += 1;
            return None;
        };
        if !allowance.take(now) {
            counts.limited += 1;
            return None;
        }
        let Ok(packet) = Packet::parse(bytes) else {
            counts.malformed += 1;
            return None;
        };
        if !packet.is_authentic(&self.secret) {
            counts.insecure += 1;
            return None;
        }
        let request = (from, packet.identifier(), packet.authenticator());
        if let Some(reply) = self.replies.find(now, &request) {
            counts.repeated += 1;
            return Some(reply);
        }
        self.act(now, from.ip(), &packet, table);
        let reply = packet.response(&self.secret);
        self.replies.keep(now, request, reply);
        self.counts.answered += 1;
        Some(reply)
    }

    /// Does what an authentic packet says.
    fn act(&mut self, now: Instant, client: IpAddr, packet: &Packet<'_>, table: &mut Table) {
        let server = server(packet).unwrap_or_else(|| client.to_canonical().to_string());
        let status = packet.number(ACCT_STATUS_TYPE);
        if matches!(status, Some(ON | OFF)) {
            return table.leave_server(&server);
        }
        let text = |kind| packet.text(kind).map(str::to_owned);
        let session = packet.text(ACCT_SESSION_ID).map(str::to_owned);
        let (Some(id), Some(session)) = (text(self.settings.id), session) else {
            self.counts.refused += 1;
            return;
        };
        let session = Session { server, id: session };
        match status {
            Some(START | INTERIM_UPDATE) => {
                let circuit = Circuit {
                    id,
                    addresses: packet.addresses(),
                    plan: text(self.settings.plan).unwrap_or_default(),
                    site: text(self.settings.site).unwrap_or_default(),
                    session: Some(session),
                };
                self.counts.refused += u64::from(table.join(now, circuit).is_err());
            }
            Some(STOP) => self.counts.stale += u64::from(!table.leave(&id, Some(&session))),
            // Tunnels and others are none of ours.
            _ => {}
        }
    }
}

/// Returns what an access server calls itself.
fn server(packet: &Packet<'_>) -> Option<String> {
    if let Some(name) = packet.text(NAS_IDENTIFIER) {
        return Some(name.to_owned());
    }
    if let Some(Ok(octets)) = packet.attribute(NAS_IP_ADDRESS).map(<[u8; 4]>::try_from) {
        return Some(Ipv4Addr::from(octets).to_string());
    }
    let octets: [u8; 16] = packet.attribute(NAS_IPV6_ADDRESS)?.try_into().ok()?;
    Some(Ipv6Addr::from(octets).to_string())
}

impl Allowance {
    /// Returns whether the client may send a packet now.
    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled).as_millis();
        // Rounded down: the rest of a packet waits for the next one.
        let more = passed * u128::from(RATE_MAX) / 1000;
        if more > 0 {
            self.left =
                BURST_MAX.min(self.left.saturating_add(more.min(u128::from(u32::MAX)) as u32));
            self.filled = now;
        }
        let is_allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_allowed
    }
}

impl Replies {
    fn find(&mut self, now: Instant, request: &Request) -> Option<Reply> {
        let is_old = |(at, _): &(Instant, Request)| now.saturating_duration_since(*at) > REPLY_TIME;
        while self.order.front().is_some_and(is_old) {
            self.forget();
        }
        self.known.get(request).copied()
    }

    fn keep(&mut self, now: Instant, request: Request, reply: Reply) {
        if self.order.len() >= REPLIES_MAX {
            self.forget();
        }
        self.order.push_back((now, request));
        self.known.insert(request, reply);
    }

    fn forget(&mut self) {
        if let Some((_, request)) = self.order.pop_front() {
            self.known.remove(&request);
        }
    }
}

/// Reads any bytes as packets of a client, for a fuzz target.
///
/// # Panics
/// When a packet breaks what the table promises.
pub fn exercise(bytes: &[u8]) {
    let client = SocketAddr::from(([192, 0, 2, 2], 1813));
    let settings = Radius {
        listen: client,
        clients: vec![client.ip()],
        secret_file: std::path::PathBuf::new(),
        id: 1,
        plan: 11,
        site: 32,
    };
    let (mut table, now) = (Table::default(), Instant::now());
    let mut accounting = Accounting::new(settings, "key", now);
    let first = accounting.receive(now, (client, bytes), &mut table);
    let again = accounting.receive(now, (client, bytes), &mut table);
    assert_eq!(first, again, "a packet that comes again is answered as before");
    // As a client that has the secret would have made it.
    if let Ok(packet) = Packet::parse(bytes) {
        accounting.act(now, client.ip(), &packet, &mut table);
        assert!(packet.response(b"key").len() <= bytes.len(), "it is no amplifier");
    }
    for step in table.take(8) {
        table.answer(&step, &[Ok(None)]);
    }
    table.describe(now, 9);
}

// [rfc2866 §5.1] Values of Acct-Status-Type.
const START: u32 = 1;
const STOP: u32 = 2;
const INTERIM_UPDATE: u32 = 3;
const ON: u32 = 7;
const OFF: u32 = 8;
/// Bound: packets a second of one client of RADIUS; further ones are dropped and counted, and the
/// client sends them again.
const RATE_MAX: u32 = 5000;
/// Packets of one client at a time, as after it was cut off for a while.
const BURST_MAX: u32 = 2 * RATE_MAX;
/// Bound: responses that are remembered; the oldest is forgotten, and its request would be followed
/// again, to the same end.
const REPLIES_MAX: usize = 1 << 16;
/// How long a response is remembered: clients give up before.
const REPLY_TIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::super::radius::tests::request;
    use super::*;

    struct World {
        accounting: Accounting,
        table: Table,
        now: Instant,
        next: u8,
    }

    const CLIENT: [u8; 4] = [192, 0, 2, 2];

    impl World {
        fn new() -> Self {
            let settings = Radius {
                listen: SocketAddr::from((CLIENT, 1813)),
                clients: vec![IpAddr::from(CLIENT)],
                secret_file: std::path::PathBuf::new(),
                id: 1,
                plan: 11,
                site: 32,
            };
            let now = Instant::now();
            let accounting = Accounting::new(settings, "key", now);
            Self { accounting, table: Table::default(), now, next: 0 }
        }

        fn receive(&mut self, from: [u8; 4], bytes: &[u8]) -> Option<Reply> {
            let from = SocketAddr::from((from, 40_000));
            self.accounting.receive(self.now, (from, bytes), &mut self.table)
        }

        /// Receives a packet with this status of a session, with a number of its own.
        fn hear(&mut self, status: u32, (user, session): (&str, &str), address: &[u8]) {
            self.next += 1;
            let attributes: [(u8, &[u8]); 6] = [
                (40, &status.to_be_bytes()),
                (1, user.as_bytes()),
                (44, session.as_bytes()),
                (8, address),
                (11, b"gold"),
                (32, b"nas"),
            ];
            let bytes = request(self.next, &attributes, b"key", false);
            assert!(self.receive(CLIENT, &bytes).is_some(), "it is answered");
        }

        /// The circuits with their addresses.
        fn known(&self) -> String {
            let shown = self.table.describe(self.now, 99).shown;
            let one = |one: &weir_control::circuits::CircuitStatus| {
                let Circuit { id, addresses, .. } = &one.circuit;
                format!("{id}:{}", addresses.join("+").replace("192.0.2.", "").replace("/32", ""))
            };
            shown.iter().map(one).collect::<Vec<_>>().join(" ")
        }
    }

    #[test]
    fn a_session_is_a_circuit_while_it_lasts() {
        let mut world = World::new();
        let anna = ("anna", "s1");
        world.hear(START, anna, &[192, 0, 2, 7]);
        assert_eq!(world.known(), "anna:7");
        let circuit = world.table.describe(world.now, 1).shown.remove(0).circuit;
        assert_eq!((circuit.plan.as_str(), circuit.site.as_str()), ("gold", "nas"));
        world.hear(START, anna, &[192, 0, 2, 7]);
        world.hear(INTERIM_UPDATE, anna, &[192, 0, 2, 8]);
        world.hear(INTERIM_UPDATE, ("ben", "s2"), &[192, 0, 2, 7]);
        assert_eq!(world.known(), "anna:8 ben:7", "an update is news of a session");
        // The subscriber came back before the end of the session was told.
        world.hear(START, ("anna", "s3"), &[192, 0, 2, 9]);
        world.hear(STOP, anna, &[192, 0, 2, 8]);
        assert_eq!((world.known().as_str(), world.accounting.counts.stale), ("anna:9 ben:7", 1));
        world.hear(STOP, ("anna", "s3"), &[192, 0, 2, 9]);
        world.hear(9, ("carl", "s4"), &[192, 0, 2, 9]);
        assert_eq!(world.known(), "ben:7");
        world.hear(START, ("dora", "s5"), &[]);
        assert_eq!(world.known(), "dora: ben:7", "it has no address yet");
        world.hear(OFF, ("", ""), &[]);
        assert_eq!(world.known(), "");
    }

    #[test]
    fn a_packet_that_comes_again_changes_nothing() {
        let mut world = World::new();
        let attributes: [(u8, &[u8]); 5] =
            [(40, &[0, 0, 0, 1]), (1, b"anna"), (44, b"s1"), (8, &[192, 0, 2, 7]), (32, b"nas")];
        let bytes = request(1, &attributes, b"key", true);
        let first = world.receive(CLIENT, &bytes);
        world.hear(STOP, ("anna", "s1"), &[]);
        assert!(first.is_some());
        assert_eq!(world.receive(CLIENT, &bytes), first);
        assert_eq!((world.known().as_str(), world.accounting.counts.repeated), ("", 1));
        world.now += REPLY_TIME + Duration::from_secs(1);
        assert_eq!(world.receive(CLIENT, &bytes), first);
        assert_eq!(world.accounting.counts.repeated, 1, "it was forgotten");
    }

    #[test]
    fn who_is_no_client_or_has_no_secret_gets_no_answer() {
        let mut world = World::new();
        let bytes = request(1, &[(40, &[0, 0, 0, 7])], b"key", false);
        let forged = request(1, &[(40, &[0, 0, 0, 7])], b"guess", false);
        assert_eq!(world.receive([192, 0, 2, 3], &bytes), None);
        assert_eq!(world.receive(CLIENT, &forged), None);
        assert_eq!(world.receive(CLIENT, &bytes[1..]), None);
        let nameless = request(2, &[(40, &[0, 0, 0, 1])], b"key", false);
        assert!(world.receive(CLIENT, &nameless).is_some(), "it would be sent for ever");
        let RadiusCounts { foreign, insecure, malformed, refused, .. } = world.accounting.counts();
        assert_eq!((foreign, insecure, malformed, refused), (1, 1, 1, 1));
    }

    #[test]
    fn a_client_that_sends_too_much_is_limited_alone() {
        let mut world = World::new();
        let bytes = request(1, &[(40, &[0, 0, 0, 7])], b"key", false);
        for _ in 0..BURST_MAX {
            world.receive(CLIENT, &bytes);
        }
        assert_eq!(world.receive(CLIENT, &bytes), None);
        assert_eq!(world.accounting.counts.limited, 1);
        world.now += Duration::from_millis(1);
        let more = (0..9).filter(|_| world.receive(CLIENT, &bytes).is_some()).count();
        assert_eq!(more, 5, "five in a millisecond");
        world.now += Duration::from_secs(3600);
        world.receive(CLIENT, &bytes);
        assert_eq!(world.accounting.clients[&IpAddr::from(CLIENT)].left, BURST_MAX - 1);
    }

    #[test]
    fn responses_that_are_remembered_are_bounded() {
        let mut replies = Replies::default();
        let (now, from) = (Instant::now(), SocketAddr::from((CLIENT, 1)));
        let request = |number: usize| {
            let mut authenticator = [0; DIGEST];
            authenticator[..8].copy_from_slice(&number.to_be_bytes());
            (from, 0, authenticator)
        };
        (0..=REPLIES_MAX).for_each(|number| replies.keep(now, request(number), [1; HEADER]));
        assert_eq!((replies.known.len(), replies.order.len()), (REPLIES_MAX, REPLIES_MAX));
        assert_eq!(replies.find(now, &request(0)), None, "the oldest is forgotten");
        assert_eq!(replies.find(now, &request(1)), Some([1; HEADER]));
    }
}
