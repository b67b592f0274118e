//! `weir lab report`: writes the results of experiments for people.

use super::papers::Measurement;
use super::{of_no_paper, papers};
use std::path::Path;
use weir_cli::lab::Report;
use weir_cli::output::{Exit, Output};
use weir_cli::whole_file::{self, WholeFile};
use weir_lab::claims::{Decided, Outcome, PaperSet, decide};
use weir_lab::report::{About, Headline, html, markdown};

/// Runs the experiments and writes the report.
pub fn run(report: &Report, set: &PaperSet, output: &Output) -> Exit {
    let sheets = set.select(&report.which.name);
    if sheets.is_empty() {
        return of_no_paper(&report.which, set, output);
    }
    if report.markdown.is_some() && sheets.len() < set.sheets.len() {
        return output.refuse("`--markdown` writes a page of every paper; leave the name out");
    }
    let file = match open(report) {
        Ok(file) => file,
        Err(error) => return output.refuse(&error),
    };
    let Measurement { outcomes, asked } = match papers::measure(&sheets, &report.which, None) {
        Ok(measurement) => measurement,
        Err(error) => return output.refuse(&error),
    };
    // Pages in the repository are complete or unchanged.
    if outcomes.len() == asked || report.markdown.is_none() {
        let facts = match decide(set, &outcomes) {
            Ok(facts) => facts,
            Err(error) => return output.refuse(&error),
        };
        match write(report, file, set, (&outcomes, &facts)) {
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
fn open(report: &Report) -> Result<Option<WholeFile>, String> {
    let Some(folder) = &report.markdown else {
        return WholeFile::create(&report.out).map(Some).map_err(|error| error.to_string());
    };
    let made = std::fs::create_dir_all(folder);
    made.map(|()| None).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Writes the file or the pages; returns the path.
fn write<'a>(
    report: &'a Report,
    file: Option<WholeFile>,
    set: &PaperSet,
    (outcomes, facts): (&[Outcome<'_>], &[Decided]),
) -> Result<&'a Path, String> {
    if let Some(folder) = &report.markdown {
        for page in markdown(set, outcomes, facts) {
            whole_file::write(&folder.join(page.file), &page.text)?;
        }
        return Ok(folder);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let about = About::this(format!("weir lab {}", words.join(" ")), report.which.seed);
    let page = html(set, outcomes, facts, &about);
    file.map_or(Ok(()), |file| file.finish(page.as_bytes()))?;
    Ok(&report.out)
}
