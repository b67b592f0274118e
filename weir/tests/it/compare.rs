//! `weir compare` and the options of `weir sim` that run more than once or write files.

use crate::common;

use common::{example, interrupted, json, weir};
use serde_json::Value;
use std::path::Path;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for scratch files")
}

fn at(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("the path is UTF-8").to_owned()
}

/// Writes links of 10 Mbit/s with three floods of 10 Mbit/s, with the parameters of a scheduler.
fn floods(folder: &tempfile::TempDir, name: &str, classes: &str) -> String {
    let scheduler = format!("[policy.link]\nrate = \"10 Mbit/s\"\nscheduler = \"{name}\"\n");
    let mut text = format!("duration = \"4 s\"\nwarmup = \"1 s\"\n{scheduler}{classes}");
    for (source, port) in [("x", 1), ("y", 2), ("z", 3)] {
        text += &format!(
            "[[source]]\nname = \"{source}\"\nkind = \"poisson\"\nsize = \"1000 B\"\n\
             rate = \"10 Mbit/s\"\ndport = {port}\n"
        );
    }
    let path = at(folder, "floods.toml");
    std::fs::write(&path, text).expect("it can be written");
    path
}

const BY_RATE: &str = "[policy.class.a]\nrate = \"1 Mbit/s\"\nmatch = [{ dport = 1 }]\n\
    [policy.class.b]\nrate = \"3 Mbit/s\"\nmatch = [{ dport = 2 }]\n\
    [policy.class.c]\nrate = \"6 Mbit/s\"\ndefault = true\n";

fn row<'a>(comparison: &'a Value, scheduler: &str) -> &'a Value {
    let rows = comparison["rows"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["scheduler"] == scheduler);
    row.unwrap_or_else(|| panic!("{scheduler} has a row"))
}

#[test]
fn shares_survive_translation() {
    let folder = folder();
    let path = floods(&folder, "cbq", BY_RATE);
    let all = "cbq,htb,hfsc,drr,sfq,wfq,wf2q+,qfq,wrr,cbq-altq,cbq-ref,fifo";
    let compared = json(&["compare", &path, "--schedulers", all]);
    for scheduler in ["cbq", "htb", "hfsc", "drr", "sfq", "wfq", "wf2q+", "qfq", "wrr"] {
        let result = &row(&compared, scheduler)["result"];
        let error = result["share_error"].as_f64().expect("a number");
        assert!(error < 0.01, "{scheduler}: {result}");
        assert!(result["fairness"].as_f64().expect("a number") > 0.999, "{scheduler}: {result}");
        let ideal: Vec<_> =
            (0..3).map(|leaf| result["leaves"][leaf]["ideal_bps"].as_f64()).collect();
        assert_eq!(ideal, [Some(1e6), Some(3e6), Some(6e6)]);
    }
    // A scheduler without rates gives each a third.
    let fifo = row(&compared, "fifo");
    let error = fifo["result"]["share_error"].as_f64().expect("a number");
    assert!((error - 0.267).abs() < 0.02, "{fifo}");
    assert!(fifo["notes"].to_string().contains("has no rates"), "{fifo}");
    assert_eq!(fifo["result"]["cost"], 1.0);
}

#[test]
fn priorities_survive_translation() {
    let folder = folder();
    let classes = "[policy.class.a]\npriority = 3\nmatch = [{ dport = 1 }]\n\
        [policy.class.b]\npriority = 2\nmatch = [{ dport = 2 }]\n\
        [policy.class.c]\npriority = 1\ndefault = true\n";
    let path = floods(&folder, "priq", classes);
    let compared = json(&["compare", &path, "--schedulers", "priq,dbhpd"]);
    for scheduler in ["priq", "dbhpd"] {
        let leaves = &row(&compared, scheduler)["result"]["leaves"];
        // The first class may take the whole line.
        let sent = |leaf: usize| leaves[leaf]["sent_bps"].as_f64().expect("a number");
        assert!(sent(0) >= sent(2), "{scheduler}: {leaves}");
    }
}

