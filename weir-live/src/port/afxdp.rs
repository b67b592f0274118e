//! One Ethernet interface as a source and sink of frames, over AF_XDP.
//!
//! A program at the driver (or, where the driver cannot run one, right behind it) takes every frame
//! away from the kernel's stack. The kernel copies it into a slot of the pool that this port lent,
//! and sends frames from their slots: between two such ports this program copies no bytes. A frame
//! longer than a chunk comes in pieces, each in a slot; they are joined in the first one's.
//!
//! Every port registers the pool's memory by itself, so none depends on another, and any may vanish
//! and come back. Invariant: each slot that is lent is in the fill ring, in the kernel, in a
//! receive ring, or spare; each frame in flight is in the transmit ring, in the kernel, or in the
//! completion ring.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use libc::xdp_desc;

use super::{
    BATCH, Kind, Port, PortConfig, PortCounters, PortState, RINGS_MAX, Received, Room, Sent,
    Sorting,
};
use crate::bpf::{self, Hook, Link, Map, Program};
use crate::error::{Result, SystemError};
use crate::interface::Interface;
use crate::netns::NetNs;
use crate::offload::unfinished;
use crate::pool::{FrameId, FramePool, Memory};
use crate::stations::Address;
use crate::wait::monotonic_ns;
use crate::xsk::{self, Area, Queue, QueueConfig};

mod program;

/// The line of this kind in [`super::KINDS`].
pub(super) const KIND: Kind = Kind {
    keyword: KEYWORD,
    summary: "AF_XDP sockets: frames pass by the kernel's stack; needs root and one receive queue",
    suits: Some(suits),
    room,
    open: |config| Ok(Box::new(AfXdp::open(config, &[Hook::XdpNative, Hook::XdpGeneric])?)),
};

/// The same behind the driver, for drivers whose own XDP does not work.
pub(super) const KIND_GENERIC: Kind = Kind {
    keyword: KEYWORD_GENERIC,
    summary: "afxdp behind the driver, where the driver's own part does not work",
    suits: None,
    room,
    open: |config| Ok(Box::new(AfXdp::open(config, &[Hook::XdpGeneric])?)),
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
    match interface.receive_queues().map_err(|error| text(&error))? {
        0 | 1 => Ok(()),
        queues => Err(format!(
            "the interface has {queues} receive queues, and {KEYWORD} reads one (`ethtool -L IF \
             combined 1`)"
        )),
    }
}

/// One interface, open.
struct AfXdp {
    config: PortConfig,
    interface: Interface,
    namespace: NetNs,
    /// Where the program may be attached, best first.
    hooks: &'static [Hook],
    attached: Attached,
    /// Whether frames may arrive with checksums that their sender left to hardware.
    finishes: bool,
    /// The interface's number; 0 if it is gone.
    index: u32,
    mtu: usize,
    state: PortState,
    counters: PortCounters,
    /// `None` while the interface is gone or cannot be opened.
    live: Option<Live>,
    shared: Option<Shared>,
    ledger: Ledger,
    transmit: Transmit,
}

/// The pool's memory, which this port shares with the kernel.
#[derive(Clone)]
struct Shared {
    memory: Arc<Memory>,
    slot_len: usize,
    slots: usize,
}

/// The program at the interface, and the sockets that it feeds.
struct Live {
    // Fields drop in this order: no frame is redirected to a socket that is closed.
    _link: Link,
    queue: Queue,
    /// For each ring, the start of a frame of which more pieces are to come.
    partial: Vec<Option<Partial>>,
    /// For each ring, the kernel's counts as last read.
    counted: Vec<Counted>,
    pieces: bool,
    chunk: usize,
    _map: Map,
}

/// How the program is attached.
#[derive(Clone, Copy)]
struct Attached {
    hook: Hook,
    /// It puts VLAN tags back that the kernel has beside the frame.
    keeps_tags: bool,
}

/// What it takes to attach the program and to open the sockets.
struct HookUp<'a> {
    interface: &'a Interface,
    index: u32,
    hooks: &'static [Hook],
    pieces: bool,
    sorting: Option<&'a Sorting>,
    promiscuous: bool,
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

