//! The frame pool: chunks of fixed size, one frame each, named by a handle; free ones are in a
//! list.
//!
//! Queues hold handles only; a frame's bytes are copied in once, and sent from their chunk.
//! Invariant: a handle is either free or in use; `free + in use == capacity`.

/// Names a chunk that holds a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameId(pub u32);

/// Chunks of one size. When none is free the arriving frame is dropped, and its port counts it.
#[derive(Debug)]
pub struct FramePool {
    memory: Vec<u8>,
    chunk: usize,
    lengths: Vec<u32>,
    free: Vec<u32>,
}

/// Marks a free chunk in place of its length.
const FREE: u32 = u32::MAX;

impl FramePool {
    /// `capacity` chunks that each hold a frame of an interface with this `mtu` and two VLAN tags.
    ///
    /// # Panics
    /// If `capacity` or `mtu` is so large that the memory could not be addressed.
    pub fn for_mtu(capacity: u32, mtu: usize) -> Self {
        const HEADER_AND_TAGS: usize = 14 + 2 * 4;
        // Whole cache lines: neighbours do not share one.
        Self::new(capacity, (mtu + HEADER_AND_TAGS).next_multiple_of(64))
    }

    /// `capacity` chunks of `chunk` bytes.
    ///
    /// # Panics
    /// If the memory could not be addressed.
    pub fn new(capacity: u32, chunk: usize) -> Self {
        let count = capacity as usize;
        let bytes = count.checked_mul(chunk).expect("pool size fits the address space");
        let lengths = vec![FREE; count];
        // Popped from the end: low chunks first, and the last one freed is the next one used.
        let free = (0..capacity).rev().collect();
        Self { memory: vec![0; bytes], chunk, lengths, free }
    }

    /// Returns the bytes that one chunk holds.
    pub fn chunk_len(&self) -> usize {
        self.chunk
    }

    /// Returns the number of chunks.
    pub fn capacity(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the number of free chunks.
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Adds a frame that `fill` writes: it gets the whole chunk and returns the frame's length.
    /// `None` if no chunk is free or `fill` gives up; then the chunk stays free.
    pub fn insert_with(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<FrameId> {
        let index = *self.free.last()?;
        let start = index as usize * self.chunk;
        let len = fill(&mut self.memory[start..start + self.chunk])?;
        assert!(len <= self.chunk, "a frame lies within its chunk");
        self.free.pop();
        self.lengths[index as usize] = len as u32;
        Some(FrameId(index))
    }

    /// Adds a frame with these bytes; `None` if no chunk is free or the frame is too long.
    pub fn insert(&mut self, bytes: &[u8]) -> Option<FrameId> {
        self.insert_with(|chunk| {
            chunk.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(bytes.len())
        })
    }

    /// Returns the bytes of a frame in use.
    ///
    /// # Panics
    /// If `id` is free.
    pub fn bytes(&self, id: FrameId) -> &[u8] {
        let (start, len) = self.place(id);
        &self.memory[start..start + len]
    }

    /// Returns the bytes of a frame in use, to change in place (to mark ECN, say).
    ///
    /// # Panics
    /// If `id` is free.
    pub fn bytes_mut(&mut self, id: FrameId) -> &mut [u8] {
        let (start, len) = self.place(id);
        &mut self.memory[start..start + len]
    }

    /// Returns a frame's chunk to the free list.
    ///
    /// # Panics
    /// If `id` is free already.
    pub fn release(&mut self, id: FrameId) {
        let length = &mut self.lengths[id.0 as usize];
        assert!(*length != FREE, "frame {} is released twice", id.0);
        *length = FREE;
        self.free.push(id.0);
    }

    fn place(&self, id: FrameId) -> (usize, usize) {
        let len = self.lengths[id.0 as usize];
        assert!(len != FREE, "frame {} is used after its release", id.0);
        (id.0 as usize * self.chunk, len as usize)
    }
}

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
    fn a_frame_longer_than_a_chunk_is_refused_and_costs_none() {
        let mut pool = FramePool::for_mtu(1, 100);
        assert_eq!(pool.chunk_len(), 128);
        assert_eq!(pool.insert(&[0; 129]), None);
        assert_eq!(pool.free_count(), 1);
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
