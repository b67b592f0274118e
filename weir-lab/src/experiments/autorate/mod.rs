//! Controllers of rates in front of modems whose capacity varies: how much of the capacity is used,
//! and how long a call waits behind the link.
//!
//! Each contender runs over each line with bulk TCP and a call each way: the controllers, a rate
//! fixed at the mean and at the 5th percentile, an oracle that knows the trace, and one that knows
//! it 100 ms late, which is near to what any rule can know that waits for answers. What a
//! contender has less than the oracle is its regret. Other loads ([`mixes`]) are run on a few
//! lines.

pub(super) mod cells;
pub(super) mod lines;
pub(super) mod mixes;

use super::{Experiment, Own};
use crate::parallel;
use crate::rows::{Row, Rows};
use cells::{Cell, Contender, TARGET, Way, cell};
use lines::{Line, lines};
use mixes::{BULK, Mix, OTHERS};
use weir_show::{Kind, Plot};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "autorate",
    summary: "controllers of a rate, fixed rates and an oracle over traces of LTE, 5G and Starlink",
    measure: None,
    own: Some(Own { draws: true, ..Own::simulated(run) }),
};

/// The cells of a line, a row for each contender.
type Cells = Vec<[(Way, Cell); 2]>;

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    let wanted = |line: &Line| rows.options.wants(&line.name);
    let lines: Vec<Line> = lines()?.into_iter().filter(wanted).collect();
    let all = measured(&lines)?;
    for (line, cells) in lines.iter().zip(&all) {
        for (contender, both) in Contender::ALL.iter().zip(cells) {
            for (way, cell) in both {
                let oracle = &cells[place(Contender::Oracle)][*way as usize].1;
                rows.add(shown(&line.name, (*contender, *way), cell, oracle));
            }
        }
    }
    rows.extend(mixed(&lines)?);
    for way in [Way::Up, Way::Down] {
        rows.extend(judged(&all, way));
        rows.results.plots.extend(plots(&lines, &all, way));
    }
    let note = "Each line is a trace or a model, in the order of the rows.";
    rows.results.notes.push(note.to_owned());
    Ok(())
}

/// Runs every contender over every line, on all processors.
fn measured(lines: &[Line]) -> Result<Vec<Cells>, String> {
    let pairs = |line| Contender::ALL.map(|contender| (line, contender));
    let asked: Vec<(&Line, Contender)> = lines.iter().flat_map(pairs).collect();
    let cells = parallel::each(&asked, |(line, contender)| cell(line, &BULK, *contender))?;
    Ok(cells.chunks(Contender::ALL.len()).map(<[_]>::to_vec).collect())
}

/// Runs the other loads over a few lines.
fn mixed(lines: &[Line]) -> Result<Vec<Row>, String> {
    let few = lines.iter().filter(|line| MIXED.contains(&line.name.as_str()));
    let pairs: Vec<(&Line, Mix)> = few.flat_map(|line| OTHERS.map(|mix| (line, mix))).collect();
    let asked: Vec<_> =
        pairs.iter().flat_map(|pair| RIVALS.map(|contender| (*pair, contender))).collect();
    let cells = parallel::each(&asked, |((line, mix), contender)| cell(line, mix, *contender))?;
    let mut rows = Vec::new();
    for ((line, mix), cells) in pairs.iter().zip(cells.chunks(RIVALS.len())) {
        let name = format!("{} with {}", line.name, mix.name);
        for way in [Way::Up, Way::Down] {
            let of = |rival: usize| &cells[rival][way as usize].1;
            let each = RIVALS.iter().enumerate();
            rows.extend(each.map(|(rival, one)| shown(&name, (*one, way), of(rival), of(0))));
        }
    }
    Ok(rows)
}

