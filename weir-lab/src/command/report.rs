//! `weir lab report`: writes the results of experiments for people.

use super::papers::Measurement;
use super::{eras, of_no_paper, papers};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use weir_cli::input;
use weir_cli::lab::Report;
use weir_cli::output::{Exit, Output};
use weir_cli::whole_file::{self, WholeFile, cannot};
use weir_lab::claims::{self, Decided, NEVER, Outcome, PaperSet, Sheet, Stored, decide, of_stored};
use weir_lab::report::{About, Headline, html, markdown};

/// The output of `weir lab run --format json`.
#[derive(Deserialize)]
struct Results {
    experiments: Vec<Stored>,
}

/// Runs the experiments, or reads what they measured, and writes the report.
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
    let measurement = match report.from.as_slice() {
        [] => papers::measure(&sheets, &report.which, None),
        from => stored(report, &sheets, from),
    };
    let Measurement { outcomes, asked } = match measurement {
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

/// Judges what stored runs measured by the claims of today.
///
/// # Errors
/// When a file is no such result, or pages of everything are asked for and an experiment is
/// missing.
fn stored<'a>(
    report: &Report,
    sheets: &[&'a Sheet],
    from: &[PathBuf],
) -> Result<Measurement<'a>, String> {
    let mut all = Vec::new();
    for path in from {
        let shown = path.display().to_string();
        let bytes = input::read_whole(path).map_err(|error| cannot("read", &shown, &error))?;
        let Results { experiments } = serde_json::from_slice(&bytes).map_err(|error| {
            format!("{shown}: {error}; write what `weir lab run --format json` prints")
        })?;
        all.extend(experiments);
    }
    let outcomes = of_stored(sheets, &all);
    let request = claims::Request {
        eras: eras(report.which.era),
        only: None,
        seed: report.which.seed,
        threads: 1,
        stop: &NEVER,
    };
    let asked = claims::count(sheets, &request);
    if report.markdown.is_none() {
        let asked = outcomes.len();
        return Ok(Measurement { outcomes, asked });
    }
    let has = |sheet: &&&Sheet| outcomes.iter().any(|outcome| outcome.id == sheet.id);
    match sheets.iter().find(|sheet| !has(sheet)) {
        Some(sheet) => Err(format!("the files have no run of {}; add one to `--from`", sheet.id)),
        None => Ok(Measurement { outcomes, asked }),
    }
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
