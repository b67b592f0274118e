//! Replays a script: injects its packets, makes its calls, and compares what is sent.
//!
//! Time is simulated: it goes from one event of the script or timer of the endpoint to the next.
//! Invariants: time never goes back, and everything that the endpoint sends enters the stream at
//! the time at which it is sent.

mod calls;
mod clocks;
mod pending;

use crate::compare::{Stream, difference, text};
use crate::connection::{Connection, Settings};
use crate::defaults::Effect;
use crate::expression::{Trouble, Variables};
use crate::report::Verdict;
use crate::script::{Action, Event, FlagSet, Packet, Script, Time};
use clocks::Clocks;
use pending::Pending;

/// Why a replay ends early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Something is not as the script says.
    Differs(String),
    /// The model does not have this.
    Elsewhere(String),
}

/// A replay under way.
struct Driver {
    /// Microseconds since the start.
    now: i64,
    settings: Settings,
    tolerance: i64,
    is_strict: bool,
    connection: Option<Connection>,
    is_listening: bool,
    /// Whether the application closed its socket.
    is_closed: bool,
    stream: Stream,
    clocks: Clocks,
    pending: Vec<Pending>,
    variables: Variables,
}

/// When an event may happen.
#[derive(Clone, Copy)]
struct Window {
    from: i64,
    to: i64,
    tolerance: i64,
}

/// Replays a script. Scripts do not say which ticks the kernel of their authors had: what does not
/// pass with ticks of 1 ms may do so with 4 ms.
pub fn replay(script: &Script) -> Verdict {
    let fine = replay_with(script, false);
    match fine {
        Verdict::Failed { .. } if replay_with(script, true) == Verdict::Passed => {
            Verdict::PassedCoarsely
        }
        _ => fine,
    }
}

fn replay_with(script: &Script, is_coarse: bool) -> Verdict {
    let mut driver = Driver::new(script);
    driver.settings.is_coarse = is_coarse;
    for event in &script.events {
        if let Err(stop) = driver.event(event) {
            return stop.verdict(event.line);
        }
    }
    let last = script.events.last().map_or(0, |event| event.line);
    driver.finish().map_or_else(|stop| stop.verdict(last), |()| Verdict::Passed)
}

impl Stop {
    fn verdict(self, line: usize) -> Verdict {
        match self {
            Stop::Differs(difference) => Verdict::Failed { line, difference },
            Stop::Elsewhere(reason) => Verdict::NotApplicable(format!("{reason} (line {line})")),
        }
    }
}

