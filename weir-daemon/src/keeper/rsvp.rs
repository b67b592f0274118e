//! The messages between the keeper and the process of reservations, each a value on a channel. That
//! process speaks RSVP with neighbours, who may be hostile: it has sockets and no privilege.

use serde::{Deserialize, Serialize};

use super::sanitise::sanitise_text;
use crate::events::write::Form;
use weir_control::gateway::Secret;
use weir_host::printable::fit;
use weir_host::rsvp::BridgePlan;
use weir_link::events::{About, Event, Kind};
use weir_link::status::reservations::Reservations;

/// A message of the keeper to the process.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToRsvp {
    /// The first message. Its descriptors: the end of the channel by which the forwarder asks for
    /// sessions, then the sockets ([`weir_host::rsvp::Descriptors::into_parts`], or those of the
    /// plan of a bridge).
    Begin(Box<RsvpPlan>),
    /// A connection to the control socket of the link, as a descriptor, or why there is none.
    Connection(Result<(), String>),
}

/// The settings of the process; the rest is in the texts of the link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RsvpPlan {
    /// The name of the deployment.
    pub name: String,
    /// The user as which it runs, where the keeper may choose one; without a name one that no other
    /// program has.
    pub user: Option<String>,
    /// The interfaces by which RSVP is spoken; the first is the one that the link shapes.
    pub interfaces: Vec<String>,
    /// The bridge that speaks RSVP, in place of a router: its ports are those interfaces.
    pub bridge: Option<BridgePlan>,
    /// The text of the file of keys.
    pub keys: Option<Secret>,
    /// The time at which it is started, in nanoseconds of CLOCK_REALTIME: numbers of messages grow
    /// from one life to the next.
    pub at_ns: u64,
}

/// A message of the process to the keeper.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromRsvp {
    /// It has its sockets, and speaks RSVP.
    Ready,
    /// It runs: a sign of life, now and then.
    Beat,
    /// It ends, for this reason.
    Failed(String),
    /// It wants a connection to the control socket, which it cannot open itself.
    Connect,
    /// Something happened to reservations.
    Happened(Happening),
}

/// Something that happened to reservations.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// The kind of the event.
    pub what: What,
    /// Which reservation, and why.
    pub detail: String,
    /// How many of this kind were not told.
    pub untold: u64,
}

/// The kind of an event of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum What {
    /// It has a class.
    Admitted,
    /// It does not fit.
    Refused,
    /// Another one took its place, or the policy has no room for it any more.
    Preempted,
    /// A neighbour wants it no more, or its packets go another way.
    Released,
    /// A neighbour did not refresh it.
    Expired,
}

impl What {
    /// Returns the kind of event.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Admitted => Kind::ReservationAdmitted,
            Self::Refused => Kind::ReservationRefused,
            Self::Preempted => Kind::ReservationPreempted,
            Self::Released => Kind::ReservationReleased,
            Self::Expired => Kind::ReservationExpired,
        }
    }
}

impl FromRsvp {
    /// Makes it fit for a keeper, which prints what it is told: the process may have been taken
    /// over.
    pub fn sanitise(mut self) -> Self {
        let text = match &mut self {
            Self::Failed(why) => why,
            Self::Happened(happening) => &mut happening.detail,
            Self::Ready | Self::Beat | Self::Connect => return self,
        };
        sanitise_text(text);
        self
    }
}

/// Reads bytes as what the process says, as its keeper and the forwarder read it, and tries what
/// they then do with it. For a fuzz target.
///
/// # Panics
/// When something that the process says would harm the reader.
pub fn exercise(bytes: &[u8]) {
    if let Ok((_, mut answer)) = serde_json::from_slice::<(u64, Reservations)>(bytes) {
        answer.each_text(&mut fit);
        answer.each_text(&mut |text| assert!(!text.contains(char::is_control), "{text}"));
        let text = serde_json::to_string(&answer).expect("an answer is JSON");
        assert!(serde_json::from_str::<Reservations>(&text).is_ok(), "a client reads it: {text}");
    }
    let Ok(said) = serde_json::from_slice::<FromRsvp>(bytes) else { return };
    let said = said.sanitise();
    let text = serde_json::to_string(&said).expect("what is said is JSON");
    let again: FromRsvp = serde_json::from_str(&text).expect("it is read as it was written");
    assert_eq!(again.sanitise(), said, "it is tame");
    match said {
        FromRsvp::Happened(Happening { what, detail, .. }) => {
            let event = Event::now(what.kind(), About { detail: &detail, ..About::default() });
            for form in [Form::Text, Form::Journal, Form::Json] {
                let line = form.line(&event);
                assert_eq!(line.matches(char::is_control).collect::<String>(), "\n", "{line}");
            }
        }
        FromRsvp::Failed(why) => assert!(!why.contains(char::is_control), "{why}"),
        FromRsvp::Ready | FromRsvp::Beat | FromRsvp::Connect => {}
    }
}

/// A question of the forwarder to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskSessions {
    /// The number of the question, which its answer has.
    pub number: u64,
    /// The most sessions to describe.
    pub limit: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::sanitise::TEXT_MAX;

    #[test]
    fn what_the_process_says_is_fit_to_print_and_bounded() {
        let bad = format!("a\u{1b}[2J\n<0>{}", "x\u{202e}".repeat(5000));
        let happening = |what| Happening { what, detail: bad.clone(), untold: u64::MAX };
        let rows = [
            FromRsvp::Ready,
            FromRsvp::Beat,
            FromRsvp::Connect,
            FromRsvp::Failed(bad.clone()),
            FromRsvp::Happened(happening(What::Admitted)),
            FromRsvp::Happened(happening(What::Expired)),
        ];
        for said in rows {
            let text = serde_json::to_string(&said).expect("what is said is JSON");
            exercise(text.as_bytes());
            let sanitised = match said.sanitise() {
                FromRsvp::Failed(text) => text,
                FromRsvp::Happened(Happening { detail, untold, .. }) => {
                    assert_eq!(untold, u64::MAX, "a number is left as it is");
                    detail
                }
                FromRsvp::Ready | FromRsvp::Beat | FromRsvp::Connect => continue,
            };
            assert_eq!(sanitised.chars().count(), TEXT_MAX);
            assert!(sanitised.starts_with("a\\u{1b}[2J"), "{sanitised:.40}");
        }
    }

    #[test]
    fn bytes_that_are_no_message_do_no_harm() {
        let rows: [&[u8]; 5] =
            [b"", b"{}", b"\"Connect", b"{\"Happened\":{\"what\":\"Lost\"}}", b"\xff"];
        for bytes in rows {
            exercise(bytes);
            assert!(serde_json::from_slice::<FromRsvp>(bytes).is_err(), "{bytes:?}");
        }
    }
}
