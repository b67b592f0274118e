//! Messages: what is built is parsed back, bytes that are none are refused with their fault, and
//! objects that are unknown are treated as their class number says.

use crate::common::messages;
use crate::seeds::seeds;

use std::net::IpAddr;

use messages::Draw;
use weir_core::random::Random;
use weir_rsvp::wire::{
    Body, Carried, Cause, Fault, Hop, KINDS, Message, PathTear, Session, WireError, checksum,
};

#[test]
fn a_message_is_parsed_as_it_was_built() {
    for seed in seeds(400) {
        let mut draw = Draw::new(seed);
        for (kind, name) in KINDS {
            let message = draw.message(kind, seed % 2 == 0);
            let bytes = message.build();
            let parsed = Message::parse(&bytes);
            assert_eq!(parsed.as_ref(), Ok(&message), "seed {seed}: {name}");
            assert_eq!(message.kind(), (kind, name));
            assert_eq!(message.build(), bytes);
        }
    }
}

#[test]
fn cut_or_changed_bytes_never_panic() {
    let mut random = Random::new(1, 0);
    for seed in seeds(60) {
        let mut draw = Draw::new(seed);
        for (kind, _) in KINDS {
            let bytes = draw.message(kind, seed % 2 == 0).build();
            for cut in 0..bytes.len() {
                assert!(Message::parse(&bytes[..cut]).is_err(), "seed {seed}: {cut} bytes");
            }
            let mut changed = bytes.clone();
            for _ in 0..=random.below(4) {
                changed[random.below(bytes.len() as u32) as usize] = random.bits() as u8;
            }
            // Without a checksum, so that more than the sum is looked at.
            changed[2..4].fill(0);
            if let Ok(message) = Message::parse(&changed) {
                let again = Message::parse(&message.build()).map(accepted);
                assert_eq!(again, Ok(accepted(message)), "seed {seed}");
            }
        }
    }
}

/// The message without what was refused in it, which is not written again; so also in a bundle.
fn accepted(mut message: Message) -> Message {
    message.refused = None;
    if let Body::Bundle(messages) = message.body {
        message.body = Body::Bundle(messages.into_iter().map(accepted).collect());
    }
    message
}

fn tear(objects: &[u8]) -> Vec<u8> {
    let destination = IpAddr::from([10, 0, 0, 9]);
    let hop = Hop { address: IpAddr::from([10, 0, 0, 1]), handle: 3 };
    let session = Session::udp(destination, 5000);
    let body = Body::PathTear(PathTear { session, hop, sender: None });
    let mut bytes = Message::new(7, body).build();
    bytes.extend(objects);
    let length = bytes.len() as u16;
    bytes[6..8].copy_from_slice(&length.to_be_bytes());
    let sum = checksum(&bytes);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn an_unknown_object_is_treated_as_its_class_says() {
    let rows: [(&[u8], Option<Cause>, usize); 6] = [
        // 0bbbbbbb: the message is refused.
        (&[0, 8, 77, 1, 1, 2, 3, 4], Some(Cause::unknown_class(77, 1)), 0),
        // 10bbbbbb: it is ignored.
        (&[0, 8, 150, 1, 1, 2, 3, 4], None, 0),
        // 11bbbbbb: it travels on.
        (&[0, 8, 250, 1, 1, 2, 3, 4], None, 1),
        // A known class, an unknown type.
        (&[0, 8, 13, 9, 1, 2, 3, 4], Some(Cause::unknown_type(13, 9)), 0),
        // An option vector that is no style.
        (&[0, 8, 8, 1, 0, 0, 0, 9], Some(Cause::STYLE_UNKNOWN), 0),
        // Padding.
        (&[0, 8, 0, 0, 1, 2, 3, 4], None, 0),
    ];
    for (objects, refused, carried) in rows {
        let message = Message::parse(&tear(objects)).expect("the message is well formed");
        assert_eq!(message.refused, refused, "{objects:?}");
        assert_eq!(message.carried.len(), carried, "{objects:?}");
        if carried > 0 {
            let whole = Carried { class: 250, kind: 1, bytes: vec![1, 2, 3, 4] };
            assert_eq!(message.carried[0], whole);
        }
    }
}

#[test]
fn a_fault_is_named_with_its_place() {
    let whole = tear(&[]);
    let at = |offset, fault| Err(WireError { offset, fault });
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    let computed = checksum(&changed(4, 8));
    let found = checksum(&whole);
    let rows = [
        (vec![], at(0, Fault::Short { have: 0, need: 1 })),
        (changed(0, 0x20), at(0, Fault::Version(2))),
        (changed(4, 8), at(0, Fault::Checksum { found, computed })),
        (changed(7, 99), at(0, Fault::Length { found: 99, have: 32 })),
        (tear(&[0, 7, 1, 1]), at(32, Fault::ObjectLength(7))),
        (tear(&[0, 12, 5, 1, 0, 0, 0, 1]), at(32, Fault::Short { have: 4, need: 8 })),
        (tear(&[0, 12, 5, 1, 0, 0, 0, 1, 0, 0, 0, 0]), at(32, Fault::Trailing(4))),
        (tear(&whole[8..20]), at(0, Fault::Misplaced("second object of a class that occurs once"))),
        (
            tear(&[0, 12, 10, 1, 1, 2, 3, 4, 0, 0, 0, 80]),
            at(0, Fault::Misplaced("FILTER_SPEC before STYLE")),
        ),
    ];
    for (bytes, expected) in rows {
        assert_eq!(Message::parse(&bytes), expected, "{bytes:?}");
    }
    let shown = WireError { offset: 32, fault: Fault::ObjectLength(7) }.to_string();
    let expected =
        "byte 32 of the RSVP message: an object of 7 bytes; lengths are multiples of 4 from 4 on";
    assert_eq!(shown, expected);
}
