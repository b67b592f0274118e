//! Networks of nodes in memory: wires with delay and loss, shortest paths, and a traffic control
//! that admits up to a capacity.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_core::classify::InterfaceId;
use weir_core::random::Random;
use weir_core::units::{Duration, Instant};
use weir_rsvp::integrity::Security;
use weir_rsvp::intserv::{Adspec, Flowspec, Terms, Tspec};
use weir_rsvp::node::{
    Action, Announcement, Arrival, Call, Claim, Control, Event, FlowId, HostError, InterfaceParams,
    Limits, Node, NodeParams, Packet, Poll, Removal, Request, Route, Routes, Timers,
};
use weir_rsvp::wire::{Cause, Descriptor, Filter, Reservation, Session, Style};

/// A wire: two ends, each a node and its interface.
#[derive(Clone, Copy)]
pub struct Wire {
    pub ends: [(usize, u16); 2],
    pub up: bool,
}

/// The settings that all nodes of a network share.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub seed: u64,
    pub v6: bool,
    pub reduction: bool,
}

pub const PLAIN: Setup = Setup { seed: 1, v6: false, reduction: false };

/// The shortest paths of a network.
#[derive(Clone, Default)]
pub struct Map {
    wires: Vec<Wire>,
    nodes: usize,
    /// The node of each address.
    homes: BTreeMap<IpAddr, usize>,
    /// The receivers of each group.
    pub members: BTreeMap<IpAddr, Vec<usize>>,
}

pub struct Net {
    pub nodes: Vec<Node>,
    pub map: Map,
    pub now: Instant,
    /// How many messages in a thousand are lost.
    pub loss: u32,
    /// The rate that an interface admits, in bytes a second; any if it is not named.
    pub capacity: BTreeMap<(usize, u16), f32>,
    /// The flows that traffic control has.
    pub installed: BTreeMap<(usize, FlowId), Request>,
    pub events: Vec<(Instant, usize, Event)>,
    /// Requests to traffic control, in order.
    pub changes: Vec<(Instant, usize, &'static str)>,
    /// Every message that was sent.
    pub sent: u64,
    dead: Vec<usize>,
    v6: bool,
    random: Random,
    flying: BTreeMap<(Instant, u64), (usize, u16, Packet)>,
    serial: u64,
}

impl Net {
    /// Builds a network of wires between nodes.
    pub fn new(setup: Setup, links: &[(usize, usize)]) -> Self {
        Self::secured(setup, links, |_| None)
    }

    /// Builds a network whose wires may have keys.
    pub fn secured(
        setup: Setup,
        links: &[(usize, usize)],
        security: impl Fn(usize) -> Option<Security>,
    ) -> Self {
        let secure = |wire: usize, _: usize, params: &mut InterfaceParams| {
            params.security = security(wire);
        };
        Self::built(setup, links, secure, Limits::default())
    }

    /// Builds a network without keys, where interfaces of nodes may be otherwise.
    fn adjusted(
        setup: Setup,
        links: &[(usize, usize)],
        adjust: impl Fn(usize, &mut InterfaceParams),
    ) -> Self {
        let adjust = |_: usize, node: usize, params: &mut InterfaceParams| adjust(node, params);
        Self::built(setup, links, adjust, Limits::default())
    }

    /// Builds a network without keys, where the tables of nodes have these bounds.
    pub fn limited(setup: Setup, links: &[(usize, usize)], limits: Limits) -> Self {
        Self::built(setup, links, |_, _, _| (), limits)
    }

    fn built(
        setup: Setup,
        links: &[(usize, usize)],
        adjust: impl Fn(usize, usize, &mut InterfaceParams),
        limits: Limits,
    ) -> Self {
        let count = links.iter().map(|(one, other)| one.max(other) + 1).max().unwrap_or(0);
        let mut interfaces: Vec<Vec<InterfaceParams>> = vec![Vec::new(); count];
        let mut map = Map { nodes: count, ..Map::default() };
        for (number, &(one, other)) in links.iter().enumerate() {
            let ends = [one, other].map(|node| (node, interfaces[node].len() as u16));
            map.wires.push(Wire { ends, up: true });
            for (end, node) in [(1, one), (2, other)] {
                let address = address(setup.v6, number, end);
                map.homes.insert(address, node);
                let mut params = InterfaceParams::plain(vec![address], 1e6, 1500);
                params.offers.latency = Some(DELAY_MICROS);
                params.offers.guaranteed = Some(Terms { c: 1500, d: 100 });
                params.reduction = setup.reduction;
                adjust(number, node, &mut params);
                interfaces[node].push(params);
            }
        }
        let node = |(number, interfaces)| {
            Node::new(NodeParams {
                interfaces,
                timers: Timers::default(),
                limits,
                seed: setup.seed.wrapping_mul(1000).wrapping_add(number as u64),
                epoch: number as u32 + 1,
            })
        };
        Self {
            nodes: interfaces.into_iter().enumerate().map(node).collect(),
            map,
            now: Instant::from_nanos(0),
            loss: 0,
            capacity: BTreeMap::new(),
            installed: BTreeMap::new(),
            events: Vec::new(),
            changes: Vec::new(),
            sent: 0,
            dead: Vec::new(),
            v6: setup.v6,
            random: Random::new(setup.seed, 99),
            flying: BTreeMap::new(),
            serial: 0,
        }
    }

