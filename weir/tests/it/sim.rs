//! `weir sim` as a user sees it: results, findings, exit codes.

use std::path::PathBuf;
use std::process::{Command, Output};

fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/sim").join(name)
}

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().expect("weir starts")
}

#[test]
fn a_seed_determines_the_output() {
    let path = example("access-link.toml");
    let path = path.to_str().expect("the path is UTF-8");
    for format in ["text", "json"] {
        let first = weir(&["sim", path, "--format", format]);
        assert_eq!((first.status.code(), first.stderr.len()), (Some(0), 0), "{first:?}");
        assert_eq!(first.stdout, weir(&["sim", path, "--format", format]).stdout);
        let other = weir(&["sim", path, "--format", format, "--seed", "2"]).stdout;
        assert_ne!(first.stdout, other);
    }
}

#[test]
fn a_report_says_which_calibration_made_it() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let file = |name: &str| folder.path().join(name).to_str().expect("is text").to_owned();
    let (host, json, plain) = (file("host.toml"), file("report.json"), file("plain.toml"));
    let text = "[host]\nforward = '90 us'\nback = '0 us'\nwindow = '3 MB'\ntimestamps = true\n";
    std::fs::write(&host, text).expect("it can be written");
    std::fs::write(&plain, "[host]\n").expect("it can be written");
    let path = example("access-link.toml");
    let path = path.to_str().expect("the path is UTF-8");
    let read = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).expect("it was written")).expect("it is JSON")
    };
    let expected = serde_json::json!({
        "file": host, "forward_us": 90.0, "window_bytes": 3_000_000, "timestamps": true,
    });
    let said = format!("\nhost: {host}: forward 90 us, window 3 MB, timestamps true\n");
    let said_in = |words: &[&str]| {
        let output = weir(&[&["sim", path, "--json", &json][..], words].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).expect("it is text")
    };
    let out = said_in(&["--host", &host]);
    assert!(out.contains(&said), "{out}");
    assert_eq!(read(&json)["host"], expected);
    // Of replications, the summary and each report.
    let out = said_in(&["--host", &host, "--replications", "2"]);
    assert!(out.contains(&said), "{out}");
    let written = read(&json);
    assert_eq!((&written["summary"]["host"], &written["runs"][1]["host"]), (&expected, &expected));
    let out = said_in(&["--host", &plain]);
    assert!(out.contains(&format!("\nhost: {plain}: adds nothing\n")), "{out}");
    let out = said_in(&[]);
    assert!(!out.contains("host:") && read(&json).get("host").is_none(), "{out}");
}

#[test]
fn files_are_reproducible_and_do_not_change_the_report() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let file = |name: &str| folder.path().join(name).to_str().expect("is text").to_owned();
    let path = example("altq-wfq.toml");
    let path = path.to_str().expect("the path is UTF-8");
    let names = ["report.json", "packets.parquet", "packets.pcapng", "bins.csv"].map(file);
    let run = || {
        let [json, parquet, trace, csv] = names.each_ref().map(String::as_str);
        let output = weir(&[
            "sim",
            path,
            "--json",
            json,
            "--parquet",
            parquet,
            "--trace",
            trace,
            "--bins",
            "1s",
            "--csv",
            csv,
        ]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        names.each_ref().map(|name| std::fs::read(name).expect("it was written"))
    };
    let first = run();
    assert!(first == run(), "a second run writes other bytes");
    // With files each packet is an event; without, packets are simulated in batches.
    let json: serde_json::Value = serde_json::from_slice(&first[0]).expect("it is JSON");
    let alone = weir(&["sim", path, "--format", "json"]);
    let alone: serde_json::Value = serde_json::from_slice(&alone.stdout).expect("it is JSON");
    for part in ["link", "classes", "sources", "conservation"] {
        assert_eq!(json[part], alone[part], "{part}");
    }
}

#[test]
fn replications_are_equal_on_any_number_of_threads() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let path = example("altq-wfq.toml");
    let path = path.to_str().expect("the path is UTF-8");
    let run = |threads: &str| {
        let json = folder.path().join("summary.json");
        let output = weir(&[
            "sim",
            path,
            "--replications",
            "5",
            "--threads",
            threads,
            "--json",
            json.to_str().expect("is text"),
        ]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        (output.stdout, std::fs::read(&json).expect("it was written"))
    };
    let one = run("1");
    for threads in ["1", "2", "3"] {
        assert!(one == run(threads), "{threads} threads say something else");
    }
}

