//! Hosts and routers in private networks, each a node of RSVP on real sockets, all driven by the
//! thread of the test.
//!
//! ```text
//!           10.1.0.0/24           10.2.0.0/24
//!  sender: right -- left :router: right -- left :receiver
//!           fd01::/64             fd02::/64
//! ```

use std::fs;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration as Wait, Instant as Clock};

use weir_core::units::{Duration, Instant};
use weir_host::netlink::Mac;
use weir_host::netns::NetNs;
use weir_host::rsvp::{AdmitAll, Descriptors, Driver, KernelNetwork, Network, Role};
use weir_rsvp::intserv::Flowspec;
use weir_rsvp::node::{Announcement, Claim, Event, InterfaceParams, Limits, NodeParams, Timers};
use weir_rsvp::wire::{Descriptor, Filter, Priority, Reservation, Session, Style};
use weir_rsvp::{Adspec, Tspec};

use crate::{CableEnd, Netlink, Result, until_ok};

pub use crate::PATIENCE;

/// A node and the events that it told.
pub struct Station {
    /// The node, on its sockets.
    pub driver: Driver<KernelNetwork>,
    /// All that it told so far.
    pub events: Vec<Event>,
}

/// A row of nodes; their networks live as long.
pub struct Row {
    /// The network of each node.
    pub networks: Vec<NetNs>,
    /// The nodes that this thread drives.
    pub stations: Vec<Station>,
}

/// The settings that the nodes of a row share.
#[derive(Clone, Copy)]
pub struct Setting {
    /// How many; those between the first and the last are routers.
    pub nodes: usize,
    /// Whether they send summary refreshes.
    pub reduction: bool,
    /// The time between two refreshes.
    pub period: Duration,
    /// Whether the nodes have a clock of their own, on which a turn takes [`STEP`]: then no pause
    /// of the machine ends their state.
    pub has_own_clock: bool,
    /// Changes the settings of their interfaces.
    pub change: fn(&mut InterfaceParams),
}

impl Default for Setting {
    fn default() -> Self {
        let period = Duration::from_millis(500);
        Self { nodes: 3, reduction: false, period, has_own_clock: false, change: |_| {} }
    }
}

/// The address of node `node` on the cable behind node `cable`; with `usize::MAX` that of the
/// cable.
pub fn address(v4: bool, cable: usize, node: usize) -> IpAddr {
    let (cable, node) = (cable as u16 + 1, node.wrapping_add(1) as u16);
    match v4 {
        true => IpAddr::from([10, cable as u8, 0, node as u8]),
        false => IpAddr::from([0xfd00 | cable, 0, 0, 0, 0, 0, 0, node]),
    }
}

impl Row {
    /// Makes the networks, and a node in each.
    ///
    /// # Errors
    /// As the system says.
    pub fn new(setting: Setting) -> Result<Self> {
        let networks = networks(setting.nodes)?;
        let mut stations = Vec::new();
        for (node, network) in networks.iter().enumerate() {
            let driver = network.run(|| drive(node, setting))??;
            stations.push(Station { driver, events: Vec::new() });
        }
        Ok(Self { networks, stations })
    }

    /// Drives all nodes until `holds`.
    ///
    /// # Errors
    /// When it does not; the text has what the nodes told.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&[Station]) -> bool) -> Result<()> {
        until_ok(what, || {
            self.turn();
            let told = || self.stations.iter().map(Station::told).collect::<Vec<_>>().join("\n");
            if holds(&self.stations) { Ok(()) } else { Err(told()) }
        })
    }

    /// Drives all nodes for a time.
    pub fn run(&mut self, time: Wait) {
        let start = Clock::now();
        while start.elapsed() < time {
            self.turn();
            thread::sleep(Wait::from_millis(1));
        }
    }

    /// Lets each node take what came to it.
    pub fn turn(&mut self) {
        for station in &mut self.stations {
            if let Some(now) = station.driver.own_time() {
                station.driver.set_time(now.after(STEP));
            }
            let turn = station.driver.turn(&mut AdmitAll);
            station.events.extend(turn.events);
        }
    }

    /// Lets the first node announce a flow to the last one.
    ///
    /// # Panics
    /// If the node refuses it.
    pub fn announce(&mut self, v4: bool) -> (Session, Filter) {
        let last = self.stations.len() - 1;
        let session = Session::udp(address(v4, last - 1, last), 5004);
        let sender = Filter::new(address(v4, 0, 0), 4000);
        self.announce_to(session, sender);
        (session, sender)
    }

    /// Lets the first node announce a flow of this sender to this session.
    ///
    /// # Panics
    /// If the node refuses it.
    pub fn announce_to(&mut self, session: Session, sender: Filter) {
        let adspec = Some(Adspec::at_sender(1e6, 1500));
        let announcement =
            Announcement { session, sender, tspec: tspec(), adspec, ttl: 64, police: true };
        let done = self.stations[0].driver.call(|node, call| node.announce(call, announcement));
        assert_eq!(done, Ok(()));
    }

    /// Lets the last node reserve for it.
    ///
    /// # Panics
    /// If the node refuses it.
    pub fn reserve(&mut self, session: Session, sender: Filter) {
        self.reserve_at(session, sender, None);
    }

    /// Lets the last node reserve for it with a priority.
    ///
    /// # Panics
    /// If the node refuses it.
    pub fn reserve_at(&mut self, session: Session, sender: Filter, priority: Option<Priority>) {
        let flowspec = Some(Flowspec::ControlledLoad(tspec()));
        let descriptor = Descriptor { flowspec, filters: vec![sender] };
        let reservation = Reservation { style: Style::Fixed, descriptors: vec![descriptor] };
        let last = self.stations.last_mut().expect("there are several");
        let v4 = session.destination.is_ipv4();
        let addresses = last.driver.network().interfaces().iter().flat_map(|one| &one.addresses);
        let own = addresses.copied().find(|one| one.is_ipv4() == v4);
        let claim = Claim { session, reservation, confirm: own, priority };
        let done = last.driver.call(|node, call| node.reserve(call, claim));
        assert_eq!(done, Ok(()));
    }
}

