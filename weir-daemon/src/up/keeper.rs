//! The keeper: the process that has the privileges, and sees to it that a forwarder runs.
//!
//! It reads no packet and no request of a client. One thread waits for signals, for what its
//! children say, and for their ends. What follows [`Supervisor`] decides: here is what it cannot do
//! itself, I/O and the clock.

use super::absence;
use super::api;
use super::circuits::Circuits;
use super::console::{self, Console, Start};
use super::gateway::Gateway;
use super::journal::Journal;
use super::reading::{self, Reading};
use super::rsvp::Reservations;
use super::running::{REPORTS_MAX, Received, Running};
use crate::events::write::PRINT_PATIENCE;
use crate::keeper::found::Found;
use crate::keeper::messages::{Command, Opening, Plan, Report};
use crate::keeper::service::Service;
use crate::supervisor::Supervisor;
use crate::supervisor::interface::{
    Action, Companion, CompanionEvent, Edition, Event, Fault, Order, Outcome, Pid, Progress,
    Question, Said,
};
use crate::supervisor::settings::Settings;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_control::listen::Bound;
use weir_host::claim::Claim;
use weir_host::error::SystemError;
use weir_host::process;
use weir_host::signals::Signals;
use weir_host::wait::realtime_ns;
use weir_host::watch;
use weir_link::authority::Files as AuthorityFiles;
use weir_link::change::history::Texts;
use weir_link::deploy;
use weir_link::events::{self, EVENTS_MAX, Kind};
use weir_link::port::PortConfig;
use weir_link::status::Status;
use weir_policy::deployment::{Deployment, OnExit};

/// A keeper with a sound deployment, before it starts forwarders.
pub struct Keeper<'a> {
    /// The deployment, without its policies.
    pub deployment: Deployment,
    /// The texts and the history for each forwarder.
    pub plan: Plan,
    /// The ports of all bridges, in the order of their numbers.
    pub ports: Vec<PortConfig>,
    /// The file to read at a restart.
    pub path: PathBuf,
    /// Checks the files of an API.
    pub check_api: api::Check,
    /// Held as long as the keeper or a forwarder lives.
    pub claim: Claim,
    /// A forwarder of it whose keeper died.
    pub orphan: Option<Running>,
    /// The forwarder that has read its policies, until it is the first that opens its ports.
    pub reader: Option<Running>,
    /// The control socket, which each forwarder listens on in turn.
    pub socket: ControlSocket,
    /// The process that serves its page and its API, if there are any.
    pub gateway: Gateway,
    /// The reservations on it, if it takes any.
    pub reservations: Reservations,
    /// The circuits on it, if some come and go.
    pub circuits: Circuits,
    /// Signals to the keeper.
    pub signals: Signals,
    /// Where its warnings and notes are printed.
    pub console: &'a dyn Console,
    /// Where events are written.
    pub journal: Journal,
    /// The service manager that is notified of the progress.
    pub service: Service,
}

/// The control socket; its name goes when this is dropped.
pub struct ControlSocket {
    /// Where clients find it.
    pub path: PathBuf,
    /// Each forwarder gets a copy of this.
    pub listener: UnixListener,
    /// Its file, which goes with it.
    file: Bound,
}

/// How the link ended.
pub enum End {
    /// By a signal, after all forwarders had drained.
    Stopped,
    /// At once, by a second signal.
    Signal(i32),
}

