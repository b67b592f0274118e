//! The other side's report of marks by accurate ECN: packets in three flags, bytes in an option
//! [rfc9768 §3.2] (`tcp_accecn_process`).
//!
//! Invariant: a counter is believed only from a segment that acknowledges something new, or whose
//! timestamp is newer; others may have been overtaken.

use super::INITIAL_PACKETS;
use crate::segment::{AccEcn, Ecn};

/// The marked packets that one acknowledgement reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub segments: u32,
    pub bytes: u32,
    pub mss: u32,
    /// Whether segments and bytes are known well: by selective acknowledgements, or without losses.
    pub exact: bool,
}

/// The counters that the other side has reported so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feedback {
    /// Segments that arrived marked (`delivered_ce`).
    packets: u32,
    /// Bytes that arrived as ECT(0), marked, and as ECT(1).
    pub bytes: [u32; 3],
    /// The counter that grew last, if one alone did: it is believed to grow on (`est_ecnfield`).
    estimate: Option<u8>,
    option_seen: bool,
    /// The option was zeroed on the path.
    option_failed: bool,
    /// Segments that an acknowledgement delivers in the mean, in 64ths (`pkts_acked_ewma`).
    mean: u32,
}

impl Feedback {
    /// Notes that the SYN's acknowledgement arrived marked.
    pub fn count_handshake(&mut self) {
        self.packets = 1;
    }

    /// Returns how many segments are newly reported as marked.
    pub fn marks(&mut self, ace: u8, option: Option<AccEcn>, delivered: &Delivered) -> u32 {
        let marked_before = self.bytes[MARKED];
        let believed = self.take_option(option, delivered.bytes);
        self.average(delivered.segments);
        let least = u32::from(ace).wrapping_sub(INITIAL_PACKETS).wrapping_sub(self.packets) & 7;
        let bytes = self.bytes[MARKED].wrapping_sub(marked_before);
        let marked = self.resolve(least, believed.then_some(bytes), delivered);
        self.packets = self.packets.wrapping_add(marked);
        marked
    }

    /// Resolves how often the flags wrapped over: `least` is what they say, `bytes` the growth of
    /// the marked bytes [rfc9768 §A.2].
    fn resolve(&self, least: u32, bytes: Option<u32>, delivered: &Delivered) -> u32 {
        let segments = delivered.segments;
        if segments <= 7 {
            return least;
        }
        // As many as may be: what was delivered, down to the next number that the flags allow.
        let most = segments - (segments.wrapping_sub(least) & 7);
        let Some(bytes) = bytes else {
            // A path that thins out acknowledgements makes many of them look like a wrap.
            return if self.mean > THINNED { least } else { most };
        };
        if bytes == 0 {
            return least;
        }
        if segments >= 16 && delivered.exact {
            if delivered.bytes <= bytes {
                return most;
            }
            let share = (u64::from(bytes) * u64::from(segments)).div_ceil(delivered.bytes.into());
            let estimate = share.min(u64::from(most)) as u32;
            return most.min(least + (estimate & !7));
        }
        let (bytes, mss) = (u64::from(bytes), u64::from(delivered.mss));
        if bytes > u64::from(least) * mss {
            return most;
        }
        if bytes < u64::from(most) * mss / 2 { least } else { most }
    }

    fn average(&mut self, segments: u32) {
        if segments > 0 {
            let sample = segments.min(0x3ff) << 6;
            let mean = if self.mean == 0 { sample } else { (self.mean * 63 + sample) >> 6 };
            self.mean = mean.min(0xffff);
        }
    }

    /// Takes the option (`tcp_accecn_process_option`); returns whether its growth may be believed.
    fn take_option(&mut self, option: Option<AccEcn>, delivered: u32) -> bool {
        if self.option_failed {
            return false;
        }
        let Some(option) = option else {
            // Not every segment has it: what grew last is believed to grow on.
            let Some(counter) = self.estimate.filter(|_| self.option_seen) else { return false };
            let bytes = &mut self.bytes[usize::from(counter)];
            *bytes = bytes.wrapping_add(delivered);
            return true;
        };
        if !core::mem::replace(&mut self.option_seen, true) {
            self.option_failed = is_zeroed(&option);
        }
        self.take_counters(&option)
    }

