//! Runs the `tc` program: sets up an export and reads back the kernel's state.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use weir_import::export::Export;
use weir_import::export::state::differences;

/// Replaces the device's disciplines; returns the differences between the kernel's state and the
/// export.
pub fn apply(export: &Export, device: &str) -> Result<Vec<String>, String> {
    // A device without a discipline of its own has none to delete.
    let removed = tc(&["qdisc", "del", "dev", device, "root"], "")?;
    let missing = String::from_utf8_lossy(&removed.stderr).contains("Cannot find device");
    if missing {
        return Err(format!("there is no device `{device}` here; `ip link` lists the devices"));
    }
    let done = tc(&["-batch", "-"], &export.batch())?;
    if !done.status.success() {
        // A partial set-up would match neither the old state nor the export.
        tc(&["qdisc", "del", "dev", device, "root"], "")?;
        return Err(format!("{}; `{device}` now has no discipline", refusal(&done, export)));
    }
    let shown = show(device, &["class", "show", "dev", device])?;
    let mut found = differences(export, &shown);
    let filters = export.lines.iter().filter(|line| line.starts_with("filter ")).count();
    let roots =
        ["1:", "10:"].map(|root| show(device, &["filter", "show", "dev", device, "parent", root]));
    let listed = |text: &String| text.matches("flowid ").count() + text.matches("classid ").count();
    let there: usize = roots.iter().flatten().map(listed).sum();
    if there != filters {
        found.push(format!("{there} filters are present, {filters} were exported"));
    }
    Ok(found)
}

/// Returns the output of a `tc` that only shows.
pub fn show(device: &str, arguments: &[&str]) -> Result<String, String> {
    let done = tc(arguments, "")?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(format!("tc shows nothing of `{device}`: {why}"))
}

fn tc(arguments: &[&str], input: &str) -> Result<Output, String> {
    let mut command = Command::new("tc");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        format!("cannot run tc: {error}; install iproute2, or leave `--apply` and `--verify` out")
    })?;
    let mut stdin = child.stdin.take().expect("it was piped");
    // tc stops reading at the first line that it refuses, and then names it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().map_err(|error| format!("cannot run tc: {error}"))
}

/// Returns which line was refused, why, and the cure.
fn refusal(done: &Output, export: &Export) -> String {
    let said = String::from_utf8_lossy(&done.stderr).trim().replace('\n', " ");
    let number = said.rsplit(':').next().and_then(|number| number.trim().parse::<usize>().ok());
    let line = number.and_then(|number| export.lines.get(number.checked_sub(1)?));
    let line = line.map_or("a command", String::as_str);
    let cure = match said.as_str() {
        said if said.contains("Operation not permitted") => {
            "; setting up a device needs CAP_NET_ADMIN: run it as root, or in a private network"
        }
        said if said.contains("classifier not found") => {
            "; this kernel has no such filter: try `--filters u32`"
        }
        said if said.contains("kind is unknown") => "; this kernel has no such discipline",
        _ => "",
    };
    format!("the kernel refused `{line}`: {said}{cure}")
}