impl Station {
    fn told(&self) -> String {
        let sessions: Vec<_> = self.driver.node().sessions().collect();
        let counts = self.driver.node().counts();
        format!("{:?}\n{sessions:?}\n{counts:?}\n{:?}", self.events, self.driver.failures())
    }

    /// Returns whether it told such an event.
    pub fn has(&self, is: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(is)
    }
}

/// Returns 100 kB/s in packets of 100 to 1000 bytes.
pub fn tspec() -> Tspec {
    Tspec { rate: 1e5, bucket: 4000.0, peak: 2e5, packet_min: 100, packet_max: 1000 }
}

/// Makes the networks of so many nodes in a row, with cables and routes.
///
/// # Errors
/// As the system says.
pub fn networks(nodes: usize) -> Result<Vec<NetNs>> {
    let networks: Vec<NetNs> =
        (0..nodes).map(|_| NetNs::new()).collect::<std::result::Result<_, _>>()?;
    (0..nodes - 1).try_for_each(|cable| connect(&networks, cable))?;
    for (node, network) in networks.iter().enumerate() {
        network.run(|| route_to_all(node, nodes))??;
    }
    Ok(networks)
}

/// Makes the cable behind node `cable`, up, with its addresses.
///
/// # Errors
/// As the system says.
pub fn connect(networks: &[NetNs], cable: usize) -> Result<()> {
    connect_ends(networks, cable, [(cable, "right"), (cable + 1, "left")])
}

/// As [`connect`], between two interfaces, each with its node.
///
/// # Errors
/// As the system says.
pub fn connect_ends(networks: &[NetNs], cable: usize, ends: [(usize, &str); 2]) -> Result<()> {
    let addresses = |node| [(address(true, cable, node), 24), (address(false, cable, node), 64)];
    let of = ends.map(|(node, _)| addresses(node));
    let end = |place: usize| {
        let (node, name) = ends[place];
        let mac = Mac([2, 0, 0, 0, cable as u8, node as u8]);
        CableEnd { namespace: &networks[node], name, mac, addresses: &of[place] }
    };
    Ok(crate::connect([end(0), end(1)], 1500)?)
}

/// Makes routes to all cables in this thread's network, and lets it forward where there are two.
///
/// # Errors
/// As the system says.
pub fn route_to_all(node: usize, nodes: usize) -> Result<()> {
    let mut netlink = Netlink::open()?;
    for cable in 0..nodes - 1 {
        for v4 in [true, false] {
            let bits = if v4 { 24 } else { 64 };
            let prefix = address(v4, cable, usize::MAX);
            let gateway = match cable {
                _ if cable + 1 < node => address(v4, node - 1, node - 1),
                _ if cable > node => address(v4, node, node + 1),
                _ => continue,
            };
            netlink.add_route(prefix, bits, gateway)?;
        }
    }
    if node > 0 && node + 1 < nodes {
        fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
    }
    Ok(())
}

/// Makes a node of a row in this thread's network.
///
/// # Errors
/// As the system says.
pub fn drive(node: usize, setting: Setting) -> Result<Driver<KernelNetwork>> {
    let is_end = node == 0 || node + 1 == setting.nodes;
    let role = if is_end { Role::Host } else { Role::Router };
    let names = match node {
        0 => vec!["right".to_owned()],
        _ if is_end => vec!["left".to_owned()],
        _ => vec!["left".to_owned(), "right".to_owned()],
    };
    drive_on(&names, role, node, setting)
}

/// As [`drive`], on these interfaces.
///
/// # Errors
/// As the system says.
pub fn drive_on(
    names: &[String],
    role: Role,
    node: usize,
    setting: Setting,
) -> Result<Driver<KernelNetwork>> {
    let network = KernelNetwork::new(Descriptors::open(role)?, names)?;
    let mut driver = Driver::new(params(&network, node, setting), network);
    if setting.has_own_clock {
        driver.set_time(Instant::from_nanos(0));
    }
    Ok(driver)
}

/// Returns what a node of a row is told that has these sockets.
pub fn params(network: &KernelNetwork, node: usize, setting: Setting) -> NodeParams {
    let interfaces = network.interfaces().iter().map(|interface| {
        let mut params = InterfaceParams::plain(interface.addresses.clone(), 1e6, interface.mtu);
        params.reduction = setting.reduction;
        (setting.change)(&mut params);
        params
    });
    NodeParams {
        interfaces: interfaces.collect(),
        timers: Timers {
            period: setting.period,
            settle: Duration::from_millis(100),
            ..Timers::default()
        },
        limits: Limits::default(),
        seed: node as u64 + 1,
        epoch: node as u32 + 1,
    }
}

/// The time by which a turn advances the nodes' own clock.
pub const STEP: Duration = Duration::from_millis(10);
