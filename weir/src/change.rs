//! `weir set`, `reload`, `rollback`, `confirm` and `log`: what they share. They ask a running link
//! and print what became of it.

use crate::output::{Exit, Format, Output};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use weir_cli::time::time;
use weir_control::client;
use weir_control::places::Places;
use weir_control::protocol::{Answer, Changed, Request, Terms};

/// How a change is made.
#[derive(clap::Args)]
pub struct Options {
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Change nothing: print what would change, as `weir diff` does.
    #[arg(long)]
    dry_run: bool,
    /// Undo the change after this time, such as 60s, unless `weir confirm` comes before.
    #[arg(long, value_name = "TIME", value_parser = time)]
    confirm: Option<Duration>,
    /// Undo the change as soon as a second breaks this condition, such as
    /// `voice.delay.p99 < 10 ms`; watched for the time of --confirm, or for 60 s.
    #[arg(long, value_name = "CONDITION")]
    guard: Vec<String>,
    /// Why, for `weir log`.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

impl Options {
    /// Returns a change on trial.
    pub fn trial(
        control: Option<PathBuf>,
        confirm: Duration,
        guard: Vec<String>,
        reason: String,
    ) -> Self {
        Self { control, dry_run: false, confirm: Some(confirm), guard, reason }
    }

    /// Returns them as a link gets them.
    pub fn terms(&self) -> Terms {
        Terms {
            dry_run: self.dry_run,
            confirm_ms: self.confirm.map(|time| time.as_millis() as u64),
            guards: self.guard.clone(),
            reason: self.reason.clone(),
        }
    }
}

/// Asks the link of this name, or behind this socket.
///
/// # Errors
/// When there is none, or it refuses; the text says what to do.
pub fn ask(name: &str, control: Option<&PathBuf>, request: &Request) -> Result<Answer, String> {
    let socket = match control {
        Some(control) => control.clone(),
        None => Places::of_process().find(name)?,
    };
    match client::call(&socket, request)? {
        Answer::Error(why) => Err(why),
        answer => Ok(answer),
    }
}

/// Requests a change and prints the result.
pub fn change(output: &Output, name: &str, options: &Options, request: &Request) -> Exit {
    match ask(name, options.control.as_ref(), request) {
        Ok(Answer::Changed(changed)) => {
            let is_set = matches!(request, Request::Set { .. });
            if is_set && changed.errors > 0 && output.format == Format::Text {
                output.text(WOULD_BE_WRONG);
            }
            print(output, name, options.dry_run, &changed)
        }
        Ok(_) => output.refuse(OTHER),
        Err(why) => output.refuse(&why),
    }
}

/// Prints what became of a change.
pub fn print(output: &Output, name: &str, dry_run: bool, changed: &Changed) -> Exit {
    match output.format {
        Format::Json => output.json(changed),
        Format::Text => {
            output.text(&lines(&changed.text));
            output.text(&lines(&said(name, dry_run, changed)));
        }
    }
    if let Some(number) = changed.number.filter(|_| output.has_failed()) {
        output.warn(&format!("change {number} was made all the same; `weir log` lists it"));
    }
    if changed.errors > 0 { Exit::Faults } else { Exit::Clean }
}

/// Returns what became of a change, for people.
fn said(name: &str, dry_run: bool, changed: &Changed) -> String {
    let Some(number) = changed.number else {
        return match (changed.errors, dry_run) {
            (0, true) if changed.directions.is_empty() => format!("would change: {}", changed.what),
            (0, true) => differences(changed),
            (0, false) => "nothing changes".to_owned(),
            _ => "nothing was changed".to_owned(),
        };
    };
    let mut text = format!("change {number}: {}", changed.what);
    if !changed.replaced.is_empty() {
        let numbers: Vec<_> = changed.replaced.iter().map(u64::to_string).collect();
        text += &format!("\nit replaces what `weir set` changed: {}", numbers.join(", "));
    }
    if let Some(ms) = changed.trial_ms {
        let seconds = ms as f64 / 1e3;
        let name = if name.is_empty() { "NAME" } else { name };
        text += &format!(
            "\non trial for {seconds:.0} s: `weir confirm {name}` keeps it, `weir rollback {name}` \
             undoes it"
        );
    }
    text
}

fn differences(changed: &Changed) -> String {
    let several = changed.directions.len() > 1;
    let one = |way: &weir_control::protocol::Difference| {
        if several { format!("{}:\n{}", way.direction, way.text) } else { way.text.clone() }
    };
    changed.directions.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn lines(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{}\n", text.trim_end()) }
}

/// Sends a request that has no figures, and prints that it was carried out.
pub fn done(output: &Output, name: &str, control: Option<&PathBuf>, request: &Request) -> Exit {
    match ask(name, control, request) {
        Ok(Answer::Done) => {
            match output.format {
                Format::Text => output.text("the change stays\n"),
                Format::Json => output.json(&json!({ "confirmed": true })),
            }
            if output.has_failed() {
                output.warn("the change was confirmed all the same");
            }
            Exit::Clean
        }
        Ok(_) => output.refuse(OTHER),
        Err(why) => output.refuse(&why),
    }
}

/// The line above the findings of a `weir set`, which name lines that the file does not have.
const WOULD_BE_WRONG: &str =
    "with these values the policy would be wrong, as follows; its file is as it was\n";

/// Why an answer cannot be used.
pub const OTHER: &str = "the link gave another answer than asked for";
