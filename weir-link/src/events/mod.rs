//! The events of a running link for its operator, and faults, which have a beginning and an end.
//!
//! A kind of event is one line of the table below. `watch.rs` finds faults from counters, inside
//! the run loop; `fault.rs` gives each one beginning and one end; `log.rs` carries events out of
//! the loop without a lock, for a daemon that writes them. Invariant: each event that begins a
//! fault is followed by at most one that ends it, and both have its number.

pub(crate) mod fault;
pub mod feed;
mod log;
pub mod time;
pub(crate) mod watch;

#[cfg(test)]
mod tests;

use std::fmt::Write;

use serde::{Deserialize, Serialize};

pub use log::{EVENTS_MAX, EventLog, Limiter, Reporter, log, lost};
pub use time::rfc3339;
use weir_host::wait::realtime_ns;

/// Makes [`Kind`] and its table from a line for each kind: name, keyword, severity, role, sentence.
macro_rules! kinds {
    ($($name:ident $keyword:literal $severity:ident $role:expr, $sentence:literal;)+) => {
        /// The kind of an event. docs/events.md lists the kinds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Kind {
            $(#[doc = $sentence] #[serde(rename = $keyword)] $name,)+
        }

        /// All kinds, in the order of the table.
        pub const KINDS: &[Kind] = &[$(Kind::$name),+];

        impl Kind {
            fn row(self) -> Row {
                use Role::{Begins, Ends, Once};
                match self {
                    $(Self::$name => Row {
                        keyword: $keyword,
                        severity: Severity::$severity,
                        role: $role,
                        sentence: $sentence,
                    },)+
                }
            }
        }
    };
}

