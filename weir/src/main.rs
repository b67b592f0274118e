//! The weir command: one verb a file, one line a verb.
//!
//! A new verb is a file `src/NAME.rs` with a `clap::Args` type that implements [`Run`], and its
//! line in `verbs` below. `weir-cli` has what all verbs share: `output` (format, colour, exit
//! codes), `input` and `whole_file` (the files that a user names) and `picture`. `change.rs` has
//! what the verbs that change a link share, `link.rs` finds the link, `runs.rs` shows many runs.

mod change;
mod kind;
mod link;
mod python;
mod runs;

use clap::{CommandFactory, FromArgMatches, Parser};
use output::{Exit, Format, Output};
use ratatui::crossterm::terminal::size;
use std::io::IsTerminal;
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

/// Declares the verbs by groups: `file::Type,` for each. The help of a verb is the doc comment of
/// its type. A verb that only Weir itself starts is hidden, in whatever group.
macro_rules! verbs {
    ($($group:literal: $($module:ident::$name:ident,)*;)*) => {
        $($(mod $module;)*)*

        /// The verbs, each with its arguments.
        #[derive(clap::Subcommand)]
        enum Verb {
            $($($name($module::$name),)*)*
        }

        impl Run for Verb {
            fn run(self, output: &Output) -> Exit {
                match self {
                    $($(Verb::$name(verb) => verb.run(output),)*)*
                }
            }
        }

        /// The groups of verbs, in the order of the help.
        const GROUPS: &[(&str, &[&str])] = &[$(($group, &[$(stringify!($module),)*]),)*];
    };
}

verbs! {
    "Write a policy":
        init::Init,
        check::Check,
        diff::Diff,
        convert::Convert,
        import::Import,
        export::Export,
        schema::Schema,
        lsp::Lsp,
    ;
    "Try it":
        demo::Demo,
        sim::Sim,
        test::Test,
        replay::Replay,
        infer::Infer,
        compare::Compare,
        sweep::Sweep,
        tune::Tune,
        whatif::Whatif,
    ;
    "Run it":
        doctor::Doctor,
        up::Up,
        forward::Forward,
        gateway::Gateway,
        rsvp::Rsvp,
        circuits::Circuits,
        restart::Restart,
        stop::Stop,
        status::Status,
        top::Top,
        view::View,
        api::Api,
        reserve::Reserve,
    ;
    "Change it":
        set::Set,
        reload::Reload,
        class::Class,
        log::Log,
        confirm::Confirm,
        rollback::Rollback,
    ;
    "Look back":
        record::Record,
        explain::Explain,
        fork::Fork,
    ;
    "Measure":
        r#try::Try,
        send::Send,
        recv::Recv,
        measure::Measure,
        calibrate::Calibrate,
        bench::Bench,
    ;
    "Papers":
        lab::Lab,
    ;
    "Weir itself":
        completions::Completions,
        man::Man,
    ;
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
    if let Some(code) = weir_host::script::stand_in() {
        return code;
    }
    weir_host::pages::keep_released();
    weir_host::process::take_name();
    let matches = grouped(Command::command()).try_get_matches();
    let command = match matches.and_then(|matches| Command::from_arg_matches(&matches)) {
        Ok(command) => command,
        Err(error) => return weir_cli::usage::explain(&error),
    };
    weir_policy::table::set_width(table_width());
    let output = Output::new(command.format);
    let exit = command.verb.run(&output);
    output.end(exit).into()
}

/// Returns how wide tables may be: as the terminal, or as `COLUMNS` says where there is none; in a
/// pipe each row stays on one line.
fn table_width() -> usize {
    let written = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = std::io::stdout().is_terminal().then(|| size().ok()).flatten();
    let wanted = terminal.map(|(columns, _)| usize::from(columns)).or(written);
    wanted.filter(|columns| *columns > 0).map_or(usize::MAX, |columns| columns.max(WIDTH_MIN))
}

/// Has the help list the verbs by groups.
fn grouped(command: clap::Command) -> clap::Command {
    let mut text = String::new();
    for (group, verbs) in GROUPS {
        text += &format!("\n{group}:\n");
        for name in *verbs {
            // `try` is a word of Rust, too.
            let name = name.trim_start_matches("r#");
            let verb = command.find_subcommand(name).filter(|verb| !verb.is_hide_set());
            if let Some(about) = verb.and_then(clap::Command::get_about) {
                text += &format!("  {name:<12} {about}\n");
            }
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{text}\n\
         Options:\n{{options}}{{after-help}}"
    ))
}

/// Tables are not made for narrower terminals.
const WIDTH_MIN: usize = 60;
const EXIT_CODES: &str = "Exit codes: 0 done; 1 done, and the input has errors, a promise or claim \
    is broken, or the two policies of `diff` differ; 2 not done, because of wrong arguments or a \
    file that cannot be used; 130 stopped.\n\nTables are as wide as the terminal, or \
    as COLUMNS says; in a pipe each row is one line.";
