//! The brief run: a target's seeds, then seeded mutations of them, on any toolchain.
//!
//! It does not search, as it does not measure coverage; it finds errors close to well-formed input,
//! in every build, with the same inputs in every run from the same first seed.

use std::fs;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::thread;

use weir_core::random;

use crate::Target;

/// Runs the target on its seeds and then on `mutations` inputs mutated from the seed `first` on,
/// shared among the processors; returns the number of seeds.
///
/// # Panics
/// If the target does, after printing the input to standard error; or if there are no seeds.
pub fn run(name: &str, target: Target, mutations: u32, first: u64) -> usize {
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "target {name} has no seeds: add some to fuzz/corpus/{name}/");
    for seed in &seeds {
        attempt(name, target, seed);
    }
    let shares = thread::available_parallelism().map_or(1, NonZero::get) as u32;
    thread::scope(|scope| {
        let work = |share| {
            let seeds = &seeds;
            scope.spawn(move || {
                // Each thread makes all inputs, so that they are the same on every machine.
                let mut random = Random(random::Random::new(0x57e1_2f1d ^ first, 0));
                for number in 0..mutations {
                    let input = mutated(&mut random, seeds);
                    if number % shares == share {
                        attempt(name, target, &input);
                    }
                }
            })
        };
        let threads: Vec<_> = (0..shares).map(work).collect();
        for thread in threads {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    seeds.len()
}

fn attempt(name: &str, target: Target, input: &[u8]) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) else { return };
    eprintln!("target {name} failed on these {} bytes:\n{input:02x?}", input.len());
    resume_unwind(panic);
}

/// Returns the committed seeds in the order of their names; inputs that libFuzzer found here are
/// left out, or two checkouts would run different inputs.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = fs::read_dir(&folder).expect("every target has a folder in fuzz/corpus");
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seed"));
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a seed can be read")).collect()
}

fn mutated(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(CHANGES_MAX) {
        change(random, &mut input, seeds);
    }
    input.truncate(INPUT_MAX);
    input
}

fn change(random: &mut Random, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = random.below(input.len() + 1);
    let end = at + random.below(input.len() - at + 1).min(SPAN_MAX);
    match random.below(6) {
        0 => input.truncate(at),
        1 => drop(input.drain(at..end)),
        2 => input.insert(at, random.next() as u8),
        3 => input.extend_from_within(at..end),
        4 => {
            let other = &seeds[random.below(seeds.len())];
            input.splice(at..end, other[random.below(other.len() + 1)..].iter().copied());
        }
        _ => replace(random, input, at),
    }
}

/// Replaces a byte: by any, by one with one bit flipped, or by an extreme value.
fn replace(random: &mut Random, input: &mut [u8], at: usize) {
    let Some(byte) = input.get_mut(at) else { return };
    *byte = match random.below(3) {
        0 => random.next() as u8,
        1 => *byte ^ 1 << random.below(8),
        _ => [0, 1, 0x7f, 0x80, 0xfe, 0xff][random.below(6)],
    };
}

/// Seeded draws of mutations.
struct Random(random::Random);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

const CHANGES_MAX: usize = 8;
/// The longest run of bytes that one change removes or repeats.
const SPAN_MAX: usize = 64;
/// Repetition and splicing stop growing an input here.
const INPUT_MAX: usize = 1 << 16;
