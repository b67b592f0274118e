//! A link as bytes, and back: see [`crate::state`].
//!
//! Invariant: a link that was loaded and the one that was saved decide the same from then on.

use super::Link;
use super::explain::Explainer;
use crate::ids::LeafId;
use crate::packet::Head;
use crate::sched::{Discipline, Waiting};
use crate::state::{Kind, Reader, State, StateError, Writer, load_rows, open, save_rows, seal};
use alloc::boxed::Box;
use alloc::vec::Vec;

impl<S: Discipline> Link<S> {
    pub(super) fn save_all(&self, to: &mut Writer) {
        let Self {
            scheduler,
            queues,
            police,
            dropped,
            framing: _,
            charge: _,
            line,
            clock,
            now,
            due,
            explainer,
            retired,
            leaving,
            arrivals,
            looked_at,
            plan,
        } = self;
        seal(to, Kind::Link, *plan, |to| {
            now.save(to);
            due.save(to);
            line.save(to);
            clock.save(to);
            queues.save(to);
            scheduler.save(to);
            if let Some(police) = police {
                police.save(to);
            }
            save_rows(dropped, to);
            retired.save(to);
            leaving.save(to);
            looked_at.save(to);
            if let Some(arrivals) = arrivals {
                arrivals.save(to);
            }
            explainer.is_some().save(to);
            if let Some(explainer) = explainer {
                explainer.save(to);
            }
        });
    }

    pub(super) fn load_all(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let from = &mut open(from, Kind::Link, self.plan)?;
        self.now.load(from)?;
        self.due.load(from)?;
        self.line.load(from)?;
        self.clock.load(from)?;
        self.clock.fit();
        self.line.set_rate(self.clock.rate());
        if self.arrivals.is_some() {
            self.queues.follow_rate(self.clock.rate());
        }
        self.queues.load(from)?;
        self.scheduler.load(from)?;
        if let Some(police) = &mut self.police {
            police.load(from)?;
        }
        load_rows(&mut self.dropped, from, usize::MAX)?;
        self.retired.load(from)?;
        self.leaving.load(from)?;
        self.looked_at.load(from)?;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.load(from)?;
        }
        let mut explains = false;
        explains.load(from)?;
        let explainer = || Box::new(Explainer::new(self.queues.leaf_count(), self.now));
        self.explainer = explains.then(explainer);
        if let Some(explainer) = &mut self.explainer {
            explainer.load(from)?;
        }
        if !from.rest().is_empty() {
            return Err(StateError::Invalid("end of the checkpoint"));
        }
        self.check_loaded()
    }

    /// Checks what the parts assume of each other.
    fn check_loaded(&self) -> Result<(), StateError> {
        let leaves = self.queues.leaf_count();
        // No call is due before now while a packet waits.
        let is_due = self.queues.packets() == 0 || self.due >= self.now;
        let on_wire = self.leaving.iter().all(|row| row.1.index() < leaves);
        let is_leaf = self.looked_at.is_none_or(|leaf| leaf.index() < leaves);
        let in_order = self.leaving.iter().is_sorted_by_key(|row| row.0);
        let on_line = self.leaving.back().is_none_or(|row| row.0 <= self.line.finished());
        let free = self.line.ready_at().max(self.now);
        let explained = self.explainer.as_ref().is_none_or(|explainer| explainer.is_sound(free));
        // Drops and sojourns that were not taken yet may name leaves of before a change.
        if !(is_due && is_leaf && on_wire && in_order && on_line && explained) {
            return Err(StateError::Invalid("link"));
        }
        let all = || (0..leaves as u32).map(LeafId);
        let heads: Vec<Option<Head>> = all().map(|leaf| self.queues.head(leaf)).collect();
        // A held leaf is empty for the scheduler.
        let seen = |leaf| {
            if self.queues.is_held(leaf) { 0 } else { self.queues.backlog(leaf).packets as u32 }
        };
        let packets: Vec<u32> = all().map(seen).collect();
        let arrived = heads.iter().flatten().all(|head| head.arrived <= self.now);
        let waiting = Waiting { now: self.at(self.now), heads: &heads, packets: &packets };
        let agrees = arrived && self.scheduler.agrees(&waiting);
        if agrees { Ok(()) } else { Err(StateError::Invalid("scheduler")) }
    }
}
