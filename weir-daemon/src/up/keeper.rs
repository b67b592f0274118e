//! The keeper: the process that has the privileges, and sees to it that a forwarder runs.
//!
//! It reads no packet and no request of a client. One thread waits for signals, for what forwarders
//! say, and for their ends; everything that follows is a method here. Invariant: at most one
//! forwarder takes frames, and the fallback is closed while one does.

use super::absence;
use super::api::{self, ApiSocket};
use super::console::{self, Console, Start};
use super::journal::Journal;
use super::orphan::Listeners;
use super::page::Page;
use super::reading::{self, Reading};
use super::rsvp::Reservations;
use super::running::{Limits, Phase, Running};
use crate::events::write::PRINT_PATIENCE;
use crate::keeper::found::Found;
use crate::keeper::messages::{Command, Opening, Plan, Report};
use crate::keeper::restarts::{RESTARTS_MAX, RESTARTS_TIME, Restarts};
use crate::keeper::service::Service;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::{Duration, Instant};
use weir_control::listen::Bound;
use weir_host::claim::Claim;
use weir_host::error::SystemError;
use weir_host::process;
use weir_host::signals::{Asked, Signals};
use weir_host::wait::realtime_ns;
use weir_host::watch;
use weir_link::authority::Files as DeskFiles;
use weir_link::change::history::Texts;
use weir_link::deploy;
use weir_link::events::{Event, Kind};
use weir_link::port::PortConfig;
use weir_link::status::Status;
use weir_policy::deployment::{Deployment, OnExit, Restart, Side};
use weir_policy::render;

/// What a keeper keeps.
pub struct Keeper<'a> {
    /// The deployment, without its policies.
    pub deployment: Deployment,
    /// What a forwarder gets.
    pub plan: Plan,
    /// Its ports.
    pub ports: Vec<PortConfig>,
    /// The file to read at a restart.
    pub path: PathBuf,
    /// Its interfaces.
    pub claim: Claim,
    /// A forwarder of it whose keeper died.
    pub orphan: Option<Running>,
    /// The one that has read its policies, until it opens the ports.
    pub reader: Option<Running>,
    /// The control socket, which each forwarder listens on in turn.
    pub socket: ControlSocket,
    /// The page on it, if there is one.
    pub page: Page,
    /// The reservations on it, if it takes any.
    pub reservations: Reservations,
    /// Its signals.
    pub signals: Signals,
    /// What prints what it says.
    pub console: &'a dyn Console,
    /// Where events are written.
    pub journal: Journal,
    /// Who is told how it goes.
    pub service: Service,
}

/// The control socket; its name goes when this is dropped.
pub struct ControlSocket {
    /// Its path.
    pub path: PathBuf,
    /// The socket.
    pub listener: UnixListener,
    /// The socket of the API on a TCP address, if there is one.
    api: Option<ApiSocket>,
    /// Its file, which goes with it.
    file: Bound,
}

impl ControlSocket {
    /// Returns what a forwarder listens on: the API if there is one, then the control socket.
    fn listeners(&self) -> Vec<BorrowedFd<'_>> {
        self.api.iter().map(AsFd::as_fd).chain([self.listener.as_fd()]).collect()
    }
}

/// How the link ended.
pub enum End {
    /// As asked.
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
        let mut shift = Shift {
            keeper: self,
            forwarders: orphan.into_iter().collect(),
            restarts: Restarts::default(),
            looked: Instant::now(),
            stopping: None,
            signal: None,
            last: None,
            has_run: false,
            is_told: false,
            asker: None,
            death: None,
            passing: None,
            awaits: false,
            succeeds: false,
            before: None,
            next: None,
        };
        if !shift.forwarders.is_empty() {
            shift.goes_on();
        }
        let ran = shift.begin().and_then(|()| shift.run());
        for forwarder in &mut shift.forwarders {
            // Only after an error, or a second signal, are there any.
            forwarder.process.kill();
            forwarder.process.wait();
        }
        ran
    }
}

