//! The seeds of random workloads.
//!
//! `cargo xtask ci` sets `WEIR_SEED` to the first 16 hexadecimal digits of the commit's hash, so
//! that each commit tries workloads that none before it tried; without it the first seed is 0.
//! `WEIR_LAWS` is the number of workloads of a law for each scheduler, by default 1000; tests that
//! try fewer try so many times more or fewer. A test that fails prints its seed, which becomes a
//! row.

use std::env;

/// The workloads of a law on a change.
pub const LAWS: u64 = 1000;

/// Returns the number of workloads of a law.
pub fn laws() -> u64 {
    number("WEIR_LAWS", 10).unwrap_or(LAWS)
}

/// Returns the first seed.
pub fn first() -> u64 {
    number("WEIR_SEED", 16).unwrap_or(0)
}

/// Returns the seeds of a test that tries `count` workloads on a change.
pub fn seeds(count: u64) -> impl Iterator<Item = u64> + Clone {
    let first = first();
    let count = u128::from(count) * u128::from(laws()) / u128::from(LAWS);
    (0..count.max(1) as u64).map(move |number| first.wrapping_add(number))
}

fn number(name: &str, radix: u32) -> Option<u64> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    let number = u64::from_str_radix(&text, radix);
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number of base {radix}")))
}
