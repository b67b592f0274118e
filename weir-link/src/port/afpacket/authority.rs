//! The privileged half of a port of packet sockets: sockets with their rings, bound, promiscuous,
//! and joined into a group that sorts frames.
//!
//! It keeps none of the sockets that it makes. To bind them to another interface or to have them
//! sort, the port passes them.

use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::authority::{
    Authority, PacketParts, PortReply, PortRequest, Reply, RingShape, cannot, misfit,
};
use crate::port::{PortConfig, RINGS_MAX};
use crate::ring;
use crate::sorter::Sorting;
use weir_host::error::{Result, SystemError};
use weir_host::fanout;
use weir_host::interface::Interface;
use weir_host::netns::NetNs;
use weir_host::socket::{self, bind_to};

/// Room in a slot for data beside the packet: ring header, addresses, tags.
const SLOT_OVERHEAD: usize = 128;
/// Slot length where the socket may not queue whole super-packets: most of them fit this.
const SLOT_LEN_UNPRIVILEGED: usize = 16 << 10;
/// Long frames that may wait in the interface at once, at least.
const LONG_SLOTS: usize = 16;
/// Room for super-packets that are too long for a slot.
const QUEUE_BYTES: c_int = 32 << 20;

/// See the module. Needs CAP_NET_RAW.
pub(in crate::port) struct PacketAuthority {
    config: PortConfig,
    interface: Interface,
    /// The number of the interface that the sockets are bound to.
    index: u32,
    /// Where the system does not say, sockets are made in the namespace of the thread.
    namespace: Option<NetNs>,
}

/// Sockets with their rings.
type Receivers = Vec<(OwnedFd, RingShape)>;

impl PacketAuthority {
    /// The authority for an interface of this thread's network namespace.
    pub(in crate::port) fn new(config: &PortConfig) -> Result<Self> {
        let interface = Interface::open(&config.interface)?;
        let namespace = NetNs::current().ok();
        Ok(Self { config: config.clone(), interface, index: 0, namespace })
    }

    /// Makes the sockets of the port, bound to the interface.
    pub(in crate::port) fn open(&mut self, intake: bool) -> Result<(PacketParts, Vec<OwnedFd>)> {
        let failed = |cause| self.failed(cause);
        let mtu = self.interface.mtu().map_err(failed)?;
        let rings = 0..self.config.rings();
        let make = || Ok((sender()?, long_sender(mtu), receivers(&self.config, mtu, rings)?));
        let (tx, long, receivers) = self.make(make)?;
        let index = self.interface.index().map_err(failed)?;
        self.index = index;
        let mut is_sorting = false;
        let mut bind = || -> io::Result<()> {
            let all: Vec<_> = receivers.iter().map(|(socket, _)| socket.as_fd()).collect();
            self.bind(tx.as_fd(), all[0], intake)?;
            // The port asks again if the interface is down as yet, or to share. A group of one can
            // grow.
            is_sorting = self.interface.flags()? & libc::IFF_UP != 0
                && self.config.sorting.is_some()
                && self.sort(&all, intake).is_ok();
            Ok(())
        };
        bind().map_err(|cause| self.failed(cause))?;
        self.parts(tx, long, receivers, is_sorting)
    }

    /// Returns what the port gets of these sockets.
    fn parts(
        &self,
        tx: OwnedFd,
        long: Option<(OwnedFd, RingShape)>,
        receivers: Receivers,
        is_sorting: bool,
    ) -> Result<(PacketParts, Vec<OwnedFd>)> {
        let query = self.interface.share().map_err(|cause| self.failed(cause))?;
        let (sockets, rings): (Vec<_>, Vec<_>) = receivers.into_iter().unzip();
        let (long_socket, long) = long.unzip();
        let descriptors = [query, tx].into_iter().chain(long_socket).chain(sockets).collect();
        Ok((PacketParts { index: self.index, rings, is_sorting, long }, descriptors))
    }

    /// Makes the sockets of a share, which refuse every frame as yet.
    fn share(&self, rings: Range<usize>, member: &OwnedFd) -> Result<PortReply> {
        let failed = |cause| self.failed(cause);
        let mtu = self.interface.mtu().map_err(failed)?;
        let make = || Ok((sender()?, long_sender(mtu), receivers(&self.config, mtu, rings)?));
        let (tx, long, receivers) = self.make(make)?;
        let join = || -> io::Result<()> {
            bind_to(tx.as_fd(), self.index as c_int, 0)?;
            let group = fanout::group(member.as_fd())?;
            receivers.iter().try_for_each(|(socket, _)| self.join(socket.as_fd(), group))
        };
        join().map_err(failed)?;
        let (parts, descriptors) = self.parts(tx, long, receivers, true)?;
        Ok(PortReply { reply: Reply::Packet(parts), descriptors })
    }

