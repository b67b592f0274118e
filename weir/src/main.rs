//! The weir command: one verb a file, one line a verb.
//!
//! A new verb is a file `src/NAME.rs` with a `clap::Args` type that implements [`Run`], and its
//! line in `verbs` below. `output.rs` has what all verbs share (format, colour, exit codes).

mod output;
mod whole_file;

use clap::Parser;
use output::{Exit, Format, Output};
use std::process::ExitCode;
use weir_live::pages::LargePages;

/// A link of a million classes needs hundreds of megabytes: see [`LargePages`].
#[global_allocator]
static ALLOCATOR: LargePages = LargePages;

/// The action of a verb.
trait Run {
    /// Runs the verb; returns the exit code.
    fn run(self, output: &Output) -> Exit;
}

/// Declares the verbs: `file::Type,` for each. The help of a verb is the doc comment of its type.
macro_rules! verbs {
    ($($module:ident::$name:ident,)*) => {
        $(mod $module;)*

        /// The verbs, each with its arguments.
        #[derive(clap::Subcommand)]
        enum Verb {
            $($name($module::$name),)*
        }

        impl Run for Verb {
            fn run(self, output: &Output) -> Exit {
                match self {
                    $(Verb::$name(verb) => verb.run(output),)*
                }
            }
        }
    };
}

verbs! {
    init::Init,
    check::Check,
    import::Import,
    export::Export,
    schema::Schema,
    diff::Diff,
    test::Test,
    replay::Replay,
    sim::Sim,
    up::Up,
    status::Status,
    bench::Bench,
    compare::Compare,
    lab::Lab,
    demo::Demo,
}

/// Link sharing that is proved before it is deployed.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Command {
    /// The format of results.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(subcommand)]
    verb: Verb,
}

/// Exits with the verb's code; clap itself exits 2 on wrong arguments.
fn main() -> ExitCode {
    weir_live::pages::keep_released();
    let command = Command::parse();
    let output = Output::new(command.format);
    let exit = command.verb.run(&output);
    output.end(exit).into()
}
