//! One fault of one thing: from looks at a condition and its count to one beginning and one end.
//!
//! A condition that comes and goes makes few events: a fault that began often within a minute ends
//! only once the condition was absent for [`DAMPED_CALM`], and its end says how often it came.
//! Pure code: time is an argument. Invariant: beginnings and ends alternate, and each end counts
//! what was lost since the look before the condition was first seen.

use weir_core::units::{Duration, Instant};

use super::{About, Event, Kind, Reporter};

/// The kind of a fault, and when it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// The kind of event that begins it.
    pub kind: Kind,
    /// For how long the condition must hold before the fault is told.
    pub patience: Duration,
    /// For how long it must be absent before the end is told.
    pub calm: Duration,
    /// Whether the condition is a state, told even if it was over before `patience`, and over when
    /// a look does not find it. Else it is a count that grows, and over when it grew last.
    pub is_state: bool,
}

/// An instant on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// CLOCK_MONOTONIC: what durations are computed from.
    pub now: Instant,
    /// CLOCK_REALTIME: what events say.
    pub wall_ns: u64,
}

impl Moment {
    /// Returns what the wall clock says of an earlier instant.
    fn wall_of(&self, at: Instant) -> u64 {
        self.wall_ns.saturating_sub(self.now.since(at).as_nanos())
    }
}

/// One observation of a condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    /// Since when the condition holds, if it does.
    pub since: Option<Instant>,
    /// The total cost of the condition since the start, such as frames lost.
    pub total: u64,
}

impl Observation {
    /// A look at a state, which may have begun just now.
    pub(crate) fn state(moment: Moment, holds: bool, total: u64) -> Self {
        Self { since: holds.then_some(moment.now), total }
    }
}

#[derive(Debug)]
pub(crate) struct Fault {
    manner: Manner,
    /// The total at the last look while there was nothing.
    base: u64,
    phase: Phase,
    damper: Damper,
}

#[derive(Debug)]
enum Phase {
    /// The condition does not hold.
    Absent,
    /// The condition holds, but nothing was told yet.
    Held { since: Instant },
    /// The beginning was told.
    Reported(Box<Reported>),
}

#[derive(Debug)]
struct Reported {
    begun: Event,
    since: Instant,
    /// The last look that found the condition.
    last: Instant,
    /// Since when the condition is absent.
    absent: Option<Instant>,
    times: u64,
    total: u64,
}

/// How often a fault began of late.
#[derive(Debug)]
struct Damper {
    since: Instant,
    beginnings: u32,
}

impl Fault {
    pub(crate) fn new(manner: Manner) -> Self {
        let damper = Damper { since: Instant::ZERO, beginnings: 0 };
        Self { manner, base: 0, phase: Phase::Absent, damper }
    }

    /// Returns whether its beginning was told and its end was not.
    pub(crate) fn is_reported(&self) -> bool {
        matches!(self.phase, Phase::Reported(_))
    }

    /// Forgets a condition of which nothing was told: something else explains it.
    pub(crate) fn dismiss(&mut self) {
        if !self.is_reported() {
            self.phase = Phase::Absent;
        }
    }

    /// Takes a look into account, and tells what it shows.
    pub(crate) fn observe(
        &mut self,
        moment: Moment,
        observation: Observation,
        about: About<'_>,
        reporter: &Reporter,
    ) {
        match (&mut self.phase, observation.since) {
            (Phase::Absent, None) => self.base = observation.total,
            (Phase::Absent, Some(since)) => {
                self.phase = Phase::Held { since };
                self.begin_if_due(moment, about, reporter);
            }
            (Phase::Held { .. }, Some(_)) => self.begin_if_due(moment, about, reporter),
            (Phase::Held { since }, None) if self.manner.is_state => {
                let since = *since;
                self.begin(moment, since, about, reporter);
                self.clear(moment);
                self.end_if_due(moment, observation.total, about, reporter);
            }
            (Phase::Held { .. }, None) => {
                self.phase = Phase::Absent;
                self.base = observation.total;
            }
            (Phase::Reported(reported), Some(_)) => {
                let calm = self.manner.calm;
                let is_back = |absent: Instant| moment.now.since(absent) >= calm;
                reported.times += u64::from(reported.absent.take().is_some_and(is_back));
                reported.last = moment.now;
            }
            (Phase::Reported(_), None) => {
                self.clear(moment);
                self.end_if_due(moment, observation.total, about, reporter);
            }
        }
        if let Phase::Reported(reported) = &mut self.phase {
            reported.total = observation.total;
        }
    }

