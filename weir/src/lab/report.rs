//! `weir lab report`: writes the results of experiments for people.

use super::papers::Measurement;
use super::{Which, papers};
use crate::output::{Exit, Output};
use crate::whole_file::{self, WholeFile};
use std::path::{Path, PathBuf};
use weir_lab::claims::{Decided, Outcome, Shelf, decide};
use weir_lab::report::{About, Headline, html, markdown};

/// Exits 1 if a claim fails without a reason; the report is written in any case. After Ctrl-C the
/// report has the finished experiments, but no Markdown pages are written.
#[derive(clap::Args)]
pub struct Report {
    #[command(flatten)]
    which: Which,
    /// The HTML file, which needs no other file.
    #[arg(long, value_name = "FILE", default_value = "lab-report.html")]
    out: PathBuf,
    /// Write the claims as tables in Markdown to this folder instead: an index and a page a paper.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    markdown: Option<PathBuf>,
}

impl Report {
    /// Runs the experiments and writes the report.
    pub fn run(self, shelf: &Shelf, output: &Output) -> Exit {
        let sheets = shelf.select(&self.which.name);
        if sheets.is_empty() {
            return self.which.of_no_paper(shelf, output);
        }
        if self.markdown.is_some() && sheets.len() < shelf.sheets.len() {
            return output.refuse("`--markdown` writes a page of every paper; leave the name out");
        }
        let file = match self.open() {
            Ok(file) => file,
            Err(error) => return output.refuse(&error),
        };
        let Measurement { outcomes, asked } = match papers::measure(&sheets, &self.which, None) {
            Ok(measurement) => measurement,
            Err(error) => return output.refuse(&error),
        };
        // Pages in the repository are complete or unchanged.
        if outcomes.len() == asked || self.markdown.is_none() {
            let facts = match decide(shelf, &outcomes) {
                Ok(facts) => facts,
                Err(error) => return output.refuse(&error),
            };
            match self.write(file, shelf, &outcomes, &facts) {
                Ok(to) => {
                    let headline = Headline::of(&facts, &outcomes);
                    output.text(&format!("{}: {headline}.\n", to.display()));
                }
                Err(error) => return output.refuse(&error),
            }
        }
        papers::ended(&outcomes, asked, output)
    }

    /// Opens what will be written, before the runs: they would be lost where nothing can be.
    fn open(&self) -> Result<Option<WholeFile>, String> {
        let Some(folder) = &self.markdown else {
            return WholeFile::create(&self.out).map(Some).map_err(|error| error.to_string());
        };
        let made = std::fs::create_dir_all(folder);
        made.map(|()| None).map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// Writes the file or the pages; returns the path.
    fn write(
        &self,
        file: Option<WholeFile>,
        shelf: &Shelf,
        outcomes: &[Outcome<'_>],
        facts: &[Decided],
    ) -> Result<&Path, String> {
        if let Some(folder) = &self.markdown {
            for page in markdown(shelf, outcomes, facts) {
                whole_file::write(&folder.join(page.file), &page.text)?;
            }
            return Ok(folder);
        }
        let words: Vec<String> = std::env::args().skip(1).collect();
        let about = About::this(format!("weir {}", words.join(" ")), self.which.seed);
        let page = html(shelf, outcomes, facts, &about);
        file.map_or(Ok(()), |file| file.finish(page.as_bytes()))?;
        Ok(&self.out)
    }
}
