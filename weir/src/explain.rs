//! `weir explain`: why packets of a recorded link waited, and what would have kept a promise.
//!
//! Everything is found by replaying a record, so nothing runs on a link but the recorder.

use crate::output::{Exit, Format, Output};
use crate::record::{self, Link};
use crate::{Run, input};
use serde::Serialize;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_cli::time::{LEAST, YEAR, seconds};
use weir_control::protocol::Request;
use weir_trace::causes::{self, Ask, Causes};
use weir_trace::explain::SLOWEST_MAX;
use weir_trace::load::{self, Load};
use weir_trace::remedy::{self, Bounds, Remedies};

/// Explains why packets of a record waited or were dropped, and what would have kept a promise.
///
/// It says which class each packet waited for, which borrowed, what was dropped, and what single
/// change would have kept a promise that broke.
///
/// Of a link, a record is taken first (`weir record`). Promises are the `[[promise]]` tables of the
/// policy, the `delay` of its classes, the rates that its scheduler guarantees, and those of
/// --promise. A change is proposed if a replay with it keeps the promise and breaks none that held;
/// the replay has the recorded arrivals, also where a sender would have reacted. Exits 1 if a
/// promise was broken or the record is damaged, 2 if there is no record. docs/explain.md describes
/// the output.
#[derive(clap::Args)]
#[command(override_usage = "weir explain [OPTIONS] <NAME|RECORD>")]
pub struct Explain {
    /// A file of `weir record`, or else the name of a running link.
    #[arg(value_name = "NAME|RECORD")]
    what: PathBuf,
    /// The control socket of the link, instead of the one found by its name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Record the link for so long.
    #[arg(long, value_name = "N|TIME", default_value = "10", value_parser = seconds(LEAST..=YEAR))]
    seconds: Duration,
    /// Only this direction; by default each in turn.
    #[arg(long, value_name = "NAME")]
    direction: Option<String>,
    /// Tell only of packets of this class, or of classes below it.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Tell of the packet with this number, from 1 and among those of --class.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    packet: Option<u64>,
    /// Tell of so many of the slowest packets.
    #[arg(long, value_name = "N", conflicts_with = "packet", default_value_t = WORST_DEFAULT,
        value_parser = clap::value_parser!(u16).range(..=SLOWEST_MAX as i64))]
    worst: u16,
    /// Also judge this promise, such as 'voice.delay.p99 < 10 ms'. May be given several times.
    #[arg(long, value_name = "PROMISE")]
    promise: Vec<String>,
}

/// The output of `--format json`; docs/explain.md describes it.
#[derive(Serialize)]
struct Printed {
    direction: String,
    /// Why the record is less than was asked for, if it is.
    fault: Option<String>,
    causes: Causes,
    promises: Remedies,
}

impl Run for Explain {
    fn run(self, output: &Output) -> Exit {
        self.explain(output).unwrap_or_else(|error| output.refuse(&error))
    }
}

impl Explain {
    fn explain(&self, output: &Output) -> Result<Exit, String> {
        if self.what.is_file() && self.control.is_none() {
            return self.all(&self.what, output);
        }
        let folder =
            tempfile::tempdir().map_err(|error| format!("no place for a record: {error}"))?;
        let path = folder.path().join("record.pcapng");
        self.record(&path)?;
        self.all(&path, output)
    }

    /// Records the link into a file. What there is of a record that ends early is explained.
    fn record(&self, path: &Path) -> Result<(), String> {
        let name = self.control.is_none().then(|| self.what.display().to_string());
        let link = Link { name, control: self.control.clone() };
        let request = Request::Record { for_ms: Some(self.seconds.as_millis() as u64) };
        match record::fetch(&link, &request, path) {
            Ok(_saved) => Ok(()),
            Err(why) => Err(format!("there is no file {}; {why}", self.what.display())),
        }
    }

    /// Explains each direction of a record.
    fn all(&self, path: &Path, output: &Output) -> Result<Exit, String> {
        let directions = match &self.direction {
            Some(direction) => vec![direction.clone()],
            None => load::directions(open(path)?).map_err(|error| of(path, &error))?,
        };
        let mut exit = Exit::Clean;
        let mut printed = Vec::new();
        for direction in directions {
            match self.one(path, &direction) {
                Ok(found) => {
                    if found.fault.is_some() || found.promises.is_broken() {
                        exit = Exit::Faults;
                    }
                    printed.push(found);
                }
                // One without packets is no reason to keep quiet about the others.
                Err(error) if self.direction.is_none() => {
                    output.warn(&format!("direction {direction}: {error}"));
                }
                Err(error) => return Err(of(path, &error)),
            }
        }
        if printed.is_empty() {
            return Err(of(path, "no direction can be explained"));
        }
        match output.format {
            Format::Json => output.json(&printed),
            Format::Text => printed.iter().for_each(|one| one.show(output)),
        }
        Ok(exit)
    }

    fn one(&self, path: &Path, direction: &str) -> Result<Printed, String> {
        let mut load = Load::of_record(open(path)?, Some(direction))?;
        if let (Some(link), Some(socket)) = (&mut load.link, &self.control) {
            link.words = vec!["--control".to_owned(), socket.display().to_string()];
        }
        if let Some(class) = self.class.as_ref().filter(|class| !load.has_class(class)) {
            return Err(format!("its policy has no class `{class}`"));
        }
        let worst = usize::from(self.worst);
        let ask = Ask { class: self.class.clone(), packet: self.packet, worst, within: None };
        let causes = causes::look(&load, &ask).map_err(|error| error.to_string())?;
        if let Some(number) = self.packet.filter(|_| causes.stories.is_empty()) {
            let of = self.class.as_ref().map_or(String::new(), |class| format!(" of `{class}`"));
            return Err(format!("the record holds no packet {number}{of} of this direction"));
        }
        let promises = remedy::look(&load, &self.promise, Bounds::default())?;
        let (direction, fault) = (direction.to_owned(), load.fault);
        Ok(Printed { direction, fault, causes, promises })
    }
}

impl Printed {
    fn show(&self, output: &Output) {
        if let Some(fault) = &self.fault {
            output.warn(&format!("direction {}: the record ends early: {fault}", self.direction));
        }
        let Self { direction, causes, promises, .. } = self;
        output.text(&format!("direction {direction}: {causes}\n\n{promises}\n"));
    }
}

fn open(path: &Path) -> Result<BufReader<File>, String> {
    let file = input::open(path).map_err(|error| of(path, &error.to_string()))?;
    Ok(BufReader::new(file))
}

fn of(path: &Path, error: &str) -> String {
    format!("{}: {error}", path.display())
}

/// How many of the slowest packets are told of.
const WORST_DEFAULT: u16 = 10;
