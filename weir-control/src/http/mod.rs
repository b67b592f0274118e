//! The requests of the control socket by HTTP/1.1, for programs that have no client of Weir's own.
//!
//! `route` says what a path means, from the table of requests; `guard` who may ask; `heading` reads
//! what comes, and `respond` writes what goes. The server (`server/`) gives each client a thread,
//! a bounded time and a bounded share of memory, as it does to those who send lines.

mod ask;
pub mod document;
mod guard;
mod heading;
mod memory;
mod respond;
mod route;
mod stream;
#[cfg(test)]
mod tests;

use crate::metrics;
use crate::protocol::{Answer, CALLS, Query, RECORD_MS_MAX, Request, Right, Route};
use crate::server::{Refusal, Shared, Wire};
use crate::service::{Cause, Peer, Reply, Tail};
pub use ask::ask;
pub(crate) use guard::Site;
use heading::{HEAD_MAX, Head};
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

/// Why a request is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    status: u16,
    text: String,
    /// A header that goes with it.
    header: Option<(&'static str, &'static str)>,
}

/// Returns whether a client that begins with this byte speaks HTTP: a method. A line of JSON begins
/// with a brace.
pub(crate) fn is_http(first: u8) -> bool {
    first.is_ascii_uppercase()
}

/// Answers a client until it disconnects or is refused.
pub(crate) fn converse<W: Wire>(wire: &mut W, client: &Client<'_>) -> Result<(), Refusal> {
    let mut conversation = Conversation { wire, client, buffer: Vec::new(), met: 0 };
    loop {
        match conversation.turn() {
            Ok(true) => conversation.met += 1,
            Ok(false) => return Ok(()),
            Err(End::Fault(fault)) => return Err(conversation.refuse(fault)),
            Err(End::NotRead(error)) => {
                return Err((Cause::NotRead, format!("the answer was not read: {error}")));
            }
        }
    }
}

/// Tells a client that is not served why, without reading what it wants.
pub(crate) fn turn_away<W: Wire>(wire: &mut W, text: &str, patience: Duration) {
    wire.until(Instant::now() + patience);
    let fault = Fault::new(503, text);
    let _gone = Writing::new(wire, &Head::default(), false).fault(&fault);
}

struct Conversation<'a, W> {
    wire: &'a mut W,
    client: &'a Client<'a>,
    /// What was read beyond the last request.
    buffer: Vec<u8>,
    /// Requests that were met.
    met: u64,
}

/// Why a conversation ends.
enum End {
    Fault(Fault),
    /// The client did not read its answer in time, or is gone.
    NotRead(io::Error),
}

