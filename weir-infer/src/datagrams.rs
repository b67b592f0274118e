//! Flows of packets whose numbers are not read: UDP, and all that is no flow of TCP.
//!
//! Each packet is kept as a time and a length. From these follows whether the flow is constant, and
//! for QUIC what both ends exchanged. Invariant: what is not modelled can be sent again as it was.

use crate::tcp::Exchange;
use serde::Serialize;
use weir_core::units::{Duration, Instant};

/// The packets of a flow in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    /// Each with its direction and the length of its frame.
    pub rows: Vec<Row>,
    /// The first bytes of the first payload of each direction.
    pub first: [Option<[u8; 8]>; 2],
}

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// When it was sent.
    pub at: Instant,
    /// The length of its frame, and in the highest bit its direction.
    word: u32,
}

impl Row {
    /// A packet of the end at `side`.
    pub fn new(at: Instant, length: u32, side: usize) -> Self {
        Self { at, word: length.min(SIDE - 1) | if side == 1 { SIDE } else { 0 } }
    }

    /// Returns the length of its frame.
    pub fn length(&self) -> u32 {
        self.word & (SIDE - 1)
    }

    /// Returns which end sent it.
    pub fn side(&self) -> usize {
        usize::from(self.word & SIDE != 0)
    }
}

/// Packets of equal lengths at equal intervals.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Steady {
    /// The mean interval.
    #[serde(rename = "interval_s", serialize_with = "crate::shown::seconds")]
    pub interval: Duration,
    /// The mean length of frames.
    pub length: u32,
    /// By how much intervals differ from the mean, on average, as a part of it.
    pub jitter: f64,
    /// How many there are.
    pub packets: u64,
}

/// The exchanges of a connection of QUIC, by lengths and times.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Quic {
    /// The requests and responses in turn.
    pub exchanges: Vec<Exchange>,
    /// The least time from the point to each end and back.
    #[serde(rename = "parts_s", serialize_with = "crate::shown::pair_of_seconds")]
    pub parts: [Option<Duration>; 2],
    /// The end that opened it.
    pub client: usize,
}

/// The application of open-loop datagrams, as far as ports and bytes tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpenLoop {
    /// Names and addresses.
    Dns,
    /// Sound or pictures in RTP.
    Call,
    /// Small packets both ways, many a second.
    Game,
    /// Anything else.
    Other,
}

impl Packets {
    /// Returns whether the first bytes are those of a connection of QUIC.
    pub fn is_quic(&self) -> bool {
        let is_long = |start: &[u8; 8]| {
            let version = u32::from_be_bytes([start[1], start[2], start[3], start[4]]);
            // [rfc9000 §17.2] Version 1, version 2, drafts, and what preceded them.
            let is_known = matches!(version, 1 | 0x6b33_43cf)
                || version >> 8 == 0x00ff_0000
                || version >> 24 == u32::from(b'Q');
            start[0] & 0xc0 == 0xc0 && is_known
        };
        self.first.iter().flatten().any(is_long)
    }

    /// Returns what the flow is for.
    pub fn open_loop(&self, ports: [u16; 2]) -> OpenLoop {
        if ports.iter().any(|port| matches!(port, 53 | 5353)) {
            return OpenLoop::Dns;
        }
        let is_rtp = |start: &[u8; 8]| start[0] >> 6 == 2 && !(200..=207).contains(&start[1]);
        let streams = self.first.iter().flatten();
        if self.rows.len() >= RTP_MIN && streams.clone().count() > 0 && streams.clone().all(is_rtp)
        {
            return OpenLoop::Call;
        }
        let span = self.span().as_nanos().max(1) as f64 / 1e9;
        let rate = self.rows.len() as f64 / span;
        let bytes: u64 = self.rows.iter().map(|row| u64::from(row.length())).sum();
        let is_small = bytes / (self.rows.len() as u64).max(1) < GAME_LENGTH;
        match is_small && self.first.iter().all(Option::is_some) && (5.0..300.0).contains(&rate) {
            true => OpenLoop::Game,
            false => OpenLoop::Other,
        }
    }

