//! Compares what was sent with what a script expects: as a stream of bytes with flags.
//!
//! A script may expect one packet of several segments or each for itself, as segmentation offload
//! happened to cut them; both are right unless the script says `--strict_segments`. Invariant:
//! bytes are taken from the stream in the order in which they were sent, each once.
//!
//! Linux sets the push flag on each packet of several segments (`__tcp_transmit_skb`), so that flag
//! says how offload cut the data. It is compared where a packet is shorter than a segment, and a
//! full segment must not have one that is not expected.

use crate::script::{EcnMark, FlagSet, Packet, TcpOption};
use std::collections::VecDeque;

/// A packet that was sent, when, in microseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    /// When it was sent.
    pub at: i64,
    /// The packet, as the script would write it.
    pub packet: Packet,
    /// The largest segment in it.
    pub segment: u32,
    /// The packet is the first part of a longer one, whose push flag is on the last part.
    pub is_cut: bool,
}

/// Sent packets that are yet to be compared.
#[derive(Clone, Debug, Default)]
pub struct Stream(VecDeque<Sent>);

impl Stream {
    /// Adds what was just sent.
    pub fn push(&mut self, at: i64, packet: Packet, segment: u32) {
        self.0.push_back(Sent { at, packet, segment, is_cut: false });
    }

    /// Returns the oldest packet.
    pub fn first(&self) -> Option<&Sent> {
        self.0.front()
    }

    /// Returns whether as many bytes were sent in a row as `expected` has.
    pub fn covers(&self, expected: &Packet) -> bool {
        let Some(first) = self.0.front() else { return false };
        let mut length = first.packet.length;
        for pair in self.0.iter().zip(self.0.iter().skip(1)) {
            if length >= expected.length || !continues(&pair.0.packet, &pair.1.packet) {
                return true;
            }
            length += pair.1.packet.length;
        }
        length >= expected.length
    }

    /// Takes the packet that is to be compared with `expected`: a part of the oldest one, or it
    /// and those that continue it.
    pub fn take(&mut self, expected: &Packet, is_strict: bool) -> Option<Sent> {
        let mut taken = self.0.pop_front()?;
        if is_strict || expected.length == 0 {
            return Some(taken);
        }
        if taken.packet.length > expected.length {
            self.0.push_front(cut(&mut taken, expected.length));
            return Some(taken);
        }
        while taken.packet.length < expected.length {
            let Some(next) = self.0.front() else { break };
            if !continues(&taken.packet, &next.packet) {
                break;
            }
            let mut next = self.0.pop_front()?;
            let missing = expected.length - taken.packet.length;
            if next.packet.length > missing {
                self.0.push_front(cut(&mut next, missing));
            }
            join(&mut taken, &next);
        }
        Some(taken)
    }
}

/// Returns whether `next` is data that follows that of `before`, with the same acknowledgement.
fn continues(before: &Packet, next: &Packet) -> bool {
    let end = before.seq.wrapping_add(before.length);
    let is_plain = !before.flags.fin && !next.flags.syn && !next.flags.rst;
    is_plain && before.length > 0 && next.length > 0 && next.seq == end && next.ack == before.ack
}

/// Cuts a packet to `length` bytes, and returns the rest.
fn cut(sent: &mut Sent, length: u32) -> Sent {
    let mut rest = sent.clone();
    rest.packet.seq = rest.packet.seq.wrapping_add(length);
    rest.packet.length -= length;
    sent.packet.length = length;
    sent.packet.flags.fin = false;
    sent.is_cut = true;
    rest
}

fn join(to: &mut Sent, next: &Sent) {
    to.at = next.at;
    to.packet.length += next.packet.length;
    to.packet.flags.psh |= next.packet.flags.psh;
    to.packet.flags.fin |= next.packet.flags.fin;
    to.is_cut = next.is_cut;
}

/// Returns the first difference between a packet and what the script expects, as text.
pub fn difference(expected: &Packet, sent: &Sent, has_ts: bool) -> Option<String> {
    let actual = &sent.packet;
    let found = |what: &str, expected: String, actual: String| {
        (expected != actual).then(|| format!("{what}: expected {expected}, got {actual}"))
    };
    found("sequence number", expected.seq.to_string(), actual.seq.to_string())
        .or_else(|| found("length", expected.length.to_string(), actual.length.to_string()))
        .or_else(|| flags(expected.flags, actual.flags, pushes_alike(expected.flags, sent)))
        .or_else(|| found("ack", number(expected.ack), number(actual.ack)))
        .or_else(|| expected.window.and_then(|_| window(expected, actual)))
        .or_else(|| expected.ecn.and_then(|mark| codepoint(mark, actual.ecn)))
        .or_else(|| options(expected, actual, has_ts))
}