kinds! {
    PortDown "port-down" Warning Begins,
        "`{subject}` is down: it was set down, or has no carrier";
    PortUp "port-up" Notice Ends(Kind::PortDown),
        "`{subject}` is up again after {duration}; lost meanwhile: {frames}";
    PortGone "port-gone" Error Begins,
        "`{subject}` is gone; Weir waits for an interface of this name";
    PortBack "port-back" Notice Ends(Kind::PortGone),
        "`{subject}` is there again after {duration}; lost meanwhile: {frames}";
    PortRenamed "port-renamed" Notice Once,
        "`{detail}` is now called `{subject}`";
    PortTakenUp "port-taken-up" Warning Once,
        "`{subject}` was removed, moved or cut off, and is taken up again";
    MtuChanged "mtu-changed" Notice Once,
        "the MTU of `{subject}` is now {detail}";
    OverrunBegan "overrun-began" Warning Begins,
        "the receive ring of `{subject}` for {detail} is full, and frames are lost";
    OverrunEnded "overrun-ended" Notice Ends(Kind::OverrunBegan),
        "the receive ring of `{subject}` for {detail} has room again; lost in {duration}: {frames}";
    PoolExhausted "pool-exhausted" Warning Begins,
        "`{subject}` holds as many frames as `pool` allows, and further ones are lost";
    PoolAvailable "pool-available" Notice Ends(Kind::PoolExhausted),
        "the pool of `{subject}` has room again; lost in {duration}: {frames}";
    Behind "behind" Warning Begins,
        "`{subject}` gets more frames than the processor manages";
    CaughtUp "caught-up" Notice Ends(Kind::Behind),
        "`{subject}` gets no more frames than the processor manages, after {duration}";
    Stall "stall" Warning Begins,
        "nothing was forwarded between {subject} for {detail}: the process did not run";
    StallOver "stall-over" Notice Ends(Kind::Stall),
        "frames pass between {subject} again after {duration}; dropped as stale: {frames}";
    PortBusy "port-busy" Warning Begins,
        "`{subject}` takes no more frames to send";
    PortFree "port-free" Notice Ends(Kind::PortBusy),
        "`{subject}` takes frames to send again after {duration}; lost meanwhile: {frames}";
    FramesTooLong "frames-too-long" Warning Begins,
        "frames are too long for `{subject}`, and are lost";
    FramesFit "frames-fit" Notice Ends(Kind::FramesTooLong),
        "no more frames are too long for `{subject}`; lost in {duration}: {frames}";
    ClockStepped "clock-stepped" Notice Once,
        "the wall clock was set {detail}; shaping does not depend on it";
    WakeUpsLate "wake-ups-late" Warning Begins,
        "the system wakes the loop of {subject} late: {detail}";
    WakeUpsInTime "wake-ups-in-time" Notice Ends(Kind::WakeUpsLate),
        "the system wakes the loop of {subject} in time again, after {duration}";
    PolicyLoaded "policy-loaded" Info Once,
        "`{subject}` is shaped by {detail}";
    PrivilegeDropped "privilege-dropped" Info Once,
        "{subject} gave up its privileges: {detail}";
    CallRefused "call-refused" Warning Once,
        "the sandbox of `{subject}` refused a system call: {detail}";
    ForwarderDied "forwarder-died" Critical Begins,
        "the forwarder of `{subject}` died: {detail}";
    ForwarderStarted "forwarder-started" Notice Ends(Kind::ForwarderDied),
        "the forwarder of `{subject}` runs again after {duration}";
    FallbackOpened "fallback-opened" Warning Begins,
        "the kernel passes the frames of `{subject}` unshaped";
    FallbackClosed "fallback-closed" Notice Ends(Kind::FallbackOpened),
        "Weir shapes the frames of `{subject}` again; they passed unshaped for {duration}";
    ControlRefused "control-refused" Warning Once,
        "a request by {subject} was refused: {detail}";
    KeeperLost "keeper-lost" Error Begins,
        "the keeper of `{subject}` is gone: frames pass, but interfaces that vanish stay away";
    KeeperBack "keeper-back" Notice Ends(Kind::KeeperLost),
        "`{subject}` has a keeper again after {duration}";
    ForwarderAbsent "forwarder-absent" Critical Once,
        "no new forwarder of `{subject}` is started: {detail}";
    PageDied "page-died" Warning Begins,
        "the gateway of `{subject}`, which serves page and API, ended, and the link goes on: \
         {detail}";
    PageBack "page-back" Notice Ends(Kind::PageDied),
        "the gateway of `{subject}` is no longer missing after {duration}";
    RsvpDied "rsvp-died" Warning Begins,
        "the process of reservations of `{subject}` ended, and the link goes on with its classes: \
         {detail}";
    RsvpBack "rsvp-back" Notice Ends(Kind::RsvpDied),
        "the process of reservations of `{subject}` is no longer missing after {duration}";
    CircuitsDied "circuits-died" Warning Begins,
        "the process of circuits of `{subject}` ended, and the link goes on with its classes: \
         {detail}";
    CircuitsBack "circuits-back" Notice Ends(Kind::CircuitsDied),
        "the process of circuits of `{subject}` is no longer missing after {duration}";
    CircuitsUnshaped "circuits-unshaped" Warning Begins,
        "not every circuit of `{subject}` is shaped as it should be: {detail}";
    CircuitsShaped "circuits-shaped" Notice Ends(Kind::CircuitsUnshaped),
        "every circuit of `{subject}` is shaped as it should be again, after {duration}";
    ReservationAdmitted "reservation-admitted" Info Once,
        "`{subject}` admitted a reservation: {detail}";
    ReservationRefused "reservation-refused" Warning Once,
        "`{subject}` refused a reservation: {detail}";
    ReservationPreempted "reservation-preempted" Warning Once,
        "a reservation of `{subject}` lost its place: {detail}";
    ReservationReleased "reservation-released" Info Once,
        "a reservation of `{subject}` was released: {detail}";
    ReservationExpired "reservation-expired" Notice Once,
        "a reservation of `{subject}` expired: {detail}";
    HandedOver "handed-over" Notice Once,
        "{detail} forwards for `{subject}` from now on";
    Flushed "flushed" Notice Once,
        "a forwarder of `{subject}` ended; frames that it could not send any more: {count}";
    RestartRefused "restart-refused" Warning Once,
        "`{subject}` goes on as before: {detail}";
    PortsAwaited "ports-awaited" Notice Once,
        "`{subject}` waits for interfaces that do not exist yet: {detail}";
    RecordEnded "record-ended" Warning Once,
        "a record of `{subject}` ended before its time: {detail}";
    HungUp "hung-up" Notice Once,
        "`{subject}` reads its files anew because of a SIGHUP, as from a terminal that hangs up";
    RateChanged "rate-changed" Info Once,
        "`{subject}`: {detail}";
    PolicyChanged "policy-changed" Notice Once,
        "`{subject}` has other policies: {detail}";
    ChangeConfirmed "confirmed" Notice Once,
        "a change of `{subject}` stays: {detail}";
    RolledBack "rolled-back" Warning Once,
        "`{subject}` has its earlier policies again: {detail}";
    ReloadRefused "reload-refused" Warning Once,
        "`{subject}` goes on with the policies that it has: {detail}";
    AlarmBegan "alarm-began" Warning Begins,
        "alarm `{subject}`: {detail}";
    AlarmEnded "alarm-ended" Notice Ends(Kind::AlarmBegan),
        "alarm `{subject}` is over after {duration}: {detail}";
    AlarmFailed "alarm-failed" Error Once,
        "what alarm `{subject}` was to start failed: {detail}";
    EventsLost "events-lost" Warning Once,
        "more events came than could be taken; events lost: {count}";
    EventsLeftOut "events-left-out" Notice Once,
        "`{detail}` of {subject} came too often; events left out: {count}";
    LogGap "log-gap" Error Once,
        "lines are missing in {subject}, which could not be written ({detail}): {count}";
    LogFailed "log-failed" Error Begins,
        "the log of `{subject}` cannot be written, and lines are missing: {detail}";
    LogWritten "log-written" Notice Ends(Kind::LogFailed),
        "the log of `{subject}` is written again after {duration}";
}

