//! `weir test`, `weir diff` and `weir check --bounds` as a user runs them.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn weir(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).output().expect("the binary runs")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn example() -> String {
    root().join("examples/promises/calls.toml").display().to_string()
}

/// Copies the example into a folder of its own, with `from` replaced by `to` in the policy.
fn changed(name: &str, from: &str, to: &str) -> String {
    let source = PathBuf::from(example());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("the folder is there");
    let evening = source.with_file_name("evening.toml");
    fs::copy(evening, folder.join("evening.toml")).expect("it can be copied");
    let text = fs::read_to_string(&source).expect("it is in the tree");
    assert!(text.contains(from), "{from} is in the example");
    let path = folder.join("calls.toml");
    fs::write(&path, text.replace(from, to)).expect("it can be written");
    path.display().to_string()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn promises_are_kept_broken_or_refused() {
    let output = weir(&["test", &example(), "--runs", "3"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("3 of 3 promises kept"), "{text}");
    let rows = [
        ("broken", "voice.delay.p99 < 5 ms", "voice.delay.p99 < 10 us", "broken"),
        ("metrics", "voice.delay.p99 < 5 ms", "rest.backlog.max > 100 KB", "kept"),
        ("fairness", "voice.delay.p99 < 5 ms", "fairness > 99 %", "kept"),
        ("relative", "voice.delay.p99 < 5 ms", "voice.delay.max < 50 % of rest.delay.p50", "kept"),
    ];
    for (name, from, to, verdict) in rows {
        let file = changed(name, from, to);
        let output = weir(&["test", "--format", "json", "--runs", "3", &file]);
        let value = json(&output);
        assert_eq!(value["promises"][0]["verdict"], verdict, "{value:#}");
        assert_eq!(output.status.code(), Some(i32::from(verdict != "kept")), "{value:#}");
    }
    let output = weir(&["test", "--format", "json", "--runs", "1", &example()]);
    let value = json(&output);
    let rows = value["promises"].as_array().expect("a list");
    let undecided = |row: &Value| row["verdict"] == "undecided" && row["plus_minus"].is_null();
    assert!(rows.iter().all(undecided), "one run decides nothing: {value:#}");
    assert_eq!(output.status.code(), Some(1), "{value:#}");
    let missing = changed("missing", "evening.toml", "nowhere.toml");
    assert_eq!(weir(&["test", &missing]).status.code(), Some(2));
    let faulty = changed("faulty", "voice.delay.p99", "voice.delay.p98");
    let output = weir(&["test", &faulty]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("W150"), "{output:?}");
}

#[test]
fn a_difference_names_packets_and_figures() {
    let (same, other) = (example(), changed("moved", "5004-5010", "5004-5008"));
    let output = weir(&["diff", &same, &same]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = weir(&["diff", &same, &other]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("from `voice` to `rest`"), "{text}");
    assert!(text.contains("proto 17, dport 5009-5010"), "{text}");
    let slower = changed("slower", "rate = \"1 Mbit/s\"", "rate = \"900 kbit/s\"");
    let value = json(&weir(&["diff", "--format", "json", &same, &slower]));
    assert_eq!(value["moves"].as_array().map(Vec::len), Some(0), "{value:#}");
    let rows = value["changed"].as_array().expect("there are rows");
    let place = |class| rows.iter().position(|row| row["class"] == class);
    assert!(place("voice") < place("rest"), "in the order of the file: {value:#}");
    let voice = &value["changed"][0];
    assert_eq!(voice["class"], "voice", "{value:#}");
    assert_eq!(voice["after"]["at_least_bps"], 900_000.0, "{value:#}");
    assert_eq!(weir(&["diff", &same, "nowhere.toml"]).status.code(), Some(2));
}

#[test]
fn bounds_are_printed_as_a_table_and_as_json() {
    let output = weir(&["check", "--bounds", &example()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("\nvoice "), "{text}");
    let value = json(&weir(&["check", "--bounds", "--format", "json", &example()]));
    let voice =
        value["bounds"].as_array().and_then(|rows| rows.iter().find(|row| row["class"] == "voice"));
    let voice = voice.expect("it has a row");
    assert_eq!(voice["at_least_bps"], 1e6, "{value:#}");
    assert!(voice["delay_us"].as_f64().is_some_and(|delay| delay < 30_000.0), "{value:#}");
    let scenario = example().replace("calls.toml", "evening.toml");
    assert_eq!(weir(&["check", "--bounds", &scenario]).status.code(), Some(2));
}

#[test]
fn a_curve_of_two_slopes_keeps_calls_below_five_milliseconds() {
    let path = root().join("examples/voice-hfsc.toml").display().to_string();
    let value = json(&weir(&["check", "--bounds", "--format", "json", &path]));
    let rows = value["bounds"].as_array().expect("there are rows");
    let voice = rows.iter().find(|row| row["class"] == "voice").expect("it has a row");
    // A packet of 218 B at the first slope, 3.7 ms, and the longest packet of others at 10 Mbit/s.
    let delay = voice["delay_us"].as_f64().expect("it is bounded");
    assert!((4_900.0..4_920.0).contains(&delay), "{value:#}");
}

/// Checks lines of `check --bounds` for an example, and a note of a class in JSON.
fn check_notes(example: &str, lines: &[&str], (class, key, note): (&str, &str, &str)) {
    let path = root().join("examples").join(example).display().to_string();
    let text = weir(&["check", "--bounds", &path]).stdout;
    let text = String::from_utf8_lossy(&text);
    for line in lines {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let value = json(&weir(&["check", "--bounds", "--format", "json", &path]));
    let row =
        value["bounds"].as_array().and_then(|rows| rows.iter().find(|row| row["class"] == class));
    let found = row.and_then(|row| row["notes"][key].as_str());
    assert!(found.is_some_and(|found| found.starts_with(note)), "{class} {key}: {value:#}");
}

#[test]
fn a_figure_that_is_unknown_or_assumes_something_has_a_note() {
    let steady = "as long as others keep sending";
    let rest = ["rest            3.500* ", "* at least Mbit/s: as long as others keep sending;"];
    check_notes("walk/uplink.toml", &rest, ("rest", "at_least_bps", steady));
    let lines = ["- at least Mbit/s: no bound is known", "- delay ms: nothing bounds"];
    check_notes("two-pvcs.toml", &lines, ("big", "delay_us", "nothing bounds"));
    let turns = "- delay ms: its flows take turns, so a packet does not wait";
    let lines = [turns, "at least: whatever others do"];
    check_notes("home-flows.toml", &lines, ("family", "delay_us", "its flows take turns"));
}

#[test]
fn classes_whose_flows_take_turns_share_one_note() {
    let class = |name: &str, rest: &str| {
        format!("[class.{name}]\nrate = '3 Mbit/s'\nisolate = 'flows'\n{rest}\n")
    };
    let text = "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n".to_owned()
        + &class("a", "match = { dport = 80 }")
        + &class("b", "default = true").replace("3 Mbit", "6 Mbit");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("turns.toml");
    fs::write(&path, text).expect("the folder is there");
    let shown = weir(&["check", "--bounds", &path.display().to_string()]).stdout;
    let shown = String::from_utf8_lossy(&shown).replace("\n ", "");
    assert_eq!(shown.matches("its flows take turns").count(), 1, "{shown}");
    assert!(shown.contains("the time below for each"), "{shown}");
    assert!(shown.contains("so for `a` (") && shown.contains(" ms), `b` ("), "{shown}");
}

#[test]
fn a_class_that_keeps_its_rate_keeps_it_in_a_difference() {
    let path = |name: &str| root().join("examples").join(name).display().to_string();
    let (evening, night) = (path("house-evening.toml"), path("house-night.toml"));
    let value = json(&weir(&["diff", "--format", "json", &evening, &night]));
    let film =
        value["changed"].as_array().and_then(|rows| rows.iter().find(|it| it["class"] == "film"));
    let film = film.expect("its rate changes");
    assert_eq!(film["after"]["at_least_bps"], film["after"]["greedy_bps"], "{value:#}");
    assert_eq!(film["after"]["at_least_bps"], 4e6, "{value:#}");
}

/// Writes two traces, one twice as slow, and a note that is none.
fn traces(name: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("the folder is there");
    let rows = [("fast.csv", 12_000), ("slow.csv", 6_000)];
    for (file, kbit) in rows {
        let text = format!("ms,kbit_s\n0,{kbit}\n5000,{}\n10000,{kbit}\n", kbit / 2);
        fs::write(folder.join(file), text).expect("it can be written");
    }
    fs::write(folder.join("README.md"), "notes").expect("it can be written");
    folder.display().to_string()
}

#[test]
fn promises_are_tested_on_each_trace_of_a_folder_and_the_worst_is_named() {
    let policy = root().join("examples/variable/uplink.toml").display().to_string();
    let folder = traces("traces");
    let words = ["test", "--format", "json", "--runs", "2", "--over", &folder, &policy];
    let value = json(&weir(&words));
    let rows = value["promises"].as_array().expect("a list");
    let names: Vec<_> = rows.iter().filter_map(|row| row["trace"].as_str()).collect();
    assert_eq!(names, ["fast.csv", "slow.csv"].repeat(3), "{value:#}");
    assert!(rows.iter().all(|row| row["measured"].is_number()), "{value:#}");
    let worst = value["worst"].as_array().expect("a list");
    assert_eq!(worst.len(), 3, "{value:#}");
    assert!(worst.iter().all(|row| row["spare"].is_number()), "{value:#}");
    let output = weir(&["test", "--runs", "2", "--over", &folder, &policy]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("worst of link.behind.used > 60 %: "), "{text}");
    let refused = weir(&["test", "--over", &folder, &example()]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && told.contains("has no bottleneck"), "{told}");
}
