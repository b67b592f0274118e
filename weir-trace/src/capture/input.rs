//! The parts that the readers of both formats share: the source of bytes and the packet record.

use super::interface::Interface;
use super::stream::Stream;

/// The source and the buffer of both readers.
pub(super) struct Input<'s> {
    pub stream: Stream<'s>,
    pub packet: Vec<u8>,
    pub interfaces: Vec<Interface>,
}

/// A packet record as read from either format; its bytes are in [`Input::packet`].
pub(super) struct Record {
    pub timestamp: Option<u64>,
    pub interface: u32,
    pub original_length: u32,
    pub offset: u64,
}
