//! Three private networks in a row: client, Weir in the middle, server. For tests and `weir demo`.
//!
//! ```text
//!  client: eth0 ---- left :weir: right ---- eth0 :server
//!  10.77.0.1, fd77::1                       10.77.0.2, fd77::2
//! ```
//! Only what the caller runs forwards between `left` and `right`. Nothing has a name outside this
//! process, so nothing is left behind, however it ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_host::error::Result;
use weir_host::ethtool;
use weir_host::netlink::Mac;
use weir_host::netns::NetNs;

use crate::Netlink;
use crate::cable::{self, CableEnd, wait_for_carrier};

/// The interface of the client and of the server, each in its own namespace.
pub const END: &str = "eth0";
/// Weir's port towards the client.
pub const LEFT: &str = "left";
/// Weir's port towards the server.
pub const RIGHT: &str = "right";

/// The options of the networks.
#[derive(Clone, Copy, Debug)]
pub struct TestbedConfig {
    /// The MTU everywhere, in bytes.
    pub mtu: u32,
    /// Whether client and server leave checksums and segmentation to hardware, as is usual.
    pub offloads: bool,
    /// Whether client and server know each other's Ethernet addresses from the start.
    pub static_neighbours: bool,
    /// Whether client and server have IPv6. Their kernels send frames of their own for it.
    pub has_ipv6: bool,
    /// By how many queues each interface sends, and into how many it receives: at most as many as
    /// the machine has processors. A flow takes one of them.
    pub queues: u32,
}

impl Default for TestbedConfig {
    fn default() -> Self {
        Self { mtu: 1500, offloads: true, static_neighbours: true, has_ipv6: true, queues: 1 }
    }
}

/// The three networks, up and connected.
#[derive(Debug)]
pub struct Testbed {
    /// The source of traffic.
    pub client: NetNs,
    /// The namespace of the ports [`LEFT`] and [`RIGHT`].
    pub weir: NetNs,
    /// The destination of traffic.
    pub server: NetNs,
    config: TestbedConfig,
}

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The host on the left.
    Client,
    /// The host on the right.
    Server,
}

impl Host {
    /// Returns its IPv4 address.
    pub fn ip4(self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 77, 0, self.number()))
    }

    /// Returns its IPv6 address.
    pub fn ip6(self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, self.number().into()))
    }

    /// Returns its Ethernet address.
    pub fn mac(self) -> Mac {
        Mac([0x02, 0, 0, 0, 0x77, self.number()])
    }

    fn port_mac(self) -> Mac {
        Mac([0x02, 0, 0, 0, 0x78, self.number()])
    }

    fn port(self) -> &'static str {
        match self {
            Self::Client => LEFT,
            Self::Server => RIGHT,
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Client => 1,
            Self::Server => 2,
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl Testbed {
    /// Makes the networks. Needs the privileges of [`weir_host::privilege::Need::PrivateNetworks`].
    pub fn new(config: TestbedConfig) -> Result<Self> {
        let (client, weir, server) = (NetNs::new()?, NetNs::new()?, NetNs::new()?);
        let testbed = Self { client, weir, server, config };
        testbed.connect(Host::Client)?;
        testbed.connect(Host::Server)?;
        Ok(testbed)
    }

    /// Makes the cable of one host, with its two interfaces and its addresses; after
    /// [`Testbed::disconnect`] it makes them anew.
    pub fn connect(&self, host: Host) -> Result<()> {
        let namespace = self.namespace(host);
        let both = [(host.ip4(), 24), (host.ip6(), 64)];
        let addresses = if self.config.has_ipv6 { &both[..] } else { &both[..1] };
        let end = CableEnd { namespace, name: END, mac: host.mac(), addresses };
        let (name, mac) = (host.port(), host.port_mac());
        let port = CableEnd { namespace: &self.weir, name, mac, addresses: &[] };
        cable::connect([end, port], self.config.mtu)?;
        if self.config.queues > 1 {
            for end in [&port, &end] {
                let set = || ethtool::set_queues(end.name, self.config.queues, self.config.queues);
                end.namespace.run(set)??;
            }
        }
        if !self.config.offloads {
            namespace.run(|| ethtool::set_all_offloads(END, false))??;
        }
        if self.config.static_neighbours {
            let other = host.other();
            let mut netlink = Netlink::open_in(namespace)?;
            for address in [other.ip4(), other.ip6()].into_iter().take(addresses.len()) {
                netlink.add_neighbour(END, address, other.mac())?;
            }
        }
        Ok(())
    }

    /// Removes the cable of one host, as if its interface had been unplugged.
    pub fn disconnect(&self, host: Host) -> Result<()> {
        Netlink::open_in(&self.weir)?.delete_link(host.port())
    }

    /// Moves Weir's port towards a host to another namespace, and returns that.
    pub fn move_away(&self, host: Host) -> Result<NetNs> {
        let elsewhere = NetNs::new()?;
        Netlink::open_in(&self.weir)?.move_to(host.port(), &elsewhere)?;
        Ok(elsewhere)
    }

    /// Moves Weir's port towards a host back from there, under the same number.
    pub fn move_back(&self, host: Host, elsewhere: &NetNs) -> Result<()> {
        Netlink::open_in(elsewhere)?.move_to(host.port(), &self.weir)?;
        self.weir.run(|| ethtool::set_ipv6(host.port(), false))??;
        self.set_port_up(host)
    }

    /// Sets Weir's port towards a host up, and waits until frames pass both its ends.
    pub fn set_port_up(&self, host: Host) -> Result<()> {
        let mut weir = Netlink::open_in(&self.weir)?;
        weir.set_up(host.port(), true)?;
        wait_for_carrier(&mut weir, host.port())?;
        wait_for_carrier(&mut Netlink::open_in(self.namespace(host))?, END)
    }

    /// Returns the namespace of a host.
    pub fn namespace(&self, host: Host) -> &NetNs {
        match host {
            Host::Client => &self.client,
            Host::Server => &self.server,
        }
    }
}
