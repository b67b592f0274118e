//! The processes below this one, and their end when a signal ends this one.

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// A process, as `/proc/PID/stat` tells of it.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    /// Such as `S`, it sleeps, `T`, it is stopped, and `Z`, it has ended.
    state: char,
}

/// Lets a signal that asks this process to end do so, with all that it started.
///
/// # Errors
/// When signals cannot be handled.
pub fn end_with_signals() -> Result<(), String> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| format!("cannot handle signals: {error}"))?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            eprintln!("xtask: ended by a signal; ends what it started");
            end_all();
            let _none = fs::remove_dir_all(scratch());
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Returns the folder for the temporary files of what this process runs. Who makes it removes it,
/// and so does a signal.
pub fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("weir-xtask-{}", std::process::id()))
}

/// Sends SIGTERM to the processes below this one, and SIGKILL to those that do not end.
fn end_all() {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let living = living_below_this();
        if living.is_empty() {
            return;
        }
        let is_asked = start.elapsed() < PATIENCE / 2;
        for process in living {
            send(process, if is_asked { Signal::TERM } else { Signal::KILL });
            // One that a pause has stopped would not hear it.
            send(process, Signal::CONT);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Returns the processes below this one that run or sleep. One that a test has stopped stays so.
pub fn running_below_this() -> Vec<i32> {
    below(own(), &processes(), |state| !matches!(state, 'T' | 't' | 'Z' | 'X'))
}

fn living_below_this() -> Vec<i32> {
    below(own(), &processes(), |state| !matches!(state, 'Z' | 'X'))
}

fn own() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

/// Returns the processes below `ancestor` in one of these states.
fn below(ancestor: i32, all: &BTreeMap<i32, Process>, state: impl Fn(char) -> bool) -> Vec<i32> {
    let is_below = |process: &Process| {
        let above = std::iter::successors(Some(process.parent), |number| {
            all.get(number).map(|process| process.parent)
        });
        // A process that was started while the list was read could close a circle.
        above.take(DEPTH_MAX).any(|number| number == ancestor)
    };
    let found = all.iter().filter(|(_, process)| state(process.state) && is_below(process));
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
pub fn send(process: i32, signal: Signal) {
    let _ended = Pid::from_raw(process).map(|process| kill_process(process, signal));
}

/// Generations below this process.
const DEPTH_MAX: usize = 32;
/// How long processes have to end; after half of it they are killed.
const PATIENCE: Duration = Duration::from_secs(4);

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
    fn only_what_is_below_in_that_state_is_found() {
        let rows = [(2, 1, 'S'), (3, 2, 'R'), (4, 3, 'T'), (5, 1, 'S'), (6, 2, 'Z'), (7, 7, 'S')];
        let all = rows.map(|(number, parent, state)| (number, Process { parent, state })).into();
        assert_eq!(below(2, &all, |state| state != 'Z'), [3, 4]);
        assert_eq!(below(1, &all, |state| matches!(state, 'S' | 'R')), [2, 3, 5]);
    }
}
