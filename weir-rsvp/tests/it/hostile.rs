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
    Body, Carried, Descriptor, Filter, Hop, Message, Path, Reservation, Resv, SenderDescriptor,
    Session, Style,
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
