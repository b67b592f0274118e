//! `weir bench`: the cost of a packet, per scheduler and number of leaves.

use crate::Run;
use crate::output::{Exit, Format, Output};
use std::path::PathBuf;
use weir_lab::bench::classify::{Limit, RULES};
use weir_lab::bench::{self, Effort, Instructions, LEAVES, Row};
use weir_lab::bench::{check, classify, explain, memory, peer, profile};

/// Measures offer and poll per packet for every scheduler, beside `fifo` in the same run.
///
/// Figures in ns drift with the machine; ratios and instructions do not. Exit 1 if a scheduler
/// costs more above `fifo` than it may.
#[derive(clap::Args)]
pub struct Bench {
    /// Only this scheduler.
    #[arg(long, value_name = "KEYWORD")]
    scheduler: Option<String>,
    /// Numbers of leaves.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = LEAVES)]
    leaves: Vec<usize>,
    /// Measure the classifiers instead, beside the plain search of ten rules. Exit 1 if many rules
    /// cost more than 3 times what ten do, or a packet of a known flow more than 60 ns.
    #[arg(long, conflicts_with_all = ["scheduler", "leaves", "instructions"])]
    classify: bool,
    /// With --classify: numbers of rules.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = RULES)]
    #[arg(requires = "classify")]
    rules: Vec<usize>,
    /// Rounds, of which the median is taken.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Packets per round.
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1..))]
    packets: u64,
    /// Beside this program, DPDK's `rte_sched` in the same loop; `bench/peers` builds and names it.
    /// Exit 1 if a scheduler costs more of it than it may.
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["instructions", "workload"])]
    beside: Option<PathBuf>,
    /// Measure what it costs to explain why packets wait: single offers and polls, with and without
    /// in turn. Exit 1 if a scheduler pays more than a quarter.
    #[arg(long, conflicts_with_all = ["instructions", "workload", "beside"])]
    explain: bool,
    /// What a link keeps in memory instead: bytes per idle class and per waiting packet. Exit 1 if
    /// a scheduler keeps more than it may.
    #[arg(long, conflicts_with_all = ["instructions", "workload", "beside", "leaves"])]
    memory: bool,
    /// How long `weir check` takes for 5 000 classes with 10 000 rules, and for ten times as many.
    /// Exit 1 if the latter takes more than a second, or more than 15 times as long.
    #[arg(long, conflicts_with_all = ["instructions", "workload", "beside", "memory", "explain"])]
    #[arg(conflicts_with_all = ["scheduler", "leaves", "classify"])]
    check: bool,
    /// Count instructions per packet under callgrind instead of measuring time.
    #[arg(long)]
    instructions: bool,
    /// With --instructions: exit 1 if a count differs from this file's by more than 2 %.
    #[arg(long, value_name = "FILE", requires = "instructions")]
    compare: Option<PathBuf>,
    /// Count instructions and calls of enqueue and dequeue apart, with four classes and with one
    /// busy class of up to 100, under callgrind. Exit 1 if a class costs more than a tenth more
    /// among 99 others that are idle.
    #[arg(long, conflicts_with_all = ["instructions", "workload", "beside", "memory", "explain"])]
    profile: bool,
    /// With --instructions or --profile: write the counts to this file.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Run the workload whose instructions are counted, for this scheduler, and print nothing.
    #[arg(long, value_name = "KEYWORD", hide = true)]
    workload: Option<String>,
    /// With --workload: run that of --profile, with so many classes of which so many have traffic,
    /// each with such a part of the link.
    #[arg(long, value_name = "LEAVES:ACTIVE:PARTS", hide = true, requires = "workload")]
    case: Option<String>,
}

