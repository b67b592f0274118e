//! A cable between two interfaces, each in a network of its own.

use std::net::IpAddr;

use weir_host::error::{Result, SystemError};
use weir_host::ethtool;
use weir_host::netlink::{Mac, VethEnd};
use weir_host::netns::NetNs;

use crate::{Failure, Netlink, until_some};

/// An end of a cable. One without addresses of IPv6 sends no frame of its own for that.
#[derive(Clone, Copy, Debug)]
pub struct CableEnd<'a> {
    /// Its network.
    pub namespace: &'a NetNs,
    /// The name of its interface.
    pub name: &'a str,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its addresses, with the lengths of their prefixes.
    pub addresses: &'a [(IpAddr, u8)],
}

/// Makes a cable with this MTU. Both ends are up and have carrier then.
///
/// # Errors
/// As the system says.
pub fn connect(ends: [CableEnd<'_>; 2], mtu: u32) -> Result<()> {
    let veth = |CableEnd { namespace, name, mac, .. }| VethEnd { name, namespace, mac };
    let [one, other] = ends.map(veth);
    Netlink::open_in(ends[0].namespace)?.add_veth(one, other, mtu)?;
    ends.iter().try_for_each(CableEnd::set_up)?;
    ends.iter().try_for_each(CableEnd::address)
}

impl CableEnd<'_> {
    fn set_up(&self) -> Result<()> {
        let has_ipv6 = self.addresses.iter().any(|(address, _)| address.is_ipv6());
        self.namespace.run(|| {
            ethtool::set_ipv6(self.name, has_ipv6)?;
            let mut netlink = Netlink::open()?;
            if !self.addresses.is_empty() {
                netlink.set_up("lo", true)?;
            }
            netlink.set_up(self.name, true)
        })?
    }

    fn address(&self) -> Result<()> {
        let mut netlink = Netlink::open_in(self.namespace)?;
        wait_for_carrier(&mut netlink, self.name)?;
        let mut addresses = self.addresses.iter();
        addresses.try_for_each(|(address, bits)| netlink.add_address(self.name, *address, *bits))
    }

    /// Tells it the Ethernet address of the other end, so that it need not ask.
    ///
    /// # Errors
    /// As the system says.
    pub fn meet(&self, other: &CableEnd<'_>) -> Result<()> {
        let mut netlink = Netlink::open_in(self.namespace)?;
        let mut addresses = other.addresses.iter();
        addresses.try_for_each(|(address, _)| netlink.add_neighbour(self.name, *address, other.mac))
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