impl Keeper<'_> {
    /// Runs forwarders until a stop is requested.
    ///
    /// # Errors
    /// When the first one cannot start, or a later one not any more; the text says why.
    pub fn run(mut self) -> Result<End, String> {
        self.console.wait_at_most(PRINT_PATIENCE);
        let orphan = self.orphan.take();
        let pid = orphan.as_ref().map(Running::pid);
        let now = Instant::now();
        let mut shell = Shell {
            supervisor: Supervisor::begin(now, Settings::of(&self.deployment), pid),
            keeper: self,
            forwarders: orphan.into_iter().collect(),
            polled: now,
            last: None,
            death: None,
            passing: None,
            missing: [None, None, None],
            unshaped: None,
            log_fault: None,
            log_told: None,
            unread: VecDeque::new(),
            before: None,
            next: None,
        };
        let outcome = shell.run();
        for forwarder in shell.forwarders.iter_mut().chain(&mut shell.keeper.reader) {
            // Only after an error, or a second signal, are there any.
            forwarder.process.kill();
            forwarder.process.wait();
        }
        match outcome.map_err(|error| error.to_string())? {
            Outcome::Stopped => Ok(End::Stopped),
            Outcome::Signal(signal) => Ok(End::Signal(signal)),
            Outcome::Failed(why) => Err(why),
        }
    }
}

/// A keeper at work.
struct Shell<'a> {
    keeper: Keeper<'a>,
    supervisor: Supervisor,
    /// The forwarders that run, the oldest first.
    forwarders: Vec<Running>,
    /// When the interfaces were polled last.
    polled: Instant,
    last: Option<Status>,
    /// The death of a forwarder, until another one forwards.
    death: Option<events::Event>,
    /// The opening of the fallback, while it is open.
    passing: Option<events::Event>,
    /// The deaths of companions, in the order of their kinds, until another one runs.
    missing: [Option<events::Event>; 3],
    /// That circuits are not shaped as they should be, while they are not.
    unshaped: Option<events::Event>,
    /// The failure of the log, while it cannot be written, and the forwarder whose clients know.
    log_fault: Option<events::Event>,
    log_told: Option<Pid>,
    /// Events that clients have not read yet, since no forwarder carried traffic; the latest
    /// [`EVENTS_MAX`].
    unread: VecDeque<events::Event>,
    /// The deployment before, while a forwarder of files that were read anew begins.
    before: Option<Files>,
    /// The deployment that was read anew, until it is in force.
    next: Option<Next>,
}

/// A deployment that was read anew, and whose policies a forwarder reads.
struct Next {
    reader: Pid,
    reading: Reading,
    /// Whether the classes that joined the link fit these policies, and stay.
    keeps_joined: bool,
}

/// A deployment as it was read, with what follows from it.
struct Files {
    deployment: Deployment,
    plan: Plan,
    ports: Vec<PortConfig>,
}

