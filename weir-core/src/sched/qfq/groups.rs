//! A group: a ring of slots of one length, from the one that starts first. It holds leaves, or
//! aggregates of leaves (`qfq_plus.rs`).

/// A group of leaves.
pub(in crate::sched) struct Group {
    /// When its first slot starts; meaningless while it is empty.
    pub(in crate::sched) start: u64,
    /// Bit `i` is set if the `i`th slot from the first holds a leaf; the first slot holds one if
    /// any does.
    pub(in crate::sched) filled: u64,
    /// A slot lasts 2^`shift` of virtual time.
    pub(in crate::sched) shift: u32,
    /// Where in the ring the first slot is.
    front: u32,
    /// The list of the ring's first place.
    lists: usize,
}

impl Group {
    pub(in crate::sched) fn new(index: usize, shift: u32) -> Self {
        Self { start: 0, filled: 0, shift, front: 0, lists: index * SLOTS }
    }

    /// The start of the slot that `tag` falls into.
    #[inline]
    pub(in crate::sched) fn round(&self, tag: u64) -> u64 {
        tag >> self.shift << self.shift
    }

    /// Returns when all leaves of the first slot are finished [qfq13 §III-B]: a leaf that starts in
    /// it has a packet that is shorter than a slot.
    #[inline]
    pub(in crate::sched) fn finish(&self) -> u64 {
        self.start + (2 << self.shift)
    }

    /// The list of the first slot.
    #[inline]
    pub(in crate::sched) fn front_list(&self) -> usize {
        self.lists + self.front as usize
    }

    /// Makes the slot that starts at `start` the first one, in a group that is empty or starts
    /// later. If the ring is too short for that, the group stays as it is: a leaf that belongs
    /// earlier shares its first slot.
    #[inline]
    pub(in crate::sched) fn begin_at(&mut self, start: u64) {
        if self.filled == 0 {
            self.start = start;
            return;
        }
        let earlier = (self.start - start) >> self.shift;
        if earlier <= u64::from(self.filled.leading_zeros()) && earlier < SLOTS as u64 {
            self.filled <<= earlier;
            self.front = (self.front + (SLOTS as u32 - earlier as u32)) % SLOTS as u32;
            self.start = start;
        }
    }

    /// Marks the slot that starts at `start` as filled; returns its list. Beyond the end of the
    /// ring it is the last one.
    #[inline]
    pub(in crate::sched) fn fill(&mut self, start: u64) -> usize {
        let slot = (start.saturating_sub(self.start) >> self.shift).min(SLOTS as u64 - 1) as u32;
        self.filled |= 1 << slot;
        self.list(slot)
    }

    /// Advances to the next filled slot, since the first one is empty now.
    #[inline]
    pub(in crate::sched) fn advance(&mut self) {
        self.filled &= !1;
        if self.filled != 0 {
            let slots = self.filled.trailing_zeros();
            self.filled >>= slots;
            self.front = (self.front + slots) % SLOTS as u32;
            self.start += u64::from(slots) << self.shift;
        }
    }

    /// Unmarks the slot with this list, which is empty now.
    pub(in crate::sched) fn clear(&mut self, list: usize) {
        let slot = (list - self.lists + SLOTS - self.front as usize) % SLOTS;
        self.filled &= !(1 << slot);
    }

    /// Returns the lists of all slots, from the first slot on.
    pub(in crate::sched) fn lists(&self) -> impl Iterator<Item = usize> + use<> {
        let (lists, front) = (self.lists, self.front as usize);
        (0..SLOTS).map(move |slot| lists + (front + slot) % SLOTS)
    }

    #[inline]
    fn list(&self, slot: u32) -> usize {
        self.lists + (self.front + slot) as usize % SLOTS
    }
}

/// The power of two that is at least `span`.
pub(in crate::sched) fn shift_of(span: u64) -> u32 {
    u64::BITS - span.saturating_sub(1).leading_zeros()
}

/// Slots of a group; the tags of backlogged leaves differ by fewer slots.
pub(in crate::sched) const SLOTS: usize = 64;
