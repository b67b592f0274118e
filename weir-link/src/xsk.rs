//! AF_XDP sockets and their rings: frames move between a driver and memory shared with it.
//!
//! A [`Queue`] is a receive queue of one interface: one or more sockets, each with a ring of
//! received frames; one ring of free places for frames to come (fill), one of frames to send, one
//! of frames that were sent (completed). The structures are those of the kernel's document
//! `networking/af_xdp.rst`.
//!
//! Invariant: each ring has one producer and one consumer, of which one is the kernel; an index is
//! read with acquire and published with release ordering.

use std::ffi::c_int;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{xdp_desc, xdp_mmap_offsets, xdp_ring_offset, xdp_statistics};

use crate::pool::Memory;
use weir_host::socket::{self, Plain};

/// The parameters of a [`Queue`].
#[derive(Clone, Debug)]
pub(crate) struct QueueConfig {
    /// Entries of each receive ring, at least one ring. All entries here are powers of two.
    pub(crate) ring_entries: Vec<u32>,
    /// Entries of the transmit ring and of the completion ring.
    pub(crate) transmit_entries: u32,
    /// The most places that are in the fill ring.
    pub(crate) fill_max: usize,
}

/// The sockets of a receive queue of an interface, bound.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) received: Vec<Consumer<xdp_desc>>,
    pub(crate) fill: Producer<u64>,
    pub(crate) transmit: Producer<xdp_desc>,
    pub(crate) completed: Consumer<u64>,
    /// The mappings above drop first. The first socket also sends.
    sockets: Vec<OwnedFd>,
}

/// A ring to which this program adds.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    /// The next entry to write; published by [`Producer::publish`].
    next: u32,
    /// The consumer's index as last read.
    consumed: u32,
}

/// A ring from which this program takes.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    next: u32,
    /// The producer's index as last read.
    produced: u32,
}

impl Queue {
    /// Maps the rings of sockets that [`make`] made of this configuration. It must come before
    /// [`bind`]: the kernel maps no ring of a bound socket.
    ///
    /// # Safety
    /// The kernel writes into the places that are pushed to `fill` until the queue is dropped or
    /// they are received: no one else may use them meanwhile. The memory must outlive the queue.
    pub(crate) unsafe fn map(sockets: Vec<OwnedFd>, config: &QueueConfig) -> io::Result<Self> {
        let rings = sockets.iter().zip(&config.ring_entries);
        let received = rings.map(|(socket, entries)| map_receive_ring(socket.as_fd(), *entries));
        let received = received.collect::<io::Result<Vec<_>>>()?;
        let [first, ..] = sockets.as_slice() else {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        };
        let socket = first.as_fd();
        let offsets: xdp_mmap_offsets = option(socket, libc::XDP_MMAP_OFFSETS)?;
        let page = libc::XDP_UMEM_PGOFF_FILL_RING;
        let fill = Ring::map(socket, config.fill_entries(), &offsets.fr, page)?;
        let page = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let completed = Ring::map(socket, config.transmit_entries, &offsets.cr, page)?;
        let page = libc::XDP_PGOFF_TX_RING as u64;
        let transmit = Ring::map(socket, config.transmit_entries, &offsets.tx, page)?;
        Ok(Self {
            received,
            fill: Producer { ring: fill, next: 0, consumed: 0 },
            transmit: Producer { ring: transmit, next: 0, consumed: 0 },
            completed: Consumer { ring: completed, next: 0, produced: 0 },
            sockets,
        })
    }

    /// Returns the sockets, one for each receive ring.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Has the kernel send the contents of the transmit ring; one call sends a part of it.
    pub(crate) fn kick(&self) -> io::Result<()> {
        let fd = self.sockets[0].as_raw_fd();
        // SAFETY: no bytes are passed.
        let sent = unsafe {
            libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns whether all sockets are still bound. The kernel unbinds those of an interface that
    /// is removed or leaves the network namespace, also if it comes back at once.
    pub(crate) fn is_bound(&self) -> bool {
        // SAFETY: no bytes are passed. The call receives nothing: frames come by the ring.
        let receive = |socket: BorrowedFd<'_>| unsafe {
            libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT)
        };
        let unbound =
            |outcome| outcome < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO);
        !self.sockets().any(|socket| unbound(receive(socket)))
    }

    /// Reads the pending error of each socket, which clears it: else its descriptor would wake the
    /// loop again and again.
    pub(crate) fn clear_errors(&self) {
        for socket in self.sockets() {
            let _pending: io::Result<c_int> =
                socket::option(socket, libc::SOL_SOCKET, libc::SO_ERROR);
        }
    }

    /// Returns the kernel's counts of one receive ring since it was opened.
    pub(crate) fn statistics(&self, ring: usize) -> io::Result<xdp_statistics> {
        option(self.sockets[ring].as_fd(), libc::XDP_STATISTICS)
    }
}