impl Shell<'_> {
    /// Waits for what happens and does what follows, until the link has ended.
    fn run(&mut self) -> Result<Outcome, SystemError> {
        let mut flow = self.carry_out();
        loop {
            if let ControlFlow::Break(outcome) = flow {
                return Ok(outcome);
            }
            self.wait()?;
            flow = self.turn(Instant::now());
        }
    }

    /// Waits until there is something to do.
    fn wait(&self) -> Result<(), SystemError> {
        let mut watched = vec![self.keeper.signals.as_fd()];
        watched.extend(self.forwarders.iter().flat_map(Running::descriptors));
        watched.extend(self.keeper.gateway.descriptors());
        watched.extend(self.keeper.reservations.descriptors());
        watched.extend(self.keeper.circuits.descriptors());
        if self.forwarders.is_empty() {
            watched.push(self.keeper.socket.listener.as_fd());
        }
        let is_hurried = self.supervisor.is_in_motion();
        let patience = if is_hurried { HURRY_INTERVAL } else { LOOK_INTERVAL };
        let beat = self.keeper.service.interval().unwrap_or(patience);
        watch::readable(&watched, patience.min(beat)).map(drop)
    }

    /// Collects events; every forwarder's channel is read after `heard`.
    fn turn(&mut self, heard: Instant) -> ControlFlow<Outcome> {
        for asked in self.keeper.signals.take() {
            self.handle(Event::Signal(asked))?;
        }
        for index in 0..self.forwarders.len() {
            if let Some(why) = self.forwarders[index].serve() {
                self.handle(Event::Garbled(self.forwarders[index].pid(), why))?;
            }
            self.listen(index)?;
        }
        self.serve_companions()?;
        self.reap()?;
        if self.supervisor.is_without_forwarder() {
            let awaits_ports = self.supervisor.awaits_ports();
            absence::answer(&self.keeper.socket.listener, awaits_ports);
        }
        let now = Instant::now();
        self.keeper.service.beat(now);
        if now.duration_since(self.polled) >= LOOK_INTERVAL {
            self.polled = now;
            self.poll()?;
        }
        self.handle(Event::Tick { heard })?;
        self.report_unread();
        ControlFlow::Continue(())
    }

    /// Lets clients of the forwarder read what happened while there was none.
    fn report_unread(&mut self) {
        let Some(pid) = self.supervisor.carrier().filter(|_| !self.unread.is_empty()) else {
            return;
        };
        for event in std::mem::take(&mut self.unread) {
            self.forwarder(pid).send(&Command::Reported(Box::new(event)));
        }
    }

    fn begin(&mut self, fault: Fault, detail: &str) {
        let (kind, begun) = match fault {
            Fault::Death => (Kind::ForwarderDied, &mut self.death),
            Fault::Fallback => (Kind::FallbackOpened, &mut self.passing),
            Fault::Missing(companion) => {
                let kind = match companion {
                    Companion::Gateway => Kind::PageDied,
                    Companion::Reservations => Kind::RsvpDied,
                    Companion::Circuits => Kind::CircuitsDied,
                };
                (kind, &mut self.missing[companion as usize])
            }
        };
        let event = self.keeper.journal.begin(kind, detail, begun);
        self.keep_unread(event);
    }

    fn end(&mut self, fault: Fault) {
        let begun = match fault {
            Fault::Death => &mut self.death,
            Fault::Fallback => &mut self.passing,
            Fault::Missing(companion) => &mut self.missing[companion as usize],
        };
        if let Some(event) = self.keeper.journal.end(begun) {
            self.keep_unread(event);
        }
    }

    /// Reports once that circuits are not shaped as they should be, and that all are again.
    fn watch_circuits(&mut self, trouble: Option<String>) {
        let event = match trouble {
            Some(why) => {
                let begun = &mut self.unshaped;
                Some(self.keeper.journal.begin(Kind::CircuitsUnshaped, &why, begun))
            }
            None => self.keeper.journal.end(&mut self.unshaped),
        };
        event.into_iter().for_each(|event| self.keep_unread(event));
    }

    /// Reports once that the log cannot be written, and that it can again; each new forwarder, for
    /// its clients, too.
    fn watch_log(&mut self) {
        match (self.keeper.journal.log_failure(), self.log_fault.is_some()) {
            (Some(why), false) => {
                self.log_fault = Some(self.keeper.journal.report(Kind::LogFailed, &why));
            }
            (None, true) => {
                self.log_told = None;
                if let Some(event) = self.keeper.journal.end(&mut self.log_fault) {
                    self.keep_unread(event);
                }
            }
            _ => {}
        }
        let carrier = self.supervisor.carrier();
        if let Some(event) = self.log_fault.clone().filter(|_| carrier != self.log_told) {
            self.log_told = carrier;
            self.keep_unread(event);
        }
    }

    fn keep_unread(&mut self, event: events::Event) {
        if self.unread.len() >= EVENTS_MAX {
            self.unread.pop_front();
        }
        self.unread.push_back(event);
    }

    /// Passes events to the supervisor, and carries out its actions.
    fn handle(&mut self, event: Event) -> ControlFlow<Outcome> {
        self.supervisor.handle(Instant::now(), event);
        self.carry_out()
    }

    fn carry_out(&mut self) -> ControlFlow<Outcome> {
        while let Some(action) = self.supervisor.next_action() {
            self.act(action);
        }
        match self.supervisor.outcome() {
            Some(outcome) => ControlFlow::Break(outcome.clone()),
            None => ControlFlow::Continue(()),
        }
    }

    /// Listens to what a forwarder says.
    fn listen(&mut self, index: usize) -> ControlFlow<Outcome> {
        // One that never ceases must not keep others, and signals, from being handled.
        for _ in 0..REPORTS_MAX {
            let event = match self.forwarders[index].receive() {
                Received::Nothing => break,
                Received::Garbled(why) => Event::Garbled(self.forwarders[index].pid(), why),
                Received::Report(report) => {
                    Event::Said(self.forwarders[index].pid(), self.receive(index, report))
                }
            };
            self.handle(event)?;
        }
        ControlFlow::Continue(())
    }

    /// Takes what the keeper itself keeps of a report; returns what the supervisor needs of it.
    fn receive(&mut self, index: usize, report: Report) -> Said {
        match report {
            Report::Read(found) => return Said::Read(self.judge(index, &found)),
            Report::Ready { warnings, notes } => return Said::Ready { warnings, notes },
            Report::Intake(is_open) => return Said::Intake(is_open),
            Report::Restart => return Said::Restart,
            Report::Failed(why) => return Said::Failed(why),
            Report::Ended(status) => {
                let flushed = flushed(&status);
                self.last = Some(*status);
                return Said::Ended(flushed);
            }
            Report::Event(event) => {
                self.forwarders[index].note(&event);
                self.keeper.journal.write(&event);
            }
            Report::ReadAnew => self.give_texts(index),
            Report::Changed(entry) => {
                self.keeper.plan.history.push(*entry);
            }
            Report::Joined(joined, entry) => {
                self.keeper.plan.history.push_joined(&joined, *entry);
            }
            Report::Confirmed => drop(self.keeper.plan.history.confirm()),
            // Only a keeper that takes over is told the last three, before it begins.
            Report::Beat | Report::Held(_) | Report::History(_) | Report::Takeover(_) => {}
        }
        Said::Other
    }

    /// Returns the errors that a forwarder found in its files, if there are any.
    fn judge(&mut self, index: usize, found: &Found) -> Result<(), String> {
        let pid = self.forwarders[index].pid();
        if let Some(next) = self.next.as_mut().filter(|next| next.reader == pid) {
            next.keeps_joined = !found.leaves_joined;
        }
        match found.errors {
            0 => Ok(()),
            _ => Err(found.describe(&self.keeper.path.display().to_string())),
        }
    }

    /// Gives the companions what they ask for.
    fn serve_companions(&mut self) -> ControlFlow<Outcome> {
        let died =
            |companion, (pid, why)| Event::Companion(companion, CompanionEvent::Exited(pid, why));
        let gateway = self.keeper.gateway.serve();
        if gateway.is_alive {
            self.handle(Event::Companion(Companion::Gateway, CompanionEvent::Alive))?;
        }
        if let Some(how) = gateway.died {
            self.handle(died(Companion::Gateway, how))?;
        }
        let news = self.keeper.reservations.serve();
        if news.is_alive {
            self.handle(Event::Companion(Companion::Reservations, CompanionEvent::Alive))?;
        }
        for (kind, detail) in news.happened {
            self.handle(Event::Happened(kind, detail))?;
        }
        if let Some(how) = news.died {
            self.handle(died(Companion::Reservations, how))?;
        }
        let circuits = self.keeper.circuits.serve();
        if circuits.is_alive {
            self.handle(Event::Companion(Companion::Circuits, CompanionEvent::Alive))?;
        }
        if let Some(trouble) = circuits.trouble {
            self.watch_circuits(trouble);
        }
        if let Some(how) = circuits.died {
            self.handle(died(Companion::Circuits, how))?;
        }
        ControlFlow::Continue(())
    }

    /// Sees to the forwarders that have ended.
    fn reap(&mut self) -> ControlFlow<Outcome> {
        let mut index = 0;
        while index < self.forwarders.len() {
            let Some(how) = self.forwarders[index].process.ended() else {
                index += 1;
                continue;
            };
            // Its last words.
            for _ in 0..LAST_LISTENS {
                self.listen(index)?;
            }
            let mut dead = self.forwarders.remove(index);
            self.next.take_if(|next| next.reader == dead.pid());
            dead.take_ends().for_each(|end| self.keeper.journal.write(&end));
            self.handle(Event::Exited(dead.pid(), how))?;
        }
        ControlFlow::Continue(())
    }

    /// Does what is due now and then.
    fn poll(&mut self) -> ControlFlow<Outcome> {
        self.keeper.journal.write_failures();
        self.watch_log();
        self.keeper.circuits.look();
        self.handle(Event::Poll)?;
        let claim = &mut self.keeper.claim;
        if claim.refresh() {
            // One that cannot hold it will be replaced by a keeper's next restart.
            self.forwarders.iter().for_each(|one| drop(one.give_claim(claim)));
        }
        let notes = claim.take_notes();
        notes.iter().for_each(|note| self.keeper.console.report("warning", note));
        ControlFlow::Continue(())
    }
}

