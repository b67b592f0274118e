//! `weir sweep`: runs one scenario with many values, and writes one table.

mod drawn;

use crate::output::{Exit, Format, Output};
use crate::picture::{self, Files};
use crate::runs::OfSweep;
use crate::sim::count_bar;
use crate::view::Page;
use crate::{Run, python, runs, whole_file};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use weir_host::signals::StopSignal;
use weir_sim::replicate;
use weir_sweep::{Done, Journal, Summary, Sweep as Runs, file, local, table};

/// Runs a scenario with many values, each several times, and writes a table with a row for each
/// run.
///
/// docs/sweeps.md describes the file and the table. Each point has the same seeds. After Ctrl-C or
/// a crash the same command goes on behind the runs that are done; the table gets its name when all
/// are. Exits 1 if the scenario or a metric is wrong, 2 if a file cannot be read or written, 130 if
/// it was stopped.
#[derive(clap::Args)]
pub struct Sweep {
    /// The sweep, in TOML.
    file: PathBuf,
    /// The table; by default the name of the file with `.csv`.
    #[arg(short, long, value_name = "FILE.csv|parquet")]
    out: Option<PathBuf>,
    /// A picture of each metric over the first key that varies, with a line for each combination of
    /// the others and intervals of 95 %.
    #[arg(long, value_name = "FILE.svg|png|html", value_parser = picture::picture_file())]
    plot: Option<PathBuf>,
    /// Then shows the table in the browser, with the front of any two metrics, and each run as
    /// `weir view` shows it: prints the address of the page and serves it until Ctrl-C.
    #[arg(long)]
    view: bool,
    /// The engine of the runs: threads of this process, or a cluster of Ray, by Python's module
    /// `weir`.
    #[arg(long, value_enum, default_value_t = Engine::Local)]
    engine: Engine,
    /// With --engine ray: the address of the cluster; by default one is started on this machine.
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// With --engine local: runs at the same time; by default one for each core.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// Threads.
    Local,
    /// Ray.
    Ray,
}

impl Run for Sweep {
    fn run(self, output: &Output) -> Exit {
        let out = self.out.clone().unwrap_or_else(|| self.file.with_extension("csv"));
        let outputs = [("--out", &Some(out.clone())), ("--plot", &self.plot)];
        let made =
            whole_file::distinct(&outputs, &[&self.file]).and_then(|()| file::read(&self.file));
        let spec = match made {
            Ok(spec) => spec,
            Err(why) => return output.refuse(&why),
        };
        let runs = match Runs::new(spec) {
            Ok(runs) => runs,
            Err(why) => return output.fault(&format!("{}: {why}", self.file.display())),
        };
        if !runs.warnings().is_empty() {
            output.warn(&format!("the first point that can be run:\n{}", runs.warnings()));
        }
        // Before the runs: they are many.
        let picture = match Files::open(self.plot.as_deref(), None) {
            Ok(picture) => picture,
            Err(why) => return output.refuse(&why),
        };
        let page = match self.view.then(|| Page::bind(None)).transpose() {
            Ok(page) => page,
            Err(why) => return output.refuse(&why),
        };
        if page.is_some() {
            output.json_by_line();
        }
        let runs = Arc::new(runs);
        let done = match self.engine {
            Engine::Local => self.local(&runs, &out, output),
            Engine::Ray => self.python(&runs, &out, output),
        };
        let drawn = done.and_then(|exit| match (exit, &self.plot) {
            (Exit::Clean, Some(_)) => drawn(&runs, &out, picture).map(|()| exit),
            _ => Ok(exit),
        });
        let shown = drawn.and_then(|exit| match (exit, page) {
            (Exit::Clean, Some(page)) => self.show(runs, &out, (page, output)),
            _ => Ok(exit),
        });
        shown.unwrap_or_else(|why| output.refuse(&why))
    }
}

impl Sweep {
    fn local(&self, runs: &Arc<Runs>, out: &Path, output: &Output) -> Result<Exit, String> {
        if let Some(done) = table::read(out, runs)? {
            return Ok(show(runs, &done, output));
        }
        let (mut journal, mut done) = Journal::open(out, runs)?;
        let stop = StopSignal::install().map_err(|error| error.to_string())?;
        let bar = count_bar(runs.runs() as u64);
        bar.set_position(done.len() as u64);
        let threads = self.threads.map_or_else(replicate::cores, usize::from);
        let left = |done: &BTreeMap<usize, Done>| {
            (0..runs.runs()).filter(|run| !done.contains_key(run)).collect::<Vec<_>>()
        };
        let keep = |journal: &mut Journal, done: &mut BTreeMap<_, _>, rows: Vec<Done>| {
            journal.add(&rows)?;
            bar.inc(rows.len() as u64);
            done.extend(rows.into_iter().map(|row| (row.run, row)));
            Ok::<(), String>(())
        };
        // The first run says how long a batch is; it counts like any other.
        let begun = Instant::now();
        let first: Vec<usize> = left(&done).into_iter().take(1).collect();
        let mut one = |rows| keep(&mut journal, &mut done, rows);
        local::run(runs, local::batches(&first, 1.0, 1), 1, stop.flag(), &mut one)?;
        let batches = local::batches(&left(&done), begun.elapsed().as_secs_f64(), threads);
        let mut each = |rows| keep(&mut journal, &mut done, rows);
        local::run(runs, batches, threads, stop.flag(), &mut each)?;
        bar.finish_and_clear();
        if done.len() < runs.runs() {
            let (count, all) = (done.len(), runs.runs());
            output.warn(&format!(
                "stopped: {count} of {all} runs are done; the same command goes on"
            ));
            return Ok(Exit::Interrupted);
        }
        table::write(out, runs, &done)?;
        journal.remove()?;
        Ok(show(runs, &done, output))
    }

    /// Shows the finished table in the browser.
    fn show(
        &self,
        sweep: Arc<Runs>,
        out: &Path,
        (page, output): (Page, &Output),
    ) -> Result<Exit, String> {
        let done = table::read(out, &sweep)?.unwrap_or_default();
        let summary = Summary::of(&sweep, &done);
        let name = self.file.file_name().unwrap_or_default().display().to_string();
        runs::show(Arc::new(OfSweep { name, sweep, summary }), page, output)
    }

    /// Lets Python's module do it, which knows Ray.
    fn python(&self, runs: &Runs, out: &Path, output: &Output) -> Result<Exit, String> {
        let mut words: Vec<OsString> =
            ["sweep", "--engine", "ray", "--out"].map(OsString::from).to_vec();
        words.push(out.into());
        words.extend(self.address.iter().flat_map(|address| ["--address".into(), address.into()]));
        words.extend((output.format == Format::Json).then(|| "--json".into()));
        let spec = serde_json::to_vec(runs.spec()).map_err(|error| error.to_string())?;
        let ended = python::run(words, &spec, "weir-python[ray]")?;
        output.text(&ended.text);
        Ok(ended.exit)
    }
}

/// Draws what the finished table has.
fn drawn(runs: &Runs, out: &Path, picture: Files) -> Result<(), String> {
    let done = table::read(out, runs)?.unwrap_or_default();
    picture.write_picture(&drawn::picture(&Summary::of(runs, &done)))
}

fn show(runs: &Runs, done: &BTreeMap<usize, Done>, output: &Output) -> Exit {
    let summary = Summary::of(runs, done);
    match output.format {
        Format::Json => output.json(&summary),
        Format::Text => output.text(&format!("{summary}\n")),
    }
    Exit::Clean
}
