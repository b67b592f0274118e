//! A host that announces a flow, or reserves for one: a node of RSVP for one session.
//!
//! [`Host::open`] needs CAP_NET_RAW. [`Host::turn`] never waits, and returns in [`HostEvent`]s what
//! happened to the flow; [`Host::wait`] waits until the next turn is due. Other programs of this
//! kind may run beside it: each sees only the messages of its own session, and `listener.rs` lets
//! others on the machine list it and end it. Without refreshes the network forgets, so a process
//! that dies reserves no more after some refresh periods.

mod events;
mod kept;
mod listener;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use weir_core::classify::InterfaceId;
use weir_core::units::{Duration, Instant};
use weir_rsvp::intserv::{Adspec, Characterization, Terms, Tspec};
use weir_rsvp::node::{
    Announcement, Event, HostError, InterfaceParams, Limits, NodeParams, Timers,
};
use weir_rsvp::receiver::Receiver;
use weir_rsvp::wire::{Cause, Filter, Reservation, Session};

pub use events::{HostEvent, HostStatus, Role, State, protocol_name};
pub use kept::Kept;
pub use listener::{end, list};
pub use weir_rsvp::receiver::{Asked, Receiving, rate_text};

use super::driver::{AdmitAll, Driver};
use super::kernel::KernelNetwork;
use super::keys;
use super::open::{Descriptors, Role as SocketRole};
use super::routing::{HostInterface, host_interfaces};
use crate::error::{Result, SystemError};
use crate::wait::realtime_ns;
use listener::HostListener;

/// The settings of a host in one session.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// The session in which it sends or receives.
    pub session: Session,
    /// The only interface; without it all that are up and have an address.
    pub interface: Option<String>,
    /// The refresh period of Path or Resv messages.
    pub refresh: Duration,
    /// The text of a file of keys, with which messages are signed and checked.
    pub keys: Option<String>,
    /// The flow that it announces, or the reservation that it makes.
    pub request: HostRequest,
}

/// A side of a flow.
#[derive(Clone, Debug)]
pub enum HostRequest {
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
    /// The most that it sends. A largest packet of 0 is the MTU of its interface.
    pub tspec: Tspec,
    /// The IP TTL of its packets.
    pub ttl: u8,
}

/// A host at work in one session.
pub struct Host {
    driver: Driver<KernelNetwork>,
    listener: HostListener,
    session: Session,
    side: Side,
    state: State,
    begun: Instant,
    /// Events for the next turn to return.
    events: Vec<HostEvent>,
}

