//! How frames are sorted into rings changes while a port runs.
//!
//! The kernel takes some milliseconds to exchange the program that chooses a ring, so another
//! thread does it ([`SortHandle`]) while the loop receives. The loop begins before
//! ([`super::Port::begin_sorting`]) and ends after it ([`super::Port::end_sorting`]). Invariant:
//! frames of one flow are taken in the order in which they came, by whichever rings.

use super::afpacket::Receiver;
use crate::sorter::Sorting;
use weir_host::error::Result;

/// The half of a port by which a thread that moves no frames changes how the kernel sorts them.
pub trait SortHandle: Send + Sync {
    /// Makes the rings that the port lacks to have so many; no frame comes by them yet.
    ///
    /// # Errors
    /// When the system refuses, or the port is gone.
    fn make_rings(&self, rings: usize) -> Result<NewRings>;

    /// Has the kernel sort frames so from now on, while the loop has begun a change.
    ///
    /// # Errors
    /// When the system refuses, or the port is gone or lacks rings; frames are then sorted as
    /// before.
    fn sort(&self, sorting: &Sorting) -> Result<()>;
}

/// Rings that were made for a port, which has not taken them up yet.
#[derive(Debug, Default)]
pub struct NewRings {
    /// How often the port had got its sockets by then.
    pub(super) epoch: u64,
    pub(super) receivers: Vec<Receiver>,
}
