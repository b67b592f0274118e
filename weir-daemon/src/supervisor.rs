//! The life of a running link, decided without I/O and without a clock: which forwarder takes
//! frames, what follows when one dies, hangs or is to be replaced, and how the link stops.
//!
//! The shell (`up/keeper.rs`) calls [`Supervisor::handle`] for everything that happens, and carries
//! out each action that [`Supervisor::next_action`] returns. Some are questions: the shell passes
//! the answer at once, and what follows from it comes before the actions that still wait.
//! Invariant: at most one forwarder takes frames, and the fallback is closed while one does.

mod forwarder;
pub mod interface;
mod restarts;
pub mod settings;
mod table;

use forwarder::{Forwarder, Overdue, Phase};
use interface::{
    Action, Companion, CompanionEvent, Edition, Event, Fault, Order, Outcome, Pid, Progress,
    Question, Said,
};
use settings::Settings;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use table::{Row, Table};
use weir_host::signals::Asked;
use weir_link::events::Kind;
use weir_policy::deployment::{OnExit, Restart};
use weir_policy::render;

/// The decisions of the keeper of one link.
#[derive(Debug)]
pub struct Supervisor {
    state: State,
    /// Every forwarder that has not ended, the oldest first. Those that `state` does not name are
    /// about to end.
    forwarders: Vec<Forwarder>,
    /// The settings of the deployment in force.
    settings: Settings,
    /// The settings before the files were read anew, until a forwarder of the new ones forwards.
    former: Option<Settings>,
    table: Table,
    /// The forwarder that asked for a restart when others had not ended.
    asker: Option<Pid>,
    /// Whether the fallback is to be open.
    is_fallback_open: bool,
    /// The faults that were told and are not over.
    faults: Vec<Fault>,
    /// Whether a forwarder has forwarded, of this keeper or of the one before.
    has_forwarded: bool,
    /// Whether the start message has been printed.
    is_announced: bool,
    actions: VecDeque<Action>,
}

/// The state of a link, by the forwarders that it has.
#[derive(Clone, PartialEq, Eq, Debug)]
enum State {
    /// A forwarder is being started; beside one that takes frames, if one does.
    Launching { beside: Option<Pid> },
    /// This forwarder reads its policies or opens its ports, and nothing takes frames.
    Starting(Pid),
    /// This forwarder takes frames, or is about to; or it was told to abort and has not ended.
    Serving(Pid),
    /// The first is as in `Serving`. The second one reads its policies, opens its ports, or waits
    /// for the first to close its intake or to end.
    HandingOver { from: Pid, to: Pid },
    /// As `Serving`: the forwarder asked for a restart. The deployment is read anew, and another
    /// one of it is started.
    Restarting(Pid),
    /// This forwarder, which was taken over, sends what it holds and ends; then one is started.
    AwaitingEnd(Pid),
    /// A forwarder ended for this reason. One is started in its place unless interfaces are
    /// missing.
    LookingForPorts { why: String, were_missing: bool },
    /// There is no forwarder; one is started once no interface is missing.
    AwaitingPorts,
    /// There is no forwarder, and none is started.
    Absent,
    /// The forwarders end; at once, if this second signal came.
    Stopping { since: Instant, second: Option<i32> },
    /// The link has ended.
    Finished(Outcome),
}

impl State {
    /// Returns whether the shell is asked something that decides what the state is.
    fn awaits_answer(&self) -> bool {
        matches!(self, Self::Launching { .. } | Self::Restarting(_) | Self::LookingForPorts { .. })
    }

    /// Returns the forwarders that it names.
    fn named(&self) -> Vec<Pid> {
        match self {
            Self::Starting(pid)
            | Self::Serving(pid)
            | Self::Restarting(pid)
            | Self::AwaitingEnd(pid) => vec![*pid],
            Self::HandingOver { from, to } => vec![*from, *to],
            Self::Launching { beside } => Vec::from_iter(*beside),
            Self::LookingForPorts { .. }
            | Self::AwaitingPorts
            | Self::Absent
            | Self::Stopping { .. }
            | Self::Finished(_) => Vec::new(),
        }
    }

    /// Returns the forwarder that takes frames or last did, if there is one.
    fn server(&self) -> Option<Pid> {
        match self {
            Self::Serving(pid) | Self::Restarting(pid) => Some(*pid),
            Self::HandingOver { from, .. } => Some(*from),
            Self::Launching { beside } => *beside,
            _ => None,
        }
    }
}

