//! Waiting for conditions: a test says what must come, and never how long that takes.
//!
//! There is one patience. It is long, since it is spent only where a test fails, and the condition
//! is looked at once more after it: a machine that let the test itself wait fails nothing.

use std::fmt::{Debug, Display};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Failure, Result};

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks.
const POLL: Duration = Duration::from_millis(5);

/// Waits until `is_so`.
///
/// # Errors
/// When `what` has not come within [`PATIENCE`].
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    until_ok(what, || if is_so() { Ok(()) } else { Err("") })
}

/// Waits until `look` finds something; returns it.
///
/// # Errors
/// When `what` has not come within [`PATIENCE`].
pub fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    until_ok(what, || look().ok_or(""))
}

/// Waits until `look` succeeds; returns what it found. Its error says what it saw instead.
///
/// # Errors
/// When `what` has not come within [`PATIENCE`]; the text has the last error.
pub fn until_ok<T, E: Display>(
    what: &str,
    look: impl FnMut() -> std::result::Result<T, E>,
) -> Result<T> {
    wait(PATIENCE, what, look)
}

/// Waits until what `look` sees is good; returns it.
///
/// # Errors
/// When `what` has not come within [`PATIENCE`]; the text has what was seen last.
pub fn until_seen<T: Debug>(
    what: &str,
    mut look: impl FnMut() -> T,
    is_good: impl Fn(&T) -> bool,
) -> Result<T> {
    until_ok(what, || {
        let seen = look();
        if is_good(&seen) { Ok(seen) } else { Err(format!("{seen:?}")) }
    })
}

fn wait<T, E: Display>(
    patience: Duration,
    what: &str,
    mut look: impl FnMut() -> std::result::Result<T, E>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        // Before the look, so that the last one is after the patience however long a pause was.
        let is_last = start.elapsed() >= patience;
        match look() {
            Ok(found) => return Ok(found),
            Err(seen) if is_last => return Err(missing(patience, what, &seen.to_string())),
            Err(_) => thread::sleep(POLL),
        }
    }
}

fn missing(patience: Duration, what: &str, seen: &str) -> Failure {
    let seen = if seen.is_empty() { String::new() } else { format!("; last seen: {seen}") };
    format!("{what}: not within {} s{seen}", patience.as_secs()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_returned_however_many_looks_it_takes() {
        let mut looks = 0;
        let mut third = || {
            looks += 1;
            (looks == 3).then_some(looks)
        };
        assert_eq!(until_some("a third look", &mut third), Ok(3));
        assert_eq!(until("true", || true), Ok(()));
        assert_eq!(until_seen("five", || 5, |seen| *seen == 5), Ok(5));
    }

    #[test]
    fn what_does_not_come_is_named_with_what_was_seen_last() {
        let mut looks = 0;
        let found: Result<()> = wait(Duration::ZERO, "a whole number", || {
            looks += 1;
            Err(format!("{looks} half"))
        });
        let why = "a whole number: not within 0 s; last seen: 1 half";
        assert_eq!(found.map_err(String::from), Err(why.to_owned()));
        let found: Result<()> = wait(Duration::ZERO, "it", || Err(""));
        assert_eq!(found.map_err(String::from), Err("it: not within 0 s".to_owned()));
    }

    #[test]
    fn there_is_a_look_after_the_patience() {
        let mut looks = 0;
        let found = wait(Duration::from_millis(1), "a look after a pause", || {
            looks += 1;
            // The machine pauses during the first look.
            thread::sleep(Duration::from_millis(2));
            if looks == 2 { Ok(()) } else { Err("") }
        });
        assert_eq!(found, Ok(()));
    }
}