/// The role of the host in its session.
enum Side {
    /// A sender, named so, which sends this at most.
    Sender(Filter, Tspec),
    Receiver(Receiver),
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
        if group.is_multicast() && matches!(plan.request, HostRequest::Receive(_)) {
            (0..names.len() as u16)
                .try_for_each(|at| network.join(group, InterfaceId(at), true))?;
        }
        let params = node_params(&plan, &interfaces)?;
        network.show_only(plan.session);
        let mut driver = Driver::new(params, network);
        let listener = HostListener::open()?;
        let HostPlan { session, request, .. } = plan;
        let begun = Driver::<KernelNetwork>::now();
        let (side, first) = match request {
            HostRequest::Send(sending) => {
                let at = interfaces.iter().find(|one| one.addresses.contains(&own));
                let mtu = at.map_or(MTU_UNKNOWN, |one| one.mtu);
                let sender = Filter::new(own, sending.port);
                let tspec = announce(&mut driver, (session, sender), sending, mtu)?;
                let first = HostEvent::Announced { sender: events::place(&sender), tspec };
                (Side::Sender(sender, tspec), first)
            }
            HostRequest::Receive(receiving) => {
                let receiver = Receiver::new(session, own, receiving);
                (Side::Receiver(receiver), HostEvent::Listening(session))
            }
        };
        let (state, events) = (State::Waiting, vec![first]);
        Ok(Self { driver, listener, session, side, state, begun, events })
    }

    /// Returns the time of its clock.
    pub fn now() -> Instant {
        Driver::<KernelNetwork>::now()
    }

    /// Handles the messages that arrived and the actions that are due; returns the events and when
    /// the next turn is due. Never waits.
    pub fn turn(&mut self) -> (Vec<HostEvent>, Option<Instant>) {
        self.driver.call(|node, _| node.raise_sequence(realtime_ns()));
        let turn = self.driver.turn(&mut AdmitAll);
        let mut deadline = turn.deadline;
        for event in turn.events {
            self.handle(event);
        }
        if self.claim() {
            deadline = Some(Driver::<KernelNetwork>::now());
        }
        self.listener.serve(&self.status());
        (std::mem::take(&mut self.events), deadline)
    }

    /// Waits until a turn is due, something came, or one of `others` is readable.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn wait(&self, deadline: Option<Instant>, others: &[BorrowedFd<'_>]) -> io::Result<()> {
        let all: Vec<_> =
            [self.listener.as_fd()].into_iter().chain(others.iter().copied()).collect();
        self.driver.wait(deadline, &all)
    }

    /// Returns whether a program on this machine requested its end ([`end`]).
    pub fn is_released(&self) -> bool {
        self.listener.is_released()
    }

    /// Returns the status, as other programs on this machine see it.
    pub fn status(&self) -> HostStatus {
        let (role, senders, asked) = match &self.side {
            Side::Sender(sender, tspec) => (Role::Sender, vec![(sender, tspec)], None),
            Side::Receiver(receiver) => {
                (Role::Receiver, receiver.senders().collect(), receiver.asked())
            }
        };
        let asked = asked.map(|wanted| &wanted.reservation);
        let rate = match asked {
            Some(reservation) => reservation.rate(),
            None => senders.iter().map(|(_, tspec)| tspec.rate.into()).fold(0.0, f64::max),
        };
        let age = Driver::<KernelNetwork>::now().as_nanos().saturating_sub(self.begun.as_nanos());
        HostStatus {
            process: std::process::id(),
            role,
            destination: self.session.destination,
            protocol: self.session.protocol,
            port: self.session.port,
            senders: senders.iter().map(|(sender, _)| events::place(sender)).collect(),
            style: asked.map(|reservation| reservation.style.to_string()),
            service: asked.and_then(Reservation::service).map(|service| service.to_string()),
            rate,
            state: self.state.clone(),
            seconds: age / 1_000_000_000,
        }
    }

    /// Returns the state of the flow.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns messages that did not leave, with the system's reason.
    pub fn failure(&self) -> Option<&str> {
        self.driver.failures().values().next().map(|failure| failure.why.as_str())
    }

    /// Withdraws the flow or the reservation, so that the network need not wait for its end. Where
    /// the neighbour acknowledges messages, it waits for that, or until the message was sent three
    /// times.
    pub fn end(mut self) {
        let session = self.session;
        self.driver.call(|node, call| match &mut self.side {
            Side::Sender(sender, _) => {
                // What is not there need not go.
                let _gone = node.withdraw(call, session, *sender);
            }
            Side::Receiver(receiver) => receiver.end(call, node),
        });
        let until = Self::now().after(LINGER);
        loop {
            self.driver.call(|node, _| node.raise_sequence(realtime_ns()));
            let due = self.driver.turn(&mut AdmitAll).deadline;
            if self.driver.node().unacknowledged() == 0 || Self::now() >= until {
                return;
            }
            if self.driver.wait(due.into_iter().chain([until]).min(), &[]).is_err() {
                return;
            }
        }
    }

    /// Handles an event of the node.
    fn handle(&mut self, event: Event) {
        match (event, &mut self.side) {
            (Event::Path { sender, tspec, adspec, .. }, Side::Receiver(receiver)) => {
                let broken = adspec.as_ref().is_some_and(|path| path.general.broken);
                if receiver.note_sender(sender, tspec, adspec) {
                    self.events.push(HostEvent::Sender {
                        sender: events::place(&sender),
                        tspec,
                        broken,
                    });
                }
            }
            (Event::PathGone { sender, .. }, Side::Receiver(receiver)) => {
                receiver.forget(&sender);
                self.events.push(HostEvent::SenderGone { sender: events::place(&sender) });
            }
            (Event::Confirmed { node, .. }, Side::Receiver(receiver))
                if receiver.asked().is_some() =>
            {
                self.set_state(State::Accepted { by: Some(node) });
            }
            (Event::ResvError { error, .. }, Side::Receiver(_)) => {
                if error.not_guilty {
                    let Cause { code, value } = error.cause;
                    self.events.push(HostEvent::OtherRefused { by: error.node, code, value });
                } else {
                    self.set_state(State::refused(&error));
                }
            }
            (Event::Reserved { reservation, .. }, Side::Sender(..)) => {
                let state = match &reservation {
                    Some(_) => State::Accepted { by: None },
                    None => State::Waiting,
                };
                self.events.push(HostEvent::Reserved { reservation });
                self.state = state;
            }
            (Event::PathError { error, .. }, Side::Sender(..)) => {
                self.set_state(State::refused(&error));
            }
            _ => {}
        }
    }

    /// Records the network's decision, as an event if it is new.
    fn set_state(&mut self, state: State) {
        if self.state != state {
            self.events.push(HostEvent::State(state.clone()));
            self.state = state;
        }
    }

    /// A receiver makes or changes its reservation. Returns whether a turn has to follow.
    fn claim(&mut self) -> bool {
        let Side::Receiver(receiver) = &mut self.side else { return false };
        match self.driver.call(|node, call| receiver.claim(call, node)) {
            Ok(false) => return false,
            Ok(true) => {
                let asked = receiver.asked().cloned();
                self.state = if asked.is_some() { State::Asked } else { State::Waiting };
                self.events.extend(asked.map(HostEvent::Asked));
            }
            Err(why) => {
                self.set_state(State::Impossible { why });
                return false;
            }
        }
        true
    }
}

