//! The forwarder: the process that carries the traffic, started by `weir up` and by nothing else.
//!
//! It opens no file and no interface: what to run comes over a channel, and what needs a privilege
//! its keeper does. Before it reads a policy it gives up its privileges, and before the first frame
//! passes all else that it could do ([`phases`]). Then the first thread listens to the keeper
//! (`attend.rs`), and each bridge has a thread of its own. If the keeper dies without a word,
//! everything goes on.

mod attend;
mod control_listener;
mod forwarder;
pub mod phases;
mod policies;
mod questions;
mod recording;
mod report;

use crate::keeper::messages::{PROTOCOL, Report};
use phases::{Inherited, Sandboxed, Stop};
use std::os::fd::OwnedFd;
use weir_host::channel::Channel;
use weir_host::error::Result;

/// Forwards what a keeper says, which speaks this version: over one channel it is asked for what
/// needs a privilege, over the other it says what to do.
///
/// # Errors
/// When a bridge fails, or the keeper cannot be told why nothing could begin.
pub fn run(protocol: u32, authority: OwnedFd, commands: OwnedFd) -> Result<()> {
    let (authority, keeper) = (Channel::from(authority), Channel::from(commands));
    match prepare(protocol, authority, &keeper) {
        Ok(forwarder) => forwarder.run(keeper),
        Err(Stop::Reported) => Ok(()),
        // If the keeper has ended, the reason is lost.
        Err(Stop::Failed(why)) => keeper.send(&Report::Failed(why), &[]),
    }
}

fn prepare(
    protocol: u32,
    authority: Channel,
    keeper: &Channel,
) -> std::result::Result<Sandboxed, Stop> {
    if protocol != PROTOCOL {
        let why = format!("this program speaks version {PROTOCOL}, its keeper {protocol}");
        return Err(Stop::Failed(why));
    }
    Inherited::new(authority)?.plan(keeper)?.give_up()?.open(keeper)?.enter()
}