    fn begin_if_due(&mut self, moment: Moment, about: About<'_>, reporter: &Reporter) {
        let Phase::Held { since } = self.phase else { return };
        if moment.now.since(since) >= self.manner.patience {
            self.begin(moment, since, about, reporter);
        }
    }

    fn begin(&mut self, moment: Moment, since: Instant, about: About<'_>, reporter: &Reporter) {
        let begun = Event::at(self.manner.kind, moment.wall_of(since), about);
        reporter.push(begun.clone());
        self.damper.count(moment.now);
        let reported =
            Reported { begun, since, last: moment.now, absent: None, times: 1, total: 0 };
        self.phase = Phase::Reported(Box::new(reported));
    }

    /// Notes that the condition is absent now.
    fn clear(&mut self, moment: Moment) {
        if let Phase::Reported(reported) = &mut self.phase {
            let end = if self.manner.is_state { moment.now } else { reported.last };
            reported.absent.get_or_insert(end);
        }
    }

    fn end_if_due(&mut self, moment: Moment, total: u64, about: About<'_>, reporter: &Reporter) {
        let Phase::Reported(reported) = &self.phase else { return };
        let Some(absent) = reported.absent else { return };
        let damped = if self.damper.is_damped() { DAMPED_CALM } else { Duration::ZERO };
        if moment.now.since(absent) < self.manner.calm.max(damped) {
            return;
        }
        let ended = reported.end(moment, absent, total.saturating_sub(self.base));
        // What was measured is told as it is now.
        let ended = match about.measured.cloned() {
            Some(now) => Event { measured: Some(now), detail: about.detail.to_owned(), ..ended },
            None => ended,
        };
        reporter.push(Event { subject: about.subject.to_owned(), ..ended });
        self.phase = Phase::Absent;
        self.base = total;
    }

    /// Reports the end of a fault that is no state, since its counts are no longer read.
    pub(crate) fn finish(&mut self, moment: Moment, reporter: &Reporter) {
        let Phase::Reported(reported) = &self.phase else { return };
        if !self.manner.is_state {
            let count = reported.total.saturating_sub(self.base);
            reporter.push(reported.end(moment, reported.absent.unwrap_or(moment.now), count));
            self.phase = Phase::Absent;
        }
    }
}

impl Reported {
    fn end(&self, moment: Moment, absent: Instant, count: u64) -> Event {
        // The wall clock may have been set meanwhile.
        let duration_ns = Some(absent.since(self.since).as_nanos());
        let ended = self.begun.end(moment.wall_of(absent), count);
        Event { duration_ns, times: self.times, ..ended }
    }
}

impl Damper {
    fn count(&mut self, now: Instant) {
        if now.since(self.since) >= DAMPER_WINDOW {
            *self = Self { since: now, beginnings: 0 };
        }
        self.beginnings += 1;
    }

    fn is_damped(&self) -> bool {
        self.beginnings > BEGINNINGS_MAX
    }
}

/// A fault may begin this often in [`DAMPER_WINDOW`] before its end is told late.
const BEGINNINGS_MAX: u32 = 5;
const DAMPER_WINDOW: Duration = Duration::from_secs(60);
/// For how long the condition of a fault that came often must be absent.
const DAMPED_CALM: Duration = Duration::from_secs(10);
