//! The frame pool: slots of fixed size, one frame each, named by a handle; free ones are in a list.
//!
//! Queues hold handles only; a frame's bytes are copied in once, and sent from their slot. The
//! memory is whole pages, so that a port may share it with the kernel: it lends slots, into which
//! the kernel writes frames. Threads that share the memory have a view each
//! ([`FramePool::view`]), and pass slots to each other.
//! Invariant: a slot is free, lent, in use, or in another view; it is in one view at a time, and
//! nothing but the kernel touches a lent one.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// Names a slot that holds a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameId(pub u32);

/// Slots of one size. When none is free the arriving frame is dropped, and its port counts it.
#[derive(Debug)]
pub struct FramePool {
    memory: Arc<Memory>,
    slot: usize,
    places: Vec<Place>,
    /// When the frame of each slot arrived, as its lane noted it.
    stamps: Vec<u64>,
    free: Vec<u32>,
    /// The last number that [`FramePool::number_segments`] gave.
    last_segment: u32,
    /// The highest bits of such numbers, by which those of several views differ.
    view: u32,
}

/// A frame on its way from one view to another; whoever has this has its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedFrame {
    slot: u32,
    place: Place,
}

/// Where the frame of a slot lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// From the start of the slot.
    offset: u32,
    /// [`FREE`], [`LENT`] or [`AWAY`] if the slot holds no frame here.
    len: u32,
    /// Its number among the segments of super-packets; 0 for any other frame.
    segment: u32,
    /// Whether its checksum is still to be computed, which a segment that leaves joined with
    /// others does not need.
    lacks_sum: bool,
    /// A number that frames of one flow have in common, where workers share ports.
    flow: u8,
    /// The slot of the frame behind it in its train, or [`NONE`].
    next: u32,
}

impl Place {
    fn new(offset: usize, len: u32) -> Self {
        Self { offset: offset as u32, len, segment: 0, lacks_sum: false, flow: 0, next: NONE }
    }
}

/// In place of the next frame of a train: there is none.
const NONE: u32 = u32::MAX;

/// Marks a free slot in place of its frame's length.
const FREE: u32 = u32::MAX;
/// Marks a slot that the kernel may write to.
const LENT: u32 = u32::MAX - 1;
/// Marks a slot that another view has.
const AWAY: u32 = u32::MAX - 2;
/// Bound: views of one pool; segments of super-packets have numbers by view.
pub(crate) const VIEWS_MAX: u32 = 32;
/// The bits of a segment's number that count within a view.
const SEGMENT_BITS: u32 = u32::BITS - VIEWS_MAX.ilog2();

impl FramePool {
    /// `capacity` slots that each hold a frame of an interface with this `mtu` and its tags.
    ///
    /// # Panics
    /// If `capacity` or `mtu` is so large that the memory could not be addressed.
    pub fn for_mtu(capacity: u32, mtu: usize) -> Self {
        Self::new(capacity, Self::slot_for(mtu))
    }

    /// Returns the length of a slot that holds a frame of this MTU.
    pub fn slot_for(mtu: usize) -> usize {
        /// Ethernet's header and as many VLAN tags as a kernel bridge passes on.
        const HEADER_AND_TAGS: usize = 14 + 2 * 4;
        // Whole cache lines: neighbours do not share one.
        (mtu + HEADER_AND_TAGS).next_multiple_of(64)
    }

    /// `capacity` slots of at least `slot` bytes: whole pages, if more than half a page, as ports
    /// that share the memory with the kernel need it.
    ///
    /// # Panics
    /// If the memory could not be had.
    pub fn new(capacity: u32, slot: usize) -> Self {
        Self::in_memory(capacity, slot, Memory::map)
    }

    /// As [`FramePool::new`], in memory that another process can map, too.
    ///
    /// # Panics
    /// If the memory could not be had.
    pub fn new_shared(capacity: u32, slot: usize) -> Self {
        Self::in_memory(capacity, slot, Memory::map_file)
    }

    fn in_memory(capacity: u32, slot: usize, map: fn(usize) -> Memory) -> Self {
        let slot = whole_pages(slot);
        let count = capacity as usize;
        let bytes = count.checked_mul(slot).expect("pool size fits the address space");
        let places = vec![Place::new(0, FREE); count];
        // Popped from the end: low slots first, and the last one freed is the next one used.
        let free = (0..capacity).rev().collect();
        Self {
            memory: Arc::new(map(bytes)),
            slot,
            places,
            stamps: vec![0; count],
            free,
            last_segment: 0,
            view: 0,
        }
    }

