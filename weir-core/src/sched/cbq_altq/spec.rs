//! Converts the parameters that a user writes to the numbers that the kernel stores for a class
//! [algorithms §3.3].
//!
//! `altqd` and pf calculate in double precision and truncate, and so does this file. It runs only
//! when a link is built. Numbers that would wrap in the kernel's 32 bits saturate here. Invariant:
//! `ns` is at least 1, so classes and links above 8 Gbit/s count as 8 Gbit/s.

/// The parameters that a user writes for a class, with defaults filled in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Wishes {
    /// bit/s of the interface.
    pub link: u64,
    /// bit/s of the class, not more than the interface's.
    pub rate: u64,
    /// The average packet in bytes.
    pub packet: u64,
    /// The largest packet in bytes.
    pub packet_max: u64,
    /// Packets sent at once after a pause; `None` for the default.
    pub maxburst: Option<u64>,
    /// Packets sent at once in steady state.
    pub minburst: u64,
}

/// The numbers that user space passes to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spec {
    /// ns per byte of the class.
    pub ns: i64,
    pub maxidle: i64,
    pub offtime: i64,
    pub minidle: i64,
    /// The bound of ALTQ 1.x, which did not scale it.
    pub minidle_unscaled: i64,
}

/// The numbers that the kernel stores for a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Limits {
    /// ns per byte of the class.
    pub ns: i64,
    /// In bytes per second.
    pub allotment: i64,
    /// The most that `avgidle` grows to, in 1/32 µs.
    pub maxidle: i64,
    /// The least that it falls to, in 1/32 µs, not above 0.
    pub minidle: i64,
    /// How long a class is suspended for its steady burst, in µs.
    pub offtime: i64,
}

/// The quantities of the specification before they are truncated, in ns.
struct Exact {
    ns: f64,
    maxidle: f64,
    offtime: f64,
    minidle: f64,
}

impl Wishes {
    /// Returns the numbers that are passed to the kernel.
    pub fn spec(self) -> Spec {
        let Exact { ns, maxidle, offtime, minidle } = self.exact();
        // Independent of the rate, in 1/32 µs: a cast truncates, and holds what is too large.
        let scaled = |time: f64| held((time * 8.0 / ns * FILTER / 1000.0) as i64);
        Spec {
            ns: (ns as i64).max(1),
            maxidle: scaled(maxidle),
            offtime: scaled(offtime),
            minidle: scaled(minidle),
            minidle_unscaled: held((minidle / 1000.0) as i64),
        }
    }

    fn exact(self) -> Exact {
        let link_ns = 8e9 / self.link as f64;
        let part = self.rate as f64 / self.link as f64;
        let packet = self.packet as f64 * link_ns;
        let class_packet = packet * (1.0 - part) / part;
        let packet_max = self.packet_max as f64;
        let slow = link_ns / part * packet_max > NANOS_MAX;
        // A class is never slower than a largest packet in 2.1 s.
        let ns = if slow { (NANOS_MAX / packet_max) as i64 as f64 } else { link_ns / part };
        let gain = 1.0 - 1.0 / FILTER;
        let slow_default = class_packet > SLOW_PACKET;
        let default = if slow_default { MAXBURST_SLOW } else { MAXBURST };
        let maxburst = self.maxburst.unwrap_or(default);
        // [algorithms §3.2] Silently no more than `maxburst`.
        let minburst = self.minburst.clamp(1, maxburst.max(1));
        let long = power(gain, maxburst);
        let short = power(gain, minburst - 1);
        let idle = (1.0 / part - 1.0) * (1.0 - long) / long;
        Exact {
            ns,
            maxidle: packet * idle.max(1.0 - gain),
            offtime: class_packet * (1.0 + 1.0 / (1.0 - gain) * (1.0 - short) / short),
            minidle: -packet_max * ns,
        }
    }
}

/// The numbers that a user writes in place of those that follow from bursts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub maxidle: Option<u64>,
    pub offtime: Option<u64>,
    /// Without its sign.
    pub minidle: Option<u64>,
}

impl Spec {
    /// Returns the specification with the numbers that are written, which the kernel receives as
    /// they are.
    pub fn with(self, written: Written) -> Self {
        let number = |number: u64| held(i64::try_from(number).unwrap_or(i64::MAX));
        let minidle = written.minidle.map(|below| -number(below));
        Self {
            maxidle: written.maxidle.map_or(self.maxidle, number),
            offtime: written.offtime.map_or(self.offtime, number),
            minidle: minidle.unwrap_or(self.minidle),
            minidle_unscaled: minidle.unwrap_or(self.minidle_unscaled),
            ..self
        }
    }

    /// Returns the numbers that the kernel derives; `scaled` from ALTQ 2.0 on.
    pub fn limits(self, scaled: bool) -> Limits {
        let in_time = |spec: i64| held(spec * self.ns / 8);
        let minidle = if scaled { in_time(self.minidle) } else { self.minidle_unscaled };
        Limits {
            ns: self.ns,
            allotment: 1_000_000_000 / self.ns,
            maxidle: in_time(self.maxidle).max(1),
            minidle: minidle.min(0),
            offtime: (in_time(self.offtime) >> FILTER_BITS).max(1),
        }
    }
}

/// Returns `base` to the power `exponent`; `powi` needs the standard library.
fn power(base: f64, exponent: u64) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

/// Saturates a number to the 32 bits of the kernel's.
fn held(number: i64) -> i64 {
    number.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
}

/// The filter's weight is 1/32.
pub(super) const FILTER_BITS: u32 = 5;
const FILTER: f64 = 32.0;
/// The most that the largest packet of a class may take, in ns.
const NANOS_MAX: f64 = 2_147_483_647.0;
/// `maxburst` when none is written, and for classes whose packets take more than 10 ms.
const MAXBURST: u64 = 16;
const MAXBURST_SLOW: u64 = 4;
const SLOW_PACKET: f64 = 10e6;

