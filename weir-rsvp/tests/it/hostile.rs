//! Messages that are well formed and mean harm: long ones, hops that are none, state that would
//! renew itself. A router between 10.1.0.0/24, where senders are, and 10.2.0.0/24.

use std::net::IpAddr;

use weir_core::classify::InterfaceId;
use weir_core::units::{Duration, Instant};
use weir_rsvp::intserv::{Flowspec, Tspec};
use weir_rsvp::node::{
    Action, Arrival, Call, Control, InterfaceParams, Limits, Node, NodeParams, Poll, Route, Routes,
    Timers,
};
use weir_rsvp::wire::{
    Body, Carried, Descriptor, Filter, Hop, Identified, Message, MessageId, Path, Reservation,
    Resv, SenderDescriptor, Session, Style,
};

struct Straight;

impl Routes for Straight {
    fn route(&self, destination: IpAddr, _: IpAddr) -> Route {
        let by = u16::from(destination.to_string().starts_with("10.2."));
        Route { outgoing: vec![InterfaceId(by)], ..Route::default() }
    }
}

struct Router {
    node: Node,
    now: Instant,
    sent: Vec<Message>,
}

impl Router {
    fn new(learns_until: Instant) -> Self {
        let interface = |own: &str| InterfaceParams::plain(vec![address(own)], 1e9, 1500);
        let node = Node::new(NodeParams {
            interfaces: vec![interface("10.1.0.2"), interface("10.2.0.2")],
            timers: Timers { learns_until, ..Timers::default() },
            limits: Limits::default(),
            seed: 1,
            epoch: 1,
        });
        Self { node, now: Instant::from_nanos(1), sent: Vec::new() }
    }

    /// Hands it a message that came by an interface, and keeps what it sends.
    fn hear(&mut self, interface: u16, from: &str, message: &Message) {
        let bytes = message.build();
        let arrival = Arrival {
            interface: InterfaceId(interface),
            source: address(from),
            destination: address("10.2.0.9"),
            ttl: 64,
            bytes: &bytes,
        };
        self.node.receive(Call::new(self.now, &Straight), arrival);
        self.act();
    }

    /// As `hear`, but returns the bytes that it sends, which may be no message of its own.
    fn hear_bytes(&mut self, interface: u16, from: &str, bytes: &[u8]) -> Vec<Vec<u8>> {
        let arrival = Arrival {
            interface: InterfaceId(interface),
            source: address(from),
            destination: address("10.2.0.9"),
            ttl: 64,
            bytes,
        };
        self.node.receive(Call::new(self.now, &Straight), arrival);
        let mut sent = Vec::new();
        while let Poll::Action(action) = self.node.poll(Call::new(self.now, &Straight)) {
            if let Action::Send(packet) = action {
                sent.push(packet.bytes);
            }
        }
        sent
    }

    fn act(&mut self) {
        while let Poll::Action(action) = self.node.poll(Call::new(self.now, &Straight)) {
            match action {
                Action::Send(packet) => {
                    assert!(packet.bytes.len() < 65_536 - 60, "it fits a packet");
                    self.sent.push(Message::parse(&packet.bytes).expect("it is a message"));
                }
                Action::Control(Control::Add(flow, _) | Control::Modify(flow, _)) => {
                    self.node.answer(Call::new(self.now, &Straight), flow, Ok(()));
                }
                _ => {}
            }
        }
    }

