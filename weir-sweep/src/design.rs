//! Designs: which combinations of values to run.
//!
//! A *grid* has every combination, and the last axis varies fastest. A *random* design draws each
//! value by itself; in a *Latin hypercube* [McKay, Beckman and Conover 1979] each axis is cut into
//! as many parts as there are points, and each part has one point. Invariant: a design and its seed
//! give the same points.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use weir_sim::random::Random;

/// How points are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Every combination of the values.
    #[default]
    Grid,
    /// Each value drawn by itself.
    Random,
    /// A Latin hypercube: each axis is cut into as many parts as there are points, and each part
    /// has one point.
    Latin,
}

/// A key that varies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// The path of the key: `policy.class.voice.rate`, `source.flood.rate`, `duration`.
    pub key: String,
    /// Its values: of a grid all; otherwise the least and the most, or more to choose from.
    pub values: Vec<Value>,
}

/// The keys that vary, and how points are chosen.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Design {
    /// How points are chosen.
    pub method: Method,
    /// The keys that vary, with their values.
    pub axes: Vec<Axis>,
    /// The number of points; of a grid, 0.
    #[serde(default)]
    pub points: u64,
    /// The seed of what is drawn.
    #[serde(default)]
    pub seed: u64,
}

impl Design {
    /// Returns the number of points, without making them.
    ///
    /// # Errors
    /// When an axis has no values, or there are more than [`POINTS_MAX`] points.
    pub fn count(&self) -> Result<usize, String> {
        if let Some(axis) = self.axes.iter().find(|axis| axis.values.is_empty()) {
            return Err(format!("`{}` has no values", axis.key));
        }
        if self.method != Method::Grid {
            let count = usize::try_from(self.points).unwrap_or(usize::MAX);
            return if (1..=POINTS_MAX).contains(&count) {
                Ok(count)
            } else {
                Err(format!("points = {count} is not in 1 to {POINTS_MAX}; draw as many as that"))
            };
        }
        // A product that is too long for a number is at the largest one, and refused.
        let times = |all: u128, axis: &Axis| all.saturating_mul(axis.values.len() as u128);
        let count = self.axes.iter().fold(1, times);
        usize::try_from(count).ok().filter(|&count| count <= POINTS_MAX).ok_or_else(|| {
            let least = if count == u128::MAX { "at least " } else { "" };
            format!(
                "the grid has {least}{count} points, and {POINTS_MAX} are the most; give fewer \
                 values, or draw `points` of them with [random] or [latin]"
            )
        })
    }

    /// Returns the values of each point, in the order of the axes.
    ///
    /// # Errors
    /// As [`Design::count`], and when a range cannot be used.
    pub fn points(&self) -> Result<Vec<Vec<Value>>, String> {
        let count = self.count()?;
        match self.method {
            Method::Grid => Ok(self.grid(count)),
            Method::Random | Method::Latin => self.drawn(count),
        }
    }

    fn grid(&self, count: usize) -> Vec<Vec<Value>> {
        let point = |mut place: usize| {
            let value = |axis: &Axis| {
                let value = axis.values[place % axis.values.len()].clone();
                place /= axis.values.len();
                value
            };
            let mut values: Vec<Value> = self.axes.iter().rev().map(value).collect();
            values.reverse();
            values
        };
        (0..count).map(point).collect()
    }

    fn drawn(&self, count: usize) -> Result<Vec<Vec<Value>>, String> {
        let mut points = vec![Vec::with_capacity(self.axes.len()); count];
        for axis in &self.axes {
            let range = Range::of(axis)?;
            // An axis keeps its numbers if another one is added.
            let mut random = Random::stream(self.seed, &axis.key);
            let parts: Vec<usize> = match self.method {
                Method::Latin => shuffled(count, &mut random),
                _ => vec![0; count],
            };
            for (point, part) in points.iter_mut().zip(parts) {
                let within = match self.method {
                    Method::Latin => (part as f64 + random.unit()) / count as f64,
                    _ => random.unit(),
                };
                point.push(range.at(within)?);
            }
        }
        Ok(points)
    }
}

fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        places.swap(last, random.below(last as u64 + 1) as usize);
    }
    places
}

