//! What a run tells beside its report: each packet's fate to whoever asks, bytes per class and bin.
//!
//! Invariant: watching changes nothing in the run.

use crate::bins::Bins;
use crate::packets::{Flight, Packets};
use crate::scenario::Source;
use weir_core::event::{Departure, DropReason, Dropped};
use weir_core::sched::Tree;
use weir_core::units::{Duration, Instant};

/// What to watch in a run.
#[derive(Default)]
pub struct Watch<'a> {
    /// Explain why packets waited, and name so many of the slowest.
    pub slowest: Option<usize>,
    /// Count what each class sends in each bin of this width, from the start of the run.
    pub bins: Option<Duration>,
    /// Whom to show each packet that leaves or is dropped, from the start of the run.
    pub packets: Option<&'a mut dyn FnMut(&Fate<'_>)>,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Fate<'a> {
    /// When it left or was dropped.
    pub at: Instant,
    /// When the link was offered it.
    pub arrived: Instant,
    /// Why it was dropped; `None` if it was sent.
    pub dropped: Option<DropReason>,
    /// The class of its leaf.
    pub class: &'a str,
    /// Its source.
    pub source: &'a Source,
    /// The length of the frame.
    pub length: u32,
    /// DSCP and ECN with which it left, if these are not those it came with.
    pub marked: Option<u8>,
    /// The IP packet, if its source writes any.
    pub packet: Option<&'a [u8]>,
}

/// A watch that runs.
pub(crate) struct Watching<'a> {
    pub bins: Option<Bins>,
    pub packets: Option<&'a mut dyn FnMut(&Fate<'_>)>,
    /// The tree of the present plan.
    pub tree: &'a Tree,
    pub sources: &'a [Source],
}

impl<'a> Watching<'a> {
    /// From now on the link has this tree.
    pub fn change(&mut self, tree: &'a Tree) {
        self.tree = tree;
        if let Some(bins) = &mut self.bins {
            bins.change(tree);
        }
    }

    pub fn departed(&mut self, departure: &Departure, flight: Flight, packets: &Packets) {
        if let Some(bins) = &mut self.bins {
            bins.add(departure);
        }
        let Some(tell) = &mut self.packets else { return };
        tell(&Fate {
            at: departure.at,
            arrived: departure.arrived,
            dropped: None,
            class: &self.tree.class(self.tree.class_of(departure.leaf)).name,
            source: &self.sources[flight.source as usize],
            length: flight.length,
            marked: departure.mark.written(),
            packet: packets.bytes(departure.handle),
        });
    }

    pub fn dropped(&mut self, dropped: &Dropped, flight: Flight, packets: &Packets) {
        let Some(tell) = &mut self.packets else { return };
        tell(&Fate {
            at: dropped.at,
            arrived: dropped.arrived,
            dropped: Some(dropped.reason),
            class: &self.tree.class(self.tree.class_of(dropped.leaf)).name,
            source: &self.sources[flight.source as usize],
            length: flight.length,
            marked: None,
            packet: packets.bytes(dropped.handle),
        });
    }
}
