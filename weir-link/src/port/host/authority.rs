//! The privileged half of a host port: the tap, and the packet sockets at it.
//!
//! Two ports on one side of an interface share its tap, since the interface can be cut open only
//! once; that is how one forwarder takes over from another. The port holds what keeps the tap
//! alive, too, so frames pass through it as long as either half is there.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::authority::{Authority, HostLink, PacketParts, PortReply, PortRequest, Reply, cannot};
use crate::port::PortConfig;
use crate::port::afpacket::authority::PacketAuthority;
use crate::sorter::Sorting;
use weir_host::error::{Result, SystemError};
use weir_host::interface::Interface;
use weir_host::netlink::LinkState;
use weir_host::tap::{INSIDE, Side, Tap};

pub(super) struct HostAuthority {
    tap: Arc<Mutex<Tap>>,
    packet: PacketAuthority,
    outer: Interface,
    config: PortConfig,
}

impl HostAuthority {
    /// Makes a tap on an interface of this thread's network namespace.
    pub(super) fn new(config: &PortConfig, side: Side) -> Result<Self> {
        let tap = Tap::open(&config.interface, side)?;
        Self::on(Arc::new(Mutex::new(tap)), config)
    }

    fn on(tap: Arc<Mutex<Tap>>, config: &PortConfig) -> Result<Self> {
        let inner =
            PortConfig { interface: INSIDE.to_owned(), promiscuous: false, ..config.clone() };
        let (packet, outer) = {
            let tap = locked(&tap);
            let packet = tap.namespace().run(|| PacketAuthority::new(&inner))??;
            (packet, Interface::open(tap.interface())?)
        };
        Ok(Self { tap, packet, outer, config: config.clone() })
    }

    fn open(&mut self, intake: bool) -> Result<PortReply> {
        let (parts, mut descriptors) = self.packet.open(intake)?;
        self.outer.watch(locked(&self.tap).state().index).map_err(|cause| self.failed(cause))?;
        let outer = self.outer.share();
        descriptors.push(outer.map_err(|cause| self.failed(cause))?);
        if intake {
            // From here on frames wait in the port's ring.
            locked(&self.tap).attach()?;
        }
        self.reply(Some(parts), descriptors)
    }

    /// Has the tap follow the interface. That is watched from before the tap is looked at, so a
    /// port notices what happens afterwards.
    fn follow(&mut self) -> Option<LinkState> {
        let before = locked(&self.tap).state().index;
        let _gone = self.outer.watch(before);
        let link = locked(&self.tap).follow()?;
        if link.index == before {
            return Some(link);
        }
        self.outer.watch(link.index).ok()?;
        locked(&self.tap).follow()
    }

    fn reply(
        &self,
        packet: Option<PacketParts>,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<PortReply> {
        let tap = locked(&self.tap);
        for kept in tap.descriptors() {
            descriptors.push(kept.try_clone_to_owned().map_err(|cause| self.failed(cause))?);
        }
        let state = tap.state();
        let link = HostLink { index: state.index, mtu: state.mtu, moves: tap.moves() };
        Ok(PortReply { reply: Reply::Host { link, packet }, descriptors })
    }

    fn failed(&self, cause: std::io::Error) -> SystemError {
        let action = format!("redirect the frames of `{}`", self.config.interface);
        SystemError::new(action, cause)
    }
}

impl Authority for HostAuthority {
    fn ask(&mut self, request: PortRequest, descriptors: Vec<OwnedFd>) -> Result<PortReply> {
        match request {
            PortRequest::Open { intake } => self.open(intake),
            PortRequest::Attach => {
                locked(&self.tap).attach()?;
                self.reply(None, Vec::new())
            }
            PortRequest::Follow => {
                let followed = self.follow();
                let gone = || std::io::Error::from_raw_os_error(libc::ENODEV);
                followed.ok_or_else(|| self.failed(gone()))?;
                self.reply(None, Vec::new())
            }
            request @ (PortRequest::Bind { .. }
            | PortRequest::Sort { .. }
            | PortRequest::MakeRings { .. }) => self.packet.ask(request, descriptors),
            request => Err(cannot(&request, &self.config.interface)),
        }
    }

    fn sort_by(&mut self, sorting: Sorting) {
        self.packet.sort_by(sorting.clone());
        self.config.sorting = Some(sorting);
    }

    fn beside(&self) -> Result<Option<Box<dyn Authority>>> {
        Ok(Some(Box::new(Self::on(Arc::clone(&self.tap), &self.config)?)))
    }
}

fn locked(tap: &Mutex<Tap>) -> MutexGuard<'_, Tap> {
    tap.lock().unwrap_or_else(PoisonError::into_inner)
}