    /// Returns a view of the same memory for another thread, which has no slot yet. `number` is
    /// that of no other view; the pool itself has 0.
    ///
    /// # Panics
    /// If `number` is not below [`VIEWS_MAX`].
    pub(crate) fn view(&self, number: u32) -> Self {
        assert!(number < VIEWS_MAX, "a pool has at most {VIEWS_MAX} views");
        Self {
            memory: Arc::clone(&self.memory),
            slot: self.slot,
            places: vec![Place::new(0, AWAY); self.capacity()],
            // Only the pool itself notes stamps.
            stamps: Vec::new(),
            free: Vec::new(),
            last_segment: 0,
            view: number,
        }
    }

    /// Gives a frame away, to be taken into another view.
    ///
    /// # Panics
    /// If `id` is free.
    pub(crate) fn pass(&mut self, id: FrameId) -> PassedFrame {
        let place = &mut self.places[id.0 as usize];
        assert!(place.len < AWAY, "frame {} is passed on after its release", id.0);
        let passed = PassedFrame { slot: id.0, place: *place };
        place.len = AWAY;
        passed
    }

    /// Takes a frame that another view gave away.
    ///
    /// # Panics
    /// If the slot is in this view already.
    pub(crate) fn take(&mut self, passed: PassedFrame) -> FrameId {
        let PassedFrame { slot, place } = passed;
        assert_eq!(self.places[slot as usize].len, AWAY, "slot {slot} is in one view at a time");
        self.places[slot as usize] = place;
        FrameId(slot)
    }

    /// Takes a frame that another view gave away before this one had other memory, from a view of
    /// that memory.
    ///
    /// # Panics
    /// If the slot is in one of the views already.
    pub(crate) fn take_from(&mut self, former: &mut Self, passed: PassedFrame) -> FrameId {
        let id = former.take(passed);
        let place = Place { offset: 0, ..passed.place };
        let taken = self.take(PassedFrame { place, ..passed });
        self.bytes_mut(taken).copy_from_slice(former.bytes(id));
        former.pass(id);
        taken
    }

    /// Gives a free slot away; `None` if there is none.
    pub(crate) fn pass_free(&mut self) -> Option<u32> {
        let slot = self.free.pop()?;
        let place = &mut self.places[slot as usize];
        assert_eq!(place.len, FREE, "slot {slot} was in the list of free ones");
        place.len = AWAY;
        Some(slot)
    }

    /// Takes a free slot that another view gave away.
    ///
    /// # Panics
    /// If the slot is in this view already.
    pub(crate) fn take_free(&mut self, slot: u32) {
        let place = &mut self.places[slot as usize];
        assert_eq!(place.len, AWAY, "slot {slot} is in one view at a time");
        place.len = FREE;
        self.free.push(slot);
    }

    /// Frees all slots of this view, whose frames and loans are no more; returns how many frames
    /// there were.
    pub(crate) fn free_all(&mut self) -> usize {
        let mut frames = 0;
        for (slot, place) in (0..).zip(&mut self.places) {
            if place.len != AWAY && place.len != FREE {
                frames += usize::from(place.len < AWAY);
                place.len = FREE;
                self.free.push(slot);
            }
        }
        frames
    }

    /// Returns the bytes of memory that a pool of so many slots takes.
    pub(crate) fn bytes_for(capacity: usize, slot: usize) -> usize {
        let beside = size_of::<Place>() + size_of::<u64>() + size_of::<u32>();
        capacity.saturating_mul(whole_pages(slot) + beside).saturating_add(PAGE)
    }

    /// Returns the bytes that a view of so many slots takes.
    pub(crate) fn view_bytes_for(capacity: usize) -> usize {
        capacity.saturating_mul(size_of::<Place>() + size_of::<u32>())
    }

    /// Returns the bytes that one slot holds.
    pub fn slot_len(&self) -> usize {
        self.slot
    }

