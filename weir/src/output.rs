//! What all verbs share: the format of results, where they go, and how the command ends.
//!
//! Results go to standard output, in the one format that was asked for; what goes wrong with the
//! command itself goes to standard error. A closed pipe ends output quietly; any other failure to
//! print makes the command exit 2.

use serde::Serialize;
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs; the schemas are in docs/.
    Json,
}

/// How the command ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// 0: done, and nothing to object to.
    Clean,
    /// 1: done, and what was looked at has faults.
    Faults,
    /// 2: not done: wrong usage, or something cannot be read or written.
    Usage,
    /// 130: the user stopped it, as shells say of SIGINT.
    Interrupted,
}

/// Where results go.
#[derive(Debug)]
pub struct Output {
    /// How they are printed.
    pub format: Format,
    /// Whether something could not be printed.
    failed: Cell<bool>,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Clean => 0,
            Exit::Faults => 1,
            Exit::Usage => 2,
            Exit::Interrupted => 130,
        })
    }
}

impl Output {
    /// Output in `format`.
    pub fn new(format: Format) -> Self {
        Self { format, failed: Cell::new(false) }
    }

    /// Whether to print in colour: on a terminal, unless `NO_COLOR` is set (no-color.org).
    pub fn colour(&self) -> bool {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        io::stdout().is_terminal() && !refused
    }

    /// Prints text as it is.
    pub fn text(&self, text: &str) {
        let mut out = io::stdout().lock();
        let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) else { return };
        // Whoever closed the pipe has read enough; there is nobody to tell. Once is enough.
        if error.kind() != io::ErrorKind::BrokenPipe && !self.failed.replace(true) {
            self.warn(&format!("cannot print: {error}"));
        }
    }

    /// How the command ends, if it ends so but for what could not be printed.
    pub fn end(&self, exit: Exit) -> Exit {
        if self.failed.get() { Exit::Usage } else { exit }
    }

    /// Prints a value as JSON on several lines.
    pub fn json(&self, value: &impl Serialize) {
        let text = serde_json::to_string_pretty(value);
        self.text(&text.expect("the types of results have only text keys"));
        self.text("\n");
    }

    /// Says on standard error why the command cannot do what it was asked.
    pub fn refuse(&self, message: &str) -> Exit {
        self.warn(message);
        Exit::Usage
    }

    /// Says on standard error what should be known of a result.
    pub fn warn(&self, message: &str) {
        let _ = writeln!(io::stderr().lock(), "weir: {message}");
    }
}
