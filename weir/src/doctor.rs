//! `weir doctor`: what this host allows, and what to do before traffic depends on it.

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::{Run, input};
use serde::Serialize;
use std::path::{Path, PathBuf};
use weir_daemon::up::{api, circuits};
use weir_gateway::site;
use weir_link::doctor::{Facts, Finding, Level, Wakeup, Wanted, examine};
use weir_link::memory;
use weir_policy::deployment;

/// Says what this host lacks for a running link, and what to do about it.
///
/// It looks at privileges, kernel, interfaces, settings, processors, and how late threads wake.
///
/// It changes nothing and runs none of the commands that it names; what has to be tried is tried in
/// a private network. With a deployment it judges what that needs. Takes about a second.
///
/// Exits 1 if the deployment, or an interface that is named, has a problem.
#[derive(clap::Args)]
pub struct Doctor {
    /// The deployment, in TOML.
    deployment: Option<PathBuf>,
    /// An interface that may become a port; may be given several times.
    #[arg(long, value_name = "IF", conflicts_with = "deployment")]
    interface: Vec<String>,
    /// Print what is good, too.
    #[arg(long)]
    all: bool,
}

/// The output of `--format json`; docs/running.md describes it.
#[derive(Serialize)]
struct Examined<'a> {
    problems: usize,
    warnings: usize,
    findings: &'a [Finding],
    wakeups: Vec<Wake>,
}

/// How late threads of a precedence wake, in µs.
#[derive(Serialize)]
struct Wake {
    precedence: &'static str,
    count: usize,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

impl Run for Doctor {
    fn run(self, output: &Output) -> Exit {
        let wanted = match &self.deployment {
            None => Wanted::of_interfaces(&self.interface),
            Some(path) => match wanted(path, output) {
                Ok(wanted) => wanted,
                Err(exit) => return exit,
            },
        };
        if let Some(name) = self.interface.iter().find(|name| !deployment::is_interface(name)) {
            return output.refuse(&format!("{name:?} is not a name of a Linux interface"));
        }
        let facts = Facts::of_this_machine(&wanted);
        let findings = examine(&facts, &wanted);
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
        match output.format {
            Format::Json => output.json(&Examined {
                problems,
                warnings,
                findings: &findings,
                wakeups: facts.wakeups.iter().map(Wake::of).collect(),
            }),
            Format::Text => {
                let shown = |finding: &&Finding| self.all || finding.level != Level::Good;
                findings.iter().filter(shown).for_each(|finding| print(output, finding));
                let (good, notes) = (count(Level::Good), count(Level::Note));
                let hidden = if self.all { "" } else { " (--all prints them)" };
                let counts = [(problems, "problem"), (warnings, "warning"), (notes, "note")];
                let counts = counts.map(|(count, noun)| {
                    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
                });
                output.text(&format!("{}, {good} good{hidden}\n", counts.join(", ")));
            }
        }
        if problems > 0 { Exit::Faults } else { Exit::Clean }
    }
}

impl Wake {
    fn of(wakeup: &Wakeup) -> Self {
        let micros = |ns: u64| ns as f64 / 1e3;
        Self {
            precedence: wakeup.precedence,
            count: wakeup.count,
            p50_us: micros(wakeup.p50_ns),
            p99_us: micros(wakeup.p99_ns),
            max_us: micros(wakeup.max_ns),
        }
    }
}

/// Reads what a deployment wants; explains why it cannot.
fn wanted(path: &Path, output: &Output) -> Result<Wanted, Exit> {
    let name = path.display().to_string();
    let bytes = input::read(path)
        .map_err(|error| output.refuse(&format!("cannot read {name}: {error}")))?;
    let read = |path: &Path| input::read_named(path);
    let outcome = deployment::parse(&bytes, &name, &read);
    if outcome.failed() {
        return Err(kind::refuse(output, (&name, &bytes), Kind::Deployment, &outcome));
    }
    let deployment = outcome.plan.expect("without errors there is a plan");
    let memory = memory::forecast(&deployment, memory::mtu_now).total();
    let refused = api::read(&deployment, site::check).err();
    let refused = refused.or_else(|| circuits::check(&deployment).err());
    Ok(Wanted { refused, ..Wanted::of(&deployment, memory) })
}

/// Prints a finding, and its cure on a line of its own.
fn print(output: &Output, finding: &Finding) {
    let level = match finding.level {
        Level::Good => "good",
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Problem => "problem",
    };
    let subject = match &finding.interface {
        Some(interface) => format!("{interface}, {}", finding.check),
        None => finding.check.to_owned(),
    };
    output.text(&format!("{level}: {subject}: {}\n", finding.text));
    if let Some(cure) = &finding.cure {
        output.text(&format!("    {cure}\n"));
    }
}
