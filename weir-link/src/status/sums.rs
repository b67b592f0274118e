//! Sums over the leaves of a direction, and over those below each class, however few of them a
//! reader is told of.
//!
//! A reader's thread makes them of the snapshot that it has; the loop does nothing for them.
//! Invariant: a leaf is counted in the sums of its direction and of each class above it, once.

use weir_core::ids::LeafId;

use super::Amount;
use super::counts::Snapshot;
use super::history::{Lent, Recents};
use super::recent::{Recent, Sums};
use super::shape::Shape;

impl Sums {
    fn add_recent(&mut self, recent: &Recent) {
        self.sent_bps += recent.second.sent_bps;
        self.lost_pps += recent.second.lost_pps;
        if recent.delay_packets > 0 {
            let longest = self.p99_us.unwrap_or_default().max(recent.delay.p99_us);
            self.p99_us = Some(longest);
        }
    }
}

/// The sums of a direction, and those of each class of its shape.
pub(super) struct LaneSums {
    pub link: Sums,
    pub classes: Vec<Sums>,
}

impl LaneSums {
    /// Those of a lane whose first leaf is number `first` of all.
    pub fn of(
        snapshot: &Snapshot,
        recents: Option<&Recents>,
        (lane, first): (usize, usize),
    ) -> Self {
        let labels = &snapshot.labels.lanes[lane];
        let shape = &labels.shape;
        let classes = vec![Sums::default(); shape.classes().len()];
        let mut sums = Self { link: Sums::default(), classes };
        for index in 0..labels.leaves.len() {
            let counts = snapshot.leaves.of(first + index);
            // A place that no class has, or another one than was counted.
            if shape.tenants().has_name(index, counts.tenant, |_| true) == Some(false) {
                continue;
            }
            let (leaf, sent) = (LeafId(index as u32), Amount::from(counts.sent()));
            let recent = recents.and_then(|recents| recents.leaf(first + index));
            sums.each_above(shape, leaf, |sums| {
                sums.leaves += 1;
                sums.sent.add(sent);
                sums.lost += counts.lost_total();
                sums.backlog.add(counts.account.backlog.into());
                if let Some((recent, _)) = recent {
                    sums.add_recent(&recent);
                }
            });
            if let Some((_, lent)) = recent {
                sums.add_loans(shape, leaf, &lent);
            }
        }
        sums
    }

    fn each_above(&mut self, shape: &Shape, leaf: LeafId, mut add: impl FnMut(&mut Sums)) {
        add(&mut self.link);
        shape.upwards(leaf).for_each(|class| add(&mut self.classes[class as usize]));
    }

    /// Adds what each lender, by its depth, lent to a leaf.
    fn add_loans(&mut self, shape: &Shape, leaf: LeafId, lent: &Lent) {
        if lent.iter().all(|bps| *bps == 0.0) {
            return;
        }
        let above = shape.above(leaf);
        for (depth, bps) in lent.iter().enumerate() {
            // The link has depth 0.
            let lender = depth.checked_sub(1).map(|at| above.get(at).map(|class| *class as usize));
            match lender {
                None => self.link.lent_bps += f64::from(*bps),
                Some(Some(class)) => self.classes[class].lent_bps += f64::from(*bps),
                Some(None) => {}
            }
        }
    }
}
