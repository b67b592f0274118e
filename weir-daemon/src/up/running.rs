//! A forwarder, as its keeper sees it.

use crate::keeper::found::Found;
use crate::keeper::messages::{Command, Opening, PROTOCOL, Report, Task};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Command as Program;
use std::time::{Duration, Instant};
use weir_host::channel::Channel;
use weir_host::claim::Claim;
use weir_host::error::{Result, SystemError};
use weir_host::process::Process;
use weir_host::watch;
use weir_link::authority::{Desk, Files};
use weir_link::events::{Event, Kind, Role};
use weir_link::port::PortConfig;
use weir_policy::deployment::Deployment;

/// A forwarder and how far it is.
pub struct Running {
    /// The process.
    pub process: Process,
    /// How far it is.
    pub phase: Phase,
    /// Since when it is so far.
    since: Instant,
    /// Its last sign of life.
    heard: Instant,
    /// How long it may take: what held when it was started.
    limits: Limits,
    /// Why it ends, if it said so.
    pub failure: Option<String>,
    /// Whether its files were refused, which is why it ends.
    pub is_refused: bool,
    /// Whether it carried traffic when it was told to abort.
    carried: bool,
    /// The faults that it told of and that are not over, at most [`FAULTS_MAX`].
    faults: Vec<Event>,
    commands: Channel,
    authority: Channel,
    /// What acts on what it asks for.
    pub desk: Desk,
    /// Whether it closed its end of the commands, after its last words.
    is_silent: bool,
    /// Whether it closed its end of the authority, and asks for nothing more.
    is_content: bool,
}

/// How far a forwarder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It reads its policies, or waits for its ports.
    Reading,
    /// It opens its ports.
    Opening,
    /// Its ports are open and take nothing.
    Ready,
    /// It was told to take frames.
    Taking,
    /// It takes frames.
    Forwarding,
    /// It was told to take no more frames, so that another one may.
    Closing,
    /// It was told to end.
    Draining,
    /// It gave no sign of life and was told to abort.
    Aborting,
}

impl Phase {
    /// Returns whether a forwarder carries traffic in it, or is about to stop doing so.
    fn is_of_traffic(self) -> bool {
        matches!(self, Self::Taking | Self::Forwarding | Self::Closing)
    }
}

