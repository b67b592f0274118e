//! `cargo xtask tidy`: checks CONTRIBUTING.md's limits, the arrows between crates and between the
//! core's modules, circles of files, and the absences that `ARCHITECTURE.md` promises. The numbers
//! and tables are in `rules.rs`.

mod absences;
mod arrows;
mod circles;
mod citations;
mod docs;
mod limits;
mod manifests;
mod names;
mod rules;
mod source;
mod texts;

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use circles::Imports;
use citations::{Citations, SOURCES};
use names::Algorithms;
use rules::{EXCEPTIONS, Exception, TUPLES};
use source::Source;

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the workspace's root.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The name of the check, as in an exception.
    pub check: &'static str,
    /// The violation, with the limit.
    pub what: String,
    /// Advice that removes the violation.
    pub cure: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {} [{}]; {}", self.file, self.line, self.what, self.check, self.cure)
    }
}

/// The checks of one Rust file.
const SOURCE_CHECKS: &[fn(&Source) -> Vec<Finding>] = &[
    limits::header,
    limits::file_length,
    limits::line_width,
    limits::function_length,
    limits::parameters,
    limits::tuples,
    limits::nesting,
    limits::names,
    limits::unfinished,
    limits::silenced,
    docs::openings,
    docs::repeats,
    arrows::core_modules,
    absences::tokens,
];

/// The checks of one crate's manifest.
const MANIFEST_CHECKS: &[fn(&str, &str) -> Vec<Finding>] =
    &[manifests::arrows, manifests::reasons, manifests::lints];

/// The checks of any tracked text.
const TEXT_CHECKS: &[fn(&str, &str) -> Vec<Finding>] =
    &[texts::machine_paths, texts::registry_hosts, texts::open_ends];

/// The endings of files that cite sources.
const CITING: &[&str] = &[".rs", ".toml", ".md"];

/// Checks the whole tree and prints the findings; returns true if there are none.
///
/// # Errors
/// When git does not name the files.
pub fn run(root: &Path) -> Result<bool, String> {
    let files = tracked_files(root)?;
    let findings = excuse(check_tree(root, &files), "tuples", TUPLES);
    let findings = judge(findings, EXCEPTIONS);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", files.len(), findings.len());
    Ok(findings.is_empty())
}

/// Returns every finding in these files, including those that an exception covers.
fn check_tree(root: &Path, files: &[String]) -> Vec<Finding> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let citations = Citations::read(&read(SOURCES).unwrap_or_default(), read);
    let algorithms = Algorithms::read(read);
    let algorithms = match algorithms {
        Ok(algorithms) => algorithms,
        Err(finding) => return vec![finding],
    };
    let check = |path: &String| {
        // A file that is not text (a capture, a picture) or was deleted has no lines to check.
        let Some(text) = read(path) else { return (Vec::new(), None) };
        let (mut findings, imports) = check_file(path, &text, &algorithms);
        if CITING.iter().any(|end| path.ends_with(end)) {
            findings.extend(citations.check(path, &text));
        }
        findings.extend(texts::documents(path, &text, files));
        (findings, imports)
    };
    let next = AtomicUsize::new(0);
    let share = || {
        let next = || files.get(next.fetch_add(1, Ordering::Relaxed));
        std::iter::from_fn(next).map(check).collect::<Vec<_>>()
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut findings = citations.documents();
    let mut imports = Vec::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(share)).collect();
        let shares = threads.into_iter().map(|thread| thread.join().expect("no check panics"));
        for (of_file, of_imports) in shares.flatten() {
            findings.extend(of_file);
            imports.extend(of_imports);
        }
    });
    findings.extend(circles::find(&imports));
    findings
}

fn check_file(path: &str, text: &str, algorithms: &Algorithms) -> (Vec<Finding>, Option<Imports>) {
    let mut imports = None;
    let mut findings: Vec<_> = TEXT_CHECKS.iter().flat_map(|check| check(path, text)).collect();
    if path.ends_with("Cargo.toml") {
        findings.extend(MANIFEST_CHECKS.iter().flat_map(|check| check(path, text)));
    }
    if path.ends_with(".rs") {
        match Source::parse(path, text) {
            Ok(source) => {
                findings.extend(check_source(&source, algorithms));
                imports = circles::imports(&source);
            }
            Err(finding) => findings.push(finding),
        }
    }
    (findings, imports)
}

fn check_source(source: &Source, algorithms: &Algorithms) -> Vec<Finding> {
    let mut findings: Vec<Finding> = SOURCE_CHECKS.iter().flat_map(|check| check(source)).collect();
    findings.extend(algorithms.check(source));
    findings
}

