//! Writes a traffic class back into a packet, the only change that droppers and policers make.
//!
//! Invariant: whatever the bytes, only those of the traffic class and, in IPv4, of the header's
//! checksum change; a checksum that was right stays right.

use super::{Addresses, Checksum, Headers, LinkType};

/// Gives the IP packet in `bytes`, which begin as `link` says, the traffic class `new` (DSCP and
/// ECN); returns whether the bytes hold such a packet. A tag's priority is not changed.
pub fn write_traffic_class(link: LinkType, bytes: &mut [u8], new: u8) -> bool {
    let headers = Headers::parse(link, bytes);
    let Some(packet) = bytes.get_mut(usize::from(headers.link_len)..) else { return false };
    match (headers.addresses, packet) {
        (Addresses::V4 { .. }, [version, tos, rest @ ..]) => {
            let old = core::mem::replace(tos, new);
            if let Some(checksum) = rest.get_mut(IPV4_CHECKSUM..IPV4_CHECKSUM + 2) {
                let words = [old, new].map(|tos| u16::from_be_bytes([*version, tos]));
                let sum = u16::from_be_bytes([checksum[0], checksum[1]]);
                checksum.copy_from_slice(&updated(sum, words).to_be_bytes());
            }
            true
        }
        (Addresses::V6 { .. }, [first, second, ..]) => {
            *first = *first & 0xf0 | new >> 4;
            *second = *second & 0x0f | new << 4;
            true
        }
        _ => false,
    }
}

/// Returns the checksum after a word of the header changed from the first to the second [rfc1624
/// §3].
fn updated(checksum: u16, words: [u16; 2]) -> u16 {
    let mut sum = Checksum::default();
    [!checksum, !words[0], words[1]].into_iter().for_each(|word| sum.add_word(word));
    sum.finish()
}

/// The offset of the checksum from the byte behind the traffic class.
const IPV4_CHECKSUM: usize = 8;
