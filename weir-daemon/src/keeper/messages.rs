//! The messages between keeper and forwarder, each a value on the channel of commands.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_control::gateway::Api;

use super::found::Found;
use super::sanitise::{NOTES_MAX, TEXT_MAX, sanitise_text};
use crate::events::write::Form;
use weir_host::claim::ClaimPart;
use weir_link::change::history::{Entry, History, Joined, Origin, TEXTS_MAX, Texts};
use weir_link::events::Event;
use weir_link::status::Status;
use weir_policy::deployment::{Deployment, Priority};

/// The version of these messages: after an update the program on the disk may speak another one.
pub const PROTOCOL: u32 = 5;

/// A message from the keeper to the forwarder.
#[derive(Debug, Serialize, Deserialize)]
pub enum Command {
    /// The first message: what to read, once privileges are given up. The reply is
    /// [`Report::Read`].
    Read(Box<Task>),
    /// The second one, if nothing was wrong: the ports may be opened. Its last descriptor is the
    /// listener of the control socket. With `on_exit = "open"` there is one before it, the map of
    /// the words that the loops hold ([`weir_host::robust`]).
    Open(Box<Opening>),
    /// The claim of an interface, to hold with its descriptors, so that it outlives a keeper that
    /// dies.
    Hold {
        /// It is the first, and replaces all that were held before.
        is_first: bool,
        /// The part of the claim at one interface.
        part: ClaimPart,
    },
    /// Another process is the keeper from now on. The descriptor is the one by which a keeper
    /// watches the forwarder, for one that comes later.
    KeptBy {
        /// The process of the keeper.
        keeper: u32,
    },
    /// Opens the intake of every port, or closes it; the reply is [`Report::Intake`].
    Intake(bool),
    /// The measurement of delays begins anew.
    Mark,
    /// Closes the intake, sends what waits for up to this time, and ends.
    Drain(Duration),
    /// The outcome of [`Report::Restart`].
    Restarted(std::result::Result<String, String>),
    /// The descriptor is the end of a channel by which to ask for the sessions of reservations.
    Reservations,
    /// The same for the process of circuits.
    Circuits,
    /// The present contents of the deployment's file: the reply to [`Report::ReadAnew`], or unasked
    /// after a SIGHUP. The forwarder asks for the files that it names.
    Texts(std::result::Result<Texts, String>),
    /// Something happened outside the forwarder, which its clients read there like its own events.
    #[serde(rename = "Told")]
    Reported(Box<Event>),
}

/// The files that a forwarder reads, and the rights and priority with which it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The deployment, and what is known already of the files that it names.
    pub texts: Texts,
    /// The process of the keeper.
    pub keeper: u32,
    /// The user who started it: this one and root may change the link and take it over.
    pub owner: u32,
    /// How the forwarder runs.
    pub standing: Standing,
    /// Whether findings are described in colour.
    pub colour: bool,
}

/// As what a forwarder runs: all that a deployment says of it that must hold before its policies
/// are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The user as which it runs, where it may choose one; without a name one that no other program
    /// has.
    pub user: Option<String>,
    /// The niceness of its threads, if the deployment says one.
    pub nice: Option<i32>,
    /// Whether its threads are real-time threads.
    pub is_realtime: bool,
}

impl Standing {
    /// Returns what a deployment says.
    pub fn of(deployment: &Deployment) -> Self {
        let Deployment { nice, service, .. } = deployment;
        Self {
            user: service.user.clone(),
            nice: *nice,
            is_realtime: service.priority == Priority::Realtime,
        }
    }
}

/// A forwarder's permission to open its ports, once it has read its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Earlier changes; the last entry is in force.
    pub history: History,
}

/// The keeper's record of what a link runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The contents of the files: ports, and rings at them, are as this says.
    pub texts: Texts,
    /// The process of the keeper.
    pub keeper: u32,
    /// The user who started it: this one and root may change the link and take it over.
    pub owner: u32,
    /// Changes since the start; the last entry is in force.
    pub history: History,
    /// The API on a TCP address, if the deployment has one: for the gateway. A forwarder is not
    /// told its tokens.
    pub api: Option<Api>,
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

/// A message from the forwarder to the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// It has read its files, with these findings; with errors among them it ends.
    Read(Box<Found>),
    /// Its ports are open, with a closed intake.
    Ready {
        /// Warnings about the ports, for the operator.
        warnings: Vec<String>,
        /// Notes on the ports that need no action.
        notes: Vec<String>,
    },
    /// Every port's intake is open now, or closed.
    Intake(bool),
    /// A sign of life: since the last one every loop has run.
    Beat,
    /// An event, for the keeper's journal.
    Event(Box<Event>),
    /// A client asks to restart the link from its file.
    Restart,
    /// A client asks what the files contain now.
    ReadAnew,
    /// The policy changed: a new entry of the history, which is in force.
    Changed(Box<Entry>),
    /// Classes joined and left: see [`History::push_joined`].
    Joined(Box<Joined>, Box<Entry>),
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
    #[serde(rename = "Kept")]
    Takeover(u32),
    /// It has sent or flushed what it held and ends; its last status.
    Ended(Box<Status>),
}

