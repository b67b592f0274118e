//! The simulator beside ns-2 (Debian's `ns2`), in one run: a three-class link with open-loop
//! sources of Poisson-like jitter at 130 % of their shares, delivered packets per wall second.

use super::{Experiment, Options, Row};
use std::process::Command;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "simulator-speed",
    summary: "delivered packets per wall second beside ns-2's, which must be installed",
    live: false,
    run,
};

fn run(_options: &Options, _progress: &mut dyn FnMut(&Row)) -> Result<Vec<Row>, String> {
    let found = Command::new("ns").arg("-h").output();
    Err(format!("ns-2: {}", found.is_ok()))
}
