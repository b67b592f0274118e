//! The processes of a link that a test started.

use libtest_mimic::Failed;
use std::fs;
use std::process::{Child, Command};

/// Sends a signal to a process.
pub fn signal(process: u32, name: &str) -> Result<(), Failed> {
    let kill = Command::new("kill").args(["-s", name, &process.to_string()]).status()?;
    assert!(kill.success(), "the signal {name} was sent to {process}");
    Ok(())
}

/// Returns the children of a process, the oldest first.
pub fn children(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Ends a `weir up` for a test that failed before it could stop it. A forwarder would go on without
/// its keeper.
pub fn end(mut keeper: Child) {
    let forwarders = children(keeper.id());
    drop(keeper.kill());
    drop(keeper.wait());
    forwarders.into_iter().for_each(|process| drop(signal(process, "KILL")));
}