/// What this port has of the pool.
#[derive(Default)]
struct Ledger {
    /// For each slot, the pieces of its frame that are in flight.
    pieces: Vec<u8>,
    /// Lent slots that no ring has.
    spare: Vec<u32>,
    /// For each slot, whether it is lent.
    is_lent: Vec<bool>,
    lent: usize,
    /// Frames in flight, their pieces, and frames to be released that are no more.
    flying: usize,
    flying_pieces: usize,
    abandoned: Vec<FrameId>,
}

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
    /// Opens the interface in this thread's network namespace.
    fn open(config: PortConfig, hooks: &'static [Hook]) -> Result<Self> {
        let interface = Interface::open(&config.interface)?;
        let action = || format!("open an AF_XDP port on `{}`", config.interface);
        let failed = |cause| SystemError::new(action(), cause);
        check(&interface).map_err(|(why, cure)| SystemError::refused(action(), why, cure))?;
        let mut port = Self {
            index: interface.index().map_err(failed)?,
            mtu: interface.mtu().map_err(failed)?,
            namespace: NetNs::current()?,
            hooks,
            attached: Attached { hook: hooks[0], keeps_tags: false },
            finishes: leaves_checksums(&interface),
            state: PortState::Gone,
            counters: PortCounters::default(),
            live: None,
            shared: None,
            ledger: Ledger::default(),
            transmit: Transmit::default(),
            config,
            interface,
        };
        // Tried now, so that what cannot work is known before a pool exists.
        (_, port.attached) = port.hook_up().hook_up(&rings_map()?)?;
        port.state = port.look().unwrap_or(PortState::Gone);
        Ok(port)
    }

    fn hook_up(&self) -> HookUp<'_> {
        HookUp {
            interface: &self.interface,
            index: self.index,
            hooks: self.hooks,
            pieces: needs_pieces(self.mtu),
            sorting: self.config.sorting.as_ref(),
            promiscuous: self.config.promiscuous,
        }
    }

    /// Opens the sockets and attaches the program, in the namespace of the interface.
    fn go_live(&mut self, patience: Duration) -> Result<()> {
        let shared = self.shared.as_ref().expect("a pool is attached before sockets are opened");
        let area = Area {
            start: shared.memory.start(),
            len: shared.slots * shared.slot_len,
            chunk: chunk(self.mtu),
        };
        let config = QueueConfig {
            interface_index: self.index,
            ring_entries: self.ring_entries(),
            transmit_entries: TRANSMIT_ENTRIES,
            fill_max: self.lent_max(),
            pieces: needs_pieces(self.mtu),
            patience,
        };
        let hook_up = self.hook_up();
        // SAFETY: the pool lends the slots that `refill` pushes, so no one else uses them, and
        // `shared` keeps the memory until after the queue is dropped.
        let open = || unsafe { hook_up.open(area, config) };
        let (live, attached) =
            if self.namespace.is_current() { open()? } else { self.namespace.run(open)?? };
        self.attached = attached;
        self.transmit = Transmit::default();
        self.live = Some(live);
        Ok(())
    }

    /// Closes the sockets. Lent slots become spare; frames that the kernel took count as sent.
    fn close(&mut self) {
        self.read_kernel_counts();
        let Some(mut live) = self.live.take() else { return };
        let waiting = live.queue.transmit.frames_since(self.transmit.taken).len() as u64;
        for (ring, lost) in live.queue.received.iter_mut().zip(&mut self.counters.ring_overruns) {
            *lost += ring.waiting();
        }
        drop(live);
        let gone = self.ledger.abandon() as u64;
        self.counters.send_no_link += waiting;
        self.counters.sent += gone.saturating_sub(waiting + self.transmit.dropped);
        self.transmit = Transmit::default();
    }

    /// Follows the interface: another name, another interface of the same name, another MTU.
    fn look(&mut self) -> io::Result<PortState> {
        if self.index == 0 || self.interface.follow(self.index).is_err() {
            if self.index != 0 {
                self.index = 0;
                self.close();
                self.interface.rename(&self.config.interface);
            }
            self.index = self.interface.index()?;
            self.counters.rebinds += 1;
        }
        let mtu = self.interface.mtu()?;
        if needs_pieces(mtu) != needs_pieces(self.mtu) || slot_len(mtu) > slot_len(self.mtu) {
            // The bridge makes the pool's slots longer, and attaches it again.
            self.close();
        }
        self.mtu = mtu;
        let is_running = self.interface.is_running()?;
        if !is_running && self.is_sending() {
            // What the kernel did not take must not be sent whenever the cable is back.
            self.close();
        }
        if self.live.is_none() && self.can_go_live() {
            let opened = self.go_live(Duration::ZERO);
            opened.map_err(|error| error.cause)?;
        }
        Ok(if is_running { PortState::Up } else { PortState::Down })
    }

    /// Returns whether a pool is attached that fits the interface's MTU.
    fn can_go_live(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.slot_len >= slot_len(self.mtu))
    }

    fn is_sending(&self) -> bool {
        let next = self.live.as_ref().map(|live| live.queue.transmit.next());
        next.is_some_and(|next| next != self.transmit.taken)
    }

    fn ring_entries(&self) -> Vec<u32> {
        ring_entries(&self.config)
    }

    fn lent_max(&self) -> usize {
        lent_max(&self.config)
    }

    /// Lends slots up to the limit.
    fn refill(&mut self, pool: &mut FramePool) {
        let lent_max = self.lent_max();
        let (Some(live), Some(shared)) = (&mut self.live, &self.shared) else { return };
        let (ledger, fill) = (&mut self.ledger, &mut live.queue.fill);
        let mut room = fill.room();
        let address = |slot: u32| slot as u64 * shared.slot_len as u64;
        while room > 0 {
            let Some(slot) = ledger.spare.pop().or_else(|| ledger.borrow(pool, lent_max)) else {
                break;
            };
            fill.push(address(slot));
            room -= 1;
        }
        fill.publish();
    }

    /// Makes a frame of a received descriptor; `None` if more pieces are to come, or it is too
    /// long.
    fn take(&mut self, ring: usize, entry: xdp_desc, pool: &mut FramePool) -> Option<FrameId> {
        let (live, shared) = (self.live.as_mut()?, self.shared.as_ref()?);
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
        let slot_len = self.shared.as_ref().map_or(1, |shared| shared.slot_len);
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

    /// Adds what the kernel counted since the last time.
    fn read_kernel_counts(&mut self) {
        let Some(live) = &mut self.live else { return };
        let (mut dropped, mut without_slot) = (0, 0);
        for (ring, before) in live.counted.iter_mut().enumerate() {
            let Ok(now) = live.queue.statistics(ring) else { continue };
            self.counters.ring_overruns[ring] += now.rx_ring_full - before.ring_full;
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
        match self.hooks {
            [Hook::XdpGeneric] => KEYWORD_GENERIC,
            _ => KEYWORD,
        }
    }

    fn interface(&self) -> &str {
        self.interface.name()
    }

    fn address(&self) -> Option<Address> {
        self.interface.address().ok().map(Address::new)
    }

    fn set_up(&mut self, up: bool) -> Result<()> {
        let set = self.interface.set_up(up);
        self.refresh();
        set
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn slot_len(&self) -> usize {
        slot_len(self.mtu)
    }

    fn attach(&mut self, pool: &mut FramePool) -> Result<()> {
        let memory = Arc::clone(pool.memory());
        self.close();
        let (slot_len, slots) = (pool.slot_len(), pool.capacity());
        assert!(slot_len.is_multiple_of(chunk(self.mtu)), "slots are whole chunks");
        self.shared = Some(Shared { memory, slot_len, slots });
        self.ledger.resize(slots);
        self.go_live(PATIENCE)?;
        self.refill(pool);
        self.refresh();
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let name = self.interface.name();
        let mut warnings = Vec::new();
        if !self.attached.keeps_tags && self.interface.takes_tags_off().unwrap_or(true) {
            warnings.push(format!(
                "`{name}` may lose VLAN tags, which its kernel or network card keeps beside the \
                 frame: `ethtool -K {name} rxvlan off`, at the other end of a veth pair `ethtool \
                 -K PEER txvlan off tx-vlan-stag-hw-insert off`, or kind afpacket"
            ));
        }
        if self.finishes {
            let what = match self.attached.hook {
                Hook::XdpNative => "checksums inside tunnels that begin at the other end of",
                _ => "super-packets, and checksums inside tunnels, from the other end of",
            };
            warnings.push(format!(
                "{what} `{name}` are not finished: `ethtool -K PEER tx off` there, or kind afpacket"
            ));
        }
        warnings
    }

    fn state(&self) -> PortState {
        self.state
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let sockets = self.live.iter().flat_map(|live| live.queue.sockets());
        sockets.map(|socket| socket.as_raw_fd()).collect()
    }

    fn rings(&self) -> usize {
        self.config.sorting.as_ref().map_or(1, |sorting| sorting.plan.rings.clamp(1, RINGS_MAX))
    }

    fn receive(
        &mut self,
        ring: usize,
        frames_max: usize,
        pool: &mut FramePool,
        out: &mut Vec<Received>,
    ) -> bool {
        let is_ready = |live: &mut Live| live.queue.received[ring].is_ready();
        if !self.live.as_mut().is_some_and(is_ready) {
            return false;
        }
        // Before the frames are looked at: more may arrive meanwhile.
        self.refill(pool);
        let at_ns = monotonic_ns();
        let full = out.len() + frames_max;
        while out.len() < full {
            let next = self.live.as_mut().and_then(|live| live.queue.received[ring].pop());
            let Some(entry) = next else { break };
            let Some(frame) = self.take(ring, entry, pool) else { continue };
            if self.finishes && unfinished::complete(pool.bytes_mut(frame)) {
                self.counters.checksums_completed += 1;
            }
            self.counters.received += 1;
            self.counters.received_bytes += pool.bytes(frame).len() as u64;
            out.push(Received { frame, at_ns });
        }
        let Some(live) = &mut self.live else { return false };
        live.queue.received[ring].publish();
        live.queue.received[ring].is_ready()
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
        for frame in self.ledger.abandoned.drain(..) {
            pool.release(frame);
        }
        if self.is_sending() {
            self.flush(&[], &mut Sent::default());
        }
        let slot_len = self.shared.as_ref().map_or(1, |shared| shared.slot_len);
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
            if self.ledger.lent + REFILL_MIN <= self.lent_max() || !self.ledger.spare.is_empty() {
                self.refill(pool);
            }
        } else if self.index == 0 {
            self.ledger.return_spare(pool);
        }
    }

    fn held(&self) -> usize {
        self.ledger.lent + self.ledger.flying + self.ledger.abandoned.len()
    }

    fn held_max(&self) -> usize {
        held_max(&self.config)
    }

    fn deadline(&self) -> Option<u64> {
        self.is_sending().then_some(self.transmit.kicked_ns + KICK_AGAIN_NS)
    }

    fn refresh(&mut self) -> PortState {
        if let Some(live) = &self.live {
            live.queue.clear_errors();
        }
        self.state = self.look().unwrap_or(PortState::Gone);
        self.state
    }

    fn counters(&mut self) -> PortCounters {
        self.read_kernel_counts();
        self.counters
    }
}

impl HookUp<'_> {
    /// Opens the sockets, and then has the program redirect frames to them.
    ///
    /// # Safety
    /// As for [`Queue::open`].
    unsafe fn open(&self, area: Area, config: QueueConfig) -> Result<(Live, Attached)> {
        let name = self.interface.name();
        let failed = |cause: io::Error| {
            let mut error = SystemError::new(format!("open AF_XDP sockets on `{name}`"), cause);
            match error.errno() {
                Some(libc::EBUSY) => error.cure = "another program has its queue 0: end it".into(),
                Some(libc::ENOBUFS) => error.cure = MEMLOCK_CURE.into(),
                _ => {}
            }
            error
        };
        // SAFETY: the caller's promise.
        let queue = unsafe { Queue::open(area, config) }.map_err(failed)?;
        if self.promiscuous {
            self.interface.set_promiscuous(self.index).map_err(failed)?;
        }
        let map = rings_map()?;
        for (ring, socket) in queue.sockets().enumerate() {
            map.set_descriptor(ring, socket)?;
        }
        let (link, attached) = self.hook_up(&map)?;
        let rings = queue.received.len();
        let live = Live {
            _link: link,
            queue,
            partial: vec![None; rings],
            counted: vec![Counted::default(); rings],
            pieces: self.pieces,
            chunk: area.chunk,
            _map: map,
        };
        Ok((live, attached))
    }

    /// Attaches the program that hands each frame to the socket of its ring.
    fn hook_up(&self, map: &Map) -> Result<(Link, Attached)> {
        let mut outcome = self.hook_up_at(self.hooks[0], map);
        for hook in &self.hooks[1..] {
            let is_final = |error: &SystemError| {
                // Another program is there, or privileges are missing: the next place is no better.
                matches!(error.errno(), Some(libc::EBUSY | libc::EEXIST | libc::EPERM))
            };
            match outcome {
                Err(error) if !is_final(&error) => outcome = self.hook_up_at(*hook, map),
                _ => break,
            }
        }
        outcome
    }

    fn hook_up_at(&self, hook: Hook, map: &Map) -> Result<(Link, Attached)> {
        let kind = if self.pieces { bpf::Kind::XdpFragments } else { bpf::Kind::Xdp };
        if let (Hook::XdpNative, Some(number)) = (hook, bpf::kernel_function(TAG_FUNCTION)) {
            let code = program::to_rings(Some(number), self.sorting, map);
            let program = Program::load_for(kind, PROGRAM_NAME, &code, Some(self.index));
            // A driver that has no such function refuses the program.
            if let Ok(program) = program {
                let link = program.attach(self.index, hook)?;
                return Ok((link, Attached { hook, keeps_tags: true }));
            }
        }
        let program =
            Program::load(kind, PROGRAM_NAME, &program::to_rings(None, self.sorting, map))?;
        Ok((program.attach(self.index, hook)?, Attached { hook, keeps_tags: false }))
    }
}

