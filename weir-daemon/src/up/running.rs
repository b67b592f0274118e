//! A forwarder, as its keeper sees it: its process and the channels to it.

use crate::keeper::found::Found;
use crate::keeper::messages::{Command, Opening, PROTOCOL, Report, Task};
use crate::supervisor::interface::Pid;
use crate::supervisor::settings::READING_MAX;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Command as Program;
use std::time::{Duration, Instant};
use weir_host::channel::Channel;
use weir_host::claim::Claim;
use weir_host::error::{Result, SystemError};
use weir_host::process::Process;
use weir_host::watch;
use weir_link::authority::{AuthorityServer, Files};
use weir_link::events::{Event, Role};
use weir_link::port::PortConfig;

/// A forwarder process, with the keeper's ends of its channels.
pub struct Running {
    /// The process, to wait for and to signal.
    pub process: Process,
    /// The faults that it told of and that are not over, at most [`FAULTS_MAX`].
    faults: Vec<Event>,
    commands: Channel,
    authority: Channel,
    /// Serves its requests that need a privilege.
    pub authority_server: AuthorityServer,
    /// It closed its end of the commands, after its last words.
    is_silent: bool,
    /// It closed its end of the authority, and makes no more requests.
    is_content: bool,
}

/// The outcome of a look at a forwarder's channel.
pub enum Received {
    /// Nothing more as yet, or for good.
    Nothing,
    /// A report, already sanitised.
    Report(Report),
    /// No report, for this reason: the forwarder was taken over, or speaks another version.
    Garbled(String),
}

