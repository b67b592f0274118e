//! Queries about one Ethernet interface, through a socket that stays in the network namespace in
//! which it was opened.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::error::{Result, SystemError};
use crate::ethtool;
use crate::socket;
use crate::uapi::ethtool::{
    ETH_FLAG_RXVLAN, ETHTOOL_GCHANNELS, ETHTOOL_GDRVINFO, ETHTOOL_GFLAGS, ETHTOOL_GTSO,
};

/// An Ethernet interface, found by name or by its number.
#[derive(Debug)]
pub struct Interface {
    /// A packet socket that receives nothing.
    socket: OwnedFd,
    name: String,
}

impl Interface {
    /// Looks an interface up in this thread's network namespace. Needs CAP_NET_RAW.
    pub fn open(name: &str) -> Result<Self> {
        let action = || format!("open a port on `{name}`");
        let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)
            .map_err(|cause| SystemError::new(action(), cause))?;
        let interface = Self { socket, name: name.to_owned() };
        let mut request = socket::interface_request(name)?;
        interface
            .ask(libc::SIOCGIFHWADDR, &mut request)
            .map_err(|cause| SystemError::new(action(), cause))?;
        // SAFETY: SIOCGIFHWADDR filled in the address.
        let kind = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
        if kind == libc::ARPHRD_ETHER {
            return Ok(interface);
        }
        let why = format!("it is not an Ethernet interface (its kind is {kind})");
        let cure = "choose an Ethernet interface; `ip link` lists them";
        Err(SystemError::refused(action(), why, cure))
    }

    /// An interface by the name that it had when it was opened, through a socket that an authority
    /// passed.
    pub fn of(socket: OwnedFd, name: &str) -> Self {
        Self { socket, name: name.to_owned() }
    }

    /// Returns a copy of the socket, for [`Interface::of`] in the other half of a port.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// From now on [`Interface::is_watched`] tells whether the interface of this number has gone.
    pub fn watch(&self, index: u32) -> io::Result<()> {
        socket::bind_to(self.socket.as_fd(), index as c_int, 0)
    }

    /// Returns whether the interface of this number has been there since [`Interface::watch`]; also
    /// through a copy of the socket. One that went and came back under the same number has not.
    pub fn is_watched(&self, index: u32) -> bool {
        socket::bound_interface(self.socket.as_fd()).is_ok_and(|bound| bound as u32 == index)
    }

    /// Follows the interface of this number to its name now; if it is gone, takes up the one that
    /// has the `configured` name. Returns its number.
    pub fn find(&mut self, index: u32, configured: &str) -> io::Result<u32> {
        if self.follow(index).is_ok() {
            return Ok(index);
        }
        self.rename(configured);
        self.index()
    }

    /// Returns its name now, as far as [`Interface::follow`] saw it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the interface that has the name now.
    pub fn index(&self) -> io::Result<u32> {
        let mut request = self.request()?;
        self.ask(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX filled in the index.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
    }

    /// Takes over the name that the interface of this number has now.
    ///
    /// # Errors
    /// When there is no such interface any more.
    pub fn follow(&mut self, index: u32) -> io::Result<()> {
        let mut request = self.request()?;
        request.ifr_ifru.ifru_ifindex = index as c_int;
        self.ask(libc::SIOCGIFNAME, &mut request)?;
        let name = request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
        let name = String::from_utf8_lossy(&name.collect::<Vec<_>>()).into_owned();
        self.name = name;
        Ok(())
    }

    /// From now on looks for an interface of this name.
    pub fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Returns the MTU, in bytes.
    pub fn mtu(&self) -> io::Result<usize> {
        let mut request = self.request()?;
        self.ask(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU filled in the MTU.
        Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// Returns MTU and flags of the interface of this number; `None` if it was renamed between two
    /// questions, since the kernel is asked by name.
    ///
    /// # Errors
    /// When there is no such interface any more.
    pub fn mtu_and_flags(&mut self, index: u32) -> io::Result<Option<(usize, c_int)>> {
        let both = self.mtu().and_then(|mtu| Ok((mtu, self.flags()?)));
        match both {
            Ok(both) => Ok(Some(both)),
            Err(error) => self.follow(index).map(|()| None).map_err(|_| error),
        }
    }

    /// Returns its Ethernet address.
    pub fn address(&self) -> io::Result<[u8; 6]> {
        let mut request = self.request()?;
        self.ask(libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: SIOCGIFHWADDR filled in the address.
        let found = unsafe { request.ifr_ifru.ifru_hwaddr };
        let mut address = [0; 6];
        for (byte, found) in address.iter_mut().zip(found.sa_data) {
            *byte = found as u8;
        }
        Ok(address)
    }

    /// Returns the flags `IFF_UP` and so on, of netdevice(7).
    pub fn flags(&self) -> io::Result<c_int> {
        let mut request = self.request()?;
        self.ask(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS filled in the flags.
        Ok(c_int::from(unsafe { request.ifr_ifru.ifru_flags }))
    }

    /// Sets it up or down, and leaves its other flags. Needs CAP_NET_ADMIN.
    pub fn set_up(&self, up: bool) -> Result<()> {
        let set = || -> io::Result<()> {
            let flags = self.flags()?;
            let flags = if up { flags | libc::IFF_UP } else { flags & !libc::IFF_UP };
            let mut request = self.request()?;
            request.ifr_ifru.ifru_flags = flags as libc::c_short;
            self.ask(libc::SIOCSIFFLAGS, &mut request)
        };
        let action = || format!("set `{}` {}", self.name, if up { "up" } else { "down" });
        set().map_err(|cause| SystemError::new(action(), cause))
    }

    /// Makes it receive frames for other stations too, as long as this value lives.
    pub fn set_promiscuous(&self, index: u32) -> io::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: index as c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let option = libc::PACKET_ADD_MEMBERSHIP;
        socket::set_option(self.socket.as_fd(), libc::SOL_PACKET, option, &membership)
    }

    /// Returns the name of its driver.
    pub fn driver(&self) -> io::Result<String> {
        let mut answer = ethtool::asked(ETHTOOL_GDRVINFO);
        self.ethtool(&mut answer)?;
        Ok(ethtool::driver_name(&answer))
    }

    /// Returns whether it cuts super-packets of TCP that it is given.
    pub fn cuts_tcp(&self) -> io::Result<bool> {
        let mut answer: [u32; 2] = ethtool::asked(ETHTOOL_GTSO);
        self.ethtool(&mut answer)?;
        Ok(answer[1] != 0)
    }

    /// Returns the number of queues into which it receives, and of those by which it sends.
    pub fn queues(&self) -> io::Result<[u32; 2]> {
        let mut answer = ethtool::asked(ETHTOOL_GCHANNELS);
        self.ethtool(&mut answer)?;
        Ok(ethtool::queue_counts(&answer))
    }

    /// Returns whether it keeps the VLAN tags of received frames beside them.
    pub fn takes_tags_off(&self) -> io::Result<bool> {
        let mut answer = [ETHTOOL_GFLAGS, 0];
        self.ethtool(&mut answer)?;
        Ok(answer[1] & ETH_FLAG_RXVLAN != 0)
    }

    fn ethtool(&self, words: &mut [u32]) -> io::Result<()> {
        let mut request = self.request()?;
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // `words` outlives the call, and its first word tells the kernel its type and length.
        self.ask(libc::SIOCETHTOOL, &mut request)
    }

    fn request(&self) -> io::Result<libc::ifreq> {
        socket::interface_request(&self.name).map_err(|error| error.cause)
    }

    fn ask(&self, code: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
        socket::interface_ioctl(self.socket.as_fd(), code, request)
    }
}

/// Returns whether an interface with these flags is set up and has a carrier.
pub fn is_running(flags: c_int) -> bool {
    let wanted = libc::IFF_UP | libc::IFF_RUNNING;
    flags & wanted == wanted
}
