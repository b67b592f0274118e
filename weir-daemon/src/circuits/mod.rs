//! The process of circuits, started by `weir up` and by nothing else.
//!
//! It hears which circuits there are, from a file, by the API or by RADIUS accounting (`feed.rs`,
//! `accounting.rs`), keeps them (`table.rs`), and lets each join the link as a class (`link.rs`),
//! as `weir class` does. It opens no file and no socket: they come over a channel, and so does each
//! connection to the control socket. Before it reads what others say it gives up every other right.
//! When its keeper ends, it ends, and the classes stay: the next process learns from them which
//! circuits there are.

pub mod accounting;
pub mod feed;
pub mod foreseen;
mod link;
mod radius;
mod server;
mod table;
mod ways;

use crate::companion;
use crate::keeper::circuits::{FromCircuits, ToCircuits};
use crate::keeper::messages::PROTOCOL;
use server::Prepared;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use weir_host::channel::Channel;
use weir_host::error::SystemError;
use weir_host::watch::Waker;

/// Runs the process for the keeper at the other end of the channel, which has this version of the
/// protocol, until the channel is closed.
///
/// # Errors
/// When that is not possible; the keeper gets the reason.
pub fn run(protocol: u32, channel: OwnedFd) -> Result<(), String> {
    let copy = channel.try_clone().map_err(|error| error.to_string())?;
    let (keeper, speaker) = (Channel::from(channel), Channel::from(copy));
    let ran = prepare(&keeper, protocol).and_then(|prepared| {
        // If the keeper has ended, the process ends, too.
        let _unheard = keeper.send(&FromCircuits::Ready, &[]);
        server::run(prepared, keeper)
    });
    ran.inspect_err(|why| {
        let _unheard = speaker.send(&FromCircuits::Failed(why.clone()), &[]);
    })
}

/// Receives the plan, and gives up every right.
fn prepare(keeper: &Channel, protocol: u32) -> Result<Prepared, String> {
    if protocol != PROTOCOL {
        return Err(format!("this program speaks version {PROTOCOL}, its keeper {protocol}"));
    }
    let text = |error: SystemError| error.to_string();
    let Some((ToCircuits::Begin(plan), descriptors)) = keeper.receive(PATIENCE).map_err(text)?
    else {
        return Err("the keeper does not say what to run".to_owned());
    };
    let mut descriptors = descriptors.into_iter();
    let questions = descriptors.next().ok_or("the keeper gives no channel")?;
    let socket = descriptors.next().map(UdpSocket::from);
    companion::give_up_rights(plan.user.as_deref())?;
    let waker = Arc::new(Waker::new().map_err(text)?);
    companion::enter_sandbox()?;
    Ok(Prepared { plan: *plan, socket, questions: Channel::from(questions), waker })
}

/// How long the keeper may take to send the plan.
const PATIENCE: Duration = Duration::from_secs(10);
