//! A network that shows a node the messages of one session.
//!
//! A raw socket gets every message that comes to this host. Another program's reservation is not
//! this node's to refuse, and without the filter it would: it has no path state of it.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use weir_core::classify::InterfaceId;
use weir_rsvp::node::{Packet, Route, Routes};
use weir_rsvp::wire::{Body, Message, Session};

use crate::rsvp::driver::{Network, Received};
use crate::rsvp::kernel::KernelNetwork;
use crate::rsvp::routing::Changes;

/// See the module.
pub struct OwnSession {
    network: KernelNetwork,
    session: Session,
}

impl OwnSession {
    /// Shows only messages of `session`, and those that name none.
    pub fn new(network: KernelNetwork, session: Session) -> Self {
        Self { network, session }
    }
}

impl Network for OwnSession {
    fn receive(&mut self, message: &mut Vec<u8>) -> Option<Received> {
        // Bounded: a flood of other sessions' messages waits for the next turn.
        for _ in 0..OTHERS_MAX {
            let received = self.network.receive(message)?;
            if session_of(message).is_none_or(|session| session == self.session) {
                return Some(received);
            }
        }
        None
    }

    fn send(&mut self, packet: &Packet) -> io::Result<()> {
        self.network.send(packet)
    }

    fn hear(&mut self) -> bool {
        self.network.hear()
    }

    fn look(&mut self) -> Changes {
        self.network.look()
    }

    fn addresses(&self, interface: InterfaceId) -> Vec<IpAddr> {
        self.network.addresses(interface)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.network.descriptors()
    }
}

impl Routes for OwnSession {
    fn route(&self, destination: IpAddr, source: IpAddr) -> Route {
        self.network.route(destination, source)
    }
}

/// The session that a message is about; none if it is about none, or is no message.
fn session_of(bytes: &[u8]) -> Option<Session> {
    Some(match Message::parse(bytes).ok()?.body {
        Body::Path(path) => path.session,
        Body::Resv(resv) => resv.session,
        Body::PathErr(error) => error.session,
        Body::ResvErr(error) => error.session,
        Body::PathTear(tear) => tear.session,
        Body::ResvTear(tear) => tear.session,
        Body::ResvConf(confirmation) => confirmation.session,
        _ => return None,
    })
}

/// Messages of others that a turn passes over at once.
const OTHERS_MAX: usize = 1024;
