//! The findings of `weir check` in a text, and the plan of that text.

use crate::kind::Kind;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use weir_policy::deployment;
use weir_policy::diff::{Standing, standings};
use weir_policy::file::ReadFile;
use weir_policy::finding::{Finding, Outcome, Source};
use weir_policy::policy::{self, Policy};
use weir_sim::read as scenario;
use weir_sweep::{Sweep, file as sweep};

/// The outcome of checking a file.
#[derive(Debug, Default)]
pub struct Checked {
    /// The findings, in the order of the file.
    pub findings: Vec<Finding>,
    /// The files that they point into.
    pub sources: Vec<Source>,
    /// The plan of a policy without errors.
    pub policy: Option<Policy>,
    /// Why a sweep cannot be run, and where.
    pub fault: Option<sweep::Fault>,
    standings: OnceCell<BTreeMap<String, Standing>>,
}

impl Checked {
    /// Checks a text of a kind as `weir check` does; `read_file` reads the files that it names.
    pub fn of(kind: Kind, (name, text): (&str, &str), read_file: ReadFile<'_>) -> Self {
        let bytes = text.as_bytes();
        match kind {
            Kind::Policy => {
                let outcome = policy::parse_bytes(bytes, name, None, read_file);
                Self { policy: outcome.plan, ..Self::with(outcome.findings, outcome.sources) }
            }
            Kind::Deployment => Self::plain(deployment::parse(bytes, name, read_file)),
            Kind::Scenario => Self::plain(scenario::parse(bytes, name, read_file)),
            Kind::Sweep => {
                let spec = sweep::parse(text, Path::new(name), read_file);
                let fault = spec.and_then(|spec| {
                    Sweep::new(spec).map_err(|message| sweep::Fault { message, span: None })
                });
                Self { fault: fault.err(), ..Self::default() }
            }
        }
    }

    fn plain<T>(outcome: Outcome<T>) -> Self {
        Self::with(outcome.findings, outcome.sources)
    }

    fn with(findings: Vec<Finding>, sources: Vec<Source>) -> Self {
        Self { findings, sources, ..Self::default() }
    }

    /// Returns what a leaf of the policy gets, as `weir check --bounds` says.
    pub fn standing(&self, leaf: &str) -> Option<&Standing> {
        let policy = self.policy.as_ref()?;
        let all = self.standings.get_or_init(|| standings(policy).into_iter().collect());
        all.get(leaf)
    }
}
