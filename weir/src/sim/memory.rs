//! Checks before a run whether it fits in memory.

use std::fs;
use weir_core::units::Bytes;
use weir_sim::Scenario;
use weir_sim::memory::{Beside, Need, Shown};

/// The runs of a scenario.
#[derive(Clone, Copy)]
pub struct Runs {
    /// How many run at the same time.
    pub threads: usize,
    /// The number of runs, whose reports are all stored.
    pub count: u64,
    /// The records that each run makes beside its report.
    pub beside: Beside,
}

/// Refuses runs of `scenario` that need more than `limit`, or than what the machine has free.
///
/// # Errors
/// The memory needed and its largest part, the limit and the cure.
pub fn check(
    scenario: &Scenario,
    Runs { threads, count, beside }: Runs,
    limit: Option<Bytes>,
) -> Result<(), String> {
    let need = Need::of(scenario, beside);
    let reports = Need::of_report(scenario).saturating_mul(count);
    let runs = need.total().saturating_mul(threads as u64);
    let whole = runs.saturating_add(reports);
    let (limit, whose) = match (limit, free()) {
        (Some(limit), _) => (limit.get(), "--memory allows"),
        (None, Some(free)) => (free, "this machine has free"),
        (None, None) => return Ok(()),
    };
    if whole <= limit {
        return Ok(());
    }
    let each = if threads > 1 { format!(" on each of {threads} threads") } else { String::new() };
    let stored = if count > 1 {
        format!(", and {} for {count} reports", Shown(reports))
    } else {
        String::new()
    };
    let largest = need.parts.first().map_or("", |part| part.0);
    let cure = match largest {
        "packets that wait" => "lower `packets_max` or the queues' limits",
        "windows" => "lower `window`, or simulate fewer sources of TCP and QUIC",
        "recorded arrivals" => "cut the recording",
        _ if reports > runs => "use fewer runs",
        "bins" => "widen the bins",
        "rows of packets" => "leave out --parquet and --trace",
        "taps" => "lower `rows` of the taps",
        "packets under way" => "lower `delay` of the links, or the sources' rates",
        _ => "simulate fewer sources and classes",
    };
    let fewer = if threads > 1 { ", or run on fewer --threads" } else { "" };
    Err(format!(
        "{} would need up to {need}{each}{stored}, more than the {} that {whose}; {cure}{fewer}, \
         or allow more with --memory",
        scenario.name,
        Shown(limit),
    ))
}

/// Returns the memory available without swapping: of the machine, and of its control group.
fn free() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let machine = kibibytes.saturating_mul(1024);
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
    };
    let group = number("memory.max").zip(number("memory.current"));
    Some(group.map_or(machine, |(most, used)| machine.min(most.saturating_sub(used))))
}
