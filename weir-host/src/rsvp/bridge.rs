//! A node's network on a bridge: messages are taken out of the frames that cross it, and others are
//! put in as frames.
//!
//! A bridge has no routes and asks for no Ethernet address. It learns both from what it takes out:
//! a Path tells by which port its sender is, and to which station frames for its session go; any
//! message tells which station stands for the hop that sent it. So a message goes on as the one
//! that came did, and an answer goes back to the station that asked.
//!
//! The bridge's own address belongs to no interface of the host. Who asks for it by ARP gets
//! an answer from here, with the Ethernet address of the port.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize};
use weir_core::classify::InterfaceId;
use weir_rsvp::ip;
use weir_rsvp::node::{Packet, Route, Routes};
use weir_rsvp::wire::{Body, Message};

use super::driver::{Network, Received};
use super::routing::HostInterface;
use crate::error::{Result, SystemError};
use crate::fanout;
use crate::interface::Interface;
use crate::socket;

/// The settings of a bridge's node; the keeper sends them to its process with the sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgePlan {
    /// The bridge's address as a hop.
    pub address: Ipv4Addr,
    /// Its ports; the first is `InterfaceId(0)`.
    pub ports: Vec<BridgeEnd>,
}

/// A port of the bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeEnd {
    /// The name of the interface.
    pub interface: String,
    index: u32,
    mtu: u32,
    station: Station,
}

/// An Ethernet address, in the order of the wire.
type Station = [u8; 6];

impl BridgePlan {
    /// Opens a socket at each interface of this thread's network namespace. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// When there is no such interface, or the privilege is missing.
    pub fn open(address: Ipv4Addr, interfaces: &[String]) -> Result<(Self, Vec<OwnedFd>)> {
        let (mut ports, mut sockets) = (Vec::new(), Vec::new());
        for name in interfaces {
            let action = || format!("speak RSVP on `{name}`");
            let failed = |cause| SystemError::new(action(), cause);
            let interface = Interface::open(name)?;
            let index = interface.index().map_err(failed)?;
            sockets.push(tap(address, index).map_err(failed)?);
            ports.push(BridgeEnd {
                interface: name.clone(),
                index,
                mtu: interface.mtu().map_err(failed)? as u32,
                station: interface.address().map_err(failed)?,
            });
        }
        Ok((Self { address, ports }, sockets))
    }
}

/// Makes a socket that takes messages of RSVP out of an interface, and sends frames.
fn tap(address: Ipv4Addr, index: u32) -> io::Result<OwnedFd> {
    let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    let set = |name| socket::set_option(socket.as_fd(), libc::SOL_PACKET, name, &1);
    set(libc::PACKET_IGNORE_OUTGOING)?;
    // As the port itself sends: the interface's own queue has nothing to say here.
    set(libc::PACKET_QDISC_BYPASS)?;
    fanout::take_rsvp(socket.as_fd(), address)?;
    socket::bind_to(socket.as_fd(), index as i32, libc::ETH_P_ALL as u16)?;
    Ok(socket)
}

/// The sockets of a bridge's ports, and the stations that were learned.
pub struct BridgeNetwork {
    address: Ipv4Addr,
    interfaces: Vec<HostInterface>,
    /// The port's own station, by port.
    stations: Vec<Station>,
    sockets: Vec<OwnedFd>,
    learned: Learned,
    buffer: Vec<u8>,
    /// By port: its interface went down, and no frame came since.
    down: Vec<bool>,
}

impl BridgeNetwork {
    /// The network of a plan with the sockets that were opened for it. Opens nothing.
    ///
    /// # Errors
    /// When there are fewer sockets than ports.
    pub fn new(plan: &BridgePlan, sockets: Vec<OwnedFd>) -> Result<Self> {
        if sockets.len() != plan.ports.len() {
            let why = format!("there are {} for {} ports", sockets.len(), plan.ports.len());
            return Err(SystemError::refused("take the sockets of RSVP", why, ""));
        }
        let interface = |port: &BridgeEnd| HostInterface {
            name: port.interface.clone(),
            index: port.index,
            is_up: true,
            mtu: port.mtu,
            addresses: vec![plan.address.into()],
        };
        Ok(Self {
            address: plan.address,
            interfaces: plan.ports.iter().map(interface).collect(),
            stations: plan.ports.iter().map(|port| port.station).collect(),
            sockets,
            learned: Learned::new(plan.ports.len()),
            buffer: vec![0; FRAME_BYTES_MAX],
            down: vec![false; plan.ports.len()],
        })
    }