    /// Returns the number of slots.
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Returns the number of free slots.
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Makes each slot `slot` bytes long, if it is shorter: frames keep their handles and bytes,
    /// in new memory. Lent slots stay lent.
    ///
    /// # Panics
    /// If the memory could not be had.
    pub fn grow(&mut self, slot: usize) {
        if slot <= self.slot {
            return;
        }
        let mut grown = Self { free: Vec::new(), view: self.view, ..self.like(slot) };
        grown.move_from(self);
        grown.stamps = std::mem::take(&mut self.stamps);
        *self = grown;
    }

    /// Takes over the slots of this view of former memory: frames keep their handles and bytes, and
    /// lent slots stay lent.
    ///
    /// # Panics
    /// If it has a slot already.
    pub(crate) fn adopt(&mut self, mut before: Self) {
        let has_none = self.places.iter().all(|place| place.len == AWAY);
        assert!(has_none, "a view that adopts has no slot of its own");
        self.move_from(&mut before);
    }

    fn move_from(&mut self, before: &mut Self) {
        assert_eq!(self.places.len(), before.places.len(), "each slot keeps its place");
        for (index, place) in before.places.iter().enumerate() {
            self.places[index] = Place { offset: 0, ..*place };
            if place.len < AWAY {
                let id = FrameId(index as u32);
                self.bytes_mut(id).copy_from_slice(before.bytes(id));
            }
        }
        self.free = std::mem::take(&mut before.free);
        self.last_segment = before.last_segment;
    }

    /// Returns an empty pool with as many slots, in memory of the same kind.
    fn like(&self, slot: usize) -> Self {
        let capacity = self.capacity() as u32;
        match self.memory.file {
            Some(_) => Self::new_shared(capacity, slot),
            None => Self::new(capacity, slot),
        }
    }

    /// Adds a frame that `fill` writes: it gets the whole slot and returns the frame's length.
    /// `None` if no slot is free or `fill` gives up; then the slot stays free.
    pub fn insert_with(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<FrameId> {
        let index = *self.free.last()?;
        let start = index as usize * self.slot;
        assert_eq!(
            self.places[index as usize].len, FREE,
            "slot {index} is in the list of free ones"
        );
        // SAFETY: the slot is free, so nothing else refers to it.
        let len = fill(unsafe { self.memory.bytes_mut(start..start + self.slot) })?;
        assert!(len <= self.slot, "a frame lies within its slot");
        self.free.pop();
        self.places[index as usize] = Place::new(0, len as u32);
        Some(FrameId(index))
    }

    /// Adds a frame with these bytes; `None` if no slot is free or the frame is too long.
    pub fn insert(&mut self, bytes: &[u8]) -> Option<FrameId> {
        self.insert_with(|slot| {
            slot.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(bytes.len())
        })
    }

    /// Adds a copy of a frame; `None` if no slot is free.
    pub fn copy(&mut self, id: FrameId) -> Option<FrameId> {
        let (start, len) = self.place(id);
        let index = self.free.pop()?;
        assert_eq!(
            self.places[index as usize].len, FREE,
            "slot {index} was in the list of free ones"
        );
        let to = index as usize * self.slot;
        // SAFETY: the one slot is in use and the other free: neither is lent.
        unsafe {
            let from = self.memory.bytes(start..start + len);
            self.memory.bytes_mut(to..to + len).copy_from_slice(from);
        }
        let Place { lacks_sum, flow, .. } = self.places[id.0 as usize];
        self.places[index as usize] = Place { lacks_sum, flow, ..Place::new(0, len as u32) };
        Some(FrameId(index))
    }

    /// Notes when a frame arrived, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn set_stamp(&mut self, id: FrameId, at_ns: u64) {
        debug_assert!(self.places[id.0 as usize].len < AWAY, "a frame in use has a stamp");
        self.stamps[id.0 as usize] = at_ns;
    }

    /// Returns the last stamp of a slot; it outlives its frame until the slot gets another.
    pub(crate) fn stamp(&self, id: FrameId) -> u64 {
        self.stamps[id.0 as usize]
    }

    /// Notes a number that frames of one flow have in common.
    pub(crate) fn set_flow(&mut self, id: FrameId, flow: u8) {
        self.places[id.0 as usize].flow = flow;
    }

    /// Returns the number that [`FramePool::set_flow`] noted; 0 if none did.
    pub(crate) fn flow(&self, id: FrameId) -> u8 {
        self.places[id.0 as usize].flow
    }

