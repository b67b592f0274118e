//! Random capacities with a seed: a line with two states, one that walks between rates, and one
//! with busy hours.

use super::{Capacity, End, STEPS_MAX};
use weir_core::random::Random;
use weir_core::units::{Duration, Share};

/// A model of a capacity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Model {
    /// Gilbert's channel: two states, each of exponentially distributed length.
    Gilbert {
        /// bit/s and mean length of the good state, with which it begins.
        good: (u64, Duration),
        /// bit/s and mean length of the bad state.
        bad: (u64, Duration),
    },
    /// A walk between rates: after a stay of exponentially distributed length it goes on with the
    /// rate above or below, each as likely.
    Markov {
        /// bit/s, in the order in which they are neighbours; it begins with the middle one.
        rates: Vec<u64>,
        /// The mean stay.
        stay: Duration,
    },
    /// Busy hours: from `most` down to `least` in the middle of the period and up again, as a
    /// cosine, in [`DIURNAL_STEPS`] steps.
    Diurnal {
        /// bit/s at the start of the period.
        most: u64,
        /// bit/s in its middle.
        least: u64,
        /// From one start to the next.
        period: Duration,
        /// By how much each step is more or less, by chance.
        noise: Share,
    },
}

impl Model {
    /// Returns a capacity of this length, or of [`STEPS_MAX`] steps, which loops; `None` as
    /// [`Capacity::new`].
    pub fn capacity(&self, seed: u64, length: Duration) -> Option<Capacity> {
        let mut random = Random::new(seed, STREAM);
        let mut draw = self.walk();
        let (mut steps, mut sum) = (Vec::new(), Duration::ZERO);
        while sum < length && steps.len() < STEPS_MAX {
            let (lasts, rate) = draw(&mut random);
            let lasts = lasts.max(STEP_MIN);
            steps.push((lasts, rate));
            sum = sum.plus(lasts);
        }
        Capacity::new(steps, End::Loop)
    }

    /// Returns a function that draws the next step.
    fn walk(&self) -> Walk<'_> {
        match self {
            Model::Gilbert { good, bad } => {
                let mut is_good = false;
                Box::new(move |random| {
                    is_good = !is_good;
                    let (rate, mean) = if is_good { *good } else { *bad };
                    (exponential(random, mean), rate)
                })
            }
            Model::Markov { rates, stay } => {
                let mut place = rates.len() / 2;
                Box::new(move |random| {
                    let rate = rates.get(place).copied().unwrap_or(0);
                    let up = random.bits() >> 63 == 1;
                    place = match place {
                        0 => 1,
                        last if last + 1 >= rates.len() => last.saturating_sub(1),
                        between => between - 1 + 2 * usize::from(up),
                    };
                    place = place.min(rates.len().saturating_sub(1));
                    (exponential(random, *stay), rate)
                })
            }
            Model::Diurnal { most, least, period, noise } => {
                let mut step = 0u32;
                let (most, least) = (*most as f64, *least as f64);
                Box::new(move |random| {
                    let angle = std::f64::consts::TAU * f64::from(step) / f64::from(DIURNAL_STEPS);
                    step = (step + 1) % DIURNAL_STEPS;
                    let rate = least + (most - least) * (1.0 + libm::cos(angle)) / 2.0;
                    let part = (random.bits() >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0;
                    let rate = rate * (1.0 + part * f64::from(noise.ppb()) / 1e9);
                    let lasts = period.as_nanos() / u64::from(DIURNAL_STEPS);
                    (Duration::from_nanos(lasts), rate.max(0.0) as u64)
                })
            }
        }
    }
}

/// Draws the next step: how long it lasts, and bit/s.
type Walk<'m> = Box<dyn FnMut(&mut Random) -> (Duration, u64) + 'm>;

/// Draws an exponentially distributed length.
fn exponential(random: &mut Random, mean: Duration) -> Duration {
    // Above 0, so that the logarithm is finite.
    let part = ((random.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    Duration::from_nanos((-libm::log(part) * mean.as_nanos() as f64) as u64)
}

/// The steps of a period.
pub const DIURNAL_STEPS: u32 = 288;
/// No step is shorter.
const STEP_MIN: Duration = Duration::from_millis(1);
/// Of random numbers.
const STREAM: u64 = 46;

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 1_000_000;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn models_have_the_means_that_they_should() {
        let gilbert = Model::Gilbert { good: (40 * MBIT, seconds(3)), bad: (4 * MBIT, seconds(1)) };
        let markov =
            Model::Markov { rates: vec![10 * MBIT, 20 * MBIT, 30 * MBIT], stay: seconds(1) };
        let noise = Share::from_ppb(100_000_000).expect("a tenth");
        let diurnal =
            Model::Diurnal { most: 90 * MBIT, least: 10 * MBIT, period: seconds(86_400), noise };
        for (model, mean) in [(gilbert, 31), (markov, 20), (diurnal, 50)] {
            let capacity = model.capacity(1, seconds(86_400)).expect("sound");
            let off = capacity.mean().abs_diff(mean * MBIT);
            assert!(off < mean * MBIT / 20, "{model:?}: {} for {mean}", capacity.mean());
            assert_eq!(model.capacity(1, seconds(99)), model.capacity(1, seconds(99)));
            assert_ne!(model.capacity(1, seconds(99)), model.capacity(2, seconds(99)));
        }
    }

    #[test]
    fn odd_models_end() {
        let model = Model::Markov { rates: vec![], stay: Duration::ZERO };
        assert_eq!(model.capacity(1, seconds(9)).map(|capacity| capacity.mean()), Some(0));
        let model = Model::Markov { rates: vec![5], stay: Duration::from_nanos(u64::MAX) };
        assert!(model.capacity(1, seconds(9)).is_none_or(|capacity| capacity.mean() == 5));
    }
}
