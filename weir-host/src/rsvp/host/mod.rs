//! A host that announces a flow, or reserves for one: a node of RSVP for one session.
//!
//! [`Host::open`] needs CAP_NET_RAW. [`Host::turn`] never waits, and says in [`Told`] what became
//! of the flow; [`Host::wait`] waits until the next turn is due. Other programs of this kind may
//! run beside it: each sees only the messages of its own session (`own.rs`), and `door.rs` lets
//! others on the machine list it and end it. Without refreshes the network forgets, so a process
//! that dies reserves no more after some refresh periods.

mod claim;
mod door;
mod kept;
mod own;
mod told;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use weir_core::classify::InterfaceId;
use weir_core::units::{Duration, Instant};
use weir_rsvp::intserv::{Adspec, Characterization, Terms, Tspec};
use weir_rsvp::node::{
    Announcement, Event, HostError, InterfaceParams, Limits, NodeParams, Timers,
};
use weir_rsvp::wire::{Cause, Filter, Session, Style};

pub use claim::{Asked, Receiving, Wanted};
pub use door::{end, list};
pub use kept::Kept;
pub use told::{HostStatus, Role, State, Told, protocol_name, rate_text};

use super::driver::{AdmitAll, Driver};
use super::kernel::KernelNetwork;
use super::keys;
use super::open::{Descriptors, Role as SocketRole};
use super::routing::{HostInterface, host_interfaces};
use crate::error::{Result, SystemError};
use crate::wait::realtime_ns;
use door::Door;
use own::OwnSession;

/// What a host is to do.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// The session.
    pub session: Session,
    /// The only interface; without it all that are up and have an address.
    pub interface: Option<String>,
    /// How often the network is told again.
    pub refresh: Duration,
    /// The text of a file of keys, with which messages are signed and checked.
    pub keys: Option<String>,
    /// What it does in the session.
    pub wish: Wish,
}

/// A side of a flow.
#[derive(Clone, Debug)]
pub enum Wish {
    /// It sends the flow, and announces it.
    Send(Sending),
    /// It receives the flow, and reserves for it.
    Receive(Receiving),
}

/// A flow that this host sends.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// The address that it sends from; without one the kernel's choice.
    pub from: Option<IpAddr>,
    /// The port that it sends from; 0 for any.
    pub port: u16,
    /// What it sends at most. A largest packet of 0 is the MTU of its interface.
    pub tspec: Tspec,
    /// The IP TTL of its packets.
    pub ttl: u8,
}

/// A host at work in one session.
pub struct Host {
    driver: Driver<OwnSession>,
    door: Door,
    session: Session,
    wish: Wish,
    /// The address by which this host is named in the session.
    own: IpAddr,
    /// Senders: that of this host, or those that were announced.
    senders: BTreeMap<Filter, (Tspec, Option<Adspec>)>,
    /// What was reserved last.
    asked: Option<Wanted>,
    state: State,
    begun: Instant,
    /// What is told with the next turn.
    untold: Vec<Told>,
}

impl Host {
    /// Opens the sockets in this thread's network namespace, and begins.
    ///
    /// # Errors
    /// When a privilege is missing, there is no such interface, address or route, a key is wrong,
    /// or the numbers describe no flow.
    pub fn open(plan: HostPlan) -> Result<Self> {
        let interfaces = chosen(plan.interface.as_deref())?;
        let own = own_address(&plan, &interfaces)?;
        let descriptors = Descriptors::open(SocketRole::Host)?;
        let names: Vec<String> = interfaces.iter().map(|one| one.name.clone()).collect();
        let mut network = KernelNetwork::new(descriptors, &names)?;
        let group = plan.session.destination;
        if group.is_multicast() && matches!(plan.wish, Wish::Receive(_)) {
            (0..names.len() as u16)
                .try_for_each(|at| network.join(group, InterfaceId(at), true))?;
        }
        let params = node_params(&plan, &interfaces)?;
        let driver = Driver::new(params, OwnSession::new(network, plan.session));
        let door = Door::open()?;
        let HostPlan { session, wish, .. } = plan;
        let begun = Driver::<OwnSession>::now();
        let (senders, state, untold) = (BTreeMap::new(), State::Waiting, Vec::new());
        let asked = None;
        let mut host =
            Self { driver, door, session, wish, own, senders, asked, state, begun, untold };
        match host.wish {
            Wish::Send(sending) => host.announce(sending, &interfaces)?,
            Wish::Receive(_) => host.untold.push(Told::Listening(host.session)),
        }
        Ok(host)
    }

