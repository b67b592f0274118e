//! The files that are generated from the types of the verbs: completions, manual pages, the
//! version.

use crate::common;

use common::{command, example, json, weir};
use std::fs::File;

/// Returns what a command prints, after a clean exit.
fn printed(arguments: &[&str]) -> String {
    let output = weir(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

/// Returns the names of all verbs, from the help.
fn verbs() -> Vec<String> {
    let help = printed(&["--help"]);
    let groups = help.split("\nOptions:").next().expect("the help lists verbs first");
    let list = groups.lines().filter(|line| line.starts_with("  "));
    let verbs = list.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    verbs.collect()
}

#[test]
fn completions_of_every_shell_list_every_verb() {
    let verbs = verbs();
    assert!(verbs.len() > 30, "{verbs:?}");
    for own in ["forward", "gateway", "rsvp"] {
        assert!(!verbs.iter().any(|verb| verb == own), "only Weir itself starts {own}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let text = printed(&["completions", shell]);
        for verb in &verbs {
            assert!(text.contains(verb.as_str()), "{shell} does not complete {verb}");
        }
        assert!(text.contains("replications"), "{shell} completes options");
    }
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let place = folder.path().join("man1");
    printed(&["man", place.to_str().expect("the path is UTF-8")]);
    let page = |name: &str| std::fs::read_to_string(place.join(name)).unwrap_or_default();
    let main = page("weir.1");
    for verb in verbs().iter().filter(|verb| *verb != "help") {
        // roff escapes hyphens.
        assert!(main.contains(&format!("weir\\-{verb}(1)")), "weir.1 does not name {verb}");
        let own = page(&format!("weir-{verb}.1"));
        assert!(own.contains(".SH OPTIONS") && own.len() > 500, "weir-{verb}.1: {own}");
    }
}

#[test]
fn the_version_names_the_commit_if_there_is_one() {
    let version = printed(&["--version"]);
    let words: Vec<_> = version.split_whitespace().collect();
    assert_eq!(words[..2], ["weir", env!("CARGO_PKG_VERSION")]);
    let commit = words.get(2).map(|word| word.trim_matches(['(', ')']));
    let is_commit = |text: &str| text.len() >= 10 && text.chars().all(|c| c.is_ascii_hexdigit());
    assert!(words.len() <= 3 && commit.is_none_or(is_commit), "{version}");
}

#[test]
fn json_is_one_value_whatever_the_exit_code() {
    let report = json(&["sim", &example("sim/md1.toml")]);
    assert!(report.get("error").is_none(), "{report}");
    for arguments in [
        ["sim", "missing.toml", "--format", "json"],
        ["frob", "x", "--format", "json"],
        ["bench", "--leaves=0", "--format", "json"],
        ["status", "../x", "--format", "json"],
        ["sim", "--seed=x", "--format", "json"],
    ] {
        let output = weir(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let value: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("it is one value");
        assert!(value["error"].is_string(), "{arguments:?}: {value}");
    }
}

#[test]
fn help_and_version_that_cannot_be_printed_exit_2() {
    for arguments in [["--version"].as_slice(), &["--help"], &["sim", "--help"]] {
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = command(arguments).stdout(full).output().expect("weir starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("cannot print: No space left"), "{arguments:?}: {text}");
    }
}
