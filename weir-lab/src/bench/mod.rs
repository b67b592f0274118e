//! The cost of a packet, for every scheduler and number of leaves, on the road that frames take.
//!
//! `road` is the loop that is measured. Every scheduler runs in turn with `fifo` at the same number
//! of leaves, so the ratio is taken within one run; absolute figures drift with the machine.
//! Instructions are counted by callgrind over a fixed workload, in `serve` alone.

pub mod check;
pub mod classify;
pub mod explain;
pub mod memory;
pub mod peer;
pub mod profile;
mod road;

pub use road::Lengths;

use road::{BATCH, Road, group_of, population};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::Command;
use weir_core::sched::{Entry, SCHEDULERS};

/// The numbers of leaves that `weir bench` runs.
pub const LEAVES: &[usize] = &[1, 10, 100, 1_000, 10_000, 1_000_000];
/// Leaves of the workload whose instructions are counted.
pub const LEAVES_COUNTED: usize = 104;
/// Change of instructions per packet that `--compare` lets pass.
pub const INSTRUCTIONS_TOLERANCE: f64 = 0.02;

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The scheduler.
    pub scheduler: &'static str,
    /// The number of leaves.
    pub leaves: usize,
    /// ns per packet, the median of the rounds.
    pub nanos: f64,
    /// To `fifo` in the same round, the median of the rounds.
    pub ratio: f64,
    /// ns above `fifo` in the same round, the median of the rounds.
    pub above: f64,
    /// What that may be, if anything is claimed.
    pub limit: Option<f64>,
    /// Whether it is not above the limit.
    pub holds: bool,
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds, of which the median is taken.
    pub rounds: usize,
    /// Packets in a round.
    pub packets: u64,
}

/// Instructions per packet, by scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instructions {
    /// What was counted, in words.
    pub workload: String,
    /// Instructions per packet.
    pub per_packet: BTreeMap<String, f64>,
}

/// Measures every scheduler (or the one named) at each number of leaves.
///
/// # Errors
/// When no scheduler has the keyword.
pub fn measure(
    only: Option<&str>,
    leaves: &[usize],
    effort: Effort,
    progress: impl FnMut(&Row),
) -> Result<Vec<Row>, String> {
    measure_each(only, leaves, |entry, count| measure_one(entry, count, effort), progress)
}

/// Makes a row for each number of leaves of every scheduler, or of the one named.
fn measure_each<R>(
    only: Option<&str>,
    leaves: &[usize],
    measure: impl Fn(&Entry, usize) -> R,
    mut progress: impl FnMut(&R),
) -> Result<Vec<R>, String> {
    let entries = entries(only)?;
    let mut rows = Vec::new();
    for &count in leaves {
        for entry in &entries {
            rows.push(measure(entry, count));
            progress(rows.last().expect("a row was just pushed"));
        }
    }
    Ok(rows)
}

/// Every scheduler, or the one named.
fn entries(only: Option<&str>) -> Result<Vec<&'static Entry>, String> {
    let entries: Vec<_> = SCHEDULERS
        .iter()
        .filter(|entry| only.is_none_or(|keyword| keyword == entry.descriptor.keyword))
        .collect();
    if entries.is_empty() {
        return Err(format!(
            "no scheduler is called `{}`; there are {}",
            only.unwrap_or_default(),
            keywords().collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(entries)
}

/// The scheduler that every other is compared with: the first in the registry, which does least.
pub fn yardstick() -> &'static str {
    SCHEDULERS[0].descriptor.keyword
}

fn keywords() -> impl Iterator<Item = &'static str> {
    SCHEDULERS.iter().map(|entry| entry.descriptor.keyword)
}

/// Alternates the scheduler with the yardstick, so that both see the same minute of the machine.
fn measure_one(entry: &Entry, leaves: usize, effort: Effort) -> Row {
    let road =
        |entry| Road::new(entry, leaves, group_of(leaves), population(leaves), Lengths::Mixed);
    let (mut subject, mut yardstick) = (road(entry), road(&SCHEDULERS[0]));
    subject.run(effort.packets / 4);
    yardstick.run(effort.packets / 4);
    let (mut nanos, mut ratios, mut differences) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let mine = subject.run(effort.packets);
        let theirs = yardstick.run(effort.packets);
        nanos.push(mine);
        ratios.push(mine / theirs);
        differences.push(mine - theirs);
    }
    let scheduler = entry.descriptor.keyword;
    let (above, limit) = (median(&mut differences), limit_of(scheduler, leaves));
    Row {
        scheduler,
        leaves,
        nanos: median(&mut nanos),
        ratio: median(&mut ratios),
        above,
        limit,
        holds: limit.is_none_or(|limit| above <= limit),
    }
}

