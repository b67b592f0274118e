//! Two futures of a moment of a record whose senders react: with the policies of the record, and
//! with other values from the moment on.
//!
//! Both are simulated from the beginning of the record, so that at the moment windows and queues
//! have grown, and only what leaves the link after the moment counts. The first is compared with
//! the record: by so much the second may be wrong. Invariant: until the moment both are the same,
//! to the bit.

use crate::beyond::Beyond;
use crate::observed::observe_between;
use crate::uncertain::vary;
use crate::whatif::{Answer, scenario};
use crate::{Grouping, Inferred, Input, Options, infer};
use std::sync::atomic::AtomicBool;
use weir_core::units::{Duration, Instant};
use weir_policy::Policy;
use weir_sim::Scenario;
use weir_sim::change::PlanChange;
use weir_sim::whatif::{self, Question, Under};
use weir_trace::fork::{Ask, Recorded};
use weir_trace::load::{Fork, Stage};

/// How often and on how many threads futures are simulated.
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    /// The runs of each future.
    pub replications: usize,
    /// Runs at the same time.
    pub threads: usize,
    /// Ends the work.
    pub stop: &'a AtomicBool,
    /// Gets the number of runs that ended.
    pub done: &'a (dyn Fn(usize) + Sync),
}

/// Forks a record whose senders react; `record` opens it, and is called twice.
///
/// # Errors
/// When the moment is outside the record, a value cannot be set or none is given, or a scenario
/// cannot run.
pub fn fork<'s>(
    recorded: &Recorded,
    record: &dyn Fn() -> Result<Input<'s>, String>,
    ask: &Ask,
    runs: &Runs<'_>,
) -> Result<Answer, String> {
    if ask.edits.is_empty() {
        return Err("senders react to a change: give one with --set KEY=VALUE".to_owned());
    }
    // The fork without changes says whether the record has the moment.
    let unchanged = Ask { edits: Vec::new(), driver: None, ..ask.clone() };
    weir_trace::fork::fork(recorded, std::io::empty(), &unchanged)?;
    let options = Options {
        name: "fork".to_owned(),
        policy: Some(String::new()),
        direction: Some(recorded.direction.clone()),
        grouping: Grouping::Exact,
        ..Options::default()
    };
    let inferred = infer(record()?, &options, &mut |_| {}).map_err(|error| error.to_string())?;
    let futures = Futures::new(recorded, ask, &inferred)?;
    let mut policies = [futures.future(&inferred, false)?, futures.future(&inferred, true)?];
    let between = (futures.from, futures.to);
    let observed = observe_between(record()?, &inferred, &policies[0].scenario, between);
    let beyond = Beyond::new(&observed, &policies[0].scenario);
    policies.iter_mut().for_each(|under| beyond.extend(&mut under.scenario, 0));
    let question = Question {
        policies: &policies,
        captured: &observed.tallies,
        span: Instant::ZERO.after(futures.to).since(Instant::ZERO.after(futures.from)),
        replications: runs.replications,
        threads: runs.threads,
        vary: &|scenario, replication| {
            beyond.extend(scenario, replication);
            vary(&inferred, scenario, replication);
        },
    };
    let answer = whatif::ask(&question, runs.stop, runs.done);
    let mut whatif = answer.map_err(|error| error.to_string())?;
    whatif.notes.clone_from(&inferred.notes);
    whatif.notes.extend(recorded.load.fault.clone());
    Ok(Answer { whatif, scenarios: policies.into() })
}

/// The policies of both futures, and the time that counts, from the first frame of the record.
struct Futures<'a> {
    stages: &'a [Stage],
    origin: Instant,
    at: Instant,
    fork: Fork,
    from: Duration,
    to: Duration,
}

impl<'a> Futures<'a> {
    fn new(recorded: &'a Recorded, ask: &Ask, inferred: &Inferred) -> Result<Self, String> {
        let origin = inferred.origin().ok_or("no packet of a flow passes this direction")?;
        let load = &recorded.load;
        let until = ask.at.after(ask.length).min(load.end);
        let (from, to) = (ask.at.since(origin.min(ask.at)), until.since(origin.min(until)));
        if to <= from {
            return Err("no packet came after that moment; take an earlier one".to_owned());
        }
        let fork = Fork { at: ask.at, edits: ask.edits.clone(), driver: None };
        Ok(Self { stages: &load.stages, origin, at: ask.at, fork, from, to })
    }

    /// Returns a future of the record, with the changes or without them.
    fn future(&self, inferred: &Inferred, is_forked: bool) -> Result<Under, String> {
        let stages = self.stages(is_forked)?;
        let (first, later) = stages.split_first().ok_or("the record has no policy")?;
        let text = inferred.scenario();
        let mut scenario: Scenario = scenario(inferred, &text, &first.policy)?;
        scenario.duration = self.to;
        scenario.warmup = self.from;
        let end = Instant::ZERO.after(self.to);
        scenario.sources.retain(|source| source.start < end);
        let change = |stage: &Stage| self.change(stage, &first.policy);
        scenario.changes = later.iter().map(change).filter(|change| change.at < end).collect();
        let words = self.fork.edits.iter().map(|edit| format!("{}={}", edit.key, edit.value));
        let policy = match is_forked {
            false => first.name.clone(),
            true => words.collect::<Vec<_>>().join(" "),
        };
        Ok(Under { policy, scenario })
    }

    /// Returns the policies of a future: the first at the first frame, each of the others later.
    fn stages(&self, is_forked: bool) -> Result<Vec<Stage>, String> {
        let mut stages = self.stages.to_vec();
        if is_forked {
            let edited = |stage: &Stage| self.fork.edited(stage, stage.at.max(self.at));
            let in_force = stages.iter().rposition(|stage| stage.at <= self.at).unwrap_or(0);
            let changed = edited(&stages[in_force])?;
            for later in &mut stages[in_force + 1..] {
                *later = edited(later)?;
            }
            stages.insert(in_force + 1, changed);
        }
        let before = stages.iter().rposition(|stage| stage.at <= self.origin).unwrap_or(0);
        Ok(stages.split_off(before))
    }

    /// Returns the change to the policy of a stage, whose rules number ports as `first` does.
    fn change(&self, stage: &Stage, first: &Policy) -> PlanChange {
        let at = Instant::ZERO.after(stage.at.since(self.origin.min(stage.at)));
        PlanChange::to(stage.policy.clone(), (at, &stage.name), Some(first))
    }
}
