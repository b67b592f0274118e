//! Congestion control by its reactions: which family would have made of its window what the sender
//! made of it.
//!
//! After a loss Reno leaves half of the window [rfc5681 §3.1], CUBIC 0.7 of it [rfc9438 §4.6], and
//! what models the path, as BBR does, about all. Between losses Reno adds a segment a round, CUBIC
//! rarely so. Each reaction votes by how likely it is under each family, and one in ten may be
//! about anything else. Invariant: no family without a confidence, and never more of it than so
//! many reactions can give, or [`CONFIDENCE_MAX`].

use super::flight::Reaction;
use serde::Serialize;

/// A family of congestion controls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Halves its window.
    Reno,
    /// Leaves 0.7 of its window, and grows with the time since the loss.
    Cubic,
    /// Keeps its window in spite of losses.
    BbrLike,
    /// Too few losses, or reactions unlike any of these.
    #[default]
    Unknown,
}

/// A family, and how probable it is.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Control {
    /// The most probable family.
    pub family: Family,
    /// Its probability, 0 to 1; 0 with an unknown one.
    pub confidence: f64,
    /// Losses and marks after which the window was compared with the one before.
    pub reactions: u32,
}

impl Family {
    /// Returns the name in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Family::Reno => "reno",
            Family::Cubic => "cubic",
            Family::BbrLike => "bbr-like",
            Family::Unknown => "unknown",
        }
    }

    /// Returns the keyword of a scenario's `congestion`; CUBIC is what unknown hosts most probably
    /// have.
    pub const fn keyword(self) -> &'static str {
        match self {
            Family::Reno => "reno",
            Family::BbrLike => "bbr",
            Family::Cubic | Family::Unknown => "cubic",
        }
    }
}

impl Control {
    /// Judges the reactions of a sender whose segments have so many bytes at most.
    pub fn of(reactions: &[Reaction], segment: u32) -> Self {
        let segment = f64::from(segment.max(1));
        let usable = |one: &&Reaction| one.before as f64 >= WINDOW_MIN * segment;
        let mut sums = [0.0; 4];
        let mut count = 0;
        for reaction in reactions.iter().filter(usable) {
            count += 1;
            for (sum, likely) in sums.iter_mut().zip(likelihoods(reaction, segment)) {
                *sum += libm::log(likely);
            }
        }
        let unknown = Self { reactions: count, ..Self::default() };
        if count == 0 {
            return unknown;
        }
        let best = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let parts = sums.map(|sum| libm::exp(sum - best));
        let total: f64 = parts.iter().sum();
        let place = parts.iter().position(|part| *part >= 1.0).unwrap_or(3);
        let most = 1.0 - libm::pow(0.5, f64::from(count) * 0.7 + 0.5);
        let confidence = (parts[place] / total).min(most).min(CONFIDENCE_MAX);
        let family = [Family::Reno, Family::Cubic, Family::BbrLike, Family::Unknown][place];
        if family == Family::Unknown || confidence < CONFIDENCE_MIN {
            return unknown;
        }
        Self { family, confidence, reactions: count }
    }
}

/// Returns how likely a reaction is under Reno, CUBIC, BBR and none of them.
fn likelihoods(reaction: &Reaction, segment: f64) -> [f64; 4] {
    let before = reaction.before as f64;
    let part = (reaction.after as f64 / before).min(1.0);
    // Windows are whole segments, and grow by one while they are measured.
    let width = 0.05 + 0.7 * segment / before;
    let around = |middle: f64, width: f64| {
        let distance = (part - middle) / width;
        let normal = libm::exp(-distance * distance / 2.0) / (width * ROOT_OF_TAU);
        (1.0 - OUTLIERS) * normal + OUTLIERS
    };
    let grown = segment / before / 2.0;
    let mut likely =
        [around(0.5 + grown, width), around(0.7 + grown, width), around(0.97, 0.08), 1.0];
    if let Some(growth) = reaction.growth.map(|bytes| bytes / segment) {
        // A segment a round is Reno's; half of one, or many, are CUBIC's.
        let reno = libm::exp(-(growth - 1.0) * (growth - 1.0) / 0.08);
        likely[0] *= 0.3 + 0.7 * reno;
        likely[1] *= 1.0 - 0.7 * reno;
    }
    likely
}

/// Segments of a window below which its parts say little.
const WINDOW_MIN: f64 = 5.0;
/// Reactions that are about something else.
const OUTLIERS: f64 = 0.1;
/// Less is no answer.
const CONFIDENCE_MIN: f64 = 0.5;
/// No number of reactions gives more: one that its application holds back, or a BBR that loses in
/// bursts, is misread each time in the same way.
const CONFIDENCE_MAX: f64 = 0.9;
/// The square root of two pi.
const ROOT_OF_TAU: f64 = 2.506_628_274_631_000_7;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &[(u64, u64)], expected: Family, least: f64) {
        let rows = parts.iter().map(|&(before, after)| Reaction { before, after, growth: None });
        let found = Control::of(&rows.collect::<Vec<_>>(), 1);
        assert_eq!(found.family, expected, "{found:?}");
        assert!(found.confidence >= least, "{found:?}");
        assert!(found.confidence < 1.0);
    }

    #[test]
    fn the_part_of_the_window_that_is_left_names_the_family() {
        check(&[(100, 51), (90, 45), (120, 62)], Family::Reno, 0.8);
        check(&[(100, 71), (90, 64), (120, 83)], Family::Cubic, 0.8);
        check(&[(100, 99), (90, 90), (120, 125)], Family::BbrLike, 0.8);
        // One that is about something else changes nothing.
        check(&[(100, 71), (90, 64), (120, 119), (80, 57)], Family::Cubic, 0.7);
        check(&[(100, 50)], Family::Reno, 0.5);
        check(&[], Family::Unknown, 0.0);
        check(&[(4, 2), (4, 2), (4, 3)], Family::Unknown, 0.0);
        check(&[(100, 38), (100, 85), (100, 60), (100, 61)], Family::Unknown, 0.0);
    }
}
