//! Periods: a player fetches a chunk of film each few seconds, however long the last one took.
//!
//! Under another policy a chunk comes sooner or later, and the next one is asked for at the same
//! time as before, unless the last one is late. A reader, who pauses after each exchange, asks
//! sooner. What tells them apart is what varies less: the time from one beginning to the next, or
//! the pause. A player that was seen from its start fetched chunks at once until its buffer was
//! full: then even beginnings suffice, and how much it holds follows from when it asks. Invariant:
//! an exchange has a period only if it and its neighbours have begun evenly.

use super::dialogue::Exchange;
use weir_core::units::Duration;

/// Gives the exchanges of a player its period in place of their pauses; returns how much it holds,
/// if its start tells.
pub fn find(exchanges: &mut [Exchange]) -> Option<Duration> {
    // A beginning that had to wait for the end of the exchange before shows no period.
    let paused: Vec<usize> =
        (1..exchanges.len()).filter(|&place| exchanges[place].after >= PAUSE_MIN).collect();
    if paused.len() < BEGINNINGS_MIN {
        return None;
    }
    let (period, buffer) = match filled(exchanges, &paused) {
        Some((period, buffer)) => (period, Some(buffer)),
        None => (even(exchanges, &paused)?, None),
    };
    for exchange in exchanges.iter_mut().skip(usize::from(buffer.is_none())) {
        exchange.every = period;
        if exchange.after >= PAUSE_MIN {
            exchange.after = Duration::ZERO;
        }
    }
    buffer
}

/// Returns the period of exchanges that begin more evenly than they pause.
fn even(exchanges: &[Exchange], paused: &[usize]) -> Option<Duration> {
    let (period, uneven) = middle(paused.iter().map(|&place| interval(exchanges, place)));
    let (_, varied) = middle(paused.iter().map(|&place| exchanges[place].after.as_nanos()));
    let is_even = uneven <= period / UNEVEN_PART && uneven * SURELY < varied;
    Some(Duration::from_nanos(period)).filter(|period| is_even && *period >= PERIOD_MIN)
}

/// Returns the period of a player that was seen while it filled its buffer, and how much it holds
/// at most: what it had not shown when it asked for another chunk, and that chunk. Chunks before
/// came faster than they are shown. It shows the first from its end on, which is when it asked for
/// the second.
fn filled(exchanges: &[Exchange], paused: &[usize]) -> Option<(Duration, Duration)> {
    let mut sorted: Vec<u64> =
        (1..exchanges.len()).map(|place| interval(exchanges, place)).collect();
    sorted.sort_unstable();
    let fast_max = sorted[sorted.len() * 3 / 4] / 4 * 3;
    let is_fast = |place: &usize| interval(exchanges, *place) < fast_max;
    let fast = (1..exchanges.len()).take_while(is_fast).count();
    let then: Vec<usize> = paused.iter().copied().filter(|place| *place > fast).collect();
    if fast == 0 || then.len() < BEGINNINGS_MIN || !are_alike(exchanges) {
        return None;
    }
    let (period, uneven) = middle(then.iter().map(|&place| interval(exchanges, place)));
    let begin = exchanges[1].began;
    let held = then.iter().map(|&place| {
        let shown = begin.after(Duration::from_nanos(period * (place as u64 + 1)));
        shown.since(exchanges[place].began.min(shown)).as_nanos()
    });
    let (held, is_even) = (middle(held).0.max(period), uneven <= period / UNEVEN_PART);
    let [period, held] = [period, held].map(Duration::from_nanos);
    (is_even && period >= PERIOD_MIN).then_some((period, held))
}

/// Returns the time from the beginning of the exchange before.
fn interval(exchanges: &[Exchange], place: usize) -> u64 {
    let [before, own] = [exchanges[place - 1].began, exchanges[place].began];
    own.since(before.min(own)).as_nanos()
}

/// Returns whether all responses but the last, which may be cut, are about as long.
fn are_alike(exchanges: &[Exchange]) -> bool {
    let whole = exchanges.iter().rev().skip(1).map(|exchange| exchange.down);
    let (least, most) = (whole.clone().min().unwrap_or(0), whole.max().unwrap_or(0));
    least > 0 && most <= least.saturating_mul(ALIKE)
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
/// How many times as long as the shortest chunk the longest may be.
const ALIKE: u64 = 4;
/// By how much less than pauses they vary.
const SURELY: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::units::Instant;

    /// Exchanges begin and end at these milliseconds; returns the period that is found.
    fn check(spans: &[(u64, u64)], expected: u64, buffer: Option<u64>) {
        let millis = Duration::from_millis;
        let mut end = 0;
        let mut exchanges: Vec<_> = spans
            .iter()
            .map(|&(began, ended)| {
                let after = millis(began - end);
                end = ended;
                let began = Instant::ZERO.after(millis(began));
                Exchange { after, began, down: 1000, ..Exchange::default() }
            })
            .collect();
        assert_eq!(find(&mut exchanges), buffer.map(millis), "{spans:?}");
        let found = exchanges.last().map(|last| last.every);
        assert_eq!(found, Some(millis(expected)), "{spans:?}");
    }

    #[test]
    fn what_varies_less_tells_a_player_from_a_reader() {
        check(&[(0, 300), (1000, 1700), (2001, 2500), (3000, 3250), (4000, 4300)], 1000, None);
        // One chunk is late, and the next begins at once.
        check(&[(0, 300), (1000, 2400), (2400, 2900), (3400, 3950), (4400, 4500)], 1000, None);
        // Pauses of 700 ms.
        check(&[(0, 300), (1000, 1700), (2400, 2900), (3600, 3850), (4550, 4800)], 0, None);
        // Both are even: nothing tells.
        check(&[(0, 300), (1000, 1300), (2000, 2300), (3000, 3300), (4000, 4300)], 0, None);
        check(&[(0, 300), (1000, 1700), (2000, 2300)], 0, None);
    }

    #[test]
    fn how_a_player_starts_tells_what_it_holds() {
        // It shows from 300 ms on, and asks when less than two of three seconds are left.
        let start = [(0, 300), (300, 600), (600, 900), (1300, 1600), (2300, 2600)];
        let on = [(3300, 3600), (4300, 4600), (5300, 5400)];
        check(&[&start[..], &on].concat(), 1000, Some(3000));
        // Two requests of a page without a pause, and then even pauses: a player, too.
        check(&[&start[..2], &[(1800, 2000)]].concat(), 0, None);
    }
}
