//! One Ethernet interface as a source and sink of frames, over AF_XDP: one of its receive queues.
//!
//! A program at the driver (or, where the driver cannot run one, right behind it) takes every frame
//! away from the kernel's stack. The kernel copies it into a slot of the pool that this port lent,
//! and sends frames from their slots: between two such ports this program copies no bytes. A frame
//! longer than a chunk comes in pieces, each in a slot; they are joined in the first one's.
//!
//! The privileged half (`authority.rs`) makes the sockets and attaches the program; this half maps
//! the rings and moves frames. While the intake is closed the program is detached. The kernel gives
//! an interface's queue to one process at a time, so a port that begins with a closed intake makes
//! its sockets at once, which takes long, and has them bound when that opens. Receive queues share
//! the program and what asks the authority (`share.rs`).
//!
//! Every queue of every port registers the pool's memory by itself, so none depends on another, and
//! any may vanish and come back. Invariant: each slot that is lent is in the fill ring, in the
//! kernel, in a receive ring, or spare; each frame in flight is in the transmit ring, in the
//! kernel, or in the completion ring.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use libc::xdp_desc;

use super::{
    BATCH, Kind, LaneRules, NewRings, Port, PortConfig, PortCounters, PortState, Reached, Received,
    Room, Sent, ShareHandle, SortHandle, complete_sum,
};
use crate::authority::{Area, Authority, PassedDescriptors, PortRequest, Reply, XdpParts, misfit};
use crate::offload::unfinished;
use crate::pool::{FrameId, FramePool, Memory};
use crate::stations::Address;
use crate::xsk::{self, Queue};
use authority::XdpAuthority;
use ledger::Ledger;
use share::{Attached, Shared, Sharers, Sharing};
use sizes::{
    HEADER_LEN, TAG_LEN, TRANSMIT_ENTRIES, chunk, lent_max, needs_pieces, queue_config, rings,
    room_of_queue, slot_len,
};
use sort::{Handle, Sets};
use weir_host::bpf::Hook;
use weir_host::error::{Result, SystemError};
use weir_host::ethtool;
use weir_host::interface::{Interface, is_running};
use weir_host::wait::{SLEEP_MAX_NS, monotonic_ns};

pub(crate) use sizes::QUEUES_MAX;

mod authority;
mod ledger;
mod program;
mod several;
mod share;
mod sizes;
mod sort;

/// The line of this kind in [`super::KINDS`].
pub(super) const KIND: Kind = Kind {
    keyword: KEYWORD,
    summary: "AF_XDP sockets at each receive queue: frames pass by the kernel's stack; needs root",
    suits: Some(suits),
    room,
    authority: |config| {
        Ok(Box::new(XdpAuthority::new(config, &[Hook::XdpNative, Hook::XdpGeneric])?))
    },
    open: |config, authority| open(&config, authority, KEYWORD),
};

/// The kind whose programs run behind the driver, for drivers whose own XDP does not work.
pub(super) const KIND_GENERIC: Kind = Kind {
    keyword: KEYWORD_GENERIC,
    summary: "afxdp behind the driver, where the driver's own part does not work",
    suits: None,
    room,
    authority: |config| Ok(Box::new(XdpAuthority::new(config, &[Hook::XdpGeneric])?)),
    open: |config, authority| open(&config, authority, KEYWORD_GENERIC),
};

const KEYWORD: &str = "afxdp";
const KEYWORD_GENERIC: &str = "afxdp-generic";

/// Frames of these drivers come from the same machine, where a sender leaves super-packets whole.
const DRIVERS_WITHOUT_WIRE: [&str; 3] = ["veth", "tun", "virtio_net"];

fn suits(interface: &str) -> std::result::Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let interface = Interface::open(interface).map_err(|error| text(&error))?;
    let driver = interface.driver().map_err(|error| text(&error))?;
    if DRIVERS_WITHOUT_WIRE.contains(&driver.as_str()) {
        return Err(format!(
            "the other end of a {driver} interface is on this machine and may send several packets \
             as one, which {KEYWORD} does not cut; `kind = \"{KEYWORD}\"` takes it all the same"
        ));
    }
    match interface.queues().map_err(|error| text(&error))? {
        [0 | 1, _] => Ok(()),
        [queues, _] => Err(format!(
            "the interface has {queues} receive queues, each of which takes memory of its own; \
             `kind = \"{KEYWORD}\"` takes it all the same, or `ethtool -L IF combined 1`"
        )),
    }
}

