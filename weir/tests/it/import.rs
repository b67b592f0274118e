//! `weir import` as a user runs it: its outputs and exit codes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const TWO: &str = "altq on { em0 em1 } priq bandwidth 10Mb queue { a b }\n\
                   queue a priq(default)\nqueue b priority 9\nblock in all\n";

fn weir(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).current_dir(folder);
    command.output().expect("the program starts")
}

/// Checks the exit code, and parts of both outputs.
fn check(text: &str, arguments: &[&str], code: i32, out: &[&str], err: &[&str]) {
    let folder = tempfile::tempdir().expect("there is room");
    fs::write(folder.path().join("f"), text).expect("there is room");
    let output = weir(folder.path(), arguments);
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (shown(&output.stdout), shown(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    for part in out {
        assert!(stdout.contains(part), "{part:?} is not in:\n{stdout}");
    }
    for part in err {
        assert!(stderr.contains(part), "{part:?} is not in:\n{stderr}");
    }
}

#[test]
fn the_policy_goes_to_stdout_and_the_report_to_stderr() {
    let report = ["f:4: lost: block in all", "3 kept, 0 approximated, 1 lost"];
    check(
        TWO,
        &["import", "pf", "f", "--interface", "em1"],
        0,
        &["# Interface em1\n[link]"],
        &report,
    );
    let all = ["# Interface em0", "# Interface em1"];
    check(TWO, &["import", "pf", "f"], 0, &all, &["--interface"]);
    let json = ["\"interface\": \"em1\"", "\"fate\": \"lost\""];
    check(TWO, &["--format", "json", "import", "pf", "f"], 0, &json, &[]);
}

#[test]
fn errors_exit_1_and_misuse_exits_2() {
    let err = ["W401", "did you mean `pass`?"];
    check("pas all\n", &["import", "pf", "f"], 1, &[], &err);
    check(TWO, &["import", "pf", "f", "--interface", "em2"], 2, &[], &["em0, em1"]);
    check(TWO, &["import", "pf", "g"], 2, &[], &["cannot read g"]);
    check(TWO, &["import", "ipf", "f"], 2, &[], &["kinds are `altq`, `pf`, `tc`, `sqm`"]);
}

#[test]
fn policies_are_written_and_check() {
    let folder = tempfile::tempdir().expect("there is room");
    fs::write(folder.path().join("f"), TWO).expect("there is room");
    let output = weir(folder.path(), &["import", "pf", "f", "--out", "policies"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for name in ["policies/em0.toml", "policies/em1.toml"] {
        assert_eq!(weir(folder.path(), &["check", name]).status.code(), Some(0), "{name}");
    }
    let rate = ["import", "tc", "g", "--rate", "7 Mbit/s", "--out", "one.toml"];
    fs::write(folder.path().join("g"), "qdisc add dev a root fq_codel\n").expect("there is room");
    assert_eq!(weir(folder.path(), &rate).status.code(), Some(0));
    let written = fs::read_to_string(folder.path().join("one.toml")).expect("it was written");
    assert!(written.contains("rate = \"7 Mbit/s\""), "{written}");
}
