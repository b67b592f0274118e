//! Ports: where frames come from and go to, whatever lies behind.
//!
//! One kind of port is one file here, with a file for its privileged half
//! ([`crate::authority`]), and one line of [`KINDS`]. The frame's life: it is free, or held by a
//! port (lent for reception, in flight), or in a link's queue, or in a lane's outbox.
//!
//! Invariant: each frame that reaches a port is delivered, or counted once in [`PortCounters`].

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::authority::{Authority, AuthorityClient};
use crate::offload::join::write_sum;
use crate::pool::{FrameId, FramePool};
use crate::sorter::Sorting;
pub use crate::sorter::{RINGS_MAX, SHARES_MAX};
use crate::stations::Address;
pub(crate) use afxdp::QUEUES_MAX;
use impaired::{Impaired, Impairment};
pub use lookup::{Found, LaneRules};
pub use share::ShareHandle;
pub use sort::{NewRings, SortHandle};
use weir_core::packet::Headers;
use weir_host::error::{Result, SystemError};
use weir_host::ethtool;

mod afpacket;
mod afxdp;
mod host;
pub mod impaired;
mod lookup;
pub mod mem;
mod share;
mod sort;
pub(crate) mod worker;

/// Bound: frames that one turn takes from a ring, and that one system call sends; the rest waits in
/// the ring.
pub const BATCH: usize = 64;
/// Bound: slots of a port's first ring unless the deployment says otherwise; the kernel drops and
/// counts what finds it full. 10 ms at 200 000 frames/s.
pub const RING_SLOTS: usize = 2048;

/// One interface, open. It has no default: a new kind states each method, and a port that wraps
/// another one names those that the other one has (`delegate!`).
pub trait Port: Send {
    // What it is.

    /// Returns the keyword of its kind.
    fn kind(&self) -> &'static str;

    /// Returns the interface's name now.
    fn interface(&self) -> &str;

    /// Returns the Ethernet address of the interface itself: frames for it are the host's. `None`
    /// where there is no such station.
    fn address(&self) -> Option<Address>;

    /// Returns the interface's MTU, in bytes: a slot of the pool must hold such a frame.
    fn mtu(&self) -> usize;

    /// Returns what the operator should know or see to at this interface, each with its cure.
    fn warnings(&self) -> Vec<String>;

    // The pool that it shares with the other ports of its bridge.

    /// Returns the memory that it needs for the interface's MTU now.
    fn room(&self) -> Room;

    /// Takes the pool into use; called before frames move, and again when the pool has new memory.
    ///
    /// # Errors
    /// When the system refuses to share the pool's memory.
    fn attach(&mut self, pool: &mut FramePool) -> Result<()>;

    // Frames.

    /// Returns descriptors that are readable when frames wait or the interface's state changed.
    /// Those of before a refresh that reopened the port are invalid.
    fn descriptors(&self) -> Vec<RawFd>;

    /// Returns the number of rings; ring 0 takes the frames that no other ring is for.
    fn rings(&self) -> usize;

    /// Returns the number of parts that ring 0 has: more than one where workers share the port.
    fn shares(&self) -> usize;

    /// Returns the number of queues: the parts of ring 0 are the first, and those of the others,
    /// which may have as many or one, follow.
    fn queues(&self) -> usize;

    /// Has those who receive look frames up in these rules; a port whose frames the loop receives
    /// leaves that to it.
    fn look_up_in(&mut self, rules: &LaneRules);

    /// Takes frames from `queue` until at least `frames_max` are appended to `out`, or none waits;
    /// a super-packet comes whole, as several frames.
    fn receive(
        &mut self,
        queue: usize,
        frames_max: usize,
        pool: &mut FramePool,
        out: &mut Vec<Received>,
    ) -> Reached;

    // How frames are sorted into rings, which another thread changes: see [`SortHandle`].

    /// Returns the handle by which that thread does it; `None` if all frames come by one ring. It
    /// does not keep the port alive.
    fn sorter(&self) -> Option<Arc<dyn SortHandle>>;

    /// Returns the handle by which other threads open their shares of the port; `None` where one
    /// thread has all of it.
    fn sharers(&self) -> Option<Arc<dyn ShareHandle>>;

