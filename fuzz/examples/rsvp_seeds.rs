//! Writes the seeds of target `rsvp`: a message of each type, and what neighbours say to each other
//! while reservations come, merge, fail and go.
//!
//! `cargo run -p weir-fuzz --example rsvp_seeds`

#[path = "../../weir-rsvp/tests/it/common/messages.rs"]
mod messages;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path as FilePath;

use messages::Draw;
use weir_rsvp::intserv::{Adspec, Flowspec, Tspec};
use weir_rsvp::wire::{
    Body, Cause, Descriptor, ErrorSpec, Filter, Hop, Identified, KINDS, Message, MessageId, Path,
    PathTear, Reservation, Resv, ResvError, ResvTear, SenderDescriptor, Session, Style,
};

fn main() -> io::Result<()> {
    let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("corpus/rsvp");
    fs::create_dir_all(&folder)?;
    for (number, (kind, name)) in KINDS.iter().enumerate() {
        for v4 in [true, false] {
            let message = Draw::new(number as u64).message(*kind, v4);
            let name = name.to_lowercase().replace(' ', "-");
            let name = format!("{name}-{}.seed", if v4 { 4 } else { 6 });
            fs::write(folder.join(name), input(&[(0, message)]))?;
        }
    }
    for (name, talk) in talks() {
        fs::write(folder.join(name).with_extension("seed"), input(&talk))?;
    }
    Ok(())
}

/// Each message behind when and where it arrives, and its length, as the target reads it.
fn input(talk: &[(u8, Message)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (when, message) in talk {
        let message = message.build();
        bytes.push(*when);
        bytes.extend((message.len() as u16).to_be_bytes());
        bytes.extend(message);
    }
    bytes
}

type Talk = Vec<(u8, Message)>;

fn talks() -> Vec<(&'static str, Talk)> {
    let large = |style| resv(style, 2, 9000.0);
    let small = |style| resv(style, 1, 1000.0);
    let mut talks = Vec::new();
    for (name, style) in
        [("wildcard", Style::Wildcard), ("fixed", Style::Fixed), ("shared", Style::Shared)]
    {
        talks.push((
            name,
            vec![
                (0, path(1)),
                (0, path(2)),
                (1, small(style)),
                (2, large(style)),
                (3, error(style, 9000.0)),
                (90, path(1)),
                (91, small(style)),
                (2, tear(style)),
                (0, path_tear(2)),
                (255, path(1)),
            ],
        ));
    }
    talks.push((
        "identified",
        vec![
            (0, path(1)),
            (2, identified(large(Style::Fixed), 5)),
            (2, identified(large(Style::Fixed), 4)),
            (92, Message::new(1, Body::Srefresh(vec![id(5), id(6)]))),
            (
                2,
                Message {
                    receipts: vec![weir_rsvp::wire::Receipt { id: id(1), known: false }],
                    ..ack()
                },
            ),
        ],
    ));
    talks.push((
        "conflict",
        vec![
            (0, path(1)),
            (1, small(Style::Fixed)),
            (2, large(Style::Wildcard)),
            (1, small(Style::Shared)),
        ],
    ));
    talks.push(("fault-scope", vec![(0, path(1)), (1, scoped())]));
    talks
}

/// A SCOPE of each family, which once could not be built again.
fn scoped() -> Message {
    let mut message = resv(Style::Wildcard, 1, 1000.0);
    if let Body::Resv(resv) = &mut message.body {
        let v6 = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]);
        resv.scope = vec![sender(1).source, v6];
    }
    message
}

fn ack() -> Message {
    Message::new(1, Body::Ack)
}

fn id(number: u32) -> MessageId {
    MessageId { epoch: 1, number }
}

fn identified(message: Message, number: u32) -> Message {
    Message { id: Some(Identified { id: id(number), acknowledge: true }), ..message }
}

fn session() -> Session {
    Session::udp(IpAddr::from([224, 1, 1, 1]), 5000)
}

fn sender(number: u8) -> Filter {
    Filter::new(IpAddr::from([10, 8, 0, number]), 4000)
}

fn hop(interface: u8) -> Hop {
    Hop { address: IpAddr::from([10, 0, interface, 1]), handle: interface.into() }
}

fn tspec(rate: f32) -> Tspec {
    Tspec { rate, bucket: 9000.0, peak: f32::INFINITY, packet_min: 64, packet_max: 1500 }
}

fn descriptor(number: u8) -> SenderDescriptor {
    let adspec = Some(Adspec::at_sender(1e9, 9000));
    SenderDescriptor { template: sender(number), tspec: Some(tspec(5000.0)), adspec }
}

fn path(number: u8) -> Message {
    let (session, hop, sender) = (session(), hop(0), descriptor(number));
    let policies = vec![vec![1, 2, 3, 4]];
    let path = Path { session, police: true, hop, period: 30_000, policies, sender };
    Message::new(9, Body::Path(path))
}

fn reservation(style: Style, rate: f32) -> Reservation {
    let filters = match style {
        Style::Wildcard => Vec::new(),
        Style::Fixed => vec![sender(1)],
        Style::Shared => vec![sender(1), sender(2)],
    };
    let flowspec = Some(Flowspec::ControlledLoad(tspec(rate)));
    Reservation { style, descriptors: vec![Descriptor { flowspec, filters }] }
}

fn resv(style: Style, interface: u8, rate: f32) -> Message {
    let resv = Resv {
        session: session(),
        hop: hop(interface),
        period: 30_000,
        confirm: Some(IpAddr::from([10, 7, 0, 1])),
        scope: Vec::new(),
        policies: Vec::new(),
        reservation: reservation(style, rate),
    };
    Message::new(9, Body::Resv(resv))
}

fn error(style: Style, rate: f32) -> Message {
    let node = IpAddr::from([10, 6, 0, 1]);
    let cause = Cause::BANDWIDTH;
    let error = ResvError {
        session: session(),
        hop: hop(0),
        error: ErrorSpec { node, in_place: false, not_guilty: false, cause },
        scope: Vec::new(),
        policies: Vec::new(),
        reservation: reservation(style, rate),
    };
    Message::new(9, Body::ResvErr(error))
}

fn tear(style: Style) -> Message {
    let (session, hop, scope) = (session(), hop(2), Vec::new());
    let reservation = reservation(style, 9000.0);
    Message::new(9, Body::ResvTear(ResvTear { session, hop, scope, reservation }))
}

fn path_tear(number: u8) -> Message {
    let tear = PathTear { session: session(), hop: hop(0), sender: Some(descriptor(number)) };
    Message::new(9, Body::PathTear(tear))
}
