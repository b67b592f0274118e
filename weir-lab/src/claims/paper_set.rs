//! The folder `papers/`, which is compiled into the program: papers and their experiments.

use super::fact::Fact;
use super::figure::PaperFigure;
use super::sheet::{Claim, Paper, Sheet};
use include_dir::{Dir, include_dir};

static PAPERS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../papers");

/// Every paper with its experiments, in the order of reports.
pub struct PaperSet {
    /// The papers, in the order of reports.
    pub papers: Vec<Paper>,
    /// The experiments, those of one paper together.
    pub sheets: Vec<Sheet>,
    /// Experiments on real packets.
    pub live: Vec<Sheet>,
}

impl PaperSet {
    /// Reads the compiled-in folder.
    ///
    /// # Errors
    /// When a file cannot be read: which and why. A test reads all of them.
    pub fn open() -> Result<Self, String> {
        let mut papers = Vec::new();
        for folder in PAPERS.dirs() {
            let key = name(folder);
            let place = format!("papers/{key}/paper.toml");
            let text = text(key, "paper.toml")?;
            let paper: Paper = toml::from_str(text).map_err(|error| format!("{place}: {error}"))?;
            papers.push(Paper { key: key.to_owned(), ..paper });
        }
        papers.sort_by_key(|paper| paper.order);
        let mut sheets = Vec::new();
        for paper in &papers {
            sheets.extend(read_sheets(&paper.key)?);
        }
        let (live, sheets) = sheets.into_iter().partition(|sheet| sheet.live);
        Ok(Self { papers, sheets, live })
    }

    /// Returns the experiments that `name` denotes: all, a paper's, one, or the parts of one (`H-4`
    /// is `H-4-one` and `H-4-two`); none if it denotes nothing.
    pub fn select(&self, name: &str) -> Vec<&Sheet> {
        let part = |sheet: &Sheet| {
            sheet.id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let wanted = |sheet: &&Sheet| name == "all" || sheet.paper == name || part(sheet);
        self.sheets.iter().filter(wanted).collect()
    }

    /// Returns the experiments on real packets that `name` denotes: all, or a paper's.
    pub fn select_live(&self, name: &str) -> Vec<&Sheet> {
        let wanted = |sheet: &&Sheet| name == "all" || sheet.paper == name || sheet.id == name;
        self.live.iter().filter(wanted).collect()
    }

    /// Returns what a paper states, in its order.
    ///
    /// # Errors
    /// When the list cannot be read: which and why. A test reads all of them.
    pub fn facts(paper: &Paper) -> Result<Vec<Fact>, String> {
        Fact::parse_all(text(&paper.key, "facts.toml")?, &paper.key)
    }

    /// Returns the figures and tables of a paper, in its order.
    ///
    /// # Errors
    /// When the list cannot be read: which and why. A test reads all of them.
    pub fn paper_figures(paper: &Paper) -> Result<Vec<PaperFigure>, String> {
        match paper.states_facts() {
            true => PaperFigure::parse_all(text(&paper.key, "figures.toml")?, &paper.key),
            false => Ok(Vec::new()),
        }
    }

    /// Returns every file of a paper's folder with its path below the repository's root: its list
    /// of facts, and sheets, policies and scenarios.
    pub fn files(paper: &Paper) -> Vec<(String, &'static [u8])> {
        let (mut folders, mut files) = (Vec::from_iter(PAPERS.get_dir(&paper.key)), Vec::new());
        while let Some(folder) = folders.pop() {
            folders.extend(folder.dirs());
            let path = |file: &include_dir::File<'_>| format!("papers/{}", file.path().display());
            files.extend(folder.files().map(|file| (path(file), file.contents())));
        }
        files
    }

    /// Returns the row at `SHEET/ID`.
    pub fn row(&self, place: &str) -> Option<&Claim> {
        let (sheet, id) = place.split_once('/')?;
        let sheet = self.sheets.iter().find(|row| row.id == sheet)?;
        sheet.claims.iter().find(|claim| claim.id == id)
    }

    /// Returns the experiments of a paper.
    pub fn of<'a>(&'a self, paper: &'a Paper) -> impl Iterator<Item = &'a Sheet> {
        self.sheets.iter().filter(|sheet| sheet.paper == paper.key)
    }
}

/// Reads the experiments of a paper, in the order of their names, numbers by value.
fn read_sheets(paper: &str) -> Result<Vec<Sheet>, String> {
    let folder =
        PAPERS.get_dir(paper).ok_or_else(|| format!("there is no folder papers/{paper}"))?;
    let mut sheets = Vec::new();
    for folder in folder.dirs() {
        let id = name(folder);
        let text = text(&format!("{paper}/{id}"), "claims.toml")?;
        sheets.push(Sheet::parse(text, paper, id)?);
    }
    sheets.sort_by_key(|sheet: &Sheet| order(&sheet.id));
    Ok(sheets)
}

/// Splits a name into letters and numbers, so that `H-10` follows `H-9`.
fn order(id: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0u64)];
    for letter in id.chars() {
        let last = parts.last_mut().expect("never empty");
        match letter.to_digit(10) {
            Some(digit) => last.1 = last.1.saturating_mul(10).saturating_add(u64::from(digit)),
            None if last.1 > 0 => parts.push((letter.to_string(), 0)),
            None => last.0.push(letter),
        }
    }
    parts
}

