//! The traffic of a capture under other policies, from the capture itself.
//!
//! [`ask`] writes the scenario that was inferred, reads the capture once more for what became of
//! its flows, and has [`weir_sim::whatif`] simulate the policies. Invariant: every policy meets the
//! same scenario.

use crate::beyond::Beyond;
use crate::load::LENGTH_MIN;
use crate::observed::observe;
use crate::uncertain::vary;
use crate::{Inferred, Input};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use weir_core::units::Instant;
use weir_policy::Policy;
use weir_sim::whatif::{self, Question, Under, WhatIf};
use weir_sim::{Scenario, read};

/// The policies to try.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The policy that was in force, and then the others, each with its name.
    pub policies: &'a [(String, Policy)],
    /// The runs under each.
    pub replications: usize,
    /// Runs at the same time.
    pub threads: usize,
}

/// The answer, and the scenario under each policy.
#[derive(Debug)]
pub struct Answer {
    /// The tables.
    pub whatif: WhatIf,
    /// The scenario under each policy, that in force first.
    pub scenarios: Vec<Under>,
}

/// Simulates the traffic that was inferred from a capture under other policies; `again` is the same
/// capture.
///
/// # Errors
/// When the scenario cannot be read with a policy, cannot run, or `stop` was set.
pub fn ask(
    (inferred, again): (&Inferred, Input<'_>),
    trial: &Trial<'_>,
    stop: &AtomicBool,
    done: &(dyn Fn(usize) + Sync),
) -> Result<Answer, String> {
    let text = inferred.scenario();
    let under = |(name, policy): &(String, Policy)| {
        scenario(inferred, &text, policy).map(|scenario| Under { policy: name.clone(), scenario })
    };
    let mut policies = trial.policies.iter().map(under).collect::<Result<Vec<_>, _>>()?;
    let first = policies.first().ok_or("name the policies to try")?;
    let observed = observe(again, inferred, &first.scenario);
    let beyond = Beyond::new(&observed, &first.scenario);
    policies.iter_mut().for_each(|under| beyond.extend(&mut under.scenario, 0));
    let question = Question {
        policies: &policies,
        captured: &observed.tallies,
        span: inferred.duration.max(LENGTH_MIN),
        replications: trial.replications,
        threads: trial.threads,
        vary: &|scenario, replication| {
            beyond.extend(scenario, replication);
            vary(inferred, scenario, replication);
        },
    };
    let mut whatif = whatif::ask(&question, stop, done).map_err(|error| error.to_string())?;
    whatif.notes.clone_from(&inferred.notes);
    let cut = observed.ends.iter().flatten().filter(|end| end.is_cut).count();
    if cut > 0 {
        whatif.notes.push(format!(
            "{cut} objects are cut by the end of the capture: they count as long as longer ones of \
             the same server, or without end"
        ));
    }
    if !observed.has_delays {
        whatif.notes.push(
            "one capture does not tell delays and drops, so their forecasts have no error bar; a \
             record of the link does, or captures of both its sides"
                .to_owned(),
        );
    }
    Ok(Answer { whatif, scenarios: policies })
}

/// Reads the inferred scenario under a policy.
pub(crate) fn scenario(
    inferred: &Inferred,
    text: &str,
    policy: &Policy,
) -> Result<Scenario, String> {
    let beside = inferred.beside();
    let file = |path: &Path| {
        let named = |name: &str| path.file_name().is_some_and(|own| own == name);
        let found = beside.iter().find(|file| named(&file.name));
        found.map(|file| file.bytes.clone()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    let name = format!("{}.toml", inferred.name());
    let outcome = read::parse_with(text.as_bytes(), &name, &file, policy);
    let failed = outcome.failed();
    let first = outcome.findings.first().map(|finding| finding.message.clone());
    let scenario = outcome.plan.filter(|_| !failed);
    let mut scenario = scenario.ok_or_else(|| first.unwrap_or_else(|| "no scenario".to_owned()))?;
    // What the capture does not have is not simulated either.
    let length = inferred.duration.max(LENGTH_MIN);
    let end = Instant::ZERO.after(length);
    scenario.sources.retain(|source| source.start < end);
    scenario.duration = length.max(scenario.warmup);
    Ok(scenario)
}
