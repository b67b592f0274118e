//! The kernel's routes and interfaces, and what changes of them.
//!
//! A route is asked for once and remembered until a notice may concern it. Notices are not trusted
//! to be complete: when a link goes down, the kernel removes its IPv4 routes and says nothing of
//! them, and a queue of notices may overflow. So a notice of a link or an address, and one that was
//! lost, lets every remembered route be asked for again; a notice of a route only those within it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use weir_core::classify::InterfaceId;
use weir_rsvp::node::Route;

use crate::error::{Result, SystemError};
use crate::netlink::Netlink;

/// An interface of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostInterface {
    /// The name of the interface.
    pub name: String,
    /// The kernel's number of it; 0 while it is gone.
    pub index: u32,
    /// The interface is up.
    pub is_up: bool,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Its addresses; the first of each family names it in RSVP. A link-local one comes last.
    pub addresses: Vec<IpAddr>,
}

/// Lists the interfaces of this thread's network namespace that have an address, loopback aside.
///
/// # Errors
/// When the kernel does not say.
pub fn host_interfaces() -> Result<Vec<HostInterface>> {
    list(&mut Netlink::open()?)
}

fn list(netlink: &mut Netlink) -> Result<Vec<HostInterface>> {
    let failed = |cause| SystemError::new("list the interfaces of this host", cause);
    let links = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let links = netlink.dump(links).map_err(failed)?;
    let addresses = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    let addresses = netlink.dump(addresses).map_err(failed)?;
    let mut found: Vec<HostInterface> = links.iter().filter_map(interface).collect();
    for message in &addresses {
        let RouteNetlinkMessage::NewAddress(message) = message else { continue };
        let index = message.header.index;
        let Some(interface) = found.iter_mut().find(|one| one.index == index) else { continue };
        interface.addresses.extend(own_address(message));
    }
    for interface in &mut found {
        interface.addresses.sort_by_key(is_link_local);
    }
    Ok(found)
}

fn interface(message: &RouteNetlinkMessage) -> Option<HostInterface> {
    let RouteNetlinkMessage::NewLink(link) = message else { return None };
    if link.header.flags.contains(LinkFlags::Loopback) {
        return None;
    }
    let (mut name, mut mtu) = (String::new(), 0);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(is) => name.clone_from(is),
            LinkAttribute::Mtu(is) => mtu = *is,
            _ => {}
        }
    }
    let is_up = link.header.flags.contains(LinkFlags::Up);
    Some(HostInterface { name, index: link.header.index, is_up, mtu, addresses: Vec::new() })
}

/// The own address of a message: beside it, point-to-point links have that of the other end.
fn own_address(message: &AddressMessage) -> Option<IpAddr> {
    let mut address = None;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(own) => return Some(*own),
            AddressAttribute::Address(own) => address = Some(*own),
            _ => {}
        }
    }
    address
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The routes and interfaces that changed since the last call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Destinations whose packets now go another way.
    pub destinations: BTreeSet<IpAddr>,
    /// Interfaces whose addresses or MTU changed.
    pub interfaces: Vec<InterfaceId>,
}

/// Routes as the kernel has them.
pub(super) struct Routing {
    asking: RefCell<Netlink>,
    notices: Notices,
    interfaces: Vec<HostInterface>,
    known: RefCell<BTreeMap<(IpAddr, IpAddr), Route>>,
    /// Multicast groups that this host receives.
    joined: BTreeMap<(IpAddr, InterfaceId), u32>,
    /// The routes that notices concern and that were not refreshed yet.
    stale: Stale,
}

/// Which remembered routes may be wrong.
#[derive(Clone, Debug, Default)]
struct Stale {
    all: bool,
    /// Blocks of addresses: destination and bits.
    blocks: Vec<(IpAddr, u8)>,
}

impl Routing {
    /// Routing among these interfaces: the first is `InterfaceId(0)`.
    ///
    /// # Errors
    /// When an interface does not exist, or the kernel does not say.
    pub(super) fn new(routes: OwnedFd, notices: OwnedFd, names: &[String]) -> Result<Self> {
        let mut asking = Netlink::of(routes);
        let present = list(&mut asking)?;
        let find = |name: &String| {
            present.iter().find(|one| one.name == *name).cloned().ok_or_else(|| {
                let cause = io::Error::from_raw_os_error(libc::ENODEV);
                SystemError::new(format!("find the interface `{name}`"), cause)
            })
        };
        let interfaces = names.iter().map(find).collect::<Result<_>>()?;
        Ok(Self {
            asking: RefCell::new(asking),
            notices: Notices(notices),
            interfaces,
            known: RefCell::default(),
            joined: BTreeMap::new(),
            stale: Stale::default(),
        })
    }

    pub(super) fn interfaces(&self) -> &[HostInterface] {
        &self.interfaces
    }