    /// Returns the number of the first of so many segments of a super-packet; the next ones count
    /// up, and no segment of another one has a neighbouring number.
    pub(crate) fn number_segments(&mut self, count: usize) -> u32 {
        let counted = self.last_segment.wrapping_add(2) % (1 << SEGMENT_BITS);
        // The numbers of one super-packet do not begin anew in its midst.
        let fits = counted as usize + count <= 1 << SEGMENT_BITS;
        let first = if fits { counted.max(1) } else { 1 };
        self.last_segment = first + count as u32 - 1;
        self.view << SEGMENT_BITS | first
    }

    /// Notes that a frame is this segment of a super-packet, whose checksum was not computed.
    pub(crate) fn set_segment(&mut self, id: FrameId, number: u32) {
        let place = &mut self.places[id.0 as usize];
        (place.segment, place.lacks_sum) = (number, true);
    }

    /// Returns whether a frame's checksum is still to be computed; from now on it no longer is.
    pub(crate) fn take_lack_of_sum(&mut self, id: FrameId) -> bool {
        std::mem::take(&mut self.places[id.0 as usize].lacks_sum)
    }

    /// Returns whether `next` is the segment behind `segment` of the same super-packet.
    pub(crate) fn follows(&self, next: FrameId, segment: FrameId) -> bool {
        let number = |id: FrameId| self.places[id.0 as usize].segment;
        number(segment) != 0 && number(next) == number(segment).wrapping_add(1)
    }

    /// Lets `next` ride behind `frame` in a train, which waits and leaves as one packet.
    pub(crate) fn couple(&mut self, frame: FrameId, next: FrameId) {
        self.places[frame.0 as usize].next = next.0;
    }

    /// Returns the frame behind `frame` in its train, also after `frame` was sent.
    pub(crate) fn coupled(&self, frame: FrameId) -> Option<FrameId> {
        let next = self.places[frame.0 as usize].next;
        (next != NONE).then_some(FrameId(next))
    }

    /// Returns the frames of a train from `first` on; of a frame alone, that one.
    pub(crate) fn train(&self, first: FrameId) -> impl Iterator<Item = FrameId> {
        std::iter::successors(Some(first), |frame| self.coupled(*frame))
    }

    /// Returns the slots of a train from `first` on to the free list; returns how many they are.
    ///
    /// # Panics
    /// If one is free already.
    pub(crate) fn release_train(&mut self, first: FrameId) -> u32 {
        let (mut next, mut count) = (Some(first), 0);
        while let Some(frame) = next {
            next = self.coupled(frame);
            self.release(frame);
            count += 1;
        }
        count
    }

    /// Returns the bytes of a frame in use.
    ///
    /// # Panics
    /// If `id` is free.
    pub fn bytes(&self, id: FrameId) -> &[u8] {
        let (start, len) = self.place(id);
        // SAFETY: the slot is in use, so it is not lent, and this borrow keeps it from change.
        unsafe { self.memory.bytes(start..start + len) }
    }

    /// Returns the bytes of a frame in use, to change in place (to mark ECN, say).
    ///
    /// # Panics
    /// If `id` is free.
    pub fn bytes_mut(&mut self, id: FrameId) -> &mut [u8] {
        let (start, len) = self.place(id);
        // SAFETY: the slot is in use, so it is not lent, and this borrow is the only one.
        unsafe { self.memory.bytes_mut(start..start + len) }
    }

    /// Returns a frame's slot to the free list.
    ///
    /// # Panics
    /// If `id` is free already.
    pub fn release(&mut self, id: FrameId) {
        let place = &mut self.places[id.0 as usize];
        assert!(place.len < AWAY, "frame {} is released twice", id.0);
        place.len = FREE;
        self.free.push(id.0);
    }

    /// Takes a free slot for the kernel to write to; `None` if there is none.
    pub(crate) fn lend(&mut self) -> Option<u32> {
        let index = self.free.pop()?;
        let place = &mut self.places[index as usize];
        assert_eq!(place.len, FREE, "slot {index} was in the list of free ones");
        place.len = LENT;
        Some(index)
    }

