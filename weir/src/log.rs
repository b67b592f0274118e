//! `weir log`: lists the last changes of a running link.

use crate::Run;
use crate::change;
use crate::output::{Exit, Format, Output};
use serde_json::json;
use std::path::PathBuf;
use weir_control::places;
use weir_control::protocol::{Answer, Entry, Request};
use weir_live::events::rfc3339;
use weir_sim::shown::Table;

/// Lists the last changes of a running link: number, time, user, what changed, and why.
///
/// The last line is in force. A link keeps 100 changes; they end with it.
#[derive(clap::Args)]
#[command(override_usage = "weir log [OPTIONS] <NAME|--control <SOCKET>>")]
pub struct Log {
    /// The name of the deployment; needed unless there is a `--control`.
    #[arg(required_unless_present = "control")]
    name: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
}

impl Run for Log {
    fn run(self, output: &Output) -> Exit {
        let name = self.name.unwrap_or_default();
        match change::ask(&name, self.control.as_ref(), &Request::Log {}) {
            Ok(Answer::Log(entries)) => {
                match output.format {
                    Format::Text => output.table(&table(&entries)),
                    Format::Json => {
                        let rows: Vec<_> = entries.iter().map(row).collect();
                        output.json(&json!({ "changes": rows }));
                    }
                }
                Exit::Clean
            }
            Ok(_) => output.refuse(change::OTHER),
            Err(why) => output.refuse(&why),
        }
    }
}

fn row(entry: &Entry) -> serde_json::Value {
    json!({
        "number": entry.number,
        "time": rfc3339(entry.at_ns),
        "user": entry.user,
        "by": entry.origin,
        "what": entry.what,
        "reason": entry.reason,
        "on_trial": entry.on_trial,
    })
}

fn table(entries: &[Entry]) -> Table {
    let heads = ["change", "time", "user", "by", "what", "reason"];
    let mut table = Table::new(heads).words(&[1, 2, 3, 4, 5]);
    for entry in entries {
        let on_trial = if entry.on_trial { " (on trial)" } else { "" };
        table.row([
            entry.number.to_string(),
            rfc3339(entry.at_ns),
            entry.user.map(places::user).unwrap_or_default(),
            format!("{}{on_trial}", entry.origin.word()),
            entry.what.clone(),
            entry.reason.clone(),
        ]);
    }
    table
}