/// A keeper at work.
struct Shift<'a> {
    keeper: Keeper<'a>,
    /// The oldest first; two only while one takes over from the other.
    forwarders: Vec<Running>,
    restarts: Restarts,
    /// When the interfaces were looked at.
    looked: Instant,
    /// Since when a stop is requested.
    stopping: Option<Instant>,
    /// The signal that asked to end at once.
    signal: Option<i32>,
    last: Option<Status>,
    /// Whether a forwarder has carried traffic.
    has_run: bool,
    /// Whether it was printed what is joined, and by which forwarder.
    is_told: bool,
    /// The forwarder that asked for a restart while another one was still ending.
    asker: Option<u32>,
    /// The death of a forwarder, until another one forwards.
    death: Option<Event>,
    /// The opening of the fallback, while it is open.
    passing: Option<Event>,
    /// Whether a forwarder is to be started once the interfaces are there.
    awaits: bool,
    /// Whether a forwarder is to be started once the one that was taken over has ended.
    succeeds: bool,
    /// What was read before, while a forwarder of files that were read anew begins.
    before: Option<Files>,
    /// What a forwarder that reads its policies is to run.
    next: Option<Deployment>,
}

/// What was read from files.
struct Files {
    deployment: Deployment,
    plan: Plan,
    ports: Vec<PortConfig>,
}

