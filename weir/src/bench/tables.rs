//! The tables of `weir bench` that need no private network and no callgrind.

use super::{Bench, Exit, Output, Table};
use std::path::Path;
use weir_bench::bench::classify::{self, Limit};
use weir_bench::bench::figure::Figure;
use weir_bench::bench::{self, Row, autorate, check, droppers, explain, memory, peer, reload};

impl Bench {
    pub(super) fn measure(&self, output: &Output) -> Result<Exit, String> {
        let workload = self.workload();
        let to = format!("to {}", bench::yardstick());
        let [scheduler, leaves, nanos, classify] =
            ["scheduler", "leaves", "ns/packet", "classify ns"];
        let titles = format!("{scheduler:<12} {leaves:>9} {nanos:>11} {to:>9} {classify:>13}");
        let table = Table::begin(output, workload.rows()?, &titles);
        let rows = bench::measure(workload, |row| {
            let Row { scheduler, leaves, nanos, ratio, classify_nanos, .. } = row;
            let classify = classify_nanos.map_or(String::new(), |nanos| format!("{nanos:>13.1}"));
            table
                .row(&format!("{scheduler:<12} {leaves:>9} {nanos:>11.1} {ratio:>9.2} {classify}"));
        })?;
        Ok(table.end(&rows, &bench::figures(&rows)))
    }

    pub(super) fn measure_classifiers(&self, output: &Output) -> Result<Exit, String> {
        let (plain, rules) = classify::yardstick();
        let [classifier, cache, nanos] = ["classifier", "flow cache", "ns/packet"];
        let titles = format!(
            "{classifier:<12} {cache:<10} {:>8} {:>7} {nanos:>11} {:>12} {:>13}",
            "rules",
            "tables",
            format!("to {plain} {rules}"),
            format!("to itself {rules}"),
        );
        let table = Table::begin(output, self.rules.len() * classify::ROWS, &titles);
        let rows = classify::measure(&self.rules, self.effort(), |row| {
            let cache = if row.cached { "hits" } else { "none" };
            let classify::Row { classifier, rules, tables, nanos, ratio, growth, limit, .. } = row;
            let limit = match limit {
                None => String::new(),
                Some(Limit::Growth(most)) => format!("   at most {most:.0} times"),
                Some(Limit::Nanos(most)) => format!("   at most {most:.0} ns"),
            };
            table.row(&format!(
                "{classifier:<12} {cache:<10} {rules:>8} {tables:>7} {nanos:>11.1} {ratio:>12.2} \
                 {growth:>13.2}{limit}"
            ));
        });
        Ok(table.end(&rows, &classify::figures(&rows)))
    }

    pub(super) fn measure_droppers(&self, output: &Output) -> Exit {
        let titles = "dropper        ns/packet   to the first";
        let table = Table::begin(output, droppers::own().count(), titles);
        let rows = droppers::measure(self.length.0, self.effort(), |row| {
            let droppers::Row { dropper, nanos, ratio, .. } = row;
            table.row(&format!("{dropper:<12} {nanos:>11.1} {ratio:>14.2}"));
        });
        table.end(&rows, &[])
    }

    pub(super) fn run_beside(&self, output: &Output, program: &Path) -> Result<Exit, String> {
        let leaves = if self.leaves.is_empty() { peer::leaves() } else { self.leaves.clone() };
        if peer::rows(&self.scheduler, &leaves) == 0 {
            let known = peer::leaves();
            return Err(format!(
                "--leaves: with --beside one of {known:?}, as rte_sched is set up"
            ));
        }
        let titles = "scheduler       leaves   ns/packet   rte_sched   ratio";
        let table = Table::begin(output, peer::rows(&self.scheduler, &leaves), titles);
        let rows = peer::measure(program, &self.scheduler, &leaves, self.rounds(7), |row| {
            let peer::Row { scheduler, leaves, nanos, peer_nanos, ratio } = row;
            table.row(&format!(
                "{scheduler:<12} {leaves:>9} {nanos:>11.1} {peer_nanos:>11.1} {ratio:>7.3}"
            ));
        })?;
        Ok(table.end(&rows, &[]))
    }

