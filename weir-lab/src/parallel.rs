//! Work that is done on all processors, with results in the order of what was asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Returns what `work` makes of each item.
///
/// # Errors
/// The first error in the order of the items.
pub fn each<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let Some((place, item)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            items.get(place).map(|item| (place, item))
        } {
            done.push((place, work(item)));
        }
        done
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut done = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        let joined = all.into_iter().flat_map(|one| one.join().expect("a run does not panic"));
        joined.collect::<Vec<_>>()
    });
    done.sort_by_key(|row| row.0);
    done.into_iter().map(|row| row.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_the_first_error_wins() {
        let items: Vec<u32> = (0..100).collect();
        let all = each(&items, |item| Ok::<u32, String>(item * 2)).expect("none fails");
        assert!(all.iter().copied().eq((0..100).map(|item| item * 2)));
        let fails = |item: &u32| if item % 40 == 39 { Err(*item) } else { Ok(()) };
        assert_eq!(each(&items, fails), Err(39));
    }
}
