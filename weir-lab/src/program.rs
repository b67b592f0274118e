//! The program `weir`, which experiments with whole processes start, and the links that they start.

use std::process::Command;
use weir_bench::rig;
use weir_cli::program;
use weir_testbed::{Scene, ScenePlan};

/// Returns the command that runs `weir`.
///
/// # Errors
/// When it is not installed.
pub fn weir() -> Result<Command, String> {
    program::find("weir").map(Command::new).ok_or_else(|| MISSING.to_owned())
}

/// Plans a link of `weir up` with this policy.
///
/// # Errors
/// As [`weir`].
pub fn plan(policy: &str) -> Result<ScenePlan, String> {
    Ok(Scene::plan(weir()?.get_program(), policy))
}

/// As [`plan`], for much traffic: the link goes before all other programs, on a processor that
/// traffic of [`rig`] leaves to it.
///
/// # Errors
/// As [`weir`].
pub fn plan_first(policy: &str) -> Result<ScenePlan, String> {
    let plan = plan(policy)?.deployment("priority = \"realtime\"");
    Ok(match rig::cpus().0 {
        Some(cpu) => plan.deployment(&format!("cpu = {cpu}")),
        None => plan,
    })
}

const MISSING: &str = "this experiment starts the program `weir`, which is neither beside \
                       `weir-lab` nor on PATH; in a checkout of Weir, install it with `cargo \
                       install --locked --path weir`, or build it beside `weir-lab` with the same \
                       profile";
