//! The page on a link, as its keeper sees it: a process of its own, which gets the address and
//! connections to the control socket, and nothing else. Whatever becomes of it, the link goes on.

use super::console::Console;
use crate::keeper::messages::PROTOCOL;
use crate::keeper::page::{FromPage, PagePlan, ToPage};
use crate::supervisor::interface::{Followed, Pid};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_control::client;
use weir_control::web;
use weir_control::web::Api;
use weir_host::channel::Channel;
use weir_host::error::SystemError;
use weir_host::process::{self, Process};
use weir_policy::deployment::Deployment;
use weir_view::access;

/// The page of a link, if its deployment has one.
pub struct Page {
    /// The control socket.
    control: PathBuf,
    shown: Option<Shown>,
    running: Option<Running>,
}

/// What is shown, and where.
struct Shown {
    plan: PagePlan,
    listener: TcpListener,
    /// The file with its address and token, if the token was made for it.
    file: Option<TokenFile>,
}

/// The process.
struct Running {
    process: Process,
    channel: Channel,
    /// Whether it closed its end of the channel.
    is_silent: bool,
    failure: Option<String>,
}

/// The file of a token, which goes with the page.
struct TokenFile(PathBuf);

impl Page {
    /// The page that a deployment wants; it does not run yet.
    ///
    /// # Errors
    /// When its address cannot be bound, or its token cannot be written; the text says what to do.
    pub fn prepare(
        deployment: &Deployment,
        api: Option<&Api>,
        control: &Path,
    ) -> Result<Self, String> {
        let control = control.to_owned();
        let mut page = Self { control, shown: None, running: None };
        page.show(deployment, api)?;
        Ok(page)
    }

    /// Has the page follow a deployment that was read anew; one that the deployment does not want
    /// is ended.
    ///
    /// # Errors
    /// As [`Page::prepare`].
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

    /// Takes over what a deployment says of the page; returns whether that is another than before.
    fn show(&mut self, deployment: &Deployment, api: Option<&Api>) -> Result<bool, String> {
        let Some(listen) = deployment.web else {
            let was_there = self.shown.take().is_some();
            self.stop();
            return Ok(was_there);
        };
        let old = self.shown.take();
        let plan = PagePlan {
            name: deployment.name.clone(),
            user: deployment.service.user.clone(),
            api: page_api(listen, api, old.as_ref())?,
        };
        match old {
            Some(old) if old.plan == plan => {
                self.shown = Some(old);
                Ok(false)
            }
            old => {
                self.stop();
                // The same address is free again, and a file of the same name is not removed later.
                drop(old);
                self.shown = Some(Shown::new(plan, api.is_some(), &self.control)?);
                Ok(true)
            }
        }
    }

    /// Prints where it is.
    pub fn tell_address(&self, console: &dyn Console) {
        let Some(Shown { plan, listener, .. }) = &self.shown else { return };
        let scheme = if plan.api.certificate.is_some() { "https" } else { "http" };
        if let Ok(address) = listener.local_addr() {
            let name = &plan.name;
            let text = format!(
                "a page shows the link at {scheme}://{address}/; `weir view {name}` tells its token"
            );
            console.tell("note", &text);
        }
    }

    /// Starts the process, in place of one that runs.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(&mut self) -> Result<(), SystemError> {
        self.stop();
        let Some(shown) = &self.shown else { return Ok(()) };
        let (channel, theirs) = Channel::pair()?;
        let mut program = process::same_program();
        program.arg("web").args(["--protocol", &PROTOCOL.to_string()]);
        program.args(["--channel", &theirs.as_fd().as_raw_fd().to_string()]);
        let process = Process::start(program, &[theirs.as_fd()])?;
        let (is_silent, failure) = (false, None);
        let running = Running { process, channel, is_silent, failure };
        let begin = ToPage::Begin(Box::new(shown.plan.clone()));
        let sent = running.channel.send(&begin, &[shown.listener.as_fd()]);
        self.running = Some(running);
        sent
    }

    /// Ends the process.
    pub fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.process.kill();
            running.process.wait();
        }
    }

    /// Returns what to watch: its end, and what it asks for.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let running = self.running.iter();
        running.flat_map(|one| {
            let channel = (!one.is_silent).then(|| one.channel.as_fd());
            [Some(one.process.as_fd()), channel].into_iter().flatten()
        })
    }

    /// Gives the page what it asks for; returns its process and why it died, if it did.
    pub fn serve(&mut self) -> Option<(Pid, String)> {
        let control = self.control.clone();
        let running = self.running.as_mut()?;
        running.serve(&control);
        let how = running.process.ended()?;
        // Its last words.
        running.serve(&control);
        let pid = Pid(running.process.number());
        let why = running.failure.take().unwrap_or(how);
        self.running = None;
        Some((pid, why))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Running {
    /// Acts on what it says.
    fn serve(&mut self, control: &Path) {
        for _ in 0..ASKS_MAX {
            if self.is_silent {
                return;
            }
            match self.channel.receive::<FromPage>(Duration::ZERO) {
                Ok(None) => return,
                Ok(Some((said, _none))) => self.act(said.tame(), control),
                Err(error) => {
                    self.is_silent = true;
                    if error.cause.kind() == io::ErrorKind::InvalidData {
                        self.failure.get_or_insert(error.to_string());
                        self.process.kill();
                    }
                }
            }
        }
    }

    fn act(&mut self, said: FromPage, control: &Path) {
        match said {
            FromPage::Ready => {}
            FromPage::Failed(why) => self.failure = Some(why),
            FromPage::Connect => {
                // Connecting does not wait. One that has ended misses nothing.
                let _ended = match client::connect(control) {
                    Ok(link) => self.channel.send(&ToPage::Connection(Ok(())), &[link.as_fd()]),
                    Err(why) => self.channel.send(&ToPage::Connection(Err(why)), &[]),
                };
            }
        }
    }
}

impl Shown {
    fn new(plan: PagePlan, has_api: bool, control: &Path) -> Result<Self, String> {
        let listen = plan.api.listen;
        let listener = bind(&plan.api).map_err(|error| {
            format!("cannot listen on {listen}: {error}; set another `web` in [deployment]")
        })?;
        if has_api {
            return Ok(Self { plan, listener, file: None });
        }
        let address = listener.local_addr().unwrap_or(listen);
        let path = access::token_file(control);
        let url = access::url(address, false, &plan.api.token);
        access::write(&path, &url)
            .map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
        Ok(Self { plan, listener, file: Some(TokenFile(path)) })
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
    let made = old.filter(|old| old.file.is_some()).map(|old| old.plan.api.token.clone());
    let token = made.map_or_else(access::fresh, Ok)?;
    Ok(access::of_token(listen, token))
}

/// Binds the address. The page of a keeper that died may hold it for a moment.
fn bind(api: &Api) -> io::Result<TcpListener> {
    for _ in 0..TRIES_MAX {
        match web::bind(api) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(TRY_PAUSE),
            bound => return bound,
        }
    }
    web::bind(api)
}

/// Asks that are served before something else is done.
const ASKS_MAX: usize = 16;
const TRIES_MAX: usize = 5;
const TRY_PAUSE: Duration = Duration::from_millis(50);