impl Ledger {
    fn resize(&mut self, slots: usize) {
        self.pieces.resize(slots, 0);
        self.is_lent.resize(slots, false);
    }

    /// Lends one more slot of the pool, if fewer than `lent_max` are.
    fn borrow(&mut self, pool: &mut FramePool, lent_max: usize) -> Option<u32> {
        if self.lent >= lent_max {
            return None;
        }
        let slot = pool.lend()?;
        self.is_lent[slot as usize] = true;
        self.lent += 1;
        Some(slot)
    }

    fn end_loan(&mut self, slot: u32) {
        let is_lent = &mut self.is_lent[slot as usize];
        assert!(*is_lent, "the kernel writes only to slots that were lent");
        *is_lent = false;
        self.lent -= 1;
    }

    fn lent_slots(&self) -> Vec<u32> {
        (0..).zip(&self.is_lent).filter(|(_, is_lent)| **is_lent).map(|(slot, _)| slot).collect()
    }

    fn take_off(&mut self, frame: FrameId, pieces: usize) {
        self.pieces[frame.0 as usize] = pieces as u8;
        self.flying += 1;
        self.flying_pieces += pieces;
    }

    /// Counts a piece as sent; returns whether it was the frame's last.
    fn land(&mut self, frame: FrameId) -> bool {
        let pieces = &mut self.pieces[frame.0 as usize];
        assert!(*pieces > 0, "the kernel completes only what was sent");
        *pieces -= 1;
        self.flying_pieces -= 1;
        self.flying -= usize::from(*pieces == 0);
        *pieces == 0
    }

