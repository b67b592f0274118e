//! `video`: pictures at even distances, in packets, or fetched by a player.
//!
//! A picture is cut into packets that follow each other on the sender's interface. Defaults are the
//! streams of `[nieminen]`: 25 pictures a second, 1 Mbit/s, packets of 1400 bytes. With `transport`
//! the receiver [fetches](super::streaming) them instead. Invariant: a picture never begins before
//! the one before it has left the interface.

use super::pictures::Pictures;
use super::{
    Carrier, Context, Kind, Pace, Part, Player, RTP_HEADER, Script, Step, UDP_HEADER, ip_header,
    pictures, streaming, transport,
};
use crate::random::Random;
use crate::read::keys::{SourceKind, TCP};
use crate::read::source::amount;
use crate::scenario::{Traffic, link_header};
use std::sync::Arc;
use weir_core::units::{Duration, Rate};
use weir_policy::keys::{Key, RATE, SIZE, TIME, Values, key};

/// A stream of pictures in packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Video {
    /// The pictures that are sent.
    pub pictures: Pictures,
    /// The most bytes of a picture in one packet.
    pub packet: u32,
    /// Bytes of a frame in front of these.
    pub before: u32,
    /// The rate of the sender's interface.
    pub rate: Rate,
}

impl Script for Video {
    fn keyword(&self) -> &'static str {
        KEYWORD
    }

    fn start(&self) -> Box<dyn Player> {
        let pace = Pace::new(self.rate);
        Box::new(Stream { plan: *self, pace, shown: 0, left: 0, now: 0, free: 0, sent: 0 })
    }
}

/// Times are nanoseconds since the start.
#[derive(Debug)]
struct Stream {
    plan: Video,
    pace: Pace,
    /// Pictures that were begun.
    shown: u64,
    /// Bytes of the present one yet to be sent.
    left: u64,
    /// When the last packet was sent, and when the interface is free again.
    now: u64,
    free: u64,
    sent: u32,
}

impl Stream {
    /// The next picture: its size, and when it is due.
    fn picture(&mut self, random: &mut Random) -> (u64, u64) {
        let size = self.plan.pictures.bytes(self.shown, random);
        let rate = self.plan.pictures.per_second;
        let (seconds, rest) = (self.shown / rate, self.shown % rate);
        let due = seconds.saturating_mul(SECOND).saturating_add(rest * SECOND / rate);
        self.shown += 1;
        (size, due)
    }
}

impl Player for Stream {
    fn next(&mut self, random: &mut Random) -> Option<Step> {
        let mut at = self.free;
        if self.left == 0 {
            let (size, due) = self.picture(random);
            self.left = size;
            at = at.max(due);
        }
        let payload = self.left.min(u64::from(self.plan.packet));
        self.left -= payload;
        let length = payload as u32 + self.plan.before;
        let after = Duration::from_nanos(at - self.now);
        self.now = at;
        self.free = at.saturating_add(self.pace.time(length).as_nanos());
        self.sent = self.sent.wrapping_add(1);
        Some(Step { after, length, datagram: self.sent })
    }
}

fn read(context: &mut Context<'_, '_>) -> Option<Vec<Part>> {
    let pictures = pictures::read(context.table, context.report);
    if context.carrier != Carrier::Datagrams {
        return streaming::read(context, pictures);
    }
    let Context { table, headers, report, .. } = context;
    let packet = amount(table, "packet", PACKET_MAX, report);
    let rate = table.value("rate", report);
    let before = link_header(headers) + ip_header(headers) + UDP_HEADER + RTP_HEADER;
    let video = Video { pictures: pictures?, packet: packet? as u32, before, rate: rate? };
    Some(Part::only(Traffic::Scripted(Arc::new(video))))
}

pub(super) const KIND: Kind = Kind { source: SOURCE, carrier: transport, read };
/// Of a player.
const FETCHED: &[Key] = &[
    key(
        "transport",
        Values::Words(&["udp", "tcp", "quic"]),
        "udp",
        "With `tcp` or `quic`, whose keys hold then, a player fetches it; without `packet`, `rate`.",
    ),
    // Chosen defaults, as players have them.
    key("segment", TIME, "4 s", "With `tcp` or `quic`: how much of the film one request fetches."),
    key("buffer", TIME, "30 s", "With `tcp` or `quic`: how much the player holds at most."),
];
const SOURCE: SourceKind = SourceKind {
    keyword: KEYWORD,
    summary: "Pictures at equal intervals, or fetched.",
    keys: &[KEYS, TCP, FETCHED],
};
const KEYS: &[Key] = &[
    key("bitrate", RATE, "1 Mbit/s", "The mean, of the pictures without headers."),
    key("pictures", Values::Number(1, 1000), "25", "Pictures a second."),
    key("group", Values::Number(1, 1000), "12", "Pictures from one first picture to the next."),
    // A chosen default: in films it varies between about two and ten.
    key(
        "i_ratio",
        Values::Fraction,
        "5",
        "How many times as long the first picture is, 1 to 1000.",
    ),
    key(
        "distribution",
        Values::Words(&["lognormal", "gamma", "constant"]),
        "lognormal",
        "Of the sizes around their mean.",
    ),
    key("variation", Values::Fraction, "0.3", "Their standard deviation to the mean, 0 to 5."),
    key("packet", SIZE, "1400 B", "The most bytes of a picture in a packet."),
    key("rate", RATE, "100 Mbit/s", "Of the sender's interface."),
];
const KEYWORD: &str = "video";
const PACKET_MAX: u64 = 65_000;
const SECOND: u64 = 1_000_000_000;
