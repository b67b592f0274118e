//! A node's network as the kernel has it: sockets and routes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use weir_core::classify::InterfaceId;
use weir_rsvp::ip;
use weir_rsvp::node::{Packet, Route, Routes};
use weir_rsvp::wire::{Message, Session};

use super::datagram::{self, Beside};
use super::driver::{Network, Received};
use super::open::{Descriptors, Sockets, member};
use super::routing::{Changes, HostInterface, Routing};
use crate::error::{Result, SystemError};

/// The sockets and the routes of this host, by descriptors that were opened before.
pub struct KernelNetwork {
    sockets: Sockets,
    routing: Routing,
    buffer: Vec<u8>,
    /// Set by [`KernelNetwork::show_only`].
    only: Option<Session>,
}

impl KernelNetwork {
    /// A network of these interfaces; the first is `InterfaceId(0)`. Opens nothing.
    ///
    /// # Errors
    /// When an interface is not there.
    pub fn new(descriptors: Descriptors, interfaces: &[String]) -> Result<Self> {
        let Descriptors { routes, notices, sockets } = descriptors;
        let routing = Routing::new(routes, notices, interfaces)?;
        Ok(Self { sockets, routing, buffer: vec![0; PACKET_BYTES_MAX], only: None })
    }

    /// Shows from now on only messages of this session, and those that name none.
    ///
    /// A raw socket gets every message that comes to this host. Another program's reservation is
    /// not this node's to refuse, and it would: it has no path state of it.
    pub fn show_only(&mut self, session: Session) {
        self.only = Some(session);
    }

    fn shows(&self, message: &[u8]) -> bool {
        let named = || Message::parse(message).ok()?.body.session();
        self.only.is_none_or(|only| named().is_none_or(|session| session == only))
    }

    /// Receives a multicast group on an interface, or does so no more.
    ///
    /// # Errors
    /// When there is no such interface, or the socket is in too many groups.
    pub fn join(&mut self, group: IpAddr, interface: InterfaceId, joins: bool) -> Result<()> {
        let known = self.routing.interfaces().get(usize::from(interface.0));
        let index = known.map_or(0, |known| known.index);
        if self.routing.join(group, interface, joins) {
            let done = member(&self.sockets, group, index, joins);
            let what = if joins { "receive" } else { "no longer receive" };
            done.map_err(|cause| {
                self.routing.join(group, interface, !joins);
                SystemError::new(format!("{what} the group {group}"), cause)
            })?;
        }
        Ok(())
    }

    /// Returns the message that a socket gave as a whole packet.
    fn whole(&self, beside: Beside, message: &mut Vec<u8>) -> Option<Received> {
        let packet = &self.buffer[..beside.len];
        let headers = ip::read(packet)?;
        message.extend_from_slice(&packet[headers.message]);
        let ip::Headers { source, destination, ttl, .. } = headers;
        Some(Received { interface: self.routing.id(beside.index)?, source, destination, ttl })
    }

    /// Returns the message that a socket gave without headers.
    fn bare(&self, beside: Beside, message: &mut Vec<u8>) -> Option<Received> {
        message.extend_from_slice(&self.buffer[..beside.len]);
        let (source, destination) = (beside.source?.into(), beside.destination?.into());
        let interface = self.routing.id(beside.index)?;
        Some(Received { interface, source, destination, ttl: beside.hop_limit? })
    }
}

impl Network for KernelNetwork {
    fn receive(&mut self, message: &mut Vec<u8>) -> Option<Received> {
        // Bounded, for packets that mean nothing here are passed over.
        for _ in 0..STRAYS_MAX {
            message.clear();
            let six = self.sockets.v6.as_ref();
            let transit = six.and_then(|six| six.transit.as_ref());
            let sockets = [Some(&self.sockets.v4), transit, six.map(|six| &six.plain)];
            let mut came = None;
            for (place, socket) in sockets.iter().enumerate() {
                let Some(socket) = socket else { continue };
                // An error of a socket is one of a packet that it sent before.
                let received = datagram::receive(socket.as_fd(), &mut self.buffer);
                if let Ok(Some(beside)) = received {
                    came = Some((place, beside));
                    break;
                }
            }
            let (place, beside) = came?;
            let received = match place {
                BARE => self.bare(beside, message),
                _ => self.whole(beside, message),
            };
            if received.is_some() && self.shows(message) {
                return received;
            }
        }
        None
    }

    fn send(&mut self, packet: &Packet) -> io::Result<()> {
        let interface = self.routing.interfaces().get(usize::from(packet.interface.0));
        let index = interface.map_or(0, |interface| interface.index);
        let v4 = packet.source.is_ipv4();
        let socket = self.sockets.sending(v4, packet.alert);
        match socket {
            Some(socket) if index != 0 && packet.destination.is_ipv4() == v4 => {
                datagram::send(socket, packet, index)
            }
            _ => Err(io::Error::from_raw_os_error(libc::ENODEV)),
        }
    }

    fn read_notices(&mut self) -> bool {
        self.routing.read_notices()
    }

    fn refresh(&mut self) -> Changes {
        self.routing.refresh()
    }

    fn interfaces(&self) -> &[HostInterface] {
        self.routing.interfaces()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.receiving().chain([self.routing.notices()]).collect()
    }
}

impl Routes for KernelNetwork {
    fn route(&self, destination: IpAddr, source: IpAddr) -> Route {
        self.routing.route(destination, source)
    }
}

/// The longest packet of either family.
const PACKET_BYTES_MAX: usize = 65_536 + 40;
/// Packets in a row that are no messages for this node.
const STRAYS_MAX: usize = 1024;
/// The socket that gives messages without their headers, in the order of `receive`.
const BARE: usize = 2;
