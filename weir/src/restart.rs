//! `weir restart`: has a running link begin anew from its file, without a gap.

use crate::Run;
use crate::output::{Exit, Format, Output};
use serde_json::json;
use std::path::PathBuf;
use weir_control::client;
use weir_control::places::Places;
use weir_control::protocol::{Answer, Request};

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
        match socket.and_then(|socket| client::call(&socket, &Request::Restart {})) {
            Ok(Answer::Done) => {
                match output.format {
                    Format::Text => output.text(
                        "a new process forwards
",
                    ),
                    Format::Json => output.json(&json!({ "restarted": true })),
                }
                Exit::Clean
            }
            Ok(Answer::Error(why)) | Err(why) => output.refuse(&why),
            Ok(_) => output.refuse("the link gave another answer than asked for"),
        }
    }
}
