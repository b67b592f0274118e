//! Joins a node with a network, a clock and timers.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration as Wait;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_core::classify::InterfaceId;
use weir_core::units::{Duration, Instant};
use weir_rsvp::node::{
    Action, Arrival, Call, Control, Event, FlowId, Node, NodeParams, Packet, Poll, Routes,
};
use weir_rsvp::wire::Cause;

use super::routing::{Changes, HostInterface};
use crate::wait::monotonic_ns;

/// The facts about a message that came with its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The interface by which it arrived.
    pub interface: InterfaceId,
    /// The source address of the IP header.
    pub source: IpAddr,
    /// The IP destination: of a Path that of its session, also on a router.
    pub destination: IpAddr,
    /// The IP TTL or hop limit.
    pub ttl: u8,
}

/// The sockets and routes of a node.
///
/// [`super::KernelNetwork`] is that of a host or router, [`super::BridgeNetwork`] that of a bridge.
pub trait Network: Routes {
    /// Returns the next message that waits, in `message`; none if none does.
    fn receive(&mut self, message: &mut Vec<u8>) -> Option<Received>;

    /// Sends a message.
    ///
    /// # Errors
    /// When it did not leave; RSVP sends it again with its next refresh.
    fn send(&mut self, packet: &Packet) -> io::Result<()>;

    /// Reads notices of changed routes; returns whether routes have to be refreshed.
    fn read_notices(&mut self) -> bool {
        false
    }

    /// Refreshes the routes that notices concern; returns the changes.
    fn refresh(&mut self) -> Changes {
        Changes::default()
    }

    /// Returns the interfaces as they are now; the first is `InterfaceId(0)`.
    fn interfaces(&self) -> &[HostInterface];

    /// Returns what to wait for.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;
}

/// Decides which flows may be reserved, and carries the decisions out.
pub trait Admission {
    /// Takes a change of a flow. None if the answer comes later, by [`Driver::answer`]; nothing
    /// waits for an answer to `Control::Remove`.
    fn change(&mut self, now: Instant, control: Control) -> Option<Result<(), Cause>>;
}

impl<F: FnMut(Instant, Control) -> Option<Result<(), Cause>>> Admission for F {
    fn change(&mut self, now: Instant, control: Control) -> Option<Result<(), Cause>> {
        self(now, control)
    }
}

/// Admits everything: for a host whose interface has no traffic control.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmitAll;

impl Admission for AdmitAll {
    fn change(&mut self, _now: Instant, _control: Control) -> Option<Result<(), Cause>> {
        Some(Ok(()))
    }
}

/// The results of a turn.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Turn {
    /// Notices for applications of this host.
    pub events: Vec<Event>,
    /// When the next turn is due, if nothing comes before.
    pub deadline: Option<Instant>,
}

/// A node that runs on a network.
pub struct Driver<N: Network> {
    node: Node,
    network: N,
    /// Routes are not refreshed before this instant.
    refresh_at: Instant,
    failures: BTreeMap<InterfaceId, SendFailure>,
    message: Vec<u8>,
    /// The node's clock, if that is not the system's.
    time: Option<Instant>,
}

/// Messages that did not leave by an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendFailure {
    /// The number of messages since the start.
    pub count: u64,
    /// The system's reason for the last one.
    pub why: String,
}

impl<N: Network> Driver<N> {
    /// A node without sessions on a network.
    pub fn new(params: NodeParams, network: N) -> Self {
        let refresh_at = Instant::from_nanos(0);
        let (failures, message) = (BTreeMap::new(), Vec::new());
        Self { node: Node::new(params), network, refresh_at, failures, message, time: None }
    }

    /// Returns the time of the node's clock.
    pub fn now() -> Instant {
        Instant::from_nanos(monotonic_ns())
    }

    /// Gives the node a clock that only this call moves on, in place of the system's.
    pub fn set_time(&mut self, now: Instant) {
        self.time = Some(now);
    }

    /// Returns the time that [`Driver::set_time`] gave.
    pub fn own_time(&self) -> Option<Instant> {
        self.time
    }

    fn time(&self) -> Instant {
        self.time.unwrap_or_else(Self::now)
    }

    /// Returns the node, to look at its sessions.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the network, for its interfaces.
    pub fn network(&self) -> &N {
        &self.network
    }

    /// Returns the network, to join groups.
    pub fn network_mut(&mut self) -> &mut N {
        &mut self.network
    }