/// Removes the findings of `check` in each crate that has exactly as many as `table` says. Where a
/// crate has fewer, the table is a finding: its numbers may only fall.
fn excuse(findings: Vec<Finding>, check: &'static str, table: &[(&str, usize)]) -> Vec<Finding> {
    let is_of = |finding: &Finding, krate: &str| {
        finding.check == check && finding.file.split('/').next() == Some(krate)
    };
    let count = |krate: &str| findings.iter().filter(|finding| is_of(finding, krate)).count();
    let counts: Vec<usize> = table.iter().map(|(krate, _)| count(krate)).collect();
    let mut left = findings;
    for (&(krate, excused), found) in table.iter().zip(counts) {
        if found <= excused {
            left.retain(|finding| !is_of(finding, krate));
        }
        if found < excused {
            left.push(Finding {
                file: "xtask/src/tidy/rules.rs".to_owned(),
                line: 1,
                check: "stale-exception",
                what: format!("{krate} has {found} of `{check}`, the table excuses {excused}"),
                cure: "write the smaller number, or remove a row of none",
            });
        }
    }
    left
}

/// Removes findings that an exception covers, adds each exception that covers none, sorts.
fn judge(findings: Vec<Finding>, exceptions: &[Exception]) -> Vec<Finding> {
    let covered = |finding: &Finding| exceptions.iter().any(|exception| exception.covers(finding));
    let stale = exceptions
        .iter()
        .filter(|exception| !findings.iter().any(|finding| exception.covers(finding)))
        .map(|exception| Finding {
            file: exception.file.to_owned(),
            line: 1,
            check: "stale-exception",
            what: format!(
                "no need of the exception from `{}` ({})",
                exception.check, exception.reason
            ),
            cure: "remove the row from xtask/src/tidy/rules.rs",
        });
    let mut left: Vec<Finding> = stale.collect();
    left.extend(findings.into_iter().filter(|finding| !covered(finding)));
    left.sort();
    left
}

/// Returns the files that git tracks or would track, sorted.
pub fn tracked_files(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .map_err(|error| format!("cannot run git, which names the files to check: {error}"))?;
    if !output.status.success() {
        return Err(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let listing = String::from_utf8_lossy(&output.stdout);
    let named = |path: &&str| !path.is_empty();
    let mut files: Vec<String> = listing.split('\0').filter(named).map(str::to_owned).collect();
    files.sort();
    files.dedup();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(file: &str, check: &'static str) -> Finding {
        Finding { file: file.into(), line: 3, check, what: "w".into(), cure: "c" }
    }

    #[test]
    fn a_finding_prints_place_what_and_cure() {
        assert_eq!(finding("a.rs", "nesting").to_string(), "a.rs:3: w [nesting]; c");
    }

    #[test]
    fn an_exception_removes_only_its_own_finding() {
        let exceptions = [Exception { check: "nesting", file: "a.rs", reason: "r" }];
        let found = vec![finding("a.rs", "nesting"), finding("b.rs", "nesting")];
        assert_eq!(judge(found, &exceptions), [finding("b.rs", "nesting")]);
    }

    #[test]
    fn an_exception_without_a_finding_is_a_finding() {
        let exceptions = [Exception { check: "nesting", file: "a.rs", reason: "r" }];
        let left = judge(Vec::new(), &exceptions);
        assert_eq!(left.iter().map(|left| left.check).collect::<Vec<_>>(), ["stale-exception"]);
    }

    #[test]
    fn a_crate_has_as_many_findings_as_its_row_excuses() {
        let found = || vec![finding("a/src/a.rs", "tuples"), finding("b/src/b.rs", "tuples")];
        let checks = |table: &[(&str, usize)]| {
            let left = excuse(found(), "tuples", table);
            left.iter().map(|left| (left.file.clone(), left.check)).collect::<Vec<_>>()
        };
        let (a, b) = (("a/src/a.rs".to_owned(), "tuples"), ("b/src/b.rs".to_owned(), "tuples"));
        assert_eq!(checks(&[]), [a.clone(), b.clone()]);
        assert_eq!(checks(&[("a", 1), ("b", 1)]), []);
        assert_eq!(checks(&[("a", 0), ("b", 1)]), [a]);
        let stale = ("xtask/src/tidy/rules.rs".to_owned(), "stale-exception");
        assert_eq!(checks(&[("a", 2)]), [b, stale]);
    }

    #[test]
    fn every_exception_gives_a_reason() {
        for exception in EXCEPTIONS {
            assert!(exception.reason.len() > 10, "{} {}", exception.check, exception.file);
        }
    }
}
