//! A request as handlers see it.

use super::Fault;
use super::heading::Head;
use super::respond::{JSON, LINES};
use super::talk::{Asked, Talk};
use axum::body::{Body, Bytes, to_bytes};
use std::sync::Arc;
use tokio::time::timeout_at;
use weir_control::protocol::Right;

/// A request that was admitted.
#[derive(Clone)]
pub struct Asking {
    /// Its head, and when all of it is to be there.
    pub asked: Asked,
    /// The right of the client's token; `None` where tokens are not asked for.
    pub right: Option<Right>,
    /// The connection, on which the handler may wait for the client's end.
    pub talk: Arc<Talk>,
}

impl Asking {
    /// Returns the request line and the headers.
    pub fn head(&self) -> &Head {
        &self.asked.head
    }

    /// Returns what the client may do at most.
    pub fn right(&self) -> Right {
        self.right.unwrap_or(Right::Change)
    }

    /// Returns whether the body has this type.
    pub fn has(&self, kind: &str) -> bool {
        let written = self.head().content_type.as_ref();
        written.is_some_and(|own| own.split(';').next().map(str::trim) == Some(kind))
    }

    /// Returns whether only the head of an answer is asked for.
    pub fn is_head(&self) -> bool {
        self.head().method == "HEAD"
    }
}

/// Reads the body of a request, which may have so many bytes.
///
/// # Errors
/// When it is longer, is no JSON by its type, or does not come in time.
pub async fn body(asking: &Asking, room: usize, body: Body) -> Result<Bytes, Fault> {
    let head = asking.head();
    let length = head.content_length.unwrap_or(0);
    if length > room as u64 {
        let text = format!("the body has {length} bytes; send at most {room}");
        return Err(Fault::new(413, text));
    }
    if length > 0 && !asking.has(JSON) && !asking.has(LINES) {
        let text = format!("send the body with `Content-Type: {JSON}`");
        return Err(Fault::new(415, text));
    }
    if head.expect.as_ref().is_some_and(|expect| !expect.eq_ignore_ascii_case("100-continue")) {
        return Err(Fault::new(417, "expect nothing but `100-continue`"));
    }
    match timeout_at(asking.asked.until, to_bytes(body, room)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(Fault::bad("the body has no end")),
        Err(_) => Err(Fault::slow()),
    }
}
