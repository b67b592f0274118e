//! Shared by all verbs: the format of results, their output, and exit codes.
//!
//! Results go to standard output, in the requested format; errors of the command itself go to
//! standard error. A closed pipe ends output quietly; after any other failure to print the command
//! exits 2.

use serde::Serialize;
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use weir_host::outlet;
use weir_policy::table::Table;

/// The format of results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs; the schemas are in docs/.
    Json,
}

/// The exit code of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// 0: done, without errors.
    Clean,
    /// 1: done, and the input has errors, or policies differ.
    Faults,
    /// 2: not done: wrong usage, or a file cannot be read or written.
    Usage,
    /// 130: the user stopped it, as shells report SIGINT.
    Interrupted,
}

/// Prints the results of a command, and remembers whether that failed.
#[derive(Debug)]
pub struct Output {
    /// The format that the user chose.
    pub format: Format,
    /// Whether a JSON value takes one line, for a command that prints several while it runs.
    by_line: Cell<bool>,
    /// How long a reader may take for a piece of text, if it is not waited for.
    patience: Cell<Option<Duration>>,
    /// Printing failed.
    failed: Cell<bool>,
    /// Whether the reader closed the pipe.
    closed: Cell<bool>,
    /// Whether something was printed.
    printed: Cell<bool>,
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
    /// An output that prints in `format`, and waits for its reader.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            by_line: Cell::new(false),
            patience: Cell::new(None),
            failed: Cell::new(false),
            closed: Cell::new(false),
            printed: Cell::new(false),
        }
    }

    /// Returns whether to print in colour: on a terminal, unless `NO_COLOR` is set (no-color.org).
    pub fn colour(&self) -> bool {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        io::stdout().is_terminal() && !refused
    }

    /// Prints a text unchanged.
    pub fn text(&self, text: &str) {
        self.printed.set(true);
        let printed = match self.patience.get() {
            Some(patience) => outlet::print(text, patience),
            None => print(text),
        };
        let Err(error) = printed else { return };
        self.closed.set(true);
        // The reader that closed the pipe wants no more. Report any other error once.
        if error.kind() != io::ErrorKind::BrokenPipe && !self.failed.replace(true) {
            self.warn(&format!("cannot print: {error}"));
        }
    }

    /// From now on waits only so long for a reader; what it does not take then is lost and counted.
    pub fn wait_at_most(&self, patience: Duration) {
        self.patience.set(Some(patience));
    }

    /// Prints a table, with what is wrong in colour.
    pub fn table(&self, table: &Table) {
        self.text(&format!("{}\n", table.render(self.colour())));
    }

    /// Returns the exit code, which is `exit` unless printing failed.
    pub fn end(&self, exit: Exit) -> Exit {
        if self.failed.get() { Exit::Usage } else { exit }
    }

    /// Returns whether printing failed, and not only because the reader wanted no more.
    pub fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// Returns whether nothing more can be printed: a command that prints for ever ends then.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// From now on prints each JSON value on a line of its own.
    pub fn json_by_line(&self) {
        self.by_line.set(true);
    }

    /// Prints a value as JSON on several lines, or after [`Self::json_by_line`] on one.
    pub fn json(&self, value: &impl Serialize) {
        let text = if self.by_line.get() {
            serde_json::to_string(value)
        } else {
            serde_json::to_string_pretty(value)
        };
        let text = text.expect("the types of results have only text keys");
        self.text(&format!("{text}\n"));
    }

    /// Explains on standard error why the command cannot run; with JSON also on standard output.
    pub fn refuse(&self, message: &str) -> Exit {
        self.explain(message);
        Exit::Usage
    }

    /// Explains what is wrong with the input, as [`Self::refuse`] does.
    pub fn fault(&self, message: &str) -> Exit {
        self.explain(message);
        Exit::Faults
    }

    /// A program that reads JSON gets one value, a result or an error; by line, the error is last.
    fn explain(&self, message: &str) {
        self.warn(message);
        if self.format == Format::Json && (self.by_line.get() || !self.printed.get()) {
            self.json(&serde_json::json!({ "error": message }));
        }
    }

    /// Prints a warning about a result to standard error.
    pub fn warn(&self, message: &str) {
        let _ = writeln!(io::stderr().lock(), "weir: {message}");
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