    fn take_counters(&mut self, option: &AccEcn) -> bool {
        let before = self.estimate;
        let (mut believed, mut ambiguous, mut changed) = (before.is_some(), false, false);
        for (counter, value) in fields(option) {
            let grown = grown(value.wrapping_sub(START[counter]), self.bytes[counter]);
            self.bytes[counter] = self.bytes[counter].wrapping_add_signed(grown);
            let other = grown != 0 && before != Some(counter as u8);
            if grown < 0 || (other && changed) {
                (believed, ambiguous) = (false, true);
            } else if other {
                (self.estimate, changed) = (Some(counter as u8), true);
            }
        }
        if ambiguous {
            self.estimate = None;
        }
        believed
    }
}

/// Returns the counters of an option with their values, in its order.
fn fields(option: &AccEcn) -> impl Iterator<Item = (usize, u32)> {
    let ect0 = (0, option.ect0);
    let ect1 = (2, option.ect1);
    let (first, last) = if option.ect1_first { (ect1, ect0) } else { (ect0, ect1) };
    [first, (MARKED, option.ce), last].into_iter().take(option.fields.into())
}

/// Returns whether a counter that starts at 1 is 0 [rfc9768 §3.2.3.2.4].
fn is_zeroed(option: &AccEcn) -> bool {
    fields(option).any(|(counter, value)| START[counter] == 1 && value == 0)
}

/// Returns by how much a counter of 24 bits grew over `known`.
fn grown(value: u32, known: u32) -> i32 {
    (value.wrapping_sub(known) << 8) as i32 >> 8
}

/// Returns the codepoint that a handshake's three flags report; `None` if they report none
/// [rfc9768 §3.1.1, Table 2].
pub(crate) const fn reported(ace: u8) -> Option<Ecn> {
    match ace {
        2 => Some(Ecn::NotEct),
        3 => Some(Ecn::Ect1),
        4 => Some(Ecn::Ect0),
        6 => Some(Ecn::Ce),
        _ => None,
    }
}

/// Where the counter of marked bytes is.
const MARKED: usize = 1;
/// Where counters of bytes start [rfc9768 §3.2.3]: ECT(0), marked, ECT(1).
pub(crate) const START: [u32; 3] = [1, 0, 1];
/// More segments than these, in 64ths, are what a thinned out acknowledgement delivers.
const THINNED: u32 = 4 << 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the marks that a row of acknowledgements reports: flags, segments.
    fn count(rows: &[(u8, u32)]) -> u32 {
        let mut feedback = Feedback::default();
        let marks = rows.iter().map(|(ace, segments)| {
            let delivered =
                Delivered { segments: *segments, bytes: segments * 1000, mss: 1000, exact: true };
            feedback.marks(*ace, None, &delivered)
        });
        marks.sum()
    }

    #[test]
    fn marks_are_counted_over_wraps() {
        let rows: [(&[(u8, u32)], u32); 6] = [
            (&[(5, 1)], 0),
            (&[(6, 2)], 1),
            (&[(7, 2), (1, 4)], 4),
            // Flags that may have wrapped over count in full, unless acknowledgements are thinned.
            (&[(5, 1), (5, 9)], 8),
            (&[(5, 10)], 0),
            (&[(4, 10)], 7),
        ];
        for (acknowledgements, expected) in rows {
            assert_eq!(count(acknowledgements), expected, "{acknowledgements:?}");
        }
    }

    #[test]
    fn bytes_tell_how_often_the_flags_wrapped() {
        let option = |ce: u32| Some(AccEcn { ect0: 1, ce, ect1: 1, fields: 3, ect1_first: true });
        let delivered =
            |segments| Delivered { segments, bytes: segments * 1000, mss: 1000, exact: true };
        let mut feedback = Feedback::default();
        assert_eq!(feedback.marks(6, option(1000), &delivered(1)), 1);
        assert_eq!(feedback.marks(7, option(10_000), &delivered(20)), 9);
        assert_eq!(feedback.marks(0, option(11_000), &delivered(20)), 1);
    }
}