    /// Begins a change of how frames are sorted, and takes up the rings that were made for it.
    /// Returns whether it can: not while the change before is not over, and not after the sockets
    /// were made anew.
    fn begin_sorting(&mut self, made: &mut NewRings) -> bool;

    /// Ends a change of how frames are sorted. The rings whose bits are set in `retired` are no
    /// longer those of the classes that had them.
    fn end_sorting(&mut self, retired: u8);

    /// Takes over leading `frames`, at most [`BATCH`], in order. It releases each into `pool` when
    /// it is done with it: now, or in [`Port::reclaim`].
    fn send(&mut self, pool: &mut FramePool, frames: &[FrameId]) -> Sent;

    /// Releases the frames that the interface is done with. Called in each turn.
    fn reclaim(&mut self, pool: &mut FramePool);

    /// Returns when [`Port::reclaim`] must be called next at the latest, in nanoseconds of
    /// CLOCK_MONOTONIC.
    fn deadline(&self) -> Option<u64>;

    /// Returns the number of the pool's slots that the port holds.
    fn held(&self) -> usize;

    /// Returns how many of them hold no frame: they wait for what arrives.
    fn lent(&self) -> usize;

    // The state of the interface.

    /// Returns the state as last seen by [`Port::refresh`] or [`Port::send`].
    fn state(&self) -> PortState;

    /// Checks whether the interface still exists, and follows it, also to another name or MTU. Call
    /// it when a descriptor woke the loop without a frame, and periodically.
    fn refresh(&mut self) -> PortState;

    /// Sets the interface up or down: what is connected to it sees whether it has carrier.
    ///
    /// # Errors
    /// When the privilege is missing, or this kind of port cannot.
    fn set_up(&mut self, up: bool) -> Result<()>;

    /// Opens or closes the intake. While it is closed the kernel hands the port no frame, and
    /// counts none as lost; those that it handed over before are received, and sending goes on.
    ///
    /// # Errors
    /// When the system refuses.
    fn set_intake(&mut self, open: bool) -> Result<()>;

    /// Returns the counters, with the kernel's counts since they were last read.
    fn counters(&mut self) -> PortCounters;
}

/// A kind of port.
pub struct Kind {
    /// The keyword in deployments.
    pub keyword: &'static str,
    /// A sentence on what it is made of.
    pub summary: &'static str,
    /// Says why `auto` does not choose it for an interface; `None` if it never does.
    pub suits: Option<Suits>,
    /// Returns the room that it takes on an interface with this MTU.
    pub room: fn(&PortConfig, usize) -> Room,
    /// Makes the privileged half of a port on an interface of this thread's network namespace.
    pub authority: fn(&PortConfig) -> Result<Box<dyn Authority>>,
    /// Opens the port, with what its authority gives.
    pub open: Open,
}

/// Opens a port with its authority.
pub type Open = fn(PortConfig, Box<dyn Authority>) -> Result<Box<dyn Port>>;

/// The memory that a port takes: known before it is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// The length of a slot of the pool that holds any frame of the interface.
    pub slot_len: usize,
    /// The most frames of the pool that it holds at once: the pool has them beside those of the
    /// links.
    pub held_max: usize,
    /// The bytes of the rings that it shares with the kernel.
    pub ring_bytes: usize,
    /// Whether the pool's memory must be one that another process can map.
    pub shares_memory: bool,
}

impl Room {
    /// Returns the room of two ports of one bridge.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            slot_len: self.slot_len.max(other.slot_len),
            held_max: self.held_max + other.held_max,
            ring_bytes: self.ring_bytes + other.ring_bytes,
            shares_memory: self.shares_memory || other.shares_memory,
        }
    }

    /// Returns room for either of two ports.
    fn or(self, other: Self) -> Self {
        Self {
            slot_len: self.slot_len.max(other.slot_len),
            held_max: self.held_max.max(other.held_max),
            ring_bytes: self.ring_bytes.max(other.ring_bytes),
            shares_memory: self.shares_memory || other.shares_memory,
        }
    }
}

