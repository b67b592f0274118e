//! How packet sockets sort frames changes: the half that another thread has, and the order in which
//! the loop takes frames meanwhile.
//!
//! The kernel exchanges the program of the group at once, and what it has put into rings by then
//! stays there. So frames of a flow may wait in the ring of before and, later ones, in that of now.
//! From before the exchange on, the loop takes frames of all rings in the order of their stamps;
//! after it, as many as waited in each ring when it was told of the end. What comes later waits
//! for those, and is sorted by one program.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::share::Group;
use super::{AfPacket, RINGS_MAX, Receiver};
use crate::authority::{Authority, PassedDescriptors, PortRequest, Reply, misfit};
use crate::port::{NewRings, SortHandle};
use crate::sorter::Sorting;
use weir_host::error::{Result, SystemError};
use weir_host::fanout;

/// The parts that a port and the thread that changes its sorting share.
pub(super) struct Shared {
    pub authority: Box<dyn Authority>,
    /// A copy of the first receiving socket, by which the program of the group is set.
    pub first: OwnedFd,
    /// Whether the sockets are a group.
    pub is_sorting: bool,
    /// How many rings there are.
    pub rings: usize,
    pub group: Group,
    /// How often the port got its sockets, or made a group of them.
    pub epoch: u64,
    pub interface: String,
}

/// [`Shared`], for two threads. The loop needs it only when the interface changed.
pub(super) type Sharing = Arc<Mutex<Shared>>;

pub(super) fn lock(sharing: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    sharing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See [`SortHandle`].
pub(super) struct Handle(pub Weak<Mutex<Shared>>);

impl Handle {
    fn port(&self) -> Result<Sharing> {
        let gone = || SystemError::refused(ACTION, "its port is closed", "");
        self.0.upgrade().ok_or_else(gone)
    }
}

impl SortHandle for Handle {
    fn make_rings(&self, rings: usize) -> Result<NewRings> {
        let port = self.port()?;
        let mut shared = lock(&port);
        let (from, epoch) = (shared.rings, shared.epoch);
        if rings <= from {
            return Ok(NewRings { epoch, ..NewRings::default() });
        }
        let failed = |cause| SystemError::new(ACTION, cause);
        let member = shared.is_sorting.then(|| shared.first.try_clone()).transpose();
        let passed = member.map_err(failed)?.into_iter().collect();
        let request = PortRequest::MakeRings { from, to: rings };
        let reply = shared.authority.ask(request, passed)?;
        let Reply::Packet(parts) = reply.reply else { return Err(misfit(&shared.interface)) };
        let mut parcel = PassedDescriptors::new(reply.descriptors, &shared.interface);
        let map = |shape| Receiver::map(parcel.next()?, shape).map_err(failed);
        let mut receivers = parts.rings.into_iter().map(map).collect::<Result<Vec<_>>>()?;
        if from + receivers.len() != rings {
            return Err(misfit(&shared.interface));
        }
        shared.group.number_new(&mut receivers).map_err(failed)?;
        Ok(NewRings { epoch, receivers })
    }

    fn sort(&self, sorting: &Sorting) -> Result<()> {
        let port = self.port()?;
        let mut shared = lock(&port);
        if shared.rings < sorting.rings() {
            let why = format!("`{}` came back meanwhile", shared.interface);
            return Err(SystemError::refused(ACTION, why, "try again"));
        }
        if shared.is_sorting {
            let program = sorting.classic_to(&shared.group.places);
            let set = fanout::set_program(shared.first.as_fd(), &program);
            set.map_err(|cause| SystemError::new(ACTION, cause))?;
        }
        shared.group.sorting = sorting.clone();
        // For sockets that are made anew.
        shared.authority.sort_by(sorting.clone());
        Ok(())
    }
}

/// The order in which frames are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Those of a ring, as the loop asks for.
    #[default]
    ByRing,
    /// Those of all rings, the earliest first.
    ByStamp,
    /// The same, but only so many more of each ring.
    Rest([u32; RINGS_MAX]),
}

impl Order {
    /// Returns whether frames of this ring may be taken.
    fn has(&self, ring: usize) -> bool {
        !matches!(self, Self::Rest(rest) if rest[ring] == 0)
    }

    /// Notes that a frame of this ring was taken.
    fn took(&mut self, ring: usize) {
        if let Self::Rest(rest) = self {
            rest[ring] -= 1;
        }
    }
}

impl AfPacket {
    /// See [`crate::port::Port::begin_sorting`].
    pub(super) fn begin(&mut self, made: &mut NewRings) -> bool {
        let mut shared = lock(&self.sharing);
        if made.epoch != shared.epoch || self.order != Order::ByRing {
            return false;
        }
        let withheld = self.config.withheld;
        for receiver in made.receivers.drain(..) {
            if self.intake && fanout::refuse_only(receiver.socket.as_fd(), withheld).is_err() {
                return false;
            }
            shared.group.places.rings[self.receivers.len()] = receiver.place;
            self.receivers.push(receiver);
        }
        shared.rings = self.receivers.len();
        self.order = Order::ByStamp;
        true
    }

    /// See [`crate::port::Port::end_sorting`].
    pub(super) fn end(&mut self, retired: u8) {
        self.count_lost(false);
        self.counters.retire_rings(retired);
        if self.order == Order::ByStamp {
            let mut rest = [0; RINGS_MAX];
            for (rest, receiver) in rest.iter_mut().zip(&self.receivers) {
                *rest = receiver.ring.waiting() as u32;
            }
            self.order = Order::Rest(rest);
        }
    }

    /// Returns the ring whose frame came first, of those from which one may be taken.
    pub(super) fn earliest(&mut self) -> Option<usize> {
        let stamp = |ring: usize| {
            let stamp = self.receivers[ring].ring.stamp().filter(|_| self.order.has(ring));
            stamp.map(|stamp| (stamp, ring))
        };
        let earliest = (0..self.receivers.len()).filter_map(stamp).min().map(|(_, ring)| ring);
        match earliest {
            Some(ring) => self.order.took(ring),
            None if self.order != Order::ByStamp => self.order = Order::ByRing,
            None => {}
        }
        earliest
    }
}

const ACTION: &str = "sort frames into rings otherwise";
