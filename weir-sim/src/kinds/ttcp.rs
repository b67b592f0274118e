//! `ttcp`: a number of buffers of one size, over TCP or in datagrams, as the tool sends them.
//!
//! Over TCP all buffers are one transfer on one connection. In datagrams each buffer is a datagram,
//! sent as fast as the sending host's interface takes frames; one that is longer than the MTU is
//! sent in fragments `[rfc791 §3.2]`. The tool's own defaults are 2048 buffers of 8192 bytes.
//! Invariant: the fragments of a datagram hold its bytes once, and all but the last hold a multiple
//! of eight.

use super::{
    Context, Datagram, Kind, Pace, Part, Player, Script, Step, Turn, Turns, UDP_HEADER, Work,
    ip_header, transport,
};
use crate::random::Random;
use crate::read::keys::{COUNT, SourceKind, TCP};
use crate::read::source::{amount_or, mtu, read_or};
use crate::scenario::{Mtu, Traffic};
use std::sync::Arc;
use weir_core::packet::{Headers, Protocol};
use weir_core::units::{Bytes, Rate};
use weir_policy::keys::{Key, RATE, SIZE, Values, key};

/// Datagrams of one length, one after another on the sender's interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagrams {
    /// The word in scenarios and reports.
    pub keyword: &'static str,
    /// How many; without it, without end.
    pub count: Option<u64>,
    /// The frames of one datagram.
    pub frames: Vec<u32>,
    /// The bytes of a datagram after its UDP header.
    pub payload: u32,
    /// The rate of the sender's interface.
    pub rate: Rate,
}

/// One transfer over TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Once(pub Bytes);

impl Script for Datagrams {
    fn keyword(&self) -> &'static str {
        self.keyword
    }

    fn start(&self) -> Box<dyn Player> {
        let pace = Pace::new(self.rate);
        Box::new(Running { plan: self.clone(), pace, sent: 0, frame: 0, last: 0 })
    }

    fn datagram(&self) -> Option<Datagram> {
        Some(Datagram { frames: self.frames.len() as u32, payload: self.payload })
    }
}

#[derive(Debug)]
struct Running {
    plan: Datagrams,
    pace: Pace,
    /// Datagrams that were sent.
    sent: u64,
    /// The next frame of the datagram.
    frame: usize,
    /// The frame that was sent last.
    last: u32,
}

impl Player for Running {
    fn next(&mut self, _: &mut Random) -> Option<Step> {
        if self.plan.count == Some(self.sent) {
            return None;
        }
        let length = self.plan.frames[self.frame];
        let after = self.pace.time(self.last);
        let step = Step { after, length, datagram: self.sent as u32 };
        self.last = length;
        self.frame += 1;
        if self.frame == self.plan.frames.len() {
            (self.frame, self.sent) = (0, self.sent + 1);
        }
        Some(step)
    }
}

impl Work for Once {
    fn keyword(&self) -> &'static str {
        KEYWORD
    }

    fn start(&self) -> Box<dyn Turns> {
        Box::new(Some(self.0))
    }
}

impl Turns for Option<Bytes> {
    fn next(&mut self, _: &mut Random) -> Option<Turn> {
        self.take().map(|bytes| Turn { bytes: Some(bytes), pause: None })
    }
}

/// The frames of a datagram of `length` after its IP header.
pub(super) fn frames(length: u32, mtu: Mtu, headers: &Headers, link_header: u32) -> Vec<u32> {
    let (ip, mtu) = (ip_header(headers), u32::from(mtu.get()));
    if length + ip <= mtu {
        return vec![length + ip + link_header];
    }
    // IPv6 has a header of its own in each fragment `[rfc8200 §4.5]`.
    let ip = if ip == IPV6_HEADER { ip + FRAGMENT_HEADER } else { ip };
    let part = (mtu - ip) / FRAGMENT_UNIT * FRAGMENT_UNIT;
    let parts = length.div_ceil(part);
    let frame = |index| {
        let payload = if index + 1 == parts { length - index * part } else { part };
        payload + ip + link_header
    };
    (0..parts).map(frame).collect()
}

