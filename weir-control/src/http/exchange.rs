//! The requests of one client on one connection: heads and bodies, read without trust, each within
//! its bound.

use super::heading::{HEAD_MAX, Head};
use super::respond::Writing;
use super::{Fault, JSON};
use crate::server::{Refusal, Wire};
use crate::service::Cause;
use std::io;
use std::time::{Duration, Instant};

/// A connection on which requests come.
pub struct Exchange<'a, W: Wire + ?Sized> {
    /// The connection.
    pub wire: &'a mut W,
    /// What was read beyond the last request.
    buffer: Vec<u8>,
    /// Requests that were met.
    met: u64,
}

/// Why an exchange ends.
pub enum End {
    /// A request is not met.
    Fault(Fault),
    /// The client did not read its answer in time, or is gone.
    NotRead(io::Error),
}

impl<'a, W: Wire + ?Sized> Exchange<'a, W> {
    /// One that begins.
    pub fn new(wire: &'a mut W) -> Self {
        Self { wire, buffer: Vec::new(), met: 0 }
    }

    /// Counts a request that was met.
    pub fn count(&mut self) {
        self.met += 1;
    }

    /// Reads the next head; `None` at the end.
    pub fn head(&mut self) -> Result<Option<Head>, End> {
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
    pub fn body(&mut self, head: &Head, room: usize) -> Result<Vec<u8>, End> {
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

    /// Ends the exchange: tells a client whose request is not met why, and returns the refusal.
    ///
    /// # Errors
    /// Always: the cause and its text.
    pub fn refuse(&mut self, end: End) -> Result<(), Refusal> {
        match end {
            End::Fault(fault) => Err(self.tell(fault)),
            End::NotRead(error) => {
                Err((Cause::NotRead, format!("the answer was not read: {error}")))
            }
        }
    }

    /// Tells the client why, and returns the refusal. What it still sends is read for a moment,
    /// since some see an answer only once they have sent everything.
    fn tell(&mut self, fault: Fault) -> Refusal {
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

/// The longest wait for a refused client to read why, and to stop sending.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(100);
/// The most bytes of a refused client that are read and thrown away.
const DISCARDED_MAX: usize = 1 << 20;
