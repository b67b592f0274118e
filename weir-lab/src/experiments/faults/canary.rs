//! When the system itself let nothing run: a thread on each processor wakes every millisecond and
//! notes when it was late.

use super::link::text;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_host::wait::{monotonic_ns, pin_to_cpu, set_exact_timers, usable_cpus};
use weir_testbed::Gap;

/// A time in which a processor ran nothing of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// One thread a processor, which records when it does not run.
pub(super) struct Canary {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<Pause>, String>>>,
}

impl Canary {
    pub(super) fn start() -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = |cpu| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || watch(cpu, &stop))
        };
        let threads = usable_cpus().map_err(text)?.into_iter().map(watch).collect();
        Ok(Self { stop, threads })
    }

    /// Returns the times in which a processor ran nothing, in order, without overlaps.
    pub(super) fn finish(self) -> Result<Vec<Pause>, String> {
        self.stop.store(true, Ordering::Relaxed);
        let mut pauses = Vec::new();
        for thread in self.threads {
            pauses.extend(thread.join().map_err(|_| "a canary panicked")??);
        }
        Ok(merged(pauses))
    }
}

/// Joins pauses that overlap.
fn merged(mut pauses: Vec<Pause>) -> Vec<Pause> {
    pauses.sort_by_key(|pause| pause.from_ns);
    let mut merged: Vec<Pause> = Vec::new();
    for pause in pauses {
        match merged.last_mut() {
            Some(last) if pause.from_ns <= last.to_ns => last.to_ns = last.to_ns.max(pause.to_ns),
            _ => merged.push(pause),
        }
    }
    merged
}

/// Returns the length of a gap without the times in which the system let nothing run on a
/// processor.
pub(super) fn without(gap: &Gap, pauses: &[Pause]) -> u64 {
    let during = pauses
        .iter()
        .map(|pause| pause.to_ns.min(gap.to_ns).saturating_sub(pause.from_ns.max(gap.from_ns)));
    gap.length_ns.saturating_sub(during.sum())
}

fn watch(cpu: usize, stop: &AtomicBool) -> Result<Vec<Pause>, String> {
    pin_to_cpu(cpu).map_err(text)?;
    set_exact_timers().map_err(text)?;
    let mut pauses = Vec::new();
    let mut before = monotonic_ns();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(INTERVAL);
        let now = monotonic_ns();
        if now - before > LATE_NS {
            pauses.push(Pause { from_ns: before, to_ns: now });
        }
        before = now;
    }
    Ok(pauses)
}

const INTERVAL: Duration = Duration::from_millis(1);
const LATE_NS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_caused_is_taken_off_a_gap() {
        let gap = Gap { from_ns: 100, to_ns: 200, length_ns: 100 };
        let rows = [((0, 50), 100), ((50, 130), 70), ((150, 160), 90), ((0, 300), 0)];
        for ((from_ns, to_ns), left) in rows {
            assert_eq!(without(&gap, &[Pause { from_ns, to_ns }]), left, "{from_ns} to {to_ns}");
        }
    }

    #[test]
    fn pauses_of_two_processors_count_once() {
        let pauses = |ranges: &[(u64, u64)]| -> Vec<Pause> {
            ranges
                .iter()
                .map(|(from_ns, to_ns)| Pause { from_ns: *from_ns, to_ns: *to_ns })
                .collect()
        };
        let rows: [(&[_], &[_]); 3] = [
            (&[(5, 9), (1, 3)], &[(1, 3), (5, 9)]),
            (&[(1, 6), (5, 9), (2, 3)], &[(1, 9)]),
            (&[], &[]),
        ];
        for (given, expected) in rows {
            assert_eq!(merged(pauses(given)), pauses(expected), "{given:?}");
        }
    }
}
