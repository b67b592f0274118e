//! A queue of bytes from one thread to another, without locks: whole parts, in order.
//!
//! Invariant: of the bytes of the ring, those from `taken` to `sent` belong to the receiver and all
//! others to the sender; each side advances only its own count.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use weir_trace::record::End;

/// Returns both ends of a queue with room for so many bytes.
pub(super) fn queue(bytes: usize) -> (Sender, Receiver) {
    // Written once here, so that the loop meets no page for the first time.
    let ring = vec![1u8; bytes.next_power_of_two()];
    let shared = Arc::new(Shared {
        ring: ring.into_iter().map(UnsafeCell::new).collect(),
        sent: AtomicUsize::new(0),
        taken: AtomicUsize::new(0),
        end: AtomicU8::new(GOING),
        is_closed: AtomicBool::new(false),
        wants_state: AtomicBool::new(false),
    });
    (Sender { shared: Arc::clone(&shared), owes_state: false }, Receiver { shared })
}

struct Shared {
    ring: Box<[UnsafeCell<u8>]>,
    /// Bytes sent and taken so far; both wrap around.
    sent: AtomicUsize,
    taken: AtomicUsize,
    /// Why nothing more is sent: a place of [`End::ALL`].
    end: AtomicU8,
    /// The receiver wants no more.
    is_closed: AtomicBool,
    /// The receiver wants the state of the lanes once more.
    wants_state: AtomicBool,
}

// SAFETY: each byte of the ring belongs to one side at a time (see the module), and the counts that
// hand it over are stored with release and loaded with acquire.
unsafe impl Sync for Shared {}

/// The end of the loop.
pub(crate) struct Sender {
    shared: Arc<Shared>,
    /// The receiver has requested the state, and it was not sent yet.
    owes_state: bool,
}

/// The end of the thread that writes.
pub(super) struct Receiver {
    shared: Arc<Shared>,
}

impl Sender {
    /// Sends a part of a lane; returns false if there is no room for it.
    pub(super) fn send(&mut self, lane: u16, part: &[u8]) -> bool {
        let shared = &*self.shared;
        let sent = shared.sent.load(Ordering::Relaxed);
        let used = sent.wrapping_sub(shared.taken.load(Ordering::Acquire));
        assert!(used <= shared.ring.len(), "the receiver takes only what was sent");
        let Ok(length) = u32::try_from(part.len()) else { return false };
        if part.len() + FRAME_BYTES > shared.ring.len() - used {
            return false;
        }
        let mut frame = [0; FRAME_BYTES];
        frame[..4].copy_from_slice(&length.to_le_bytes());
        frame[4..].copy_from_slice(&lane.to_le_bytes());
        shared.put(sent, &frame);
        shared.put(sent.wrapping_add(FRAME_BYTES), part);
        shared.sent.store(sent.wrapping_add(FRAME_BYTES + part.len()), Ordering::Release);
        true
    }

    /// Says why nothing more is sent; the first reason stays.
    pub(super) fn end(&mut self, end: End) {
        let (end, ordering) = (end as u8, Ordering::Release);
        let _earlier = self.shared.end.compare_exchange(GOING, end, ordering, Ordering::Relaxed);
    }

    /// Returns whether the receiver wants the state of the lanes, as of now.
    pub(super) fn receive_state_request(&mut self) -> bool {
        let request = &self.shared.wants_state;
        self.owes_state |=
            request.load(Ordering::Relaxed) && request.swap(false, Ordering::Relaxed);
        self.owes_state
    }

    /// Returns whether a request arrived since the last call.
    pub(super) fn take_state_request(&mut self) -> bool {
        std::mem::take(&mut self.owes_state)
    }

    /// Returns whether the receiver wants no more.
    pub(super) fn is_closed(&self) -> bool {
        self.shared.is_closed.load(Ordering::Relaxed)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.end(End::Stopped);
    }
}

impl Receiver {
    /// Replaces what `part` holds by the next part; returns its lane, or `None` if none waits.
    pub(super) fn take(&mut self, part: &mut Vec<u8>) -> Option<u16> {
        let shared = &*self.shared;
        let taken = shared.taken.load(Ordering::Relaxed);
        let waiting = shared.sent.load(Ordering::Acquire).wrapping_sub(taken);
        if waiting == 0 {
            return None;
        }
        assert!(waiting >= FRAME_BYTES, "each part was sent with its length");
        let mut frame = [0; FRAME_BYTES];
        shared.get(taken, &mut frame);
        let [a, b, c, d, lane @ ..] = frame;
        part.resize(u32::from_le_bytes([a, b, c, d]) as usize, 0);
        assert!(part.len() <= waiting - FRAME_BYTES, "each part was sent whole");
        shared.get(taken.wrapping_add(FRAME_BYTES), part);
        shared.taken.store(taken.wrapping_add(FRAME_BYTES + part.len()), Ordering::Release);
        Some(u16::from_le_bytes(lane))
    }

