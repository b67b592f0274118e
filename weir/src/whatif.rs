//! `weir whatif`: what other policies would have done to the traffic of a capture.

use crate::output::{Exit, Format, Output};
use crate::picture::{Files, picture_file};
use crate::whole_file::cannot;
use crate::{Run, input};
use indicatif::ProgressBar;
use std::fs::File;
use std::io::BufReader;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use weir_host::signals::StopSignal;
use weir_infer::whatif::{Answer, Trial, ask};
use weir_infer::{Grouping, Inferred, Input, Options, infer};
use weir_policy::{Policy, policy, render};
use weir_sim::{replicate, whatif};
use weir_trace::capture::CaptureReader;
use weir_trace::load::Load;
use weir_trace::record::{RecordReader, is_record};

/// Says what other policies would have done to the traffic of a capture, whose senders react.
///
/// Infers from the capture what its applications wanted, simulates that under the policy that was
/// in force, and compares with the capture: by so much the forecasts for the other policies may be
/// wrong, and where that is more than a difference it says `cannot tell`. A record of a link has
/// its policy, and tells delays and losses; for a capture name the policy with --was. Exits 1 if a
/// policy has errors. docs/guide/what-if.md explains the table and what can be trusted.
#[derive(clap::Args)]
pub struct Whatif {
    /// A capture (pcap or pcapng, plain or in gzip or zstd) or a file of `weir record`.
    #[arg(value_name = "CAPTURE|RECORD")]
    capture: PathBuf,
    /// The policies to try.
    #[arg(required = true, value_name = "POLICY")]
    policies: Vec<PathBuf>,
    /// The policy that was in force; a record has it.
    #[arg(long, value_name = "POLICY")]
    was: Option<PathBuf>,
    /// A capture of the same traffic at the other side of the link, by the same clock; the first
    /// one is then that of the inside.
    #[arg(long, value_name = "CAPTURE")]
    outside: Option<PathBuf>,
    /// The direction of a record whose link it is; without it, that with most bytes.
    #[arg(long, value_name = "NAME")]
    direction: Option<String>,
    /// The runs under each policy, from which follows what differs by chance.
    #[arg(long, value_name = "COUNT", default_value = "3")]
    replications: NonZeroU16,
    /// The runs at the same time; by default one a processor.
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroU16>,
    /// The groups of flows in the table.
    #[arg(long, value_enum, default_value_t = By::Class)]
    by: By,
    /// Draw what each class sends, what waits and how long under each policy, as .svg, .png or
    /// .html, by the name.
    #[arg(long, value_name = "FILE.svg|png|html", value_parser = picture_file())]
    plot: Option<PathBuf>,
}

/// The groups of flows in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum By {
    /// Classes of the policy that was in force.
    Class,
    /// Receiving hosts.
    Host,
    /// Protocols and ports.
    Application,
}

impl Run for Whatif {
    fn run(self, output: &Output) -> Exit {
        self.answer(output).unwrap_or_else(|error| output.refuse(&error))
    }
}

impl Whatif {
    fn answer(&self, output: &Output) -> Result<Exit, String> {
        let stop = StopSignal::install().map_err(|error| error.to_string())?;
        let files = Files::open(self.plot.as_deref(), None)?;
        let mut policies = vec![self.was()?];
        for path in &self.policies {
            policies.push((path.display().to_string(), read(path)?));
        }
        let inferred = self.inferred(&policies[0].1)?;
        let replications = usize::from(self.replications.get());
        let threads = self.threads.map_or_else(replicate::cores, |count| count.get().into());
        let bar = ProgressBar::new((policies.len() * replications) as u64);
        let trial = Trial { policies: &policies, replications, threads };
        let done = |ended: usize| bar.set_position(ended as u64);
        let answer = ask((&inferred, self.input()?), &trial, stop.flag(), &done);
        bar.finish_and_clear();
        let Answer { whatif, scenarios } = match answer {
            Err(_) if stop.requested() => return Ok(Exit::Interrupted),
            answer => answer.map_err(|why| format!("{}: {why}", self.capture.display()))?,
        };
        if files.any() {
            let tracks = whatif::tracks(&scenarios, threads).map_err(|error| error.to_string())?;
            files.write(&tracks, Vec::new())?;
        }
        match (output.format, self.by) {
            (Format::Json, _) => output.json(&whatif),
            (Format::Text, By::Class) => output.text(&whatif.to_string()),
            (Format::Text, By::Host) => output.table(&whatif.table("host")),
            (Format::Text, By::Application) => output.table(&whatif.table("application")),
        }
        Ok(Exit::Clean)
    }