    /// Returns the time of its clock.
    pub fn now() -> Instant {
        Driver::<OwnSession>::now()
    }

    /// Takes what came and carries out what is due; says what is new. Never waits.
    pub fn turn(&mut self) -> (Vec<Told>, Option<Instant>) {
        self.driver.call(|node, _, _| node.raise_sequence(realtime_ns()));
        let turn = self.driver.turn(&mut AdmitAll);
        let mut deadline = turn.deadline;
        for event in turn.events {
            self.hear(event);
        }
        if let Wish::Receive(receiving) = &self.wish {
            let wanted = Wanted::of(receiving, &self.senders);
            if self.claim(wanted) {
                deadline = Some(Driver::<OwnSession>::now());
            }
        }
        self.door.serve(&self.status());
        (std::mem::take(&mut self.untold), deadline)
    }

    /// Waits until a turn is due, something came, or one of `others` is readable.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn wait(&self, deadline: Option<Instant>, others: &[BorrowedFd<'_>]) -> io::Result<()> {
        let all: Vec<_> = [self.door.as_fd()].into_iter().chain(others.iter().copied()).collect();
        self.driver.wait(deadline, &all)
    }

    /// Returns whether someone on this machine asked it to end ([`end`]).
    pub fn is_released(&self) -> bool {
        self.door.is_released()
    }

    /// Returns what there is to see.
    pub fn status(&self) -> HostStatus {
        let role = if matches!(self.wish, Wish::Send(_)) { Role::Sender } else { Role::Receiver };
        let rate = match &self.asked {
            Some(wanted) => wanted.rate(),
            None => self.senders.values().map(|(tspec, _)| tspec.rate.into()).fold(0.0, f64::max),
        };
        let age = Driver::<OwnSession>::now().as_nanos().saturating_sub(self.begun.as_nanos());
        HostStatus {
            process: std::process::id(),
            role,
            destination: self.session.destination,
            protocol: self.session.protocol,
            port: self.session.port,
            senders: self.senders.keys().map(told::place).collect(),
            style: self.asked.as_ref().map(|wanted| wanted.style.to_string()),
            service: self.asked.as_ref().and_then(Wanted::service).map(str::to_owned),
            rate,
            state: self.state.clone(),
            seconds: age / 1_000_000_000,
        }
    }

    /// Returns how the flow stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns messages that did not leave, with the system's reason.
    pub fn failure(&self) -> Option<&str> {
        self.driver.failures().values().next().map(|failure| failure.why.as_str())
    }

    /// Withdraws the flow or the reservation, so that the network need not wait for its end. Where
    /// the neighbour acknowledges messages, it waits until it did, or was told three times.
    pub fn end(mut self) {
        let session = self.session;
        let own: Vec<Filter> = self.senders.keys().copied().collect();
        self.driver.call(|node, now, routes| match self.wish {
            // What is not there need not go.
            Wish::Send(_) => own.iter().for_each(|sender| {
                let _gone = node.withdraw(now, session, *sender, routes);
            }),
            Wish::Receive(_) => {
                let _gone = node.release(now, session, routes);
            }
        });
        let until = Self::now().after(LINGER);
        loop {
            self.driver.call(|node, _, _| node.raise_sequence(realtime_ns()));
            let due = self.driver.turn(&mut AdmitAll).deadline;
            if self.driver.node().unacknowledged() == 0 || Self::now() >= until {
                return;
            }
            if self.driver.wait(due.into_iter().chain([until]).min(), &[]).is_err() {
                return;
            }
        }
    }

    fn announce(&mut self, sending: Sending, interfaces: &[HostInterface]) -> Result<()> {
        let at = interfaces.iter().find(|one| one.addresses.contains(&self.own));
        let mtu = at.map_or(MTU_UNKNOWN, |one| one.mtu);
        let mut tspec = sending.tspec;
        if tspec.packet_max == 0 {
            tspec.packet_max = mtu;
            tspec.packet_min = tspec.packet_min.min(mtu);
        }
        tspec.bucket = tspec.bucket.max(tspec.packet_max as f32);
        let (session, sender) = (self.session, Filter::new(self.own, sending.port));
        let adspec = Some(Adspec::at_sender(BANDWIDTH_MAX, mtu));
        let ttl = sending.ttl;
        let announcement =
            Announcement { session, sender, tspec, adspec: adspec.clone(), ttl, police: true };
        let done = self.driver.call(|node, now, routes| node.announce(now, announcement, routes));
        done.map_err(|error| host_error("announce the flow", error, &tspec))?;
        self.senders.insert(sender, (tspec, adspec));
        self.untold.push(Told::Announced { sender: told::place(&sender), tspec });
        Ok(())
    }

    /// Notes what the node says.
    fn hear(&mut self, event: Event) {
        match (event, &self.wish) {
            (Event::Path { sender, tspec, adspec, .. }, Wish::Receive(_)) => {
                let broken = adspec.as_ref().is_some_and(|path| path.general.broken);
                if self.senders.insert(sender, (tspec, adspec)).is_none() {
                    self.untold.push(Told::Sender { sender: told::place(&sender), tspec, broken });
                }
            }
            (Event::PathGone { sender, .. }, Wish::Receive(_)) => {
                self.senders.remove(&sender);
                self.untold.push(Told::SenderGone { sender: told::place(&sender) });
            }
            (Event::Confirmed { node, .. }, Wish::Receive(_)) if self.asked.is_some() => {
                self.stand(State::Accepted { by: Some(node) });
            }
            (Event::ResvError { error, .. }, Wish::Receive(_)) => {
                let told::Refusal { by, code, value } = told::Refusal::of(&error);
                if error.not_guilty {
                    self.untold.push(Told::OtherRefused { by, code, value });
                } else {
                    self.stand(State::Refused { by, code, value });
                }
            }
            (Event::Reserved { reservation, .. }, Wish::Send(_)) => {
                let state = match &reservation {
                    Some(_) => State::Accepted { by: None },
                    None => State::Waiting,
                };
                self.untold.push(Told::Reserved { reservation });
                self.state = state;
            }
            (Event::PathError { error, .. }, Wish::Send(_)) => {
                let told::Refusal { by, code, value } = told::Refusal::of(&error);
                self.stand(State::Refused { by, code, value });
            }
            _ => {}
        }
    }

    /// The network decided.
    fn stand(&mut self, state: State) {
        if self.state != state {
            self.untold.push(Told::State(state.clone()));
            self.state = state;
        }
    }

    /// Reserves what is wanted, if that is news. Returns whether a turn has to follow.
    fn claim(&mut self, wanted: std::result::Result<Option<Wanted>, String>) -> bool {
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(why) => {
                self.stand(State::Impossible { why });
                return false;
            }
        };
        if wanted == self.asked {
            return false;
        }
        let session = self.session;
        let Some(wanted) = wanted else {
            self.asked = None;
            self.state = State::Waiting;
            // The node lets it go with its sender.
            let _gone = self.driver.call(|node, now, routes| node.release(now, session, routes));
            return true;
        };
        let claim = wanted.claim(session, self.own);
        let done = self.driver.call(|node, now, routes| node.reserve(now, claim, routes));
        match done {
            Ok(()) => {
                self.untold.push(Told::Asked(wanted.clone()));
                self.state = State::Asked;
            }
            Err(error) => self.stand(State::Impossible { why: error.to_string() }),
        }
        self.asked = Some(wanted);
        true
    }
}

