//! A shell without I/O: it takes events as short texts, answers questions as it was told to, and
//! writes down what the supervisor wants, as short texts too.

use crate::supervisor::Supervisor;
use crate::supervisor::interface::{
    Action, Companion, CompanionEvent, Edition, Event, Fault, Followed, Order, Outcome, Pid,
    Progress, Question, Said,
};
use crate::supervisor::settings::{Limits, Settings};
use std::time::{Duration, Instant};
use weir_host::signals::Asked;
use weir_link::events::Kind;
use weir_policy::deployment::{OnExit, Restart};

/// A supervisor, and a shell that answers as the script says.
pub struct World {
    pub link: Supervisor,
    pub now: Instant,
    /// The outcome of the next reading of the files.
    files: Result<Settings, String>,
    /// How forwarders that are started read their policies.
    policies: Policies,
    /// Forwarders that say, once nothing else is to be done, that they have read them.
    readers: Vec<Pid>,
    /// Why no ports can be opened, or what was read anew cannot be put in force.
    ports_fault: Option<String>,
    /// The number of the next forwarder.
    next: u32,
    /// Why no forwarder, no companion can be started, and why the fallback cannot be set.
    forwarder_fault: Option<String>,
    companion_fault: Option<String>,
    fallback_fault: Option<String>,
    missing: Vec<String>,
    gateway: Result<Followed, String>,
    reservations: Result<Followed, String>,
    /// The actions since they were taken last.
    performed: Vec<String>,
}

/// How a forwarder reads its policies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Policies {
    /// At once, and without errors.
    Sound,
    /// So that it says what it found when the script lets it.
    Slow,
    /// It has, before it is started.
    Known,
}

/// The settings of a deployment: `closed`, `never`, `taps`, `drain=9`, `watchdog=5` (in seconds)
/// differ from what is otherwise: open, always, none, 2 s and no watchdog.
pub fn settings(words: &str) -> Settings {
    let limits = Limits { drain: Duration::from_secs(2), watchdog: None };
    let mut settings =
        Settings { on_exit: OnExit::Open, restart: Restart::Always, has_taps: false, limits };
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, "0"));
        let seconds = Duration::from_secs(value.parse().expect("seconds"));
        match key {
            "closed" => settings.on_exit = OnExit::Closed,
            "never" => settings.restart = Restart::Never,
            "taps" => settings.has_taps = true,
            "drain" => settings.limits.drain = seconds,
            "watchdog" => settings.limits.watchdog = Some(seconds),
            _ => panic!("no setting is called {word}"),
        }
    }
    settings
}

/// Plays a script on a link with these settings that has just begun: a line each, an event and,
/// behind `=>`, what the supervisor then wants.
pub fn check(what: &str, words: &str, script: &str) {
    let world = World::begin(words, None);
    assert_eq!(world.performed, ["start 1", "ports 1"], "{what}");
    play(what, world, script);
}

/// As [`check`], of a link whose forwarders read their policies so.
pub fn check_reading(what: &str, policies: Policies, script: &str) {
    let mut world = World::idle(settings(""), None);
    world.policies = policies;
    world.carry_out();
    play(what, world, script);
}

/// As [`check`], of a link whose first forwarder, 1, forwards.
pub fn check_running(what: &str, words: &str, script: &str) {
    play(what, World::running(words), script);
}

/// As [`check`], of a link whose keeper has died; its forwarder is 1.
pub fn check_orphan(what: &str, words: &str, script: &str) {
    play(what, World::begin(words, Some(Pid(1))), script);
}

fn play(what: &str, mut world: World, script: &str) {
    let mut played = String::new();
    let script: Vec<_> = script.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    for line in &script {
        let (event, _) = line.split_once("=>").unwrap_or((line, ""));
        if event.trim() != "begun" {
            world.performed.clear();
        }
        world.step(event.trim());
        let wanted = world.take();
        let arrow = if line.contains("=>") || !wanted.is_empty() { " =>" } else { "" };
        played += format!("{}{arrow} {wanted}", event.trim()).trim();
        played += "\n";
    }
    let script: String = script.iter().map(|line| format!("{line}\n")).collect();
    assert!(played == script, "{what}: played\n{played}wanted\n{script}");
}

