//! A conversation over QUIC: each host writes to a stream of its own, which stays open.
//!
//! Invariant: as of a transfer, each byte is read once and in order, which is checked.

use super::{Connection, check_pattern, pattern};
use crate::conversation::{Conversation, Deed, Side, Talk};
use crate::packets::Content;
use crate::transport::Served;
use bytes::Bytes;
use quinn_proto::{Dir, StreamId, VarInt};
use weir_core::units::{Duration, Instant};

/// A conversation in progress, and the streams that carry it.
pub(super) struct Talking {
    talk: Talk,
    /// By the host that writes.
    streams: [Stream; 2],
}

/// The stream of one host.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// Its name at the host that writes, and at the one that reads.
    names: [Option<StreamId>; 2],
    /// Bytes of the application that the connection has not taken yet.
    waiting: u64,
    written: u64,
    read: u64,
}

impl Talking {
    pub fn new(plan: &Conversation) -> Self {
        Self { talk: Talk::new(plan), streams: [Stream::default(); 2] }
    }

    /// Returns where the client is.
    pub fn client(&self) -> Side {
        self.talk.client()
    }

    /// Lets no other exchange begin.
    pub fn stop(&mut self) {
        self.talk.stop();
    }

    /// Goes on with a new connection, which begins the exchanges of one anew that failed.
    pub fn restart(&mut self) {
        self.talk.reopen();
        self.streams = [Stream::default(); 2];
    }

    /// Returns after how long another connection is to be opened, if the present one is left.
    pub fn reopens(&self) -> Option<Duration> {
        self.talk.reopens()
    }
}

impl Connection {
    /// Lets the application of `side` read and write what the conversation has now, and the host
    /// send it, which also wakes when its patience ends.
    pub(super) fn converse(
        &mut self,
        at: Instant,
        (side, patience): (Side, Option<Instant>),
        out: &mut Vec<Content>,
    ) -> Served {
        let now = self.clock.at(at);
        let mut served = Served::default();
        loop {
            let (read, took) = self.speak(at, side);
            served.completed = served.completed.or(took);
            served.received += if side == Side::Receiver { read } else { 0 };
            let before = out.len();
            self.hosts[side as usize].emit(now, (self.payload_max, self.plan.ecn), out);
            if out.len() == before && read == 0 {
                break;
            }
        }
        let Some(talking) = &self.talking else { return served };
        let [own, other] = [side, side.other()].map(|side| talking.talk.due(side));
        let clock = self.clock;
        let host = &mut self.hosts[side as usize];
        let timer = host.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        let timer = timer.map(|due| clock.back(due));
        served.wake = host.alarm.plan(at, timer.into_iter().chain(patience).chain(own).min());
        served.wake_other = self.hosts[side.other() as usize].alarm.plan(at, other);
        served
    }

    /// Lets the application read and write; returns how many bytes it read, and how long an
    /// exchange took that has ended.
    fn speak(&mut self, at: Instant, side: Side) -> (u64, Option<Duration>) {
        let now = self.clock.at(at);
        let Some(Talking { talk, streams, .. }) = &mut self.talking else { return (0, None) };
        let Some((_, connection)) = &mut self.hosts[side as usize].connection else {
            return (0, None);
        };
        while connection.poll().is_some() {}
        if connection.is_closed() {
            return (0, None);
        }
        if side == talk.client() && !connection.is_handshaking() {
            talk.open(at);
        }
        let incoming = &mut streams[side.other() as usize];
        let before = incoming.read;
        incoming.names[1] = incoming.names[1].or_else(|| connection.streams().accept(Dir::Uni));
        if let Some(name) = incoming.names[1] {
            let mut stream = connection.recv_stream(name);
            if let Ok(mut chunks) = stream.read(true) {
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    check_pattern(incoming.read, &chunk.bytes);
                    incoming.read += chunk.bytes.len() as u64;
                }
                // It says whether the window is to be announced; the caller sends in any case.
                let _ = chunks.finalize();
            }
        }
        let read = incoming.read - before;
        let took = talk.read(at, side, read);
        let outgoing = &mut streams[side as usize];
        while let Some(deed) = talk.next(at, side) {
            match deed {
                Deed::Write(bytes) => outgoing.waiting += bytes,
                Deed::Close => connection.close(now, VarInt::from_u32(0), Bytes::new()),
            }
        }
        if outgoing.waiting > 0 && !connection.is_closed() {
            outgoing.names[0] = outgoing.names[0].or_else(|| connection.streams().open(Dir::Uni));
        }
        let Some(name) = outgoing.names[0] else { return (read, took) };
        let mut stream = connection.send_stream(name);
        while outgoing.waiting > 0 {
            let mut chunk = [pattern(outgoing.written, outgoing.waiting)];
            let Ok(written) = stream.write_chunks(&mut chunk) else { break };
            outgoing.written += written.bytes as u64;
            outgoing.waiting -= written.bytes as u64;
        }
        (read, took)
    }
}
