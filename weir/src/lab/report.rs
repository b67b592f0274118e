//! `weir lab report`: what came of the experiments, for people.

use super::{Which, papers};
use crate::output::{Exit, Output};
use std::io::Write;
use std::path::{Path, PathBuf};
use weir_lab::claims::{Outcome, Shelf};
use weir_lab::report::{About, Tally, html, markdown};

/// Exits 1 if a claim fails without a reason, with the report written.
#[derive(clap::Args)]
pub struct Report {
    #[command(flatten)]
    which: Which,
    /// Where the HTML goes: one file that needs nothing else.
    #[arg(long, value_name = "FILE", default_value = "lab-report.html")]
    out: PathBuf,
    /// Writes the claims as tables in Markdown to this file instead.
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    markdown: Option<PathBuf>,
}

impl Report {
    /// Runs the experiments and writes the report.
    pub fn run(self, shelf: &Shelf, output: &Output) -> Exit {
        let sheets = shelf.select(&self.which.name);
        if sheets.is_empty() {
            return self.which.unknown(shelf, output);
        }
        let outcomes = papers::measure(&sheets, &self.which, None);
        let (file, text) = self.written(shelf, &outcomes);
        if let Err(error) = write(file, &text) {
            return output.refuse(&format!("cannot write {}: {error}", file.display()));
        }
        let tally = Tally::of(&outcomes);
        output.text(&format!("{}: {tally}\n", file.display()));
        if tally.fails == 0 { Exit::Clean } else { Exit::Faults }
    }

    /// The file and what goes into it.
    fn written(&self, shelf: &Shelf, outcomes: &[Outcome<'_>]) -> (&Path, String) {
        if let Some(file) = &self.markdown {
            return (file, markdown(shelf, outcomes));
        }
        let words: Vec<String> = std::env::args().skip(1).collect();
        let about = About::this(format!("weir {}", words.join(" ")), self.which.seed);
        (&self.out, html(shelf, outcomes, &about))
    }
}

/// The file gets its name once it is whole.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".weir-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let mut file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map(drop).map_err(|error| error.error)
}
