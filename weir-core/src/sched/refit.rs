//! A leaf of a running scheduler gets other parameters, without a rebuild of the rest.

use crate::parameter::Params;

/// A change of one leaf while the scheduler runs.
#[derive(Clone, Copy, Debug)]
pub struct Refit<'a> {
    /// The parameters that it had; the tree has the new ones.
    pub before: &'a Params,
    /// Whether another class takes the leaf's place, which knows nothing of the one before.
    pub is_new: bool,
}