/// The values that are drawn for an axis.
enum Range<'a> {
    /// Integers from the first to the last.
    Integers(i64, i64),
    /// Numbers, with what follows them in the text.
    Numbers(f64, f64, Option<&'a str>),
    /// One of these values.
    Choices(&'a [Value]),
}

impl<'a> Range<'a> {
    fn of(axis: &'a Axis) -> Result<Self, String> {
        let [least, most] = axis.values.as_slice() else { return Ok(Self::Choices(&axis.values)) };
        let range = match (least, most) {
            (Value::Number(least), Value::Number(most)) => match (least.as_i64(), most.as_i64()) {
                (Some(least), Some(most)) => Self::Integers(least, most),
                _ => Self::Numbers(
                    least.as_f64().unwrap_or(f64::NAN),
                    most.as_f64().unwrap_or(f64::NAN),
                    None,
                ),
            },
            (Value::String(least), Value::String(most)) => match (split(least), split(most)) {
                (Some((least, unit)), Some((most, other))) if unit == other => {
                    Self::Numbers(least, most, Some(unit))
                }
                (Some((_, unit)), Some((_, other))) => {
                    return Err(format!(
                        "`{}` goes from `{unit}` to `{other}`; give both ends in one unit",
                        axis.key
                    ));
                }
                _ => Self::Choices(&axis.values),
            },
            _ => Self::Choices(&axis.values),
        };
        let orderly = match range {
            Self::Integers(least, most) => least <= most,
            Self::Numbers(least, most, _) => least <= most,
            Self::Choices(_) => true,
        };
        if orderly { Ok(range) } else { Err(format!("`{}`: give the least value first", axis.key)) }
    }

    /// Returns the value at a part of the range, 0 to below 1.
    fn at(&self, within: f64) -> Result<Value, String> {
        Ok(match *self {
            Self::Integers(least, most) => {
                let width = (most as f64 - least as f64) + 1.0;
                Value::from(least.saturating_add((within * width) as i64).min(most))
            }
            Self::Numbers(least, most, unit) => {
                let value = least + within * (most - least);
                match unit {
                    Some(unit) => Value::from(format!("{value:.6} {unit}")),
                    None => Number::from_f64(value).map(Value::Number).ok_or("no finite number")?,
                }
            }
            Self::Choices(values) => {
                values[((within * values.len() as f64) as usize).min(values.len() - 1)].clone()
            }
        })
    }
}

/// Splits a quantity such as `5 Mbit/s` into its number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'))?;
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

/// Bound: points of a design; one with more is refused.
pub const POINTS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn design(method: Method, points: u64, axes: &[(&str, Value)]) -> Design {
        let axis = |(key, values): &(&str, Value)| Axis {
            key: (*key).to_owned(),
            values: values.as_array().cloned().unwrap_or_default(),
        };
        Design { method, axes: axes.iter().map(axis).collect(), points, seed: 7 }
    }

    #[test]
    fn a_grid_has_every_combination_once() {
        let axes = [("a", json!([1, 2])), ("b", json!(["x", "y", "z"]))];
        let points = design(Method::Grid, 0, &axes).points().expect("it is small");
        assert_eq!(
            points[..4],
            [
                vec![json!(1), json!("x")],
                vec![json!(1), json!("y")],
                vec![json!(1), json!("z")],
                vec![json!(2), json!("x")],
            ]
        );
        assert_eq!(points.len(), 6);
        assert_eq!(design(Method::Grid, 0, &[]).points(), Ok(vec![vec![]]));
        let long = json!(vec![1; 1001]);
        let huge = design(Method::Grid, 0, &[("a", long.clone()), ("b", long)]).points();
        let huge = huge.expect_err("it is too large");
        assert!(huge.contains("has 1002001 points, and 1000000 are the most; give"), "{huge}");
        // The product of lengths is longer than any number.
        let long = json!(vec![1; 1 << 10]);
        let axes: Vec<(&str, Value)> = (0..14).map(|_| ("a", long.clone())).collect();
        let huge = design(Method::Grid, 0, &axes).points().expect_err("it is too large");
        assert!(huge.contains("has at least 340282366920938463463374607431768211455"), "{huge}");
        let drawn = design(Method::Latin, 1 << 32, &[("a", json!([1, 2]))]).points();
        assert!(drawn.is_err_and(|why| why.contains("4294967296 is not in 1 to 1000000")));
    }

    #[test]
    fn a_latin_hypercube_has_one_point_in_each_part_of_each_axis() {
        let axes = [("a", json!([0.0, 1.0])), ("b", json!(["0 Mbit/s", "10 Mbit/s"]))];
        let points = design(Method::Latin, 10, &axes).points().expect("it is small");
        let part = |value: &Value| match value {
            Value::String(text) => split(text).expect("it has a unit").0 as u64,
            value => (value.as_f64().expect("a number") * 10.0) as u64,
        };
        for axis in 0..2 {
            let mut parts: Vec<u64> = points.iter().map(|point| part(&point[axis])).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_drawn_lies_in_the_range_and_depends_on_the_seed() {
        let axes = [("a", json!([1, 3])), ("b", json!(["u", "v", "w"]))];
        let drawn = design(Method::Random, 200, &axes);
        let points = drawn.points().expect("it is small");
        for value in 1..=3 {
            assert!(points.iter().any(|point| point[0] == json!(value)));
        }
        assert!(points.iter().all(|point| (1..=3).contains(&point[0].as_i64().unwrap_or(0))));
        assert_eq!(drawn.points().as_ref(), Ok(&points));
        assert_ne!(Design { seed: 8, ..drawn }.points(), Ok(points));
    }

    #[test]
    fn wrong_ranges_are_refused() {
        let rows = [
            (json!([]), "no values"),
            (json!([2, 1]), "least value first"),
            (json!(["1 ms", "2 s"]), "one unit"),
        ];
        for (values, why) in rows {
            let points = design(Method::Random, 2, &[("a", values)]).points();
            assert!(points.is_err_and(|said| said.contains(why)), "{why}");
        }
    }
}