/// A line of the table.
struct Row {
    keyword: &'static str,
    severity: Severity,
    role: Role,
    sentence: &'static str,
}

/// The relation of an event to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is none of a fault.
    Once,
    /// It begins a fault.
    Begins,
    /// It ends a fault that this kind began.
    Ends(Kind),
}

/// How bad an event is: the severities of syslog [rfc5424 §6.2.1] that Weir uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// No traffic is forwarded.
    Critical,
    /// A part does not work.
    Error,
    /// Frames are lost, or may be.
    Warning,
    /// Worth knowing: most often, a fault is over.
    Notice,
    /// Nothing needs attention.
    Info,
}

impl Severity {
    /// Returns its keyword, as syslog has it.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Info => "info",
        }
    }

    /// Returns its number in syslog.
    pub fn number(self) -> u8 {
        match self {
            Self::Critical => 2,
            Self::Error => 3,
            Self::Warning => 4,
            Self::Notice => 5,
            Self::Info => 6,
        }
    }
}

impl Kind {
    /// Returns its name, in lower case with hyphens.
    pub fn keyword(self) -> &'static str {
        self.row().keyword
    }

    /// Returns how bad it is.
    pub fn severity(self) -> Severity {
        self.row().severity
    }

    /// Returns what it is to a fault.
    pub fn role(self) -> Role {
        self.row().role
    }

    /// Returns its sentence; words in braces stand for the values of an event.
    pub fn sentence(self) -> &'static str {
        self.row().sentence
    }

    /// Returns the kind that ends a fault which this one begins.
    pub fn end(self) -> Option<Kind> {
        KINDS.iter().copied().find(|kind| kind.role() == Role::Ends(self))
    }
}

/// The subject of an event, with the details of its sentence.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The port, direction, alarm, ...
    pub subject: &'a str,
    /// The class, if it is about one.
    pub class: &'a str,
    /// The rest of its sentence.
    pub detail: &'a str,
    /// Of an alarm: what was measured, and the limit.
    pub measured: Option<&'a Measured>,
}

/// An event, or the beginning or end of a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The kind, of which severity and sentence follow.
    pub kind: Kind,
    /// When, in nanoseconds of CLOCK_REALTIME.
    pub at_ns: u64,
    /// The port, direction, alarm, ...
    pub subject: String,
    /// The class, if it is about one.
    pub class: String,
    /// The rest of its sentence.
    pub detail: String,
    /// The number of the fault that it begins or ends.
    pub fault: Option<u64>,
    /// At the end of a fault: when it began.
    pub since_ns: Option<u64>,
    /// At the end of a fault: how long it lasted.
    pub duration_ns: Option<u64>,
    /// Frames, events or lines lost.
    pub count: u64,
    /// How often the fault came back before this end; 1 if it did not.
    pub times: u64,
    /// Of an alarm: what was measured, and the limit.
    pub measured: Option<Measured>,
    /// At the end of a fault: it ends only because it is no longer watched.
    #[serde(default)]
    pub unseen: bool,
}

