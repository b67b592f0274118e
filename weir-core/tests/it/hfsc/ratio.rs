//! Exact fractions, for the twin.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};

/// A fraction in lowest terms; what overflows fails the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ratio {
    above: i128,
    /// More than 0.
    below: i128,
}

impl Ratio {
    pub const ZERO: Ratio = Ratio { above: 0, below: 1 };

    pub fn new(above: i128, below: i128) -> Self {
        let divisor = gcd(above.abs(), below.abs()).max(1) * below.signum();
        Self { above: above / divisor, below: below / divisor }
    }

    pub fn whole(number: i128) -> Self {
        Self { above: number, below: 1 }
    }

    pub fn floor(self) -> i128 {
        self.above.div_euclid(self.below)
    }

    pub fn ceil(self) -> i128 {
        -(-self.above).div_euclid(self.below)
    }
}

impl Default for Ratio {
    fn default() -> Self {
        Self::ZERO
    }
}

fn gcd(one: i128, other: i128) -> i128 {
    if other == 0 { one } else { gcd(other, one % other) }
}

impl Add for Ratio {
    type Output = Ratio;
    fn add(self, other: Ratio) -> Ratio {
        let common = gcd(self.below, other.below);
        let above = self.above * (other.below / common) + other.above * (self.below / common);
        Ratio::new(above, self.below / common * other.below)
    }
}

impl Sub for Ratio {
    type Output = Ratio;
    fn sub(self, other: Ratio) -> Ratio {
        self + Ratio { above: -other.above, ..other }
    }
}

impl Mul for Ratio {
    type Output = Ratio;
    fn mul(self, other: Ratio) -> Ratio {
        let (one, two) = (Ratio::new(self.above, other.below), Ratio::new(other.above, self.below));
        Ratio::new(one.above * two.above, one.below * two.below)
    }
}

impl Div for Ratio {
    type Output = Ratio;
    fn div(self, other: Ratio) -> Ratio {
        assert_ne!(other.above, 0, "the twin never divides by zero");
        let sign = other.above.signum();
        self * Ratio { above: other.below * sign, below: other.above * sign }
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Ratio) -> Ordering {
        (*self - *other).above.cmp(&0)
    }
}
