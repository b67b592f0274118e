//! Which frames are RSVP's on a bridge: a program for packet sockets.
//!
//! The rings of the bridge's ports refuse these frames, and the sockets of
//! [`super::BridgeNetwork`] take them, so each frame is forwarded or handled, and never both. The
//! kernel runs the program, so that the loop that forwards looks at no frame twice.
//!
//! A message for every hop on its way has the router alert option; any other is for this hop if it
//! is sent to its address. Fragments and frames with a VLAN tag are not RSVP's here: they cross the
//! bridge.

use std::net::Ipv4Addr;

use crate::uapi::classic::{
    AND, JUMP_ABOVE, JUMP_ANY_BIT, JUMP_AT_LEAST, JUMP_EQUAL, LOAD_BYTE, LOAD_HALF, LOAD_LEN,
    LOAD_WORD, RETURN, VLAN_TAG_PRESENT,
};
use weir_rsvp::ip;

/// The program of a ring: all frames but RSVP's.
pub(crate) fn withholding(own: Ipv4Addr) -> Vec<libc::sock_filter> {
    program(own, Verdicts { message: REFUSE, request: TAKE, other: TAKE })
}

/// The program of RSVP's socket: its messages, and who asks for the Ethernet address of `own`.
pub(crate) fn taking(own: Ipv4Addr) -> Vec<libc::sock_filter> {
    program(own, Verdicts { message: TAKE, request: TAKE, other: REFUSE })
}

/// How many bytes of a frame the socket gets.
struct Verdicts {
    message: u32,
    /// An ARP request for the bridge's address.
    request: u32,
    other: u32,
}

/// The targets of jumps, as places in the program.
mod at {
    pub const ARP: usize = 18;
    pub const MESSAGE: usize = 22;
    pub const REQUEST: usize = 23;
    pub const OTHER: usize = 24;
}

fn program(own: Ipv4Addr, verdicts: Verdicts) -> Vec<libc::sock_filter> {
    use at::{ARP, MESSAGE, OTHER, REQUEST};
    let own = u32::from(own);
    let mut code = Code(Vec::new());
    // A load beyond the end of a frame would refuse it.
    code.plain(LOAD_LEN, 0).jump(JUMP_AT_LEAST, FRAME_MIN, (2, OTHER));
    code.plain(LOAD_WORD, VLAN_TAG_PRESENT).jump(JUMP_EQUAL, 0, (4, OTHER));
    code.plain(LOAD_HALF, 12).jump(JUMP_EQUAL, ARP_TYPE, (ARP, 6)).jump(
        JUMP_EQUAL,
        IPV4_TYPE,
        (7, OTHER),
    );
    code.plain(LOAD_BYTE, IP + 9).jump(JUMP_EQUAL, ip::PROTOCOL.into(), (9, OTHER));
    code.plain(LOAD_HALF, IP + 6).jump(JUMP_ANY_BIT, FRAGMENT, (OTHER, 11));
    code.plain(LOAD_WORD, IP + 16).jump(JUMP_EQUAL, own, (MESSAGE, 13));
    // Behind a header of five words come options; senders write this one first.
    code.plain(LOAD_BYTE, IP).plain(AND, 0xf).jump(JUMP_ABOVE, 5, (16, OTHER));
    code.plain(LOAD_BYTE, IP + 20);
    code.jump(JUMP_EQUAL, ip::ALERT_V4[0].into(), (MESSAGE, OTHER));
    assert_eq!(code.0.len(), ARP, "jumps lead to where they should");
    code.plain(LOAD_HALF, 20).jump(JUMP_EQUAL, ARP_REQUEST, (ARP + 2, OTHER));
    code.plain(LOAD_WORD, 38).jump(JUMP_EQUAL, own, (REQUEST, OTHER));
    assert_eq!(code.0.len(), MESSAGE, "jumps lead to where they should");
    code.plain(RETURN, verdicts.message);
    code.plain(RETURN, verdicts.request);
    code.plain(RETURN, verdicts.other);
    code.0
}

/// A program in the making.
struct Code(Vec<libc::sock_filter>);

impl Code {
    fn plain(&mut self, code: u16, k: u32) -> &mut Self {
        self.0.push(libc::sock_filter { code, jt: 0, jf: 0, k });
        self
    }

