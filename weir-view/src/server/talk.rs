//! The conversation with one client: who may ask, what a path means, and its answer.

use super::answer::take;
use super::route::{self, Target};
use super::{Shared, WIDE_MAX};
use crate::assets::{self, Asset};
use crate::source::Source;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_control::http::exchange::{End, Exchange};
use weir_control::http::heading::Head;
use weir_control::http::memory::Memory;
use weir_control::http::respond::Writing;
use weir_control::http::{Fault, JSON};
use weir_control::protocol::{REQUEST_MAX, Right};
use weir_control::server::{Refusal, Wire};

/// Answers a client until it disconnects or is refused.
pub(super) fn converse(wire: &mut dyn Wire, shared: &Shared) -> Result<(), Refusal> {
    let mut talk = Talk { exchange: Exchange::new(wire), shared };
    let ended = loop {
        match talk.turn() {
            Ok(true) => talk.exchange.count(),
            Ok(false) => return Ok(()),
            Err(end) => break end,
        }
    };
    talk.exchange.refuse(ended)
}

/// Meets any bytes as the requests of a client without a token: for the fuzz target.
pub fn exercise(bytes: &[u8], source: Arc<dyn Source>) {
    let answer = answer(bytes, &Shared::of(source, None));
    assert!(bytes.is_empty() || answer.starts_with(b"HTTP/1.1 "), "there is an answer");
}

/// Returns what a client that sends these bytes receives.
pub(crate) fn answer(bytes: &[u8], shared: &Shared) -> Vec<u8> {
    let mut wire = Memory::new(bytes);
    let _refusal = converse(&mut wire, shared);
    wire.outgoing
}

/// A client's requests, and what meets them.
pub(super) struct Talk<'a> {
    pub exchange: Exchange<'a, dyn Wire + 'a>,
    pub shared: &'a Shared,
}

impl Talk<'_> {
    /// Meets a request; returns whether another one may follow.
    fn turn(&mut self) -> Result<bool, End> {
        self.exchange.wire.until(Instant::now() + REQUEST_PATIENCE);
        let Some(head) = self.exchange.head()? else { return Ok(false) };
        self.shared.site().expect_here(&head)?;
        if assets::is_path(&head.path) {
            self.exchange.body(&head, 0)?;
            self.exchange.wire.until(Instant::now() + ANSWER_PATIENCE);
            return self.asset(&head).map(|()| head.stays());
        }
        let right = self.shared.site().admit(&head)?.unwrap_or(Right::Change);
        let target = route::find(&head)?;
        if target.right() > right {
            return Err(Fault::new(
                403,
                "this token may only look; use the one that may change the link",
            )
            .into());
        }
        let room = if target.takes_body() { REQUEST_MAX } else { 0 };
        let body = self.exchange.body(&head, room)?;
        self.exchange.wire.until(Instant::now() + ANSWER_PATIENCE);
        match target {
            Target::Stream => return self.stream(&head).map(|()| false),
            Target::Data(route) => {
                // Held until it is read: answers of those who do not read are bounded.
                let shared = self.shared;
                let wide = route.what.is_wide().then(|| take(&shared.wide, WIDE_MAX));
                let _wide = wide.transpose()?;
                let answer = self.answer_to(route, right, (&head.query, &body))?;
                self.exchange.wire.until(Instant::now() + ANSWER_PATIENCE);
                self.writing(&head).whole(200, JSON, &answer)?;
            }
            Target::Pass(..) => self.pass(&head, &body)?,
        }
        Ok(head.stays())
    }

    /// Returns what writes the answer to a request.
    pub fn writing<'s>(&'s mut self, head: &Head) -> Writing<'s, dyn Wire + 's>
    where
        Self: 's,
    {
        Writing::new(&mut *self.exchange.wire, head, head.stays())
    }

    /// Sends a file of the page, unless the client has it already.
    fn asset(&mut self, head: &Head) -> Result<(), End> {
        if !matches!(head.method.as_str(), "GET" | "HEAD") {
            let fault = Fault::new(405, "send GET here");
            return Err(Fault { header: Some(("Allow", "GET, HEAD")), ..fault }.into());
        }
        let missing = "the page has no such file; `GET /` is the page";
        let Asset { plain, gzip, tag, kind } =
            assets::find(&head.path).ok_or_else(|| Fault::new(404, missing))?;
        let gzip = gzip.as_ref().filter(|_| head.takes_gzip());
        let is_known =
            head.if_none_match.as_ref().is_some_and(|known| known.contains(tag.as_str()));
        let mut writing = self.writing(head);
        // Asked for anew each time, so that a page of before an update is never mixed with it.
        writing.caching("no-cache");
        writing.header("ETag", tag);
        writing.header("Vary", "Accept-Encoding");
        writing.header("Content-Security-Policy", POLICY);
        writing.header("Referrer-Policy", "no-referrer");
        writing.header("Cross-Origin-Opener-Policy", "same-origin");
        if is_known {
            return Ok(writing.whole(304, kind, &[])?);
        }
        if gzip.is_some() {
            writing.header("Content-Encoding", "gzip");
        }
        Ok(writing.whole(200, kind, gzip.map_or(plain, Vec::as_slice))?)
    }
}

/// What a browser lets the page do: load what is here, and nothing else; be shown in no frame.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; object-src 'none'";
/// The longest wait for a whole request.
pub(super) const REQUEST_PATIENCE: Duration = Duration::from_secs(2);
/// The longest wait for a client to read an answer.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
