//! `weir up`: runs a deployment.

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::status::table;
use crate::{Run, input};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_daemon::events::write::Form;
use weir_daemon::keeper::found::Found;
use weir_daemon::up::console::{Console, Start};
use weir_daemon::up::reading::{Checked, Reading};
use weir_daemon::up::{self, End, UpConfig};
use weir_daemon::up::{api, circuits};
use weir_gateway::site;
use weir_link::status::Status;

/// Runs a deployment: bridges interfaces, or shapes one where it stands.
///
/// Each direction has a policy. It runs until SIGINT or SIGTERM.
///
/// Exits 1 and starts nothing if the deployment, a policy or a file of the API is wrong. JSON has
/// one object a line, with `event`: finding, note, warning, started, and stopped with the last
/// status.
#[derive(clap::Args)]
pub struct Up {
    /// The deployment, in TOML.
    deployment: PathBuf,
    /// Take interfaces that have addresses or routes, which then stop working.
    #[arg(long)]
    take: bool,
    /// Stop when the process ends that started this one: its number.
    #[arg(long, hide = true)]
    ends_with: Option<u32>,
}

impl Run for Up {
    fn run(self, output: &Output) -> Exit {
        output.json_by_line();
        if self.deployment.is_dir() {
            return output.refuse(&folder(&self.deployment));
        }
        let name = self.deployment.display();
        let read =
            Reading::of(&self.deployment).map_err(|why| format!("cannot read {name}: {why}"));
        let checked = match read.and_then(|reading| reading.check(output.colour())) {
            Ok(checked) => checked,
            Err(why) => return output.refuse(&why),
        };
        let Checked { reading, found, .. } = &checked;
        if found.errors > 0 {
            let named = (reading.name.as_str(), reading.bytes.as_slice());
            return kind::refuse_found(output, named, Kind::Deployment, found);
        }
        findings(found, &reading.name, output);
        let deployment = reading.outline.plan.as_ref().expect("without errors there is a plan");
        let api = match api::read(deployment, site::check) {
            Ok(api) => api,
            // A service that starts again and again would not cure that.
            Err(why) => return output.fault(&why),
        };
        if let Err(why) = circuits::check(deployment) {
            return output.fault(&why);
        }
        let is_json = output.format == Format::Json;
        let config = UpConfig {
            path: self.deployment,
            take: self.take,
            ends_with: self.ends_with,
            form: if is_json { Form::Json } else { Form::Text },
            api,
            check_api: site::check,
        };
        match up::keep(checked, config, &Printed(output)) {
            Ok(End::Stopped) => Exit::Clean,
            Ok(End::Signal(signal)) => std::process::exit(128 + signal),
            Err(error) => output.refuse(&error),
        }
    }
}

/// Returns why a folder is no deployment, with those that it holds.
fn folder(path: &Path) -> String {
    let files = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_deployment = |file: &PathBuf| {
        let is_toml = file.extension().is_some_and(|end| end == "toml");
        let bytes = || input::read_named(file).unwrap_or_default();
        is_toml && Kind::of(&bytes()) == Some(Kind::Deployment)
    };
    let mut found: Vec<_> = files.filter(is_deployment).take(FOUND_MAX).collect();
    found.sort();
    let ways: Vec<_> = found.iter().map(|file| format!("`weir up {}`", file.display())).collect();
    match ways.as_slice() {
        [] => format!("{} is a folder, and no deployment is in it", path.display()),
        ways => format!("{} is a folder; write {}", path.display(), ways.join(" or ")),
    }
}

/// Deployments of a folder that a message names.
const FOUND_MAX: usize = 4;

/// Prints what is wrong with a deployment that can run.
fn findings(found: &Found, name: &str, output: &Output) {
    match output.format {
        _ if found.findings.is_empty() => {}
        Format::Text => {
            output.text(&found.text);
            output.text(&format!("{name}: {}\n", found.summary));
        }
        Format::Json => {
            for finding in &found.findings {
                output.json(&json!({ "event": "finding", "finding": finding }));
            }
        }
    }
}

/// Prints the keeper's messages in the format of the command.
struct Printed<'a>(&'a Output);

impl Console for Printed<'_> {
    fn report(&self, event: &str, text: &str) {
        match self.0.format {
            Format::Text => self.0.text(&format!("{event}: {text}\n")),
            Format::Json => self.0.json(&json!({ "event": event, "text": text })),
        }
    }

    fn start(&self, start: &Start<'_>) {
        let Start { name, joined, api, forwarder, .. } = start;
        let (keeper, control) = (std::process::id(), start.control.display());
        let also = api.as_ref().map(|api| format!(" and {api}")).unwrap_or_default();
        match self.0.format {
            Format::Text => self.0.text(&format!(
                "{name}: {joined}; status on {control}{also}; stop with SIGINT or SIGTERM to the \
                 keeper, \
                 process {keeper} (the forwarder is process {forwarder})\n"
            )),
            Format::Json => self.0.json(&json!({
                "event": "started",
                "name": name,
                "control": control.to_string(),
                "text": joined,
                "keeper": keeper,
                "forwarder": forwarder,
                "api": api,
            })),
        }
    }

    fn end(&self, status: &Status) {
        match self.0.format {
            Format::Text => self.0.text(&table(status)),
            Format::Json => self.0.json(&json!({ "event": "stopped", "status": status })),
        }
    }

    fn wait_at_most(&self, patience: Duration) {
        self.0.wait_at_most(patience);
    }
}
