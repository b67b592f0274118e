//! Rings (TPACKET_V2): frames that the kernel writes into memory shared with it, or sends from
//! there.
//!
//! Invariant: a slot belongs to the kernel while its status is TP_STATUS_KERNEL and to this program
//! otherwise; the status is read with acquire and handed back with release ordering.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::authority::RingShape;
use crate::offload::{OFFLOAD_HEADER_LEN, OffloadHeader, Tag};
use weir_host::socket;

const BLOCK_LEN_MIN: usize = 1 << 16;
/// Where the `virtio_net_hdr` of a frame to be sent begins: behind `struct tpacket2_hdr`, aligned.
const FRAME_START: usize =
    size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// The status is the first word of a slot.
const STATUS_LEN: usize = 4;
const TPID_DEFAULT: u16 = 0x8100;

/// The mapped ring and the index of the next slot to read.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    slot_len: usize,
    slot_count: usize,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and may be used from any one thread at a time.
unsafe impl Send for Ring {}

/// A received frame in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    /// The frame, as far as the slot holds it, without the tag.
    pub(crate) bytes: &'a [u8],
    /// The length of the whole frame, without the tag.
    pub(crate) len: usize,
    /// The work that the sender left undone.
    pub(crate) offload: OffloadHeader,
    /// The outermost VLAN tag, which the kernel removed.
    pub(crate) tag: Option<Tag>,
    /// When it arrived, by CLOCK_REALTIME.
    pub(crate) realtime_ns: u64,
    /// Whether the whole frame waits in the socket's queue, being too long for a slot.
    pub(crate) is_queued_whole: bool,
}

impl Ring {
    /// Maps the ring of a socket, made by [`make`] with this shape.
    pub(crate) fn map(socket: BorrowedFd<'_>, shape: RingShape) -> io::Result<Self> {
        let RingShape { slot_len, slots: slot_count, .. } = shape;
        assert!(slot_len.is_power_of_two() && slot_count.is_power_of_two());
        let len = slot_len * slot_count;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = socket.as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice; the kernel refuses any length
        // but that of the ring that was made.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        Ok(Self { base, slot_len, slot_count, next: 0 })
    }

    /// Returns the bytes of a ring of so many slots of this length.
    pub(crate) fn bytes_for(slot_len: usize, slot_count: usize) -> usize {
        (slot_len * slot_count).max(slot_len).max(BLOCK_LEN_MIN)
    }

    /// Returns how many frames wait.
    pub(crate) fn waiting(&self) -> u64 {
        let is_ready = |ahead: &usize| {
            let slot = (self.next + ahead) & (self.slot_count - 1);
            self.status_of(slot).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
        };
        (0..self.slot_count).take_while(is_ready).count() as u64
    }

    /// Returns whether a frame waits.
    pub(crate) fn is_ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Returns when the next frame arrived, by CLOCK_REALTIME in nanoseconds; `None` if none waits.
    pub(crate) fn stamp(&self) -> Option<u64> {
        if !self.is_ready() {
            return None;
        }
        // SAFETY: as in `front`.
        let header = unsafe { self.slot().cast::<libc::tpacket2_hdr>().read() };
        Some(realtime_ns(&header))
    }