/// Returns the room that the port of `config` takes at most on an interface with this MTU; of kind
/// `auto`, that of the largest of the kinds among which is chosen for the interface as it is now,
/// or for any if it is not there.
pub(crate) fn room(config: &PortConfig, mtu: usize) -> Room {
    let named = KINDS.iter().filter(|kind| kind.keyword == config.kind);
    let is_there = ethtool::mtu(&config.interface).is_ok();
    let is_suited = |kind: &&Kind| {
        let suits = |suits: Suits| suits(&config.interface).is_ok();
        !is_there || kind.suits.is_none_or(suits)
    };
    let chosen = BEST_FIRST.into_iter().filter(|_| config.kind == AUTO).filter(is_suited);
    let rooms = named.chain(chosen).map(|kind| (kind.room)(config, mtu));
    let room = rooms.fold(Room::default(), Room::or);
    Room { held_max: room.held_max + config.impairment.held_max(), ..room }
}

/// Says of an interface, by name, why a kind does not suit it.
pub type Suits = fn(&str) -> std::result::Result<(), String>;

/// All kinds, best known first.
pub const KINDS: &[Kind] =
    &[afpacket::KIND, afxdp::KIND, afxdp::KIND_GENERIC, host::HOST, host::WIRE];

/// Opens a port of the kind that `config` names, in this thread's network namespace.
///
/// # Errors
/// When there is no such kind or interface, or the privilege is missing.
pub fn open(config: PortConfig) -> Result<Box<dyn Port>> {
    open_saying_why(config).map(|(port, _)| port)
}

/// As [`open`], and says why `auto` chose no better kind: nothing if there is none, or the kind
/// was named.
///
/// # Errors
/// As [`open`].
pub fn open_saying_why(config: PortConfig) -> Result<(Box<dyn Port>, String)> {
    if config.kind == AUTO {
        return open_best(config);
    }
    open_named(config).map(|port| (port, String::new()))
}

fn open_named(mut config: PortConfig) -> Result<Box<dyn Port>> {
    let Some(kind) = KINDS.iter().find(|kind| kind.keyword == config.kind) else {
        let known: Vec<_> = KINDS.iter().map(|kind| kind.keyword).collect();
        let action = format!("open a port on `{}`", config.interface);
        let why = format!("there is no kind of port `{}`", config.kind);
        return Err(SystemError::refused(action, why, format!("use {}", known.join(" or "))));
    };
    let impairment = config.impairment;
    if !impairment.is_none() {
        // One thread draws which frames are lost, and keeps the order of those that wait.
        config.shares = 1;
    }
    let authority = match &config.through {
        Some(client) => client.authority(kind.keyword, config.sorting.clone()),
        None => (kind.authority)(&config)?,
    };
    let port = (kind.open)(config, authority)?;
    if impairment.is_none() { Ok(port) } else { Ok(Box::new(Impaired::new(port, impairment))) }
}

/// Opens a port of the best kind that suits the interface and can be opened.
fn open_best(config: PortConfig) -> Result<(Box<dyn Port>, String)> {
    let mut reasons = Vec::new();
    for kind in BEST_FIRST {
        let open = || {
            match (&config.through, kind.suits) {
                (Some(client), _) => client.suits(kind.keyword)?,
                (None, Some(suits)) => suits(&config.interface)?,
                (None, None) => return Err(NEVER_CHOSEN.to_owned()),
            }
            let config = PortConfig { kind: kind.keyword.to_owned(), ..config.clone() };
            let port = open_named(config).map_err(|error| error.to_string())?;
            port.warnings().into_iter().next().map_or(Ok(port), Err)
        };
        match open() {
            Ok(port) => return Ok((port, reasons.join("; "))),
            Err(why) => reasons.push(format!("{} would be faster, but {why}", kind.keyword)),
        }
    }
    // The last kind is the most modest: its error is the one to mend.
    let last = BEST_FIRST[BEST_FIRST.len() - 1].keyword.to_owned();
    open_named(PortConfig { kind: last, ..config }).map(|port| (port, reasons.join("; ")))
}

/// Returns whether a port of this configuration may be of this kind.
pub(crate) fn may_be(config: &PortConfig, kind: &Kind) -> bool {
    let is_among_best = || BEST_FIRST.iter().any(|best| best.keyword == kind.keyword);
    config.kind == kind.keyword || config.kind == AUTO && is_among_best()
}

