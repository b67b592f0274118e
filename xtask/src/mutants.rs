//! A sample of mutants by cargo-mutants: small faults in the code, one at a time, of which the
//! tests of the crate must detect nine in ten.
//!
//! The sample is every n-th mutant of the whole list, from a seeded start, so that it covers all
//! files and is reproducible for one state of the code.

use crate::figures::Verdict;
use crate::nostd::target_directory;
use std::path::Path;
use std::process::Command;

/// The number of mutants in the sample.
pub const SAMPLE: usize = 100;

/// Runs a sample of about `sample` mutants and prints the survivors.
pub fn run(root: &Path, sample: usize) -> Verdict {
    measure(root, sample.max(1)).unwrap_or_else(Verdict::Unmeasured)
}

fn measure(root: &Path, sample: usize) -> Result<Verdict, String> {
    install(root)?;
    let all = list(root)?;
    let shards = (all / sample).max(1);
    let shard = format!("{}/{shards}", SEED % shards);
    println!("{all} mutants; every {shards}th is tried, shard {shard}");
    let output = target_directory(root).join("mutants");
    std::fs::create_dir_all(&output)
        .map_err(|error| format!("cannot make {}: {error}", output.display()))?;
    let folder = output.to_string_lossy();
    let shard = ["--shard", &shard, "--sharding", "round-robin", "--output", &folder];
    // Exit code 2 means that some survived, 3 that some timed out; both are read from the lists.
    let status = cargo(root).args(CHOICE).args(shard).args(HOW).status();
    status.map_err(|error| format!("cannot run cargo mutants: {error}"))?;
    let names = |list: &str| names(&output.join("mutants.out").join(list));
    let survivors = names("missed.txt")?;
    let noticed = names("caught.txt")?.len() + names("timeout.txt")?.len();
    report(&survivors, noticed)
}

/// Prints the table; mutants that do not compile are not counted.
fn report(survivors: &[String], noticed: usize) -> Result<Verdict, String> {
    let tried = survivors.len() + noticed;
    if tried == 0 {
        return Err("not measured: no mutant was tried".to_owned());
    }
    let holds = survivors.len() * SURVIVORS_OF <= tried;
    let verdict = if holds { "holds" } else { "MISSED" };
    println!("figure             goal                measured  verdict");
    let measured = format!("{} of {tried}", survivors.len());
    println!("surviving mutants  at most 1 in {SURVIVORS_OF}  {measured:>12}  {verdict}");
    survivors.iter().for_each(|survivor| println!("  survived: {survivor}"));
    Ok(if holds { Verdict::Holds } else { Verdict::Missed })
}

/// Installs cargo-mutants with cargo where it is missing.
fn install(root: &Path) -> Result<(), String> {
    let found = cargo(root).arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    println!("figures: installing cargo-mutants: cargo install --locked cargo-mutants");
    let status = Command::new("cargo").args(["install", "--locked", "cargo-mutants"]).status();
    let installed = status.is_ok_and(|status| status.success());
    if installed { Ok(()) } else { Err("not measured: cargo-mutants is missing".to_owned()) }
}

/// The number of mutants.
fn list(root: &Path) -> Result<usize, String> {
    let output = cargo(root).args(CHOICE).arg("--list").output();
    let output = output.map_err(|error| format!("cannot run cargo mutants: {error}"))?;
    match String::from_utf8_lossy(&output.stdout).lines().count() {
        0 => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("not measured: cargo mutants finds nothing to change: {why}"))
        }
        count => Ok(count),
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.arg("mutants").current_dir(root);
    command
}

/// The lines of a list that cargo-mutants wrote.
fn names(path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("not measured: cannot read {}: {error}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The files that are mutated: the parts of the core that decide, and the import.
const CHOICE: [&str; 12] = [
    "--file",
    "weir-core/src/link/**",
    "--file",
    "weir-core/src/queue/**",
    "--file",
    "weir-core/src/police/**",
    "--file",
    "weir-core/src/sched/**",
    "--file",
    "weir-import/src/**",
    "--exclude",
    "**/tests.rs",
];
/// Optimised and with assertions, as in CI; a mutant that does not end is stopped.
const HOW: [&str; 4] = ["--timeout", "600", "--no-shuffle", "--colors=never"];
/// At most one in this many may survive.
const SURVIVORS_OF: usize = 10;
const SEED: usize = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_ten_may_survive() {
        let survivors = |count| vec!["a.rs:1:1: replace f -> u8 with 0".to_owned(); count];
        assert_eq!(report(&survivors(10), 90), Ok(Verdict::Holds));
        assert_eq!(report(&survivors(11), 89), Ok(Verdict::Missed));
        assert!(report(&[], 0).is_err());
    }
}
