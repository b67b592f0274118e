//! Recognises checksums that a sender left unfinished where nothing but the frame says so.
//!
//! AF_XDP delivers no `virtio_net_hdr`. But the field of an unfinished TCP or UDP checksum holds
//! the sum of the pseudo-header, which is computed here and compared. One finished checksum in
//! 65 536 has the same value by chance; completing it again gives the value that it had, since the
//! sum over the rest is then zero. An unfinished CRC of SCTP is zero.
//!
//! Invariant: a frame with right checksums has the same bytes afterwards.

use super::layers::{PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP, outermost};
use super::{Partial, SCTP_FIELD, TCP_FIELD, UDP_FIELD, word};
use weir_core::packet::Checksum;

/// Completes the checksum of the outermost packet, if it is unfinished; returns whether it was.
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    let Some((partial, end)) = find(frame) else { return false };
    partial.complete(&mut frame[..end]);
    true
}

/// Returns the unfinished checksum, and the end of the packet that it covers.
fn find(frame: &[u8]) -> Option<(Partial, usize)> {
    let network = outermost(frame)?;
    let addresses = if network.is_ip6 { 8..40 } else { 12..20 };
    let addresses = network.at + addresses.start..network.at + addresses.end;
    let (protocol, start, end) = (network.protocol, network.next, network.end);
    let field = start
        + usize::from(match protocol {
            PROTOCOL_TCP => TCP_FIELD,
            PROTOCOL_UDP => UDP_FIELD,
            PROTOCOL_SCTP => SCTP_FIELD,
            _ => return None,
        });
    if protocol == PROTOCOL_SCTP {
        let is_zero = field + 4 <= end && frame[field..field + 4] == [0; 4];
        return is_zero.then_some((Partial { start, field, is_crc: true }, end));
    }
    if field + 2 > end {
        return None;
    }
    let mut sum = Checksum::default();
    sum.add(&frame[addresses]);
    sum.add_word(u16::from(protocol));
    sum.add_word(u16::try_from(end - start).ok()?);
    // A UDP packet with zero there has no checksum; the sum of the pseudo-header is never zero.
    let is_unfinished = word(frame, field) == sum.fold();
    is_unfinished.then_some((Partial { start, field, is_crc: false }, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::{CRC32C, put};

    /// A frame with this many tags, of this protocol over IPv4 or IPv6, with `len` bytes behind the
    /// IP header and the field at `field` zero.
    fn frame(tags: usize, is_ip6: bool, protocol: u8, len: usize) -> (Vec<u8>, usize) {
        let mut frame = vec![0xa5; 12];
        frame.extend([0x81, 0x00, 0x00, 0x05].repeat(tags));
        let (high, low) = ((len >> 8) as u8, len as u8);
        if is_ip6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, high, low, protocol, 64]);
            frame.extend((0..32).map(|n| n * 7 + 1));
        } else {
            let total = (len + 20).to_be_bytes();
            frame.extend([0x08, 0x00, 0x45, 0, total[6], total[7], 0, 0, 0x40, 0, 64, protocol]);
            frame.extend([0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
        }
        let start = frame.len();
        frame.extend((0..len).map(|n| (n * 31 + 5) as u8));
        (frame, start)
    }

    /// Sums the pseudo-header and, if wanted, what is behind it.
    fn sum(frame: &[u8], start: usize, is_ip6: bool, protocol: u8, with_rest: bool) -> u16 {
        let mut sum = Checksum::default();
        sum.add(&frame[start - if is_ip6 { 32 } else { 8 }..start]);
        sum.add_word(u16::from(protocol));
        sum.add_word((frame.len() - start) as u16);
        sum.add(if with_rest { &frame[start..] } else { &[] });
        sum.fold()
    }

    #[test]
    fn unfinished_checksums_are_completed_and_finished_ones_kept() {
        for tags in 0..3 {
            for is_ip6 in [false, true] {
                for (protocol, field, len) in [(6, 16, 20), (6, 16, 1001), (17, 6, 8), (17, 6, 99)]
                {
                    let (mut frame, start) = frame(tags, is_ip6, protocol, len);
                    let what =
                        format!("{tags} tags, IPv6 {is_ip6}, protocol {protocol}, {len} bytes");
                    let pseudo = sum(&frame, start, is_ip6, protocol, false);
                    put(&mut frame, start + field, pseudo);
                    // Padding behind the packet is not covered.
                    let mut padded = [&frame[..], &[0xff; 3]].concat();
                    assert!(complete(&mut frame), "{what}");
                    assert_eq!(sum(&frame, start, is_ip6, protocol, true), 0xffff, "{what}");
                    assert!(complete(&mut padded), "{what}");
                    assert_eq!(padded, [&frame[..], &[0xff; 3]].concat(), "{what}");
                    let finished = frame.clone();
                    complete(&mut frame);
                    assert_eq!(frame, finished, "{what}");
                }
            }
        }
    }

    #[test]
    fn a_finished_checksum_that_looks_unfinished_keeps_its_value() {
        let (mut frame, start) = frame(0, false, 17, 10);
        let pseudo = sum(&frame, start, false, 17, false);
        put(&mut frame, start + 6, pseudo);
        // The last word makes the whole sum right with that very field.
        put(&mut frame, start + 8, 0);
        let rest = sum(&frame, start, false, 17, true);
        put(&mut frame, start + 8, !rest);
        let before = frame.clone();
        assert!(complete(&mut frame));
        assert_eq!(frame, before);
    }

    #[test]
    fn an_unfinished_crc_of_sctp_is_zero() {
        let (mut frame, start) = frame(1, true, PROTOCOL_SCTP, 33);
        let given = frame.clone();
        assert!(!complete(&mut frame));
        assert_eq!(frame, given);
        frame[start + 8..start + 12].fill(0);
        let expected = CRC32C.checksum(&frame[start..]).to_le_bytes();
        assert!(complete(&mut frame));
        assert_eq!(frame[start + 8..start + 12], expected);
    }

    #[test]
    fn other_frames_keep_their_bytes() {
        let udp = frame(0, false, 17, 12);
        let mut none = udp.0.clone();
        put(&mut none, udp.1 + 6, 0);
        let mut fragment = udp.0.clone();
        fragment[20] = 0x20;
        let rows =
            [vec![], vec![0; 14], udp.0[..30].to_vec(), none, fragment, frame(0, true, 58, 40).0];
        for bytes in rows {
            let mut after = bytes.clone();
            assert!(!complete(&mut after), "{bytes:02x?}");
            assert_eq!(after, bytes);
        }
    }
}
