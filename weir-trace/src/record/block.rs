//! Blocks of pcapng, as far as records have them: little-endian, of one section.

/// [pcapng §4.1] Section header.
pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
/// [pcapng §4.1] In the order of a section's bytes.
pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// [pcapng §4.2] Interface description.
pub(crate) const INTERFACE: u32 = 1;
/// [pcapng §4.3] Enhanced packet.
pub(crate) const ENHANCED_PACKET: u32 = 6;
/// [pcapng §4.7] A custom block that a program which changes the file does not copy: what remained
/// would be no record.
pub(crate) const CUSTOM: u32 = 0x4000_0bad;
/// [pcapng §3.5.1] A custom option with bytes, not to be copied.
pub(crate) const CUSTOM_OPTION: u16 = 19373;
/// Whose custom blocks these are: the number that RFC 5612 leaves to examples, since Weir has none
/// of its own; [`SIGNATURE`] tells a record's blocks from others of that number.
pub(crate) const ENTERPRISE: u32 = 32_473;
/// What follows the number.
pub(crate) const SIGNATURE: [u8; 4] = *b"weir";
/// The bytes of a custom block before its content: number, signature, kind, lane, length.
pub(crate) const CUSTOM_BYTES: usize = 16;
/// Type and length of a block, and its length once more.
pub(crate) const FRAME_BYTES: u32 = 12;

/// What a custom block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The version, and a [`super::Head`].
    Head = 1,
    /// Steps of a lane.
    Steps = 2,
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

/// Appends a custom block.
pub(crate) fn put_custom(out: &mut Vec<u8>, content: Content, lane: u16, bytes: &[u8]) {
    put_block(out, CUSTOM, |out| {
        out.extend_from_slice(&ENTERPRISE.to_le_bytes());
        out.extend_from_slice(&SIGNATURE);
        out.extend_from_slice(&(content as u16).to_le_bytes());
        out.extend_from_slice(&lane.to_le_bytes());
        super::fields::put_counted(out, bytes);
    });
}

/// Appends an option.
pub(crate) fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len() + value.len().next_multiple_of(4) - value.len(), 0);
}
