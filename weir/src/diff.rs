//! `weir diff`: compares the effects of two policies.

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::{Run, input};
use std::path::{Path, PathBuf};
use weir_policy::diff::printed::Printed;
use weir_policy::diff::{Difference, text};
use weir_policy::policy::{self, Policy};
use weir_policy::render;

/// Compares the effects of two policies.
///
/// It says which packets go to another class, which guarantees change, and which other values are
/// written differently.
///
/// Exits 0 if nothing changes, 1 if something does or a policy has errors, 2 if a file
/// cannot be read.
#[derive(clap::Args)]
pub struct Diff {
    /// The old policy.
    old: PathBuf,
    /// The new policy.
    new: PathBuf,
}

impl Run for Diff {
    fn run(self, output: &Output) -> Exit {
        let policies = read(&self.old, output).and_then(|old| Ok((old, read(&self.new, output)?)));
        let (old, new) = match policies {
            Ok(policies) => policies,
            Err(exit) => return exit,
        };
        let difference = Difference::between(&old, &new);
        match output.format {
            Format::Json => output.json(&Printed::of(&difference)),
            Format::Text => output.text(&text(&difference)),
        }
        if difference.is_empty() { Exit::Clean } else { Exit::Faults }
    }
}

fn read(path: &Path, output: &Output) -> Result<Policy, Exit> {
    let name = path.display().to_string();
    let bytes = input::read(path)
        .map_err(|error| output.refuse(&format!("cannot read {name}: {error}")))?;
    let outcome = policy::parse_bytes(&bytes, &name, None, &input::read_named);
    if outcome.failed() {
        return Err(kind::refuse(output, (&name, &bytes), Kind::Policy, &outcome));
    }
    eprint!("{}", render::render(&outcome.findings, &outcome.sources, false));
    Ok(outcome.plan.expect("without errors there is a plan"))
}
