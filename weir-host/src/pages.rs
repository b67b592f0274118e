//! Memory in large pages: a link of a million leaves needs hundreds of megabytes, and every packet
//! touches another part of them. With pages of 4 KiB each such access walks the page tables too.
//!
//! Without large pages (switched off for the process, in turn with them) a packet of mixed lengths
//! costs 1.2 to 1.9 times as much with a million leaves under `htb`, `cbq` and `hfsc`, 1.2 times
//! with 53 248 under `htb` and `cbq`; with a thousand, large pages change nothing.
//!
//! An allocator for the program: large blocks begin at a large page's boundary, and the kernel is
//! asked to back them with large pages (`madvise`), which it may refuse. All other calls go to the
//! system's allocator. It counts the bytes in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with large pages for large blocks.
pub struct LargePages;

/// Bytes allocated and not yet released; 0 in a program with another allocator.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Returns the bytes that this program has allocated and not yet released, without the allocator's
/// own overhead. 0 unless [`LargePages`] is its allocator.
pub fn bytes_in_use() -> usize {
    IN_USE.load(Relaxed)
}

/// Gives back to the system what the allocator keeps of released memory. The C library keeps it for
/// each thread that ever allocated: after many changes, each on a thread of its client, that was
/// some megabytes a thread.
pub fn give_back_released() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

// SAFETY: every call goes to the system's allocator with a layout of at least the asked alignment
// and the same size, the same one for the allocation and its release, which is all that
// `GlobalAlloc` asks for.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let layout = widened(layout);
        // SAFETY: the caller's layout is not empty, and its widened form has the same size.
        let block = unsafe { System.alloc(layout) };
        count(block, layout.size());
        advise(block, layout);
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let layout = widened(layout);
        // SAFETY: as above.
        let block = unsafe { System.alloc_zeroed(layout) };
        count(block, layout.size());
        advise(block, layout);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the block came from `alloc` with this layout, so with this widened one.
        unsafe { System.dealloc(block, widened(layout)) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() < PAGE && size < PAGE {
            // SAFETY: neither layout is widened, so this is the system's own block.
            let moved = unsafe { System.realloc(block, layout, size) };
            if !moved.is_null() {
                // Wraps where the block shrinks, and the sum is still right.
                IN_USE.fetch_add(size.wrapping_sub(layout.size()), Relaxed);
            }
            return moved;
        }
        let Ok(fresh) = Layout::from_size_align(size, layout.align()) else {
            return std::ptr::null_mut();
        };
        // SAFETY: `size` is not zero, as the caller promises.
        let moved = unsafe { self.alloc(fresh) };
        if !moved.is_null() {
            // SAFETY: both blocks hold at least this many bytes and do not overlap; the old one is
            // not used after this.
            unsafe {
                std::ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
        }
        moved
    }
}

/// From now on the allocator retains released memory at its end, up to 256 MiB, for later
/// allocations: returning pages and requesting them again takes half the time of checking a large
/// policy.
pub fn keep_released() {
    #[cfg(target_env = "gnu")]
    for (parameter, bytes) in [
        (libc::M_TRIM_THRESHOLD, KEPT_MAX),
        (libc::M_MMAP_THRESHOLD, OWN_MAPPING_MIN),
        (libc::M_TOP_PAD, GROWTH),
    ] {
        // SAFETY: it sets a number of the allocator. A refusal leaves the default.
        unsafe { libc::mallopt(parameter, bytes) };
    }
}

/// Counts a new block.
fn count(block: *mut u8, size: usize) {
    if !block.is_null() {
        IN_USE.fetch_add(size, Relaxed);
    }
}

/// Returns the layout with which a large block is really allocated.
fn widened(layout: Layout) -> Layout {
    if layout.size() < PAGE { layout } else { layout.align_to(PAGE).unwrap_or(layout) }
}

fn advise(block: *mut u8, layout: Layout) {
    if block.is_null() || layout.align() < PAGE {
        return;
    }
    // SAFETY: the range lies in one block of this process. A refusal changes nothing that the
    // program can see.
    unsafe { libc::madvise(block.cast(), layout.size(), libc::MADV_HUGEPAGE) };
}

/// The most bytes that the allocator retains at its end.
#[cfg(target_env = "gnu")]
const KEPT_MAX: libc::c_int = 256 << 20;
/// Blocks of at least this many bytes are returned at once: the largest value that can be set.
#[cfg(target_env = "gnu")]
const OWN_MAPPING_MIN: libc::c_int = 32 << 20;
/// The bytes that it requests from the kernel at a time.
#[cfg(target_env = "gnu")]
const GROWTH: libc::c_int = 16 << 20;

/// The size of a large page on the machines that Weir runs on.
const PAGE: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_size_keep_their_bytes() {
        let before = bytes_in_use();
        for size in [1, 100, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE] {
            for next in [1, PAGE - 1, PAGE, 5 * PAGE] {
                let layout = Layout::from_size_align(size, 8).expect("a layout");
                // SAFETY: sizes are not zero, writes stay within them, and each block is released
                // once with its layout.
                unsafe {
                    let block = LargePages.alloc(layout);
                    assert!(!block.is_null() && block.align_offset(8) == 0);
                    *block = 7;
                    *block.add(size - 1) = 9;
                    let moved = LargePages.realloc(block, layout, next);
                    assert!(!moved.is_null());
                    assert_eq!(*moved, if size == 1 { 9 } else { 7 });
                    if next >= size {
                        assert_eq!(*moved.add(size - 1), 9);
                    }
                    assert_eq!(bytes_in_use(), before + next);
                    let layout = Layout::from_size_align(next, 8).expect("a layout");
                    LargePages.dealloc(moved, layout);
                    assert_eq!(bytes_in_use(), before);
                }
            }
        }
    }
}