    /// Takes everything from the rings, which are no more; returns how many frames were in flight.
    fn abandon(&mut self) -> usize {
        self.spare = self.lent_slots();
        let flying = self.flying;
        for (slot, pieces) in (0..).zip(&mut self.pieces) {
            if *pieces > 0 {
                *pieces = 0;
                self.abandoned.push(FrameId(slot));
            }
        }
        (self.flying, self.flying_pieces) = (0, 0);
        flying
    }

    fn return_spare(&mut self, pool: &mut FramePool) {
        for slot in self.spare.drain(..) {
            self.is_lent[slot as usize] = false;
            self.lent -= 1;
            pool.take_back(slot);
        }
    }
}

/// Returns the entries of each receive ring, powers of two.
fn ring_entries(config: &PortConfig) -> Vec<u32> {
    let rings = config.sorting.as_ref().map_or(1, |sorting| sorting.plan.rings);
    let slots = |ring| if ring == 0 { config.ring_slots } else { config.ring_slots / 4 };
    let power = |slots: usize| slots.max(1).next_power_of_two() as u32;
    (0..rings.clamp(1, RINGS_MAX)).map(|ring| power(slots(ring))).collect()
}

/// Returns the most slots that are lent: so many that a ring can be full and the others still get
/// frames.
fn lent_max(config: &PortConfig) -> usize {
    ring_entries(config).iter().sum::<u32>() as usize + LENT_BESIDE_RINGS
}

