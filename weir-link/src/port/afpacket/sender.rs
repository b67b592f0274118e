//! Sends frames by a packet socket, neighbouring segments of one super-packet as one.
//!
//! A super-packet is cut when it comes ([`crate::offload`]), and each segment is decided by itself.
//! Those that leave together go to the kernel as one super-packet again, which the interface, or
//! the machine behind it, cuts at the same places: on the wire are the same bytes, and one way
//! through the kernel was taken instead of many.
//!
//! Invariant: a joined packet has segments of one super-packet alone, in order and without a gap,
//! all with the traffic class that the first has.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::{BATCH, complete_sum};
use crate::offload::OFFLOAD_HEADER_LEN;
use crate::offload::join::{JOINED_HEAD_MAX, JOINED_MAX, headers_len, same_class, write_head};
use crate::pool::{FrameId, FramePool};

/// A socket that sends, each frame behind a `virtio_net_hdr`.
#[derive(Debug)]
pub(super) struct Sender {
    socket: OwnedFd,
    /// Whether the interface takes super-packets.
    takes_joined: bool,
    /// How many joined packets in a row it has refused.
    refused: u32,
    heads: Box<[[u8; JOINED_HEAD_MAX]; JOINED_PER_CALL]>,
}

/// Bound: joined packets of one system call; it is never reached, as each has two frames.
const JOINED_PER_CALL: usize = BATCH / 2;
/// Bound: joined packets that an interface refuses in a row; after that it gets each frame alone.
const JOINED_REFUSED_MAX: u32 = 8;
/// In front of a frame that is as it shall be on the wire.
const FINISHED: [u8; OFFLOAD_HEADER_LEN] = [0; OFFLOAD_HEADER_LEN];

/// The result of a system call.
pub(super) enum Outcome {
    /// The kernel took so many leading frames, so many packets of which joined several.
    Sent(usize, u64),
    /// It refused the first packet, which joined frames; it may take the first of them alone.
    RefusedJoined,
    /// It refused the first frame.
    Refused(io::Error),
}

impl Sender {
    /// Sends by this socket, which is in that mode ([`libc::PACKET_VNET_HDR`]).
    pub(super) fn new(socket: OwnedFd) -> Self {
        let heads = Box::new([[0; JOINED_HEAD_MAX]; JOINED_PER_CALL]);
        Self { socket, takes_joined: false, refused: 0, heads }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Says whether the interface cuts super-packets.
    pub(super) fn set_takes_joined(&mut self, takes: bool) {
        self.takes_joined = takes;
    }

    /// Begins anew, with another interface.
    pub(super) fn forget_refusals(&mut self) {
        self.refused = 0;
    }

    /// Offers leading `frames`, at most [`BATCH`], to the kernel by one call; `joins` unless the
    /// kernel just refused the first of them joined with others.
    pub(super) fn send(
        &mut self,
        pool: &mut FramePool,
        frames: &[FrameId],
        joins: bool,
    ) -> Outcome {
        assert!(frames.len() <= BATCH, "a batch has its bound");
        let joins = joins && self.takes_joined && self.refused < JOINED_REFUSED_MAX;
        let (mut runs, mut rest) = ([0; BATCH], frames);
        for run in &mut runs {
            let [first, ..] = rest else { break };
            *run = if joins { joinable(pool, rest) } else { 1 };
            if *run == 1 {
                complete_sum(pool, *first);
            }
            rest = &rest[*run..];
        }
        let mut batch = Batch::new();
        let mut heads = self.heads.iter_mut();
        let mut rest = frames;
        for run in runs.into_iter().take_while(|run| *run > 0) {
            let (packet, behind) = rest.split_at(run);
            match packet {
                [frame] => batch.push([&FINISHED, pool.bytes(*frame)]),
                _ => {
                    let head = heads.next().expect("two frames have a head");
                    batch.push_joined(pool, packet, head);
                }
            }
            rest = behind;
        }
        let is_joined = batch.counts[0] > 1;
        match batch.send(self.socket.as_fd()) {
            Ok(sent) => {
                let counts = &batch.counts[..sent];
                let joined = counts.iter().filter(|count| **count > 1).count();
                if joined > 0 {
                    self.refused = 0;
                }
                Outcome::Sent(counts.iter().sum(), joined as u64)
            }
            Err(cause) if is_joined && is_refusal(&cause) => {
                self.refused += 1;
                Outcome::RefusedJoined
            }
            Err(cause) => Outcome::Refused(cause),
        }
    }
}

/// Returns how many leading frames can be one packet; there is one at least.
fn joinable(pool: &FramePool, frames: &[FrameId]) -> usize {
    let is_next = |pair: &&[FrameId]| {
        let [one, next] = [pair[0], pair[1]];
        pool.follows(next, one) && same_class(pool.bytes(next), pool.bytes(one))
    };
    let run = 1 + frames.windows(2).take_while(is_next).count();
    if run == 1 {
        return 1;
    }
    let first = pool.bytes(frames[0]);
    let payload = first.len() - headers_len(first);
    run.min((JOINED_MAX - first.len()) / payload.max(1) + 1)
}

/// Returns whether the packet itself may be at fault: the interface does not cut such, or so long.
fn is_refusal(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOBUFS | libc::EMSGSIZE | libc::EINVAL))
}

