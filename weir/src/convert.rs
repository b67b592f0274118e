//! `weir convert`: writes a policy for another scheduler.

use crate::check;
use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::{Run, input, whole_file};
use serde::Serialize;
use std::path::PathBuf;
use weir_core::sched::Descriptor;
use weir_policy::finding::{Finding, Outcome, Severity};
use weir_policy::translate::{self, Converted};
use weir_policy::{Policy, policy, render};
use weir_sim::compare::find;

/// Writes a policy for another scheduler.
///
/// Comments, rules, queues and meters stay; docs/compare.md has the rules of translation. What was
/// added and what has no counterpart goes to standard error, with the findings of the new policy.
/// Exits 1 if the policy or the new one is wrong, or if the scheduler cannot express it.
#[derive(clap::Args)]
pub struct Convert {
    /// The policy, in TOML; `-` for standard input.
    policy: PathBuf,
    /// The keyword of the scheduler to translate for.
    #[arg(long, value_name = "KEYWORD")]
    scheduler: String,
    /// Write the policy to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The output of `--format json`; docs/compare.md describes it.
#[derive(Serialize)]
struct Printed<'a> {
    file: &'a str,
    written_for: &'static str,
    scheduler: &'static str,
    notes: &'a [String],
    policy: &'a str,
    errors: usize,
    warnings: usize,
    findings: &'a [Finding],
}

impl Run for Convert {
    fn run(self, output: &Output) -> Exit {
        let name = self.policy.display().to_string();
        let bytes = match input::read_or_stdin(&self.policy) {
            Ok(bytes) => bytes,
            Err(error) => return output.refuse(&format!("cannot read {name}: {error}")),
        };
        let to = match find(std::slice::from_ref(&self.scheduler)) {
            Ok(found) => found[0].descriptor,
            Err(why) => return output.refuse(&why),
        };
        self.convert((&bytes, &name), to, output)
    }
}

impl Convert {
    fn convert(
        &self,
        (bytes, name): (&[u8], &str),
        to: &'static Descriptor,
        output: &Output,
    ) -> Exit {
        let outcome = policy::parse_bytes(bytes, name, None, &input::read_named);
        let (Some(policy), Ok(text), false) =
            (&outcome.plan, std::str::from_utf8(bytes), outcome.failed())
        else {
            return refuse((name, bytes), &outcome, output);
        };
        if let Err(error) = whole_file::distinct(&[("--out", &self.out)], &[&self.policy]) {
            return output.refuse(&error);
        }
        match translate::convert((text, name), policy, to) {
            Ok(converted) => {
                let printed = Printed {
                    file: name,
                    written_for: policy.link.scheduler,
                    scheduler: to.keyword,
                    notes: &converted.notes,
                    policy: &converted.text,
                    errors: converted.outcome.count(Severity::Error),
                    warnings: converted.outcome.count(Severity::Warning),
                    findings: &converted.outcome.findings,
                };
                self.hand_over(&printed, &converted, output)
            }
            Err(why) => output.fault(&format!("{name}: {why}")),
        }
    }

    /// Prints the notes and findings, and writes the policy unless it is wrong.
    fn hand_over(&self, printed: &Printed<'_>, converted: &Converted, output: &Output) -> Exit {
        let Outcome { findings, sources, .. } = &converted.outcome;
        let text = output.format == Format::Text;
        if text {
            converted.notes.iter().for_each(|note| output.warn(note));
            eprint!("{}", render::render(findings, sources, false));
        }
        // Written before JSON is printed, which else could not tell that it failed.
        let failed = converted.outcome.failed();
        if let Some(path) = self.out.as_ref().filter(|_| !failed)
            && let Err(why) = whole_file::write(path, &converted.text)
        {
            return output.refuse(&why);
        }
        match text {
            true if !failed && self.out.is_none() => output.text(&converted.text),
            true => (),
            false => output.json(printed),
        }
        if failed { Exit::Faults } else { Exit::Clean }
    }
}

/// Prints why the policy cannot be read: text to standard error, since a policy goes to standard
/// output.
fn refuse((name, bytes): (&str, &[u8]), outcome: &Outcome<Policy>, output: &Output) -> Exit {
    if let Some(message) = kind::mistaken(name, bytes, Kind::Policy) {
        return output.refuse(&message);
    }
    if output.format == Format::Json {
        return check::print(output, name, "policy", outcome);
    }
    eprint!("{}", render::render(&outcome.findings, &outcome.sources, false));
    output.warn(&format!("{name}: policy, {}", render::summary(&outcome.findings)));
    Exit::Faults
}
