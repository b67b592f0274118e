//! Events as they happen, as server-sent events [html-living §9.2].
//!
//! Invariant: a stream keeps no events of its own. Its place is at the link, which forgets; so a
//! client that reads slowly is told how many events it missed, and takes no more memory.

use super::link::Parts;
use crate::http::respond::Sender;
use crate::http::talk::Talk;
use axum::body::Bytes;
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;
use weir_control::protocol::News;

/// The type of a stream.
pub const KIND: &str = "text/event-stream";

/// Sends events as the link tells them until the client disconnects or one of the servers ends.
pub async fn send(mut parts: Parts, sender: Sender, talk: Arc<Talk>) {
    let mut lines = Lines::default();
    loop {
        let part = tokio::select! {
            part = parts.next() => part,
            () = talk.over() => return,
        };
        // The link is gone, or ends; what was told is whole.
        let Ok(Some(part)) = part else { return };
        let text = lines.text(&part);
        if !text.is_empty() && sender.send(Ok(Bytes::from(text))).await.is_err() {
            return;
        }
    }
}

/// The lines of a link, of which the last one may not be whole yet.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// Returns what the stream writes of the lines that are whole with this part.
    fn text(&mut self, part: &[u8]) -> String {
        self.0.extend_from_slice(part);
        let end = self.0.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.0.drain(..end).collect();
        let mut text = String::new();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // A link of this program writes no other lines.
            let Ok(news) = serde_json::from_slice(line) else { continue };
            write(&mut text, &news);
        }
        text
    }
}

/// The kind of an event.
#[derive(Deserialize)]
struct Kind {
    event: String,
}

/// Writes news as the stream has them.
fn write(text: &mut String, news: &News) {
    if let Some(count) = news.lost {
        let lost = json!({ "count": count });
        let _infallible = write!(text, "event: lost\ndata: {lost}\n\n");
    }
    let event = news.id.as_ref().zip(news.event.as_ref());
    if let Some((id, event)) = event
        && let Ok(Kind { event: name }) = serde_json::from_str(event.get())
    {
        let _infallible = write!(text, "id: {id}\nevent: {name}\ndata: {event}\n\n");
    }
    if news.lost.is_none() && event.is_none() {
        // A comment, so that both ends see a connection that is gone.
        text.push_str(": nothing happened\n\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events_wherever_they_are_cut() {
        let reported = "{\"id\":\"1-2\",\"event\":{\"event\":\"port-down\",\"b\":1,\"a\":2}}\n{\"lost\":5}\n{}\n";
        let wanted = "id: 1-2\nevent: port-down\ndata: {\"event\":\"port-down\",\"b\":1,\"a\":2}\n\n\
                      event: lost\ndata: {\"count\":5}\n\n: nothing happened\n\n";
        for cut in 0..reported.len() {
            let mut lines = Lines::default();
            let (first, rest) = reported.as_bytes().split_at(cut);
            assert_eq!(lines.text(first) + &lines.text(rest), wanted, "{cut}");
        }
    }
}