impl World {
    pub fn begin(words: &str, orphan: Option<Pid>) -> Self {
        let mut world = Self::idle(settings(words), orphan);
        world.carry_out();
        world
    }

    /// A world in which nothing was carried out yet.
    pub fn idle(settings: Settings, orphan: Option<Pid>) -> Self {
        let now = Instant::now();
        Self {
            link: Supervisor::begin(now, settings, orphan),
            now,
            files: Ok(settings),
            policies: Policies::Sound,
            readers: Vec::new(),
            ports_fault: None,
            next: orphan.map_or(1, |pid| pid.0 + 1),
            forwarder_fault: None,
            companion_fault: None,
            fallback_fault: None,
            missing: Vec::new(),
            gateway: Ok(Followed::Unwanted),
            reservations: Ok(Followed::Unwanted),
            performed: Vec::new(),
        }
    }

    pub fn running(words: &str) -> Self {
        let mut world = Self::begin(words, None);
        world.step("ready 1");
        world.step("opened 1");
        world.performed.clear();
        world
    }

    fn take(&mut self) -> String {
        let mut wanted = std::mem::take(&mut self.performed);
        wanted.extend(self.link.outcome().map(|outcome| match outcome {
            Outcome::Stopped => "end: stopped".to_owned(),
            Outcome::Signal(signal) => format!("end: signal {signal}"),
            Outcome::Failed(why) => format!("end: {why}"),
        }));
        // Most of the time companions are of no interest.
        wanted.join("; ").replace("follow gateway; follow rsvp; follow circuits", "follow all")
    }

    /// Lets happen what a line says, or sets how the shell answers from now on.
    pub fn step(&mut self, line: &str) {
        let (event, text) = line.split_once(':').unwrap_or((line, ""));
        let words: Vec<_> = event.split(' ').collect();
        let text = text.trim_start().to_owned();
        match words.as_slice() {
            ["begun"] => {}
            ["wait", time] => self.now += duration(time),
            ["after", time] => {
                self.now += duration(time);
                self.handle(Event::Tick { heard: self.now });
            }
            ["busy", time] => {
                let heard = self.now;
                self.now += duration(time);
                self.handle(Event::Tick { heard });
            }
            ["tick"] => self.handle(Event::Tick { heard: self.now }),
            ["poll"] => self.handle(Event::Poll),
            ["hup"] => self.handle(Event::Signal(Asked::HangUp)),
            ["usr1"] => self.handle(Event::Signal(Asked::Mark)),
            ["signal", number] => {
                let number = number.parse().expect("a signal");
                self.handle(Event::Signal(Asked::Stop(number)));
            }
            ["happened"] => self.handle(Event::Happened(Kind::ReservationAdmitted, text)),
            ["exit", "gateway", pid] => self.exit_companion(Companion::Gateway, pid, text),
            ["exit", "rsvp", pid] => self.exit_companion(Companion::Reservations, pid, text),
            ["alive", "gateway"] => self.hear(Companion::Gateway),
            ["alive", "rsvp"] => self.hear(Companion::Reservations),
            ["exit", pid] => self.handle(Event::Exited(number(pid), text)),
            ["garbled", pid] => self.handle(Event::Garbled(number(pid), text)),
            ["answer", what] => self.set(what, text),
            [said, pid] => {
                let said = said_as(said, text);
                self.handle(Event::Said(number(pid), said));
            }
            _ => panic!("no event is written {line}"),
        }
    }

    fn hear(&mut self, companion: Companion) {
        self.handle(Event::Companion(companion, CompanionEvent::Alive));
    }

    fn exit_companion(&mut self, companion: Companion, pid: &str, why: String) {
        let event = CompanionEvent::Exited(number(pid), why);
        self.handle(Event::Companion(companion, event));
    }