    fn sent(&self, kind: &str) -> usize {
        self.sent.iter().filter(|message| message.kind().1 == kind).count()
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn session() -> Session {
    Session::udp(address("10.2.0.9"), 5004)
}

fn tspec() -> Tspec {
    Tspec { rate: 1e4, bucket: 2e3, peak: f32::INFINITY, packet_min: 64, packet_max: 1000 }
}

fn sender(port: u16) -> Filter {
    Filter::new(address("10.1.0.1"), port)
}

fn path(hop: &str, port: u16) -> Message {
    let sender = SenderDescriptor { template: sender(port), tspec: Some(tspec()), adspec: None };
    let hop = Hop { address: address(hop), handle: 7 };
    let (session, period) = (session(), 30_000);
    Message::new(
        64,
        Body::Path(Path { session, police: false, hop, period, policies: vec![], sender }),
    )
}

fn resv(hop: &str, style: Style, filters: Vec<Filter>, scope: Vec<IpAddr>) -> Message {
    let descriptors = match style {
        Style::Fixed => filters.into_iter().map(|filter| vec![filter]).collect(),
        _ => vec![filters],
    };
    let flowspec = Some(Flowspec::ControlledLoad(tspec()));
    let descriptor = |filters| Descriptor { flowspec, filters };
    let descriptors = descriptors.into_iter().map(descriptor).collect();
    let hop = Hop { address: address(hop), handle: 1 };
    Message::new(
        64,
        Body::Resv(Resv {
            session: session(),
            hop,
            period: 30_000,
            confirm: None,
            scope,
            policies: vec![],
            reservation: Reservation { style, descriptors },
        }),
    )
}

/// A message with another number in the object of a class: its type, or where that is kept the last
/// byte of its contents.
fn with_unknown(message: &Message, class: u8, in_contents: bool) -> Vec<u8> {
    let mut bytes = message.build();
    let mut at = 8;
    while bytes[at + 2] != class {
        at += usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    }
    let end = at + usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    bytes[if in_contents { end - 1 } else { at + 3 }] = 29;
    // No checksum.
    bytes[2..4].fill(0);
    bytes
}

#[test]
fn a_message_with_an_unknown_type_in_place_of_what_it_needs_is_answered() {
    const SESSION: u8 = 1;
    const STYLE: u8 = 8;
    const FILTER_SPEC: u8 = 10;
    let fixed = || resv("10.2.0.9", Style::Fixed, vec![sender(1)], vec![]);
    let (resv_error, path_error) = (4, 3);
    let rows = [
        (1, fixed(), (STYLE, true), resv_error, (6, 0)),
        (1, fixed(), (STYLE, false), resv_error, (14, 0x81d)),
        (1, fixed(), (SESSION, false), resv_error, (14, 0x11d)),
        (1, fixed(), (FILTER_SPEC, false), resv_error, (14, 0xa1d)),
        (0, path("10.1.0.1", 1), (SESSION, false), path_error, (14, 0x11d)),
    ];
    // Also a router that has just started, and learns yet of senders, answers.
    for learns_until in [Instant::default(), Instant::MAX] {
        for (interface, mut message, (class, in_contents), kind, (code, value)) in rows.clone() {
            let mut router = Router::new(learns_until);
            let id = MessageId { epoch: 7, number: 9 };
            message.id = Some(Identified { id, acknowledge: true });
            let bytes = with_unknown(&message, class, in_contents);
            let from = if interface == 0 { "10.1.0.1" } else { "10.2.0.9" };
            let sent = router.hear_bytes(interface, from, &bytes);
            // The acknowledgement ends its repetitions.
            let [error, receipt] = &sent[..] else { panic!("{sent:?}") };
            assert_eq!((error[1], receipt[1]), (kind, 13), "{class}");
            Message::parse(error).expect("a neighbour can read it");
            let spec = object(error, 6).expect("an ERROR_SPEC");
            let cause = (spec[9], u16::from_be_bytes([spec[10], spec[11]]));
            assert_eq!(cause, (code, value), "class {class}");
            assert_eq!(object(error, SESSION), object(&bytes, SESSION), "it names the session");
            if kind == resv_error {
                assert_eq!(object(error, STYLE), object(&bytes, STYLE), "it repeats the style");
            }
            assert_eq!(router.node.session_count(), 0, "it makes no state");
        }
    }
}

/// The object of a class, with its header.
fn object(message: &[u8], class: u8) -> Option<&[u8]> {
    let mut rest = &message[8..];
    while !rest.is_empty() {
        let (object, behind) = rest.split_at(usize::from(u16::from_be_bytes([rest[0], rest[1]])));
        if object[2] == class {
            return Some(object);
        }
        rest = behind;
    }
    None
}

#[test]
fn an_answer_that_repeats_a_long_message_fits_a_packet() {
    let mut router = Router::new(Instant::default());
    for (addresses, answers) in [(1900, 1), (3000, 1), (15_000, 1)] {
        let scope: Vec<_> = (0..addresses).map(|n: u32| IpAddr::from(n.to_be_bytes())).collect();
        router.hear(1, "10.2.0.9", &resv("10.2.0.9", Style::Wildcard, vec![], scope));
        assert_eq!(router.sent("ResvErr"), answers, "{addresses} addresses");
    }
    assert_eq!(router.node.counts().malformed, 2, "messages longer than 8 KiB");
}

#[test]
fn what_neighbours_send_along_does_not_grow_beyond_a_packet() {
    let mut router = Router::new(Instant::default());
    for place in 0..20 {
        router.hear(0, "10.1.0.1", &path("10.1.0.1", 4000 + place));
    }
    for place in 0..20 {
        let mut message = resv("10.2.0.9", Style::Fixed, vec![sender(4000 + place)], vec![]);
        message.carried = vec![Carried { class: 200, kind: place as u8, bytes: vec![1; 7000] }];
        router.hear(1, "10.2.0.9", &message);
    }
    // Each refreshes what was merged of all.
    for _ in 0..4 {
        router.now = router.now.after(Duration::from_secs(20));
        router.act();
    }
    let filters = |message: &Message| match &message.body {
        Body::Resv(resv) => resv.reservation.descriptors.len(),
        _ => 0,
    };
    assert_eq!(router.sent.iter().map(filters).max(), Some(20), "all are reserved upstream");
}

#[test]
fn a_hop_is_a_neighbour_and_never_the_router_itself() {
    let mut router = Router::new(Instant::default());
    for wrong in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"] {
        router.hear(0, "10.1.0.1", &path(wrong, 4000));
    }
    assert_eq!(router.node.counts().malformed, 4);
    for own in ["10.1.0.2", "10.2.0.2"] {
        router.hear(0, "10.1.0.1", &path(own, 4000));
    }
    assert_eq!((router.node.counts().stray, router.node.sessions().count()), (2, 0));
    router.hear(0, "10.1.0.1", &path("10.1.0.1", 4000));
    assert_eq!(router.node.sessions().count(), 1);
}

#[test]
fn a_router_that_has_just_begun_waits_for_senders_before_it_refuses() {
    let reserve = |filters| resv("10.2.0.9", Style::Fixed, filters, vec![]);
    let mut router = Router::new(Instant::from_nanos(1).after(Duration::from_secs(60)));
    router.hear(1, "10.2.0.9", &reserve(vec![sender(4000)]));
    assert_eq!(router.sent("ResvErr"), 0, "its Path may come yet");
    router.hear(0, "10.1.0.1", &path("10.1.0.1", 4000));
    router.hear(1, "10.2.0.9", &reserve(vec![sender(4000), sender(4001)]));
    assert_eq!((router.sent("ResvErr"), router.sent("Resv")), (0, 1));
    router.now = router.now.after(Duration::from_secs(60));
    router.hear(1, "10.2.0.9", &reserve(vec![sender(4001)]));
    assert_eq!(router.sent("ResvErr"), 1, "it had its time");
}
