//! The program `weir`, which experiments with whole processes start.

use std::process::Command;
use weir_cli::program;

/// Returns the command that runs `weir`.
///
/// # Errors
/// When it is not installed.
pub fn weir() -> Result<Command, String> {
    program::find("weir").map(Command::new).ok_or_else(|| MISSING.to_owned())
}

const MISSING: &str = "this experiment starts the program `weir`, which is neither beside \
                       `weir-lab` nor on PATH; in a checkout of Weir, install it with `cargo \
                       install --locked --path weir`, or build it beside `weir-lab` with the same \
                       profile";
