//! The privileged half of an AF_XDP port: sockets over the pool's memory, bound to the interface's
//! receive queues, and the program that hands frames to them, attached.
//!
//! It retains the maps from rings to sockets, to attach the program again; the kernel takes sockets
//! out of a map when they are closed. Between making sockets and binding them it has copies of
//! them, since the port must map their rings in between. The link of the program is the port's
//! alone: however the port's process ends, the program is detached.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::program;
use super::sizes::{
    CHUNK_MAX, CHUNK_MIN, MTU_MAX, QUEUES_MAX, needs_pieces, queue_config, rings, sets,
};
use crate::authority::{Area, Authority, PortReply, PortRequest, Reply, XdpParts, cannot, misfit};
use crate::pool::Memory;
use crate::port::{PortConfig, RINGS_MAX};
use crate::sorter::Sorting;
use crate::xsk;
use weir_host::bpf::{self, Hook, Link, Map, Program};
use weir_host::error::{Result, SystemError};
use weir_host::interface::Interface;
use weir_host::netns::NetNs;
use weir_host::wait::monotonic_ns;

pub(super) struct XdpAuthority {
    config: PortConfig,
    /// Where the program may be attached, best first.
    hooks: &'static [Hook],
    interface: Interface,
    index: u32,
    namespace: NetNs,
    /// Whether the sockets take frames in several chunks, and so the program has to.
    pieces: bool,
    /// For each set of sockets, those of the rings of one receive queue after the other.
    maps: [Map; 2],
    /// A number that the maps of no other authority have.
    maps_number: u64,
    /// The receive queues of the interface.
    queues: u32,
    /// The set to which the program hands frames.
    set: usize,
    /// How the program was attached.
    attached: Option<Attached>,
    /// For each receive queue, made and not bound.
    sockets: [Vec<OwnedFd>; QUEUES_MAX],
}

/// How the program is attached.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Attached {
    hook: Hook,
    keeps_tags: bool,
}

impl XdpAuthority {
    /// The authority for an interface of this thread's network namespace.
    pub(super) fn new(config: &PortConfig, hooks: &'static [Hook]) -> Result<Self> {
        let interface = Interface::open(&config.interface)?;
        let action = || format!("open an AF_XDP port on `{}`", config.interface);
        let refused = |(why, cure)| SystemError::refused(action(), why, cure);
        let queues = check(&interface).map_err(refused)?;
        Ok(Self {
            index: interface.index().map_err(|cause| SystemError::new(action(), cause))?,
            config: config.clone(),
            hooks,
            interface,
            namespace: NetNs::current()?,
            pieces: false,
            maps: rings_maps()?,
            maps_number: monotonic_ns(),
            queues,
            set: 0,
            attached: None,
            sockets: Default::default(),
        })
    }

    /// Tries what may fail, so that what cannot work is known before a pool exists. While the
    /// intake is closed another process may have its program attached.
    fn open(&mut self, intake: bool) -> Result<PortReply> {
        let failed = |cause| SystemError::new("open an AF_XDP port", cause);
        self.pieces = needs_pieces(self.interface.mtu().map_err(failed)?);
        // The port is a new one, and takes frames of this set.
        self.set = 0;
        let attached = match intake {
            true => self.hook_up()?.1,
            false => self.load()?,
        };
        let descriptors = vec![self.interface.share().map_err(failed)?];
        Ok(PortReply { reply: self.parts(attached), descriptors })
    }

    fn parts(&self, attached: Attached) -> Reply {
        Reply::Xdp(XdpParts {
            index: self.index,
            is_native: attached.hook == Hook::XdpNative,
            keeps_tags: attached.keeps_tags,
            takes_tags_off: self.interface.takes_tags_off().unwrap_or(true),
            leaves_checksums: leaves_checksums(&self.interface),
            queues: self.queues,
            maps: self.maps_number,
        })
    }

    /// Returns a receive queue as a place, if the interface has it.
    fn place(&self, queue: u32) -> Result<usize> {
        if queue < self.queues { Ok(queue as usize) } else { Err(misfit(self.interface.name())) }
    }

    /// Makes the sockets of a receive queue, over the memory that was passed or that is in this
    /// process.
    fn make(&mut self, area: &Area, passed: Vec<OwnedFd>) -> Result<PortReply> {
        let queue = self.place(area.queue)?;
        self.pieces = area.pieces;
        self.sockets[queue].clear();
        let memory = match (&area.memory, passed.into_iter().next()) {
            (Some(memory), _) => Arc::clone(memory),
            (None, Some(file)) => {
                Arc::new(Memory::of_file(file, area.len).map_err(|cause| self.failed(cause))?)
            }
            (None, None) => return Err(misfit(self.interface.name())),
        };
        let config = queue_config(&self.config);
        let chunk = if area.pieces { CHUNK_MAX } else { CHUNK_MIN };
        let make = || xsk::make(&memory, area.len, chunk, &config);
        let sockets = self.namespace.within(make)?.map_err(|cause| self.failed(cause))?;
        let copies = sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>();
        let descriptors = copies.map_err(|cause| self.failed(cause))?;
        self.sockets[queue] = sockets;
        Ok(PortReply { reply: Reply::Sockets(self.maps_number), descriptors })
    }

