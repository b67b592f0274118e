//! `weir man`: writes the manual pages.

use crate::output::{Exit, Output};
use crate::whole_file::cannot;
use crate::{Command, Run};
use clap::CommandFactory;
use std::path::PathBuf;

/// Writes the manual pages: weir.1, and weir-VERB.1 for each verb.
///
/// For example `weir man /usr/local/share/man/man1`.
#[derive(clap::Args)]
pub struct Man {
    /// The folder that gets the pages; it is created.
    folder: PathBuf,
}

impl Run for Man {
    fn run(self, output: &Output) -> Exit {
        let name = self.folder.display().to_string();
        let written = std::fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(Command::command(), &self.folder));
        match written {
            Ok(()) => Exit::Clean,
            Err(error) => output.refuse(&cannot("write into", &name, &error)),
        }
    }
}