fn host_error(action: &str, error: HostError, tspec: &Tspec) -> SystemError {
    let why = match (error, tspec.fault()) {
        (HostError::Unsound(Cause::BAD_TSPEC), Some(fault)) => format!("its {fault} is wrong"),
        _ => error.to_string(),
    };
    SystemError::refused(action, why, "")
}

/// The interfaces that a plan means.
fn chosen(name: Option<&str>) -> Result<Vec<HostInterface>> {
    let present = host_interfaces()?;
    let names: Vec<&str> = present.iter().map(|one| one.name.as_str()).collect();
    if let Some(name) = name.filter(|name| !names.contains(name)) {
        let why = format!("this host has {}", listed(&names));
        return Err(SystemError::refused(format!("use the interface `{name}`"), why, ""));
    }
    let fits = |one: &HostInterface| {
        one.is_up && !one.addresses.is_empty() && name.is_none_or(|name| name == one.name)
    };
    let found: Vec<_> =
        present.iter().filter(|one| fits(one)).take(INTERFACES_MAX).cloned().collect();
    if found.is_empty() {
        let which = name.map_or("no interface".to_owned(), |name| format!("`{name}` is not"));
        let why = format!("{which} up with an address");
        return Err(SystemError::refused("speak RSVP", why, "`ip address` lists them"));
    }
    Ok(found)
}