impl Supervisor {
    /// A link with these settings, which has this forwarder if its former keeper has died.
    pub fn begin(now: Instant, settings: Settings, orphan: Option<Pid>) -> Self {
        let mut link = Self {
            state: State::Launching { beside: orphan },
            forwarders: Vec::new(),
            settings,
            former: None,
            table: Table::new(),
            asker: None,
            is_fallback_open: false,
            faults: Vec::new(),
            has_forwarded: false,
            is_announced: false,
            actions: VecDeque::new(),
        };
        if let Some(pid) = orphan {
            let orphan = Forwarder::orphan(pid, now, settings.limits);
            link.forwarders.push(orphan);
            link.go_on(pid);
        }
        match orphan {
            Some(pid) if settings.has_taps => {
                // In between the host's frames pass as before Weir.
                link.drain(now, pid);
                link.state = State::AwaitingEnd(pid);
            }
            _ => link.launch(orphan),
        }
        link.check();
        link
    }

    /// Something happened.
    ///
    /// # Panics
    /// When a question was not answered before, the link has ended, or an event names a forwarder
    /// that has ended or never was.
    pub fn handle(&mut self, now: Instant, event: Event) {
        let is_answer = matches!(
            event,
            Event::Started { .. }
                | Event::NotStarted(_)
                | Event::PortsOpening(..)
                | Event::PortsMissing(_)
                | Event::FallbackSet(..)
                | Event::Companion(..)
        );
        assert!(is_answer || !self.awaits_answer(), "{:?}: {event:?}", self.state);
        assert!(self.outcome().is_none(), "{:?}: {event:?}", self.state);
        let later = std::mem::take(&mut self.actions);
        self.dispatch(now, event);
        self.actions.extend(later);
        self.check();
    }

    /// Returns what to do next.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns how the link has ended, if it has: then no event may follow.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Finished(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Returns whether a forwarder may begin or end soon, and has to be looked at often.
    pub fn is_in_motion(&self) -> bool {
        self.forwarders.iter().any(|one| one.phase != Phase::Forwarding)
    }

    /// Returns whether nothing but the shell is there to answer clients.
    pub fn is_without_forwarder(&self) -> bool {
        self.forwarders.is_empty() && !self.is_stopping()
    }

    /// Returns whether a forwarder is started by itself once interfaces are back.
    pub fn awaits_ports(&self) -> bool {
        matches!(self.state, State::LookingForPorts { .. } | State::AwaitingPorts)
    }

    fn dispatch(&mut self, now: Instant, event: Event) {
        match event {
            Event::Started { pid, has_read } => self.on_started(now, pid, has_read),
            Event::NotStarted(why) => self.on_not_started(why),
            Event::Exited(pid, how) => self.on_exit(now, pid, how),
            Event::Said(pid, said) => self.on_said(now, pid, said),
            Event::Garbled(pid, why) => {
                self.forwarder(pid).fail(why);
                self.push(Action::Kill(pid));
            }
            Event::PortsOpening(pid, Ok(anew)) => self.on_ports_opening(now, pid, anew),
            Event::PortsOpening(pid, Err(why)) => {
                self.forwarder(pid).refuse(why);
                self.forwarder(pid).enter(now, Phase::Reading);
                self.push(Action::Kill(pid));
            }
            Event::PortsMissing(missing) => self.on_ports(now, &missing),
            Event::FallbackSet(is_open, set) => self.on_fallback_set(is_open, set),
            Event::Signal(Asked::HangUp) => self.hang_up(),
            Event::Signal(Asked::Mark) => self.mark(),
            Event::Signal(Asked::Stop(signal)) => self.on_stop_asked(now, signal),
            Event::Poll => self.poll(),
            Event::Tick { heard } => self.on_tick(now, heard),
            Event::Companion(companion, event) => self.on_companion(now, companion, event),
            Event::Happened(kind, detail) => {
                let carrier = self.carrier();
                self.push(Action::Journal(kind, detail, carrier));
            }
        }
    }
}

/// The start of forwarders.
impl Supervisor {
    fn launch(&mut self, beside: Option<Pid>) {
        self.state = State::Launching { beside };
        self.ask(Question::StartForwarder(Edition::InForce));
    }

    fn on_started(&mut self, now: Instant, pid: Pid, has_read: bool) {
        let edition = match self.state {
            State::Restarting(_) => Edition::Anew,
            _ => Edition::InForce,
        };
        self.forwarders.push(Forwarder::new(pid, edition, now, self.settings.limits));
        let from = self.state.server();
        self.state = from.map_or(State::Starting(pid), |from| State::HandingOver { from, to: pid });
        if has_read {
            self.on_read(now, pid, Ok(()));
        }
    }

