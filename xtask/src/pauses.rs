//! `cargo xtask pauses COMMAND…`: runs a command while processes below it are stopped for half a
//! second at random instants, as a busy machine or a virtual one stops them.
//!
//! A test that passes so depends on no instant at which the machine lets a process run.

use crate::processes;
use rustix::process::{Signal, set_child_subreaper};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// Runs the command to its end; returns whether it passed.
///
/// # Errors
/// When it does not start.
pub fn run(command: &[&str]) -> Result<bool, String> {
    let (program, arguments) = command.split_first().ok_or("pauses: which command?")?;
    let mut draw = Draw::seeded()?;
    // What outlives its parent becomes a child of this process, so that it is stopped, too.
    set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("cannot adopt processes: {error}"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .spawn()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
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
    let running = processes::running_below_this();
    if running.is_empty() {
        return false;
    }
    let one = draw.below(running.len() as u64) as usize;
    let chosen = if draw.below(4) == 0 { running.as_slice() } else { &running[one..=one] };
    chosen.iter().for_each(|process| processes::send(*process, Signal::STOP));
    thread::sleep(PAUSE);
    chosen.iter().for_each(|process| processes::send(*process, Signal::CONT));
    true
}

/// Draws by a linear congruential generator: no pause needs better ones.
struct Draw(u64);

impl Draw {
    /// The seed is WEIR_SEED, to repeat a run as far as processes can be repeated, or the clock.
    fn seeded() -> Result<Self, String> {
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let clock = clock.map_or(1, |time| time.as_nanos() as u64);
        match std::env::var("WEIR_SEED") {
            Ok(text) => u64::from_str_radix(&text, 16).map(Self).map_err(|_| {
                format!("pauses: WEIR_SEED is `{text}`: write up to 16 hexadecimal digits")
            }),
            Err(_) => Ok(Self(clock)),
        }
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
