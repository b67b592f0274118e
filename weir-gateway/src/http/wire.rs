//! The bytes of one connection on their way to hyper, each request within its bounds.
//!
//! hyper takes heads that two readers may understand differently: lines that end with a bare LF, a
//! header twice. So each head is read here first ([`Head::read`]), and hyper gets it only if it is
//! sound; then as many bytes of a body as the head says, and then the next head. After a head that
//! is not, hyper gets an empty request instead, whose answer is the fault ([`Talk::begin`]); so a
//! fault waits for the answers before it. Invariant: what hyper reads as a head was read here, and
//! heads and answers have the same order.
//!
//! Here are the limits of time, too: for a request to come, and for an answer to be read.

#[cfg(test)]
mod tests;

use super::Fault;
use super::heading::{HEAD_MAX, Head};
use super::talk::{Asked, Talk};
use hyper::rt::{Read, ReadBufCursor, Write};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use weir_control::protocol::Cause;

/// A connection between a client and hyper.
pub struct Wire<S> {
    stream: S,
    talk: Arc<Talk>,
    reading: Reading,
    /// Bytes that were read and that hyper has not got yet.
    buffer: Vec<u8>,
    /// Whether no further byte is read.
    has_ended: bool,
    /// Requests that were read whole.
    met: u64,
    /// When what is read is to be there.
    read_timer: Timer,
    /// When what is written is to be taken.
    write_timer: Timer,
    /// When a client that is told to end is left alone, and how much of it is still read until
    /// then.
    rest: Option<(Timer, usize)>,
}

/// Where the next byte belongs.
#[derive(Clone, Copy)]
enum Reading {
    /// To a head, of which so much was searched for its end.
    Head { searched: usize },
    /// To a request of which so many bytes are to come.
    Request { left: u64 },
}

/// The part of a request that reading has come to.
enum Next {
    /// There is more to look at.
    More,
    /// The client sends nothing more, or no more is read.
    End,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// A connection that has sent nothing yet.
    pub fn new(stream: S, talk: Arc<Talk>) -> Self {
        Self {
            stream,
            talk,
            reading: Reading::Head { searched: 0 },
            buffer: Vec::new(),
            has_ended: false,
            met: 0,
            read_timer: Timer::default(),
            write_timer: Timer::default(),
            rest: None,
        }
    }

    /// A connection that is told this fault, whatever it sends.
    pub fn refused(stream: S, talk: Arc<Talk>, fault: Fault) -> Self {
        let mut wire = Self::new(stream, talk);
        wire.fail(fault);
        wire
    }

    /// Lets hyper meet a request that is refused, and reads no other one.
    fn fail(&mut self, fault: Fault) {
        self.buffer = EMPTY_REQUEST.to_vec();
        self.reading = Reading::Request { left: self.buffer.len() as u64 };
        self.has_ended = true;
        self.talk.push(Err(fault));
    }

    /// Looks for the end of a head among what was read, and reads on if it is not there.
    fn poll_head(&mut self, context: &mut Context<'_>, searched: usize) -> Poll<io::Result<Next>> {
        match Head::end(&self.buffer, searched) {
            Ok(Some(end)) => {
                self.take_head(end);
                return Poll::Ready(Ok(Next::More));
            }
            Ok(None) => {}
            Err(fault) => {
                self.fail(fault);
                return Poll::Ready(Ok(Next::More));
            }
        }
        self.reading = Reading::Head { searched: self.buffer.len() };
        if self.buffer.len() >= HEAD_MAX {
            let text = format!("the head is longer than {HEAD_MAX} bytes; send a shorter one");
            self.fail(Fault::new(431, text));
            return Poll::Ready(Ok(Next::More));
        }
        if self.has_ended {
            if self.buffer.is_empty() {
                return Poll::Ready(Ok(Next::End));
            }
            self.fail(Fault::bad("the request has no end"));
            return Poll::Ready(Ok(Next::More));
        }
        if let Poll::Ready(read) = self.poll_fill(context) {
            if self.met > 0 && searched == 0 {
                // One that follows another has its time from its first byte on.
                self.read_timer.stop();
            }
            return Poll::Ready(read.map(|()| Next::More));
        }
        // Between two requests the time runs from the end of the answer.
        if self.talk.is_answering(context.waker()) {
            self.read_timer.stop();
            return Poll::Pending;
        }
        ready!(self.read_timer.poll(context, self.talk.patience.request));
        if self.met > 0 && self.buffer.is_empty() {
            self.has_ended = true;
            return Poll::Ready(Ok(Next::End));
        }
        self.fail(Fault::slow());
        Poll::Ready(Ok(Next::More))
    }