    /// Binds the sockets of a receive queue and enters them into the maps; the port has them alone
    /// from then on.
    fn bind(&mut self, queue: u32) -> Result<PortReply> {
        let place = self.place(queue)?;
        if self.sockets[place].is_empty() {
            // They were made by another authority: that of a keeper that ended.
            return Err(misfit(self.interface.name()));
        }
        let bound = xsk::bind(&self.sockets[place], (self.index, queue), self.pieces);
        bound.map_err(|cause| self.failed(cause))?;
        if self.config.promiscuous {
            let set = self.interface.set_promiscuous(self.index);
            set.map_err(|cause| self.failed(cause))?;
        }
        let rings = rings(&self.config);
        for (number, socket) in self.sockets[place].drain(..).enumerate() {
            let map = self.maps.get(number / rings).ok_or_else(|| misfit(self.interface.name()))?;
            map.set_descriptor(place * RINGS_MAX + number % rings, socket.as_fd())?;
        }
        Ok(PortReply::done())
    }

    fn attach(&mut self) -> Result<PortReply> {
        let (link, attached) = self.hook_up()?;
        self.attached = Some(attached);
        Ok(PortReply { reply: self.parts(attached), descriptors: vec![link.into()] })
    }

    /// Puts a program in the place of the one that is attached, which sorts as it is now said and
    /// hands frames to this set of sockets. The link is of the port, and so of this interface or of
    /// another one of the same forwarder.
    fn exchange(&mut self, set: usize, link: Option<&OwnedFd>) -> Result<PortReply> {
        let (Some(attached), Some(link)) = (self.attached, link) else {
            return Err(misfit(self.interface.name()));
        };
        let before = std::mem::replace(&mut self.set, set);
        let loaded = self.namespace.within(|| self.load_at(attached.hook)).flatten();
        let exchanged = loaded.and_then(|(program, as_now)| {
            // The port knows which tags frames have.
            if as_now != attached {
                return Err(misfit(self.interface.name()));
            }
            program.replace(link.as_fd())
        });
        exchanged.inspect_err(|_| self.set = before)?;
        Ok(PortReply::done())
    }

    /// Attaches the program that hands each frame to the socket of its ring.
    fn hook_up(&self) -> Result<(Link, Attached)> {
        self.namespace
            .within(|| {
                self.at_best_hook(|hook| {
                    let (program, attached) = self.load_at(hook)?;
                    Ok((program.attach(self.index, hook)?, attached))
                })
            })?
            .map_err(|error| {
                let action = format!("open an AF_XDP port on `{}`: ", self.interface.name());
                SystemError { action: action + &error.action, ..error }
            })
    }

    /// Loads the program only.
    fn load(&self) -> Result<Attached> {
        self.namespace.within(|| self.at_best_hook(|hook| Ok(self.load_at(hook)?.1)))?
    }

    fn at_best_hook<T>(&self, work: impl Fn(Hook) -> Result<T>) -> Result<T> {
        let mut outcome = work(self.hooks[0]);
        for hook in &self.hooks[1..] {
            let is_final = |error: &SystemError| {
                // Another program is there, or privileges are missing: the next place is no better.
                matches!(error.errno(), Some(libc::EBUSY | libc::EEXIST | libc::EPERM))
            };
            match outcome {
                Err(error) if !is_final(&error) => outcome = work(*hook),
                _ => break,
            }
        }
        outcome
    }

    fn load_at(&self, hook: Hook) -> Result<(Program, Attached)> {
        let kind = if self.pieces { bpf::Kind::XdpFragments } else { bpf::Kind::Xdp };
        let sorting = self.config.sorting.as_ref();
        if let (Hook::XdpNative, Some(number)) = (hook, bpf::kernel_function(TAG_FUNCTION)) {
            let code = program::to_rings(Some(number), sorting, &self.maps[self.set]);
            let program = Program::load_for(kind, PROGRAM_NAME, &code, Some(self.index));
            // A driver that has no such function refuses the program.
            if let Ok(program) = program {
                return Ok((program, Attached { hook, keeps_tags: true }));
            }
        }
        let code = program::to_rings(None, sorting, &self.maps[self.set]);
        let program = Program::load(kind, PROGRAM_NAME, &code)?;
        Ok((program, Attached { hook, keeps_tags: false }))
    }

