//! The leaves that are eligible, by deadline: a heap.
//!
//! A leaf whose deadline changes while others are before it leaves its old entry behind; that is
//! found out when it comes to the top. Invariant: each eligible leaf has an entry with its deadline,
//! and there are more entries than such leaves only if some have to be looked at.

use alloc::vec::Vec;

/// The heap.
pub(super) struct Deadlines {
    entries: Vec<Entry>,
    /// Leaves that are eligible.
    eligible: u32,
}

/// A deadline and whose it is or was; of equal deadlines the first declared leaf goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Entry {
    pub(super) deadline: u64,
    pub(super) leaf: u32,
}

impl Deadlines {
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), eligible: 0 }
    }

    /// The first entry; it may have to be looked at.
    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.first()
    }

    /// Whether all entries are true.
    #[inline]
    pub(super) fn are_true(&self) -> bool {
        self.entries.len() == self.eligible as usize
    }

    /// A leaf becomes eligible.
    #[inline]
    pub(super) fn insert(&mut self, entry: Entry) {
        self.eligible += 1;
        self.push(entry);
    }

    #[inline]
    fn push(&mut self, entry: Entry) {
        let at = self.entries.len();
        self.entries.push(entry);
        self.rise(at, entry);
    }

    /// The first leaf is not eligible any longer.
    #[inline]
    pub(super) fn remove_first(&mut self) {
        self.eligible -= 1;
        self.drop_first();
    }

    /// Takes out the first entry, which is of a leaf that is not, or has another.
    #[inline]
    pub(super) fn drop_first(&mut self) {
        if let Some(last) = self.entries.pop()
            && !self.entries.is_empty()
        {
            self.sink(last);
        }
    }

    /// The first leaf has another deadline.
    #[inline]
    pub(super) fn change_first(&mut self, entry: Entry) {
        self.sink(entry);
    }

    /// Some leaf is not eligible any longer.
    pub(super) fn forget(&mut self) {
        self.eligible -= 1;
    }

    /// Some leaf has another deadline. If there are too many entries, only those that `are_true` are
    /// kept, each once.
    pub(super) fn change(&mut self, entry: Entry, is_true: impl Fn(&Entry) -> bool) {
        self.push(entry);
        if self.entries.len() > 2 * self.eligible as usize + SLACK {
            self.entries.retain(is_true);
            // What is in order is a heap.
            self.entries.sort_unstable();
            self.entries.dedup();
        }
    }

    /// The entry that is about the one after `ahead` others.
    #[inline]
    pub(super) fn about(&self, ahead: usize) -> Option<u32> {
        self.entries.get(ahead).map(|entry| entry.leaf)
    }

    #[inline]
    fn rise(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let above = (at - 1) / WAYS;
            let other = self.entries[above];
            if other <= entry {
                break;
            }
            self.entries[at] = other;
            at = above;
        }
        self.entries[at] = entry;
    }

    /// Puts an entry into the place of the first.
    #[inline]
    fn sink(&mut self, entry: Entry) {
        let mut at = 0;
        loop {
            let below = WAYS * at + 1;
            let children = self.entries[..].get(below..).unwrap_or(&[]);
            let children = &children[..children.len().min(WAYS)];
            let Some((&(mut least), rest)) = children.split_first() else { break };
            let mut place = below;
            for (index, &child) in rest.iter().enumerate() {
                if child < least {
                    (least, place) = (child, below + 1 + index);
                }
            }
            if entry <= least {
                break;
            }
            self.entries[at] = least;
            at = place;
        }
        self.entries[at] = entry;
    }
}

const WAYS: usize = 2;
/// Entries that may be left behind beside as many as there are leaves.
const SLACK: usize = 64;
