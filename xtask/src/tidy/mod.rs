//! `cargo xtask tidy`: checks CONTRIBUTING.md's limits, the arrows between crates and between the
//! core's modules, circles of files, and the absences that `ARCHITECTURE.md` promises. The numbers
//! and tables are in `rules.rs`.

mod absences;
mod arrows;
mod bounds;
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

use bounds::Bound;
use circles::Imports;
use citations::{Citations, SOURCES};
use names::Algorithms;
use rules::{EXCEPTIONS, Exception};
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
    let findings = judge(check_tree(root, &files), EXCEPTIONS);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", files.len(), findings.len());
    Ok(findings.is_empty())
}

/// Returns the page of the bounds that the code names.
///
/// # Errors
/// When git does not name the files.
pub fn bounds(root: &Path) -> Result<String, String> {
    let files = tracked_files(root)?;
    let sources = files.iter().filter(|path| path.ends_with(".rs")).filter_map(|path| {
        let text = std::fs::read_to_string(root.join(path)).ok()?;
        Source::parse(path, &text).ok()
    });
    let bounds: Vec<Bound> = sources.flat_map(|source| bounds::find(&source)).collect();
    Ok(bounds::print(&bounds))
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
        let Some(text) = read(path) else { return Checked::default() };
        let mut checked = check_file(path, &text, &algorithms);
        if CITING.iter().any(|end| path.ends_with(end)) {
            checked.findings.extend(citations.check(path, &text));
        }
        checked.findings.extend(texts::documents(path, &text, files));
        checked
    };
    let next = AtomicUsize::new(0);
    let share = || {
        let next = || files.get(next.fetch_add(1, Ordering::Relaxed));
        std::iter::from_fn(next).map(check).collect::<Vec<_>>()
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut findings = citations.documents();
    let (mut imports, mut bounds) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(share)).collect();
        let shares = threads.into_iter().map(|thread| thread.join().expect("no check panics"));
        for checked in shares.flatten() {
            findings.extend(checked.findings);
            imports.extend(checked.imports);
            bounds.extend(checked.bounds);
        }
    });
    findings.extend(circles::find(&imports));
    findings.extend(bounds::sentences(&bounds));
    findings.extend(bounds::compare(&bounds, read(bounds::PAGE).as_deref()));
    findings
}

/// The findings in one file, and the facts that checks of all files need of it.
#[derive(Default)]
struct Checked {
    findings: Vec<Finding>,
    imports: Option<Imports>,
    bounds: Vec<Bound>,
}

fn check_file(path: &str, text: &str, algorithms: &Algorithms) -> Checked {
    let findings = TEXT_CHECKS.iter().flat_map(|check| check(path, text)).collect();
    let mut checked = Checked { findings, ..Checked::default() };
    if path.ends_with("Cargo.toml") {
        checked.findings.extend(MANIFEST_CHECKS.iter().flat_map(|check| check(path, text)));
    }
    if path.ends_with(".rs") {
        match Source::parse(path, text) {
            Ok(source) => {
                checked.findings.extend(check_source(&source, algorithms));
                checked.imports = circles::imports(&source);
                checked.bounds = bounds::find(&source);
            }
            Err(finding) => checked.findings.push(finding),
        }
    }
    checked
}

fn check_source(source: &Source, algorithms: &Algorithms) -> Vec<Finding> {
    let mut findings: Vec<Finding> = SOURCE_CHECKS.iter().flat_map(|check| check(source)).collect();
    findings.extend(algorithms.check(source));
    findings
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
    fn every_exception_gives_a_reason() {
        for exception in EXCEPTIONS {
            assert!(exception.reason.len() > 10, "{} {}", exception.check, exception.file);
        }
    }
}
