//! Sweeps in TOML: the scenario by its path, and what varies.
//!
//! ```toml
//! scenario = "evening.toml"        # relative to this file
//! replications = 20
//! metrics = ["voice.delay.p99", "rest.rate"]
//! seed = 1                         # default: the scenario's
//!
//! [grid]                           # or [random] or [latin], with `points` above
//! "policy.class.voice.rate" = ["1 Mbit/s", "2 Mbit/s"]
//! "behind.rate.trace" = { folder = "traces" }   # each file of a folder, relative to the scenario
//! ```

use crate::design::{Axis, Design, Method};
use crate::sweep::Spec;
use serde::Deserialize;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use weir_policy::file::{self, ReadFile};

/// The text of a sweep.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    scenario: PathBuf,
    replications: u64,
    metrics: Vec<String>,
    seed: Option<u64>,
    #[serde(default)]
    points: u64,
    #[serde(default)]
    draw: u64,
    grid: Option<toml::Table>,
    random: Option<toml::Table>,
    latin: Option<toml::Table>,
}

/// Why a text is no sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The reason.
    pub message: String,
    /// The bytes at fault, if they are known.
    pub span: Option<Range<usize>>,
}

/// Reads a sweep and every file that it names.
///
/// # Errors
/// When one cannot be read, or says what a sweep has not.
pub fn read(path: &Path) -> Result<Spec, String> {
    let shown = path.display();
    let text = text(path, &file::read)?;
    parse(&text, path, &file::read_named).map_err(|Fault { message, .. }| match message {
        message if message.starts_with("cannot read") => message,
        message => format!("{shown}: {message}"),
    })
}

/// Reads the sweep `text` of the file `path`; `read_file` reads those that it names.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str, path: &Path, read_file: ReadFile<'_>) -> Result<Spec, Fault> {
    let syntax = |error: toml::de::Error| Fault { span: error.span(), message: error.to_string() };
    let read: Text = toml::from_str(text).map_err(syntax)?;
    spec(&read, path, read_file).map_err(|message| Fault { message, span: None })
}

fn text(path: &Path, read_file: ReadFile<'_>) -> Result<String, String> {
    let shown = path.display();
    let bytes = read_file(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    String::from_utf8(bytes).map_err(|error| format!("{shown}: {error}"))
}

fn spec(read: &Text, path: &Path, read_file: ReadFile<'_>) -> Result<Spec, String> {
    let place = path.parent().unwrap_or(Path::new("")).join(&read.scenario);
    let folder = place.parent().unwrap_or(Path::new(""));
    let design = read.design(folder)?;
    let spec = Spec {
        name: Some(read.scenario.display().to_string()),
        scenario: String::new(),
        files: Default::default(),
        design,
        replications: read.replications,
        metrics: read.metrics.clone(),
        seed: read.seed,
        policy: None,
        trace: None,
    };
    // A sweep that is too large is refused before its files are read.
    spec.runs()?;
    Spec { scenario: text(&place, read_file)?, ..spec }.gather_with(folder, read_file)
}

impl Text {
    /// Returns what varies; folders are relative to that of the scenario.
    fn design(&self, folder: &Path) -> Result<Design, String> {
        let given = [
            (Method::Grid, &self.grid),
            (Method::Random, &self.random),
            (Method::Latin, &self.latin),
        ];
        let mut given =
            given.into_iter().filter_map(|(method, axes)| Some((method, axes.as_ref()?)));
        let (method, axes) = match (given.next(), given.next()) {
            (Some(only), None) => only,
            _ => return Err("write one of the tables [grid], [random] and [latin]".to_owned()),
        };
        let axis = |(key, values): (&String, &toml::Value)| {
            let values = serde_json::to_value(values).map_err(|error| error.to_string())?;
            let values = match values.get("folder").and_then(|named| named.as_str()) {
                Some(named) => Some(names_of(folder, named)?),
                None => values.as_array().cloned(),
            };
            let values = values.ok_or_else(|| format!("`{key}` has no list of values"))?;
            Ok(Axis { key: key.clone(), values })
        };
        let axes = axes.iter().map(axis).collect::<Result<_, String>>()?;
        Ok(Design { method, axes, points: self.points, seed: self.draw })
    }
}

/// Returns the files of a folder, in the order of their names; hidden ones and notes (`.md`) are
/// none.
///
/// # Errors
/// As the system says, and for a folder without files.
pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error: io::Error| format!("cannot read {}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(told)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(told)?;
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_file() && !name.starts_with('.') && !name.ends_with(".md")
    };
    paths.retain(is_wanted);
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{}: the folder has no file", folder.display()));
    }
    Ok(paths)
}

/// Returns the paths of the files of a folder as values, as the scenario in `beside` names them.
fn names_of(beside: &Path, folder: &str) -> Result<Vec<serde_json::Value>, String> {
    let name = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        Path::new(folder).join(name).display().to_string().into()
    };
    Ok(files_of(&beside.join(folder))?.iter().map(name).collect())
}
