//! The conversation with one client: a line in, an answer out, until it disconnects, is too slow or
//! is refused.

use super::wire::{Paced, Stream, Timed};
use super::{BEHALF_MAX, Refusal, Shared, Slot};
use crate::protocol::{Answer, DESCRIPTORS_MAX, Request, Right};
use crate::service::{Cause, Patience, Peer, Reply, Tail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, BufWriter, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use weir_link::status::{Rows, Status};

/// Serves a client until it disconnects. `peer` becomes the client for which it acts, if it does.
pub(super) fn converse(
    stream: &Stream,
    peer: &mut Peer,
    (shared, mut place): (&Shared, Option<Slot>),
) -> Result<(), Refusal> {
    let Patience { request: patience, answer, .. } = shared.service.patience;
    let bytes_max = shared.service.request_max(peer);
    let mut lines = Lines { stream, patience, bytes_max, buffer: Vec::new(), met: 0 };
    loop {
        let line = match lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(()),
            Err(refusal) => return Err(send_refusal(stream, peer, refusal)),
        };
        let answered = read(&line).and_then(|request| match request {
            Request::OnBehalf { right, keeps_user } => {
                // One that could change the link is trusted with a place of its own.
                if shared.service.may_change(peer) && place.is_none() {
                    place = Some(shared.begin_on_behalf().ok_or_else(full)?);
                    stream.act_on_behalf();
                }
                *peer = lowered(peer, (right, keeps_user), shared)?;
                lines.bytes_max = shared.service.request_max(peer);
                reply(stream, peer, Answer::Done.into(), answer)
            }
            request => {
                let met = shared.meet(peer, &request)?;
                reply(stream, peer, met.reply, answer)
            }
        });
        answered.map_err(|refusal| send_refusal(stream, peer, refusal))?;
        lines.met += 1;
    }
}

/// Returns the client for which a peer acts from now on: never one that may do more than it.
fn lowered(
    peer: &Peer,
    (right, keeps_user): (Right, bool),
    shared: &Shared,
) -> Result<Peer, Refusal> {
    if right == Right::Change {
        shared.expect_change(peer)?;
    }
    let user = peer.user.filter(|_| keeps_user);
    Ok(Peer { uid: None, user, token: Some(right) })
}

fn full() -> Refusal {
    let text = format!("{BEHALF_MAX} requests of the API are under way already; try again");
    (Cause::Busy, text)
}

/// Returns why no request was read.
fn unheard(error: &io::Error) -> String {
    match error.kind() {
        // A socket that waits for too long says only that it would wait.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "no whole request came in time; send it at once".to_owned()
        }
        _ => format!("no whole request came: {error}"),
    }
}

pub(super) fn read(line: &[u8]) -> Result<Request, Refusal> {
    serde_json::from_slice(line).map_err(|error| {
        // The error may quote what was sent.
        let error: String = error.to_string().chars().take(QUOTED_MAX).collect();
        if line.first().is_some_and(u8::is_ascii_uppercase) {
            let text = "this socket takes lines of JSON and no HTTP; `weir api` sends a request by \
                        its path, and [deployment.api] has the link answer by HTTP";
            return (Cause::Malformed, text.to_owned());
        }
        let text = format!(
            "not a request: {error}; send one JSON object on a line, such as \
             {{\"call\":\"status\"}}"
        );
        (Cause::Malformed, text)
    })
}

/// Sends the client the reason of a refusal, unless it does not read; returns the refusal.
fn send_refusal(stream: &Stream, peer: &Peer, (cause, text): Refusal) -> Refusal {
    if cause != Cause::NotRead {
        let answer = match peer.token {
            Some(_) => Answer::Refused { cause, text: text.clone() },
            None => Answer::Error(text.clone()),
        };
        // It may have disconnected, which is no worse than the refusal.
        let _ = send(stream, &answer, REFUSAL_PATIENCE);
    }
    (cause, text)
}

/// Sends an answer, with its descriptors at the first byte, and what follows it.
fn reply(stream: &Stream, peer: &Peer, reply: Reply, patience: Duration) -> Result<(), Refusal> {
    let send_all = || -> io::Result<()> {
        if reply.descriptors.is_empty() {
            return send(stream, &reply.answer, patience);
        }
        let mut out = Timed::new(stream, patience);
        let text = line(&reply.answer)?;
        let sent = write_with(&out, &text, &reply.descriptors)?;
        out.write_all(&text[sent..])
    };
    send_all().map_err(|error| (Cause::NotRead, format!("the answer was not read: {error}")))?;
    let Some(tail) = reply.tail else { return Ok(()) };
    let mut paced = Paced { stream, patience };
    let is_over = || is_half_closed(stream);
    let sent = match peer.token {
        Some(_) => send_in_parts(tail, paced, &is_over),
        None => tail(&mut paced, &is_over),
    };
    // What followed would be taken for more of it.
    stream.end_writing();
    sent.map_err(|why| (Cause::NotRead, why))
}

/// Sends the data behind an answer in parts, and an empty part at the end, by which a gateway that
/// passes it on by HTTP recognises that it is whole.
fn send_in_parts(tail: Tail, paced: Paced<'_>, is_over: &dyn Fn() -> bool) -> Result<(), String> {
    let mut out = BufWriter::with_capacity(PART, Parts(paced));
    let sent = tail(&mut out, is_over);
    let sent = sent.and_then(|()| out.flush().map_err(|error| error.to_string()));
    // Dropped after an error, the writer would try to send the rest.
    let (mut parts, _) = out.into_parts();
    sent?;
    parts.0.write_all(b"0\n").map_err(|error| error.to_string())
}

/// Writes each buffer that is full as a part: its length in hexadecimal digits on a line, and it.
struct Parts<'a>(Paced<'a>);

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            let part = [format!("{:x}\n", bytes.len()).as_bytes(), bytes].concat();
            self.0.write_all(&part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends descriptors with the first part of `text`; returns how much of it was sent.
fn write_with(out: &Timed<'_>, text: &[u8], descriptors: &[OwnedFd]) -> io::Result<usize> {
    out.ready()?;
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other(format!("more than {DESCRIPTORS_MAX} descriptors")));
    }
    Ok(sendmsg(out.stream, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Returns whether the client has closed its half of the connection, or says anything.
fn is_half_closed(stream: &Stream) -> bool {
    let mut watched = [PollFd::new(stream, PollFlags::IN | PollFlags::RDHUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Sends an answer as it is made, so that its length takes no memory.
pub(super) fn send(
    stream: &Stream,
    answer: &Answer<Status<Rows>>,
    patience: Duration,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(PART, Timed::new(stream, patience));
    let written = serde_json::to_writer(&mut out, answer).map_err(io::Error::from);
    let written = written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    if written.is_err() {
        // Dropped here, the writer would try to send the rest.
        let _ = out.into_parts();
    }
    written
}

fn line(answer: &Answer<Status<Rows>>) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    Ok(text)
}

/// The lines of a client.
struct Lines<'a> {
    stream: &'a Stream,
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
                    return Err((Cause::Silent, unheard(&error)));
                }
            }
        }
    }

    fn read(&mut self, end: Instant) -> io::Result<usize> {
        let mut bytes = [0; 4096];
        let count = Timed { stream: self.stream, end }.read(&mut bytes)?;
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