    /// Returns the next frame; `None` if none waits. Offsets outside the slot (the kernel writes
    /// none) give an empty frame.
    pub(crate) fn front(&self) -> Option<Slot<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is ours since the acquire above; it starts with this header and is
        // aligned to at least a page's part of a power of two.
        let header = unsafe { self.slot().cast::<libc::tpacket2_hdr>().read() };
        // SAFETY: within the mapping, ours until `release`, which takes `&mut self`.
        let slot = unsafe { std::slice::from_raw_parts(self.slot(), self.slot_len) };
        let start = usize::from(header.tp_mac);
        let end = start + header.tp_snaplen as usize;
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then_some(Tag {
            tpid: match status & libc::TP_STATUS_VLAN_TPID_VALID {
                0 => TPID_DEFAULT,
                _ => header.tp_vlan_tpid,
            },
            tci: header.tp_vlan_tci,
        });
        Some(Slot {
            bytes: slot.get(start..end).unwrap_or_default(),
            len: header.tp_len as usize,
            offload: offload_before(slot, start),
            tag,
            realtime_ns: realtime_ns(&header),
            is_queued_whole: status & libc::TP_STATUS_COPY != 0,
        })
    }

    /// Returns the slot of [`Ring::front`] to the kernel.
    pub(crate) fn release(&mut self) {
        debug_assert!(self.is_ready(), "a slot that the kernel filled goes back to it");
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) & (self.slot_count - 1);
    }

    /// Returns whether a slot of a transmit ring can hold a frame of this length.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        FRAME_START + OFFLOAD_HEADER_LEN + len <= self.slot_len
    }

    /// Puts a frame that is finished into the next slot of a transmit ring, to be sent; returns
    /// whether the slot was free.
    ///
    /// # Panics
    /// If there is no room for so long a frame.
    pub(crate) fn put(&mut self, frame: &[u8]) -> bool {
        assert!(self.has_room(frame.len()), "the frame has room in a slot");
        if self.status().load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
            return false;
        }
        let len = (OFFLOAD_HEADER_LEN + frame.len()) as u32;
        let start = FRAME_START - STATUS_LEN;
        // SAFETY: within the mapping, and ours since the acquire above until the status says that
        // the frame is to be sent; the status itself is left out.
        let slot = unsafe {
            let slot = self.base.as_ptr().add(self.next * self.slot_len + STATUS_LEN);
            std::slice::from_raw_parts_mut(slot, self.slot_len - STATUS_LEN)
        };
        // `tp_len` follows the status. The header before the frame: nothing is left undone.
        slot[..4].copy_from_slice(&len.to_ne_bytes());
        slot[start..start + OFFLOAD_HEADER_LEN].fill(0);
        slot[start + OFFLOAD_HEADER_LEN..][..frame.len()].copy_from_slice(frame);
        self.status().store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        true
    }

    /// Goes on after [`Ring::put`]: to the next slot, or, if the kernel did not take the frame,
    /// takes it back.
    pub(crate) fn finish(&mut self, is_sent: bool) {
        if is_sent {
            self.next = (self.next + 1) & (self.slot_count - 1);
        } else {
            self.status().store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
    }

    fn slot(&self) -> *const u8 {
        // SAFETY: `next < slot_count`, and the mapping is `slot_count * slot_len` bytes long.
        unsafe { self.base.as_ptr().add(self.next * self.slot_len) }
    }

    fn status(&self) -> &AtomicU32 {
        self.status_of(self.next)
    }

    fn status_of(&self, slot: usize) -> &AtomicU32 {
        assert!(slot < self.slot_count, "a slot of the ring");
        // SAFETY: within the mapping, which is `slot_count * slot_len` bytes long; the status is
        // the slot's first, aligned word, which this program and the kernel write whole.
        unsafe { &*self.base.as_ptr().add(slot * self.slot_len).cast::<AtomicU32>() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping, and no slot is borrowed any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.slot_len * self.slot_count) };
    }
}

/// Gives a socket a receive ring of at least `slots` slots of `slot_len` bytes, powers of two.
pub(crate) fn make(socket: BorrowedFd<'_>, slot_len: usize, slots: usize) -> io::Result<usize> {
    make_for(libc::PACKET_RX_RING, socket, slot_len, slots)
}

/// As [`make`], a transmit ring.
pub(crate) fn make_transmit(
    socket: BorrowedFd<'_>,
    slot_len: usize,
    slots: usize,
) -> io::Result<usize> {
    make_for(libc::PACKET_TX_RING, socket, slot_len, slots)
}

fn make_for(
    option: c_int,
    socket: BorrowedFd<'_>,
    slot_len: usize,
    slots: usize,
) -> io::Result<usize> {
    assert!(slot_len.is_power_of_two() && slots.is_power_of_two());
    let block_len = slot_len.max(BLOCK_LEN_MIN);
    let len = (slot_len * slots).max(block_len);
    assert!(len.is_multiple_of(block_len), "the kernel takes whole blocks");
    let request = libc::tpacket_req {
        tp_block_size: block_len as u32,
        tp_block_nr: (len / block_len) as u32,
        tp_frame_size: slot_len as u32,
        tp_frame_nr: (len / slot_len) as u32,
    };
    socket::set_option(socket, libc::SOL_PACKET, option, &request)?;
    Ok(len / slot_len)
}

fn realtime_ns(header: &libc::tpacket2_hdr) -> u64 {
    u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec)
}

/// Reads the `virtio_net_hdr`, which is right before the frame.
fn offload_before(slot: &[u8], frame_start: usize) -> OffloadHeader {
    frame_start
        .checked_sub(OFFLOAD_HEADER_LEN)
        .and_then(|start| slot.get(start..)?.first_chunk())
        .map(OffloadHeader::parse)
        .unwrap_or_default()
}
