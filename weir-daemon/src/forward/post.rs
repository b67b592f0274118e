//! The first thread of a forwarder: it listens to the keeper, and tells it what happens.

use super::door::{Door, Wish};
use super::policies::Policies;
use super::questions::Questions;
use super::{Prepared, tell};
use crate::events::write::Form;
use crate::keeper::messages::{Command, Report};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use weir_host::channel::Channel;
use weir_host::claim::ClaimPart;
use weir_host::error::SystemError;
use weir_host::sandbox::Denials;
use weir_host::signals::{Asked, Signals};
use weir_host::watch::{self, Bell};
use weir_link::alarm::Alarms;
use weir_link::authority::Courier;
use weir_link::change::history::Texts;
use weir_link::events::feed::Feed;
use weir_link::events::{self, About, EVENTS_MAX, Event, EventLog, Kind, Reporter};
use weir_link::status::Board;

/// See the module.
pub struct Post {
    keeper: Channel,
    /// Whether the keeper still listens.
    is_kept: bool,
    /// Whether the intake was opened last, or closed; `None` as long as it never was.
    intake: Option<bool>,
    /// Whether a loop has not followed that yet.
    is_intake_due: bool,
    /// The loss of the keeper, until another one took over.
    loss: Option<Event>,
    /// The name of the deployment.
    name: String,
    /// The process of the keeper; 0 while there is none.
    kept_by: Arc<AtomicU32>,
    policies: Arc<Policies>,
    questions: Arc<Questions>,
    signals: Signals,
    courier: Courier,
    boards: Vec<Arc<Board>>,
    bells: Vec<Arc<Bell>>,
    /// The claim of the interfaces, with the descriptors that hold it.
    claim: Vec<(ClaimPart, Vec<OwnedFd>)>,
    /// Channels and a descriptor of this process, for the next keeper.
    spare: Vec<OwnedFd>,
    /// The control socket.
    door: Door,
    /// What clients of it ask for.
    wishes: Receiver<Wish>,
    /// Those who wait for what the files contain.
    readers: Vec<Sender<Result<Texts, String>>>,
    /// Who waits for a restart.
    restarter: Option<Sender<Result<String, String>>>,
    /// Events for clients.
    feed: Arc<Feed>,
    listener: OwnedFd,
    log: EventLog,
    alarms: Alarms,
    reporter: Reporter,
    denials: Denials,
    /// Events that no keeper has heard yet.
    untold: VecDeque<Event>,
    /// Events that no keeper will hear: too many happened without one.
    forgotten: u64,
    /// How long a loop that ends sends what it holds.
    drain: Duration,
    /// The looks of each loop at the last sign of life.
    looks: Vec<u64>,
    beaten: Instant,
    interval: Duration,
}

impl Post {
    /// The post of a forwarder that is prepared.
    pub(super) fn new(
        prepared: Prepared,
        keeper: Channel,
        (door, wishes): (Door, Receiver<Wish>),
        (policies, questions): (Arc<Policies>, Arc<Questions>),
    ) -> Self {
        let interval = prepared.watchdog.map_or(BEAT_MAX, |time| time / 8);
        prepared.courier.hurry();
        Self {
            keeper,
            is_kept: true,
            intake: None,
            is_intake_due: false,
            loss: None,
            name: prepared.name,
            kept_by: prepared.kept_by,
            policies,
            questions,
            signals: prepared.signals,
            courier: prepared.courier,
            looks: vec![0; prepared.boards.len()],
            boards: prepared.boards,
            bells: prepared.bells,
            claim: Vec::new(),
            spare: Vec::new(),
            door,
            wishes,
            readers: Vec::new(),
            restarter: None,
            feed: prepared.feed,
            listener: prepared.listener,
            log: prepared.log,
            alarms: prepared.alarms,
            reporter: prepared.reporter,
            denials: Denials::default(),
            untold: VecDeque::new(),
            forgotten: 0,
            drain: prepared.drain,
            beaten: Instant::now(),
            interval: interval.min(BEAT_MAX),
        }
    }

