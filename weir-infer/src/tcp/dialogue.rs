//! The exchanges of a connection, from where its two hosts began to speak.
//!
//! A turn of the client begins an exchange if the server had stopped exactly there: it had sent
//! what the client had received, and sent more only in answer. So what both say at the same time,
//! such as the client's window updates of HTTP/2 within a download, divides nothing. Invariant: the
//! bytes of all exchanges are the bytes of both directions.

use super::view::{Cause, Mark, View};
use serde::Serialize;
use weir_core::units::{Duration, Instant};

/// A request and its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Exchange {
    /// From the end of the exchange before it, or from the open connection.
    #[serde(rename = "after_s", serialize_with = "crate::shown::seconds")]
    pub after: Duration,
    /// At least so long after the beginning of the exchange before it; 0 without a period.
    #[serde(rename = "every_s", serialize_with = "crate::shown::seconds")]
    pub every: Duration,
    /// Bytes of the request; without any, the server began.
    pub up: u64,
    /// From the whole request at the server to the response.
    #[serde(rename = "wait_s", serialize_with = "crate::shown::seconds")]
    pub wait: Duration,
    /// Bytes of the response.
    pub down: u64,
    /// When its first byte passed the point next to the host that began.
    #[serde(skip)]
    pub began: Instant,
}

/// Where an exchange begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    up: u64,
    down: u64,
    after: Duration,
    at: Instant,
}

/// Returns the exchanges between a client and a server with these views, whose turnarounds are
/// known now.
pub fn exchanges(client: &View, server: &View, turnarounds: [Duration; 2]) -> Vec<Exchange> {
    let [near, far] = turnarounds;
    let (up, down) = (bytes(client, server), bytes(server, client));
    let origin = Start { up: 0, down: 0, after: Duration::ZERO, at: Instant::ZERO };
    let mut starts = vec![origin];
    for mark in &client.marks {
        let is_turn = mark.cause != Cause::Heard || stopped(&server.marks, mark.received, down);
        if is_turn {
            let after = match mark.cause {
                Cause::Silence => shifted(mark.gap, near, far),
                _ => less(mark.gap, near),
            };
            starts.push(Start { up: mark.offset, down: mark.received, after, at: mark.at });
        }
    }
    for mark in server.marks.iter().filter(|mark| mark.cause != Cause::Heard) {
        let after = shifted(mark.gap, far, near);
        starts.push(Start { up: mark.received, down: mark.offset, after, at: mark.at });
    }
    starts.sort_by_key(|start| (start.up + start.down, start.down));
    let mut found: Vec<Exchange> = Vec::new();
    let mut waits = server.marks.iter().filter(|mark| mark.cause == Cause::Heard).peekable();
    let mut last = starts[0];
    for next in starts.iter().skip(1).chain([&Start { up, down, ..origin }]) {
        if next.up < last.up || next.down < last.down || next.up > up || next.down > down {
            continue;
        }
        let (asked, given) = (next.up - last.up, next.down - last.down);
        if asked + given == 0 {
            last.after = last.after.max(next.after);
            last.at = last.at.max(next.at);
            continue;
        }
        while waits.next_if(|mark| mark.offset < last.down).is_some() {}
        let response =
            waits.peek().filter(|mark| mark.offset == last.down && asked > 0 && given > 0);
        let is_whole = |mark: &&&Mark| mark.received == next.up;
        let wait = response.filter(is_whole).map_or(Duration::ZERO, |mark| less(mark.gap, far));
        let Start { after, at, .. } = last;
        let every = Duration::ZERO;
        found.push(Exchange { after, every, up: asked, wait, down: given, began: at });
        last = *next;
    }
    found
}

/// The bytes of one direction, by both views.
fn bytes(from: &View, to: &View) -> u64 {
    from.bytes(0).max(to.bytes(1))
}

/// Returns whether the host with these marks had stopped exactly there.
fn stopped(marks: &[Mark], offset: u64, all: u64) -> bool {
    offset == all || marks.binary_search_by_key(&offset, |mark| mark.offset).is_ok()
}

fn less(gap: Duration, turnaround: Duration) -> Duration {
    Duration::from_nanos(gap.as_nanos().saturating_sub(turnaround.as_nanos()))
}

/// The time from the arrival of the last byte at the other host, where the gap is one from its
/// acknowledgement at the point.
fn shifted(gap: Duration, own: Duration, other: Duration) -> Duration {
    let nanos = (gap.as_nanos() + other.as_nanos() / 2).saturating_sub(own.as_nanos() / 2);
    Duration::from_nanos(nanos)
}
