//! Shares of `cbq` beside the fluid ideal in which siblings share an excess first.

mod common;

use common::saturated::Saturated;
use common::{Class, class, fluid, is_leaf, plan};
use weir_core::parameter::Params;
use weir_core::units::{Duration, Instant};

/// Packets per busy leaf that wait at any time.
const DEPTH: usize = 4;

/// The largest deviation of a leaf from its fluid share, in parts per million of that share, measured
/// over `megabytes` of the link after as many of warming up.
fn deviation(link: u64, classes: &[Class], megabytes: u64) -> f64 {
    let mut run = Saturated::new(&plan(link, 1514, Params::new(), classes), classes, DEPTH);
    let length = Duration::from_nanos(megabytes * 8_000_000_000_000_000 / link);
    let start = Instant::ZERO.after(length);
    run.sent(start);
    let sent = run.sent(start.after(length));
    let ideal = fluid::shares(link, classes);
    let leaves = (0..classes.len()).filter(|&index| is_leaf(classes, index));
    let mut worst = 0f64;
    for (leaf, index) in leaves.enumerate() {
        let expected = ideal[index] * length.as_nanos() as f64 / 8e9;
        let error = (sent[leaf] as f64 - expected).abs();
        if expected == 0.0 {
            assert_eq!(sent[leaf], 0, "an idle class sends nothing");
            continue;
        }
        worst = worst.max(error / expected * 1e6);
    }
    worst
}

/// The tree of the kernel's HTB set-up, leaves 1:2, 1:4, 1:5, 1:6, scaled to `link`.
fn three_levels(link: u64, lengths: [u32; 4]) -> Vec<Class> {
    let part = |of: u64| link / 30 * of;
    vec![
        class(None, part(2)).of(lengths[0]),
        class(None, part(28)),
        class(Some(1), part(14)).of(lengths[1]),
        class(Some(1), part(9)).of(lengths[2]),
        class(Some(1), part(5)).of(lengths[3]),
    ]
}

#[test]
fn three_levels_share_as_the_fluid_whoever_is_idle() {
    let mut worst = 0f64;
    for link in [5_000_000, 30_000_000, 100_000_000, 1_000_000_000] {
        for length in [64, 512, 1500] {
            for busy in 1u32..16 {
                let lengths = [0, 1, 2, 3].map(|leaf| if busy >> leaf & 1 == 1 { length } else { 0 });
                let ppm = deviation(link, &three_levels(link, lengths), 4);
                println!("{link} {length} {busy:04b} {ppm:.0} ppm");
                worst = worst.max(ppm);
            }
        }
    }
    println!("worst {worst:.0} ppm");
    assert!(worst < 5_000.0, "{worst:.0} ppm off the fluid ideal");
}