    /// Returns whether anything was sent, or nothing will be.
    pub(super) fn has_begun(&self) -> bool {
        self.shared.sent.load(Ordering::Acquire) > 0 || self.end().is_some()
    }

    /// Has the loop send the state of its lanes again, at the end of a turn.
    pub(super) fn ask_for_state(&self) {
        self.shared.wants_state.store(true, Ordering::Relaxed);
    }

    /// Returns why nothing more will be sent. Take what waits after this, not before.
    pub(super) fn end(&self) -> Option<End> {
        End::ALL.get(usize::from(self.shared.end.load(Ordering::Acquire))).copied()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    /// Copies bytes into the ring from the place `at` on; the caller owns them.
    fn put(&self, at: usize, bytes: &[u8]) {
        assert!(bytes.len() <= self.ring.len(), "a part fits the ring");
        let at = at & (self.ring.len() - 1);
        let first = bytes.len().min(self.ring.len() - at);
        let (end, start) = bytes.split_at(first);
        // SAFETY: both parts lie within the ring, since `bytes` is no longer than it, and belong to
        // the sender until it advances `sent`; an `UnsafeCell<u8>` is laid out as its byte.
        unsafe {
            let ring = UnsafeCell::raw_get(self.ring.as_ptr());
            std::ptr::copy_nonoverlapping(end.as_ptr(), ring.add(at), end.len());
            std::ptr::copy_nonoverlapping(start.as_ptr(), ring, start.len());
        }
    }

    /// Copies bytes out of the ring from the place `at` on; the caller owns them.
    fn get(&self, at: usize, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.ring.len(), "a part fits the ring");
        let at = at & (self.ring.len() - 1);
        let first = bytes.len().min(self.ring.len() - at);
        let (end, start) = bytes.split_at_mut(first);
        // SAFETY: both parts lie within the ring, since `bytes` is no longer than what was sent,
        // and belong to the receiver until it advances `taken`.
        unsafe {
            let ring = UnsafeCell::raw_get(self.ring.as_ptr());
            std::ptr::copy_nonoverlapping(ring.add(at), end.as_mut_ptr(), end.len());
            std::ptr::copy_nonoverlapping(ring, start.as_mut_ptr(), start.len());
        }
    }
}

/// Length and lane before each part.
const FRAME_BYTES: usize = 6;
/// In place of a reason: there is none yet.
const GOING: u8 = u8::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_arrive_whole_and_in_order_from_another_thread() {
        let (mut sender, mut receiver) = queue(256);
        let total = 20_000_u32;
        let sending = std::thread::spawn(move || {
            for number in 0..total {
                let part = vec![number as u8; (number % 97) as usize];
                // The receiver takes: a test's sender may wait where a loop may not.
                while receiver_is_behind(&sender, part.len()) {
                    std::thread::yield_now();
                }
                assert!(sender.send(number as u16, &part));
            }
        });
        let (mut part, mut number) = (Vec::new(), 0);
        while number < total {
            let end = receiver.end();
            let Some(lane) = receiver.take(&mut part) else {
                assert!(end.is_none(), "part {number} of {total} is missing");
                continue;
            };
            assert_eq!((lane, part.len()), (number as u16, (number % 97) as usize));
            assert!(part.iter().all(|byte| *byte == number as u8));
            number += 1;
        }
        sending.join().expect("it sends");
        assert_eq!((receiver.end(), receiver.take(&mut part)), (Some(End::Stopped), None));
    }

    fn receiver_is_behind(sender: &Sender, length: usize) -> bool {
        let shared = &sender.shared;
        let taken = shared.taken.load(Ordering::Acquire);
        let used = shared.sent.load(Ordering::Relaxed).wrapping_sub(taken);
        length + FRAME_BYTES > shared.ring.len() - used
    }

    #[test]
    fn a_queue_without_room_ends_and_keeps_what_was_sent() {
        let (mut sender, mut receiver) = queue(64);
        assert!(sender.send(1, &[1; 40]) && !sender.is_closed());
        assert!(!sender.send(2, &[2; 40]));
        sender.end(End::Behind);
        drop(sender);
        let mut part = Vec::new();
        assert_eq!(receiver.end(), Some(End::Behind));
        assert_eq!((receiver.take(&mut part), part.len()), (Some(1), 40));
        assert_eq!(receiver.take(&mut part), None);
        let (sender, receiver) = queue(64);
        drop(receiver);
        assert!(sender.is_closed());
    }

    #[test]
    fn a_request_for_the_state_is_met_once_and_not_before_it_was_received() {
        let (mut sender, receiver) = queue(64);
        assert!(!sender.receive_state_request() && !sender.take_state_request());
        receiver.ask_for_state();
        assert!(!sender.take_state_request(), "what goes before the state was not yet written");
        assert!(sender.receive_state_request());
        assert!(sender.take_state_request() && !sender.take_state_request());
        assert!(!sender.receive_state_request());
    }
}