    fn failed(&self, cause: io::Error) -> SystemError {
        let action = format!("open AF_XDP sockets on `{}`", self.interface.name());
        let mut error = SystemError::new(action, cause);
        match error.errno() {
            Some(libc::EBUSY) => {
                error.cure = "another program has its receive queue: end it".into()
            }
            Some(libc::ENOBUFS) => error.cure = MEMLOCK_CURE.into(),
            _ => {}
        }
        error
    }
}

impl Authority for XdpAuthority {
    fn ask(&mut self, request: PortRequest, descriptors: Vec<OwnedFd>) -> Result<PortReply> {
        let found = self.interface.find(self.index, &self.config.interface);
        self.index = found.map_err(|cause| self.failed(cause))?;
        match request {
            PortRequest::Open { intake } => self.open(intake),
            PortRequest::Sockets(area) => self.make(&area, descriptors),
            PortRequest::Bind { queue, .. } => self.bind(queue),
            PortRequest::Attach => self.attach(),
            PortRequest::Exchange { set } if set < sets(&self.config) => {
                self.exchange(set, descriptors.first())
            }
            PortRequest::SetUp(up) => self.interface.set_up(up).map(|()| PortReply::done()),
            request => Err(cannot(&request, &self.config.interface)),
        }
    }

    fn sort_by(&mut self, sorting: Sorting) {
        self.config.sorting = Some(sorting);
    }
}

/// Returns the receive queues of an interface, or why AF_XDP cannot serve it, and the cure.
fn check(interface: &Interface) -> std::result::Result<u32, (String, String)> {
    let name = interface.name();
    // A driver that does not say has one queue.
    let queues = check_queues(name, interface.queues().unwrap_or([1, 1]))?;
    let mtu = interface.mtu().unwrap_or_default();
    if mtu > MTU_MAX {
        let why = format!("its MTU {mtu} is above {MTU_MAX}");
        return Err((why, format!("`ip link set {name} mtu {MTU_MAX}`, or kind afpacket")));
    }
    Ok(queues)
}

/// Returns the receive queues of an interface that receives into so many, and sends by so many.
fn check_queues(name: &str, counts: [u32; 2]) -> std::result::Result<u32, (String, String)> {
    let [queues, senders] = counts.map(|count| count.max(1));
    let cure = |count: u32| {
        format!(
            "`ethtool -L {name} combined {count}` (or `rx {count} tx {count}`), or kind afpacket"
        )
    };
    if queues as usize > QUEUES_MAX {
        let why = format!("it receives into {queues} queues, above the most of {QUEUES_MAX}");
        return Err((why, cure(QUEUES_MAX as u32)));
    }
    // The kernel sends nothing by a socket whose queue has no counterpart.
    if senders < queues {
        let why = format!("it receives into {queues} queues and sends by {senders} only");
        return Err((why, cure(senders)));
    }
    Ok(queues)
}

/// Returns whether the other end of an interface may be a sender on the same machine, which leaves
/// checksums to hardware that does not exist.
fn leaves_checksums(interface: &Interface) -> bool {
    const DRIVERS: [&str; 3] = ["veth", "virtio_net", "tun"];
    interface.driver().is_ok_and(|driver| DRIVERS.contains(&driver.as_str()))
}

fn rings_maps() -> Result<[Map; 2]> {
    let map = || Map::sockets("weir_rings", RINGS_MAX * QUEUES_MAX);
    Ok([map()?, map()?])
}

/// The name by which `bpftool` lists the program.
const PROGRAM_NAME: &str = "weir_port";
/// The kernel's function that returns the VLAN tag beside a frame (Linux 6.8).
const TAG_FUNCTION: &str = "bpf_xdp_metadata_rx_vlan_tag";

const MEMLOCK_CURE: &str = "give the program CAP_IPC_LOCK, or raise the limit of locked memory \
     (ulimit -l), or configure smaller limits";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_beyond_the_most_or_without_a_counterpart_are_refused_with_the_cure() {
        let rows = [
            ([0, 0], Ok(1)),
            ([1, 1], Ok(1)),
            ([1, 4], Ok(1)),
            ([8, 8], Ok(8)),
            ([9, 9], Err(("into 9 queues, above the most of 8", "combined 8"))),
            ([4, 2], Err(("into 4 queues and sends by 2", "combined 2"))),
        ];
        for (counts, expected) in rows {
            match (check_queues("eth7", counts), expected) {
                (Ok(queues), Ok(expected)) => assert_eq!(queues, expected, "{counts:?}"),
                (Err((why, cure)), Err(parts)) => {
                    let says = why.contains(parts.0) && cure.contains(parts.1);
                    assert!(says && cure.contains("ethtool -L eth7"), "{why}: {cure}");
                }
                other => panic!("{counts:?}: {other:?}"),
            }
        }
    }
}
