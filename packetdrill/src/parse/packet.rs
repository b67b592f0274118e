//! Parses packets: `[ect0] P. 1:1001(1000) ack 1 win 257 <nop,nop,sack 1:2>`.
//!
//! Invariant: what the model cannot have is kept as a reason, not refused, so that the report
//! can name it.

use super::Parsed;
use super::cursor::Cursor;
use crate::script::{Counter, EcnMark, FlagSet, Packet, TcpOption};

/// A packet that is not TCP, by the name of its protocol.
pub(super) struct Foreign(pub(super) String);

/// Parses what follows the direction.
pub(super) fn packet(cursor: &mut Cursor) -> Parsed<Result<Packet, Foreign>> {
    let mut packet = Packet::default();
    cursor.skip_blank();
    prefix(cursor, &mut packet)?;
    let first = cursor.take_while(|next| !next.is_whitespace());
    if FOREIGN.contains(&first) {
        cursor.rest_of_line();
        return Ok(Err(Foreign(first.to_owned())));
    }
    let mut word = first;
    if word.contains('>') {
        packet.ports = true;
        cursor.skip_blank();
        word = cursor.take_while(|next| !next.is_whitespace());
    }
    packet.flags = flags(word).ok_or_else(|| cursor.expected("flags before this"))?;
    numbers(cursor, &mut packet)?;
    fields(cursor, &mut packet)?;
    Ok(Ok(packet))
}

/// Parses bracketed marks such as `[ect0]`, `[tos 0x3]` and `(ttl 3)`.
fn prefix(cursor: &mut Cursor, packet: &mut Packet) -> Parsed<()> {
    loop {
        let close = match cursor.peek() {
            Some('[') => "]",
            Some('(') => ")",
            _ => return Ok(()),
        };
        let inside = cursor.up_to(close).ok_or_else(|| cursor.expected("a closing bracket"))?;
        for mark in inside[1..].split(',').map(str::trim) {
            match ecn(mark) {
                Some(mark) => packet.ecn = Some(mark),
                None if mark.starts_with("flowlabel") || mark.starts_with("ttl") => {}
                None => packet.foreign = Some(format!("`{mark}` of the IP header")),
            }
        }
        cursor.skip_blank();
    }
}

fn ecn(mark: &str) -> Option<EcnMark> {
    Some(match mark {
        "noecn" => EcnMark::NotEct,
        "ect0" => EcnMark::Ect0,
        "ect1" => EcnMark::Ect1,
        "ect01" => EcnMark::Ect01,
        "ce" => EcnMark::Ce,
        _ => return None,
    })
}

fn flags(word: &str) -> Option<FlagSet> {
    let mut flags = FlagSet::default();
    for letter in word.chars() {
        match letter {
            'S' => flags.syn = true,
            'F' => flags.fin = true,
            'R' => flags.rst = true,
            'P' => flags.psh = true,
            '.' => flags.ack = true,
            'U' => flags.urg = true,
            'E' => flags.ece = true,
            'W' => flags.cwr = true,
            'A' => flags.ae = true,
            '0'..='7' => flags.ace = letter.to_digit(8).map(|digit| digit as u8),
            '-' => {}
            _ => return None,
        }
    }
    Some(flags)
}

/// Parses the sequence numbers and the length, `1:1001(1000)`.
fn numbers(cursor: &mut Cursor, packet: &mut Packet) -> Parsed<()> {
    packet.seq = cursor.number()?;
    cursor.must(":")?;
    cursor.number()?;
    cursor.must("(")?;
    packet.length = cursor.number()?;
    cursor.must(")")
}

/// Parses acknowledgement, window, urgent pointer and options, as far as they are there.
fn fields(cursor: &mut Cursor, packet: &mut Packet) -> Parsed<()> {
    packet.options = Some(Vec::new());
    loop {
        cursor.skip_spaces();
        if cursor.take("ack ") {
            packet.ack = Some(cursor.number()?);
        } else if cursor.take("win ") {
            packet.window = Some(cursor.number()?.min(65535) as u16);
        } else if cursor.take("urg ") {
            cursor.number()?;
            packet.foreign = Some("the urgent pointer".to_owned());
        } else if cursor.take("<") {
            packet.options = options(cursor)?;
        } else {
            return Ok(());
        }
    }
}

fn options(cursor: &mut Cursor) -> Parsed<Option<Vec<TcpOption>>> {
    let text = cursor.up_to(">").ok_or_else(|| cursor.expected("`>` after options"))?;
    if text.trim() == "..." {
        return Ok(None);
    }
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let options = parts.map(|part| option(part).ok_or_else(|| cursor.expected("a TCP option")));
    options.collect::<Parsed<Vec<_>>>().map(Some)
}

fn option(text: &str) -> Option<TcpOption> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(match words.as_slice() {
        // A word in place of the number is defined by packetdrill's caller.
        ["mss", size] => match size.parse() {
            Ok(size) => TcpOption::Mss(size),
            Err(_) => TcpOption::Other(text.to_owned()),
        },
        ["wscale", shift] => TcpOption::WindowScale(shift.parse().ok()?),
        ["sackOK"] => TcpOption::SackPermitted,
        ["nop" | "eol"] => TcpOption::Padding,
        ["TS", "val", value, "ecr", echo] => {
            TcpOption::Timestamps { value: value.parse().ok()?, echo: echo.parse().ok()? }
        }
        ["sack", blocks @ ..] => {
            TcpOption::Sack(blocks.iter().map(|block| range(block)).collect::<Option<_>>()?)
        }
        ["ECN", counters @ ..] => TcpOption::AccEcn(accurate_ecn(counters)?),
        _ => TcpOption::Other(words.first().copied().unwrap_or_default().to_owned()),
    })
}

fn range(text: &str) -> Option<(u32, u32)> {
    let (start, end) = text.split_once(':')?;
    Some((start.parse().ok()?, end.parse().ok()?))
}

fn accurate_ecn(words: &[&str]) -> Option<Vec<(Counter, u32)>> {
    let counter = |pair: &[&str]| {
        let counter = match pair[0] {
            "e0b" => Counter::Ect0,
            "e1b" => Counter::Ect1,
            "ceb" => Counter::Ce,
            _ => return None,
        };
        Some((counter, pair.get(1)?.parse().ok()?))
    };
    words.chunks(2).map(counter).collect()
}

/// The first words of packets that are not TCP, or TCP inside of something else.
const FOREIGN: [&str; 5] = ["icmp", "icmpv4", "icmpv6", "udp", "encap"];
