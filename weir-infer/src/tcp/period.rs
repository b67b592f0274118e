//! Periods: a player fetches a chunk of film each few seconds, however long the last one took.
//!
//! Under another policy a chunk comes sooner or later, and the next one is asked for at the same
//! time as before, unless the last one is late. A reader, who pauses after each exchange, asks
//! sooner. What tells them apart is what varies less: the time from one beginning to the next, or
//! the pause. Invariant: an exchange has a period only if it and its neighbours have begun evenly.

use super::dialogue::Exchange;
use weir_core::units::Duration;

/// Gives the exchanges of a player its period in place of their pauses.
pub fn find(exchanges: &mut [Exchange]) {
    // A beginning that had to wait for the end of the exchange before shows no period.
    let paused: Vec<usize> =
        (1..exchanges.len()).filter(|&place| exchanges[place].after >= PAUSE_MIN).collect();
    if paused.len() < BEGINNINGS_MIN {
        return;
    }
    let interval = |place: usize| {
        let [before, own] = [exchanges[place - 1].began, exchanges[place].began];
        own.since(before.min(own)).as_nanos()
    };
    let (period, uneven) = middle(paused.iter().map(|&place| interval(place)));
    let (_, varied) = middle(paused.iter().map(|&place| exchanges[place].after.as_nanos()));
    let is_even = uneven <= period / UNEVEN_PART && uneven * SURELY < varied;
    if period < PERIOD_MIN.as_nanos() || !is_even {
        return;
    }
    let period = Duration::from_nanos(period);
    for exchange in exchanges.iter_mut().skip(1) {
        exchange.every = period;
        if exchange.after >= PAUSE_MIN {
            exchange.after = Duration::ZERO;
        }
    }
}

/// Returns the median, and the median distance from it.
fn middle(values: impl Iterator<Item = u64>) -> (u64, u64) {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    let median = values.get(values.len() / 2).copied().unwrap_or(0);
    values.iter_mut().for_each(|value| *value = value.abs_diff(median));
    values.sort_unstable();
    (median, values.get(values.len() / 2).copied().unwrap_or(0))
}

/// Shorter pauses are those of the host.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// Fewer beginnings show no period.
const BEGINNINGS_MIN: usize = 3;
/// Players fetch no shorter chunks.
const PERIOD_MIN: Duration = Duration::from_millis(500);
/// The part of a period by which beginnings may be uneven.
const UNEVEN_PART: u64 = 20;
/// By how much less than pauses they vary.
const SURELY: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::units::Instant;

    /// Exchanges begin and end at these milliseconds; returns the period that is found.
    fn check(spans: &[(u64, u64)], expected: u64) {
        let millis = Duration::from_millis;
        let mut end = 0;
        let mut exchanges: Vec<_> = spans
            .iter()
            .map(|&(began, ended)| {
                let after = millis(began - end);
                end = ended;
                Exchange { after, began: Instant::ZERO.after(millis(began)), ..Exchange::default() }
            })
            .collect();
        find(&mut exchanges);
        let found = exchanges.last().map(|last| last.every);
        assert_eq!(found, Some(millis(expected)), "{spans:?}");
    }

    #[test]
    fn what_varies_less_tells_a_player_from_a_reader() {
        check(&[(0, 300), (1000, 1700), (2001, 2500), (3000, 3250), (4000, 4300)], 1000);
        // One chunk is late, and the next begins at once.
        check(&[(0, 300), (1000, 2400), (2400, 2900), (3400, 3950), (4400, 4500)], 1000);
        // Pauses of 700 ms.
        check(&[(0, 300), (1000, 1700), (2400, 2900), (3600, 3850), (4550, 4800)], 0);
        // Both are even: nothing tells.
        check(&[(0, 300), (1000, 1300), (2000, 2300), (3000, 3300), (4000, 4300)], 0);
        check(&[(0, 300), (1000, 1700), (2000, 2300)], 0);
    }
}
