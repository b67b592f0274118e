//! The gateway of a link, as its keeper sees it: a process of its own, which gets the addresses of
//! API and page and connections to the control socket, and nothing else. Whatever becomes of it,
//! the link goes on.

use super::child::{Child, MESSAGES_MAX};
use super::console::Console;
use crate::supervisor::interface::{Followed, Pid};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_control::access;
use weir_control::client;
use weir_control::gateway::{self, Api, FromGateway, GatewayPlan, PROTOCOL, ToGateway};
use weir_control::protocol::Right;
use weir_host::error::SystemError;
use weir_policy::deployment::Deployment;

/// The gateway of a link, if its deployment has a page or an API.
pub struct Gateway {
    control: PathBuf,
    /// Before the sockets that it has: dropped first.
    running: Option<Child>,
    shown: Option<Shown>,
}

/// The plan of a gateway, with the sockets that it listens on.
struct Shown {
    plan: GatewayPlan,
    /// Of the API, and of the page.
    listeners: [Option<TcpListener>; 2],
    /// The file with its address and token, if the token was made for it.
    file: Option<TokenFile>,
}

/// The file of a token, which goes with the gateway.
struct TokenFile(PathBuf);

/// The signs of the process of the gateway since the last call.
#[derive(Default)]
pub struct Signs {
    /// It said something.
    pub is_alive: bool,
    /// Which process died and why, if it did.
    pub died: Option<(Pid, String)>,
}

impl Gateway {
    /// The gateway that a deployment wants; it does not run yet.
    ///
    /// # Errors
    /// When an address cannot be bound, or the token of the page cannot be written; the text says
    /// what to do.
    pub fn prepare(
        deployment: &Deployment,
        api: Option<&Api>,
        control: &Path,
    ) -> Result<Self, String> {
        let control = control.to_owned();
        let mut gateway = Self { control, shown: None, running: None };
        gateway.show(deployment, api)?;
        Ok(gateway)
    }

    /// Has the gateway follow a deployment that was read anew; one that the deployment does not
    /// want is ended.
    ///
    /// # Errors
    /// As [`Gateway::prepare`].
    pub fn follow(
        &mut self,
        deployment: &Deployment,
        api: Option<&Api>,
    ) -> Result<Followed, String> {
        let is_other = self.show(deployment, api)?;
        Ok(match (&self.shown, is_other) {
            (None, _) => Followed::Unwanted,
            (Some(_), false) => Followed::Same,
            (Some(_), true) => Followed::Other,
        })
    }

    /// Takes over what a deployment says of page and API; returns whether that is another than
    /// before.
    fn show(&mut self, deployment: &Deployment, api: Option<&Api>) -> Result<bool, String> {
        let mut old = self.shown.take();
        let page = deployment.web.map(|listen| page_api(listen, api, old.as_ref())).transpose()?;
        let plan = GatewayPlan {
            name: deployment.name.clone(),
            user: deployment.service.user.clone(),
            api: api.cloned(),
            page,
        };
        if old.as_ref().is_some_and(|old| old.plan == plan) {
            self.shown = old;
            return Ok(false);
        }
        self.stop();
        // Clients that wait at an address that stays are served by the next process.
        let kept = old.as_mut().map(Shown::take_listeners).unwrap_or_default();
        // A file of the same name is not removed later.
        let was_there = old.take().is_some();
        if plan.api.is_none() && plan.page.is_none() {
            return Ok(was_there);
        }
        self.shown = Some(Shown::new(plan, kept, &self.control)?);
        Ok(true)
    }

    /// Checks that the addresses can be bound which a deployment has and this gateway has not.
    ///
    /// # Errors
    /// When one cannot be; the text says what to do.
    pub fn check(&self, deployment: &Deployment, api: Option<&Api>) -> Result<(), String> {
        let addresses = |shown: &Shown| {
            [&shown.plan.api, &shown.plan.page].map(|api| Some(api.as_ref()?.listen))
        };
        let held = self.shown.as_ref().map(addresses).unwrap_or_default();
        let wanted = [
            (api.map(|api| api.listen), "`listen` in [deployment.api]"),
            (deployment.web, "`web` in [deployment]"),
        ];
        for (listen, key) in wanted {
            let Some(listen) = listen.filter(|listen| !held.contains(&Some(*listen))) else {
                continue;
            };
            bind(listen).map_err(|error| cannot_listen(listen, &error, key))?;
        }
        Ok(())
    }

    /// Prints where it is.
    pub fn report_address(&self, console: &dyn Console) {
        let Some(Shown { plan, listeners: [_, Some(listener)], .. }) = &self.shown else { return };
        let is_tls = plan.page.as_ref().is_some_and(|page| page.certificate.is_some());
        let scheme = if is_tls { "https" } else { "http" };
        if let Ok(address) = listener.local_addr() {
            let name = &plan.name;
            let text = format!(
                "a page shows the link at {scheme}://{address}/; `weir view {name}` tells its token"
            );
            console.report("note", &text);
        }
    }