impl Running {
    /// Starts `program` as a forwarder, which reads its texts, and of these files those that they
    /// lack, and says what it found.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn read(
        mut program: Program,
        task: Task,
        (files, limits): (Files, Limits),
    ) -> Result<Self> {
        let (authority, theirs) = Channel::pair()?;
        let (commands, their_commands) = Channel::pair()?;
        program.arg("forward").args(["--protocol", &PROTOCOL.to_string()]);
        for (name, channel) in [("--authority", &theirs), ("--commands", &their_commands)] {
            program.args([name, &channel.as_fd().as_raw_fd().to_string()]);
        }
        let process = Process::start(program, &[theirs.as_fd(), their_commands.as_fd()])?;
        let desk = Desk::of_files(files);
        let running = Self::new((process, Phase::Reading), (authority, commands), desk, limits);
        running.commands.send(&Command::Read(Box::new(task)), &[])?;
        Ok(running)
    }

    /// Waits until it has read its texts; returns what it found. For a keeper without a link.
    ///
    /// # Errors
    /// When it ends without that, or takes too long; the text says why.
    pub fn await_found(&mut self) -> std::result::Result<Found, String> {
        loop {
            let watched: Vec<_> = self.descriptors().collect();
            watch::readable(&watched, FOUND_INTERVAL).map_err(|error| error.to_string())?;
            let ended = self.process.ended();
            self.serve();
            while let Some(report) = self.hear() {
                match report {
                    Report::Read(found) => return Ok(*found),
                    Report::Failed(why) => self.failure = Some(why),
                    _ => {}
                }
            }
            if let Some(how) = ended {
                return Err(self.failure.take().unwrap_or(how));
            }
            self.end_if_overdue(Instant::now());
        }
    }

    /// Lets it open its ports, with a closed intake; beside another one, which has this desk, it
    /// shares what can exist only once. Its descriptors are those of the sockets that it serves.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(
        &mut self,
        opening: Opening,
        listeners: &[BorrowedFd<'_>],
        (ports, other): (Vec<PortConfig>, Option<&Desk>),
    ) -> Result<()> {
        self.desk = match other {
            Some(other) => Desk::beside(other, ports)?,
            None => Desk::new(ports),
        };
        self.commands.send(&Command::Open(Box::new(opening)), listeners)?;
        self.give_spare()?;
        self.enter(Phase::Opening);
        Ok(())
    }

    /// A forwarder whose keeper died, with new channels to it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn adopt(
        process: Process,
        channels: (Channel, Channel),
        desk: Desk,
        limits: Limits,
    ) -> Result<Self> {
        let running = Self::new((process, Phase::Forwarding), channels, desk, limits);
        running.give_spare()?;
        Ok(running)
    }

    fn new(
        (process, phase): (Process, Phase),
        (authority, commands): (Channel, Channel),
        desk: Desk,
        limits: Limits,
    ) -> Self {
        let now = Instant::now();
        let (failure, is_silent, is_content) = (None, false, false);
        Self {
            process,
            phase,
            since: now,
            heard: now,
            limits,
            failure,
            is_refused: false,
            carried: false,
            faults: Vec::new(),
            commands,
            authority,
            desk,
            is_silent,
            is_content,
        }
    }

    /// Gives it channels for a keeper that comes after this one.
    fn give_spare(&self) -> Result<()> {
        let ((authority, own_authority), (commands, own_commands)) =
            (Channel::pair()?, Channel::pair()?);
        let ends = [authority, commands, own_authority, own_commands];
        let mut descriptors: Vec<_> = ends.iter().map(AsFd::as_fd).collect();
        descriptors.push(self.process.as_fd());
        self.commands.send(&Command::Spare { keeper: std::process::id() }, &descriptors)
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

    /// Gives it the end of a channel by which it asks for the sessions of reservations.
    pub fn give_questions(&self, questions: BorrowedFd<'_>) {
        // One that has ended asks nothing.
        let _ended = self.commands.send(&Command::Reservations, &[questions]);
    }

    /// Acts on what it asks for.
    pub fn serve(&mut self) {
        for _ in 0..ASKS_MAX {
            if self.is_content {
                return;
            }
            match self.desk.serve(&self.authority) {
                Ok(true) => {}
                Ok(false) => return,
                // Its last words may still wait on the other channel.
                Err(error) => {
                    self.is_content = true;
                    self.judge(&error);
                }
            }
        }
    }

    /// It ended, or says what a forwarder does not say; then it is ended.
    fn judge(&mut self, error: &SystemError) {
        if error.cause.kind() == ErrorKind::InvalidData {
            self.failure.get_or_insert(error.to_string());
            self.process.kill();
        }
    }

    /// Tells it something. What a forwarder that has ended misses does not matter.
    pub fn tell(&self, command: &Command) {
        let _ended = self.commands.send(command, &[]);
    }

    /// Lets it send what it holds and end.
    pub fn drain(&mut self) {
        self.tell(&Command::Drain(self.limits.drain));
        self.enter(Phase::Draining);
    }

    /// Notes how far it is.
    pub fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = Instant::now();
    }

    /// Returns the next thing that it says, if it said anything.
    pub fn hear(&mut self) -> Option<Report> {
        if self.is_silent {
            return None;
        }
        match self.commands.receive::<Report>(Duration::ZERO) {
            Ok(heard) => {
                let (report, _none) = heard?;
                self.heard = Instant::now();
                Some(report.tame())
            }
            Err(error) => {
                self.is_silent = true;
                self.judge(&error);
                None
            }
        }
    }

    /// Ends it if it should have gone on to another phase, or given a sign of life, by `now`.
    pub fn end_if_overdue(&mut self, now: Instant) {
        let in_phase = now.duration_since(self.since);
        let quiet = now.duration_since(self.heard.max(self.since));
        let is_late = self.phase_max().is_some_and(|limit| in_phase > limit);
        let is_quiet = self.limits.watchdog.is_some_and(|watchdog| quiet > watchdog);
        match self.phase {
            Phase::Reading | Phase::Opening if is_late => {
                let what =
                    if self.phase == Phase::Reading { "read its files" } else { "open its ports" };
                let slow = format!("it did not {what} within {} s", OPENING_MAX.as_secs());
                self.failure.get_or_insert(slow);
                self.process.kill();
            }
            Phase::Draining | Phase::Aborting if is_late => self.process.kill(),
            Phase::Reading | Phase::Opening | Phase::Draining | Phase::Aborting => {}
            _ if is_late => self.abort(self.lateness()),
            _ if is_quiet => {
                self.abort("it gave no sign of life and was told to abort".to_owned());
            }
            _ => {}
        }
    }

    /// Returns what it did not do in time at a hand-over.
    fn lateness(&self) -> String {
        let seconds = HAND_OVER_MAX.as_secs();
        let what = if self.phase == Phase::Closing { "cease" } else { "begin" };
        format!(
            "a loop of it did not {what} to take frames within {seconds} s, and it was told to \
             abort"
        )
    }

    /// Returns how long it may stay in its phase; `None` if for ever.
    fn phase_max(&self) -> Option<Duration> {
        match self.phase {
            Phase::Reading | Phase::Opening => Some(OPENING_MAX),
            Phase::Taking | Phase::Closing => Some(HAND_OVER_MAX),
            // A ready one waits for the end of one that closes its intake or aborts.
            Phase::Ready | Phase::Forwarding => None,
            Phase::Draining => Some(self.limits.drain + ENDING_MAX),
            Phase::Aborting => Some(ABORTING_MAX),
        }
    }

    fn abort(&mut self, why: String) {
        self.failure.get_or_insert(why);
        self.carried = self.carries();
        self.process.abort();
        self.enter(Phase::Aborting);
    }

    /// Returns what to watch: its end, what it says, and what it asks for.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let commands = (!self.is_silent).then(|| self.commands.as_fd());
        let authority = (!self.is_content).then(|| self.authority.as_fd());
        [Some(self.process.as_fd()), commands, authority].into_iter().flatten()
    }

    /// Returns whether it reads its policies or opens its ports.
    pub fn begins(&self) -> bool {
        matches!(self.phase, Phase::Reading | Phase::Opening)
    }

    /// Returns whether it carries traffic, or is about to stop doing so.
    pub fn carries(&self) -> bool {
        self.phase.is_of_traffic()
    }

    /// Returns whether traffic was lost because of its end.
    pub fn carried(&self) -> bool {
        self.carries() || self.carried
    }
}

