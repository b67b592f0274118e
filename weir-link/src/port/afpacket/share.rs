//! How several threads share a port of packet sockets, each with flows of its own.
//!
//! All sockets that receive are one fanout group, whose program gives each share its flows. The
//! first share has the rings of guaranteed classes as well, and follows the interface: when that
//! comes back as another one, the first share's sockets are made anew, and then those of the
//! others. The kernel numbers the members of a group anew when one leaves, so none leaves while the
//! group is in use: what a thread had that gave up its share is kept for the next one.
//!
//! Invariant: the numbers of the members are those that the kernel has, the order of joining.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::sort::{Shared, Sharing, lock};
use super::{AfPacket, Made, Receiver, read_whole};
use crate::authority::{PassedDescriptors, PortRequest, Reply, misfit};
use crate::port::{Port, PortConfig, ShareHandle};
use crate::sorter::{Places, Sorting};
use weir_host::error::{Result, SystemError};
use weir_host::{fanout, socket};

/// The part of a port that one thread has.
pub(super) struct Share {
    /// The first is 0.
    pub number: usize,
    /// The epoch that its sockets are of.
    epoch: u64,
    /// Whether the program gives frames to its sockets.
    has_places: bool,
}

impl Share {
    /// The first share, whose sockets were made with the group.
    pub fn first(epoch: u64) -> Self {
        Self { number: 0, epoch, has_places: true }
    }
}

/// The members of the fanout group of a port.
pub(super) struct Group {
    pub places: Places,
    /// How frames are sorted.
    pub sorting: Sorting,
    /// How many sockets have joined.
    members: u8,
    /// Rings, with the number of their share, that no thread has.
    kept: Vec<(usize, Vec<Receiver>)>,
    /// Copies of sockets that would leave the group if a change of the sorting were given up.
    held: Vec<OwnedFd>,
}

impl Group {
    /// A group of these rings alone.
    pub fn new(config: &PortConfig, receivers: &mut [Receiver]) -> Self {
        let sorting = config.sorting.clone().unwrap_or_else(Sorting::into_one);
        let places = Places::in_order(config.shares);
        let mut group = Self { places, sorting, members: 0, kept: Vec::new(), held: Vec::new() };
        group.number(receivers);
        group
    }

    /// Gives sockets that have just joined their numbers.
    pub fn number(&mut self, receivers: &mut [Receiver]) {
        for receiver in receivers {
            receiver.place = self.members;
            self.members += 1;
        }
    }

    /// As [`Group::number`], of rings that the port may yet not take up. They stay members, so that
    /// those of shares keep their numbers.
    pub fn number_new(&mut self, receivers: &mut [Receiver]) -> io::Result<()> {
        if !self.places.others.is_empty() {
            let copies = receivers.iter().map(|receiver| receiver.socket.try_clone());
            self.held.extend(copies.collect::<io::Result<Vec<_>>>()?);
        }
        self.number(receivers);
        Ok(())
    }

    /// Takes rings of a share that no thread has.
    fn take_kept(&mut self, share: usize) -> Vec<Receiver> {
        let kept = self.kept.iter().position(|(of, _)| *of == share);
        kept.map_or(Vec::new(), |at| self.kept.swap_remove(at).1)
    }
}

impl Shared {
    /// From now on has other sockets, which are no group as yet.
    pub fn begin_anew(&mut self, first: OwnedFd, config: &PortConfig, made: &mut [Receiver]) {
        let sorting = self.group.sorting.clone();
        let group = Group { sorting, ..Group::new(config, made) };
        // Rings that no thread has are of no use any more.
        (self.first, self.rings, self.group) = (first, made.len(), group);
        (self.is_sorting, self.epoch) = (false, self.epoch + 1);
    }

    /// Returns whether there is a group, at an interface that exists.
    fn has_group(&self) -> bool {
        let is_bound = || socket::bound_interface(self.first.as_fd()).is_ok_and(|index| index > 0);
        self.is_sorting && is_bound()
    }
}

/// See [`ShareHandle`].
pub(super) struct Sharers {
    config: PortConfig,
    sharing: Sharing,
}

impl Sharers {
    pub fn of(port: &AfPacket) -> Self {
        // The intake is opened by whoever opens the share.
        let config = PortConfig { intake: false, ..port.config.clone() };
        Self { config, sharing: Arc::clone(&port.sharing) }
    }
}

impl ShareHandle for Sharers {
    fn shares(&self) -> usize {
        self.config.shares
    }

    fn has_all_rings(&self) -> bool {
        false
    }

    fn open(&self, share: usize) -> Result<Box<dyn Port>> {
        Ok(Box::new(open(&self.config, &self.sharing, share)?))
    }
}

