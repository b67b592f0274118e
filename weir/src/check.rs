//! `weir check`: the findings of a policy, a deployment or a scenario.

use crate::Run;
use crate::output::{Exit, Format, Output};
use serde::Serialize;
use std::path::{Path, PathBuf};
use weir_policy::finding::{Finding, Outcome, Severity};
use weir_policy::{deployment, file, policy, reader, render};
use weir_sim::read;

/// Checks a policy, a deployment or a scenario: what is wrong, where, and what to do about it.
///
/// Exits 0 without errors (there may be warnings), 1 with errors, 2 if the file cannot be read.
#[derive(clap::Args)]
pub struct Check {
    /// The policy, deployment or scenario, in TOML.
    file: PathBuf,
}

/// What `--format json` prints; docs/findings.md describes it.
#[derive(Serialize)]
struct Checked<'a> {
    file: String,
    kind: &'static str,
    errors: usize,
    warnings: usize,
    findings: &'a [Finding],
}

impl Run for Check {
    fn run(self, output: &Output) -> Exit {
        let name = self.file.display().to_string();
        let bytes = match file::read(&self.file) {
            Ok(bytes) => bytes,
            Err(error) => return output.refuse(&format!("cannot read {name}: {error}")),
        };
        let keys = reader::top_level(&bytes);
        let read_file = |path: &Path| file::read(path);
        if deployment::is_deployment(&keys) {
            let outcome = deployment::parse(&bytes, &name, &read_file);
            return print(output, &name, "deployment", &outcome);
        }
        if read::is_scenario(&keys) {
            let outcome = read::parse(&bytes, &name, &read_file);
            return print(output, &name, "scenario", &outcome);
        }
        print(output, &name, "policy", &policy::parse_bytes(&bytes, &name, None))
    }
}

/// Prints what was found in a file, and answers how the command ends.
pub fn print<T>(output: &Output, name: &str, kind: &'static str, outcome: &Outcome<T>) -> Exit {
    let findings = outcome.findings.as_slice();
    match output.format {
        Format::Json => output.json(&Checked {
            file: name.to_owned(),
            kind,
            errors: outcome.count(Severity::Error),
            warnings: outcome.count(Severity::Warning),
            findings,
        }),
        Format::Text => {
            output.text(&render::render(findings, &outcome.sources, output.colour()));
            output.text(&format!("{name}: {kind}, {}\n", render::summary(findings)));
        }
    }
    if outcome.failed() { Exit::Faults } else { Exit::Clean }
}
