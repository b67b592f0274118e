//! `weir-lab report --from` judges what `run --format json` printed as the run did, and
//! `run ID --plot` draws historic, sound and the paper's own values.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the lab; returns what it prints, whatever the verdicts.
fn lab(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-lab")).args(arguments).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn stored_results_are_judged_as_the_run_was() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let [results, ran, read] =
        ["results.json", "ran.html", "read.html"].map(|name| folder.path().join(name));
    fs::write(&results, lab(&["run", "R-T5", "--format", "json"])).expect("it is written");
    lab(&["report", "R-T5", "--out", text(&ran)]);
    lab(&["report", "R-T5", "--from", text(&results), "--out", text(&read)]);
    // Only the command that made it differs.
    let page = |path: &Path| {
        let page = fs::read_to_string(path).expect("it was written");
        let (begin, rest) = page.split_once("<dt>command</dt>").expect("how it was made");
        let (_, end) = rest.split_once("<dt>seed</dt>").expect("how it was made");
        format!("{begin}{end}")
    };
    assert!(page(&ran) == page(&read), "a stored run is another one");
    let refused = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
        .args(["report", "--markdown", text(folder.path()), "--from", text(&results)])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("have no run of"), "{said}");
}

#[test]
fn an_experiment_of_a_paper_is_drawn_with_the_papers_values() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let file = folder.path().join("table-5.svg");
    lab(&["run", "R-T5", "--plot", text(&file)]);
    let svg = fs::read_to_string(&file).expect("it was written");
    for words in ["Table 5: Class throughput", "by a hash", "by a search", "sound", "paper"] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    // The paper's six values in each of two pictures, beside twelve dots of both runs each.
    assert!(svg.matches("h0").count() >= 24, "{svg}");
}