/// Returns the text of a file in a folder of `papers/`.
///
/// # Errors
/// When there is none.
pub(super) fn text(folder: &str, file: &str) -> Result<&'static str, String> {
    text_at(&format!("{folder}/{file}"))
}

/// Returns the text of the file at this path below `papers/`.
///
/// # Errors
/// When there is none.
pub(super) fn text_at(path: &str) -> Result<&'static str, String> {
    let found = PAPERS.get_file(path).and_then(include_dir::File::contents_utf8);
    found.ok_or_else(|| format!("there is no text papers/{path}"))
}

/// Returns the path below `papers/` of a file that a sheet or a file in `folder` names: in this
/// folder, or else in the paper's around it; one that begins with `../` is only there.
///
/// # Errors
/// When it `is_there` in neither.
pub(super) fn find(
    folder: &str,
    file: &str,
    is_there: &dyn Fn(&str) -> bool,
) -> Result<String, String> {
    let around = folder.rsplit_once('/').map(|(around, _)| around);
    let above = |file: &str| around.map(|around| format!("{around}/{file}"));
    let paths = match file.strip_prefix("../") {
        Some(file) => Vec::from_iter(above(file)),
        None => std::iter::once(format!("{folder}/{file}")).chain(above(file)).collect(),
    };
    if let Some(path) = paths.iter().find(|path| is_there(path)) {
        return Ok(path.clone());
    }
    let names: Vec<String> = paths.iter().map(|path| format!("papers/{path}")).collect();
    Err(match names.as_slice() {
        [first, second] => format!("there is neither {first} nor {second}"),
        names => format!("there is no {}", names.join("")),
    })
}

/// Returns `SHEET/ID` of a row that a sheet names; it may do so for another sheet's.
pub(super) fn place(sheet: &str, row: &str) -> String {
    if row.contains('/') { row.to_owned() } else { format!("{sheet}/{row}") }
}

fn name<'a>(folder: &'a Dir<'_>) -> &'a str {
    folder.path().file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::figure::Draw;
    use super::*;

    #[test]
    fn every_sheet_reads_and_claims_something() {
        let set = PaperSet::open().unwrap_or_else(|error| panic!("{error}"));
        for sheet in set.sheets.iter().chain(&set.live) {
            let says = !sheet.claims.is_empty() || !sheet.irreproducible.is_empty();
            assert!(says, "{} claims nothing", sheet.id);
            for claim in &sheet.claims {
                let idle = super::super::Era::ALL
                    .into_iter()
                    .all(|era| !(claim.era.include(era) && sheet.eras.include(era)));
                assert!(!idle, "{} {}: no run has its era", sheet.id, claim.id);
            }
        }
        let all = set.sheets.iter().chain(&set.live);
        let mut ids: Vec<&str> = all.map(|sheet| sheet.id.as_str()).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "an id occurs twice: {ids:?}");
    }

    #[test]
    fn the_facts_of_every_paper_are_there_once() {
        let set = PaperSet::open().unwrap_or_else(|error| panic!("{error}"));
        for paper in set.papers.iter().filter(|paper| paper.states_facts()) {
            let facts = PaperSet::facts(paper).unwrap_or_else(|error| panic!("{error}"));
            let mut ids: Vec<&str> = facts.iter().map(|fact| fact.id.as_str()).collect();
            ids.sort_unstable();
            let twice = ids.windows(2).find(|pair| pair[0] == pair[1]);
            assert!(ids.len() > 10 && twice.is_none(), "{}: {twice:?}", paper.key);
        }
    }

    /// The list in `paper.toml` is what the paper has; each has its entry, in the same order.
    #[test]
    fn every_figure_and_table_of_every_paper_has_an_entry() {
        let set = PaperSet::open().unwrap_or_else(|error| panic!("{error}"));
        for paper in set.papers.iter().filter(|paper| paper.states_facts()) {
            let all = PaperSet::paper_figures(paper).unwrap_or_else(|error| panic!("{error}"));
            let numbers: Vec<&str> = all.iter().map(|one| one.number.as_str()).collect();
            assert_eq!(numbers, paper.figures, "{}", paper.key);
            let facts = PaperSet::facts(paper).unwrap_or_else(|error| panic!("{error}"));
            for one in &all {
                let place = format!("{} {}", paper.key, one.number);
                let sheet = |id: &str| set.of(paper).any(|sheet| sheet.id == id);
                assert!(one.sheet.as_deref().is_none_or(sheet), "{place}: no such experiment");
                assert_eq!(one.sheet.is_none(), one.draw == Draw::Nothing, "{place}");
                assert!(one.draw != Draw::Nothing || one.missing.is_some(), "{place}: why");
                assert_eq!(one.draw == Draw::Figures, !one.lines.is_empty(), "{place}");
                let known = |id: &&String| facts.iter().any(|fact| fact.id == **id);
                assert_eq!(one.facts.iter().find(|id| !known(id)), None, "{place}");
            }
        }
    }

    #[test]
    fn numbers_in_names_are_sorted_by_value() {
        let mut ids = ["H-10", "H-9", "R-F5", "R-F13", "R-T4", "N-TwoAO2", "N-TwoAO"];
        ids.sort_by_key(|id| order(id));
        assert_eq!(ids, ["H-9", "H-10", "N-TwoAO", "N-TwoAO2", "R-F5", "R-F13", "R-T4"]);
    }
}
