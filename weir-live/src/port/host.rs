//! Host ports: an interface of this machine, cut open between the machine and the wire.
//!
//! The port `host` receives what the machine sends out of the interface, and the machine receives
//! what is sent into the port; for the port `wire` the same holds of the wire. A bridge between the
//! two shapes the machine's own traffic and what it forwards and translates. See [`crate::tap`].

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::afpacket::AfPacket;
use super::{Kind, Port, PortConfig, PortCounters, PortState, Received, Sent};
use crate::authority::{Ask, Authority, Granted, HostLink, Parcel, Reply, cannot, misfit};
use crate::error::Result;
use crate::interface::Interface;
use crate::pool::{FrameId, FramePool};
use crate::tap::{INSIDE, Side};
use authority::HostAuthority;

mod authority;

pub(super) const HOST: Kind = Kind {
    keyword: "host",
    summary: "what this machine sends and receives on an interface that remains its own",
    suits: None,
    authority: |config| Ok(Box::new(HostAuthority::new(config, Side::Host)?)),
    open: |config, authority| Ok(Box::new(HostPort::open(config, authority, Side::Host)?)),
};

pub(super) const WIRE: Kind = Kind {
    keyword: "wire",
    summary: "the wire behind an interface that remains the machine's own",
    suits: None,
    authority: |config| Ok(Box::new(HostAuthority::new(config, Side::Wire)?)),
    open: |config, authority| Ok(Box::new(HostPort::open(config, authority, Side::Wire)?)),
};

/// A port of packet sockets at a tap: those finish checksums and super-packets, which the machine
/// leaves to the interface.
struct HostPort {
    // These drop first: frames pass again before the sockets close.
    /// What keeps the tap alive.
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
        let granted = authority.ask(Ask::Open { intake: config.intake }, Vec::new())?;
        let Reply::Host { link, packet: Some(parts) } = granted.reply else {
            return Err(misfit(&configured));
        };
        let authority = Arc::new(Mutex::new(authority));
        let inner = PortConfig { interface: INSIDE.to_owned(), ..config };
        let at_tap = Granted { reply: Reply::Packet(parts), descriptors: granted.descriptors };
        let borrowed = Box::new(Borrowed(Arc::downgrade(&authority)));
        let (port, rest) = AfPacket::with(inner, borrowed, at_tap)?;
        let mut parcel = Parcel::new(rest, &configured);
        let outer = Interface::of(parcel.next()?, &configured);
        let kept = parcel.rest();
        let state = PortState::Gone;
        let mut port = Self { kept, authority, port, outer, link, configured, side, state };
        port.refresh();
        Ok(port)
    }

    /// Follows the interface to its name, and has the tap follow to another interface or MTU.
    fn look(&mut self) -> io::Result<PortState> {
        // A tap follows to an interface of the name that its own had last.
        let name = self.outer.name().to_owned();
        if self.outer.follow(self.link.index).is_err() {
            self.outer.index()?;
            self.ask(Ask::Follow).map_err(|error| error.cause)?;
        } else if self.outer.mtu()? != self.link.mtu as usize || self.outer.name() != name {
            // Where it fails, longer frames are lost in the pair: the next refresh tries again.
            let _tries_again = self.ask(Ask::Follow);
        }
        let is_running = self.outer.is_running()?;
        let tap = self.port.refresh();
        Ok(if is_running { tap } else { PortState::Down })
    }

    fn ask(&mut self, ask: Ask) -> Result<()> {
        let granted = ask_shared(&self.authority, ask, Vec::new())?;
        let Reply::Host { link, .. } = granted.reply else { return Err(misfit(&self.configured)) };
        (self.link, self.kept) = (link, granted.descriptors);
        Ok(())
    }
}

/// The authority of the tap, which the port at the tap asks, too.
type Shared = Arc<Mutex<Box<dyn Authority>>>;

/// The tap's authority as the port at the tap has it: it does not keep the tap alive.
struct Borrowed(Weak<Mutex<Box<dyn Authority>>>);

impl Authority for Borrowed {
    fn ask(&mut self, ask: Ask, descriptors: Vec<OwnedFd>) -> Result<Granted> {
        match self.0.upgrade() {
            Some(authority) => ask_shared(&authority, ask, descriptors),
            None => Err(cannot(&ask, INSIDE)),
        }
    }
}

fn ask_shared(authority: &Shared, ask: Ask, descriptors: Vec<OwnedFd>) -> Result<Granted> {
    authority.lock().unwrap_or_else(PoisonError::into_inner).ask(ask, descriptors)
}

impl Port for HostPort {
    fn kind(&self) -> &'static str {
        self.side.word()
    }

    fn interface(&self) -> &str {
        self.outer.name()
    }

    fn mtu(&self) -> usize {
        self.port.mtu()
    }

    fn slot_len(&self) -> usize {
        self.port.slot_len()
    }

    fn attach(&mut self, pool: &mut FramePool) -> Result<()> {
        self.port.attach(pool)
    }

    fn state(&self) -> PortState {
        self.state
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.port.descriptors()
    }

    fn rings(&self) -> usize {
        self.port.rings()
    }

    fn receive(
        &mut self,
        ring: usize,
        frames_max: usize,
        pool: &mut FramePool,
        out: &mut Vec<Received>,
    ) -> bool {
        self.port.receive(ring, frames_max, pool, out)
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[FrameId]) -> Sent {
        self.port.send(pool, frames)
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        self.port.reclaim(pool);
    }

    fn held(&self) -> usize {
        self.port.held()
    }

    fn held_max(&self) -> usize {
        self.port.held_max()
    }

    fn deadline(&self) -> Option<u64> {
        self.port.deadline()
    }

    fn set_intake(&mut self, open: bool) -> Result<()> {
        self.port.set_intake(open)?;
        // Closed, the tap stays: another port may be at it.
        if open { self.ask(Ask::Attach) } else { Ok(()) }
    }

    fn refresh(&mut self) -> PortState {
        self.state = self.look().unwrap_or(PortState::Gone);
        self.state
    }

    fn counters(&mut self) -> PortCounters {
        PortCounters { rebinds: self.link.moves, ..self.port.counters() }
    }
}
