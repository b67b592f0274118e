//! The process of the page, started by `weir up` and by nothing else.
//!
//! It opens no file and no socket: the address comes over a channel, and so does each connection to
//! the control socket. Before the first viewer it gives up what it could do beyond that. When its
//! keeper ends, it ends.

mod contact;

use crate::keeper::messages::PROTOCOL;
use crate::keeper::page::{FromPage, PagePlan, ToPage};
use contact::ByKeeper;
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use weir_control::web::Web as Site;
use weir_host::channel::Channel;
use weir_host::precedence::set_niceness;
use weir_host::sandbox::{self, SandboxConfig, User};
use weir_view::live::Live;
use weir_view::server::Server;

/// Shows what a keeper says over a channel, which speaks this version, until it is closed.
///
/// # Errors
/// When it cannot be shown; the keeper is told why.
pub fn run(protocol: u32, channel: OwnedFd) -> Result<(), String> {
    let copy = channel.try_clone().map_err(|error| error.to_string())?;
    let keeper = Channel::from(channel);
    let shown = prepare(&keeper, protocol).inspect_err(|why| {
        // Without a keeper nobody hears it.
        let _unheard = keeper.send(&FromPage::Failed(why.clone()), &[]);
    })?;
    let _server = serve(shown, keeper)?;
    wait_for_end(&copy);
    Ok(())
}

/// Reads what to show, and gives up every right.
fn prepare(keeper: &Channel, protocol: u32) -> Result<(PagePlan, Site), String> {
    if protocol != PROTOCOL {
        return Err(format!("this program speaks version {PROTOCOL}, its keeper {protocol}"));
    }
    let text = |error: weir_host::error::SystemError| error.to_string();
    let Some((ToPage::Begin(plan), mut descriptors)) = keeper.receive(PATIENCE).map_err(text)?
    else {
        return Err("the keeper does not say what to show".to_owned());
    };
    let listener = descriptors.pop().ok_or("the keeper gives no listener")?;
    // The link itself goes first. Where that is not allowed, the page does all the same.
    let _as_before = set_niceness(NICENESS);
    // By the number of this process and not of the keeper: who has the user of another process may
    // end that.
    let own = User::OfLink(std::process::id());
    let user = plan.user.as_deref().map_or(own, User::Named);
    sandbox::drop_capabilities(user, false).map_err(text)?;
    let site = Site::new(listener, &plan.api)?;
    sandbox::enter(&SandboxConfig { locks_memory: false }).map_err(text)?;
    Ok((*plan, site))
}

/// Shows the link to viewers.
fn serve((plan, site): (PagePlan, Site), keeper: Channel) -> Result<Server, String> {
    let text = |error: std::io::Error| error.to_string();
    let _unheard = keeper.send(&FromPage::Ready, &[]);
    let live = Live::start(&plan.name, Arc::new(ByKeeper::new(keeper))).map_err(text)?;
    Server::start(site, Arc::new(live)).map_err(text)
}

/// Waits until the other end of the channel is closed. What comes on it is for others.
fn wait_for_end(channel: &OwnedFd) {
    loop {
        let mut watched = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::empty())];
        // An interrupted wait is tried again.
        if poll(&mut watched, None).is_ok() && !watched[0].revents().is_empty() {
            return;
        }
    }
}

/// How long the keeper may take to say what to show.
const PATIENCE: Duration = Duration::from_secs(10);
/// A page may wait; frames may not.
const NICENESS: i32 = 10;
