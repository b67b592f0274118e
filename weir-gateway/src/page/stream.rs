//! The present state, as server-sent events [html-living §9.2].

use super::feed::News;
use super::{Page, STREAMS_MAX, place, route};
use crate::http::respond::Sender;
use crate::http::talk::Talk;
use crate::http::{Asking, Fault, body, respond};
use crate::json::StreamQuery;
use crate::source::Source;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// Sends what happens until the client disconnects or the server ends.
pub(super) async fn stream(
    State(page): State<Arc<Page>>,
    Extension(asking): Extension<Asking>,
    none: Body,
) -> Result<Response, Fault> {
    body(&asking, 0, none).await?;
    let query: StreamQuery = route::query(&asking.head().query)?;
    if page.source.feed().is_none() {
        let still = "nothing happens here any more: this is what was recorded";
        return Err(Fault::new(404, still));
    }
    if asking.is_head() {
        return Ok(respond::without_body(KIND));
    }
    let full = |_| Fault::new(503, format!("{STREAMS_MAX} clients read already; try again"));
    let place = place(&page.streams, STREAMS_MAX).map_err(full)?;
    let (sender, response) = respond::parts(KIND, true);
    let source = Arc::clone(&page.source);
    tokio::spawn(send((source, query.direction), sender, asking.talk, place));
    Ok(response)
}

async fn send(
    (source, direction): (Arc<dyn Source>, Option<String>),
    sender: Sender,
    talk: Arc<Talk>,
    _place: OwnedSemaphorePermit,
) {
    let Some(feed) = source.feed() else { return };
    let mut reader = feed.read(direction);
    let mut sent_at = Instant::now();
    loop {
        let mut text = text(&reader.next(Duration::ZERO));
        if text.is_empty() && sent_at.elapsed() >= QUIET_MAX {
            // A comment, so that both ends see a connection that is gone.
            text.push_str(": nothing happened\n\n");
        }
        if !text.is_empty() {
            sent_at = Instant::now();
            if sender.send(Ok(Bytes::from(text))).await.is_err() {
                return;
            }
        }
        if talk.is_over() {
            return;
        }
        reader.wait(LOOK_INTERVAL).await;
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
