//! The frame pool: slots of fixed size, one frame each, named by a handle; free ones are in a list.
//!
//! Queues hold handles only; a frame's bytes are copied in once, and sent from their slot. The
//! memory is whole pages, so that a port may share it with the kernel.
//! Invariant: a handle is either free or in use; `free + in use == capacity`.

use std::ptr::NonNull;

/// Names a slot that holds a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameId(pub u32);

/// Slots of one size. When none is free the arriving frame is dropped, and its port counts it.
#[derive(Debug)]
pub struct FramePool {
    memory: Memory,
    slot: usize,
    places: Vec<Place>,
    free: Vec<u32>,
}

/// Where the frame of a slot lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// From the start of the slot.
    offset: u32,
    /// [`FREE`] if the slot holds no frame.
    len: u32,
}

/// Marks a free slot in place of its frame's length.
const FREE: u32 = u32::MAX;

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

    /// `capacity` slots of `slot` bytes.
    ///
    /// # Panics
    /// If the memory could not be had.
    pub fn new(capacity: u32, slot: usize) -> Self {
        let count = capacity as usize;
        let bytes = count.checked_mul(slot).expect("pool size fits the address space");
        let places = vec![Place { offset: 0, len: FREE }; count];
        // Popped from the end: low slots first, and the last one freed is the next one used.
        let free = (0..capacity).rev().collect();
        Self { memory: Memory::map(bytes), slot, places, free }
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

    /// Makes each slot `slot` bytes long, if it is shorter: frames keep their handles and bytes.
    ///
    /// # Panics
    /// If the memory could not be had.
    pub fn grow(&mut self, slot: usize) {
        if slot <= self.slot {
            return;
        }
        let mut grown = Self { free: Vec::new(), ..Self::new(self.capacity() as u32, slot) };
        for (index, place) in self.places.iter().enumerate() {
            if place.len != FREE {
                let from = index * self.slot + place.offset as usize;
                let to = index * slot;
                let bytes = &self.memory.bytes()[from..from + place.len as usize];
                grown.memory.bytes_mut()[to..to + bytes.len()].copy_from_slice(bytes);
                grown.places[index] = Place { offset: 0, len: place.len };
            }
        }
        grown.free = std::mem::take(&mut self.free);
        *self = grown;
    }

    /// Adds a frame that `fill` writes: it gets the whole slot and returns the frame's length.
    /// `None` if no slot is free or `fill` gives up; then the slot stays free.
    pub fn insert_with(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<FrameId> {
        let index = *self.free.last()?;
        let start = index as usize * self.slot;
        let len = fill(&mut self.memory.bytes_mut()[start..start + self.slot])?;
        assert!(len <= self.slot, "a frame lies within its slot");
        self.free.pop();
        self.places[index as usize] = Place { offset: 0, len: len as u32 };
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
        let to = index as usize * self.slot;
        self.memory.bytes_mut().copy_within(start..start + len, to);
        self.places[index as usize] = Place { offset: 0, len: len as u32 };
        Some(FrameId(index))
    }

    /// Returns the bytes of a frame in use.
    ///
    /// # Panics
    /// If `id` is free.
    pub fn bytes(&self, id: FrameId) -> &[u8] {
        let (start, len) = self.place(id);
        &self.memory.bytes()[start..start + len]
    }

    /// Returns the bytes of a frame in use, to change in place (to mark ECN, say).
    ///
    /// # Panics
    /// If `id` is free.
    pub fn bytes_mut(&mut self, id: FrameId) -> &mut [u8] {
        let (start, len) = self.place(id);
        &mut self.memory.bytes_mut()[start..start + len]
    }

    /// Returns a frame's slot to the free list.
    ///
    /// # Panics
    /// If `id` is free already.
    pub fn release(&mut self, id: FrameId) {
        let place = &mut self.places[id.0 as usize];
        assert!(place.len != FREE, "frame {} is released twice", id.0);
        place.len = FREE;
        self.free.push(id.0);
    }

    fn place(&self, id: FrameId) -> (usize, usize) {
        let place = self.places[id.0 as usize];
        assert!(place.len != FREE, "frame {} is used after its release", id.0);
        (id.0 as usize * self.slot + place.offset as usize, place.len as usize)
    }
}

/// Anonymous pages, all zero at first.
#[derive(Debug)]
struct Memory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Memory {}

impl Memory {
    fn map(len: usize) -> Self {
        let len = len.max(1).next_multiple_of(PAGE);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        assert!(base != libc::MAP_FAILED, "no memory for a frame pool of {len} bytes");
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        Self { base, len }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the whole mapping is initialised and lives as long as this borrow.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and no one else borrows it.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping, which nobody borrows any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

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
    #[should_panic(expected = "released twice")]
    fn a_double_release_is_caught() {
        let mut pool = FramePool::new(2, 64);
        let id = pool.insert(&[1]).expect("room");
        pool.release(id);
        pool.release(id);
    }
}
