//! Explicit congestion notification: classic [rfc3168] and accurate [rfc9768], as Linux has them.
//!
//! Accurate ECN follows RFC 9768: three flags count marked packets modulo 8, an option counts
//! bytes. Invariant: what is not negotiated is neither sent nor believed.

use crate::config::{Config, EcnMode};
use crate::segment::{AccEcn, Ecn, Flags, Segment};

/// What both sides agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Agreed {
    #[default]
    Nothing,
    Classic,
    Accurate,
}

/// The sender's part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnSender {
    pub agreed: Agreed,
    /// The next new data carries CWR [rfc3168 §6.1.2].
    cwr: bool,
    /// The counter of marked packets that the other side reported last, s.cep.
    packets: u32,
    /// The counter of marked bytes, s.ceb.
    bytes: u32,
}

/// The receiver's part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnReceiver {
    pub agreed: Agreed,
    /// The mark is echoed until the sender says that it reduced its window.
    echo: bool,
    /// Marks are echoed one by one [rfc8257 §3.2].
    pub exact: bool,
    /// Packets that came marked, r.cep.
    packets: u32,
    ect0: u32,
    marked: u32,
    ect1: u32,
    /// The codepoint of the SYN, for the handshake's encoding.
    syn: Ecn,
}

impl EcnSender {
    /// Notes that the window was reduced.
    pub fn queue_cwr(&mut self) {
        self.cwr = self.agreed == Agreed::Classic;
    }

    /// Takes that back.
    pub fn withdraw_cwr(&mut self) {
        self.cwr = false;
    }

    /// Sets codepoint and CWR of a data segment; what is sent again takes no marks
    /// [rfc3168 §6.1.5], unless accurate ECN was agreed on.
    pub fn dress(&mut self, segment: &mut Segment, l4s: bool) {
        let again = segment.again.is_some();
        match self.agreed {
            Agreed::Nothing => return,
            Agreed::Classic if again => return,
            Agreed::Classic => {
                segment.flags |= Flags::NONE.with(Flags::CWR, core::mem::take(&mut self.cwr));
            }
            Agreed::Accurate => {}
        }
        segment.ecn = if l4s { Ecn::Ect1 } else { Ecn::Ect0 };
    }

    /// Starts to count from the handshake.
    pub fn start(&mut self, agreed: Agreed) {
        (self.agreed, self.packets, self.bytes) = (agreed, INITIAL_PACKETS, 0);
    }

    /// Returns the segments newly reported as marked [rfc9768 §A.2]: `delivered` arrived.
    pub fn accurate_marks(&mut self, ace: u8, bytes: Option<u32>, delivered: u32, mss: u32) -> u32 {
        let least = u32::from(ace).wrapping_sub(self.packets) & 7;
        let marked = match bytes {
            Some(bytes) => {
                let more = bytes.wrapping_sub(self.bytes) & BYTES_MASK;
                self.bytes = bytes;
                let estimate = if more >> 23 == 0 { more.div_ceil(mss.max(1)) } else { 0 };
                // The number congruent to the counter that is nearest to the bytes.
                least + (estimate.saturating_sub(least) + 4) / 8 * 8
            }
            // [rfc9768 §3.2.2.5.2] The safe side: as many as the counter may have wrapped over.
            None if delivered > 7 && least > 0 => delivered - ((delivered - least) & 7),
            None => least,
        };
        self.packets = self.packets.wrapping_add(marked);
        marked.min(delivered.max(1))
    }
}

impl EcnReceiver {
    /// Takes the codepoint of a packet that arrived with `length` bytes of data. Returns true if
    /// that calls for an acknowledgement at once.
    pub fn take(&mut self, segment: &Segment) -> bool {
        let length = segment.length;
        match (self.agreed, segment.ecn) {
            (Agreed::Nothing, _) => false,
            (Agreed::Accurate, codepoint) => {
                let counter = match codepoint {
                    Ecn::NotEct => return false,
                    Ecn::Ect0 => &mut self.ect0,
                    Ecn::Ect1 => &mut self.ect1,
                    Ecn::Ce => &mut self.marked,
                };
                *counter = counter.wrapping_add(length) & BYTES_MASK;
                let marked = codepoint == Ecn::Ce;
                self.packets = self.packets.wrapping_add(if marked { segment.count() } else { 0 });
                marked
            }
            (Agreed::Classic, codepoint) => {
                if segment.flags.has(Flags::CWR) && !self.exact {
                    self.echo = false;
                }
                let (marked, before) = (codepoint == Ecn::Ce, self.echo);
                if self.exact && length > 0 {
                    self.echo = marked;
                    return before != marked;
                }
                self.echo |= marked;
                marked && !before
            }
        }
    }

