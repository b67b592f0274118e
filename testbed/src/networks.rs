//! Three private networks in a row: client, Weir in the middle, server. For tests and `weir demo`.
//!
//! ```text
//!  client: eth0 ---- left :weir: right ---- eth0 :server
//!  10.77.0.1, fd77::1                       10.77.0.2, fd77::2
//! ```
//! Only what the caller runs forwards between `left` and `right`. Nothing has a name outside this
//! process, so nothing is left behind, however it ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_host::error::{Result, SystemError};
use weir_host::ethtool;
use weir_host::netlink::{Mac, VethEnd};
use weir_host::netns::NetNs;

use crate::{Failure, Netlink, until_some};

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
}

impl Default for TestbedConfig {
    fn default() -> Self {
        Self { mtu: 1500, offloads: true, static_neighbours: true, has_ipv6: true }
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
        let mut weir = Netlink::open_in(&self.weir)?;
        let end = VethEnd { name: END, namespace, mac: host.mac() };
        let port = VethEnd { name: host.port(), namespace: &self.weir, mac: host.port_mac() };
        weir.add_veth(end, port, self.config.mtu)?;
        self.weir.run(|| ethtool::set_ipv6(host.port(), false))??;
        weir.set_up(host.port(), true)?;
        namespace.run(|| self.set_up_host(host))??;
        wait_for_carrier(&mut weir, host.port())
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

    fn set_up_host(&self, host: Host) -> Result<()> {
        let mut netlink = Netlink::open()?;
        netlink.set_up("lo", true)?;
        if !self.config.offloads {
            ethtool::set_all_offloads(END, false)?;
        }
        ethtool::set_ipv6(END, self.config.has_ipv6)?;
        netlink.set_up(END, true)?;
        let addresses = [(Host::ip4 as fn(Host) -> IpAddr, 24), (Host::ip6, 64)];
        let used = if self.config.has_ipv6 { &addresses[..] } else { &addresses[..1] };
        for (address, prefix) in used {
            netlink.add_address(END, address(host), *prefix)?;
            if self.config.static_neighbours {
                let other = host.other();
                netlink.add_neighbour(END, address(other), other.mac())?;
            }
        }
        wait_for_carrier(&mut netlink, END)
    }
}

/// Waits until the kernel has acted on a cable that was just connected.
///
/// # Errors
/// When it does not.
pub fn wait_for_carrier(netlink: &mut Netlink, interface: &str) -> Result<()> {
    let has_carrier = || match netlink.link(interface) {
        Ok(link) if !link.is_operational => None,
        found => Some(found),
    };
    let found = until_some("carrier", has_carrier);
    let refused =
        |why: Failure| SystemError::refused(format!("connect `{interface}`"), why.to_string(), "");
    found.map_err(refused)?.map(drop)
}
