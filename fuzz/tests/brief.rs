//! Runs every target briefly.

use weir_fuzz::{TARGETS, brief};

#[test]
fn no_target_fails_on_its_seeds_and_their_mutations() {
    for (name, target) in TARGETS {
        let seeds = brief::run(name, *target, 20_000);
        println!("{name}: {seeds} seeds");
    }
}

#[test]
#[should_panic(expected = "found")]
fn an_error_close_to_a_seed_is_found() {
    // An Ethernet frame of IPv6 with a changed version: only a mutation makes one.
    brief::run(
        "packet",
        |input| assert!(input.get(16).is_none_or(|byte| *byte != 0x7f), "found"),
        20_000,
    );
}
