//! The table of children: how each kind is started again when it has ended, and how far those are
//! without which the link goes on.

use super::interface::{Action, Companion, CompanionEvent, Followed, Pid, Question};
use super::restarts::{RESTARTS_MAX, RESTARTS_TIME, Restarts};
use std::time::{Duration, Instant};
use weir_link::events::Kind;

/// The children of a link.
#[derive(Debug)]
pub struct Table {
    /// Shared by all forwarders, one after the other.
    pub forwarder: RestartPolicy,
    gateway: Row,
    reservations: Row,
}

impl Table {
    /// No child runs yet.
    pub fn new() -> Self {
        Self {
            forwarder: RestartPolicy::forwarder(),
            gateway: Row::gateway(),
            reservations: Row::reservations(),
        }
    }

    /// Returns the row of a companion.
    pub fn row(&mut self, companion: Companion) -> &mut Row {
        match companion {
            Companion::Gateway => &mut self.gateway,
            Companion::Reservations => &mut self.reservations,
        }
    }

    /// Returns the rows of all companions.
    pub fn rows(&mut self) -> [&mut Row; 2] {
        [&mut self.gateway, &mut self.reservations]
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
    /// Whether one that could not be started again is tried again later.
    retries: bool,
    stage: Stage,
    /// The event of its end.
    died: Kind,
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
    fn gateway() -> Self {
        Self {
            companion: Companion::Gateway,
            policy: RestartPolicy::companion(),
            retries: false,
            stage: Stage::Absent,
            died: Kind::PageDied,
            absent: "there is no page and no API",
        }
    }

    /// An interface that they need may be away for a while.
    fn reservations() -> Self {
        Self {
            companion: Companion::Reservations,
            policy: RestartPolicy::companion(),
            retries: true,
            stage: Stage::Absent,
            died: Kind::RsvpDied,
            absent: "there are no reservations",
        }
    }

    /// Returns what follows from something that happened to it, while this forwarder carries the
    /// traffic.
    pub fn handle(
        &mut self,
        now: Instant,
        event: CompanionEvent,
        carrier: Option<Pid>,
    ) -> Option<Action> {
        match event {
            CompanionEvent::Followed(followed) => self.follow(followed),
            CompanionEvent::Started => self.on_started(carrier),
            CompanionEvent::NotStarted(why) => Some(self.on_not_started(now, why, carrier)),
            CompanionEvent::Exited(pid, why) => Some(self.on_exit(now, pid, why, carrier)),
        }
    }

    /// Has it follow what a deployment says.
    fn follow(&mut self, followed: Result<Followed, String>) -> Option<Action> {
        match followed {
            Err(why) => Some(self.warn(&why)),
            Ok(Followed::Unwanted) => {
                self.stage = Stage::Absent;
                None
            }
            Ok(Followed::Same) if self.stage == Stage::Running => None,
            Ok(Followed::Same | Followed::Other) => Some(self.start(Stage::Starting)),
        }
    }

    fn on_started(&mut self, carrier: Option<Pid>) -> Option<Action> {
        let before = std::mem::replace(&mut self.stage, Stage::Running);
        match (self.companion, before) {
            (Companion::Gateway, Stage::Starting) => Some(Action::AnnounceGateway),
            // At the first start this follows anyway.
            (Companion::Reservations, Stage::Restarting) => carrier.map(Action::Introduce),
            _ => None,
        }
    }

    fn on_not_started(&mut self, now: Instant, why: String, carrier: Option<Pid>) -> Action {
        let before = std::mem::replace(&mut self.stage, Stage::Absent);
        if before == Stage::Starting {
            return self.warn(&why);
        }
        if self.retries
            && let Ok(due) = self.policy.again(now)
        {
            self.stage = Stage::Due(due);
        }
        self.report_death(why, carrier)
    }

    fn on_exit(&mut self, now: Instant, pid: Pid, why: String, carrier: Option<Pid>) -> Action {
        let (stage, again) = match self.policy.again(now) {
            Ok(due) => (Stage::Due(due), "it is started again".to_owned()),
            Err(refusal) => (Stage::Absent, refusal),
        };
        self.stage = stage;
        self.report_death(format!("process {pid}: {why}; {again}"), carrier)
    }

    /// Starts it again if that is due.
    pub fn on_tick(&mut self, now: Instant) -> Option<Action> {
        match self.stage {
            Stage::Due(due) if now >= due => Some(self.start(Stage::Restarting)),
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

    /// Clients of the link are told of the end of reservations as well, through the forwarder.
    fn report_death(&self, detail: String, carrier: Option<Pid>) -> Action {
        let reader = carrier.filter(|_| self.companion == Companion::Reservations);
        Action::Journal(self.died, detail, reader)
    }
}

/// The pause before a companion that died is started again.
const PAUSE: Duration = Duration::from_secs(1);
