//! The table of children: how each kind is started again when it has ended, and how far those are
//! without which the link goes on.

use super::interface::{Action, Companion, CompanionEvent, Fault, Followed, Pid, Question};
use super::restarts::{RESTARTS_MAX, RESTARTS_TIME, Restarts};
use std::time::{Duration, Instant};

/// The children of a link.
#[derive(Debug)]
pub struct Table {
    /// Shared by all forwarders, one after the other.
    pub forwarder: RestartPolicy,
    gateway: Row,
    reservations: Row,
    circuits: Row,
}

impl Table {
    /// No child runs yet.
    pub fn new() -> Self {
        Self {
            forwarder: RestartPolicy::forwarder(),
            gateway: Row::new(Companion::Gateway, "there is no page and no API"),
            reservations: Row::new(Companion::Reservations, "there are no reservations"),
            circuits: Row::new(Companion::Circuits, "no circuits come and go"),
        }
    }

    /// Returns the row of a companion.
    pub fn row(&mut self, companion: Companion) -> &mut Row {
        match companion {
            Companion::Gateway => &mut self.gateway,
            Companion::Reservations => &mut self.reservations,
            Companion::Circuits => &mut self.circuits,
        }
    }

    /// Returns the rows of all companions.
    pub fn rows(&mut self) -> [&mut Row; 3] {
        [&mut self.gateway, &mut self.reservations, &mut self.circuits]
    }
}

/// How a kind of child is started again, and how often that was done of late.
#[derive(Debug)]
pub struct RestartPolicy {
    /// The pause before one that died is started again.
    pause: Duration,
    /// The advice to the operator, once it was started too often; begins with a semicolon.
    cure: &'static str,
    restarts: Restarts,
}

impl RestartPolicy {
    /// Forwarders: the link waits for them.
    pub fn forwarder() -> Self {
        Self { pause: Duration::ZERO, cure: "", restarts: Restarts::default() }
    }

    /// Processes without which the link goes on.
    fn companion() -> Self {
        Self { pause: PAUSE, cure: "; `weir restart` tries again", restarts: Restarts::default() }
    }

    /// Returns when the next one is started in place of one that ended at `now`, or why none is.
    pub fn again(&mut self, now: Instant) -> Result<Instant, String> {
        if self.restarts.allow(now) {
            return Ok(now + self.pause);
        }
        let (seconds, cure) = (RESTARTS_TIME.as_secs(), self.cure);
        Err(format!("{RESTARTS_MAX} were started within {seconds} s{cure}"))
    }
}

/// A companion, with its policy of restarts.
#[derive(Debug)]
pub struct Row {
    companion: Companion,
    policy: RestartPolicy,
    /// Whether one that could not be started is tried again later.
    retries: bool,
    /// Why it could not be started, as was told last.
    trouble: Option<String>,
    stage: Stage,
    /// Until when it has to give another sign of life, while it runs.
    alive_until: Option<Instant>,
    /// Whether its death was told, and that it is back not yet.
    is_missing: bool,
    /// The warning if a deployment wants it and it cannot run.
    absent: &'static str,
}

/// How far a companion is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It does not run.
    Absent,
    /// It is being started, as the deployment wants it.
    Starting,
    /// Its process runs.
    Running,
    /// It died, and is started again then.
    Due(Instant),
    /// It is being started again.
    Restarting,
}

impl Row {
    fn new(companion: Companion, absent: &'static str) -> Self {
        Self {
            companion,
            policy: RestartPolicy::companion(),
            // An interface or an address that they need may be away for a while.
            retries: companion != Companion::Gateway,
            trouble: None,
            stage: Stage::Absent,
            alive_until: None,
            is_missing: false,
            absent,
        }
    }

    /// Returns what follows from something that happened to it, while this forwarder carries the
    /// traffic.
    pub fn handle(
        &mut self,
        now: Instant,
        event: CompanionEvent,
        carrier: Option<Pid>,
    ) -> Vec<Action> {
        match event {
            CompanionEvent::Followed(followed) => self.follow(followed),
            CompanionEvent::Started => self.on_started(now, carrier),
            CompanionEvent::NotStarted(why) => self.on_not_started(now, why),
            CompanionEvent::Alive => {
                self.alive_until = Some(now + SILENCE_MAX);
                Vec::new()
            }
            CompanionEvent::Exited(pid, why) => vec![self.on_exit(now, pid, why)],
        }
    }