    /// A forwarder has read its policies. With errors in them it ends.
    fn on_read(&mut self, now: Instant, pid: Pid, read: Result<(), String>) {
        let forwarder = self.forwarder(pid);
        if forwarder.phase != Phase::Reading || forwarder.is_refused {
            return;
        }
        match read {
            Ok(()) => {
                forwarder.enter(now, Phase::Sound);
                self.ask(Question::OpenPorts(pid));
            }
            Err(why) => forwarder.refuse(why),
        }
    }

    /// A forwarder opens its ports; these settings, which were read anew, are in force.
    fn on_ports_opening(&mut self, now: Instant, pid: Pid, anew: Option<Settings>) {
        if let Some(settings) = anew {
            if self.is_fallback_open && settings.on_exit == OnExit::Closed {
                self.fall_back(false);
            }
            self.former = Some(std::mem::replace(&mut self.settings, settings));
        }
        let limits = self.settings.limits;
        let forwarder = self.forwarder(pid);
        forwarder.limits = limits;
        forwarder.enter(now, Phase::Opening);
    }

    fn on_not_started(&mut self, why: String) {
        match self.state {
            State::Restarting(asker) => self.refuse_restart(asker, why),
            _ => self.finish(Outcome::Failed(why)),
        }
    }

    fn on_said(&mut self, now: Instant, pid: Pid, said: Said) {
        self.forwarder(pid).beat(now);
        match said {
            Said::Read(read) => self.on_read(now, pid, read),
            Said::Ready { warnings, notes } => {
                warnings.into_iter().for_each(|text| self.push(Action::Warn(text)));
                if !self.has_forwarded {
                    // They are the same after each restart.
                    notes.into_iter().for_each(|text| self.push(Action::Note(text)));
                }
                self.on_ready(now, pid);
            }
            Said::Intake(is_open) => self.on_intake(now, pid, is_open),
            Said::Restart => self.on_restart_asked(pid),
            Said::Failed(why) => self.forwarder(pid).failure = Some(why),
            Said::Ended(flushed) => {
                // That of a link that stops is in its last status.
                if !self.is_stopping() || self.forwarders.len() > 1 {
                    self.push(Action::JournalFlushed(flushed));
                }
            }
            Said::Other => {}
        }
    }

    /// Lets a forwarder take frames, once nothing else does.
    fn on_ready(&mut self, now: Instant, pid: Pid) {
        if self.phase(pid) != Phase::Opening {
            return;
        }
        let Some(from) = self.state.server() else {
            self.open(now, pid);
            self.state = State::Serving(pid);
            return;
        };
        self.forwarder(pid).enter(now, Phase::Ready);
        // One that aborts takes no frame any more, and its end is told.
        if self.forwarder(from).takes_frames() {
            self.send(from, Order::Intake(false));
            self.forwarder(from).enter(now, Phase::Closing);
        }
    }

    /// Opens the intake of a forwarder; nothing else carries traffic from now on.
    fn open(&mut self, now: Instant, pid: Pid) {
        self.fall_back(false);
        self.send(pid, Order::Intake(true));
        self.forwarder(pid).enter(now, Phase::Taking);
    }

    fn on_intake(&mut self, now: Instant, pid: Pid, is_open: bool) {
        match (is_open, self.phase(pid)) {
            (true, Phase::Taking) => self.on_forwarding(now, pid),
            (false, Phase::Closing) => self.on_closed(now, pid),
            _ => {}
        }
    }

    /// A forwarder takes no more frames: the next one does, unless it has died meanwhile.
    fn on_closed(&mut self, now: Instant, pid: Pid) {
        match self.state {
            State::HandingOver { from, to } if self.phase(to) == Phase::Ready => {
                let said = format!("process {to} forwards from now on");
                // First, so that it does not open its intake again if the keeper dies here.
                self.send(from, Order::Restarted(Ok(said)));
                self.drain(now, from);
                self.open(now, to);
                self.state = State::Serving(to);
            }
            _ => self.open(now, pid),
        }
    }

