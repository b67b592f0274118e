//! The process of reservations, started by `weir up` and by nothing else.
//!
//! It speaks RSVP with the neighbours of a router or bridge (`node.rs`), admits reservations, and
//! lets each that is admitted join the link as a class (`classes.rs`), as `weir class` does. It
//! opens no file and no socket: sockets come over a channel, and so does each connection to the
//! control socket. Before the first message it gives up what it could do beyond that. When its
//! keeper ends, it ends, and the classes stay: the next process takes them over, or lets them go.

mod classes;
mod desk;
mod node;
mod policy;
mod shown;

use crate::keeper::messages::PROTOCOL;
use crate::keeper::rsvp::{FromRsvp, RsvpPlan, ToRsvp};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use weir_host::channel::Channel;
use weir_host::error::SystemError;
use weir_host::precedence::set_niceness;
use weir_host::rsvp::{BridgeNetwork, Descriptors, KernelNetwork, LinkNetwork};
use weir_host::sandbox::{self, SandboxConfig, User};
use weir_host::watch::Waker;

/// What the process has once it has given up every right.
struct Prepared {
    plan: RsvpPlan,
    network: LinkNetwork,
    /// The forwarder asks for sessions here.
    questions: Channel,
    /// What the thread of classes wakes the loop by: made before no socket can be.
    bell: Arc<Waker>,
}

/// Takes reservations as a keeper says over a channel, which speaks this version, until it is
/// closed.
///
/// # Errors
/// When that is not possible; the keeper is told why.
pub fn run(protocol: u32, channel: OwnedFd) -> Result<(), String> {
    let copy = channel.try_clone().map_err(|error| error.to_string())?;
    let (keeper, speaker) = (Channel::from(channel), Channel::from(copy));
    let ran = prepare(&keeper, protocol).and_then(|prepared| {
        // Without a keeper nobody hears it.
        let _unheard = keeper.send(&FromRsvp::Ready, &[]);
        node::run(prepared, keeper)
    });
    ran.inspect_err(|why| {
        let _unheard = speaker.send(&FromRsvp::Failed(why.clone()), &[]);
    })
}

/// Reads what to run, and gives up every right.
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
    // Frames go first. Where that is not allowed, the process does all the same.
    let _as_before = set_niceness(NICENESS);
    // By the number of this process and not of the keeper: who has the user of another process may
    // end that.
    let own = User::OfLink(std::process::id());
    let user = plan.user.as_deref().map_or(own, User::Named);
    sandbox::drop_capabilities(user, false).map_err(text)?;
    let network = network(&plan, descriptors).map_err(text)?;
    let bell = Arc::new(Waker::new().map_err(text)?);
    sandbox::enter(&SandboxConfig { locks_memory: false, ..SandboxConfig::default() })
        .map_err(text)?;
    Ok(Prepared { plan: *plan, network, questions: Channel::from(questions), bell })
}

fn network(plan: &RsvpPlan, sockets: Vec<OwnedFd>) -> Result<LinkNetwork, SystemError> {
    if let Some(bridge) = &plan.bridge {
        return BridgeNetwork::new(bridge, sockets).map(LinkNetwork::Bridge);
    }
    let sockets = Descriptors::from_parts(sockets)?;
    KernelNetwork::new(sockets, &plan.interfaces).map(LinkNetwork::Router)
}

/// How long the keeper may take to say what to run.
const PATIENCE: Duration = Duration::from_secs(10);
/// Messages of neighbours may wait; frames may not.
const NICENESS: i32 = 5;
