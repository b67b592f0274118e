//! The requests of the control socket by HTTP/1.1, for programs that have no client of Weir's own.
//!
//! `route` says what a path means, from the table of requests; `guard` who may ask; `heading` reads
//! what comes, and `respond` writes what goes. The server (`server/`) gives each client a thread,
//! a bounded time and a bounded share of memory, as it does to those who send lines.

mod ask;
pub mod document;
pub mod exchange;
mod fault;
mod guard;
pub mod heading;
pub mod memory;
pub mod respond;
pub mod route;
mod stream;
#[cfg(test)]
mod tests;

use crate::metrics;
use crate::protocol::{Answer, CALLS, Query, RECORD_MS_MAX, Request, Right, Route};
use crate::server::{Refusal, Shared, Wire};
use crate::service::{Peer, Reply, Tail};
pub use ask::{Response, ask, ask_on};
use exchange::{End, Exchange};
pub use fault::Fault;
pub use guard::Site;
use heading::Head;
pub use memory::exercise;
use respond::Writing;
use route::Target;
use std::io;
use std::time::{Duration, Instant};

/// A client, as far as its connection tells.
pub(crate) struct Client<'a> {
    pub peer: Peer,
    pub site: Site<'a>,
    pub shared: &'a Shared,
}

/// Returns whether a client that begins with this byte speaks HTTP: a method. A line of JSON begins
/// with a brace.
pub(crate) fn is_http(first: u8) -> bool {
    first.is_ascii_uppercase()
}

/// Answers a client until it disconnects or is refused.
pub(crate) fn converse<W: Wire + ?Sized>(wire: &mut W, client: &Client<'_>) -> Result<(), Refusal> {
    let mut conversation = Conversation { exchange: Exchange::new(wire), client };
    let ended = loop {
        match conversation.turn() {
            Ok(true) => conversation.exchange.count(),
            Ok(false) => return Ok(()),
            Err(end) => break end,
        }
    };
    conversation.exchange.refuse(ended)
}

/// Tells a client that is not served why, without reading what it wants.
pub fn turn_away<W: Wire + ?Sized>(wire: &mut W, text: &str, patience: Duration) {
    wire.until(Instant::now() + patience);
    let fault = Fault::new(503, text);
    let _gone = Writing::new(wire, &Head::default(), false).fault(&fault);
}

/// A client's requests, and the link that meets them.
struct Conversation<'a, W: Wire + ?Sized> {
    exchange: Exchange<'a, W>,
    client: &'a Client<'a>,
}

