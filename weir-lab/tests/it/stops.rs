//! Ctrl-C during long runs of experiments.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Starts `weir-lab` with these arguments, interrupts it after `wait`, and returns its output.
fn interrupted(arguments: &[&str], wait: Duration) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::thread::sleep(wait);
    let begun = Instant::now();
    let id = child.id().to_string();
    let killed = Command::new("kill").args(["-INT", &id]).status().expect("kill starts");
    assert!(killed.success());
    let mut text = String::new();
    let mut output = child.stdout.take().expect("it is piped");
    std::io::Read::read_to_string(&mut output, &mut text).expect("it is text");
    let mut errors = String::new();
    let mut output = child.stderr.take().expect("it is piped");
    std::io::Read::read_to_string(&mut output, &mut errors).expect("it is text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{text}{errors}");
    assert!(errors.contains("stopped: "), "{errors}");
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "running experiments end, and no more begin"
    );
    text
}

/// As [`interrupted`]; waits longer until `has_some` of what it prints: a busy machine needs longer
/// for the first part.
fn interrupted_with_some(arguments: &[&str], has_some: impl Fn(&str) -> bool) -> String {
    let texts = [3, 8, 20].map(Duration::from_secs).into_iter();
    let mut texts = texts.map(|wait| interrupted(arguments, wait));
    texts.find(|text| has_some(text)).expect("some part ends within 20 s")
}

#[test]
fn a_stop_reports_the_experiments_that_ended() {
    let arguments = ["run", "all", "--threads", "1"];
    let text = interrupted_with_some(&arguments, |text| {
        text.lines().any(|line| line.contains(" historic: "))
    });
    assert!(text.trim_end().lines().last().is_some_and(|last| last.contains(" hold")), "{text}");
}

#[test]
fn a_stopped_report_has_what_ended_and_leaves_the_document_alone() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (html, document) = (at("r.html"), at("README.md"));
    std::fs::write(&document, "as it was").expect("it can be written");
    let wait = Duration::from_secs(4);
    interrupted(&["report", "--threads", "1", "--out", &html], wait);
    let page = std::fs::read_to_string(&html).expect("it was written");
    assert!(page.contains("<article") && page.trim_end().ends_with("</html>"), "{page}");
    interrupted(&["report", "--threads", "1", "--markdown", &at(".")], wait);
    assert_eq!(std::fs::read_to_string(&document).expect("it is there"), "as it was");
}
