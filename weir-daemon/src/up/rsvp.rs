//! Reservations, as their keeper sees them: a process of its own, which gets its sockets and
//! connections to the control socket, and nothing else. Whatever becomes of it, the link goes on,
//! with the classes that it has.

use super::api::secret;
use super::running::Running as Forwarder;
use crate::keeper::messages::PROTOCOL;
use crate::keeper::rsvp::{FromRsvp, Happening, RsvpPlan, ToRsvp};
use crate::supervisor::interface::{Followed, Pid};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;
use weir_control::client;
use weir_host::channel::Channel;
use weir_host::error::SystemError;
use weir_host::process::{self, Process};
use weir_host::rsvp::{BridgePlan, Descriptors, Role, host_interfaces};
use weir_host::wait::realtime_ns;
use weir_link::events::Kind;
use weir_policy::deployment::{Deployment, Rsvp};

/// The reservations of a link, if its deployment takes any.
pub struct Reservations {
    /// The path of the control socket.
    control: PathBuf,
    wanted: Option<Wanted>,
    running: Option<Running>,
}

/// The settings of a deployment for reservations.
#[derive(Clone, PartialEq)]
struct Wanted {
    settings: Rsvp,
    /// The interface that the link shapes.
    shaped: String,
    /// On a bridge: its address, and the interfaces of its other ports.
    bridge: Option<(Ipv4Addr, Vec<String>)>,
    plan: RsvpPlan,
}

/// The process of reservations.
struct Running {
    process: Process,
    channel: Channel,
    /// The other end of the channel by which the forwarder asks for sessions.
    questions: Channel,
    /// The process closed its end of the channel.
    is_silent: bool,
    failure: Option<String>,
    happened: Vec<Happening>,
}

/// The messages of the process since the last call.
#[derive(Default)]
pub struct News {
    /// The events of reservations.
    pub happened: Vec<(Kind, String)>,
    /// Which process died and why, if it did.
    pub died: Option<(Pid, String)>,
}

impl Reservations {
    /// The reservations that a deployment wants; nothing runs yet.
    ///
    /// # Errors
    /// When the file of keys cannot be used; the text says what to do.
    pub fn prepare(deployment: &Deployment, control: &Path) -> Result<Self, String> {
        let control = control.to_owned();
        let wanted = Wanted::of(deployment)?;
        Ok(Self { control, wanted, running: None })
    }

    /// Follows a deployment that was read anew; a process that it does not want is ended. The
    /// process reads the policy itself.
    ///
    /// # Errors
    /// As [`Reservations::prepare`].
    pub fn follow(&mut self, deployment: &Deployment) -> Result<Followed, String> {
        let wanted = Wanted::of(deployment)?;
        let is_other = wanted != self.wanted;
        self.wanted = wanted;
        if self.wanted.is_none() {
            self.stop();
            return Ok(Followed::Unwanted);
        }
        Ok(if is_other { Followed::Other } else { Followed::Same })
    }

    /// Starts the process, in place of one that runs.
    ///
    /// # Errors
    /// When the system refuses, or an interface is away.
    pub fn start(&mut self) -> Result<(), SystemError> {
        self.stop();
        let Some(wanted) = &self.wanted else { return Ok(()) };
        let (plan, sockets) = wanted.open()?;
        let (channel, theirs) = Channel::pair()?;
        let (questions, answers) = Channel::pair()?;
        let mut program = process::same_program();
        program.arg("rsvp").args(["--protocol", &PROTOCOL.to_string()]);
        program.args(["--channel", &theirs.as_fd().as_raw_fd().to_string()]);
        let process = Process::start(program, &[theirs.as_fd()])?;
        let (is_silent, failure, happened) = (false, None, Vec::new());
        let running = Running { process, channel, questions, is_silent, failure, happened };
        let begin = ToRsvp::Begin(Box::new(plan));
        let given: Vec<_> =
            [answers.as_fd()].into_iter().chain(sockets.iter().map(AsFd::as_fd)).collect();
        let sent = running.channel.send(&begin, &given);
        self.running = Some(running);
        sent
    }

    /// Lets a forwarder ask the process for sessions.
    pub fn introduce(&self, forwarder: &Forwarder) {
        if let Some(running) = &self.running {
            forwarder.give_questions(running.questions.as_fd());
        }
    }

