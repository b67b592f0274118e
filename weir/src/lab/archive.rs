//! `weir lab archive`: writes results with what made them into one file.

use super::papers::Measurement;
use super::{Which, papers};
use crate::input;
use crate::output::{Exit, Output};
use crate::whole_file::{WholeFile, cannot};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use weir_lab::claims::Shelf;
use weir_lab::report::{About, Headline, More, archive};

/// Exits 1 if a claim fails without a reason; the archive is written in any case, but not after
/// Ctrl-C. The same results give the same bytes.
#[derive(clap::Args)]
pub struct Archive {
    #[command(flatten)]
    which: Which,
    /// The archive: a tar file in gzip.
    #[arg(long, value_name = "FILE.tar.gz", default_value = "weir-lab.tar.gz")]
    out: PathBuf,
    /// A file to add, such as what `weir lab run --live all --format json` printed. May be given
    /// several times.
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,
}

impl Archive {
    /// Runs the experiments and writes the archive.
    pub fn run(self, shelf: &Shelf, output: &Output) -> Exit {
        let sheets = shelf.select(&self.which.name);
        if sheets.is_empty() {
            return self.which.of_no_paper(shelf, output);
        }
        let more = match self.add.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>() {
            Ok(more) => more,
            Err(error) => return output.refuse(&error),
        };
        let names: Vec<&String> = more.iter().map(|(name, _)| name).collect();
        let twice = (0..names.len()).find(|place| names[..*place].contains(&names[*place]));
        if let Some(name) = twice.map(|place| names[place]) {
            return output.refuse(&format!("two files to add are called `{name}`; rename one"));
        }
        // Before the runs: they would be lost where nothing can be written.
        let file = match WholeFile::create(&self.out) {
            Ok(file) => file,
            Err(error) => return output.refuse(&error.to_string()),
        };
        let Measurement { outcomes, asked } = match papers::measure(&sheets, &self.which, None) {
            Ok(measurement) => measurement,
            Err(error) => return output.refuse(&error),
        };
        if outcomes.len() == asked {
            let written = papers::decided(shelf, &sheets, &outcomes).and_then(|facts| {
                let bytes = archive(shelf, (&outcomes, &facts), &self.about(), &more);
                file.finish(&bytes.map_err(|error| error.to_string())?)?;
                Ok(Headline::of(&facts, &outcomes).to_string())
            });
            match written {
                Ok(headline) => output.text(&format!("{}: {headline}.\n", self.out.display())),
                Err(error) => return output.refuse(&error),
            }
        }
        papers::ended(&outcomes, asked, output)
    }

    /// Describes this run, without the name of the file, which changes nothing.
    fn about(&self) -> About {
        let Which { name, era, seed, .. } = &self.which;
        let era =
            era.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
        let command = format!("weir lab archive {name} --era {era} --seed {seed}");
        About { version: env!("WEIR_VERSION").to_owned(), ..About::this(command, *seed) }
    }
}

/// Reads a file to add.
fn read(path: &Path) -> Result<More, String> {
    let shown = path.display().to_string();
    let name = path.file_name().ok_or_else(|| format!("{shown} is no file"))?;
    let bytes = input::read_whole(path).map_err(|error| cannot("read", &shown, &error))?;
    Ok((name.to_string_lossy().into_owned(), bytes))
}
