//! Shared by tests of verbs: running the command.

pub mod kinds;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The path of an example in the repository.
pub fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    path.to_str().expect("the path is UTF-8").to_owned()
}

/// The command with these arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments);
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
