//! Two futures of a moment of a record, with senders that react.
//!
//! It is what `weir fork --reacting` does. Invariant: after [`TIME_MAX`] no run begins, so a client
//! that is gone costs no more.

use super::Tape;
use crate::http::Fault;
use crate::json::ForkQuery;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_infer::Input;
use weir_infer::reacting::{self, Runs};
use weir_sim::whatif::WhatIf;
use weir_trace::record::RecordReader;

impl Tape {
    /// The answer to `/view/reacting`.
    ///
    /// # Errors
    /// When there is no such direction or moment, a setting is none, none is given, a card is, or
    /// it takes too long.
    pub fn reacting(&self, query: &ForkQuery) -> Result<WhatIf, Fault> {
        if query.card.is_some() {
            return Err(Fault::bad("a fork whose senders react has no `card`; leave one of them"));
        }
        if query.settings.is_empty() {
            return Err(Fault::bad("senders react to a change: name one in `settings`"));
        }
        let way = self.way(query.direction.as_deref())?;
        let ask = self.ask(&way, query)?;
        let record = || {
            let record = RecordReader::new(self.open().map_err(|fault| fault.text)?);
            record.map(Input::Record).map_err(|error| error.to_string())
        };
        let (begin, stop) = (Instant::now(), AtomicBool::new(false));
        let done = |_ended: usize| {
            if begin.elapsed() > TIME_MAX {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let runs = Runs { replications: REPLICATIONS, threads: THREADS, stop: &stop, done: &done };
        let answer = reacting::fork(&way, &record, &ask, &runs);
        let answer = answer.map_err(|why| match stop.load(Ordering::Relaxed) {
            true => Fault::new(409, TOO_LONG),
            false => Fault::new(409, why),
        });
        Ok(answer?.whatif)
    }
}

/// The runs of each future; as many as `weir fork` makes.
const REPLICATIONS: usize = 3;
/// The machine may forward packets meanwhile.
const THREADS: usize = 1;
/// Bound: time in which a fork with senders that react begins runs; after it, it is refused.
const TIME_MAX: Duration = Duration::from_secs(120);
const TOO_LONG: &str = "the simulation takes more than 2 minutes here; make a record with \
                        `weir record --last` and use `weir fork --reacting`";
