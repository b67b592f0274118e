//! The claim of interfaces: an interface belongs to one Weir, and the host leaves alone what
//! crosses it.
//!
//! [`Claim::take`] locks each interface (`lock.rs`), refuses one that something else uses
//! (`refusal.rs`, from the state in `network.rs`), and keeps the host's own network stack from
//! acting on its frames (`quiet.rs`). Dropping the claim undoes all of it. Where the deployment
//! says `on_exit = "open"`, [`Claim::fallback`] lets the kernel carry frames on (`fallback.rs`).
//!
//! Another process may hold copies of the locks and of what keeps the host quiet
//! ([`Claim::descriptors`]); if this one dies, a third one takes the claim over from the second
//! ([`Claim::adopt`]), and the interfaces are never free in between.
//!
//! Invariant: a claim holds the lock of an interface before it looks at or changes anything else of
//! it.

mod fallback;
mod lock;
mod network;
mod quiet;
mod refusal;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};
use weir_policy::deployment::{Deployment, OnExit, Side};

use crate::error::{Result, SystemError};
use crate::netlink::{Mac, Netlink};
use fallback::{Switch, Ways};
use lock::Lock;
use network::{Interface, Network};
use quiet::{Before, Quiet};

/// The interfaces to claim.
#[derive(Clone, Debug)]
pub struct ClaimConfig<'a> {
    /// The name of the deployment, for processes that find an interface taken.
    pub deployment: &'a str,
    /// Whether an interface with addresses or routes may be taken.
    pub take: bool,
    /// The fate of frames while nothing forwards them.
    pub on_exit: OnExit,
    /// The ports, each interface once.
    pub ports: Vec<ClaimPort<'a>>,
}

/// A port whose interface is claimed.
#[derive(Clone, Copy, Debug)]
pub struct ClaimPort<'a> {
    /// The name of the port.
    pub name: &'a str,
    /// The name of its interface.
    pub interface: &'a str,
    /// Whether the host continues to use the interface: host egress.
    pub is_host: bool,
    /// The number of its bridge: frames are carried on to ports of the same one.
    pub bridge: usize,
}

/// Interfaces that belong to this process.
#[derive(Debug)]
pub struct Claim {
    deployment: String,
    held: Vec<Held>,
    /// Present where the kernel may carry frames on.
    switch: Option<Switch>,
    notes: Vec<String>,
}

/// The claim of one interface, without its descriptors, for a process that holds it too. It comes
/// back from a process that is trusted less, and is checked then.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClaimPart {
    interface: String,
    index: u32,
    /// Settings of the interface as they were.
    settings: Vec<Before>,
}

/// One interface of a claim, as it was found.
#[derive(Debug)]
struct Held {
    name: String,
    index: u32,
    mac: Option<Mac>,
    has_ip6: bool,
    is_host: bool,
    bridge: usize,
    /// It existed at the last look.
    is_there: bool,
    /// Why the interface could not be claimed again, as it was noted.
    hindrance: Option<String>,
    lock: Lock,
    /// Dropping it lets the host act again.
    quiet: Option<Quiet>,
}

/// The obstacles to claiming an interface, found without claiming it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prospect {
    /// The process and the deployment that have it.
    pub holder: Option<(String, String)>,
    /// Why the claim would be refused, and the cure.
    pub refusal: Option<(String, String)>,
    /// The services of the host that would stop working.
    pub note: Option<String>,
}

/// Returns what stands in the way of each port, in their order. Claims and changes nothing.
///
/// # Errors
/// When the network of this thread's namespace cannot be read.
pub fn prospects(config: &ClaimConfig<'_>) -> Result<Vec<Prospect>> {
    let network = Network::read(&mut Netlink::open()?)?;
    let found = |port: &ClaimPort<'_>| network.named(port.interface);
    let ports: Vec<_> =
        config.ports.iter().filter_map(|port| Some((*port, found(port)?))).collect();
    let of = |port: &ClaimPort<'_>| {
        let Some(row) = ports.iter().find(|row| row.0.interface == port.interface) else {
            return Prospect::default();
        };
        let checked = refusal::check_port(&network, row, &ports, config.take);
        let (note, refusal) = match checked {
            Ok(note) => (note, None),
            Err(error) => (None, Some((error.cause.to_string(), error.cure.into_owned()))),
        };
        Prospect { holder: lock::holder(row.1.index), refusal, note }
    };
    Ok(config.ports.iter().map(of).collect())
}

