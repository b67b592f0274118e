//! Between a run loop and the thread that changes its policies: an offer goes in, and what was
//! replaced comes back.
//!
//! Invariant: the loop takes no lock, waits for nothing, and frees nothing. Two bounded queues of
//! one place carry the parts; a second offer is made only when the first came back.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::BridgeChange;
use super::join::BridgeJoins;
use super::sort::{BridgeSort, SortedPort};
use crate::status::Labels;
use weir_host::pages;

/// A change on its way to a loop, or what it replaced on the way back.
pub(crate) enum Offer {
    /// Policies that replace those of all lanes.
    Change(Box<BridgeChange>),
    /// Classes that join and leave.
    Joins(Box<BridgeJoins>),
    /// Frames are about to be sorted otherwise, or are.
    Sort(Box<BridgeSort>),
}

/// The side of the thread that changes policies.
pub struct ChangeHandle {
    offers: SyncSender<Offer>,
    returned: Receiver<Offer>,
    /// The labels of the loop since the last offer.
    pub(super) labels: Arc<Labels>,
    /// The last policies that were replaced. Readers of the status may still have a part of it, and
    /// the loop must not be the one that frees it.
    replaced: Option<(Instant, Box<BridgeChange>)>,
    /// The last classes that came back.
    joined: Option<Box<BridgeJoins>>,
    /// The last change of the sorting that came back.
    begun: Option<Box<BridgeSort>>,
    /// Nobody waits for a change of the sorting that is on its way: it ends as soon as it begins.
    pub(super) gives_up_sort: bool,
    /// The ports whose frames the kernel sorts by the policy.
    pub(crate) sorted: Vec<SortedPort>,
    is_offered: bool,
}

/// The side of the run loop.
pub(crate) struct Inbox {
    offers: Receiver<Offer>,
    returned: SyncSender<Offer>,
}

/// The loop did not take an offer in time: it hangs or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTaken;

/// Makes the two sides for a bridge with these labels.
pub(crate) fn mailbox(labels: Arc<Labels>) -> (ChangeHandle, Inbox) {
    let (offers, offered) = sync_channel(1);
    let (back, returned) = sync_channel(1);
    let handle = ChangeHandle {
        offers,
        returned,
        labels,
        replaced: None,
        joined: None,
        begun: None,
        gives_up_sort: false,
        sorted: Vec::new(),
        is_offered: false,
    };
    (handle, Inbox { offers: offered, returned: back })
}

impl ChangeHandle {
    /// Offers a change; the loop makes it between two turns: wake it.
    ///
    /// # Panics
    /// If the change before was not taken.
    pub(super) fn offer(&mut self, offer: Offer) {
        assert!(!self.is_offered, "one change at a time");
        if let Offer::Change(change) = &offer {
            self.labels = Arc::clone(change.labels());
        }
        // A loop that ended has no use for it.
        self.is_offered = self.offers.try_send(offer).is_ok();
    }

    /// Returns what came back of classes that joined, once.
    pub(super) fn take_joined(&mut self) -> Option<Box<BridgeJoins>> {
        self.joined.take()
    }

    /// Returns the change of the sorting that came back, once.
    pub(super) fn take_sort(&mut self) -> Option<Box<BridgeSort>> {
        self.begun.take()
    }

    /// Waits until the change is made; returns when the loop made it.
    ///
    /// # Errors
    /// When the loop does not take it within `patience`. It will when it runs again.
    pub(super) fn wait(&mut self, patience: Duration) -> Result<(), NotTaken> {
        if !self.is_offered {
            return Ok(());
        }
        match self.returned.recv_timeout(patience) {
            Ok(returned) => {
                self.is_offered = false;
                match returned {
                    Offer::Change(replaced) => self.replaced = Some((Instant::now(), replaced)),
                    Offer::Joins(joins) => self.joined = Some(joins),
                    Offer::Sort(mut sort) if std::mem::take(&mut self.gives_up_sort) => {
                        sort.is_over = true;
                        self.offer(Offer::Sort(sort));
                    }
                    Offer::Sort(sort) => self.begun = Some(sort),
                }
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Err(NotTaken),
            // The loop has ended, and the link with it.
            Err(RecvTimeoutError::Disconnected) => {
                self.is_offered = false;
                Ok(())
            }
        }
    }

    /// Returns whether a change is still on its way.
    pub(super) fn is_busy(&mut self) -> bool {
        // One that was given up is offered again when it comes back, to end.
        let _later = self.wait(Duration::ZERO);
        self.is_offered
    }

    /// Frees what was replaced, once no reader can have a part of it. Call it now and then.
    pub fn tidy(&mut self) {
        if self.replaced.take_if(|(at, _)| at.elapsed() > READERS_MAX).is_some() {
            pages::give_back_released();
        }
    }
}

impl Inbox {
    /// Returns the change that is offered, if one is.
    pub(crate) fn take(&self) -> Option<Offer> {
        self.offers.try_recv().ok()
    }

    /// Waits for a change; `None` once none can come.
    #[cfg(test)]
    pub(crate) fn wait(&self) -> Option<Offer> {
        self.offers.recv().ok()
    }

    /// Gives back what the change replaced.
    pub(crate) fn give_back(&self, offer: Offer) {
        if let Err(unwanted) = self.returned.try_send(offer) {
            // The other side is gone: the process ends, and frees all.
            std::mem::forget(unwanted);
        }
    }
}

/// How long a reader may take for a status.
const READERS_MAX: Duration = Duration::from_secs(3);