#[test]
fn the_example_is_compared_drawn_and_the_same_on_any_number_of_threads() {
    let folder = folder();
    let (plot, file) = (at(&folder, "plot.svg"), at(&folder, "compare.json"));
    let path = example("sim/access-link.toml");
    let schedulers = "htb,cbq,hfsc,drr,wf2q+,priq,dbhpd";
    let arguments = ["compare", &path, "--schedulers", schedulers, "--threads"];
    let one = weir(&[&arguments[..], &["1", "--plot", &plot, "--json", &file]].concat());
    assert_eq!(one.status.code(), Some(0), "{one:?}");
    assert_eq!(one.stdout, weir(&[&arguments[..], &["3"]].concat()).stdout);
    let svg = std::fs::read_to_string(&plot).expect("it was written");
    assert!(svg.starts_with("<svg") && svg.contains("dbhpd") && svg.contains("voice"), "{svg}");
    // Two legends, and a name under each of the four panels of sums.
    assert_eq!(svg.matches(">\ndbhpd\n<").count(), 6, "{svg}");
    // On a logarithmic axis delays are points: one for each class and scheduler.
    assert!(svg.matches("h0").count() >= 5 * 7, "{svg}");
    let written = std::fs::read(&file).expect("it was written");
    let written: Value = serde_json::from_slice(&written).expect("it is JSON");
    assert_eq!(written["rows"].as_array().map(Vec::len), Some(7));
    let flat = &row(&written, "drr")["notes"];
    assert!(flat.to_string().contains("no priorities"), "{flat}");
}

#[test]
fn a_comparison_that_is_impossible_is_refused_with_the_reason() {
    let path = example("sim/access-link.toml");
    let unknown = weir(&["compare", &path, "--schedulers", "htb,hfcs"]);
    assert_eq!(unknown.status.code(), Some(2));
    let message = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(message.contains("did you mean `hfsc`?"), "{message}");
    let unknown = weir(&["compare", &path, "--schedulers", "nope"]);
    let message = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(message.matches("`wf2q+`").count(), 1, "{message}");
}

#[test]
fn replications_are_compared_by_means_with_intervals() {
    let folder = folder();
    let path = floods(&folder, "cbq", BY_RATE);
    let plot = at(&folder, "plot.svg");
    let arguments = ["compare", &path, "--schedulers", "cbq,fifo", "--plot", &plot];
    let run = |more: &[&str]| json(&[&arguments[..], more].concat());
    let several = run(&["--replications", "3", "--threads", "1"]);
    let drawn = std::fs::read_to_string(&plot).expect("it was written");
    assert_eq!(several, run(&["--replications", "3", "--threads", "4"]));
    assert_eq!((&several["replications"], &several["rows"][1]["runs"]), (&3.into(), &3.into()));
    let single = |seed: &str| run(&["--seed", seed]);
    let runs = ["1", "2", "3"].map(single);
    assert!(std::fs::read_to_string(&plot).expect("it was written").len() < drawn.len());
    for scheduler in ["cbq", "fifo"] {
        for (figure, place) in [("sent_bps", 0), ("dropped", 2), ("ideal_bps", 1)] {
            let of = |run| row(run, scheduler)["result"]["leaves"][place][figure].clone();
            let values: Vec<f64> =
                runs.iter().map(|run| of(run).as_f64().expect("a number")).collect();
            let mean = values.iter().sum::<f64>() / 3.0;
            let deviation = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0;
            // t(0.975) of two degrees of freedom.
            let within = 4.302_653 * (deviation / 3.0).sqrt();
            let found = of(&several);
            let near = |key: &str, wanted: f64| {
                let value = found[key].as_f64().expect("a number");
                (value - wanted).abs() <= 1e-3 * wanted.max(1e-6)
            };
            assert!(near("mean", mean) && near("within", within), "{figure}: {found}, {within}");
        }
    }
    let table = weir(&[&arguments[..], &["--replications", "3"]].concat());
    let table = String::from_utf8(table.stdout).expect("it is text");
    assert!(table.contains("seed 1, 3 replications\nmean ± half of the 95 %"), "{table}");
    assert!(table.lines().filter(|line| line.contains(" ± ")).count() >= 9, "{table}");
}

