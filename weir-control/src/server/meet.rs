//! Requests that the server answers itself, and those that it hands on.

use super::{Large, Refusal, STREAMS_MAX, Shared};
use crate::protocol::{Answer, CLASSES_DEFAULT, Events, News, Query, Request, Since};
use crate::service::{Cause, Peer, Reply, Tail};
use serde_json::value::RawValue;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_link::events::Event;
use weir_link::events::feed::{FEED_MAX, Feed, Place};
use weir_link::status::{Board, Rows, Status, query};

/// The answer to a request, until it is sent.
pub(crate) struct Met<'a> {
    /// The answer and its descriptors.
    pub reply: Reply,
    /// No other large answer is made meanwhile.
    _large: Option<Large<'a>>,
}

impl Shared {
    pub(crate) fn meet(&self, peer: &Peer, request: &Request) -> Result<Met<'_>, Refusal> {
        let service = &self.service;
        if !request.reads() {
            self.expect_change(peer)?;
        }
        if peer.token.is_some() {
            expect_of_api(request)?;
        }
        let reply = match request {
            Request::Status(query) => {
                let (status, large) = self.status(query)?;
                return Ok(Met { reply: Answer::Status(status).into(), _large: large });
            }
            Request::Policy {} => {
                let large = self.begin_large().ok_or((Cause::Busy, LARGE.to_owned()))?;
                return Ok(Met { reply: (service.act)(request, peer), _large: Some(large) });
            }
            Request::Events(since) if since.follow => {
                Reply { tail: Some(self.follow(since)?), ..Answer::Done.into() }
            }
            Request::Events(since) => Answer::Events(self.latest(since)?).into(),
            Request::Refused { cause, text } => {
                self.refuse(peer, *cause, text);
                Answer::Done.into()
            }
            Request::Mark {} => {
                service.boards.iter().for_each(|board| Board::request_mark(board));
                Answer::Done.into()
            }
            other => (service.act)(other, peer),
        };
        Ok(Met { reply, _large: None })
    }

    /// Refuses a client that may not change the link.
    pub(crate) fn expect_change(&self, peer: &Peer) -> Result<(), Refusal> {
        if self.service.may_change(peer) {
            return Ok(());
        }
        let text = match peer.token {
            Some(_) => "this token only reads; send the one of `token_file`",
            None => "only root and the user who runs the link may change it; use `sudo`",
        };
        Err((Cause::NotAllowed, text.to_owned()))
    }

    /// Returns the status with the classes that a query asks for.
    pub(crate) fn status(
        &self,
        query: &Query,
    ) -> Result<(Status<Rows>, Option<Large<'_>>), Refusal> {
        query.check().map_err(|text| (Cause::Malformed, text))?;
        let is_large = query.limit.is_some_and(|limit| limit > CLASSES_DEFAULT);
        let large = if is_large { self.begin_large() } else { None };
        if is_large && large.is_none() {
            let text = format!(
                "another client is being told of more than {CLASSES_DEFAULT} classes; try again, \
                 or ask for fewer"
            );
            return Err((Cause::Busy, text));
        }
        let status = query::read(&self.service.boards, query, self.service.patience.counts);
        let Some(status) = status else {
            let text = "the run loop does not answer; it may be stopping".to_owned();
            return Err((Cause::Failed, text));
        };
        let (processes, faults) = (self.service.processes(), self.service.feed.faults());
        let kept = self.service.boards.iter().filter_map(|board| board.recording.kept_ns());
        Ok((Status { processes, faults, kept_ns: kept.min(), ..status }, large))
    }

    /// Returns the events that are remembered.
    fn latest(&self, since: &Since) -> Result<Events, Refusal> {
        let feed = &self.service.feed;
        let place = since.after.as_deref().map(place).transpose()?;
        let news = feed.after(place.unwrap_or_else(|| feed.start()), FEED_MAX, Duration::ZERO);
        let event = |(place, event): &(Place, Arc<Event>)| {
            let mut fields = match serde_json::from_str(&event.json()) {
                Ok(serde_json::Value::Object(fields)) => fields,
                _ => unreachable!("an event is an object"),
            };
            fields.insert("id".to_owned(), place.to_string().into());
            fields
        };
        // Without a place to begin at, nothing that the client knows of was lost.
        let lost = if place.is_some() { news.lost } else { 0 };
        Ok(Events { lost, events: news.events.iter().map(event).collect() })
    }
}

impl Shared {
    /// Returns what tells of events as they happen.
    fn follow(&self, since: &Since) -> Result<Tail, Refusal> {
        let feed = Arc::clone(&self.service.feed);
        let mut place = match &since.after {
            Some(id) => place(id)?,
            None => feed.end(),
        };
        let full = || format!("{STREAMS_MAX} clients read events already; try again");
        let slot = self.begin_stream().ok_or_else(|| (Cause::Busy, full()))?;
        Ok(Box::new(move |out, is_over| {
            let _slot = slot;
            let mut sent_at = Instant::now();
            while !is_over() {
                if let Some(next) = send_news(out, &feed, place, &mut sent_at)
                    .map_err(|error| format!("the events were not read: {error}"))?
                {
                    place = next;
                }
            }
            Ok(())
        }))
    }
}

/// Waits a moment for events after a place, and tells them; returns the place of the last one.
fn send_news(
    out: &mut dyn Write,
    feed: &Feed,
    place: Place,
    sent_at: &mut Instant,
) -> io::Result<Option<Place>> {
    let news = feed.after(place, NEWS_MAX, LOOK_INTERVAL);
    let mut lines = Vec::new();
    if news.lost > 0 {
        lines.push(News { lost: Some(news.lost), ..News::default() });
    }
    for (place, event) in &news.events {
        let event = Some(RawValue::from_string(event.json())?);
        lines.push(News { lost: None, id: Some(place.to_string()), event });
    }
    if lines.is_empty() && sent_at.elapsed() >= QUIET_MAX {
        // So that both ends see a connection that is gone.
        lines.push(News::default());
    }
    if !lines.is_empty() {
        *sent_at = Instant::now();
        for line in &lines {
            serde_json::to_writer(&mut *out, line)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
    }
    Ok(news.events.last().map(|(place, _)| *place))
}

/// Reads the place of an event.
fn place(id: &str) -> Result<Place, Refusal> {
    let text = "there is no event with this id; send one as it was received";
    Place::read(id).ok_or_else(|| (Cause::Malformed, text.to_owned()))
}

/// Refuses what no client of the API may ask for, with whatever token: above all to hand the link
/// over.
fn expect_of_api(request: &Request) -> Result<(), Refusal> {
    if request.call().route.is_some() || matches!(request, Request::Refused { .. }) {
        return Ok(());
    }
    Err((Cause::NotAllowed, "there is no such request by the API".to_owned()))
}

/// Bound: events that are told at once; the rest follows in the next turn.
const NEWS_MAX: usize = 64;
/// How soon a stream sees that its client or the server is gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// The longest time of a stream without a line.
const QUIET_MAX: Duration = Duration::from_secs(15);
/// Why a policy is not told now.
const LARGE: &str = "another client is being told of a policy, or of very many classes; try again";
