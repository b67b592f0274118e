//! The packets under way: their sources, and the content of those that an endpoint reads.
//!
//! A packet in the link is identified by its slot. Slots are reused, so nothing allocates after the
//! largest number of packets was under way. Invariant: a slot is either taken or in `free`, and the
//! content of a free slot is [`Content::Nothing`].

use weir_core::ids::Handle;
use weir_tcp::{Ecn, Segment};

/// The contents of a packet beside its headers and its length.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Content {
    /// Bytes that no endpoint reads.
    #[default]
    Nothing,
    /// A segment of TCP, with its sequence numbers and options and the length of its data.
    Segment(Segment),
    /// The payload of a UDP datagram of QUIC, as its endpoints read it.
    Quic {
        /// The payload of the datagram.
        bytes: Vec<u8>,
        /// The codepoint of ECN.
        ecn: u8,
    },
    /// A whole IP packet of the signalling.
    Message(Vec<u8>),
}

impl Content {
    /// Whether there is none.
    pub const fn is_nothing(&self) -> bool {
        matches!(self, Content::Nothing)
    }

    /// Writes the mark of a packet's traffic class into the endpoint's packet.
    pub(crate) fn set_mark(&mut self, traffic_class: u8) {
        match self {
            Content::Segment(segment) => segment.ecn = codepoint(traffic_class),
            Content::Quic { ecn, .. } => *ecn = traffic_class & 3,
            Content::Nothing | Content::Message(_) => {}
        }
    }

    /// The codepoint of ECN that an endpoint gave the packet; `None` for others.
    pub(crate) const fn mark(&self) -> Option<u8> {
        match self {
            Content::Segment(segment) => Some(mark_of(segment)),
            Content::Quic { ecn, .. } => Some(*ecn),
            Content::Nothing | Content::Message(_) => None,
        }
    }

    /// The bytes of an endpoint's packet behind its IP header.
    pub(crate) fn payload(&self) -> u32 {
        match self {
            Content::Segment(segment) => segment.header_len() + segment.length,
            Content::Quic { bytes, .. } => UDP_HEADER + bytes.len() as u32,
            Content::Nothing | Content::Message(_) => 0,
        }
    }
}

/// Returns the codepoint of this traffic class, for TCP.
fn codepoint(traffic_class: u8) -> Ecn {
    match traffic_class & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

/// Returns the lower two bits of the traffic class of a packet with this segment.
const fn mark_of(segment: &Segment) -> u8 {
    match segment.ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

/// All packets under way.
#[derive(Debug, Default)]
pub(crate) struct Packets<F = Flight> {
    slots: Vec<F>,
    free: Vec<u32>,
    /// The content of each slot; shorter than `slots` while no packet has any.
    contents: Vec<Content>,
}

/// A packet under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flight {
    /// The place of its source.
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

    /// Returns the flight that is the handle itself.
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
const UDP_HEADER: u32 = 8;

impl<F: Copy> Packets<F> {
    /// Takes a slot for a packet without content.
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

    /// Takes a slot for a packet with content.
    pub fn insert_with(&mut self, flight: F, content: Content) -> Handle {
        let handle = self.insert(flight);
        if self.contents.len() < self.slots.len() {
            self.contents.resize_with(self.slots.len(), Content::default);
        }
        self.contents[handle.0 as usize] = content;
        handle
    }

    /// The packet in a slot.
    #[inline]
    pub fn get(&self, handle: Handle) -> F {
        self.slots[handle.0 as usize]
    }

    /// The content of the packet in a slot.
    pub fn content(&self, handle: Handle) -> &Content {
        self.contents.get(handle.0 as usize).unwrap_or(&Content::Nothing)
    }

    /// Writes the present mark of a packet into the content of its slot.
    pub fn set_mark(&mut self, handle: Handle, traffic_class: u8) {
        if let Some(content) = self.contents.get_mut(handle.0 as usize) {
            content.set_mark(traffic_class);
        }
    }

    /// Returns the packet in a slot for mutation.
    pub fn packet_mut(&mut self, handle: Handle) -> &mut F {
        &mut self.slots[handle.0 as usize]
    }

    /// Gives back the slot of a packet without content.
    #[inline]
    pub fn remove(&mut self, handle: Handle) {
        self.free.push(handle.0);
    }

    /// Gives back the slot of a packet; returns its content.
    pub fn take(&mut self, handle: Handle) -> Content {
        self.remove(handle);
        self.contents.get_mut(handle.0 as usize).map(std::mem::take).unwrap_or_default()
    }
}
