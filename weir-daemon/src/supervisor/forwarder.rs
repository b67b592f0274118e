//! One forwarder: how far it is, and how long it may take.

use super::interface::{Edition, Pid};
use super::settings::{Limits, READING_MAX};
use std::time::{Duration, Instant};

/// A forwarder that has not ended.
#[derive(Debug)]
pub struct Forwarder {
    /// Names it in events and actions.
    pub pid: Pid,
    /// The files that it is of.
    pub edition: Edition,
    /// How far it is.
    pub phase: Phase,
    /// Since when it is so far.
    since: Instant,
    /// Its last sign of life.
    heard: Instant,
    /// How long it may take: what held when it was started, or when it began to open its ports.
    pub limits: Limits,
    /// Why it ends, if that is known.
    pub failure: Option<String>,
    /// Whether its files were refused, which is why it ends.
    pub is_refused: bool,
}

/// How far a forwarder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It reads its policies.
    Reading,
    /// It has read them, and whether it may open its ports is being asked.
    Sound,
    /// It opens its ports.
    Opening,
    /// Its ports are open and take nothing.
    Ready,
    /// It was told to take frames.
    Taking,
    /// It forwards frames.
    Forwarding,
    /// It was told to take no more frames, so that another one may.
    Closing,
    /// It was told to send what it holds and to end.
    Draining,
    /// It did not do in time what it should, and was told to abort.
    Aborting,
}

/// The end of a forwarder that is overdue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Overdue {
    /// It is killed. If it did not read its files or open its ports, that is why.
    Kill(Option<String>),
    /// It is told to abort, for this reason.
    Abort(String),
}

impl Forwarder {
    /// One that reads its policies from `now` on.
    pub fn new(pid: Pid, edition: Edition, now: Instant, limits: Limits) -> Self {
        let (phase, since, heard) = (Phase::Reading, now, now);
        Self { pid, edition, phase, since, heard, limits, failure: None, is_refused: false }
    }

    /// One that forwards at `now`, of a keeper that died.
    pub fn orphan(pid: Pid, now: Instant, limits: Limits) -> Self {
        Self { phase: Phase::Forwarding, ..Self::new(pid, Edition::InForce, now, limits) }
    }

    /// Goes on to this phase.
    pub fn enter(&mut self, now: Instant, phase: Phase) {
        self.phase = phase;
        self.since = now;
    }

    /// Gives a sign of life.
    pub fn beat(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Fails for this reason, unless another one is known already.
    pub fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }

    /// Refuses its files, for this reason.
    pub fn refuse(&mut self, why: String) {
        self.failure = Some(why);
        self.is_refused = true;
    }

    /// Returns whether its files are not in force yet.
    pub fn is_of_unread_files(&self) -> bool {
        self.edition == Edition::Anew && matches!(self.phase, Phase::Reading | Phase::Sound)
    }

    /// Returns whether it has no ports yet, and so nothing to send.
    pub fn is_without_ports(&self) -> bool {
        matches!(self.phase, Phase::Reading | Phase::Sound | Phase::Opening)
    }

    /// Returns whether it takes frames, is about to, or is about to stop doing so.
    pub fn takes_frames(&self) -> bool {
        matches!(self.phase, Phase::Taking | Phase::Forwarding | Phase::Closing)
    }

    /// Returns what becomes of it, if it should have gone on to another phase, or given a sign of
    /// life, by `now`.
    pub fn overdue(&self, now: Instant) -> Option<Overdue> {
        // Both may be later than `now`, which is then no time after them.
        let in_phase = now.saturating_duration_since(self.since);
        let quiet = now.saturating_duration_since(self.heard.max(self.since));
        let is_late = self.phase_max().is_some_and(|limit| in_phase > limit);
        let is_quiet = self.limits.watchdog.is_some_and(|watchdog| quiet > watchdog);
        let seconds = HAND_OVER_MAX.as_secs();
        let abort = |what: &str| {
            Overdue::Abort(format!(
                "a loop of it did not {what} to take frames within {seconds} s, and it was told to \
                 abort"
            ))
        };
        let kill = |what: &str, limit: Duration| {
            Overdue::Kill(Some(format!("it did not {what} within {} s", limit.as_secs())))
        };
        match self.phase {
            Phase::Reading => is_late.then(|| kill("read its files", READING_MAX)),
            Phase::Sound => None,
            Phase::Opening => is_late.then(|| kill("open its ports", OPENING_MAX)),
            Phase::Draining | Phase::Aborting => is_late.then_some(Overdue::Kill(None)),
            Phase::Taking if is_late => Some(abort("begin")),
            Phase::Closing if is_late => Some(abort("cease")),
            Phase::Ready | Phase::Taking | Phase::Forwarding | Phase::Closing => {
                is_quiet.then(|| {
                    Overdue::Abort("it gave no sign of life and was told to abort".to_owned())
                })
            }
        }
    }

    /// Returns how long it may stay in its phase; `None` if for ever.
    fn phase_max(&self) -> Option<Duration> {
        match self.phase {
            Phase::Reading => Some(READING_MAX),
            // The shell answers at once.
            Phase::Sound => None,
            Phase::Opening => Some(OPENING_MAX),
            Phase::Taking | Phase::Closing => Some(HAND_OVER_MAX),
            // A ready one waits for the end of one that closes its intake or aborts.
            Phase::Ready | Phase::Forwarding => None,
            Phase::Draining => Some(self.limits.drain + ENDING_MAX),
            Phase::Aborting => Some(ABORTING_MAX),
        }
    }
}

/// To open its ports: a policy of a million classes takes seconds.
const OPENING_MAX: Duration = Duration::from_secs(60);
/// For its loops to begin or to stop taking frames: more than a busy machine makes them pause.
const HAND_OVER_MAX: Duration = Duration::from_secs(10);
/// To end once it has drained.
const ENDING_MAX: Duration = Duration::from_secs(2);
/// To write down its memory after SIGABRT.
const ABORTING_MAX: Duration = Duration::from_millis(200);