    /// A chain whose ends learn who understands identifiers, with a session from 0 to `last`.
    /// The nodes between use them if `routers_reduce`.
    pub fn with_hosts(setup: Setup, last: usize, routers_reduce: bool) -> (Self, Session, Filter) {
        let links: Vec<_> = (0..last).map(|node| (node, node + 1)).collect();
        let net = Self::adjusted(setup, &links, |node, params| {
            let is_host = node == 0 || node == last;
            (params.reduction, params.learns_reduction) = (routers_reduce && !is_host, is_host);
        });
        let session = Session::udp(net.address(last - 1, 2), 5000);
        let sender = Filter::new(net.address(0, 1), 4000);
        (net, session, sender)
    }

    /// A chain of nodes 0, 1, ... `last`.
    pub fn chain(setup: Setup, last: usize) -> Self {
        let links: Vec<_> = (0..last).map(|node| (node, node + 1)).collect();
        Self::new(setup, &links)
    }

    /// The address of a node at the end of a wire.
    pub fn address(&self, wire: usize, end: u8) -> IpAddr {
        address(self.v6, wire, end)
    }

    /// An address of a node.
    pub fn home(&self, node: usize) -> IpAddr {
        let mut homes = self.map.homes.iter();
        let home = homes.find(|(_, home)| **home == node);
        *home.expect("each node has a wire").0
    }

    /// Begins or ends a wire; nodes hear of it.
    pub fn set_wire(&mut self, wire: usize, up: bool) {
        self.map.wires[wire].up = up;
        self.nodes.iter_mut().for_each(|node| node.routes_changed(self.now, |_| true));
    }

    pub fn announce(&mut self, node: usize, session: Session, sender: Filter, rate: f32) {
        let announced = self.try_announce(node, session, sender, rate);
        assert_eq!(announced, Ok(()), "the test announces what it may");
    }

    pub fn try_announce(
        &mut self,
        node: usize,
        session: Session,
        sender: Filter,
        rate: f32,
    ) -> Result<(), HostError> {
        let announcement = Announcement {
            session,
            sender,
            tspec: tspec(rate),
            adspec: Some(Adspec::at_sender(1e9, 9000)),
            ttl: 63,
            police: true,
        };
        let routes = At(&self.map, node);
        self.nodes[node].announce(Call::new(self.now, &routes), announcement)
    }

    pub fn withdraw(&mut self, node: usize, session: Session, sender: Filter) {
        let routes = At(&self.map, node);
        let withdrawn = self.nodes[node].withdraw(Call::new(self.now, &routes), session, sender);
        assert_eq!(withdrawn, Ok(()), "the test withdraws what it announced");
    }

    pub fn reserve(
        &mut self,
        node: usize,
        session: Session,
        reservation: Reservation,
    ) -> Result<(), HostError> {
        let confirm = Some(self.home(node));
        let routes = At(&self.map, node);
        self.nodes[node].reserve(
            Call::new(self.now, &routes),
            Claim { session, reservation, confirm, priority: None },
        )
    }

    /// Traffic control takes back all flows of a node.
    pub fn preempt(&mut self, node: usize) {
        let flows: Vec<FlowId> =
            self.installed.keys().filter(|(at, _)| *at == node).map(|(_, flow)| *flow).collect();
        for flow in flows {
            let routes = At(&self.map, node);
            let known =
                self.nodes[node].preempt(Call::new(self.now, &routes), flow, Cause::PREEMPTED);
            assert!(known, "an installed flow can be taken back");
            self.installed.remove(&(node, flow));
        }
    }

