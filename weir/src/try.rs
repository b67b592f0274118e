//! `weir try`: whether a line stays quick while it is full.

use crate::Run;
use crate::input;
use crate::output::{Exit, Format, Output};
use crate::send::{Receiver, receiver_of};
use crate::whole_file::WholeFile;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_cli::time::seconds;
use weir_control::client;
use weir_control::places::Places;
use weir_control::protocol::{Query, Sort};
use weir_host::signals::StopSignal;
use weir_link::status::Status;
use weir_policy::table::{Table, megabits, millis};
use weir_traffic::loaded::{self, LoadedPlan, LoadedReport};

/// Measures the latency of a line, idle and full, and grades what the load adds.
///
/// Some TCP connections fill the way to a `weir recv` for ten seconds, while short connections
/// measure round trips: first without the load, then with it. The grade is that of the latency that
/// the load adds, from A+ (less than 5 ms) to F (400 ms or more). With `--save` before a change and
/// `--against` after it, both stand side by side. It measures the direction to the receiver; for
/// the other one run it there.
#[derive(clap::Args)]
pub struct Try {
    /// The IP address where `weir recv` runs; a link-local one with its interface.
    #[arg(value_parser = |text: &str| receiver_of(text, "--port"))]
    to: Receiver,
    /// The port of `weir recv`.
    #[arg(long, default_value_t = 5001, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Load the line for this long [default: 10s].
    #[arg(long, value_name = "N|TIME", value_parser = seconds(SECONDS_MIN..=SECONDS_MAX))]
    seconds: Option<Duration>,
    /// How many TCP connections load it.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=FLOWS_MAX))]
    flows: u16,
    /// Also show what this running link says of its busiest classes under the load: by name.
    #[arg(long, value_name = "NAME")]
    link: Option<String>,
    /// Also show what the link at this control socket says.
    #[arg(long, value_name = "SOCKET", conflicts_with = "link")]
    control: Option<PathBuf>,
    /// Save the result in this file, for `--against`.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Compare with the result that was saved in this file.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

/// A result, as it is saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Tried {
    /// The grade of the latency that the load added.
    grade: String,
    #[serde(flatten)]
    measured: LoadedReport,
}

impl Run for Try {
    fn run(self, output: &Output) -> Exit {
        self.measure(output).unwrap_or_else(|why| output.refuse(&why))
    }
}

impl Try {
    fn measure(&self, output: &Output) -> Result<Exit, String> {
        // A file that cannot be read or written is refused before the line is loaded.
        let before = self.against.as_deref().map(saved).transpose()?;
        let file = self.save.as_deref().map(WholeFile::create).transpose();
        let file = file.map_err(|error| error.to_string())?;
        let socket = match (&self.control, &self.link) {
            (Some(socket), _) => Some(socket.clone()),
            (None, Some(name)) => Some(Places::of_process().find(name)?),
            (None, None) => None,
        };
        let load = self.seconds.unwrap_or(SECONDS_DEFAULT);
        let plan = LoadedPlan {
            to: self.to.address,
            port: self.port,
            zone: self.to.zone(false)?,
            first_stream: std::process::id() << FLOWS_BITS,
            flows: self.flows,
            idle: (load / 5).max(IDLE_MIN),
            load,
        };
        let stop = StopSignal::install().map_err(|error| error.to_string())?;
        output.warn(&format!("measuring for {:?}, and fills the line", plan.idle + plan.load));
        let told = || socket.map(|socket| client::status(&socket, &busiest()));
        let measured = loaded::measure(&plan, told, &|| stop.requested())?;
        let Some((measured, status)) = measured else { return Ok(Exit::Interrupted) };
        let now = Tried { grade: grade(measured.added_ms).to_owned(), measured };
        // The result is printed even where it cannot be saved.
        match output.format {
            Format::Json => output.json(&now),
            Format::Text => output.text(&shown(&now, before.as_ref())),
        }
        if let Some(file) = file {
            let text = serde_json::to_vec_pretty(&now).map_err(|error| error.to_string())?;
            file.finish(&text)?;
        }
        match status.transpose()? {
            Some(status) if output.format == Format::Text => {
                output.text(&format!("\n{}\n", classes(&status)));
            }
            _ => {}
        }
        Ok(Exit::Clean)
    }
}

/// Reads a result.
fn saved(path: &Path) -> Result<Tried, String> {
    let name = path.display();
    let bytes = input::read(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| format!("{name} is not what `weir try --save` writes: {error}"))
}

/// Asks a link for the classes that send most.
fn busiest() -> Query {
    let sort = Some(Sort::RecentRate);
    Query { sort, largest: sort, per_direction: Some(CLASSES), ..Query::default() }
}

/// Returns the grade of an added latency.
fn grade(added_ms: f64) -> &'static str {
    GRADES.iter().find(|(below, _)| added_ms < *below).map_or("F", |(_, grade)| grade)
}

