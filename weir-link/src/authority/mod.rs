//! The privileged half of a port, kept apart from the half that moves frames.
//!
//! A port consists of two halves. Its *authority* makes sockets and rings, binds them, loads and
//! attaches programs, redirects a host's frames, sets interfaces up and down. The
//! [`Port`](crate::port::Port) itself maps the rings and moves frames; it makes no socket, opens no
//! file, and needs no privilege. It asks its authority for what it lacks, and gets descriptors.
//!
//! ```text
//!  one process (tests)   Port ──────────────────────────────────> authority
//!  weir up               Port ──> AuthorityClient ══> AuthorityServer ──> authority
//!                        in the forwarder        in the keeper
//! ```
//! An authority retains as little as it can, so that what a forwarder had ends with it: packet
//! sockets, AF_XDP sockets and the link of their program belong to the port alone. A tap is the
//! exception: both halves hold it, and it passes frames on until both let go of it.
//!
//! Before its first request through a server, a port says how it sorts frames, as data that the
//! server checks: the server knows no policy. The same channel carries files that policies name
//! ([`Files`]).
//!
//! A port's lifetime in requests, for packet sockets: [`PortRequest::Open`]; when another interface
//! has the name, [`PortRequest::Bind`]; when the interface is up and frames can be sorted,
//! [`PortRequest::Sort`]; for a policy with more rings, [`PortRequest::MakeRings`]; for each thread
//! that shares it with the first, [`PortRequest::Share`]. For AF_XDP:
//! [`PortRequest::Open`]; [`PortRequest::Sockets`] and [`PortRequest::Bind`] for each receive
//! queue, and [`PortRequest::Attach`], when it goes live; [`PortRequest::Attach`] alone when its
//! intake opens again; when frames are to be sorted otherwise, [`PortRequest::Exchange`]. For a
//! host's ends: [`PortRequest::Open`]; then [`PortRequest::Attach`] when the intake opens,
//! [`PortRequest::Follow`] when the interface is another one or has another MTU.
//!
//! Invariant: an authority acts only at the interface of its own configuration, whatever it is
//! asked: the words of a request come from a process that may have been taken over.

mod client;
mod files;
mod server;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::vec::IntoIter;

use serde::{Deserialize, Serialize};

pub use client::AuthorityClient;
pub use files::{Contents, Files};
pub use server::{AuthorityServer, exercise};

use crate::pool::Memory;
use crate::sorter::Sorting;
use weir_host::error::{Result, SystemError};

/// The privileged half of one port.
pub trait Authority: Send {
    /// Does what the port asks for, with the descriptors that the port passes.
    ///
    /// # Errors
    /// When the system refuses, or this kind of port cannot do it.
    fn ask(&mut self, request: PortRequest, descriptors: Vec<OwnedFd>) -> Result<PortReply>;

    /// From now on sorts frames so.
    fn sort_by(&mut self, sorting: Sorting);

    /// Returns the authority for a second port on the same interface, where both must share what
    /// can exist only once; `None` where they need not.
    ///
    /// # Errors
    /// When the system refuses.
    fn beside(&self) -> Result<Option<Box<dyn Authority>>> {
        Ok(None)
    }
}

