//! `voip`: one direction of a call, with packets of sound at even distances during talk spurts.
//!
//! Codecs are those of `[rfc3551 §4.5]` and of the ITU's G.723.1, each with its usual packet. Talk
//! spurts and pauses are exponentially distributed around the means of artificial speech,
//! 1.004 s and 1.587 s `[p59]`; without pauses it is the constant stream of `[nieminen]`.
//! Invariant: packets within a talk spurt are exactly an interval apart.

use super::{Context, Kind, Part, Player, RTP_HEADER, Script, Step, UDP_HEADER, ip_header, plain};
use crate::random::Random;
use crate::read::keys::SourceKind;
use crate::read::source::{amount_or, bounded, read_or, spread};
use crate::scenario::{Period, Traffic, link_header};
use std::sync::Arc;
use weir_core::units::Duration;
use weir_policy::keys::{Key, SIZE, TIME, Values, key, words};

/// A call, with its codec and its pauses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Voip {
    /// The length of each frame.
    pub length: u32,
    /// From one packet to the next.
    pub interval: Duration,
    /// The mean lengths of a talk spurt and of a pause; without it, there are no pauses.
    pub spurts: Option<(Period, Period)>,
}

impl Script for Voip {
    fn keyword(&self) -> &'static str {
        KEYWORD
    }

    fn start(&self) -> Box<dyn Player> {
        Box::new(Call { plan: *self, talked: Duration::ZERO, spurt: None, sent: 0 })
    }
}

#[derive(Debug)]
struct Call {
    plan: Voip,
    /// How long the present talk spurt has lasted.
    talked: Duration,
    /// How long it lasts; not yet drawn at first.
    spurt: Option<Duration>,
    sent: u32,
}

impl Player for Call {
    fn next(&mut self, random: &mut Random) -> Option<Step> {
        let Voip { length, interval, spurts } = self.plan;
        let mut after = if self.sent == 0 { Duration::ZERO } else { interval };
        if let Some((talk, pause)) = spurts {
            let spurt = *self.spurt.get_or_insert_with(|| talk.draw(random));
            self.talked = self.talked.plus(after);
            if self.talked >= spurt {
                // A spurt has a packet at its beginning, so two are never closer than an interval.
                after = after.plus(pause.draw(random));
                self.talked = Duration::ZERO;
                self.spurt = Some(talk.draw(random));
            }
        }
        self.sent = self.sent.wrapping_add(1);
        Some(Step { after, length, datagram: self.sent })
    }
}

/// A codec: the bytes of sound in a packet, and how long that sounds.
#[derive(Clone, Copy)]
struct Codec {
    payload: u64,
    interval: Duration,
}

fn read(context: &mut Context<'_, '_>) -> Option<Vec<Part>> {
    let Context { table, headers, report, .. } = context;
    let codec = table.one_of("codec", &CODECS, report);
    let usual = codec.unwrap_or(CODECS[0].1);
    let payload = amount_or(table.field("payload"), usual.payload, PAYLOAD_MAX, report);
    let interval = read_or(table.field("interval"), usual.interval, report, spread);
    let talk = table.value_by("talk", report, spread);
    let pause = table.value_by("pause", report, bounded);
    let (talk, pause) = (talk?, pause?);
    let spurts =
        (pause > Duration::ZERO).then_some((Period::Exponential(talk), Period::Exponential(pause)));
    let before = link_header(headers) + ip_header(headers) + UDP_HEADER + RTP_HEADER;
    let (length, interval) = (payload? as u32 + before, interval?);
    codec?;
    Some(Part::only(Traffic::Scripted(Arc::new(Voip { length, interval, spurts }))))
}

pub(super) const KIND: Kind = Kind { source: SOURCE, carrier: plain, read };
const SOURCE: SourceKind =
    SourceKind { keyword: KEYWORD, summary: "One direction of a call.", keys: &[KEYS] };
const KEYS: &[Key] = &[
    key(
        "codec",
        Values::Words(&words::<_, { CODECS.len() }>(&CODECS)),
        "g711",
        "Sets payload and interval.",
    ),
    key("payload", SIZE, "the codec's", "Bytes of sound in a packet."),
    key("interval", TIME, "the codec's", "From one packet to the next."),
    key("talk", TIME, "1004 ms", "The mean talk spurt."),
    key("pause", TIME, "1587 ms", "The mean pause; `0 s` for sound all the time."),
];
const KEYWORD: &str = "voip";
const CODECS: [(&str, Codec); 4] = [
    // 64 kbit/s in packets of 20 ms.
    ("g711", Codec { payload: 160, interval: Duration::from_millis(20) }),
    // 8 kbit/s: two frames of 10 bytes.
    ("g729", Codec { payload: 20, interval: Duration::from_millis(20) }),
    // 6.3 kbit/s: one frame of 30 ms.
    ("g723", Codec { payload: 24, interval: Duration::from_millis(30) }),
    // 32 kbit/s.
    ("g726", Codec { payload: 80, interval: Duration::from_millis(20) }),
];
/// More than any packet of sound has.
const PAYLOAD_MAX: u64 = 9000;
