//! The packets that wait in each queue when the driver takes one, and how much a visit serves, from
//! a tap behind the scheduler.

use super::{NAMES, Row};
use crate::claims::Measured;
use std::collections::BTreeMap;
use weir_sim::Report;
use weir_sim::network::{TapReport, TapRow};

/// Adds `ROW.taken1` and `ROW.taken3`, how many packets of each queue the driver takes at one
/// instant where it takes several, on average; `ROW.counts1` and so on, what these count for the
/// dropper; `ROW.taken` of both; `ROW.visit1` and so on, the bytes of a turn; and `ROW.transit1`
/// and so on, the mean time from the sender to the hand-out by the scheduler.
pub(super) fn figures(row: &Row, report: &Report, measured: &mut Measured) {
    let find = |point: &str| {
        let mut taps = report.network.iter().flat_map(|network| &network.taps);
        taps.find(|tap| tap.point == point)
    };
    let Some(tap) = find("discipline") else { return };
    if let Some(wire) = find("wire") {
        transits(row, report, (tap, wire), measured);
    }
    let places = NAMES.map(|name| tap.class(name));
    let (mut counts, mut instants) = ([0u64; 2], 0u64);
    let several = tap.rows.chunk_by(|one, other| one.at == other.at).filter(|rows| rows.len() > 1);
    for rows in several {
        instants += 1;
        for (count, place) in counts.iter_mut().zip(places) {
            *count += rows.iter().filter(|row| Some(row.class) == place).count() as u64;
        }
    }
    let weights = [100, row.dropper_weight.unwrap_or(row.weight)];
    let mut sum = 0.0;
    for (index, name) in ["1", "3"].into_iter().enumerate() {
        if instants > 0 {
            let taken = counts[index] as f64 / instants as f64;
            sum += taken;
            measured.figure(format!("{}.taken{name}", row.name), taken, "packets");
            let counted = taken * PAYLOAD * 100.0 / f64::from(weights[index]);
            measured.figure(format!("{}.counts{name}", row.name), counted, "bytes");
        }
        if let Some(visit) = visit(tap, places[index]) {
            measured.figure(format!("{}.visit{name}", row.name), visit, "bytes");
        }
    }
    if instants > 0 {
        measured.figure(format!("{}.taken", row.name), sum, "packets");
    }
}

/// A source's delay ends on the wire: what its packets wait behind the scheduler is subtracted.
fn transits(row: &Row, report: &Report, taps: (&TapReport, &TapReport), measured: &mut Measured) {
    let key = |row: &TapRow| (row.source, row.arrived);
    let handed: BTreeMap<_, _> = taps.0.rows.iter().map(|row| (key(row), row.at)).collect();
    for (index, source) in report.sources.iter().enumerate() {
        let own = taps.1.rows.iter().filter(|row| row.source == index as u32);
        let behind = own.filter_map(|row| Some(row.at.since(*handed.get(&key(row))?).as_nanos()));
        let behind: Vec<u64> = behind.collect();
        let mean = behind.iter().sum::<u64>() as f64 / behind.len().max(1) as f64;
        let transit = (source.delay.mean.as_nanos() as f64 - mean) / 1e6;
        let name = source.name.trim_start_matches('f');
        measured.figure(format!("{}.transit{name}", row.name), transit, "ms");
    }
}

/// Returns the mean of the bytes of a class that follow each other; the first and the last turn may
/// be cut off and do not count.
fn visit(tap: &TapReport, place: Option<u32>) -> Option<f64> {
    let turns: Vec<&[TapRow]> = tap.rows.chunk_by(|one, other| one.class == other.class).collect();
    let whole = turns.get(1..turns.len().saturating_sub(1))?;
    let own = whole.iter().filter(|turn| Some(turn[0].class) == place);
    let bytes = own.clone().flat_map(|turn| turn.iter()).map(|row| u64::from(row.length));
    let count = own.count();
    (count > 0).then(|| bytes.sum::<u64>() as f64 / count as f64)
}

/// The bytes of a packet in the paper's example, which counts the payload.
const PAYLOAD: f64 = 1450.0;