/// The measured value of an alarm, and its limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The value, with its unit.
    pub value: String,
    /// The limit, with its unit.
    pub limit: String,
}

impl Event {
    /// An event of this kind at `at_ns` of CLOCK_REALTIME.
    pub fn at(kind: Kind, at_ns: u64, about: About<'_>) -> Self {
        Self {
            kind,
            at_ns,
            subject: about.subject.to_owned(),
            class: about.class.to_owned(),
            detail: about.detail.to_owned(),
            fault: (kind.role() == Role::Begins).then(|| log::fault_number(at_ns)),
            duration_ns: None,
            count: 0,
            times: 1,
            measured: about.measured.cloned(),
            since_ns: None,
            unseen: false,
        }
    }

    /// An event of this kind now.
    pub fn now(kind: Kind, about: About<'_>) -> Self {
        Self::at(kind, realtime_ns(), about)
    }

    /// The event that ends, at `at_ns`, the fault which this one began.
    pub fn end(&self, at_ns: u64, count: u64) -> Self {
        let kind = self.kind.end().expect("each kind that begins a fault has one that ends it");
        Self {
            kind,
            at_ns,
            since_ns: Some(self.at_ns),
            duration_ns: Some(at_ns.saturating_sub(self.at_ns)),
            count,
            ..self.clone()
        }
    }

    /// The event that ends now the fault which this one began.
    pub fn end_now(&self) -> Self {
        self.end(realtime_ns(), 0)
    }

    /// The event that ends now the fault which this one began, as who watched it has ended.
    pub fn end_unseen(&self) -> Self {
        Self { unseen: true, ..self.end_now() }
    }

    /// Returns what happened, in a sentence.
    pub fn text(&self) -> String {
        if let (true, Role::Ends(kind)) = (self.unseen, self.kind.role()) {
            let begun = Self { kind, unseen: false, ..self.clone() }.text();
            return format!("no longer watched, as its forwarder has ended: {begun}");
        }
        let mut text = String::new();
        let mut rest = self.kind.sentence();
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').expect("a test fills in each sentence");
            text += before;
            text += &self.value(name);
            rest = after;
        }
        text += rest;
        if self.times > 1 {
            let _infallible = write!(text, " (it came {} times)", self.times);
        }
        text
    }

    fn value(&self, name: &str) -> String {
        match name {
            "subject" => self.subject.clone(),
            "detail" => self.detail.clone(),
            "count" => self.count.to_string(),
            "frames" if self.count == 0 => "none".to_owned(),
            "frames" if self.count == 1 => "1 frame".to_owned(),
            "frames" => format!("{} frames", self.count),
            "duration" => time::duration(self.duration_ns.unwrap_or_default()),
            _ => unreachable!("a test fills in each sentence"),
        }
    }

    /// Returns it as one line of JSON, without the line's end.
    pub fn json(&self) -> String {
        let line = Line {
            event: self.kind,
            time: rfc3339(self.at_ns),
            severity: self.kind.severity().keyword(),
            subject: &self.subject,
            class: &self.class,
            text: self.text(),
            fault: self.fault,
            since: self.since_ns.map(rfc3339),
            duration_s: self.duration_ns.map(|duration| duration as f64 / 1e9),
            count: self.count,
            times: self.times,
            value: self.measured.as_ref().map(|measured| measured.value.as_str()),
            limit: self.measured.as_ref().map(|measured| measured.limit.as_str()),
            unseen: self.unseen,
        };
        serde_json::to_string(&line).expect("a line has only text keys")
    }
}

/// An event as JSON; docs/events.md describes it.
#[derive(Serialize)]
struct Line<'a> {
    event: Kind,
    time: String,
    severity: &'static str,
    subject: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    class: &'a str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_s: Option<f64>,
    count: u64,
    times: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unseen: bool,
}