#[test]
fn json_has_the_documented_names() {
    let path = example("access-link.toml");
    let output = weir(&["sim", path.to_str().expect("the path is UTF-8"), "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(report["conservation"]["holds"], true);
    let names = [
        "/link/utilisation",
        "/classes/0/dropped/full/packets",
        "/classes/0/delay_us/p99",
        "/sources/0/goodput_bps",
        "/sources/3/tcp/transfer_us/count",
    ];
    for name in names {
        assert!(report.pointer(name).is_some_and(serde_json::Value::is_number), "{name}");
    }
}

#[test]
fn errors_exit_1_and_unreadable_files_2() {
    let folder = std::env::temp_dir().join(format!("weir-sim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for scratch files");
    let path = folder.join("faulty.toml");
    std::fs::write(&path, "duration = \"1 mbps\"\n").expect("it can be written");
    let faulty = weir(&["sim", path.to_str().expect("the path is UTF-8")]);
    let missing = weir(&["sim", folder.join("none").to_str().expect("the path is UTF-8")]);
    std::fs::remove_dir_all(&folder).expect("it can be removed");
    assert_eq!((faulty.status.code(), missing.status.code()), (Some(1), Some(2)));
    let text = String::from_utf8_lossy(&faulty.stdout).into_owned();
    assert!(text.contains("W014") && text.contains("W011"), "{text}");
}

/// The figures equal those that the policy promises, up to bursts and the end of the run.
#[test]
fn police_and_droppers_do_what_the_example_says() {
    let path = example("edge-police.toml");
    let output = weir(&["sim", path.to_str().expect("the path is UTF-8"), "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let number = |name: &str| {
        let value = report.pointer(name).and_then(serde_json::Value::as_u64);
        value.unwrap_or_else(|| panic!("{name} is not a number"))
    };
    assert_eq!(report["conservation"]["holds"], true);
    // Voice: traffic above 2 Mbit/s is dropped before it waits, and nothing else is.
    assert!(number("/classes/0/sent/bps").abs_diff(2_000_000) < 20_000, "{report}");
    let policed = number("/classes/0/dropped/policed/packets");
    assert_eq!(number("/classes/0/dropped/total/packets"), policed);
    // Business: all packets are marked, and drops are RIO's.
    assert_eq!(number("/classes/1/marked_dscp"), number("/classes/1/sent/packets"));
    assert_eq!(number("/classes/1/marked_ecn"), 0);
    assert!(number("/classes/1/dropped/early/packets") > 100, "{report}");
    // The rest: the meter of their rule limits guests to 5 Mbit/s, ECN-capable packets are marked,
    // and other TCP packets are dropped.
    let policed = number("/classes/2/dropped/policed/packets");
    assert!(policed > 10_000 && number("/classes/2/marked_ecn") > 100, "{report}");
    assert!(number("/sources/3/received/bps") < 5_010_000, "{report}");
    assert!(number("/classes/2/dropped/late/packets") > 0, "{report}");
}

/// Runs `examples/sim/evening-plan.toml` until `seconds` with this warm-up.
fn evening(warmup: u32, seconds: u32) -> serde_json::Value {
    let text = std::fs::read_to_string(example("evening-plan.toml")).expect("it can be read");
    let changed = text
        .replace(
            "duration = \"20 s\"",
            &format!("duration = \"{seconds} s\"\nwarmup = \"{warmup} s\""),
        )
        .replace("at = \"10 s\"", "at = \"4 s\"")
        .replace("\"../", &format!("\"{}/", example("..").display()));
    let folder = std::env::temp_dir().join(format!("weir-change-{}-{warmup}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for scratch files");
    let path = folder.join("plan.toml");
    std::fs::write(&path, changed).expect("it can be written");
    let output = weir(&["sim", path.to_str().expect("is text"), "--format", "json", "--explain"]);
    std::fs::remove_dir_all(&folder).expect("it can be removed");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// Film and backup flood the line, so each gets its part, by their rates, of what the calls and
/// games leave; within one percent.
#[test]
fn the_evening_turns_to_night_in_the_middle_of_a_run() {
    let whole = evening(0, 8);
    assert_eq!(whole["conservation"]["holds"], true);
    assert_eq!(
        (&whole["changes"][0]["at_s"], &whole["changes"][0]["gone"][0]),
        (&4.0.into(), &"games".into())
    );
    assert_eq!(whole["changes"][0]["lost"], 0);
    let rate = |report: &serde_json::Value, name: &str| {
        let classes = report["classes"].as_array().expect("a list");
        let class = classes.iter().find(|class| class["name"] == name).expect("a class");
        class["sent"]["bps"].as_f64().expect("a number")
    };
    let calls = rate(&whole, "voice");
    // Until then nothing is changed; afterwards everything is.
    let after = evening(4, 8);
    let rest = 20e6 - calls;
    for (name, share) in [("film", 4.0 / 19.0), ("backup", 15.0 / 19.0)] {
        let real = rate(&after, name);
        assert!((real / (rest * share) - 1.0).abs() < 0.01, "{name}: {real} for {}", rest * share);
    }
    let before = |name| 2.0 * rate(&whole, name) - rate(&after, name);
    let rest = 20e6 - calls - 1e6;
    for (name, share) in [("film", 12.0 / 16.0), ("backup", 4.0 / 16.0)] {
        let real = before(name);
        assert!((real / (rest * share) - 1.0).abs() < 0.01, "{name}: {real} for {}", rest * share);
    }
    let slowest = whole.pointer("/explain/slowest").and_then(serde_json::Value::as_array);
    assert_eq!(slowest.map(Vec::len), Some(5));
    for name in ["total/mean_us", "parts/own_leaf/max_us", "parts/upper_limit/share"] {
        let value = whole.pointer(&format!("/explain/classes/0/{name}"));
        assert!(value.is_some_and(serde_json::Value::is_number), "{name}");
    }
}