/// A request of a port to its authority. Where a request has an `intake`, sockets take frames from
/// the start, or refuse each frame until the port opens its intake.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortRequest {
    /// Open the interface. It is the first request; everything else follows from it.
    Open {
        /// Sockets take frames from the start: see [`PortRequest`].
        intake: bool,
    },
    /// Bind sockets to the interface that has the configured name now. Packet sockets are passed,
    /// the sending one first; of AF_XDP sockets the authority has those of
    /// [`PortRequest::Sockets`].
    Bind {
        /// Sockets take frames from the start: see [`PortRequest`].
        intake: bool,
        /// Make the receiving sockets anew: those of a fanout group cannot be bound again.
        anew: bool,
        /// The receive queue of AF_XDP sockets.
        #[serde(default)]
        queue: u32,
    },
    /// Join the receiving sockets, which are passed, into a group that sorts frames.
    Sort {
        /// Sockets take frames from the start: see [`PortRequest`].
        intake: bool,
    },
    /// Make receiving packet sockets for more rings, which refuse each frame until the port takes
    /// them up. Where the port has a group that sorts, one of its sockets is passed, and they join
    /// it.
    MakeRings {
        /// The number of rings that the port has.
        from: usize,
        /// The number that it is to have.
        to: usize,
    },
    /// Make packet sockets for another thread that shares the port: one that sends, and one for
    /// each ring that it lacks, which refuse each frame and join the group of the socket that is
    /// passed, behind its members.
    Share {
        /// The number of rings that it has from before.
        from: usize,
        /// The number that it is to have.
        to: usize,
    },
    /// Have AF_XDP frames sorted by the program of this sorting, which is exchanged at the link
    /// that is passed, and come to the other set of sockets.
    Exchange {
        /// The number of that set: 0 or 1.
        set: usize,
    },
    /// Make AF_XDP sockets over the pool's memory. A process of its own passes the memory's file.
    Sockets(Area),
    /// Have frames come: attach the program.
    Attach,
    /// Look at the interface, and adapt to it.
    Follow,
    /// Set the interface up or down.
    SetUp(bool),
}

/// The memory of a frame pool, in which AF_XDP sockets find and put frames.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Area {
    /// Its length in bytes.
    pub len: usize,
    /// Frames may lie in several chunks.
    pub pieces: bool,
    /// The receive queue from which the sockets are to take frames.
    #[serde(default)]
    pub queue: u32,
    /// The memory, in one process. It has no form in a message.
    #[serde(skip)]
    pub(crate) memory: Option<Arc<Memory>>,
}

/// The outcome of a request, with the descriptors that the port gets.
#[derive(Debug)]
pub struct PortReply {
    /// The shape of the parts that were made.
    pub reply: Reply,
    /// The port's own from now on, in the order that the reply says.
    pub descriptors: Vec<OwnedFd>,
}

/// The part of an outcome that has a form in a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The request is met, and there is nothing to say of it.
    Done,
    /// The parts of a port of packet sockets.
    Packet(PacketParts),
    /// The parts of an AF_XDP port.
    Xdp(XdpParts),
    /// AF_XDP sockets, which are to be entered into the maps of this number.
    Sockets(u64),
    /// The parts of a host's end: those of the packet sockets at its tap, a socket that asks about
    /// the interface, and descriptors that keep the tap alive.
    Host {
        /// The interface that the tap redirects.
        link: HostLink,
        /// At the tap, if the port is being opened.
        packet: Option<PacketParts>,
    },
    /// The contents of a file.
    File(Contents),
}

/// Packet sockets and their rings. Descriptors: on [`PortRequest::Open`] and
/// [`PortRequest::Share`] a socket that asks about
/// the interface, then the sending socket and, where there is one, that for long frames; then those
/// that receive, one for each ring.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PacketParts {
    /// The number of the interface.
    pub index: u32,
    /// The rings to map; none where the port keeps those that it has.
    pub rings: Vec<RingShape>,
    /// The sockets are a group that sorts frames.
    pub is_sorting: bool,
    /// The transmit ring of the socket for long frames.
    pub long: Option<RingShape>,
}

/// A ring of a packet socket, made but not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingShape {
    /// Bytes of a slot, a power of two.
    pub slot_len: usize,
    /// Slots, a power of two.
    pub slots: usize,
    /// The socket queues super-packets that are too long for a slot.
    pub queues_whole: bool,
}