/// The actions of the supervisor, and its questions.
impl Shell<'_> {
    fn act(&mut self, action: Action) {
        let Keeper { deployment, plan, gateway, journal, console, service, .. } = &mut self.keeper;
        match action {
            Action::Ask(question) => {
                let answer = self.answer(question);
                self.supervisor.handle(Instant::now(), answer);
            }
            Action::Stop(companion) => self.stop(companion),
            Action::EndHung(companion, why) => self.end_hung(companion, why),
            Action::Send(pid, order) => self.send(pid, order),
            Action::Kill(pid) => self.forwarder(pid).process.kill(),
            Action::Abort(pid) => self.forwarder(pid).process.abort(),
            Action::ReturnToFormerFiles => self.return_to_former_files(),
            Action::DropFormerFiles => self.before = None,
            Action::GiveUpTrial(why) => {
                if plan.history.give_up_trial(realtime_ns(), why) {
                    let event = journal.report(Kind::RolledBack, why);
                    self.keep_unread(event);
                }
            }
            Action::Introduce(pid) => {
                self.keeper.reservations.introduce(self.forwarder(pid));
                self.keeper.circuits.introduce(self.forwarder(pid));
            }
            Action::Journal(kind, detail, reader) => {
                let event = journal.report(kind, &detail);
                match reader {
                    Some(pid) => self.forwarder(pid).send(&Command::Reported(Box::new(event))),
                    None => self.keep_unread(event),
                }
            }
            Action::JournalFlushed(frames) => {
                let event = journal.count(Kind::Flushed, frames);
                self.keep_unread(event);
            }
            Action::Begin(fault, detail) => self.begin(fault, &detail),
            Action::End(fault) => self.end(fault),
            Action::Warn(text) => console.report("warning", &text),
            Action::Note(text) => console.report("note", &text),
            Action::Announce(pid) => self.announce(pid),
            Action::AnnounceGateway => gateway.report_address(*console),
            Action::PrintLast => {
                // Nothing else waits now.
                console.wait_at_most(LAST_PATIENCE);
                console.end(&self.last.take().unwrap_or_default());
            }
            Action::Service(Progress::Ready) => {
                service.ready(&console::joined(deployment));
            }
            Action::Service(Progress::Absent) => {
                service.status("no forwarder: the kernel carries the traffic, unshaped");
            }
            Action::Service(Progress::Stopping) => service.stopping(),
        }
    }

    fn stop(&mut self, companion: Companion) {
        match companion {
            Companion::Gateway => self.keeper.gateway.stop(),
            Companion::Reservations => self.keeper.reservations.stop(),
            Companion::Circuits => self.keeper.circuits.stop(),
        }
    }

    fn end_hung(&mut self, companion: Companion, why: String) {
        match companion {
            Companion::Gateway => self.keeper.gateway.end_hung(why),
            Companion::Reservations => self.keeper.reservations.end_hung(why),
            Companion::Circuits => self.keeper.circuits.end_hung(why),
        }
    }

    fn answer(&mut self, question: Question) -> Event {
        let circuits = &self.keeper.deployment.circuits;
        if question == Question::Follow(Companion::Circuits) && circuits.is_none() {
            self.watch_circuits(None);
        }
        let Keeper { gateway, reservations, circuits, deployment, plan, claim, .. } =
            &mut self.keeper;
        match question {
            Question::StartForwarder(edition) => {
                self.start(edition).unwrap_or_else(Event::NotStarted)
            }
            Question::OpenPorts(pid) => Event::PortsOpening(pid, self.go_on_from(pid)),
            Question::Start(companion) => {
                let started = match companion {
                    Companion::Gateway => gateway.start(),
                    Companion::Reservations => reservations.start(),
                    Companion::Circuits => circuits.start(),
                };
                let failed = |error: SystemError| CompanionEvent::NotStarted(error.to_string());
                let event = started.map_or_else(failed, |()| CompanionEvent::Started);
                Event::Companion(companion, event)
            }
            Question::Follow(companion) => {
                let followed = match companion {
                    Companion::Gateway => gateway.follow(deployment, plan.api.as_ref()),
                    Companion::Reservations => reservations.follow(deployment),
                    Companion::Circuits => circuits.follow(deployment),
                };
                Event::Companion(companion, CompanionEvent::Followed(followed))
            }
            Question::LookForPorts => {
                // Where that cannot be asked, a forwarder is tried.
                let missing = super::missing(deployment).unwrap_or_default();
                Event::PortsMissing(missing.into_iter().map(str::to_owned).collect())
            }
            Question::Fallback(is_open) => {
                let set = claim.fallback(is_open).map_err(|error| error.to_string());
                Event::FallbackSet(is_open, set)
            }
        }
    }

    /// Starts a forwarder, beside those that run. The first one has been started already.
    fn start(&mut self, edition: Edition) -> Result<Event, String> {
        let Keeper { plan, deployment, reader, .. } = &mut self.keeper;
        let (forwarder, has_read) = match (edition, reader.take()) {
            (Edition::Anew, _) => {
                let (forwarder, reading) = self.read_anew()?;
                let reader = forwarder.pid();
                self.next = Some(Next { reader, reading, keeps_joined: true });
                (forwarder, false)
            }
            (Edition::InForce, Some(reader)) => (reader, true),
            (Edition::InForce, None) => {
                let task = reading::again(plan, deployment);
                let started =
                    Running::read(process::same_program(), task, AuthorityFiles::default());
                (started.map_err(|error| error.to_string())?, false)
            }
        };
        let pid = forwarder.pid();
        self.forwarders.push(forwarder);
        Ok(Event::Started { pid, has_read })
    }

    fn send(&mut self, pid: Pid, order: Order) {
        let command = match order {
            Order::Intake(is_open) => Command::Intake(is_open),
            Order::Drain(time) => Command::Drain(time),
            Order::Restarted(outcome) => Command::Restarted(outcome),
            Order::Mark => Command::Mark,
            Order::Texts => return self.give_texts(self.place(pid)),
        };
        self.forwarder(pid).send(&command);
    }

    fn place(&self, pid: Pid) -> usize {
        let place = self.forwarders.iter().position(|one| one.pid() == pid);
        place.expect("the supervisor names forwarders that have not ended")
    }

    fn forwarder(&self, pid: Pid) -> &Running {
        &self.forwarders[self.place(pid)]
    }

    /// Sends a forwarder the present contents of the deployment's file. It checks it, and asks for
    /// the files that it names.
    fn give_texts(&mut self, index: usize) {
        let path = &self.keeper.path;
        let read = Reading::anew(path).map_err(|error| error.to_string());
        let texts = read.and_then(|reading| reading.texts());
        if let Ok(texts) = &texts {
            self.forwarders[index].authority_server.files.follow(&texts.deployment);
        }
        let texts = texts.map_err(|why| format!("cannot read {}: {why}", path.display()));
        self.forwarders[index].send(&Command::Texts(texts));
    }

    /// Reads the deployment anew, and has a forwarder read its policies.
    fn read_anew(&self) -> Result<(Running, Reading), String> {
        let place = self.keeper.path.display();
        let read = Reading::anew(&self.keeper.path);
        let reading = read.map_err(|error| format!("cannot read {place}: {error}"))?;
        let mut texts = reading.texts().map_err(|_no_text| reading.describe())?;
        self.add_joined(&mut texts);
        let forwarder = reading.start(process::installed_program(), reading.task(texts))?;
        Ok((forwarder, reading))
    }

    /// Gives texts the classes that joined by now: they stay, whatever the files say of others.
    fn add_joined(&self, texts: &mut Texts) {
        let last = self.keeper.plan.history.last().and_then(|last| last.texts.as_ref());
        texts.added = last.map(|texts| texts.added.clone()).unwrap_or_default();
    }

    /// Lets a forwarder that has read its policies open its ports. What it read anew is put in
    /// force, and its settings returned; what cannot be followed changes nothing.
    fn go_on_from(&mut self, pid: Pid) -> Result<Option<Settings>, String> {
        let index = self.place(pid);
        let Some(next) = self.next.take_if(|next| next.reader == pid) else {
            return self.open_ports(index).map(|()| None);
        };
        let Next { reading, keeps_joined, .. } = next;
        let mut texts = self.forwarders[index].authority_server.files.texts().clone();
        // One may have joined while they were read: the history that it gets has that.
        texts.added.clear();
        if keeps_joined {
            self.add_joined(&mut texts);
        }
        // A forwarder may not say what is plain.
        let deployment = reading.sound()?;
        let settings = Settings::of(&deployment);
        self.follow(deployment, texts)?;
        let opened = self.open_ports(index);
        if opened.is_err() {
            self.return_to_former_files();
        }
        opened.map(|()| Some(settings))
    }

    fn open_ports(&mut self, index: usize) -> Result<(), String> {
        let Keeper { deployment, plan, ports, socket, claim, .. } = &mut self.keeper;
        let (others, forwarder) = self.forwarders.split_at_mut(index);
        let opening = Opening { history: plan.history.clone() };
        let beside = (ports.clone(), others.last().map(|other| &other.authority_server));
        // The claim keeps its map when files that are read anew say `on_exit = "closed"`.
        let is_wanted = deployment.service.on_exit == OnExit::Open;
        let deaths = claim.deaths().filter(|_| is_wanted);
        let descriptors: Vec<_> = deaths.into_iter().chain([socket.listener.as_fd()]).collect();
        let opened = forwarder[0].open(opening, &descriptors, beside);
        let opened = opened.and_then(|()| forwarder[0].give_claim(claim));
        opened.map_err(|error| error.to_string())
    }

    /// Puts in force what was read anew; what cannot be followed changes nothing.
    fn follow(&mut self, deployment: Deployment, texts: Texts) -> Result<(), String> {
        let now = &self.keeper.deployment;
        if !fits(now, &deployment) {
            return Err(format!(
                "{} names other interfaces, another name or another control socket than the \
                 running link `{}`; stop that one and start again",
                self.keeper.path.display(),
                now.name
            ));
        }
        deploy::check_host(&deployment).map_err(|error| error.to_string())?;
        let api = api::read(&deployment, self.keeper.check_api)?;
        self.keeper.gateway.check(&deployment, api.as_ref())?;
        self.adapt(&deployment)?;
        let Plan { keeper, owner, history, .. } = self.keeper.plan.clone();
        let mut plan = Plan { texts, keeper, owner, history, api };
        plan.note_start(realtime_ns(), None);
        let ports = deploy::port_configs(&deployment);
        let keeper = &mut self.keeper;
        self.before = Some(Files {
            deployment: std::mem::replace(&mut keeper.deployment, deployment),
            plan: std::mem::replace(&mut keeper.plan, plan),
            ports: std::mem::replace(&mut keeper.ports, ports),
        });
        Ok(())
    }

    /// Puts the deployment in force again that was in force before the files were read anew.
    fn return_to_former_files(&mut self) {
        let Some(Files { deployment, plan, ports }) = self.before.take() else { return };
        // The threads of alarms are there already.
        let _as_before = self.adapt(&deployment);
        (self.keeper.deployment, self.keeper.plan) = (deployment, plan);
        self.keeper.ports = ports;
    }

    /// Has what the keeper itself does follow the deployment; what the forwarder does follows with
    /// a new one.
    fn adapt(&mut self, new: &Deployment) -> Result<(), String> {
        let Keeper { claim, socket, journal, .. } = &mut self.keeper;
        let group = group(new.service.control_group.as_deref())?;
        claim.follow(new.service.on_exit).map_err(|error| error.to_string())?;
        journal.follow(new)?;
        socket.file.allow(group)
    }

    /// Prints what is joined, and that this forwarder carries traffic.
    fn announce(&self, pid: Pid) {
        let Keeper { deployment, plan, socket, console, .. } = &self.keeper;
        console.start(&Start {
            name: &deployment.name,
            joined: console::joined(deployment),
            control: &socket.path,
            api: plan.api.as_ref().map(console::address),
            forwarder: pid.0,
        });
    }
}

