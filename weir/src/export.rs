//! `weir export`: writes a policy for another tool; for the kernel it can also apply and verify it.

mod kernel;
mod probe;

use crate::Run;
use crate::output::{Exit, Format, Output};
use serde::Serialize;
use std::path::PathBuf;
use weir_import::export::{self, Filters, Loss};
use weir_policy::{Policy, file, policy, render};

/// Writes a policy as another tool's configuration.
#[derive(clap::Args)]
pub struct Export {
    #[command(subcommand)]
    target: Target,
}

#[derive(clap::Subcommand)]
enum Target {
    /// Writes commands for the kernel's own disciplines.
    ///
    /// Parts that the kernel cannot express are listed on standard error. Exits 1 if the policy is
    /// wrong, if no discipline matches its scheduler, or if the kernel's state differs from the
    /// export.
    Tc(Tc),
}

#[derive(clap::Args)]
struct Tc {
    /// The policy, in TOML.
    policy: PathBuf,
    /// The device.
    #[arg(long, value_name = "DEV")]
    dev: String,
    /// Write input for `tc -batch` instead of a shell script.
    #[arg(long)]
    batch: bool,
    /// The kind of filters that lead to classes; every kernel has u32.
    #[arg(long, value_enum, default_value_t = FilterWord::Flower)]
    filters: FilterWord,
    /// Set the commands up in this network namespace, replacing the device's disciplines, and read
    /// the result back.
    #[arg(long)]
    apply: bool,
    /// Send a probe for each class and print the class that counted it; after `--apply`, or on an
    /// earlier set-up.
    #[arg(long)]
    verify: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FilterWord {
    Flower,
    U32,
}

/// The output of `--format json`; docs/export.md describes it.
#[derive(Serialize)]
struct Printed<'a> {
    device: &'a str,
    #[serde(flatten)]
    export: &'a export::Export,
    differences: Option<Vec<String>>,
    probes: Option<Vec<probe::Answer>>,
}

impl Run for Export {
    fn run(self, output: &Output) -> Exit {
        match self.target {
            Target::Tc(tc) => tc.run(output),
        }
    }
}

impl Tc {
    fn run(self, output: &Output) -> Exit {
        let name = self.policy.display().to_string();
        let bytes = match file::read(&self.policy) {
            Ok(bytes) => bytes,
            Err(error) => return output.refuse(&format!("cannot read {name}: {error}")),
        };
        if !is_device_name(&self.dev) {
            let device = &self.dev;
            return output
                .refuse(&format!("`{device}` is not a name of a device: 1 to 15 characters"));
        }
        let outcome = policy::parse_bytes(&bytes, &name, None, &file::read);
        let failed = outcome.failed();
        let Some(policy) = outcome.plan.filter(|_| !failed) else {
            output.text(&render::render(&outcome.findings, &outcome.sources, output.colour()));
            output.text(&format!("{name}: policy, {}\n", render::summary(&outcome.findings)));
            return Exit::Faults;
        };
        let filters = match self.filters {
            FilterWord::Flower => Filters::Flower,
            FilterWord::U32 => Filters::U32,
        };
        match export::to_tc(&policy, &self.dev, filters) {
            Ok(export) => self.hand_over(&policy, &export, output),
            Err(why) => {
                output.warn(&format!("{name}: {why}"));
                Exit::Faults
            }
        }
    }

    fn hand_over(&self, policy: &Policy, export: &export::Export, output: &Output) -> Exit {
        for Loss { what, why } in &export.lost {
            output.warn(&format!("lost: {what}: {why}"));
        }
        let text = output.format == Format::Text;
        if text && !self.apply && !self.verify {
            let written = if self.batch { export.batch() } else { export.script(&self.dev) };
            output.text(&written);
            return Exit::Clean;
        }
        let applied = self.apply.then(|| kernel::apply(export, &self.dev)).transpose();
        let verified = applied.and_then(|differences| {
            let probes = self.verify.then(|| probe::verify(policy, export, &self.dev));
            Ok((differences, probes.transpose()?))
        });
        let (differences, probes) = match verified {
            Ok(done) => done,
            Err(why) => return output.refuse(&why),
        };
        let same = differences.iter().all(Vec::is_empty);
        let right = probes.iter().flatten().all(|answer| answer.right);
        match output.format {
            Format::Text => tell(&self.dev, differences.as_deref(), probes.as_deref(), output),
            Format::Json => {
                output.json(&Printed { device: &self.dev, export, differences, probes });
            }
        }
        if same && right { Exit::Clean } else { Exit::Faults }
    }
}

fn tell(
    device: &str,
    differences: Option<&[String]>,
    probes: Option<&[probe::Answer]>,
    output: &Output,
) {
    match differences {
        None => {}
        Some([]) => output.text(&format!("{device}: set up, the kernel's state is as exported\n")),
        Some(found) => {
            found.iter().for_each(|one| output.text(&format!("{device}: differs: {one}\n")));
        }
    }
    for answer in probes.unwrap_or_default() {
        output.text(&format!("{answer}\n"));
    }
}

/// Returns whether the kernel allows the name; a shell finds nothing special in it.
fn is_device_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.@:".contains(c);
    (1..=15).contains(&name.len()) && name.chars().all(fits)
}
