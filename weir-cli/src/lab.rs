//! The options of `weir lab`, which `weir` checks and describes, and `weir-lab` carries out.

use crate::picture::picture_name;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Lists experiments, or runs them and compares their measurements with their claims.
///
/// `run` exits 1 if a claim fails for which its sheet gives no reason. The experiments are in a
/// program of their own, `weir-lab`, which this verb starts.
#[derive(clap::Args)]
pub struct Lab {
    /// The task, as a verb of its own.
    #[command(subcommand)]
    pub task: Task,
}

/// The tasks of `weir lab`.
#[derive(clap::Subcommand)]
pub enum Task {
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
    Report(Report),
    /// Runs them, and writes results and what made them into one archive that a paper can cite.
    Archive(Archive),
}

/// The experiments to run, and how.
#[derive(clap::Args)]
pub struct Which {
    /// An experiment, a paper, or `all` papers; `run` also takes one of Weir's own experiments.
    #[arg(value_name = "ID|PAPER|all", default_value = "all")]
    pub name: String,
    /// The historic variant, the sound one, or both side by side.
    #[arg(long, value_enum, default_value_t = Era::Both)]
    pub era: Era,
    /// Runs at the same time; results do not depend on it. Default: all cores.
    #[arg(long, value_name = "K")]
    pub threads: Option<NonZeroUsize>,
    /// The first seed, for experiments that draw random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The options of `weir lab run`.
#[derive(clap::Args)]
pub struct Request {
    /// The experiments.
    #[command(flatten)]
    pub which: Which,
    /// Only the claims whose id or sentence contains this.
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// On real packets, in private networks: the paper's experiments that need no old driver,
    /// beside the simulation with what this host adds.
    #[arg(long)]
    pub live: bool,
    /// Weir's own: seconds of each live measurement.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// With `ns2-cbq`: run the scenario of this file instead of ns-2's own.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// With `whatif`: write the records of its links to this folder, which is made.
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub keep: Option<PathBuf>,
    /// With `whatif`: run nothing live, and take the records that `--keep` wrote to this folder.
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// A picture of the results: of a paper's experiment with historic, sound and the paper's own
    /// values on the same axes; also of `score` and `tcp-kernel`.
    #[arg(long, value_name = "FILE.svg|png|html", value_parser = picture_name())]
    pub plot: Option<PathBuf>,
}

/// The variants to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Era {
    /// The scheduler and machine of the paper, with their faults.
    Historic,
    /// The sound scheduler, on a machine that adds nothing.
    Sound,
    /// Both, side by side.
    Both,
}

/// Exits 1 if a claim fails without a reason; the report is written in any case. After Ctrl-C the
/// report has the finished experiments, but no Markdown pages are written.
#[derive(clap::Args)]
pub struct Report {
    /// The experiments.
    #[command(flatten)]
    pub which: Which,
    /// The HTML file, which needs no other file.
    #[arg(long, value_name = "FILE", default_value = "lab-report.html")]
    pub out: PathBuf,
    /// Write a page a paper to this folder instead, in Markdown, with an index and all verdicts in
    /// CSV.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub markdown: Option<PathBuf>,
    /// Run nothing: take what `weir lab run --format json` printed, and judge it by the claims as
    /// they are now. May be given several times; of an experiment in several files the last counts.
    #[arg(long, value_name = "FILE.json")]
    pub from: Vec<PathBuf>,
}

/// Exits 1 if a claim fails without a reason; the archive is written in any case, but not after
/// Ctrl-C. The same results give the same bytes.
#[derive(clap::Args)]
pub struct Archive {
    /// The experiments.
    #[command(flatten)]
    pub which: Which,
    /// The archive: a tar file in gzip.
    #[arg(long, value_name = "FILE.tar.gz", default_value = "weir-lab.tar.gz")]
    pub out: PathBuf,
    /// A file to add, such as what `weir lab run --live all --format json` printed. May be given
    /// several times.
    #[arg(long, value_name = "FILE")]
    pub add: Vec<PathBuf>,
}