    /// Returns whether an interface may be gone: it went down, and no frame came since. A socket is
    /// notified of the first and not of the second, so this has to be called again.
    pub fn is_down(&self) -> bool {
        self.down.contains(&true)
    }

    /// Returns why it receives nothing by a port any more: its interface is gone, and no socket is
    /// bound to it. One that is only down comes back by itself.
    pub fn lost(&self) -> Option<String> {
        let is_lost = |port: &usize| {
            let bound = socket::bound_interface(self.sockets[*port].as_fd());
            self.down[*port]
                && bound.is_ok_and(|bound| bound as u32 != self.interfaces[*port].index)
        };
        let port = (0..self.sockets.len()).find(is_lost)?;
        Some(format!("the interface `{}` is gone", self.interfaces[port].name))
    }

    /// Takes the next frame of a port; returns the message in it, if it is one.
    fn take(&mut self, port: usize, message: &mut Vec<u8>) -> Taken {
        let received = recv(&self.sockets[port], &mut self.buffer[..], RecvFlags::DONTWAIT);
        let len = match received {
            Ok((len, _)) => len,
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => return Taken::Nothing,
            Err(_) => {
                self.down[port] = true;
                return Taken::Nothing;
            }
        };
        self.down[port] = false;
        let frame = &self.buffer[..len];
        if let Some(answer) = arp_answer(frame, self.address, self.stations[port]) {
            // Whoever misses it asks again.
            let _unsent = send(&self.sockets[port], &answer, SendFlags::DONTWAIT);
            return Taken::Stray;
        }
        let (Some(from), Some(to)) = (station(frame, 6), station(frame, 0)) else {
            return Taken::Stray;
        };
        let Some(headers) = frame.get(ETHERNET..).and_then(ip::read) else { return Taken::Stray };
        message.clear();
        let ip::Headers { source, destination, ttl, alert, message: at } = headers;
        message.extend_from_slice(&frame[ETHERNET + at.start..ETHERNET + at.end]);
        let interface = InterfaceId(port as u16);
        if alert {
            self.learned.crosses((destination, source), interface, to);
        }
        for hop in hops(message, source, alert) {
            self.learned.hop(hop, interface, from);
        }
        Taken::Message(Received { interface, source, destination, ttl })
    }

    /// Returns the station to which a message goes.
    fn next(&self, packet: &Packet) -> Option<Station> {
        match packet.destination {
            IpAddr::V4(group) if group.is_multicast() => {
                let [_, b, c, d] = group.octets();
                Some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
            }
            destination => self.learned.station(packet.interface, destination, packet.source),
        }
    }
}

/// The result of reading a socket.
enum Taken {
    Message(Received),
    /// A frame that is no message for the node.
    Stray,
    Nothing,
}

impl Network for BridgeNetwork {
    fn receive(&mut self, message: &mut Vec<u8>) -> Option<Received> {
        for port in 0..self.sockets.len() {
            // Bounded, for frames that mean nothing here are passed over.
            for _ in 0..STRAYS_MAX {
                match self.take(port, message) {
                    Taken::Message(received) => return Some(received),
                    Taken::Stray => {}
                    Taken::Nothing => break,
                }
            }
        }
        None
    }

    fn send(&mut self, packet: &Packet) -> io::Result<()> {
        let port = usize::from(packet.interface.0);
        let unreachable = || io::Error::from_raw_os_error(libc::EHOSTUNREACH);
        let to = self.next(packet).ok_or_else(unreachable)?;
        let (Some(from), Some(socket)) = (self.stations.get(port), self.sockets.get(port)) else {
            return Err(unreachable());
        };
        let mut frame = [&to[..], from, &IPV4_TYPE].concat();
        frame.extend(ip::write(packet));
        send(socket, &frame, SendFlags::DONTWAIT)?;
        Ok(())
    }

