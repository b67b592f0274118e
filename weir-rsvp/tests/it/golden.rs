//! The worked examples of [rfc2205 §1.4]: one router between two previous and two next hops, and
//! what it reserves and sends upstream for the reservations of three receivers (Figures 4 to 8).

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_core::classify::InterfaceId;
use weir_core::units::Instant;
use weir_rsvp::intserv::{Flowspec, Tspec};
use weir_rsvp::node::{
    Action, Arrival, Call, Control, InterfaceParams, Limits, Node, NodeParams, Poll, Request,
    Route, Timers,
};
use weir_rsvp::wire::{
    Body, Cause, Descriptor, Filter, Hop, Message, Path, Reservation, Resv, SenderDescriptor,
    Session, Style,
};

/// The unit B of the figures, in bytes a second.
const B: f32 = 1000.0;

fn group() -> Session {
    Session::udp(IpAddr::from([224, 1, 1, 1]), 5000)
}

fn sender(number: u8) -> Filter {
    Filter::new(IpAddr::from([10, 9, 0, number]), 4000)
}

fn tspec(units: f32) -> Tspec {
    let peak = f32::INFINITY;
    Tspec { rate: units * B, bucket: 9000.0, peak, packet_min: 64, packet_max: 1500 }
}

/// Figure 4: interfaces (a) to (d); S1 comes by (a), S2 and S3 by (b); R1 is at (c), R2 and R3 at
/// (d).
struct Router {
    node: Node,
    /// Whether data of S2 and S3 leave only by (d), as Figure 8 supposes.
    partial: bool,
    now: Instant,
    installed: BTreeMap<u64, Request>,
    /// The causes of the errors that it sent.
    errors: Vec<Cause>,
}

impl Router {
    fn new(partial: bool) -> Self {
        let interface = |number: u8| {
            InterfaceParams::plain(vec![IpAddr::from([10, 0, number, 254])], 1e6, 1500)
        };
        let node = Node::new(NodeParams {
            interfaces: (0..4).map(interface).collect(),
            timers: Timers::default(),
            limits: Limits::default(),
            seed: 1,
            epoch: 1,
        });
        let installed = BTreeMap::new();
        let (now, errors) = (Instant::from_nanos(0), Vec::new());
        let mut router = Self { node, partial, now, installed, errors };
        for (number, interface) in [(1, 0), (2, 1), (3, 1)] {
            router.path(number, interface);
        }
        router
    }

    fn receive(&mut self, interface: u16, source: IpAddr, body: Body) {
        let partial = self.partial;
        let (c, d) = (InterfaceId(2), InterfaceId(3));
        let routes = move |_: IpAddr, source: IpAddr| {
            let only_d = partial && source != sender(1).source;
            Route { outgoing: if only_d { vec![d] } else { vec![c, d] }, ..Route::default() }
        };
        let (interface, destination) = (InterfaceId(interface), group().destination);
        let bytes = Message::new(9, body).build();
        let arrival = Arrival { interface, source, destination, ttl: 9, bytes: &bytes };
        self.node.receive(Call::new(self.now, &routes), arrival);
        while let Poll::Action(action) = self.node.poll(Call::new(self.now, &routes)) {
            let control = match action {
                Action::Control(control) => control,
                Action::Send(packet) => {
                    self.errors.extend(cause(&packet.bytes));
                    continue;
                }
                Action::Event(_) => continue,
            };
            match control {
                Control::Add(flow, request) | Control::Modify(flow, request) => {
                    self.installed.insert(flow.0, request);
                    assert!(
                        self.node.answer(Call::new(self.now, &routes), flow, Ok(())),
                        "it was asked"
                    );
                }
                Control::Remove(flow, _) => drop(self.installed.remove(&flow.0)),
            }
        }
    }

    fn path(&mut self, number: u8, interface: u16) {
        self.path_of(number, interface, tspec(9.0));
    }

    fn path_of(&mut self, number: u8, interface: u16, tspec: Tspec) {
        let source = sender(number).source;
        let address = IpAddr::from([10, 0, interface as u8, 1]);
        let (template, tspec) = (sender(number), Some(tspec));
        let descriptor = SenderDescriptor { template, tspec, adspec: None };
        self.receive(
            interface,
            source,
            Body::Path(Path {
                session: group(),
                police: false,
                hop: Hop { address, handle: 0 },
                period: 30_000,
                policies: Vec::new(),
                sender: descriptor,
            }),
        );
    }

