//! Instructions per packet, counted by callgrind over a fixed workload through `serve`.
//!
//! Counts do not depend on the machine, so CI compares them with those in the repository. A
//! scheduler that the file does not name yet is counted and reported, but is not a failure.

use super::road::{BATCH, Lengths, Road, group_of, population};
use super::{entries, keywords};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::Command;

/// Leaves of the workload that is counted.
pub const LEAVES: usize = 104;
/// Change of instructions per packet that `--compare` lets pass.
pub const TOLERANCE: f64 = 0.02;

/// Instructions per packet, by scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instructions {
    /// A description of what was counted.
    pub workload: String,
    /// Instructions per packet, by scheduler.
    pub per_packet: BTreeMap<String, f64>,
}

/// How counts differ from those in the repository, a sentence each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    /// Counts that changed by more than [`TOLERANCE`].
    pub changes: Vec<String>,
    /// Schedulers that only one of the two has.
    pub news: Vec<String>,
}

/// Runs the workload that is counted; `weir bench --workload` is this.
///
/// # Errors
/// When no scheduler has the keyword.
pub fn run(keyword: &str, packets: u64) -> Result<(), String> {
    let waiting = population(LEAVES);
    for entry in entries(&[keyword.to_owned()])? {
        Road::new(entry, LEAVES, group_of(LEAVES), waiting, Lengths::Mixed).run(packets);
    }
    Ok(())
}

/// Counts instructions per packet of every scheduler under callgrind, in `serve` alone: not those
/// of the loop around it, nor of set-up. `progress` gets each count.
///
/// # Errors
/// When valgrind is missing or fails.
pub fn count(mut progress: impl FnMut(&str, f64)) -> Result<Instructions, String> {
    let mut per_packet = BTreeMap::new();
    for keyword in keywords() {
        let each = callgrind(keyword, PACKETS)? as f64 / PACKETS as f64;
        let each = (each * 10.0).round() / 10.0;
        progress(keyword, each);
        per_packet.insert(keyword.to_owned(), each);
    }
    let workload = format!(
        "`serve` with batches of {BATCH} packets of mixed lengths, {LEAVES} leaves at random in \
         three levels"
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

/// Compares counts with those in the repository.
pub fn compare(now: &Instructions, committed: &Instructions) -> Differences {
    let mut differences = Differences::default();
    for (keyword, &count) in &now.per_packet {
        let Some(&before) = committed.per_packet.get(keyword) else {
            differences.news.push(format!("`{keyword}` is new: {count} instructions per packet"));
            continue;
        };
        let change = count / before - 1.0;
        if change.abs() > TOLERANCE {
            differences.changes.push(format!(
                "`{keyword}`: {count} instructions per packet instead of {before} ({:+.1} %, limit \
                 {:.0} %); find out why, or accept it with --write",
                change * 100.0,
                TOLERANCE * 100.0
            ));
        }
    }
    let gone = committed.per_packet.keys().filter(|keyword| !now.per_packet.contains_key(*keyword));
    differences.news.extend(gone.map(|keyword| format!("`{keyword}` is gone")));
    differences
}

/// Packets of the run under callgrind.
const PACKETS: u64 = 40_000;
/// The function in which callgrind counts.
const MEASURED: &str = "*bench::road::Road::serve";

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rows: &[(&str, f64)]) -> Instructions {
        let per_packet = rows.iter().map(|&(keyword, count)| (keyword.to_owned(), count)).collect();
        Instructions { workload: String::new(), per_packet }
    }

    #[test]
    fn a_change_beyond_two_percent_is_named() {
        let before = counts(&[("fifo", 100.0)]);
        for (count, changes) in [(101.9, 0), (103.0, 1), (97.0, 1)] {
            let found = compare(&counts(&[("fifo", count)]), &before);
            assert_eq!((found.changes.len(), found.news.len()), (changes, 0), "{count}");
        }
    }

    #[test]
    fn a_scheduler_without_a_count_is_reported_and_fails_nothing() {
        let found = compare(&counts(&[("new", 1.0)]), &counts(&[("old", 1.0)]));
        assert_eq!(found.changes, [""; 0]);
        assert_eq!(found.news, ["`new` is new: 1 instructions per packet", "`old` is gone"]);
    }
}