    /// Returns the node's number of an interface.
    pub(super) fn id(&self, index: u32) -> Option<InterfaceId> {
        let at = self.interfaces.iter().position(|one| one.index == index && index != 0)?;
        u16::try_from(at).ok().map(InterfaceId)
    }

    /// Notes that this host receives a group on an interface, or does no more. Returns whether that
    /// changes anything.
    pub(super) fn join(&mut self, group: IpAddr, interface: InterfaceId, joins: bool) -> bool {
        self.known.borrow_mut().retain(|(destination, _), _| *destination != group);
        let count = self.joined.entry((group, interface)).or_default();
        *count = if joins { *count + 1 } else { count.saturating_sub(1) };
        let changes = *count == u32::from(joins);
        if *count == 0 {
            self.joined.remove(&(group, interface));
        }
        changes
    }

    /// Returns where packets go.
    pub(super) fn route(&self, destination: IpAddr, source: IpAddr) -> Route {
        if let Some(route) = self.known.borrow().get(&(destination, source)) {
            return route.clone();
        }
        let route = self.lookup(destination, source);
        let mut known = self.known.borrow_mut();
        if known.len() >= ROUTES_MAX {
            known.clear();
        }
        known.insert((destination, source), route.clone());
        route
    }

    fn lookup(&self, destination: IpAddr, source: IpAddr) -> Route {
        let mut asking = self.asking.borrow_mut();
        if !destination.is_multicast() {
            return self.unicast(&mut asking, destination);
        }
        let is_own = self.interfaces.iter().any(|one| one.addresses.contains(&source));
        let mut route = match is_own {
            true => self.unicast(&mut asking, destination),
            false => self.multicast(&mut asking, destination, source),
        };
        route.local = self.joined.keys().any(|(group, _)| *group == destination);
        route
    }

    /// The way of packets to a destination that this host itself sends.
    fn unicast(&self, asking: &mut Netlink, destination: IpAddr) -> Route {
        let Some(found) = asking.route(request(destination, None)) else {
            return Route::default();
        };
        if found.header.kind == RouteType::Local {
            return Route { local: true, ..Route::default() };
        }
        let hop = |attribute: &RouteAttribute| match attribute {
            RouteAttribute::Oif(index) => self.id(*index),
            _ => None,
        };
        Route {
            outgoing: found.attributes.iter().find_map(hop).into_iter().collect(),
            ..Route::default()
        }
    }

    /// The way of packets of a source to a group that this host forwards, as the multicast router
    /// on it (pimd, smcroute, FRR) wrote it into the kernel.
    fn multicast(&self, asking: &mut Netlink, group: IpAddr, source: IpAddr) -> Route {
        let Some(found) = asking.route(request(group, Some(source))) else {
            return Route::default();
        };
        let mut route = Route::default();
        for attribute in &found.attributes {
            match attribute {
                RouteAttribute::Iif(index) => route.incoming = self.id(*index),
                RouteAttribute::MultiPath(hops) => {
                    route.outgoing =
                        hops.iter().filter_map(|hop| self.id(hop.interface_index)).collect();
                }
                _ => {}
            }
        }
        route
    }

    /// Takes the notices that came. Returns whether some concern remembered routes.
    pub(super) fn read_notices(&mut self) -> bool {
        for _ in 0..NOTICES_MAX {
            match self.notices.next() {
                Some(Notice::Route(address, bits)) if self.stale.blocks.len() < BLOCKS_MAX => {
                    self.stale.blocks.push((address, bits));
                }
                Some(_) => self.stale.all = true,
                None => break,
            }
        }
        self.stale.all || !self.stale.blocks.is_empty()
    }

    /// Refreshes the routes that notices may concern; returns the changes.
    pub(super) fn refresh(&mut self) -> Changes {
        let mut changes = Changes::default();
        let stale = std::mem::take(&mut self.stale);
        if stale.all {
            changes.interfaces = self.refresh_interfaces();
        }
        let concerns = |destination: &IpAddr| {
            stale.all || stale.blocks.iter().any(|block| is_within(*destination, *block))
        };
        let known = std::mem::take(&mut *self.known.borrow_mut());
        for ((destination, source), former) in known {
            let route = match concerns(&destination) {
                true => self.lookup(destination, source),
                false => former.clone(),
            };
            if route != former {
                changes.destinations.insert(destination);
            }
            self.known.borrow_mut().insert((destination, source), route);
        }
        changes
    }

    fn refresh_interfaces(&mut self) -> Vec<InterfaceId> {
        // Without an answer they stay as they were until the next notice.
        let Ok(present) = list(&mut self.asking.borrow_mut()) else { return Vec::new() };
        let mut changed = Vec::new();
        for (number, known) in (0..).zip(&mut self.interfaces) {
            let gone = HostInterface { index: 0, is_up: false, ..known.clone() };
            let now = present.iter().find(|one| one.name == known.name).cloned().unwrap_or(gone);
            if now.addresses != known.addresses || now.mtu != known.mtu {
                changed.push(InterfaceId(number));
            }
            *known = now;
        }
        changed
    }

