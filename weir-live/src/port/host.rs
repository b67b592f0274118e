//! Host ports: an interface of this machine, cut open between the machine and the wire.
//!
//! The port `host` receives what the machine sends out of the interface, and the machine receives
//! what is sent into the port; for the port `wire` the same holds of the wire. A bridge between the
//! two shapes the machine's own traffic and what it forwards and translates. See [`crate::tap`].

use std::os::fd::RawFd;

use super::{Kind, Port, PortConfig, PortCounters, PortState, Received, Sent, afpacket};
use crate::error::Result;
use crate::netlink::LinkState;
use crate::pool::{FrameId, FramePool};
use crate::tap::{INSIDE, Side, Tap};

pub(super) const HOST: Kind = Kind {
    keyword: "host",
    summary: "what this machine sends and receives on an interface that remains its own",
    suits: None,
    room: afpacket::room,
    open: |config| open(config, Side::Host),
};

pub(super) const WIRE: Kind = Kind {
    keyword: "wire",
    summary: "the wire behind an interface that remains the machine's own",
    suits: None,
    room: afpacket::room,
    open: |config| open(config, Side::Wire),
};

/// A tap, and a port of packet sockets on it: those finish checksums and super-packets, which the
/// machine leaves to the interface.
struct HostPort {
    // Dropped first: frames pass again before the sockets close.
    tap: Tap,
    port: Box<dyn Port>,
    side: Side,
    state: PortState,
}

fn open(config: PortConfig, side: Side) -> Result<Box<dyn Port>> {
    let mut tap = Tap::open(&config.interface, side)?;
    let config = PortConfig { interface: INSIDE.to_owned(), promiscuous: false, ..config };
    let port = tap.namespace().run(|| (afpacket::KIND.open)(config))??;
    // From here on frames wait in the port's ring.
    tap.attach()?;
    let mut port = HostPort { tap, port, side, state: PortState::Gone };
    port.refresh();
    Ok(Box::new(port))
}

impl Port for HostPort {
    fn kind(&self) -> &'static str {
        self.side.word()
    }

    fn interface(&self) -> &str {
        self.tap.interface()
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

    fn refresh(&mut self) -> PortState {
        let link = self.tap.follow();
        let port = self.port.refresh();
        self.state = state(link, port);
        self.state
    }

    fn counters(&mut self) -> PortCounters {
        let rebinds = self.tap.moves();
        PortCounters { rebinds, ..self.port.counters() }
    }
}

/// Returns the state of a port from those of its interface and of its tap.
fn state(link: Option<LinkState>, tap: PortState) -> PortState {
    match link {
        None => PortState::Gone,
        Some(link) if link.is_up && link.has_carrier => tap,
        Some(_) => PortState::Down,
    }
}
