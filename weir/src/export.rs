//! `weir export`: writes a policy for another tool; for the kernel it can also apply and verify it.

mod kernel;
mod probe;

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::{Run, input};
use serde::Serialize;
use std::path::PathBuf;
use weir_host::netlink::Netlink;
use weir_import::export::{self, Filters, Loss};
use weir_import::import;
use weir_policy::{Policy, policy};

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
    /// The policy, in TOML; `-` for standard input.
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
        let bytes = match input::read_or_stdin(&self.policy) {
            Ok(bytes) => bytes,
            Err(error) => return output.refuse(&format!("cannot read {name}: {error}")),
        };
        if let Some(why) = no_device_name(&self.dev) {
            return output.refuse(&format!("--dev `{}`: {why}", self.dev));
        }
        let outcome = policy::parse_bytes(&bytes, &name, None, &input::read_named);
        if outcome.failed() {
            return kind::refuse(output, (&name, &bytes), Kind::Policy, &outcome);
        }
        let policy = outcome.plan.expect("without errors there is a plan");
        let filters = match self.filters {
            FilterWord::Flower => Filters::Flower,
            FilterWord::U32 => Filters::U32,
        };
        match export::to_tc_on(&policy, &self.dev, self.is_bare(), filters) {
            Ok(export) => self.hand_over(&policy, &export, output),
            Err(why) => output.fault(&format!("{name}: {why}")),
        }
    }

    /// Returns whether the device sends packets without an Ethernet header: as it is here, if it is
    /// here, else as its name says.
    fn is_bare(&self) -> bool {
        let here = Netlink::open().and_then(|mut netlink| netlink.link(&self.dev));
        match here {
            Ok(link) => !link.is_ethernet && self.dev != "lo",
            Err(_) => import::is_bare(&self.dev),
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

/// Returns why the kernel does not allow the name, or why a shell or tc might take it for something
/// else.
fn no_device_name(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.@:".contains(c);
    let allowed = "a name of a device has 1 to 15 letters, digits or any of - _ . @ :";
    if let Some(bad) = name.chars().find(|&c| !fits(c)) {
        return Some(format!("{bad:?} is not allowed; {allowed}"));
    }
    if !(1..=DEVICE_BYTES_MAX).contains(&name.len()) {
        return Some(format!("{} characters; {allowed}", name.len()));
    }
    let reserved = name.starts_with('-') || name == "." || name == "..";
    reserved.then(|| format!("tc does not take it for a name; {allowed}, and begins with no -"))
}

/// IFNAMSIZ of Linux, less the zero at the end.
const DEVICE_BYTES_MAX: usize = 15;
