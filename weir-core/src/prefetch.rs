//! Prefetching memory before it is needed.

/// How to prefetch: by the processor's instruction, if the caller supplies it as a function, since
/// nothing waits for that; else by reading the memory.
#[derive(Clone, Copy, Default)]
pub struct Prefetch(Option<fn(*const u8)>);

impl Prefetch {
    /// Prefetches with this function, whose effect must be limited to the cache.
    pub const fn by(prefetch: fn(*const u8)) -> Self {
        Self(Some(prefetch))
    }

    /// Prefetches the cache line that holds `what`.
    // One call for each line: several at once, from a list, were measured to be slower than
    // reading.
    #[inline(always)]
    pub(crate) fn ask<T: Copy>(self, what: &T) {
        match self.0 {
            Some(prefetch) => prefetch(core::ptr::from_ref(what).cast()),
            None => {
                core::hint::black_box(*what);
            }
        }
    }

    /// Prefetches a value that may begin in one cache line and end in the next.
    #[inline(always)]
    pub(crate) fn ask_both_ends<T: Copy>(self, what: &T) {
        match self.0 {
            Some(prefetch) => {
                let begin = core::ptr::from_ref(what);
                prefetch(begin.cast());
                let last = begin.wrapping_add(1).cast::<u8>().wrapping_sub(1);
                prefetch(last);
            }
            None => {
                core::hint::black_box(*what);
            }
        }
    }
}
