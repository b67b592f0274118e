//! Multicast routes of the kernel, set as a multicast router sets them.
#![allow(dead_code, missing_docs, unsafe_code)]

use std::ffi::{CString, c_int};
use std::io;
use std::mem::size_of;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// While it lives, the kernel forwards groups in the namespace in which it was opened.
pub struct GroupRouter(OwnedFd);

impl GroupRouter {
    /// One in this thread's network namespace. Interface number n of its routes is the nth here.
    pub fn open(interfaces: &[&str]) -> io::Result<Self> {
        // SAFETY: socket takes numbers only; the new descriptor has no other owner.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_IGMP) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened above.
        let router = Self(unsafe { OwnedFd::from_raw_fd(socket) });
        router.set(MRT_INIT, &1)?;
        for (number, name) in (0..).zip(interfaces) {
            let name = CString::new(*name)?;
            // SAFETY: the name ends in a zero.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            let vif = Vif { number, flags: USE_INDEX, threshold: 1, limit: 0, index, remote: 0 };
            router.set(MRT_ADD_VIF, &vif)?;
        }
        Ok(router)
    }

    /// Packets of a source to a group go from one interface to others.
    pub fn route(
        &self,
        (source, group): (Ipv4Addr, Ipv4Addr),
        from: u16,
        to: &[usize],
    ) -> io::Result<()> {
        let mut ttls = [0; 32];
        to.iter().for_each(|number| ttls[*number] = 1);
        let address = |address: Ipv4Addr| u32::from_ne_bytes(address.octets());
        let (origin, group) = (address(source), address(group));
        self.set(MRT_ADD_MFC, &Route { origin, group, from, ttls, counts: [0; 3], expire: 0 })
    }

    fn set<T>(&self, name: c_int, value: &T) -> io::Result<()> {
        let pointer: *const T = value;
        let (fd, len) = (self.0.as_raw_fd(), size_of::<T>() as u32);
        // SAFETY: the value lives over the call, and has this length.
        let set = unsafe { libc::setsockopt(fd, libc::IPPROTO_IP, name, pointer.cast(), len) };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// `struct vifctl` of <linux/mroute.h>.
#[repr(C)]
struct Vif {
    number: u16,
    flags: u8,
    threshold: u8,
    limit: u32,
    index: u32,
    remote: u32,
}

/// `struct mfcctl`.
#[repr(C)]
struct Route {
    origin: u32,
    group: u32,
    from: u16,
    ttls: [u8; 32],
    counts: [u32; 3],
    expire: c_int,
}

const MRT_INIT: c_int = 200;
const MRT_ADD_VIF: c_int = 202;
const MRT_ADD_MFC: c_int = 204;
const USE_INDEX: u8 = 8;
