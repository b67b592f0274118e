//! The packets that wait between the scheduler and the end of the wire, from taps on both.

use crate::claims::Measured;
use weir_sim::network::{TapReport, TapRow};

/// Adds, where taps have both points, `ROW.behind.most` and `.mean`, the bytes of IP packets that
/// are handed out and not sent yet, `.full`, the part of the time in which these are more than nine
/// tenths of the most, and `.km`, the length of a link of 45 Mbit/s that holds the most.
pub fn figures(row: &str, taps: &[TapReport], measured: &mut Measured) {
    let at = |point: &str| taps.iter().find(|tap| tap.point == point).map(|tap| &tap.rows[..]);
    let (Some(handed), Some(sent)) = (at("discipline"), at("wire")) else { return };
    let steps = steps(handed, sent);
    let [Some(first), Some(last)] = [steps.first(), steps.last()] else { return };
    let span = (last.0 - first.0).max(1) as f64;
    let most = steps.iter().map(|step| step.1).max().unwrap_or(0);
    let (mut area, mut full) = (0.0, 0.0);
    for pair in steps.windows(2) {
        let time = (pair[1].0 - pair[0].0) as f64;
        area += pair[0].1 as f64 * time;
        full += if pair[0].1 * 10 > most * 9 { time } else { 0.0 };
    }
    measured.figure(format!("{row}.behind.most"), most as f64, "bytes");
    measured.figure(format!("{row}.behind.mean"), area / span, "bytes");
    measured.figure(format!("{row}.behind.full"), 100.0 * full / span, "%");
    let km = most as f64 * 8.0 / T3 * LIGHT_IN_FIBRE;
    measured.figure(format!("{row}.behind.km"), km, "km");
}

/// Returns from when on how many bytes are behind the scheduler. Packets stay in order there; those
/// that were handed out before the record begins count once they are the first on the wire.
fn steps(handed: &[TapRow], sent: &[TapRow]) -> Vec<(u64, i64)> {
    let Some(first) = handed.first() else { return Vec::new() };
    let same = |row: &TapRow| (row.arrived, row.source) == (first.arrived, first.source);
    let before = sent.iter().position(same).unwrap_or(sent.len());
    let bytes = |row: &TapRow| i64::from(row.length.saturating_sub(ETHERNET));
    let mut inside: i64 = sent[..before].iter().map(bytes).sum();
    let begin = first.at.as_nanos();
    let comes = handed.iter().map(|row| (row.at.as_nanos(), bytes(row)));
    let goes = sent.iter().map(|row| (row.at.as_nanos(), -bytes(row)));
    let mut changes: Vec<(u64, i64)> = comes.chain(goes).collect();
    // What comes counts before what goes at the same instant.
    changes.sort_by_key(|&(at, change)| (at, -change));
    let mut steps = Vec::with_capacity(changes.len());
    for (at, change) in changes {
        inside += change;
        if at >= begin {
            steps.push((at, inside));
        }
    }
    steps
}

/// Bytes of a frame beside the IP packet.
const ETHERNET: u32 = 14;
/// bit/s of the link that the paper names.
const T3: f64 = 45e6;
/// km in a second: two thirds of the speed of light.
const LIGHT_IN_FIBRE: f64 = 200_000.0;

#[cfg(test)]
mod tests {
    use super::steps;
    use weir_core::units::Instant;
    use weir_sim::network::TapRow;

    #[test]
    fn what_was_handed_out_before_the_record_is_behind_the_scheduler_at_first() {
        let row = |arrived: u64, at: u64| TapRow {
            at: Instant::from_nanos(at),
            arrived: Instant::from_nanos(arrived),
            class: 0,
            source: 0,
            length: 114,
        };
        let handed = [row(5, 10), row(6, 20)];
        let sent = [row(4, 15), row(5, 25), row(6, 35)];
        let expected = [(10, 200), (15, 100), (20, 200), (25, 100), (35, 0)];
        assert_eq!(steps(&handed, &sent), expected);
    }
}
