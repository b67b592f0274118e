//! The packets under way: their sources, and the bytes of those that a stack reads.
//!
//! A packet in the link is identified by its slot. Slots and buffers are reused, so nothing
//! allocates after the largest number of packets was under way. Invariant: a slot is either taken
//! or in `free`, and the buffer of a free slot is empty.

use weir_core::ids::Handle;

/// All packets under way.
#[derive(Debug, Default)]
pub(crate) struct Packets<F = Flight> {
    slots: Vec<F>,
    free: Vec<u32>,
    /// The IP packet in a slot; shorter than `slots` while no stack reads bytes.
    bytes: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

/// A packet under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flight {
    /// The source.
    pub source: u32,
    /// The length of the frame.
    pub length: u32,
    /// Which of the source's connections or datagrams, one after another, it belongs to.
    pub connection: u32,
}

impl Flight {
    /// A packet encoded in its handle, so that it needs no slot: for runs with few sources, short
    /// frames and no connections.
    #[inline]
    pub fn pack(self) -> Handle {
        debug_assert!(self.length <= PACKED_LENGTH_MAX && self.connection == 0, "{self:?}");
        Handle(self.source << PACKED_LENGTH_BITS | self.length)
    }

    /// What was packed.
    #[inline]
    pub fn unpack(handle: Handle) -> Self {
        let (source, length) = (handle.0 >> PACKED_LENGTH_BITS, handle.0 & PACKED_LENGTH_MAX);
        Self { source, length, connection: 0 }
    }
}

/// The most sources whose packets can be handles.
pub(crate) const PACKED_SOURCES_MAX: usize = 1 << (32 - PACKED_LENGTH_BITS);
/// The longest of them.
pub(crate) const PACKED_LENGTH_MAX: u32 = (1 << PACKED_LENGTH_BITS) - 1;
const PACKED_LENGTH_BITS: u32 = 16;

impl<F: Copy> Packets<F> {
    /// Takes a slot for a packet without bytes.
    #[inline]
    pub fn insert(&mut self, flight: F) -> Handle {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = flight;
            return Handle(slot);
        }
        let slot = u32::try_from(self.slots.len()).expect("a link holds at most 2^32 packets");
        self.slots.push(flight);
        Handle(slot)
    }

    /// Takes a slot for a packet with the IP packet `bytes`.
    pub fn insert_with_bytes(&mut self, flight: F, bytes: Vec<u8>) -> Handle {
        let handle = self.insert(flight);
        if self.bytes.len() < self.slots.len() {
            self.bytes.resize_with(self.slots.len(), Vec::new);
        }
        self.bytes[handle.0 as usize] = bytes;
        handle
    }

    /// The packet in a slot.
    #[inline]
    pub fn get(&self, handle: Handle) -> F {
        self.slots[handle.0 as usize]
    }

    /// The IP packet in a slot, if it has bytes.
    pub fn bytes(&self, handle: Handle) -> Option<&[u8]> {
        self.bytes.get(handle.0 as usize).map(Vec::as_slice).filter(|bytes| !bytes.is_empty())
    }

    /// Returns the packet in a slot for mutation.
    pub fn packet_mut(&mut self, handle: Handle) -> &mut F {
        &mut self.slots[handle.0 as usize]
    }

    /// Gives back the slot of a packet without bytes.
    #[inline]
    pub fn remove(&mut self, handle: Handle) {
        self.free.push(handle.0);
    }

    /// Gives back the slot of a packet with bytes, which the caller may read and must
    /// [`Packets::recycle`].
    pub fn remove_with_bytes(&mut self, handle: Handle) -> Vec<u8> {
        self.remove(handle);
        std::mem::take(&mut self.bytes[handle.0 as usize])
    }

    /// Buffers for bytes yet to be written.
    pub fn spare(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.spare
    }

    /// Returns a buffer for reuse.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }
}