    /// Starts to count from the handshake.
    pub fn start(&mut self, agreed: Agreed, exact: bool) {
        (self.agreed, self.exact) = (agreed, exact);
        self.packets = INITIAL_PACKETS + u32::from(self.syn == Ecn::Ce);
    }

    /// Sets the flags and the option of an acknowledgement.
    pub fn dress(&self, segment: &mut Segment) {
        match self.agreed {
            Agreed::Nothing => {}
            Agreed::Classic => segment.flags |= Flags::NONE.with(Flags::ECE, self.echo),
            Agreed::Accurate => {
                segment.flags |= Flags::from_ace(self.packets as u8);
                // Blocks of selective acknowledgement come first.
                let room = 60_u32.saturating_sub(segment.header_len());
                let fields = (room.saturating_sub(2) / 3).min(3) as u8;
                if fields > 0 && self.ect0 | self.ect1 | self.marked != 0 {
                    segment.acc_ecn = Some(AccEcn {
                        ect0: self.ect0,
                        ce: self.marked,
                        ect1: self.ect1,
                        fields,
                        ect1_first: self.ect1 > self.ect0,
                    });
                }
            }
        }
    }

    /// Returns the flags of a SYN [rfc3168 §6.1.1] [rfc9768 §3.1.1].
    pub fn syn_flags(config: &Config) -> Flags {
        match config.ecn {
            EcnMode::Off | EcnMode::Passive | EcnMode::AccuratePassive => Flags::NONE,
            EcnMode::Active => Flags::ECE | Flags::CWR,
            EcnMode::Accurate => Flags::AE | Flags::ECE | Flags::CWR,
        }
    }

    /// Takes a SYN; returns what is agreed on.
    pub fn answer_syn(&mut self, config: &Config, syn: &Segment) -> Agreed {
        self.syn = syn.ecn;
        let accurate = matches!(config.ecn, EcnMode::Accurate | EcnMode::AccuratePassive);
        match syn.flags.ace() {
            7 if accurate => Agreed::Accurate,
            // A host that only knows classic ECN ignores AE.
            3 | 7 if config.ecn != EcnMode::Off => Agreed::Classic,
            _ => Agreed::Nothing,
        }
    }

    /// Returns the flags of a SYN's acknowledgement [rfc9768 §3.1.2].
    pub fn syn_ack_flags(&self, agreed: Agreed) -> Flags {
        match agreed {
            Agreed::Nothing => Flags::NONE,
            Agreed::Classic => Flags::ECE,
            Agreed::Accurate => Flags::from_ace(handshake_ace(self.syn)),
        }
    }

    /// Takes a SYN's acknowledgement; returns what is agreed on.
    pub fn take_syn_ack(&mut self, config: &Config, syn_ack: &Segment) -> Agreed {
        self.syn = syn_ack.ecn;
        match (config.ecn, syn_ack.flags.ace()) {
            (EcnMode::Accurate, 2 | 3 | 4 | 6) => Agreed::Accurate,
            (EcnMode::Accurate | EcnMode::Active, 1) => Agreed::Classic,
            _ => Agreed::Nothing,
        }
    }
}

/// Returns how the handshake reports the codepoint of a SYN [rfc9768 §3.1.2].
const fn handshake_ace(codepoint: Ecn) -> u8 {
    match codepoint {
        Ecn::NotEct => 2,
        Ecn::Ect1 => 3,
        Ecn::Ect0 => 4,
        Ecn::Ce => 6,
    }
}

/// Counters of packets start at 5 [rfc9768 §3.2.1].
const INITIAL_PACKETS: u32 = 5;
/// Counters of bytes have 24 bits.
const BYTES_MASK: u32 = 0xff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_counted_over_wraps() {
        // Counter before, flags, bytes, delivered, and the marks found.
        let rows = [
            (5, 5, None, 1, 0),
            (5, 6, None, 2, 1),
            (7, 1, None, 4, 2),
            (5, 6, None, 20, 17),
            (5, 6, Some(9000), 20, 9),
            (5, 6, Some(1000), 20, 1),
        ];
        for (packets, ace, bytes, delivered, expected) in rows {
            let mut sender = EcnSender { packets, ..EcnSender::default() };
            assert_eq!(sender.accurate_marks(ace, bytes, delivered, 1000), expected, "{ace}");
        }
    }
}
