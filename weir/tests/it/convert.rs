//! `weir convert`: a policy for another scheduler, on its way to a file, a pipe or a program.

use crate::common;

use common::{command, example, json, weir};
use serde_json::Value;
use std::io::Write;
use std::process::{Output, Stdio};

/// Runs the command with `input` on its standard input.
fn fed(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("weir starts");
    child.stdin.take().expect("it is piped").write_all(input).expect("it reads all");
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_cbq_policy_is_converted_and_exported_to_the_kernel() {
    let path = example("walk/uplink.toml");
    let converted = weir(&["convert", &path, "--scheduler", "htb"]);
    assert_eq!(converted.status.code(), Some(0), "{converted:?}");
    let (policy, notes) = (text(&converted.stdout), text(&converted.stderr));
    assert!(policy.contains("scheduler = \"htb\"") && policy.contains("[class.link]"), "{policy}");
    assert!(policy.contains("# its own, whatever the others do"), "{policy}");
    assert!(notes.contains("weir: added class `link` with the link's rate"), "{notes}");
    let exported = fed(&["export", "tc", "-", "--dev", "eth0"], &converted.stdout);
    assert_eq!(exported.status.code(), Some(0), "{exported:?}");
    let commands = text(&exported.stdout);
    for line in ["htb rate 9500000bit ceil 9500000bit", "htb rate 5000000bit ceil 9500000bit"] {
        assert!(commands.contains(line), "{line} in\n{commands}");
    }
    let again = fed(&["convert", "-", "--scheduler", "htb"], policy.as_bytes());
    assert_eq!(text(&again.stdout), policy);
}

#[test]
fn a_file_and_json_hold_the_same_policy() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let file = folder.path().join("htb.toml").to_str().expect("UTF-8").to_owned();
    let path = example("office-htb.toml");
    let printed = json(&["convert", &path, "--scheduler", "cbq", "-o", &file]);
    let written = std::fs::read_to_string(&file).expect("it was written");
    assert_eq!(printed["policy"].as_str(), Some(written.as_str()));
    assert_eq!((&printed["written_for"], &printed["scheduler"]), (&"htb".into(), &"cbq".into()));
    assert!(printed["notes"].to_string().contains("no ceilings: `calls`"), "{printed}");
    assert_eq!(printed["errors"], 0);
    let checked = weir(&["check", &file]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
}

#[test]
fn what_cannot_be_converted_says_why() {
    let path = example("walk/uplink.toml");
    let rows: [(&[&str], i32, &str); 6] = [
        (&[&example("wisp/download.toml"), "--scheduler", "cbq"], 1, "it has templates"),
        (&[&path, "--scheduler", "htb", "-o", &path], 2, "is an input; name another file"),
        (&[&path, "--scheduler", "htp"], 2, "did you mean `htb`?"),
        (&[&example("home.toml"), "--scheduler", "htb"], 2, "is a deployment"),
        (&[&example("sim/md1.toml"), "--scheduler", "htb"], 2, "is a scenario"),
        (&["none.toml", "--scheduler", "htb"], 2, "cannot read none.toml"),
    ];
    for (arguments, code, message) in rows {
        let refused = weir(&[&["convert"], arguments].concat());
        assert_eq!(refused.status.code(), Some(code), "{refused:?}");
        assert!(text(&refused.stderr).contains(message), "{refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
    }
    let wrong = fed(&["convert", "-", "--scheduler", "htb"], b"[link]\nrate = \"1 Mbit/s\"\n");
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    assert!(text(&wrong.stderr).contains("W011") && wrong.stdout.is_empty(), "{wrong:?}");
}

#[test]
fn what_cannot_be_converted_or_written_says_why_as_json() {
    let check = |policy: &[u8], options: &[&str], code: i32, place: &str, said: &str| {
        let arguments = [&["convert", "-", "--format", "json"], options].concat();
        let refused = fed(&arguments, policy);
        assert_eq!(refused.status.code(), Some(code), "{refused:?}");
        let value: Value = serde_json::from_slice(&refused.stdout).expect("it is one JSON value");
        let found = value.pointer(place).and_then(Value::as_str).unwrap_or_default();
        assert!(found.contains(said), "{place}: {value}");
    };
    let read = |name: &str| std::fs::read(example(name)).expect("it is an example");
    let (right, templates) = (read("walk/uplink.toml"), read("wisp/download.toml"));
    let wrong = b"[link]\nrate = \"1 Mbit/s\"\n";
    check(wrong, &["--scheduler", "htb"], 1, "/findings/1/code", "W011");
    check(
        &right,
        &["--scheduler", "htb", "-o", "/dev/full"],
        2,
        "/error",
        "cannot write /dev/full",
    );
    check(&right, &["--scheduler", "htp"], 2, "/error", "did you mean `htb`?");
    let inline = String::from_utf8_lossy(&templates).replace(LIST, ROWS).into_bytes();
    check(&inline, &["--scheduler", "cbq"], 1, "/error", "it has templates");
}

/// A list in a file, and one that needs none.
const LIST: &str = "list = \"subscribers.csv\"";
const ROWS: &str = "list = [{ id = \"1\", access_point = \"AP North\", plan = \"gold\", \
    ipv4 = \"100.64.0.1\", ipv6 = \"2001:db8::/56\" }]";
