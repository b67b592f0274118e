//! One Ethernet interface as a source and sink of frames, over AF_PACKET.
//!
//! The privileged half (`authority.rs`) makes the sockets; this half maps their rings and moves
//! frames. Frames arrive in a receive ring and are finished on arrival (checksums, super-packets,
//! VLAN tag), so that what is scheduled is what will be on the wire. Where frames are sorted there
//! are several sockets in one fanout group, each with its ring, and the kernel runs the program
//! that chooses the ring; several threads may share them (`afpacket/share.rs`). Frames leave by
//! `sendmmsg` on a socket of their own, bypassing the interface's own queueing, segments of one
//! super-packet joined again (`afpacket/sender.rs`); what is too long for that goes another way
//! (`afpacket/long.rs`). An interface may disappear and come back.
//!
//! Invariant: each frame taken from a ring is delivered, or counted once in [`PortCounters`].

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use super::{
    BATCH, Kind, LaneRules, NewRings, Port, PortConfig, PortCounters, PortState, RINGS_MAX,
    Reached, Received, Room, Sent, ShareHandle, SortHandle, complete_sum,
};
use crate::authority::{
    Authority, PacketParts, PassedDescriptors, PortReply, PortRequest, Reply, RingShape, misfit,
};
use crate::offload::{self, OFFLOAD_HEADER_LEN, OffloadHeader, Plan, SUPER_PACKET_MAX, Tag};
use crate::pool::{FrameId, FramePool};
use crate::ring::{Ring, Slot};
use crate::stations::Address;
use authority::PacketAuthority;
use long::LongSender;
use sender::{Outcome, Sender};
use share::{Group, Share, Sharers};
use sort::{Handle, Order, Shared, Sharing, lock};
use weir_host::error::{Result, SystemError};
use weir_host::fanout;
use weir_host::interface::{Interface, is_running};
use weir_host::socket;
use weir_host::wait::{monotonic_ns, realtime_ns};

/// Any super-packet, with what the kernel says of it.
const SCRATCH_LEN: usize = SUPER_PACKET_MAX + OFFLOAD_HEADER_LEN;
/// How many times a frame is offered again that the interface refuses for lack of room.
const REFUSALS_MAX: u32 = 3;

pub(super) mod authority;
mod long;
mod sender;
mod share;
mod sort;

pub(super) struct AfPacket {
    config: PortConfig,
    /// Shared with the thread that changes the sorting, and with those of other shares.
    sharing: Sharing,
    /// The part of the port that this is.
    share: Share,
    /// Whether frames come in.
    intake: bool,
    interface: Interface,
    /// Of the interface that the sockets are bound to; 0 where they could not be bound.
    index: u32,
    mtu: usize,
    state: PortState,
    counters: PortCounters,
    receivers: Vec<Receiver>,
    order: Order,
    /// Whether the receivers share one stream of frames, sorted; else only the first is bound.
    is_sorting: bool,
    tx: Sender,
    /// Sends what `tx` may not, being too long.
    long: Option<LongSender>,
    scratch: Vec<u8>,
}

/// A socket with its ring.
#[derive(Debug)]
pub(super) struct Receiver {
    /// The number of the socket in its group.
    place: u8,
    stamps: Stamps,
    // The ring must be unmapped before its socket is closed: fields drop in this order.
    ring: Ring,
    socket: OwnedFd,
    /// Whether the socket queues super-packets that are too long for a slot.
    queues_whole: bool,
}

/// The line of this kind in [`super::KINDS`].
pub(super) const KIND: Kind = Kind {
    keyword: KEYWORD,
    summary: "packet sockets: every Ethernet interface, least privilege",
    suits: Some(|_| Ok(())),
    room,
    authority: |config| Ok(Box::new(PacketAuthority::new(config)?)),
    open: |config, authority| Ok(Box::new(AfPacket::open(config, authority)?)),
};

const KEYWORD: &str = "afpacket";

impl AfPacket {
    fn open(config: PortConfig, mut authority: Box<dyn Authority>) -> Result<Self> {
        let reply = authority.ask(PortRequest::Open { intake: config.intake }, Vec::new())?;
        Ok(Self::with(config, authority, reply)?.0)
    }

