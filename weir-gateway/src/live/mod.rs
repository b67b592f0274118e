//! A running link, seen by a client of its control socket.
//!
//! One thread polls for all viewers: the status and the events, four times a second while a
//! viewer reads the stream, else once a second. So viewers cost the link the same, however many
//! there are. What it learned of the last 15 minutes is kept (`series.rs`). Settings and
//! predictions (`settings.rs`) are computed here from the texts of the policies; only the dry run
//! is the link's.

mod collector;
pub mod contact;
mod past;
mod reading;
mod series;
pub(crate) mod settings;
mod tally;
#[cfg(test)]
mod tests;
mod tree;

use crate::http::Fault;
use crate::json::{
    Abilities, About, Fork, ForkQuery, Heat, HeatQuery, History, HistoryQuery, Knob, KnobsQuery,
    Mark, Packets, PacketsQuery, Predict, Prediction, Promises, PromisesQuery, SpanQuery,
};
use crate::page::feed::Feed;
use crate::record::snapshot::Snapshot;
use crate::source::{Contact, Source, link};
use collector::Collector;
use past::Past;
use reading::{LastReading, Reading};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tally::Tally;
use tree::Tree;
use weir_control::client::call_on;
use weir_control::protocol::{Answer, Request, Right};
use weir_host::wait::realtime_ns;
use weir_link::change::history::Texts;
use weir_link::status::Status;
use weir_sim::whatif::WhatIf;

/// A running link as a source of the page.
pub struct Live {
    name: String,
    shared: Arc<Shared>,
    /// The last record of the link, for packets and forks.
    snapshot: Snapshot,
    /// The policies in force, for settings, promises and predictions.
    last: LastReading,
    /// It ends when this is dropped; none asks for a link that is gone.
    _collector: Option<Collector>,
}

/// The state that the collector and the threads of clients share.
struct Shared {
    contact: Arc<dyn Contact>,
    feed: Feed,
    past: Mutex<Past>,
}

impl Live {
    /// The link behind this contact.
    ///
    /// # Errors
    /// When there is no thread left.
    pub fn start(name: &str, contact: Arc<dyn Contact>) -> io::Result<Self> {
        let (feed, past) = (Feed::default(), Mutex::default());
        let shared = Arc::new(Shared { contact, feed, past });
        let collector = Collector::start(Arc::clone(&shared))?;
        let snapshot = Snapshot::default();
        Ok(Self {
            name: name.to_owned(),
            shared,
            snapshot,
            last: LastReading::default(),
            _collector: Some(collector),
        })
    }

    /// A link that told these two statuses, the second one a second later, and never answers again:
    /// for the fuzz target.
    pub fn gone(statuses: [&Status; 2]) -> Self {
        let mut past = Past::default();
        let tree = Arc::new(Tree::of(statuses[0]));
        let [before, now] = statuses.map(|status| Tally::of(status, &tree, 1e3, true));
        past.show(&tree);
        past.add(&tree, &before.to(&now, 1.0));
        let (contact, feed) = (Arc::new(Nowhere), Feed::default());
        let shared = Shared { contact, feed, past: Mutex::new(past) };
        let (name, snapshot) = ("gone".to_owned(), Snapshot::default());
        Self {
            name,
            shared: Arc::new(shared),
            snapshot,
            last: LastReading::default(),
            _collector: None,
        }
    }

    /// Returns the deployment and the policies in force, as texts.
    ///
    /// # Errors
    /// When the link does not answer, or refuses.
    pub fn texts(&self) -> Result<Texts, Fault> {
        match self.call(&Request::Texts {})? {
            Answer::Texts(texts) => Ok(*texts),
            _ => Err(unexpected()),
        }
    }

    /// Returns what the texts in force say.
    fn reading(&self) -> Result<Arc<Reading>, Fault> {
        Ok(self.last.of(self.texts()?))
    }

