//! `weir stop`: ends a running link.

use crate::output::{Exit, Format, Output};
use crate::{Run, link};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_control::client;
use weir_control::protocol::Query;
use weir_host::process::Process;

/// Ends a running link, and waits until it has ended.
///
/// As Ctrl-C at `weir up` does it: packets that wait are sent first, for at most the `drain` of the
/// deployment, then the interfaces are as they were before. A link that systemd runs is ended by
/// `systemctl stop weir@NAME`, or it comes back. Only root and the user who runs the link may.
/// Exits 2 if no such link runs, or it does not end within --patience.
#[derive(clap::Args)]
#[command(override_usage = "weir stop [OPTIONS] [NAME|--control <SOCKET>]")]
pub struct Stop {
    /// The name of the deployment, not its file; not needed where only one link runs.
    name: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Wait for its end for at most so long.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = weir_cli::time::time)]
    patience: Duration,
}

impl Run for Stop {
    fn run(self, output: &Output) -> Exit {
        let socket = link::socket(self.name.as_deref(), self.control.as_ref(), "stop");
        match socket.and_then(|socket| stop(&socket, self.patience)) {
            Ok(keeper) => {
                match output.format {
                    Format::Text => output.text("the link has ended\n"),
                    Format::Json => output.json(&json!({ "stopped": true, "process": keeper })),
                }
                Exit::Clean
            }
            Err(why) => output.refuse(&why),
        }
    }
}

/// Returns the keeper of a link, or its forwarder where the keeper is gone.
fn find(socket: &Path) -> Result<Process, String> {
    let stream = client::connect(socket)?;
    if let Ok(keeper) = Process::listener(&stream) {
        return Ok(keeper);
    }
    drop(stream);
    let status = client::status(socket, &Query::default())?;
    let processes = status.processes.ok_or("the link is a part of another program; end that")?;
    Process::of(processes.keeper.unwrap_or(processes.forwarder))
        .map_err(|error| format!("{error}; the link may run in another container: stop it there"))
}

/// Ends the process that listens at a control socket; returns its number.
fn stop(socket: &Path, patience: Duration) -> Result<u32, String> {
    let mut process = find(socket)?;
    let number = process.number();
    process.terminate().map_err(|error| {
        format!("{error}; only root and the user who runs the link may stop it")
    })?;
    match process.wait_for(patience) {
        true => Ok(number),
        false => Err(format!(
            "process {number} was told to end and goes on after {patience:?}; `weir status` shows \
             what it does, and `kill -9 {number}` ends it at once"
        )),
    }
}