    fn interfaces(&self) -> &[HostInterface] {
        &self.interfaces
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd).collect()
    }
}

impl Routes for BridgeNetwork {
    fn route(&self, destination: IpAddr, source: IpAddr) -> Route {
        match destination == IpAddr::V4(self.address) {
            true => Route { local: true, ..Route::default() },
            false => self.learned.route(destination, source),
        }
    }
}

/// The stations of hops, learned from frames. Both tables are bounded: a full one is emptied, and
/// learned anew within a refresh period of the neighbours.
struct Learned {
    ports: usize,
    /// By destination and source of packets with router alert: the port by which they came, and the
    /// station to which they went.
    crossing: BTreeMap<(IpAddr, IpAddr), (InterfaceId, Station)>,
    /// The port and the station of a hop.
    hops: BTreeMap<IpAddr, (InterfaceId, Station)>,
}

impl Learned {
    fn new(ports: usize) -> Self {
        Self { ports, crossing: BTreeMap::new(), hops: BTreeMap::new() }
    }

    fn crosses(&mut self, ends: (IpAddr, IpAddr), by: InterfaceId, to: Station) {
        if self.crossing.len() >= CROSSING_MAX && !self.crossing.contains_key(&ends) {
            self.crossing.clear();
        }
        self.crossing.insert(ends, (by, to));
    }

    fn hop(&mut self, hop: IpAddr, by: InterfaceId, station: Station) {
        if self.hops.len() >= HOPS_MAX && !self.hops.contains_key(&hop) {
            self.hops.clear();
        }
        self.hops.insert(hop, (by, station));
    }

    /// Packets leave by all ports but the one by which they came, as frames to a station that a
    /// bridge does not know.
    fn route(&self, destination: IpAddr, source: IpAddr) -> Route {
        let outgoing = match (self.crossing(destination, source), self.hops.get(&destination)) {
            (Some((by, _)), _) => {
                let all = (0..self.ports as u16).map(InterfaceId);
                all.filter(|port| *port != by).collect()
            }
            (None, Some((by, _))) => vec![*by],
            (None, None) => Vec::new(),
        };
        Route { outgoing, ..Route::default() }
    }

    fn crossing(&self, destination: IpAddr, source: IpAddr) -> Option<(InterfaceId, Station)> {
        self.crossing.get(&(destination, source)).copied()
    }

    /// Returns the station for a packet that leaves by a port.
    fn station(&self, by: InterfaceId, destination: IpAddr, source: IpAddr) -> Option<Station> {
        let crossing = self.crossing(destination, source).filter(|(came, _)| *came != by);
        let hop = || self.hops.get(&destination).copied().filter(|(port, _)| *port == by);
        crossing.or_else(hop).map(|(_, station)| station)
    }
}

/// Returns the addresses for which the station that sent a message stands: the hop that it names,
/// its IP source unless that is the source of the flow, and the receiver that wants to be told.
fn hops(message: &[u8], source: IpAddr, alert: bool) -> Vec<IpAddr> {
    let mut hops = Vec::new();
    if !alert {
        hops.push(source);
    }
    match Message::parse(message).map(|message| message.body) {
        Ok(Body::Path(path)) => hops.push(path.hop.address),
        Ok(Body::PathTear(tear)) => hops.push(tear.hop.address),
        Ok(Body::Resv(resv)) => hops.extend([resv.hop.address].into_iter().chain(resv.confirm)),
        _ => {}
    }
    hops
}

fn station(frame: &[u8], at: usize) -> Option<Station> {
    frame.get(at..at + 6)?.try_into().ok()
}

