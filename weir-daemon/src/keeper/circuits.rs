//! The messages between the keeper, the forwarder and the process of circuits, each a value on a
//! channel. That process reads what access servers, programs and files say of subscribers: it has
//! its socket and no privilege.

use super::sanitise::sanitise_text;
use serde::{Deserialize, Serialize};
use weir_control::circuits::{Circuits, Fed};
use weir_control::gateway::Secret;

/// A message of the keeper to the process.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToCircuits {
    /// The first message. Its descriptors: the end of the channel by which the forwarder asks, then
    /// the socket of RADIUS, if there is one.
    Begin(Box<CircuitsPlan>),
    /// A connection to the control socket of the link, as a descriptor, or why there is none.
    Connection(Result<(), String>),
    /// The contents of the watched file now, or why it cannot be read.
    File(Result<String, String>),
}

/// The settings of the process; the rest is in the texts of the link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitsPlan {
    /// The user as which it runs, where the keeper may choose one; without a name one that no other
    /// program has.
    pub user: Option<String>,
    /// The secret that it shares with the clients of RADIUS.
    pub secret: Option<Secret>,
}

/// A message of the process to the keeper.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromCircuits {
    /// It is in its sandbox.
    Ready,
    /// It runs: a sign of life, now and then.
    Beat,
    /// The trouble with circuits or their source, in a line; `None` if there is none any more.
    Trouble(Option<String>),
    /// It ends, for this reason.
    Failed(String),
    /// It wants a connection to the control socket, which it cannot open itself.
    Connect,
}

impl FromCircuits {
    /// Makes it fit for a keeper, which prints what it is told: the process may have been taken
    /// over.
    pub fn sanitise(mut self) -> Self {
        if let Self::Failed(why) | Self::Trouble(Some(why)) = &mut self {
            sanitise_text(why);
        }
        self
    }
}

/// A question of the forwarder to the process; the answer has its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AskCircuits {
    /// Asks for the circuits.
    Describe {
        /// The number of the question.
        number: u64,
        /// The most circuits to describe.
        limit: Option<u32>,
    },
    /// Gives lines of a feed.
    Feed {
        /// The number of the question.
        number: u64,
        /// The lines.
        lines: String,
        /// Whether circuits that are not among them leave.
        whole: bool,
    },
}

/// An answer of the process to the forwarder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CircuitsReply {
    /// The circuits.
    Described(Box<Circuits>),
    /// The outcome of a feed, or why the process takes none.
    Fed(Result<Fed, String>),
}

/// Reads bytes as what the process says, as its keeper and the forwarder read it, and tries what
/// they then do with it. For a fuzz target.
///
/// # Panics
/// When something that the process says would harm the reader.
pub fn exercise(bytes: &[u8]) {
    if let Ok((number, reply)) = serde_json::from_slice::<(u64, CircuitsReply)>(bytes) {
        let text = serde_json::to_string(&(number, reply)).expect("an answer is JSON");
        assert!(serde_json::from_str::<(u64, CircuitsReply)>(&text).is_ok(), "it is read: {text}");
    }
    let Ok(said) = serde_json::from_slice::<FromCircuits>(bytes) else { return };
    if let FromCircuits::Failed(why) | FromCircuits::Trouble(Some(why)) = said.sanitise() {
        assert!(!why.contains(char::is_control), "{why}");
    }
}
