//! The claim of interfaces: an interface belongs to one Weir, and the host leaves alone what
//! crosses it.
//!
//! [`Claim::take`] locks each interface (`lock.rs`), refuses one that something else uses
//! (`refusal.rs`, from the state in `network.rs`), and keeps the host's own network stack from
//! acting on its frames (`quiet.rs`). Dropping the claim undoes all of it. Invariant: a claim holds
//! the lock of an interface before it looks at or changes anything else of it.

mod lock;
mod network;
mod quiet;
mod refusal;

use std::io;

use weir_policy::deployment::{Deployment, Side};

use crate::error::{Result, SystemError};
use crate::netlink::Netlink;
use lock::Lock;
use network::{Interface, Network};
use quiet::Quiet;

/// The interfaces to claim.
#[derive(Clone, Debug)]
pub struct ClaimConfig<'a> {
    /// The name of the deployment, for whoever finds an interface taken.
    pub deployment: &'a str,
    /// Whether an interface with addresses or routes may be taken.
    pub take: bool,
    /// The ports, each interface once.
    pub ports: Vec<ClaimPort<'a>>,
}

/// A port whose interface is claimed.
#[derive(Clone, Copy, Debug)]
pub struct ClaimPort<'a> {
    /// The name of the port.
    pub name: &'a str,
    /// Its interface.
    pub interface: &'a str,
    /// Whether the host continues to use the interface: host egress.
    pub is_host: bool,
}

/// Interfaces that belong to this process.
#[derive(Debug)]
pub struct Claim {
    deployment: String,
    held: Vec<Held>,
    notes: Vec<String>,
}

/// One interface.
#[derive(Debug)]
struct Held {
    name: String,
    index: u32,
    is_host: bool,
    /// Why the interface that came back could not be claimed, as it was noted.
    hindrance: Option<String>,
    #[expect(dead_code, reason = "the open socket is the lock")]
    lock: Lock,
    #[expect(dead_code, reason = "dropping it lets the host act again")]
    quiet: Option<Quiet>,
}

/// What stands in the way of claiming an interface, found without claiming it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prospect {
    /// The process and the deployment that have it.
    pub holder: Option<(String, String)>,
    /// Why the claim would be refused, and the cure.
    pub refusal: Option<(String, String)>,
    /// What would stop working for the host.
    pub note: Option<String>,
}

/// Returns what stands in the way of each port, in their order. Claims and changes nothing.
///
/// # Errors
/// When the network of this thread's namespace cannot be read.
pub fn look(config: &ClaimConfig<'_>) -> Result<Vec<Prospect>> {
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
        for port in &deployment.ports {
            // Both ends of host egress have one interface.
            if !ports.iter().any(|known| known.interface == port.interface) {
                let (name, interface) = (port.name.as_str(), port.interface.as_str());
                ports.push(ClaimPort { name, interface, is_host: port.side != Side::Interface });
            }
        }
        Self { deployment: &deployment.name, take: take || deployment.take, ports }
    }
}

impl Claim {
    /// Claims interfaces of this thread's network namespace.
    ///
    /// # Errors
    /// When an interface does not exist or is used otherwise; the text says how, and what to do.
    pub fn take(config: &ClaimConfig<'_>) -> Result<Self> {
        let network = Network::read(&mut Netlink::open()?)?;
        let mut ports = Vec::with_capacity(config.ports.len());
        for port in &config.ports {
            ports.push((*port, network.named(port.interface).ok_or_else(|| missing(port))?));
        }
        let mut locks = Vec::with_capacity(ports.len());
        for (port, interface) in &ports {
            let action = || action(port);
            locks.push(Lock::take(interface.index, config.deployment, action)?);
        }
        let mut notes = refusal::check(&network, &ports, config.take)?;
        let mut held = Vec::with_capacity(ports.len());
        for ((port, interface), lock) in ports.iter().zip(locks) {
            held.push(Held::new((port.is_host, interface), lock, &network, &mut notes));
        }
        Ok(Self { deployment: config.deployment.to_owned(), held, notes })
    }

    /// Returns what an operator should know, a sentence each; the first call returns them all.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Claims an interface again that was removed and made anew under its name: to the kernel it is
    /// another one. Costs a request for each interface; call it now and then, in the namespace of
    /// the interfaces. What hinders it becomes a note, once.
    pub fn refresh(&mut self) {
        // Without a socket for now, everything stays as it is.
        let Ok(mut netlink) = Netlink::open() else { return };
        for held in &mut self.held {
            if let Some(name) = netlink.name_of(held.index) {
                // It may have been renamed.
                held.name = name;
            } else if netlink.link(&held.name).is_ok() {
                let failed = held.follow(&mut netlink, &self.deployment, &mut self.notes).err();
                let failed = failed.map(|error| error.to_string());
                if failed != held.hindrance {
                    self.notes.extend(failed.clone());
                    held.hindrance = failed;
                }
            }
        }
    }
}

impl Held {
    /// Claims the interface that has the name now.
    fn follow(
        &mut self,
        netlink: &mut Netlink,
        deployment: &str,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let network = Network::read(netlink)?;
        let Some(interface) = network.named(&self.name) else { return Ok(()) };
        let action = || format!("take the interface `{}` again", self.name);
        let lock = Lock::take(interface.index, deployment, action)?;
        *self = Self::new((self.is_host, interface), lock, &network, notes);
        Ok(())
    }

    fn new(
        (is_host, interface): (bool, &Interface),
        lock: Lock,
        network: &Network,
        notes: &mut Vec<String>,
    ) -> Self {
        let quiet = if is_host {
            None
        } else {
            let has_ip6 = network.addresses(interface.index).any(|address| address.is_ip6);
            Some(Quiet::new(interface, has_ip6, notes))
        };
        let (name, index) = (interface.name.clone(), interface.index);
        Self { name, index, is_host, hindrance: None, lock, quiet }
    }
}

fn action(port: &ClaimPort<'_>) -> String {
    format!("take the interface `{}` as port `{}`", port.interface, port.name)
}

fn missing(port: &ClaimPort<'_>) -> SystemError {
    SystemError::new(action(port), io::Error::from_raw_os_error(libc::ENODEV))
}
