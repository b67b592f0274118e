//! The network of a node beside a link: that of a routing machine, or of a bridge.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use weir_rsvp::node::{Packet, Route, Routes};

use super::bridge::BridgeNetwork;
use super::driver::{Network, Received};
use super::kernel::KernelNetwork;
use super::routing::{Changes, HostInterface};

/// The network of a router or of a bridge.
pub enum LinkNetwork {
    /// The kernel forwards packets, and hands over those with router alert.
    Router(KernelNetwork),
    /// Weir forwards frames, and a bridge's ports see RSVP.
    Bridge(BridgeNetwork),
}

impl LinkNetwork {
    /// Returns whether [`LinkNetwork::lost`] is to be asked again, though nothing comes.
    pub fn is_down(&self) -> bool {
        matches!(self, Self::Bridge(network) if network.is_down())
    }

    /// Returns the reason if an interface is gone: its socket receives nothing, even if it returns.
    pub fn lost(&self) -> Option<String> {
        match self {
            Self::Router(_) => None,
            Self::Bridge(network) => network.lost(),
        }
    }

    fn network(&self) -> &dyn Network {
        match self {
            Self::Router(network) => network,
            Self::Bridge(network) => network,
        }
    }

    fn network_mut(&mut self) -> &mut dyn Network {
        match self {
            Self::Router(network) => network,
            Self::Bridge(network) => network,
        }
    }
}

impl Network for LinkNetwork {
    fn receive(&mut self, message: &mut Vec<u8>) -> Option<Received> {
        self.network_mut().receive(message)
    }

    fn send(&mut self, packet: &Packet) -> io::Result<()> {
        self.network_mut().send(packet)
    }

    fn read_notices(&mut self) -> bool {
        self.network_mut().read_notices()
    }

    fn refresh(&mut self) -> Changes {
        self.network_mut().refresh()
    }

    fn interfaces(&self) -> &[HostInterface] {
        self.network().interfaces()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.network().descriptors()
    }
}

impl Routes for LinkNetwork {
    fn route(&self, destination: IpAddr, source: IpAddr) -> Route {
        self.network().route(destination, source)
    }
}
