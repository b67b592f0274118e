//! `weir restart`: has a running link begin anew from its file, without a gap.

use crate::Run;
use crate::change;
use crate::output::{Exit, Format, Output};
use serde_json::json;
use std::path::PathBuf;
use weir_control::client;
use weir_control::places::Places;
use weir_control::protocol::{Answer, Request};
use weir_link::change::history;

/// Restarts a running link from its deployment file, without a gap.
///
/// The link reads its deployment and its policies anew and goes on in a new process, which takes
/// over when its ports are open. If a file is wrong, or the new process cannot start, the link goes
/// on as before and this exits 2. Also the way to run a newer program that was installed meanwhile.
#[derive(clap::Args)]
#[command(override_usage = "weir restart [OPTIONS] <NAME|--control <SOCKET>>")]
pub struct Restart {
    /// The name of the deployment, not its file; needed unless there is a `--control`.
    #[arg(required_unless_present = "control")]
    name: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
}

impl Run for Restart {
    fn run(self, output: &Output) -> Exit {
        let name = self.name.unwrap_or_default();
        let socket = self.control.map_or_else(|| Places::of_process().find(&name), Ok);
        let restarted = socket.and_then(|socket| {
            // What the files replace is of no interest where the link cannot tell it.
            let replaced = client::call(&socket, &Request::Log {}).map(|log| set_by_hand(&log));
            let answer = client::call(&socket, &Request::Restart {})?;
            Ok((answer, replaced.unwrap_or_default()))
        });
        match restarted {
            Ok((Answer::Done, replaced)) => {
                match output.format {
                    Format::Text => output.text(&said(&replaced)),
                    Format::Json => {
                        output.json(&json!({ "restarted": true, "replaced": replaced }))
                    }
                }
                Exit::Clean
            }
            Ok((Answer::Error(why), _)) | Err(why) => output.refuse(&why),
            Ok(_) => output.refuse(change::OTHER),
        }
    }
}

/// Returns the numbers of the changes that the files do not have.
fn set_by_hand(log: &Answer) -> Vec<u64> {
    match log {
        Answer::Log(entries) => history::set_since_files(entries.iter().rev()),
        _ => Vec::new(),
    }
}

fn said(replaced: &[u64]) -> String {
    let numbers: Vec<_> = replaced.iter().map(u64::to_string).collect();
    match numbers.as_slice() {
        [] => "a new process forwards\n".to_owned(),
        numbers => format!(
            "a new process forwards; its files replace what `weir set` changed: {}\n",
            numbers.join(", ")
        ),
    }
}