    /// Gives hyper the head that ends there, and what follows it of its request.
    fn take_head(&mut self, end: usize) {
        match Head::read(&self.buffer[..end]) {
            Ok(head) => {
                let left = head.content_length.unwrap_or(0) + end as u64;
                self.reading = Reading::Request { left };
                self.met += 1;
                let patience = self.talk.patience.request;
                let until = self.read_timer.end().unwrap_or_else(|| Instant::now() + patience);
                self.read_timer.stop();
                self.talk.push(Ok(Asked { head, until }));
            }
            Err(fault) => self.fail(fault),
        }
    }

    /// Reads some bytes of the client into the buffer.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; PART];
        let mut read = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
        self.has_ended = read.filled().is_empty();
        self.buffer.extend_from_slice(read.filled());
        Poll::Ready(Ok(()))
    }

    /// Reads what a client still sends that was told to end, for a moment: some see an answer only
    /// once they have sent everything.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (timer, room) = self.rest.get_or_insert_with(|| (Timer::default(), DISCARDED_MAX));
        let mut bytes = [0; PART];
        loop {
            if *room == 0 || timer.poll(context, REFUSAL_PATIENCE).is_ready() {
                return Poll::Ready(());
            }
            let mut read = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut read)) {
                Ok(()) if !read.filled().is_empty() => {
                    *room = room.saturating_sub(read.filled().len());
                }
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Read for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = &mut *self;
        loop {
            match wire.reading {
                Reading::Request { left: 0 } => wire.reading = Reading::Head { searched: 0 },
                Reading::Request { left } if !wire.buffer.is_empty() => {
                    let room = usize::try_from(left).unwrap_or(usize::MAX);
                    let count = wire.buffer.len().min(out.remaining()).min(room);
                    out.put_slice(&wire.buffer[..count]);
                    wire.buffer.drain(..count);
                    wire.reading = Reading::Request { left: left - count as u64 };
                    return Poll::Ready(Ok(()));
                }
                Reading::Request { .. } if wire.has_ended => return Poll::Ready(Ok(())),
                Reading::Request { .. } => ready!(wire.poll_fill(context))?,
                Reading::Head { searched } => match ready!(wire.poll_head(context, searched))? {
                    Next::More => {}
                    Next::End => return Poll::Ready(Ok(())),
                },
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Write for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wire = &mut *self;
        let written = Pin::new(&mut wire.stream).poll_write(context, bytes);
        wire.in_time(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = &mut *self;
        let flushed = Pin::new(&mut wire.stream).poll_flush(context);
        wire.in_time(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = &mut *self;
        if wire.rest.is_none() {
            let ended = Pin::new(&mut wire.stream).poll_shutdown(context);
            ready!(wire.in_time(context, ended))?;
        }
        wire.poll_rest(context).map(Ok)
    }
}

impl<S> Wire<S> {
    /// Returns what became of something that waits for the client to read, or the end of its time.
    /// TLS holds bytes of its own, so flushing and ending wait, too.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.write_timer.stop();
            return done;
        }
        ready!(self.poll_unread(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Waits until the client has had time enough to read.
    fn poll_unread(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(until) = self.talk.until() {
            self.write_timer.at_most(until);
        }
        ready!(self.write_timer.poll(context, self.talk.patience.answer));
        self.talk.refuse(Cause::NotRead, "the answer was not read: it took too long");
        Poll::Ready(())
    }
}

/// Something that is to happen in time.
#[derive(Default)]
struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Waits for the end, which is so far away where it is not set.
    fn poll(&mut self, context: &mut Context<'_>, patience: Duration) -> Poll<()> {
        let end = || Box::pin(sleep_until(Instant::now() + patience));
        self.0.get_or_insert_with(end).as_mut().poll(context)
    }

    /// Sets the end, unless it is set.
    fn at_most(&mut self, end: Instant) {
        self.0.get_or_insert_with(|| Box::pin(sleep_until(end)));
    }

    fn end(&self) -> Option<Instant> {
        self.0.as_ref().map(|sleep| sleep.deadline())
    }

    fn stop(&mut self) {
        self.0 = None;
    }
}

/// A harmless request for hyper in place of one that it is not to read.
const EMPTY_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Bytes that are read at once.
const PART: usize = 4096;
/// The longest wait for a refused client to read why, and to stop sending.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(100);
/// The most bytes of a refused client that are read and thrown away.
const DISCARDED_MAX: usize = 1 << 20;
