//! The kernel's state of an interface: its queueing disciplines, classes and filters, as netlink
//! dumps them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage};
use netlink_packet_route::tc::{TcAttribute, TcMessage};

use crate::error::{Result, SystemError};
use crate::netlink::Netlink;

/// An interface with its disciplines, each of them a `struct tcmsg` with attributes.
#[derive(Clone, Debug, Default)]
pub struct Disciplines {
    /// The name of the interface.
    pub name: String,
    /// Its frames begin with an Ethernet header.
    pub is_ethernet: bool,
    /// The MTU, in bytes after that header.
    pub mtu: u32,
    /// Its `txqueuelen`, in packets.
    pub queue_length: u32,
    /// The qdiscs, the root before what is attached to it.
    pub qdiscs: Vec<Vec<u8>>,
    /// The classes of all of them.
    pub classes: Vec<Vec<u8>>,
    /// The filters at the qdiscs and at each class, in the order in which the kernel tries them.
    pub filters: Vec<Vec<u8>>,
}

/// Returns the disciplines of the interface of this name, or of all in this thread's network.
///
/// # Errors
/// When there is no such interface, or the kernel refuses a dump.
pub fn disciplines(name: Option<&str>) -> Result<Vec<Disciplines>> {
    let mut netlink = Netlink::open()?;
    let failed = |cause: io::Error| SystemError::new("read the disciplines of the kernel", cause);
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let links = netlink.dump(request).map_err(failed)?;
    let links = links.into_iter().filter_map(|one| match one {
        RouteNetlinkMessage::NewLink(link) => Some(link),
        _ => None,
    });
    let qdiscs = netlink
        .dump_bytes(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()))
        .map_err(failed)?;
    let mut found = Vec::new();
    for link in links {
        let mut one = of_link(&link);
        if name.is_some_and(|name| name != one.name) {
            continue;
        }
        let number = link.header.index;
        let own = |message: &&Vec<u8>| word(message, INDEX) == number;
        one.qdiscs = qdiscs.iter().filter(own).cloned().collect();
        read(&mut netlink, number, &mut one).map_err(failed)?;
        found.push(one);
    }
    match (found.is_empty(), name) {
        (true, Some(name)) => {
            let action = format!("find the interface `{name}`");
            Err(SystemError::new(action, io::Error::from_raw_os_error(libc::ENODEV)))
        }
        _ => Ok(found),
    }
}

fn of_link(link: &LinkMessage) -> Disciplines {
    let types = [LinkLayerType::Ether, LinkLayerType::Loopback];
    let is_ethernet = types.contains(&link.header.link_layer_type);
    let mut one = Disciplines { is_ethernet, ..Disciplines::default() };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => one.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => one.mtu = *mtu,
            LinkAttribute::TxQueueLen(length) => one.queue_length = *length,
            _ => {}
        }
    }
    one
}

/// Reads the classes of an interface, and the filters at each place that may have some.
fn read(netlink: &mut Netlink, number: u32, one: &mut Disciplines) -> io::Result<()> {
    let mut message = TcMessage::default();
    message.header.index = number as i32;
    let request = RouteNetlinkMessage::GetTrafficClass(message.clone());
    one.classes = netlink.dump_bytes(request)?;
    let handles = |all: &[Vec<u8>]| all.iter().map(|one| word(one, HANDLE)).collect::<Vec<_>>();
    let mut places: BTreeSet<u32> = handles(&one.qdiscs).into_iter().collect();
    places.extend(handles(&one.classes));
    places.remove(&0);
    // A discipline for arriving packets has its filters at one of two hooks.
    if places.remove(&CLSACT) {
        places.extend([CLSACT, CLSACT | HOOK_INGRESS, CLSACT | HOOK_EGRESS]);
    }
    for place in places {
        message.header.parent = place.into();
        let request = RouteNetlinkMessage::GetTrafficFilter(message.clone());
        one.filters.extend(netlink.dump_bytes(request).or_else(without_filters)?);
    }
    own_tables_alone(netlink, number, &mut one.filters);
    Ok(())
}

/// Leaves out the filters of other places. The `u32` filters of a discipline share their tables,
/// and the kernel lists those of a priority at each place that has the priority.
fn own_tables_alone(netlink: &mut Netlink, number: u32, filters: &mut Vec<Vec<u8>>) {
    let key = |one: &[u8]| (word(one, PARENT), word(one, INFO));
    let places: BTreeSet<(u32, u32)> = filters
        .iter()
        .filter(|one| word(one, HANDLE) == 0 && is_u32(one))
        .map(|one| key(one))
        .collect();
    let mut roots: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (parent, info) in places {
        let mut message = TcMessage::default();
        (message.header.index, message.header.info) = (number as i32, info);
        message.header.parent = parent.into();
        message.header.handle = U32_ROOT.into();
        message.attributes.push(TcAttribute::Kind("u32".to_owned()));
        if let Ok(root) = netlink.filter_handle(message) {
            roots.insert((parent, info), root >> TABLE);
        }
    }
    let known: BTreeSet<u32> = roots.values().copied().collect();
    filters.retain(|one| {
        let table = word(one, HANDLE) >> TABLE;
        let own = roots.get(&key(one)).is_none_or(|root| *root == table);
        own || !is_u32(one) || !known.contains(&table)
    });
}

/// Returns whether a filter is of the kind `u32`: the first attribute names it.
fn is_u32(message: &[u8]) -> bool {
    message.get(KIND..).is_some_and(|kind| kind.starts_with(b"u32\0"))
}

/// A discipline that takes no filters refuses to list them.
fn without_filters(error: io::Error) -> io::Result<Vec<Vec<u8>>> {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOENT) => Ok(Vec::new()),
        _ => Err(error),
    }
}

fn word(message: &[u8], at: usize) -> u32 {
    let bytes = message.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}

/// Places in a `struct tcmsg`.
const INDEX: usize = 4;
const HANDLE: usize = 8;
const PARENT: usize = 12;
const INFO: usize = 16;
/// The value of the attribute that follows it.
const KIND: usize = 24;
/// `TC_U32_ROOT` stands for the table of a priority (<linux/pkt_cls.h>); the number of a table is
/// above this bit of a handle.
const U32_ROOT: u32 = 0xfff0_0000;
const TABLE: u32 = 20;
/// The handle of `ingress` and `clsact`, and the hooks below it (<linux/pkt_sched.h>).
const CLSACT: u32 = 0xffff_0000;
const HOOK_INGRESS: u32 = 0xfff2;
const HOOK_EGRESS: u32 = 0xfff3;
