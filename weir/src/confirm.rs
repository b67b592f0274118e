//! `weir confirm`: lets a change stay that is on trial.

use crate::Run;
use crate::change;
use crate::output::{Exit, Output};
use std::path::PathBuf;
use weir_control::protocol::Request;

/// Lets the last change of a running link stay, which `--confirm` or `--guard` would undo.
#[derive(clap::Args)]
#[command(override_usage = "weir confirm [OPTIONS] <NAME|--control <SOCKET>>")]
pub struct Confirm {
    /// The name of the deployment; needed unless there is a `--control`.
    #[arg(required_unless_present = "control")]
    name: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
}

impl Run for Confirm {
    fn run(self, output: &Output) -> Exit {
        let name = self.name.unwrap_or_default();
        change::done(output, &name, self.control.as_ref(), &Request::Confirm {})
    }
}