    /// Makes a frame of `range` of a lent slot, where the kernel wrote it.
    ///
    /// # Panics
    /// If the slot is not lent, or shorter.
    pub(crate) fn accept(&mut self, slot: u32, range: Range<usize>) -> FrameId {
        assert!(range.start <= range.end, "a frame ends behind its start");
        assert!(range.end <= self.slot, "a frame lies within its slot");
        let place = &mut self.places[slot as usize];
        assert_eq!(place.len, LENT, "slot {slot} was lent");
        *place = Place::new(range.start, range.len() as u32);
        FrameId(slot)
    }

    /// Returns a lent slot, into which the kernel writes no more, to the free list.
    ///
    /// # Panics
    /// If it is not lent.
    pub(crate) fn take_back(&mut self, slot: u32) {
        let place = &mut self.places[slot as usize];
        assert_eq!(place.len, LENT, "slot {slot} was lent");
        place.len = FREE;
        self.free.push(slot);
    }

    /// Copies `range` of one lent slot to `at` of another; the kernel writes to neither any more.
    ///
    /// # Panics
    /// If one of them is not lent, or shorter.
    pub(crate) fn append(&mut self, from: u32, range: Range<usize>, to: u32, at: usize) {
        let lent = |slot: u32| self.places[slot as usize].len == LENT;
        assert!(lent(from) && lent(to) && from != to, "two lent slots");
        assert!(range.end.max(at + range.len()) <= self.slot, "a piece lies within its slot");
        let (start, to) = (from as usize * self.slot, to as usize * self.slot + at);
        let len = range.len();
        // SAFETY: the slots differ, and the kernel has given up both.
        unsafe {
            let piece = self.memory.bytes(start + range.start..start + range.end);
            self.memory.bytes_mut(to..to + len).copy_from_slice(piece);
        }
    }

    /// Moves a frame to the start of its slot.
    pub(crate) fn align(&mut self, id: FrameId) {
        let (start, len) = self.place(id);
        let slot = id.0 as usize * self.slot;
        // SAFETY: the slot is in use, so it is not lent, and this borrow is the only one.
        let bytes = unsafe { self.memory.bytes_mut(slot..slot + self.slot) };
        bytes.copy_within(start - slot..start - slot + len, 0);
        self.places[id.0 as usize].offset = 0;
    }

    /// Returns where a frame in use lies: its distance from the start of the memory, its length.
    pub(crate) fn place(&self, id: FrameId) -> (usize, usize) {
        let place = self.places[id.0 as usize];
        assert!(place.len < AWAY, "frame {} is used after its release", id.0);
        (id.0 as usize * self.slot + place.offset as usize, place.len as usize)
    }

    /// Returns the memory. It is another one after [`FramePool::grow`].
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

/// Returns the length of a slot that is at least so long.
fn whole_pages(slot: usize) -> usize {
    if slot > SMALL_PAGE / 2 { slot.next_multiple_of(SMALL_PAGE) } else { slot }
}

/// Pages, all zero at first, anonymous or of a file in memory. A port that shares them with the
/// kernel keeps them alive.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: usize,
    /// By which another process maps them.
    file: Option<OwnedFd>,
}

// SAFETY: the mapping belongs to this value alone; it refers to no thread.
unsafe impl Send for Memory {}
// SAFETY: each place that makes a reference into it says why that part has no other user.
unsafe impl Sync for Memory {}

impl Memory {
    fn map(len: usize) -> Self {
        let len = len.max(1).next_multiple_of(PAGE);
        let base = map_pages(len, None);
        let base = base.unwrap_or_else(|cause| panic!("no memory for {len} bytes: {cause}"));
        Self { base, len, file: None }
    }

    fn map_file(len: usize) -> Self {
        let len = len.max(1).next_multiple_of(PAGE);
        let make = || -> io::Result<Self> {
            let file = memfd_create("weir-frames", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, len as u64)?;
            Self::of_file(file, len)
        };
        make().unwrap_or_else(|cause| panic!("no memory for {len} bytes to share: {cause}"))
    }

    /// Maps the memory of another process, to have the kernel use it: that process may shorten the
    /// file, so its bytes must not be touched here.
    pub(crate) fn of_file(file: OwnedFd, len: usize) -> io::Result<Self> {
        let base = map_pages(len, Some(file.as_fd()))?;
        Ok(Self { base, len, file: Some(file) })
    }

