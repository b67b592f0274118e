//! `weir lab`: experiments, each held to its claim.

use crate::Run;
use crate::output::{Exit, Format, Output};
use std::path::PathBuf;
use std::time::Duration;
use weir_lab::experiments::{self, EXPERIMENTS, Experiment, Options, Row};

/// Lists experiments, or runs one and holds what it measures to its claim.
///
/// `run` exits 1 if a claim does not hold.
#[derive(clap::Args)]
pub struct Lab {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Names the experiments.
    List,
    /// Runs one.
    Run {
        /// Its name.
        experiment: String,
        /// How long each live measurement takes.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
        /// Only the rows whose subject contains this.
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Runs the scenario of this file instead of the experiment's own.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

impl Run for Lab {
    fn run(self, output: &Output) -> Exit {
        match self.task {
            Task::List => list(output),
            Task::Run { experiment, seconds, only, file } => {
                let Some(found) = experiments::find(&experiment) else {
                    let names: Vec<&str> = EXPERIMENTS.iter().map(|row| row.name).collect();
                    let names = names.join(", ");
                    let message = format!("no experiment `{experiment}`; there are {names}");
                    return output.refuse(&message);
                };
                if file.is_some() && !found.takes_file() {
                    return output.refuse(&format!("`{experiment}` runs no scenario of a file"));
                }
                let duration = Duration::from_secs(seconds);
                run(output, found, &Options { duration, only, file })
            }
        }
    }
}

fn list(output: &Output) -> Exit {
    match output.format {
        Format::Json => {
            let names: Vec<_> = EXPERIMENTS.iter().map(|row| (row.name, row.summary)).collect();
            output.json(&names);
        }
        Format::Text => {
            for Experiment { name, summary, live, .. } in EXPERIMENTS {
                let live = if *live { " (live)" } else { "" };
                output.text(&format!("{name:<16} {summary}{live}\n"));
            }
        }
    }
    Exit::Clean
}

fn run(output: &Output, experiment: &Experiment, options: &Options) -> Exit {
    let mut print = |row: &Row| {
        if output.format == Format::Text {
            output.text(&line(row));
        }
    };
    let rows = match (experiment.run)(options, &mut print) {
        Ok(rows) => rows,
        Err(error) => return output.refuse(&error),
    };
    if output.format == Format::Json {
        output.json(&rows);
    }
    if rows.is_empty() {
        return output.refuse("no row was asked for; `--only` must be part of a subject");
    }
    if rows.iter().all(|row| row.holds) { Exit::Clean } else { Exit::Faults }
}

fn line(row: &Row) -> String {
    if row.expected.is_empty() {
        return format!("{:<44} {}\n", row.subject, row.measured);
    }
    let verdict = match row.holds {
        _ if row.limit.is_infinite() => "for information",
        true => "holds",
        false => "FAILS",
    };
    let Row { subject, measured, expected, deviation, limit, .. } = row;
    format!(
        "{subject:<44} {measured:>16}, expected {expected:>16}: {deviation:>+9.4} (limit {limit})  \
         {verdict}\n"
    )
}
