//! The keeper's output to the terminal or service manager, and the names of the joined interfaces.

use std::path::Path;
use std::time::Duration;
use weir_control::gateway::Api;
use weir_link::status::Status;
use weir_policy::deployment::{self, Deployment};

/// Prints what a keeper says.
pub trait Console {
    /// Prints a note or a warning, which `event` says.
    fn report(&self, event: &str, text: &str);

    /// Prints that frames pass from now on.
    fn start(&self, start: &Start<'_>);

    /// Prints the last status of a link that has ended.
    fn end(&self, status: &Status);

    /// From now on waits only so long for a reader of what is printed.
    fn wait_at_most(&self, patience: Duration);
}

/// A link that carries traffic.
pub struct Start<'a> {
    /// The name of its deployment.
    pub name: &'a str,
    /// The joined interfaces, in words.
    pub joined: String,
    /// The path of its control socket.
    pub control: &'a Path,
    /// The URL of its API on a TCP address, if it has one.
    pub api: Option<String>,
    /// The process of its forwarder.
    pub forwarder: u32,
}

/// Returns the URL of an API.
pub fn address(api: &Api) -> String {
    let scheme = if api.certificate.is_some() { "https" } else { "http" };
    format!("{scheme}://{}/", api.listen)
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