#[cfg(test)]
mod tests {
    use super::*;

    /// Link and class in bit/s, MTU, then what must come out: ns; maxidle, offtime and minidle in
    /// 1/100 µs; the three of the specification; the three of the kernel.
    type Row = (u64, u64, u64, i64, [i64; 3], [i64; 3], [i64; 3]);

    /// Numbers that are written stand in place of those that follow from the bursts, and only they.
    #[test]
    fn written_numbers_replace_their_own() {
        let spec = Spec { ns: 800, maxidle: 10, offtime: 20, minidle: -30, minidle_unscaled: -40 };
        let check = |written: Written, expected: [i64; 4]| {
            let Spec { maxidle, offtime, minidle, minidle_unscaled, .. } = spec.with(written);
            assert_eq!([maxidle, offtime, minidle, minidle_unscaled], expected, "{written:?}");
        };
        let none = Written::default();
        check(none, [10, 20, -30, -40]);
        check(Written { maxidle: Some(1), ..none }, [1, 20, -30, -40]);
        check(Written { offtime: Some(0), ..none }, [10, 0, -30, -40]);
        check(Written { minidle: Some(5), ..none }, [10, 20, -5, -5]);
        check(Written { minidle: Some(u64::MAX), ..none }, [10, 20, -LARGEST, -LARGEST]);
        // The kernel's own bounds hold for them, too.
        let limits = spec.with(Written { maxidle: Some(0), offtime: Some(0), ..none }).limits(true);
        assert_eq!((limits.maxidle, limits.offtime), (1, 1));
    }

    const LARGEST: i64 = i32::MAX as i64;

    #[test]
    fn the_worked_values_come_out_exactly() {
        const K: u64 = 1_000;
        #[rustfmt::skip]
        let rows: [Row; 6] = [
            (2_000 * K, 500 * K, 1500, 16_000,
             [243_740, 3_658_065, -2_400_000], [38, 585, -384], [76_000, 36_562, -768_000]),
            (2_000 * K, 1_500 * K, 1500, 5_333,
             [132_386, 406_452, -800_000], [63, 195, -384], [41_997, 4_062, -255_984]),
            (2_000 * K, 2_000 * K, 1500, 4_000,
             [18_750, 0, -600_000], [12, 0, -384], [6_000, 1, -192_000]),
            (2_000 * K, 500 * K, 9180, 16_000,
             [1_491_689, 22_387_355, -14_688_000], [238, 3_581, -2_350],
             [476_000, 223_812, -4_700_000]),
            (1_000 * K, 400 * K, 9180, 20_000,
             [1_491_689, 22_387_355, -18_360_000], [190, 2_865, -2_350],
             [475_000, 223_828, -5_875_000]),
            (10_000 * K, 2_000 * K, 1500, 4_000,
             [317_726, 975_484, -600_000], [203, 624, -384], [101_500, 9_750, -192_000]),
        ];
        for (link, rate, mtu, ns, exact, spec, kernel) in rows {
            let wishes =
                Wishes { link, rate, packet: mtu, packet_max: mtu, maxburst: None, minburst: 2 };
            let real = wishes.exact();
            let hundredths = [real.maxidle, real.offtime, real.minidle]
                .map(|nanos| (nanos / 10.0 + 0.5f64.copysign(nanos)) as i64);
            assert_eq!(hundredths, exact, "{link} {rate} {mtu}");
            let made = wishes.spec();
            assert_eq!(made.ns, ns);
            assert_eq!([made.maxidle, made.offtime, made.minidle], spec, "{link} {rate} {mtu}");
            let limits = made.limits(true);
            let held = [limits.maxidle, limits.offtime, limits.minidle];
            assert_eq!(held, kernel, "{link} {rate} {mtu}");
            assert_eq!(made.limits(false).minidle, -(mtu as i64) * 8_000_000 / rate as i64);
        }
    }

    #[test]
    fn the_steady_burst_is_silently_at_most_the_burst_after_a_pause() {
        let offtime = |maxburst, minburst| {
            let wishes = Wishes {
                link: 2_000_000,
                rate: 500_000,
                packet: 1500,
                packet_max: 1500,
                maxburst,
                minburst,
            };
            wishes.spec().offtime
        };
        assert_eq!(offtime(None, 20), offtime(None, 4), "the default is 4 for a slow class");
        assert_eq!(offtime(Some(6), 20), offtime(Some(6), 6));
        assert!(offtime(Some(6), 6) > offtime(None, 4));
    }

    #[test]
    fn extremes_saturate() {
        for link in [1, 8_000, 1_000_000, 8_000_000_001, 400_000_000_000] {
            for rate in [1, link / 1000 + 1, link] {
                for (maxburst, minburst) in [(1, 1), (16, 2), (1000, 1000)] {
                    let maxburst = Some(maxburst);
                    let wishes =
                        Wishes { link, rate, packet: 1, packet_max: 65_535, maxburst, minburst };
                    for limits in [wishes.spec().limits(true), wishes.spec().limits(false)] {
                        assert!((1..=1 << 31).contains(&limits.ns), "{wishes:?}: {limits:?}");
                        assert!((1..1 << 31).contains(&limits.maxidle), "{wishes:?}: {limits:?}");
                        assert!((1..1 << 31).contains(&limits.offtime), "{wishes:?}: {limits:?}");
                        assert!((-1 << 31..=0).contains(&limits.minidle), "{wishes:?}: {limits:?}");
                    }
                }
            }
        }
    }
}
