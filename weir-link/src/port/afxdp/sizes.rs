//! How many rings, slots and entries an AF_XDP port has, and how long they are.

use crate::port::{PortConfig, RINGS_MAX, Room};
use crate::xsk::QueueConfig;

pub(super) fn held_max(config: &PortConfig) -> usize {
    lent_max(config) + TRANSMIT_ENTRIES as usize
}

/// Returns the room of one receive queue of a port on an interface with this MTU.
pub(super) fn room_of_queue(config: &PortConfig, mtu: usize) -> Room {
    let received = sets(config) * received_max(config);
    let transmit = TRANSMIT_ENTRIES as usize;
    let places = lent_max(config).next_power_of_two() + transmit;
    let frames = (received + transmit) * size_of::<libc::xdp_desc>();
    Room {
        slot_len: slot_len(mtu),
        held_max: held_max(config),
        ring_bytes: frames + places * size_of::<u64>(),
        shares_memory: config.through.is_some(),
    }
}

/// Returns what both halves of a port take a receive queue to consist of.
pub(super) fn queue_config(config: &PortConfig) -> QueueConfig {
    let entries = (0..rings(config)).map(|ring| config.ring_slots(ring) as u32);
    let entries: Vec<_> = entries.collect();
    QueueConfig {
        ring_entries: [entries.as_slice()].repeat(sets(config)).concat(),
        transmit_entries: TRANSMIT_ENTRIES,
        fill_max: lent_max(config),
    }
}

/// Returns the most slots that are lent: so many that a ring can be full and the others still get
/// frames.
pub(super) fn lent_max(config: &PortConfig) -> usize {
    received_max(config) + LENT_BESIDE_RINGS
}

/// Returns how many frames the rings of a set hold.
pub(super) fn received_max(config: &PortConfig) -> usize {
    (0..rings(config)).map(|ring| config.ring_slots(ring)).sum()
}

/// Returns the rings of a set: what the pool lends for them is registered once, so a port that
/// sorts has all that a policy may want.
pub(super) fn rings(config: &PortConfig) -> usize {
    if config.sorting.is_some() { RINGS_MAX } else { 1 }
}

/// Returns the sets of sockets: see `sort.rs`.
pub(super) fn sets(config: &PortConfig) -> usize {
    if config.sorting.is_some() { 2 } else { 1 }
}

/// Returns whether frames of this MTU may lie in several chunks.
pub(super) fn needs_pieces(mtu: usize) -> bool {
    mtu + HEADER_AND_TAGS + HEADROOM > CHUNK_MIN
}

pub(super) fn chunk(mtu: usize) -> usize {
    if needs_pieces(mtu) { CHUNK_MAX } else { CHUNK_MIN }
}

/// Returns the length of a slot: whole chunks, with room for the kernel before the frame.
pub(super) fn slot_len(mtu: usize) -> usize {
    (HEADROOM + mtu + HEADER_AND_TAGS).next_multiple_of(chunk(mtu))
}

/// Bound: receive queues of an AF_XDP port; an interface that has more is refused, with the cure.
pub(crate) const QUEUES_MAX: usize = 8;
pub(super) const HEADER_LEN: usize = 14;
pub(super) const TAG_LEN: usize = 4;
pub(super) const HEADER_AND_TAGS: usize = HEADER_LEN + 2 * TAG_LEN;
/// Bytes that the kernel leaves free before a received frame (XDP_PACKET_HEADROOM).
pub(super) const HEADROOM: usize = 256;
/// The lengths of a chunk that the kernel allows where a page has 4 KiB.
pub(super) const CHUNK_MIN: usize = 2048;
pub(super) const CHUNK_MAX: usize = 4096;
/// The longest MTU: a frame has fewer pieces than the kernel's packets may have.
pub(super) const MTU_MAX: usize = 16_000;
/// Entries of the transmit and completion rings.
pub(super) const TRANSMIT_ENTRIES: u32 = 2048;
/// Slots that are lent beyond the entries of the receive rings: pieces that are joined, and those
/// that the kernel has in hand.
pub(super) const LENT_BESIDE_RINGS: usize = 128;

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
}
