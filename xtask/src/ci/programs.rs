//! Builds every test program once, and runs them: those of live rows, which mostly wait, beside
//! those that compute.

use crate::processes;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A test program that cargo built.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// The package and the target, such as `weir-core it`.
    name: String,
    package: String,
    executable: PathBuf,
    /// The folder of its manifest, in which it runs.
    folder: PathBuf,
    kind: Kind,
}

/// The harness that runs a program's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The testbed's, which runs rows on live links.
    Live,
    /// The testbed's, which runs rows in Python.
    Python,
    Standard,
}

/// The result of a program.
struct Outcome {
    counts: Counts,
    /// Its tests that could not run, each with the reason.
    ignored: Vec<String>,
    has_passed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// The test programs of the workspace.
pub struct Programs(Vec<Program>);

impl Programs {
    /// Returns their number in words.
    pub fn describe(&self) -> String {
        format!("{} test programs, no lints", self.0.len())
    }
}

/// Builds every target with clippy's lints; the compiler's messages go to the terminal.
///
/// # Errors
/// When one does not build, or has a lint.
pub fn build(root: &Path) -> Result<Programs, String> {
    let output = super::lints::cargo(root)?
        .args(["test", "--locked", "--workspace", "--all-targets", "--no-fail-fast", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("a target does not build, or has a lint".to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(Programs(text.lines().filter_map(program).collect()))
}

/// Builds the test programs and runs them; returns what was counted.
///
/// # Errors
/// When one does not build or fails, and when no test ran: an empty run proves nothing.
pub fn run(root: &Path, times: &mut Times) -> Result<String, String> {
    let Programs(programs) = build(root)?;
    let scratch = crate::nostd::target_directory(root).join("test-times");
    let seed = first_seed(root);
    println!("the first seed of random workloads is {seed} (WEIR_SEED)");
    let outcomes = run_all(&programs, |program| run_one(program, &scratch, &seed));
    // What a test left that was killed goes with the folder.
    let _none = fs::remove_dir_all(processes::scratch());
    let mut sum = Counts::default();
    let (mut failed, mut ignored) = (Vec::new(), Vec::new());
    for (program, outcome) in outcomes {
        let outcome = outcome?;
        ignored.extend(outcome.ignored);
        sum.add(outcome.counts);
        if !outcome.has_passed {
            failed.push(program.name.as_str());
        }
        times.read(&times_of(&scratch, program));
    }
    if !ignored.is_empty() {
        println!("\n== ignored\n{}", ignored.join("\n"));
    }
    match (failed.is_empty(), sum.passed) {
        (false, _) => {
            Err(format!("{} failed, {} passed: {}", sum.failed, sum.passed, failed.join(", ")))
        }
        (true, 0) => Err("no test ran".to_owned()),
        (true, passed) => Ok(format!("{passed} passed, 0 failed, {} ignored", sum.ignored)),
    }
}

/// Runs programs of live rows one after the other, each of which runs several rows at a time, and
/// those of rows in Python; both mostly wait. Beside them run the others, as many as there are
/// processors, each one test at a time: more at once would only wait for one another.
fn run_all<T: Send>(
    programs: &[Program],
    run: impl Fn(&Program) -> T + Sync,
) -> Vec<(&Program, T)> {
    // The longest begin; how large a program is says roughly how long it takes.
    let size = |program: &Program| fs::metadata(&program.executable).map_or(0, |file| file.len());
    let of = |kind| {
        let mut programs: Vec<_> = programs.iter().filter(|one| one.kind == kind).collect();
        programs.sort_by_key(|program| Reverse(size(program)));
        Mutex::new(programs.into_iter())
    };
    let queues = [Kind::Live, Kind::Python, Kind::Standard].map(of);
    let lane = |queue: &Mutex<std::vec::IntoIter<_>>| {
        let next = || queue.lock().expect("no lane panics with the lock").next();
        std::iter::from_fn(next).map(|one| (one, run(one))).collect::<Vec<_>>()
    };
    let (lane, [live, python, plain]) = (&lane, &queues);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let queues = [live, python].into_iter().chain(std::iter::repeat_n(plain, processors));
        let lanes: Vec<_> = queues.map(|queue| scope.spawn(move || lane(queue))).collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("it does not panic")).collect()
    })
}

/// Reads one of cargo's messages: a test program, or something else.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let executable = message["executable"].as_str()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_path_buf();
    let package = package(message["package_id"].as_str()?, &folder);
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    if kind == "example" {
        // It is only linted.
        return None;
    }
    let name =
        if kind == "test" { format!("{package} {target}") } else { format!("{package} ({kind})") };
    let kind = match (kind, target) {
        ("test", "live") => Kind::Live,
        ("test", "python") => Kind::Python,
        _ => Kind::Standard,
    };
    Some(Program { name, package, executable: executable.into(), folder, kind })
}

