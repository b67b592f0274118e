//! Seeded random numbers that are the same on every machine.
//!
//! xoshiro256++ `[vigna]`, seeded through SplitMix64. Each source draws from a stream of its own,
//! found from the scenario's seed and the source's name, so that another source changes nothing for
//! those that were there. Logarithms come from `libm`, whose bits do not depend on the machine.

use weir_core::fnv::{BASIS, fnv1a};
use weir_core::units::Duration;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream called `name` of the run with `seed`.
    pub fn stream(seed: u64, name: &str) -> Self {
        let mut mix = SplitMix(seed);
        // The hash only has to distinguish names.
        let mut mix = SplitMix(mix.next() ^ fnv1a(BASIS, name.as_bytes()));
        // The state is never all zero: SplitMix gives each value once in 2^64 draws.
        Self { state: [mix.next(), mix.next(), mix.next(), mix.next()] }
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `bound`, at most one part in 2^32 uneven; 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A time of at most `most`, evenly distributed.
    pub fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.below(most.as_nanos().saturating_add(1)))
    }

    /// A number in (0, 1].
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// An exponentially distributed duration, to the nearest nanosecond.
    #[inline]
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let nanos = -libm::log(self.unit()) * mean.as_nanos() as f64;
        Duration::from_nanos((nanos + 0.5) as u64)
    }

    /// A Pareto distributed duration with this mean and `shape` above 1, to the nearest nanosecond.
    pub fn pareto(&mut self, mean: Duration, shape: f64) -> Duration {
        let shortest = mean.as_nanos() as f64 * (shape - 1.0) / shape;
        let nanos = shortest * libm::exp(-libm::log(self.unit()) / shape);
        Duration::from_nanos((nanos + 0.5) as u64)
    }

    /// A number of Pareto's second distribution, which begins at 0, with this mean and `shape`
    /// above 1.
    pub fn pareto_second(&mut self, mean: f64, shape: f64) -> f64 {
        mean * (shape - 1.0) * libm::expm1(-libm::log(self.unit()) / shape)
    }

    /// A normally distributed number with mean 0 and variance 1, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        radius * libm::cos(2.0 * std::f64::consts::PI * self.unit())
    }

    /// A lognormal number with mean 1 and this coefficient of variation.
    pub fn lognormal(&mut self, variation: f64) -> f64 {
        let variance = libm::log1p(variation * variation);
        libm::exp(libm::sqrt(variance) * self.normal() - variance / 2.0)
    }

    /// A gamma distributed number with mean 1 and this coefficient of variation, above 0
    /// `[marsaglia00]`.
    pub fn gamma(&mut self, variation: f64) -> f64 {
        let shape = 1.0 / (variation * variation);
        // Below a shape of 1: the next larger one, times a power of a uniform number.
        let (whole, factor) = if shape < 1.0 {
            (shape + 1.0, libm::exp(libm::log(self.unit()) / shape))
        } else {
            (shape, 1.0)
        };
        let d = whole - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        for _ in 0..GAMMA_TRIES {
            let normal = self.normal();
            let v = libm::pow((1.0 + c * normal).max(0.0), 3.0);
            let bound = 0.5 * normal * normal + d - d * v + d * libm::log(v);
            if v > 0.0 && libm::log(self.unit()) < bound {
                return factor * d * v / shape;
            }
        }
        factor * d / shape
    }
}

/// Each try is taken with a probability above 0.95, so no run ever sees the last.
const GAMMA_TRIES: u32 = 64;

struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // First outputs of the reference implementation in C for the state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let expected = [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386];
        for value in expected {
            assert_eq!(random.bits(), value);
        }
        // And SplitMix64 for the seed 1234567.
        let mut mix = SplitMix(1_234_567);
        assert_eq!(mix.next(), 6_457_827_717_110_365_317);
        assert_eq!(mix.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn streams_differ_by_seed_and_name() {
        let first = |seed, name| Random::stream(seed, name).bits();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
    }

    #[test]
    fn draws_have_the_requested_mean() {
        let mean = Duration::from_millis(1);
        let mut random = Random::stream(7, "means");
        let draws = 400_000u64;
        let mut average = |draw: &mut dyn FnMut(&mut Random) -> u64| {
            (0..draws).map(|_| draw(&mut random)).sum::<u64>() as f64 / draws as f64
        };
        let rows = [
            ("exponential", average(&mut |r| r.exponential(mean).as_nanos()), 0.01),
            // Shape 2.5 has a finite variance; heavier tails converge too slowly to test.
            ("pareto", average(&mut |r| r.pareto(mean, 2.5).as_nanos()), 0.02),
            ("below", average(&mut |r| r.below(2_000_001)), 0.01),
            ("pareto second", average(&mut |r| r.pareto_second(1e6, 2.5) as u64), 0.02),
            ("lognormal", average(&mut |r| (1e6 * r.lognormal(0.5)) as u64), 0.01),
            ("gamma", average(&mut |r| (1e6 * r.gamma(0.5)) as u64), 0.01),
            ("wide gamma", average(&mut |r| (1e6 * r.gamma(1.6)) as u64), 0.01),
            ("normal", average(&mut |r| (1e6 + 1e5 * r.normal()) as u64), 0.01),
        ];
        for (name, found, tolerance) in rows {
            assert!((found / 1e6 - 1.0).abs() < tolerance, "{name}: {found}");
        }
    }

    #[test]
    fn draws_have_the_requested_variation() {
        let mut random = Random::stream(11, "variation");
        let mut check = |name: &str, draw: &mut dyn FnMut(&mut Random) -> f64, expected: f64| {
            let (mut sum, mut squares, draws) = (0.0, 0.0, 400_000);
            for _ in 0..draws {
                let value = draw(&mut random);
                (sum, squares) = (sum + value, squares + value * value);
            }
            let mean = sum / f64::from(draws);
            let found = (squares / f64::from(draws) - mean * mean).sqrt();
            assert!((found / expected - 1.0).abs() < 0.02, "{name}: {found}, not {expected}");
        };
        check("normal", &mut |r| r.normal(), 1.0);
        check("lognormal", &mut |r| r.lognormal(0.5), 0.5);
        check("gamma", &mut |r| r.gamma(0.5), 0.5);
        check("wide gamma", &mut |r| r.gamma(1.6), 1.6);
    }
}