/// Why `auto` does not choose a kind that does not say when it suits.
pub(crate) const NEVER_CHOSEN: &str = "never chosen";
/// The keyword that lets Weir choose the kind.
pub const AUTO: &str = "auto";
/// The kinds among which `auto` chooses.
const BEST_FIRST: [&Kind; 2] = [&afxdp::KIND, &afpacket::KIND];

/// An interface and its options.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// The interface's name in this thread's network namespace.
    pub interface: String,
    /// The keyword of its kind; see [`KINDS`].
    pub kind: String,
    /// How frames are sorted into rings; without it there is one ring.
    pub sorting: Option<Sorting>,
    /// The impairments of the path behind it.
    pub impairment: Impairment,
    /// How many threads may share the port; kinds that cannot have one.
    pub shares: usize,
    /// Slots of the first ring, rounded up to a power of two; the others have a quarter.
    pub ring_slots: usize,
    /// Take frames for other stations too, as a bridge must.
    pub promiscuous: bool,
    /// Begin with the intake open; see [`Port::set_intake`].
    pub intake: bool,
    /// Frames with messages of RSVP for this address, or for every hop on their way, do not come
    /// in: [`weir_host::rsvp::BridgeNetwork`] takes them. Only packet sockets can do so.
    pub withheld: Option<Ipv4Addr>,
    /// The hosts behind it that are asked how long a round trip takes.
    pub reflectors: Vec<IpAddr>,
    /// The way to the port's authority; without it, the authority is in this process.
    pub through: Option<AuthorityClient>,
}

impl PortConfig {
    /// The default port on `interface`.
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            kind: KINDS[0].keyword.to_owned(),
            sorting: None,
            impairment: Impairment::default(),
            shares: 1,
            ring_slots: RING_SLOTS,
            promiscuous: true,
            intake: true,
            withheld: None,
            reflectors: Vec::new(),
            through: None,
        }
    }

    /// Returns the rings that frames are sorted into.
    pub(crate) fn rings(&self) -> usize {
        self.sorting.as_ref().map_or(1, Sorting::rings).clamp(1, RINGS_MAX)
    }

    /// Returns the slots of a ring, a power of two: the first has all, others a quarter.
    pub(crate) fn ring_slots(&self, ring: usize) -> usize {
        let slots = if ring == 0 { self.ring_slots } else { self.ring_slots / 4 };
        slots.max(1).next_power_of_two()
    }
}

/// The state of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// It can carry frames.
    Up,
    /// It exists, but is set down or has no carrier.
    Down,
    /// It does not exist, or no longer.
    Gone,
}

/// A frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The whole frame, from its destination address on, finished but perhaps for the checksum of a
    /// segment ([`complete_sum`]); the receiver releases it.
    pub frame: FrameId,
    /// When the kernel received it, in nanoseconds of CLOCK_MONOTONIC; never less than the one
    /// before.
    pub at_ns: u64,
    /// Its headers, read where its bytes are in the cache.
    pub headers: Headers,
    /// The rule of its lane that a worker found for it.
    pub found: Found,
}

impl Received {
    /// A frame of the pool that arrived then.
    pub(crate) fn new(frame: FrameId, at_ns: u64, pool: &FramePool) -> Self {
        let headers = Headers::parse_ethernet(pool.bytes(frame));
        Self { frame, at_ns, headers, found: Found::NOTHING }
    }
}

/// Computes the checksum of a frame that leaves as it is, if it was cut without one.
pub fn complete_sum(pool: &mut FramePool, frame: FrameId) {
    if pool.take_lack_of_sum(frame) {
        write_sum(pool.bytes_mut(frame));
    }
}

/// How far the frames of a ring were taken, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// All that have arrived.
    All,
    /// Those with a stamp up to this one; more wait.
    Behind(u64),
    /// Those that arrived before this instant, when a worker last looked.
    Looked(u64),
}

impl Reached {
    /// Those up to the last of these, if more wait.
    fn up_to(last: Option<&Received>, more: bool) -> Self {
        last.filter(|_| more).map_or(Self::All, |last| Self::Behind(last.at_ns))
    }
}

/// The result of [`Port::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The number of leading frames that are done with. The rest found the interface busy: try
    /// later.
    pub taken: usize,
    /// Bit `i` says that frame `i`, one of those, was not sent; [`PortCounters`] says why.
    pub lost: u64,
}

