//! How often the scheduler pauses, what ends its pauses, and how many packets follow each other
//! between them.

use crate::claims::Measured;
use std::collections::BTreeSet;
use weir_core::sched::Tree;
use weir_sim::network::{TapReport, TapRow};

/// Adds, of a tap behind the scheduler, `ROW.pauses`, pauses a second of more than one and a half
/// packets on the line; `ROW.by-arrival`, the part of them that ends as a packet arrives,
/// `ROW.by-sent`, as one has left the wire, where that has a tap, and `ROW.by-timer`, at any other
/// instant; and the packets between pauses, on average: `ROW.after-idle` behind pauses of a second
/// or more, `ROW.steady` behind shorter ones.
pub fn figures(row: &str, taps: &[TapReport], tree: &Tree, measured: &mut Measured) {
    let Some(tap) = taps.iter().find(|tap| tap.point == "discipline") else { return };
    let [Some(first), Some(last)] = [tap.rows.first(), tap.rows.last()] else { return };
    let rate = tree.rate().bits_per_second() as f64;
    let seconds = last.at.since(first.at).as_nanos() as f64 / 1e9;
    let bits = |row: &TapRow| f64::from(row.length.saturating_sub(ETHERNET)) * 8.0;
    let pause = |pair: &[TapRow]| pair[1].at.since(pair[0].at).as_nanos() as f64 / 1e9;
    let is_pause = |pair: &&[TapRow]| pause(pair) > 1.5 * bits(&pair[0]) / rate;
    let arrivals: BTreeSet<_> = tap.rows.iter().map(|row| row.arrived).collect();
    let pauses: Vec<&[TapRow]> = tap.rows.windows(2).filter(is_pause).collect();
    let wire = taps.iter().filter(|tap| tap.point == "wire").flat_map(|tap| &tap.rows);
    let sent: BTreeSet<_> = wire.map(|row| row.at).collect();
    let mut ends = [0u32; 3];
    for pair in &pauses {
        let at = pair[1].at;
        ends[if arrivals.contains(&at) { 0 } else { 2 - usize::from(sent.contains(&at)) }] += 1;
    }
    let count = pauses.len() as f64;
    measured.figure(format!("{row}.pauses"), count / seconds.max(1e-9), "a second");
    for (name, ends) in ["by-arrival", "by-sent", "by-timer"].into_iter().zip(ends) {
        if !pauses.is_empty() {
            measured.figure(format!("{row}.{name}"), 100.0 * f64::from(ends) / count, "%");
        }
    }
    // Runs by the pause before them; the last may be cut off.
    let (mut idle, mut steady) = ((0u64, 0u64), (0u64, 0u64));
    let (mut length, mut before) = (1, None);
    for pair in tap.rows.windows(2) {
        if !is_pause(&pair) {
            length += 1;
            continue;
        }
        let sum = match before {
            Some(long) if long >= IDLE => Some(&mut idle),
            Some(_) => Some(&mut steady),
            None => None,
        };
        if let Some((packets, runs)) = sum {
            *packets += length;
            *runs += 1;
        }
        (length, before) = (1, Some(pause(pair)));
    }
    for (name, (packets, runs)) in [("after-idle", idle), ("steady", steady)] {
        if runs > 0 {
            let mean = packets as f64 / runs as f64;
            measured.figure(format!("{row}.{name}"), mean, "packets");
        }
    }
}

/// Bytes of a frame beside the IP packet.
const ETHERNET: u32 = 14;
/// A long idle time in seconds.
const IDLE: f64 = 1.0;