    /// Returns the messages that did not leave.
    pub fn failures(&self) -> &BTreeMap<InterfaceId, SendFailure> {
        &self.failures
    }

    /// Calls the node, as in `driver.call(|node, call| node.announce(call, sender))`.
    /// A turn has to follow.
    pub fn call<T>(&mut self, call: impl FnOnce(&mut Node, Call<'_>) -> T) -> T {
        let now = self.time();
        call(&mut self.node, Call::new(now, &self.network))
    }

    /// Gives the decision on a change of a flow that was not decided at once. Returns whether the
    /// node waited for it. A turn has to follow.
    pub fn answer(&mut self, flow: FlowId, answer: Result<(), Cause>) -> bool {
        self.call(|node, call| node.answer(call, flow, answer))
    }

    /// Takes what came, and carries out what the node wants. Never waits.
    pub fn turn(&mut self, admission: &mut dyn Admission) -> Turn {
        let now = self.time();
        let notices = self.follow_routes(now);
        let mut message = std::mem::take(&mut self.message);
        let mut left = MESSAGES_MAX;
        while left > 0 {
            let Some(received) = self.network.receive(&mut message) else { break };
            let Received { interface, source, destination, ttl } = received;
            let arrival = Arrival { interface, source, destination, ttl, bytes: &message };
            self.node.receive(Call::new(now, &self.network), arrival);
            left -= 1;
        }
        self.message = message;
        let mut turn = self.carry_out(now, admission);
        if left == 0 {
            turn.deadline = Some(now);
        }
        turn.deadline = turn.deadline.into_iter().chain(notices).min();
        turn
    }

    fn carry_out(&mut self, now: Instant, admission: &mut dyn Admission) -> Turn {
        let mut events = Vec::new();
        for _ in 0..ACTIONS_MAX {
            match self.node.poll(Call::new(now, &self.network)) {
                Poll::Action(Action::Send(packet)) => self.send(&packet),
                Poll::Action(Action::Event(event)) => events.push(event),
                Poll::Action(Action::Control(control)) => {
                    let flow = match &control {
                        Control::Add(flow, _) | Control::Modify(flow, _) => Some(*flow),
                        Control::Remove(..) => None,
                    };
                    let answer = admission.change(now, control);
                    if let (Some(flow), Some(answer)) = (flow, answer) {
                        self.node.answer(Call::new(now, &self.network), flow, answer);
                    }
                }
                Poll::At(at) => return Turn { events, deadline: Some(at) },
                Poll::Idle => return Turn { events, deadline: None },
            }
        }
        Turn { events, deadline: Some(now) }
    }

    fn send(&mut self, packet: &Packet) {
        let Err(error) = self.network.send(packet) else { return };
        let none = SendFailure { count: 0, why: String::new() };
        let failure = self.failures.entry(packet.interface).or_insert(none);
        failure.count += 1;
        failure.why = error.to_string();
    }

    /// Notifies the node of changed routes; returns when to refresh routes next, if that is due.
    fn follow_routes(&mut self, now: Instant) -> Option<Instant> {
        if !self.network.read_notices() {
            return None;
        }
        if now < self.refresh_at {
            return Some(self.refresh_at);
        }
        self.refresh_at = now.after(REFRESH_GAP);
        let changes = self.network.refresh();
        for interface in changes.interfaces {
            let known = self.network.interfaces().get(usize::from(interface.0));
            let addresses = known.map_or_else(Vec::new, |known| known.addresses.clone());
            self.node.set_addresses(interface, addresses);
        }
        if !changes.destinations.is_empty() {
            let is_hit = |address| changes.destinations.contains(&address);
            self.node.routes_changed(now, is_hit);
        }
        None
    }

    /// Waits until a turn is due, something came, or one of `others` is readable.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn wait(&self, deadline: Option<Instant>, others: &[BorrowedFd<'_>]) -> io::Result<()> {
        let descriptors = self.network.descriptors();
        let all = descriptors.iter().chain(others);
        let mut polled: Vec<_> =
            all.map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
        let now = self.time();
        let left =
            deadline.map(|at| Wait::from_nanos(at.as_nanos().saturating_sub(now.as_nanos())));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Bound: messages of RSVP that one turn takes; the rest waits in the socket.
const MESSAGES_MAX: usize = 256;
/// Bound: actions of a node that one turn carries out; the rest follows in the next.
const ACTIONS_MAX: usize = 4096;
/// How often changed routes are looked at: notices come in bursts.
const REFRESH_GAP: Duration = Duration::from_millis(200);
