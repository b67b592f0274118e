//! The events that go into a supervisor, and the actions that come out of it.

use super::settings::Settings;
use std::fmt;
use std::time::{Duration, Instant};
use weir_host::signals::Asked;
use weir_link::events::Kind;

/// The number of a process: no other child has it until the end of this one was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pid(pub u32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A child without which the link goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Companion {
    /// The gateway: it serves page and API.
    Gateway,
    /// The process that speaks RSVP.
    Reservations,
    /// The process that knows the circuits.
    Circuits,
}

/// Which files a forwarder is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edition {
    /// The files in force, in the program that the keeper runs, whatever file has its name now.
    InForce,
    /// The files as they are now, in the program that is installed where that was, such as a newer
    /// one.
    Anew,
}

/// A fact for the supervisor, with the answer if it asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Answers [`Question::StartForwarder`]: the process runs.
    Started {
        /// The number of its process.
        pid: Pid,
        /// It has read its policies before, and found nothing wrong.
        has_read: bool,
    },
    /// The reply to [`Question::StartForwarder`]: it does not run, for this reason.
    NotStarted(String),
    /// A forwarder has ended, after its last words, for this reason.
    Exited(Pid, String),
    /// A forwarder said something.
    Said(Pid, Said),
    /// A forwarder said what a forwarder does not say, as this text tells.
    Garbled(Pid, String),
    /// Something happened to reservations.
    Happened(Kind, String),
    /// The reply to [`Question::OpenPorts`], with the request: the forwarder opens them, and the
    /// files that were read anew, if it is of those, are in force with these settings; or why not.
    PortsOpening(Pid, Result<Option<Settings>, String>),
    /// The reply to [`Question::LookForPorts`]: the interfaces of the deployment that do not exist.
    PortsMissing(Vec<String>),
    /// The reply to [`Question::Fallback`], with the request: it is so, or why not.
    FallbackSet(bool, Result<(), String>),
    /// Something happened to a companion.
    Companion(Companion, CompanionEvent),
    /// The keeper got a signal.
    Signal(Asked),
    /// It is time to poll what changes slowly; comes about twice a second.
    Poll,
    /// Everything that waited was told, the last event of each turn. Every forwarder was listened
    /// to after `heard`: how long the shell was busy since then is no silence of theirs.
    Tick {
        /// When the shell began to listen to forwarders in this turn.
        heard: Instant,
    },
}

/// A report of a forwarder, without what only the shell keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// It has read its policies: there are no errors in them, or these; then it ends.
    Read(Result<(), String>),
    /// Its ports are open, with a closed intake.
    Ready {
        /// Warnings about the ports, for the operator.
        warnings: Vec<String>,
        /// Notes on the ports that need no action.
        notes: Vec<String>,
    },
    /// Every port's intake is open now, or closed.
    Intake(bool),
    /// A client asks to restart the link from its files.
    Restart,
    /// It ends, for this reason.
    Failed(String),
    /// It ends, and has flushed so many frames.
    Ended(u64),
    /// Something that decides nothing, but is a sign of life.
    Other,
}

/// Something that happened to a companion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompanionEvent {
    /// The reply to [`Question::Follow`]: whether the deployment wants it now, or why that cannot
    /// be put in force.
    Followed(Result<Followed, String>),
    /// The reply to [`Question::Start`]: it runs.
    Started,
    /// The reply to [`Question::Start`]: it does not run, for this reason.
    NotStarted(String),
    /// It gave a sign of life.
    Alive,
    /// It has ended, after its last words, for this reason.
    Exited(Pid, String),
}

/// Whether a deployment that was read wants a companion, and whether it differs from before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Followed {
    /// There is to be none; if one ran, it has been ended.
    Unwanted,
    /// It is wanted as before.
    Same,
    /// It differs from before, so it has to be started anew.
    Other,
}

/// An action for the shell. The shell carries actions out in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Do this, and pass the answer to the supervisor before anything else.
    Ask(Question),
    /// End a companion, if it runs. Its end is not told.
    Stop(Companion),
    /// End a companion that hangs, for this reason. Its end is told.
    EndHung(Companion, String),
    /// Tell a forwarder something. What one that has ended misses does not matter.
    Send(Pid, Order),
    /// End a forwarder at once.
    Kill(Pid),
    /// End a forwarder at once, with a dump of its memory where the system keeps one.
    Abort(Pid),
    /// Put the deployment in force again that was in force before the files were read.
    ReturnToFormerFiles,
    /// Forget the deployment that was in force before the files were read.
    DropFormerFiles,
    /// A change of the policy that is on trial is taken back, for this reason; the journal says so.
    GiveUpTrial(&'static str),
    /// Let this forwarder ask the processes of reservations and circuits, if they run.
    Introduce(Pid),
    /// Write that something happened, and tell this forwarder's clients.
    Journal(Kind, String, Option<Pid>),
    /// Write that so many frames were flushed.
    JournalFlushed(u64),
    /// Write that a fault begins.
    Begin(Fault, String),
    /// Write that a fault is over.
    End(Fault),
    /// Print a warning on the console.
    Warn(String),
    /// Print a note on the console.
    Note(String),
    /// Print what is joined, and that this forwarder carries the traffic.
    Announce(Pid),
    /// Print where the gateway serves the page.
    AnnounceGateway,
    /// Print the last status of the link.
    PrintLast,
    /// Tell the service manager.
    Service(Progress),
}

/// An action whose outcome the supervisor needs before it goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// Start a forwarder of these files, beside those that run, which reads its policies. The
    /// answer is [`Event::Started`] or [`Event::NotStarted`].
    StartForwarder(Edition),
    /// Let a forwarder that has read its policies open its ports. If it is of files that were read
    /// anew, they are put in force first, and the shell keeps what was in force before. The answer
    /// is [`Event::PortsOpening`].
    OpenPorts(Pid),
    /// Start a companion of what was read last, in place of one that runs. The answer is
    /// [`CompanionEvent::Started`] or [`CompanionEvent::NotStarted`].
    Start(Companion),
    /// Have this companion follow the deployment. The answer is [`CompanionEvent::Followed`].
    Follow(Companion),
    /// Look for the interfaces. The answer is [`Event::PortsMissing`].
    LookForPorts,
    /// Let the kernel carry the traffic, or no more. The answer is [`Event::FallbackSet`].
    Fallback(bool),
}

/// An order to a forwarder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// To open the intake of every port, or to close it. It says when that is so.
    Intake(bool),
    /// To send for up to this time what it holds, and to end.
    Drain(Duration),
    /// The outcome of the restart that it asked for.
    Restarted(Result<String, String>),
    /// To measure delays anew.
    Mark,
    /// The present contents of the files.
    Texts,
}

/// A fault of a link that its keeper tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A forwarder died, and no other one forwards as yet.
    Death,
    /// The kernel carries the traffic.
    Fallback,
    /// A companion died, and runs not yet again. It may begin once more, for another reason.
    Missing(Companion),
}

/// A notice to the service manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Frames are forwarded.
    Ready,
    /// The kernel carries the traffic, and no forwarder is started.
    Absent,
    /// The link ends, on request.
    Stopping,
}

/// How a link ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As it was asked.
    Stopped,
    /// At once, by this second signal.
    Signal(i32),
    /// No forwarder can run, for this reason.
    Failed(String),
}