    /// The port of these parts; returns also the descriptors that are no part of it.
    pub(super) fn with(
        config: PortConfig,
        authority: Box<dyn Authority>,
        reply: PortReply,
    ) -> Result<(Self, Vec<OwnedFd>)> {
        let name = config.interface.clone();
        let Reply::Packet(parts) = reply.reply else { return Err(misfit(&name)) };
        let is_sorting = parts.is_sorting;
        let mut parcel = PassedDescriptors::new(reply.descriptors, &name);
        let mut made = Made::of(parts, &mut parcel, &name)?;
        let shared = Shared {
            authority,
            first: made.first(&name)?,
            is_sorting,
            rings: made.receivers.len(),
            group: Group::new(&config, &mut made.receivers),
            epoch: 0,
            interface: name.clone(),
        };
        let port = Self::of(config, Arc::new(Mutex::new(shared)), Share::first(0), made)?;
        Ok((port, parcel.rest()))
    }

    /// A share of the port, of these parts.
    fn of(config: PortConfig, sharing: Sharing, share: Share, made: Made) -> Result<Self> {
        let name = &config.interface;
        let failed = |cause| SystemError::new(format!("open a port on `{name}`"), cause);
        let mut port = Self {
            intake: config.intake,
            sharing,
            share,
            index: made.index,
            mtu: made.interface.mtu().map_err(failed)?,
            interface: made.interface,
            state: PortState::Gone,
            counters: PortCounters::default(),
            receivers: made.receivers,
            order: Order::default(),
            is_sorting: made.is_sorting,
            tx: Sender::new(made.tx),
            long: made.long,
            scratch: vec![0; SCRATCH_LEN],
            config,
        };
        port.refresh();
        Ok(port)
    }

    fn follow_interface(&mut self) -> io::Result<PortState> {
        let index = self.interface.find(self.index, &self.config.interface)?;
        if self.share.number > 0 {
            if index != self.index || self.is_left_behind() {
                self.rejoin().map_err(|error| error.cause)?;
            }
        } else if index != self.index || !self.is_bound() {
            // Until it is bound the next refresh tries again.
            self.index = 0;
            self.index = self.bind().map_err(|error| error.cause)?;
            self.counters.rebinds += 1;
            self.tx.forget_refusals();
        }
        self.tx.set_takes_joined(self.interface.cuts_tcp().unwrap_or(false));
        // Frames too long for a slot of the ring come through the socket's queue, so only the pool
        // has to hold longer ones.
        let found = self.interface.mtu_and_flags(self.index)?;
        let Some((mtu, flags)) = found else { return Ok(self.state) };
        self.mtu = mtu;
        if flags & libc::IFF_UP != 0 && !self.is_sorting && self.wants_group() {
            // Unsorted frames all come by the first ring; the next refresh tries again.
            self.is_sorting = self.start_sorting().is_ok();
        }
        Ok(if is_running(flags) { PortState::Up } else { PortState::Down })
    }

    /// Returns whether the receiving sockets are to be a fanout group.
    fn wants_group(&self) -> bool {
        self.config.sorting.is_some() || self.config.shares > 1
    }

    /// Returns whether the sockets are still bound. An interface may go and come back under the
    /// same number, and then they are not.
    fn is_bound(&self) -> bool {
        let receiving = self.receivers.iter().take(1).map(|receiver| receiver.socket.as_fd());
        let bound = |socket| socket::bound_interface(socket).ok().map(|index| index as u32);
        receiving.chain([self.tx.socket()]).all(|socket| bound(socket) == Some(self.index))
    }