impl<'a> ClaimConfig<'a> {
    /// Returns the interfaces of a deployment; `take` is what the command line says.
    pub fn of(deployment: &'a Deployment, take: bool) -> Self {
        let mut ports: Vec<ClaimPort<'a>> = Vec::new();
        let bridge_of = |port: usize| {
            let mut bridges = deployment.bridges.iter();
            bridges.position(|bridge| bridge.ports.contains(&port)).unwrap_or_default()
        };
        for (number, port) in deployment.ports.iter().enumerate() {
            // Both ends of host egress have one interface.
            if !ports.iter().any(|known| known.interface == port.interface) {
                let (name, interface) = (port.name.as_str(), port.interface.as_str());
                let is_host = port.side != Side::Interface;
                ports.push(ClaimPort { name, interface, is_host, bridge: bridge_of(number) });
            }
        }
        let (take, on_exit) = (take || deployment.take, deployment.service.on_exit);
        Self { deployment: &deployment.name, take, on_exit, ports }
    }
}

impl ClaimPart {
    /// Tries what is taken over of it. For a fuzz target.
    pub fn exercise(&self) {
        for setting in self.settings.iter().filter(|setting| quiet::is_sound(setting)) {
            assert!(setting.1.len() <= SETTING_MAX, "a value is a number: {setting:?}");
        }
    }
}

impl Claim {
    /// Claims interfaces of this thread's network namespace.
    ///
    /// # Errors
    /// When an interface does not exist or is used otherwise, or when the kernel is to carry frames
    /// on and cannot; the text says how, and what to do.
    pub fn take(config: &ClaimConfig<'_>) -> Result<Self> {
        Self::adopt(config, Vec::new())
    }

    /// As [`Claim::take`], with what another process holds of these interfaces: their locks are
    /// never free, the host stays quiet, and addresses or routes are no reason to refuse what was
    /// taken before.
    ///
    /// # Errors
    /// As [`Claim::take`]; when what is passed is not what [`Claim::descriptors`] gave.
    pub fn adopt(
        config: &ClaimConfig<'_>,
        mut parts: Vec<(ClaimPart, Vec<OwnedFd>)>,
    ) -> Result<Self> {
        let network = Network::read(&mut Netlink::open()?)?;
        let mut ports = Vec::with_capacity(config.ports.len());
        for port in &config.ports {
            ports.push((*port, network.named(port.interface).ok_or_else(|| missing(port))?));
        }
        let mut adopted = Vec::new();
        let mut locks = Vec::with_capacity(ports.len());
        for (port, interface) in &ports {
            let found = parts.iter().position(|(part, _)| part.index == interface.index);
            let part = found.map(|at| parts.swap_remove(at));
            adopted.extend(part.as_ref().map(|_| interface.index));
            locks.push(lock(config.deployment, (port, interface), part)?);
        }
        let mut notes = refusal::check(&network, &ports, config.take, &adopted)?;
        let may_open = config.on_exit == OnExit::Open && ports.iter().any(|row| !row.0.is_host);
        let switch = may_open.then(Switch::new).transpose().map_err(|error| cannot_open(&error))?;
        let mut held = Vec::with_capacity(ports.len());
        let mut before = Vec::with_capacity(ports.len());
        for ((port, interface), (lock, settings)) in ports.iter().zip(locks) {
            held.push(Held::new((port.is_host, port.bridge), interface, lock, &network));
            before.push(settings);
        }
        let deployment = config.deployment.to_owned();
        let mut claim = Self { deployment, held, switch, notes: Vec::new() };
        for (at, before) in before.iter().enumerate() {
            claim.silence(at, before, &mut notes)?;
        }
        claim.notes = notes;
        Ok(claim)
    }

