//! What the server answers itself, and what it hands on, whatever protocol a client speaks.

use super::{Large, Refusal, Shared};
use crate::protocol::{Answer, CLASSES_DEFAULT, Events, Query, Request, Since};
use crate::service::{Cause, Peer, Reply};
use std::sync::Arc;
use std::time::Duration;
use weir_link::events::Event;
use weir_link::events::feed::{FEED_MAX, Place};
use weir_link::status::{Board, Rows, Status, query};

/// The answer to a request, until it is sent.
pub(crate) struct Met<'a> {
    /// The answer.
    pub reply: Reply,
    /// No other large answer is made meanwhile.
    _large: Option<Large<'a>>,
}

impl Shared {
    /// Meets a request.
    pub(crate) fn meet(&self, peer: &Peer, request: &Request) -> Result<Met<'_>, Refusal> {
        let service = &self.service;
        if !request.reads() {
            self.expect_change(peer)?;
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
            Request::Events(since) => Answer::Events(self.latest(since)?).into(),
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
        Ok((Status { processes: self.service.processes(), ..status }, large))
    }

    /// Returns the events that are remembered.
    fn latest(&self, since: &Since) -> Result<Events, Refusal> {
        let feed = &self.service.feed;
        let read = |id: &String| {
            let text = "there is no event with this id; send one as it was received".to_owned();
            Place::read(id).ok_or((Cause::Malformed, text))
        };
        let place = since.after.as_ref().map(read).transpose()?;
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

/// Why a policy is not told now.
const LARGE: &str = "another client is being told of a policy, or of very many classes; try again";
