//! `weir lab archive`: writes results with what made them into one file.

use super::papers::Measurement;
use super::{of_no_paper, papers};
use clap::ValueEnum;
use std::path::Path;
use weir_cli::input;
use weir_cli::lab::{Archive, Which};
use weir_cli::output::{Exit, Output};
use weir_cli::whole_file::{WholeFile, cannot};
use weir_lab::claims::PaperSet;
use weir_lab::report::{About, Headline, More, archive};

/// Runs the experiments and writes the archive.
pub fn run(request: &Archive, set: &PaperSet, output: &Output) -> Exit {
    let sheets = set.select(&request.which.name);
    if sheets.is_empty() {
        return of_no_paper(&request.which, set, output);
    }
    let more = match request.add.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>() {
        Ok(more) => more,
        Err(error) => return output.refuse(&error),
    };
    let names: Vec<&String> = more.iter().map(|(name, _)| name).collect();
    let twice = (0..names.len()).find(|place| names[..*place].contains(&names[*place]));
    if let Some(name) = twice.map(|place| names[place]) {
        return output.refuse(&format!("two files to add are called `{name}`; rename one"));
    }
    // Before the runs: they would be lost where nothing can be written.
    let file = match WholeFile::create(&request.out) {
        Ok(file) => file,
        Err(error) => return output.refuse(&error.to_string()),
    };
    let Measurement { outcomes, asked } = match papers::measure(&sheets, &request.which, None) {
        Ok(measurement) => measurement,
        Err(error) => return output.refuse(&error),
    };
    if outcomes.len() == asked {
        let written = papers::decided(set, &sheets, &outcomes).and_then(|facts| {
            let bytes = archive(set, (&outcomes, &facts), &about(request), &more);
            file.finish(&bytes.map_err(|error| error.to_string())?)?;
            Ok(Headline::of(&facts, &outcomes).to_string())
        });
        match written {
            Ok(headline) => output.text(&format!("{}: {headline}.\n", request.out.display())),
            Err(error) => return output.refuse(&error),
        }
    }
    papers::ended(&outcomes, asked, output)
}

/// Describes this run, without the name of the file, which changes nothing.
fn about(request: &Archive) -> About {
    let Which { name, era, seed, .. } = &request.which;
    let era = era.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    let command = format!("weir lab archive {name} --era {era} --seed {seed}");
    About { version: weir_cli::VERSION.to_owned(), ..About::this(command, *seed) }
}

/// Reads a file to add.
fn read(path: &Path) -> Result<More, String> {
    let shown = path.display().to_string();
    let name = path.file_name().ok_or_else(|| format!("{shown} is no file"))?;
    let bytes = input::read_whole(path).map_err(|error| cannot("read", &shown, &error))?;
    Ok((name.to_string_lossy().into_owned(), bytes))
}
