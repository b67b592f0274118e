//! What `weir up` prints: as text, or as JSON objects, one a line.

use crate::output::{Format, Output};
use crate::status::table;
use serde_json::json;
use std::path::Path;
use weir_live::keeper::messages::Api;
use weir_live::status::Status;
use weir_policy::deployment::{self, Deployment};
use weir_policy::finding::Outcome;
use weir_policy::render;

/// Prints what is wrong with a deployment that can run.
pub fn findings(outcome: &Outcome<Deployment>, name: &str, output: &Output) {
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
pub fn tell(output: &Output, event: &str, text: &str) {
    match output.format {
        Format::Text => output.text(&format!("{event}: {text}\n")),
        Format::Json => output.json(&json!({ "event": event, "text": text })),
    }
}

/// Says that frames pass from now on, by this forwarder.
pub fn start(
    (deployment, api): (&Deployment, Option<&Api>),
    socket: &Path,
    forwarder: u32,
    output: &Output,
) {
    let (name, control) = (&deployment.name, socket.display().to_string());
    let joined = joined(deployment);
    let api = api.map(address);
    let also = api.as_ref().map(|api| format!(" and {api}")).unwrap_or_default();
    match output.format {
        Format::Text => output.text(&format!(
            "{name}: {joined}; status on {control}{also}; stop with SIGINT or SIGTERM to the keeper, \
                 process {} (the forwarder is process {forwarder})\n",
            std::process::id()
        )),
        Format::Json => output.json(&json!({
            "event": "started",
            "name": name,
            "control": control,
            "text": joined,
            "keeper": std::process::id(),
            "forwarder": forwarder,
            "api": api,
        })),
    }
}

/// Returns how the API is reached on its TCP address.
fn address(api: &Api) -> String {
    let scheme = if api.certificate.is_some() { "https" } else { "http" };
    format!("{scheme}://{}/", api.listen)
}

/// Prints the last status.
pub fn end(status: &Status, output: &Output) {
    match output.format {
        Format::Text => output.text(&table(status)),
        Format::Json => output.json(&json!({ "event": "stopped", "status": status })),
    }
}

/// Says what is joined.
pub fn joined(deployment: &Deployment) -> String {
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
