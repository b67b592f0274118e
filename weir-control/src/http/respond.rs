//! Responses: a head, and a body that is whole or comes in parts as it is made.

use super::heading::Head;
use super::{Fault, JSON};
use crate::server::Wire;
use crate::service::Tail;
use serde_json::json;
use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

/// A response to be written.
pub struct Writing<'a, W: Wire + ?Sized> {
    wire: &'a mut W,
    /// Whether the answer has a head only.
    is_head: bool,
    /// Whether the client reads bodies in parts; otherwise their end is that of the connection.
    in_parts: bool,
    stays: bool,
    /// Whether caches may keep the answer, and further headers.
    caching: &'static str,
    headers: Vec<(&'static str, String)>,
}

impl<'a, W: Wire + ?Sized> Writing<'a, W> {
    /// A response to the request with this head; another one may follow if the connection `stays`.
    pub fn new(wire: &'a mut W, head: &Head, stays: bool) -> Self {
        let in_parts = head.minor > 0;
        let is_head = head.method == "HEAD";
        Self { wire, is_head, in_parts, stays, caching: "no-store", headers: Vec::new() }
    }

    /// Adds a header.
    pub fn header(&mut self, name: &'static str, value: impl Into<String>) {
        self.headers.push((name, value.into()));
    }

    /// Says how caches may keep the answer; otherwise they may not.
    pub fn caching(&mut self, how: &'static str) {
        self.caching = how;
    }

    /// Writes a body that is whole.
    pub fn whole(&mut self, status: u16, kind: &str, body: &[u8]) -> io::Result<()> {
        self.response(status, (kind, None), body)
    }

    /// Writes why a request is not met; nothing follows.
    pub fn fault(&mut self, fault: &Fault) -> io::Result<()> {
        self.stays = false;
        let body = json!({ "error": fault.text }).to_string();
        self.response(fault.status, (JSON, fault.header), body.as_bytes())
    }

    /// Writes why the link could not meet a request.
    pub fn error(&mut self, status: u16, text: &str) -> io::Result<()> {
        let body = json!({ "error": text }).to_string();
        self.response(status, (JSON, None), body.as_bytes())
    }

    fn response(
        &mut self,
        status: u16,
        (kind, header): (&str, Option<(&str, &str)>),
        body: &[u8],
    ) -> io::Result<()> {
        let mut text = self.beginning(status, kind);
        if let Some((name, value)) = header {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n", body.len());
        let mut bytes = text.into_bytes();
        if !self.is_head {
            bytes.extend_from_slice(body);
        }
        self.wire.write_all(&bytes)?;
        self.wire.flush()
    }

    /// Writes a body as it is made, so that its length takes no memory.
    pub fn parts(
        &mut self,
        kind: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.begin_parts(kind)?;
        if self.is_head {
            return Ok(());
        }
        let mut out = BufWriter::with_capacity(PART, Chunks(self));
        let written = write(&mut out).and_then(|()| out.flush());
        // Dropped after an error, the writer would try to send the rest.
        let (_, _) = out.into_parts();
        written?;
        self.end_parts()
    }

    /// Writes a body as `tail` makes it, which takes as long as that likes: each part of it is read
    /// within `patience`. A body that ends early lacks its last part. `is_over` says whether the
    /// client is gone.
    pub fn follow(
        &mut self,
        kind: &str,
        patience: Duration,
        (tail, is_over): (Tail, &dyn Fn(&mut Self) -> bool),
    ) -> io::Result<()> {
        self.begin_parts(kind)?;
        let shared = RefCell::new(self);
        let paced = Paced { writing: &shared, patience };
        let mut out = BufWriter::with_capacity(PART, paced);
        let told = tail(&mut out, &|| is_over(*shared.borrow_mut()));
        let written = told.map_err(io::Error::other).and_then(|()| out.flush());
        // Dropped after an error, the writer would try to send the rest.
        let (_, _) = out.into_parts();
        written?;
        let mut writing = shared.borrow_mut();
        writing.wire.until(Instant::now() + patience);
        writing.end_parts()
    }

    /// Begins a body of parts.
    pub fn begin_parts(&mut self, kind: &str) -> io::Result<()> {
        self.stays &= self.in_parts;
        let mut text = self.beginning(200, kind);
        if self.in_parts {
            text += "Transfer-Encoding: chunked\r\n";
        }
        self.wire.write_all((text + "\r\n").as_bytes())?;
        self.wire.flush()
    }

    /// Writes a part, which is not empty.
    pub fn part(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.in_parts {
            self.wire.write_all(bytes)?;
            return self.wire.flush();
        }
        let mut part = format!("{:x}\r\n", bytes.len()).into_bytes();
        part.extend_from_slice(bytes);
        part.extend_from_slice(b"\r\n");
        self.wire.write_all(&part)?;
        self.wire.flush()
    }

    fn end_parts(&mut self) -> io::Result<()> {
        if self.in_parts {
            self.wire.write_all(b"0\r\n\r\n")?;
        }
        self.wire.flush()
    }

    /// Returns the connection.
    pub fn wire(&mut self) -> &mut W {
        self.wire
    }

    fn beginning(&self, status: u16, kind: &str) -> String {
        let (reason, connection) =
            (reason(status), if self.stays { "keep-alive" } else { "close" });
        let caching = self.caching;
        let line = |(name, value): &(&str, String)| format!("{name}: {value}\r\n");
        let headers: String = self.headers.iter().map(line).collect();
        format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nCache-Control: {caching}\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: {connection}\r\n{headers}"
        )
    }
}

/// Writes each buffer that is full as a part.
struct Chunks<'w, 'a, W: Wire + ?Sized>(&'w mut Writing<'a, W>);

impl<W: Wire + ?Sized> Write for Chunks<'_, '_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            self.0.part(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As [`Chunks`], with a limit of time for each part.
struct Paced<'c, 'w, 'a, W: Wire + ?Sized> {
    writing: &'c RefCell<&'w mut Writing<'a, W>>,
    patience: Duration,
}

impl<W: Wire + ?Sized> Write for Paced<'_, '_, '_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut writing = self.writing.borrow_mut();
        writing.wire.until(Instant::now() + self.patience);
        Chunks(&mut **writing).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// Bytes of a body that are made before they are sent.
const PART: usize = 64 << 10;
