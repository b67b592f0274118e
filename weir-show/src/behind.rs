//! The picture of a bottleneck behind a link: its capacity, what was used of it, and its queue.

use crate::picture::{Content, Key, Part};
use crate::plot::{Kind, Plot, Style};
use weir_sim::behind::BehindReport;
use weir_sim::network::AutorateReport;
use weir_sim::report::Report;

/// Returns a part for each bottleneck of a run.
pub fn parts(report: &Report) -> Vec<Part> {
    let Some(network) = &report.network else {
        let alone = report.behind.iter();
        return alone.map(|behind| part("Behind the link", behind, None)).collect();
    };
    let both = network.outlets.iter().filter_map(|outlet| Some((outlet, outlet.behind.as_ref()?)));
    let parts = both.map(|(outlet, behind)| {
        let title = format!("Behind {}, from {}", outlet.link, outlet.from);
        part(&title, behind, outlet.autorate.as_ref())
    });
    parts.take(PARTS_MAX).collect()
}

fn part(title: &str, behind: &BehindReport, autorate: Option<&AutorateReport>) -> Part {
    let over = &behind.over_time;
    let step = over.step.as_nanos() as f64 / 1e9;
    let points = |values: &[u64], unit: f64| {
        let values = values.iter().enumerate();
        values.map(|(at, &value)| (at as f64 * step, value as f64 * unit)).collect::<Vec<_>>()
    };
    let rate = 8e-6 / step;
    let mut keys = vec![key(CAPACITY, Style::Line(0)), key(USED, Style::Line(1))];
    let title_used = "Capacity, and what was used of it, Mbit/s";
    let mut used = Plot::new(Kind::Steps, title_used, "time, s", "")
        .drawn(CAPACITY, points(&over.capacity_bytes, rate), Style::Line(0))
        .drawn(USED, points(&over.used_bytes, rate), Style::Line(1));
    if let Some(autorate) = autorate {
        used = used.drawn(RATE, points(&autorate.rate_bps, 1e-6), Style::Broken(2));
        keys.push(key(RATE, Style::Broken(2)));
    }
    let late = Plot::new(Kind::Steps, "Longest delay there, ms", "time, s", "").drawn(
        "delay",
        points(&over.delay_max_us, 1e-3),
        Style::Line(0),
    );
    let backlog = Plot::new(Kind::Steps, "Backlog there, KB", "time, s", "").drawn(
        "backlog",
        points(&over.backlog_bytes, 1e-3),
        Style::Line(0),
    );
    let dropped = format!(
        "{:.1} % of the capacity was used; {} of {} packets were dropped there.",
        behind.used * 100.0,
        behind.dropped,
        behind.packets
    );
    let content = Content::Plots(vec![used, late, backlog]);
    Part { title: title.to_owned(), keys, content, notes: vec![dropped] }
}

fn key(name: &str, style: Style) -> Key {
    Key { name: name.to_owned(), style }
}

const CAPACITY: &str = "capacity";
const USED: &str = "used";
const RATE: &str = "rate of the link";
/// Bound: bottlenecks of a network that are drawn; further ones are not.
const PARTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::units::Duration;
    use weir_sim::behind::OverTime;

    #[test]
    fn capacity_use_and_queue_are_drawn_with_the_rate() {
        let over_time = OverTime {
            step: Duration::from_millis(500),
            capacity_bytes: vec![125_000, 62_500],
            used_bytes: vec![100_000, 62_500],
            backlog_bytes: vec![3_000, 6_000],
            delay_max_us: vec![1_500, 20_000],
        };
        let behind = BehindReport { over_time, used: 0.9, ..BehindReport::default() };
        let autorate =
            AutorateReport { rate_bps: vec![2_000_000, 1_000_000], ..Default::default() };
        let part = part("x", &behind, Some(&autorate));
        let Content::Plots(plots) = part.content else { panic!("it has plots") };
        let series = |plot: usize, name: &str| {
            let found = plots[plot].series.iter().find(|series| series.name == name);
            let points = found.expect("it is drawn").points.iter();
            points.map(|(at, value)| (*at, (value * 1e6).round() / 1e6)).collect::<Vec<_>>()
        };
        assert_eq!(series(0, CAPACITY), [(0.0, 2.0), (0.5, 1.0)]);
        assert_eq!(series(0, USED), [(0.0, 1.6), (0.5, 1.0)]);
        assert_eq!(series(0, RATE), [(0.0, 2.0), (0.5, 1.0)]);
        assert_eq!(series(1, "delay"), [(0.0, 1.5), (0.5, 20.0)]);
        assert_eq!(part.keys.len(), 3);
        assert!(part.notes[0].starts_with("90.0 % of the capacity"));
    }
}
