//! A leaf of a running scheduler gets other parameters, without a rebuild of the rest.

use crate::parameter::{BuildError, Params};
use core::fmt;

/// What becomes of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Refit<'a> {
    /// The parameters that it had; the tree has the new ones.
    pub before: &'a Params,
    /// Whether another class takes the leaf's place, which knows nothing of the one before.
    pub is_new: bool,
}

/// Why a leaf cannot be refitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefitError {
    /// It takes a whole change of the link ([`Change`](crate::link::Change)), for this reason.
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