    /// Goes on at the first place if the test holds, else at the second.
    fn jump(&mut self, code: u16, k: u32, (yes, no): (usize, usize)) -> &mut Self {
        let next = self.0.len() + 1;
        let skip = |to: usize| u8::try_from(to - next).expect("jumps are short and go forward");
        let (jt, jf) = (skip(yes), skip(no));
        self.0.push(libc::sock_filter { code, jt, jf, k });
        self
    }
}

const TAKE: u32 = u32::MAX;
const REFUSE: u32 = 0;
/// The shortest message of RSVP, and an ARP request, have that many bytes.
const FRAME_MIN: u32 = 42;
const IP: u32 = 14;
const IPV4_TYPE: u32 = libc::ETH_P_IP as u32;
const ARP_TYPE: u32 = libc::ETH_P_ARP as u32;
const ARP_REQUEST: u32 = libc::ARPOP_REQUEST as u32;
/// More fragments follow, or the offset is not zero.
const FRAGMENT: u32 = 0x3fff;

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

    /// Runs a program as the kernel does; a packet socket's begins at the Ethernet header.
    fn run(code: &[libc::sock_filter], frame: &[u8], tagged: bool) -> bool {
        let (mut a, mut at) = (0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = code[at];
            let skip = |holds: bool| usize::from(if holds { jt } else { jf });
            let width = match code {
                LOAD_WORD => 4,
                LOAD_HALF => 2,
                _ => 1,
            };
            at += 1;
            match code {
                LOAD_WORD if k == VLAN_TAG_PRESENT => a = tagged.into(),
                LOAD_WORD | LOAD_HALF | LOAD_BYTE => {
                    let Some(bytes) = frame.get(k as usize..k as usize + width) else {
                        return false;
                    };
                    a = bytes.iter().fold(0, |sum: u32, byte| sum << 8 | u32::from(*byte));
                }
                LOAD_LEN => a = frame.len() as u32,
                AND => a &= k,
                JUMP_EQUAL => at += skip(a == k),
                JUMP_ABOVE => at += skip(a > k),
                JUMP_AT_LEAST => at += skip(a >= k),
                JUMP_ANY_BIT => at += skip(a & k != 0),
                RETURN => return k != 0,
                other => panic!("no such instruction: {other}"),
            }
        }
    }

    /// A frame of IPv4 with these options, to `destination`.
    fn frame(protocol: u8, options: &[u8], destination: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45 + options.len() as u8 / 4, 0, 0, 60, 0, 0, 0, 0, 64, protocol]);
        frame.extend([0, 0, 10, 0, 0, 1]);
        frame.extend(destination);
        frame.extend(options);
        frame.resize(60, 0);
        frame
    }

    fn request(target: [u8; 4], operation: u8) -> Vec<u8> {
        let mut frame = vec![0xff; 12];
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
        frame.extend([2; 16]);
        frame.extend(target);
        frame
    }

    #[test]
    fn each_frame_is_forwarded_or_handled_and_requests_are_both() {
        let other = [10, 0, 0, 2];
        let alert = &ip::ALERT_V4[..];
        let mut fragment = frame(46, alert, other);
        fragment[20] = 0x20;
        let mut dont = frame(46, alert, other);
        dont[20] = 0x40;
        // Frame, whether it had a tag, forwarded, handled.
        let rows: &[(&str, &[u8], bool, bool, bool)] = &[
            ("a Path", &frame(46, alert, other), false, false, true),
            ("not to be cut", &dont, false, false, true),
            ("a Resv for this hop", &frame(46, &[], OWN.octets()), false, false, true),
            ("a Resv for another", &frame(46, &[], other), false, true, false),
            ("another option", &frame(46, &[7, 4, 0, 0], other), false, true, false),
            ("a tag", &frame(46, alert, other), true, true, false),
            ("a fragment", &fragment, false, true, false),
            ("UDP", &frame(17, alert, OWN.octets()), false, true, false),
            ("a request", &request(OWN.octets(), 1), false, true, true),
            ("a request for another", &request(other, 1), false, true, false),
            ("an answer", &request(OWN.octets(), 2), false, true, false),
            ("IPv6", &[&[2; 12][..], &[0x86, 0xdd], &[0; 46]].concat(), false, true, false),
            ("a short one", &[2; 12], false, true, false),
            ("cut off", &frame(46, alert, other)[..36], false, true, false),
        ];
        for (what, frame, tagged, forwarded, handled) in rows {
            assert_eq!(run(&withholding(OWN), frame, *tagged), *forwarded, "{what} is forwarded");
            assert_eq!(run(&taking(OWN), frame, *tagged), *handled, "{what} is handled");
        }
    }
}
