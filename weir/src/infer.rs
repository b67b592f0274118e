//! `weir infer`: what the applications of a capture or a record wanted, as a scenario.

use crate::output::{Exit, Format, Output};
use crate::whole_file::{self, cannot};
use crate::{Run, input};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use weir_core::units::Rate;
use weir_infer::{Error, Grouping, Inferred, Input, Named, Options, infer, policies};

/// Reads a capture, or a record of a running link, and writes a scenario whose sources react.
///
/// Of each connection of TCP it finds what the applications exchanged, and what hosts and path
/// were; of QUIC as much as lengths and times tell. Constant flows become constant sources; all
/// else is sent again as it was, from captures that are written beside the scenario. A table says
/// what became of all bytes. Exits 1 if the file is damaged, after what precedes the damage was
/// used. docs/guide/what-if.md has an example and says what can be trusted.
#[derive(clap::Args)]
pub struct Infer {
    /// A capture (pcap or pcapng, plain or in gzip or zstd) or a file of `weir record`; `-` for
    /// standard input.
    #[arg(value_name = "CAPTURE|RECORD")]
    file: PathBuf,
    /// A capture of the same traffic at the other side of the link, by the same clock; the first
    /// one is then that of the inside.
    #[arg(long, value_name = "CAPTURE")]
    outside: Option<PathBuf>,
    /// Write the scenario; captures that it needs are written beside it.
    #[arg(short, long, value_name = "SCENARIO.toml")]
    output: Option<PathBuf>,
    /// The policy of the link in the scenario, which names it from its own folder; it is not read.
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// The rate of the link, without a policy: 20Mbit/s.
    #[arg(long, value_name = "RATE", conflicts_with = "policy", value_parser = rate)]
    rate: Option<Rate>,
    /// The direction of a record whose link it is; without it, that with most bytes.
    #[arg(long, value_name = "NAME")]
    direction: Option<String>,
    /// Each connection by itself, however many there are.
    #[arg(long, conflicts_with = "population")]
    exact: bool,
    /// Groups of alike connections with fitted distributions; as without it from 2000 flows on.
    #[arg(long)]
    population: bool,
    /// Replace all addresses by others that share prefixes as these do.
    #[arg(long)]
    anonymous: bool,
}

impl Run for Infer {
    fn run(self, output: &Output) -> Exit {
        self.infer(output).unwrap_or_else(|error| output.refuse(&error))
    }
}

impl Infer {
    fn infer(&self, output: &Output) -> Result<Exit, String> {
        let inputs: Vec<&Path> = [Some(&self.file), self.outside.as_ref()]
            .into_iter()
            .flatten()
            .map(|it| &**it)
            .collect();
        whole_file::distinct(&[("-o", &self.output)], &inputs)?;
        let mut options = self.options()?;
        if options.rate.is_none() && self.file.is_file() {
            let known = policies(open(&self.file)?).ok().flatten();
            options.recorded = known.map(|known| known.rates()).unwrap_or_default();
        }
        let bar = reading(&self.file);
        let name = self.file.display().to_string();
        let inferred = {
            let input = self.input(&bar)?;
            infer(input, &options, &mut |_| {}).map_err(|error| match error {
                Error::Empty(_) | Error::Direction(..) => format!("{name}: {error}"),
            })
        };
        bar.finish_and_clear();
        let inferred = inferred?;
        if let Some(path) = &self.output {
            write(path, &inferred)?;
        }
        match output.format {
            Format::Json => output.json(&inferred),
            Format::Text => output.text(&inferred.to_string()),
        }
        let is_damaged = inferred.fault.is_some();
        Ok(if is_damaged { Exit::Faults } else { Exit::Clean })
    }

    fn options(&self) -> Result<Options, String> {
        let stem = self.output.as_ref().and_then(|path| path.file_stem());
        let grouping = match (self.exact, self.population) {
            (true, _) => Grouping::Exact,
            (_, true) => Grouping::Population,
            _ => Grouping::Auto,
        };
        Ok(Options {
            name: stem.map_or(String::new(), |stem| stem.to_string_lossy().into_owned()),
            policy: self.policy.as_deref().map(|policy| self.beside(policy)),
            rate: self.rate,
            direction: self.direction.clone(),
            grouping,
            anonymous: if self.anonymous { Some(secret()?) } else { None },
            ..Options::default()
        })
    }

    /// Returns the policy's file as the scenario names it: from its folder.
    fn beside(&self, policy: &str) -> String {
        let folder = self.output.as_deref().and_then(Path::parent);
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        let Some(folder) = folder.filter(|_| Path::new(policy).is_relative()) else {
            return policy.to_owned();
        };
        let is_below = |part: Component<'_>| matches!(part, Component::Normal(_));
        if folder.components().all(is_below) {
            return "../".repeat(folder.components().count()) + policy;
        }
        let whole = std::path::absolute(policy).unwrap_or_else(|_| policy.into());
        whole.display().to_string()
    }

    fn input(&self, bar: &ProgressBar) -> Result<Input<'static>, String> {
        let Named { name, bytes } = open(&self.file)?;
        let outside = self.outside.as_deref().map(open).transpose()?;
        Input::of(Named::new(name, bar.wrap_read(bytes)), outside)
    }
}

/// Writes the scenario and the captures that it needs.
fn write(path: &Path, inferred: &Inferred) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new(""));
    for beside in inferred.beside() {
        let mut file = whole_file::WholeFile::create(&folder.join(&beside.name))
            .map_err(|error| error.to_string())?;
        file.write_all(&beside.bytes).map_err(|error| error.to_string())?;
        file.keep()?;
    }
    whole_file::write(path, &inferred.scenario())
}

/// Opens a capture or a record; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Named<'static>, String> {
    let name = path.display().to_string();
    let bytes: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(input::open(path).map_err(|error| cannot("read", &name, &error))?),
    };
    Ok(Named { name, bytes })
}

/// Returns a bar that shows on a terminal how many bytes of the file were read.
pub(crate) fn reading(path: &Path) -> ProgressBar {
    let bar = ProgressBar::no_length();
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    if length > 0
        && let Ok(style) = ProgressStyle::with_template(BAR)
    {
        bar.set_length(length);
        bar.set_style(style);
    }
    bar
}

/// Returns a number that only this run knows.
fn secret() -> Result<u64, String> {
    let mut bytes = [0; 8];
    let random = Path::new(RANDOM);
    let read = File::open(random).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| cannot("read", RANDOM, &error))?;
    Ok(u64::from_le_bytes(bytes))
}

fn rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|error| format!("{error}"))
}

const BAR: &str = "{wide_bar} {binary_bytes}/{binary_total_bytes} {eta}";
/// Where the kernel gives random numbers.
const RANDOM: &str = "/dev/urandom";