/// Returns the room of a port: that of its queues, as many as the interface has now.
fn room(config: &PortConfig, mtu: usize) -> Room {
    let queues = ethtool::receive_queues(&config.interface).unwrap_or(1);
    let queues = (queues as usize).clamp(1, QUEUES_MAX);
    (0..queues).map(|_| room_of_queue(config, mtu)).fold(Room::default(), Room::with)
}

/// Opens the first share of a port, which has all receive queues if it is the only one.
fn open(
    config: &PortConfig,
    mut authority: Box<dyn Authority>,
    keyword: &'static str,
) -> Result<Box<dyn Port>> {
    let reply = authority.ask(PortRequest::Open { intake: config.intake }, Vec::new())?;
    let Reply::Xdp(parts) = reply.reply else { return Err(misfit(&config.interface)) };
    let socket = PassedDescriptors::new(reply.descriptors, &config.interface).next()?;
    share::open(config, keyword, &Shared::new(authority, socket, parts), 0)
}

struct AfXdp {
    config: PortConfig,
    /// Shared with the other queues, and with the thread that changes the sorting.
    sharing: Sharing,
    sets: Sets,
    keyword: &'static str,
    /// The number of the receive queue.
    queue: u32,
    /// The number of the maps that have its sockets.
    maps: u64,
    interface: Interface,
    /// Whether frames come in.
    intake: bool,
    /// The authority's last reply.
    parts: XdpParts,
    /// The interface's number; 0 if it is gone.
    index: u32,
    mtu: usize,
    state: PortState,
    counters: PortCounters,
    /// `None` while the interface is gone or cannot be opened.
    live: Option<Live>,
    /// Sockets over the pool's memory that wait to be bound.
    prepared: Option<Prepared>,
    area: Option<SharedMemory>,
    ledger: Ledger,
    transmit: Transmit,
    /// When the rings were last looked at, in nanoseconds of CLOCK_MONOTONIC.
    looked_ns: u64,
}

/// The timestamps of a ring's frames, in nanoseconds of CLOCK_MONOTONIC: AF_XDP does not say when a
/// frame came.
#[derive(Clone, Copy, Default)]
struct Stamps {
    /// How many of its entries may have come as early as `since_ns`.
    doubtful: u32,
    since_ns: u64,
    last_ns: u64,
}

/// The pool's memory, which this port shares with the kernel.
#[derive(Clone)]
struct SharedMemory {
    memory: Arc<Memory>,
    slot_len: usize,
    slots: usize,
}

/// The program at the interface, and the sockets that it feeds.
struct Live {
    /// With the rings of the one set of sockets before those of the other.
    queue: Queue,
    /// For each ring, the start of a frame of which more pieces are to come.
    partial: Vec<Option<Partial>>,
    /// For each ring, the kernel's counts as last read.
    counted: Vec<Counted>,
    stamps: Vec<Stamps>,
    pieces: bool,
    chunk: usize,
}

/// Sockets that are not bound.
struct Prepared {
    queue: Queue,
    pieces: bool,
    /// The number of the maps that will have them.
    maps: u64,
}

/// The first pieces of a frame.
#[derive(Clone, Copy, Debug)]
struct Partial {
    slot: u32,
    start: usize,
    /// [`TOO_LONG`] once the slot cannot hold the frame.
    end: usize,
}

const TOO_LONG: usize = usize::MAX;

/// The transmit ring as seen from here.
#[derive(Default)]
struct Transmit {
    /// The entry up to which the kernel has taken frames.
    taken: u32,
    /// Frames that the kernel dropped, whose completion is still to come.
    dropped: u64,
    kicked_ns: u64,
}

/// The kernel's counts of one ring.
#[derive(Clone, Copy, Default)]
struct Counted {
    ring_full: u64,
    dropped: u64,
    fill_empty: u64,
}

impl AfXdp {
    /// The port of a receive queue, with its sockets still to be made.
    fn of(config: PortConfig, keyword: &'static str, sharing: Sharing, queue: u32) -> Result<Self> {
        let interface = Interface::of(sharing.socket()?, &config.interface);
        let action = || format!("open an AF_XDP port on `{}`", config.interface);
        let failed = |cause| SystemError::new(action(), cause);
        let parts = sharing.parts.clone();
        let mut port = Self {
            mtu: interface.mtu().map_err(failed)?,
            intake: config.intake,
            index: parts.index,
            parts,
            state: PortState::Gone,
            counters: PortCounters::default(),
            live: None,
            prepared: None,
            area: None,
            ledger: Ledger::default(),
            transmit: Transmit::default(),
            looked_ns: 0,
            config,
            sharing,
            sets: Sets::default(),
            keyword,
            queue,
            maps: 0,
            interface,
        };
        port.state = port.follow_interface().unwrap_or(PortState::Gone);
        Ok(port)
    }