    /// Has the sockets bound to the interface that now has the name; returns its number. A socket
    /// of a fanout group cannot be bound anew, so those are made again.
    fn bind(&mut self) -> Result<u32> {
        let name = &self.config.interface;
        let (intake, anew) = (self.intake, self.wants_group());
        let receiving = self.receivers.iter().map(|receiver| receiver.socket.as_fd());
        let passed = [self.tx.socket()].into_iter().chain(receiving.filter(|_| !anew));
        let mut shared = lock(&self.sharing);
        let reply =
            shared.authority.ask(PortRequest::Bind { intake, anew, queue: 0 }, copies(passed)?)?;
        let Reply::Packet(parts) = reply.reply else { return Err(misfit(name)) };
        if anew {
            let failed = |cause| SystemError::new(format!("open a port on `{name}`"), cause);
            let mut parcel = PassedDescriptors::new(reply.descriptors, name);
            let map = |shape| Receiver::map(parcel.next()?, shape).map_err(failed);
            let mut made = parts.rings.into_iter().map(map).collect::<Result<Vec<_>>>()?;
            let first = made.first().ok_or_else(|| misfit(name))?;
            let first = first.socket.try_clone().map_err(failed)?;
            shared.begin_anew(first, &self.config, &mut made);
            self.share = Share::first(shared.epoch);
            drop(shared);
            self.count_lost(true);
            self.receivers.clear();
            self.receivers.append(&mut made);
            (self.is_sorting, self.order) = (false, Order::default());
        }
        Ok(parts.index)
    }

    fn start_sorting(&mut self) -> Result<()> {
        let receiving = self.receivers.iter().map(|receiver| receiver.socket.as_fd());
        let passed = copies(receiving)?;
        let mut shared = lock(&self.sharing);
        shared.authority.ask(PortRequest::Sort { intake: self.intake }, passed)?;
        shared.is_sorting = true;
        shared.epoch += 1;
        self.share = Share::first(shared.epoch);
        Ok(())
    }

    /// Takes the frame in front of a ring; returns whether there is one.
    fn take(&mut self, ring: usize, pool: &mut FramePool, out: &mut Vec<Received>) -> bool {
        let receiver = &mut self.receivers[ring];
        let Some(slot) = receiver.ring.front() else { return false };
        // Those of several rings, too, come in the order of their stamps.
        let before_ns = out.last().map_or(0, |last| last.at_ns);
        let at_ns = receiver.stamps.monotonic(slot.realtime_ns).max(before_ns);
        let queue_of = receiver.queues_whole.then_some(ring);
        let counters = &mut self.counters;
        let mut delivery = Delivery { pool, out, counters, at_ns, queue_of };
        if slot.is_queued_whole {
            let whole = read_whole(receiver.socket.as_fd(), &mut self.scratch);
            delivery.finish_whole(whole, &slot);
        } else {
            delivery.finish_slot(&slot);
        }
        receiver.ring.release();
        true
    }

    /// As [`Port::receive`], of all rings, the earliest frames first.
    fn receive_in_order(
        &mut self,
        frames_max: usize,
        pool: &mut FramePool,
        out: &mut Vec<Received>,
    ) -> Reached {
        let (now_ns, wall_now_ns) = (monotonic_ns(), realtime_ns());
        for receiver in &mut self.receivers {
            receiver.stamps.start_batch(now_ns, wall_now_ns);
        }
        let full = out.len() + frames_max;
        while out.len() < full {
            let Some(ring) = self.earliest() else { break };
            self.take(ring, pool, out);
        }
        let more = self.receivers.iter().any(|receiver| receiver.ring.is_ready());
        Reached::up_to(out.last(), more)
    }

    /// Counts the frames that the rings had no room for, and, where the rings go, those in them.
    fn count_lost(&mut self, with_waiting: bool) {
        for (receiver, lost) in self.receivers.iter().zip(&mut self.counters.ring_overruns) {
            let statistics: io::Result<libc::tpacket_stats> =
                socket::option(receiver.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS);
            if let Ok(statistics) = statistics {
                *lost += u64::from(statistics.tp_drops);
            }
            if with_waiting {
                *lost += receiver.ring.waiting();
            }
        }
    }

    /// Sends a frame that was refused for its length in another way; fails as before if it cannot.
    fn send_long(&mut self, cause: io::Error, frame: &[u8]) -> io::Result<usize> {
        match &mut self.long {
            Some(long) if cause.raw_os_error() == Some(libc::EMSGSIZE) => {
                long.send(self.index, self.mtu, frame).map(|()| 1)
            }
            _ => Err(cause),
        }
    }

