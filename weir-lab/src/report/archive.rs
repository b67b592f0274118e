//! The archive of results with what made them, so that a paper can cite a figure: a tar file in
//! gzip.
//!
//! It has the results as JSON, CSV, pictures and the report, the sheets, policies and scenarios
//! that were run, how to cite Weir, and a manifest with the program's version, the command, the
//! seed and the machine. Each file has its SHA-256 sum in the manifest and in `SHA256SUMS`.
//! Invariant: the same results give the same bytes, since no time and no owner is written.

use super::{About, html};
use crate::claims::{Decided, Outcome, PaperSet};
use flate2::{Compression, GzBuilder};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use tar::{Builder, EntryType, Header};

/// A file that the user adds: its name in the archive, and what it has.
pub type More = (String, Vec<u8>);

/// The contents of `manifest.json`.
#[derive(Serialize)]
struct Manifest<'a> {
    version: &'a str,
    command: &'a str,
    seed: u64,
    machine: &'a str,
    files: Vec<Listed>,
}

/// A file in the manifest.
#[derive(Serialize)]
struct Listed {
    path: String,
    bytes: usize,
    sha256: String,
    /// The title of a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

/// The facts and experiments, as `weir lab run --format json` prints them.
#[derive(Serialize)]
struct Told<'a> {
    facts: &'a [Decided],
    experiments: &'a [Outcome<'a>],
}

/// The files by their paths, each with a title if it is a picture.
type Files = BTreeMap<String, (Vec<u8>, Option<String>)>;

