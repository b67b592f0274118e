//! `weir replay` as a command: its exit codes, output and files.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const POLICY: &str = "
    link = { rate = '1 Mbit/s', scheduler = 'fifo' }
    [class.all]
    default = true
";

/// Returns a pcap file of `frames` frames of 60 bytes, a second apart.
fn capture(frames: u32) -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for second in 0..frames {
        bytes.extend(words(&[1_700_000_000 + second, 0, 60, 60]));
        bytes.extend([0; 60]);
    }
    bytes
}

/// A folder with `policy.toml` and `in.pcap`.
fn folder(policy: &str, capture: &[u8]) -> TempDir {
    let folder = TempDir::new().expect("a place for temporary files");
    fs::write(folder.path().join("policy.toml"), policy).expect("is writable");
    fs::write(folder.path().join("in.pcap"), capture).expect("is writable");
    folder
}

fn weir(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(folder).arg("replay").args(arguments).output().expect("starts")
}

/// Runs `weir replay policy.toml in.pcap` with `more`; checks its exit code, a part of its standard
/// error, and the files beside its inputs afterwards.
fn check(folder: &TempDir, more: &[&str], code: i32, said: &str, files: &[&str]) -> String {
    let arguments = [["policy.toml", "in.pcap"].as_slice(), more].concat();
    let output = weir(folder.path(), &arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(errors.contains(said), "{errors}");
    let entries = fs::read_dir(folder.path()).expect("is readable");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("is readable").file_name();
    let mut names: Vec<_> = entries.map(|entry| name(entry).into_string().expect("text")).collect();
    names.retain(|name| name != "policy.toml" && name != "in.pcap");
    names.sort();
    assert_eq!(names, files);
    String::from_utf8(output.stdout).expect("is text")
}

#[test]
fn a_good_capture_gives_its_departures_and_a_report() {
    let folder = folder(POLICY, &capture(3));
    let text = check(&folder, &["-o", "out.pcapng"], 0, "", &["out.pcapng"]);
    assert!(text.contains("offered 3 = sent 3 + dropped 0 + backlog 0"), "{text}");
    let written = fs::read(folder.path().join("out.pcapng")).expect("is there");
    let comment = b"class=all delay_us=0.000 verdict=sent";
    assert_eq!(written.windows(comment.len()).filter(|bytes| bytes == comment).count(), 3);
    let more = ["-o", "out.pcapng", "--drops", "drops.pcapng", "--format", "json"];
    let text = check(&folder, &more, 0, "", &["drops.pcapng", "out.pcapng"]);
    let report: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
    assert_eq!(report["capture"]["frames"], 3);
    assert_eq!(report["classes"][0]["sent"]["packets"], 3);
    assert_eq!(report["fault"], serde_json::Value::Null);
    assert_eq!(fs::read(folder.path().join("out.pcapng")).expect("is there"), written);
}

#[test]
fn a_truncated_capture_is_replayed_to_its_end_and_the_error_is_named() {
    let folder = folder(POLICY, &capture(3)[..24 + 2 * 76 + 40]);
    let said = "in.pcap: after frame 2, at byte 176 of the capture";
    let text = check(&folder, &["-o", "out.pcapng"], 1, said, &["out.pcapng"]);
    assert!(text.contains("offered 2 = sent 2 + dropped 0 + backlog 0"), "{text}");
}

#[test]
fn a_file_that_is_not_a_capture_writes_nothing() {
    check(&folder(POLICY, b"no capture"), &["-o", "out.pcapng"], 1, "is not a capture", &[]);
    check(&folder(POLICY, b""), &["-o", "out.pcapng"], 1, "the file is empty", &[]);
}

#[test]
fn a_wrong_policy_has_findings_and_writes_nothing() {
    let folder = folder(&POLICY.replace("fifo", "lifo"), &capture(3));
    let text = check(&folder, &["-o", "out.pcapng"], 1, "", &[]);
    assert!(text.contains("`lifo`") && text.contains("policy.toml:2"), "{text}");
    let text = check(&folder, &["--format", "json"], 1, "", &[]);
    let findings: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
    assert_eq!(findings["errors"], 1);
}

#[test]
fn inputs_are_never_written_over() {
    let good = capture(3);
    let folder = folder(POLICY, &good);
    check(&folder, &["-o", "in.pcap"], 2, "-o in.pcap is an input", &[]);
    check(&folder, &["--drops", "./policy.toml"], 2, "./policy.toml is an input", &[]);
    check(&folder, &["-o", "x", "--drops", "x"], 2, "-o x and --drops x are one file", &[]);
    check(&folder, &["-o", "away/out.pcapng"], 2, "cannot write away/out.pcapng", &[]);
    check(&folder, &["--interface", "lan"], 2, "no rule of the policy names the interface", &[]);
    assert_eq!(fs::read(folder.path().join("in.pcap")).expect("is there"), good);
    let output = weir(folder.path(), &["policy.toml", "missing.pcap"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read missing.pcap"));
}

#[test]
fn police_mark_and_drop_packets_above_their_rate() {
    // A frame of 60 bytes each second, with a meter of 40 B/s: in, out, in, out.
    let policy = |out: &str| {
        format!(
            "link = {{ rate = '1 Mbit/s', scheduler = 'fifo' }}
             [class.all]
             default = true
             police = {{ rate = '40 B/s', depth = '60 B', out = '{out}' }}
             queue = {{ dropper = 'red' }}"
        )
    };
    for (out, sent, policed, marked) in [("drop", 2, 2, 0), ("mark cs1", 4, 0, 2)] {
        let folder = folder(&policy(out), &capture(4));
        let text = check(&folder, &["--format", "json"], 0, "", &[]);
        let report: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
        let class = &report["classes"][0];
        assert_eq!(class["sent"]["packets"], sent, "{class}");
        assert_eq!(class["dropped"]["policed"]["packets"], policed, "{class}");
        assert_eq!((&class["marked_dscp"], &class["marked_ecn"]), (&marked.into(), &0.into()));
    }
}

#[test]
fn a_replay_sets_code_points() {
    let policy = "link = { rate = '1 Mbit/s', scheduler = 'fifo' }
                  [class.all]
                  default = true
                  set_dscp = 'cs1'";
    let mut frames = capture(4);
    // An Ethernet header of IPv4, and that with its length and its checksum.
    for frame in frames[24 + 16..].chunks_mut(16 + 60) {
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
        frame[24..26].copy_from_slice(&[0x7a, 0xc0]);
    }
    let folder = folder(policy, &frames);
    let more = ["-o", "out.pcapng", "--format", "json"];
    let json = check(&folder, &more, 0, "", &["out.pcapng"]);
    let report: serde_json::Value = serde_json::from_str(&json).expect("is JSON");
    assert_eq!(report["classes"][0]["marked"], 4, "{report}");
    // The capture that was written has the code point, so a second policy sees it.
    let second = "link = { rate = '1 Mbit/s', scheduler = 'drr' }
                  [class.marked]
                  match = [{ dscp = 'cs1' }]
                  [class.rest]
                  default = true";
    fs::write(folder.path().join("second.toml"), second).expect("writable");
    let output = weir(folder.path(), &["second.toml", "out.pcapng", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert_eq!(report["classes"][0]["sent"]["packets"], 4, "{report}");
}

#[test]
fn a_replay_explains_if_requested() {
    let folder = folder(POLICY, &capture(3));
    let json = ["--format", "json"];
    let plain = check(&folder, &json, 0, "", &[]);
    let plain: serde_json::Value = serde_json::from_str(&plain).expect("is JSON");
    assert_eq!(plain["explain"], serde_json::Value::Null);
    let text = check(&folder, &["--explain", "--slowest", "2", json[0], json[1]], 0, "", &[]);
    let report: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
    assert_eq!(report["explain"]["classes"][0]["packets"], 3);
    assert_eq!(report["explain"]["slowest"].as_array().map(Vec::len), Some(2));
    let text = check(&folder, &["--explain"], 0, "", &[]);
    assert!(text.contains("why packets waited") && text.contains("the slowest packets"), "{text}");
    check(&folder, &["--slowest", "2"], 2, "--explain", &[]);
}

#[test]
fn a_replay_is_compared_with_the_bounds_of_declared_classes() {
    // A frame of 60 bytes each second.
    let policy = |rate: &str| {
        format!(
            "link = {{ rate = '1 kbit/s', scheduler = 'fifo' }}
             [class.all]
             default = true
             arrival = {{ rate = '{rate}', burst = '1514 B' }}"
        )
    };
    for (rate, said) in
        [("480 bit/s", "worst delay ms"), ("100 bit/s", "nothing follows from this run")]
    {
        let text = check(&folder(&policy(rate), &capture(90)), &[], 0, "", &[]);
        assert!(text.contains(said), "{rate}: {text}");
        assert_eq!(text.contains("worst delay ms"), rate == "480 bit/s", "{text}");
    }
    let text = check(&folder(POLICY, &capture(3)), &[], 0, "", &[]);
    assert!(!text.contains("worst delay ms"), "{text}");
}