#[test]
fn replications_are_the_same_on_any_number_of_threads() {
    let folder = folder();
    let path = floods(&folder, "cbq", BY_RATE);
    let file = at(&folder, "runs.json");
    let run = |threads: &str| {
        json(&["sim", &path, "--replications", "5", "--threads", threads, "--json", &file])
    };
    let summary = run("1");
    let first = std::fs::read(&file).expect("it was written");
    assert_eq!(summary, run("4"));
    assert_eq!(first, std::fs::read(&file).expect("it was written"));
    assert_eq!(summary["seeds"], serde_json::json!([1, 2, 3, 4, 5]));
    let runs: Value = serde_json::from_slice(&first).expect("it is JSON");
    let sent = |run: usize| runs["runs"][run]["classes"][0]["dropped"]["total"]["packets"].as_f64();
    let values: Vec<f64> = (0..5).map(|run| sent(run).expect("a number")).collect();
    let mean = values.iter().sum::<f64>() / 5.0;
    let deviation = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 4.0;
    // t(0.975) of four degrees of freedom.
    let within = 2.776_445 * (deviation / 5.0).sqrt();
    let found = &summary["classes"][0]["dropped_packets"];
    assert_eq!(found["mean"].as_f64(), Some(mean));
    assert!(
        (found["within"].as_f64().expect("a number") - within).abs() < 1e-3 * within,
        "{found}"
    );
}

#[test]
fn a_stop_reports_the_replications_that_ended() {
    let folder = folder();
    let path = floods(&folder, "cbq", BY_RATE);
    let text = interrupted(&["sim", &path, "--replications", "10000", "--threads", "2"]).stdout;
    assert!(text.contains("of 10000 replications") && text.contains("±"), "{text}");
}

#[test]
fn bins_are_printed_and_written() {
    let folder = folder();
    let path = floods(&folder, "cbq", BY_RATE);
    let csv = at(&folder, "bins.csv");
    let report = json(&["sim", &path, "--bins", "1s", "--csv", &csv]);
    let bytes = report["bins"]["classes"][2]["bytes"].as_array().expect("a list").clone();
    assert_eq!(bytes.len(), 4);
    let text = std::fs::read_to_string(&csv).expect("it was written");
    assert!(text.contains(&format!("\n3,c,{}\n", bytes[3])), "{text}");
    let table = String::from_utf8(weir(&["sim", &path, "--bins", "1s"]).stdout).expect("text");
    assert!(table.contains("bytes sent in bins of 1 s"), "{table}");
    let refused = weir(&["sim", &path, "--bins", "0s"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn packets_are_written_as_rows_and_frames() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    let folder = folder();
    let path = floods(&folder, "cbq", BY_RATE);
    let (rows, trace) = (at(&folder, "packets.parquet"), at(&folder, "packets.pcapng"));
    let report = json(&["sim", &path, "--parquet", &rows, "--trace", &trace]);
    let number = |name: &str| report["conservation"][name].as_u64().expect("a number");
    let file = std::fs::File::open(Path::new(&rows)).expect("it was written");
    let reader = SerializedFileReader::new(file).expect("it is Parquet");
    let (mut sent, mut dropped, mut last) = (0, 0, 0);
    for row in reader.get_row_iter(None).expect("it has rows") {
        let row = row.expect("it can be read");
        let verdict = row.get_string(5).expect("a text");
        assert!(row.get_long(1).expect("a number") >= 0 && row.get_int(2).ok() == Some(1000));
        if verdict == "sent" {
            sent += 1;
            let time = row.get_long(0).expect("a number");
            assert!(time >= last, "departures are in order");
            last = time;
        } else {
            assert_eq!(verdict, "full");
            dropped += 1;
        }
    }
    assert_eq!((sent, dropped), (number("sent"), number("dropped")));
    let mut capture = weir_trace::capture::CaptureReader::open(&trace).expect("it is a capture");
    let mut frames = 0;
    while let Some(frame) = capture.next_frame() {
        let frame = frame.expect("it is whole");
        assert_eq!((frame.original_length, frame.bytes.len()), (1000, 42));
        frames += 1;
    }
    assert_eq!(frames, sent);
}

#[test]
fn a_run_that_does_not_fit_is_refused_before_it_starts() {
    let folder = folder();
    let path = floods(&folder, "cbq", BY_RATE);
    let refused = weir(&["sim", &path, "--memory", "10 KB"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("more than the") && message.contains("--memory"), "{message}");
    assert!(refused.stdout.is_empty());
}
