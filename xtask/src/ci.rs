//! `cargo xtask ci`: runs every step that a change must pass, in order, each timed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A step: its name, and its action. `Ok` describes the result, or why there was nothing to do.
struct Step {
    name: &'static str,
    run: fn(&Path) -> Result<String, String>,
}

/// The steps, cheapest first.
const STEPS: [Step; 10] = [
    Step { name: "fmt", run: |root| crate::format::run(root, true) },
    Step { name: "tidy", run: tidy },
    Step { name: "third-party", run: crate::third_party::compare },
    Step { name: "nostd", run: crate::nostd::prove },
    Step { name: "clippy", run: |root| cargo(root, CLIPPY, &[]) },
    Step { name: "test", run: |root| tests(root, TEST) },
    Step { name: "doctest", run: |root| cargo(root, DOCTEST, &[]) },
    Step { name: "fuzz", run: fuzz },
    Step { name: "instructions", run: instructions },
    Step { name: "doc", run: |root| cargo(root, DOC, &[("RUSTDOCFLAGS", "-D warnings")]) },
];

/// The outcome of a step: its name, its time, its message.
struct Outcome {
    name: &'static str,
    spent: Duration,
    result: Result<String, String>,
}

/// Runs the named steps, or all of them, up to the first that fails, or all if `keep_going`;
/// returns true if every one passed.
pub fn run(root: &Path, names: &[&str], keep_going: bool) -> bool {
    if let Some(unknown) = names.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        eprintln!("ci: no step is called `{unknown}`; `cargo xtask ci --list` names them");
        return false;
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    for step in STEPS.iter().filter(|step| names.is_empty() || names.contains(&step.name)) {
        println!("\n== {}", step.name);
        let start = Instant::now();
        let result = (step.run)(root);
        let failed = result.is_err();
        outcomes.push(Outcome { name: step.name, spent: start.elapsed(), result });
        if failed && !keep_going {
            break;
        }
    }
    summarise(&outcomes);
    outcomes.iter().all(|outcome| outcome.result.is_ok())
}

/// Prints the names of the steps, one a line.
pub fn list() -> bool {
    STEPS.iter().for_each(|step| println!("{}", step.name));
    true
}

fn summarise(outcomes: &[Outcome]) {
    println!("\n== summary");
    for Outcome { name, spent, result } in outcomes {
        let time = format!("{:.1} s", spent.as_secs_f64());
        match result {
            Ok(found) => println!("{}", format!("{name:<13}{time:>8}  {found}").trim_end()),
            Err(trouble) => {
                println!("{name:<13}{time:>8}  FAILED: {trouble}; alone: cargo xtask ci {name}")
            }
        }
    }
    // The count of tests is printed last, alone on its line.
    let tests = outcomes.iter().find(|outcome| outcome.name == "test");
    if let Some(Ok(counted)) = tests.map(|outcome| &outcome.result) {
        println!("\ntests: {counted}");
    }
}

fn tidy(root: &Path) -> Result<String, String> {
    match crate::tidy::run(root) {
        true => Ok("no findings".into()),
        false => Err("the findings above".into()),
    }
}

/// Runs cargo; its output goes straight to the terminal.
fn cargo(root: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<String, String> {
    let status = Command::new("cargo")
        .current_dir(root)
        .args(arguments)
        .envs(variables.iter().copied())
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() {
        return Ok(String::new());
    }
    Err(format!("`cargo {}` failed", arguments.join(" ")))
}

/// Runs cargo's tests, counts them, and fails also when no test ran: an empty run proves nothing.
fn tests(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut child = Command::new("cargo")
        .current_dir(root)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let output = child.stdout.take().expect("stdout is a pipe");
    let mut passed = 0;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("cannot read the output of the tests: {error}"))?;
        passed += tests_passed(&line);
        println!("{line}");
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    match (status.success(), passed) {
        (false, _) => Err(format!("`cargo {}` failed", arguments.join(" "))),
        (true, 0) => Err("no test ran".into()),
        (true, _) => Ok(format!("{passed} passed, 0 failed")),
    }
}

/// Returns the count in a line such as `test result: ok. 12 passed; 0 failed; …`, else 0.
fn tests_passed(line: &str) -> u64 {
    let Some(rest) = line.strip_prefix("test result: ok. ") else {
        return 0;
    };
    let count = rest.split(' ').next().unwrap_or_default();
    count.parse().unwrap_or(0)
}

/// Runs every fuzz target on its seed corpus and briefly on mutations, with the stable compiler.
fn fuzz(root: &Path) -> Result<String, String> {
    if !root.join("fuzz/Cargo.toml").is_file() {
        return Ok("no fuzz folder".into());
    }
    tests(root, FUZZ)
}

/// Compares the instructions of a fixed workload with the counts in the repository. Prints a
/// scheduler that is not among them, without failing.
fn instructions(root: &Path) -> Result<String, String> {
    if !root.join(INSTRUCTIONS).is_file() {
        return Ok("no counts to compare with".into());
    }
    cargo(root, BENCH, &[]).map(|_| format!("within the tolerance of {INSTRUCTIONS}"))
}

/// The instruction counts of the repository.
const INSTRUCTIONS: &str = "bench/instructions.json";

const CLIPPY: &[&str] =
    &["clippy", "--locked", "--keep-going", "--workspace", "--all-targets", "--", "-D", "warnings"];

/// Profile `ci` is optimised with assertions on, so that the laws run 10 000 workloads with every
/// check.
const TEST: &[&str] =
    &["test", "--locked", "--workspace", "--all-targets", "--profile", "ci", "--no-fail-fast"];

const DOCTEST: &[&str] = &["test", "--locked", "--workspace", "--doc", "--profile", "ci"];

/// Without libFuzzer: seeds and their mutations on the stable compiler, overflow checks on.
const FUZZ: &[&str] =
    &["test", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--no-default-features"];

/// A release build, as for the stored counts.
const BENCH: &[&str] = &[
    "run",
    "--locked",
    "--release",
    "--package",
    "weir",
    "--",
    "bench",
    "--instructions",
    "--compare",
    INSTRUCTIONS,
];

const DOC: &[&str] = &["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_counted_from_the_closing_line() {
        let rows = [
            ("test result: ok. 12 passed; 0 failed; 0 ignored", 12),
            ("test result: FAILED. 11 passed; 1 failed", 0),
            ("running 12 tests", 0),
        ];
        for (line, count) in rows {
            assert_eq!(tests_passed(line), count, "{line}");
        }
    }

    #[test]
    fn an_unknown_step_is_refused() {
        assert!(!run(Path::new("."), &["nosuch"], false));
    }
}