    /// Starts the process, in place of one that runs.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(&mut self) -> Result<(), SystemError> {
        self.stop();
        let Some(shown) = &self.shown else { return Ok(()) };
        let running = Child::start("gateway", PROTOCOL)?;
        let begin = ToGateway::Begin(Box::new(shown.plan.clone()));
        let listeners: Vec<_> = shown.listeners.iter().flatten().map(AsFd::as_fd).collect();
        let sent = running.send(&begin, &listeners);
        self.running = Some(running);
        sent
    }

    /// Kills the process, and waits until it has ended.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Returns what to watch: its end, and what it asks for.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.iter().flat_map(Child::descriptors)
    }

    /// Ends the process, which hangs.
    pub fn end_hung(&mut self, why: String) {
        if let Some(running) = &mut self.running {
            running.end(why);
        }
    }

    /// Gives the gateway what it asks for; returns what it said meanwhile.
    pub fn serve(&mut self) -> Signs {
        let Some(running) = &mut self.running else { return Signs::default() };
        let is_alive = meet(running, &self.control);
        let ended = running.ended();
        if ended.is_some() {
            // Its last words.
            meet(running, &self.control);
        }
        let died = ended.map(|how| running.cause_of_death(how));
        if died.is_some() {
            self.running = None;
        }
        Signs { is_alive, died }
    }
}

/// Acts on what a gateway says; returns whether it gave a sign of life.
fn meet(running: &mut Child, control: &Path) -> bool {
    let mut is_alive = false;
    for _ in 0..MESSAGES_MAX {
        let Some(said) = running.receive::<FromGateway>() else { break };
        is_alive = true;
        match said.sanitise() {
            FromGateway::Ready | FromGateway::Beat => {}
            FromGateway::Failed(why) => running.fail(why),
            FromGateway::Connect { number, right, is_viewer } => {
                // Neither waits. One that has ended misses nothing.
                let _ended = match connect(control, (right, is_viewer)) {
                    Ok(link) => {
                        running.send(&ToGateway::Connection(number, Ok(())), &[link.as_fd()])
                    }
                    Err(why) => running.send(&ToGateway::Connection(number, Err(why)), &[]),
                };
            }
        }
    }
    is_alive
}

/// Connects to the link for a client of the API with this right: before the gateway has the
/// connection, it is not the keeper's any more.
fn connect(control: &Path, (right, keeps_user): (Right, bool)) -> Result<UnixStream, String> {
    let link = client::connect(control)?;
    client::begin_on_behalf(&link, right, keeps_user)
        .map_err(|error| format!("the link does not answer: {error}"))?;
    Ok(link)
}

impl Shown {
    fn new(
        plan: GatewayPlan,
        kept: Vec<(SocketAddr, TcpListener)>,
        control: &Path,
    ) -> Result<Self, String> {
        let mut kept = kept;
        let mut listener = |api: Option<&Api>, key: &str| {
            let Some(api) = api else { return Ok(None) };
            if let Some(at) = kept.iter().position(|(listen, _)| *listen == api.listen) {
                return Ok(Some(kept.swap_remove(at).1));
            }
            bind(api.listen).map(Some).map_err(|error| cannot_listen(api.listen, &error, key))
        };
        let listeners = [
            listener(plan.api.as_ref(), "`listen` in [deployment.api]")?,
            listener(plan.page.as_ref(), "`web` in [deployment]")?,
        ];
        let ([_, Some(listener)], Some(page), None) = (&listeners, &plan.page, &plan.api) else {
            return Ok(Self { plan, listeners, file: None });
        };
        let address = listener.local_addr().unwrap_or(page.listen);
        let path = access::token_file(control);
        let url = access::url(address, false, &page.token);
        access::write(&path, &url)
            .map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
        Ok(Self { plan, listeners, file: Some(TokenFile(path)) })
    }

    /// Returns the listeners, each with the address that was asked for.
    fn take_listeners(&mut self) -> Vec<(SocketAddr, TcpListener)> {
        let addresses = [&self.plan.api, &self.plan.page].map(|api| Some(api.as_ref()?.listen));
        let listeners = self.listeners.iter_mut().map(Option::take);
        addresses.into_iter().zip(listeners).filter_map(|(listen, own)| listen.zip(own)).collect()
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // It may be gone.
        drop(std::fs::remove_file(&self.0));
    }
}

/// Returns how the page is reached: as the API, if there is one, or by a token that is made for it.
fn page_api(listen: SocketAddr, api: Option<&Api>, old: Option<&Shown>) -> Result<Api, String> {
    if let Some(api) = api {
        return Ok(Api { listen, ..api.clone() });
    }
    // A page that is open goes on with its token.
    let old = old.filter(|old| old.file.is_some()).and_then(|old| old.plan.page.as_ref());
    let made = old.map(|page| page.token.clone());
    let token = made.map_or_else(access::fresh, Ok)?;
    Ok(access::of_token(listen, token))
}

fn cannot_listen(listen: SocketAddr, error: &io::Error, key: &str) -> String {
    format!("cannot listen on {listen}: {error}; set another {key}")
}

/// Binds an address. The gateway of a keeper that died may hold it for a moment.
fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    for _ in 0..TRIES_MAX {
        match gateway::bind(listen) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(TRY_PAUSE),
            bound => return bound,
        }
    }
    gateway::bind(listen)
}

const TRIES_MAX: usize = 5;
const TRY_PAUSE: Duration = Duration::from_millis(50);