/// Packets for one system call, as parts of memory.
struct Batch<'a> {
    parts: [libc::iovec; 2 * BATCH],
    messages: [libc::mmsghdr; BATCH],
    /// How many frames each message has.
    counts: [usize; BATCH],
    used: usize,
    len: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> Batch<'a> {
    fn new() -> Self {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: mmsghdr is integers and pointers: all zero is a value.
        let messages = unsafe { std::mem::zeroed() };
        let (parts, counts) = ([nothing; 2 * BATCH], [0; BATCH]);
        Self { parts, messages, counts, used: 0, len: 0, bytes: PhantomData }
    }

    /// Adds a frame of these parts.
    fn push(&mut self, parts: [&'a [u8]; 2]) {
        for part in parts {
            self.push_part(part);
        }
        self.close(parts.len(), 1);
    }

    /// Adds segments as one packet, whose headers are written to `head`.
    fn push_joined(
        &mut self,
        pool: &'a FramePool,
        segments: &[FrameId],
        head: &'a mut [u8; JOINED_HEAD_MAX],
    ) {
        let [first, .., last] = segments else { panic!("two frames are joined at least") };
        let [first, last] = [first, last].map(|segment| pool.bytes(*segment));
        let headers = headers_len(first);
        let payloads = segments.iter().map(|segment| &pool.bytes(*segment)[headers..]);
        let payload = payloads.clone().map(<[u8]>::len).sum();
        let len = write_head(first, last, payload, head);
        self.push_part(&head[..len]);
        payloads.for_each(|payload| self.push_part(payload));
        self.close(1 + segments.len(), segments.len());
    }

    fn push_part(&mut self, part: &'a [u8]) {
        // The kernel only reads through it.
        let iov_base = part.as_ptr().cast_mut().cast();
        self.parts[self.used] = libc::iovec { iov_base, iov_len: part.len() };
        self.used += 1;
    }

    fn close(&mut self, parts: usize, count: usize) {
        self.messages[self.len].msg_hdr.msg_iovlen = parts;
        self.counts[self.len] = count;
        self.len += 1;
    }

    /// Returns how many packets the kernel took.
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let mut parts = &mut self.parts[..self.used];
        for message in &mut self.messages[..self.len] {
            let (own, others) = parts.split_at_mut(message.msg_hdr.msg_iovlen);
            message.msg_hdr.msg_iov = own.as_mut_ptr();
            parts = others;
        }
        let (socket, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
        let (messages, len) = (self.messages.as_mut_ptr(), self.len as u32);
        // SAFETY: the first `len` messages point to parts, and those to bytes that are borrowed.
        let sent = unsafe { libc::sendmmsg(socket, messages, len, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// Ethernet, IPv4 and TCP without options.
    const HEADERS: usize = 54;
    const PAYLOAD: usize = 100;

    /// A frame whose payload is this number.
    fn frame(number: u8) -> [u8; HEADERS + PAYLOAD] {
        let mut frame = [number; HEADERS + PAYLOAD];
        frame[..HEADERS].fill(0);
        (frame[12], frame[14], frame[23], frame[46]) = (0x08, 0x45, 6, 5 << 4);
        frame
    }

    /// Sends frames by one call, in runs of so many segments of one super-packet, or of one frame;
    /// returns how many frames each packet has that arrives. All arrive, in order.
    fn packets(runs: &[usize]) -> Vec<usize> {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        near.connect(far.local_addr().expect("it is bound")).expect("it takes a destination");
        far.set_nonblocking(true).expect("it does not block");
        let mut pool = FramePool::new(BATCH as u32, HEADERS + PAYLOAD);
        let mut frames = Vec::new();
        for run in runs {
            let first = (*run > 1).then(|| pool.number_segments(*run));
            for index in 0..*run {
                let id = pool.insert(&frame(frames.len() as u8)).expect("the pool has room");
                if let Some(first) = first {
                    pool.set_segment(id, first + index as u32);
                }
                frames.push(id);
            }
        }
        let mut sender = Sender::new(near.into());
        sender.set_takes_joined(true);
        let Outcome::Sent(taken, joined) = sender.send(&mut pool, &frames, true) else {
            panic!("the socket takes all")
        };
        assert_eq!(taken, frames.len(), "{runs:?}");
        let (mut bytes, mut counts, mut next) = ([0; 65_536], Vec::new(), 0);
        while let Ok(length) = far.recv(&mut bytes) {
            let payload = &bytes[OFFLOAD_HEADER_LEN + HEADERS..length];
            for part in payload.chunks(PAYLOAD) {
                assert_eq!(part, [next; PAYLOAD], "{runs:?}");
                next += 1;
            }
            counts.push(payload.len() / PAYLOAD);
        }
        assert_eq!(usize::from(next), frames.len(), "{runs:?}");
        assert_eq!(counts.iter().filter(|count| **count > 1).count() as u64, joined, "{runs:?}");
        counts
    }

    #[test]
    fn segments_of_one_super_packet_are_joined_and_every_frame_is_sent_once() {
        let runs = [
            vec![1],
            vec![2],
            vec![3, 2, 1, 4],
            vec![BATCH],
            vec![1; BATCH],
            vec![2; BATCH / 2],
            // More packets than there are heads, and then segments.
            [vec![1; JOINED_PER_CALL + 8], vec![5, 1, 6]].concat(),
            [vec![2; JOINED_PER_CALL / 2], vec![1; 20], vec![12]].concat(),
        ];
        for runs in runs {
            assert_eq!(packets(&runs), runs);
        }
    }
}