    /// Returns the policy that was in force, with its name.
    fn was(&self) -> Result<(String, Policy), String> {
        if let Some(path) = &self.was {
            return Ok((path.display().to_string(), read(path)?));
        }
        let name = self.capture.display().to_string();
        if !is_record(&start(&self.capture)?) {
            return Err(format!("{name}: name the policy that was in force with --was POLICY"));
        }
        let load = Load::of_record(open(&self.capture)?, self.direction.as_deref());
        let stages = load.map_err(|why| format!("{name}: {why}"))?.stages;
        let first = stages.into_iter().next();
        let first = first.ok_or_else(|| format!("{name}: it has no policy"))?;
        Ok((first.name, first.policy))
    }

    fn inferred(&self, was: &Policy) -> Result<Inferred, String> {
        let stem = self.capture.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let options = Options {
            name: stem.unwrap_or_default(),
            rate: Some(was.link.tree.rate()),
            direction: self.direction.clone(),
            grouping: Grouping::Exact,
            ..Options::default()
        };
        let bar = ProgressBar::new_spinner();
        let inferred = infer(self.input()?, &options, &mut |frames| bar.set_position(frames));
        bar.finish_and_clear();
        inferred.map_err(|error| format!("{}: {error}", self.capture.display()))
    }

    fn input(&self) -> Result<Input<'static>, String> {
        let named = |path: &Path, error: String| format!("{}: {error}", path.display());
        if is_record(&start(&self.capture)?) {
            let reader = RecordReader::new(open(&self.capture)?);
            return Ok(Input::Record(
                reader.map_err(|error| named(&self.capture, error.to_string()))?,
            ));
        }
        let capture = |path: &Path| {
            CaptureReader::new(open(path)?).map_err(|error| named(path, error.to_string()))
        };
        let inside = capture(&self.capture)?;
        Ok(match &self.outside {
            Some(outside) => Input::Captures(inside, capture(outside)?),
            None => Input::Capture(inside),
        })
    }
}

/// Reads a policy.
fn read(path: &Path) -> Result<Policy, String> {
    let name = path.display().to_string();
    let bytes = input::read(path).map_err(|error| cannot("read", &name, &error))?;
    let outcome = policy::parse_bytes(&bytes, &name, None, &input::read_named);
    let failed = outcome.failed();
    let findings = || render::render(&outcome.findings, &outcome.sources, false);
    let policy = outcome.plan.as_ref().filter(|_| !failed).cloned();
    policy.ok_or_else(|| format!("{name} has errors\n{}", findings()))
}

/// Returns the first bytes of a file, by which its kind is known.
fn start(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let mut start = Vec::new();
    let read = open(path)?.take(START).read_to_end(&mut start);
    read.map_err(|error| cannot("read", &path.display().to_string(), &error))?;
    Ok(start)
}

fn open(path: &Path) -> Result<BufReader<File>, String> {
    let file = File::open(path);
    let file = file.map_err(|error| cannot("read", &path.display().to_string(), &error))?;
    Ok(BufReader::with_capacity(PART, file))
}

/// The bytes by which the kind of a file is known.
const START: u64 = 1 << 16;
/// The bytes that are read at once.
const PART: usize = 256 << 10;
