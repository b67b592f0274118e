//! `--plot` and `--flent`: what is drawn is what the report says, in every form, and a name that
//! cannot be is refused before anything runs.

use crate::common;

use common::{command, example, json};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use tempfile::TempDir;

const POLICY: &str = "link = { rate = '2 Mbit/s', scheduler = 'wf2q+' }\n[class.voice]\nweight = 1\n\
    match = { proto = 'udp', dport = 5004 }\n[class.rest]\nweight = 3\ndefault = true\n\
    [[promise]]\nthat = 'voice.delay.p99 < 50 ms'\nunder = 'scenario.toml'\n";
/// The rest is offered twice the line, so it waits and is dropped, also at the end.
const SCENARIO: &str = "policy = 'policy.toml'\nduration = '3 s'\n\
    [[source]]\nname = 'call'\nkind = 'cbr'\nrate = '200 kbit/s'\nsize = '200 B'\n\
    dport = 5004\n\
    [[source]]\nname = 'flood'\nkind = 'cbr'\nrate = '4 Mbit/s'\nsize = '1000 B'\n";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    fs::write(folder.path().join("policy.toml"), POLICY).expect("is writable");
    fs::write(folder.path().join("scenario.toml"), SCENARIO).expect("is writable");
    folder
}

/// Runs a command in the folder; returns its exit code and what it says on standard error.
fn run(folder: &TempDir, words: &str) -> (Option<i32>, String) {
    let arguments: Vec<_> = words.split_whitespace().collect();
    let mut command = command(&arguments);
    let output = command.current_dir(folder.path()).output().expect("weir starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn file(folder: &TempDir, name: &str) -> Vec<u8> {
    fs::read(folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Checks that a command draws a whole SVG with these words.
fn check_svg(folder: &TempDir, words: &str, wanted: &[&str]) {
    let (code, said) = run(folder, &format!("{words} --plot drawn.svg"));
    assert_eq!(code, Some(0), "{words}: {said}");
    let svg = String::from_utf8(file(folder, "drawn.svg")).expect("is text");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{words}");
    for word in wanted {
        assert!(svg.contains(word), "{words} draws no {word}");
    }
    assert!(!svg.contains("NaN"), "{words}");
}

#[test]
fn every_verb_draws() {
    let folder = folder();
    let plots = ["voice", "rest", "Backlog", "Dropped", "Delay", "full", "rate of the line"];
    check_svg(&folder, "sim scenario.toml --trace traced.pcapng", &plots);
    let replayed = ["traced.pcapng through policy.toml", "voice", "Backlog", "none"];
    check_svg(&folder, "replay policy.toml traced.pcapng", &replayed);
    check_svg(&folder, "test policy.toml --runs 2", &["voice.delay.p99 &lt; 50 ms: kept", "rest"]);
    let compared = ["drr", "priq", "rest: sent", "Share error"];
    check_svg(&folder, "compare scenario.toml --schedulers drr,priq", &compared);
    let network = format!("sim {}", example("sim/two-pvcs.toml"));
    check_svg(&folder, &network, &["pvc3 from router", "small", "evicted"]);
}

#[test]
fn every_form_is_whole_and_equal_each_time() {
    let folder = folder();
    let mut seen = Vec::new();
    for name in ["a.svg", "a.png", "a.html"] {
        let words = format!("sim scenario.toml --plot {name}");
        assert_eq!(run(&folder, &words), (Some(0), String::new()));
        let first = file(&folder, name);
        assert_eq!(run(&folder, &words).0, Some(0));
        assert!(file(&folder, name) == first, "{name}: the same bytes");
        seen.push(first);
    }
    let [svg, png, html] = &seen[..] else { panic!("three forms") };
    // An IHDR with the size, then pixels, then the end of the file.
    assert_eq!((&png[..8], &png[12..16]), (&b"\x89PNG\r\n\x1a\n"[..], &b"IHDR"[..]));
    let width = u32::from_be_bytes(png[16..20].try_into().expect("four bytes"));
    assert_eq!((width, &png[png.len() - 8..png.len() - 4]), (2 * 980, &b"IEND"[..]));
    let html = String::from_utf8(html.clone()).expect("is text");
    let svg = String::from_utf8(svg.clone()).expect("is text");
    assert!(html.contains(&svg), "the page holds the drawing");
    let loads = ["src=", "href=", "url(", "@import", "fetch("];
    assert!(loads.iter().all(|word| !html.contains(word)), "the page loads nothing");
}

/// Returns the values in the page's data of a plot's series.
fn drawn(html: &str, plot: usize, series: &str) -> Vec<(f64, f64)> {
    let (_, rest) = html.split_once("type=\"application/json\">").expect("has data");
    let (data, _) = rest.split_once("</script>").expect("has an end");
    let data: Value = serde_json::from_str(&data.replace("<\\/", "</")).expect("is JSON");
    let all = data[plot]["series"].as_array().expect("a list");
    let found = all.iter().find(|row| row["name"] == series).expect("is drawn");
    let point = |row: &Value| (row[0].as_f64().expect("x"), row[1].as_f64().unwrap_or(f64::NAN));
    found["points"].as_array().expect("a list").iter().map(point).collect()
}

#[test]
fn what_is_drawn_is_what_the_report_says() {
    let folder = folder();
    let scenario = folder.path().join("scenario.toml").display().to_string();
    let page = folder.path().join("a.html").display().to_string();
    let report = json(&["sim", &scenario, "--plot", &page]);
    let html = String::from_utf8(file(&folder, "a.html")).expect("is text");
    let rest = &report["classes"].as_array().expect("a list")[1];
    assert_eq!(rest["name"], "rest");
    let near = |what: &str, drawn: f64, reported: &Value| {
        let reported = reported.as_f64().expect("a number");
        assert!((drawn - reported).abs() < 0.01 * reported, "{what}: {drawn}, not {reported}");
    };
    let mean = |points: &[(f64, f64)]| {
        points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64
    };
    // Plots stand in the order of docs/pictures.md; 3 s are bins of 20 ms.
    let sent = drawn(&html, 1, "rest");
    assert_eq!(sent.len(), 150);
    near("sent", mean(&sent) * 1e6, &rest["sent"]["bps"]);
    // What waits at the end is drawn to the end.
    let backlog = drawn(&html, 2, "rest");
    near("backlog", backlog[149].1 * 1e3, &rest["backlog"]["bytes"]);
    let dropped = drawn(&html, 3, "rest");
    let packets = mean(&dropped[..150]) * 3.0;
    near("dropped", packets, &rest["dropped"]["total"]["packets"]);
    let spread = drawn(&html, 5, "rest");
    let (most, all) = spread.last().copied().expect("has points");
    assert_eq!(all, 100.0);
    near("delay", most * 1e3, &rest["delay_us"]["max"]);
    let half = spread.iter().find(|point| point.1 >= 50.0).expect("half of them");
    near("median", half.0 * 1e3, &rest["delay_us"]["p50"]);
}

#[test]
fn flents_file_has_each_class_and_compare_writes_one_a_scheduler() {
    let folder = folder();
    assert_eq!(run(&folder, "sim scenario.toml --flent a.flent.gz").0, Some(0));
    let words = "compare scenario.toml --schedulers drr,priq --flent b.flent.gz";
    assert_eq!(run(&folder, words).0, Some(0));
    for name in ["a.flent.gz", "b-drr.flent.gz", "b-priq.flent.gz"] {
        let mut text = String::new();
        let packed = file(&folder, name);
        GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("is gzip");
        let read: Value = serde_json::from_str(&text).expect("is JSON");
        assert_eq!(
            (&read["version"], &read["metadata"]["DATA_FILENAME"]),
            (&4.into(), &name.into())
        );
        assert_eq!(read["metadata"]["HOSTS"], serde_json::json!(["voice", "rest"]));
        let sum = read["results"]["TCP upload sum"].as_array().expect("a list");
        assert_eq!(sum.len(), read["x_values"].as_array().expect("a list").len());
        let sum: f64 = sum.iter().filter_map(Value::as_f64).sum::<f64>() / sum.len() as f64;
        assert!((1.8..=2.01).contains(&sum), "{name}: {sum} Mbit/s of 2");
    }
    assert!(!folder.path().join("b.flent.gz").exists());
}

#[test]
fn a_name_that_cannot_be_is_refused_before_anything_runs() {
    let folder = folder();
    // No machine simulates this within a test.
    let long = SCENARIO.replace("'3 s'", "'1000000 s'");
    fs::write(folder.path().join("long.toml"), &long).expect("is writable");
    fs::write(folder.path().join("input.svg"), &long).expect("is writable");
    let check = |words: &str, wanted: &str| {
        let (code, said) = run(&folder, words);
        assert_eq!(code, Some(2), "{words}: {said}");
        assert!(said.contains(wanted), "{words}: {said}");
    };
    let ending = "a picture's name ends in .svg, .png or .html";
    for verb in ["sim", "replay policy.toml", "test", "compare --schedulers drr", "status"] {
        check(&format!("{verb} long.toml --plot a.pdf"), &format!("a.pdf: {ending}"));
    }
    let long = "sim long.toml --memory 64GB";
    check(
        &format!("{long} --flent a.json"),
        "a.json: Flent reads files whose names end in .flent.gz",
    );
    check(&format!("{long} --plot away/a.svg"), "cannot write away/a.svg: No such file");
    check(&format!("{long} --plot a.svg --trace a.svg"), "are one file; name two");
    check("sim input.svg --memory 64GB --plot input.svg", "--plot input.svg is an input");
    check(&format!("{long} --bins 1s --plot a.svg"), "a picture shows 4096; use wider ones");
    check("compare long.toml --schedulers drr --memory 64GB --plot away/a.svg", "No such file");
    assert!(!Path::new(&folder.path().join("a.svg")).exists());
}