fn held_max(config: &PortConfig) -> usize {
    lent_max(config) + TRANSMIT_ENTRIES as usize
}

/// Returns the room of a port on an interface with this MTU.
fn room(config: &PortConfig, mtu: usize) -> Room {
    let received = ring_entries(config).iter().sum::<u32>() as usize;
    let transmit = TRANSMIT_ENTRIES as usize;
    let places = lent_max(config).next_power_of_two() + transmit;
    let frames = (received + transmit) * size_of::<libc::xdp_desc>();
    Room {
        slot_len: slot_len(mtu),
        held_max: held_max(config),
        ring_bytes: frames + places * size_of::<u64>(),
    }
}

/// Returns why AF_XDP cannot serve an interface, and the cure.
fn check(interface: &Interface) -> std::result::Result<(), (String, String)> {
    let name = interface.name();
    // A driver that does not say has one queue.
    let queues = interface.receive_queues().unwrap_or(1);
    if queues > 1 {
        let why = format!("it receives into {queues} queues, and a policy rules over one");
        return Err((
            why,
            format!("`ethtool -L {name} combined 1` (or `rx 1 tx 1`), or kind afpacket"),
        ));
    }
    let mtu = interface.mtu().unwrap_or_default();
    if mtu > MTU_MAX {
        let why = format!("its MTU {mtu} is above {MTU_MAX}");
        return Err((why, format!("`ip link set {name} mtu {MTU_MAX}`, or kind afpacket")));
    }
    Ok(())
}

