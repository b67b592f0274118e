//! The clock, and waiting for a frame or a deadline, whichever comes first.
//!
//! Rate accuracy comes from the link's own departure times, not from this timer
//! (ARCHITECTURE.md, "Time"); the timer affects only delay. Waking a sleeping CPU costs 50-100 us,
//! so the hybrid policy sleeps until shortly before the deadline and spins the rest, spins for a
//! moment after work, and around the instant at which a [`Forecast`] expects a frame.

use std::os::fd::RawFd;
use std::time::Duration;

use crate::error::{Result, SystemError};
use crate::forecast::Forecast;

/// After work, [`WaitPolicy::Hybrid`] spins this long before it sleeps.
pub const SPIN_AFTER_WORK_NS: u64 = 50_000;
/// [`WaitPolicy::Hybrid`] wakes this long before a deadline and spins the rest.
pub const WAKE_EARLY_NS: u64 = 80_000;
/// The longest sleep, so that counters and interface states are checked.
pub const SLEEP_MAX_NS: u64 = 20_000_000;

/// How a loop waits when it has nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Sleep to 80 us before the deadline, then spin; spin 50 us after the last work, and, for up
    /// to a quarter of the time, when the next frame is expected.
    #[default]
    Hybrid,
    /// Sleep to the deadline: no spinning, but 50-100 us late.
    Block,
    /// Never sleep: uses one whole CPU.
    Spin,
}

/// Returns nanoseconds of CLOCK_MONOTONIC, the clock of the live datapath.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns nanoseconds of CLOCK_REALTIME, the clock of the kernel's receive stamps.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(status, 0, "the standard clocks can always be read");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Has the kernel delay this thread's timers by 1 ns at most; the default slack adds 45 us.
pub fn set_exact_timers() -> Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory of ours.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) } {
        0 => Ok(()),
        _ => Err(SystemError::last("set the timer slack of this thread to 1 ns")),
    }
}

/// Keeps this thread on one CPU.
pub fn pin_to_cpu(cpu: usize) -> Result<()> {
    let action = || format!("keep this thread on CPU {cpu}");
    if cpu >= libc::CPU_SETSIZE as usize {
        let why = format!("CPUs are numbered below {}", libc::CPU_SETSIZE);
        return Err(SystemError::refused(action(), why, "`nproc` prints their number"));
    }
    // SAFETY: an all-zero cpu_set_t is the empty set, and `cpu` is below CPU_SETSIZE.
    let status = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if status == 0 { Ok(()) } else { Err(SystemError::last(action())) }
}

/// Returns the CPUs on which the system lets this process run: those of its control group, whatever
/// the affinity of its threads is now.
///
/// # Errors
/// When they cannot be read, as on a machine of more than `CPU_SETSIZE` CPUs.
pub fn usable_cpus() -> Result<Vec<usize>> {
    // On a thread of its own, which the wider affinity ends with.
    let ask = std::thread::spawn(widened_affinity);
    ask.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Gives this thread every CPU that it may have; returns those.
fn widened_affinity() -> Result<Vec<usize>> {
    let len = size_of::<libc::cpu_set_t>();
    // SAFETY: an all-zero cpu_set_t is the empty set, each CPU is below CPU_SETSIZE, and the calls
    // get a live set with its length.
    let (status, set) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize).for_each(|cpu| libc::CPU_SET(cpu, &mut set));
        // Where this is forbidden the thread keeps what it has.
        let _kept = libc::sched_setaffinity(0, len, &set);
        set = std::mem::zeroed();
        (libc::sched_getaffinity(0, len, &mut set), set)
    };
    if status != 0 {
        return Err(SystemError::last("read the CPUs of this process"));
    }
    // SAFETY: each CPU is below CPU_SETSIZE.
    let has = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(has).collect())
}

/// The processes whose CPU time [`cpu_time`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuTimeOf {
    /// This process with all its threads.
    Process,
    /// The programs that this process started and waited for.
    Children,
}

/// Returns the CPU time used so far, in user space and in the kernel.
pub fn cpu_time(of: CpuTimeOf) -> Duration {
    let who = match of {
        CpuTimeOf::Process => libc::RUSAGE_SELF,
        CpuTimeOf::Children => libc::RUSAGE_CHILDREN,
    };
    // SAFETY: an all-zero rusage is a valid one, and getrusage only writes to it.
    let (status, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(who, &mut usage), usage)
    };
    assert_eq!(status, 0, "the usage of these two can always be read");
    let part = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    part(usage.ru_utime) + part(usage.ru_stime)
}

/// Waits according to its policy; the loop around it does the polling.
#[derive(Debug)]
pub struct Waiter {
    policy: WaitPolicy,
    descriptors: Vec<libc::pollfd>,
    worked_at_ns: u64,
    /// The deadline of the last wait: what happens from then on need not be an arrival.
    deadline_ns: Option<u64>,
    forecast: Forecast,
}