    fn on_forwarding(&mut self, now: Instant, pid: Pid) {
        self.forwarder(pid).enter(now, Phase::Forwarding);
        self.announce(pid);
        if self.has_forwarded {
            self.journal(Kind::HandedOver, format!("process {pid}"));
        }
        self.go_on(pid);
        self.end_fault(Fault::Death);
        // One that opened its intake again is of the former files.
        if self.state == State::Serving(pid) {
            self.former = None;
            self.push(Action::DropFormerFiles);
        }
    }

    /// This forwarder carries the traffic, and the companions are to fit the deployment.
    fn go_on(&mut self, pid: Pid) {
        if !self.has_forwarded {
            self.push(Action::Service(Progress::Ready));
        }
        self.ask(Question::Follow(Companion::Gateway));
        self.ask(Question::Follow(Companion::Reservations));
        self.ask(Question::Follow(Companion::Circuits));
        self.push(Action::Introduce(pid));
        self.has_forwarded = true;
    }
}

/// A client asks for a restart.
impl Supervisor {
    fn on_restart_asked(&mut self, pid: Pid) {
        match self.state {
            State::Stopping { .. } => {
                self.refuse_restart(pid, "the link is stopping".to_owned());
            }
            State::Serving(server) if server == pid && self.forwarders.len() == 1 => {
                self.state = State::Restarting(pid);
                self.ask(Question::StartForwarder(Edition::Anew));
            }
            // The others end within `drain` and a little more.
            _ => self.asker = Some(pid),
        }
    }

    /// Does what a forwarder asked for when others had not ended.
    fn restart_if_due(&mut self) {
        if let [only] = self.forwarders.as_slice()
            && let Some(asker) = self.asker.take_if(|asker| *asker == only.pid)
        {
            self.on_restart_asked(asker);
        }
    }

    fn refuse_restart(&mut self, asker: Pid, why: String) {
        if self.state == State::Restarting(asker) {
            self.state = State::Serving(asker);
        }
        // Who asked gets all of it.
        self.journal(Kind::RestartRefused, render::headline(&why));
        self.send(asker, Order::Restarted(Err(why)));
    }

    /// A forwarder of files that were read anew did not come to forward: what was in force before
    /// stays so.
    fn return_to_former(&mut self) {
        if let Some(former) = self.former.take() {
            self.settings = former;
            self.push(Action::ReturnToFormerFiles);
        }
    }
}

/// The end of forwarders.
impl Supervisor {
    fn on_exit(&mut self, now: Instant, pid: Pid, how: String) {
        let place = self.place(pid);
        let dead = self.forwarders.remove(place);
        let why = dead.failure.clone().unwrap_or(how);
        if self.asker == Some(pid) {
            self.asker = None;
        }
        match self.state {
            State::AwaitingEnd(_) => self.launch(None),
            // It was to end; of a link that stops, all are.
            _ if dead.phase == Phase::Draining => {}
            _ if !self.has_forwarded => self.finish(Outcome::Failed(why)),
            State::HandingOver { from, to } if to == pid => {
                self.state = State::Serving(from);
                self.return_to_former();
                let text = self.journal_refused(&dead, why);
                self.asker = None;
                self.send(from, Order::Restarted(Err(text)));
                self.announce(from);
            }
            State::HandingOver { to, .. } => {
                self.mark_death(pid, &why);
                self.succeed(now, to, why);
            }
            State::Starting(named) if named == pid && dead.is_of_unread_files() => {
                // The one that it was to follow has died before: what was in force stays so.
                self.journal_refused(&dead, why.clone());
                self.replace(why);
            }
            State::Starting(named) | State::Serving(named) if named == pid => {
                self.mark_death(pid, &why);
                self.replace(why);
            }
            // The one that it was to follow has died before.
            _ => drop(self.journal_refused(&dead, why)),
        }
    }

    /// Writes that a forwarder ended, for this reason, before it took over; returns that as text.
    fn journal_refused(&mut self, dead: &Forwarder, why: String) -> String {
        let text = match dead.is_refused {
            true => why,
            false => format!("the new forwarder (process {}) ended: {why}", dead.pid),
        };
        self.journal(Kind::RestartRefused, render::headline(&text));
        text
    }

    /// Traffic was lost because of the end of a forwarder, or still is.
    fn mark_death(&mut self, pid: Pid, why: &str) {
        self.fall_back(true);
        self.begin_fault(Fault::Death, format!("process {pid}: {}", render::headline(why)));
        self.push(Action::GiveUpTrial("the forwarder died before it was confirmed"));
    }

