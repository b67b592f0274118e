//! The process of the gateway, started by `weir up` and by nothing else.
//!
//! It opens no file and no socket: the addresses come over a channel, and so does each connection
//! to the control socket. Before the first client it gives up what it could do beyond that. When
//! its keeper ends, it ends.

mod contact;

use crate::api::Api;
use crate::http::guard::Site;
use crate::http::serve::{Endpoint, Refusal, Server, listener, runtime};
use crate::http::talk::Patience;
use crate::live::Live;
use crate::page::{self, Page};
use crate::site::Web;
use crate::source::{Contact, link};
use axum::Router;
use contact::ByKeeper;
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use weir_control::client::call_on;
use weir_control::gateway::{Api as Address, FromGateway, GatewayPlan, PROTOCOL, ToGateway};
use weir_control::protocol::{Request, Right};
use weir_host::channel::Channel;
use weir_host::precedence::set_niceness;
use weir_host::sandbox::{self, SandboxConfig, User};

/// Serves what a keeper says over a channel, which speaks this version, until it is closed.
///
/// # Errors
/// When it cannot be served; the keeper is told why.
pub fn run(protocol: u32, channel: OwnedFd) -> Result<(), String> {
    let copy = channel.try_clone().map_err(|error| error.to_string())?;
    let keeper = Channel::from(channel);
    let prepared = prepare(&keeper, protocol).inspect_err(|why| {
        // If the keeper has ended, the reason is lost.
        let _unheard = keeper.send(&FromGateway::Failed(why.clone()), &[]);
    })?;
    let speaker = copy.try_clone().map_err(|error| error.to_string())?;
    let _serving = prepared.serve(keeper, Channel::from(speaker))?;
    wait_for_end(&copy);
    Ok(())
}

/// A gateway that can do nothing but serve.
struct Prepared {
    plan: GatewayPlan,
    api: Option<(Arc<Web>, OwnedFd)>,
    page: Option<(Arc<Web>, OwnedFd)>,
    runtime: Runtime,
}

/// Reads what to serve, and gives up every right.
fn prepare(keeper: &Channel, protocol: u32) -> Result<Prepared, String> {
    if protocol != PROTOCOL {
        return Err(format!("this program speaks version {PROTOCOL}, its keeper {protocol}"));
    }
    let text = |error: weir_host::error::SystemError| error.to_string();
    let Some((ToGateway::Begin(plan), descriptors)) = keeper.receive(PATIENCE).map_err(text)?
    else {
        return Err("the keeper does not say what to serve".to_owned());
    };
    // The link itself goes first. Where that is not allowed, the gateway serves all the same.
    let _as_before = set_niceness(NICENESS);
    // By the number of this process and not of the keeper: who has the user of another process may
    // end that.
    let own = User::OfLink(std::process::id());
    let user = plan.user.as_deref().map_or(own, User::Named);
    sandbox::drop_capabilities(user, false).map_err(text)?;
    let mut listeners = descriptors.into_iter();
    let mut site = |address: &Option<Address>| {
        let Some(address) = address else { return Ok(None) };
        let listener = listeners.next().ok_or("the keeper gives no listener")?;
        Ok::<_, String>(Some((Arc::new(Web::new(address)?), listener)))
    };
    let (api, page) = (site(&plan.api)?, site(&plan.page)?);
    // The descriptor by which it waits is made before none can be made.
    let runtime = runtime().map_err(|error| error.to_string())?;
    let config = SandboxConfig { locks_memory: false, waits_by_epoll: true };
    sandbox::enter(&config).map_err(text)?;
    Ok(Prepared { plan: *plan, api, page, runtime })
}

/// The running server; it ends when this is dropped.
struct Serving {
    _server: Server,
}

impl Prepared {
    /// Serves clients and viewers.
    fn serve(self, keeper: Channel, speaker: Channel) -> Result<Serving, String> {
        let text = |error: std::io::Error| error.to_string();
        let Self { plan, api: of_api, page: of_page, runtime } = self;
        let _unheard = keeper.send(&FromGateway::Ready, &[]);
        runtime.spawn(beat(speaker));
        let by_keeper = ByKeeper::new(keeper);
        let viewers: Arc<dyn Contact> = Arc::new(by_keeper.for_viewers());
        let contact: Arc<dyn Contact> = Arc::new(by_keeper);
        let mut endpoints = Vec::new();
        if let Some(at) = of_api {
            let site = Site::Web(Arc::clone(&at.0));
            let api = Api::new(&plan.name, Arc::clone(&contact), site);
            let (refused, refusals) = mpsc::channel(REFUSALS_MAX);
            runtime.spawn(report_refusals(Arc::clone(&contact), refusals));
            let endpoint = endpoint(at, api.router(), API_CLIENTS_MAX).map_err(text)?;
            endpoints.push(Endpoint { refused: Some(refused), ..endpoint });
        }
        if let Some(at) = of_page {
            let site = || Site::Web(Arc::clone(&at.0));
            let api = Api::new(&plan.name, Arc::clone(&viewers), site());
            let live = Arc::new(Live::start(&plan.name, viewers).map_err(text)?);
            let page = Page::new(live, Some(api), site());
            endpoints.push(endpoint(at, page.router(), page::CLIENTS_MAX).map_err(text)?);
        }
        Ok(Serving { _server: Server::start(runtime, endpoints).map_err(text)? })
    }
}

/// Returns the endpoint at a listener that the keeper bound.
fn endpoint(
    (web, descriptor): (Arc<Web>, OwnedFd),
    router: Router,
    clients_max: usize,
) -> std::io::Result<Endpoint> {
    let (listener, patience) = (listener(descriptor)?, Patience::default());
    Ok(Endpoint { listener, web, router, clients_max, patience, refused: None })
}

/// Gives the keeper a sign of life now and then, from the thread that serves.
async fn beat(keeper: Channel) {
    loop {
        // A keeper that does not receive looks again.
        let _unheard = keeper.send(&FromGateway::Beat, &[]);
        tokio::time::sleep(BEAT_GAP).await;
    }
}

/// Reports clients of the API that were refused here to the link, which makes events of them.
async fn report_refusals(contact: Arc<dyn Contact>, mut refusals: mpsc::Receiver<Refusal>) {
    while let Some((cause, text)) = refusals.recv().await {
        let contact = Arc::clone(&contact);
        // A link that does not answer has no event of it.
        let tell = move || -> Result<(), String> {
            let stream = link(contact.as_ref(), Right::Change)?;
            call_on(&stream, &Request::Refused { cause, text }).map(drop)
        };
        let _untold = tokio::task::spawn_blocking(tell).await;
    }
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

/// Bound: clients of the API at once; further ones are told to try again.
const API_CLIENTS_MAX: usize = 16;
/// Bound: refusals that wait to be told; further ones are not told.
const REFUSALS_MAX: usize = 64;
/// How long the keeper may take to say what to serve.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two signs of life.
const BEAT_GAP: Duration = Duration::from_secs(1);
/// A client may wait; frames may not.
const NICENESS: i32 = 10;
