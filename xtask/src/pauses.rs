//! `cargo xtask pauses COMMAND…`: runs a command while processes below it are stopped for half a
//! second at random instants, as a busy machine or a virtual one stops them.
//!
//! A test that passes so depends on no instant at which the machine lets a process run.

use rustix::process::{Pid, Signal, kill_process, set_child_subreaper};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// A process, as `/proc/PID/stat` tells of it.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    /// Such as `S`, it sleeps, `T`, it is stopped, and `Z`, it has ended.
    state: char,
}

/// Runs the command to its end; returns whether it passed.
///
/// # Errors
/// When it does not start.
pub fn run(command: &[&str]) -> Result<bool, String> {
    let (program, arguments) = command.split_first().ok_or("pauses: which command?")?;
    // What outlives its parent becomes a child of this process, so that it is stopped, too.
    set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("cannot adopt processes: {error}"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .spawn()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let mut draw = Draw::seeded();
    println!("pauses: seed {:x} (WEIR_SEED)", draw.0);
    let (start, mut stops) = (Instant::now(), 0);
    let status = loop {
        let waits = Duration::from_millis(draw.below(2 * MEAN_MS));
        if let Some(status) = wait(&mut child, waits)? {
            break status;
        }
        stops += u32::from(stop_one(&mut draw));
    };
    println!("pauses: {stops} of {PAUSE:?} in {:.0} s", start.elapsed().as_secs_f64());
    Ok(status)
}

/// Waits for the end of the command for this long; returns whether it passed, once it ended.
fn wait(child: &mut Child, time: Duration) -> Result<Option<bool>, String> {
    let start = Instant::now();
    loop {
        let ended = child.try_wait().map_err(|error| format!("cannot wait: {error}"))?;
        match ended {
            Some(status) => return Ok(Some(status.success())),
            None if start.elapsed() >= time => return Ok(None),
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Stops a process for a while, or one time in four all of them at once; returns whether there was
/// one.
fn stop_one(draw: &mut Draw) -> bool {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let running = below(own, &processes());
    if running.is_empty() {
        return false;
    }
    let one = draw.below(running.len() as u64) as usize;
    let chosen = if draw.below(4) == 0 { running.as_slice() } else { &running[one..=one] };
    chosen.iter().for_each(|process| send(*process, Signal::STOP));
    thread::sleep(PAUSE);
    chosen.iter().for_each(|process| send(*process, Signal::CONT));
    true
}

/// Returns the processes below this one that run or sleep. One that a test has stopped stays so.
fn below(ancestor: i32, all: &BTreeMap<i32, Process>) -> Vec<i32> {
    let is_below = |process: &Process| {
        let above = std::iter::successors(Some(process.parent), |number| {
            all.get(number).map(|process| process.parent)
        });
        // A process that was started while the list was read could close a circle.
        above.take(DEPTH_MAX).any(|number| number == ancestor)
    };
    let runs = |process: &Process| !matches!(process.state, 'T' | 't' | 'Z' | 'X');
    let found = all.iter().filter(|(_, process)| runs(process) && is_below(process));
    found.map(|(number, _)| *number).collect()
}

fn processes() -> BTreeMap<i32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let read = |number: i32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        Some((number, parsed(&stat)?))
    };
    numbers.filter_map(read).collect()
}

/// Reads `7 (name) S 1 …`; a name may contain anything.
fn parsed(stat: &str) -> Option<Process> {
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    let state = words.next()?.chars().next()?;
    Some(Process { parent: words.next()?.parse().ok()?, state })
}

/// A process that has ended meanwhile needs no signal.
fn send(process: i32, signal: Signal) {
    let _ended = Pid::from_raw(process).map(|process| kill_process(process, signal));
}

/// Draws by a linear congruential generator: no pause needs better ones.
struct Draw(u64);

impl Draw {
    /// The seed is WEIR_SEED, to repeat a run as far as processes can be repeated, or the clock.
    fn seeded() -> Self {
        let set =
            std::env::var("WEIR_SEED").ok().and_then(|text| u64::from_str_radix(&text, 16).ok());
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(set.unwrap_or_else(|| clock.map_or(1, |time| time.as_nanos() as u64)))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

/// How long a process stands.
const PAUSE: Duration = Duration::from_millis(500);
/// The mean time from one pause to the next.
const MEAN_MS: u64 = 500;
/// Generations below this process.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let rows = [
            ("7 (weir) S 1 7 7", Some((1, 'S'))),
            ("8 (a) b (c)) T 7 8", Some((7, 'T'))),
            ("8 (cut", None),
        ];
        for (text, expected) in rows {
            let found = parsed(text).map(|process| (process.parent, process.state));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn only_what_runs_below_is_stopped() {
        let rows = [(2, 1, 'S'), (3, 2, 'R'), (4, 3, 'T'), (5, 1, 'S'), (6, 2, 'Z'), (7, 7, 'S')];
        let all = rows.map(|(number, parent, state)| (number, Process { parent, state })).into();
        assert_eq!(below(2, &all), [3]);
        assert_eq!(below(1, &all), [2, 3, 5]);
    }
}