impl Run for Bench {
    fn run(self, output: &Output) -> Exit {
        if let Some(keyword) = &self.workload {
            let done = match &self.case {
                Some(case) => profile::workload(keyword, case, self.packets),
                None => bench::workload(keyword, self.packets),
            };
            return match done {
                Ok(()) => Exit::Clean,
                Err(error) => output.refuse(&error),
            };
        }
        if let Some(program) = &self.beside {
            return self.run_beside(output, program);
        }
        if self.memory {
            return self.weigh(output);
        }
        if self.check {
            return self.time_check(output);
        }
        if self.instructions {
            return self.count(output);
        }
        if self.profile {
            return self.profile(output);
        }
        if self.write.is_some() {
            return output.refuse("--write goes with --instructions or --profile");
        }
        if self.classify {
            return self.measure_classifiers(output);
        }
        let out_of_range = |&&leaves: &&usize| leaves == 0 || leaves > LEAVES_MAX;
        if let Some(leaves) = self.leaves.iter().find(out_of_range) {
            return output.refuse(&format!("--leaves {leaves}: from 1 to {LEAVES_MAX}"));
        }
        let effort = Effort { rounds: self.rounds as usize, packets: self.packets };
        if self.explain {
            return self.run_explained(output, effort);
        }
        if output.format == Format::Text {
            let to = format!("to {}", bench::yardstick());
            let [scheduler, leaves, nanos] = ["scheduler", "leaves", "ns/packet"];
            let above = format!("above {}", bench::yardstick());
            output.text(&format!(
                "{scheduler:<12} {leaves:>9} {nanos:>11} {to:>9} {above:>12}   limit\n"
            ));
        }
        let print = |row: &Row| {
            if output.format == Format::Text {
                let Row { scheduler, leaves, nanos, ratio, above, limit, holds } = row;
                let verdict = if *holds { "holds" } else { "FAILS" };
                let limit = limit.map_or(String::new(), |limit| format!("{limit:>8.0} {verdict}"));
                output.text(&format!(
                    "{scheduler:<12} {leaves:>9} {nanos:>11.1} {ratio:>9.2} {above:>12.1}{limit}\n"
                ));
            }
        };
        match bench::measure(self.scheduler.as_deref(), &self.leaves, effort, print) {
            Ok(rows) => {
                if output.format == Format::Json {
                    output.json(&rows);
                }
                if rows.iter().all(|row| row.holds) { Exit::Clean } else { Exit::Faults }
            }
            Err(error) => output.refuse(&error),
        }
    }
}

impl Bench {
    fn measure_classifiers(&self, output: &Output) -> Exit {
        let out_of_range = |&&rules: &&usize| rules == 0 || rules > RULES_MAX;
        if let Some(rules) = self.rules.iter().find(out_of_range) {
            return output.refuse(&format!("--rules {rules}: from 1 to {RULES_MAX}"));
        }
        let effort = Effort { rounds: self.rounds as usize, packets: self.packets };
        let text = output.format == Format::Text;
        if text {
            let (plain, rules) = classify::yardstick();
            let [classifier, cache, nanos] = ["classifier", "flow cache", "ns/packet"];
            output.text(&format!(
                "{classifier:<12} {cache:<10} {:>8} {:>7} {nanos:>11} {:>12} {:>13}   limit\n",
                "rules",
                "tables",
                format!("to {plain} {rules}"),
                format!("to itself {rules}"),
            ));
        }
        let rows = classify::measure(&self.rules, effort, |row| {
            let cache = if row.cached { "hits" } else { "none" };
            let classify::Row { classifier, rules, tables, nanos, ratio, growth, .. } = row;
            let verdict = if row.holds { "holds" } else { "FAILS" };
            let limit = match row.limit {
                None => String::new(),
                Some(Limit::Growth(most)) => format!("   {most:.0} times {verdict}"),
                Some(Limit::Nanos(most)) => format!("   {most:.0} ns {verdict}"),
            };
            if text {
                output.text(&format!(
                    "{classifier:<12} {cache:<10} {rules:>8} {tables:>7} {nanos:>11.1} \
                     {ratio:>12.2} {growth:>13.2}{limit}\n"
                ));
            }
        });
        if !text {
            output.json(&rows);
        }
        if rows.iter().all(|row| row.holds) { Exit::Clean } else { Exit::Faults }
    }

