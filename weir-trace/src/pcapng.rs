//! The format pcapng (`[pcapng]`), as captures and records have it: the numbers of its blocks and
//! options, and blocks as they are written, little-endian and of one section.
//!
//! [`crate::capture`] reads what any program wrote: either byte order, and it passes over blocks
//! that it does not know. [`crate::record`] reads what Weir wrote, and takes no block but those.

/// [pcapng §4.1] Section header; the same in either byte order.
pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
/// [pcapng §4.1] What a section's byte-order magic reads as in the section's order.
pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// [pcapng §4.1] The version that is read and written.
pub(crate) const VERSION_MAJOR: u16 = 1;
/// [pcapng §4.2] Interface description.
pub(crate) const INTERFACE: u32 = 1;
/// [pcapng §A] A packet as earlier programs wrote it.
pub(crate) const OBSOLETE_PACKET: u32 = 2;
/// [pcapng §4.4] A packet without a time.
pub(crate) const SIMPLE_PACKET: u32 = 3;
/// [pcapng §4.3] Enhanced packet.
pub(crate) const ENHANCED_PACKET: u32 = 6;
/// [pcapng §4.7] A custom block that a program which changes the file does not copy: what remained
/// would be no record.
pub(crate) const CUSTOM: u32 = 0x4000_0bad;

/// Type and length of a block, and its length once more.
pub(crate) const BLOCK_FRAME_BYTES: u32 = 12;
/// The fields of an enhanced packet, and of an obsolete one, before the bytes of its frame.
pub(crate) const PACKET_FIELD_BYTES: u32 = 20;

pub(crate) const OPTION_END: u16 = 0;
pub(crate) const OPTION_COMMENT: u16 = 1;
pub(crate) const OPTION_NAME: u16 = 2;
pub(crate) const OPTION_APPLICATION: u16 = 4;
pub(crate) const OPTION_RESOLUTION: u16 = 9;
pub(crate) const OPTION_OFFSET: u16 = 14;
/// [pcapng §3.5.1] A custom option with bytes, not to be copied.
pub(crate) const OPTION_CUSTOM: u16 = 19373;
/// The `if_tsresol` of a nanosecond.
pub(crate) const NANOSECONDS: u8 = 9;
/// The longest name of an interface, in bytes; the rest of a longer one is left out.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// A packet to write.
pub(crate) struct Packet<'p> {
    /// The number of its interface.
    pub interface: u32,
    /// Its time in nanoseconds since 1970.
    pub timestamp: u64,
    /// Its length on the link in bytes.
    pub original_length: u32,
    /// The stored bytes, from the start of the packet.
    pub bytes: &'p [u8],
}

/// Returns whether a block may have this length, if its kind has at least `minimum` bytes.
pub(crate) fn is_length(length: u32, minimum: u32) -> bool {
    length >= minimum && length.is_multiple_of(4)
}

/// Appends the header of a section without a known length.
pub(crate) fn put_section(out: &mut Vec<u8>) {
    put_block(out, SECTION, |out| {
        out.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        out.extend_from_slice(&VERSION_MAJOR.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        // [pcapng §4.1] A section length of -1: unspecified.
        out.extend_from_slice(&(-1_i64).to_le_bytes());
        put_option(out, OPTION_APPLICATION, b"weir");
        put_option(out, OPTION_END, b"");
    });
}

/// Appends the description of an interface whose times are nanoseconds. An empty name is none, and
/// a snap length of 0 no limit.
pub(crate) fn put_interface(out: &mut Vec<u8>, link_type: u16, snap_length: u32, name: &str) {
    put_block(out, INTERFACE, |out| {
        out.extend_from_slice(&link_type.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        out.extend_from_slice(&snap_length.to_le_bytes());
        if !name.is_empty() {
            put_option(out, OPTION_NAME, within(name, NAME_BYTES_MAX).as_bytes());
        }
        put_option(out, OPTION_RESOLUTION, &[NANOSECONDS]);
        put_option(out, OPTION_END, b"");
    });
}

/// Appends a packet with the options that `options` appends.
pub(crate) fn put_packet(
    out: &mut Vec<u8>,
    packet: &Packet<'_>,
    options: impl FnOnce(&mut Vec<u8>),
) {
    put_block(out, ENHANCED_PACKET, |out| {
        out.extend_from_slice(&packet.interface.to_le_bytes());
        // [pcapng §4.3] The high half is first.
        out.extend_from_slice(&((packet.timestamp >> 32) as u32).to_le_bytes());
        out.extend_from_slice(&(packet.timestamp as u32).to_le_bytes());
        out.extend_from_slice(&(packet.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&packet.original_length.to_le_bytes());
        put_padded(out, packet.bytes);
        options(out);
    });
}

/// Appends a block around what `body` appends.
pub(crate) fn put_block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    out.resize(out.len().next_multiple_of(4), 0);
    let length = u32::try_from(out.len() - start + 4).expect("a block is shorter than 4 GiB");
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

/// Appends an option, padded to four bytes.
pub(crate) fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let length = u16::try_from(value.len()).expect("every option is cut to what fits");
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    put_padded(out, value);
}

fn put_padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len() + bytes.len().wrapping_neg() % 4, 0);
}

/// Returns the beginning of `text` that fits `limit` bytes.
pub(crate) fn within(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.expect("0 is a boundary")]
}