/// Returns whether the other end of an interface may be a sender on the same machine, which leaves
/// checksums to hardware that does not exist.
fn leaves_checksums(interface: &Interface) -> bool {
    const DRIVERS: [&str; 3] = ["veth", "virtio_net", "tun"];
    interface.driver().is_ok_and(|driver| DRIVERS.contains(&driver.as_str()))
}

fn rings_map() -> Result<Map> {
    Map::sockets("weir_rings", RINGS_MAX)
}

/// Returns whether frames of this MTU may lie in several chunks.
fn needs_pieces(mtu: usize) -> bool {
    mtu + HEADER_AND_TAGS + HEADROOM > CHUNK_MIN
}

fn chunk(mtu: usize) -> usize {
    if needs_pieces(mtu) { CHUNK_MAX } else { CHUNK_MIN }
}

/// Returns the length of a slot: whole chunks, with room for the kernel before the frame.
fn slot_len(mtu: usize) -> usize {
    (HEADROOM + mtu + HEADER_AND_TAGS).next_multiple_of(chunk(mtu))
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

const HEADER_LEN: usize = 14;
const TAG_LEN: usize = 4;
const HEADER_AND_TAGS: usize = HEADER_LEN + 2 * TAG_LEN;
/// What the kernel leaves free before a received frame (XDP_PACKET_HEADROOM).
const HEADROOM: usize = 256;
/// The lengths of a chunk that the kernel allows where a page has 4 KiB.
const CHUNK_MIN: usize = 2048;
const CHUNK_MAX: usize = 4096;
/// The longest MTU: a frame has fewer pieces than the kernel's packets may have.
const MTU_MAX: usize = 16_000;
/// Entries of the transmit and completion rings.
const TRANSMIT_ENTRIES: u32 = 2048;
/// Slots that are lent beyond the entries of the receive rings: pieces that are joined, and those
/// that the kernel has in hand.
const LENT_BESIDE_RINGS: usize = 128;
/// So many slots fewer than could be lent are lent before `reclaim` lends more.
const REFILL_MIN: usize = 64;
/// How many times in a row the kernel may take nothing before the frames wait.
const REFUSALS_MAX: u32 = 3;
/// After this time frames that wait in the transmit ring are offered again.
const KICK_AGAIN_NS: u64 = 50_000;
/// How long a queue may stay busy after the process that had it ended.
const PATIENCE: Duration = Duration::from_secs(2);
/// The name by which `bpftool` lists the program.
const PROGRAM_NAME: &str = "weir_port";
/// The kernel's function that returns the VLAN tag beside a frame (Linux 6.8).
const TAG_FUNCTION: &str = "bpf_xdp_metadata_rx_vlan_tag";

const MEMLOCK_CURE: &str = "give the program CAP_IPC_LOCK, or raise the limit of locked memory \
     (ulimit -l), or configure smaller limits";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_whole_chunks_that_hold_a_frame() {
        let rows = [
            (68, false, 2048),
            (1500, false, 2048),
            (1770, false, 2048),
            (1771, true, 4096),
            (3818, true, 4096),
            (3819, true, 8192),
            (9000, true, 12_288),
        ];
        for (mtu, pieces, expected) in rows {
            assert_eq!((needs_pieces(mtu), slot_len(mtu)), (pieces, expected), "MTU {mtu}");
        }
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