impl Shift<'_> {
    /// Starts the first forwarder: beside one that was taken over, or after it where it has taps of
    /// an interface. Those can exist only once, and only the keeper that made them can share them;
    /// in between the host's frames pass as before Weir.
    fn begin(&mut self) -> Result<(), String> {
        let mut ports = self.keeper.deployment.ports.iter();
        let has_taps = ports.any(|port| port.side != Side::Interface);
        match self.forwarders.first_mut().filter(|_| has_taps) {
            Some(orphan) => {
                orphan.drain();
                self.succeeds = true;
                Ok(())
            }
            None => self.start(process::same_program()),
        }
    }

    /// Starts a forwarder of what runs, beside the one that runs if one does. The first one has
    /// been started already.
    fn start(&mut self, program: Program) -> Result<(), String> {
        let Keeper { plan, deployment, reader, .. } = &mut self.keeper;
        let forwarder = match reader.take() {
            Some(forwarder) => forwarder,
            None => {
                let task = reading::again(plan, deployment);
                let known = (Default::default(), Limits::of(deployment));
                Running::read(program, task, known).map_err(|error| error.to_string())?
            }
        };
        self.forwarders.push(forwarder);
        self.open_ports(self.forwarders.len() - 1)
    }

    /// Lets a forwarder open its ports, as soon as it has read its policies.
    fn open_ports(&mut self, index: usize) -> Result<(), String> {
        let Keeper { plan, ports, socket, claim, .. } = &mut self.keeper;
        socket.api = ApiSocket::renew(socket.api.take(), plan.api.as_ref())?;
        let (others, forwarder) = self.forwarders.split_at_mut(index);
        let opening = Opening { history: plan.history.clone(), api: plan.api.clone() };
        let beside = (ports.clone(), others.last().map(|other| &other.desk));
        let opened = forwarder[0].open(opening, &socket.listeners(), beside);
        let opened = opened.and_then(|()| forwarder[0].give_claim(claim));
        opened.map_err(|error| error.to_string())
    }

    fn run(&mut self) -> Result<End, String> {
        loop {
            if self.stopping.is_some() && self.forwarders.is_empty() {
                self.tell_end();
                return Ok(End::Stopped);
            }
            if let Some(signal) = self.signal {
                return Ok(End::Signal(signal));
            }
            self.wait().map_err(|error| error.to_string())?;
            let heard = Instant::now();
            for asked in self.keeper.signals.take() {
                self.obey(asked);
            }
            for index in 0..self.forwarders.len() {
                self.forwarders[index].serve();
                self.listen(index);
            }
            self.serve_page();
            self.serve_reservations();
            self.bury()?;
            self.restart_if_due();
            if self.forwarders.is_empty() && self.stopping.is_none() {
                absence::answer(&self.keeper.socket.listener);
            }
            self.look(heard)?;
        }
    }

    /// Waits until there is something to do.
    fn wait(&self) -> Result<(), SystemError> {
        let mut watched = vec![self.keeper.signals.as_fd()];
        watched.extend(self.forwarders.iter().flat_map(Running::descriptors));
        watched.extend(self.keeper.page.descriptors());
        watched.extend(self.keeper.reservations.descriptors());
        if self.forwarders.is_empty() {
            watched.push(self.keeper.socket.listener.as_fd());
        }
        let is_settled = self.forwarders.iter().all(|one| one.phase == Phase::Forwarding);
        let patience = if is_settled { LOOK_INTERVAL } else { HURRY_INTERVAL };
        let beat = self.keeper.service.interval().unwrap_or(patience);
        watch::readable(&watched, patience.min(beat)).map(drop)
    }

    /// Gives the page what it asks for, and starts one that died again.
    fn serve_page(&mut self) {
        let Keeper { page, journal, .. } = &mut self.keeper;
        let now = Instant::now();
        let died = page.serve(now).or_else(|| page.look(now));
        if let Some(why) = died.filter(|_| self.stopping.is_none()) {
            journal.tell(Kind::PageDied, &why);
        }
    }

    /// Gives the process of reservations what it asks for, and starts one that died again.
    fn serve_reservations(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        let Keeper { reservations, journal, .. } = &mut self.keeper;
        let (is_new, told) = reservations.serve(Instant::now(), journal);
        let Some(carrier) = self.forwarders.iter().rfind(|one| one.carries()) else { return };
        if is_new {
            reservations.introduce(carrier);
        }
        told.into_iter().for_each(|event| carrier.tell(&Command::Told(Box::new(event))));
    }

    /// Does what a signal asks for.
    fn obey(&mut self, asked: Asked) {
        let now = Instant::now();
        match (asked, self.stopping) {
            (Asked::HangUp, _) => self.hang_up(),
            (Asked::Mark, _) => self.forwarders.iter().for_each(|one| one.tell(&Command::Mark)),
            (Asked::Stop(_), None) => self.stop(now),
            (Asked::Stop(signal), Some(since)) if now.duration_since(since) >= SAME_STOP => {
                self.signal = Some(signal);
            }
            (Asked::Stop(_), Some(_)) => {}
        }
    }

    /// Lets the forwarder that carries traffic put in force what the files contain now.
    fn hang_up(&mut self) {
        self.keeper.journal.tell(Kind::HungUp, "");
        if let Some(index) = self.forwarders.iter().position(Running::carries) {
            self.give_texts(index);
        }
    }

    /// Tells a forwarder what the file of the deployment contains now. It checks it, and asks for
    /// the files that it names.
    fn give_texts(&mut self, index: usize) {
        let path = &self.keeper.path;
        let read = Reading::anew(path).map_err(|error| error.to_string());
        let texts = read.and_then(|reading| reading.texts());
        if let Ok(texts) = &texts {
            self.forwarders[index].desk.files = DeskFiles::beside(texts.clone());
        }
        let texts = texts.map_err(|why| format!("cannot read {}: {why}", path.display()));
        self.forwarders[index].tell(&Command::Texts(texts));
    }

    /// Lets every forwarder send what it holds and end.
    fn stop(&mut self, now: Instant) {
        self.stopping = Some(now);
        self.keeper.page.stop();
        self.keeper.reservations.stop();
        self.keeper.service.stopping();
        for forwarder in &mut self.forwarders {
            match forwarder.phase {
                Phase::Reading | Phase::Opening => {
                    forwarder.process.kill();
                    forwarder.enter(Phase::Draining);
                }
                _ => forwarder.drain(),
            }
        }
    }

    /// Hears what a forwarder says.
    fn listen(&mut self, index: usize) {
        // One that never ceases must not keep others, and signals, from being heard.
        for _ in 0..REPORTS_MAX {
            let Some(report) = self.forwarders[index].hear() else { return };
            match report {
                Report::Read(found) => self.go_on_from(index, &found),
                Report::Ready { warnings, notes } => {
                    let told = |kind, text: &String| self.keeper.console.tell(kind, text);
                    warnings.iter().for_each(|text| told("warning", text));
                    // They are the same after each restart.
                    let notes = notes.iter().filter(|_| !self.has_run);
                    notes.for_each(|text| told("note", text));
                    self.take_over(index);
                }
                Report::Intake(is_open) => self.intake(index, is_open),
                Report::Beat => {}
                Report::Event(event) => {
                    self.forwarders[index].note(&event);
                    self.keeper.journal.write(&event);
                }
                Report::Restart => self.restart(index),
                Report::ReadAnew => self.give_texts(index),
                Report::Changed(entry) => {
                    // What was read for it is in force.
                    self.forwarders[index].desk.files = DeskFiles::default();
                    self.keeper.plan.history.push(*entry);
                }
                Report::Joined(joined, entry) => {
                    self.keeper.plan.history.push_joined(&joined, *entry);
                }
                Report::Confirmed => drop(self.keeper.plan.history.confirm()),
                Report::Failed(why) => self.forwarders[index].failure = Some(why),
                Report::Ended(status) => self.note_end(*status),
                // Only a keeper that takes over is told these, before it begins.
                Report::Held(_) | Report::History(_) | Report::Kept(_) => {}
            }
        }
    }

    /// Lets a forwarder take frames, once nothing else does.
    fn take_over(&mut self, index: usize) {
        if self.stopping.is_some() {
            return;
        }
        self.forwarders[index].enter(Phase::Ready);
        match self.forwarders[..index].iter_mut().find(|older| older.carries()) {
            Some(older) => {
                older.tell(&Command::Intake(false));
                older.enter(Phase::Closing);
            }
            None => self.open(index),
        }
    }

    /// Opens the intake of a forwarder; nothing else carries traffic from now on.
    fn open(&mut self, index: usize) {
        self.fall_back(false);
        let forwarder = &mut self.forwarders[index];
        forwarder.tell(&Command::Intake(true));
        forwarder.enter(Phase::Taking);
    }

    /// A forwarder takes frames from now on, or does not any more.
    fn intake(&mut self, index: usize, is_open: bool) {
        match (is_open, self.forwarders[index].phase) {
            (true, Phase::Taking) => {
                self.forwarders[index].enter(Phase::Forwarding);
                self.tell_start(index);
            }
            (false, Phase::Closing) => {
                let newer = (index + 1..self.forwarders.len())
                    .find(|newer| self.forwarders[*newer].phase == Phase::Ready);
                let Some(newer) = newer else {
                    // It died meanwhile.
                    self.open(index);
                    return;
                };
                let process = self.forwarders[newer].process.number();
                let said = Ok(format!("process {process} forwards from now on"));
                // First, so that it does not open its intake again if this process dies here.
                self.forwarders[index].tell(&Command::Restarted(said));
                self.forwarders[index].drain();
                self.open(newer);
            }
            _ => {}
        }
    }

    /// Reads the deployment anew and starts a forwarder of it beside the one that runs.
    fn restart(&mut self, index: usize) {
        if self.forwarders.len() > 1 && self.stopping.is_none() {
            // The others end within `drain` and a little more.
            self.asker = Some(self.forwarders[index].process.number());
            return;
        }
        if let Err(why) = self.read_anew() {
            self.refuse_restart(index, why);
        }
    }

    /// What the files say is not put in force; who asked for that gets all of the reason.
    fn refuse_restart(&mut self, index: usize, why: String) {
        self.forget_files();
        self.keeper.journal.tell(Kind::RestartRefused, &render::headline(&why));
        self.forwarders[index].tell(&Command::Restarted(Err(why)));
    }

    /// Does what a forwarder asked for while another one was ending.
    fn restart_if_due(&mut self) {
        if self.forwarders.len() > 1 {
            return;
        }
        let asker = self.asker.take();
        let is_there = |one: &Running| Some(one.process.number()) == asker;
        if self.forwarders.first().is_some_and(is_there) {
            self.restart(0);
        }
    }

    /// Reads the deployment anew, and has a forwarder read its policies.
    fn read_anew(&mut self) -> Result<(), String> {
        if self.stopping.is_some() {
            return Err("the link is stopping".to_owned());
        }
        let place = self.keeper.path.display().to_string();
        let read = Reading::anew(&self.keeper.path);
        let reading = read.map_err(|error| format!("cannot read {place}: {error}"))?;
        let Ok(mut texts) = reading.texts() else {
            return Err(Found::of(&reading.outline, false).describe(&reading.name));
        };
        // Classes that joined stay, whatever the files say of others.
        let last = self.keeper.plan.history.last().and_then(|last| last.texts.as_ref());
        texts.added = last.map(|texts| texts.added.clone()).unwrap_or_default();
        let forwarder = reading.start(process::installed_program(), reading.task(texts))?;
        self.forwarders.push(forwarder);
        self.next = reading.outline.plan;
        Ok(())
    }

    /// A forwarder has read its policies: with errors in them it ends. One of files that were read
    /// anew may open its ports if the rest of them can be followed, too.
    fn go_on_from(&mut self, index: usize, found: &Found) {
        let forwarder = &mut self.forwarders[index];
        if found.errors > 0 {
            forwarder.failure = Some(found.describe(&self.keeper.path.display().to_string()));
            forwarder.is_refused = true;
            return;
        }
        if forwarder.phase != Phase::Reading {
            // It runs what runs already.
            return;
        }
        let texts = forwarder.desk.files.texts().clone();
        let Some(deployment) = self.next.take() else { return };
        let followed = self.follow(deployment, texts).and_then(|()| self.open_ports(index));
        if let Err(why) = followed {
            let forwarder = &mut self.forwarders[index];
            (forwarder.failure, forwarder.is_refused) = (Some(why), true);
            forwarder.process.kill();
        }
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
        let api = api::read(&deployment)?;
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

    /// A forwarder of files that were read anew did not come to forward: what was in force before
    /// stays so.
    fn forget_files(&mut self) {
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
        journal.heed(new)?;
        socket.file.allow(group)
    }

    /// Sees to the forwarders that have ended.
    fn bury(&mut self) -> Result<(), String> {
        let mut index = 0;
        while index < self.forwarders.len() {
            let Some(how) = self.forwarders[index].process.ended() else {
                index += 1;
                continue;
            };
            // Its last words.
            for _ in 0..LAST_LISTENS {
                self.listen(index);
            }
            let mut dead = self.forwarders.remove(index);
            dead.take_ends().for_each(|end| self.keeper.journal.write(&end));
            self.mourn(&dead, &how)?;
        }
        let is_wanted = self.forwarders.is_empty() && self.stopping.is_none();
        if is_wanted && std::mem::take(&mut self.succeeds) {
            return self.start(process::same_program());
        }
        Ok(())
    }

    /// Decides what follows the end of a forwarder.
    fn mourn(&mut self, dead: &Running, how: &str) -> Result<(), String> {
        let why = dead.failure.clone().unwrap_or_else(|| how.to_owned());
        if self.stopping.is_some() || dead.phase == Phase::Draining {
            return Ok(());
        }
        if dead.phase == Phase::Reading {
            self.next = None;
        }
        if !self.has_run {
            return Err(why);
        }
        let number = dead.process.number();
        if !self.forwarders.is_empty() && !dead.carried() {
            let text = match dead.is_refused {
                true => why,
                false => format!("the new forwarder (process {number}) ended: {why}"),
            };
            self.asker = None;
            self.refuse_restart(0, text);
            self.tell_joined(0);
            return Ok(());
        }
        self.fall_back(true);
        let detail = format!("process {number}: {why}");
        if self.death.is_none() {
            self.death = Some(self.keeper.journal.tell(Kind::ForwarderDied, &detail));
        }
        let died = "the forwarder died before it was confirmed";
        if self.keeper.plan.history.give_up_trial(realtime_ns(), died) {
            self.keeper.journal.tell(Kind::RolledBack, died);
        }
        // One that was about to take over does so now.
        match self.forwarders.iter().position(|one| one.phase == Phase::Ready) {
            Some(ready) => self.open(ready),
            None if self.forwarders.iter().any(Running::begins) => {}
            None => return self.replace(&why),
        }
        Ok(())
    }

    /// Starts a forwarder in place of one that died, if that may be.
    fn replace(&mut self, why: &str) -> Result<(), String> {
        let service = &self.keeper.deployment.service;
        let is_open = service.on_exit == OnExit::Open;
        let refusal = if service.restart == Restart::Never {
            "the deployment says `restart = \"never\"`".to_owned()
        } else if self.awaits_ports() {
            return Ok(());
        } else if !self.restarts.allow(Instant::now()) {
            format!("{RESTARTS_MAX} were started within {} s", RESTARTS_TIME.as_secs())
        } else {
            return self.start(process::same_program());
        };
        self.keeper.journal.tell(Kind::ForwarderAbsent, &refusal);
        if !is_open {
            return Err(format!("the forwarder ended: {why}; none is started again: {refusal}"));
        }
        self.keeper.service.status("no forwarder: the kernel carries the traffic, unshaped");
        Ok(())
    }

    /// Returns whether interfaces are missing without which no forwarder can start: then one is
    /// started once they are there.
    fn awaits_ports(&mut self) -> bool {
        // Where that cannot be asked, a forwarder is tried.
        let missing = super::missing(&self.keeper.deployment).unwrap_or_default();
        let awaited = std::mem::replace(&mut self.awaits, !missing.is_empty());
        if self.awaits && !awaited {
            self.keeper.journal.tell(Kind::PortsAwaited, &missing.join(", "));
        }
        self.awaits
    }

    /// What is due now and then. Every forwarder was heard after `heard`: how long this process
    /// was busy since then is no silence of theirs.
    fn look(&mut self, heard: Instant) -> Result<(), String> {
        let now = Instant::now();
        self.keeper.service.beat(now);
        self.forwarders.iter_mut().for_each(|one| one.end_if_overdue(heard));
        if now.duration_since(self.looked) >= LOOK_INTERVAL {
            self.looked = now;
            self.keeper.journal.look();
            if self.awaits && self.stopping.is_none() {
                self.replace("interfaces were missing")?;
            }
            let claim = &mut self.keeper.claim;
            if claim.refresh() {
                // One that cannot hold it will be replaced by a keeper's next restart.
                self.forwarders.iter().for_each(|one| drop(one.give_claim(claim)));
            }
            let notes = claim.take_notes();
            notes.iter().for_each(|note| self.keeper.console.tell("warning", note));
        }
        Ok(())
    }

    /// Lets the kernel carry the traffic, if the deployment wants that, or stops it.
    fn fall_back(&mut self, open: bool) {
        let Keeper { claim, deployment, journal, .. } = &mut self.keeper;
        if deployment.service.on_exit == OnExit::Closed {
            return;
        }
        if let Err(error) = claim.fallback(open) {
            self.keeper.console.tell("warning", &error.to_string());
        } else if open && self.passing.is_none() {
            self.passing = Some(journal.tell(Kind::FallbackOpened, ""));
        } else if !open {
            journal.end(&mut self.passing);
        }
    }

    fn note_end(&mut self, status: Status) {
        if self.stopping.is_none() || self.forwarders.len() > 1 {
            self.keeper.journal.count(Kind::Flushed, flushed(&status));
        }
        self.last = Some(status);
    }

    /// A forwarder that was taken over carries traffic until one of this process does.
    fn goes_on(&mut self) {
        let Keeper { page, reservations, deployment, plan, console, service, .. } =
            &mut self.keeper;
        if !self.has_run {
            service.ready(&console::joined(deployment));
        }
        page.follow(deployment, plan.api.as_ref(), *console);
        reservations.follow(deployment, *console);
        self.forwarders.last().into_iter().for_each(|one| reservations.introduce(one));
        self.has_run = true;
    }

    /// Prints once what is joined, and that this forwarder carries traffic.
    fn tell_joined(&mut self, index: usize) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let Keeper { deployment, plan, socket, console, .. } = &self.keeper;
        console.start(&Start {
            name: &deployment.name,
            joined: console::joined(deployment),
            control: &socket.path,
            api: plan.api.as_ref().map(console::address),
            forwarder: self.forwarders[index].process.number(),
        });
    }

    fn tell_start(&mut self, index: usize) {
        let number = self.forwarders[index].process.number();
        self.tell_joined(index);
        if self.has_run {
            self.keeper.journal.tell(Kind::HandedOver, &format!("process {number}"));
        }
        self.goes_on();
        self.keeper.journal.end(&mut self.death);
        self.before = None;
    }

    fn tell_end(&mut self) {
        if self.has_run {
            // Nothing else waits now.
            self.keeper.console.wait_at_most(LAST_PATIENCE);
            self.keeper.console.end(&self.last.take().unwrap_or_default());
        }
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
    Ok(ControlSocket { path: path.to_owned(), listener, api: None, file })
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
pub fn adopt(path: &Path, (listener, api): Listeners) -> Result<ControlSocket, String> {
    let file = Bound::adopt(path)
        .map_err(|error| format!("cannot use the control socket `{}`: {error}", path.display()))?;
    let api = api.and_then(ApiSocket::adopt);
    Ok(ControlSocket { path: path.to_owned(), listener, api, file })
}

/// Reports of one forwarder that are heard before something else is done.
const REPORTS_MAX: usize = 256;
/// How often that many are heard of one that has ended: more than a channel holds.
const LAST_LISTENS: usize = 8;
/// How soon an interface that came back is claimed again.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How often a forwarder that begins or ends is looked at.
const HURRY_INTERVAL: Duration = Duration::from_millis(50);
/// How long a reader may take for each piece of the last status.
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// Signals within this time are one request: no person has waited for the stop by then.
const SAME_STOP: Duration = Duration::from_secs(1);
