//! `weir lab`: runs the papers' experiments and Weir's own, and checks their claims.

mod archive;
mod own;
mod papers;
mod report;

use crate::Run;
use crate::output::{Exit, Output};
use crate::picture::{Files, picture_file};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use weir_lab::claims::{Eras, Shelf};
use weir_lab::experiments;
use weir_lab::rows::Options;

/// Lists experiments, or runs them and compares their measurements with their claims.
///
/// `run` exits 1 if a claim fails for which its sheet gives no reason.
#[derive(clap::Args)]
pub struct Lab {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Lists the experiments, by paper, with the question of each.
    List,
    /// Lists what a paper states: each sentence with a result, each number, each cause.
    Facts {
        /// The paper, as `weir lab list` names it; otherwise all.
        paper: Option<String>,
    },
    /// Runs them.
    Run(Request),
    /// Runs them, and writes the results as one HTML file, or as tables in Markdown.
    Report(report::Report),
    /// Runs them, and writes results and what made them into one archive that a paper can cite.
    Archive(archive::Archive),
}

/// The experiments to run, and how.
#[derive(clap::Args)]
struct Which {
    /// An experiment, a paper, or `all` papers; `run` also takes one of Weir's own experiments.
    #[arg(value_name = "ID|PAPER|all", default_value = "all")]
    name: String,
    /// The historic variant, the sound one, or both side by side.
    #[arg(long, value_enum, default_value_t = EraChoice::Both)]
    era: EraChoice,
    /// Runs at the same time; results do not depend on it. Default: all cores.
    #[arg(long, value_name = "K")]
    threads: Option<NonZeroUsize>,
    /// The first seed, for experiments that draw random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
struct Request {
    #[command(flatten)]
    which: Which,
    /// Only the claims whose id or sentence contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// On real packets, in private networks: the paper's experiments that need no old driver,
    /// beside the simulation with what this host adds.
    #[arg(long)]
    live: bool,
    /// Weir's own: seconds of each live measurement.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// With `ns2-cbq`: run the scenario of this file instead of ns-2's own.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// With `score` and `tcp-kernel`: a picture of the results.
    #[arg(long, value_name = "FILE.svg|png|html", value_parser = picture_file())]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum EraChoice {
    /// The scheduler and machine of the paper, with their faults.
    Historic,
    /// The sound scheduler, on a machine that adds nothing.
    Sound,
    /// Both, side by side.
    Both,
}

impl From<EraChoice> for Eras {
    fn from(choice: EraChoice) -> Self {
        match choice {
            EraChoice::Historic => Eras::Historic,
            EraChoice::Sound => Eras::Sound,
            EraChoice::Both => Eras::Both,
        }
    }
}

impl Run for Lab {
    fn run(self, output: &Output) -> Exit {
        let shelf = match Shelf::open() {
            Ok(shelf) => shelf,
            Err(error) => return output.refuse(&error),
        };
        match self.task {
            Task::List => papers::list(&shelf, output),
            Task::Facts { paper } => papers::facts(&shelf, paper.as_deref(), output),
            Task::Run(request) => request.run(&shelf, output),
            Task::Report(report) => report.run(&shelf, output),
            Task::Archive(archive) => archive.run(&shelf, output),
        }
    }
}

impl Request {
    fn run(self, shelf: &Shelf, output: &Output) -> Exit {
        let found = experiments::find(&self.which.name);
        let own = found.and_then(|found| Some((found, found.own?)));
        if self.plot.is_some() && (self.live || !own.is_some_and(|(_, own)| own.draws)) {
            return output
                .refuse("`--plot` draws `score` or `tcp-kernel`; `weir lab report` has the rest");
        }
        if self.live {
            return self.run_live(shelf, output);
        }
        if self.file.is_some() && !own.is_some_and(|(_, own)| own.takes_file) {
            return output.refuse(&format!("`{}` runs no scenario from a file", self.which.name));
        }
        let sheets = shelf.select(&self.which.name);
        if self.file.is_none() && !sheets.is_empty() {
            return papers::run(shelf, &sheets, &self.which, self.only.as_deref(), output);
        }
        let Some((found, own)) = own else {
            return self.which.unknown(shelf, output);
        };
        let files = match Files::open(self.plot.as_deref(), None) {
            Ok(files) => files,
            Err(error) => return output.refuse(&error),
        };
        let duration = Duration::from_secs(self.seconds);
        let options = Options { duration, only: self.only, file: self.file };
        own::run(output, found, own, &options, files)
    }

    /// One after the other: each measures this machine.
    fn run_live(self, shelf: &Shelf, output: &Output) -> Exit {
        let sheets = shelf.select_live(&self.which.name);
        if sheets.is_empty() {
            let mut known: Vec<_> = shelf.live.iter().map(|sheet| sheet.paper.as_str()).collect();
            known.dedup();
            let (name, known) = (&self.which.name, known.join(", "));
            return output.refuse(&format!("`{name}` does not run live; write all, {known}"));
        }
        let which = Which { threads: NonZeroUsize::new(1), ..self.which };
        papers::run_live(&sheets, &which, self.only.as_deref(), output)
    }
}

impl Which {
    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism();
        self.threads.or(cores.ok()).map_or(1, NonZeroUsize::get)
    }

    fn unknown(&self, shelf: &Shelf, output: &Output) -> Exit {
        let papers = shelf.papers.iter().map(|paper| paper.key.as_str());
        let own = experiments::own().map(|(row, _)| row.name);
        let names = papers.chain(own).collect::<Vec<_>>().join(", ");
        let name = &self.name;
        let message = format!(
            "no experiment is called `{name}`; write all, {names}, or one of `weir lab list`"
        );
        output.refuse(&message)
    }

    /// Refuses what is no simulated experiment of a paper, where only these will do.
    fn of_no_paper(&self, shelf: &Shelf, output: &Output) -> Exit {
        let known: Vec<_> = shelf.papers.iter().map(|paper| paper.key.as_str()).collect();
        let (name, known) = (&self.name, known.join(", "));
        output.refuse(&format!(
            "`{name}` is no simulated experiment of a paper, and this has no others; write all, \
             {known}, or one of theirs that `weir lab list` names; `weir lab run {name}` or \
             `weir lab run --live {name}` runs others"
        ))
    }
}