    fn bind_passed(
        &mut self,
        intake: bool,
        anew: bool,
        descriptors: &[OwnedFd],
    ) -> Result<PortReply> {
        let interface = &self.config.interface;
        let [tx, passed @ ..] = descriptors else { return Err(misfit(interface)) };
        let made = match anew {
            true => {
                let mtu = self.interface.mtu().map_err(|cause| self.failed(cause))?;
                self.make(|| receivers(&self.config, mtu, 0..self.config.rings()))?
            }
            false => Vec::new(),
        };
        let first = made.first().map(|(socket, _)| socket).or(passed.first());
        let first = first.ok_or_else(|| misfit(interface))?;
        let index = self.interface.index().map_err(|cause| self.failed(cause))?;
        self.index = index;
        let bound = self.bind(tx.as_fd(), first.as_fd(), intake);
        bound.map_err(|cause| self.failed(cause))?;
        let (descriptors, rings) = made.into_iter().unzip();
        let parts = PacketParts { index, rings, is_sorting: false, long: None };
        Ok(PortReply { reply: Reply::Packet(parts), descriptors })
    }

    /// Makes sockets for more rings, which join the group of the socket that is passed, behind its
    /// members. They refuse every frame as yet.
    fn make_rings(&self, rings: Range<usize>, member: Option<&OwnedFd>) -> Result<PortReply> {
        let failed = |cause| self.failed(cause);
        let mtu = self.interface.mtu().map_err(failed)?;
        let made = self.make(|| receivers(&self.config, mtu, rings))?;
        let join = |member: &OwnedFd| -> io::Result<()> {
            let group = fanout::group(member.as_fd())?;
            made.iter().try_for_each(|(socket, _)| self.join(socket.as_fd(), group))
        };
        member.map_or(Ok(()), join).map_err(failed)?;
        let (descriptors, rings) = made.into_iter().unzip();
        let (index, is_sorting) = (self.index, member.is_some());
        let parts = PacketParts { index, rings, is_sorting, long: None };
        Ok(PortReply { reply: Reply::Packet(parts), descriptors })
    }

    /// Has a socket join a group, and refuse every frame.
    fn join(&self, socket: BorrowedFd<'_>, group: u16) -> io::Result<()> {
        fanout::refuse_all(socket)?;
        bind_to(socket, self.index as c_int, libc::ETH_P_ALL as u16)?;
        fanout::join(socket, group)
    }

