//! Shared by tests of verbs: running the command.

pub mod kinds;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;
use weir_testbed::{Ended, Process, until};

/// The path of an example in the repository.
pub fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    path.to_str().expect("the path is UTF-8").to_owned()
}

/// The command with these arguments, and with tables as wide as a terminal.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env("COLUMNS", "100");
    command
}

/// Runs it to its end.
pub fn weir(arguments: &[&str]) -> Output {
    command(arguments).output().expect("weir starts")
}

/// Returns its output as JSON, after a clean exit.
pub fn json(arguments: &[&str]) -> Value {
    let output = weir(&[arguments, &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// Interrupts the command once it has worked for a while, which is enough for the first of the
/// parts that it works on; returns what it printed. It must say that it stopped.
pub fn interrupted(arguments: &[&str]) -> Ended {
    let mut process = Process::start(&mut command(arguments)).expect("weir starts");
    let worked = || process.processor_time() >= WORK;
    until("it works", worked).expect("it works for seconds");
    process.signal("INT").expect("it runs");
    let ended = process.wait_for_output().expect("what runs ends, and no more begins");
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    ended
}

/// The processor time after which [`interrupted`] sends the signal.
const WORK: Duration = Duration::from_secs(3);
