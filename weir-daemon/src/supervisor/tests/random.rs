//! Forwarders that do anything at any time: whatever happens, at most one takes frames, the
//! fallback is closed then, a link without a forwarder knows why, and one that is to stop ends.
//!
//! The supervisor asserts the first two of what it knows; here they are found from what forwarders
//! were told and said.

use super::world::{World, settings};
use crate::supervisor::State;
use crate::supervisor::interface::{Action, Edition, Event, Order, Outcome, Pid, Question, Said};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_core::random::Random;
use weir_host::signals::Asked;
use weir_policy::deployment::Restart;

/// A forwarder as its process is.
#[derive(Clone, Copy, Default)]
struct Process {
    has_read: bool,
    is_ready: bool,
    /// The intake that it was told, until it says that it is so.
    due: Option<bool>,
    /// It takes frames, or was ordered to and has not said otherwise.
    takes: bool,
    /// It was ordered to end, and says nothing more.
    ends: bool,
}

/// A link, its forwarders, and what decides what they do.
struct Walk {
    world: World,
    random: Random,
    processes: BTreeMap<u32, Process>,
    next: u32,
    is_unshaped: bool,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 0);
        let words = WORDS[random.bits() as usize % WORDS.len()];
        let world = World::idle(settings(words), None);
        let mut walk =
            Self { world, random, processes: BTreeMap::new(), next: 1, is_unshaped: false };
        walk.carry_out();
        walk
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.bits() % limit
    }

    fn step(&mut self) {
        let count = self.processes.len() as u64;
        let chosen = if count == 0 { 0 } else { self.below(count) as usize };
        let chosen = self.processes.keys().nth(chosen).copied();
        match (self.below(20), chosen) {
            (0..12, Some(pid)) => self.act(pid),
            (12, Some(pid)) => self.exit(pid),
            (13, Some(pid)) => self.said(pid, Said::Restart),
            (14, _) => self.handle(Event::Poll),
            (15, _) => self.handle(Event::Signal(Asked::HangUp)),
            (16, _) => self.world.now += Duration::from_millis(700),
            _ => {
                self.world.now += Duration::from_millis(70);
                self.tick();
            }
        }
        self.check();
    }

    /// A forwarder does what it was told, or says something.
    fn act(&mut self, pid: u32) {
        let process = self.processes[&pid];
        if process.ends {
            return self.exit(pid);
        }
        if !process.has_read {
            let is_wrong = self.below(8) == 0;
            let process = self.processes.entry(pid).or_default();
            (process.has_read, process.ends) = (true, is_wrong);
            let read = if is_wrong { Err("it is wrong".to_owned()) } else { Ok(()) };
            return self.said(pid, Said::Read(read));
        }
        if !process.is_ready {
            self.processes.entry(pid).or_default().is_ready = true;
            let said = Said::Ready { warnings: Vec::new(), notes: Vec::new() };
            return self.said(pid, said);
        }
        match process.due {
            Some(is_open) => {
                let process = self.processes.entry(pid).or_default();
                process.due = None;
                process.takes = is_open;
                self.said(pid, Said::Intake(is_open));
            }
            None => self.said(pid, Said::Other),
        }
    }

    fn exit(&mut self, pid: u32) {
        self.processes.remove(&pid);
        self.handle(Event::Exited(Pid(pid), "it ended".to_owned()));
    }

    fn said(&mut self, pid: u32, said: Said) {
        self.handle(Event::Said(Pid(pid), said));
    }

    fn tick(&mut self) {
        self.handle(Event::Tick { heard: self.world.now });
    }

    fn handle(&mut self, event: Event) {
        if self.world.link.outcome().is_none() {
            self.world.link.handle(self.world.now, event);
            self.carry_out();
        }
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.world.link.next_action() {
            match action {
                Action::Ask(question) => self.answer(question),
                Action::Send(pid, Order::Intake(is_open)) => {
                    let process = self.processes.entry(pid.0).or_default();
                    process.due = Some(is_open);
                    process.takes = true;
                }
                Action::Send(pid, Order::Drain(_)) | Action::Kill(pid) | Action::Abort(pid) => {
                    let process = self.processes.entry(pid.0).or_default();
                    (process.takes, process.ends) = (false, true);
                }
                _ => {}
            }
            self.check();
        }
    }

    fn answer(&mut self, question: Question) {
        let answer = match question {
            Question::StartForwarder(edition) => {
                if edition == Edition::Anew {
                    let words = WORDS[self.below(WORDS.len() as u64) as usize];
                    self.world.step(&format!("answer files: {words}"));
                }
                let pid = self.next;
                self.next += 1;
                // The first has read its policies before the supervisor begins.
                let has_read = pid == 1;
                self.processes.insert(pid, Process { has_read, ..Process::default() });
                Event::Started { pid: Pid(pid), has_read }
            }
            Question::Fallback(is_open) => {
                self.is_unshaped = is_open;
                Event::FallbackSet(is_open, Ok(()))
            }
            Question::LookForPorts => {
                let missing = if self.below(4) == 0 { vec!["wan".to_owned()] } else { Vec::new() };
                Event::PortsMissing(missing)
            }
            other => self.world.answer(other),
        };
        self.world.link.handle(self.world.now, answer);
    }

    fn check(&self) {
        let takers = self.processes.values().filter(|process| process.takes).count();
        assert!(takers <= 1, "two take frames: {:?}", self.world.link);
        assert!(takers == 0 || !self.is_unshaped, "beside the kernel: {:?}", self.world.link);
    }

    /// A link that was not told to stop and has no forwarder waits for interfaces, or has given up.
    fn check_life(&self) {
        let link = &self.world.link;
        if link.outcome().is_none() && self.processes.is_empty() {
            let has_given_up = link.settings.restart == Restart::Never
                || link.state == State::Absent
                || link.state == State::AwaitingPorts;
            assert!(has_given_up, "no forwarder runs: {link:?}");
        }
    }
}

#[test]
fn any_life_of_forwarders_keeps_the_promises() {
    let (mut handed_over, mut ended) = (0, 0);
    for seed in 0..LIVES {
        let mut walk = Walk::new(seed);
        for _ in 0..STEPS {
            walk.step();
            walk.check_life();
        }
        ended += u64::from(walk.world.link.outcome().is_some());
        handed_over += u64::from(walk.next > 3);
        walk.handle(Event::Signal(Asked::Stop(15)));
        while let Some(pid) = walk.processes.keys().next().copied() {
            walk.exit(pid);
        }
        walk.tick();
        let outcome = walk.world.link.outcome();
        let has_ended = matches!(outcome, Some(Outcome::Stopped | Outcome::Failed(_)));
        assert!(has_ended, "seed {seed}: {outcome:?}");
    }
    assert!(handed_over > LIVES / 2 && ended < LIVES, "{handed_over} and {ended} of {LIVES}");
}

/// Settings of a link: those that it begins with, and those of files that are read anew.
const WORDS: [&str; 6] = ["", "closed", "never", "never closed", "watchdog=2", "watchdog=2 closed"];
const LIVES: u64 = 100;
const STEPS: usize = 300;
