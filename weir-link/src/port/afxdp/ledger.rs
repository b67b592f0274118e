//! The slots of the pool that one receive queue of an AF_XDP port has.

use crate::pool::{FrameId, FramePool};

/// The slots of the pool that this port has.
#[derive(Default)]
pub(super) struct Ledger {
    /// For each slot, the pieces of its frame that are in flight.
    pieces: Vec<u8>,
    /// Lent slots that no ring has.
    pub spare: Vec<u32>,
    /// For each slot, whether it is lent.
    is_lent: Vec<bool>,
    pub lent: usize,
    /// Frames in flight, their pieces, and frames to be released that are no more.
    pub flying: usize,
    pub flying_pieces: usize,
    pub abandoned: Vec<FrameId>,
}

impl Ledger {
    /// Has places for so many slots.
    pub fn resize(&mut self, slots: usize) {
        self.pieces.resize(slots, 0);
        self.is_lent.resize(slots, false);
    }

    /// Has the pool lend slots until `lent_max` are lent, or it has no more.
    pub fn borrow(&mut self, pool: &mut FramePool, lent_max: usize) {
        while self.lent < lent_max {
            let Some(slot) = pool.lend() else { break };
            assert!(!self.is_lent[slot as usize], "the pool lends a slot once");
            self.is_lent[slot as usize] = true;
            self.lent += 1;
            self.spare.push(slot);
        }
    }

    /// Notes that a lent slot has a frame now.
    pub fn end_loan(&mut self, slot: u32) {
        let is_lent = &mut self.is_lent[slot as usize];
        assert!(*is_lent, "the kernel writes only to slots that were lent");
        *is_lent = false;
        self.lent -= 1;
    }

    fn lent_slots(&self) -> Vec<u32> {
        (0..).zip(&self.is_lent).filter(|(_, is_lent)| **is_lent).map(|(slot, _)| slot).collect()
    }

    /// Notes that a frame of so many pieces is in flight.
    pub fn take_off(&mut self, frame: FrameId, pieces: usize) {
        let known = &mut self.pieces[frame.0 as usize];
        assert_eq!(*known, 0, "the kernel has a frame once");
        assert!(pieces <= usize::from(u8::MAX), "a frame has fewer pieces than a packet may have");
        *known = pieces as u8;
        self.flying += 1;
        self.flying_pieces += pieces;
    }

    /// Counts a piece as sent; returns whether it was the frame's last.
    pub fn land(&mut self, frame: FrameId) -> bool {
        let pieces = &mut self.pieces[frame.0 as usize];
        assert!(*pieces > 0, "the kernel completes only what was sent");
        *pieces -= 1;
        self.flying_pieces -= 1;
        self.flying -= usize::from(*pieces == 0);
        *pieces == 0
    }

    /// Takes everything from the rings, which are no more; returns how many frames were in flight.
    pub fn abandon(&mut self) -> usize {
        self.spare = self.lent_slots();
        let flying = self.flying;
        for (slot, pieces) in (0..).zip(&mut self.pieces) {
            if *pieces > 0 {
                *pieces = 0;
                self.abandoned.push(FrameId(slot));
            }
        }
        (self.flying, self.flying_pieces) = (0, 0);
        flying
    }

    /// Gives the pool the lent slots that no ring has.
    pub fn return_spare(&mut self, pool: &mut FramePool) {
        for slot in self.spare.drain(..) {
            self.is_lent[slot as usize] = false;
            self.lent -= 1;
            pool.take_back(slot);
        }
    }
}