impl<T: Copy> Producer<T> {
    /// Returns how many entries can be pushed.
    pub(crate) fn room(&mut self) -> u32 {
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
        let used = self.next.wrapping_sub(self.consumed);
        assert!(used <= self.ring.entries(), "the kernel consumes only what was produced");
        self.ring.entries() - used
    }

    /// Returns the number of the next entry to be pushed.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Adds an entry; the kernel sees it after [`Producer::publish`].
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn push(&mut self, entry: T) {
        let used = self.next.wrapping_sub(self.consumed);
        assert!(used < self.ring.entries(), "room was found before");
        // SAFETY: within the ring by the mask, and the kernel does not read it until it is
        // published.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the kernel what was pushed.
    pub(crate) fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }
}

impl Producer<xdp_desc> {
    /// Returns the entry before which the kernel has taken all; `known` is an earlier answer, and
    /// the ring's own index may be behind it.
    pub(crate) fn taken(&self, known: u32) -> u32 {
        let index = self.ring.consumer().load(Ordering::Acquire);
        if (index.wrapping_sub(known) as i32) > 0 { index } else { known }
    }

    /// Returns the address of the frame that the kernel took and dropped, and the entry after it.
    /// The kernel has shown that it took `before..taken`; if that is nothing, it hides the frame.
    pub(crate) fn refused(&self, before: u32, taken: u32) -> (u64, u32) {
        if taken != before {
            return (self.entry(taken.wrapping_sub(1)).addr, taken);
        }
        let mut end = before;
        while end != self.next && !is_last(&self.entry(end)) {
            end = end.wrapping_add(1);
        }
        let end = if end == self.next { end } else { end.wrapping_add(1) };
        (self.entry(before).addr, end)
    }

    /// Returns the address of the last piece of each frame from `first` on.
    pub(crate) fn frames_since(&self, first: u32) -> Vec<u64> {
        let count = self.next.wrapping_sub(first);
        let entries = (0..count).map(|number| self.entry(first.wrapping_add(number)));
        entries.filter(is_last).map(|entry| entry.addr).collect()
    }

    fn entry(&self, number: u32) -> xdp_desc {
        // SAFETY: within the ring by the mask; the kernel only reads the entries of this ring.
        unsafe { self.ring.entry(number).read() }
    }
}

/// Returns whether an entry is the last piece of its frame.
pub(crate) fn is_last(entry: &xdp_desc) -> bool {
    entry.options & libc::XDP_PKT_CONTD == 0
}

impl Consumer<xdp_desc> {
    /// Returns how many entries wait.
    pub(crate) fn entries_waiting(&mut self) -> u32 {
        self.look()
    }

    /// Returns how many frames wait.
    pub(crate) fn waiting(&mut self) -> u64 {
        let count = self.look();
        // SAFETY: within the ring by the mask, and ours since the acquire of `produced`.
        let entry = |number| unsafe { self.ring.entry(self.next.wrapping_add(number)).read() };
        (0..count).map(entry).filter(is_last).count() as u64
    }
}

impl<T: Copy> Consumer<T> {
    /// Returns whether an entry waits; makes no system call.
    pub(crate) fn is_ready(&mut self) -> bool {
        if self.produced == self.next {
            self.look();
        }
        self.produced != self.next
    }

    /// Reads how far the kernel is; returns how many entries wait.
    fn look(&mut self) -> u32 {
        self.produced = self.ring.producer().load(Ordering::Acquire);
        let count = self.produced.wrapping_sub(self.next);
        assert!(count <= self.ring.entries(), "the kernel produces no more than the ring holds");
        count
    }