    fn run_beside(&self, output: &Output, program: &std::path::Path) -> Exit {
        let leaves = if self.leaves == LEAVES { peer::leaves() } else { self.leaves.clone() };
        if output.format == Format::Text {
            output.text("scheduler       leaves   ns/packet   rte_sched   ratio   limit\n");
        }
        let print = |row: &peer::Row| {
            if output.format == Format::Text {
                let peer::Row { scheduler, leaves, nanos, peer_nanos, ratio, limit, holds } =
                    row;
                let verdict = if *holds { "holds" } else { "FAILS" };
                output.text(&format!(
                    "{scheduler:<12} {leaves:>9} {nanos:>11.1} {peer_nanos:>11.1} {ratio:>7.3} \
                     {limit:>7.2} {verdict}\n"
                ));
            }
        };
        let only = self.scheduler.as_deref();
        match peer::measure(program, only, &leaves, self.rounds as usize, print) {
            Ok(rows) => {
                if output.format == Format::Json {
                    output.json(&rows);
                }
                if rows.iter().all(|row| row.holds) { Exit::Clean } else { Exit::Faults }
            }
            Err(error) => output.refuse(&error),
        }
    }

    fn run_explained(&self, output: &Output, effort: Effort) -> Exit {
        if output.format == Format::Text {
            output.text("scheduler       leaves   ns/packet   explained   noise   ratio   limit\n");
        }
        let print = |row: &explain::Row| {
            if output.format == Format::Text {
                let explain::Row { scheduler, leaves, nanos, noise, ratio, holds, .. } = row;
                let (explained, limit) = (row.explained_nanos, explain::RATIO_MAX);
                let verdict = if *holds { "holds" } else { "FAILS" };
                output.text(&format!(
                    "{scheduler:<12} {leaves:>9} {nanos:>11.1} {explained:>11.1} {noise:>7.3} \
                     {ratio:>7.3} {limit:>7.2} {verdict}\n"
                ));
            }
        };
        match explain::measure(self.scheduler.as_deref(), &self.leaves, effort, print) {
            Ok(rows) => {
                if output.format == Format::Json {
                    output.json(&rows);
                }
                if rows.iter().all(|row| row.holds) { Exit::Clean } else { Exit::Faults }
            }
            Err(error) => output.refuse(&error),
        }
    }

    fn weigh(&self, output: &Output) -> Exit {
        let [classes, packets] = [memory::CLASS_BYTES_MAX, memory::PACKET_BYTES_MAX];
        if output.format == Format::Text {
            output.text(&format!(
                "scheduler    B/idle class  (limit {classes})  B/waiting packet  \
                 (limit {packets})\n"
            ));
        }
        let print = |row: &memory::Row| {
            if output.format == Format::Text {
                let memory::Row { scheduler, class_bytes, packet_bytes, holds } = row;
                let verdict = if *holds { "holds" } else { "FAILS" };
                output.text(&format!(
                    "{scheduler:<12} {class_bytes:>12.1} {packet_bytes:>30.1} {verdict:>12}\n"
                ));
            }
        };
        match memory::measure(self.scheduler.as_deref(), MEMORY_LEAVES, print) {
            Ok(rows) => {
                if output.format == Format::Json {
                    output.json(&rows);
                }
                if rows.iter().all(|row| row.holds) { Exit::Clean } else { Exit::Faults }
            }
            Err(error) => output.refuse(&error),
        }
    }

