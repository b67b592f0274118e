//! `weir whatif`: what other policies would have done to the traffic of a capture.

use crate::infer::{open, reading};
use crate::output::{Exit, Format, Output};
use crate::picture::{Files, picture_file};
use crate::whole_file::cannot;
use crate::{Run, input};
use indicatif::ProgressBar;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use weir_host::signals::StopSignal;
use weir_infer::whatif::{Answer, Trial, ask};
use weir_infer::{Grouping, Inferred, Input, Named, Options, infer, policies};
use weir_policy::{Policy, policy, render};
use weir_sim::{replicate, whatif};

/// Says what other policies would have done to the traffic of a capture, whose senders react.
///
/// Infers from the capture what its applications wanted, simulates that under the policy that was
/// in force, and compares with the capture: by so much the forecasts for the other policies may be
/// wrong, and where that is more than a difference it says `cannot tell`. A record of a link has
/// its policy, and tells delays and losses; for a capture name the policy with --was. Exits 1 if
/// the capture is damaged, after what precedes the damage was used. docs/guide/what-if.md explains
/// the table and what can be trusted.
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
        let files = Files::open(self.plot.as_deref(), None)?;
        let was = self.was()?;
        let others = self.policies.iter().map(|path| Ok((path.display().to_string(), read(path)?)));
        let others = others.collect::<Result<Vec<_>, String>>()?;
        let inferred = self.inferred(was.as_ref().map(|was| &was.1))?;
        let was = was.map_or_else(|| self.recorded(&inferred), Ok)?;
        let policies: Vec<_> = std::iter::once(was).chain(others).collect();
        let replications = usize::from(self.replications.get());
        let threads = self.threads.map_or_else(replicate::cores, |count| count.get().into());
        let bar = ProgressBar::new((policies.len() * replications) as u64);
        let trial = Trial { policies: &policies, replications, threads };
        let reading = reading(&self.capture);
        let done = |ended: usize| {
            reading.finish_and_clear();
            bar.set_position(ended as u64);
        };
        // Until here nothing was begun that a signal would leave half done.
        let stop = StopSignal::install().map_err(|error| error.to_string())?;
        let answer = ask((&inferred, self.input(&reading)?), &trial, stop.flag(), &done);
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
        Ok(if inferred.fault.is_some() { Exit::Faults } else { Exit::Clean })
    }

    /// Returns the policy that was in force with its name, as --was says.
    fn was(&self) -> Result<Option<(String, Policy)>, String> {
        if let Some(path) = &self.was {
            return Ok(Some((path.display().to_string(), read(path)?)));
        }
        match policies(open(&self.capture)?)? {
            Some(_) => Ok(None),
            None => {
                let name = self.capture.display();
                Err(format!("{name}: name the policy that was in force with --was POLICY"))
            }
        }
    }

    /// Returns the policy of a record for the link that was inferred from it.
    fn recorded(&self, inferred: &Inferred) -> Result<(String, Policy), String> {
        let found = policies(open(&self.capture)?)?;
        let own = found.and_then(|found| found.of(inferred.direction.as_deref()));
        own.ok_or_else(|| format!("{}: it has no policy", self.capture.display()))
    }

    fn inferred(&self, was: Option<&Policy>) -> Result<Inferred, String> {
        let stem = self.capture.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let options = Options {
            name: stem.unwrap_or_default(),
            // Each run replaces the policy of the scenario.
            policy: Some(String::new()),
            rate: was.map(|was| was.link.tree.rate()),
            direction: self.direction.clone(),
            grouping: Grouping::Exact,
            ..Options::default()
        };
        let bar = reading(&self.capture);
        let inferred = infer(self.input(&bar)?, &options, &mut |_| {});
        bar.finish_and_clear();
        inferred.map_err(|error| format!("{}: {error}", self.capture.display()))
    }

    fn input(&self, bar: &ProgressBar) -> Result<Input<'static>, String> {
        let Named { name, bytes } = open(&self.capture)?;
        let outside = self.outside.as_deref().map(open).transpose()?;
        Input::of(Named::new(name, bar.wrap_read(bytes)), outside)
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