    /// Takes the next entry; the kernel may reuse its place after [`Consumer::publish`].
    pub(crate) fn pop(&mut self) -> Option<T> {
        if !self.is_ready() {
            return None;
        }
        // SAFETY: within the ring by the mask, and ours since the acquire of `produced`.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Returns to the kernel the places of the entries that were taken.
    pub(crate) fn publish(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

/// A mapped ring of entries, with the indices of both sides.
#[derive(Debug)]
struct Ring<T> {
    base: NonNull<u8>,
    len: usize,
    mask: u32,
    /// Offsets from `base`, in bytes.
    producer: usize,
    consumer: usize,
    entries: usize,
    kind: PhantomData<T>,
}

// SAFETY: the mapping belongs to this value alone and may be used from any one thread at a time.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    fn map(
        socket: BorrowedFd<'_>,
        entries: u32,
        offsets: &xdp_ring_offset,
        page_offset: u64,
    ) -> io::Result<Self> {
        assert!(entries.is_power_of_two(), "the kernel's rings are powers of two");
        let len = offsets.desc as usize + entries as usize * size_of::<T>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let (fd, at) = (socket.as_raw_fd(), page_offset as libc::off_t);
        // SAFETY: a new mapping of the ring just made, at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, at) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            base: NonNull::new(base.cast()).expect("the kernel maps nothing at address zero"),
            len,
            mask: entries - 1,
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            entries: offsets.desc as usize,
            kind: PhantomData,
        })
    }

    fn entries(&self) -> u32 {
        self.mask + 1
    }

    fn producer(&self) -> &AtomicU32 {
        self.index(self.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.index(self.consumer)
    }

    fn index(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the kernel named the offset of this aligned word, which both sides access whole.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU32>() }
    }

    fn entry(&self, number: u32) -> *mut T {
        let offset = self.entries + (number & self.mask) as usize * size_of::<T>();
        // SAFETY: the mapping holds `mask + 1` entries from `entries` on.
        unsafe { self.base.as_ptr().add(offset).cast() }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping, and nothing is borrowed from it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl QueueConfig {
    fn fill_entries(&self) -> u32 {
        self.fill_max.next_power_of_two() as u32
    }
}

/// Makes the sockets over this memory, in chunks of `chunk` bytes (2048 or 4096), in this thread's
/// network namespace: one for each receive ring; the first also sends. The memory must begin at a
/// page's boundary. The kernel keeps its pages for as long as the sockets are open; it writes only
/// to places that are pushed to the fill ring of [`Queue::map`].
pub(crate) fn make(
    memory: &Memory,
    len: usize,
    chunk: usize,
    config: &QueueConfig,
) -> io::Result<Vec<OwnedFd>> {
    let mut sockets = Vec::new();
    for entries in &config.ring_entries {
        let socket = socket::open(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        if sockets.is_empty() {
            register(socket.as_fd(), memory, len, chunk)?;
            set(socket.as_fd(), libc::XDP_UMEM_FILL_RING, &config.fill_entries())?;
            set(socket.as_fd(), libc::XDP_UMEM_COMPLETION_RING, &config.transmit_entries)?;
            set(socket.as_fd(), libc::XDP_TX_RING, &config.transmit_entries)?;
            raise_budget(socket.as_fd(), config.transmit_entries);
        }
        set(socket.as_fd(), libc::XDP_RX_RING, entries)?;
        sockets.push(socket);
    }
    Ok(sockets)
}

/// Binds sockets that [`make`] made to a receive queue of an interface. After an error it may be
/// called again; a queue may stay busy for a while after the process that had it ended.
pub(crate) fn bind(sockets: &[OwnedFd], to: (u32, u32), pieces: bool) -> io::Result<()> {
    let (interface_index, queue) = to;
    let own = libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP;
    let own = if pieces { own | libc::XDP_USE_SG } else { own };
    let first = sockets.first().map_or(0, |socket| socket.as_raw_fd() as u32);
    for (number, socket) in sockets.iter().enumerate() {
        // The others share the rings of the first, and the rest is as that has it.
        let (flags, other) = if number == 0 { (own, 0) } else { (libc::XDP_SHARED_UMEM, first) };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: interface_index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: other,
        };
        bind_once(socket.as_fd(), &address)?;
    }
    Ok(())
}

fn map_receive_ring(socket: BorrowedFd<'_>, entries: u32) -> io::Result<Consumer<xdp_desc>> {
    let offsets: xdp_mmap_offsets = option(socket, libc::XDP_MMAP_OFFSETS)?;
    let ring = Ring::map(socket, entries, &offsets.rx, libc::XDP_PGOFF_RX_RING as u64)?;
    Ok(Consumer { ring, next: 0, produced: 0 })
}

fn register(socket: BorrowedFd<'_>, memory: &Memory, len: usize, chunk: usize) -> io::Result<()> {
    let request = libc::xdp_umem_reg {
        addr: memory.start().as_ptr() as u64,
        len: len as u64,
        chunk_size: chunk as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(socket, libc::XDP_UMEM_REG, &request)
}

/// Lets one [`Queue::kick`] send as many frames as fit the ring, where the kernel can (Linux 6.17);
/// elsewhere it sends 32.
fn raise_budget(socket: BorrowedFd<'_>, entries: u32) {
    const XDP_MAX_TX_SKB_BUDGET: c_int = 9;
    let _too_old = set(socket, XDP_MAX_TX_SKB_BUDGET, &entries);
}

fn bind_once(socket: BorrowedFd<'_>, address: &libc::sockaddr_xdp) -> io::Result<()> {
    let pointer: *const libc::sockaddr_xdp = address;
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the pointer is valid for `len` bytes for the length of the call.
    match unsafe { libc::bind(socket.as_raw_fd(), pointer.cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set<T: Copy>(socket: BorrowedFd<'_>, name: c_int, value: &T) -> io::Result<()> {
    socket::set_option(socket, libc::SOL_XDP, name, value)
}

fn option<T: Plain>(socket: BorrowedFd<'_>, name: c_int) -> io::Result<T> {
    socket::option(socket, libc::SOL_XDP, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a ring of four entries in ordinary memory: producer, consumer, entries.
    fn ring() -> Ring<u64> {
        ring_of_memory(16 + 4 * size_of::<u64>())
    }

    fn ring_of_memory<T>(len: usize) -> Ring<T> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, released when the ring drops.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        let base = NonNull::new(base.cast()).expect("memory");
        Ring { base, len, mask: 3, producer: 0, consumer: 4, entries: 16, kind: PhantomData }
    }

    #[test]
    fn entries_come_out_in_order_also_where_indices_wrap() {
        for start in [0, 3, u32::MAX - 2] {
            let ours = ring();
            ours.producer().store(start, Ordering::Relaxed);
            ours.consumer().store(start, Ordering::Relaxed);
            let theirs = ring_of(&ours);
            let mut producer = Producer { ring: ours, next: start, consumed: start };
            let mut consumer = Consumer { ring: theirs, next: start, produced: start };
            let mut expected = 0;
            for count in [1, 4, 2, 3, 4, 0, 4] {
                assert_eq!(producer.room(), 4, "start {start}");
                (0..count).for_each(|n| producer.push(expected + n));
                assert!(!consumer.is_ready(), "not published");
                producer.publish();
                assert_eq!(producer.room(), 4 - count as u32);
                for n in 0..count {
                    assert_eq!(consumer.pop(), Some(expected + n), "start {start}");
                }
                assert_eq!(consumer.pop(), None);
                consumer.publish();
                expected += count;
            }
            // The memory is the producer's.
            std::mem::forget(consumer);
        }
    }

    fn ring_of(ring: &Ring<u64>) -> Ring<u64> {
        let Ring { base, len, mask, producer, consumer, entries, kind } = *ring;
        Ring { base, len, mask, producer, consumer, entries, kind }
    }

    /// A transmit ring of four entries whose frames have the addresses 0, 1, ...; `pieces` are the
    /// pieces of each frame, and the kernel shows `consumed` entries as taken.
    fn transmit(pieces: &[u32], consumed: u32) -> Producer<xdp_desc> {
        let ring = ring_of_memory(16 + 4 * size_of::<xdp_desc>());
        let mut transmit: Producer<xdp_desc> = Producer { ring, next: 0, consumed: 0 };
        for (addr, pieces) in (0..).zip(pieces) {
            for piece in 1..=*pieces {
                let options = if piece < *pieces { libc::XDP_PKT_CONTD } else { 0 };
                transmit.push(xdp_desc { addr, len: 1, options });
            }
        }
        transmit.publish();
        transmit.ring.consumer().store(consumed, Ordering::Release);
        transmit
    }

    #[test]
    fn the_frame_that_the_kernel_dropped_is_found() {
        // pieces of each frame, entries known to be taken, entries that the kernel shows as taken,
        // then: the frame dropped, the entry after it, frames that still wait
        let rows = [
            (&[1, 1, 1][..], 0, 0, 0, 1, 2),
            (&[1, 1, 1], 0, 2, 1, 2, 1),
            (&[1, 1, 1], 1, 0, 1, 2, 1),
            (&[2, 2], 0, 0, 0, 2, 1),
            (&[2, 2], 0, 4, 1, 4, 0),
            (&[2, 2], 2, 0, 1, 4, 0),
        ];
        for (pieces, known, consumed, frame, end, waiting) in rows {
            let ring = transmit(pieces, consumed);
            let taken = ring.taken(known);
            let what = format!("{pieces:?}, {known}, {consumed}");
            assert_eq!(ring.refused(known, taken), (frame, end), "{what}");
            assert_eq!(ring.frames_since(end).len(), waiting, "{what}");
        }
    }

    #[test]
    #[should_panic(expected = "room was found before")]
    fn a_full_ring_takes_no_entry() {
        let mut producer = Producer { ring: ring(), next: 0, consumed: 0 };
        (0..5).for_each(|n| producer.push(n));
    }
}
