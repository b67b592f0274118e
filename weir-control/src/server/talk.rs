//! The conversation with one client: a line in, an answer out, until it disconnects, is too slow or
//! is refused.

use super::Shared;
use crate::protocol::{Answer, CLASSES_DEFAULT, DESCRIPTORS_MAX, Query, REQUEST_MAX, Request};
use crate::service::{Cause, Peer, Reply};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, BufWriter, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use weir_live::status::{Board, Rows, Status, query};

/// Why the conversation ended.
pub(super) type Refusal = (Cause, String);

/// Answers a client until it disconnects.
pub(super) fn converse(stream: &UnixStream, peer: &Peer, shared: &Shared) -> Result<(), Refusal> {
    let patience = shared.service.patience.request;
    let is_owner = shared.service.may_change(peer);
    let bytes_max = if is_owner { shared.service.owner_request_max } else { REQUEST_MAX };
    let mut lines = Lines { stream, patience, bytes_max, buffer: Vec::new(), met: 0 };
    loop {
        let line = match lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(()),
            Err(refusal) => return Err(tell(stream, refusal)),
        };
        let request = read(&line).map_err(|refusal| tell(stream, refusal))?;
        shared.meet(stream, peer, &request).map_err(|refusal| tell(stream, refusal))?;
        lines.met += 1;
    }
}

/// Reads a request.
pub(super) fn read(line: &[u8]) -> Result<Request, Refusal> {
    serde_json::from_slice(line).map_err(|error| {
        // The error may quote what was sent.
        let error: String = error.to_string().chars().take(QUOTED_MAX).collect();
        let text = format!(
            "not a request: {error}; send one JSON object on a line, such as \
             {{\"call\":\"status\"}}"
        );
        (Cause::Malformed, text)
    })
}

/// Sends the client the reason of a refusal, unless it does not read; returns the refusal.
fn tell(stream: &UnixStream, refusal: Refusal) -> Refusal {
    if refusal.0 != Cause::NotRead {
        // It may have disconnected, which is no worse than the refusal.
        let _ = send(stream, &Answer::Error(refusal.1.clone()), REFUSAL_PATIENCE);
    }
    refusal
}

impl Shared {
    /// Sends the answer to a request.
    fn meet(&self, stream: &UnixStream, peer: &Peer, request: &Request) -> Result<(), Refusal> {
        let service = &self.service;
        if !request.reads() && !service.may_change(peer) {
            let text = "only root and the user who runs the link may change it; use `sudo`";
            return Err((Cause::NotAllowed, text.to_owned()));
        }
        match request {
            Request::Status(query) => self.tell_status(stream, query),
            Request::Mark {} => {
                service.boards.iter().for_each(|board| Board::request_mark(board));
                self.reply(stream, Answer::Done.into())
            }
            other => self.reply(stream, (service.act)(other, peer)),
        }
    }

    fn tell_status(&self, stream: &UnixStream, query: &Query) -> Result<(), Refusal> {
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
        let Some(status) = query::read(&self.service.boards, query, self.service.patience.counts)
        else {
            let text = "the run loop does not answer; it may be stopping".to_owned();
            return Err((Cause::Failed, text));
        };
        let status = Status { processes: self.service.processes(), ..status };
        self.reply(stream, Answer::Status(status).into())
    }

    /// Sends an answer, with its descriptors at the first byte.
    pub(super) fn reply(&self, stream: &UnixStream, reply: Reply) -> Result<(), Refusal> {
        let patience = self.service.patience.answer;
        let send_all = || -> io::Result<()> {
            if reply.descriptors.is_empty() {
                return send(stream, &reply.answer, patience);
            }
            let mut out = Timed::new(stream, patience);
            let text = line(&reply.answer)?;
            let sent = out.write_with(&text, &reply.descriptors)?;
            out.write_all(&text[sent..])
        };
        send_all().map_err(|error| (Cause::NotRead, format!("the answer was not read: {error}")))
    }
}

/// Sends an answer as it is made, so that its length takes no memory.
pub(super) fn send(
    stream: &UnixStream,
    answer: &Answer<Status<Rows>>,
    patience: Duration,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(PART, Timed::new(stream, patience));
    let written = serde_json::to_writer(&mut out, answer).map_err(io::Error::from);
    let written = written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    if written.is_err() {
        // What is left in the buffer is for nobody: the writer would try to send it.
        let _ = out.into_parts();
    }
    written
}

fn line(answer: &Answer<Status<Rows>>) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    Ok(text)
}

/// A stream that is written to until an instant.
struct Timed<'a> {
    stream: &'a UnixStream,
    end: Instant,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a UnixStream, patience: Duration) -> Self {
        Self { stream, end: Instant::now() + patience }
    }

    /// Sends descriptors with the first part of `text`; returns how much of it was sent.
    fn write_with(&mut self, text: &[u8], descriptors: &[OwnedFd]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.end)?))?;
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::other(format!("more than {DESCRIPTORS_MAX} descriptors")));
        }
        Ok(sendmsg(self.stream, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL)?)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.end)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns how long to wait until `end`.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    // A timeout of zero would mean none.
    Ok(left.max(Duration::from_millis(1)))
}

/// The lines of a client.
struct Lines<'a> {
    stream: &'a UnixStream,
    /// How long a line may take.
    patience: Duration,
    /// How long a line may be.
    bytes_max: usize,
    /// The bytes that were read beyond the last line.
    buffer: Vec<u8>,
    /// Requests that were met.
    met: u64,
}

impl Lines<'_> {
    /// Returns the next line; `None` at the end. The limit is for the whole
    /// line: a client that sends single bytes slowly is given up like a silent one.
    fn next(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        let end = Instant::now() + self.patience;
        let mut searched = 0;
        loop {
            if let Some(at) = self.buffer[searched..].iter().position(|&byte| byte == b'\n') {
                let rest = self.buffer.split_off(searched + at + 1);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            searched = self.buffer.len();
            if searched >= self.bytes_max {
                let max = self.bytes_max;
                let text = format!("the request is longer than {max} bytes; send a shorter one");
                return Err((Cause::TooLong, text));
            }
            match self.read(end) {
                // The last line may lack its end.
                Ok(0) if self.buffer.is_empty() => return Ok(None),
                Ok(0) => return Ok(Some(std::mem::take(&mut self.buffer))),
                Ok(_) => {}
                // After a request, a client may disconnect or wait as it likes.
                Err(_) if self.met > 0 && self.buffer.is_empty() => return Ok(None),
                Err(error) => {
                    return Err((Cause::Silent, format!("no whole request came: {error}")));
                }
            }
        }
    }

    fn read(&mut self, end: Instant) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(end)?))?;
        let mut bytes = [0; 16 << 10];
        let mut stream = self.stream;
        let count = stream.read(&mut bytes)?;
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
}

/// The longest wait for a refused client to read why.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(100);
/// The most characters of a client's own that come back to it.
const QUOTED_MAX: usize = 200;
/// Bytes of an answer that are made before they are sent.
const PART: usize = 64 << 10;
