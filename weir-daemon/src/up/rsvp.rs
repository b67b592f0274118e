//! Reservations, as their keeper sees them: a process of its own, which gets its sockets and
//! connections to the control socket, and nothing else. Whatever becomes of it, the link goes on,
//! with the classes that it has.

use super::api::secret;
use super::child::{Child, MESSAGES_MAX};
use super::running::Running as Forwarder;
use crate::keeper::messages::PROTOCOL;
use crate::keeper::rsvp::{FromRsvp, Happening, RsvpPlan, ToRsvp};
use crate::supervisor::interface::{Followed, Pid};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::slice;
use weir_control::client;
use weir_host::channel::Channel;
use weir_host::error::SystemError;
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
    child: Child,
    /// The other end of the channel by which the forwarder asks for sessions.
    questions: Channel,
    happened: Vec<Happening>,
}

/// The messages of the process since the last call.
#[derive(Default)]
pub struct News {
    /// The events of reservations.
    pub happened: Vec<(Kind, String)>,
    /// It said something.
    pub is_alive: bool,
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
        let (questions, answers) = Channel::pair()?;
        let child = Child::start("rsvp", PROTOCOL)?;
        let begin = ToRsvp::Begin(Box::new(plan));
        let given: Vec<_> =
            [answers.as_fd()].into_iter().chain(sockets.iter().map(AsFd::as_fd)).collect();
        let sent = child.send(&begin, &given);
        self.running = Some(Running { child, questions, happened: Vec::new() });
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
        self.running = None;
    }

    /// Returns what to watch: its end, and what it says.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.iter().flat_map(|running| running.child.descriptors())
    }

    /// Ends the process, which hangs.
    pub fn end_hung(&mut self, why: String) {
        if let Some(running) = &mut self.running {
            running.child.end(why);
        }
    }

    /// Gives the process what it asks for; returns what it said meanwhile.
    pub fn serve(&mut self) -> News {
        let Some(running) = &mut self.running else { return News::default() };
        let is_alive = running.serve(&self.control);
        let ended = running.child.ended();
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
        let died = ended.map(|how| running.child.cause_of_death(how));
        if died.is_some() {
            self.running = None;
        }
        News { happened, is_alive, died }
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
    /// Acts on what it says; returns whether it gave a sign of life.
    fn serve(&mut self, control: &Path) -> bool {
        let mut is_alive = false;
        for _ in 0..MESSAGES_MAX {
            let Some(said) = self.child.receive::<FromRsvp>() else { break };
            is_alive = true;
            self.act(said.sanitise(), control);
        }
        is_alive
    }

    fn act(&mut self, said: FromRsvp, control: &Path) {
        match said {
            FromRsvp::Ready | FromRsvp::Beat => {}
            FromRsvp::Failed(why) => self.child.fail(why),
            FromRsvp::Happened(happening) => self.happened.push(happening),
            FromRsvp::Connect => {
                // Connecting does not wait. One that has ended misses nothing.
                let _ended = match client::connect(control) {
                    Ok(link) => self.child.send(&ToRsvp::Connection(Ok(())), &[link.as_fd()]),
                    Err(why) => self.child.send(&ToRsvp::Connection(Err(why)), &[]),
                };
            }
        }
    }
}