    /// Sends a request on a connection of its own.
    ///
    /// # Errors
    /// When the link does not answer, or refuses.
    pub fn call(&self, request: &Request) -> Result<Answer, Fault> {
        let absent = |text: String| Fault::new(503, text);
        let stream = link(self.shared.contact.as_ref(), request.call().right).map_err(absent)?;
        match call_on(&stream, request).map_err(absent)? {
            Answer::Error(text) => Err(Fault::new(409, text)),
            answer => Ok(answer),
        }
    }
}

impl Shared {
    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Live {
    fn about(&self, right: Right) -> Result<About, Fault> {
        // Before the lock, for which the collector waits.
        let reservations = self.call(&Request::Reservations { limit: Some(0) });
        let reservations = matches!(reservations, Ok(Answer::Reservations(_)));
        let past = self.shared.past();
        let (directions, from, to) = past.shown()?;
        let change = right == Right::Change && self.shared.contact.may_change();
        Ok(About {
            kind: "live".to_owned(),
            name: self.name.clone(),
            weir: env!("CARGO_PKG_VERSION").to_owned(),
            now: realtime_ns() as f64 / 1e6,
            from,
            to,
            kept: past.kept,
            step_ms: past::STEP_MS,
            panics: 0,
            abilities: Abilities {
                change,
                confirm: change,
                packets: change,
                fork: change,
                beside: false,
                reservations,
            },
            directions,
        })
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, Fault> {
        // What takes long is not done while the collector waits.
        let frames = self.shared.past().frames(query.from, query.to);
        series::history(&frames, query)
    }

    fn heat(&self, query: &HeatQuery) -> Result<Heat, Fault> {
        let frames = self.shared.past().frames(query.from, query.to);
        series::heat(&frames, query)
    }

    fn events(&self, query: &SpanQuery) -> Result<Vec<Mark>, Fault> {
        Ok(self.shared.past().marks(query))
    }

    fn knobs(&self, query: &KnobsQuery) -> Result<Vec<Knob>, Fault> {
        settings::knobs(&*self.reading()?, query.direction.as_deref())
    }

    fn promises(&self, query: &PromisesQuery) -> Result<Promises, Fault> {
        settings::promises(&*self.reading()?, query.direction.as_deref())
    }

    fn predict(&self, predict: &Predict) -> Result<Prediction, Fault> {
        let reading = self.reading()?;
        match self.call(&settings::dry_run(predict))? {
            Answer::Changed(changed) => settings::predict(&reading, predict, &changed),
            _ => Err(unexpected()),
        }
    }

    fn packets(&self, query: &PacketsQuery) -> Result<Packets, Fault> {
        // The delays of the status, and so those of the heat map, have what the run loop added.
        let tape = self.snapshot.take(self.shared.contact.as_ref(), (query.from, query.to))?;
        let found = tape.packets(query, true)?;
        // The snapshot has a part of what is kept.
        let (from, to) = found.covers;
        let kept = self.shared.past().kept.unwrap_or(from);
        Ok(Packets { covers: (kept.min(from), to), ..found })
    }

    fn fork(&self, query: &ForkQuery) -> Result<Fork, Fault> {
        let of = (Some(query.at), Some(query.at + 1000.0 * query.seconds));
        self.snapshot.take(self.shared.contact.as_ref(), of)?.fork(query)
    }

    fn reacting(&self, query: &ForkQuery) -> Result<WhatIf, Fault> {
        // Senders fill windows and queues before the moment.
        let of = (Some(query.at - GROWING_MS), Some(query.at + 1000.0 * query.seconds));
        self.snapshot.take(self.shared.contact.as_ref(), of)?.reacting(query)
    }

    fn feed(&self) -> Option<&Feed> {
        Some(&self.shared.feed)
    }
}

/// The way to a link that is gone.
struct Nowhere;

impl Contact for Nowhere {
    fn connect(&self, _right: Right) -> Result<UnixStream, String> {
        Err("the link is gone".to_owned())
    }

    fn may_change(&self) -> bool {
        true
    }
}

fn unexpected() -> Fault {
    Fault::new(500, "the link gave another answer than was asked for")
}

/// For how long senders that react are simulated before the moment of a fork.
const GROWING_MS: f64 = 30_000.0;
