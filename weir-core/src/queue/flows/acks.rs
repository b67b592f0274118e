//! Acknowledgements that a later one of their connection makes redundant, in the chain of a flow
//! `[linux]` [algorithms §9.20].
//!
//! Where a leaf filters them, each arriving segment that acknowledges looks at those before it in
//! its flow. Of the acknowledgements that it makes redundant the first is dropped, if there are
//! two of them, so that one stays between what was sent and the newest; with `aggressive` also if
//! there is one and the newest comes right behind it.
//!
//! Invariant: each segment that is kept belongs to a slot in a chain of the leaf.

use super::super::store::{NONE, Slot};
use super::{Flow, FlowQueues, Turns};
use crate::packet::Segment;
use crate::state::{Reader, State, StateError, Writer};
use alloc::collections::BTreeMap;

/// The segments that wait in a leaf; empty where nothing is filtered.
#[derive(Default)]
pub(super) struct Acks {
    filter: Option<AckFilter>,
    /// By slot; only TCP has any.
    segments: BTreeMap<u32, Segment>,
}

/// How many acknowledgements are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum AckFilter {
    /// One of two that are redundant.
    Spare,
    /// Every one that is redundant.
    Aggressive,
}

/// The place of a packet in a chain.
#[derive(Clone, Copy)]
struct Link {
    slot: u32,
    /// [`NONE`] for the first.
    before: u32,
}

/// A search of a chain, and the first redundant packet that it found.
struct Search<'a> {
    latest: &'a Segment,
    found: Option<(Link, u16)>,
}

impl Acks {
    pub(super) fn new(filter: Option<AckFilter>) -> Self {
        Self { filter, segments: BTreeMap::new() }
    }

    /// Forgets the packet in this slot, which leaves its chain.
    #[inline]
    pub(super) fn took(&mut self, slot: u32) {
        if self.filter.is_some() {
            self.segments.remove(&slot);
        }
    }

    /// Forgets all packets.
    pub(super) fn forget(&mut self) {
        self.segments.clear();
    }

    fn of(&self, slot: u32) -> Option<&Segment> {
        self.segments.get(&slot)
    }

    fn keep(&mut self, slot: u32, segment: Segment) {
        self.segments.insert(slot, segment);
    }

    /// Returns which packet the last one of a chain, in `last`, makes redundant.
    fn redundant(&self, slots: &[Slot], head: u32, last: u32) -> Option<Link> {
        let filter = self.filter?;
        let latest = self.of(last).filter(|latest| latest.acknowledges())?;
        let mut search = Search { latest, found: None };
        let mut link = Link { slot: head, before: NONE };
        // Terminates: `last` is in the chain.
        while link.slot != last {
            if let Some(segment) = self.of(link.slot).filter(|segment| segment.is_kin(latest))
                && search.is_second(link, segment)
            {
                break;
            }
            link = Link { slot: slots[link.slot as usize].next, before: link.slot };
        }
        let is_second = link.slot != last;
        let (first, echoes) = search.found?;
        let is_before_last = slots[first.slot as usize].next == last;
        let goes_alone =
            filter == AckFilter::Aggressive && is_before_last && echoes == latest.echoes();
        (is_second || goes_alone).then_some(first)
    }
}

impl Search<'_> {
    /// Looks at a segment of the connection; returns whether it is the second redundant one.
    fn is_second(&mut self, link: Link, segment: &Segment) -> bool {
        // Reports of marks that end with this segment would be lost with the one found.
        self.found = self.found.filter(|found| found.1 == segment.echoes());
        if !segment.is_redundant_beside(self.latest) {
            return false;
        }
        let is_second = self.found.is_some();
        self.found.get_or_insert((link, segment.echoes()));
        is_second
    }
}

impl FlowQueues {
    /// Returns whether the segments of packets must be passed on.
    #[inline]
    pub(in super::super) fn reads_segments(&self) -> bool {
        self.acks.filter.is_some()
    }

    /// Records the segment of the packet in `slot`, which waits in a chain.
    pub(in super::super) fn keep_segment(&mut self, slot: u32, segment: Segment) {
        self.acks.keep(slot, segment);
    }

    /// Takes the packet out of its chain that the one makes redundant which just joined, to be
    /// dropped; returns its slot.
    pub(in super::super) fn take_redundant(&mut self, slots: &mut [Slot]) -> Option<u32> {
        let flow = self.joined?;
        let Flow { head, tail, .. } = self.flows[flow as usize];
        let Link { slot, before } = self.acks.redundant(slots, head, tail)?;
        if before == NONE {
            let unchained = self.unchain(slots, flow);
            debug_assert_eq!(unchained, slot, "it is the first of its chain");
        } else {
            self.take_behind(slots, flow, (slot, before));
        }
        self.left(flow, slots[slot as usize].entry.charged);
        Some(slot)
    }

    /// Takes a packet of `flow` out of its chain that is neither the first nor the last, from
    /// behind the one `before`.
    fn take_behind(&mut self, slots: &mut [Slot], flow: u32, (slot, before): (u32, u32)) {
        if let Turns::Tins(tins) = &mut self.turns {
            tins.tables().took(flow, slots[slot as usize].entry.charged);
        }
        self.acks.took(slot);
        slots[before as usize].next = core::mem::replace(&mut slots[slot as usize].next, NONE);
    }

    /// Writes the segment of the packet in `slot`, where some are filtered.
    pub(in super::super) fn save_segment(&self, slot: u32, to: &mut Writer) {
        self.acks.of(slot).copied().save(to);
    }

    /// Reads what [`FlowQueues::save_segment`] wrote of the packets of a flow, which are put back.
    pub(in super::super) fn load_segments(
        &mut self,
        slots: &[Slot],
        flow: usize,
        from: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        let mut slot = if self.reads_segments() { self.flows[flow].head } else { NONE };
        while let Some(filled) = slots.get(slot as usize) {
            let mut segment: Option<Segment> = None;
            segment.load(from)?;
            if let Some(segment) = segment {
                self.acks.keep(slot, segment);
            }
            slot = filled.next;
        }
        Ok(())
    }
}
