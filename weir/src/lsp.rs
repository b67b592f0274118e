//! `weir lsp`: serves an editor, by the Language Server Protocol.

use crate::output::{Exit, Output};
use crate::{Run, schema};

/// Serve an editor on standard input and output: findings while one types, and their cures.
///
/// It knows policies, deployments, scenarios and sweeps: what `weir check` finds, with edits that
/// cure it; every key with its meaning; classes with their uses, names and bounds.
/// docs/editors.md says how editors start it. Exits 0 after the editor ended it, 1 if the
/// editor went without a word, 2 if it sent what is no message.
#[derive(clap::Args)]
pub struct Lsp {}

impl Run for Lsp {
    fn run(self, output: &Output) -> Exit {
        match weir_lsp::run(schema::all()) {
            Ok(true) => Exit::Clean,
            Ok(false) => Exit::Faults,
            Err(error) => output.refuse(&format!("cannot serve the editor: {error}")),
        }
    }
}