/// The address by which this host is named in the session.
fn own_address(plan: &HostPlan, interfaces: &[HostInterface]) -> Result<IpAddr> {
    let Session { destination, port, .. } = plan.session;
    let own: Vec<IpAddr> = interfaces.iter().flat_map(|one| one.addresses.clone()).collect();
    let texts: Vec<String> = own.iter().map(IpAddr::to_string).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let refuse = |action: String, cure: &'static str| {
        let why = format!("the addresses of this host are {}", listed(&texts));
        Err(SystemError::refused(action, why, cure))
    };
    match &plan.wish {
        Wish::Receive(_) if destination.is_multicast() => {
            let found = own.iter().find(|one| one.is_ipv4() == destination.is_ipv4()).copied();
            found.map_or_else(
                || refuse(format!("receive {destination}"), "use the other IP version"),
                Ok,
            )
        }
        Wish::Receive(_) if own.contains(&destination) => Ok(destination),
        Wish::Receive(_) => refuse(
            format!("receive packets to {destination}"),
            "name the address that the flow is sent to, on its receiver",
        ),
        Wish::Send(_) if own.contains(&destination) => refuse(
            format!("announce a flow to {destination}"),
            "a flow within a host needs no reservation",
        ),
        Wish::Send(Sending { from: Some(from), .. }) if own.contains(from) => Ok(*from),
        Wish::Send(Sending { from: Some(from), .. }) => {
            refuse(format!("send from {from}"), "name one of them after `--from`")
        }
        Wish::Send(_) => {
            let found = source_to(SocketAddr::new(destination, port.max(1)));
            found.map_err(|cause| SystemError::new(format!("find the way to {destination}"), cause))
        }
    }
}

/// The source that the kernel gives packets to this destination.
fn source_to(destination: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match destination {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(destination)?;
    Ok(socket.local_addr()?.ip())
}

fn node_params(plan: &HostPlan, interfaces: &[HostInterface]) -> Result<NodeParams> {
    let now = realtime_ns();
    let read = |text: &String| {
        keys::read(text, now).map_err(|why| SystemError::refused("read the keys", why, ""))
    };
    let security = plan.keys.as_ref().map(read).transpose()?;
    let interface = |one: &HostInterface| {
        let plain = InterfaceParams::plain(one.addresses.clone(), BANDWIDTH_MAX, one.mtu);
        // [rfc2212] A line that others leave free for the flow sends a packet within M/R.
        let guaranteed = Some(Terms { c: one.mtu, d: 0 });
        let offers = Characterization { guaranteed, ..plain.offers };
        let security = security.clone();
        InterfaceParams { security, offers, learns_reduction: true, ..plain }
    };
    Ok(NodeParams {
        interfaces: interfaces.iter().map(interface).collect(),
        timers: Timers { period: plan.refresh, ..Timers::default() },
        limits: Limits { sessions: 1, ..Limits::default() },
        // Hosts that begin at once do not refresh at once.
        seed: now ^ u64::from(std::process::id()) << 32,
        epoch: epoch(now, std::process::id()),
    })
}

/// A number for the messages of one program: several programs of a host have one address, and a
/// neighbour tells their messages apart by this alone.
const fn epoch(now_ns: u64, process: u32) -> u32 {
    let millis = (now_ns / 1_000_000) as u32;
    (millis ^ process.wrapping_mul(SPREAD) >> 8) & weir_rsvp::wire::EPOCH_MAX
}

/// Words of a list: `a, b and c`.
fn listed(words: &[&str]) -> String {
    match words {
        [] => "none".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

impl Wish {
    /// Returns the style of a reservation.
    pub fn style(&self) -> Option<Style> {
        match self {
            Wish::Receive(receiving) => Some(receiving.style),
            Wish::Send(_) => None,
        }
    }
}

/// [rfc2215 §3.3] The largest bandwidth that an ADSPEC tells, in bytes a second: a host does not
/// know that of its line.
const BANDWIDTH_MAX: f32 = 40e12;
const MTU_UNKNOWN: u32 = 1500;
/// A message that is not acknowledged leaves three times within 1.5 s [rfc2961 §6.3].
const LINGER: Duration = Duration::from_millis(1600);
/// An odd number that spreads the numbers of processes.
const SPREAD: u32 = 0x9e37_79b9;
/// Interfaces of a host that speak RSVP.
const INTERFACES_MAX: usize = 64;