    fn bind(&self, tx: BorrowedFd<'_>, first: BorrowedFd<'_>, intake: bool) -> io::Result<()> {
        let index = self.index as c_int;
        // The sending socket receives nothing: it costs no copies.
        bind_to(tx, index, 0)?;
        if self.config.promiscuous {
            let membership = libc::packet_mreq {
                mr_ifindex: index,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            let option = libc::PACKET_ADD_MEMBERSHIP;
            socket::set_option(first, libc::SOL_PACKET, option, &membership)?;
        }
        match intake {
            true => fanout::refuse_only(first, self.config.withheld)?,
            false => fanout::refuse_all(first)?,
        }
        bind_to(first, index, libc::ETH_P_ALL as u16)
    }

    /// Joins the receivers into one fanout group that sorts frames by the program; without one all
    /// go to the first. It needs an interface that is up. No frame is lost or doubled meanwhile:
    /// until the program is set all go to the first socket, and until then the others refuse what
    /// reaches them.
    fn sort(&self, receivers: &[BorrowedFd<'_>], intake: bool) -> io::Result<()> {
        let [first, others @ ..] = receivers else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        let group = fanout::create(*first)?;
        others.iter().try_for_each(|socket| self.join(*socket, group))?;
        for socket in others.iter().filter(|_| intake) {
            fanout::refuse_only(*socket, self.config.withheld)?;
        }
        let sorting = self.config.sorting.clone();
        fanout::set_program(*first, &sorting.unwrap_or_else(Sorting::into_one).classic())
    }

    /// Makes sockets in the namespace of the interface.
    fn make<T: Send>(&self, make: impl FnOnce() -> io::Result<T> + Send) -> Result<T> {
        let made = match &self.namespace {
            Some(namespace) => namespace.within(make)?,
            None => make(),
        };
        made.map_err(|cause| self.failed(cause))
    }

    fn failed(&self, cause: io::Error) -> SystemError {
        SystemError::new(format!("open a port on `{}`", self.config.interface), cause)
    }
}

impl Authority for PacketAuthority {
    fn ask(&mut self, request: PortRequest, descriptors: Vec<OwnedFd>) -> Result<PortReply> {
        if self.index != 0 {
            // The interface may have another name now. One that is gone is found by its name.
            let _found = self.interface.find(self.index, &self.config.interface);
        }
        match request {
            PortRequest::Open { intake } => {
                let (parts, descriptors) = self.open(intake)?;
                Ok(PortReply { reply: Reply::Packet(parts), descriptors })
            }
            PortRequest::Bind { intake, anew, .. } => self.bind_passed(intake, anew, &descriptors),
            // A group of none would be granted for nothing.
            PortRequest::Sort { intake } if !descriptors.is_empty() => {
                let all: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
                self.sort(&all, intake).map_err(|cause| self.failed(cause))?;
                Ok(PortReply::done())
            }
            PortRequest::MakeRings { from, to } if 0 < from && from < to && to <= RINGS_MAX => {
                self.make_rings(from..to, descriptors.first())
            }
            PortRequest::Share { from, to } if from <= to && to <= RINGS_MAX => {
                let first = descriptors.first();
                self.share(from..to, first.ok_or_else(|| misfit(&self.config.interface))?)
            }
            PortRequest::SetUp(up) => self.interface.set_up(up).map(|()| PortReply::done()),
            request => Err(cannot(&request, &self.config.interface)),
        }
    }

    fn sort_by(&mut self, sorting: Sorting) {
        self.config.sorting = Some(sorting);
    }
}

/// Makes the sending socket, not bound.
fn sender() -> io::Result<OwnedFd> {
    let tx = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    let on: c_int = 1;
    // Weir schedules: the interface's own queue would only add delay.
    socket::set_option(tx.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)?;
    // Each frame says what of it is unfinished: segments may go joined.
    socket::set_option(tx.as_fd(), libc::SOL_PACKET, libc::PACKET_VNET_HDR, &on)?;
    Ok(tx)
}

/// Makes the socket for long frames with its ring; it is bound to no interface. Without it, long
/// frames are refused.
fn long_sender(mtu: usize) -> Option<(OwnedFd, RingShape)> {
    let make = || -> io::Result<(OwnedFd, RingShape)> {
        let socket = sender()?;
        let set =
            |name, value: c_int| socket::set_option(socket.as_fd(), libc::SOL_PACKET, name, &value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as c_int)?;
        let slot_len = slot_len(mtu, true);
        let slots = ring::make_transmit(socket.as_fd(), slot_len, LONG_SLOTS)?;
        Ok((socket, RingShape { slot_len, slots, queues_whole: false }))
    };
    make().ok()
}

/// Makes a socket for each of these rings; none is bound yet.
fn receivers(config: &PortConfig, mtu: usize, rings: Range<usize>) -> io::Result<Receivers> {
    let receiver = |slots| {
        let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        let queues_whole = set_receive_options(socket.as_fd())?;
        let slot_len = slot_len(mtu, queues_whole);
        let slots = ring::make(socket.as_fd(), slot_len, slots)?;
        Ok((socket, RingShape { slot_len, slots, queues_whole }))
    };
    rings.map(|ring| receiver(config.ring_slots(ring))).collect()
}

pub(super) fn slot_len(mtu: usize, queues_whole: bool) -> usize {
    let frame = (mtu + SLOT_OVERHEAD).next_power_of_two();
    if queues_whole { frame } else { frame.max(SLOT_LEN_UNPRIVILEGED) }
}

/// Returns whether the socket got room to queue super-packets whole.
fn set_receive_options(rx: BorrowedFd<'_>) -> io::Result<bool> {
    let set = |name, value: c_int| socket::set_option(rx, libc::SOL_PACKET, name, &value);
    set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as c_int)?;
    set(libc::PACKET_IGNORE_OUTGOING, 1)?;
    set(libc::PACKET_VNET_HDR, 1)?;
    // A frame too long for its slot also goes whole to the socket's queue, in the same order.
    set(libc::PACKET_COPY_THRESH, 1)?;
    let size = |name| socket::set_option(rx, libc::SOL_SOCKET, name, &QUEUE_BYTES);
    if size(libc::SO_RCVBUFFORCE).is_ok() {
        return Ok(true);
    }
    // The most that an ordinary user may have.
    size(libc::SO_RCVBUF)?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_a_frame_of_its_mtu() {
        for (mtu, whole, expected) in
            [(1500, true, 2048), (1500, false, 16_384), (9000, true, 16_384), (68, true, 256)]
        {
            assert_eq!(slot_len(mtu, whole), expected, "mtu {mtu}");
        }
    }
}
