//! How several workers share one port, each with flows of its own.
//!
//! The port that was opened is share 0. It has all rings, and ring 0 has as many parts as there are
//! shares: the kernel, or the card, gives each frame of it to one of them, by the flow that the
//! frame is of. Where shares have receive queues of the interface, the other rings have as many
//! parts. The other shares are opened by the threads that have them, at any time, and again after a
//! failure; until then share 0 has their flows, unless these come by other receive queues. Each
//! share sends as well.

use super::Port;
use weir_host::error::Result;

/// The means by which threads open their shares of a port.
pub trait ShareHandle: Send + Sync {
    /// Returns how many shares the port has.
    fn shares(&self) -> usize;

    /// Returns whether each share has all rings; where not, share 0 alone has more than ring 0.
    fn has_all_rings(&self) -> bool;

    /// Opens a share, also one whose thread failed, or hangs and still has it. Frames come to it
    /// from the next call of [`Port::set_intake`] on.
    ///
    /// # Errors
    /// When the system refuses, or the interface is down or gone.
    fn open(&self, share: usize) -> Result<Box<dyn Port>>;
}