    /// A receiver reserves: `flows` are the units B and the senders of each descriptor.
    fn resv(&mut self, receiver: u8, style: Style, flows: &[(f32, &[u8])]) {
        let descriptor = |(units, senders): &(f32, &[u8])| Descriptor {
            flowspec: Some(Flowspec::ControlledLoad(tspec(*units))),
            filters: senders.iter().map(|number| sender(*number)).collect(),
        };
        self.resv_of(receiver, style, flows.iter().map(descriptor).collect());
    }

    fn resv_of(&mut self, receiver: u8, style: Style, descriptors: Vec<Descriptor>) {
        let interface: u16 = if receiver == 1 { 2 } else { 3 };
        let address = IpAddr::from([10, 0, interface as u8, receiver]);
        self.receive(
            interface,
            address,
            Body::Resv(Resv {
                session: group(),
                hop: Hop { address, handle: u32::from(interface) },
                period: 30_000,
                confirm: None,
                scope: Vec::new(),
                policies: Vec::new(),
                reservation: Reservation { style, descriptors },
            }),
        );
    }

    /// Returns the reservations of the interfaces, as the right half of a figure has them.
    fn reserved(&self) -> String {
        let mut lines: Vec<String> = self
            .installed
            .values()
            .map(|request| {
                let shown = match request.style {
                    Style::Wildcard => descriptor(request.style, &request.flowspec, &[]),
                    style => descriptor(style, &request.flowspec, &request.filters),
                };
                format!("{} {shown}", ["a", "b", "c", "d"][usize::from(request.interface.0)])
            })
            .collect();
        lines.sort();
        lines.join("; ")
    }

    /// Returns the Resv messages to the previous hops, as the left half of a figure has them.
    fn sent(&self) -> String {
        let view = self.node.session(&group()).expect("the session is known");
        let mut lines: Vec<String> = view
            .upstream
            .iter()
            .map(|(hop, reservation)| {
                let IpAddr::V4(hop) = hop.expect("no sender is local") else {
                    panic!("the hops of the figures are IPv4")
                };
                let shown: Vec<String> = reservation
                    .descriptors
                    .iter()
                    .map(|one| {
                        let flowspec = one.flowspec.expect("a Resv has flowspecs");
                        descriptor(reservation.style, &flowspec, &one.filters)
                    })
                    .collect();
                let interface = ["a", "b"][usize::from(hop.octets()[2])];
                format!("{interface} {}({})", reservation.style, shown.join(", "))
            })
            .collect();
        lines.sort();
        lines.join("; ")
    }
}

/// The cause of an error message.
fn cause(bytes: &[u8]) -> Option<Cause> {
    match Message::parse(bytes).expect("the router sends messages").body {
        Body::PathErr(error) => Some(error.error.cause),
        Body::ResvErr(error) => Some(error.error.cause),
        _ => None,
    }
}

fn descriptor(style: Style, flowspec: &Flowspec, filters: &[Filter]) -> String {
    let units = flowspec.tspec().rate / B;
    let units = if units == 1.0 { "B".to_owned() } else { format!("{units}B") };
    let number = |filter: &Filter| match filter.source {
        IpAddr::V4(source) => format!("S{}", source.octets()[3]),
        IpAddr::V6(source) => panic!("{source} is no sender of the figures"),
    };
    let names: Vec<String> = filters.iter().map(number).collect();
    let names = match (style, names.len()) {
        (Style::Wildcard, _) => "*".to_owned(),
        (Style::Fixed, _) | (_, 1) => names.join(","),
        _ => format!("({})", names.join(",")),
    };
    format!("{names}{{{units}}}")
}