    fn judge(&mut self, cause: &io::Error, refusals: u32) -> Judgement {
        let counters = &mut self.counters;
        match cause.raw_os_error() {
            Some(libc::EINTR) => return Judgement::Again,
            // The socket's own buffer is full: frames wait in the interface. Nothing is lost.
            Some(libc::EAGAIN) => return Judgement::Later,
            Some(libc::ENOBUFS) if refusals < REFUSALS_MAX => return Judgement::Again,
            Some(libc::ENOBUFS) => counters.send_refused += 1,
            Some(libc::EMSGSIZE) => counters.send_too_long += 1,
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                self.refresh();
                return Judgement::DropAll;
            }
            _ => counters.send_failed += 1,
        }
        Judgement::DropOne
    }
}

impl Port for AfPacket {
    fn kind(&self) -> &'static str {
        KEYWORD
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
        Vec::new()
    }

    fn room(&self) -> Room {
        room(&self.config, self.mtu)
    }

    fn attach(&mut self, _pool: &mut FramePool) -> Result<()> {
        Ok(())
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.receivers.iter().map(|receiver| receiver.socket.as_raw_fd()).collect()
    }

    fn rings(&self) -> usize {
        self.receivers.len()
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
        if self.order != Order::ByRing {
            return match ring {
                0 => self.receive_in_order(frames_max, pool, out),
                _ => Reached::All,
            };
        }
        let receiver = &mut self.receivers[ring];
        if !receiver.ring.is_ready() {
            return Reached::All;
        }
        receiver.stamps.start_batch(monotonic_ns(), realtime_ns());
        let full = out.len() + frames_max;
        while out.len() < full {
            if !self.take(ring, pool, out) {
                return Reached::All;
            }
        }
        Reached::up_to(out.last(), self.receivers[ring].ring.is_ready())
    }

    fn sorter(&self) -> Option<Arc<dyn SortHandle>> {
        let handle = || Arc::new(Handle(Arc::downgrade(&self.sharing))) as Arc<dyn SortHandle>;
        self.config.sorting.is_some().then(handle)
    }

    fn sharers(&self) -> Option<Arc<dyn ShareHandle>> {
        let handle = || Arc::new(Sharers::of(self)) as Arc<dyn ShareHandle>;
        (self.config.shares > 1).then(handle)
    }

    fn begin_sorting(&mut self, made: &mut NewRings) -> bool {
        self.begin(made)
    }

    fn end_sorting(&mut self, retired: u8) {
        self.end(retired);
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[FrameId]) -> Sent {
        let mut outcome = Sent::default();
        let (mut refusals, mut joins) = (0, true);
        while outcome.taken < frames.len() {
            let rest = &frames[outcome.taken..];
            let sent = match self.tx.send(pool, rest, joins) {
                Outcome::Sent(count, joined) => {
                    self.counters.joined += joined;
                    Ok(count)
                }
                Outcome::Refused(cause) => self.send_long(cause, pool.bytes(rest[0])),
                Outcome::RefusedJoined => {
                    joins = false;
                    continue;
                }
            };
            match sent {
                Ok(count) => {
                    let bytes = |frame: &FrameId| pool.bytes(*frame).len() as u64;
                    self.counters.sent += count as u64;
                    self.counters.sent_bytes += rest[..count].iter().map(bytes).sum::<u64>();
                    outcome.taken += count;
                    refusals = 0;
                }
                Err(cause) => match self.judge(&cause, refusals) {
                    Judgement::Again => refusals += 1,
                    Judgement::Later => break,
                    Judgement::DropOne => {
                        outcome.lose(1);
                        refusals = 0;
                    }
                    Judgement::DropAll => {
                        self.counters.send_no_link += rest.len() as u64;
                        outcome.lose(rest.len());
                    }
                },
            }
        }
        frames[..outcome.taken].iter().for_each(|frame| pool.release(*frame));
        outcome
    }

    fn reclaim(&mut self, _pool: &mut FramePool) {
        // The kernel has copied what was sent.
    }

    fn deadline(&self) -> Option<u64> {
        None
    }

    fn held(&self) -> usize {
        0
    }

    fn lent(&self) -> usize {
        0
    }

    fn state(&self) -> PortState {
        self.state
    }

    fn refresh(&mut self) -> PortState {
        // Reading the pending error clears it; else the descriptor would wake the loop again and
        // again.
        let receiving = self.receivers.iter().map(|receiver| receiver.socket.as_fd());
        for socket in receiving.chain([self.tx.socket()]) {
            let _pending: io::Result<c_int> =
                socket::option(socket, libc::SOL_SOCKET, libc::SO_ERROR);
        }
        self.state = self.follow_interface().unwrap_or(PortState::Gone);
        self.state
    }

    fn set_up(&mut self, up: bool) -> Result<()> {
        let set = lock(&self.sharing).authority.ask(PortRequest::SetUp(up), Vec::new());
        self.refresh();
        set.map(drop)
    }

    fn set_intake(&mut self, open: bool) -> Result<()> {
        self.intake = open;
        let withheld = self.config.withheld;
        let set = |socket| match open {
            true => fanout::refuse_only(socket, withheld),
            false => fanout::refuse_all(socket),
        };
        let mut sockets = self.receivers.iter().map(|receiver| receiver.socket.as_fd());
        let outcome = sockets.try_for_each(set);
        let verb = if open { "open" } else { "close" };
        let action = || format!("{verb} the intake of `{}`", self.interface.name());
        outcome.map_err(|cause| SystemError::new(action(), cause))?;
        self.take_places()
    }

    fn counters(&mut self) -> PortCounters {
        self.count_lost(false);
        self.counters
    }
}

