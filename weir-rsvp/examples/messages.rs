//! Prints random messages for other programs to read, and reads messages as they do.
//!
//! `messages COUNT` prints COUNT messages, each type and address family in turn: its name, the
//! digest's key if it is signed, its bytes in hexadecimal, and its objects as `class:type:length`.
//! `messages parse` reads bytes in hexadecimal from standard input, one message a line, and prints
//! what the parser makes of each: its name, or the fault.
//!
//! `bench/rsvp` compares both with tshark, tcpdump and scapy.

#[path = "../tests/it/common/messages.rs"]
mod messages;

use std::io::{self, BufRead};

use messages::Draw;
use weir_rsvp::integrity::{Guard, Hash, Key, Security};
use weir_rsvp::wire::{Body, Descriptor, Filter, KINDS, Message, Reservation, Select};

fn main() -> io::Result<()> {
    let argument = std::env::args().nth(1).unwrap_or_default();
    if argument == "parse" {
        return parse();
    }
    let Ok(count) = argument.parse::<u64>() else {
        eprintln!("messages: {argument:?} is neither a number of messages nor `parse`");
        std::process::exit(2);
    };
    let keys = [Hash::Md5, Hash::Sha1].map(|hash| {
        let key = Key { id: hash.len() as u64, hash, secret: b"weir".to_vec() };
        Guard::new(&Security { keys: vec![key], challenge: false, first_sequence: 1 << 40 })
    });
    let mut keys = keys.map(|guard| guard.expect("there is a key"));
    for number in 0..count {
        let (kind, name) = KINDS[number as usize % KINDS.len()];
        let v4 = (number / KINDS.len() as u64).is_multiple_of(2);
        let message = Draw::new(number).message(kind, v4);
        let signed = number / KINDS.len() as u64 % 6;
        let (key, bytes) = match signed {
            4 => ("md5", keys[0].sign(message.clone())),
            5 => ("sha1", keys[1].sign(message.clone())),
            _ => ("-", message.build()),
        };
        let family = if v4 { "v4" } else { "v6" };
        println!("{name}\t{family}\t{key}\t{}\t{}", hex(&bytes), facts(&message));
    }
    Ok(())
}

fn parse() -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        let digits: Vec<u32> = line.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let bytes: Vec<u8> = digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
        match Message::parse(&bytes) {
            Ok(message) => println!("{}\t{}\t{}", message.kind().1, message.ttl, facts(&message)),
            Err(error) => println!("fault\t-\t{error}"),
        }
    }
    Ok(())
}

/// Returns the contents of a message in the order of the wire: `key=value`.
fn facts(message: &Message) -> String {
    let mut facts = Vec::new();
    facts.push(format!("ttl={}", message.ttl));
    match &message.body {
        Body::Path(path) => {
            session(&mut facts, &path.session);
            facts.push(format!("hop={}/{:#010x}", path.hop.address, path.hop.handle));
            facts.push(format!("refresh={}", path.period));
            filter(&mut facts, "sender", &path.sender.template);
        }
        Body::Resv(resv) => {
            session(&mut facts, &resv.session);
            facts.push(format!("hop={}/{:#010x}", resv.hop.address, resv.hop.handle));
            facts.push(format!("refresh={}", resv.period));
            reservation(&mut facts, &resv.reservation);
        }
        Body::PathErr(error) => {
            session(&mut facts, &error.session);
            facts.push(format!("error={}/{}", error.error.cause.code, error.error.cause.value));
            let sender = error.sender.as_ref().map(|sender| sender.template);
            sender.iter().for_each(|sender| filter(&mut facts, "sender", sender));
        }
        Body::ResvErr(error) => {
            session(&mut facts, &error.session);
            facts.push(format!("hop={}/{:#010x}", error.hop.address, error.hop.handle));
            facts.push(format!("error={}/{}", error.error.cause.code, error.error.cause.value));
            reservation(&mut facts, &error.reservation);
        }
        Body::PathTear(tear) => {
            session(&mut facts, &tear.session);
            facts.push(format!("hop={}/{:#010x}", tear.hop.address, tear.hop.handle));
            let sender = tear.sender.as_ref().map(|sender| sender.template);
            sender.iter().for_each(|sender| filter(&mut facts, "sender", sender));
        }
        Body::ResvTear(tear) => {
            session(&mut facts, &tear.session);
            facts.push(format!("hop={}/{:#010x}", tear.hop.address, tear.hop.handle));
            reservation(&mut facts, &tear.reservation);
        }
        Body::ResvConf(confirmation) => {
            session(&mut facts, &confirmation.session);
            let cause = confirmation.error.cause;
            facts.push(format!("error={}/{}", cause.code, cause.value));
            facts.push(format!("confirm={}", confirmation.receiver));
            reservation(&mut facts, &confirmation.reservation);
        }
        Body::Hello(hello) => {
            facts.push(format!("hello={:#010x}/{:#010x}", hello.source, hello.destination));
        }
        _ => {}
    }
    facts.join(";")
}

fn session(facts: &mut Vec<String>, session: &weir_rsvp::Session) {
    let weir_rsvp::Session { destination, protocol, port } = session;
    facts.push(format!("session={destination}/{protocol}/{port}"));
}

fn reservation(facts: &mut Vec<String>, reservation: &Reservation) {
    facts.push(format!("style={}", reservation.style));
    for Descriptor { flowspec, filters } in &reservation.descriptors {
        if let Some(flowspec) = flowspec {
            let tspec = flowspec.tspec();
            facts.push(format!("flowspec={}/{}", tspec.packet_min, tspec.packet_max));
        }
        filters.iter().for_each(|one| filter(facts, "filter", one));
    }
}

fn filter(facts: &mut Vec<String>, key: &str, filter: &Filter) {
    let select = match filter.select {
        Select::Port(port) => port.to_string(),
        Select::FlowLabel(label) => format!("label {label}"),
    };
    facts.push(format!("{key}={}/{select}", filter.source));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