/// What a packet may cost above the yardstick, in ns.
fn limit_of(scheduler: &str, leaves: usize) -> Option<f64> {
    let claimed = ABOVE_CLAIMED.contains(&scheduler) && leaves <= ABOVE_LEAVES_MAX;
    claimed.then_some(ABOVE_MAX)
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs the workload whose instructions are counted; `weir bench --workload` is this.
///
/// # Errors
/// When no scheduler has the keyword.
pub fn workload(keyword: &str, packets: u64) -> Result<(), String> {
    let entry = weir_core::sched::find(keyword)
        .ok_or_else(|| format!("no scheduler is called `{keyword}`"))?;
    let (group, waiting) = (group_of(LEAVES_COUNTED), population(LEAVES_COUNTED));
    Road::new(entry, LEAVES_COUNTED, group, waiting, Lengths::Mixed).run(packets);
    Ok(())
}

/// Counts instructions per packet of every scheduler under callgrind, in `serve` alone: not
/// those of the loop around it, nor of set-up.
///
/// # Errors
/// When valgrind is missing or fails.
pub fn count_instructions() -> Result<Instructions, String> {
    let mut per_packet = BTreeMap::new();
    for keyword in keywords() {
        let each = callgrind(keyword, COUNTED)? as f64 / COUNTED as f64;
        per_packet.insert(keyword.to_owned(), (each * 10.0).round() / 10.0);
    }
    let workload = format!(
        "`serve` with batches of {BATCH} of mixed lengths, {LEAVES_COUNTED} leaves at random"
    );
    Ok(Instructions { workload, per_packet })
}

fn callgrind(keyword: &str, packets: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| format!("own program: {error}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={MEASURED}"))
        .arg(program)
        .args(["bench", "--workload", keyword, "--packets", &packets.to_string()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}; install Debian's `valgrind`"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    collected
        .and_then(|(_, count)| count.trim().parse().ok())
        .filter(|&count| count > 0)
        .ok_or_else(|| format!("callgrind counted nothing for `{keyword}`: {text}"))
}

/// What changed by more than [`INSTRUCTIONS_TOLERANCE`], one sentence each.
pub fn compare(now: &Instructions, committed: &Instructions) -> Vec<String> {
    let mut changes = Vec::new();
    for (keyword, &count) in &now.per_packet {
        let Some(&before) = committed.per_packet.get(keyword) else {
            changes.push(format!("`{keyword}` is not in the file; write it with --write"));
            continue;
        };
        let change = count / before - 1.0;
        if change.abs() > INSTRUCTIONS_TOLERANCE {
            changes.push(format!(
                "`{keyword}`: {count} instructions per packet instead of {before} ({:+.1} %, limit \
                 {:.0} %); find out why, or accept it with --write",
                change * 100.0,
                INSTRUCTIONS_TOLERANCE * 100.0
            ));
        }
    }
    changes
}

/// The schedulers of which it is claimed that a packet costs at most so many ns above the
/// yardstick, up to so many leaves.
const ABOVE_CLAIMED: [&str; 2] = ["htb", "cbq"];
const ABOVE_MAX: f64 = 120.0;
const ABOVE_LEAVES_MAX: usize = 10_000;
/// Packets of the run under callgrind.
const COUNTED: u64 = 40_000;
/// The function in which callgrind counts.
const MEASURED: &str = "*bench::road::Road::serve";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_beyond_two_percent_is_named() {
        let counts = |count| Instructions {
            workload: String::new(),
            per_packet: BTreeMap::from([("fifo".to_owned(), count)]),
        };
        assert!(compare(&counts(101.9), &counts(100.0)).is_empty());
        assert_eq!(compare(&counts(103.0), &counts(100.0)).len(), 1);
        assert_eq!(compare(&counts(97.0), &counts(100.0)).len(), 1);
    }
}
