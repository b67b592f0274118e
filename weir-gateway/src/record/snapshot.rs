//! The last seconds of a running link as a tape: its ring, taken by the control socket.
//!
//! Of a long ring only the part is taken that has the time in question. Invariant: one snapshot is
//! taken at a time, at most once in `FRESH` for all viewers of one time, and it is `BYTES_MAX` long
//! at most.

use super::Tape;
use crate::http::Fault;
use crate::source::{Contact, link};
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_control::client::{Parts, Refused, follow_on};
use weir_control::protocol::{Request, Right};

/// The last snapshot of a link.
#[derive(Default)]
pub struct Snapshot(Mutex<Option<Taken>>);

/// A snapshot: when it was taken, of which time, and what it has.
struct Taken {
    at: Instant,
    of: Span,
    tape: Arc<Tape>,
}

/// The first and the last moment in question, in milliseconds since 1970; without them what is
/// kept.
pub type Span = (Option<f64>, Option<f64>);

impl Snapshot {
    /// Returns what the link did in a time, as far as it is kept, up to now or a moment ago.
    ///
    /// # Errors
    /// When the link does not answer or keeps no ring; the text says what to do.
    pub fn take(&self, contact: &dyn Contact, of: Span) -> Result<Arc<Tape>, Fault> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = last.as_ref().filter(|taken| taken.serves(of)) {
            return Ok(Arc::clone(&taken.tape));
        }
        // Two of them need not be in memory at once.
        *last = None;
        let bytes = fetch(contact, of)?;
        let tape = Tape::of_bytes(bytes).map_err(|why| Fault::new(409, why))?;
        let tape = Arc::new(tape);
        *last = Some(Taken { at: Instant::now(), of, tape: Arc::clone(&tape) });
        Ok(tape)
    }
}

impl Taken {
    fn serves(&self, (from, to): Span) -> bool {
        let begins = self.of.0.is_none_or(|own| from.is_some_and(|from| from >= own));
        let ends = self.of.1.is_none_or(|own| to.is_some_and(|to| to <= own));
        begins && ends && self.at.elapsed() < FRESH
    }
}

fn fetch(contact: &dyn Contact, (from, to): Span) -> Result<Vec<u8>, Fault> {
    let whole = |ms: Option<f64>| ms.map(|ms| ms.clamp(0.0, MS_MAX) as u64);
    let request = Request::Snapshot { from_ms: whole(from), to_ms: whole(to) };
    let absent = |why: String| Fault::new(503, why);
    let connection = link(contact, Right::Change).map_err(absent)?;
    let stream = follow_on(connection, &request).map_err(|refused| match refused {
        Refused::ByLink(why) => Fault::new(409, why),
        Refused::NotHeard(why) => absent(why),
    })?;
    let lost = |error: std::io::Error| absent(format!("the snapshot of the link is cut: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
    let mut bytes = Vec::new();
    let read = Parts::new(stream).take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(lost)?;
    if read as u64 > BYTES_MAX {
        return Err(Fault::new(
            409,
            format!(
                "the ring of the link has more than {} MiB, which the page does not read; make \
                 `ring` smaller, or use `weir record --last` and `weir view FILE`",
                BYTES_MAX >> 20
            ),
        ));
    }
    Ok(bytes)
}

/// The latest moment that is asked for.
const MS_MAX: f64 = 1e15;
/// How long a snapshot serves all who ask.
const FRESH: Duration = Duration::from_secs(1);
/// The longest wait for the next part of a snapshot.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bound: bytes of a snapshot of a ring that the page reads; a longer one is refused. One of a ring
/// of this size may be a little longer than the ring.
const BYTES_MAX: u64 = 512 << 20;
