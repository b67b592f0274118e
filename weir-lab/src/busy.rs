//! Busy processes, as other work on a machine: one on each processor, each in a session of its own,
//! with ordinary niceness.

use std::process::Command;
use weir_host::error::SystemError;
use weir_host::precedence::{NICENESS_FIRST, set_niceness};
use weir_testbed::Process;

/// Busy processes; they end when this is dropped, or with the thread that started them.
pub struct Busy(Vec<Process>);

impl Busy {
    /// Starts a busy process on each of the first `count` processors.
    ///
    /// # Errors
    /// When a program of util-linux is missing.
    pub fn start(count: usize) -> Result<Self, SystemError> {
        // A process inherits the precedence of the thread that starts it.
        drop(set_niceness(0));
        let mut started = Self(Vec::new());
        let outcome = (0..count).try_for_each(|processor| {
            started.0.push(start(processor)?);
            Ok(())
        });
        drop(set_niceness(NICENESS_FIRST));
        outcome.map(|()| started)
    }
}

fn start(processor: usize) -> Result<Process, SystemError> {
    let mut command = Command::new("setsid");
    command.args(["setpriv", "--pdeathsig", "KILL", "taskset", "-c", &processor.to_string()]);
    command.args(["sh", "-c", "while :; do :; done"]);
    Process::start(&mut command).map_err(|why| {
        SystemError::refused("start a busy process", why.to_string(), "install util-linux")
    })
}