/// Opens a share, whose sockets get no frame until its intake is set.
fn open(config: &PortConfig, sharing: &Sharing, number: usize) -> Result<AfPacket> {
    let mut shared = lock(sharing);
    let (made, has_places) = match (shared.has_group(), number) {
        (true, _) => (shared.join(number)?, false),
        (false, 0) => (shared.open_anew(config)?, true),
        (false, _) => {
            let action = format!("share the port on `{}`", config.interface);
            return Err(SystemError::refused(action, "its first share is not open", ""));
        }
    };
    let share = Share { number, epoch: shared.epoch, has_places };
    drop(shared);
    let mut port = AfPacket::of(config.clone(), Arc::clone(sharing), share, made)?;
    port.discard_waiting();
    Ok(port)
}

impl Shared {
    /// Makes what a share needs beside the rings that were kept of it.
    fn join(&mut self, share: usize) -> Result<Made> {
        let name = self.interface.clone();
        let failed = |cause| SystemError::new(format!("share the port on `{name}`"), cause);
        let mut kept = self.group.take_kept(share);
        let (from, to) = (kept.len(), if share == 0 { self.rings } else { 1 });
        let mut ask = || {
            let first = self.first.try_clone().map_err(failed)?;
            let reply = self.authority.ask(PortRequest::Share { from, to }, vec![first])?;
            let Reply::Packet(parts) = reply.reply else { return Err(misfit(&name)) };
            let mut parcel = PassedDescriptors::new(reply.descriptors, &name);
            Made::of(parts, &mut parcel, &name).and_then(|made| match made.receivers.len() {
                count if from + count == to => Ok(made),
                _ => Err(misfit(&name)),
            })
        };
        let asked = ask();
        match asked {
            Ok(mut made) => {
                self.group.number(&mut made.receivers);
                kept.append(&mut made.receivers);
                Ok(Made { receivers: kept, ..made })
            }
            Err(error) => {
                self.group.kept.push((share, kept));
                Err(error)
            }
        }
    }

    /// Makes all sockets of the first share, as if there had been none.
    fn open_anew(&mut self, config: &PortConfig) -> Result<Made> {
        let name = self.interface.clone();
        let reply = self.authority.ask(PortRequest::Open { intake: false }, Vec::new())?;
        let Reply::Packet(parts) = reply.reply else { return Err(misfit(&name)) };
        let is_sorting = parts.is_sorting;
        let mut parcel = PassedDescriptors::new(reply.descriptors, &name);
        let mut made = Made::of(parts, &mut parcel, &name)?;
        self.begin_anew(made.first(&name)?, config, &mut made.receivers);
        self.is_sorting = is_sorting;
        Ok(made)
    }
}

impl AfPacket {
    /// Has the group's program give frames to the sockets of this share, if it does not.
    pub(super) fn take_places(&mut self) -> Result<()> {
        if self.share.has_places {
            return Ok(());
        }
        let mut shared = lock(&self.sharing);
        let action = || format!("share the port on `{}`", self.config.interface);
        if shared.epoch != self.share.epoch {
            return Err(SystemError::refused(action(), "the interface came back meanwhile", ""));
        }
        let mut places = shared.group.places.clone();
        match self.share.number {
            0 => {
                let rings = places.rings.iter_mut().zip(&self.receivers);
                rings.for_each(|(place, receiver)| *place = receiver.place);
            }
            other => places.others[other - 1] = Some(self.receivers[0].place),
        }
        let program = shared.group.sorting.classic_to(&places);
        let set = fanout::set_program(shared.first.as_fd(), &program);
        set.map_err(|cause| SystemError::new(action(), cause))?;
        shared.group.places = places;
        self.share.has_places = true;
        Ok(())
    }

    /// Returns whether the first share has sockets of a later epoch.
    pub(super) fn is_left_behind(&self) -> bool {
        // A thread that holds it for long must not hold up this one.
        self.sharing.try_lock().is_ok_and(|shared| shared.epoch != self.share.epoch)
    }

    /// Opens this share again, at the interface that the first one has now.
    pub(super) fn rejoin(&mut self) -> Result<()> {
        let mut fresh = open(&self.config, &self.sharing, self.share.number)?;
        fresh.set_intake(self.intake)?;
        self.count_lost(true);
        fresh.counters = self.counters;
        *self = fresh;
        Ok(())
    }

    /// Counts as lost, and gives up, the frames in rings that another thread had before.
    fn discard_waiting(&mut self) {
        self.count_lost(true);
        for receiver in &mut self.receivers {
            while let Some(slot) = receiver.ring.front() {
                if slot.is_queued_whole {
                    let _lost = read_whole(receiver.socket.as_fd(), &mut self.scratch);
                }
                receiver.ring.release();
            }
        }
    }
}

impl Drop for AfPacket {
    fn drop(&mut self) {
        if self.config.shares == 1 {
            return;
        }
        let mut shared = lock(&self.sharing);
        if shared.epoch == self.share.epoch && shared.is_sorting {
            let receivers = std::mem::take(&mut self.receivers);
            shared.group.kept.push((self.share.number, receivers));
        }
    }
}
