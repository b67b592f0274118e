//! `weir compare`: simulates one scenario under many schedulers, with one table and one plot.

use crate::output::{Exit, Format, Output};
use crate::picture::{Files, flent_file, flent_files, picture_file};
use crate::runs::{self, OfComparison};
use crate::sim::{count_bar, memory, scenario};
use crate::view::Page;
use crate::{Run, input, whole_file};
use std::path::PathBuf;
use std::sync::Arc;
use weir_core::units::Bytes;
use weir_host::signals::StopSignal;
use weir_show::comparison;
use weir_sim::compare::{Row, Runs, at, compare, find, tracks};
use weir_sim::memory::Beside;
use weir_sim::replicate::{self, REPLICATIONS_MAX};

/// Simulates one scenario under several schedulers.
///
/// The policy is translated for each; docs/compare.md has the rules, and the notes below the table
/// list what was changed. Exits 1 if the policy cannot be translated for a scheduler, 2 if there is
/// no such scheduler. After Ctrl-C the finished runs are reported.
#[derive(clap::Args)]
pub struct Compare {
    /// The scenario, in TOML.
    scenario: PathBuf,
    /// The schedulers to compare, by keyword.
    #[arg(long, value_name = "KEYWORD,...", value_delimiter = ',', required = true)]
    schedulers: Vec<String>,
    /// In a network: the link whose scheduler is replaced; by default the only outlet with a
    /// policy.
    #[arg(long, value_name = "NAME")]
    link: Option<String>,
    /// In a network where both directions of the link have a policy: the node that the outlet leads
    /// away from.
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// A seed other than the scenario's.
    #[arg(long)]
    seed: Option<u64>,
    /// Run this many times under each scheduler, each with the next seed, and report means with
    /// their 95 % confidence intervals.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=REPLICATIONS_MAX))]
    replications: u64,
    /// Runs at the same time; by default one for each core.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Write the comparison as JSON to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw each class's rate beside its ideal, its delays, and both over time, as .svg, .png or
    /// .html, by the name.
    #[arg(long, value_name = "FILE.svg|png|html", value_parser = picture_file())]
    plot: Option<PathBuf>,
    /// Write what each class did under each scheduler as a data file of Flent, whose name has the
    /// scheduler's before its ending: `x-cbq.flent.gz` for `x.flent.gz`.
    #[arg(long, value_name = "FILE.flent.gz", value_parser = flent_file())]
    flent: Option<PathBuf>,
    /// Then shows the comparison in the browser, with the front of any two figures, and each run as
    /// `weir view` shows it: prints the address of the page and serves it until Ctrl-C.
    #[arg(long)]
    view: bool,
    /// The most memory that the runs may be expected to need; by default the free memory.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
}

impl Run for Compare {
    fn run(self, output: &Output) -> Exit {
        let outputs = [("--json", &self.json), ("--plot", &self.plot)];
        let mut scenario = match scenario(&self.scenario, output) {
            Ok(scenario) => scenario,
            Err(exit) => return exit,
        };
        if let Err(error) = whole_file::distinct(&outputs, &[]) {
            return output.refuse(&error);
        }
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        let led = at(scenario, self.link.as_deref(), self.from.as_deref());
        let done = led.and_then(|scenario| self.compare(&scenario, output));
        done.unwrap_or_else(|error| output.refuse(&error))
    }
}

impl Compare {
    fn compare(&self, scenario: &weir_sim::Scenario, output: &Output) -> Result<Exit, String> {
        let schedulers = find(&self.schedulers)?;
        let threads = self.threads.map_or_else(replicate::cores, usize::from);
        let count = schedulers.len() as u64 * self.replications;
        let threads = threads.min(usize::try_from(count).unwrap_or(usize::MAX));
        let beside = Beside::default();
        memory::check(scenario, memory::Runs { threads, count, beside }, self.memory)?;
        let files = Files::open(self.plot.as_deref(), None)?;
        let keywords: Vec<_> = schedulers.iter().map(|entry| entry.descriptor.keyword).collect();
        let flents = self.flent.as_deref().map(|path| flent_files(path, &keywords)).transpose()?;
        let page = self.view.then(|| Page::bind(None)).transpose()?;
        if page.is_some() {
            output.json_by_line();
        }
        let stop = StopSignal::install().map_err(|error| error.to_string())?;
        let bar = count_bar(count);
        let replications = self.replications as usize;
        let runs = Runs { schedulers: &schedulers, replications, threads };
        let compared = compare(scenario, runs, stop.flag(), &mut || bar.inc(1));
        bar.finish_and_clear();
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&compared).expect("keys are text");
            whole_file::write(path, &(text + "\n"))?;
        }
        if (files.any() || flents.is_some()) && !stop.requested() {
            let tracks = tracks(scenario, &schedulers, threads)
                .map_err(|error| format!("{}: {error}", scenario.name))?;
            if files.any() {
                files.write_picture(&comparison::picture(&compared, &tracks)?)?;
            }
            for (keyword, file) in keywords.iter().zip(flents.into_iter().flatten()) {
                let own = tracks.iter().find(|row| row.0 == *keyword);
                own.map(|row| file.write(std::slice::from_ref(&row.1), Vec::new())).transpose()?;
            }
        }
        match output.format {
            Format::Json => output.json(&compared),
            Format::Text => output.text(&compared.to_string()),
        }
        let whole = |row: &&Row| row.refused.is_some() || row.runs == replications;
        let (asked, ended) = (schedulers.len(), compared.rows.iter().filter(whole).count());
        if ended < asked {
            output.warn(&format!("stopped: {ended} of {asked} schedulers ended"));
            return Ok(Exit::Interrupted);
        }
        let refused = compared.rows.iter().any(|row| row.refused.is_some());
        if let Some(page) = page {
            let bytes = input::read(&self.scenario).map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let (scenario, written) = (scenario.clone(), (self.scenario.clone(), text));
            let shown = OfComparison { comparison: compared, scenario, written };
            runs::show(Arc::new(shown), page, output)?;
        }
        Ok(if refused { Exit::Faults } else { Exit::Clean })
    }
}
