//! How AF_XDP sockets sort frames changes: the half that another thread has, and how the loop goes
//! over from one set of sockets to the other.
//!
//! A port that sorts has two sets of sockets, with a ring each. The program that is attached hands
//! frames to one set; another program, put in its place, hands them to the other. So what was
//! sorted as before is apart from what is sorted as now, and the loop takes all of the first before
//! any of the second. Each receive queue goes over by itself.

use std::sync::Weak;

use super::share::Shared;
use super::{AfXdp, Live};
use crate::authority::PortRequest;
use crate::port::{NewRings, Port, SortHandle};
use crate::sorter::Sorting;
use weir_host::error::{Result, SystemError};
use weir_host::wait::monotonic_ns;

/// See [`SortHandle`].
pub(super) struct Handle(pub Weak<Shared>);

impl SortHandle for Handle {
    fn make_rings(&self, _rings: usize) -> Result<NewRings> {
        // It has them all.
        Ok(NewRings::default())
    }

    fn sort(&self, sorting: &Sorting) -> Result<()> {
        let gone = || SystemError::refused(ACTION, "its port is closed", "");
        let shared = self.0.upgrade().ok_or_else(gone)?;
        let mut authority = shared.authority();
        authority.sort_by(sorting.clone());
        let (link, set) = {
            let state = shared.state();
            // Without a program, the next one that is attached sorts so.
            let Some(attached) = &state.link else { return Ok(()) };
            let link = attached.link.try_clone();
            (link.map_err(|cause| SystemError::new(ACTION, cause))?, 1 - state.set)
        };
        authority.ask(PortRequest::Exchange { set }, vec![link])?;
        shared.state().set = set;
        Ok(())
    }
}

/// Where the loop takes frames, and whether it goes over to the other set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sets {
    /// The set of which frames are taken.
    pub current: usize,
    /// A change was begun and has not ended.
    is_changing: bool,
    /// Since when frames come to the other set, at the latest; `None` while they need not.
    since_ns: Option<u64>,
}

impl Sets {
    /// Where frames come to this set.
    pub fn at(current: usize) -> Self {
        Self { current, ..Self::default() }
    }

    /// Returns whether a change is on its way.
    pub fn are_both_in_use(&self) -> bool {
        self.is_changing || self.since_ns.is_some()
    }
}

impl AfXdp {
    /// See [`Port::begin_sorting`].
    pub(super) fn begin_change(&mut self) -> bool {
        self.look_beside();
        let is_free = !self.sets.are_both_in_use();
        self.sets.is_changing |= is_free;
        is_free
    }

    /// See [`Port::end_sorting`].
    pub(super) fn end_change(&mut self, retired: u8) {
        self.read_kernel_counts();
        self.counters.retire_rings(retired);
        self.sets.is_changing = false;
        if self.sharing.state().set != self.sets.current {
            self.sets.since_ns.get_or_insert_with(monotonic_ns);
        }
    }

    /// Notices frames in the set of which none are taken.
    pub(super) fn look_beside(&mut self) {
        let others = self.places(1 - self.sets.current);
        let Some(live) = &mut self.live else { return };
        let received = live.queue.received.get_mut(others).into_iter().flatten();
        if self.sets.since_ns.is_none() && received.fold(false, |any, ring| any | ring.is_ready()) {
            self.sets.since_ns = Some(monotonic_ns());
        }
    }

    /// Goes over to the other set once frames come to it and none of before are left. The kernel
    /// shows the frames that it took in one go socket by socket, so those of before may appear a
    /// moment later than the first of now.
    pub(super) fn go_over(&mut self) {
        if self.sets.is_changing {
            self.look_beside();
        }
        let is_settled = |since: u64| monotonic_ns().saturating_sub(since) >= SETTLED_NS;
        if !self.sets.since_ns.is_some_and(is_settled) {
            return;
        }
        let places = self.places(self.sets.current);
        if let Some(Live { queue, partial, .. }) = &mut self.live {
            let mut rings = queue.received[places.clone()].iter_mut();
            let some = rings.any(|ring| ring.is_ready());
            if some || partial[places].iter().any(Option::is_some) {
                return;
            }
        }
        (self.sets.current, self.sets.since_ns) = (1 - self.sets.current, None);
    }

    /// Returns the places of the rings of a set.
    pub(super) fn places(&self, set: usize) -> std::ops::Range<usize> {
        let rings = self.rings();
        set * rings..(set + 1) * rings
    }
}

const ACTION: &str = "sort frames into rings otherwise";
/// How long the kernel may take to show what it has taken: many times a poll of a driver.
const SETTLED_NS: u64 = 1_000_000;
