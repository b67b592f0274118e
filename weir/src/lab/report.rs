//! `weir lab report`: what came of the experiments, for people.

use super::papers::Measurement;
use super::{Which, papers};
use crate::output::{Exit, Output};
use crate::whole_file;
use std::path::{Path, PathBuf};
use weir_lab::claims::{Outcome, Shelf};
use weir_lab::report::{About, Tally, html, markdown};

/// Exits 1 if a claim fails without a reason, with the report written. Ctrl-C writes a report of
/// what has ended, but no tables in Markdown.
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
        let Measurement { outcomes, asked } = match papers::measure(&sheets, &self.which, None) {
            Ok(measurement) => measurement,
            Err(error) => return output.refuse(&error),
        };
        // What is kept with the code is whole or as it was.
        if outcomes.len() == asked || self.markdown.is_none() {
            let (file, text) = self.written(shelf, &outcomes);
            if let Err(error) = whole_file::write(file, &text) {
                return output.refuse(&error);
            }
            output.text(&format!("{}: {}\n", file.display(), Tally::of(&outcomes)));
        }
        papers::ended(&outcomes, asked, output)
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
