//! `weir completions`: prints completions of a shell.

use crate::output::{Exit, Output};
use crate::{Command, Run};
use clap::CommandFactory;
use clap_complete::{Shell, generate};

/// Prints the completions of verbs and options for a shell.
///
/// For bash: `weir completions bash > ~/.local/share/bash-completion/completions/weir`.
#[derive(clap::Args)]
pub struct Completions {
    /// The shell that completes.
    #[arg(value_enum)]
    shell: Shell,
}

impl Run for Completions {
    fn run(self, output: &Output) -> Exit {
        let mut text = Vec::new();
        generate(self.shell, &mut Command::command(), "weir", &mut text);
        output.text(&String::from_utf8_lossy(&text));
        Exit::Clean
    }
}
