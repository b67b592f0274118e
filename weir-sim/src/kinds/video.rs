//! `video`: pictures at even distances, each as long as its kind and chance make it, in packets.
//!
//! Of each group of pictures the first is coded by itself (I) and several times as long as the
//! others (P), which hold only changes. Sizes of one kind have a lognormal or a gamma distribution
//! around their mean, as those of MPEG films do `[rose95]`. A picture is cut into
//! packets that follow each other on the sender's interface. Defaults are the streams of
//! `[nieminen]`: 25 pictures a second, 1 Mbit/s, packets of 1400 bytes. Invariant: the mean rate of
//! the pictures is the one that is written, and a picture never begins before the one before it has
//! left the interface.

use super::ttcp::access_rate;
use super::{
    Context, Kind, Pace, Part, Player, RTP_HEADER, Script, Step, UDP_HEADER, ip_header, udp,
};
use crate::random::Random;
use crate::read::source::{amount, fraction, read_or};
use crate::scenario::{Traffic, link_header};
use std::sync::Arc;
use weir_core::units::{Duration, Rate};

/// A stream of pictures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Video {
    /// Pictures a second.
    pub pictures: u64,
    /// The mean bytes of an I picture and of a P picture.
    pub means: (f64, f64),
    /// Pictures from one I picture to the next.
    pub group: u64,
    /// How sizes vary around their mean.
    pub sway: Sway,
    /// The most bytes of a picture in one packet.
    pub packet: u32,
    /// Bytes of a frame in front of these.
    pub before: u32,
    /// The rate of the sender's interface.
    pub rate: Rate,
}

/// How the sizes of pictures of one kind vary; each holds the coefficient of variation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sway {
    /// Not at all.
    Constant,
    /// As a lognormal distribution.
    Lognormal(f64),
    /// As a gamma distribution.
    Gamma(f64),
}

impl Sway {
    /// A factor with mean 1.
    fn draw(self, random: &mut Random) -> f64 {
        match self {
            Sway::Constant => 1.0,
            Sway::Lognormal(variation) => random.lognormal(variation),
            Sway::Gamma(variation) => random.gamma(variation),
        }
    }
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
    /// Pictures begun.
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
        let Video { pictures, means, group, sway, .. } = self.plan;
        let mean = if self.shown.is_multiple_of(group) { means.0 } else { means.1 };
        let size = (mean * sway.draw(random)).clamp(1.0, PICTURE_MAX);
        let (seconds, rest) = (self.shown / pictures, self.shown % pictures);
        let due = seconds.saturating_mul(SECOND).saturating_add(rest * SECOND / pictures);
        self.shown += 1;
        ((size + 0.5) as u64, due)
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
    let Context { table, headers, report, .. } = context;
    let number = |table: &mut weir_policy::reader::Table<'_>, key, usual, report: &mut _| {
        read_or(table.field(key), usual, report, |node, report| node.number(1, 1000, report))
    };
    let pictures = number(table, "pictures", PICTURES, report);
    let group = number(table, "group", GROUP, report);
    let ratio = read_or(table.field("i_ratio"), I_RATIO, report, |node, report| {
        fraction(node, (1.0, 1000.0), report)
    });
    let bitrate = Rate::new(BITRATE).expect("it is not 0");
    let bitrate =
        read_or(table.field("bitrate"), bitrate, report, |node, report| node.rate(report));
    let sway = sway(table, report);
    let packet = amount(table.field("packet"), PACKET, PACKET_MAX, report);
    let rate = access_rate(table, report);
    let (pictures, group, ratio) = (pictures?, group?, ratio?);
    let mean = bitrate?.bits_per_second() as f64 / 8.0 / pictures as f64;
    let p_mean = mean * group as f64 / (ratio + group as f64 - 1.0);
    let before = link_header(headers) + ip_header(headers) + UDP_HEADER + RTP_HEADER;
    let video = Video {
        pictures,
        means: (p_mean * ratio, p_mean),
        group,
        sway: sway?,
        packet: packet? as u32,
        before,
        rate: rate?,
    };
    Some(Part::only(Traffic::Scripted(Arc::new(video))))
}

/// `distribution` and `variation`.
fn sway(
    table: &mut weir_policy::reader::Table<'_>,
    report: &mut weir_policy::finding::Report,
) -> Option<Sway> {
    let words = ["lognormal", "gamma", "constant"];
    let word = read_or(table.field("distribution"), words[0], report, |node, report| {
        node.choice(&words, report)
    });
    let variation = read_or(table.field("variation"), VARIATION, report, |node, report| {
        fraction(node, (0.0, 5.0), report)
    });
    let (word, variation) = (word?, variation?);
    Some(match word {
        _ if variation == 0.0 => Sway::Constant,
        "lognormal" => Sway::Lognormal(variation),
        "gamma" => Sway::Gamma(variation),
        _ => Sway::Constant,
    })
}

pub(super) const KIND: Kind = Kind { keyword: KEYWORD, protocol: udp, read };
const KEYWORD: &str = "video";
const PICTURES: u64 = 25;
const BITRATE: u64 = 1_000_000;
const GROUP: u64 = 12;
/// A chosen default: in films it varies between about two and ten.
const I_RATIO: f64 = 5.0;
const VARIATION: f64 = 0.3;
const PACKET: u64 = 1400;
const PACKET_MAX: u64 = 65_000;
/// The longest picture, since a lognormal distribution is unbounded.
const PICTURE_MAX: f64 = (64 << 20) as f64;
const SECOND: u64 = 1_000_000_000;