    /// Returns how long a loop that ends sends what it holds.
    pub fn drain(&self) -> Duration {
        self.drain
    }

    /// Waits for up to a beat and does what the keeper or a signal asks for; returns false if that
    /// is to end.
    pub fn stand(&mut self, bell: &Bell) -> bool {
        self.wait(bell);
        for asked in self.signals.take() {
            match asked {
                Asked::Stop(_) => return false,
                Asked::Mark => self.mark(),
                Asked::HangUp => {}
            }
        }
        while let Ok(wish) = self.wishes.try_recv() {
            self.grant(wish);
        }
        while let Some((command, descriptors)) = self.hear() {
            if !self.obey(command, descriptors) {
                return false;
            }
        }
        self.policies.look();
        if !self.is_kept && self.intake == Some(false) {
            // It was closed for a forwarder that has not begun, and now never will.
            self.set_intake(true);
        }
        self.follow_intake(Duration::ZERO);
        self.beat();
        // One that never took frames is of no use without a keeper.
        self.is_kept || self.intake.is_some()
    }

    fn wait(&self, bell: &Bell) {
        let own = [bell.as_fd(), self.signals.as_fd()];
        let kept = self.is_kept.then(|| self.keeper.as_fd());
        let watched: Vec<BorrowedFd<'_>> = own.into_iter().chain(kept).collect();
        let interval = if self.is_intake_due { INTAKE_INTERVAL } else { self.interval };
        if watch::readable(&watched, interval).is_err() {
            // Never without a pause.
            std::thread::sleep(interval);
        }
        bell.quiet();
    }

    /// Returns what the keeper says, if it says anything.
    fn hear(&mut self) -> Option<(Command, Vec<OwnedFd>)> {
        if !self.is_kept {
            return None;
        }
        match self.keeper.receive(Duration::ZERO) {
            Ok(heard) => heard,
            Err(error) => {
                if error.cause.kind() != ErrorKind::InvalidData {
                    self.lose_keeper();
                }
                None
            }
        }
    }

    /// The keeper ended without a word: whatever happened to it, traffic goes on.
    fn lose_keeper(&mut self) {
        self.is_kept = false;
        self.kept_by.store(0, Ordering::Relaxed);
        // They are told that nothing came.
        self.readers.clear();
        if let Some(reply) = self.restarter.take() {
            let why = "its keeper ended before the new process took over; the link goes on";
            let _gone = reply.send(Err(why.to_owned()));
        }
        self.policies.set_leaving(false);
        let about = About { subject: &self.name, ..About::default() };
        let loss = Event::now(Kind::KeeperLost, about);
        say(&loss);
        self.keep_event(loss.clone());
        self.loss = Some(loss);
    }

    /// Does what the keeper says; returns false if that is to end.
    fn obey(&mut self, command: Command, descriptors: Vec<OwnedFd>) -> bool {
        match command {
            Command::Intake(is_open) => self.set_intake(is_open),
            Command::Mark => self.mark(),
            Command::Drain(drain) => {
                self.drain = drain;
                return false;
            }
            Command::Hold { is_first, part } => {
                if is_first {
                    self.claim.clear();
                }
                self.claim.push((part, descriptors));
            }
            Command::Spare { keeper } => {
                self.kept_by.store(keeper, Ordering::Relaxed);
                self.spare = descriptors;
            }
            Command::Restarted(outcome) => {
                self.policies.set_leaving(outcome.is_ok());
                if outcome.is_ok() {
                    // Before the client knows, who may ask again at once.
                    self.door.finish();
                }
                if let Some(reply) = self.restarter.take() {
                    // The client may have gone.
                    let _gone = reply.send(outcome);
                }
            }
            Command::Texts(read) => self.hear_texts(read),
            Command::Reservations => {
                let channel = descriptors.into_iter().next().map(Channel::from);
                channel.into_iter().for_each(|channel| self.questions.take(channel));
            }
            // The keeper has written it down.
            Command::Told(event) => self.feed.push(*event),
            Command::Plan(_) => {}
        }
        true
    }