    /// Opens the sockets, and then has the program redirect frames to them. Sockets of before are
    /// closed only when new ones are made, which takes long: registering the pool's memory does.
    fn go_live(&mut self, patience: Duration) -> Result<()> {
        let was_live = self.live.is_some();
        let pieces = needs_pieces(self.mtu);
        let prepared = self.prepared.take().filter(|prepared| prepared.pieces == pieces);
        let made = prepared.map_or_else(|| self.make_queue(pieces), Ok);
        let prepared = match made {
            // There may be no room for both.
            Err(_) if was_live => {
                self.close();
                self.make_queue(pieces)?
            }
            made => made?,
        };
        self.close();
        let patience = if was_live { patience.max(PATIENCE_REOPENED) } else { patience };
        if let Err(error) = self.bind(prepared.maps, patience) {
            if error.errno() == Some(libc::EBUSY) {
                // They serve the next try.
                self.prepared = Some(prepared);
            }
            return Err(error);
        }
        let queue = prepared.queue;
        let rings = queue.received.len();
        self.transmit = Transmit::default();
        self.live = Some(Live {
            queue,
            partial: vec![None; rings],
            counted: vec![Counted::default(); rings],
            stamps: vec![Stamps::default(); rings],
            pieces,
            chunk: chunk(self.mtu),
        });
        // The first frame needs a slot.
        self.fill();
        if self.lacks_program() {
            // Without the program the sockets are of no use.
            self.attach_program().inspect_err(|_| self.close())?;
        }
        Ok(())
    }

    /// Makes the sockets for an intake that opens later. What fails now is tried again then.
    fn prepare(&mut self) {
        if !self.intake && self.can_go_live() {
            self.prepared = self.make_queue(needs_pieces(self.mtu)).ok();
        }
    }

    /// Makes the sockets over the pool's memory, and maps their rings.
    fn make_queue(&mut self, pieces: bool) -> Result<Prepared> {
        let shared = self.area.as_ref().expect("a pool is attached before sockets are opened");
        let memory = Some(Arc::clone(&shared.memory));
        let (len, queue) = (shared.slots * shared.slot_len, self.queue);
        let area = Area { len, pieces, queue, memory };
        let failed = |cause| SystemError::new("map the rings of AF_XDP sockets", cause);
        let file = shared.memory.file().map(|file| file.try_clone_to_owned()).transpose();
        let passed = file.map_err(failed)?.into_iter().collect();
        let reply = self.sharing.authority().ask(PortRequest::Sockets(area), passed)?;
        let Reply::Sockets(maps) = reply.reply else { return Err(misfit(&self.config.interface)) };
        let sockets = reply.descriptors;
        let config = queue_config(&self.config);
        if sockets.len() != config.ring_entries.len() {
            return Err(misfit(&self.config.interface));
        }
        // SAFETY: the pool lends the slots that `fill` pushes, so no one else uses them, and
        // `area` keeps the memory until after the queue is dropped.
        let queue = unsafe { Queue::map(sockets, &config) }.map_err(failed)?;
        Ok(Prepared { queue, pieces, maps })
    }