/// An AF_XDP port. Descriptors: on [`PortRequest::Open`] a socket that asks about the interface; on
/// [`PortRequest::Sockets`] the sockets of a receive queue, one for each ring of each set; on
/// [`PortRequest::Attach`] the link of the program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct XdpParts {
    /// The number of the interface.
    pub index: u32,
    /// The program is, or would be, in the driver.
    pub is_native: bool,
    /// The program puts VLAN tags back that the kernel has beside the frame.
    pub keeps_tags: bool,
    /// The interface keeps the tags of received frames beside them.
    pub takes_tags_off: bool,
    /// Frames may arrive with checksums that their sender left to hardware.
    pub leaves_checksums: bool,
    /// The receive queues of the interface.
    pub queues: u32,
    /// The number of the maps of sockets to which the program hands frames.
    pub maps: u64,
}

/// The interface whose frames a tap redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLink {
    /// The number of the interface, as the kernel counts them.
    pub index: u32,
    /// Its MTU, which the tap has as well.
    pub mtu: u32,
    /// How many times a new interface took the place of one that disappeared, or the tap was
    /// mended.
    pub moves: u64,
}

impl PortReply {
    /// Nothing more to say or to pass.
    pub(crate) fn done() -> Self {
        Self { reply: Reply::Done, descriptors: Vec::new() }
    }
}

/// Returns the error for a request that a kind of port does not know.
pub(crate) fn cannot(request: &PortRequest, interface: &str) -> SystemError {
    let action = format!("serve the port on `{interface}`");
    SystemError::refused(action, format!("its kind does not know {request:?}"), "")
}

/// Returns the error for a reply that does not fit the request.
pub(crate) fn misfit(interface: &str) -> SystemError {
    let action = format!("open the port on `{interface}`");
    let cause = io::Error::new(io::ErrorKind::InvalidData, "its authority gave something else");
    SystemError::new(action, cause)
}

/// Descriptors that an authority passed, to be taken in their order.
pub(crate) struct PassedDescriptors<'a> {
    descriptors: IntoIter<OwnedFd>,
    interface: &'a str,
}

impl<'a> PassedDescriptors<'a> {
    pub(crate) fn new(descriptors: Vec<OwnedFd>, interface: &'a str) -> Self {
        Self { descriptors: descriptors.into_iter(), interface }
    }

    pub(crate) fn next(&mut self) -> Result<OwnedFd> {
        self.descriptors.next().ok_or_else(|| misfit(self.interface))
    }

    /// Returns those that are left.
    pub(crate) fn rest(self) -> Vec<OwnedFd> {
        self.descriptors.collect()
    }
}

/// An error in a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Refusal {
    action: String,
    errno: Option<i32>,
    why: String,
    cure: String,
}

impl From<SystemError> for Refusal {
    fn from(error: SystemError) -> Self {
        Self {
            errno: error.errno(),
            why: error.cause.to_string(),
            action: error.action,
            cure: error.cure.into_owned(),
        }
    }
}

impl Refusal {
    /// Returns the error as it was where it arose.
    fn into_error(self) -> SystemError {
        let cause = match self.errno {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(io::ErrorKind::InvalidInput, self.why),
        };
        SystemError { action: self.action, cause, cure: self.cure.into() }
    }
}

/// A message from the client to the server.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    /// An answer has the number of its request.
    number: u64,
    /// The port's number in the deployment.
    port: usize,
    /// The keyword of a kind of port.
    kind: String,
    #[serde(rename = "wish")]
    body: RequestBody,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RequestBody {
    /// Say whether the kind suits the interface.
    Suits,
    #[serde(rename = "ask")]
    Port(PortRequest),
    /// Sort the frames of the port so. A server knows no policy.
    Sort(Box<Sorting>),
    /// Read a file that a policy names; which port asks does not matter.
    Read(PathBuf),
    /// Open a socket that asks a reflector of the port, by its place in the deployment.
    Reflector(usize),
}

/// A server's answer to a request: first a message with the descriptors, if it met it, and then
/// the outcome.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    number: u64,
    outcome: Option<std::result::Result<Reply, Refusal>>,
}