    /// The forwarder that was to take over does so without the other one.
    fn succeed(&mut self, now: Instant, to: Pid, why: String) {
        match self.phase(to) {
            Phase::Reading | Phase::Sound | Phase::Opening => self.state = State::Starting(to),
            Phase::Ready => {
                self.open(now, to);
                self.state = State::Serving(to);
            }
            _ => self.replace(why),
        }
    }

    /// Starts a forwarder in place of one that ended for this reason, if that may be.
    fn replace(&mut self, why: String) {
        if self.settings.restart == Restart::Never {
            return self.give_up(&why, "the deployment says `restart = \"never\"`");
        }
        self.look_for_ports(why, false);
    }

    fn look_for_ports(&mut self, why: String, were_missing: bool) {
        self.state = State::LookingForPorts { why, were_missing };
        self.ask(Question::LookForPorts);
    }

    fn on_ports(&mut self, now: Instant, missing: &[String]) {
        let State::LookingForPorts { why, were_missing } = self.state.clone() else { return };
        if !missing.is_empty() {
            self.state = State::AwaitingPorts;
            if !were_missing {
                self.journal(Kind::PortsAwaited, missing.join(", "));
            }
            return;
        }
        match self.table.forwarder.again(now) {
            Ok(_at_once) => self.launch(None),
            Err(refusal) => self.give_up(&why, &refusal),
        }
    }

    fn give_up(&mut self, why: &str, refusal: &str) {
        self.journal(Kind::ForwarderAbsent, refusal.to_owned());
        if self.settings.on_exit == OnExit::Closed {
            let text = format!("the forwarder ended: {why}; none is started again: {refusal}");
            return self.finish(Outcome::Failed(text));
        }
        self.state = State::Absent;
        self.push(Action::Service(Progress::Absent));
    }

    fn drain(&mut self, now: Instant, pid: Pid) {
        let drain = self.forwarder(pid).limits.drain;
        self.send(pid, Order::Drain(drain));
        self.forwarder(pid).enter(now, Phase::Draining);
    }

    fn end_overdue(&mut self, now: Instant, pid: Pid, overdue: Overdue) {
        match overdue {
            Overdue::Kill(why) => {
                why.into_iter().for_each(|why| self.forwarder(pid).fail(why));
                self.push(Action::Kill(pid));
            }
            Overdue::Abort(why) => {
                self.forwarder(pid).fail(why);
                self.push(Action::Abort(pid));
                self.forwarder(pid).enter(now, Phase::Aborting);
            }
        }
    }
}

/// The fallback, and faults.
impl Supervisor {
    /// Lets the kernel carry the traffic, if the deployment wants that, or stops it.
    fn fall_back(&mut self, is_open: bool) {
        if self.settings.on_exit == OnExit::Open {
            self.is_fallback_open = is_open;
            self.ask(Question::Fallback(is_open));
        }
    }

    fn on_fallback_set(&mut self, is_open: bool, set: Result<(), String>) {
        match (set, is_open) {
            (Err(why), _) => self.push(Action::Warn(why)),
            (Ok(()), true) => self.begin_fault(Fault::Fallback, String::new()),
            (Ok(()), false) => self.end_fault(Fault::Fallback),
        }
    }

    /// A fault begins, unless it has begun.
    fn begin_fault(&mut self, fault: Fault, detail: String) {
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
            self.push(Action::Begin(fault, detail));
        }
    }

    /// A fault is over, if it has begun.
    fn end_fault(&mut self, fault: Fault) {
        if let Some(place) = self.faults.iter().position(|begun| *begun == fault) {
            self.faults.remove(place);
            self.push(Action::End(fault));
        }
    }
}

/// Signals to the keeper.
impl Supervisor {
    fn hang_up(&mut self) {
        self.journal(Kind::HungUp, String::new());
        if let Some(carrier) = self.carrier() {
            self.send(carrier, Order::Texts);
        }
    }

    fn mark(&mut self) {
        let all: Vec<_> = self.forwarders.iter().map(|one| one.pid).collect();
        all.into_iter().for_each(|pid| self.send(pid, Order::Mark));
    }

    fn on_stop_asked(&mut self, now: Instant, signal: i32) {
        match &mut self.state {
            State::Stopping { since, second } => {
                if now.duration_since(*since) >= SAME_STOP {
                    *second = Some(signal);
                }
            }
            _ => self.stop(now),
        }
    }