impl Running {
    /// Starts `program` as a forwarder, which reads its texts, and of these files those that they
    /// lack, and says what it found.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn read(mut program: Program, task: Task, files: Files) -> Result<Self> {
        let (authority, theirs) = Channel::pair()?;
        let (commands, their_commands) = Channel::pair()?;
        program.arg("forward").args(["--protocol", &PROTOCOL.to_string()]);
        for (name, channel) in [("--authority", &theirs), ("--commands", &their_commands)] {
            program.args([name, &channel.as_fd().as_raw_fd().to_string()]);
        }
        let process = Process::start(program, &[theirs.as_fd(), their_commands.as_fd()])?;
        let running = Self::new(process, (authority, commands), AuthorityServer::of_files(files));
        running.commands.send(&Command::Read(Box::new(task)), &[])?;
        Ok(running)
    }

    /// Waits until it has read its texts; returns what it found. For a keeper without a link.
    ///
    /// # Errors
    /// When it ends without that, or takes too long; the text says why.
    pub fn await_found(&mut self) -> std::result::Result<Found, String> {
        let due = Instant::now() + READING_MAX;
        let mut failure = None;
        loop {
            let watched: Vec<_> = self.descriptors().collect();
            watch::readable(&watched, FOUND_INTERVAL).map_err(|error| error.to_string())?;
            let ended = self.process.ended();
            if let Some(found) = self.receive_found(&mut failure) {
                return Ok(found);
            }
            if let Some(how) = ended {
                return Err(failure.unwrap_or(how));
            }
            if Instant::now() > due {
                let seconds = READING_MAX.as_secs();
                failure.get_or_insert(format!("it did not read its files within {seconds} s"));
                self.process.kill();
            }
        }
    }

    /// Serves it, and listens until it says what it found or nothing more as yet, to at most
    /// [`REPORTS_MAX`] reports; notes why it fails.
    fn receive_found(&mut self, failure: &mut Option<String>) -> Option<Found> {
        let mut garbled = self.serve();
        let mut found = None;
        for _ in 0..REPORTS_MAX {
            match self.receive() {
                Received::Nothing => break,
                Received::Report(Report::Read(read)) => {
                    found = Some(*read);
                    break;
                }
                Received::Report(Report::Failed(why)) => *failure = Some(why),
                Received::Report(_) => {}
                Received::Garbled(why) => garbled = Some(why),
            }
        }
        if let Some(why) = garbled {
            failure.get_or_insert(why);
            self.process.kill();
        }
        found
    }

    /// Lets it open its ports, with a closed intake; beside another one, which has this server, it
    /// shares what can exist only once. It serves the control socket of this listener.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(
        &mut self,
        opening: Opening,
        descriptors: &[BorrowedFd<'_>],
        (ports, other): (Vec<PortConfig>, Option<&AuthorityServer>),
    ) -> Result<()> {
        self.authority_server = match other {
            Some(other) => AuthorityServer::beside(other, ports)?,
            None => AuthorityServer::new(ports),
        };
        self.commands.send(&Command::Open(Box::new(opening)), descriptors)?;
        self.say_who_keeps_it()
    }

    /// A forwarder whose keeper died, with new channels to it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn adopt(
        process: Process,
        channels: (Channel, Channel),
        authority_server: AuthorityServer,
    ) -> Result<Self> {
        let running = Self::new(process, channels, authority_server);
        running.say_who_keeps_it()?;
        Ok(running)
    }

    fn new(
        process: Process,
        (authority, commands): (Channel, Channel),
        authority_server: AuthorityServer,
    ) -> Self {
        let (faults, is_silent, is_content) = (Vec::new(), false, false);
        Self { process, faults, commands, authority, authority_server, is_silent, is_content }
    }

    /// Returns the number of its process.
    pub fn pid(&self) -> Pid {
        Pid(self.process.number())
    }

    fn say_who_keeps_it(&self) -> Result<()> {
        let keeper = std::process::id();
        self.commands.send(&Command::KeptBy { keeper }, &[self.process.as_fd()])
    }

    /// Lets it hold the claim of the interfaces too.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn give_claim(&self, claim: &Claim) -> Result<()> {
        for (number, (part, copies)) in
            claim.descriptors(self.process.number())?.into_iter().enumerate()
        {
            let copies: Vec<_> = copies.iter().map(AsFd::as_fd).collect();
            let hold = Command::Hold { is_first: number == 0, part };
            self.commands.send(&hold, &copies)?;
        }
        Ok(())
    }

    /// Gives it the end of a channel by which it asks the process of circuits.
    pub fn give_circuits(&self, questions: BorrowedFd<'_>) {
        let _ended = self.commands.send(&Command::Circuits, &[questions]);
    }

    /// Gives it the end of a channel by which it asks for the sessions of reservations.
    pub fn give_questions(&self, questions: BorrowedFd<'_>) {
        // One that has ended asks nothing.
        let _ended = self.commands.send(&Command::Reservations, &[questions]);
    }

    /// Acts on what it asks for; returns what it said that no forwarder says, if it did.
    pub fn serve(&mut self) -> Option<String> {
        for _ in 0..REQUESTS_MAX {
            if self.is_content {
                return None;
            }
            match self.authority_server.serve(&self.authority) {
                Ok(true) => {}
                Ok(false) => return None,
                // Its last words may still wait on the other channel.
                Err(error) => {
                    self.is_content = true;
                    return garbled(&error);
                }
            }
        }
        None
    }

    /// Sends it a command. A forwarder that has ended misses it, which does not matter.
    pub fn send(&self, command: &Command) {
        let _ended = self.commands.send(command, &[]);
    }

    /// Returns the next thing that it says.
    pub fn receive(&mut self) -> Received {
        if self.is_silent {
            return Received::Nothing;
        }
        match self.commands.receive::<Report>(Duration::ZERO) {
            Ok(None) => Received::Nothing,
            Ok(Some((report, _none))) => Received::Report(report.sanitise()),
            Err(error) => {
                self.is_silent = true;
                garbled(&error).map_or(Received::Nothing, Received::Garbled)
            }
        }
    }

    /// Returns what to watch: its end, what it says, and what it asks for.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let commands = (!self.is_silent).then(|| self.commands.as_fd());
        let authority = (!self.is_content).then(|| self.authority.as_fd());
        [Some(self.process.as_fd()), commands, authority].into_iter().flatten()
    }

    /// Notes a fault that an event begins, or that it ends.
    pub fn note(&mut self, event: &Event) {
        match event.kind.role() {
            Role::Begins if self.faults.len() < FAULTS_MAX => self.faults.push(event.clone()),
            Role::Ends(_) => self.faults.retain(|fault| fault.fault != event.fault),
            Role::Begins | Role::Once => {}
        }
    }

    /// Returns an end event for each fault that this forwarder still reported when it ended.
    pub fn take_ends(&mut self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.faults).into_iter().map(|fault| fault.end_unseen())
    }
}

/// Returns what a forwarder said that no forwarder says, if the error is not its end.
fn garbled(error: &SystemError) -> Option<String> {
    (error.cause.kind() == ErrorKind::InvalidData).then(|| error.to_string())
}

/// Bound: reports of one forwarder that are heard before something else is done; the rest is heard
/// in the next turn.
pub(super) const REPORTS_MAX: usize = 256;
/// Bound: faults of one forwarder that are remembered; further ones have no end event when it dies.
/// More than a link can have at once.
const FAULTS_MAX: usize = 256;
/// How often one that reads is looked at.
const FOUND_INTERVAL: Duration = Duration::from_millis(50);
/// Bound: requests of one forwarder that are served before something else is done; the rest is
/// served in the next turn.
const REQUESTS_MAX: usize = 64;
