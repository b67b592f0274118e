//! The sessions of RSVP, as readers see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sessions of an answer, unless a reader asks for more or fewer; the most of one.
pub const SESSIONS_DEFAULT: u32 = 1000;
/// Bound: sessions of an answer; a query for more is refused.
pub const SESSIONS_MAX: u32 = 100_000;

/// The reservations of all sessions, by whom, and for how long without a refresh.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reservations {
    /// All sessions, of which `shown` has the first.
    pub sessions: u64,
    /// The reservations that are admitted, each with its class.
    pub admitted: u64,
    /// The sum of the rates of their classes, in bit/s of the link.
    pub reserved: u64,
    /// The most that this sum may be, in bit/s.
    pub room: u64,
    /// Messages that arrived.
    pub received: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were no RSVP.
    pub malformed: u64,
    /// Messages whose digest or number was wrong.
    pub insecure: u64,
    /// Error messages that this hop caused.
    pub refused: u64,
    /// Sessions, in the order of their destinations.
    pub shown: Vec<SessionStatus>,
}

/// A session of RSVP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionStatus {
    /// Where the packets go.
    pub destination: String,
    /// The IP protocol of the packets.
    pub protocol: u8,
    /// Their destination port; 0 for any.
    pub port: u16,
    /// The senders that announced themselves.
    pub senders: Vec<SenderStatus>,
    /// The reservations of its next hops.
    pub reservations: Vec<ReservationStatus>,
}

/// A sender that announced itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SenderStatus {
    /// Its address and port.
    pub sender: String,
    /// The address of the previous hop.
    pub from: Option<String>,
    /// The token rate in bytes of IP packets a second.
    pub rate: f64,
    /// The bucket in bytes.
    pub bucket: f64,
    /// How long it is remembered without a refresh, in milliseconds.
    pub expires_ms: Option<u64>,
}

/// The reservation of one next hop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReservationStatus {
    /// The next hop, which asked for it.
    pub by: Option<String>,
    /// Its style: `WF`, `FF` or `SE`.
    pub style: String,
    /// The service: `controlled-load` or `guaranteed`.
    pub service: String,
    /// The token rate, or the service rate R of `guaranteed`, in bytes of IP packets a second.
    pub rate: f64,
    /// The bucket in bytes.
    pub bucket: f64,
    /// The senders that it is for; none with `WF`, which is for all.
    pub senders: Vec<String>,
    /// Whether all of it is admitted.
    pub admitted: bool,
    /// The class that it became here.
    pub class: Option<String>,
    /// How long it is remembered without a refresh, in milliseconds.
    pub expires_ms: Option<u64>,
}

impl Reservations {
    /// Has something done to each text in it.
    pub fn each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        for session in &mut self.shown {
            change(&mut session.destination);
            for sender in &mut session.senders {
                change(&mut sender.sender);
                sender.from.iter_mut().for_each(&mut *change);
            }
            for one in &mut session.reservations {
                let own = [&mut one.style, &mut one.service];
                let more = one.by.iter_mut().chain(&mut one.senders).chain(&mut one.class);
                own.into_iter().chain(more).for_each(&mut *change);
            }
        }
    }
}
