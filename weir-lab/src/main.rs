//! The program `weir-lab`: runs the papers' experiments and Weir's own, and checks their claims.
//!
//! `weir lab` starts it, and has the same options.

mod command;

use clap::Parser;
use std::process::ExitCode;
use weir_cli::lab::Lab;
use weir_cli::output::{Format, Output};
use weir_host::pages::LargePages;

/// As in `weir`, so that measurements are of the same memory.
#[global_allocator]
static ALLOCATOR: LargePages = LargePages;

/// The papers' tables and figures, and Weir's own experiments: what `weir lab` starts.
#[derive(Parser)]
#[command(name = "weir-lab", version = weir_cli::VERSION, arg_required_else_help = true)]
struct Command {
    /// The format of results.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    lab: Lab,
}

/// Exits with the task's code, and 2 on wrong arguments.
fn main() -> ExitCode {
    weir_host::pages::keep_released();
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) => return weir_cli::usage::explain(&error),
    };
    let output = Output::new(command.format);
    let exit = command::run(command.lab.task, &output);
    output.end(exit).into()
}