/// Announces a flow from an interface of this MTU; returns the Tspec that was announced.
fn announce(
    driver: &mut Driver<KernelNetwork>,
    (session, sender): (Session, Filter),
    sending: Sending,
    mtu: u32,
) -> Result<Tspec> {
    let Sending { mut tspec, ttl, .. } = sending;
    if tspec.packet_max == 0 {
        tspec.packet_max = mtu;
        tspec.packet_min = tspec.packet_min.min(mtu);
    }
    tspec.bucket = tspec.bucket.max(tspec.packet_max as f32);
    let adspec = Some(Adspec::at_sender(BANDWIDTH_MAX, mtu));
    let announcement = Announcement { session, sender, tspec, adspec, ttl, police: true };
    let done = driver.call(|node, call| node.announce(call, announcement));
    done.map_err(|error| host_error("announce the flow", error, &tspec))?;
    Ok(tspec)
}

fn host_error(action: &str, error: HostError, tspec: &Tspec) -> SystemError {
    let why = match (error, tspec.fault()) {
        (HostError::Unsound(Cause::BAD_TSPEC), Some(fault)) => format!("its {fault} is wrong"),
        _ => error.to_string(),
    };
    SystemError::refused(action, why, "")
}

/// Returns the interfaces that the plan selects.
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
    match &plan.request {
        HostRequest::Receive(_) if destination.is_multicast() => {
            let found = own.iter().find(|one| one.is_ipv4() == destination.is_ipv4()).copied();
            found.map_or_else(
                || refuse(format!("receive {destination}"), "use the other IP version"),
                Ok,
            )
        }
        HostRequest::Receive(_) if own.contains(&destination) => Ok(destination),
        HostRequest::Receive(_) => refuse(
            format!("receive packets to {destination}"),
            "name the address that the flow is sent to, on its receiver",
        ),
        HostRequest::Send(_) if own.contains(&destination) => refuse(
            format!("announce a flow to {destination}"),
            "a flow within a host needs no reservation",
        ),
        HostRequest::Send(Sending { from: Some(from), .. }) if own.contains(from) => Ok(*from),
        HostRequest::Send(Sending { from: Some(from), .. }) => {
            refuse(format!("send from {from}"), "name one of them after `--from`")
        }
        HostRequest::Send(_) => {
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
    millis ^ process.wrapping_mul(SPREAD) >> 8
}

/// Words of a list: `a, b and c`.
fn listed(words: &[&str]) -> String {
    match words {
        [] => "none".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
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