    pub(super) fn run_explained(&self, output: &Output) -> Result<Exit, String> {
        let workload = self.workload();
        let titles = "scheduler       leaves   ns/packet   explained   noise   ratio";
        let table = Table::begin(output, workload.rows()?, titles);
        let rows = explain::measure(workload, |row| {
            let explain::Row { scheduler, leaves, nanos, explained_nanos, noise, ratio, .. } = row;
            table.row(&format!(
                "{scheduler:<12} {leaves:>9} {nanos:>11.1} {explained_nanos:>11.1} {noise:>7.3} \
                 {ratio:>7.3}"
            ));
        })?;
        Ok(table.end(&rows, &explain::figures(&rows)))
    }

    pub(super) fn weigh(&self, output: &Output) -> Result<Exit, String> {
        let titles = "scheduler    B/idle class  B/waiting packet";
        let workload = self.workload();
        let table = Table::begin(output, workload.rows()? / workload.leaves.len(), titles);
        let rows = memory::measure(&self.scheduler, MEMORY_LEAVES, |row| {
            let memory::Row { scheduler, class_bytes, packet_bytes, .. } = row;
            table.row(&format!("{scheduler:<12} {class_bytes:>12.1} {packet_bytes:>17.1}"));
        })?;
        Ok(table.end(&rows, &memory::figures(&rows)))
    }

    pub(super) fn time_reload(&self, output: &Output) -> Result<Exit, String> {
        let titles = "from      to        packets  prepare ms  apply ms  free ms";
        let table = Table::begin(output, reload::CHANGES.len(), titles);
        let rows = reload::measure(self.rounds(7), reload::CLASSES, |row| {
            let reload::Row {
                from, to, packets, prepare_millis, apply_millis, free_millis, ..
            } = row;
            table.row(&format!(
                "{from:<9} {to:<9} {packets:>7} {prepare_millis:>11.1} {apply_millis:>9.2} \
                 {free_millis:>8.2}"
            ));
        });
        Ok(table.end(&rows, &reload::figures(&rows)))
    }

    pub(super) fn measure_autorate(&self, output: &Output) -> Exit {
        let titles = "frames/s   ns without   ns more   least    most   % of a processor        MB";
        let table = Table::begin(output, autorate::RATES.len(), titles);
        let rows = autorate::measure(self.effort(), |row| {
            let autorate::Row { rate, nanos_without, nanos, range, percent, bytes, .. } = row;
            let megabytes = *bytes as f64 / 1e6;
            table.row(&format!(
                "{rate:>8} {nanos_without:>12.1} {nanos:>9.1} {:>7.1} {:>7.1} {percent:>18.3} \
                 {megabytes:>9.2}",
                range.0, range.1
            ));
        });
        table.end(&rows, &autorate::figures(&rows))
    }

    pub(super) fn time_check(&self, output: &Output) -> Result<Exit, String> {
        let table = Table::begin(output, 0, "classes    rules      bytes          s   growth");
        let rows = check::measure(self.rounds(7))?;
        let mut figures = Vec::new();
        for row in &rows {
            let check::Row { classes, rules, bytes, seconds, growth, .. } = row;
            let shown = growth.map_or_else(|| "-".to_owned(), |growth| format!("{growth:.2}"));
            table.row(&format!("{classes:>7} {rules:>8} {bytes:>10} {seconds:>10.3} {shown:>8}"));
            let noun = if growth.is_some() { "classes" } else { "subscribers of a list" };
            let what = format!("`weir check`, {classes} {noun}: seconds");
            figures.push(Figure::at_most(what, check::SECONDS_MAX, *seconds));
            let Some(growth) = growth else { continue };
            let what = format!("`weir check`, {classes} classes: time to that of a tenth");
            figures.push(Figure::at_most(what, check::GROWTH_MAX, *growth));
        }
        Ok(table.end(&rows, &figures))
    }
}

/// Leaves and packets by which the links differ whose memory is measured.
const MEMORY_LEAVES: usize = 100_000;