/// Returns the answer to a frame that asks for the station of `own`, if it does `[rfc826]`.
fn arp_answer(frame: &[u8], own: Ipv4Addr, station: Station) -> Option<Vec<u8>> {
    let asker: Station = self::station(frame, 22)?;
    let (asked, asking) = (frame.get(38..42)?, frame.get(28..32)?);
    if frame[12..22] != ARP_REQUEST || asked != own.octets() {
        return None;
    }
    let mut answer = [&asker[..], &station, &ARP_REQUEST].concat();
    // The operation, after the type of frame.
    answer[21] = 2;
    answer.extend(station);
    answer.extend(own.octets());
    answer.extend(asker);
    answer.extend_from_slice(asking);
    Some(answer)
}

/// The header of Ethernet, and in it the type of IPv4.
const ETHERNET: usize = 14;
const IPV4_TYPE: [u8; 2] = [0x08, 0x00];
/// The type of ARP, then: Ethernet, IPv4, lengths of their addresses, a request.
const ARP_REQUEST: [u8; 10] = [0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1];
/// A frame of the longest packet.
const FRAME_BYTES_MAX: usize = 65_536 + ETHERNET;
/// Frames of a port in a row that are no messages for this node.
const STRAYS_MAX: usize = 64;
/// Bound: sessions with their senders that a bridge's sockets remember; with one more, all are
/// forgotten and learnt again.
const CROSSING_MAX: usize = 131_072;
/// Bound: hops that a bridge's sockets remember; with one more, all are forgotten and learnt again.
const HOPS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_request_for_the_bridge_gets_its_station_and_others_get_nothing() {
        let asks = |target: [u8; 4], operation: u8| {
            let mut frame = [&[0xff; 6][..], &[2; 6], &ARP_REQUEST].concat();
            frame[21] = operation;
            frame.extend([2, 2, 2, 2, 2, 2, 10, 0, 0, 1]);
            frame.extend([0; 6]);
            frame.extend(target);
            frame
        };
        let answer = arp_answer(&asks(OWN.octets(), 1), OWN, [7; 6]).expect("it is asked");
        assert_eq!(answer[..14], [2, 2, 2, 2, 2, 2, 7, 7, 7, 7, 7, 7, 8, 6]);
        assert_eq!(answer[20..32], [0, 2, 7, 7, 7, 7, 7, 7, 10, 0, 0, 9]);
        assert_eq!(answer[32..], [2, 2, 2, 2, 2, 2, 10, 0, 0, 1]);
        assert_eq!(arp_answer(&asks([10, 0, 0, 1], 1), OWN, [7; 6]), None, "another address");
        assert_eq!(arp_answer(&asks(OWN.octets(), 2), OWN, [7; 6]), None, "an answer");
        for len in 0..42 {
            assert_eq!(arp_answer(&asks(OWN.octets(), 1)[..len], OWN, [7; 6]), None, "{len} bytes");
        }
    }

    #[test]
    fn what_crosses_goes_on_and_answers_go_back() {
        let (a, b, c) = (InterfaceId(0), InterfaceId(1), InterfaceId(2));
        let (sender, receiver, router) = (address(1), address(2), address(3));
        let mut learned = Learned::new(3);
        assert_eq!(learned.route(receiver, sender), Route::default(), "nothing is known");
        learned.crosses((receiver, sender), a, [2; 6]);
        learned.hop(router, a, [3; 6]);
        assert_eq!(learned.route(receiver, sender).outgoing, [b, c]);
        assert_eq!(learned.station(b, receiver, sender), Some([2; 6]));
        assert_eq!(learned.station(a, receiver, sender), None, "it came from there");
        assert_eq!(learned.station(a, router, OWN.into()), Some([3; 6]));
        assert_eq!(learned.station(b, router, OWN.into()), None);
        learned.hop(receiver, c, [4; 6]);
        assert_eq!(learned.route(receiver, OWN.into()).outgoing, [c], "to a receiver");
        assert_eq!(learned.route(receiver, sender).outgoing, [b, c], "a flow goes as before");
        learned.crosses((receiver, sender), b, [2; 6]);
        assert_eq!(learned.route(receiver, sender).outgoing, [a, c], "its sender moved");
    }
}
