//! `weir snapshot`: writes what a running link did of late to a file.

use crate::Run;
use crate::output::{Exit, Output};
use crate::record::{Link, save};
use std::path::PathBuf;
use weir_control::protocol::Request;

/// Writes what a running link did of late to a file: a record as `weir record` makes it.
///
/// The link must keep it: `ring = "64 MiB"` in `[deployment]`. Exits 2 if it does not.
#[derive(clap::Args)]
#[command(override_usage = "weir snapshot [OPTIONS] <NAME|--control <SOCKET>> -o <FILE>")]
pub struct Snapshot {
    /// The name of the deployment, not its file; needed unless there is a `--control`.
    #[arg(required_unless_present = "control")]
    name: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// The file; one that exists is replaced. `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl Run for Snapshot {
    fn run(self, output: &Output) -> Exit {
        let link = Link { name: self.name, control: self.control };
        save(&link, &Request::Snapshot {}, &self.output, output)
    }
}