impl Receiver {
    fn map(socket: OwnedFd, shape: RingShape) -> io::Result<Self> {
        let ring = Ring::map(socket.as_fd(), shape)?;
        let queues_whole = shape.queues_whole;
        Ok(Self { place: 0, stamps: Stamps::default(), ring, socket, queues_whole })
    }
}

/// The parts of a port, as its authority made them.
struct Made {
    index: u32,
    is_sorting: bool,
    interface: Interface,
    tx: OwnedFd,
    long: Option<LongSender>,
    receivers: Vec<Receiver>,
}

impl Made {
    fn of(parts: PacketParts, parcel: &mut PassedDescriptors<'_>, name: &str) -> Result<Self> {
        let failed = |cause| SystemError::new(format!("open a port on `{name}`"), cause);
        let interface = Interface::of(parcel.next()?, name);
        let tx = parcel.next()?;
        let map_long = |shape| LongSender::map(parcel.next()?, shape).map_err(failed);
        let long = parts.long.map(map_long).transpose()?;
        let map = |shape| Receiver::map(parcel.next()?, shape).map_err(failed);
        let receivers = parts.rings.into_iter().map(map).collect::<Result<_>>()?;
        let PacketParts { index, is_sorting, .. } = parts;
        Ok(Self { index, is_sorting, interface, tx, long, receivers })
    }

    /// Returns a copy of the first receiving socket.
    fn first(&self, name: &str) -> Result<OwnedFd> {
        let first = self.receivers.first().ok_or_else(|| misfit(name))?;
        let copied = first.socket.try_clone();
        copied.map_err(|cause| SystemError::new(format!("open a port on `{name}`"), cause))
    }
}

/// Returns copies of sockets, to be passed.
fn copies<'a>(sockets: impl Iterator<Item = BorrowedFd<'a>>) -> Result<Vec<OwnedFd>> {
    let copies = sockets.map(|socket| socket.try_clone_to_owned()).collect::<io::Result<_>>();
    copies.map_err(|cause| SystemError::new("copy a descriptor", cause))
}

/// The treatment of a frame that could not be sent.
enum Judgement {
    Again,
    Later,
    DropOne,
    DropAll,
}

/// The destination of one received frame.
struct Delivery<'a> {
    pool: &'a mut FramePool,
    out: &'a mut Vec<Received>,
    counters: &'a mut PortCounters,
    at_ns: u64,
    /// The ring, if its socket also queues what is too long for a slot.
    queue_of: Option<usize>,
}

