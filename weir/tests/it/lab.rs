//! `weir lab`: it knows the options of `weir-lab`, starts it, and says how to get it.

use crate::common;

use common::weir;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `weir` from a folder of its own, beside `weir-lab` if this is a script, with nothing on
/// PATH but what a script needs.
fn run(script: Option<&str>, arguments: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let program = folder.path().join("weir");
    // A link would lead back to the place of the program.
    copy(Path::new(env!("CARGO_BIN_EXE_weir")), &program);
    if let Some(script) = script {
        let (text, lab) = (folder.path().join("script"), folder.path().join("weir-lab"));
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).expect("it can be written");
        copy(&text, &lab);
        fs::set_permissions(&lab, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    started(&program, arguments)
}

/// Copies a program. A child that another test starts meanwhile must not have the copy open for
/// writing, or the kernel refuses to run it.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status().expect("cp runs");
    assert!(status.success(), "{status}");
}

fn started(program: &Path, arguments: &str) -> Output {
    let mut command = Command::new(program);
    command.args(arguments.split(' ')).env("PATH", "/nowhere").stdin(Stdio::null());
    command.output().expect("the program runs")
}

#[test]
fn the_lab_gets_the_arguments_and_its_exit_code_is_ours() {
    for (arguments, passed) in [
        ("lab list", "list"),
        ("--format json lab run lab --seed 7", "--format json run lab --seed 7"),
        ("lab run score --format=json", "run score --format=json"),
    ] {
        let output = run(Some("echo \"$@\"; echo said >&2; exit 7"), arguments);
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{passed}\n"));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "said\n");
    }
}

#[test]
fn without_the_lab_the_command_says_how_to_get_it() {
    let output = run(None, "lab list");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cargo install --locked --path weir-lab"), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn the_options_of_the_lab_are_known_without_it() {
    let help = weir(&["lab", "run", "--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        help.status.success() && text.contains("--seconds") && text.contains("--era"),
        "{text}"
    );
    let output = run(Some("echo started"), "lab run --nosuch");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
}
