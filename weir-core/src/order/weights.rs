//! Weights as virtual time: how far a byte of a leaf moves its tag, and a byte of the line moves
//! `V`.
//!
//! Virtual time counts bytes of the line, in fractions of 2^-`shift`. A byte of the line moves it
//! by one; a byte of a leaf moves the leaf's tag by the sum of all weights over the leaf's weight.
//! So weights are normalised to their sum when a scheduler is built, and any weights that the table
//! allows work. Invariant: an inverse is rounded up and at most 2^40, so the parts of the leaves
//! never sum to more than the line and a packet moves no tag by more than 2^57. The rounding
//! changes a leaf's part by less than one in 2^23.

use crate::parameter::{Kind, Parameter, Scope};
use crate::state::state;
use crate::tree::Tree;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// The weights of a tree's leaves.
pub(crate) struct Weights {
    /// Virtual time per byte of each leaf.
    pub(crate) inverses: Vec<u64>,
    /// Fractional bits of virtual time.
    pub(crate) shift: u32,
}

/// The row of a parameter table.
pub(crate) const WEIGHT: Parameter = Parameter {
    name: "weight",
    scope: Scope::Leaf,
    kind: Kind::Number(1, WEIGHT_MAX),
    default: Some("1"),
    summary: "The leaf's part of the line, relative to the weights of the others.",
};

impl Weights {
    /// Reads the weights of `tree`.
    pub(crate) fn of(tree: &Tree) -> Self {
        let weights: Vec<u64> = written(tree).collect();
        // At most 2^32 leaves of 2^16.
        let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        let smallest = u128::from(weights.iter().copied().min().unwrap_or(1));
        assert!(smallest > 0, "a weight is at least 1");
        let largest_inverse = total.div_ceil(smallest).max(1);
        let bits = u128::BITS - (largest_inverse - 1).leading_zeros();
        let shift = INVERSE_BITS.saturating_sub(bits).min(SHIFT_MAX);
        let inverse = |weight: &u64| (total << shift).div_ceil(u128::from(*weight)) as u64;
        Self { inverses: weights.iter().map(inverse).collect(), shift }
    }
}

/// How much of the packet that the line received last is still to be sent.
pub(crate) struct Sending {
    last: Instant,
    span: u64,
    /// Virtual time per nanosecond of the line, times 2^`fraction`; rounded up.
    per_nano: u64,
    fraction: u32,
}

impl Sending {
    /// Returns an idle line of the rate of `tree`; virtual time has `shift` fractional bits.
    pub(crate) fn new(tree: &Tree, shift: u32) -> Self {
        let rate = u128::from(tree.rate().bits_per_second()) << shift;
        let fraction = rate.leading_zeros().min(FRACTION_MAX);
        let per_nano = (rate << fraction).div_ceil(BIT_NANOS);
        let excess = (u128::BITS - per_nano.leading_zeros()).saturating_sub(u64::BITS);
        let per_nano = u64::try_from((per_nano >> excess) + 1).unwrap_or(u64::MAX);
        Self { last: Instant::ZERO, span: 0, per_nano, fraction: fraction.saturating_sub(excess) }
    }

    /// Records that the line received a packet that takes `span` of virtual time.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant, span: u64) {
        (self.last, self.span) = (now, span);
    }

    /// Records that the line received a packet; packets that it received at this instant before
    /// count, too, so that several in one call count as much as one by one.
    #[inline]
    pub(crate) fn begin_more(&mut self, now: Instant, span: u64) {
        let before = if now == self.last { self.span } else { 0 };
        (self.last, self.span) = (now, before.saturating_add(span));
    }

    /// Returns how much is left to send at `now`, in virtual time, if the line began at once and
    /// sends at its rate.
    #[inline]
    pub(crate) fn rest(&self, now: Instant) -> u64 {
        let nanos = now.since(self.last).as_nanos();
        let done = (u128::from(self.per_nano) * u128::from(nanos)) >> self.fraction;
        u128::from(self.span).saturating_sub(done) as u64
    }
}

/// Returns the weight of each leaf.
pub(crate) fn written(tree: &Tree) -> impl Iterator<Item = u64> {
    let weight = |class: &crate::tree::ClassSpec| class.params.number("weight").unwrap_or(1);
    tree.leaves().map(move |(_, class)| weight(class).clamp(1, WEIGHT_MAX))
}

/// Returns the bytes that a packet counts: at least 1, or packets without length would be sent for
/// ever, and at most [`LENGTH_MAX`], which no line's MTU exceeds.
#[inline]
pub(crate) fn counted(length: Bytes) -> u64 {
    length.get().clamp(1, LENGTH_MAX)
}

/// A packet of 65 535 bytes in ATM cells has 72 398.
pub(crate) const LENGTH_MAX: u64 = 1 << 17;
/// The largest weight: 16 bits.
pub(crate) const WEIGHT_MAX: u64 = 65_535;
/// The largest inverse, which leaves room in 64 bits for several packets of [`LENGTH_MAX`].
const INVERSE_BITS: u32 = 40;
/// The ns that a byte takes at 1 bit/s.
const BIT_NANOS: u128 = 8_000_000_000;
/// Enough for a rate of 1 bit/s.
const FRACTION_MAX: u32 = 60;
/// More would only make tags grow faster.
const SHIFT_MAX: u32 = 30;

state!(Sending { last, span; kept: per_nano, fraction });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::tree::ClassSpec;
    use crate::units::{Quantity, Rate};
    use alloc::string::ToString;

    fn check(weights: impl Iterator<Item = u64>, shift: u32) {
        let class = |weight: u64| ClassSpec {
            name: weight.to_string(),
            parent: None,
            params: Params::new().with("weight", Quantity::Number(weight)),
        };
        let classes: Vec<_> = weights.map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), classes);
        let tree = tree.expect("flat");
        let weights = Weights::of(&tree);
        assert_eq!(weights.shift, shift);
        let total: u128 = written(&tree).map(u128::from).sum();
        let mut parts = 0;
        for (inverse, weight) in weights.inverses.iter().zip(written(&tree)) {
            assert!(*inverse <= 1 << INVERSE_BITS && *inverse >= 1 << 20);
            // Within 2^-23 above the exact one.
            let (rounded, exact) = (u128::from(*inverse) * u128::from(weight), total << shift);
            assert!(rounded >= exact && (rounded - exact) << 23 <= exact);
            parts += (1u128 << 100) / u128::from(*inverse);
        }
        assert!(parts <= 1 << (100 - shift), "parts never sum to more than the line");
    }

    #[test]
    fn inverses_keep_their_bounds_whatever_the_weights() {
        check([1].into_iter(), 30);
        check([7, 11, 13].into_iter(), 30);
        check([1, 65_535].into_iter(), 24);
        check((0..100_000).map(|_| 1), 23);
        check((0..100_000).map(|index| 1 + index * 7919 % 65_535), 8);
    }
}