/// Makes the text of one row.
type Cell = fn(&Tried) -> String;

/// Formats a time in ms.
fn ms(ms: f64) -> String {
    millis(ms * 1e3)
}

/// Formats a result, beside an earlier one.
fn shown(now: &Tried, before: Option<&Tried>) -> String {
    let rows: [(&str, Cell); 7] = [
        ("round trip of the idle line: median ms", |tried| ms(tried.measured.idle.p50_ms)),
        ("round trip of the full line: median ms", |tried| ms(tried.measured.loaded.p50_ms)),
        ("  95 in 100 are shorter than ms", |tried| ms(tried.measured.loaded.p95_ms)),
        ("  not answered within a second", |tried| tried.measured.loaded.lost.to_string()),
        ("added by the load: mean ms", |tried| ms(tried.measured.added_ms)),
        ("received by the other side: Mbit/s", |tried| megabits(tried.measured.mbit_s * 1e6)),
        ("grade of what the load added, A+ to F", |tried| tried.grade.clone()),
    ];
    let mut table = match before {
        Some(_) => Table::new(["", "before", "now"]),
        None => Table::new(["", "now"]),
    };
    for (title, cell) in rows {
        let cells = before.into_iter().chain([now]).map(cell);
        table.row([title.to_owned()].into_iter().chain(cells));
    }
    format!("{table}\n")
}

/// Formats the busiest classes of a link.
fn classes(status: &Status) -> Table {
    let mut table = Table::new(["class", "direction", "Mbit/s", "p50 ms", "p99 ms", "lost/s"]);
    table = table.words(&[1]);
    for lane in &status.lanes {
        for class in &lane.classes {
            let Some(recent) = class.recent.filter(|recent| recent.second.sent_bps > 0.0) else {
                continue;
            };
            table.row([
                class.name.clone(),
                lane.name.clone(),
                megabits(recent.second.sent_bps),
                millis(recent.delay.p50_us),
                millis(recent.delay.p99_us),
                format!("{:.0}", recent.second.lost_pps),
            ]);
        }
    }
    table
}

/// Added latencies in ms below which there is a grade: those of DSLReports' speed test, "Bufferbloat
/// Grades", which other tests took over.
const GRADES: [(f64, &str); 5] =
    [(5.0, "A+"), (30.0, "A"), (60.0, "B"), (200.0, "C"), (400.0, "D")];
const SECONDS_DEFAULT: Duration = Duration::from_secs(10);
const SECONDS_MIN: Duration = Duration::from_millis(500);
const SECONDS_MAX: Duration = Duration::from_secs(3600);
const IDLE_MIN: Duration = Duration::from_millis(500);
/// Bound: connections of a load; more are refused.
const FLOWS_MAX: i64 = 64;
/// The bits that number them.
const FLOWS_BITS: u32 = 6;
/// Classes that are shown of each direction.
const CLASSES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_traffic::loaded::Latency;

    fn tried(added_ms: f64, mbit_s: f64) -> Tried {
        let idle = Latency { probes: 9, p50_ms: 1.5, ..Latency::default() };
        let measured = LoadedReport {
            to: "10.0.0.2:5001".to_owned(),
            seconds: 10.0,
            idle,
            loaded: idle,
            added_ms,
            mbit_s,
        };
        Tried { grade: grade(added_ms).to_owned(), measured }
    }

    #[test]
    fn a_grade_is_that_of_the_added_latency() {
        let rows = [(0.0, "A+"), (4.9, "A+"), (5.0, "A"), (59.0, "B"), (60.0, "C"), (399.0, "D")];
        for (added, wanted) in rows {
            assert_eq!(grade(added), wanted, "{added}");
        }
        assert_eq!((grade(400.0), grade(f64::INFINITY)), ("F", "F"));
    }

    #[test]
    fn a_saved_result_stands_beside_the_new_one() {
        let text = serde_json::to_vec(&tried(250.0, 9.0)).expect("it is JSON");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("before.json");
        std::fs::write(&path, text).expect("a file");
        let before = saved(&path).expect("it was saved so");
        assert_eq!(before, tried(250.0, 9.0));
        let both = shown(&tried(2.0, 8.5), Some(&before));
        let words = |title: &str| -> Vec<String> {
            let line = both.lines().find(|line| line.starts_with(title)).expect("it is there");
            line[title.len()..].split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(words("grade of what the load added, A+ to F"), ["D", "A+"], "{both}");
        assert_eq!(words("received by the other side: Mbit/s").len(), 2, "{both}");
        assert!(!shown(&before, None).contains("before"));
        std::fs::write(&path, "{}").expect("a file");
        let why = saved(&path).expect_err("it is none");
        assert!(why.contains("is not what `weir try --save` writes"), "{why}");
    }
}
