//! The parts that the receive queues of one interface share, and which thread has which queue.
//!
//! Each receive queue has sockets of its own, over the same memory, and a port of its own
//! ([`AfXdp`]); where a thread has several of them they are joined (`several.rs`). None depends on
//! another but in the program, of which an interface has one: it hands frames to the sockets of all
//! queues. Queue 0 attaches it, when its own sockets are bound, and attaches it again at another
//! interface; it stays until the last sockets are closed, or the intake is.
//!
//! The card chooses a queue for each frame by its flow, so frames of one flow keep their order.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::AfXdp;
use super::several::Several;
use crate::authority::{Authority, XdpParts};
use crate::port::{Port, PortConfig, ShareHandle};
use weir_host::error::{Result, SystemError};

/// The parts that the receive queues share, with each other and with the thread that changes the
/// sorting.
pub(super) struct Shared {
    /// Locked before the state, and for as long as sockets are made: a queue that moves frames
    /// needs it only when the interface or the intake changed.
    authority: Mutex<Box<dyn Authority>>,
    state: Mutex<State>,
    /// Asks about the interface.
    socket: OwnedFd,
    /// The authority's first reply.
    pub parts: XdpParts,
}

/// The part of it that changes.
#[derive(Default)]
pub(super) struct State {
    /// Keeps the program attached; `None` while the intake is closed.
    pub link: Option<Attached>,
    /// The set of sockets to which the program hands frames.
    pub set: usize,
    /// The number of the maps into which sockets are entered. Those of another authority are
    /// others.
    pub maps: u64,
    /// How many queues have sockets that are bound.
    pub live: usize,
}

/// The program, attached.
pub(super) struct Attached {
    pub link: OwnedFd,
    /// The number of the interface.
    pub index: u32,
    /// Whether it takes frames in several chunks.
    pub pieces: bool,
    /// The number of its maps.
    pub maps: u64,
    /// The interface may have gone and come back without it.
    pub is_stale: bool,
}

/// [`Shared`], for several threads.
pub(super) type Sharing = Arc<Shared>;

impl Shared {
    pub fn new(authority: Box<dyn Authority>, socket: OwnedFd, parts: XdpParts) -> Sharing {
        let (authority, state) = (Mutex::new(authority), Mutex::default());
        Arc::new(Self { authority, state, socket, parts })
    }

    pub fn authority(&self) -> MutexGuard<'_, Box<dyn Authority>> {
        self.authority.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn socket(&self) -> Result<OwnedFd> {
        self.socket.try_clone().map_err(|cause| SystemError::new("share an AF_XDP port", cause))
    }

    /// Notes that the sockets of a queue are about to be closed: with the last of them the program
    /// goes.
    pub fn end_queue(&self) {
        let mut state = self.state();
        assert!(state.live > 0, "a queue ends once");
        state.live -= 1;
        if state.live == 0 {
            state.link = None;
        }
    }
}

/// See [`ShareHandle`].
pub(super) struct Sharers {
    config: PortConfig,
    keyword: &'static str,
    sharing: Sharing,
}

impl Sharers {
    pub fn of(port: &AfXdp) -> Self {
        // The intake is opened by whoever opens the share.
        let config = PortConfig { intake: false, ..port.config.clone() };
        Self { config, keyword: port.keyword, sharing: Arc::clone(&port.sharing) }
    }
}

impl ShareHandle for Sharers {
    fn shares(&self) -> usize {
        shares(&self.config, &self.sharing.parts)
    }

    fn has_all_rings(&self) -> bool {
        true
    }

    fn open(&self, share: usize) -> Result<Box<dyn Port>> {
        open(&self.config, self.keyword, &self.sharing, share)
    }
}

/// Returns how many threads share a port: at most one for each queue.
pub(super) fn shares(config: &PortConfig, parts: &XdpParts) -> usize {
    config.shares.clamp(1, parts.queues.max(1) as usize)
}

/// Opens a share: its receive queues are those whose numbers leave its own when they are divided by
/// the number of shares.
pub(super) fn open(
    config: &PortConfig,
    keyword: &'static str,
    sharing: &Sharing,
    share: usize,
) -> Result<Box<dyn Port>> {
    let shares = shares(config, &sharing.parts);
    let numbers = (share as u32..sharing.parts.queues.max(1)).step_by(shares);
    let queue = |number| AfXdp::of(config.clone(), keyword, Arc::clone(sharing), number);
    let mut queues = numbers.map(queue).collect::<Result<Vec<_>>>()?;
    Ok(match queues.len() {
        1 => Box::new(queues.swap_remove(0)),
        _ => Box::new(Several::new(queues)),
    })
}