impl Delivery<'_> {
    fn finish_slot(&mut self, slot: &Slot<'_>) {
        if slot.len > slot.bytes.len() || slot.bytes.is_empty() {
            self.count_truncated(slot);
            return;
        }
        self.finish(slot.bytes, &slot.offload, slot.tag);
    }

    fn finish_whole(&mut self, whole: Option<(OffloadHeader, &[u8])>, slot: &Slot<'_>) {
        match whole {
            Some((offload, bytes)) => self.finish(bytes, &offload, slot.tag),
            None => self.count_truncated(slot),
        }
    }

    fn count_truncated(&mut self, slot: &Slot<'_>) {
        let frames = slot.offload.count(slot.bytes, slot.len) as u64;
        match self.queue_of {
            // It would have fitted the socket's queue, so that was full.
            Some(ring) if slot.len <= SCRATCH_LEN => self.counters.ring_overruns[ring] += frames,
            _ => self.counters.truncated += frames,
        }
    }

    fn finish(&mut self, bytes: &[u8], offload: &OffloadHeader, tag: Option<Tag>) {
        let Ok(plan) = offload::plan(bytes, offload) else {
            self.counters.unfinished += offload.count(bytes, bytes.len()) as u64;
            return;
        };
        match plan {
            Plan::Whole { checksum: None } => {}
            Plan::Whole { checksum: Some(_) } => self.counters.checksums_completed += 1,
            Plan::Cut(_) => self.counters.super_packets += 1,
        }
        if plan.longest(bytes, tag) > self.pool.slot_len() {
            self.counters.oversize += plan.count() as u64;
            return;
        }
        let numbered = plan.cuts_plain_tcp() && tag.is_none();
        let plan = if numbered { plan.without_sums() } else { plan };
        let first = numbered.then(|| self.pool.number_segments(plan.count()));
        for index in 0..plan.count() {
            let delivered = self.deliver(&plan, bytes, tag, index);
            if let (Some(frame), Some(first)) = (delivered, first) {
                self.pool.set_segment(frame, first.wrapping_add(index as u32));
            }
        }
    }

    fn deliver(
        &mut self,
        plan: &Plan,
        bytes: &[u8],
        tag: Option<Tag>,
        index: usize,
    ) -> Option<FrameId> {
        if self.pool.free_count() == 0 {
            self.counters.pool_exhausted += 1;
            return None;
        }
        let mut len = 0;
        let inserted = self.pool.insert_with(|chunk| {
            len = plan.write(bytes, tag, index, chunk)?;
            Some(len)
        });
        let Some(frame) = inserted else {
            // The frame is too short to carry its tag.
            self.counters.unfinished += 1;
            return None;
        };
        self.counters.received += 1;
        self.counters.received_bytes += len as u64;
        self.out.push(Received::new(frame, self.at_ns, self.pool));
        Some(frame)
    }
}

/// Converts the ring's stamps, which follow the wall clock, to monotonic ones that never go back.
#[derive(Debug, Default)]
struct Stamps {
    now_ns: u64,
    wall_now_ns: u64,
    last_ns: u64,
}

impl Stamps {
    fn start_batch(&mut self, now_ns: u64, wall_now_ns: u64) {
        (self.now_ns, self.wall_now_ns) = (now_ns, wall_now_ns);
    }

    /// A stamp taken before the wall clock was set is outside [last, now] and is clamped to its
    /// edge.
    fn monotonic(&mut self, wall_ns: u64) -> u64 {
        let age_ns = self.wall_now_ns.saturating_sub(wall_ns);
        // A frame may arrive after the clocks were read, so `now` of this batch is not an upper
        // bound.
        let ahead_ns = wall_ns.saturating_sub(self.wall_now_ns).min(AHEAD_MAX_NS);
        let at_ns = self.now_ns.saturating_sub(age_ns).saturating_add(ahead_ns);
        self.last_ns = self.last_ns.max(at_ns);
        self.last_ns
    }
}

/// A batch takes less; a stamp further ahead comes from a wall clock that was set back.
const AHEAD_MAX_NS: u64 = 1_000_000;

/// Returns the room of a port that may queue super-packets whole.
pub(super) fn room(config: &PortConfig, mtu: usize) -> Room {
    let bytes = |ring| Ring::bytes_for(authority::slot_len(mtu, true), config.ring_slots(ring));
    let others = (config.shares - 1) * (bytes(0) + SCRATCH_LEN);
    Room {
        slot_len: FramePool::slot_for(mtu),
        held_max: 0,
        ring_bytes: (0..config.rings()).map(bytes).sum::<usize>() + SCRATCH_LEN + others,
        shares_memory: false,
    }
}

