//! A link whose busy leaves are never empty: each packet that leaves is replaced.

use super::{Class, is_leaf};
use weir_core::event::{Departure, Poll};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::units::Instant;

/// A link in a run.
pub struct Saturated {
    link: Box<dyn AnyLink>,
    now: Instant,
    /// The length of the next packet of each leaf.
    lengths: Vec<u32>,
}

impl Saturated {
    /// Builds the link of `plan`; each leaf of `classes` that has packets holds `depth` of them.
    pub fn new(plan: &LinkPlan, classes: &[Class], depth: usize) -> Self {
        let leaves = (0..classes.len()).filter(|&index| is_leaf(classes, index));
        let lengths: Vec<_> = leaves.map(|index| classes[index].packet).collect();
        let link = plan.build().expect("a plan of a test can be built");
        let mut run = Self { link, now: Instant::ZERO, lengths };
        for leaf in 0..run.lengths.len() {
            (0..depth).for_each(|_| run.offer(LeafId(leaf as u32)));
        }
        run
    }

    /// Gives `leaf` packets of `length` from now on; 0 lets it become empty.
    pub fn set_length(&mut self, leaf: usize, length: u32, depth: usize) {
        let was_idle = std::mem::replace(&mut self.lengths[leaf], length) == 0;
        if was_idle {
            (0..depth).for_each(|_| self.offer(LeafId(leaf as u32)));
        }
    }

    /// Runs until `until`, calling `each` for every packet that leaves.
    pub fn run(&mut self, until: Instant, mut each: impl FnMut(&Departure)) {
        loop {
            match self.link.poll(self.now) {
                Poll::Packet(departure) => {
                    each(&departure);
                    self.offer(departure.leaf);
                }
                Poll::At(instant) if instant <= until => self.now = instant,
                _ => break,
            }
        }
        self.now = until;
    }

    /// Returns the charged bytes sent per leaf from now until `until`.
    pub fn sent(&mut self, until: Instant) -> Vec<u64> {
        let mut sent = vec![0; self.lengths.len()];
        self.run(until, |departure| sent[departure.leaf.index()] += departure.charged.get());
        sent
    }

    fn offer(&mut self, leaf: LeafId) {
        let length = self.lengths[leaf.index()];
        if length > 0 {
            self.link.offer(self.now, leaf, Packet::new(Handle(0), length));
        }
    }
}
