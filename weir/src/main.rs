//! The weir command: one verb a file, one line a verb.
//!
//! A new verb is a file `src/NAME.rs` with a `clap::Args` type that implements [`Run`], and its
//! line in `verbs` below. `output.rs` has what all verbs share (format, colour, exit codes).
//! `change.rs` has what the verbs that change a link share;
//! `input.rs` reads the files that a user names, and `whole_file.rs` writes them; `picture.rs` has
//! the pictures that several verbs draw.

mod change;
mod input;
mod kind;
mod output;
mod picture;
mod python;
mod whole_file;

use clap::Parser;
use clap::error::ErrorKind;
use output::{Exit, Format, Output};
use std::io::{self, Write};
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
    web::Web,
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
#[command(name = "weir", version = env!("WEIR_VERSION"))]
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
    weir_live::pages::keep_released();
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) => return wrong_usage(&error),
    };
    let output = Output::new(command.format);
    let exit = command.verb.run(&output);
    output.end(exit).into()
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 done, and the input has errors, a promise or claim \
    is broken, or the two policies of `diff` differ; 2 not done, because of wrong arguments or a \
    file that cannot be used; 130 stopped.";

/// Prints help, the version, or what is wrong with the arguments, for a program as JSON, too.
fn wrong_usage(error: &clap::Error) -> ExitCode {
    let asked = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
    if !asked && wants_json(std::env::args_os()) {
        let text = error.render().to_string();
        let message = text.split_once("\n\n").map_or(text.as_str(), |parts| parts.0);
        let message = message.trim().trim_start_matches("error: ");
        Output::new(Format::Json).json(&serde_json::json!({ "error": message }));
    }
    let printed = error.print().and_then(|()| io::stdout().flush());
    match printed {
        // What is wrong with the arguments may be unreadable; the exit code still tells.
        _ if !asked => Exit::Usage.into(),
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Output::new(Format::Text).refuse(&format!("cannot print: {error}")).into()
        }
        _ => Exit::Clean.into(),
    }
}

/// Returns whether arguments that could not be parsed ask for JSON.
fn wants_json(arguments: impl Iterator<Item = std::ffi::OsString>) -> bool {
    let words: Vec<_> = arguments.collect();
    let apart = words.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json");
    apart || words.iter().any(|word| word == "--format=json")
}
