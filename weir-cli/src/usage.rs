//! The output of a program whose arguments could not be parsed, or request help or the version.

use crate::output::{Exit, Format, Output};
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints help, the version, or what is wrong with the arguments, for a program as JSON, too.
pub fn explain(error: &clap::Error) -> ExitCode {
    let asked = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
    if !asked && wants_json(std::env::args_os()) {
        let text = error.render().to_string();
        let message = text.split_once("\n\n").map_or(text.as_str(), |parts| parts.0);
        let message = message.trim().trim_start_matches("error: ");
        Output::new(Format::Json).json(&serde_json::json!({ "error": message }));
    }
    let printed = error.print().and_then(|()| io::stdout().flush());
    match printed {
        // What is wrong with the arguments may be unreadable; the exit code still tells.
        _ if !asked => Exit::Usage.into(),
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Output::new(Format::Text).refuse(&format!("cannot print: {error}")).into()
        }
        _ => Exit::Clean.into(),
    }
}

/// Returns whether arguments that could not be parsed ask for JSON.
fn wants_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<_> = arguments.collect();
    let apart = words.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json");
    apart || words.iter().any(|word| word == "--format=json")
}