    /// Sets how the shell answers: a fault by its text, or none.
    fn set(&mut self, what: &str, text: String) {
        let fault = Some(text.clone()).filter(|text| !text.is_empty());
        match what {
            "start" => self.forwarder_fault = fault,
            "ports" => self.ports_fault = fault,
            "policies" => {
                self.policies = if text == "slow" { Policies::Slow } else { Policies::Sound };
            }
            "companion" => self.companion_fault = fault,
            "fallback" => self.fallback_fault = fault,
            "next" => self.next = text.parse().expect("a number"),
            "files" => self.files = Ok(settings(&text)),
            "wrong" => self.files = Err(text.replace('|', "\n")),
            "missing" => self.missing = text.split_whitespace().map(str::to_owned).collect(),
            "gateway" => self.gateway = followed(&text),
            "rsvp" => self.reservations = followed(&text),
            _ => panic!("nothing is answered for {what}"),
        }
    }

    pub fn handle(&mut self, event: Event) {
        self.link.handle(self.now, event);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.link.next_action() {
            if let Action::Ask(question) = action {
                let answer = self.answer(question);
                self.link.handle(self.now, answer);
            } else {
                self.performed.push(text(action));
            }
        }
        for pid in std::mem::take(&mut self.readers) {
            self.handle(Event::Said(pid, Said::Read(Ok(()))));
        }
    }

    pub fn answer(&mut self, question: Question) -> Event {
        let (performed, answer) = match question {
            Question::StartForwarder(edition) => {
                let pid = Pid(self.next);
                let performed = match edition {
                    Edition::InForce => format!("start {pid}"),
                    Edition::Anew if self.files.is_err() => "read".to_owned(),
                    Edition::Anew => format!("read; start installed {pid}"),
                };
                (performed, self.start(edition))
            }
            Question::OpenPorts(pid) => {
                let settings = match self.link.forwarder(pid).edition {
                    Edition::InForce => None,
                    Edition::Anew => self.files.clone().ok(),
                };
                let opening = self.ports_fault.clone().map_or(Ok(settings), Err);
                (format!("ports {pid}"), Event::PortsOpening(pid, opening))
            }
            Question::Start(companion) => {
                let fault = self.companion_fault.clone();
                let started = fault.map_or(CompanionEvent::Started, CompanionEvent::NotStarted);
                let answer = Event::Companion(companion, started);
                (format!("start {}", name(companion)), answer)
            }
            Question::Follow(companion) => {
                let followed = match companion {
                    Companion::Gateway => self.gateway.clone(),
                    Companion::Reservations => self.reservations.clone(),
                    Companion::Circuits => Ok(Followed::Unwanted),
                };
                let answer = Event::Companion(companion, CompanionEvent::Followed(followed));
                (format!("follow {}", name(companion)), answer)
            }
            Question::LookForPorts => {
                ("look for ports".to_owned(), Event::PortsMissing(self.missing.clone()))
            }
            Question::Fallback(is_open) => {
                let set = self.fallback_fault.clone().map_or(Ok(()), Err);
                let performed = if is_open { "fallback open" } else { "fallback closed" };
                (performed.to_owned(), Event::FallbackSet(is_open, set))
            }
        };
        self.performed.push(performed);
        answer
    }

    fn start(&mut self, edition: Edition) -> Event {
        if let (Edition::Anew, Err(why)) = (edition, &self.files) {
            return Event::NotStarted(why.clone());
        }
        let pid = Pid(self.next);
        self.next += 1;
        if let Some(why) = self.forwarder_fault.clone() {
            return Event::NotStarted(why);
        }
        if self.policies == Policies::Sound {
            self.readers.push(pid);
        }
        Event::Started { pid, has_read: self.policies == Policies::Known }
    }
}

fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.find(|it: char| !it.is_ascii_digit()).expect("a unit"));
    let number = number.parse().expect("a number");
    match unit {
        "s" => Duration::from_secs(number),
        "ms" => Duration::from_millis(number),
        _ => panic!("no unit is called {unit}"),
    }
}

