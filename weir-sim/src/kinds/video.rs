//! `video`: pictures at even distances, in packets, or fetched by a player.
//!
//! A picture is cut into packets that follow each other on the sender's interface. Defaults are the
//! streams of `[nieminen]`: 25 pictures a second, 1 Mbit/s, packets of 1400 bytes. With `transport`
//! the receiver [fetches](super::streaming) them instead. Invariant: a picture never begins before
//! the one before it has left the interface.

use super::pictures::Pictures;
use super::ttcp::access_rate;
use super::{
    Carrier, Context, Kind, Pace, Part, Player, RTP_HEADER, Script, Step, UDP_HEADER, ip_header,
    pictures, streaming, transport,
};
use crate::random::Random;
use crate::read::source::amount;
use crate::scenario::{Traffic, link_header};
use std::sync::Arc;
use weir_core::units::{Duration, Rate};
use weir_policy::finding::Report;
use weir_policy::reader::Table;

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
    let packet = amount(table.field("packet"), PACKET, PACKET_MAX, report);
    let rate = access_rate(table, report);
    let before = link_header(headers) + ip_header(headers) + UDP_HEADER + RTP_HEADER;
    let video = Video { pictures: pictures?, packet: packet? as u32, before, rate: rate? };
    Some(Part::only(Traffic::Scripted(Arc::new(video))))
}

fn carrier(table: &mut Table<'_>, report: &mut Report) -> Option<Carrier> {
    transport(&["udp", "tcp", "quic"], table, report)
}

pub(super) const KIND: Kind = Kind { keyword: KEYWORD, carrier, read };
const KEYWORD: &str = "video";
const PACKET: u64 = 1400;
const PACKET_MAX: u64 = 65_000;
const SECOND: u64 = 1_000_000_000;
