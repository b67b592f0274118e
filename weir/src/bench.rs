//! `weir bench`: the cost of a packet on this machine, on the road that frames take.

mod counts;
mod live;
mod tables;

use crate::Run;
use crate::output::{Exit, Format, Output};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use weir_bench::bench::classify::RULES;
use weir_bench::bench::figure::{self, Figure};
use weir_bench::bench::{self, Effort, LEAVES, LEAVES_REPORTED, Lengths, Workload};
use weir_bench::bench::{instructions, profile};
use weir_cli::time::{LEAST, seconds};

/// Measures what a packet costs in every scheduler, beside `fifo` in the same run.
///
/// Batches of 32 stamped arrivals with lengths as on the Internet go through a backlogged link by
/// `serve`, the call that `weir up`, `weir sim` and `weir replay` make. Figures in ns vary with
/// the machine, ratios repeat on a quiet one only, and instructions repeat. `classify ns` is the
/// cost of classifying a packet by as many rules as there are leaves. The goals are printed last
/// with a verdict on each: `undecided` where some rounds meet the goal and others miss it. The exit
/// code is 1 unless every goal holds.
#[derive(clap::Args)]
pub struct Bench {
    /// Measure only these schedulers.
    #[arg(long, value_name = "KEYWORD", value_delimiter = ',')]
    scheduler: Vec<String>,
    /// The numbers of leaves; with --live the numbers of classes.
    #[arg(long, value_name = "N,...", value_delimiter = ',', help = leaves_help())]
    leaves: Vec<usize>,
    /// Measure only figures with a goal, also with 53 248 and a million leaves.
    #[arg(long, conflicts_with_all = ["scheduler", "leaves"])]
    goals: bool,
    /// The lengths of packets: `mixed` (7 of 12 have 64 bytes, 4 have 594, 1 has 1514) or bytes.
    #[arg(long, default_value = "mixed", value_name = "mixed|BYTES")]
    length: Length,
    /// Forward frames through private networks instead, by the bridge of `weir up` and by the
    /// kernel's bridge. Needs root, or an ordinary user's right to user namespaces.
    #[arg(long, conflicts_with_all = ["classify", "beside", "explain", "memory", "check"])]
    #[arg(conflicts_with_all = ["instructions", "profile", "length", "packets"])]
    live: bool,
    /// With --live: the duration of all measurements together; setting each up takes half a
    /// second to a second more.
    #[arg(long, value_name = "N|TIME", default_value = "60", requires = "live",
        value_parser = seconds(LEAST..=Duration::from_hours(1)))]
    seconds: Duration,
    /// With --live: measure each forwarder of Weir also with so many workers, threads that receive
    /// and send beside the loop that decides.
    #[arg(long, value_name = "N", requires = "live", default_value_t = 1)]
    #[arg(hide_default_value = true, value_parser = clap::value_parser!(u8).range(1..=8))]
    workers: u8,
    /// Measure the classifiers instead, and compare them with the plain search of ten rules. Exit 1
    /// if many rules cost more than 3 times as much as ten, or a packet of a known flow more than
    /// 60 ns.
    #[arg(long, conflicts_with_all = ["scheduler", "leaves", "instructions"])]
    classify: bool,
    /// Measure the droppers instead: a link of one leaf with packets of 64 flows, beside the plain
    /// queue. With --live: by frames through private networks, some of them. Exit 1 if `cake` or
    /// `dualpi2` forwards less than 0.9 of what the plain queue does.
    #[arg(long, conflicts_with_all = ["scheduler", "leaves", "instructions", "classify"])]
    droppers: bool,
    /// With --classify: the numbers of rules.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = RULES)]
    #[arg(requires = "classify", hide_default_value = true, help = rules_help())]
    rules: Vec<usize>,
    /// The number of rounds, of which the median is reported: 5 by default, 3 with --live.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Packets per round; fewer where a round would take longer than 60 ms.
    #[arg(long, default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(PACKETS_MIN..))]
    packets: u64,
    /// Also run this program, DPDK's `rte_sched` in the same loop; `bench/peers` builds it.
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["instructions", "workload"])]
    beside: Option<PathBuf>,
    /// Measure the cost of explaining why packets wait, by turns with and without. Exit 1 if it
    /// adds more than a quarter to a scheduler's cost.
    #[arg(long, conflicts_with_all = ["instructions", "workload", "beside"])]
    explain: bool,
    /// Measure the memory of a link instead: bytes per idle class and per waiting packet. Exit 1 if
    /// a scheduler exceeds its limit.
    #[arg(long, conflicts_with_all = ["instructions", "workload", "beside", "leaves"])]
    memory: bool,
    /// Measure what `autorate` adds to a frame instead, in ns and bytes: frames of 4096 connections
    /// at several rates. Exit 1 if it adds more than 30 ns from 40 000 frames a second on, or takes
    /// more than 4 MB.
    #[arg(long, conflicts_with_all = ["instructions", "workload", "beside", "memory", "explain"])]
    #[arg(conflicts_with_all = ["scheduler", "leaves", "classify", "droppers", "live", "goals"])]
    autorate: bool,
    /// Measure how long `weir check` takes for 5 000 classes with 10 000 rules, for ten times as
    /// many, and for a template with 20 000 subscribers. Exit 1 if one of them takes more than a
    /// second, or ten times as many more than 15 times as long.
    #[arg(long, conflicts_with_all = ["instructions", "workload", "beside", "memory", "explain"])]
    #[arg(conflicts_with_all = ["scheduler", "leaves", "classify"])]
    check: bool,
    /// Measure how long a change of a link with 50 000 classes takes while 25 000 packets wait:
    /// what is prepared beside the link, and what its loop does. Exit 1 if the first takes more
    /// than a second, or the second more than 10 ms.
    #[arg(long, conflicts_with_all = ["instructions", "workload", "beside", "memory", "explain"])]
    #[arg(conflicts_with_all = ["scheduler", "leaves", "classify", "check", "live"])]
    reload: bool,
    /// Count instructions per packet under callgrind instead of measuring time, for every
    /// scheduler with 104 leaves and mixed lengths.
    #[arg(long, conflicts_with_all = ["scheduler", "leaves", "length", "rounds"])]
    instructions: bool,
    /// With --instructions: exit 1 if a count differs from this file's by more than 2 %. A
    /// scheduler that the file lacks is reported, but is not an error.
    #[arg(long, value_name = "FILE", requires = "instructions")]
    compare: Option<PathBuf>,
    /// Count the instructions and calls of enqueue and dequeue separately under callgrind, with
    /// four classes and with one busy class of up to 100. Exit 1 if a class costs over a tenth more
    /// among 99 idle ones.
    #[arg(long, conflicts_with_all = ["instructions", "workload", "beside", "memory", "explain"])]
    profile: bool,
    /// With --instructions or --profile: write the counts to this file.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Run the workload whose instructions are counted, for this scheduler, and print nothing.
    #[arg(long, value_name = "KEYWORD", hide = true)]
    workload: Option<String>,
    /// With --workload: run a case of --profile, given as the number of classes, the number of
    /// these with traffic, and the reciprocal of each class's part of the link.
    #[arg(long, value_name = "LEAVES:ACTIVE:PARTS", hide = true, requires = "workload")]
    case: Option<String>,
}