    /// Lets every forwarder send what it holds and end.
    fn stop(&mut self, now: Instant) {
        self.state = State::Stopping { since: now, second: None };
        let ends = self.table.rows().map(Row::stop);
        self.actions.extend(ends);
        self.push(Action::Service(Progress::Stopping));
        let all: Vec<_> = self.forwarders.iter().map(|one| one.pid).collect();
        for pid in all {
            if self.forwarder(pid).is_without_ports() {
                self.push(Action::Kill(pid));
                self.forwarder(pid).enter(now, Phase::Draining);
            } else {
                self.drain(now, pid);
            }
        }
    }
}

/// The passage of time.
impl Supervisor {
    fn poll(&mut self) {
        if self.state == State::AwaitingPorts {
            self.look_for_ports("interfaces were missing".to_owned(), true);
        }
    }

    fn on_tick(&mut self, now: Instant, heard: Instant) {
        self.restart_if_due();
        let overdue = |one: &Forwarder| Some((one.pid, one.overdue(heard)?));
        let overdue: Vec<_> = self.forwarders.iter().filter_map(overdue).collect();
        overdue.into_iter().for_each(|(pid, overdue)| self.end_overdue(now, pid, overdue));
        let starts = self.table.rows().map(|row| row.on_tick(now, heard));
        self.actions.extend(starts.into_iter().flatten());
        if let State::Stopping { second, .. } = self.state {
            self.end_stop(second);
        }
    }

    /// Ends a link that stops, if its forwarders have ended or are not waited for any more.
    fn end_stop(&mut self, second: Option<i32>) {
        if self.forwarders.is_empty() {
            if self.has_forwarded {
                self.push(Action::PrintLast);
            }
            self.finish(Outcome::Stopped);
        } else if let Some(signal) = second {
            self.finish(Outcome::Signal(signal));
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        self.state = State::Finished(outcome);
    }
}

/// The gateway, reservations and circuits.
impl Supervisor {
    fn on_companion(&mut self, now: Instant, companion: Companion, event: CompanionEvent) {
        if !self.is_stopping() {
            let carrier = self.carrier();
            let action = self.table.row(companion).handle(now, event, carrier);
            self.actions.extend(action);
        }
    }
}

/// Queries and actions that every part above uses.
impl Supervisor {
    fn place(&self, pid: Pid) -> usize {
        let place = self.forwarders.iter().position(|one| one.pid == pid);
        place.unwrap_or_else(|| panic!("process {pid} is no forwarder that runs"))
    }

    fn forwarder(&mut self, pid: Pid) -> &mut Forwarder {
        let place = self.place(pid);
        &mut self.forwarders[place]
    }

    fn phase(&self, pid: Pid) -> Phase {
        self.forwarders[self.place(pid)].phase
    }

    /// Returns the forwarder that takes frames, is about to, or is about to stop doing so.
    pub fn carrier(&self) -> Option<Pid> {
        self.forwarders.iter().find(|one| one.takes_frames()).map(|one| one.pid)
    }

    /// Returns whether the shell was asked something that decides what follows.
    fn awaits_answer(&self) -> bool {
        let is_asked = self.forwarders.iter().any(|one| one.phase == Phase::Sound);
        is_asked || self.state.awaits_answer()
    }

    fn is_stopping(&self) -> bool {
        matches!(self.state, State::Stopping { .. })
    }

    fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    fn ask(&mut self, question: Question) {
        self.push(Action::Ask(question));
    }

    fn send(&mut self, pid: Pid, order: Order) {
        self.push(Action::Send(pid, order));
    }

    fn journal(&mut self, kind: Kind, detail: String) {
        self.push(Action::Journal(kind, detail, None));
    }

    fn announce(&mut self, pid: Pid) {
        if !std::mem::replace(&mut self.is_announced, true) {
            self.push(Action::Announce(pid));
        }
    }

    fn check(&self) {
        if self.outcome().is_some() {
            return;
        }
        let carriers = self.forwarders.iter().filter(|one| one.takes_frames()).count();
        assert!(carriers <= 1, "two forwarders take frames: {self:?}");
        assert!(carriers == 0 || !self.is_fallback_open, "the fallback is open beside: {self:?}");
        let is_server = self.carrier().is_none_or(|one| self.state.server() == Some(one));
        assert!(is_server, "another one takes frames than the state says: {self:?}");
        let is_there = |named: &Pid| self.forwarders.iter().any(|one| one.pid == *named);
        assert!(self.state.named().iter().all(is_there), "it names one that ended: {self:?}");
    }
}

/// Signals within this time are one request: no person has waited for the stop by then.
const SAME_STOP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
