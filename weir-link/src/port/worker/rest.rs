//! How the loop and its workers sleep, and wake each other.
//!
//! To wake a thread costs both sides more than a frame does. So one that is awake is not woken: it
//! finds at its next turn what was passed on. And one that was just woken sleeps a moment without
//! being wakeable, for frames that come one by one would else wake it one by one: it is woken at
//! most once in [`GATHER_NS`], and what comes meanwhile waits for the end of that.
//! Invariant: a thread sleeps wakeable only if nothing was passed on since it last looked.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use weir_host::error::Result;
use weir_host::wait::{WaitPolicy, Waiter, monotonic_ns};
use weir_host::watch::Waker;

/// Wakes a thread, if it sleeps.
pub(super) struct Notice {
    waker: Waker,
    state: AtomicU8,
}

impl Notice {
    pub fn new() -> Result<Self> {
        Ok(Self { waker: Waker::new()?, state: AtomicU8::new(AWAKE) })
    }

    /// Has the thread look for work, now or before it sleeps next; call it behind what the thread
    /// is to see.
    pub fn give(&self) {
        if self.note() {
            self.waker.wake();
        }
    }

    /// Notes that something was passed on; returns whether the thread sleeps.
    fn note(&self) -> bool {
        self.state.swap(GIVEN, Ordering::AcqRel) == ASLEEP
    }

    /// Takes note of what was given. The thread must look for work after this and before it sleeps.
    fn take(&self) {
        if self.state.load(Ordering::Relaxed) != AWAKE {
            self.state.swap(AWAKE, Ordering::AcqRel);
        }
    }

    /// Makes the thread wakeable; returns whether it may sleep, as nothing was given meanwhile.
    fn begin_sleep(&self) -> bool {
        self.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends a sleep; whether the descriptor woke the thread is `is_ready`. It may do so late, once
    /// the thread sleeps again.
    fn end_sleep(&self, is_ready: bool) {
        if is_ready {
            self.waker.reset();
        }
        self.state.swap(AWAKE, Ordering::AcqRel);
    }

    fn descriptor(&self) -> RawFd {
        self.waker.as_fd().as_raw_fd()
    }
}

/// The sleeps of a thread that others wake by a notice.
pub(crate) struct Rest {
    notice: Arc<Notice>,
    /// When it was woken last, before the end of its sleep.
    woken_ns: u64,
}

/// A way to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleep {
    /// It polls, and wants no waking.
    No,
    /// It sleeps until then, whatever comes.
    Unwakeable(u64),
    /// It sleeps until then, or until something comes.
    Wakeable(u64),
}

impl Rest {
    pub(super) fn new(notice: Arc<Notice>) -> Self {
        Self { notice, woken_ns: 0 }
    }

    /// Returns the descriptor that the thread's waiter is to watch.
    pub fn descriptor(&self) -> RawFd {
        self.notice.descriptor()
    }

    /// Returns whether such a wait is short and ends whatever comes.
    pub fn is_short(&self, waiter: &Waiter, now_ns: u64, deadline_ns: Option<u64>) -> bool {
        !matches!(self.sleep(waiter, now_ns, deadline_ns), Sleep::Wakeable(_))
    }

    /// Returns when a wait from `now_ns` ends at the latest if the system wakes the thread in time.
    pub fn wakes_at(&self, waiter: &Waiter, now_ns: u64, deadline_ns: Option<u64>) -> u64 {
        match self.sleep(waiter, now_ns, deadline_ns) {
            Sleep::No => now_ns,
            Sleep::Unwakeable(until) | Sleep::Wakeable(until) => until,
        }
    }

    /// Waits as [`Waiter::wait`], but wakes up for others at most once in [`GATHER_NS`]. The turn
    /// before found no work.
    pub fn wait(
        &mut self,
        waiter: &mut Waiter,
        now_ns: u64,
        deadline_ns: Option<u64>,
    ) -> Result<u64> {
        let until = match self.sleep(waiter, now_ns, deadline_ns) {
            Sleep::Wakeable(until) => until,
            Sleep::Unwakeable(until) => {
                let woken = waiter.pause(now_ns, until);
                self.notice.take();
                return Ok(woken);
            }
            Sleep::No => {
                self.notice.take();
                return waiter.wait(now_ns, deadline_ns);
            }
        };
        if !self.notice.begin_sleep() {
            self.notice.take();
            return Ok(monotonic_ns());
        }
        let woken = waiter.wait(now_ns, deadline_ns);
        self.notice.end_sleep(waiter.is_readable(self.descriptor()));
        let woken = woken?;
        if woken < until {
            self.woken_ns = woken;
        }
        Ok(woken)
    }

    fn sleep(&self, waiter: &Waiter, now_ns: u64, deadline_ns: Option<u64>) -> Sleep {
        let wakes = waiter.wakes_at(now_ns, deadline_ns);
        let gathered = self.woken_ns + GATHER_NS;
        let is_due = deadline_ns.is_some_and(|deadline| deadline <= now_ns);
        match waiter.policy() {
            // Work that is due and not done is another thread's, which needs a processor.
            WaitPolicy::Block if is_due => Sleep::Unwakeable(now_ns + GATHER_NS),
            _ if wakes <= now_ns => Sleep::No,
            _ if now_ns < gathered => Sleep::Unwakeable(wakes.min(gathered)),
            _ => Sleep::Wakeable(wakes),
        }
    }
}

