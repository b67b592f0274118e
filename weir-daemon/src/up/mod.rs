//! Runs a deployment for `weir up`. This process is the keeper (`keeper.rs`), which starts another
//! as the forwarder ([`crate::forward`]).

mod absence;
pub mod api;
mod child;
pub mod circuits;
pub mod console;
mod gateway;
mod journal;
mod keeper;
mod orphan;
pub mod reading;
mod rsvp;
mod running;

use crate::events::write::Form;
use crate::keeper::messages::Plan;
use crate::keeper::service::Service;
use circuits::Circuits;
use console::Console;
use gateway::Gateway;
use journal::Journal;
pub use keeper::End;
use keeper::Keeper;
use orphan::Orphan;
use reading::Checked;
use rsvp::Reservations;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_control::gateway::Api;
use weir_control::places::{Places, PrivateFolder};
use weir_host::claim::{Claim, ClaimConfig};
use weir_host::error::SystemError;
use weir_host::netlink::Netlink;
use weir_host::privilege::{Need, Privilege};
use weir_host::process;
use weir_host::signals::{Asked, Signals, stop_with};
use weir_host::wait::realtime_ns;
use weir_host::watch;
use weir_link::deploy;
use weir_link::events::Kind as Event;
use weir_policy::deployment::{Deployment, Patience};

/// How a link is kept.
pub struct UpConfig {
    /// The file of the deployment, which is read again at a restart.
    pub path: PathBuf,
    /// Whether to take interfaces that have addresses or routes.
    pub take: bool,
    /// The process with which the link ends.
    pub ends_with: Option<u32>,
    /// How events are written.
    pub form: Form,
    /// The files of its API, if it has one.
    pub api: Option<Api>,
    /// Checks them when they are read again.
    pub check_api: api::Check,
}

/// Claims the interfaces of a deployment and runs forwarders until a stop is requested.
///
/// # Errors
/// When that is not possible; the text says why, and what to do.
///
/// # Panics
/// If the deployment has errors.
pub fn keep(checked: Checked, config: UpConfig, console: &dyn Console) -> Result<End, String> {
    let text = |error: SystemError| error.to_string();
    Privilege::detect().check(Need::Live).map_err(|missing| missing.to_string())?;
    let mut signals = Signals::install().map_err(text)?;
    config.ends_with.map_or(Ok(()), stop_with).map_err(text)?;
    let Checked { reading, found, forwarder } = checked;
    let forwarder = forwarder.expect("without errors one waits");
    let deployment = reading.outline.plan.expect("without errors there is a plan");
    let plan = &deployment;
    deploy::check_host(plan).map_err(text)?;
    let mut journal = Journal::open(plan, config.form)?;
    if !await_ports(plan, &mut signals, &mut journal).map_err(text)? {
        return Ok(End::Stopped);
    }
    let path = match &plan.control {
        Some(path) => path.clone(),
        None => Places::of_process().prepare(&plan.name)?,
    };
    // It goes last, however this ends.
    let _folder = plan.control.is_none().then(|| PrivateFolder::of(&path));
    let ports = deploy::port_configs(plan);
    let orphan = Orphan::find(&path, (&plan.name, &ports))?;
    let (orphan, parts, history) = orphan.map_or_else(Default::default, Orphan::split);
    let (orphan, listener) = orphan.unzip();
    let mut claim = Claim::adopt(&ClaimConfig::of(plan, config.take), parts).map_err(text)?;
    claim.take_notes().iter().for_each(|note| console.report("warning", note));
    found.notes.iter().for_each(|note| console.report("note", note));
    let mut plan = Plan {
        texts: forwarder.authority_server.files.texts().clone(),
        keeper: std::process::id(),
        owner: process::user(),
        history,
        api: config.api,
    };
    report_changes(&mut plan, console);
    let socket = match listener {
        Some(listener) => keeper::adopt(&path, listener)?,
        None => keeper::bind(&path, deployment.service.control_group.as_deref())?,
    };
    let gateway = Gateway::prepare(&deployment, plan.api.as_ref(), &path)?;
    let reservations = Reservations::prepare(&deployment, &path)?;
    let circuits = Circuits::prepare(&deployment, &path)?;
    let keeper = Keeper {
        socket,
        gateway,
        reservations,
        circuits,
        orphan,
        reader: Some(forwarder),
        path: config.path,
        check_api: config.check_api,
        deployment,
        plan,
        ports,
        claim,
        signals,
        console,
        journal,
        service: Service::detect(),
    };
    keeper.run()
}

/// Of a link whose keeper died: says whether changes of its policies still hold. They do unless the
/// files were edited since they were read.
fn report_changes(plan: &mut Plan, console: &dyn Console) {
    plan.history.give_up_trial(realtime_ns(), "another process took the link over");
    let changes = plan.history.set_since_files();
    let numbers: Vec<_> = changes.iter().map(u64::to_string).collect();
    let numbers = numbers.join(", ");
    if plan.history.goes_on_from(&plan.texts) {
        if !changes.is_empty() {
            let text = "the link keeps what `weir set` changed, which its files do not have";
            console.report("note", &format!("{text}: {numbers} in `weir log`"));
        }
        return;
    }
    if !changes.is_empty() {
        let text = "its files were edited and replace what `weir set` changed";
        console.report("note", &format!("{text}: {numbers} in `weir log`"));
    }
    plan.note_start(realtime_ns(), Some(plan.owner));
}

/// Waits for interfaces that do not exist yet, for as long as the deployment says; returns false if
/// a stop was requested meanwhile.
fn await_ports(
    deployment: &Deployment,
    signals: &mut Signals,
    journal: &mut Journal,
) -> Result<bool, SystemError> {
    let start = Instant::now();
    let patience = match deployment.service.wait_for_ports {
        Patience::AtMost(time) => Duration::from_nanos(time.as_nanos()),
        Patience::Forever => Duration::MAX,
    };
    let mut is_told = false;
    loop {
        let missing = missing(deployment)?;
        // The claim names the one that is still missing in the end.
        if missing.is_empty() || start.elapsed() >= patience {
            return Ok(true);
        }
        if !is_told {
            is_told = true;
            let missing = missing.join(", ");
            journal.report(Event::PortsAwaited, &missing);
            Service::detect().status(&format!("waiting for {missing}"));
        }
        watch::readable(&[std::os::fd::AsFd::as_fd(signals)], PORT_INTERVAL)?;
        if signals.take().iter().any(|asked| matches!(asked, Asked::Stop(_))) {
            return Ok(false);
        }
    }
}

/// Returns the interfaces of a deployment that do not exist.
fn missing(deployment: &Deployment) -> Result<Vec<&str>, SystemError> {
    let mut netlink = Netlink::open()?;
    let interfaces = deployment.ports.iter().map(|port| port.interface.as_str());
    Ok(interfaces.filter(|name| netlink.link(name).is_err()).collect())
}

/// How often a missing interface is looked for.
const PORT_INTERVAL: Duration = Duration::from_millis(200);