impl Waiter {
    /// A waiter that wakes for anything readable on `descriptors`: ports, control, signals.
    pub fn new(policy: WaitPolicy, descriptors: &[RawFd]) -> Self {
        let watch = |fd: &RawFd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
        Self {
            policy,
            descriptors: descriptors.iter().map(watch).collect(),
            worked_at_ns: 0,
            deadline_ns: None,
            forecast: Forecast::default(),
        }
    }

    /// Records that the loop found work at `now_ns`.
    pub fn worked(&mut self, now_ns: u64) {
        self.worked_at_ns = now_ns;
        if self.deadline_ns.is_none_or(|deadline| now_ns < deadline) {
            self.forecast.arrived(now_ns);
        }
    }

    /// Sleeps if the policy says so, at most until `deadline_ns`; returns the time after. While
    /// spinning it returns at once, so that the caller polls its rings and comes back.
    pub fn wait(&mut self, now_ns: u64, deadline_ns: Option<u64>) -> Result<u64> {
        self.deadline_ns = deadline_ns;
        let Some(sleep) = self.sleep_for(now_ns, deadline_ns) else {
            self.descriptors.iter_mut().for_each(|watched| watched.revents = 0);
            std::hint::spin_loop();
            return Ok(monotonic_ns());
        };
        self.sleep(sleep)?;
        Ok(monotonic_ns())
    }

    /// Returns when a wait from `now_ns` ends at the latest if the system wakes the loop in time.
    pub fn wakes_at(&self, now_ns: u64, deadline_ns: Option<u64>) -> u64 {
        let sleep = self.sleep_for(now_ns, deadline_ns).unwrap_or_default();
        now_ns.saturating_add(sleep.as_nanos() as u64)
    }

    /// Sleeps from `now_ns` until then, whatever becomes readable; returns the time after.
    pub fn pause(&mut self, now_ns: u64, until_ns: u64) -> u64 {
        self.deadline_ns = Some(until_ns);
        self.descriptors.iter_mut().for_each(|watched| watched.revents = 0);
        std::thread::sleep(Duration::from_nanos(until_ns.saturating_sub(now_ns)));
        monotonic_ns()
    }

    /// Returns its policy.
    pub fn policy(&self) -> WaitPolicy {
        self.policy
    }

    /// Returns whether this descriptor woke the last wait, readable or failed.
    pub fn is_readable(&self, descriptor: RawFd) -> bool {
        let woke = |watched: &libc::pollfd| watched.fd == descriptor && watched.revents != 0;
        self.descriptors.iter().any(woke)
    }

    /// Returns whether descriptor number `index`, in the order given, woke the last wait, readable
    /// or failed. After a wait without sleep it is meaningless.
    pub fn is_ready(&self, index: usize) -> bool {
        self.descriptors[index].revents != 0
    }

    /// Returns whether a descriptor woke the last wait because it failed: an interface was set down
    /// or disappeared. A port's refresh clears it.
    pub fn has_failed(&self) -> bool {
        let failed = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        self.descriptors.iter().any(|watched| watched.revents & failed != 0)
    }

    /// Returns how long to sleep now; `None` to spin.
    fn sleep_for(&self, now_ns: u64, deadline_ns: Option<u64>) -> Option<Duration> {
        let until = |at: u64| at.saturating_sub(now_ns);
        let left = deadline_ns.map_or(SLEEP_MAX_NS, until).min(SLEEP_MAX_NS);
        let sleep = match self.policy {
            WaitPolicy::Spin => 0,
            WaitPolicy::Block => left,
            WaitPolicy::Hybrid if until(self.worked_at_ns + SPIN_AFTER_WORK_NS) > 0 => 0,
            WaitPolicy::Hybrid => {
                let early = |at: u64| until(at).saturating_sub(WAKE_EARLY_NS);
                let left = deadline_ns.map_or(SLEEP_MAX_NS, early);
                left.min(self.until_window(now_ns)).min(SLEEP_MAX_NS)
            }
        };
        (sleep > 0).then(|| Duration::from_nanos(sleep))
    }

    /// Returns the time until the next frame is worth polling for: 0 during that time, and without
    /// end once it is over.
    fn until_window(&self, now_ns: u64) -> u64 {
        let window = self.forecast.window().filter(|window| now_ns < window.end);
        window.map_or(u64::MAX, |window| window.start.saturating_sub(now_ns))
    }

