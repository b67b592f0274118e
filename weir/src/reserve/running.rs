//! The commands that announce or reserve on this host: `weir reserve list` and `release`.

use super::options::SessionText;
use crate::output::{Exit, Format, Output};
use serde_json::json;
use weir_host::rsvp::host::{self, HostStatus, Role, protocol_name, rate_text};
use weir_policy::table::Table;

/// Prints the programs on this machine that announce or reserve.
pub fn list(output: &Output) -> Exit {
    let running = match host::list() {
        Ok(running) => running,
        Err(error) => return output.refuse(&error.to_string()),
    };
    if output.format == Format::Json {
        let all: Vec<HostStatus> = running.into_iter().map(|(_, status)| status).collect();
        output.json(&json!({ "flows": all }));
        return Exit::Clean;
    }
    if running.is_empty() {
        output.text("no command on this host announces a flow or reserves for one\n");
        return Exit::Clean;
    }
    let mut table =
        Table::new(["process", "flow", "side", "senders", "asks for", "state", "for s"]);
    for (_, status) in &running {
        table.row(row(status));
    }
    output.table(&table);
    Exit::Clean
}

fn row(status: &HostStatus) -> Vec<String> {
    let HostStatus { destination, protocol, port, .. } = status;
    let side = match status.role {
        Role::Sender => "sends",
        Role::Receiver => "receives",
    };
    let sender = |(address, port): &(std::net::IpAddr, u16)| match port {
        0 => address.to_string(),
        port => format!("{address} {port}"),
    };
    let senders: Vec<String> = status.senders.iter().take(SENDERS_MAX).map(sender).collect();
    let service = status.service.as_ref().map(|service| format!(" {service}")).unwrap_or_default();
    let style = status.style.as_ref().map(|style| format!(" {style}")).unwrap_or_default();
    vec![
        status.process.to_string(),
        format!("{} {destination} {port}", protocol_name(*protocol)),
        side.to_owned(),
        senders.join(", "),
        format!("{}{service}{style}", rate_text(status.rate)),
        status.state.to_string(),
        status.seconds.to_string(),
    ]
}

/// Ends those of a flow, or all.
pub fn release(flow: Option<SessionText>, output: &Output) -> Exit {
    let running = match host::list() {
        Ok(running) => running,
        Err(error) => return output.refuse(&error.to_string()),
    };
    let is_it = |status: &HostStatus| {
        flow.is_none_or(|flow| (flow.address, flow.port) == (status.destination, status.port))
    };
    let found: Vec<_> = running.iter().filter(|(_, status)| is_it(status)).collect();
    if found.is_empty() {
        return output.refuse(
            "no command on this host announces such a flow or reserves for it; `weir reserve list` \
             lists them",
        );
    }
    let mut released = Vec::new();
    for (name, status) in found {
        if let Err(error) = host::end(name) {
            return output.refuse(&format!("process {}: {error}", status.process));
        }
        released.push(status);
    }
    match output.format {
        Format::Json => output.json(&json!({ "released": released })),
        Format::Text => released.iter().for_each(|status| {
            let HostStatus { process, destination, port, protocol, .. } = status;
            let flow = format!("{} to {destination} port {port}", protocol_name(*protocol));
            output.text(&format!("process {process} ended; {flow} is no longer reserved\n"));
        }),
    }
    Exit::Clean
}

/// Senders that a row names.
const SENDERS_MAX: usize = 3;
