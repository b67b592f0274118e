//! `weir up`: runs a deployment, and tells what happens: as text, or as JSON objects, one a line.

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::status::table;
use crate::{Run, input};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_control::places::Places;
use weir_control::server::Server;
use weir_live::bridge::Bridge;
use weir_live::claim::{Claim, ClaimConfig};
use weir_live::deploy;
use weir_live::error::SystemError;
use weir_live::precedence::{NICENESS_FIRST, SessionNiceness, set_niceness};
use weir_live::privilege::{Need, Privilege};
use weir_live::signals::StopSignal;
use weir_live::status::{Board, Status};
use weir_policy::deployment::{self, Deployment};
use weir_policy::finding::Outcome;
use weir_policy::render;

/// Bridges interfaces, or shapes one where it stands, with a policy for each direction, until
/// SIGINT or SIGTERM.
///
/// Exits 1 with findings and starts nothing if the deployment or a policy is wrong. JSON has one
/// object a line, with `event`: finding, note, warning, started, and stopped with the last status.
#[derive(clap::Args)]
pub struct Up {
    /// The deployment, in TOML.
    deployment: PathBuf,
    /// Take interfaces that have addresses or routes, which then stop working.
    #[arg(long)]
    take: bool,
}

impl Run for Up {
    fn run(self, output: &Output) -> Exit {
        output.json_by_line();
        let name = self.deployment.display().to_string();
        let bytes = match input::read(&self.deployment) {
            Ok(bytes) => bytes,
            Err(error) => return output.refuse(&format!("cannot read {name}: {error}")),
        };
        let read = |path: &Path| input::read_named(path);
        let outcome = deployment::parse(&bytes, &name, &read);
        if outcome.failed() {
            return kind::refuse(output, (&name, &bytes), Kind::Deployment, &outcome);
        }
        tell_findings(&outcome, &name, output);
        let deployment = outcome.plan.expect("without errors there is a plan");
        if let Err(missing) = Privilege::detect().check(Need::Live) {
            return output.refuse(&missing.to_string());
        }
        match forward(&deployment, self.take, output) {
            Ok(()) => Exit::Clean,
            Err(error) => output.refuse(&error),
        }
    }
}

/// Runs each bridge on a thread of its own until a stop is requested.
fn forward(deployment: &Deployment, take: bool, output: &Output) -> Result<(), String> {
    let text = |error: SystemError| error.to_string();
    let stop = StopSignal::install().map_err(text)?;
    deploy::check_cpus(deployment).map_err(text)?;
    let mut claim = claim(deployment, take, output).map_err(text)?;
    for note in deploy::notes(deployment) {
        tell(output, "note", &note);
    }
    let configs = deploy::bridges(deployment).map_err(text)?;
    let opened: Result<Vec<_>, _> = configs.into_iter().map(Bridge::open).collect();
    let mut bridges = opened.map_err(text)?;
    for warning in bridges.iter().flat_map(Bridge::warnings) {
        tell(output, "warning", &warning);
    }
    let boards: Vec<_> = bridges.iter().map(|_| Arc::new(Board::new())).collect();
    let socket = match &deployment.control {
        Some(path) => path.clone(),
        None => Places::of_process().prepare(&deployment.name)?,
    };
    let server = Server::start(&socket, boards.clone())?;
    let _session = go_first(deployment.nice, output);
    tell_start(deployment, &socket, output);
    let ran = run(&mut bridges, &boards, &stop, || keep(&mut claim, output));
    drop(server);
    let status = bridges.iter_mut().map(Bridge::status).reduce(Status::join);
    tell_end(&status.unwrap_or_default(), output);
    ran.map_err(text)
}

/// Prints what is wrong with a deployment that can run.
fn tell_findings(outcome: &Outcome<Deployment>, name: &str, output: &Output) {
    let findings = &outcome.findings;
    match output.format {
        _ if findings.is_empty() => {}
        Format::Text => {
            output.text(&render::render(findings, &outcome.sources, output.colour()));
            output.text(&format!("{name}: {}\n", render::summary(findings)));
        }
        Format::Json => {
            for finding in findings {
                output.json(&json!({ "event": "finding", "finding": finding }));
            }
        }
    }
}