/// Returns whether a forwarder of `new` can take over from one of `old`.
fn fits(old: &Deployment, new: &Deployment) -> bool {
    let interfaces = |deployment: &Deployment| -> Vec<_> {
        deployment.ports.iter().map(|port| (port.interface.clone(), port.side)).collect()
    };
    old.name == new.name && old.control == new.control && interfaces(old) == interfaces(new)
}

/// Returns how many frames of a link were flushed when it ended.
fn flushed(status: &Status) -> u64 {
    let classes = status.lanes.iter().flat_map(|lane| &lane.classes);
    let dropped = classes.flat_map(|class| &class.dropped);
    let flushed = dropped.filter(|(cause, _)| cause == "flushed").map(|(_, amount)| amount.packets);
    // A forwarder that was taken over may say anything.
    flushed.fold(0, u64::saturating_add)
}

/// Returns the socket of a deployment, unless something answers there.
///
/// # Errors
/// When another link answers there, or the path cannot be bound; the text says what to do.
pub fn bind(path: &Path, group: Option<&str>) -> Result<ControlSocket, String> {
    let (file, listener) = weir_control::listen::bind(path, self::group(group)?)?;
    Ok(ControlSocket { path: path.to_owned(), listener, file })
}

/// Returns the number of a group, if there is to be one.
fn group(name: Option<&str>) -> Result<Option<u32>, String> {
    let number = name.map(|name| {
        let cure = "name one that `getent group` shows in `control_group`";
        weir_control::places::group(name).ok_or(format!("there is no group `{name}`; {cure}"))
    });
    number.transpose()
}

/// Returns the socket of a link that was taken over.
///
/// # Errors
/// When its file is gone: nothing would find the link any more.
pub fn adopt(path: &Path, listener: UnixListener) -> Result<ControlSocket, String> {
    let file = Bound::adopt(path, &listener)
        .map_err(|error| format!("cannot use the control socket `{}`: {error}", path.display()))?;
    Ok(ControlSocket { path: path.to_owned(), listener, file })
}

/// How often that many are read of one that has ended: more than a channel holds.
const LAST_LISTENS: usize = 8;
/// How soon an interface that came back is claimed again.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How often a forwarder that begins or ends is looked at.
const HURRY_INTERVAL: Duration = Duration::from_millis(50);
/// How long a reader may take for each piece of the last status.
const LAST_PATIENCE: Duration = Duration::from_secs(2);
