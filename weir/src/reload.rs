//! `weir reload`: puts other files in force on a running link.

use crate::Run;
use crate::change::{self, Options};
use crate::output::{Exit, Output};
use std::path::{Path, PathBuf};
use weir_control::protocol::{Request, Texts};
use weir_control::texts;

/// Puts in force what the files of a running link contain now, or other files.
///
/// Scheduler, droppers, classes, rules and rates change together, between two frames; nothing is
/// lost but what a new limit has no room for. What only a new process can change is named, and
/// `weir restart` does it. If a file is wrong, nothing changes and this exits 1.
#[derive(clap::Args)]
#[command(override_usage = "weir reload [OPTIONS] <NAME|--control <SOCKET>> [DEPLOYMENT]")]
pub struct Reload {
    /// The name of the deployment that runs, and a deployment file to put in force; without a file
    /// the link reads its own files anew.
    #[arg(value_name = "NAME DEPLOYMENT", num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    options: Options,
}

impl Run for Reload {
    fn run(self, output: &Output) -> Exit {
        let has_name = self.options.control.is_none();
        let mut words = self.words.into_iter();
        let name = if has_name { words.next() } else { Some(String::new()) };
        let Some(name) = name else {
            return output.refuse("name the link, as `weir status` lists it");
        };
        let file = words.next().map(PathBuf::from);
        let texts = match file.as_deref().map(read).transpose() {
            Ok(texts) => texts.map(Box::new),
            Err(why) => return output.refuse(&why),
        };
        let request = Request::Reload { texts, terms: self.options.terms() };
        change::change(output, &name, &self.options, &request)
    }
}

/// Reads a deployment with the rights of this user; the link checks it.
fn read(path: &Path) -> Result<Texts, String> {
    texts::of_files(path).map_err(|why| format!("cannot read {}: {why}", path.display()))
}
