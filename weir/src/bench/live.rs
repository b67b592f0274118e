//! `weir bench --live`: frames through private networks, by the bridge of `weir up` and by the
//! kernel's.

use super::{Bench, Exit, Format, Output, Table};
use std::time::Duration;
use weir_bench::bench::live::{
    self, CLASSES, CLASSES_MAX, Options, QUEUES, Report, Row, SCHEDULERS,
};
use weir_bench::bench::yardstick;

impl Bench {
    pub(super) fn run_live(&self, output: &Output) -> Result<Exit, String> {
        let options = self.live_options()?;
        let (count, time) = live::about(&options);
        let title = format!(
            "60-byte IP packets through private networks: {count} measurements, about {}",
            spoken(time)
        );
        let table = Table::begin(output, 0, &title);
        let report = live::measure(&options, |forwarder, done, all| {
            table.bar.set_length(all as u64);
            table.bar.set_position(done as u64);
            table.bar.set_message(forwarder.to_owned());
        })?;
        if output.format == Format::Text {
            table.bar.suspend(|| output.text(&text(&report)));
        }
        Ok(table.end(&report, &live::figures(&report)))
    }

    fn live_options(&self) -> Result<Options, String> {
        if let Some(classes) = self.leaves.iter().find(|classes| **classes > CLASSES_MAX) {
            return Err(format!("--leaves {classes}: with --live at most {CLASSES_MAX}"));
        }
        let schedulers = match self.scheduler.as_slice() {
            [] => SCHEDULERS.map(str::to_owned).to_vec(),
            named => named.to_vec(),
        };
        let classes = if self.leaves.is_empty() { CLASSES.to_vec() } else { self.leaves.clone() };
        let queues = if self.droppers { QUEUES.map(str::to_owned).to_vec() } else { Vec::new() };
        Ok(Options {
            schedulers,
            classes,
            queues,
            workers: usize::from(self.workers),
            seconds: self.seconds.as_secs_f64(),
            rounds: self.rounds(3),
        })
    }
}

/// Formats a time in whole seconds or minutes.
fn spoken(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} minutes", seconds.div_ceil(60)),
    }
}

/// Writes the rows as a table.
fn text(report: &Report) -> String {
    let [forwarder, to] = ["forwarder".to_owned(), format!("to {}", yardstick())];
    let mut text =
        format!("{forwarder:<46} {:>8} {:>9} {to:>8} {BUSY}  us/frame\n", "kpps", "offered");
    for row in &report.rows {
        text += &line(row);
    }
    let Report { processors, other_work, .. } = report;
    text + &format!(
        "{to}: rates while the loop works; busy us: what it works for a frame; worker us: what \
         the busiest worker does\n\
         at most: kpps at which the slower of both is full, if each thread has a processor\n\
         us/frame: processor time of all {processors} processors (/proc/stat) for a frame that \
         arrived, without what the loop polls in vain\n\
         other work just before: {other_work:.2} of {processors} processors; ratios repeat on a \
         quiet machine only\n"
    )
}

/// The columns of the times of Weir's threads.
const BUSY: &str = " busy us  worker us  at most";

fn line(row: &Row) -> String {
    let Row { forwarder, kpps, offered_kpps, ratio, busy_micros, processor_micros, .. } = row;
    let Row { worker_micros, most_kpps, .. } = row;
    match &row.not_measured {
        Some(why) => format!("{forwarder:<46} not measured: {why}\n"),
        None => format!(
            "{forwarder:<46} {kpps:>8.1} {offered_kpps:>9.1} {ratio:>8.3} {busy_micros:>8.2} \
             {worker_micros:>10.2} {most_kpps:>8.0} {processor_micros:>9.2}\n"
        ),
    }
}