/// The thread looks for work, or will before it sleeps.
const AWAKE: u8 = 0;
/// Something was passed on that the thread may not have seen.
const GIVEN: u8 = 1;
/// The thread sleeps, or is about to, and is to be woken.
const ASLEEP: u8 = 2;
/// Bound: the time, in ns, that a frame waits for a thread that was just woken; then the thread
/// looks for frames again.
const GATHER_NS: u64 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_host::watch::readable;

    /// Frames that a thread passes on to another one, each in three steps: it puts it into the
    /// queue, says so, and wakes the other if that sleeps.
    struct Scene {
        notice: Notice,
        queued: u32,
        step: usize,
        has_to_wake: bool,
        /// Frames that the other thread took.
        taken: u32,
        place: Place,
    }

    /// Where the thread is that takes frames.
    #[derive(Clone, Copy, PartialEq)]
    enum Place {
        Looks,
        BeginsSleep,
        Sleeps,
        EndsSleep(bool),
    }

    const FRAMES: usize = 3;

    impl Scene {
        fn new() -> Self {
            let notice = Notice::new().expect("there are descriptors");
            let place = Place::Looks;
            Self { notice, queued: 0, step: 0, has_to_wake: false, taken: 0, place }
        }

        fn can_give(&self) -> bool {
            self.step < 3 * FRAMES
        }

        fn give(&mut self) {
            match self.step % 3 {
                0 => self.queued += 1,
                1 => self.has_to_wake = self.notice.note(),
                _ if self.has_to_wake => self.notice.waker.wake(),
                _ => {}
            }
            self.step += 1;
        }

        fn is_ready(&self) -> bool {
            readable(&[self.notice.waker.as_fd()], Duration::ZERO).expect("it can be asked")[0]
        }

        fn can_take(&self) -> bool {
            self.place != Place::Sleeps || self.is_ready()
        }

        fn take(&mut self) {
            self.place = match self.place {
                Place::Looks => {
                    self.taken += std::mem::take(&mut self.queued);
                    Place::BeginsSleep
                }
                Place::BeginsSleep if self.notice.begin_sleep() => Place::Sleeps,
                Place::BeginsSleep => {
                    self.notice.take();
                    Place::Looks
                }
                Place::Sleeps => Place::EndsSleep(true),
                Place::EndsSleep(is_ready) => {
                    self.notice.end_sleep(is_ready);
                    Place::Looks
                }
            };
        }
    }

    /// All orders in which the steps of both threads can follow each other.
    #[test]
    fn no_thread_sleeps_while_a_frame_waits_for_it() {
        let (mut orders, mut path) = (0, Vec::new());
        loop {
            let mut scene = Scene::new();
            let mut depth = 0;
            while scene.can_give() || scene.can_take() && scene.place != Place::Sleeps {
                let is_choice = scene.can_give() && scene.can_take();
                if is_choice && depth == path.len() {
                    path.push(false);
                }
                let gives = if is_choice { path[depth] } else { scene.can_give() };
                depth += usize::from(is_choice);
                if gives { scene.give() } else { scene.take() }
            }
            while scene.is_ready() && scene.place == Place::Sleeps {
                (0..3).for_each(|_| scene.take());
            }
            assert_eq!(scene.taken as usize, FRAMES, "{path:?}");
            orders += 1;
            while path.pop_if(|last| *last).is_some() {}
            let Some(last) = path.last_mut() else { break };
            *last = true;
        }
        assert!(orders > 1_000, "{orders} orders");
    }

    /// How a thread waits, how long ago it was woken and when something is due, in us: its sleep.
    #[test]
    fn a_thread_is_woken_at_most_once_in_a_while() {
        use Sleep::{No, Unwakeable, Wakeable};
        let us = |us: u64| 1_000_000_000 + us * 1_000;
        let rows = [
            (WaitPolicy::Block, 1_000, None, Wakeable(us(20_000))),
            (WaitPolicy::Block, 1_000, Some(70), Wakeable(us(70))),
            (WaitPolicy::Block, 10, None, Unwakeable(us(40))),
            (WaitPolicy::Block, 10, Some(70), Unwakeable(us(40))),
            (WaitPolicy::Block, 10, Some(30), Unwakeable(us(30))),
            // Work that is due waits for another thread.
            (WaitPolicy::Block, 1_000, Some(0), Unwakeable(us(50))),
            (WaitPolicy::Hybrid, 1_000, Some(0), No),
            (WaitPolicy::Hybrid, 1_000, Some(500), Wakeable(us(420))),
            (WaitPolicy::Spin, 10, None, No),
        ];
        for (policy, woken, deadline, expected) in rows {
            let mut rest = Rest::new(Arc::new(Notice::new().expect("there are descriptors")));
            rest.woken_ns = us(0) - woken * 1_000;
            let waiter = Waiter::new(policy, &[]);
            let found = rest.sleep(&waiter, us(0), deadline.map(us));
            assert_eq!(found, expected, "{policy:?}, {woken} us, due {deadline:?}");
        }
    }
}