/// Returns the next frame of the socket's queue, where those too long for a slot wait in ring
/// order.
fn read_whole<'a>(rx: BorrowedFd<'_>, scratch: &'a mut [u8]) -> Option<(OffloadHeader, &'a [u8])> {
    // MSG_TRUNC returns the original length, so that a frame too long even for this is recognised.
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: `scratch` is valid for writing its whole length.
    let len =
        unsafe { libc::recv(rx.as_raw_fd(), scratch.as_mut_ptr().cast(), scratch.len(), flags) };
    let message = scratch.get(..usize::try_from(len).ok()?)?;
    let (header, bytes) = message.split_first_chunk::<OFFLOAD_HEADER_LEN>()?;
    Some((OffloadHeader::parse(header), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_become_monotonic_and_never_go_back() {
        // wall clock stamp -> monotonic; the batch starts at monotonic 1000 us = wall 5000 us
        let rows = [
            (4_900, 900),
            (4_950, 950),
            (4_940, 950),
            (5_000, 1_000),
            (5_010, 1_010),
            (9_000_000, 2_000),
            (0, 2_000),
        ];
        let mut stamps = Stamps::default();
        stamps.start_batch(1_000_000, 5_000_000);
        for (wall_us, expected_us) in rows {
            assert_eq!(stamps.monotonic(wall_us * 1_000), expected_us * 1_000, "{wall_us} us");
        }
    }

    /// Delivers one slot into a pool of `chunks` chunks of 128 bytes and checks where its frames
    /// are counted.
    fn check_delivery(what: &str, slot: Slot<'_>, chunks: u32, expected: PortCounters) {
        let mut pool = FramePool::new(chunks, 128);
        let (mut out, mut counters) = (Vec::new(), PortCounters::default());
        let (pool, out, counters) = (&mut pool, &mut out, &mut counters);
        Delivery { pool, out, counters, at_ns: 7, queue_of: None }.finish_slot(&slot);
        assert_eq!(*counters, expected, "{what}");
        assert_eq!(out.len() as u64, counters.received, "{what}");
        let bytes: usize = out.iter().map(|received| pool.bytes(received.frame).len()).sum();
        assert_eq!(bytes as u64, counters.received_bytes, "{what}");
        assert_eq!(pool.capacity() - pool.free_count(), out.len(), "{what}");
    }

    #[test]
    fn each_frame_is_delivered_or_counted_where_it_was_lost() {
        let frame = [0; 124];
        let slot = Slot {
            bytes: &frame,
            len: 124,
            offload: OffloadHeader::default(),
            tag: None,
            realtime_ns: 0,
            is_queued_whole: false,
        };
        let tag = Some(Tag { tpid: 0x8100, tci: 1 });
        let checksum = OffloadHeader { flags: 1, csum_start: 34, csum_offset: 16, ..slot.offload };
        let beyond = OffloadHeader { csum_start: 123, ..checksum };
        let none = PortCounters::default();
        let whole = PortCounters { received: 1, received_bytes: 124, ..none };
        let tagged = PortCounters { received: 1, received_bytes: 128, ..none };
        let one_lost = |field: fn(&mut PortCounters) -> &mut u64| {
            let mut counters = none;
            *field(&mut counters) = 1;
            counters
        };
        let rows = [
            ("plain", slot, 1, whole),
            ("tagged", Slot { tag, ..slot }, 1, tagged),
            ("pool empty", slot, 0, one_lost(|c| &mut c.pool_exhausted)),
            ("cut short", Slot { len: 125, ..slot }, 1, one_lost(|c| &mut c.truncated)),
            ("empty", Slot { bytes: &[], len: 0, ..slot }, 1, one_lost(|c| &mut c.truncated)),
            ("too long", Slot { bytes: &[0; 129], ..slot }, 1, one_lost(|c| &mut c.oversize)),
            ("hostile", Slot { offload: beyond, ..slot }, 1, one_lost(|c| &mut c.unfinished)),
            (
                "partial checksum",
                Slot { offload: checksum, ..slot },
                1,
                PortCounters { checksums_completed: 1, ..whole },
            ),
            (
                "no room for a tag",
                Slot { bytes: &[0; 8], len: 8, tag, ..slot },
                1,
                one_lost(|c| &mut c.unfinished),
            ),
        ];
        for (what, slot, chunks, expected) in rows {
            check_delivery(what, slot, chunks, expected);
        }
    }
}