    /// Has the sockets bound, and entered into the maps. The kernel releases those of a process
    /// that ended some time after it.
    fn bind(&mut self, maps: u64, patience: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let ask = PortRequest::Bind { intake: self.intake, anew: false, queue: self.queue };
            let mut authority = self.sharing.authority();
            match authority.ask(ask, Vec::new()) {
                Err(error) if error.errno() == Some(libc::EBUSY) && start.elapsed() < patience => {
                    drop(authority);
                    thread::sleep(RETRY_AFTER);
                }
                outcome => {
                    outcome?;
                    let mut state = self.sharing.state();
                    if state.maps != maps {
                        // A program of another authority hands frames to their first set.
                        (state.maps, state.set) = (maps, 0);
                    }
                    state.live += 1;
                    (self.maps, self.sets) = (maps, Sets::at(state.set));
                    return Ok(());
                }
            }
        }
    }

    /// Returns whether it is for this queue to have a program attached, for all of them.
    fn lacks_program(&self) -> bool {
        let Some(live) = self.live.as_ref().filter(|_| self.is_first()) else { return false };
        let state = self.sharing.state();
        let wanted = (self.index, live.pieces, state.maps);
        let is_as_wanted =
            |link: &Attached| (link.index, link.pieces, link.maps) == wanted && !link.is_stale;
        !state.link.as_ref().is_some_and(is_as_wanted)
    }

    /// Has frames come to the sockets of all queues.
    fn attach_program(&mut self) -> Result<()> {
        let pieces = self.live.as_ref().is_some_and(|live| live.pieces);
        let mut authority = self.sharing.authority();
        self.detach();
        let reply = authority.ask(PortRequest::Attach, Vec::new())?;
        let Reply::Xdp(parts) = reply.reply else { return Err(misfit(&self.config.interface)) };
        let link = PassedDescriptors::new(reply.descriptors, &self.config.interface).next()?;
        let (index, maps) = (parts.index, parts.maps);
        let mut state = self.sharing.state();
        if state.maps != maps {
            (state.maps, state.set) = (maps, 0);
        }
        state.link = Some(Attached { link, index, pieces, maps, is_stale: false });
        drop((state, authority));
        self.parts = parts;
        Ok(())
    }

    /// Detaches the program: frames pass to the kernel's stack.
    fn detach(&self) {
        self.sharing.state().link = None;
    }

    /// Returns whether this queue has the program attached, and follows the interface for all.
    fn is_first(&self) -> bool {
        self.queue == 0
    }

    /// Returns whether the program hands frames to sockets of other maps: the authority is another
    /// one.
    fn is_left_behind(&self) -> bool {
        self.sharing.state().maps != self.maps
    }

    /// Closes the sockets. Lent slots become spare; frames that the kernel took count as sent.
    fn close(&mut self) {
        self.read_kernel_counts();
        let Some(mut live) = self.live.take() else { return };
        self.sharing.end_queue();
        let waiting = live.queue.transmit.frames_since(self.transmit.taken).len() as u64;
        let rings = self.rings();
        for (place, ring) in live.queue.received.iter_mut().enumerate() {
            self.counters.ring_overruns[place % rings] += ring.waiting();
        }
        drop(live);
        let gone = self.ledger.abandon() as u64;
        self.counters.send_no_link += waiting;
        self.counters.sent += gone.saturating_sub(waiting + self.transmit.dropped);
        self.transmit = Transmit::default();
    }

    /// Follows the interface: another name, another interface of the same name, another MTU.
    fn follow_interface(&mut self) -> io::Result<PortState> {
        let is_here = self.index != 0 && self.interface.follow(self.index).is_ok();
        if !is_here {
            if self.index != 0 {
                self.leave_interface();
                self.index = 0;
                self.interface.rename(&self.config.interface);
            }
            self.index = self.interface.index()?;
            self.counters.rebinds += u64::from(self.is_first());
        } else if self.live.as_ref().is_some_and(|live| !live.queue.is_bound()) {
            // It went and came back under the same number, without the sockets and the program.
            self.leave_interface();
            self.counters.rebinds += u64::from(self.is_first());
        }
        let found = self.interface.mtu_and_flags(self.index)?;
        let Some((mtu, flags)) = found else { return Ok(self.state) };
        self.mtu = mtu;
        let is_running = is_running(flags);
        if !is_running && self.is_sending() {
            // What the kernel did not take must not be sent whenever the cable is back.
            self.close();
        }
        let begun = self.begin(Duration::ZERO);
        if !is_running {
            // Its former sockets may still be closing; the next look tries again.
            return Ok(PortState::Down);
        }
        begun.map_err(|error| error.cause)?;
        Ok(PortState::Up)
    }

    /// Closes the sockets of an interface that is gone, and with it the program.
    fn leave_interface(&mut self) {
        let mut state = self.sharing.state();
        match &mut state.link {
            link if self.is_first() => *link = None,
            Some(link) if link.index == self.index => link.is_stale = true,
            _ => {}
        }
        drop(state);
        self.close();
    }

    /// Has frames come, if they do not and are wanted. Sockets that frames of the MTU no longer fit
    /// stay as long as there is no memory for new ones: the bridge makes the pool's slots longer,
    /// and attaches it again.
    fn begin(&mut self, patience: Duration) -> Result<()> {
        if !self.intake {
            return Ok(());
        }
        let fits = |live: &Live| live.pieces || !needs_pieces(self.mtu);
        if !self.live.as_ref().is_some_and(fits) && self.can_go_live() {
            return self.go_live(patience);
        }
        if self.lacks_program() {
            self.attach_program()?;
        }
        if self.live.is_some() && self.is_left_behind() && self.can_go_live() {
            return self.go_live(patience);
        }
        Ok(())
    }

    /// Returns whether a pool is attached that fits the interface's MTU.
    fn can_go_live(&self) -> bool {
        self.area.as_ref().is_some_and(|shared| shared.slot_len >= slot_len(self.mtu))
    }

    fn is_sending(&self) -> bool {
        let next = self.live.as_ref().map(|live| live.queue.transmit.next());
        next.is_some_and(|next| next != self.transmit.taken)
    }

    /// Lends slots up to the limit.
    fn refill(&mut self, pool: &mut FramePool) {
        self.ledger.borrow(pool, lent_max(&self.config));
        self.fill();
    }

    /// Gives the kernel the slots that are lent and that it does not have.
    fn fill(&mut self) {
        let (Some(live), Some(shared)) = (&mut self.live, &self.area) else { return };
        let fill = &mut live.queue.fill;
        for _ in 0..fill.room() {
            let Some(slot) = self.ledger.spare.pop() else { break };
            fill.push(slot as u64 * shared.slot_len as u64);
        }
        fill.publish();
    }

    /// Notices that the rings were not read for long. The frames in them then get the earliest
    /// instant at which they may have come: a fresh one may be dropped as stale, but none is
    /// delivered that is too old.
    fn doubt_after_stall(&mut self, now_ns: u64) {
        let looked_ns = std::mem::replace(&mut self.looked_ns, now_ns);
        if looked_ns == 0 || now_ns.saturating_sub(looked_ns) < STALL_NS {
            return;
        }
        let Some(live) = &mut self.live else { return };
        for (ring, stamps) in live.queue.received.iter_mut().zip(&mut live.stamps) {
            (stamps.doubtful, stamps.since_ns) = (ring.entries_waiting(), looked_ns);
        }
    }

    /// Makes a frame of a received descriptor; `None` if more pieces are to come, or it is too
    /// long.
    fn take(&mut self, ring: usize, entry: xdp_desc, pool: &mut FramePool) -> Option<FrameId> {
        let (live, shared) = (self.live.as_mut()?, self.area.as_ref()?);
        let slot = (entry.addr / shared.slot_len as u64) as u32;
        let start = (entry.addr % shared.slot_len as u64) as usize;
        let piece = start..start + entry.len as usize;
        let is_last = xsk::is_last(&entry);
        let partial = &mut live.partial[ring];
        let Some(first) = partial else {
            if is_last {
                self.ledger.end_loan(slot);
                return Some(pool.accept(slot, piece));
            }
            *partial = Some(Partial { slot, start, end: piece.end });
            return None;
        };
        if first.end.saturating_add(piece.len()) <= shared.slot_len {
            let at = first.end;
            first.end += piece.len();
            pool.append(slot, piece, first.slot, at);
        } else {
            first.end = TOO_LONG;
        }
        self.ledger.spare.push(slot);
        if !is_last {
            return None;
        }
        let Partial { slot, start, end } = partial.take()?;
        if end == TOO_LONG {
            self.ledger.spare.push(slot);
            self.counters.oversize += 1;
            return None;
        }
        self.ledger.end_loan(slot);
        Some(pool.accept(slot, start..end))
    }

    /// Puts a frame into the transmit ring; `None` if it does not fit there.
    fn push(&mut self, pool: &mut FramePool, frame: FrameId) -> Option<()> {
        let live = self.live.as_mut()?;
        let (mut start, len) = pool.place(frame);
        let mut count = (start + len).div_ceil(live.chunk) - start / live.chunk;
        if count > 1 && !live.pieces {
            // It came from a port of longer frames, and lies across chunks.
            pool.align(frame);
            (start, count) = (pool.place(frame).0, 1);
        }
        let in_flight = self.ledger.flying_pieces + count;
        if in_flight > TRANSMIT_ENTRIES as usize || live.queue.transmit.room() < count as u32 {
            return None;
        }
        let end = start + len;
        while start < end {
            let next = ((start / live.chunk + 1) * live.chunk).min(end);
            let options = if next < end { libc::XDP_PKT_CONTD } else { 0 };
            let len = (next - start) as u32;
            live.queue.transmit.push(xdp_desc { addr: start as u64, len, options });
            start = next;
        }
        self.ledger.take_off(frame, count);
        Some(())
    }

    /// Makes the kernel send what is in the transmit ring, as far as it takes it. Frames that it
    /// drops are marked in `sent`, if they are among `frames`.
    fn flush(&mut self, frames: &[FrameId], sent: &mut Sent) {
        let Some(live) = &mut self.live else { return };
        let slot_len = self.area.as_ref().map_or(1, |shared| shared.slot_len);
        let lose = |address: u64, sent: &mut Sent| {
            let frame = FrameId((address / slot_len as u64) as u32);
            if let Some(index) = frames.iter().position(|other| *other == frame) {
                sent.lost |= 1 << index;
            }
        };
        live.queue.transmit.publish();
        let mut refusals = 0;
        while self.transmit.taken != live.queue.transmit.next() && refusals < REFUSALS_MAX {
            let outcome = live.queue.kick();
            let before = self.transmit.taken;
            self.transmit.taken = live.queue.transmit.taken(before);
            match outcome {
                // Only an empty ring ends a call without an error.
                Ok(()) => self.transmit.taken = live.queue.transmit.next(),
                Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) => {
                    // The interface refused one frame, and the kernel dropped it. The ring's index
                    // includes it unless it was the first.
                    let (address, end) = live.queue.transmit.refused(before, self.transmit.taken);
                    self.transmit.taken = end;
                    self.transmit.dropped += 1;
                    self.counters.send_refused += 1;
                    lose(address, sent);
                }
                Err(cause) if is_link_lost(&cause) => {
                    let waiting = live.queue.transmit.frames_since(self.transmit.taken);
                    self.refresh();
                    if !self.is_sending() {
                        waiting.iter().for_each(|address| lose(*address, sent));
                    }
                    return;
                }
                Err(_) if self.transmit.taken == before => refusals += 1,
                Err(_) => {}
            }
        }
        self.transmit.kicked_ns = monotonic_ns();
    }

    /// Returns whether frames wait in a ring.
    fn is_ready(&mut self, ring: usize) -> bool {
        let place = self.places(self.sets.current).start + ring;
        self.live.as_mut().is_some_and(|live| live.queue.received[place].is_ready())
    }

    /// Adds what the kernel counted since the last time.
    fn read_kernel_counts(&mut self) {
        let rings = self.rings();
        let Some(live) = &mut self.live else { return };
        let (mut dropped, mut without_slot) = (0, 0);
        for (ring, before) in live.counted.iter_mut().enumerate() {
            let Ok(now) = live.queue.statistics(ring) else { continue };
            self.counters.ring_overruns[ring % rings] += now.rx_ring_full - before.ring_full;
            dropped += now.rx_dropped - before.dropped;
            if ring == 0 {
                // The sockets share the fill ring, and its count.
                without_slot += now.rx_fill_ring_empty_descs - before.fill_empty;
            }
            *before = Counted {
                ring_full: now.rx_ring_full,
                dropped: now.rx_dropped,
                fill_empty: now.rx_fill_ring_empty_descs,
            };
        }
        let without_slot = dropped.min(without_slot);
        self.counters.pool_exhausted += without_slot;
        self.counters.truncated += dropped - without_slot;
    }
}