    /// The keeper read the files: for clients who asked, or else because of a signal.
    fn hear_texts(&mut self, read: Result<Texts, String>) {
        if !self.readers.is_empty() {
            for reader in self.readers.drain(..) {
                // The client may have gone.
                let _gone = reader.send(read.clone());
            }
            return;
        }
        let policies = Arc::clone(&self.policies);
        let work = move || policies.reload(read);
        if let Err(error) = std::thread::Builder::new().name("change".to_owned()).spawn(work) {
            tell(&self.reporter, Kind::ReloadRefused, &self.name, &error.to_string());
        }
    }

    /// Does what a client of the control socket asks for.
    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::Restart(reply) if !self.is_kept => {
                let why = "its keeper is gone; `weir up` with its deployment takes the link over";
                let _gone = reply.send(Err(why.to_owned()));
            }
            Wish::Restart(reply) if self.restarter.is_some() => {
                let _gone = reply.send(Err("a restart is on its way already".to_owned()));
            }
            Wish::Restart(reply) => {
                self.restarter = Some(reply);
                self.policies.set_leaving(true);
                self.tell(&Report::Restart);
            }
            Wish::ReadAnew(reply) if !self.is_kept => {
                let why = "its keeper is gone, which reads its files; name the deployment";
                let _gone = reply.send(Err(why.to_owned()));
            }
            Wish::ReadAnew(reply) => {
                self.readers.push(reply);
                self.tell(&Report::ReadAnew);
            }
            Wish::Tell(report, told) => {
                self.tell(&report);
                // Nobody may wait.
                let _unheard = told.send(());
            }
            Wish::Alarms(mut alarms) => {
                std::mem::swap(&mut self.alarms, &mut *alarms);
                self.alarms.go_on_from(*alarms);
            }
            Wish::HandOver(reply) => {
                // A client that is gone by now closes the channels, which is a keeper's end.
                let _gone = reply.send(self.hand_over());
            }
        }
    }

    /// Makes the next keeper's channels those to the keeper; returns its ends, authority first.
    fn hand_over(&mut self) -> Result<Vec<OwnedFd>, String> {
        if self.is_kept {
            let keeper = self.kept_by.load(Ordering::Relaxed);
            return Err(format!("its keeper, process {keeper}, runs"));
        }
        let spare: Result<[OwnedFd; SPARE], _> = std::mem::take(&mut self.spare).try_into();
        let Ok([authority, commands, own_authority, own_commands, process]) = spare else {
            return Err("it has no channels for another keeper; stop it and start anew".to_owned());
        };
        self.courier.reconnect(Channel::from(own_authority));
        self.keeper = Channel::from(own_commands);
        self.is_kept = true;
        for (part, copies) in &self.claim {
            let copies: Vec<_> = copies.iter().map(AsFd::as_fd).collect();
            let _gone = self.keeper.send(&Report::Held(part.clone()), &copies);
        }
        let history = Report::History(Box::new(self.policies.history()));
        let _gone = self.keeper.send(&history, &[]);
        let kept = Report::Kept(std::process::id());
        let descriptors: Vec<_> =
            [process.as_fd()].into_iter().chain([self.listener.as_fd()]).collect();
        let _gone = self.keeper.send(&kept, &descriptors);
        if let Some(loss) = self.loss.take() {
            self.keep_event(loss.end_now());
        }
        Ok(vec![authority, commands])
    }

    /// Has the loops open or close the intake of every port.
    fn set_intake(&mut self, is_open: bool) {
        self.intake = Some(is_open);
        self.is_intake_due = true;
        for (board, bell) in self.boards.iter().zip(&self.bells) {
            board.intake.want(is_open);
            bell.ring();
        }
        self.follow_intake(INTAKE_PATIENCE);
    }

    /// Says once that every loop has opened or closed its intake; waits up to `patience` for each.
    ///
    /// A loop may pause for seconds, on a machine that is busy with something else, so this looks
    /// again until it has followed. The keeper replaces a forwarder of which one never does.
    fn follow_intake(&mut self, patience: Duration) {
        let Some(is_open) = self.intake.filter(|_| self.is_intake_due) else { return };
        let followed = |board: &Arc<Board>| board.intake.wait(is_open, patience).is_some();
        if !self.boards.iter().all(followed) {
            return;
        }
        self.is_intake_due = false;
        if is_open && let Err(error) = self.door.open() {
            // Traffic matters more than its figures.
            self.refuse_clients(&error);
        }
        self.tell(&Report::Intake(is_open));
    }

    fn refuse_clients(&self, error: &SystemError) {
        tell(&self.reporter, Kind::ControlRefused, "every client", &error.to_string());
    }

    /// Serves no more clients.
    pub fn close_door(&mut self) {
        self.door = Door::Gone;
    }

    fn mark(&self) {
        self.boards.iter().for_each(|board| board.request_mark());
    }

    /// Gives a sign of life, if every loop gave one.
    fn beat(&mut self) {
        if self.beaten.elapsed() < self.interval {
            return;
        }
        for denial in self.denials.look() {
            tell(&self.reporter, Kind::CallRefused, &self.name, &denial.to_string());
        }
        self.tell_events();
        let looks: Vec<u64> = self.boards.iter().map(|board| board.looks()).collect();
        if looks.iter().zip(&self.looks).all(|(now, before)| now != before) {
            (self.looks, self.beaten) = (looks, Instant::now());
            self.tell(&Report::Beat);
        }
    }

    /// Tells the keeper what happened. Without one, the latest events wait for the next.
    fn tell_events(&mut self) {
        self.alarms.look();
        let mut new = Vec::new();
        self.log.take(|event| new.push(event));
        self.pass_on(new);
    }

    /// As the last thing: also what was left out of late.
    pub fn tell_last_events(&mut self) {
        self.tell_events();
        let mut last = Vec::new();
        self.log.take_last(|event| last.push(event));
        self.pass_on(last);
    }

    fn pass_on(&mut self, new: Vec<Event>) {
        new.into_iter().for_each(|event| self.keep_event(event));
        if self.is_kept && self.forgotten > 0 {
            let count = std::mem::take(&mut self.forgotten);
            self.untold.push_front(events::lost(count));
        }
        while self.is_kept
            && let Some(event) = self.untold.pop_front()
        {
            let report = Report::Event(Box::new(event.clone()));
            if self.keeper.send(&report, &[]).is_err() {
                // It is slow, or gone: then the next one hears it.
                self.untold.push_front(event);
                break;
            }
        }
    }

    fn keep_event(&mut self, event: Event) {
        self.feed.push(event.clone());
        if self.untold.len() >= EVENTS_MAX
            && let Some(oldest) = self.untold.pop_front()
        {
            // One that says how many were lost goes on being counted.
            self.forgotten += if oldest.kind == Kind::EventsLost { oldest.count } else { 1 };
        }
        self.untold.push_back(event);
    }

    /// Tells the keeper something; one that died does not hear it.
    pub fn tell(&self, report: &Report) {
        let _unheard: Result<(), SystemError> = self.keeper.send(report, &[]);
    }
}

/// Writes an event to standard error, which this process has from its keeper, unless that would
/// wait for a reader.
fn say(event: &Event) {
    let out = std::io::stderr();
    let mut watched = [PollFd::new(&out, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // What is writable takes a line, if it is a pipe (pipe(7)) or a terminal.
    if poll(&mut watched, Some(&at_once)).is_ok_and(|ready| ready > 0) {
        let _gone = out.lock().write_all(Form::Text.line(event).as_bytes());
    }
}

/// The descriptors for the next keeper.
const SPARE: usize = 5;
/// The longest time between two signs of life.
const BEAT_MAX: Duration = Duration::from_millis(200);
/// How long each loop is waited for at once to open or close its intake: most take far less.
const INTAKE_PATIENCE: Duration = Duration::from_millis(100);
/// How often a loop is looked at that has not done so by then.
const INTAKE_INTERVAL: Duration = Duration::from_millis(10);