type Flows<'a> = &'a [(f32, &'a [u8])];

/// A figure: who reserves what, then what the router reserves, and what it sends.
struct Figure {
    number: u8,
    style: Style,
    receivers: [Flows<'static>; 3],
    reserved: &'static str,
    sent: &'static str,
}

const FIGURES: [Figure; 4] = [
    Figure {
        number: 5,
        style: Style::Wildcard,
        receivers: [&[(4.0, &[])], &[(3.0, &[])], &[(2.0, &[])]],
        reserved: "c *{4B}; d *{3B}",
        sent: "a WF(*{4B}); b WF(*{4B})",
    },
    Figure {
        number: 6,
        style: Style::Fixed,
        receivers: [&[(4.0, &[1]), (5.0, &[2])], &[(3.0, &[1]), (1.0, &[3])], &[(1.0, &[1])]],
        reserved: "c S1{4B}; c S2{5B}; d S1{3B}; d S3{B}",
        sent: "a FF(S1{4B}); b FF(S2{5B}, S3{B})",
    },
    Figure {
        number: 7,
        style: Style::Shared,
        receivers: [&[(1.0, &[1, 2])], &[(3.0, &[1, 3])], &[(2.0, &[2])]],
        reserved: "c (S1,S2){B}; d (S1,S2,S3){3B}",
        sent: "a SE(S1{3B}); b SE((S2,S3){3B})",
    },
    Figure {
        number: 8,
        style: Style::Wildcard,
        receivers: [&[(4.0, &[])], &[(3.0, &[])], &[(2.0, &[])]],
        reserved: "c *{4B}; d *{3B}",
        sent: "a WF(*{4B}); b WF(*{3B})",
    },
];

#[test]
fn reservations_merge_as_in_the_figures() {
    // In every order of the receivers.
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for figure in &FIGURES {
        for order in orders {
            let mut router = Router::new(figure.number == 8);
            for at in order {
                router.resv(at as u8 + 1, figure.style, figure.receivers[at]);
            }
            let number = figure.number;
            assert_eq!(router.reserved(), figure.reserved, "Figure {number}, order {order:?}");
            assert_eq!(router.sent(), figure.sent, "Figure {number}, order {order:?}");
        }
    }
}

#[test]
fn a_receiver_that_asks_for_less_leaves_the_largest_of_the_others() {
    let mut router = Router::new(false);
    let figure = &FIGURES[0];
    for (at, flows) in figure.receivers.iter().enumerate() {
        router.resv(at as u8 + 1, figure.style, flows);
    }
    router.resv(1, Style::Wildcard, &[(1.0, &[])]);
    assert_eq!(router.reserved(), "c *{B}; d *{3B}");
    assert_eq!(router.sent(), "a WF(*{3B}); b WF(*{3B})");
}

#[test]
fn another_style_is_refused_and_changes_nothing() {
    let mut router = Router::new(false);
    router.resv(1, Style::Wildcard, &[(4.0, &[])]);
    router.resv(2, Style::Shared, &[(9.0, &[1])]);
    assert_eq!(router.reserved(), "c *{4B}");
    assert_eq!(router.node.counts().refused, 1);
    // The only receiver may change its own.
    router.resv(1, Style::Fixed, &[(2.0, &[1])]);
    assert_eq!(router.reserved(), "c S1{2B}");
    assert_eq!(router.sent(), "a FF(S1{2B})");
}

/// The largest packet never conforms to a bucket that is smaller [rfc2212]. [rfc2205 Appendix B]
/// has errors of traffic control for unreasonable requests: 21/4 for a Tspec, 21/3 for a flowspec.
#[test]
fn a_bucket_that_holds_no_largest_packet_is_refused() {
    for (bucket, is_sound) in [(1499.0, false), (1500.0, true), (0.0, false)] {
        let odd = Tspec { bucket, ..tspec(2.0) };
        let mut router = Router::new(false);
        router.path_of(4, 0, odd);
        let wanted = if is_sound { vec![] } else { vec![Cause::BAD_TSPEC] };
        assert_eq!(router.errors, wanted, "a Path, bucket {bucket}");
        let mut router = Router::new(false);
        let flowspec = Some(Flowspec::ControlledLoad(odd));
        router.resv_of(1, Style::Fixed, vec![Descriptor { flowspec, filters: vec![sender(1)] }]);
        let wanted = if is_sound { vec![] } else { vec![Cause::BAD_FLOWSPEC] };
        assert_eq!(router.errors, wanted, "a Resv, bucket {bucket}");
        assert_eq!(router.installed.len(), usize::from(is_sound), "bucket {bucket}");
    }
    assert_eq!((Cause::BAD_TSPEC, Cause::BAD_FLOWSPEC), (Cause::new(21, 4), Cause::new(21, 3)));
}