impl Driver {
    fn new(script: &Script) -> Self {
        let tolerance = script.option("tolerance_usecs").and_then(|value| value.parse().ok());
        let settings = Settings {
            is_strict: script.option("strict_segments").is_some(),
            initial: initial(script),
            ..Settings::default()
        };
        Self {
            now: 0,
            is_strict: settings.is_strict,
            settings,
            tolerance: tolerance.unwrap_or(TOLERANCE),
            connection: None,
            is_listening: false,
            is_closed: false,
            stream: Stream::default(),
            clocks: Clocks::default(),
            pending: Vec::new(),
            variables: Variables::default(),
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), Stop> {
        let window = self.window(event.time);
        let end = event.until.map(|end| self.end(event, end));
        if let Action::Expect(packet) = &event.action {
            return self.expect(packet, window);
        }
        let (now, late) = (self.now, window.to + window.tolerance);
        if now > late {
            let (is, due) = (seconds(now), seconds(window.to));
            return Err(Stop::Differs(format!("it is {is} before this event, which is at {due}")));
        }
        self.run_until(window.from)?;
        match &event.action {
            Action::Inject(packet) => self.inject(packet),
            Action::Call(call) => self.call(call, end),
            Action::Shell(command) => self.shell(command),
            Action::Code(code) => self.code(code),
            Action::Foreign(protocol) => Err(Stop::Elsewhere(protocol.clone())),
            Action::Expect(_) => Ok(()),
        }?;
        self.drain()?;
        self.settle()
    }

    /// Returns when an event may happen. The tolerance grows with the wait, as packetdrill's does.
    fn window(&self, time: Time) -> Window {
        let now = self.now;
        let (from, to) = match time {
            Time::Absolute(at) => (at, at),
            Time::Relative(after) => (now + after, now + after),
            Time::AbsoluteRange(from, to) => (from, to),
            Time::RelativeRange(from, to) => (now + from, now + to),
            Time::Any => return Window { from: now, to: now + FOREVER, tolerance: 0 },
            Time::Untimed => (now, now),
        };
        let tolerance = self.tolerance.max((from - now) / TOLERANCE_SHARE);
        Window { from, to, tolerance }
    }

    /// Returns the end of a call that blocks, since the start of the script.
    fn end(&self, event: &Event, end: i64) -> i64 {
        if matches!(event.time, Time::Absolute(_)) { end } else { self.now + end }
    }

    fn expect(&mut self, expected: &Packet, window: Window) -> Result<(), Stop> {
        let late = window.to + window.tolerance;
        while !self.is_there(expected) && self.step(late)? {}
        let Some(sent) = self.stream.take(expected, self.is_strict) else {
            let by = seconds(late);
            return Err(Stop::Differs(format!(
                "expected {}, nothing sent by {by}",
                text(expected)
            )));
        };
        if let Some(what) = difference(expected, &sent, self.clocks.are_known()) {
            let (expected, got, at) = (text(expected), text(&sent.packet), seconds(sent.at));
            return Err(Stop::Differs(format!("{what}; expected {expected}, got {got} at {at}")));
        }
        if sent.at < window.from - window.tolerance || sent.at > late {
            let (from, to, at) = (seconds(window.from), seconds(window.to), seconds(sent.at));
            let what =
                format!("time: expected {} at {from} to {to}, got it at {at}", text(expected));
            return Err(Stop::Differs(what));
        }
        self.clocks.learn(expected, &sent.packet);
        self.now = self.now.max(sent.at);
        self.settle()
    }

    /// Returns whether enough was sent to compare it with `expected`.
    fn is_there(&self, expected: &Packet) -> bool {
        let one_is_enough = self.is_strict || expected.length == 0;
        self.stream.covers(expected) || one_is_enough && self.stream.first().is_some()
    }

    fn inject(&mut self, packet: &Packet) -> Result<(), Stop> {
        let is_new = packet.flags.syn && !packet.flags.ack && self.is_listening;
        let is_free = self.connection.as_ref().is_none_or(|open| self.is_closed || open.is_over());
        if is_new && is_free {
            self.connection = Some(Connection::listen(&self.settings));
            self.is_closed = false;
        }
        let packet = self.clocks.translate(packet);
        let now = self.now;
        match &mut self.connection {
            Some(connection) if !connection.is_gone() => connection.receive(now, &packet),
            _ if packet.flags.rst => {}
            _ => self.stream.push(now, reset(&packet), 0),
        }
        Ok(())
    }

    fn shell(&mut self, command: &str) -> Result<(), Stop> {
        for effect in self.settings.sysctls.shell(command) {
            match effect {
                Effect::FairQueue => self.settings.is_paced = true,
                Effect::NoOffload => self.settings.is_strict = true,
                Effect::DropAll | Effect::Unknown(_) | Effect::None => {}
            }
        }
        if let Some(connection) = &mut self.connection {
            connection.change(&self.settings);
        }
        Ok(())
    }

    fn code(&mut self, code: &str) -> Result<(), Stop> {
        let (connection, now) = (&self.connection, self.now);
        let field =
            |name: &str| connection.as_ref().and_then(|connection| connection.field(name, now));
        self.variables.run(code, &field).map_err(|trouble| match trouble {
            Trouble::False(what) => Stop::Differs(format!("assertion {what}")),
            Trouble::Unknown(name) => Stop::Elsewhere(format!("the field {name} of tcp_info")),
            Trouble::Syntax(what) => Stop::Elsewhere(format!("the code `{what}`")),
        })
    }

    /// Goes to the next timer, if it is due by `late`; returns whether it was.
    fn step(&mut self, late: i64) -> Result<bool, Stop> {
        let Some(connection) = &mut self.connection else { return Ok(false) };
        let Some(wake) = connection.next_wake().filter(|wake| *wake <= late) else {
            return Ok(false);
        };
        self.now = self.now.max(wake);
        connection.wake(self.now);
        self.drain()?;
        Ok(true)
    }

    fn run_until(&mut self, time: i64) -> Result<(), Stop> {
        for _ in 0..STEPS_MAX {
            if !self.step(time)? {
                self.now = self.now.max(time);
                return Ok(());
            }
            self.settle()?;
        }
        Err(Stop::Differs(format!("more than {STEPS_MAX} timers by {}", seconds(time))))
    }

    /// Takes what the endpoint sends now.
    fn drain(&mut self) -> Result<(), Stop> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        for _ in 0..STEPS_MAX {
            let Some((packet, segment)) = connection.emit(self.now) else { return Ok(()) };
            self.stream.push(self.now, packet, segment);
        }
        Err(Stop::Differs(format!("more than {STEPS_MAX} packets at {}", seconds(self.now))))
    }

    /// Waits for the calls that still block.
    fn finish(&mut self) -> Result<(), Stop> {
        let last = self.pending.iter().map(|call| call.end).max();
        last.map_or(Ok(()), |end| self.run_until(end + self.tolerance + 1))
    }
}

/// Returns the endpoint's first sequence number: that of the first SYN which the script expects.
fn initial(script: &Script) -> u32 {
    let syn = script.events.iter().find_map(|event| match &event.action {
        Action::Expect(packet) if packet.flags.syn => Some(packet.seq),
        _ => None,
    });
    syn.unwrap_or_default()
}

/// Returns how a host answers a packet that belongs to no connection (`tcp_v4_send_reset`).
fn reset(packet: &Packet) -> Packet {
    let flags = FlagSet { rst: true, ack: packet.ack.is_none(), ..FlagSet::default() };
    let taken = packet.length + u32::from(packet.flags.syn) + u32::from(packet.flags.fin);
    let ack = packet.ack.is_none().then_some(packet.seq.wrapping_add(taken));
    let seq = packet.ack.unwrap_or_default();
    Packet { flags, seq, ack, options: Some(Vec::new()), ..Packet::default() }
}

/// Returns a time as text.
fn seconds(micros: i64) -> String {
    format!("{:.6} s", micros as f64 / 1e6)
}

/// How far times may be off, in microseconds: packetdrill's default.
const TOLERANCE: i64 = 4000;

/// Times may be off by an eighth of the wait.
const TOLERANCE_SHARE: i64 = 8;

/// How long an event without a time is waited for.
const FOREVER: i64 = 600_000_000;

/// How many timers may fire, or packets be sent, without the script going on.
const STEPS_MAX: usize = 100_000;
