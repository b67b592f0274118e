//! The kernel's state of an interface, as netlink dumps it, written as the commands that would
//! make it [linux]: so a dump and a script are read by one reader and become one model.
//!
//! A dump is bytes of the kernel's; anything else in them is left out and never trusted. Rates are
//! in bytes a second there, bursts in ticks of 64 ns, times of `codel` and its kin in microseconds.

mod attributes;
mod filters;
mod qdiscs;

use attributes::{Attributes, number};
use std::fmt::Write;

/// The kernel's state for one interface.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// The name of the interface.
    pub name: String,
    /// Whether what it sends begins with an Ethernet header.
    pub ethernet: bool,
    /// The longest packet behind that header, in bytes.
    pub mtu: u32,
    /// The packets that wait in a queue without a limit of its own.
    pub queue_length: u32,
    /// For each qdisc a `struct tcmsg` and its attributes.
    pub qdiscs: Vec<Vec<u8>>,
    /// For each class the same.
    pub classes: Vec<Vec<u8>>,
    /// For each filter the same, in the order in which the kernel lists them.
    pub filters: Vec<Vec<u8>>,
}

/// A `struct tcmsg` and what follows it.
struct Message<'m> {
    handle: u32,
    parent: u32,
    /// Of a filter: its priority and, in the order of the wire, its protocol.
    info: u32,
    kind: &'m str,
    options: &'m [u8],
    all: Attributes<'m>,
}

impl<'m> Message<'m> {
    fn parse(bytes: &'m [u8]) -> Option<Self> {
        let all = Attributes::parse(bytes.get(HEADER..)?);
        let kind = all.get(KIND)?.split(|byte| *byte == 0).next()?;
        let kind = std::str::from_utf8(kind).ok().filter(|kind| plain(kind))?;
        let word = |at| number(bytes, at, 4).map(|word| word as u32);
        let (handle, parent, info) = (word(8)?, word(12)?, word(16)?);
        Some(Self { handle, parent, info, kind, options: all.get(OPTIONS).unwrap_or(&[]), all })
    }
}

/// Writes the state of interfaces as commands for `tc -batch`. An interface whose disciplines are
/// those that the kernel itself gave it has none.
pub fn commands(interfaces: &[Interface]) -> String {
    interfaces.iter().filter(|one| plain(&one.name)).map(of_interface).collect()
}

fn of_interface(one: &Interface) -> String {
    // The kernel gives no handle to a discipline that it adds by itself.
    let asked = |one: &Message<'_>| one.handle != 0;
    let (mut roots, others): (Vec<_>, Vec<_>) =
        parsed(&one.qdiscs).filter(asked).partition(|one| one.parent == ROOT);
    roots.extend(others);
    if roots.is_empty() {
        return String::new();
    }
    let dev = one.name.as_str();
    let header = if one.ethernet { "an" } else { "no" };
    let mut text = format!("# device {dev} has {header} Ethernet header\n");
    let _ = writeln!(text, "ip link set dev {dev} txqueuelen {}", one.queue_length);
    for qdisc in &roots {
        let _ = writeln!(text, "qdisc add dev {dev}{}", qdiscs::qdisc(qdisc));
    }
    let classes: Vec<Message<'_>> = parsed(&one.classes).collect();
    for class in top_down(&classes) {
        if let Some(words) = qdiscs::class(class) {
            let _ = writeln!(text, "class add dev {dev}{words}");
        }
    }
    for filter in parsed(&one.filters) {
        if let Some(words) = filters::filter(&filter) {
            let _ = writeln!(text, "filter add dev {dev}{words}");
        }
    }
    text
}

fn parsed(messages: &[Vec<u8>]) -> impl Iterator<Item = Message<'_>> {
    messages.iter().filter_map(|one| Message::parse(one))
}

/// Orders classes so that each follows its parent, and siblings by their number.
fn top_down<'c, 'm>(classes: &'c [Message<'m>]) -> Vec<&'c Message<'m>> {
    let mut rest: Vec<&Message<'_>> = classes.iter().collect();
    rest.sort_by_key(|class| class.handle);
    let mut out: Vec<&Message<'_>> = Vec::new();
    loop {
        let waits = |one: &Message<'_>, rest: &[&Message<'_>]| {
            rest.iter().any(|other| other.handle == one.parent && other.handle != one.handle)
        };
        let (later, ready): (Vec<_>, Vec<_>) = rest.iter().partition(|one| waits(one, &rest));
        if ready.is_empty() {
            // A circle is no kernel's: its classes come as they are.
            out.extend(later);
            return out;
        }
        out.extend(ready);
        rest = later;
    }
}

/// Writes a handle as tc reads it.
fn handle(handle: u32) -> String {
    match (handle >> 16, handle & 0xffff) {
        (major, 0) => format!("{major:x}:"),
        (major, minor) => format!("{major:x}:{minor:x}"),
    }
}

/// Writes ` root`, ` parent H` or nothing.
fn above(parent: u32) -> String {
    match parent {
        ROOT => " root".to_owned(),
        0 => String::new(),
        parent => format!(" parent {}", handle(parent)),
    }
}

/// Returns whether a name of the kernel's can stand as a word of a command.
fn plain(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() && !"'\"\\#;|&<>()$`".contains(c);
    !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(fits)
}

/// The bytes of a `struct tcmsg`.
const HEADER: usize = 20;
/// `TCA_KIND` and its kin of <linux/rtnetlink.h>.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STAB: u16 = 8;
const ROOT: u32 = u32::MAX;
/// The kernel's bound on names of interfaces and kinds.
const NAME_MAX: usize = 16;
