//! `weir circuits`: the process of circuits, started by `weir up` and by nothing else.

use crate::Run;
use crate::output::{Exit, Output};
use std::os::fd::RawFd;
use weir_daemon::circuits;
use weir_host::process::inherited;

/// Hears of circuits for a `weir up`, which starts it.
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Circuits {
    /// The version of what the two processes tell each other.
    #[arg(long)]
    protocol: u32,
    /// The descriptor on which it is told what to do.
    #[arg(long)]
    channel: RawFd,
}

impl Run for Circuits {
    fn run(self, output: &Output) -> Exit {
        match inherited(self.channel) {
            Ok(channel) => match circuits::run(self.protocol, channel) {
                Ok(()) => Exit::Clean,
                // Its keeper knows why.
                Err(_) => Exit::Usage,
            },
            Err(error) => output.refuse(&format!("only `weir up` starts this: {error}")),
        }
    }
}