    /// Returns what an operator should know, a sentence each; the first call returns them all.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Lets the kernel carry frames between the ports of each bridge, or stops it, at all ports at
    /// once. Where `on_exit` is "closed", and at a port whose interface remains the host's, it
    /// changes nothing. While it is open, no other may forward.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn fallback(&self, open: bool) -> Result<()> {
        self.switch.as_ref().map_or(Ok(()), |switch| switch.set(open))
    }

    /// Returns the map of the words ([`crate::robust`]) by which the kernel carries the frames of a
    /// bridge on as soon as the loop that holds the bridge's word dies; closing the fallback
    /// empties them. None where `on_exit` is "closed".
    pub fn deaths(&self) -> Option<BorrowedFd<'_>> {
        self.switch.as_ref().map(Switch::deaths)
    }

    /// Makes [`Claim::fallback`] able to carry frames on, if the deployment says so now and did not
    /// before.
    ///
    /// # Errors
    /// When the kernel cannot carry frames on.
    pub fn follow(&mut self, on_exit: OnExit) -> Result<()> {
        let wants = on_exit == OnExit::Open && self.held.iter().any(|held| !held.is_host);
        if !wants || self.switch.is_some() {
            return Ok(());
        }
        if self.held.iter().any(|held| matches!(held.quiet, Some(Quiet::Settings(_)))) {
            let why = "the host is kept quiet by settings, not by a program";
            return Err(cannot_open(&SystemError::refused("load a program", why, "")));
        }
        self.switch = Some(Switch::new().map_err(|error| cannot_open(&error))?);
        let mut notes = Vec::new();
        let silenced = (0..self.held.len()).try_for_each(|at| {
            self.silence(at, &[], &mut notes)?;
            Ok(())
        });
        if silenced.is_err() {
            self.switch = None;
        }
        self.notes.extend(notes);
        silenced
    }

    /// Returns what lets the process `holder` hold the claim too, for each interface by itself, at
    /// most three descriptors each; it need not look at it. Interfaces stay claimed until both
    /// processes have ended. Call it in the namespace of the interfaces.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn descriptors(&self, holder: u32) -> Result<Vec<(ClaimPart, Vec<OwnedFd>)>> {
        let copy = |held: &Held| {
            let mut copies = held.lock.copy_for(holder)?;
            let quiet = held.quiet.as_ref().map(Quiet::copy).transpose()?;
            let (link, settings) = quiet.unwrap_or_default();
            copies.extend(link);
            Ok((ClaimPart { interface: held.name.clone(), index: held.index, settings }, copies))
        };
        let copies: io::Result<_> = self.held.iter().map(copy).collect();
        copies.map_err(|cause| SystemError::new("copy the locks of interfaces", cause))
    }

    /// Claims an interface again that was removed and made anew under its name: to the kernel it is
    /// another one. Costs a request for each interface; call it now and then, in the namespace of
    /// the interfaces. What hinders it becomes a note, once. Returns whether something changed, so
    /// that [`Claim::descriptors`] are others than before.
    pub fn refresh(&mut self) -> bool {
        // Without a socket for now, everything stays as it is.
        let Ok(mut netlink) = Netlink::open() else { return false };
        let mut is_changed = false;
        for at in 0..self.held.len() {
            let held = &mut self.held[at];
            if let Ok((name, state)) = netlink.link_at(held.index) {
                // It may have been renamed.
                (held.name, held.mac) = (name, state.mac);
                continue;
            }
            held.is_there = false;
            if netlink.link(&held.name).is_ok() {
                let followed = held.follow(&mut netlink, &self.deployment);
                is_changed |= followed.is_ok();
                self.hinder(at, followed.err());
            }
        }
        let mut notes = Vec::new();
        for at in 0..self.held.len() {
            if !self.held[at].is_there {
                continue;
            }
            match self.silence(at, &[], &mut notes) {
                Ok(is_new) => is_changed |= is_new,
                Err(error) => self.hinder(at, Some(error)),
            }
        }
        self.notes.extend(notes);
        is_changed
    }

    /// Notes what hinders the claim of an interface, unless it did before.
    fn hinder(&mut self, at: usize, failed: Option<SystemError>) {
        let failed = failed.map(|error| error.to_string());
        let held = &mut self.held[at];
        if failed != held.hindrance {
            self.notes.extend(failed.clone());
            held.hindrance = failed;
        }
    }

    /// Keeps the host quiet at an interface, with frames' ways as they are now. Returns whether
    /// that changed anything.
    fn silence(&mut self, at: usize, before: &[Before], notes: &mut Vec<String>) -> Result<bool> {
        let ways = self.ways(at);
        let held = &mut self.held[at];
        let is_right = match &held.quiet {
            Some(Quiet::Program(_, current)) => *current == ways,
            Some(Quiet::Settings(_)) => true,
            None => held.is_host,
        };
        if is_right {
            return Ok(false);
        }
        // The new program stands before the old one, which goes after that: no frame meets none.
        held.quiet = Some(match Quiet::by_program(held.index, self.switch.as_ref(), ways) {
            Ok(program) => program,
            Err(error) if self.switch.is_some() => return Err(cannot_open(&error)),
            Err(_) => Quiet::by_settings((&held.name, held.has_ip6), before, notes),
        });
        Ok(true)
    }

    /// Returns where the frames of a port go while the fallback is open.
    fn ways(&self, at: usize) -> Ways {
        if self.switch.is_none() {
            return Ways::default();
        }
        let mates = || self.held.iter().filter(|held| held.bridge == self.held[at].bridge);
        Ways {
            to: mates().map(|held| held.index).filter(|it| *it != self.held[at].index).collect(),
            own: mates().filter_map(|held| held.mac).collect(),
            bridge: self.held[at].bridge,
        }
    }
}

