//! Controllers: rules by which a rate follows what was measured.
//!
//! A controller is one file and one line of the registry below. What holds for each of them,
//! whatever it decides, is with [`Limits`] and the directions' common part: the range of the rate,
//! the largest step, and the return to the base when nothing tells any more.

mod cake_autorate;
mod delay_target;

use crate::measure::Measure;
use alloc::boxed::Box;
use weir_core::state::State;
use weir_core::units::{Duration, Rate};

/// A rule by which a rate follows what was measured.
pub trait Controller: State + Send {
    /// Decides the rate at the end of an interval. `rate` is that until now.
    fn decide(&mut self, limits: &Limits, rate: Rate, measure: &Measure) -> Decision;
}

/// The decision of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The rate that it wants.
    pub rate: Rate,
    /// Why.
    pub reason: Reason,
    /// Whether the delay stands although the link is no bottleneck: paths have become longer, and
    /// their least delay is measured anew.
    pub rebase: bool,
}

/// Why a rate is as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reason {
    /// No measurement called for another rate.
    #[default]
    Steady,
    /// The delay behind the link was above the target.
    Delay,
    /// Frames were lost behind the link.
    Loss,
    /// The load needs more, and the delay allows it.
    Load,
    /// The load is low: the rate returns to its base.
    Idle,
    /// Nothing passed that tells: the rate returns to its base.
    Blind,
    /// The delay stands although the link sends less: paths have become longer.
    Path,
}

impl Reason {
    /// All, in the order of their numbers.
    pub const ALL: [Reason; 7] = [
        Reason::Steady,
        Reason::Delay,
        Reason::Loss,
        Reason::Load,
        Reason::Idle,
        Reason::Blind,
        Reason::Path,
    ];

    /// Returns the word of statuses and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Reason::Steady => "steady",
            Reason::Delay => "delay",
            Reason::Loss => "loss",
            Reason::Load => "load",
            Reason::Idle => "idle",
            Reason::Blind => "blind",
            Reason::Path => "path",
        }
    }
}

/// Between which rates a direction is, and for which delay behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    min: Rate,
    max: Rate,
    base: Rate,
    target: Duration,
}

impl Limits {
    /// Limits with `min <= base <= max` and a target of 1 ms at least; `None` for others.
    pub fn new(min: Rate, base: Rate, max: Rate, target: Duration) -> Option<Limits> {
        let is_possible = min <= base && base <= max && target >= TARGET_MIN;
        is_possible.then_some(Limits { min, max, base, target })
    }

    /// The least rate.
    pub const fn min(&self) -> Rate {
        self.min
    }

    /// The largest rate.
    pub const fn max(&self) -> Rate {
        self.max
    }

    /// The rate at the start, and when nothing tells.
    pub const fn base(&self) -> Rate {
        self.base
    }

    /// The delay behind the link that is allowed.
    pub const fn target(&self) -> Duration {
        self.target
    }

    /// Returns whether a rate is within.
    pub fn holds(&self, rate: Rate) -> bool {
        (self.min..=self.max).contains(&rate)
    }

    /// Returns the rate nearest to `to` that is within, and one step from `from`: not less than
    /// half, and not more than twice.
    pub fn within(&self, from: Rate, to: Rate) -> Rate {
        let from = from.bits_per_second();
        let bits = to.bits_per_second().clamp(from.div_ceil(2), from.saturating_mul(2));
        Rate::new(bits).unwrap_or(Rate::MIN).clamp(self.min, self.max)
    }
}

/// The least target.
pub const TARGET_MIN: Duration = Duration::from_millis(1);
/// The target where none is given.
pub const TARGET_DEFAULT: Duration = Duration::from_millis(15);

/// A controller that deployments may name.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Its name there.
    pub name: &'static str,
    /// One line on it.
    pub summary: &'static str,
    build: fn() -> Box<dyn Controller>,
}

/// Builds the controller at this place of [`CONTROLLERS`]; the first one for a place that is none.
pub fn build(place: usize) -> Box<dyn Controller> {
    (CONTROLLERS.get(place).unwrap_or(&CONTROLLERS[0]).build)()
}

/// Returns the place of the controller with this name.
pub fn named(name: &str) -> Option<usize> {
    CONTROLLERS.iter().position(|controller| controller.name == name)
}

/// The controllers; the first is the default. A new one is a line at the end.
pub const CONTROLLERS: &[Descriptor] = &[delay_target::DESCRIPTOR, cake_autorate::DESCRIPTOR];

/// Returns `rate` times `num / den`, rounded down.
fn scaled(rate: Rate, num: u64, den: u64) -> Rate {
    let bits = u128::from(rate.bits_per_second()) * u128::from(num) / u128::from(den.max(1));
    Rate::new(bits.min(u128::from(u64::MAX)) as u64).unwrap_or(Rate::MIN)
}