/// Formats the figures of a contender, and what the oracle has more and less.
fn shown(line: &str, (contender, way): (Contender, Way), cell: &Cell, oracle: &Cell) -> Row {
    let [half, most, slowest] = cell.delays;
    let subject = format!("{line}, {}: {}", way.word(), contender.word());
    let mut measured = format!(
        "{:.1} % used; call p50 {half:.1}, p95 {most:.1}, p99 {slowest:.1} ms; above {:.1} %",
        cell.used, cell.above
    );
    if contender != Contender::Oracle {
        let (used, late) = (oracle.used - cell.used, most - oracle.delays[1]);
        measured += &format!("; regret {used:.1} % used, p95 {late:.1} ms");
    }
    Row::shown(subject, measured)
}

/// Returns the place of a contender among all.
fn place(contender: Contender) -> usize {
    Contender::ALL.iter().position(|one| *one == contender).unwrap_or(0)
}

/// The figures that the issue of this experiment asks for.
fn judged(all: &[Cells], way: Way) -> Vec<Row> {
    let of = |contender: usize| -> Vec<Cell> {
        all.iter().map(|cells| cells[contender][way as usize].1).collect()
    };
    let (own, peer) = (of(0), of(1));
    let oracle = of(place(Contender::Oracle));
    let part = |cells: &[Cell]| {
        let parts = cells.iter().zip(&oracle);
        median(parts.map(|(cell, oracle)| cell.used / oracle.used.max(0.1) * 100.0))
    };
    let p95 = |cells: &[Cell]| median(cells.iter().map(|cell| cell.delays[1]));
    let wins =
        |(own, peer): &(&Cell, &Cell)| own.used >= peer.used && own.delays[1] <= peer.delays[1];
    let wins = own.iter().zip(&peer).filter(wins).count() as f64 * 100.0 / all.len().max(1) as f64;
    let limit = TARGET.as_nanos() as f64 / 1e6 + 5.0;
    let way = way.word();
    let medians = Contender::ALL.iter().enumerate().map(|(place, contender)| {
        let cells = of(place);
        let used = median(cells.iter().map(|cell| cell.used));
        let measured = format!(
            "{used:.1} % used, {:.0} % of the oracle's, p95 {:.1} ms",
            part(&cells),
            p95(&cells)
        );
        Row::shown(format!("{way}: medians of {}", contender.word()), measured)
    });
    let goals = vec![
        Row::at_least(format!("{way}: median of the oracle's use"), part(&own), 90.0, "%"),
        Row::at_most(format!("{way}: median of the call's p95"), p95(&own), limit, "ms"),
        Row::at_least(format!("{way}: better than cake-autorate in both"), wins, 80.0, "%"),
    ];
    medians.chain(goals).collect()
}

/// The lines of other loads: an LTE, a 5G and a Starlink line.
const MIXED: [&str; 3] =
    ["verizon-lte-short-down at 0 s", "5g-tm-down-1 at 0 s", "starlink-roam-down-1 at 0 s"];
/// The contenders there, the oracle first.
const RIVALS: [Contender; 3] = [
    Contender::Oracle,
    Contender::Controller("delay-target"),
    Contender::Controller("cake-autorate"),
];

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Draws what was used and how late calls were, a group for each line.
fn plots(lines: &[Line], all: &[Cells], way: Way) -> [Plot; 2] {
    let names: Vec<String> = (1..=lines.len()).map(|place| place.to_string()).collect();
    let draw = |title: &str, of: fn(&Cell) -> f64| {
        let plot = Plot::new(Kind::Bars, title, "line", "");
        let plot = plot.named(names.iter().map(String::as_str));
        Contender::ALL.iter().enumerate().fold(plot, |plot, (place, contender)| {
            let values = all.iter().enumerate();
            let points = values.map(|(at, cells)| (at as f64, of(&cells[place][way as usize].1)));
            plot.with(contender.word(), points.collect())
        })
    };
    let way = way.word();
    let late = draw(&format!("The call's p95 behind the link, ms, {way}"), |cell| cell.delays[1]);
    [draw(&format!("Capacity used, %, {way}"), |cell| cell.used), late]
}
