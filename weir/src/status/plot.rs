//! `weir status --plot`: looks at a link for some time and draws what its classes did.
//!
//! Each point is what the status itself says at that instant: rates of the second before it, the
//! bytes that wait then, delays of the ten seconds before it.

use super::fetch;
use crate::output::Output;
use crate::picture::Files;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use weir_control::protocol::Query;
use weir_host::signals::StopSignal;
use weir_link::status::Status;
use weir_show::statuses::tracks;

/// For how long a link is looked at, and how often.
#[derive(Clone, Copy)]
pub struct Looks {
    pub length: Duration,
    pub interval: Duration,
}

/// Looks at the link until the length is over, a signal comes or the link ends; draws it, and
/// returns its last status.
///
/// # Errors
/// When there is no link, or the picture cannot be written.
pub fn plot(
    find: impl Fn() -> Result<PathBuf, String>,
    query: &Query,
    looks: Looks,
    files: Files,
    output: &Output,
) -> Result<Status, String> {
    let stop = StopSignal::install().map_err(|error| error.to_string())?;
    let (count, interval) = (looks.count()?, looks.interval);
    let (begin, mut seen) = (Instant::now(), Vec::new());
    for look in 0..=count {
        let due = begin + interval * look;
        while Instant::now() < due && !stop.requested() {
            thread::sleep(due.saturating_duration_since(Instant::now()).min(LOOK));
        }
        match fetch(&find, query) {
            Ok(status) => seen.push(status),
            Err(error) if seen.is_empty() => return Err(error),
            Err(error) => {
                output.warn(&format!("the link has ended: {error}"));
                break;
            }
        }
        if stop.requested() {
            break;
        }
    }
    files.write(&tracks(&seen, interval), Vec::new())?;
    Ok(seen.pop().expect("the first look was a success"))
}

impl Looks {
    /// Returns the number of looks after the first.
    fn count(self) -> Result<u32, String> {
        let Self { length, interval } = self;
        let looks = length.as_nanos() / interval.as_nanos().max(1);
        match u32::try_from(looks) {
            Ok(0) => Err(format!("--for {length:?} is shorter than --interval {interval:?}")),
            Ok(looks) if looks <= LOOKS_MAX => Ok(looks),
            _ => Err(format!(
                "--for {length:?} at --interval {interval:?} is {looks} points, a picture shows \
                 {LOOKS_MAX}; use a longer interval"
            )),
        }
    }
}

/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long a link is looked at, unless `--for` says otherwise, and how often.
pub const LENGTH: Duration = Duration::from_secs(10);
pub const INTERVAL: Duration = Duration::from_millis(250);
/// Bound: points of a picture of `weir status`; a request for more is refused.
const LOOKS_MAX: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_at_least_one_point_and_not_too_many() {
        let ms = Duration::from_millis;
        let looks = |length, interval| Looks { length, interval }.count();
        assert_eq!(looks(ms(1000), ms(250)), Ok(4));
        let error = looks(ms(100), ms(250)).expect_err("none");
        assert_eq!(error, "--for 100ms is shorter than --interval 250ms");
        assert!(looks(Duration::from_secs(3600), ms(100)).expect_err("many").contains("36000"));
    }
}
