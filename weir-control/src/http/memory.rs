//! A connection in memory: a client that sends some bytes and then nothing, for tests and fuzzing.

use super::{Client, Site, converse};
use crate::protocol::{Answer, Request};
use crate::server::{Shared, Wire};
use crate::service::{Patience, Peer, Service};
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Meets any bytes as the requests of a client who may change the link: for the fuzz target.
pub fn exercise(bytes: &[u8]) {
    let patience = Patience { counts: Duration::ZERO, ..Patience::default() };
    let act = |request: &Request, _: &Peer| {
        assert!(request.call().route.is_some(), "{request:?} has no route");
        Answer::Done.into()
    };
    let shared = Shared::of(Service { act: Box::new(act), patience, ..Service::of(Vec::new(), 0) });
    let answer = ask(&shared, Peer { uid: Some(0), token: None }, bytes);
    assert!(bytes.is_empty() || answer.starts_with(b"HTTP/1.1 "), "there is an answer");
}

/// Returns what a client that sends these bytes receives.
pub(super) fn ask(shared: &Shared, peer: Peer, bytes: &[u8]) -> Vec<u8> {
    let mut wire = Memory::new(bytes);
    let client = Client { peer, site: Site::Local, shared };
    let _refusal = converse(&mut wire, &client);
    wire.outgoing
}

/// A client in memory: it sends some bytes, and keeps what it receives.
pub struct Memory<'a> {
    incoming: &'a [u8],
    /// What it received.
    pub outgoing: Vec<u8>,
    /// How often the end was looked for.
    looks: Cell<u32>,
}

impl<'a> Memory<'a> {
    /// A client that sends these bytes.
    pub fn new(incoming: &'a [u8]) -> Self {
        Self { incoming, outgoing: Vec::new(), looks: Cell::new(0) }
    }
}

impl Read for Memory<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.incoming.read(bytes)
    }
}

impl Write for Memory<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire for Memory<'_> {
    fn until(&mut self, _end: Instant) {}

    /// The client reads all that there is of a stream of events, and disconnects then.
    fn is_gone(&self) -> bool {
        self.looks.replace(self.looks.get() + 1) >= LOOKS_MAX
    }
}

/// A stream of events gets so many parts.
const LOOKS_MAX: u32 = 1;