    fn time_check(&self, output: &Output) -> Exit {
        let rows = match check::measure(self.rounds as usize) {
            Ok(rows) => rows,
            Err(error) => return output.refuse(&error),
        };
        match output.format {
            Format::Json => output.json(&rows),
            Format::Text => {
                let (seconds, growth) = (check::SECONDS_MAX, check::GROWTH_MAX);
                output.text(&format!(
                    "classes    rules      bytes   s (limit {seconds:.0})   growth (limit \
                     {growth:.0})\n"
                ));
                for row in &rows {
                    let check::Row { classes, rules, bytes, seconds, growth, holds } = row;
                    let verdict = if *holds { "holds" } else { "FAILS" };
                    output.text(&format!(
                        "{classes:>7} {rules:>8} {bytes:>10} {seconds:>13.3} {growth:>19.2} \
                         {verdict}\n"
                    ));
                }
            }
        }
        if rows.iter().all(|row| row.holds) { Exit::Clean } else { Exit::Faults }
    }

    fn profile(&self, output: &Output) -> Exit {
        let text = output.format == Format::Text;
        if text {
            let [enqueue, dequeue, calls] = ["enqueue: instr.", "dequeue: instr.", "calls"];
            output.text(&format!(
                "per packet    classes  busy   {enqueue} {calls:>7}   {dequeue} {calls:>7}\n"
            ));
        }
        let rows = profile::profile(|row| {
            let profile::Row { scheduler, leaves, active, enqueue, dequeue, .. } = row;
            if text {
                output.text(&format!(
                    "{scheduler:<12} {leaves:>8} {active:>5} {:>17.1} {:>7.1} {:>17.1} {:>7.1}\n",
                    enqueue.instructions, enqueue.calls, dequeue.instructions, dequeue.calls
                ));
            }
        });
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => return output.refuse(&error),
        };
        if !text {
            output.json(&rows);
        }
        if let Err(error) = self.write(&rows) {
            return output.refuse(&error);
        }
        let growth = rows.growth();
        for row in growth.iter().filter(|_| text) {
            let verdict = if row.holds { "holds" } else { "FAILS" };
            let limit = profile::GROWTH_MAX;
            output.text(&format!(
                "{:<12} one class among 100 costs {:.3} x what it costs alone (limit {limit:.2}): \
                 {verdict}\n",
                row.scheduler, row.ratio
            ));
        }
        if growth.iter().all(|row| row.holds) { Exit::Clean } else { Exit::Faults }
    }

    /// Writes counts to the file of --write, if there is one.
    fn write(&self, counts: &impl serde::Serialize) -> Result<(), String> {
        let Some(path) = &self.write else { return Ok(()) };
        let text = serde_json::to_string_pretty(counts).expect("keys are text");
        std::fs::write(path, text + "\n")
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    fn count(&self, output: &Output) -> Exit {
        let counts = match bench::count_instructions() {
            Ok(counts) => counts,
            Err(error) => return output.refuse(&error),
        };
        match output.format {
            Format::Json => output.json(&counts),
            Format::Text => {
                output.text(&format!("instructions per packet: {}\n", counts.workload));
                for (keyword, count) in &counts.per_packet {
                    output.text(&format!("{keyword:<12} {count:>9.1}\n"));
                }
            }
        }
        if let Err(error) = self.write(&counts) {
            return output.refuse(&error);
        }
        self.compare.as_ref().map_or(Exit::Clean, |path| compare(output, &counts, path))
    }
}

fn compare(output: &Output, counts: &Instructions, path: &std::path::Path) -> Exit {
    let committed = std::fs::read(path)
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    let committed = match committed {
        Ok(committed) => committed,
        Err(error) => return output.refuse(&format!("cannot read {}: {error}", path.display())),
    };
    let changes = bench::compare(counts, &committed);
    for change in &changes {
        output.text(&format!("{change}\n"));
    }
    if changes.is_empty() { Exit::Clean } else { Exit::Faults }
}

/// More would take minutes to make.
const RULES_MAX: usize = 1_000_000;
/// Handles are 32 bits; two packets a leaf must fit.
const LEAVES_MAX: usize = 16_000_000;
/// Leaves and packets by which the links differ whose memory is measured.
const MEMORY_LEAVES: usize = 100_000;
