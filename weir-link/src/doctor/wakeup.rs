//! How late this machine wakes a thread that sleeps.

use std::thread;
use std::time::Duration;

use weir_host::error::Result;
use weir_host::precedence::{NICENESS_FIRST, set_niceness, set_realtime};
use weir_host::wait::{monotonic_ns, set_exact_timers};

/// The lateness of a thread's wake-ups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wakeup {
    /// The precedence of the thread: `normal`, `first` (niceness -20) or `real-time`.
    pub precedence: &'static str,
    /// How many wake-ups were measured.
    pub count: usize,
    /// Half of the wake-ups were at most so late, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 were at most so late.
    pub p99_ns: u64,
    /// The latest wake-up, in nanoseconds after its time.
    pub max_ns: u64,
}

/// Gives this thread a precedence.
type Set = fn() -> Result<()>;

/// Measures each precedence that this process may take, one after the other. Takes about a second.
pub fn measure() -> Vec<Wakeup> {
    let rows: [(&'static str, Set); 3] = [
        ("normal", || Ok(())),
        ("first", || set_niceness(NICENESS_FIRST)),
        ("real-time", set_realtime),
    ];
    // On threads of their own, which their precedence ends with.
    let of = |(precedence, set): (&'static str, Set)| {
        thread::spawn(move || {
            set().and_then(|()| set_exact_timers()).ok()?;
            Some(Wakeup::of(precedence, (0..COUNT).map(|_| lateness()).collect()))
        })
        .join()
        .ok()?
    };
    rows.into_iter().filter_map(of).collect()
}

impl Wakeup {
    /// Sums up how late wake-ups were.
    ///
    /// # Panics
    /// If there are none.
    pub(super) fn of(precedence: &'static str, mut late_ns: Vec<u64>) -> Self {
        late_ns.sort_unstable();
        let count = late_ns.len();
        let at = |percent: usize| late_ns[(count * percent).div_ceil(100).max(1) - 1];
        Self { precedence, count, p50_ns: at(50), p99_ns: at(99), max_ns: at(100) }
    }
}

fn lateness() -> u64 {
    let begun = monotonic_ns();
    thread::sleep(SLEEP);
    (monotonic_ns() - begun).saturating_sub(SLEEP.as_nanos() as u64)
}

/// The wake-ups of one precedence.
const COUNT: usize = 300;
const SLEEP: Duration = Duration::from_millis(1);
