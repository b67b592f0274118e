//! Words that the kernel marks when the thread that holds them ends, however it ends.
//!
//! They are robust futexes (set_robust_list(2)): a thread gives the kernel a list of words, and
//! each that contains the thread's number gets a bit when the thread exits or is killed. That is
//! the first thing which the end of a thread does: before its memory and its sockets are released,
//! which takes a large process a quarter of a second, and long before its parent is notified. A
//! program in the kernel that shares the words sees the bit with the next frame.
//!
//! Invariant: a word contains 0, the number of a thread that holds it, or the mark of one that
//! ended while it held it.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::bpf::Map;
use crate::error::{Result, SystemError};

/// The bit of a word whose thread ended (<linux/futex.h>, `FUTEX_OWNER_DIED`).
pub const OWNER_DIED: u32 = 1 << 30;
/// The most words that a table has: one for each bridge of a deployment.
pub const WORDS_MAX: usize = 64;

/// A table of words in a map that programs in the kernel read, too.
#[derive(Debug)]
struct Table {
    memory: NonNull<c_void>,
}

// SAFETY: the memory is mapped until the table is dropped, and is used by atomics only.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// A word, which a thread may hold.
#[derive(Clone, Debug)]
pub struct Word {
    table: Arc<Table>,
    index: usize,
}

/// The kernel watches this thread for a word; dropping it ends that and empties the word.
#[derive(Debug)]
pub struct Watched<'a> {
    word: &'a Word,
    /// The kernel reads it when the thread ends, so it must not move.
    list: Box<List>,
    /// A list belongs to its thread.
    of_thread: PhantomData<*const ()>,
}

/// `struct robust_list_head` of <linux/futex.h>, and its one entry.
#[derive(Debug)]
#[repr(C)]
struct List {
    first: usize,
    /// From an entry to its word.
    offset: isize,
    pending: usize,
    /// `struct robust_list`: the next entry, or the head at the end.
    entry: usize,
}

/// Returns the words of a map that was made by [`Map::shared`] with [`WORDS_MAX`] entries.
///
/// # Errors
/// When the descriptor is of something else, or the system refuses.
pub fn words(map: BorrowedFd<'_>) -> Result<Vec<Word>> {
    // SAFETY: a new mapping at a place that the kernel chooses overlaps nothing.
    let mapped = unsafe {
        let (protection, flags) = (
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::SHARED,
        );
        rustix::mm::mmap(ptr::null_mut(), LEN, protection, flags, map, 0)
    };
    let action = "map the words that tell of a death";
    let memory = mapped.map_err(|cause| SystemError::new(action, cause.into()))?;
    let memory = NonNull::new(memory).expect("the kernel maps nothing at zero");
    let table = Arc::new(Table { memory });
    Ok((0..WORDS_MAX).map(|index| Word { table: Arc::clone(&table), index }).collect())
}

impl Word {
    /// Has the kernel watch this thread for the word.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn watch(&self) -> Result<Watched<'_>> {
        let mut list = Box::new(List { first: 0, offset: 0, pending: 0, entry: 0 });
        let (head, entry) = (ptr::from_ref(&*list).addr(), ptr::from_ref(&list.entry).addr());
        (list.first, list.entry) = (entry, head);
        list.offset = ptr::from_ref(self.atomic()).addr().wrapping_sub(entry).cast_signed();
        set_list(head)?;
        Ok(Watched { word: self, list, of_thread: PhantomData })
    }

    /// This thread, which is watched for it, holds the word from now on.
    pub fn hold(&self) {
        self.atomic().store(this_thread(), Ordering::SeqCst);
    }

    /// Empties the word if this thread holds it.
    pub fn release(&self) {
        let own = this_thread();
        let _of_another =
            self.atomic().compare_exchange(own, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    fn atomic(&self) -> &AtomicU32 {
        assert!(self.index < WORDS_MAX, "a word of the table");
        // SAFETY: the place lies in the mapping, is aligned, and others use it by atomics only.
        unsafe { self.table.memory.byte_add(self.index * Map::SHARED_STRIDE).cast().as_ref() }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.word.release();
        set_list(0).expect("the kernel takes the length that it took before");
        debug_assert_eq!(self.list.pending, 0, "no entry is ever pending");
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no word outlives the table.
        let _unmapped = unsafe { rustix::mm::munmap(self.memory.as_ptr(), LEN) };
    }
}

fn this_thread() -> u32 {
    // SAFETY: gettid takes nothing.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Has the kernel read the list at `head` when this thread ends, or none at 0. It stands for the
/// one of the C library, whose robust mutexes nothing here uses.
fn set_list(head: usize) -> Result<()> {
    let len = size_of::<List>() - size_of::<usize>();
    // SAFETY: the list stays where it is until another one is set: `Watched` owns it.
    match unsafe { libc::syscall(libc::SYS_set_robust_list, head, len) } {
        0 => Ok(()),
        _ => Err(SystemError::last("set the list of words that tell of a death")),
    }
}

/// The length of the mapping.
const LEN: usize = WORDS_MAX * Map::SHARED_STRIDE;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::thread;

    /// A table in ordinary shared memory, which needs no privilege.
    fn table() -> Vec<Word> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("words", flags).expect("memory");
        rustix::fs::ftruncate(&file, LEN as u64).expect("memory");
        words(file.as_fd()).expect("a table")
    }

    /// Runs a thread until the kernel has ended it.
    fn run_to_the_end(run: impl FnOnce() + Send) {
        thread::scope(|scope| scope.spawn(run).join()).expect("no panic");
    }

    fn value(word: &Word) -> u32 {
        word.atomic().load(Ordering::SeqCst)
    }

    #[test]
    fn a_word_tells_how_its_thread_ended() {
        let check = |end: fn(&Word, Watched<'_>), expected: u32| {
            let words = table();
            for word in [&words[0], &words[WORDS_MAX - 1]] {
                run_to_the_end(|| end(word, word.watch().expect("a list")));
                assert_eq!(value(word), expected);
                // Another one may hold it afterwards.
                let watched = word.watch().expect("a list");
                word.hold();
                assert_eq!(value(word), this_thread());
                drop(watched);
                assert_eq!(value(word), 0);
            }
        };
        check(|_, watched| drop(watched), 0);
        check(|_, watched| std::mem::forget(watched), 0);
        check(|word, watched| (word.hold(), drop(watched)).1, 0);
        let dies = |word: &Word, watched: Watched<'_>| (word.hold(), std::mem::forget(watched)).1;
        check(dies, OWNER_DIED);
        let lets_go = |word: &Word, watched: Watched<'_>| {
            word.hold();
            word.release();
            std::mem::forget(watched);
        };
        check(lets_go, 0);
    }

    #[test]
    fn a_word_that_another_thread_holds_stays() {
        let words = table();
        let watched = words[3].watch().expect("a list");
        words[3].hold();
        run_to_the_end(|| {
            std::mem::forget(words[3].watch().expect("a list"));
            words[3].release();
        });
        assert_eq!(value(&words[3]), this_thread());
        drop(watched);
    }
}
