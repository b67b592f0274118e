//! An axis: its ends, its marks, and the text of a number.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use std::ops::Range;

/// An axis. Its ends and marks are in the drawn scale: of a logarithmic one, the logarithms.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// The value at the lower end.
    pub low: f64,
    /// The value at the upper end.
    pub high: f64,
    /// The values at which numbers stand.
    pub marks: Vec<f64>,
    /// The axis is logarithmic, to the base of ten.
    pub log: bool,
}

impl Axis {
    /// An axis from `low` to `high` with about as many marks, at round numbers.
    pub fn new(low: f64, high: f64, marks: usize) -> Self {
        let step = step((high - low) / marks.max(1) as f64);
        let first = (low / step - 1e-9).ceil();
        let places = (0..MARKS_MAX).map(|place| (first + f64::from(place)) * step);
        let marks = places.take_while(|mark| *mark <= high + step * 1e-9).collect();
        Self { low, high, marks, log: false }
    }

    /// A logarithmic axis from `low` to `high`, both above 0.
    pub fn log(low: f64, high: f64) -> Self {
        if high < low * 4.0 {
            // So little of a decade has no powers of ten, but round numbers.
            let marks = Self::new(low, high, 5).marks.iter().map(|mark| mark.log10()).collect();
            return Self { low: low.log10(), high: high.log10(), marks, log: true };
        }
        let (low, high) = (low.log10(), high.log10());
        let inner: &[f64] = match high - low {
            decades if decades < 1.5 => &[1.0, 2.0, 3.0, 5.0],
            decades if decades < 2.8 => &[1.0, 2.0, 5.0],
            decades if decades < 4.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        // Of many decades every second or third has a number.
        let each = ((high - low) / 7.0).ceil().max(1.0) as usize;
        let decades = (low.floor() as i32..=high.ceil() as i32).step_by(each);
        let marks = decades.flat_map(|decade| {
            inner.iter().map(move |factor| (factor * 10_f64.powi(decade)).log10())
        });
        let inside = |mark: &f64| *mark >= low - 1e-9 && *mark <= high + 1e-9;
        Self { low, high, marks: marks.filter(inside).collect(), log: true }
    }

    /// Returns where a value stands in the drawn scale.
    pub fn place(&self, value: f64) -> f64 {
        if self.log { value.log10() } else { value }
    }

    /// Returns the number at a place of the drawn scale.
    pub fn text(&self, place: f64) -> String {
        number(if self.log { 10_f64.powf(place) } else { place })
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (start, end): (i32, i32)) -> i32 {
        let part = (place - self.low) / (self.high - self.low);
        let pixel = f64::from(start) + part * f64::from(end - start);
        pixel.round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// Returns the round number, 1, 2 or 5 times a power of ten, that is at least `least`.
fn step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let decade = 10_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|factor| factor * decade >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * decade
}

/// Formats a number without trailing zeros, with at most three significant decimals.
pub fn number(value: f64) -> String {
    let decimals = if value.abs() < 1e-2 { 6 } else { 3 };
    let text = format!("{value:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// No axis has more marks.
const MARKS_MAX: i32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_possible() {
        let rows =
            [(120.0, "120"), (0.25, "0.25"), (-0.0, "0"), (1e6, "1000000"), (5e-4, "0.0005")];
        for (value, text) in rows {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn marks_stand_at_round_numbers_inside_the_axis() {
        let check = |axis: Axis, expected: &[&str]| {
            let texts: Vec<_> = axis.marks.iter().map(|mark| axis.text(*mark)).collect();
            assert_eq!(texts, expected, "{axis:?}");
        };
        check(Axis::new(0.0, 10.5, 5), &["0", "5", "10"]);
        check(Axis::new(0.0, 30.0, 6), &["0", "5", "10", "15", "20", "25", "30"]);
        check(Axis::new(-0.3, 1.0, 3), &["0", "0.5", "1"]);
        check(Axis::log(0.01, 100.0), &["0.01", "0.1", "1", "10", "100"]);
        check(Axis::log(100.0, 280.0), &["100", "150", "200", "250"]);
        check(Axis::log(2.0, 60.0), &["2", "3", "5", "10", "20", "30", "50"]);
        check(Axis::new(0.0, 0.0, 4), &["0"]);
    }
}