    /// Kills the process, and waits until it has ended.
    pub fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.process.kill();
            running.process.wait();
        }
    }

    /// Returns what to watch: its end, and what it says.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let running = self.running.iter();
        running.flat_map(|one| {
            let channel = (!one.is_silent).then(|| one.channel.as_fd());
            [Some(one.process.as_fd()), channel].into_iter().flatten()
        })
    }

    /// Gives the process what it asks for; returns what it said meanwhile.
    pub fn serve(&mut self) -> News {
        let Some(running) = &mut self.running else { return News::default() };
        running.serve(&self.control);
        let ended = running.process.ended();
        if ended.is_some() {
            // Its last words.
            running.serve(&self.control);
        }
        let happened = running.happened.drain(..).map(|Happening { what, detail, untold }| {
            let more = match untold {
                0 => String::new(),
                more => format!("; {more} others before"),
            };
            (what.kind(), detail + &more)
        });
        let happened = happened.collect();
        let died = ended.map(|how| {
            let why = running.failure.take().unwrap_or(how);
            (Pid(running.process.number()), why)
        });
        if died.is_some() {
            self.running = None;
        }
        News { happened, died }
    }
}

impl Drop for Reservations {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Wanted {
    fn of(deployment: &Deployment) -> Result<Option<Self>, String> {
        let Some(settings) = &deployment.rsvp else { return Ok(None) };
        let interface = |port: usize| deployment.ports[port].interface.clone();
        let to = settings.to;
        let bridge = deployment.rsvp_bridge().map(|(bridge, address)| {
            let others = bridge.ports.iter().copied().filter(|port| *port != to);
            (address, others.map(interface).collect())
        });
        let plan = RsvpPlan {
            name: deployment.name.clone(),
            user: deployment.service.user.clone(),
            interfaces: Vec::new(),
            bridge: None,
            keys: settings.key_file.as_deref().map(secret).transpose()?,
            at_ns: 0,
        };
        Ok(Some(Self { settings: settings.clone(), shaped: interface(to), bridge, plan }))
    }

    /// Opens the sockets; returns also what the process is told.
    fn open(&self) -> Result<(RsvpPlan, Vec<OwnedFd>), SystemError> {
        let (mut plan, at_ns) = (self.plan.clone(), realtime_ns());
        plan.at_ns = at_ns;
        let Some((address, others)) = &self.bridge else {
            plan.interfaces = self.interfaces()?;
            return Ok((plan, Descriptors::open(Role::Router)?.into_parts()));
        };
        plan.interfaces = [slice::from_ref(&self.shaped), others.as_slice()].concat();
        let (bridge, sockets) = BridgePlan::open(*address, &plan.interfaces)?;
        plan.bridge = Some(bridge);
        Ok((plan, sockets))
    }

    /// Returns the interfaces by which RSVP is spoken, first the one that the link shapes.
    fn interfaces(&self) -> Result<Vec<String>, SystemError> {
        let mut names = vec![self.shaped.clone()];
        if self.settings.interfaces.is_empty() {
            // Weir's own taps are interfaces, too.
            let of_host = |name: &String| !name.starts_with("weir-");
            let present = host_interfaces()?.into_iter().filter(|one| !one.addresses.is_empty());
            names.extend(present.map(|one| one.name).filter(of_host));
        } else {
            names.extend(self.settings.interfaces.iter().cloned());
        }
        let mut known = std::collections::BTreeSet::new();
        names.retain(|name| known.insert(name.clone()));
        Ok(names)
    }
}

impl Running {
    /// Acts on what it says.
    fn serve(&mut self, control: &Path) {
        for _ in 0..REQUESTS_MAX {
            if self.is_silent {
                return;
            }
            match self.channel.receive::<FromRsvp>(Duration::ZERO) {
                Ok(None) => return,
                Ok(Some((said, _none))) => self.act(said.sanitise(), control),
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

    fn act(&mut self, said: FromRsvp, control: &Path) {
        match said {
            FromRsvp::Ready => {}
            FromRsvp::Failed(why) => self.failure = Some(why),
            FromRsvp::Happened(happening) => self.happened.push(happening),
            FromRsvp::Connect => {
                // Connecting does not wait. One that has ended misses nothing.
                let _ended = match client::connect(control) {
                    Ok(link) => self.channel.send(&ToRsvp::Connection(Ok(())), &[link.as_fd()]),
                    Err(why) => self.channel.send(&ToRsvp::Connection(Err(why)), &[]),
                };
            }
        }
    }
}

/// Messages that are handled before other work is done.
const REQUESTS_MAX: usize = 16;