impl Report {
    /// Makes it fit for a keeper, which prints what it is told and writes it down: a forwarder may
    /// have been taken over. Texts lose what controls a terminal and are cut to [`TEXT_MAX`], lists
    /// to [`NOTES_MAX`].
    pub fn sanitise(mut self) -> Self {
        match &mut self {
            Self::Read(found) => found.sanitise(),
            Self::Ready { warnings, notes } => {
                for texts in [warnings, notes] {
                    texts.truncate(NOTES_MAX);
                    texts.iter_mut().for_each(sanitise_text);
                }
            }
            Self::Event(event) => {
                let Event { subject, class, detail, measured, .. } = event.as_mut();
                let measured = measured.iter_mut().flat_map(|it| [&mut it.value, &mut it.limit]);
                [subject, class, detail].into_iter().chain(measured).for_each(sanitise_text);
            }
            Self::Failed(why) => sanitise_text(why),
            Self::Ended(status) => status.each_text(&mut sanitise_text),
            Self::Changed(entry) | Self::Joined(_, entry) => sanitise_entry(entry),
            Self::History(history) => history.entries_mut().for_each(sanitise_entry),
            Self::Intake(_)
            | Self::Beat
            | Self::Restart
            | Self::ReadAnew
            | Self::Confirmed
            | Self::Held(_)
            | Self::Takeover(_) => {}
        }
        self
    }
}

/// Its policies are checked when they are read.
fn sanitise_entry(entry: &mut Entry) {
    [&mut entry.reason, &mut entry.what].into_iter().for_each(sanitise_text);
}

/// Reads bytes as a report, as a keeper reads it, and tries what a keeper then does with it. For a
/// fuzz target.
///
/// # Panics
/// When a report would harm its keeper.
pub fn exercise(bytes: &[u8]) {
    let Ok(report) = serde_json::from_slice::<Report>(bytes) else { return };
    let report = report.sanitise();
    let text = serde_json::to_string(&report).expect("a report is JSON");
    let again: Report = serde_json::from_str(&text).expect("it is read as it was written");
    assert_eq!(
        serde_json::to_string(&again.sanitise()).ok().as_ref(),
        Some(&text),
        "it is sanitised"
    );
    match report {
        Report::Event(event) => {
            for form in [Form::Text, Form::Journal, Form::Json] {
                let line = form.line(&event);
                assert_eq!(line.matches(char::is_control).collect::<String>(), "\n", "{line}");
                assert!(line.len() < LINE_MAX, "{} bytes", line.len());
            }
        }
        Report::Ready { warnings, notes } => {
            let texts = warnings.iter().chain(&notes);
            assert!(warnings.len().max(notes.len()) <= NOTES_MAX);
            texts.for_each(|text| assert!(!text.contains(char::is_control), "{text}"));
        }
        Report::Failed(why) => assert!(!why.contains(char::is_control), "{why}"),
        Report::Read(found) => {
            let control = |c: char| c.is_control() && c != '\n' && c != '\u{1b}';
            assert!(!found.text.contains(control), "{:.200}", found.text);
        }
        Report::Held(part) => part.exercise(),
        _ => {}
    }
}

/// No line of an event is longer: five texts of characters of up to four bytes, of which JSON
/// writes some as six, twice.
const LINE_MAX: usize = 2 * 5 * 6 * TEXT_MAX + 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_link::events::{About, Kind};
    use weir_link::status::{LaneStatus, PortStatus};

    #[test]
    fn a_report_is_fit_to_print_and_bounded() {
        let bad = format!("a\u{1b}[2J\n<0>{}", "x\u{202e}".repeat(5000));
        let about = About { subject: &bad, class: &bad, detail: &bad, measured: None };
        let port = PortStatus { interface: bad.clone(), ..PortStatus::default() };
        let lane = LaneStatus { name: bad.clone(), ..LaneStatus::default() };
        let status = Status { ports: vec![port], lanes: vec![lane], ..Status::default() };
        let rows = [
            Report::Ready { warnings: vec![bad.clone(); 2000], notes: vec![bad.clone(); 3] },
            Report::Event(Box::new(Event::at(Kind::PortDown, u64::MAX, about))),
            Report::Failed(bad.clone()),
            Report::Read(Box::new(Found {
                text: bad.clone(),
                summary: bad.clone(),
                notes: vec![bad.clone(); 3],
                ..Found::default()
            })),
            Report::Ended(Box::new(status)),
            Report::Takeover(7),
        ];
        for report in rows {
            let text = serde_json::to_string(&report).expect("a report is JSON");
            exercise(text.as_bytes());
            let sanitised = serde_json::to_string(&report.sanitise()).expect("a report is JSON");
            assert!(sanitised.len() < 5 << 20, "{} bytes", sanitised.len());
            assert!(
                !sanitised.contains("\\u001b") && !sanitised.contains('\u{202e}'),
                "{sanitised:.200}"
            );
        }
    }

    #[test]
    fn renamed_messages_keep_their_names_on_the_wire() {
        let event = Event::at(Kind::PortDown, 1, About::default());
        let name =
            |value: serde_json::Value| value.as_object().and_then(|map| map.keys().next().cloned());
        let command = serde_json::to_value(Command::Reported(Box::new(event))).expect("it is JSON");
        assert_eq!(name(command).as_deref(), Some("Told"));
        let report = serde_json::to_value(Report::Takeover(7)).expect("it is JSON");
        assert_eq!(name(report).as_deref(), Some("Kept"));
    }
}
