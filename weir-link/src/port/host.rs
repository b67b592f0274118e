//! Host ports: an interface of this machine, cut open between the machine and the wire.
//!
//! The port `host` receives what the machine sends out of the interface, and the machine receives
//! what is sent into the port; for the port `wire` the same holds of the wire. A bridge between the
//! two shapes the machine's own traffic and what it forwards and translates.
//! See [`weir_host::tap`].

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use delegate::delegate;

use super::afpacket::{self, AfPacket};
use super::{
    Kind, LaneRules, NewRings, Port, PortConfig, PortCounters, PortState, Reached, Received, Room,
    Sent, ShareHandle, SortHandle,
};
use crate::authority::{
    Authority, HostLink, PassedDescriptors, PortReply, PortRequest, Reply, cannot, misfit,
};
use crate::pool::{FrameId, FramePool};
use crate::sorter::Sorting;
use crate::stations::Address;
use authority::HostAuthority;
use weir_host::error::{Result, SystemError};
use weir_host::interface::{Interface, is_running};
use weir_host::tap::{INSIDE, Side};

mod authority;

pub(super) const HOST: Kind = Kind {
    keyword: "host",
    summary: "what this machine sends and receives on an interface that remains its own",
    suits: None,
    room: afpacket::room,
    authority: |config| Ok(Box::new(HostAuthority::new(config, Side::Host)?)),
    open: |config, authority| Ok(Box::new(HostPort::open(config, authority, Side::Host)?)),
};

pub(super) const WIRE: Kind = Kind {
    keyword: "wire",
    summary: "the wire behind an interface that remains the machine's own",
    suits: None,
    room: afpacket::room,
    authority: |config| Ok(Box::new(HostAuthority::new(config, Side::Wire)?)),
    open: |config, authority| Ok(Box::new(HostPort::open(config, authority, Side::Wire)?)),
};

/// A port of packet sockets at a tap: those finish checksums and super-packets, which the machine
/// leaves to the interface.
struct HostPort {
    // These drop first: frames pass again before the sockets close.
    /// Descriptors that keep the tap alive.
    kept: Vec<OwnedFd>,
    authority: Shared,
    port: AfPacket,
    /// The interface whose frames the tap takes.
    outer: Interface,
    link: HostLink,
    configured: String,
    side: Side,
    state: PortState,
}

impl HostPort {
    fn open(config: PortConfig, mut authority: Box<dyn Authority>, side: Side) -> Result<Self> {
        let configured = config.interface.clone();
        let reply = authority.ask(PortRequest::Open { intake: config.intake }, Vec::new())?;
        let Reply::Host { link, packet: Some(parts) } = reply.reply else {
            return Err(misfit(&configured));
        };
        let authority = Arc::new(Mutex::new(authority));
        let inner = PortConfig { interface: INSIDE.to_owned(), shares: 1, ..config };
        let at_tap = PortReply { reply: Reply::Packet(parts), descriptors: reply.descriptors };
        let borrowed = Box::new(Borrowed(Arc::downgrade(&authority)));
        let (port, rest) = AfPacket::with(inner, borrowed, at_tap)?;
        let mut parcel = PassedDescriptors::new(rest, &configured);
        let outer = Interface::of(parcel.next()?, &configured);
        let kept = parcel.rest();
        let state = PortState::Gone;
        let mut port = Self { kept, authority, port, outer, link, configured, side, state };
        port.refresh();
        Ok(port)
    }

    /// Follows the interface to its name, and has the tap follow to another interface or MTU.
    fn follow_interface(&mut self) -> io::Result<PortState> {
        // A tap follows to an interface of the name that its own had last.
        let (name, index) = (self.outer.name().to_owned(), self.link.index);
        if self.outer.follow(index).is_err() || !self.outer.is_watched(index) {
            // One that returned under the same number came back without the tap's programs.
            self.outer.index()?;
            self.ask(PortRequest::Follow).map_err(|error| error.cause)?;
        }
        let found = self.outer.mtu_and_flags(self.link.index)?;
        let Some((mtu, flags)) = found else { return Ok(self.state) };
        if mtu != self.link.mtu as usize || self.outer.name() != name {
            // Where it fails, longer frames are lost in the pair: the next refresh tries again.
            let _tries_again = self.ask(PortRequest::Follow);
        }
        let is_running = is_running(flags);
        if self.port.refresh() != PortState::Up && self.ask(PortRequest::Follow).is_err() {
            // Someone removed the tap's pair or set it down, and it cannot be mended. Without the
            // programs frames pass unshaped; with them they would all be lost.
            self.kept.clear();
        }
        let tap = self.port.refresh();
        Ok(if is_running { tap } else { PortState::Down })
    }

