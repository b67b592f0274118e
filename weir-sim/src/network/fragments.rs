//! IP packets that exceed a link's MTU: cut at its beginning, reassembled by the receiver.
//!
//! Invariant: the pieces of a datagram carry its payload once, and only its first piece has its
//! content.

use super::lanes::Lane;
use super::parcel::{Parcel, Piece};
use crate::packets::Content;
use std::collections::BTreeMap;
use weir_core::units::{Duration, Instant};

/// Cuts a parcel of `lane` into pieces that fit `mtu`; `number` is for a datagram that is cut for
/// the first time.
pub(crate) fn cut(parcel: Parcel, lane: &Lane, mtu: u32, number: u32) -> Vec<Parcel> {
    let payload = parcel.length.saturating_sub(lane.front(parcel.piece.is_some()));
    let whole = Piece { datagram: number, first: true, more: false, whole: payload };
    let piece = parcel.piece.unwrap_or(whole);
    // [RFC 791 §3.2] Fragments begin at multiples of 8 bytes.
    let most = (mtu.saturating_sub(lane.ip_headers[1]) & !7).max(8);
    let mut pieces = Vec::with_capacity(payload.div_ceil(most) as usize);
    let mut left = payload;
    while left > 0 {
        let taken = left.min(most);
        left -= taken;
        pieces.push(Parcel {
            length: lane.front(true) + taken,
            piece: Some(Piece {
                first: piece.first && pieces.is_empty(),
                more: piece.more || left > 0,
                ..piece
            }),
            ..parcel
        });
    }
    pieces
}

/// Datagrams of which some pieces have come.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// By number, which grows with time.
    rows: BTreeMap<u32, Datagram>,
    /// Datagrams given up, since pieces did not come in time.
    pub given_up: u64,
}

/// A piece that reached its receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub piece: Piece,
    /// Its part of the datagram's payload, in bytes.
    pub payload: u32,
    /// Its packet arrived with a congestion mark.
    pub marked: bool,
}

#[derive(Debug)]
struct Datagram {
    began: Instant,
    payload: u32,
    content: Content,
    /// Whether a piece came with a congestion mark.
    marked: bool,
}

impl Reassembly {
    /// Takes a piece with its content; returns the content of its datagram if that is complete.
    pub fn take(&mut self, at: Instant, arrived: Arrived, content: Content) -> Option<Content> {
        self.forget(at);
        let Arrived { piece, payload, marked } = arrived;
        let new = || Datagram { began: at, payload: 0, content: Content::Nothing, marked: false };
        let row = self.rows.entry(piece.datagram).or_insert_with(new);
        row.payload += payload;
        row.marked |= marked;
        if piece.first {
            row.content = content;
        }
        if row.payload < piece.whole {
            return None;
        }
        let mut row = self.rows.remove(&piece.datagram)?;
        // [rfc3168 §5.3] A mark on one piece is a mark on the datagram.
        if row.marked {
            row.content.set_mark(CONGESTED);
        }
        Some(row.content)
    }

    fn forget(&mut self, at: Instant) {
        while let Some(first) = self.rows.first_entry() {
            let late = at.since(first.get().began) > TIMEOUT;
            if !late && self.rows.len() <= DATAGRAMS_MAX {
                return;
            }
            self.rows.pop_first();
            self.given_up += 1;
        }
    }
}

/// The codepoint of a packet with a congestion mark.
pub(crate) const CONGESTED: u8 = 3;
/// The time that BSD allows for the reassembly of a datagram.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bound: incomplete datagrams that a host keeps; with one more, the oldest is given up.
pub(crate) const DATAGRAMS_MAX: usize = 4096;
