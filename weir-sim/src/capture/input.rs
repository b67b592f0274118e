//! What the readers of both formats share: where they read from, and a record as they tell it.

use super::interface::Interface;
use super::stream::Stream;

/// What both formats read from and into.
pub(super) struct Input<'s> {
    pub stream: Stream<'s>,
    pub packet: Vec<u8>,
    pub interfaces: Vec<Interface>,
}

/// A packet as its format tells it; its bytes are in [`Input::packet`].
pub(super) struct Record {
    pub timestamp: Option<u64>,
    pub interface: u32,
    pub original_length: u32,
    pub offset: u64,
}
