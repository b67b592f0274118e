//! Frames of wireless networks (`[ieee802.11]` §9.2, §9.3.2) and the radiotap header before them.
//!
//! Management and control frames carry no packet. Of an aggregate (A-MSDU) the first packet
//! counts: all of them go to one receiver with one priority.

use super::Unread;
use super::link::{Next, SNAP_FOLLOWS, Start, snap};
use super::parse::be16;

/// The bytes around the frame of a wireless network in a capture.
#[derive(Clone, Copy)]
pub(super) struct Outside {
    before: usize,
    /// Whether its header is padded to four bytes.
    padded: bool,
    /// Bytes of check sequence behind it.
    trailer: usize,
}

impl Outside {
    pub const NONE: Outside = Outside { before: 0, padded: false, trailer: 0 };
}

/// Reads a radiotap header, whose fields are little-endian, and the frame behind it.
pub(super) fn radiotap(bytes: &[u8]) -> Option<Start> {
    if *bytes.first()? != 0 {
        return None;
    }
    let flags = radiotap_flags(bytes)?;
    start(
        bytes,
        Outside {
            before: le16(bytes, 2)?.into(),
            padded: flags & RADIOTAP_PADDED != 0,
            trailer: if flags & RADIOTAP_CHECKED != 0 { 4 } else { 0 },
        },
    )
}

/// Returns the flags of a radiotap header, 0 if it has none. Words say which fields are present,
/// the highest bit that a further word follows; the flags are the first field but for a clock.
fn radiotap_flags(bytes: &[u8]) -> Option<u8> {
    let present = *bytes.get(4)?;
    if present & RADIOTAP_HAS_FLAGS == 0 {
        return Some(0);
    }
    let word = |index: usize| bytes.get(4 + 4 * index + 3).copied();
    let mut words = 1;
    while words <= RADIOTAP_WORDS_MAX && word(words - 1)? & 0x80 != 0 {
        words += 1;
    }
    let fields = 4 + 4 * words;
    let clock = present & RADIOTAP_HAS_CLOCK != 0;
    let at = if clock { fields.next_multiple_of(8) + 8 } else { fields };
    bytes.get(at).copied()
}

/// Reads the frame of a wireless network, up to the packet in it.
pub(super) fn start(bytes: &[u8], outside: Outside) -> Option<Start> {
    let frame = bytes.get(outside.before..)?;
    let found = data_frame(frame, outside.padded)?;
    Some(Start { at: found.at + outside.before, trailer: outside.trailer, ..found })
}

fn data_frame(frame: &[u8], padded: bool) -> Option<Start> {
    let [control, flags] = *frame.first_chunk()?;
    if control & VERSION != 0 {
        return None;
    }
    if control & TYPE != TYPE_DATA || control & NO_DATA != 0 {
        return Start::new(0, Next::Control);
    }
    let mut len = HEADER_LEN;
    if flags & BETWEEN_STATIONS == BETWEEN_STATIONS {
        len += ADDRESS_LEN;
    }
    let mut aggregate = false;
    if control & QUALITY_OF_SERVICE != 0 {
        aggregate = frame.get(len)? & AGGREGATE != 0;
        // An HT control field follows if the order bit is set.
        len += if flags & ORDER == 0 { 2 } else { 6 };
    }
    if padded {
        len = len.next_multiple_of(4);
    }
    if flags & PROTECTED != 0 {
        return Start::new(len, Next::Unread(Unread::WirelessEncrypted));
    }
    if frame.get(SEQUENCE)? & FRAGMENT_NUMBER != 0 {
        return Start::new(len, Next::Unread(Unread::WirelessFragment));
    }
    logical_link(frame, if aggregate { len + SUBFRAME_LEN } else { len })
}

/// Reads the header of logical link control, behind which is an ethertype or no IP packet.
fn logical_link(frame: &[u8], at: usize) -> Option<Start> {
    let behind = at + SNAP_FOLLOWS.len();
    match *frame.get(at..behind)? == SNAP_FOLLOWS {
        true => snap(frame, behind),
        false => Start::new(at, Next::Control),
    }
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    be16(bytes, at).map(u16::swap_bytes)
}

/// Bound: words read that say which fields a radiotap header has; a frame with more is not read.
pub const RADIOTAP_WORDS_MAX: usize = 16;

const RADIOTAP_HAS_CLOCK: u8 = 0x01;
const RADIOTAP_HAS_FLAGS: u8 = 0x02;
const RADIOTAP_CHECKED: u8 = 0x10;
const RADIOTAP_PADDED: u8 = 0x20;
/// Of the first byte of a frame.
const VERSION: u8 = 0x03;
const TYPE: u8 = 0x0c;
const TYPE_DATA: u8 = 0x08;
const NO_DATA: u8 = 0x40;
const QUALITY_OF_SERVICE: u8 = 0x80;
/// Of the second: to and from the distribution system.
const BETWEEN_STATIONS: u8 = 0x03;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;
/// Control, duration, three addresses, sequence.
const HEADER_LEN: usize = 24;
const ADDRESS_LEN: usize = 6;
const SEQUENCE: usize = 22;
const FRAGMENT_NUMBER: u8 = 0x0f;
const AGGREGATE: u8 = 0x80;
/// Two addresses and a length before each packet of an aggregate.
const SUBFRAME_LEN: usize = 14;
