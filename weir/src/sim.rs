//! `weir sim`: runs a scenario in simulated time and prints what each class and source got.

use crate::Run;
use crate::check;
use crate::output::{Exit, Format, Output};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use weir_core::units::Duration;
use weir_policy::{file, render};
use weir_sim::explain::{SLOWEST_DEFAULT, SLOWEST_MAX};
use weir_sim::{Scenario, read};

/// Simulates a scenario: sources, a policy's link, receivers.
///
/// The same scenario and seed print the same bytes. Exits 0 if it ran, 1 if the scenario has
/// errors, 2 if it cannot be read.
#[derive(clap::Args)]
pub struct Sim {
    /// The scenario, in TOML.
    scenario: PathBuf,
    /// Another seed than the scenario's.
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    explain: Explain,
}

/// Whether to explain why packets waited; also an option of `weir replay`.
#[derive(clap::Args)]
pub struct Explain {
    /// Say why packets waited: behind their own class, for the line, held back by a limit, or while
    /// others had their turns.
    #[arg(long)]
    explain: bool,
    /// With --explain: show so many of the slowest packets.
    #[arg(long, value_name = "N", requires = "explain", default_value_t = SLOWEST_DEFAULT as u16,
        value_parser = clap::value_parser!(u16).range(..=SLOWEST_MAX as i64))]
    slowest: u16,
}

impl Explain {
    /// How many of the slowest packets to show, if it was asked why packets waited.
    pub fn slowest(&self) -> Option<usize> {
        self.explain.then_some(usize::from(self.slowest))
    }
}

impl Run for Sim {
    fn run(self, output: &Output) -> Exit {
        let name = self.scenario.display().to_string();
        let bytes = match file::read(&self.scenario) {
            Ok(bytes) => bytes,
            Err(error) => return output.refuse(&format!("cannot read {name}: {error}")),
        };
        let outcome = read::parse(&bytes, &name, &|path: &Path| file::read(path));
        if outcome.failed() {
            return check::print(output, &name, "scenario", &outcome);
        }
        // Warnings are not the result that was asked for.
        eprint!("{}", render::render(&outcome.findings, &outcome.sources, false));
        let mut scenario = outcome.plan.expect("without errors there is a plan");
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        simulate(&scenario, self.explain.slowest(), output)
    }
}

fn simulate(scenario: &Scenario, slowest: Option<usize>, output: &Output) -> Exit {
    let bar = bar(scenario.duration);
    let progress = &mut |at: Duration| bar.set_position(at.as_nanos() / 1_000_000);
    let report = match slowest {
        Some(slowest) => weir_sim::run_explained(scenario, slowest, progress),
        None => weir_sim::run(scenario, progress),
    };
    bar.finish_and_clear();
    match report {
        Ok(report) => {
            match output.format {
                Format::Json => output.text(&report.to_json()),
                Format::Text => output.text(&report.to_string()),
            }
            Exit::Clean
        }
        Err(error) => {
            output.refuse(&format!("{}: {error}", scenario.name));
            Exit::Faults
        }
    }
}

/// A progress bar in simulated milliseconds; hidden unless somebody looks.
fn bar(duration: Duration) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(duration.as_nanos() / 1_000_000);
    let style = ProgressStyle::with_template("simulating {bar:40} {percent:>3} %  {eta} left");
    bar.with_style(style.expect("the template is well formed"))
}
