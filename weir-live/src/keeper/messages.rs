//! What keeper and forwarder tell each other, each a value on the channel of commands.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::change::history::{Entry, History, Origin, TEXTS_MAX, Texts};
use crate::claim::ClaimPart;
use crate::events::Event;
use crate::status::Status;

/// The version of these messages: after an update the program on the disk may speak another one.
pub const PROTOCOL: u32 = 2;

/// What the keeper tells the forwarder.
#[derive(Debug, Serialize, Deserialize)]
pub enum Command {
    /// The first message: what to run. Its descriptor is the listener of the control socket.
    Plan(Box<Plan>),
    /// The claim of an interface, to hold with its descriptors, so that it outlives a keeper that
    /// dies.
    Hold {
        /// It is the first, and replaces all that were held before.
        is_first: bool,
        /// The claim.
        part: ClaimPart,
    },
    /// Two further channels, for a keeper that comes after this one. Descriptors: both ends for
    /// that keeper, authority first; both own ends; and the one by which a keeper watches the
    /// forwarder.
    Spare {
        /// The process of the keeper.
        keeper: u32,
    },
    /// Opens the intake of every port, or closes it; the reply is [`Report::Intake`].
    Intake(bool),
    /// The measurement of delays begins anew.
    Mark,
    /// Closes the intake, sends what waits for up to this time, and ends.
    Drain(Duration),
    /// What became of [`Report::Restart`].
    Restarted(std::result::Result<String, String>),
    /// What the files contain now: the reply to [`Report::ReadAnew`], or unasked after a SIGHUP.
    Texts(std::result::Result<Texts, String>),
}

/// What a forwarder runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What the keeper read: ports, and rings at them, are as this says.
    pub texts: Texts,
    /// The process of the keeper.
    pub keeper: u32,
    /// The user who started it: this one and root may change the link and take it over.
    pub owner: u32,
    /// What was changed since; the last entry is in force.
    pub history: History,
}

impl Plan {
    /// Notes in the history that what the files contain is in force from `at_ns` on.
    pub fn note_start(&mut self, at_ns: u64, user: Option<u32>) {
        // Longer ones are here once, and that is enough.
        let texts = (self.texts.bytes() <= TEXTS_MAX).then(|| self.texts.clone());
        let what = "the files were read".to_owned();
        let origin = Origin::Start;
        let start = Entry { at_ns, user, origin, what, texts, ..Entry::default() };
        self.history.push(start);
    }
}

/// What the forwarder tells the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// Its ports are open, with a closed intake.
    Ready {
        /// What the operator should see to at them.
        warnings: Vec<String>,
        /// What is worth knowing of them.
        notes: Vec<String>,
    },
    /// Every port's intake is open now, or closed.
    Intake(bool),
    /// Its loops run.
    Beat,
    /// Something happened.
    Event(Box<Event>),
    /// A client asks to restart the link from its file.
    Restart,
    /// A client asks what the files contain now.
    ReadAnew,
    /// The policy changed: a new entry of the history, which is in force.
    Changed(Box<Entry>),
    /// The last change was confirmed.
    Confirmed,
    /// It ends, for this reason.
    Failed(String),
    /// To a keeper that took over: the claim of an interface, with its descriptors.
    Held(ClaimPart),
    /// To a keeper that took over: the policies that the link had.
    History(Box<History>),
    /// To a keeper that took over, after all that: the process. Descriptors: one by which to
    /// watch it, and the listener of the control socket.
    Kept(u32),
    /// It has sent or flushed what it held and ends; its last status.
    Ended(Box<Status>),
}