/// Returns the archive of these outcomes.
///
/// # Errors
/// When a result cannot be written as JSON.
pub fn archive(
    set: &PaperSet,
    (outcomes, facts): (&[Outcome<'_>], &[Decided]),
    about: &About,
    more: &[More],
) -> io::Result<Vec<u8>> {
    let mut files = Files::new();
    let mut add = |path: &str, bytes: Vec<u8>| files.insert(path.to_owned(), (bytes, None));
    add("README.txt", README.into());
    add("CITATION.cff", CITATION.into());
    add("report.html", html(set, outcomes, facts, about).into());
    add("results.json", serde_json::to_vec_pretty(&Told { facts, experiments: outcomes })?);
    add("facts.csv", facts_csv(facts).into());
    add("claims.csv", claims_csv(outcomes).into());
    add("figures.csv", figures_csv(outcomes).into());
    add("series.csv", series_csv(outcomes).into());
    add("bench/profile.json", PROFILE.into());
    for (name, bytes) in more {
        add(&format!("more/{name}"), bytes.clone());
    }
    let ran = |key: &str| outcomes.iter().any(|outcome| outcome.sheet.paper == key);
    for paper in set.papers.iter().filter(|paper| ran(&paper.key)) {
        for (path, bytes) in PaperSet::files(paper) {
            add(&path, bytes.to_vec());
        }
    }
    plots(outcomes, &mut files);
    let listed = |(path, (bytes, title)): (&String, &(Vec<u8>, Option<String>))| Listed {
        path: path.clone(),
        bytes: bytes.len(),
        sha256: sum(bytes),
        title: title.clone(),
    };
    let manifest = Manifest {
        version: &about.version,
        command: &about.command,
        seed: about.seed,
        machine: &about.machine,
        files: files.iter().map(listed).collect(),
    };
    let manifest = serde_json::to_vec_pretty(&manifest)?;
    files.insert("manifest.json".to_owned(), (manifest, None));
    let sums = files.iter().map(|(path, (bytes, _))| format!("{}  {path}\n", sum(bytes)));
    let sums: String = sums.collect();
    files.insert("SHA256SUMS".to_owned(), (sums.into(), None));
    packed(&files)
}

/// Writes the files below one folder, in the order of their paths.
fn packed(files: &Files) -> io::Result<Vec<u8>> {
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut tar = Builder::new(gzip);
    for (path, (bytes, _)) in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        tar.append_data(&mut header, format!("{FOLDER}/{path}"), bytes.as_slice())?;
    }
    tar.into_inner()?.finish()
}

fn plots(outcomes: &[Outcome<'_>], files: &mut Files) {
    for outcome in outcomes {
        let Ok(measured) = &outcome.measured else { continue };
        for (number, plot) in (1..).zip(&measured.plots) {
            let path = format!("plots/{}.{}.{number}.svg", outcome.id, outcome.era.name());
            if let Some(svg) = weir_show::svg(plot) {
                files.insert(path, (svg.into(), Some(plot.title.clone())));
            }
        }
    }
}

fn facts_csv(facts: &[Decided]) -> String {
    let head = ["paper", "fact", "at", "kind", "verdict", "sound_run_too", "says", "because"];
    let mut text = row(&[head.as_slice(), &["shown_by"]].concat());
    for decided in facts {
        let Decided { paper, fact, decision, because, shown_by, .. } = decided;
        let (because, shown_by) = (because.join(" "), shown_by.join(" "));
        let start = [paper, fact.id.as_str(), &fact.at, fact.kind.name(), decision.words()];
        let end = [yes(decided.sound_too), &fact.says, &because, &shown_by];
        text += &row(&[start.as_slice(), &end].concat());
    }
    text
}

fn claims_csv(outcomes: &[Outcome<'_>]) -> String {
    let start = ["experiment", "era", "claim", "kind", "verdict", "sound_run_too"];
    let end = ["measured", "expected", "says", "because", "shown_by"];
    let mut text = row(&[start.as_slice(), &end].concat());
    for outcome in outcomes {
        for claim in &outcome.claims {
            let (era, kind) = (outcome.era.name(), claim.kind.name());
            let sound = claim.sound_too.map_or("", yes);
            let start = [outcome.id, era, &claim.id, kind, claim.verdict.words(), sound];
            let [because, shown_by] =
                [&claim.because, &claim.shown_by].map(|text| text.as_deref().unwrap_or_default());
            let end = [&claim.measured, claim.expected.as_str(), &claim.says, because, shown_by];
            text += &row(&[start.as_slice(), &end].concat());
        }
    }
    text
}

fn figures_csv(outcomes: &[Outcome<'_>]) -> String {
    let mut text = row(&["experiment", "era", "figure", "mean", "low", "high", "unit"]);
    for outcome in outcomes {
        for (name, figure) in outcome.measured.iter().flat_map(|measured| &measured.figures) {
            let values = [figure.mean, figure.low, figure.high].map(|value| value.to_string());
            let [mean, low, high] = values.each_ref().map(String::as_str);
            text += &row(&[outcome.id, outcome.era.name(), name, mean, low, high, &figure.unit]);
        }
    }
    text
}

fn series_csv(outcomes: &[Outcome<'_>]) -> String {
    let mut text = row(&["experiment", "era", "series", "place", "value"]);
    for outcome in outcomes {
        for (name, values) in outcome.measured.iter().flat_map(|measured| &measured.series) {
            for (place, value) in values.iter().enumerate() {
                let (place, value) = (place.to_string(), value.to_string());
                text += &row(&[outcome.id, outcome.era.name(), name, &place, &value]);
            }
        }
    }
    text
}

const fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// A line of CSV `[rfc4180]`.
pub(super) fn row(cells: &[&str]) -> String {
    let quoted = |cell: &&str| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => (*cell).to_owned(),
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

fn sum(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        // A text can always grow.
        write!(text, "{byte:02x}").unwrap_or_default();
    }
    text
}

const FOLDER: &str = "weir-lab";
/// The cost of a packet in instructions, from which the models of machines are made.
const PROFILE: &str = include_str!("../../../bench/profile.json");
const CITATION: &str = include_str!("../../../CITATION.cff");
const README: &str = "\
Results of the lab of Weir, with what made them.

To cite a figure, name the version, the command and the seed of manifest.json, and the SHA-256 sum
of the file. To test the files: sha256sum --check SHA256SUMS. To make them again, run the command
of manifest.json with the same version: simulated results do not depend on the machine.

  report.html    everything, for people
  results.json   everything, as `weir lab run --format json` prints it
  facts.csv      what the papers state, each with its verdict
  claims.csv     the rows of all experiments, each with its verdict
  figures.csv    what was measured, by experiment and era; series.csv: the same of series
  plots/         a picture a plot; manifest.json has their titles
  papers/        facts, sheets, policies and scenarios, as they were run; those of live runs, too,
                 which were not
  bench/         the instructions that a packet takes, of which the models of machines are made
  more/          files that the user added, such as results of live runs

What holds in the sound run, too (sound_run_too), is no evidence of a fault of the historic one. A
fact that fails says in shown_by which row's run shows the cause; without one the cause is unknown.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Eras, NEVER, Request, decide};
    use flate2::read::GzDecoder;
    use std::io::Read;

    /// Runs an experiment and returns its archive, and the files that are in it.
    fn made(id: &str, more: &[More]) -> (Vec<u8>, BTreeMap<String, Vec<u8>>) {
        let set = PaperSet::open().unwrap_or_else(|error| panic!("{error}"));
        let request = Request { eras: Eras::Both, only: None, seed: 1, threads: 1, stop: &NEVER };
        let sheets = set.select(id);
        let outcomes = crate::experiments::run(&sheets, &request, &|_, _, _| {});
        let facts = decide(&set, &outcomes).unwrap_or_else(|error| panic!("{error}"));
        let about = About::this("weir lab archive".to_owned(), 1);
        let bytes = archive(&set, (&outcomes, &facts), &about, more);
        let bytes = bytes.unwrap_or_else(|error| panic!("{error}"));
        let mut files = BTreeMap::new();
        let mut tar = tar::Archive::new(GzDecoder::new(bytes.as_slice()));
        for entry in tar.entries().unwrap_or_else(|error| panic!("{error}")) {
            let mut entry = entry.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(entry.header().mtime().ok(), Some(0));
            let path = entry.path().map(|path| path.display().to_string());
            let path = path.unwrap_or_else(|error| panic!("{error}"));
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap_or_else(|error| panic!("{error}"));
            files.insert(path.trim_start_matches("weir-lab/").to_owned(), bytes);
        }
        (bytes, files)
    }

    #[test]
    fn an_archive_has_what_made_it_and_the_sum_of_every_file() {
        let more = [("live.json".to_owned(), b"[]".to_vec())];
        let (bytes, files) = made("R-T5", &more);
        assert_eq!(made("R-T5", &more).0, bytes, "the same results give the same bytes");
        assert_ne!(made("R-T5", &[]).0, bytes);
        for path in [
            "CITATION.cff",
            "claims.csv",
            "figures.csv",
            "more/live.json",
            "papers/risso99/R-F20/sound.toml",
            "papers/risso99/R-T5/claims.toml",
            "papers/risso99/facts.toml",
            "plots/R-T5.sound.1.svg",
            "report.html",
            "results.json",
        ] {
            assert!(files.contains_key(path), "{path} of {:?}", files.keys());
        }
        assert!(!files.keys().any(|path| path.starts_with("papers/benita")));
        let sums = String::from_utf8_lossy(&files["SHA256SUMS"]).into_owned();
        assert_eq!(sums.lines().count(), files.len() - 1);
        for line in sums.lines() {
            let (expected, path) = line.split_once("  ").unwrap_or_default();
            assert_eq!(sum(&files[path]), expected, "{path}");
        }
        let manifest: serde_json::Value = serde_json::from_slice(&files["manifest.json"])
            .unwrap_or_else(|error| panic!("{error}"));
        let listed = manifest["files"].as_array().map_or(0, Vec::len);
        assert_eq!(listed, files.len() - 2, "all but the manifest and the sums");
    }

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        assert_eq!(row(&["a", "b,c", "d \"e\""]), "a,\"b,c\",\"d \"\"e\"\"\"\n");
    }

    #[test]
    fn a_sum_is_that_of_sha256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sum(b""), empty);
    }
}
