//! What `weir up` prints: as text, or as JSON objects, one a line.

use super::console::{Console, Start};
use crate::output::{Format, Output};
use crate::status::table;
use serde_json::json;
use std::time::Duration;
use weir_live::status::Status;
use weir_policy::deployment::Deployment;
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

/// What a keeper says, in the format of the command.
pub struct Printed<'a>(pub &'a Output);

impl Console for Printed<'_> {
    fn tell(&self, event: &str, text: &str) {
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
