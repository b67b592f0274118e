//! Ctrl-C during long runs of experiments.

use std::process::Command;
use std::time::Duration;

use weir_testbed::{Ended, Process, until};

/// Interrupts `weir-lab` once it has worked for a while, and returns what it printed.
fn interrupted(arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-lab"));
    let mut process = Process::start(command.args(arguments)).expect("it starts");
    until("it works", || process.processor_time() >= WORK).expect("it works for seconds");
    process.signal("INT").expect("it runs");
    let ended = process.wait_for_output().expect("what runs ends, and no more begins");
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(ended.stderr.contains("stopped: "), "{ended:?}");
    ended
}

#[test]
fn a_stop_reports_the_experiments_that_ended() {
    let arguments = ["run", "all", "--threads", "1"];
    let text = interrupted(&arguments).stdout;
    assert!(text.lines().any(|line| line.contains(" historic: ")), "{text}");
    assert!(text.trim_end().lines().last().is_some_and(|last| last.contains(" hold")), "{text}");
}

#[test]
fn a_stopped_report_has_what_ended_and_leaves_the_document_alone() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (html, document) = (at("r.html"), at("README.md"));
    std::fs::write(&document, "as it was").expect("it can be written");
    interrupted(&["report", "--threads", "1", "--out", &html]);
    let page = std::fs::read_to_string(&html).expect("it was written");
    assert!(page.contains("<article") && page.trim_end().ends_with("</html>"), "{page}");
    interrupted(&["report", "--threads", "1", "--markdown", &at(".")]);
    assert_eq!(std::fs::read_to_string(&document).expect("it is there"), "as it was");
}

/// Enough for the first experiments.
const WORK: Duration = Duration::from_secs(3);
