//! Who is to come into a ring that is asked for rarely, noted but not yet put into it.
//!
//! A leaf that may borrow belongs into the ring of its parent whenever something waits in it, but
//! while leaves live on their own rates nobody asks that ring: most come and go unseen, and to put
//! them in and take them out would touch the nodes of their neighbours, all far away. So the ring
//! is told of them by a chain of notes, each in a node of its own, and gets those that are still
//! there, in the order in which they came, before it is asked. Who goes leaves its note, and uses
//! it when it comes again. After a ring was asked some go straight into it. Invariant: there are
//! at most [`NOTES_MAX`] notes, so that no packet pays for more.

/// Who is noted for one ring, and how many there are in it or noted for it.
#[derive(Clone, Copy)]
pub(super) struct Comers {
    /// The last note, [`NONE`] if there is none.
    top: u32,
    /// How many of the ring something waits in, those in it and those that are noted.
    present: u32,
    /// How many came since there was no note.
    came: u16,
    notes: u8,
    /// How many more go straight into the ring, since it was asked not long ago.
    straight: u8,
}

impl Comers {
    /// Nobody.
    pub const NONE: Comers = Comers { top: NONE, present: 0, came: 0, notes: 0, straight: 0 };

    /// One more came: the number of its coming.
    #[inline]
    pub const fn come(&mut self) -> u32 {
        let came = self.came;
        // Whoever is noted is put into the ring before there is no number left.
        self.came += 1;
        came as u32
    }

    /// `node` has the last note now; answers who had it.
    #[inline]
    pub const fn put(&mut self, node: u32) -> u32 {
        self.notes += 1;
        core::mem::replace(&mut self.top, node)
    }

    /// The ring is asked: whether somebody is noted.
    #[inline]
    pub const fn ask(&mut self) -> bool {
        self.straight = STRAIGHT;
        self.top != NONE
    }

    /// Whether who comes goes straight into the ring.
    #[inline]
    pub const fn goes_straight(&mut self) -> bool {
        let straight = self.straight > 0 && self.top == NONE;
        self.straight = self.straight.saturating_sub(1);
        straight
    }

    /// Whether there is no room for another note.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.notes >= NOTES_MAX as u8 || self.came == u16::MAX
    }

    /// Who has the last note, the others after it; then there is none.
    #[inline]
    pub const fn take(&mut self) -> Option<u32> {
        (self.notes, self.came) = (0, 0);
        let top = core::mem::replace(&mut self.top, NONE);
        if top == NONE { None } else { Some(top) }
    }

    /// One more is present; answers whether nobody was.
    #[inline]
    pub const fn enter(&mut self) -> bool {
        self.present += 1;
        self.present == 1
    }

    /// One fewer is; answers whether nobody is any more.
    #[inline]
    pub const fn leave(&mut self) -> bool {
        self.present -= 1;
        self.present == 0
    }
}

/// As many notes as one packet may have to put into a ring.
pub(super) const NOTES_MAX: usize = 128;
/// So many go straight into a ring after it was asked, for it is likely to be asked again.
const STRAIGHT: u8 = 16;
/// Nobody.
const NONE: u32 = u32::MAX;
