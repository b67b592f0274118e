//! Multicast routes of the kernel, set as a multicast router sets them.

use std::ffi::c_int;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, Socket, Type};
use weir_host::netlink::Netlink;
use weir_host::socket;

use crate::Result;

/// While it lives, the kernel forwards groups in the namespace in which it was opened.
#[derive(Debug)]
pub struct GroupRouter(Socket);

impl GroupRouter {
    /// Opens it in this thread's network namespace. Interface number n of its routes is the nth
    /// here.
    ///
    /// # Errors
    /// As the system says.
    pub fn open(interfaces: &[&str]) -> Result<Self> {
        let router = Self(Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IGMP)))?);
        router.set(MRT_INIT, &1)?;
        for (number, name) in (0..).zip(interfaces) {
            let index = Netlink::open()?.link(name)?.index;
            let vif = Vif { number, flags: USE_INDEX, threshold: 1, limit: 0, index, remote: 0 };
            router.set(MRT_ADD_VIF, &vif)?;
        }
        Ok(router)
    }

    /// Lets packets of a source to a group go from one interface to others.
    ///
    /// # Errors
    /// As the system says.
    pub fn route(
        &self,
        (source, group): (Ipv4Addr, Ipv4Addr),
        from: u16,
        to: &[usize],
    ) -> Result<()> {
        let mut ttls = [0; 32];
        to.iter().for_each(|number| ttls[*number] = 1);
        let address = |address: Ipv4Addr| u32::from_ne_bytes(address.octets());
        let (origin, group) = (address(source), address(group));
        let route = Route { origin, group, from, ttls, counts: [0; 3], expire: 0 };
        Ok(self.set(MRT_ADD_MFC, &route)?)
    }

    fn set<T: Copy>(&self, name: c_int, value: &T) -> io::Result<()> {
        const IP: c_int = 0;
        socket::set_option(self.0.as_fd(), IP, name, value)
    }
}

/// `struct vifctl` of <linux/mroute.h>.
#[derive(Clone, Copy)]
#[repr(C)]
struct Vif {
    number: u16,
    flags: u8,
    threshold: u8,
    limit: u32,
    index: u32,
    remote: u32,
}

/// `struct mfcctl` of <linux/mroute.h>.
#[derive(Clone, Copy)]
#[repr(C)]
struct Route {
    origin: u32,
    group: u32,
    from: u16,
    ttls: [u8; 32],
    counts: [u32; 3],
    expire: c_int,
}

const IGMP: c_int = 2;
const MRT_INIT: c_int = 200;
const MRT_ADD_VIF: c_int = 202;
const MRT_ADD_MFC: c_int = 204;
const USE_INDEX: u8 = 8;