impl Port for AfXdp {
    fn kind(&self) -> &'static str {
        self.keyword
    }

    fn interface(&self) -> &str {
        self.interface.name()
    }

    fn address(&self) -> Option<Address> {
        self.interface.address().ok().map(Address::new)
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn warnings(&self) -> Vec<String> {
        let name = self.interface.name();
        let mut warnings = Vec::new();
        if !self.parts.keeps_tags && self.parts.takes_tags_off {
            warnings.push(format!(
                "`{name}` may lose VLAN tags, which its kernel or network card keeps beside the \
                 frame: `ethtool -K {name} rxvlan off`, at the other end of a veth pair `ethtool \
                 -K PEER txvlan off tx-vlan-stag-hw-insert off`, or kind afpacket"
            ));
        }
        if self.parts.leaves_checksums {
            let what = match self.parts.is_native {
                true => "checksums inside tunnels that begin at the other end of",
                false => "super-packets, and checksums inside tunnels, from the other end of",
            };
            warnings.push(format!(
                "{what} `{name}` are not finished: `ethtool -K PEER tx off` there, or kind afpacket"
            ));
        }
        warnings
    }

    fn room(&self) -> Room {
        room_of_queue(&self.config, self.mtu)
    }

    fn attach(&mut self, pool: &mut FramePool) -> Result<()> {
        let memory = Arc::clone(pool.memory());
        let (slot_len, slots) = (pool.slot_len(), pool.capacity());
        assert!(slot_len.is_multiple_of(chunk(self.mtu)), "slots are whole chunks");
        self.prepared = None;
        // The memory of before stays until the sockets over it are closed.
        let _before = self.area.replace(SharedMemory { memory, slot_len, slots });
        self.ledger.resize(slots);
        self.ledger.borrow(pool, lent_max(&self.config));
        if self.intake && self.can_go_live() {
            self.go_live(PATIENCE).inspect_err(|_| self.close())?;
        } else {
            self.close();
            self.prepare();
        }
        self.refresh();
        Ok(())
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let sockets = self.live.iter().flat_map(|live| live.queue.sockets());
        let current = self.places(self.sets.current);
        let is_used = |place: &usize| current.contains(place) || self.sets.are_both_in_use();
        let used = sockets.enumerate().filter(|(place, _)| is_used(place));
        used.map(|(_, socket)| socket.as_raw_fd()).collect()
    }

    fn rings(&self) -> usize {
        rings(&self.config)
    }

    fn shares(&self) -> usize {
        1
    }

    fn queues(&self) -> usize {
        self.rings()
    }

    fn look_up_in(&mut self, _rules: &LaneRules) {
        // What the loop receives here it looks up itself.
    }

    fn receive(
        &mut self,
        ring: usize,
        frames_max: usize,
        pool: &mut FramePool,
        out: &mut Vec<Received>,
    ) -> Reached {
        if ring == 0 && self.sets.are_both_in_use() {
            self.go_over();
        }
        if !self.is_ready(ring) {
            return Reached::All;
        }
        let ring = self.places(self.sets.current).start + ring;
        // Before the frames are looked at: more may arrive meanwhile.
        self.refill(pool);
        let now_ns = monotonic_ns();
        self.doubt_after_stall(now_ns);
        let full = out.len() + frames_max;
        while out.len() < full {
            let Some(live) = &mut self.live else { break };
            let Some(entry) = live.queue.received[ring].pop() else { break };
            let at_ns = live.stamps[ring].next(now_ns);
            let Some(frame) = self.take(ring, entry, pool) else { continue };
            if self.parts.leaves_checksums && unfinished::complete(pool.bytes_mut(frame)) {
                self.counters.checksums_completed += 1;
            }
            self.counters.received += 1;
            self.counters.received_bytes += pool.bytes(frame).len() as u64;
            out.push(Received::new(frame, at_ns, pool));
        }
        let Some(live) = &mut self.live else { return Reached::All };
        let queue = &mut live.queue.received[ring];
        queue.publish();
        Reached::up_to(out.last(), queue.is_ready())
    }

    fn sorter(&self) -> Option<Arc<dyn SortHandle>> {
        let handle = || Arc::new(Handle(Arc::downgrade(&self.sharing))) as Arc<dyn SortHandle>;
        self.config.sorting.is_some().then(handle)
    }

    fn sharers(&self) -> Option<Arc<dyn ShareHandle>> {
        let handle = || Arc::new(Sharers::of(self)) as Arc<dyn ShareHandle>;
        (share::shares(&self.config, &self.parts) > 1).then(handle)
    }

    fn begin_sorting(&mut self, _made: &mut NewRings) -> bool {
        self.begin_change()
    }

    fn end_sorting(&mut self, retired: u8) {
        self.end_change(retired);
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[FrameId]) -> Sent {
        let mut sent = Sent::default();
        let frames = &frames[..frames.len().min(BATCH)];
        if self.is_sending() {
            self.flush(&[], &mut Sent::default());
            if self.is_sending() {
                return sent;
            }
        }
        if self.live.is_none() || self.state != PortState::Up {
            self.counters.send_no_link += frames.len() as u64;
            frames.iter().for_each(|frame| pool.release(*frame));
            sent.lose(frames.len());
            return sent;
        }
        for frame in frames {
            complete_sum(pool, *frame);
            if is_too_long(pool.bytes(*frame), self.mtu) {
                self.counters.send_too_long += 1;
                pool.release(*frame);
                sent.lose(1);
                continue;
            }
            if self.push(pool, *frame).is_none() {
                break;
            }
            sent.taken += 1;
        }
        self.flush(&frames[..sent.taken], &mut sent);
        sent
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        self.doubt_after_stall(monotonic_ns());
        for frame in self.ledger.abandoned.drain(..) {
            pool.release(frame);
        }
        if self.is_sending() {
            self.flush(&[], &mut Sent::default());
        }
        let slot_len = self.area.as_ref().map_or(1, |shared| shared.slot_len);
        if let Some(live) = &mut self.live {
            while let Some(address) = live.queue.completed.pop() {
                let frame = FrameId((address / slot_len as u64) as u32);
                if !self.ledger.land(frame) {
                    continue;
                }
                if self.transmit.dropped > 0 {
                    self.transmit.dropped -= 1;
                } else {
                    self.counters.sent += 1;
                    self.counters.sent_bytes += pool.bytes(frame).len() as u64;
                }
                pool.release(frame);
            }
            live.queue.completed.publish();
            if self.ledger.lent + REFILL_MIN <= lent_max(&self.config)
                || !self.ledger.spare.is_empty()
            {
                self.refill(pool);
            }
        } else if self.index == 0 {
            self.ledger.return_spare(pool);
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.is_sending().then_some(self.transmit.kicked_ns + KICK_AGAIN_NS)
    }

    fn held(&self) -> usize {
        self.ledger.lent + self.ledger.flying + self.ledger.abandoned.len()
    }

    fn lent(&self) -> usize {
        self.ledger.lent
    }

    fn state(&self) -> PortState {
        self.state
    }

    fn refresh(&mut self) -> PortState {
        if let Some(live) = &self.live {
            live.queue.clear_errors();
        }
        self.look_beside();
        self.state = self.follow_interface().unwrap_or(PortState::Gone);
        self.state
    }

    fn set_up(&mut self, up: bool) -> Result<()> {
        let set = self.sharing.authority().ask(PortRequest::SetUp(up), Vec::new());
        self.refresh();
        set.map(drop)
    }

    fn set_intake(&mut self, open: bool) -> Result<()> {
        self.intake = open;
        if open {
            return self.begin(PATIENCE_TAKE_OVER);
        }
        self.detach();
        Ok(())
    }

    fn counters(&mut self) -> PortCounters {
        self.read_kernel_counts();
        self.counters
    }
}

impl Drop for AfXdp {
    fn drop(&mut self) {
        // Before the sockets, and whatever other threads still have.
        if self.live.is_some() {
            self.sharing.end_queue();
        }
    }
}

impl Stamps {
    /// Returns the stamp of the next entry, which is taken at `now_ns`.
    fn next(&mut self, now_ns: u64) -> u64 {
        let at_ns = if self.doubtful > 0 { self.since_ns } else { now_ns };
        self.doubtful = self.doubtful.saturating_sub(1);
        self.last_ns = self.last_ns.max(at_ns);
        self.last_ns
    }
}

/// Returns whether an interface of this MTU must not send the frame.
fn is_too_long(frame: &[u8], mtu: usize) -> bool {
    if frame.len() <= mtu + HEADER_LEN {
        return false;
    }
    let tag = matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
    frame.len() > mtu + HEADER_LEN + if tag { TAG_LEN } else { 0 }
}

fn is_link_lost(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}

/// So many slots fewer than could be lent are lent before `reclaim` lends more.
const REFILL_MIN: usize = 64;
/// How many times in a row the kernel may take nothing before the frames wait.
const REFUSALS_MAX: u32 = 3;
/// After this time frames that wait in the transmit ring are offered again.
const KICK_AGAIN_NS: u64 = 50_000;
/// How long a queue may stay busy after the process that had it ended.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause between two attempts to bind.
const RETRY_AFTER: Duration = Duration::from_millis(1);
/// How long a queue is waited for at once when the intake opens: the process that had it ends now.
const PATIENCE_TAKE_OVER: Duration = Duration::from_millis(100);
/// How long a queue may stay busy after its sockets were closed here.
const PATIENCE_REOPENED: Duration = Duration::from_millis(200);
/// A loop that looks at its rings less often stalled: it sleeps for less, and frames end its sleep.
const STALL_NS: u64 = SLEEP_MAX_NS + 5_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_stall_count_as_old_and_others_from_now() {
        let mut stamps = Stamps { doubtful: 2, since_ns: 100, last_ns: 90 };
        let taken = [(500, 100), (500, 100), (500, 500), (600, 600)];
        for (now_ns, expected) in taken {
            assert_eq!(stamps.next(now_ns), expected, "at {now_ns}");
        }
        // Stamps never go back.
        (stamps.doubtful, stamps.since_ns) = (1, 550);
        assert_eq!(stamps.next(700), 600);
    }

    #[test]
    fn a_frame_may_be_longer_than_the_mtu_by_its_header_and_one_tag() {
        for (kind, len, expected) in [
            (0x0800u16, 1514, false),
            (0x0800, 1515, true),
            (0x8100, 1518, false),
            (0x88a8, 1518, false),
            (0x8100, 1519, true),
        ] {
            let mut frame = vec![0; len];
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
            assert_eq!(is_too_long(&frame, 1500), expected, "{kind:04x} {len}");
        }
    }
}