/// How long a forwarder may take.
#[derive(Clone, Copy, Default)]
pub struct Limits {
    /// To send what it holds.
    pub drain: Duration,
    /// Between two signs of life.
    pub watchdog: Option<Duration>,
}

impl Running {
    /// Notes a fault that an event begins, or that it ends.
    pub fn note(&mut self, event: &Event) {
        match event.kind.role() {
            Role::Begins if self.faults.len() < FAULTS_MAX => self.faults.push(event.clone()),
            Role::Ends(_) => self.faults.retain(|fault| fault.fault != event.fault),
            Role::Begins | Role::Once => {}
        }
    }

    /// Returns the ends of the faults that nobody sees any more once it has ended.
    pub fn take_ends(&mut self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.faults).into_iter().map(|fault| {
            let detail = match fault.kind {
                // Its sentence goes on behind that.
                Kind::OverrunBegan => format!("{}, which ended with its forwarder,", fault.detail),
                _ => "the forwarder that told of it has ended".to_owned(),
            };
            Event { detail, ..fault.end_now() }
        })
    }
}

impl Limits {
    /// Those of a deployment.
    pub fn of(deployment: &Deployment) -> Self {
        let nanos = |time: weir_core::units::Duration| Duration::from_nanos(time.as_nanos());
        let service = &deployment.service;
        Self { drain: nanos(service.drain), watchdog: service.watchdog.map(nanos) }
    }
}

/// Faults of one forwarder that are remembered: more than a link can have at once.
const FAULTS_MAX: usize = 256;
/// Asks of a forwarder that are served before something else is done.
const ASKS_MAX: usize = 64;
/// How often one that reads is looked at.
const FOUND_INTERVAL: Duration = Duration::from_millis(50);
/// To read its files, and to open its ports: a policy of a million classes takes seconds.
const OPENING_MAX: Duration = Duration::from_secs(60);
/// For its loops to begin or to stop taking frames: more than a busy machine makes them pause.
const HAND_OVER_MAX: Duration = Duration::from_secs(10);
/// To end once it has drained.
const ENDING_MAX: Duration = Duration::from_secs(2);
/// To write down its memory after SIGABRT.
const ABORTING_MAX: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// After `seconds` in this phase, without a word since, a forwarder is in the phase `expected`;
    /// its failure contains `why`.
    fn check(phase: Phase, watchdog: Option<Duration>, seconds: u32, expected: Phase, why: &str) {
        let mut program = Program::new("sleep");
        program.arg("60");
        let process = Process::start(program, &[]).expect("there is a `sleep`");
        let (one, other) =
            Channel::pair().and_then(|one| Ok((one, Channel::pair()?))).expect("few");
        let limits = Limits { drain: SECOND, watchdog };
        let channels = (one.0, other.0);
        let mut running = Running::new((process, phase), channels, Desk::new(Vec::new()), limits);
        running.end_if_overdue(running.since + SECOND * seconds);
        let failure = running.failure.clone().unwrap_or_default();
        assert_eq!(running.phase, expected, "{phase:?} after {seconds} s: {failure}");
        assert!(failure.contains(why) && failure.is_empty() == why.is_empty(), "{failure}");
        assert_eq!(running.carried(), phase.is_of_traffic(), "{phase:?}");
        running.process.kill();
        running.process.wait();
    }

    #[test]
    fn a_phase_that_waits_for_a_loop_has_an_end() {
        use Phase::{Aborting, Closing, Draining, Forwarding, Opening, Reading, Ready, Taking};
        for phase in [Reading, Opening, Ready, Taking, Forwarding, Closing, Draining] {
            check(phase, None, 2, phase, "");
        }
        check(Reading, None, 61, Reading, "did not read its files within 60 s");
        check(Opening, None, 61, Opening, "did not open its ports within 60 s");
        check(Taking, None, 11, Aborting, "did not begin to take frames within 10 s");
        check(Closing, None, 11, Aborting, "did not cease to take frames within 10 s");
        // One waits for another that has an end, and the other may go on.
        check(Ready, None, 1000, Ready, "");
        check(Forwarding, None, 1000, Forwarding, "");
    }

    #[test]
    fn a_forwarder_without_a_sign_of_life_is_aborted() {
        use Phase::{Aborting, Closing, Forwarding, Opening, Ready, Taking};
        for phase in [Ready, Taking, Forwarding, Closing] {
            check(phase, Some(SECOND), 2, Aborting, "no sign of life");
        }
        check(Opening, Some(SECOND), 2, Opening, "");
    }
}
