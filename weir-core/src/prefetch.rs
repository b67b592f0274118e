//! Asking for memory before it is needed.

/// How memory is asked for: by the processor's prefetch, if whoever runs the link lends it, for
/// nothing waits for that; else by reading it.
#[derive(Clone, Copy, Default)]
pub struct Prefetch(Option<fn(*const u8)>);

impl Prefetch {
    /// By this function, which may do whatever does not show with the line at an address.
    pub const fn by(prefetch: fn(*const u8)) -> Self {
        Self(Some(prefetch))
    }

    /// Asks for the line that holds `what`.
    // One call a line: many at once, from a list, were measured to be slower than reading.
    #[inline(always)]
    pub(crate) fn ask<T: Copy>(self, what: &T) {
        match self.0 {
            Some(prefetch) => prefetch(core::ptr::from_ref(what).cast()),
            None => {
                core::hint::black_box(*what);
            }
        }
    }

    /// The same for something that may begin in one line and end in the next.
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
