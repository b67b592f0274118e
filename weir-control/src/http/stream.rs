//! Events as they happen, as server-sent events [html-living §9.2].
//!
//! Invariant: a stream keeps no events of its own. Its place is in the feed, which forgets; so a
//! client that reads slowly is told how many events it missed, and takes no more memory.

use super::exchange::End;
use super::respond::Writing;
use super::{Conversation, Fault, Head};
use crate::protocol::Since;
use crate::server::Wire;
use serde_json::json;
use std::fmt::Write;
use std::time::{Duration, Instant};
use weir_link::events::feed::{News, Place};

/// The type of a stream.
pub(super) const KIND: &str = "text/event-stream";

impl<W: Wire + ?Sized> Conversation<'_, W> {
    /// Sends events as they happen until the client disconnects or the server ends.
    pub(super) fn events(&mut self, head: &Head, since: &Since) -> Result<(), End> {
        let shared = self.client.shared;
        let feed = &shared.service.feed;
        let mut place = match &since.after {
            Some(text) => Place::read(text).ok_or_else(|| Fault::bad("there is no such event"))?,
            None => feed.end(),
        };
        let Some(_slot) = shared.begin_stream() else {
            return Err(Fault::new(503, "too many clients read events already; try again").into());
        };
        let patience = shared.service.patience.answer;
        let mut writing = Writing::new(self.exchange.wire, head, false);
        writing.begin_parts(KIND)?;
        let mut told = Instant::now();
        while !shared.is_ending() && !writing.wire().is_gone() {
            let news = feed.after(place, EVENTS_MAX, LOOK_INTERVAL);
            place = news.events.last().map_or(place, |(place, _)| *place);
            let mut text = text(&news);
            if text.is_empty() && told.elapsed() >= QUIET_MAX {
                // A comment, so that both ends see a connection that is gone.
                text.push_str(": nothing happened\n\n");
            }
            if !text.is_empty() {
                told = Instant::now();
                writing.wire().until(told + patience);
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
        let lost = json!({ "count": news.lost });
        let _infallible = write!(text, "event: lost\ndata: {lost}\n\n");
    }
    for (place, event) in &news.events {
        let (name, line) = (event.kind.keyword(), event.json());
        let _infallible = write!(text, "id: {place}\nevent: {name}\ndata: {line}\n\n");
    }
    text
}

/// The most events in one part.
const EVENTS_MAX: usize = 64;
/// How soon a stream sees that its client or the server is gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// The longest time without a word.
const QUIET_MAX: Duration = Duration::from_secs(15);
