//! `--plot` and `--flent`: pictures of what classes did over time, and data files of Flent; options
//! of several verbs.
//!
//! The files are opened before a verb begins its work, so a name that cannot be written costs no
//! run; they get their names once they are complete.

use crate::whole_file::WholeFile;
use clap::builder::{PathBufValueParser, TypedValueParser};
use std::io::Write;
use std::path::{Path, PathBuf};
use weir_show::{Form, Part, Picture, flent};
use weir_sim::timeline::Tracks;

/// Parses the name of a picture's file; its ending tells the form, which this build must draw.
pub fn picture_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| Form::drawn(&path).map(|_| path))
}

/// As [`picture_file`], for a picture that another program draws, which may draw more forms.
pub fn picture_name() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| Form::of(&path).map(|_| path))
}

/// Parses the name of a data file of Flent.
pub fn flent_file() -> impl TypedValueParser<Value = PathBuf> {
    let check = |path: PathBuf| {
        let name = path.display().to_string();
        match name.ends_with(FLENT) {
            true => Ok(path),
            false => Err(format!("{name}: Flent reads files whose names end in {FLENT}")),
        }
    };
    PathBufValueParser::new().try_map(check)
}

/// Files that are yet to be written.
pub struct Files {
    picture: Option<(Form, WholeFile)>,
    flent: Option<(String, WholeFile)>,
}

impl Files {
    /// Opens the files that were asked for.
    ///
    /// # Errors
    /// When one cannot be written, with its name.
    pub fn open(plot: Option<&Path>, flent: Option<&Path>) -> Result<Self, String> {
        let create = |path: &Path| WholeFile::create(path).map_err(|error| error.to_string());
        let picture = plot.map(|path| Ok::<_, String>((Form::of(path)?, create(path)?)));
        let flent = flent.map(|path| Ok::<_, String>((name(path), create(path)?)));
        Ok(Self { picture: picture.transpose()?, flent: flent.transpose()? })
    }

    /// Returns whether there are any.
    pub fn any(&self) -> bool {
        self.picture.is_some() || self.flent.is_some()
    }

    /// Writes the tracks of a run: a picture of all, with further parts below them; and the first
    /// tracks as a data file of Flent.
    ///
    /// # Errors
    /// When one cannot be written, with its name.
    pub fn write(self, all: &[Tracks], parts: Vec<Part>) -> Result<(), String> {
        let Self { picture, flent } = self;
        if let Some(file) = picture {
            let mut picture = weir_show::tracks::picture(all);
            picture.parts.extend(parts);
            write(file, &picture)?;
        }
        if let (Some((name, file)), Some(first)) = (flent, all.first()) {
            fill(file, &flent::file(first, &name)?)?;
        }
        Ok(())
    }

    /// Writes a picture that is made already.
    ///
    /// # Errors
    /// As [`Files::write`].
    pub fn write_picture(self, picture: &Picture) -> Result<(), String> {
        self.picture.map_or(Ok(()), |file| write(file, picture))
    }
}

fn write((form, file): (Form, WholeFile), picture: &Picture) -> Result<(), String> {
    fill(file, &form.file(picture)?)
}

fn fill(mut file: WholeFile, bytes: &[u8]) -> Result<(), String> {
    file.write_all(bytes).map_err(|error| error.to_string())?;
    file.keep()
}

/// Returns a file's name without its folder.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Opens a data file of Flent for each of several runs: `x-NAME.flent.gz` for `x.flent.gz`.
///
/// # Errors
/// When one cannot be written, with its name.
pub fn flent_files(path: &Path, runs: &[&str]) -> Result<Vec<Files>, String> {
    let whole = path.display().to_string();
    let stem = whole.strip_suffix(FLENT).unwrap_or(&whole);
    let file = |run: &&str| Files::open(None, Some(Path::new(&format!("{stem}-{run}{FLENT}"))));
    runs.iter().map(file).collect()
}

/// The end of the names of Flent's data files.
const FLENT: &str = ".flent.gz";