    fn ask(&mut self, request: PortRequest) -> Result<()> {
        let reply = ask_shared(&self.authority, request, Vec::new())?;
        let Reply::Host { link, .. } = reply.reply else { return Err(misfit(&self.configured)) };
        (self.link, self.kept) = (link, reply.descriptors);
        Ok(())
    }
}

/// The authority of the tap, which the port at the tap asks, too.
type Shared = Arc<Mutex<Box<dyn Authority>>>;

/// The tap's authority as the port at the tap has it: it does not keep the tap alive.
struct Borrowed(Weak<Mutex<Box<dyn Authority>>>);

impl Authority for Borrowed {
    fn ask(&mut self, request: PortRequest, descriptors: Vec<OwnedFd>) -> Result<PortReply> {
        match self.0.upgrade() {
            Some(authority) => ask_shared(&authority, request, descriptors),
            None => Err(cannot(&request, INSIDE)),
        }
    }

    fn sort_by(&mut self, sorting: Sorting) {
        if let Some(authority) = self.0.upgrade() {
            authority.lock().unwrap_or_else(PoisonError::into_inner).sort_by(sorting);
        }
    }
}

fn ask_shared(
    authority: &Shared,
    request: PortRequest,
    descriptors: Vec<OwnedFd>,
) -> Result<PortReply> {
    authority.lock().unwrap_or_else(PoisonError::into_inner).ask(request, descriptors)
}

impl Port for HostPort {
    delegate! {
        to self.port {
            fn mtu(&self) -> usize;
            fn warnings(&self) -> Vec<String>;
            fn room(&self) -> Room;
            fn attach(&mut self, pool: &mut FramePool) -> Result<()>;
            fn descriptors(&self) -> Vec<RawFd>;
            fn rings(&self) -> usize;
            fn shares(&self) -> usize;
            fn queues(&self) -> usize;
            fn look_up_in(&mut self, rules: &LaneRules);
            fn receive(
                &mut self,
                ring: usize,
                frames_max: usize,
                pool: &mut FramePool,
                out: &mut Vec<Received>,
            ) -> Reached;
            fn sorter(&self) -> Option<Arc<dyn SortHandle>>;
            fn sharers(&self) -> Option<Arc<dyn ShareHandle>>;
            fn begin_sorting(&mut self, made: &mut NewRings) -> bool;
            fn end_sorting(&mut self, retired: u8);
            fn send(&mut self, pool: &mut FramePool, frames: &[FrameId]) -> Sent;
            fn reclaim(&mut self, pool: &mut FramePool);
            fn deadline(&self) -> Option<u64>;
            fn held(&self) -> usize;
            fn lent(&self) -> usize;
        }
    }

    fn kind(&self) -> &'static str {
        self.side.word()
    }

    fn interface(&self) -> &str {
        self.outer.name()
    }

    fn address(&self) -> Option<Address> {
        // A tap has no station of its own.
        None
    }

    fn state(&self) -> PortState {
        self.state
    }

    fn refresh(&mut self) -> PortState {
        self.state = self.follow_interface().unwrap_or(PortState::Gone);
        self.state
    }

    fn set_up(&mut self, _up: bool) -> Result<()> {
        let action = format!("set `{}` up or down", self.interface());
        let why = "it is the machine's own";
        Err(SystemError::refused(action, why, "a bridge of two interfaces passes carrier"))
    }

    fn set_intake(&mut self, open: bool) -> Result<()> {
        self.port.set_intake(open)?;
        // Closed, the tap stays: another port may be at it.
        if open { self.ask(PortRequest::Attach) } else { Ok(()) }
    }

    fn counters(&mut self) -> PortCounters {
        PortCounters { rebinds: self.link.moves, ..self.port.counters() }
    }
}