fn number(text: &str) -> Pid {
    Pid(text.parse().expect("the number of a process"))
}

fn followed(text: &str) -> Result<Followed, String> {
    match text {
        "unwanted" => Ok(Followed::Unwanted),
        "same" => Ok(Followed::Same),
        "other" => Ok(Followed::Other),
        why => Err(why.to_owned()),
    }
}

fn said_as(word: &str, text: String) -> Said {
    let texts = |kind: &str| {
        let parts = text.split(", ").filter_map(|part| part.strip_prefix(kind));
        parts.map(str::to_owned).collect()
    };
    match word {
        "read" => Said::Read(Ok(())),
        "findings" => Said::Read(Err(text.replace('|', "\n"))),
        "ready" => Said::Ready { warnings: texts("warning "), notes: texts("note ") },
        "opened" => Said::Intake(true),
        "closed" => Said::Intake(false),
        "restart" => Said::Restart,
        "failed" => Said::Failed(text),
        "ended" => Said::Ended(text.parse().expect("a count")),
        "beat" => Said::Other,
        _ => panic!("no forwarder says {word}"),
    }
}

fn name(companion: Companion) -> &'static str {
    match companion {
        Companion::Gateway => "gateway",
        Companion::Reservations => "rsvp",
        Companion::Circuits => "circuits",
    }
}

/// Returns an action that is no question as text.
fn text(action: Action) -> String {
    match action {
        Action::Ask(question) => panic!("{question:?} is answered elsewhere"),
        Action::Stop(companion) => format!("stop {}", name(companion)),
        Action::EndHung(companion, why) => format!("end {}: {why}", name(companion)),
        Action::Send(pid, order) => match order {
            Order::Intake(true) => format!("{pid} opens"),
            Order::Intake(false) => format!("{pid} closes"),
            Order::Drain(time) => format!("{pid} drains {time:?}"),
            Order::Restarted(Ok(said)) => format!("{pid} restarted: {said}"),
            Order::Restarted(Err(why)) => {
                format!("{pid} not restarted: {}", why.replace('\n', "|"))
            }
            Order::Mark => format!("{pid} marks"),
            Order::Texts => format!("{pid} reads"),
        },
        Action::Kill(pid) => format!("kill {pid}"),
        Action::Abort(pid) => format!("abort {pid}"),
        Action::ReturnToFormerFiles => "return to former files".to_owned(),
        Action::DropFormerFiles => "drop former files".to_owned(),
        Action::GiveUpTrial(why) => {
            assert_eq!(why, "the forwarder died before it was confirmed");
            "give up trial".to_owned()
        }
        Action::Introduce(pid) => format!("introduce {pid}"),
        Action::Journal(kind, detail, reader) => {
            let reader = reader.map(|pid| format!(" (told {pid})")).unwrap_or_default();
            format!("{} {detail}", kind.keyword()).trim_end().to_owned() + &reader
        }
        Action::JournalFlushed(count) => format!("flushed {count}"),
        Action::Begin(Fault::Death, detail) => format!("death of {detail}"),
        Action::Begin(Fault::Fallback, detail) => format!("unshaped{detail}"),
        Action::Begin(Fault::Missing(companion), detail) => {
            format!("{} is missing: {detail}", name(companion))
        }
        Action::End(Fault::Missing(companion)) => format!("{} is back", name(companion)),
        Action::End(Fault::Death) => "death is over".to_owned(),
        Action::End(Fault::Fallback) => "shaped".to_owned(),
        Action::Warn(text) => format!("warning {text}"),
        Action::Note(text) => format!("note {text}"),
        Action::Announce(pid) => format!("announce {pid}"),
        Action::AnnounceGateway => "announce gateway".to_owned(),
        Action::PrintLast => "print last".to_owned(),
        Action::Service(Progress::Ready) => "service ready".to_owned(),
        Action::Service(Progress::Absent) => "service absent".to_owned(),
        Action::Service(Progress::Stopping) => "service stopping".to_owned(),
    }
}
