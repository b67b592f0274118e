//! Runs every target briefly: `WEIR_FUZZ` mutations of its seeds, 400 if absent. `WEIR_SEED` is the
//! first seed in hexadecimal, 0 if absent; `cargo xtask ci` sets it to the commit's hash.

use weir_fuzz::{TARGETS, brief};

#[test]
fn no_target_fails_on_its_seeds_and_their_mutations() {
    let mutations = number("WEIR_FUZZ", 10).map_or(400, |number| number as u32);
    let first = number("WEIR_SEED", 16).unwrap_or(0);
    for (name, target) in TARGETS {
        let seeds = brief::run(name, *target, mutations, first);
        println!("{name}: {seeds} seeds");
    }
}

fn number(name: &str, base: u32) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    let number = u64::from_str_radix(&text, base);
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number of base {base}")))
}

#[test]
#[should_panic(expected = "found")]
fn an_error_close_to_a_seed_is_found() {
    // An Ethernet frame of IPv6 with a changed version: only a mutation makes one.
    brief::run(
        "packet",
        |input| assert!(input.get(16).is_none_or(|byte| *byte != 0x7f), "found"),
        20_000,
        0,
    );
}