impl Sent {
    /// Counts the next `count` frames as done with, but not sent.
    fn lose(&mut self, count: usize) {
        for _ in 0..count {
            assert!(self.taken < BATCH, "there is a bit for each frame of a batch");
            self.lost |= 1 << self.taken;
            self.taken += 1;
        }
    }

    /// Returns how many frames were sent.
    pub fn sent(&self) -> u32 {
        self.taken as u32 - self.lost.count_ones()
    }

    /// Returns whether frame `index` was not sent.
    pub fn is_lost(&self, index: usize) -> bool {
        self.lost >> index & 1 != 0
    }
}

impl PortCounters {
    /// Returns the counts of two ports, one of which took the place of the other.
    fn plus(mut self, other: &Self) -> Self {
        let rings = self.ring_overruns.iter_mut().zip(other.ring_overruns);
        let shares = self.received_by_share.iter_mut().zip(other.received_by_share);
        rings.chain(shares).for_each(|(count, before)| *count += before);
        let mut other = *other;
        for (count, before) in self.counts_mut().into_iter().zip(other.counts_mut()) {
            *count += *before;
        }
        self
    }

    /// Returns the frames that were lost because a ring was full.
    pub fn overruns(&self) -> u64 {
        self.ring_overruns.iter().sum::<u64>() + self.former_overruns
    }

    /// The counts but those of the rings.
    fn counts_mut(&mut self) -> [&mut u64; 19] {
        [
            &mut self.received,
            &mut self.received_bytes,
            &mut self.super_packets,
            &mut self.joined,
            &mut self.checksums_completed,
            &mut self.former_overruns,
            &mut self.pool_exhausted,
            &mut self.truncated,
            &mut self.oversize,
            &mut self.unfinished,
            &mut self.sent,
            &mut self.sent_bytes,
            &mut self.send_refused,
            &mut self.send_too_long,
            &mut self.send_no_link,
            &mut self.impaired,
            &mut self.send_failed,
            &mut self.worker_failed,
            &mut self.rebinds,
        ]
    }

    /// Puts the frames that full rings lost, of those whose bits are set, where their classes do
    /// not matter: other classes have these rings from now on, or none.
    fn retire_rings(&mut self, retired: u8) {
        for (ring, lost) in self.ring_overruns.iter_mut().enumerate() {
            if retired >> ring & 1 != 0 {
                self.former_overruns += std::mem::take(lost);
            }
        }
    }
}

/// Frames since the port was opened, each counted where its path ended, and the work done on them.
/// A super-packet counts as the frames that it is, or was to be, cut into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames delivered, after super-packets were cut.
    pub received: u64,
    /// The sum of the lengths of `received`.
    pub received_bytes: u64,
    /// The parts of `received` that came by each share, where threads share the port.
    pub received_by_share: [u64; SHARES_MAX],
    /// Super-packets that were cut.
    pub super_packets: u64,
    /// Super-packets sent: joined of what leaves together of one that was cut.
    pub joined: u64,
    /// Frames whose checksum was completed, super-packets not counted.
    pub checksums_completed: u64,
    /// Lost before the port, for each ring: it was full.
    pub ring_overruns: [u64; RINGS_MAX],
    /// Those of rings that another class has since.
    pub former_overruns: u64,
    /// Lost: the pool had no free slot.
    pub pool_exhausted: u64,
    /// Lost: longer than a slot and not queued whole.
    pub truncated: u64,
    /// Lost: longer than a slot of the pool.
    pub oversize: u64,
    /// Lost: could not be finished (see [`crate::offload::OffloadError`]).
    pub unfinished: u64,
    /// Frames that were handed to the interface.
    pub sent: u64,
    /// The sum of the lengths of `sent`.
    pub sent_bytes: u64,
    /// Not sent: refused repeatedly for lack of room.
    pub send_refused: u64,
    /// Not sent: longer than the interface allows.
    pub send_too_long: u64,
    /// Not sent: the interface was down or gone.
    pub send_no_link: u64,
    /// Not sent: the port's impairment lost them.
    pub impaired: u64,
    /// Not sent, for another reason.
    pub send_failed: u64,
    /// Lost with a worker that failed, or when the pool got other memory.
    pub worker_failed: u64,
    /// Times the interface came back as a new one of the same name.
    pub rebinds: u64,
}
