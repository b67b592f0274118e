//! Requests to the link: lines of JSON on a connection to its control socket, one for each request.
//!
//! The connection acts for the client, with the right of its token, before the request is on it.

use crate::http::{Fault, respond};
use crate::source::Contact;
use axum::body::Bytes;
use axum::response::Response;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;
use weir_control::client::{answer_max, patience};
use weir_control::protocol::{Answer, Request, Right};

/// An answer that has begun.
pub struct Answering {
    link: BufReader<UnixStream>,
    patience: Duration,
}

/// The kind of an answer, by its beginning.
pub enum Outcome {
    /// The link met the request; its answer is to be read.
    Met(Answering),
    /// It could not, for this reason.
    Failed(String),
}

/// Sends a request to the link, for a client with this right.
///
/// # Errors
/// When it does not answer, or refuses.
pub async fn ask(
    contact: &Arc<dyn Contact>,
    right: Right,
    request: &Request,
) -> Result<Outcome, Fault> {
    let own = Arc::clone(contact);
    // It may wait for the keeper.
    let connected = tokio::task::spawn_blocking(move || own.connect(right)).await;
    let socket = connected.map_err(|error| absent(&error))?.map_err(|why| absent(&why))?;
    let socket = socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(socket));
    let link = BufReader::with_capacity(PART, socket.map_err(|error| absent(&error))?);
    let mut answering = Answering { link, patience: patience(request) };
    let mut line = serde_json::to_vec(request).map_err(|error| absent(&error))?;
    line.push(b'\n');
    // One that turns clients away answers before it reads.
    let _answered = timeout(answering.patience, answering.link.write_all(&line)).await;
    // The answer to the line before, which says for whom this one acts.
    let first = answering.line(REFUSAL_MAX).await?;
    if first != b"\"done\"" {
        return Err(refused(&first).map_or_else(|fault| fault, |why| absent(&why)));
    }
    let beginning = answering.beginning().await?;
    let is_error = [b"{\"error\":".as_slice(), b"{\"refused\":"];
    if !is_error.iter().any(|word| beginning.starts_with(word)) {
        return Ok(Outcome::Met(answering));
    }
    let line = answering.line(REFUSAL_MAX).await?;
    refused(&line).map(Outcome::Failed)
}

/// Returns why the link could not meet a request, or the fault with which it refused it.
fn refused(line: &[u8]) -> Result<String, Fault> {
    match serde_json::from_slice::<Answer<()>>(line) {
        Ok(Answer::Error(text)) => Ok(text),
        Ok(Answer::Refused { cause, text }) => Err(Fault::of_link(cause, text)),
        _ => Err(absent(&"it gives another answer than was asked for")),
    }
}

fn absent(why: &dyn std::fmt::Display) -> Fault {
    Fault::new(503, why.to_string())
}

fn late() -> Fault {
    absent(&"the link does not answer in time, or ends")
}

impl Answering {
    /// Returns the first bytes of the answer, which stay to be read.
    async fn beginning(&mut self) -> Result<Vec<u8>, Fault> {
        let filled = timeout(self.patience, self.link.fill_buf()).await;
        match filled {
            Ok(Ok(bytes)) if !bytes.is_empty() => {
                Ok(bytes.iter().take(BEGINNING).copied().collect())
            }
            Ok(Ok(_)) => Err(absent(&ENDED)),
            Ok(Err(error)) => Err(absent(&format!("{ENDED}: {error}"))),
            Err(_) => Err(late()),
        }
    }

    /// Returns the rest of the answer as a line, which may have so many bytes.
    pub async fn line(&mut self, max: u64) -> Result<Vec<u8>, Fault> {
        let mut line = Vec::new();
        let mut limited = (&mut self.link).take(max);
        let read = timeout(self.patience, limited.read_until(b'\n', &mut line)).await;
        read.map_err(|_| late())?.map_err(|error| absent(&format!("{ENDED}: {error}")))?;
        match line.pop() {
            Some(b'\n') => Ok(line),
            _ => Err(absent(&ENDED)),
        }
    }

    /// Returns a response with the answer as its body, of which a part is in memory at a time.
    pub fn respond(self, request: &Request) -> Response {
        let max = answer_max(request);
        let buffered = self.link.buffer();
        if let Some(end) = buffered.iter().position(|byte| *byte == b'\n') {
            return respond::whole(200, respond::JSON, buffered[..end].to_vec());
        }
        let (sender, mut response) = respond::parts(respond::JSON, false);
        // It is read in a limited time, like one that is whole.
        response.extensions_mut().remove::<respond::Endless>();
        tokio::spawn(self.send(sender, max));
        response
    }

    /// Sends the line in parts.
    async fn send(mut self, sender: respond::Sender, mut room: u64) {
        loop {
            let part = match timeout(self.patience, self.link.fill_buf()).await {
                Ok(Ok(bytes)) if !bytes.is_empty() && room > 0 => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    (Bytes::copy_from_slice(&bytes[..end.unwrap_or(bytes.len())]), end.is_some())
                }
                _ => {
                    // The client sees that it is not whole; it may be gone.
                    let _gone = sender.send(Err(io::Error::other(ENDED))).await;
                    return;
                }
            };
            let (part, is_last) = part;
            self.link.consume(part.len());
            room = room.saturating_sub(part.len() as u64);
            if (!part.is_empty() && sender.send(Ok(part)).await.is_err()) || is_last {
                return;
            }
        }
    }

    /// Returns what follows the answer.
    ///
    /// # Errors
    /// When the answer is another one.
    pub async fn parts(mut self) -> Result<Parts, Fault> {
        match self.line(REFUSAL_MAX).await?.as_slice() {
            b"\"done\"" => Ok(Parts(self.link)),
            _ => Err(absent(&"it gives another answer than was asked for")),
        }
    }
}

/// The body that follows an answer, part by part.
pub struct Parts(BufReader<UnixStream>);

impl Parts {
    /// Waits for the next part; `None` at the end of what is whole.
    ///
    /// # Errors
    /// When the connection ends before that.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut digits = Vec::new();
        (&mut self.0).take(LENGTH_DIGITS_MAX).read_until(b'\n', &mut digits).await?;
        if digits.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = length(&digits).ok_or(io::ErrorKind::InvalidData)?;
        if length == 0 {
            return Ok(None);
        }
        let mut part = vec![0; length];
        self.0.read_exact(&mut part).await?;
        Ok(Some(part.into()))
    }
}

/// Reads the length of a part.
fn length(digits: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    usize::from_str_radix(text, 16).ok().filter(|length| is_plain && *length <= PART_MAX)
}

/// Why an answer is not whole.
const ENDED: &str = "the connection to the link ended before the whole answer came";
/// Bytes of an answer that are read at once.
const PART: usize = 64 << 10;
/// More than a part has.
const PART_MAX: usize = 1 << 20;
/// More digits than the length of a part has.
const LENGTH_DIGITS_MAX: u64 = 8;
/// Enough of an answer to see what it is.
const BEGINNING: usize = 16;
/// The longest reason of the link.
const REFUSAL_MAX: u64 = 1 << 20;
