//! `weir forward`: the process that carries the traffic, started by `weir up` and by nothing else.

use crate::Run;
use crate::output::{Exit, Output};
use std::os::fd::RawFd;
use weir_daemon::forward;
use weir_host::process::inherited;

/// Forwards for a `weir up`, which starts it.
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Forward {
    /// The version of what the two processes tell each other.
    #[arg(long)]
    protocol: u32,
    /// The descriptor on which it asks for what needs a privilege.
    #[arg(long)]
    authority: RawFd,
    /// The descriptor on which it is told what to do.
    #[arg(long)]
    commands: RawFd,
}

impl Run for Forward {
    fn run(self, output: &Output) -> Exit {
        let channels = inherited(self.authority)
            .and_then(|authority| Ok((authority, inherited(self.commands)?)));
        match channels {
            Ok((authority, commands)) => match forward::run(self.protocol, authority, commands) {
                Ok(()) => Exit::Clean,
                // Its keeper knows why.
                Err(_) => Exit::Usage,
            },
            Err(error) => output.refuse(&format!("only `weir up` starts this: {error}")),
        }
    }
}