    /// The socket of notices, to wait for.
    pub(super) fn notices(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.notices.0.as_fd()
    }
}

/// Makes the request for the route to a destination; with a source, for the multicast route that
/// the kernel has.
fn request(destination: IpAddr, source: Option<IpAddr>) -> RouteMessage {
    let mut message = RouteMessage::default();
    let bits = if destination.is_ipv4() { 32 } else { 128 };
    let (unicast, multicast) = match destination {
        IpAddr::V4(_) => (AddressFamily::Inet, MULTICAST_ROUTES_V4),
        IpAddr::V6(_) => (AddressFamily::Inet6, MULTICAST_ROUTES_V6),
    };
    message.header.address_family = unicast;
    message.header.destination_prefix_length = bits;
    message.attributes = vec![RouteAttribute::Destination(RouteAddress::from(destination))];
    if let Some(source) = source {
        message.header.address_family = AddressFamily::from(multicast);
        message.header.source_prefix_length = bits;
        message.attributes.push(RouteAttribute::Source(RouteAddress::from(source)));
    }
    message
}

fn is_within(address: IpAddr, (block, bits): (IpAddr, u8)) -> bool {
    let shift = |width: u32| width.saturating_sub(u32::from(bits));
    match (address, block) {
        (IpAddr::V4(address), IpAddr::V4(block)) => {
            let differing = u32::from(address) ^ u32::from(block);
            differing.checked_shr(shift(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(block)) => {
            let differing = u128::from(address) ^ u128::from(block);
            differing.checked_shr(shift(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// The subject of a notice.
enum Notice {
    /// The routes to a block of addresses.
    Route(IpAddr, u8),
    /// A change that may concern all routes.
    Other,
}

/// The socket by which the kernel tells of changes.
struct Notices(OwnedFd);

impl Notices {
    /// Returns the next notice; none if none waits.
    fn next(&mut self) -> Option<Notice> {
        let mut buffer = [0; NOTICE_BYTES_MAX];
        let flags = rustix::net::RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.0, &mut buffer[..], flags) {
            Ok((len, _)) => Some(notice(&buffer[..len])),
            Err(rustix::io::Errno::WOULDBLOCK) => None,
            // Some were lost.
            Err(_) => Some(Notice::Other),
        }
    }
}

fn notice(bytes: &[u8]) -> Notice {
    let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes) else {
        return Notice::Other;
    };
    let is_alone = message.header.length as usize + 3 >= bytes.len();
    let (
        NetlinkPayload::InnerMessage(
            RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route),
        ),
        true,
    ) = (message.payload, is_alone)
    else {
        return Notice::Other;
    };
    let destination = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    });
    match destination {
        Some(address) => Notice::Route(address, route.header.destination_prefix_length),
        // A default route, or a multicast route.
        None => Notice::Other,
    }
}

/// Bound: routes that RSVP's sockets remember, a session and sender each; with one more, all are
/// asked for again.
const ROUTES_MAX: usize = 131_072;
/// Bound: notices of routes that one look takes; the rest is taken by the next.
const NOTICES_MAX: usize = 4096;
/// Bound: blocks of addresses whose routes changed; with more, all routes are asked for again.
const BLOCKS_MAX: usize = 64;
/// Bytes of a notice; what is longer counts as one of anything.
const NOTICE_BYTES_MAX: usize = 8192;
/// <linux/rtnetlink.h>: RTNL_FAMILY_IPMR and RTNL_FAMILY_IP6MR.
const MULTICAST_ROUTES_V4: u8 = 128;
const MULTICAST_ROUTES_V6: u8 = 129;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_holds_the_addresses_that_share_its_bits() {
        let rows = [
            ("10.1.2.3", "10.1.0.0", 16, true),
            ("10.2.2.3", "10.1.0.0", 16, false),
            ("10.2.2.3", "0.0.0.0", 0, true),
            ("10.1.2.3", "10.1.2.3", 32, true),
            ("10.1.2.2", "10.1.2.3", 32, false),
            ("fd00:1::5", "fd00:1::", 64, true),
            ("fd00:2::5", "fd00:1::", 64, false),
            ("fd00::1", "::", 0, true),
            ("10.1.2.3", "::", 0, false),
        ];
        for (address, block, bits, expected) in rows {
            let parse = |text: &str| text.parse().expect("a row has addresses");
            assert_eq!(is_within(parse(address), (parse(block), bits)), expected, "{address}");
        }
    }

    #[test]
    fn what_is_no_notice_concerns_anything() {
        for bytes in [&b""[..], b"\0", &[0xff; 64]] {
            assert!(matches!(notice(bytes), Notice::Other), "{bytes:?}");
        }
    }
}
