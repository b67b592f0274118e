//! Which tin a packet's DSCP leads to, and the parts of the rate that tins have `[linux]`
//! [algorithms §9.20].

/// The tins of one word of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum TinMap {
    /// One tin for all.
    BestEffort,
    /// Eight, by the upper three bits of the DSCP.
    Precedence,
    /// Bulk, best effort, voice.
    Three,
    /// Bulk, best effort, video, voice.
    Four,
    /// Eight, by what senders mean.
    Eight,
}

/// A tin's part of the rate, by which it has priority, and its weight where the rate is unknown.
#[derive(Clone, Copy)]
pub(super) struct TinShare {
    /// In bytes a second.
    pub rate: u64,
    /// Bytes that it sends in a round of the tins.
    pub quantum: i64,
}

impl TinMap {
    /// The words of a policy, the default first.
    pub(in super::super) const WORDS: &[&str] =
        &["diffserv3", "besteffort", "precedence", "diffserv4", "diffserv8"];

    /// Returns the tins that this word names.
    pub(in super::super) fn of_word(word: &str) -> TinMap {
        match word {
            "besteffort" => TinMap::BestEffort,
            "precedence" => TinMap::Precedence,
            "diffserv4" => TinMap::Four,
            "diffserv8" => TinMap::Eight,
            _ => TinMap::Three,
        }
    }

    /// Returns the number of tins.
    pub(in super::super) const fn tins(self) -> usize {
        match self {
            TinMap::BestEffort => 1,
            TinMap::Three => 3,
            TinMap::Four => 4,
            TinMap::Precedence | TinMap::Eight => TINS_MAX,
        }
    }

    /// Returns the tin of a packet with this traffic class.
    #[inline]
    pub(super) fn tin(self, traffic_class: u8) -> u8 {
        let code = traffic_class >> 2;
        match self {
            TinMap::BestEffort => 0,
            TinMap::Precedence => code >> 3,
            TinMap::Three => THREE[code as usize],
            TinMap::Four => FOUR[code as usize],
            TinMap::Eight => EIGHT[code as usize],
        }
    }

    /// Returns the share of a tin of `rate`, in bytes a second.
    pub(super) fn share(self, rate: u64, tin: usize) -> TinShare {
        let part = |shift: u32| TinShare { rate: rate >> shift, quantum: 1024 >> shift };
        match (self, tin) {
            (TinMap::BestEffort, _) => TinShare { rate, quantum: 65_535 },
            (TinMap::Precedence | TinMap::Eight, _) => {
                (0..tin).fold(TinShare { rate, quantum: 256 }, |TinShare { rate, quantum }, _| {
                    TinShare { rate: seven_eighths(rate), quantum: (quantum * 7) >> 3 }
                })
            }
            (_, 0) => part(0),
            (_, 1) => part(4),
            (TinMap::Four, 2) => part(1),
            _ => part(2),
        }
    }
}

fn seven_eighths(rate: u64) -> u64 {
    ((u128::from(rate) * 7) >> 3) as u64
}

/// Makes a table from the codes that do not belong to `rest`.
const fn table(rest: u8, rows: &[(u8, &[u8])]) -> [u8; CODES] {
    let mut table = [rest; CODES];
    let mut row = 0;
    while row < rows.len() {
        let (tin, codes) = rows[row];
        let mut at = 0;
        while at < codes.len() {
            table[codes[at] as usize] = tin;
            at += 1;
        }
        row += 1;
    }
    table
}

/// The number of values of a DSCP.
const CODES: usize = 64;
/// Bound: tins of a leaf; a policy names one of five tables, and none has more.
pub(super) const TINS_MAX: usize = 8;

/// Bulk: LE and CS1. Voice: the old bit for low delay, VA, EF, CS6, CS7.
const THREE: [u8; CODES] = table(0, &[(1, &[1, 8]), (2, &[4, 44, 46, 48, 56])]);
/// Video: low delay, CS2, AF2x, CS3, AF3x, AF4x. Voice: CS4 to CS7, VA, EF.
const FOUR: [u8; CODES] = table(
    0,
    &[
        (1, &[1, 8]),
        (2, &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]),
        (3, &[32, 40, 44, 46, 48, 56]),
    ],
);
/// LE; the old bit for throughput, CS1, AF1x; the rest; CS3, AF3x, AF4x; low delay, AF2x; CS2;
/// CS4, CS5, VA, EF; CS6, CS7.
const EIGHT: [u8; CODES] = table(
    2,
    &[
        (0, &[1]),
        (1, &[2, 8, 10, 12, 14]),
        (3, &[24, 26, 28, 30, 34, 36, 38]),
        (4, &[4, 18, 20, 22]),
        (5, &[16]),
        (6, &[32, 40, 44, 46]),
        (7, &[48, 56]),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_tin_and_every_word_its_tins() {
        for word in TinMap::WORDS {
            let map = TinMap::of_word(word);
            let mut used = [0; TINS_MAX];
            for class in 0..=u8::MAX {
                used[map.tin(class) as usize] += 1;
            }
            let tins = map.tins();
            assert!(used[..tins].iter().all(|&codes| codes > 0), "{word}: {used:?}");
            assert!(used[tins..].iter().all(|&codes| codes == 0), "{word}: {used:?}");
        }
    }

    #[test]
    fn expedited_forwarding_goes_to_the_tin_for_voice() {
        let tin = |word: &str, code: u8| TinMap::of_word(word).tin(code << 2 | 0b11);
        let words = ["besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8"];
        assert_eq!(words.map(|word| tin(word, 46)), [0, 5, 2, 3, 6]);
        assert_eq!(words.map(|word| tin(word, 8)), [0, 1, 1, 1, 1]);
        assert_eq!(words.map(|word| tin(word, 0)), [0, 0, 0, 0, 2]);
    }

    #[test]
    fn parts_of_the_rate_are_those_of_linux() {
        let rates = |map: TinMap| {
            let share = |tin| map.share(1 << 20, tin);
            (0..map.tins()).map(|tin| (share(tin).rate, share(tin).quantum)).collect()
        };
        let rows: [(_, alloc::vec::Vec<(u64, i64)>); 3] = [
            (rates(TinMap::Three), alloc::vec![(1 << 20, 1024), (1 << 16, 64), (1 << 18, 256)]),
            (rates(TinMap::BestEffort), alloc::vec![(1 << 20, 65_535)]),
            (
                rates(TinMap::Four),
                alloc::vec![(1 << 20, 1024), (1 << 16, 64), (1 << 19, 512), (1 << 18, 256)],
            ),
        ];
        for (real, expected) in rows {
            assert_eq!(real, expected);
        }
        let eight: alloc::vec::Vec<(u64, i64)> = rates(TinMap::Eight);
        assert_eq!((eight[1], eight[2]), ((917_504, 224), (802_816, 196)));
    }
}
