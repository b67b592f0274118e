//! Runs the rows of a live test, or says that they are skipped and why.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// Runs them if the machine is `ready`. If it is not, they are counted as skipped, and fail if
/// WEIR_REQUIRE_LIVE=1.
pub fn run(
    arguments: Arguments,
    ready: Result<(), String>,
    rows: impl Iterator<Item = Trial>,
) -> ExitCode {
    let rows: Vec<_> = rows.collect();
    let Err(why) = ready else {
        return libtest_mimic::run(&arguments, rows).exit_code();
    };
    println!("skipped: {} live tests: {why}", rows.len());
    let required = std::env::var_os("WEIR_REQUIRE_LIVE").is_some_and(|value| value == "1");
    if required { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