fn leaves_help() -> String {
    let (leaves, classes) = (listed(LEAVES), listed(&weir_bench::bench::live::CLASSES));
    format!("The numbers of leaves; with --live of classes [default: {leaves}, --live: {classes}]")
}

fn rules_help() -> String {
    format!("With --classify: the numbers of rules [default: {}]", listed(RULES))
}

/// Formats numbers as the options take them.
fn listed(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// The lengths of packets, as written.
#[derive(Clone, Copy)]
struct Length(Lengths);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mixed" {
            return Ok(Self(Lengths::Mixed));
        }
        match text.parse() {
            Ok(bytes) if (1..=LENGTH_MAX).contains(&bytes) => Ok(Self(Lengths::Constant(bytes))),
            _ => Err(format!("`mixed`, or bytes from 1 to {LENGTH_MAX}")),
        }
    }
}

impl Run for Bench {
    fn run(mut self, output: &Output) -> Exit {
        if self.goals {
            self.scheduler = bench::goal_schedulers();
        }
        self.run_part(output).unwrap_or_else(|error| output.refuse(&error))
    }
}

impl Bench {
    fn run_part(&self, output: &Output) -> Result<Exit, String> {
        if let Some(keyword) = &self.workload {
            return self.run_workload(keyword);
        }
        self.check_numbers()?;
        match &self.beside {
            Some(program) => self.run_beside(output, program),
            None if self.live => self.run_live(output),
            None if self.memory => self.weigh(output),
            None if self.check => self.time_check(output),
            None if self.reload => self.time_reload(output),
            None if self.instructions => self.count(output),
            None if self.profile => self.profile(output),
            None if self.classify => self.measure_classifiers(output),
            None if self.droppers => Ok(self.measure_droppers(output)),
            None if self.autorate => Ok(self.measure_autorate(output)),
            None if self.explain => self.run_explained(output),
            None => self.measure(output),
        }
    }