    /// Returns the packets of one direction as a constant flow, if they are one.
    pub fn steady(&self, side: usize) -> Option<Steady> {
        let rows: Vec<Row> = self.rows.iter().filter(|row| row.side() == side).copied().collect();
        if rows.len() < STEADY_MIN {
            return None;
        }
        let count = rows.len() as f64;
        let span = rows[rows.len() - 1].at.since(rows[0].at).as_nanos() as f64;
        let interval = span / (count - 1.0);
        let length = rows.iter().map(|row| f64::from(row.length())).sum::<f64>() / count;
        let off = rows.iter().map(|row| (f64::from(row.length()) - length).abs()).sum::<f64>();
        let gaps = rows.windows(2).map(|pair| pair[1].at.since(pair[0].at).as_nanos() as f64);
        let jitter = gaps.map(|gap| (gap - interval).abs()).sum::<f64>() / (count - 1.0) / interval;
        let is_steady = interval >= 1.0 && jitter < STEADY_JITTER && off / count < length / 20.0;
        is_steady.then_some(Steady {
            interval: Duration::from_nanos(interval as u64),
            length: (length + 0.5) as u32,
            jitter,
            packets: rows.len() as u64,
        })
    }

    fn span(&self) -> Duration {
        match self.rows[..] {
            [first, .., last] => last.at.since(first.at),
            _ => Duration::ZERO,
        }
    }

    /// Returns what a connection of QUIC exchanged: bursts of packets that hold data, in turn.
    pub fn quic(&self) -> Quic {
        let client = self.rows.first().map_or(0, Row::side);
        let parts = self.handshake(client);
        let [near, far] = parts.map(Option::unwrap_or_default);
        let mut found = vec![Exchange::default()];
        let mut last = [None::<Instant>; 2];
        let mut turns = 1;
        for row in self.rows.iter().filter(|row| row.length() > QUIC_ACK) {
            let bytes = u64::from(row.length() - QUIC_OVERHEAD);
            let now = found.last_mut().expect("there is a first exchange");
            let since = |past: Option<Instant>| past.map(|past| row.at.since(past));
            if row.side() != client {
                if now.down == 0 && now.up > 0 {
                    now.wait = since(last[0]).map_or(Duration::ZERO, |gap| minus(gap, far));
                }
                now.down += bytes;
                last[1] = Some(row.at);
                continue;
            }
            // A request comes after a response, and not within one.
            let gap = since(last[1]).filter(|_| now.down > 0);
            match gap {
                Some(gap) if gap >= near.plus(QUIC_TURN_MIN) && turns < EXCHANGES_MAX => {
                    turns += 1;
                    let after = minus(gap, near);
                    found.push(Exchange { after, up: bytes, ..Exchange::default() });
                }
                _ => now.up += bytes,
            }
            last[0] = Some(row.at);
        }
        found.retain(|one| one.up + one.down > 0);
        Quic { exchanges: found, parts, client }
    }

    /// Returns the turnarounds of client and server by the first packets of the handshake.
    fn handshake(&self, client: usize) -> [Option<Duration>; 2] {
        let asked = self.rows.first().map(|row| row.at);
        let answer = self.rows.iter().find(|row| row.side() != client).map(|row| row.at);
        let after = |at: Instant| {
            let own = |row: &&Row| row.side() == client && row.at > at;
            self.rows.iter().find(own).map(|row| row.at.since(at))
        };
        let server = asked.zip(answer).map(|(asked, answer)| answer.since(asked));
        [answer.and_then(after), server]
    }
}

fn minus(gap: Duration, least: Duration) -> Duration {
    Duration::from_nanos(gap.as_nanos().saturating_sub(least.as_nanos()))
}

/// The bit of a row that is its direction.
const SIDE: u32 = 1 << 31;
/// Packets from which a flow can be constant.
const STEADY_MIN: usize = 20;
/// The mean distance of intervals from their mean, as a part of that, below which they are equal.
const STEADY_JITTER: f64 = 0.25;
/// Packets from which first bytes tell RTP.
const RTP_MIN: usize = 10;
/// The mean length of frames of games, at most.
const GAME_LENGTH: u64 = 350;
/// The longest frame of QUIC that holds acknowledgements alone: 14 + 20 + 8 and some 50 bytes.
const QUIC_ACK: u32 = 100;
/// Headers of Ethernet, IPv4, UDP and QUIC, and the tag.
const QUIC_OVERHEAD: u32 = 14 + 20 + 8 + 13 + 16;
/// A client that waits so long has read a response.
const QUIC_TURN_MIN: Duration = Duration::from_millis(5);
/// Bound: exchanges of one connection; what follows is one.
const EXCHANGES_MAX: usize = 1 << 14;
