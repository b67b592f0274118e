//! What happens now, as server-sent events [html-living §9.2].

use super::feed::News;
use super::route;
use super::talk::{ANSWER_PATIENCE, Talk};
use super::{STREAMS_MAX, Slot};
use crate::json::StreamQuery;
use std::fmt::Write;
use std::time::{Duration, Instant};
use weir_control::http::Fault;
use weir_control::http::exchange::End;
use weir_control::http::heading::Head;
use weir_control::http::respond::Writing;

impl Talk<'_> {
    /// Sends what happens until the client disconnects or the server ends.
    pub(super) fn stream(&mut self, head: &Head) -> Result<(), End> {
        let shared = self.shared;
        let query: StreamQuery = route::query(&head.query)?;
        let still = "nothing happens here any more: this is what was recorded";
        let feed = shared.source.feed().ok_or_else(|| Fault::new(404, still))?;
        let full = || Fault::new(503, format!("{STREAMS_MAX} clients read already; try again"));
        let _slot = Slot::take(&shared.streams, STREAMS_MAX).ok_or_else(full)?;
        let mut reader = feed.read(query.direction);
        let mut writing = Writing::new(&mut *self.exchange.wire, head, false);
        writing.begin_parts(KIND)?;
        let mut told = Instant::now();
        while !shared.is_ending() && !writing.wire().is_gone() {
            let mut text = text(&reader.next(LOOK_INTERVAL));
            if text.is_empty() && told.elapsed() >= QUIET_MAX {
                // A comment, so that both ends see a connection that is gone.
                text.push_str(": nothing happened\n\n");
            }
            if !text.is_empty() {
                told = Instant::now();
                writing.wire().until(told + ANSWER_PATIENCE);
                writing.part(text.as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Returns news as the stream writes them.
fn text(news: &News) -> String {
    let mut text = String::new();
    if news.lost > 0 {
        let _infallible = write!(text, "event: lost\ndata: {{\"count\":{}}}\n\n", news.lost);
    }
    for (name, data) in &news.parts {
        let _infallible = write!(text, "event: {name}\ndata: {data}\n\n");
    }
    text
}

/// The type of a stream.
const KIND: &str = "text/event-stream";
/// How soon a stream sees that its client or the server is gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// The longest time without a word.
const QUIET_MAX: Duration = Duration::from_secs(15);