    pub fn release(&mut self, node: usize, session: Session) {
        let routes = At(&self.map, node);
        let released = self.nodes[node].release(Call::new(self.now, &routes), session);
        assert_eq!(released, Ok(()), "the test releases what it reserved");
    }

    /// A node dies without a word, and routing does not notice.
    pub fn silence(&mut self, node: usize) {
        self.dead.push(node);
    }

    /// Runs until nothing is to be done before `end`, and sets the time to it.
    pub fn run_until(&mut self, end: Instant) {
        self.run(end, |_| false);
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now.after(time));
    }

    /// Runs until a condition holds after some event, at most until `end`; returns whether it holds.
    pub fn run(&mut self, end: Instant, mut done: impl FnMut(&Net) -> bool) -> bool {
        loop {
            let timer = (0..self.nodes.len()).filter_map(|node| self.poll(node)).min();
            if done(self) {
                return true;
            }
            let next = self.flying.keys().next().map(|(at, _)| *at).into_iter().chain(timer).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            self.deliver();
        }
        self.now = end;
        false
    }

    /// Carries out what a node wants; returns when it wants more.
    fn poll(&mut self, node: usize) -> Option<Instant> {
        if self.dead.contains(&node) {
            return None;
        }
        loop {
            let routes = At(&self.map, node);
            match self.nodes[node].poll(Call::new(self.now, &routes)) {
                Poll::Action(Action::Send(packet)) => self.send(node, packet),
                Poll::Action(Action::Control(control)) => self.control(node, control),
                Poll::Action(Action::Event(event)) => self.events.push((self.now, node, event)),
                Poll::At(at) => return Some(at),
                Poll::Idle => return None,
            }
        }
    }

    fn send(&mut self, node: usize, packet: Packet) {
        self.sent += 1;
        let interface = packet.interface.0;
        let wire = self.map.wires.iter().find(|wire| wire.ends.contains(&(node, interface)));
        let wire = wire.expect("each interface is the end of a wire");
        if !wire.up || self.random.below(1000) < self.loss {
            return;
        }
        let (to, on) = wire.ends[usize::from(wire.ends[0] == (node, interface))];
        self.serial += 1;
        let at = self.now.after(Duration::from_micros(u64::from(DELAY_MICROS)));
        self.flying.insert((at, self.serial), (to, on, packet));
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now)
        {
            let (node, interface, packet) = entry.remove();
            let Packet { source, destination, ttl, bytes, .. } = &packet;
            let arrival = Arrival {
                interface: InterfaceId(interface),
                source: *source,
                destination: *destination,
                ttl: *ttl,
                bytes,
            };
            let routes = At(&self.map, node);
            self.nodes[node].receive(Call::new(self.now, &routes), arrival);
        }
    }

    fn control(&mut self, node: usize, control: Control) {
        let (flow, request) = match control {
            Control::Remove(flow, why) => {
                self.installed.remove(&(node, flow));
                let word = match why {
                    Removal::Torn => "torn",
                    Removal::Expired => "expired",
                    Removal::Rerouted => "rerouted",
                };
                self.changes.push((self.now, node, word));
                return;
            }
            Control::Add(flow, request) => {
                self.changes.push((self.now, node, "add"));
                (flow, request)
            }
            Control::Modify(flow, request) => {
                self.changes.push((self.now, node, "modify"));
                (flow, request)
            }
        };
        let place = (node, request.interface.0);
        let used: f32 = self
            .installed
            .iter()
            .filter(|((at, other), one)| (*at, one.interface.0) == place && *other != flow)
            .map(|(_, one)| one.flowspec.tspec().rate)
            .sum();
        let room = self.capacity.get(&place).copied().unwrap_or(f32::INFINITY);
        let answer = if used + request.flowspec.tspec().rate <= room {
            self.installed.insert((node, flow), request);
            Ok(())
        } else {
            Err(Cause::BANDWIDTH)
        };
        let routes = At(&self.map, node);
        // A flow that is gone by now is removed by a later action.
        self.nodes[node].answer(Call::new(self.now, &routes), flow, answer);
    }

    /// The rates installed at a node, in the order of its flows.
    pub fn rates(&self, node: usize) -> Vec<f32> {
        let at_node = self.installed.iter().filter(|((at, _), _)| *at == node);
        at_node.map(|(_, request)| request.flowspec.tspec().rate).collect()
    }

    /// Checks that every node's view is what traffic control has.
    pub fn check_flows(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            let mut viewed = BTreeMap::new();
            for view in node.sessions() {
                for flow in view.flows {
                    viewed.extend(flow.installed.map(|request| ((number, flow.id), request)));
                }
            }
            let has: BTreeMap<_, _> = self
                .installed
                .iter()
                .filter(|((at, _), _)| *at == number)
                .map(|(key, request)| (*key, request.clone()))
                .collect();
            assert_eq!(viewed, has, "node {number}");
        }
    }

    /// How many sessions all nodes have.
    pub fn sessions(&self) -> usize {
        self.nodes.iter().map(|node| node.sessions().count()).sum()
    }
}