    fn run_workload(&self, keyword: &str) -> Result<Exit, String> {
        match &self.case {
            Some(case) => profile::workload(keyword, case, self.packets)?,
            None => instructions::run(keyword, self.packets)?,
        }
        Ok(Exit::Clean)
    }

    fn check_numbers(&self) -> Result<(), String> {
        let refused = |number: &&usize, max: usize| **number == 0 || **number > max;
        if let Some(leaves) = self.leaves.iter().find(|leaves| refused(leaves, LEAVES_MAX)) {
            return Err(format!("--leaves {leaves}: from 1 to {LEAVES_MAX}"));
        }
        if let Some(rules) = self.rules.iter().find(|rules| refused(rules, RULES_MAX)) {
            return Err(format!("--rules {rules}: from 1 to {RULES_MAX}"));
        }
        if self.write.is_some() && !self.instructions && !self.profile {
            return Err("--write goes with --instructions or --profile".to_owned());
        }
        Ok(())
    }

    fn workload(&self) -> Workload<'_> {
        let Length(lengths) = self.length;
        let effort = self.effort();
        let leaves = match self.leaves.as_slice() {
            [] if self.goals => LEAVES_REPORTED,
            [] => LEAVES,
            leaves => leaves,
        };
        Workload { only: &self.scheduler, leaves, lengths, effort }
    }

    fn effort(&self) -> Effort {
        Effort { rounds: self.rounds(ROUNDS), packets: self.packets }
    }

    fn rounds(&self, default: usize) -> usize {
        self.rounds.map_or(default, |rounds| rounds as usize)
    }
}

/// Prints rows as they are measured, and a progress bar if standard error is a terminal.
struct Table<'a> {
    output: &'a Output,
    bar: ProgressBar,
}

impl<'a> Table<'a> {
    /// Begins a table of `rows` rows with this line of titles.
    fn begin(output: &'a Output, rows: usize, titles: &str) -> Self {
        let style = ProgressStyle::with_template("{msg:40} [{bar:30}] {pos}/{len}")
            .expect("the template is sound")
            .progress_chars("=> ");
        let this = Self { output, bar: ProgressBar::new(rows as u64).with_style(style) };
        this.line(titles);
        this
    }

    fn row(&self, line: &str) {
        self.line(line);
        self.bar.inc(1);
    }

    fn line(&self, line: &str) {
        if self.output.format == Format::Text {
            self.bar.suspend(|| self.output.text(&format!("{}\n", line.trim_end())));
        }
    }

    /// Ends the table: prints the rows as JSON, or the figures with goals.
    fn end(self, rows: &impl Serialize, figures: &[Figure]) -> Exit {
        self.bar.finish_and_clear();
        match self.output.format {
            Format::Json => self.output.json(rows),
            Format::Text if figures.is_empty() => {}
            Format::Text => {
                self.output.text("\n");
                self.output.table(&figure::table(figures));
            }
        }
        let all_hold = figures.iter().all(|figure| figure.holds && figure.decided);
        if all_hold { Exit::Clean } else { Exit::Faults }
    }
}

const ROUNDS: usize = 5;
/// Fewer packets would not fill a round of any length.
const PACKETS_MIN: u64 = 1_000;
/// Longer than any Ethernet frame.
const LENGTH_MAX: u32 = 65_535;
/// The most leaves; more would take minutes to build.
const RULES_MAX: usize = 1_000_000;
/// Handles are 32 bits; two packets a leaf must fit.
const LEAVES_MAX: usize = 16_000_000;