impl<W: Wire + ?Sized> Conversation<'_, W> {
    /// Meets a request; returns whether another one may follow.
    fn turn(&mut self) -> Result<bool, End> {
        self.exchange.wire.until(Instant::now() + self.client.shared.service.patience.request);
        let Some(head) = self.exchange.head()? else { return Ok(false) };
        let token = self.client.site.admit(&head)?;
        let peer = Peer { token, ..self.client.peer };
        let target = route::find(&head.method, &head.path)?;
        if target.call().is_some_and(|call| call.right == Right::Change) {
            self.client.shared.expect_change(&peer).map_err(Fault::of)?;
        }
        let takes = target.call().is_some_and(|call| call.route.is_some_and(Route::takes_body));
        let room = if takes { self.client.shared.service.request_max(&peer) } else { 0 };
        let body = self.exchange.body(&head, room)?;
        let began = Instant::now();
        self.exchange.wire.until(began + self.client.shared.service.patience.answer);
        let keyword = target.call().map(|call| call.keyword);
        match target {
            Target::Document => {
                let text = document::openapi().to_string();
                Writing::new(self.exchange.wire, &head, head.stays()).whole(
                    200,
                    JSON,
                    text.as_bytes(),
                )?;
            }
            Target::Metrics => self.metrics(&head)?,
            Target::Call(call) => {
                let mut request = route::request(call, &head.query, &body)?;
                if let Request::Events(since) = &mut request {
                    since.after = head.last_event_id.clone().or(since.after.take());
                    if head.accepts(stream::KIND) && head.method == "GET" {
                        return self.events(&head, since).map(|()| false);
                    }
                }
                if let Some(kind) = call.route.and_then(|route| route.follows) {
                    return self.record(&head, &peer, (&request, kind));
                }
                self.call(&head, &peer, &request)?;
            }
        }
        self.client.shared.times.count(keyword, began.elapsed());
        Ok(head.stays())
    }

    /// Sends the answer to a request.
    fn call(&mut self, head: &Head, peer: &Peer, request: &Request) -> Result<(), End> {
        let met = self.client.shared.meet(peer, request).map_err(Fault::of)?;
        let Reply { answer, .. } = met.reply;
        let mut writing = Writing::new(self.exchange.wire, head, head.stays());
        if let Answer::Error(text) = &answer {
            return Ok(writing.error(409, text)?);
        }
        Ok(writing
            .parts(JSON, |out| serde_json::to_writer(out, &answer).map_err(io::Error::from))?)
    }

    /// Sends a record of this type as it is made; returns whether another request may follow.
    fn record(
        &mut self,
        head: &Head,
        peer: &Peer,
        (request, kind): (&Request, &str),
    ) -> Result<bool, End> {
        check_length(request)?;
        if head.method == "HEAD" {
            Writing::new(self.exchange.wire, head, head.stays()).begin_parts(kind)?;
            return Ok(head.stays());
        }
        let met = self.client.shared.meet(peer, request).map_err(Fault::of)?;
        let Reply { answer, tail, .. } = met.reply;
        let mut writing = Writing::new(self.exchange.wire, head, head.stays());
        match (answer, tail) {
            (Answer::Error(text), _) => writing.error(409, &text)?,
            (_, Some(tail)) => return self.follow(head, tail, kind),
            (_, None) => writing.error(409, "nothing follows; there is no record")?,
        }
        Ok(head.stays())
    }

    /// Sends what follows an answer, for as long as each part of it is read in time.
    fn follow(&mut self, head: &Head, tail: Tail, kind: &str) -> Result<bool, End> {
        let shared = self.client.shared;
        let mut writing = Writing::new(self.exchange.wire, head, head.stays());
        let is_over = |writing: &mut Writing<'_, W>| shared.is_ending() || writing.wire().is_gone();
        writing.follow(kind, shared.service.patience.answer, (tail, &is_over))?;
        Ok(head.stays())
    }

    /// Sends the counters of the classes in the query.
    fn metrics(&mut self, head: &Head) -> Result<(), End> {
        let query = match route::request(&CALLS[0], &head.query, &[])? {
            Request::Status(query) => query,
            _ => Query::default(),
        };
        if query.limit.is_some_and(|limit| limit > metrics::CLASSES_MAX) {
            let text = format!("a scrape has at most {} classes", metrics::CLASSES_MAX);
            return Err(Fault::bad(text).into());
        }
        let shared = self.client.shared;
        let (status, _large) = shared.status(&query).map_err(Fault::of)?;
        let status = status.whole();
        let mut writing = Writing::new(self.exchange.wire, head, head.stays());
        Ok(writing.parts(metrics::CONTENT, |out| {
            metrics::write(out, &shared.service.name, (&status, &shared.times))
        })?)
    }
}

/// Refuses a record without a length, which would be cut when the client disconnects.
fn check_length(request: &Request) -> Result<(), Fault> {
    match request {
        Request::Record { for_ms: None } => {
            Err(Fault::bad("say how many milliseconds to record, such as /record?for_ms=10000"))
        }
        Request::Record { for_ms: Some(ms) } if !(1..=RECORD_MS_MAX).contains(ms) => {
            Err(Fault::bad(format!("`for_ms` is {ms}; write 1 to {RECORD_MS_MAX}")))
        }
        _ => Ok(()),
    }
}

/// The type of JSON.
pub const JSON: &str = "application/json";