fn number(number: Option<u32>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}

fn window(expected: &Packet, actual: &Packet) -> Option<String> {
    let (expected, actual) = (expected.window?, actual.window.unwrap_or_default());
    (expected != actual).then(|| format!("window: expected {expected}, got {actual}"))
}

fn flags(expected: FlagSet, actual: FlagSet, pushes_alike: bool) -> Option<String> {
    let same = expected.syn == actual.syn
        && expected.fin == actual.fin
        && expected.rst == actual.rst
        && expected.ack == actual.ack
        && expected.ace() == actual.ace();
    (!same || !pushes_alike)
        .then(|| format!("flags: expected {}, got {}", letters(expected), letters(actual)))
}

/// Returns whether the push flag is as expected, as far as offload does not decide it.
fn pushes_alike(expected: FlagSet, sent: &Sent) -> bool {
    let is_burst = sent.is_cut || sent.packet.length > sent.segment;
    let is_full = sent.packet.length >= sent.segment && sent.packet.length > 0;
    let actual = sent.packet.flags.psh;
    expected.psh == actual || is_burst || (is_full && expected.psh)
}

/// Returns the letters of flags, as scripts write them.
pub fn letters(flags: FlagSet) -> String {
    let rows = [
        (flags.fin, 'F'),
        (flags.syn, 'S'),
        (flags.rst, 'R'),
        (flags.psh, 'P'),
        (flags.ace() & 1 != 0, 'E'),
        (flags.ace() & 2 != 0, 'W'),
        (flags.ace() & 4 != 0, 'A'),
        (flags.ack, '.'),
    ];
    rows.iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect()
}

fn codepoint(expected: EcnMark, actual: Option<EcnMark>) -> Option<String> {
    let actual = actual.unwrap_or(EcnMark::NotEct);
    let same = match expected {
        EcnMark::Ect01 => matches!(actual, EcnMark::Ect0 | EcnMark::Ect1),
        other => other == actual,
    };
    (!same).then(|| format!("ECN: expected {expected:?}, got {actual:?}"))
}

/// Compares options in any order, and not the clocks of timestamps, which are the script's own.
fn options(expected: &Packet, actual: &Packet, has_ts: bool) -> Option<String> {
    let expected = expected.options.as_ref()?;
    let plain = |options: &[TcpOption]| {
        let kept = options.iter().filter(|option| **option != TcpOption::Padding);
        let mut texts: Vec<String> = kept.map(|option| option_text(option, has_ts)).collect();
        texts.sort();
        texts.join(", ")
    };
    let expected = plain(expected);
    let actual = plain(actual.options.as_deref().unwrap_or_default());
    (expected != actual).then(|| format!("options: expected <{expected}>, got <{actual}>"))
}

fn option_text(option: &TcpOption, has_ts: bool) -> String {
    match option {
        TcpOption::Mss(size) => format!("mss {size}"),
        TcpOption::WindowScale(shift) => format!("wscale {shift}"),
        TcpOption::SackPermitted => "sackOK".to_owned(),
        TcpOption::Timestamps { echo, .. } if has_ts => format!("TS ecr {echo}"),
        TcpOption::Timestamps { .. } => "TS".to_owned(),
        TcpOption::Sack(blocks) => {
            let blocks: Vec<String> =
                blocks.iter().map(|(start, end)| format!("{start}:{end}")).collect();
            format!("sack {}", blocks.join(" "))
        }
        TcpOption::AccEcn(counters) => {
            let counters: Vec<String> =
                counters.iter().map(|(counter, bytes)| format!("{counter:?} {bytes}")).collect();
            format!("ECN {}", counters.join(" "))
        }
        TcpOption::Padding => String::new(),
        TcpOption::Other(name) => name.clone(),
    }
}

/// Returns a packet as scripts write it, for messages.
pub fn text(packet: &Packet) -> String {
    let end = packet.seq.wrapping_add(packet.length);
    let ack = packet.ack.map_or_else(String::new, |ack| format!(" ack {ack}"));
    let window = packet.window.map_or_else(String::new, |window| format!(" win {window}"));
    let options: Vec<String> = match &packet.options {
        None => vec!["...".to_owned()],
        Some(options) => options
            .iter()
            .filter(|option| **option != TcpOption::Padding)
            .map(|option| option_text(option, true))
            .collect(),
    };
    let options =
        if options.is_empty() { String::new() } else { format!(" <{}>", options.join(",")) };
    let flags = letters(packet.flags);
    format!("{flags} {}:{end}({}){ack}{window}{options}", packet.seq, packet.length)
}
