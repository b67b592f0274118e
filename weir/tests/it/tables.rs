//! Tables of every verb that prints one: at most as wide as a terminal, rates with a prefix, rows of
//! zeros folded, rows in the order of the file.

use crate::common;

use common::{example, json, weir};

/// Runs a verb, given as words with `FILE` for an example; returns what it prints, which is narrow
/// enough and has no rate in bit/s without a prefix.
fn check(words: &str, files: &[&str]) -> String {
    let mut files = files.iter();
    let word = |word: &str| match word {
        "FILE" => example(files.next().expect("there is a file for each place")),
        word => word.to_owned(),
    };
    let words: Vec<String> = words.split(' ').map(word).collect();
    let output = weir(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let text = String::from_utf8(output.stdout).expect("it is text");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{words:?}: {text}");
    assert!(text.contains("──"), "{words:?} prints a table: {text}");
    let tables = text.split("\n\n").filter(|part| part.contains("──"));
    for line in tables.flat_map(str::lines) {
        assert!(line.chars().count() <= 100, "{words:?} is wide: {line}");
        assert!(!line.contains(" bit/s") && !line.contains('µ'), "{words:?}: {line}");
    }
    text
}

#[test]
fn every_table_fits_a_terminal_and_has_the_usual_units() {
    for policy in ["home.toml", "walk/deployment.toml", "two-pvcs.toml", "house-evening.toml"] {
        check("check FILE --bounds", &[policy]);
    }
    for scenario in ["access-link.toml", "edge-police.toml", "two-pvcs.toml", "flows.toml"] {
        check("sim FILE --explain --bins 1s", &[&format!("sim/{scenario}")]);
    }
    check("sim FILE --replications 2 --threads 1", &["sim/access-link.toml"]);
    check("compare FILE --schedulers drr,htb,fifo", &["walk/evening.toml"]);
    check("replay FILE FILE --explain", &["walk/uplink.toml", "walk/evening.pcap.gz"]);
    check("diff FILE FILE", &["house-evening.toml", "house-night.toml"]);
    check("test FILE --runs 2", &["promises/calls.toml"]);
    check("bench --memory --scheduler fifo", &[]);
}

#[test]
fn a_row_stays_on_one_line_in_a_pipe() {
    let mut command = common::command(&["check", &example("walk/deployment.toml"), "--bounds"]);
    let mut parts = |columns: Option<&str>| {
        match columns {
            Some(columns) => command.env("COLUMNS", columns),
            None => command.env_remove("COLUMNS"),
        };
        let output = command.output().expect("weir starts");
        let text = String::from_utf8(output.stdout).expect("it is text");
        (text.lines().filter(|line| line.starts_with("direction")).count(), text)
    };
    let ((narrow, _), (pipe, text)) = (parts(Some("70")), parts(None));
    assert!(narrow > 1 && pipe == 1, "{narrow} and {pipe} parts: {text}");
}

#[test]
fn idle_classes_are_folded_into_a_line() {
    let text = check("sim FILE", &["sim/altq-wfq.toml"]);
    // Queues by hash without a packet have no row.
    assert!(text.contains("host-8 ") && !text.contains("host-1 "), "{text}");
    let text = check("check FILE --bounds", &["altq-wfq.toml"]);
    assert!(text.contains("255 rows as host-0: host-1 to host-255"), "{text}");
    let report = json(&["sim", &example("sim/altq-wfq.toml")]);
    let count = report["classes"].as_array().map_or(0, Vec::len);
    assert!((3..30).contains(&count), "{count} classes: neither has JSON");
}

#[test]
fn rows_are_in_the_order_of_the_file() {
    let file = std::fs::read_to_string(example("house-evening.toml")).expect("it is text");
    let text = check("check FILE --bounds", &["house-evening.toml"]);
    let rows = text.lines().filter_map(|line| line.split_whitespace().next());
    let places: Vec<_> = rows.filter_map(|name| file.find(&format!("[class.{name}]"))).collect();
    assert!(places.len() > 2 && places.is_sorted(), "{places:?}: {text}");
}

#[test]
fn a_class_without_packets_has_no_delays() {
    let text = check("sim FILE", &["sim/two-pvcs.toml"]);
    let cells = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_idle = |cells: &Vec<String>| cells.len() > 3 && cells[1] == "0" && cells[2] == "0";
    let cells = text.lines().map(cells).find(is_idle).expect("a direction is idle");
    assert_eq!(&cells[cells.len() - 5..], ["-"; 5], "{text}");
}
