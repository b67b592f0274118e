//! The weir command: one verb a file, one line a verb.
//!
//! A new verb is a file `src/NAME.rs` with a `clap::Args` type that implements [`Run`], and its
//! line in `verbs` below. `weir-cli` has what all verbs share: `output` (format, colour, exit
//! codes), `input` and `whole_file` (the files that a user names) and `picture`. `change.rs` has
//! what the verbs that change a link share.

mod change;
mod kind;
mod python;

use clap::Parser;
use output::{Exit, Format, Output};
use std::process::ExitCode;
use weir_cli::{input, output, picture, whole_file};
use weir_host::pages::LargePages;

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
    doctor::Doctor,
    import::Import,
    export::Export,
    convert::Convert,
    schema::Schema,
    diff::Diff,
    test::Test,
    replay::Replay,
    explain::Explain,
    fork::Fork,
    sim::Sim,
    up::Up,
    forward::Forward,
    gateway::Gateway,
    rsvp::Rsvp,
    restart::Restart,
    set::Set,
    class::Class,
    reload::Reload,
    confirm::Confirm,
    rollback::Rollback,
    log::Log,
    status::Status,
    top::Top,
    view::View,
    api::Api,
    record::Record,
    snapshot::Snapshot,
    send::Send,
    recv::Recv,
    reserve::Reserve,
    measure::Measure,
    calibrate::Calibrate,
    bench::Bench,
    compare::Compare,
    sweep::Sweep,
    tune::Tune,
    lab::Lab,
    demo::Demo,
    completions::Completions,
    man::Man,
}

/// Link sharing that is proved before it is deployed.
#[derive(Parser)]
#[command(name = "weir", version = weir_cli::VERSION)]
#[command(arg_required_else_help = true, after_help = EXIT_CODES)]
struct Command {
    /// The format of results.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(subcommand)]
    verb: Verb,
}

/// Exits with the verb's code, and 2 on wrong arguments.
fn main() -> ExitCode {
    weir_host::pages::keep_released();
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) => return weir_cli::usage::explain(&error),
    };
    let output = Output::new(command.format);
    let exit = command.verb.run(&output);
    output.end(exit).into()
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 done, and the input has errors, a promise or claim \
    is broken, or the two policies of `diff` differ; 2 not done, because of wrong arguments or a \
    file that cannot be used; 130 stopped.";