impl<W: Wire> Conversation<'_, W> {
    /// Meets a request; returns whether another one may follow.
    fn turn(&mut self) -> Result<bool, End> {
        self.wire.until(Instant::now() + self.client.shared.service.patience.request);
        let Some(head) = self.head()? else { return Ok(false) };
        let token = self.client.site.admit(&head)?;
        let peer = Peer { token, ..self.client.peer };
        let target = route::find(&head.method, &head.path)?;
        if target.call().is_some_and(|call| call.right == Right::Change) {
            self.client.shared.expect_change(&peer).map_err(Fault::of)?;
        }
        let takes = target.call().is_some_and(|call| call.route.is_some_and(Route::takes_body));
        let room = if takes { self.client.shared.service.request_max(&peer) } else { 0 };
        let body = self.body(&head, room)?;
        let began = Instant::now();
        self.wire.until(began + self.client.shared.service.patience.answer);
        let keyword = target.call().map(|call| call.keyword);
        match target {
            Target::Document => {
                let text = document::openapi().to_string();
                Writing::new(self.wire, &head, head.stays()).whole(200, JSON, text.as_bytes())?;
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

    /// Reads the next head; `None` at the end.
    fn head(&mut self) -> Result<Option<Head>, End> {
        let mut searched = 0;
        loop {
            if let Some(end) = Head::end(&self.buffer, searched) {
                let rest = self.buffer.split_off(end);
                let bytes = std::mem::replace(&mut self.buffer, rest);
                return Ok(Some(Head::read(&bytes)?));
            }
            searched = self.buffer.len();
            if searched >= HEAD_MAX {
                let text = format!("the head is longer than {HEAD_MAX} bytes; send a shorter one");
                return Err(Fault::new(431, text).into());
            }
            match self.read() {
                Ok(0) if self.buffer.is_empty() => return Ok(None),
                Ok(0) => return Err(Fault::bad("the request has no end").into()),
                Ok(_) => {}
                // After a request, a client may disconnect or wait as it likes.
                Err(_) if self.met > 0 && self.buffer.is_empty() => return Ok(None),
                Err(error) => return Err(Fault::slow(&error).into()),
            }
        }
    }

    /// Reads the body of a request, if that may have one.
    fn body(&mut self, head: &Head, room: usize) -> Result<Vec<u8>, End> {
        let length = head.content_length.unwrap_or(0);
        if length > room as u64 {
            let text = format!("the body has {length} bytes; send at most {room}");
            return Err(Fault::new(413, text).into());
        }
        let is_json = |kind: &String| kind.split(';').next().map(str::trim) == Some(JSON);
        if length > 0 && !head.content_type.as_ref().is_some_and(is_json) {
            let text = format!("send the body with `Content-Type: {JSON}`");
            return Err(Fault::new(415, text).into());
        }
        let length = length as usize;
        let expects =
            head.expect.as_ref().map(|expect| expect.eq_ignore_ascii_case("100-continue"));
        if expects == Some(false) {
            return Err(Fault::new(417, "expect nothing but `100-continue`").into());
        }
        if expects == Some(true) && self.buffer.len() < length {
            self.wire.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(End::NotRead)?;
            self.wire.flush().map_err(End::NotRead)?;
        }
        while self.buffer.len() < length {
            match self.read() {
                Ok(0) => return Err(Fault::bad("the body has no end").into()),
                Ok(_) => {}
                Err(error) => return Err(Fault::slow(&error).into()),
            }
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 4096];
        let count = self.wire.read(&mut bytes)?;
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// Sends the answer to a request.
    fn call(&mut self, head: &Head, peer: &Peer, request: &Request) -> Result<(), End> {
        let met = self.client.shared.meet(peer, request).map_err(Fault::of)?;
        let Reply { answer, .. } = met.reply;
        let mut writing = Writing::new(self.wire, head, head.stays());
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
            Writing::new(self.wire, head, head.stays()).begin_parts(kind)?;
            return Ok(head.stays());
        }
        let met = self.client.shared.meet(peer, request).map_err(Fault::of)?;
        let Reply { answer, tail, .. } = met.reply;
        let mut writing = Writing::new(self.wire, head, head.stays());
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
        let mut writing = Writing::new(self.wire, head, head.stays());
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
        let mut writing = Writing::new(self.wire, head, head.stays());
        Ok(writing.parts(metrics::CONTENT, |out| {
            metrics::write(out, &shared.service.name, (&status, &shared.times))
        })?)
    }

    /// Tells the client why, and returns the refusal. What it still sends is read for a moment,
    /// since some see an answer only once they have sent everything.
    fn refuse(&mut self, fault: Fault) -> Refusal {
        self.wire.until(Instant::now() + REFUSAL_PATIENCE);
        if Writing::new(self.wire, &Head::default(), false).fault(&fault).is_ok() {
            let mut bytes = [0; 4096];
            let mut room = DISCARDED_MAX;
            while room > 0
                && let Ok(count @ 1..) = self.wire.read(&mut bytes)
            {
                room = room.saturating_sub(count);
            }
        }
        (fault.cause(), fault.text)
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

impl Fault {
    fn new(status: u16, text: impl Into<String>) -> Self {
        let header = match status {
            401 => Some(("WWW-Authenticate", "Bearer")),
            503 => Some(("Retry-After", "1")),
            _ => None,
        };
        Self { status, text: text.into(), header }
    }

    fn bad(text: impl Into<String>) -> Self {
        Self::new(400, text)
    }

    fn slow(error: &io::Error) -> Self {
        Self::new(408, crate::server::unheard(error))
    }

    /// A refusal of the server, whatever protocol the client speaks.
    fn of((cause, text): Refusal) -> Self {
        let status = match cause {
            Cause::Busy => 503,
            Cause::Silent => 408,
            Cause::TooLong => 413,
            Cause::NotAllowed | Cause::Foreign => 403,
            Cause::Unknown => 404,
            Cause::Failed => 500,
            Cause::Malformed | Cause::NotRead => 400,
        };
        Self::new(status, text)
    }

    fn cause(&self) -> Cause {
        match self.status {
            503 => Cause::Busy,
            408 => Cause::Silent,
            413 | 431 => Cause::TooLong,
            401 | 421 => Cause::Foreign,
            403 => Cause::NotAllowed,
            404 | 405 => Cause::Unknown,
            500 => Cause::Failed,
            _ => Cause::Malformed,
        }
    }
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::NotRead(error)
    }
}

const JSON: &str = "application/json";
/// The longest wait for a refused client to read why, and to stop sending.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(100);
/// The most bytes of a refused client that are read and thrown away.
const DISCARDED_MAX: usize = 1 << 20;