/// Returns the name in an id such as `path+file:///w/testbed#weir-testbed@0.1.0`; without one the
/// package is called as its folder.
fn package(id: &str, folder: &Path) -> String {
    let tail = id.rsplit_once('#').map_or("", |(_, tail)| tail);
    match tail.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

/// Runs a program to its end and prints its output at once, so that two do not mix.
fn run_one(program: &Program, scratch: &Path, seed: &str) -> Result<Outcome, String> {
    let io = |error: std::io::Error| format!("{}: {error}", program.name);
    fs::create_dir_all(scratch).map_err(io)?;
    fs::create_dir_all(processes::scratch()).map_err(io)?;
    let rows = times_of(scratch, program);
    fs::write(&rows, "").map_err(io)?;
    // One that waits for ever must not hold the whole run up.
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=10", RUN_MAX]).arg(&program.executable);
    command.current_dir(&program.folder).stdin(Stdio::null());
    command.env("CARGO_MANIFEST_DIR", &program.folder).env("CARGO_PKG_NAME", &program.package);
    command.env("WEIR_TEST_TIMES", &rows).env("WEIR_SEED", seed);
    command.env("TMPDIR", processes::scratch());
    if program.kind == Kind::Standard {
        // The standard harness reports times only where unstable options are allowed.
        command.env("RUSTC_BOOTSTRAP", "1").args(["-Zunstable-options", "--report-time"]);
        command.arg("--test-threads=1");
    }
    let start = Instant::now();
    let output = command.output().map_err(io)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("\n-- {} ({:.1} s)\n{text}{errors}", program.name, start.elapsed().as_secs_f64());
    if program.kind == Kind::Standard {
        let lines = text.lines().filter_map(|line| timed(line, &program.name));
        fs::write(&rows, lines.collect::<Vec<_>>().join("\n")).map_err(io)?;
    }
    let ignored = text.lines().filter_map(|line| ignored(line, &program.name)).collect();
    let counts = Counts::read(&text);
    Ok(Outcome { counts, ignored, has_passed: output.status.success() })
}

/// Reads `test NAME ... ignored, REASON`, as the standard harness writes it, or `ignored (REASON)`.
fn ignored(line: &str, program: &str) -> Option<String> {
    let (test, rest) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    let reason = rest.trim_matches([',', ' ', '(', ')']);
    Some(format!("{}::{}: {reason}", program.replace(' ', "::"), test.trim_end()))
}

fn times_of(scratch: &Path, program: &Program) -> PathBuf {
    scratch.join(program.name.replace(' ', "-"))
}

/// Reads `test NAME ... ok <1.234s>`; returns the line that rows of live tests write.
fn timed(line: &str, program: &str) -> Option<String> {
    let (test, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = rest.split_once('<')?.1.split_once("s>")?.0;
    Some(format!("time {}::{test} {seconds}", program.replace(' ', "::")))
}

impl Counts {
    /// Adds up the closing lines, `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
    fn read(text: &str) -> Self {
        let mut sum = Self::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("test result: ")) {
            let mut counts = BTreeMap::new();
            for part in line.split(['.', ';']) {
                if let Some((number, what)) = part.trim().split_once(' ') {
                    counts.insert(what, number.parse::<u64>().unwrap_or(0));
                }
            }
            let count = |what| counts.get(what).copied().unwrap_or(0);
            sum.add(Self {
                passed: count("passed"),
                failed: count("failed"),
                ignored: count("ignored"),
            });
        }
        sum
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// The times of single tests.
#[derive(Default)]
pub struct Times(Vec<(Duration, String)>);

impl Times {
    /// Reads lines `time NAME SECONDS`.
    fn read(&mut self, path: &Path) {
        let text = fs::read_to_string(path).unwrap_or_default();
        let row = |line: &str| {
            let (name, seconds) = line.strip_prefix("time ")?.rsplit_once(' ')?;
            Some((Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?, name.to_owned()))
        };
        self.0.extend(text.lines().filter_map(row));
    }

    /// Prints the slowest tests.
    pub fn print(&mut self) {
        self.0.sort();
        if !self.0.is_empty() {
            println!("\n== the slowest tests");
        }
        for (time, name) in self.0.iter().rev().take(SLOWEST) {
            println!("{:>8.1} s  {name}", time.as_secs_f64());
        }
    }
}

/// Returns the seed from which random tests start: 16 hexadecimal digits of the commit's hash, so
/// that each change tries other workloads; WEIR_SEED if it is set, to repeat a run.
fn first_seed(root: &Path) -> String {
    let set = std::env::var("WEIR_SEED").ok();
    let head = || {
        let output = Command::new("git").current_dir(root).args(["rev-parse", "HEAD"]).output();
        let text = String::from_utf8(output.ok()?.stdout).ok()?;
        Some(text.get(..16)?.to_owned())
    };
    set.or_else(head).unwrap_or_else(|| "0".to_owned())
}

const SLOWEST: usize = 10;
/// Bound: seconds that a test program runs; then it is ended, and has failed.
const RUN_MAX: &str = "1500";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_from_the_closing_lines() {
        let rows = [
            (
                "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out",
                (12, 0, 3),
            ),
            ("test result: FAILED. 11 passed; 1 failed; 0 ignored; 0 measured", (11, 1, 0)),
            ("running 12 tests", (0, 0, 0)),
        ];
        for (line, (passed, failed, ignored)) in rows {
            assert_eq!(Counts::read(line), Counts { passed, failed, ignored }, "{line}");
        }
    }

    #[test]
    fn a_time_is_read_from_the_line_of_its_test() {
        let rows = [
            ("test laws::order ... ok <1.250s>", Some("time weir-core::it::laws::order 1.250")),
            ("test laws::order ... ok", None),
            ("running 2 tests", None),
        ];
        for (line, expected) in rows {
            assert_eq!(timed(line, "weir-core it").as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn an_ignored_test_is_named_with_its_reason() {
        let rows = [
            ("test a::b ... ignored, it takes minutes", Some("weir::it::a::b: it takes minutes")),
            ("test c   ... ignored (needs tmux)", Some("weir::it::c: needs tmux")),
            ("test d ... ok", None),
            ("test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured", None),
        ];
        for (line, expected) in rows {
            assert_eq!(ignored(line, "weir it").as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_program_is_what_cargo_built_for_a_test() {
        let message = |kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/testbed#weir-testbed@0.1.0",
                "manifest_path":"/w/testbed/Cargo.toml","target":{{"kind":["{kind}"],"name":"live"}},
                "profile":{{"test":{test}}},"executable":"/w/target/live"}}"#
            )
        };
        let found = program(&message("test", true)).expect("a program");
        assert_eq!((found.name.as_str(), found.kind), ("weir-testbed live", Kind::Live));
        assert_eq!(found.folder, Path::new("/w/testbed"));
        let unit = program(&message("lib", true)).expect("a program");
        assert_eq!((unit.name.as_str(), unit.kind), ("weir-testbed (lib)", Kind::Standard));
        assert_eq!(program(&message("bin", false)), None);
        assert_eq!(program(&message("example", true)), None);
        assert_eq!(program("cargo says something"), None);
    }
}