/// Locks an interface, or takes its lock over; returns the settings that it had before, too.
fn lock(
    deployment: &str,
    (port, interface): (&ClaimPort<'_>, &Interface),
    part: Option<(ClaimPart, Vec<OwnedFd>)>,
) -> Result<(Lock, Vec<Before>)> {
    let action = || action(port);
    let Some((part, descriptors)) = part else {
        return Ok((Lock::take(interface.index, deployment, action)?, Vec::new()));
    };
    let first = descriptors.into_iter().next();
    let copy = first.ok_or_else(|| SystemError::refused(action(), "its lock is missing", ""))?;
    let settings = part.settings.into_iter().filter(quiet::is_sound).collect();
    Ok((Lock::adopt(interface.index, deployment, copy, action)?, settings))
}

impl Held {
    /// Locks the interface that has the name now.
    fn follow(&mut self, netlink: &mut Netlink, deployment: &str) -> Result<()> {
        let network = Network::read(netlink)?;
        let Some(interface) = network.named(&self.name) else { return Ok(()) };
        let action = || format!("take the interface `{}` again", self.name);
        let lock = Lock::take(interface.index, deployment, action)?;
        *self = Self::new((self.is_host, self.bridge), interface, lock, &network);
        Ok(())
    }

    /// Nothing keeps the host quiet yet.
    fn new(
        (is_host, bridge): (bool, usize),
        interface: &Interface,
        lock: Lock,
        network: &Network,
    ) -> Self {
        let has_ip6 = network.addresses(interface.index).any(|address| address.is_ip6);
        let Interface { name, index, mac, .. } = interface.clone();
        let (is_there, hindrance, quiet) = (true, None, None);
        Self { name, index, mac, has_ip6, is_host, bridge, is_there, hindrance, lock, quiet }
    }
}

fn cannot_open(error: &SystemError) -> SystemError {
    let why = format!("{}: {}", error.action, error.cause);
    let cure = "run it as root (a user namespace is not enough) on Linux 6.6 or later, or write \
                `on_exit = \"closed\"`";
    SystemError::refused("carry frames on after a crash, as `on_exit` says", why, cure)
}

/// No number in words is longer, with the end of its line.
const SETTING_MAX: usize = 16;

fn action(port: &ClaimPort<'_>) -> String {
    format!("take the interface `{}` as port `{}`", port.interface, port.name)
}

fn missing(port: &ClaimPort<'_>) -> SystemError {
    SystemError::new(action(port), io::Error::from_raw_os_error(libc::ENODEV))
}
