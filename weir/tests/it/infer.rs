//! `weir infer` as a command: what it writes, `weir sim` runs.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn walk(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/walk").join(name)
}

fn weir(folder: &Path, verb: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(folder).arg(verb).args(arguments).output().expect("starts")
}

fn check(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{printed}{said}");
    (printed, said)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn a_scenario_of_a_capture_runs_and_says_what_became_of_all_bytes() {
    let folder = TempDir::new().expect("a place for temporary files");
    let place = folder.path();
    let capture = shown(&walk("evening.pcap.gz"));
    for more in [&["--exact"][..], &["--population", "--rate", "10Mbit/s"], &["--anonymous"]] {
        let arguments = [&[&*capture, "-o", "evening.toml"], more].concat();
        let (printed, _) = check(&weir(place, "infer", &arguments), 0);
        assert!(printed.contains("% of"), "{printed}");
        check(&weir(place, "check", &["evening.toml"]), 0);
        let (report, _) = check(&weir(place, "sim", &["evening.toml"]), 0);
        assert!(report.contains("all"), "{report}");
    }
    let text = fs::read_to_string(place.join("evening.toml")).expect("it was written");
    assert!(!text.contains("192.0.2."), "addresses are replaced: {text}");
}

#[test]
fn a_record_and_two_captures_measure_round_trips() {
    let folder = TempDir::new().expect("a place for temporary files");
    let place = folder.path();
    let scenario = "duration = \"5 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\n\
        name = \"line\"\nends = [\"a\", \"b\"]\ndelay = \"12 ms\"\n[link.policy.link]\n\
        rate = \"5 Mbit/s\"\nscheduler = \"fifo\"\n[link.policy.class.all]\ndefault = true\n\
        [link.back.policy.link]\nrate = \"5 Mbit/s\"\nscheduler = \"fifo\"\n\
        [link.back.policy.class.all]\ndefault = true\n[[source]]\nname = \"file\"\n\
        kind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\nbytes = \"700 KB\"\n";
    fs::write(place.join("net.toml"), scenario).expect("is writable");
    check(&weir(place, "sim", &["net.toml", "--record", "net.rec"]), 0);
    let infer = ["net.rec", "--format", "json", "-o", "found.toml"];
    let (printed, _) = check(&weir(place, "infer", &infer), 0);
    let found: Value = serde_json::from_str(&printed).expect("it is JSON");
    let flow = &found["flows"][0];
    assert_eq!(flow["model"]["round_trip"]["by"], "measured", "{printed}");
    let parts = flow["model"]["round_trip"]["parts_s"].as_array().expect("of both hosts");
    let total: f64 = parts.iter().filter_map(Value::as_f64).sum();
    assert!((total - 0.024).abs() < 0.024 * 0.02, "{total}");
    assert_eq!(flow["model"]["exchanges"][0]["up"], 700_000, "{printed}");
    check(&weir(place, "sim", &["found.toml"]), 0);
    let (inside, outside) =
        (shown(&walk("evening.pcap.gz")), shown(&walk("evening-behind.pcap.gz")));
    let (printed, _) = check(&weir(place, "infer", &[&inside, "--outside", &outside]), 0);
    assert!(printed.contains("% of"), "{printed}");
}

#[test]
fn what_is_no_capture_is_refused_in_a_sentence() {
    let folder = TempDir::new().expect("a place for temporary files");
    let place = folder.path();
    fs::write(place.join("text"), "hello").expect("is writable");
    let (_, said) = check(&weir(place, "infer", &["text"]), 2);
    assert!(said.contains("is not a capture"), "{said}");
    let (_, said) = check(&weir(place, "infer", &["none.pcap"]), 2);
    assert!(said.contains("cannot read none.pcap"), "{said}");
    fs::copy(walk("evening.pcap.gz"), place.join("in.pcap.gz")).expect("is writable");
    let (_, said) = check(&weir(place, "infer", &["in.pcap.gz", "-o", "in.pcap.gz"]), 2);
    assert!(said.contains("is an input"), "{said}");
    let (_, said) = check(&weir(place, "infer", &["in.pcap.gz", "--direction", "up"]), 2);
    assert!(said.contains("has no direction"), "{said}");
    let whole = fs::read(place.join("in.pcap.gz")).expect("it is there");
    fs::write(place.join("cut.pcap.gz"), &whole[..whole.len() / 2]).expect("is writable");
    let (printed, _) = check(&weir(place, "infer", &["cut.pcap.gz"]), 1);
    assert!(printed.contains("ends with a fault"), "{printed}");
}