    /// Returns the file by which another process can map it, if it has one.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Returns the first byte, at a page's boundary.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.base
    }

    /// # Safety
    /// Neither the kernel nor a mutable borrow may use this part meanwhile.
    unsafe fn bytes(&self, part: Range<usize>) -> &[u8] {
        assert!(part.start <= part.end && part.end <= self.len, "within the memory");
        // SAFETY: within the mapping, which is initialised and lives as long as this borrow.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(part.start), part.len()) }
    }

    /// # Safety
    /// Neither the kernel nor any other borrow may use this part meanwhile.
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint, as the callers see to")]
    unsafe fn bytes_mut(&self, part: Range<usize>) -> &mut [u8] {
        assert!(part.start <= part.end && part.end <= self.len, "within the memory");
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(part.start), part.len()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping, and nothing borrows it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Maps anonymous pages, or those of a file.
fn map_pages(len: usize, file: Option<BorrowedFd<'_>>) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, fd) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(base.cast()).expect("the kernel maps nothing at address zero"))
}

/// The size of the smallest page.
const SMALL_PAGE: usize = 1 << 12;
/// The size of a page on every machine that Weir supports, or a multiple of it.
const PAGE: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_stored_unchanged_until_the_pool_is_full() {
        let mut pool = FramePool::new(3, 64);
        let ids: Vec<_> = (0..3u8).map(|n| pool.insert(&[n; 60]).expect("room")).collect();
        assert_eq!(pool.insert(&[9; 60]), None);
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(pool.bytes(*id), &[n as u8; 60]);
        }
        pool.release(ids[1]);
        assert_eq!((pool.free_count(), pool.capacity()), (1, 3));
        assert_eq!(pool.insert(&[7; 64]), Some(ids[1]));
    }

    #[test]
    fn a_frame_longer_than_a_slot_is_refused_and_costs_none() {
        let mut pool = FramePool::for_mtu(1, 100);
        assert_eq!(pool.slot_len(), 128);
        assert_eq!(pool.insert(&[0; 129]), None);
        assert_eq!(pool.free_count(), 1);
    }

    #[test]
    fn a_pool_that_grows_keeps_its_frames() {
        let mut pool = FramePool::new(3, 64);
        let ids: Vec<_> = (0..3u8).map(|n| pool.insert(&[n; 60]).expect("room")).collect();
        pool.release(ids[1]);
        pool.grow(128);
        assert_eq!((pool.free_count(), pool.slot_len()), (1, 128));
        assert_eq!(pool.insert(&[9; 128]), Some(ids[1]));
        for (n, id) in [(0, ids[0]), (2, ids[2])] {
            assert_eq!(pool.bytes(id), &[n; 60]);
        }
    }

    #[test]
    fn lent_slots_stay_lent_until_they_are_accepted_or_taken_back() {
        let mut pool = FramePool::new(3, 64);
        let [first, second] = [(); 2].map(|()| pool.lend().expect("a free slot"));
        let other = pool.insert(&[7; 10]).expect("room");
        assert_eq!((pool.lend(), pool.free_count()), (None, 0));
        pool.grow(128);
        pool.append(second, 0..10, first, 90);
        let frame = pool.accept(first, 20..100);
        assert_eq!(pool.place(frame), (first as usize * 128 + 20, 80));
        pool.bytes_mut(frame).fill(9);
        pool.align(frame);
        assert_eq!(pool.place(frame), (first as usize * 128, 80));
        assert_eq!((pool.bytes(frame), pool.bytes(other)), (&[9; 80][..], &[7; 10][..]));
        pool.take_back(second);
        pool.release(frame);
        assert_eq!(pool.free_count(), 2);
    }

    #[test]
    #[should_panic(expected = "slot 0 was lent")]
    fn a_slot_is_accepted_once() {
        let mut pool = FramePool::new(1, 64);
        let slot = pool.lend().expect("a free slot");
        pool.accept(slot, 0..60);
        pool.accept(slot, 0..60);
    }

    #[test]
    #[should_panic(expected = "released twice")]
    fn a_double_release_is_caught() {
        let mut pool = FramePool::new(2, 64);
        let id = pool.insert(&[1]).expect("room");
        pool.release(id);
        pool.release(id);
    }
}