    fn sleep(&mut self, duration: Duration) -> Result<()> {
        let timeout = libc::timespec {
            tv_sec: duration.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(duration.subsec_nanos() as i32),
        };
        let count = self.descriptors.len() as libc::nfds_t;
        // SAFETY: the pointer and count are those of a live vector of pollfd; no mask is given.
        let status = unsafe {
            libc::ppoll(self.descriptors.as_mut_ptr(), count, &timeout, std::ptr::null())
        };
        if status >= 0 {
            return Ok(());
        }
        // A failed call writes no results: those of the previous sleep are still there.
        self.descriptors.iter_mut().for_each(|watched| watched.revents = 0);
        let failure = SystemError::last("wait for a frame");
        // A signal ends the sleep early, as intended.
        if failure.errno() == Some(libc::EINTR) { Ok(()) } else { Err(failure) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_follows_policy_deadline_and_last_work() {
        use WaitPolicy::{Block, Hybrid, Spin};
        // policy, time since work, time to deadline, sleep; all in microseconds
        let rows = [
            (Spin, 9_999, None, None),
            (Spin, 9_999, Some(5_000), None),
            (Block, 0, Some(70), Some(70)),
            (Block, 0, Some(0), None),
            (Block, 0, None, Some(20_000)),
            (Hybrid, 10, Some(5_000), None),
            (Hybrid, 10, None, None),
            (Hybrid, 60, Some(5_000), Some(4_920)),
            (Hybrid, 60, Some(70), None),
            (Hybrid, 60, Some(90_000), Some(20_000)),
            (Hybrid, 60, None, Some(20_000)),
        ];
        for (policy, worked, deadline, expected) in rows {
            let now = 1_000_000_000;
            let at = deadline.map(|us: u64| now + us * 1_000);
            let mut waiter = Waiter::new(policy, &[]);
            waiter.worked(now - worked * 1_000);
            let sleep = waiter.sleep_for(now, at);
            let expected = expected.map(Duration::from_micros);
            assert_eq!(sleep, expected, "{policy:?} worked {worked} deadline {deadline:?}");
        }
    }

    /// After frames of a clock of 1 ms: the time since the last, the time to the deadline, the
    /// sleep; all in microseconds.
    #[test]
    fn a_foreseen_frame_is_polled_for() {
        let start = 1_000_000_000;
        let mut waiter = Waiter::new(WaitPolicy::Hybrid, &[]);
        (0..=100).for_each(|frame| waiter.worked(start + frame * 1_000_000));
        let last = start + 100_000_000;
        let rows = [
            (100, None, Some(810)),
            (100, Some(500), Some(420)),
            (940, None, None),
            (1_011, None, Some(20_000)),
            (1_011, Some(90_000), Some(20_000)),
        ];
        for (since, deadline, expected) in rows {
            let now = last + since * 1_000;
            let sleep = waiter.sleep_for(now, deadline.map(|us: u64| now + us * 1_000));
            let sleep = sleep.map(|sleep| sleep.as_micros() as u64);
            assert_eq!(sleep, expected, "{since} us after a frame, deadline {deadline:?}");
        }
    }

    #[test]
    fn a_departure_at_its_deadline_is_no_arrival() {
        let mut waiter = Waiter::new(WaitPolicy::Block, &[]);
        for departure in 1..=60 {
            let deadline = departure * 1_000_000;
            waiter.deadline_ns = Some(deadline);
            waiter.worked(deadline + 3_000);
        }
        assert_eq!(waiter.forecast.window(), None);
    }

    #[test]
    fn a_wait_with_nothing_to_read_ends_at_its_deadline() {
        set_exact_timers().expect("timer slack can be set");
        let mut waiter = Waiter::new(WaitPolicy::Hybrid, &[]);
        let deadline = monotonic_ns() + 3_000_000;
        let mut now = monotonic_ns();
        while now < deadline {
            // Nothing else ends the waiting, so that it ends at all is what is tested.
            now = waiter.wait(now, Some(deadline)).expect("wait works");
        }
    }

    #[test]
    fn a_pinned_thread_still_knows_the_other_cpus() {
        let all = usable_cpus().expect("they can be read");
        let last = *all.last().expect("there is one");
        let pinned = std::thread::spawn(move || {
            pin_to_cpu(last).expect("it is usable");
            usable_cpus()
        });
        let found = pinned.join().expect("it does not panic").expect("they can be read");
        assert_eq!(found, all);
    }

    #[test]
    fn a_readable_descriptor_ends_the_sleep() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        use std::os::unix::net::UnixStream;
        let (reader, mut writer) = UnixStream::pair().expect("pair");
        let (idle, _other) = UnixStream::pair().expect("pair");
        let mut waiter = Waiter::new(WaitPolicy::Block, &[idle.as_raw_fd(), reader.as_raw_fd()]);
        writer.write_all(b"x").expect("write");
        waiter.wait(monotonic_ns(), None).expect("wait works");
        assert_eq!((waiter.is_ready(0), waiter.is_ready(1)), (false, true));
    }
}
