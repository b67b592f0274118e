//! The parameters of an algorithm, and the values that a plan gives them.
//!
//! Policy checks, CLI help, schema and docs are derived from these tables; no other list exists.

use crate::ids::ClassId;
use crate::units::{Bytes, Dimension, Duration, Quantity, Rate};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Where a parameter is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Once for the link: `[link.KEYWORD]`.
    Link,
    /// In any class, leaf or not.
    Class,
    /// Only in a class without children.
    Leaf,
    /// In the `queue` table of a leaf.
    Queue,
    /// In the `police` table of a class or a rule.
    Meter,
}

/// The values that a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A quantity of this dimension.
    Quantity(Dimension),
    /// A whole number between two bounds, both included.
    Number(u64, u64),
    /// A size in bytes between two bounds, both included.
    Size(u64, u64),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A number of packets or of bytes.
    Limit,
}

/// One row of an algorithm's parameter table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// The keyword in a policy.
    pub name: &'static str,
    /// Where it is written.
    pub scope: Scope,
    /// The values that it takes.
    pub kind: Kind,
    /// The value if it is not written; `None` if it must be written.
    pub default: Option<&'static str>,
    /// One sentence for lists and the reference.
    pub summary: &'static str,
}

/// The value of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Value {
    /// A quantity, a number among them.
    Quantity(Quantity),
    /// The value of a [`Kind::Flag`].
    Flag(bool),
    /// One of the words of [`Kind::Choice`].
    Choice(&'static str),
}

/// The values written for one place, by name. Absent means default.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Params(Vec<(&'static str, Value)>);

/// Why an algorithm cannot be built from a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildError {
    /// The class at fault, if a single class is.
    pub class: Option<ClassId>,
    /// The parameter at fault, if a single parameter is.
    pub parameter: Option<&'static str>,
    /// The value, the limit and the cure.
    pub message: String,
}

impl Params {
    /// No values, so each parameter has its default.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets a value, replacing an earlier one.
    pub fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|row| row.0 == name) {
            Some(row) => row.1 = value,
            None => self.0.push((name, value)),
        }
    }

    /// Adds a quantity; for plans written in code.
    pub fn with(mut self, name: &'static str, quantity: Quantity) -> Self {
        self.set(name, Value::Quantity(quantity));
        self
    }

    /// Returns the value written for `name`.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.0.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Returns whether each parameter has its default.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all values written.
    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.0.iter()
    }

    /// Returns the quantity written for `name`.
    pub fn quantity(&self, name: &str) -> Option<Quantity> {
        match self.value(name)? {
            Value::Quantity(quantity) => Some(quantity),
            _ => None,
        }
    }

    /// Returns the rate written for `name`.
    pub fn rate(&self, name: &str) -> Option<Rate> {
        match self.quantity(name)? {
            Quantity::Rate(rate) => Some(rate),
            _ => None,
        }
    }

    /// Returns the size written for `name`.
    pub fn bytes(&self, name: &str) -> Option<Bytes> {
        match self.quantity(name)? {
            Quantity::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the duration written for `name`.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        match self.quantity(name)? {
            Quantity::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    /// Returns the number written for `name`.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.quantity(name)? {
            Quantity::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the flag written for `name`.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// Returns the word written for `name`.
    pub fn choice(&self, name: &str) -> Option<&'static str> {
        match self.value(name)? {
            Value::Choice(word) => Some(word),
            _ => None,
        }
    }
}

impl BuildError {
    /// An error about one parameter of one class.
    pub fn in_class(class: ClassId, parameter: &'static str, message: String) -> Self {
        Self { class: Some(class), parameter: Some(parameter), message }
    }

    /// An error about a parameter of the link or of a queue.
    pub fn in_link(parameter: &'static str, message: String) -> Self {
        Self { class: None, parameter: Some(parameter), message }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for BuildError {}

/// Why a leaf cannot be refitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefitError {
    /// It takes a change of the whole link, for this reason.
    NeedsChange(&'static str),
    /// The values contradict each other, as a whole change would say, too.
    Refused(BuildError),
}

impl From<BuildError> for RefitError {
    fn from(error: BuildError) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Display for RefitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsChange(reason) => write!(f, "needs a change of the whole link: {reason}"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RefitError {}
