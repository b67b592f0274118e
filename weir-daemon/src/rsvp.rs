//! The process of reservations, started by `weir up` and by nothing else.
//!
//! It speaks RSVP with the neighbours of a router or bridge (`node.rs`), admits reservations, and
//! lets each that is admitted join the link as a class (`classes.rs`), as `weir class` does. It
//! opens no file and no socket: sockets come over a channel, and so does each connection to the
//! control socket. Before the first message it gives up every other right. When its
//! keeper ends, it ends, and the classes stay: the next process takes them over, or removes them.

mod classes;
mod node;
mod policy;
mod status;
mod traffic_control;

use crate::companion;
use crate::keeper::messages::PROTOCOL;
use crate::keeper::rsvp::{FromRsvp, RsvpPlan, ToRsvp};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use weir_host::channel::Channel;
use weir_host::error::SystemError;
use weir_host::rsvp::{BridgeNetwork, Descriptors, KernelNetwork, LinkNetwork};
use weir_host::watch::Waker;

/// The resources of the process once it has given up every right.
struct Prepared {
    plan: RsvpPlan,
    network: LinkNetwork,
    /// The forwarder requests sessions by this channel.
    questions: Channel,
    /// Wakes the loop for the thread of classes; made before the sandbox forbids descriptors.
    waker: Arc<Waker>,
}

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
        let _unheard = keeper.send(&FromRsvp::Ready, &[]);
        node::run(prepared, keeper)
    });
    ran.inspect_err(|why| {
        let _unheard = speaker.send(&FromRsvp::Failed(why.clone()), &[]);
    })
}

/// Receives the plan, and gives up every right.
fn prepare(keeper: &Channel, protocol: u32) -> Result<Prepared, String> {
    if protocol != PROTOCOL {
        return Err(format!("this program speaks version {PROTOCOL}, its keeper {protocol}"));
    }
    let text = |error: SystemError| error.to_string();
    let Some((ToRsvp::Begin(plan), mut descriptors)) = keeper.receive(PATIENCE).map_err(text)?
    else {
        return Err("the keeper does not say what to run".to_owned());
    };
    if descriptors.is_empty() {
        return Err("the keeper gives no sockets".to_owned());
    }
    let questions: OwnedFd = descriptors.remove(0);
    companion::give_up_rights(plan.user.as_deref())?;
    let network = network(&plan, descriptors).map_err(text)?;
    let waker = Arc::new(Waker::new().map_err(text)?);
    companion::enter_sandbox()?;
    Ok(Prepared { plan: *plan, network, questions: Channel::from(questions), waker })
}

fn network(plan: &RsvpPlan, sockets: Vec<OwnedFd>) -> Result<LinkNetwork, SystemError> {
    if let Some(bridge) = &plan.bridge {
        return BridgeNetwork::new(bridge, sockets).map(LinkNetwork::Bridge);
    }
    let sockets = Descriptors::from_parts(sockets)?;
    KernelNetwork::new(sockets, &plan.interfaces).map(LinkNetwork::Router)
}

/// How long the keeper may take to send the plan.
const PATIENCE: Duration = Duration::from_secs(10);