/// Prints a note or a warning.
fn tell(output: &Output, event: &str, text: &str) {
    match output.format {
        Format::Text => output.text(&format!("{event}: {text}\n")),
        Format::Json => output.json(&json!({ "event": event, "text": text })),
    }
}

/// Says that frames pass from now on.
fn tell_start(deployment: &Deployment, socket: &Path, output: &Output) {
    let (name, control) = (&deployment.name, socket.display().to_string());
    let joined = joined(deployment);
    match output.format {
        Format::Text => output
            .text(&format!("{name}: {joined}; status on {control}; stop with SIGINT or SIGTERM\n")),
        Format::Json => output
            .json(&json!({ "event": "started", "name": name, "control": control, "text": joined })),
    }
}

/// Prints the last status.
fn tell_end(status: &Status, output: &Output) {
    match output.format {
        Format::Text => output.text(&table(status)),
        Format::Json => output.json(&json!({ "event": "stopped", "status": status })),
    }
}

/// Claims the interfaces, and prints what that changes for the host.
fn claim(deployment: &Deployment, take: bool, output: &Output) -> Result<Claim, SystemError> {
    let mut claim = Claim::take(&ClaimConfig::of(deployment, take))?;
    claim.take_notes().iter().for_each(|note| tell(output, "warning", note));
    Ok(claim)
}

/// Claims interfaces again that came back, and prints what hinders that.
fn keep(claim: &mut Claim, output: &Output) {
    claim.refresh();
    claim.take_notes().iter().for_each(|note| tell(output, "warning", note));
}

/// Runs the bridges; if one ends, all do. Meanwhile calls `look` every [`LOOK_INTERVAL`].
fn run(
    bridges: &mut [Bridge],
    boards: &[Arc<Board>],
    stop: &StopSignal,
    mut look: impl FnMut(),
) -> Result<(), SystemError> {
    let wake = [stop.descriptor()];
    let this = std::thread::current();
    std::thread::scope(|scope| {
        let each = bridges.iter_mut().zip(boards);
        let threads: Vec<_> = each
            .map(|(bridge, board)| {
                scope.spawn(|| {
                    let ran = bridge.run(stop.flag(), &wake, board);
                    stop.flag().store(true, Ordering::Relaxed);
                    this.unpark();
                    ran
                })
            })
            .collect();
        while !threads.iter().any(|thread| thread.is_finished()) {
            std::thread::park_timeout(LOOK_INTERVAL);
            look();
        }
        stop.flag().store(true, Ordering::Relaxed);
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(ran) => ran,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.fold(Ok(()), Result::and)
    })
}

/// Puts the bridges before other work of the machine, and the session with them. Where it may not,
/// it says so only if the deployment asks for it.
fn go_first(nice: Option<i32>, output: &Output) -> Option<SessionNiceness> {
    let niceness = nice.unwrap_or(NICENESS_FIRST);
    let session = set_niceness(niceness).and_then(|()| SessionNiceness::set(niceness));
    if let (Some(_), Err(error)) = (nice, &session) {
        let text = format!("{error}; the link shares the processor with other work");
        tell(output, "warning", &text);
    }
    session.ok()
}

/// Says what is joined.
fn joined(deployment: &Deployment) -> String {
    if let Some(interface) = deployment.host_interface() {
        return format!("{interface} is shaped where it stands");
    }
    let interface = |port: &usize| deployment.ports[*port].interface.clone();
    let bridge = |bridge: &deployment::Bridge| {
        format!("{} are bridged", list(&bridge.ports.iter().map(interface).collect::<Vec<_>>()))
    };
    deployment.bridges.iter().map(bridge).collect::<Vec<_>>().join("; ")
}

fn list(names: &[String]) -> String {
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// How soon an interface that came back is claimed again.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
