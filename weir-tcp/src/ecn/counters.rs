//! The receiver's report of marks by accurate ECN: packets that came marked in three flags, bytes
//! in an option [rfc9768 §3.2] (`tcp_ecn_received_counters`, `tcp_options_fit_accecn`).
//!
//! Invariant: the option is sent only if the other side sent one, so that a path which drops it
//! does no harm.

use super::INITIAL_PACKETS;
use super::feedback::START;
use crate::config::AccurateOption;
use crate::segment::{AccEcn, Ecn, Flags, Segment};

/// The packets and bytes that arrived so far, by mark.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub level: AccurateOption,
    /// Packets that came marked, r.cep without its start.
    packets: u32,
    /// As many of them are not reported yet.
    pending: u8,
    /// Bytes that came as ECT(0), marked, and as ECT(1).
    bytes: [u32; 3],
    /// The counters that the next option must have, for what changed to be in it.
    needed: u8,
    /// Options that are to be sent even if they are sent on demand only.
    demand: u8,
    /// The other side sent an option.
    pub option_seen: bool,
    /// Options of this side do not arrive.
    option_lost: bool,
    /// The duplicate that came last, by its start; 0 before the first.
    duplicate: u64,
    /// The codepoint that came last.
    before: Ecn,
    /// The next segment reports the codepoint of a SYN instead of the counter.
    reflected: Option<Ecn>,
}

/// An option that fits beside blocks of selective acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fit {
    pub fields: u8,
    /// The blocks that remain.
    pub blocks: u32,
}

impl Counters {
    pub fn new(level: AccurateOption) -> Self {
        Self { level, ..Self::default() }
    }

    /// Reports the codepoint of the SYN that came last in the next segment.
    pub fn reflect(&mut self, codepoint: Ecn) {
        self.reflected = Some(codepoint);
    }

    /// Notes that the SYN's acknowledgement came marked.
    pub fn count_handshake(&mut self) {
        self.packets = 1;
    }

    /// Takes a packet. Returns true if it calls for an acknowledgement at once: the codepoint
    /// changed, or the flags could wrap over [rfc9768 §3.2.2.5.1].
    pub fn take(&mut self, segment: &Segment) -> bool {
        self.option_seen |= segment.acc_ecn.is_some();
        let marked = segment.ecn == Ecn::Ce;
        if marked {
            self.packets = self.packets.wrapping_add(segment.count());
            self.pending = self.pending.saturating_add(segment.count().min(15) as u8).min(15);
        }
        if let Some((counter, needed)) = place(segment.ecn).filter(|_| segment.length > 0) {
            self.bytes[counter] = self.bytes[counter].wrapping_add(segment.length);
            self.needed = self.needed.max(needed);
        }
        let changed = core::mem::replace(&mut self.before, segment.ecn) != segment.ecn;
        if changed || marked {
            self.demand = 2;
        }
        changed || self.pending >= PENDING_MAX
    }

    /// Notes that data came again. If it comes twice, the acknowledgement with the option was lost
    /// twice, and the option is given up [rfc9768 §3.2.3.2.2].
    pub fn take_duplicate(&mut self, start: u64) {
        self.option_lost |= self.duplicate == start;
        self.duplicate = start;
    }

    /// Returns the option that fits into `room` bytes beside the padded blocks, and how many blocks
    /// remain: more than two give way to an option whose counters changed.
    pub fn fit(&self, room: u32, blocks: u32) -> Option<Fit> {
        let wanted = match self.level {
            AccurateOption::Off => false,
            AccurateOption::Demanded => self.demand > 0,
            AccurateOption::Full => true,
        };
        if !wanted || !self.option_seen || self.option_lost {
            return None;
        }
        let fits = |fields: u8, blocks: u32| sack_len(blocks) + option_len(fields, blocks) <= room;
        let mut kept = blocks;
        loop {
            let fields = (self.needed..=3).rev().find(|fields| fits(*fields, kept));
            if let Some(fields) = fields {
                return Some(Fit { fields, blocks: kept });
            }
            if kept <= 2 || self.needed == 0 {
                return None;
            }
            kept -= 1;
        }
    }

    /// Sets the flags and the option of a segment that is sent.
    pub fn dress(&mut self, segment: &mut Segment, fit: Option<Fit>) {
        let ace = match self.reflected.take() {
            Some(codepoint) => handshake_ace(codepoint),
            None => {
                self.pending = 0;
                (self.packets.wrapping_add(INITIAL_PACKETS) & 7) as u8
            }
        };
        segment.flags |= Flags::from_ace(ace);
        if let Some(fit) = fit {
            segment.acc_ecn = Some(self.option(fit.fields));
            self.needed = 0;
            self.demand = self.demand.saturating_sub(1);
        }
    }

    /// Returns the option with this number of counters; ECT(1) is first, as Linux has it.
    pub fn option(&self, fields: u8) -> AccEcn {
        let [ect0, ce, ect1] =
            core::array::from_fn(|at| self.bytes[at].wrapping_add(START[at]) & BYTES_MASK);
        AccEcn { ect0, ce, ect1, fields, ect1_first: true }
    }
}

/// Returns a codepoint's counter, and how many counters an option with it has.
const fn place(codepoint: Ecn) -> Option<(usize, u8)> {
    match codepoint {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some((0, 3)),
        Ecn::Ce => Some((1, 2)),
        Ecn::Ect1 => Some((2, 1)),
    }
}

/// Returns the bytes of the padded option with blocks.
pub(crate) const fn sack_len(blocks: u32) -> u32 {
    if blocks == 0 { 0 } else { 4 + 8 * blocks }
}

/// Returns the bytes of the padded option with counters; up to two of them fill the padding of the
/// one with blocks.
pub(crate) const fn option_len(fields: u8, blocks: u32) -> u32 {
    let length = 2 + 3 * fields as u32;
    if blocks > 0 && length % 4 <= 2 { length / 4 * 4 } else { length.next_multiple_of(4) }
}

/// Returns how the handshake reports the codepoint of a SYN [rfc9768 §3.1.1, Table 2].
pub(crate) const fn handshake_ace(codepoint: Ecn) -> u8 {
    match codepoint {
        Ecn::NotEct => 2,
        Ecn::Ect1 => 3,
        Ecn::Ect0 => 4,
        Ecn::Ce => 6,
    }
}

/// Counters of bytes have 24 bits.
const BYTES_MASK: u32 = 0xff_ffff;
/// As many marks that are not reported end the wait of an acknowledgement [rfc9768 §3.2.2.5.1].
const PENDING_MAX: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_give_way_to_counters_that_changed() {
        let counters =
            |needed| Counters { needed, option_seen: true, ..Counters::new(AccurateOption::Full) };
        // Counters needed, room, blocks; counters and blocks that fit.
        let rows = [
            (0, 40, 0, Some((3, 0))),
            (1, 28, 1, Some((3, 1))),
            (1, 28, 2, Some((2, 2))),
            (2, 28, 3, Some((2, 2))),
            (3, 28, 3, None),
            (3, 40, 4, Some((3, 3))),
            (0, 28, 3, Some((0, 3))),
        ];
        for (needed, room, blocks, expected) in rows {
            let fit = counters(needed).fit(room, blocks);
            assert_eq!(fit.map(|fit| (fit.fields, fit.blocks)), expected, "{needed} {blocks}");
        }
    }
}
