//! `weir status --circuits`: which circuits are shaped, and which are not.

use crate::output::{Exit, Format, Output};
use std::fmt::Write;
use std::path::Path;
use weir_control::circuits::{CircuitStatus, Circuits, RadiusCounts};
use weir_control::client;
use weir_control::protocol::{Answer, Request};
use weir_policy::table::Table;

/// Returns the circuits of the link at this socket, at most `limit` of them.
pub fn fetch(path: &Path, limit: Option<u32>) -> Result<Box<Circuits>, String> {
    match client::call(path, &Request::Circuits { limit }) {
        Ok(Answer::Circuits(circuits)) => Ok(circuits),
        Ok(Answer::Error(why)) | Err(why) => Err(why),
        Ok(_) => Err("the link gives another answer than its circuits".to_owned()),
    }
}

/// Prints the circuits.
pub fn show(circuits: &Circuits, output: &Output) -> Exit {
    match output.format {
        Format::Json => output.json(circuits),
        Format::Text => output.text(&text(circuits)),
    }
    Exit::Clean
}

/// Formats circuits for people.
pub fn text(circuits: &Circuits) -> String {
    let Circuits { from, known, shaped, waiting, unshaped, expired, moved, shown, .. } = circuits;
    let mut text = format!(
        "{known} circuits from {from}: {shaped} shaped, {unshaped} not, {waiting} waiting; \
         {expired} expired, {moved} addresses moved\n"
    );
    text.extend(circuits.radius.iter().map(radius));
    // A limit holds for these, too.
    let most = shown.len().max(FAULTS_LEAST);
    for fault in circuits.faults.iter().take(most) {
        let _ = writeln!(text, "fault: {fault}");
    }
    let left_out = circuits.faults.len().saturating_sub(most);
    if left_out > 0 {
        let _ = writeln!(text, "fault: and {left_out} more; --limit shows them");
    }
    if !shown.is_empty() {
        let heads = ["circuit", "addresses", "plan", "site", "heard s", "not shaped because"];
        let mut table = Table::new(heads);
        shown.iter().for_each(|one| table.row(row(one)));
        let _ = writeln!(text, "{table}");
    }
    let more = known.saturating_sub(shown.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "{more} more are left out; --limit shows them");
    }
    if !circuits.unknown.is_empty() {
        let mut table = Table::new(["host without a circuit", "direction", "bytes"]);
        for host in &circuits.unknown {
            table.row(vec![host.address.clone(), host.direction.clone(), host.bytes.to_string()]);
        }
        let _ = writeln!(text, "{table}");
    }
    text
}

fn radius(counts: &RadiusCounts) -> String {
    let RadiusCounts { received, answered, repeated, foreign, limited, .. } = counts;
    let RadiusCounts { malformed, insecure, refused, stale, .. } = counts;
    format!(
        "RADIUS: {received} packets, {answered} answered, {repeated} repeated; not answered: \
         {foreign} foreign, {limited} beyond the rate, {malformed} malformed, {insecure} insecure; \
         not followed: {refused} refused, {stale} stale\n"
    )
}

fn row(one: &CircuitStatus) -> Vec<String> {
    let CircuitStatus { circuit, fault, heard_s, .. } = one;
    let text = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    vec![
        circuit.id.clone(),
        text(&circuit.addresses.join(" ")),
        text(&circuit.plan),
        text(&circuit.site),
        heard_s.to_string(),
        text(fault.as_deref().unwrap_or_default()),
    ]
}

/// So many faults of the source are shown under any limit.
const FAULTS_LEAST: usize = 5;