fn read(context: &mut Context<'_, '_>) -> Option<Vec<Part>> {
    let Context { table, headers, report, mtu, .. } = context;
    let buffers = table.written::<u64>("buffers", report);
    // `transport` was read before, and its faults are reported already.
    if headers.protocol != Some(Protocol::TCP) {
        let plan = datagrams(context, KEYWORD, LENGTH);
        let plan = Datagrams { count: Some(buffers?.unwrap_or(BUFFERS_DEFAULT)), ..plan? };
        return Some(Part::only(Traffic::Scripted(Arc::new(plan))));
    }
    let length = amount_or(table.field("length"), LENGTH, u64::MAX, report);
    let tcp = crate::read::tcp::connection(table, *mtu, report);
    let buffers = buffers?.unwrap_or(BUFFERS_DEFAULT);
    let bytes = Bytes::new(buffers.saturating_mul(length?));
    Some(Part::only(Traffic::Transfers(tcp?, Arc::new(Once(bytes)))))
}

/// `length`, `mtu` and `rate`: datagrams without end.
pub(super) fn datagrams(
    context: &mut Context<'_, '_>,
    keyword: &'static str,
    length: u64,
) -> Option<Datagrams> {
    let Context { table, headers, report, mtu: first, .. } = context;
    let length = amount_or(table.field("length"), length, DATAGRAM_MAX, report);
    let mtu = read_or(table.field("mtu"), first.unwrap_or(Mtu::ETHERNET), report, mtu);
    let rate = table.value("rate", report);
    let payload = length? as u32;
    let link_header = crate::scenario::link_header(headers);
    let frames = frames(payload + UDP_HEADER, mtu?, headers, link_header);
    Some(Datagrams { keyword, count: None, frames, payload, rate: rate? })
}

pub(super) const KIND: Kind = Kind { source: SOURCE, carrier: transport, read };
const SOURCE: SourceKind = SourceKind {
    keyword: KEYWORD,
    summary: "The test program: buffers of one size.",
    keys: &[TCP, BUFFERS, KEYS],
};
const KEYS: &[Key] = &[
    key("ecn", Values::Field, "0 or off", "With `tcp` as there; with `udp` the ECN field."),
    key(
        "transport",
        Values::Words(&["tcp", "udp"]),
        "tcp",
        "With `udp` it has no keys of TCP but `mtu`.",
    ),
    key("rate", RATE, "100 Mbit/s", "Of the sender's interface; only with `udp`."),
];
const KEYWORD: &str = "ttcp";
/// Of both test programs.
pub(super) const BUFFERS: &[Key] = &[
    key("buffers", COUNT, "2048 (`nttcp`: without end)", "How many buffers it sends."),
    key("length", SIZE, "8 KiB (`nttcp`: 1450 B)", "The bytes of each."),
];
const BUFFERS_DEFAULT: u64 = 2048;
const LENGTH: u64 = 8192;
/// The most that a datagram holds: an IPv4 packet less its headers `[rfc791 §3.1]`.
pub(super) const DATAGRAM_MAX: u64 = 65_507;
const FRAGMENT_UNIT: u32 = 8;
const FRAGMENT_HEADER: u32 = 8;
const IPV6_HEADER: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use weir_core::packet::{Addresses, Ports};

    /// The frames over Ethernet of a datagram with `payload` bytes.
    fn check(six: bool, payload: u32, mtu: u32, expected: &[u32]) {
        let addresses = if six {
            Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST }
        } else {
            Addresses::V4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::LOCALHOST }
        };
        let ports = Ports { source: 1, destination: 2 };
        let headers = Headers::of_flow(addresses, Protocol::UDP, ports);
        let mtu = Mtu::new(mtu).expect("rows hold MTUs");
        assert_eq!(frames(payload + UDP_HEADER, mtu, &headers, 14), expected);
    }

    #[test]
    fn datagrams_are_cut_at_multiples_of_eight() {
        check(false, 1472, 1500, &[1514]);
        check(false, 1473, 1500, &[1514, 35]);
        // The tool's default on Ethernet: five full fragments and one of 800 bytes.
        check(false, 8192, 1500, &[1514, 1514, 1514, 1514, 1514, 834]);
        check(false, 8192, 9180, &[8234]);
        check(false, 1000, 576, &[14 + 20 + 552, 14 + 20 + 456]);
        check(true, 1452, 1500, &[1514]);
        check(true, 1453, 1500, &[14 + 48 + 1448, 14 + 48 + 13]);
    }
}