    /// Has it follow what a deployment says.
    fn follow(&mut self, followed: Result<Followed, String>) -> Vec<Action> {
        match followed {
            Err(why) => vec![self.warn(&why)],
            Ok(Followed::Unwanted) => {
                self.stage = Stage::Absent;
                Vec::from_iter(self.no_longer_missing())
            }
            Ok(Followed::Same) if self.stage == Stage::Running => Vec::new(),
            Ok(Followed::Same | Followed::Other) => vec![self.start(Stage::Starting)],
        }
    }

    fn on_started(&mut self, now: Instant, carrier: Option<Pid>) -> Vec<Action> {
        let before = std::mem::replace(&mut self.stage, Stage::Running);
        self.alive_until = Some(now + BEGIN_MAX);
        let follows = match (self.companion, before) {
            (Companion::Gateway, Stage::Starting) => Some(Action::AnnounceGateway),
            // At the first start this follows anyway.
            (Companion::Reservations | Companion::Circuits, Stage::Restarting) => {
                carrier.map(Action::Introduce)
            }
            _ => None,
        };
        follows.into_iter().chain(self.no_longer_missing()).collect()
    }

    fn on_not_started(&mut self, now: Instant, why: String) -> Vec<Action> {
        let before = std::mem::replace(&mut self.stage, Stage::Absent);
        let warning = (before == Stage::Starting).then(|| self.warn(&why));
        if self.retries {
            // No process was started: it may be tried as often as this.
            self.stage = Stage::Due(now + RETRY_PAUSE);
        } else if warning.is_some() {
            return Vec::from_iter(warning);
        }
        let is_new = self.trouble.as_ref() != Some(&why);
        self.trouble = Some(why.clone());
        warning.into_iter().chain(is_new.then(|| self.report_death(why))).collect()
    }

    fn on_exit(&mut self, now: Instant, pid: Pid, why: String) -> Action {
        let (stage, again) = match self.policy.again(now) {
            Ok(due) => (Stage::Due(due), "it is started again".to_owned()),
            Err(refusal) => (Stage::Absent, refusal),
        };
        self.stage = stage;
        self.report_death(format!("process {pid}: {why}; {again}"))
    }

    /// Starts it again if that is due, and ends it if it hangs: it was listened to after `heard`.
    pub fn on_tick(&mut self, now: Instant, heard: Instant) -> Option<Action> {
        match self.stage {
            Stage::Due(due) if now >= due => Some(self.start(Stage::Restarting)),
            Stage::Running => {
                self.alive_until.take_if(|until| *until < heard)?;
                let seconds = SILENCE_MAX.as_secs();
                let why = format!("it hangs: it gave no sign of life for {seconds} s");
                Some(Action::EndHung(self.companion, why))
            }
            _ => None,
        }
    }

    /// Ends it for good.
    pub fn stop(&mut self) -> Action {
        self.stage = Stage::Absent;
        Action::Stop(self.companion)
    }

    fn start(&mut self, stage: Stage) -> Action {
        self.stage = stage;
        Action::Ask(Question::Start(self.companion))
    }

    fn warn(&self, why: &str) -> Action {
        Action::Warn(format!("{}: {why}", self.absent))
    }

    fn report_death(&mut self, detail: String) -> Action {
        self.is_missing = true;
        Action::Begin(Fault::Missing(self.companion), detail)
    }

    fn no_longer_missing(&mut self) -> Option<Action> {
        self.trouble = None;
        let was_missing = std::mem::take(&mut self.is_missing);
        was_missing.then_some(Action::End(Fault::Missing(self.companion)))
    }
}

/// The pause before a companion that died is started again.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause before one that could not be started is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// How long one that runs may give no sign of life: it gives one a second, if the machine lets it.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long it may take to give the first one: it may have to wait for the link.
const BEGIN_MAX: Duration = Duration::from_secs(60);