/// The routing of one node.
struct At<'a>(&'a Map, usize);

impl Routes for At<'_> {
    fn route(&self, destination: IpAddr, source: IpAddr) -> Route {
        self.0.route(self.1, destination, source)
    }
}

impl Map {
    fn route(&self, node: usize, destination: IpAddr, source: IpAddr) -> Route {
        if destination.is_multicast() {
            return self.tree(node, destination, source);
        }
        let Some(&home) = self.homes.get(&destination) else { return Route::default() };
        let outgoing = self.next(node, home).into_iter().map(InterfaceId).collect();
        Route { incoming: None, outgoing, local: home == node }
    }

    /// The part of a shortest path tree at a node.
    fn tree(&self, node: usize, group: IpAddr, source: IpAddr) -> Route {
        let Some(&root) = self.homes.get(&source) else { return Route::default() };
        let members = self.members.get(&group).cloned().unwrap_or_default();
        let mut route = Route { local: members.contains(&node), ..Route::default() };
        if node != root {
            route.incoming = self.next(node, root).map(InterfaceId);
        }
        for member in members {
            let path = self.path(root, member);
            let leaves = path.windows(2).find(|pair| pair[0] == node);
            if let Some(pair) = leaves {
                route.outgoing.extend(self.next(node, pair[1]).map(InterfaceId));
            }
        }
        route
    }

    /// The nodes from one to another, the way back of the shortest path from there.
    pub fn path(&self, from: usize, to: usize) -> Vec<usize> {
        let mut path = vec![to];
        while path[path.len() - 1] != from && path.len() <= self.nodes {
            let at = path[path.len() - 1];
            let Some(interface) = self.next(at, from) else { return Vec::new() };
            path.push(self.beyond(at, interface));
        }
        path.reverse();
        path
    }

    fn beyond(&self, node: usize, interface: u16) -> usize {
        let end = (node, interface);
        let wire = self.wires.iter().find(|wire| wire.ends.contains(&end));
        let wire = wire.expect("each interface is the end of a wire");
        wire.ends[usize::from(wire.ends[0] == end)].0
    }

    /// The interface of `node` on a shortest path to `home`.
    fn next(&self, node: usize, home: usize) -> Option<u16> {
        let mut first = vec![None; self.nodes];
        let mut waiting = VecDeque::from([node]);
        let mut seen = vec![false; self.nodes];
        seen[node] = true;
        while let Some(at) = waiting.pop_front() {
            for wire in self.wires.iter().filter(|wire| wire.up) {
                for (near, far) in [(0, 1), (1, 0)] {
                    let ((here, interface), (there, _)) = (wire.ends[near], wire.ends[far]);
                    if here == at && !seen[there] {
                        seen[there] = true;
                        first[there] = first[at].or(Some(interface));
                        waiting.push_back(there);
                    }
                }
            }
        }
        first[home]
    }
}

fn address(v6: bool, wire: usize, end: u8) -> IpAddr {
    if v6 {
        let last = u16::from(end);
        return Ipv6Addr::new(0x2001, 0xdb8, 0, wire as u16, 0, 0, 0, last).into();
    }
    Ipv4Addr::new(10, 0, wire as u8, end).into()
}

/// A flow of this rate in bytes a second.
pub fn tspec(rate: f32) -> Tspec {
    let peak = 2.0 * rate;
    Tspec { rate, bucket: 9000.0, peak, packet_min: 64, packet_max: 1500 }
}

pub fn load(rate: f32) -> Flowspec {
    Flowspec::ControlledLoad(tspec(rate))
}

/// A reservation with one descriptor.
pub fn reservation(style: Style, rate: f32, filters: &[Filter]) -> Reservation {
    let filters = if style == Style::Wildcard { Vec::new() } else { filters.to_vec() };
    let descriptors = vec![Descriptor { flowspec: Some(load(rate)), filters }];
    Reservation { style, descriptors }
}

pub fn seconds(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

/// The delay of a wire in microseconds.
const DELAY_MICROS: u32 = 1000;
