//! The blocks of pcapng that are a record's own.

use super::fields::put_counted;
use crate::pcapng::{CUSTOM, put_block};

/// Whose custom blocks these are: the number that RFC 5612 leaves to examples, since Weir has none
/// of its own; [`SIGNATURE`] tells a record's blocks from others of that number.
pub(crate) const ENTERPRISE: u32 = 32_473;
/// The bytes behind the number.
pub(crate) const SIGNATURE: [u8; 4] = *b"weir";
/// The bytes of a custom block before its content: number, signature, kind, lane, length.
pub(crate) const CUSTOM_BYTES: usize = 16;

/// The content of a custom block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The version, and a [`super::Head`].
    Head = 1,
    /// Steps of a lane.
    Steps = 2,
}

/// Appends a custom block.
pub(crate) fn put_custom(out: &mut Vec<u8>, content: Content, lane: u16, bytes: &[u8]) {
    put_block(out, CUSTOM, |out| {
        out.extend_from_slice(&ENTERPRISE.to_le_bytes());
        out.extend_from_slice(&SIGNATURE);
        out.extend_from_slice(&(content as u16).to_le_bytes());
        out.extend_from_slice(&lane.to_le_bytes());
        put_counted(out, bytes);
    });
}
