//! The reasons for which a scenario cannot run.

use crate::bins::BIN_CELLS_MAX;
use std::fmt;
use weir_core::parameter::BuildError;
use weir_core::units::Duration;

/// Why a scenario cannot run.
#[derive(Clone, PartialEq, Debug)]
pub enum RunError {
    /// The link cannot be built.
    Link(BuildError),
    /// The scenario ends before its warm-up does.
    NothingCounts(Duration, Duration),
    /// The headers of a TCP source are not those of a connection; holds its name and why.
    Endpoints(String, &'static str),
    /// Two sources have one name, and would draw the same random numbers.
    NameTwice(String),
    /// Bins of this width would be too many.
    Bins(Duration),
    /// The network contradicts itself or its sources; says how.
    Network(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Link(error) => error.fmt(f),
            RunError::NothingCounts(warmup, duration) => write!(
                f,
                "the warm-up of {warmup} leaves nothing of the duration of {duration} to report; \
                 lengthen `duration` or shorten `warmup`"
            ),
            RunError::Endpoints(name, why) => {
                write!(f, "source {name}: {why}; give it the headers of a connection")
            }
            RunError::NameTwice(name) => {
                write!(f, "two sources are called `{name}`; give each a name of its own")
            }
            RunError::Bins(width) => write!(
                f,
                "bins of {width} are more than {BIN_CELLS_MAX} numbers over all classes; widen them"
            ),
            RunError::Network(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}
