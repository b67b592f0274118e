//! The sheet of an experiment, `papers/PAPER/ID/claims.toml`. `docs/lab-format.md` has all keys.

use super::kind::RowKind;
use super::table;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::de::DeTable;

/// A paper, as in `papers/PAPER/paper.toml`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// The folder's name, which is the key in `docs/sources.md`.
    #[serde(skip_deserializing)]
    pub key: String,
    /// Authors, title and year of the paper.
    pub title: String,
    /// The question that the paper asks.
    pub question: String,
    /// The findings of the paper, in a sentence or two.
    pub found: String,
    /// Its position among the papers.
    #[serde(default)]
    pub order: u32,
    /// The experiment whose picture, `docs/pictures/ID.svg`, its page shows.
    #[serde(default)]
    pub picture: Option<String>,
    /// Every figure and table in it, as it names them.
    #[serde(default)]
    pub figures: Vec<String>,
}

/// One experiment with its claims.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// The name of the folder.
    #[serde(skip_deserializing)]
    pub id: String,
    /// The name of the folder around it.
    #[serde(skip_deserializing)]
    pub paper: String,
    /// A few words for lists and headings.
    pub title: String,
    /// The section of the source.
    pub section: String,
    /// The question that the experiment answers.
    pub question: String,
    /// The name of the entry in [`crate::experiments`] that measures it.
    pub measure: String,
    /// The eras that are run.
    #[serde(default)]
    pub eras: Eras,
    /// How many seeds are run; figures are means over them.
    #[serde(default = "one")]
    pub seeds: u64,
    /// The experiment runs long, so the test of `docs/lab/` checks only its claims.
    #[serde(default)]
    pub slow: bool,
    /// The experiment runs on real packets: it is apart from the others, and facts do not rest on
    /// it.
    #[serde(default)]
    pub live: bool,
    /// Settings for the family: rates, sizes, whatever is varied.
    #[serde(default)]
    #[serde(skip_serializing)]
    pub settings: toml::Table,
    /// The figures of the sound run beside those of the historic one: each name that begins with a
    /// key begins with its value there; the longest key counts. Other names are the same in both.
    #[serde(default)]
    pub counterpart: BTreeMap<String, String>,
    /// The claims of the source.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// The points that the source leaves open, with the choices made.
    #[serde(default, rename = "choice")]
    pub choices: Vec<Choice>,
    /// The parts that cannot be rebuilt.
    #[serde(default)]
    pub irreproducible: Vec<Irreproducible>,
}

/// A claim about a figure, or about each value of a series.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Unique in the sheet.
    pub id: String,
    /// The source on which the claim rests.
    pub kind: RowKind,
    /// The facts of the paper that it reads, by their ids.
    #[serde(default)]
    pub facts: Vec<String>,
    /// The section of the source; the sheet's if it is not written.
    #[serde(default)]
    pub section: String,
    /// The claim in a sentence.
    pub says: String,
    /// The runs that it is about.
    pub era: Eras,
    /// The figure that it is about.
    #[serde(default)]
    pub figure: Option<String>,
    /// The series that it is about instead.
    #[serde(default)]
    pub series: Option<String>,
    /// The expected figure, or each expected value of the series.
    #[serde(default)]
    pub value: Option<Target>,
    /// The expected values of the series.
    #[serde(default)]
    pub values: Option<Vec<f64>>,
    /// The tolerance around `value` or `values`.
    #[serde(default)]
    pub within: Option<Tolerance>,
    /// No less than this.
    #[serde(default)]
    pub at_least: Option<Target>,
    /// No more than this.
    #[serde(default)]
    pub at_most: Option<Target>,
    /// A bound that the figure must exceed.
    #[serde(default)]
    pub more_than: Option<Target>,
    /// A bound below which the figure must be.
    #[serde(default)]
    pub less_than: Option<Target>,
    /// A factor for a target that is another figure.
    #[serde(default = "single")]
    pub times: f64,
    /// Where the tolerance or bound comes from.
    pub from: String,
    /// Why it fails. A claim that fails without this makes the run fail.
    #[serde(default)]
    pub because: Option<String>,
    /// The row whose run shows that reason: an id of this sheet, or `SHEET/ID`.
    #[serde(default)]
    pub shown_by: Option<String>,
    /// Of a claim that fails without a known cause: what was tried. In place of `because`.
    #[serde(default)]
    pub cause_unknown: Option<String>,
    /// Under which reading of the source it is tested, where the source can be read in two ways;
    /// in words. Rows without it belong to every reading.
    #[serde(default)]
    pub reading: Option<String>,
    /// Why the sound run has no such figure. Any other historic row of a paper is judged on the
    /// sound run, too.
    #[serde(default)]
    pub no_counterpart: Option<String>,
}

/// A number, or the name of another figure of the same run.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(untagged)]
pub enum Target {
    /// This number, in the unit of the figure.
    Number(f64),
    /// As much as this figure.
    Figure(String),
}

/// The tolerance of a figure: a number in its unit, or a text such as `3 %`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(try_from = "Written", into = "Written")]
pub enum Tolerance {
    /// In the unit of the figure.
    Absolute(f64),
    /// Of the expected value.
    Percent(f64),
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Written {
    Number(f64),
    Text(String),
}

/// Something that the source leaves open, and the choice made.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The point that the source leaves open.
    pub open: String,
    /// The choice that was made.
    pub choice: String,
    /// The reason of the choice.
    pub reason: String,
}

/// Something that cannot be rebuilt.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Irreproducible {
    /// The part that cannot be rebuilt.
    pub what: String,
    /// The reason why it cannot.
    pub reason: String,
}

/// The variant of a run.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// The scheduler and the machine of the paper, with their faults.
    Historic,
    /// The sound scheduler, on a machine that adds nothing.
    Sound,
}

/// The eras of an experiment.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Eras {
    /// The historic variant only.
    Historic,
    /// The sound variant only.
    Sound,
    /// Both variants, one beside the other.
    #[default]
    Both,
}

impl Paper {
    /// Returns whether it is a paper: ns-2 states nothing but its tests' values.
    pub fn states_facts(&self) -> bool {
        self.key != "ns2"
    }
}

impl Era {
    /// Both, in the order of reports.
    pub const ALL: [Era; 2] = [Era::Historic, Era::Sound];

    /// Returns the word in files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Era::Historic => "historic",
            Era::Sound => "sound",
        }
    }
}

impl Eras {
    /// Returns whether `era` is one of these.
    pub const fn include(self, era: Era) -> bool {
        matches!(
            (self, era),
            (Eras::Both, _) | (Eras::Historic, Era::Historic) | (Eras::Sound, Era::Sound)
        )
    }
}

impl Sheet {
    /// Returns how a figure of the historic run is called in the sound one.
    pub fn sound_name(&self, name: &str) -> String {
        let begins = |key: &&String| name.starts_with(key.as_str());
        let longest = self.counterpart.keys().filter(begins).max_by_key(|key| key.len());
        longest.map_or_else(
            || name.to_owned(),
            |key| format!("{}{}", self.counterpart[key], &name[key.len()..]),
        )
    }

    /// Reads the sheet of the experiment `id` of `paper`.
    ///
    /// # Errors
    /// When the text is not a valid sheet, or a claim in it cannot be judged: which and why.
    pub fn parse(text: &str, paper: &str, id: &str) -> Result<Self, String> {
        let place = format!("papers/{paper}/{id}/claims.toml");
        let mut sheet = Self::read(text).map_err(|error| format!("{place}: {error}"))?;
        (sheet.id, sheet.paper) = (id.to_owned(), paper.to_owned());
        if sheet.seeds == 0 {
            return Err(format!("{place}: `seeds` must be at least 1"));
        }
        Ok(sheet)
    }

    /// Reads a sheet with the rows of its tables, in the order of the file.
    fn read(text: &str) -> Result<Self, String> {
        let told = |mut error: toml::de::Error| {
            error.set_input(Some(text));
            error.to_string().trim_end().to_owned()
        };
        let mut file = DeTable::parse(text).map_err(told)?;
        let starts = file.get_ref().get("claim").and_then(|claims| claims.get_ref().as_array());
        let starts: Vec<usize> =
            starts.into_iter().flatten().map(|claim| claim.span().start).collect();
        let rows = table::take_rows(file.get_mut())
            .map_err(|fault| format!("line {}: {}", line_of(text, fault.at), fault.message))?;
        let claim = |(at, keys): (usize, toml::Table)| {
            let claim = Claim::deserialize(keys.into_deserializer());
            claim.map(|claim| (at, claim)).map_err(|error: toml::de::Error| {
                format!("line {}: {}", line_of(text, at), error.message())
            })
        };
        let rows = rows.into_iter().map(claim).collect::<Result<Vec<_>, _>>()?;
        let mut sheet = Sheet::deserialize(toml::de::Deserializer::from(file)).map_err(told)?;
        let single = starts.into_iter().zip(std::mem::take(&mut sheet.claims));
        let mut placed: Vec<(usize, Claim)> = single.chain(rows).collect();
        placed.sort_by_key(|(at, _)| *at);
        let mut lines = BTreeMap::new();
        for (at, mut claim) in placed {
            let line = line_of(text, at);
            if claim.section.is_empty() {
                claim.section.clone_from(&sheet.section);
            }
            let Claim { id, .. } = &claim;
            claim.check().map_err(|fault| format!("line {line}: claim `{id}`: {fault}"))?;
            if let Some(first) = lines.insert(id.clone(), line) {
                return Err(format!(
                    "lines {first} and {line}: two claims are called `{id}`; rename one"
                ));
            }
            sheet.claims.push(claim);
        }
        Ok(sheet)
    }
}

/// Returns the number of the line in which this byte is.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

impl Claim {
    /// Returns this claim about the figures of the sound run.
    pub(super) fn on_sound(&self, sheet: &Sheet) -> Self {
        let mut claim = self.clone();
        let rename = |name: &mut String| *name = sheet.sound_name(name);
        claim.figure.iter_mut().chain(&mut claim.series).for_each(rename);
        let targets = [
            &mut claim.value,
            &mut claim.at_least,
            &mut claim.at_most,
            &mut claim.more_than,
            &mut claim.less_than,
        ];
        for target in targets.into_iter().flatten() {
            if let Target::Figure(name) = target {
                rename(name);
            }
        }
        claim
    }

    /// Returns an error if this claim cannot be judged.
    fn check(&self) -> Result<(), String> {
        let bounds = [&self.at_least, &self.at_most, &self.more_than, &self.less_than];
        let bounded = bounds.iter().any(|bound| bound.is_some());
        let equal = usize::from(self.value.is_some()) + usize::from(self.values.is_some());
        let fault = if self.figure.is_some() == self.series.is_some() {
            "write one of `figure` and `series`"
        } else if self.values.is_some() && self.series.is_none() {
            "`values` are those of a `series`"
        } else if equal > 1 || (equal == 1) == bounded {
            "write one of `value`, `values`, or bounds: `at_least`, `at_most`, `more_than`, \
             `less_than`"
        } else if (equal == 1) != self.within.is_some() {
            "`within` needs `value` or `values`"
        } else if self.from.trim().is_empty() {
            "`from` must say where the tolerance or bound comes from"
        } else if self.because.as_ref().is_some_and(|because| because.trim().is_empty()) {
            "`because` must say why it fails"
        } else if self.cause_unknown.as_ref().is_some_and(|tried| tried.trim().is_empty()) {
            "`cause_unknown` must say what was tried"
        } else if self.cause_unknown.is_some() && self.because.is_some() {
            "write one of `because` and `cause_unknown`"
        } else if self.shown_by.is_some() && self.because.is_none() {
            "`shown_by` shows what `because` says"
        } else if let Some(fault) = self.kind.check(self) {
            fault
        } else {
            return Ok(());
        };
        Err(fault.to_owned())
    }
}

impl TryFrom<Written> for Tolerance {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(number) => Ok(Tolerance::Absolute(number)),
            Written::Text(text) => {
                let number = text.strip_suffix('%').and_then(|text| text.trim().parse().ok());
                number.map(Tolerance::Percent).ok_or_else(|| {
                    format!("`{text}` is not a tolerance; write a number or such as \"3 %\"")
                })
            }
        }
    }
}

impl From<Tolerance> for Written {
    fn from(tolerance: Tolerance) -> Self {
        match tolerance {
            Tolerance::Absolute(number) => Written::Number(number),
            Tolerance::Percent(percent) => Written::Text(format!("{percent} %")),
        }
    }
}

const fn one() -> u64 {
    1
}

const fn single() -> f64 {
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(claim: &str, expected: &str) {
        let text = format!(
            "title = \"a\"\nsection = \"a\"\nquestion = \"a\"\nmeasure = \"a\"\n[[claim]]\nid = \"a\"\n\
             says = \"a\"\nera = \"both\"\nfrom = \"a\"\n{}{claim}",
            if claim.starts_with("kind") { "" } else { "kind = \"goal\"\n" }
        );
        match Sheet::parse(&text, "p", "i") {
            Ok(_) => assert_eq!(expected, "", "{claim}"),
            Err(error) => assert!(!expected.is_empty() && error.contains(expected), "{error}"),
        }
    }

    #[test]
    fn a_claim_that_cannot_be_judged_is_refused() {
        check("figure = \"x\"\nvalue = 1\nwithin = \"3 %\"", "");
        check("figure = \"x\"\nvalue = \"y\"\nwithin = 0.5", "");
        check("series = \"x\"\nvalues = [1, 2]\nwithin = 0", "");
        check("figure = \"x\"\nat_least = 1\nat_most = \"y\"\ntimes = 2", "");
        check("value = 1\nwithin = 1", "one of `figure` and `series`");
        check("figure = \"x\"\nseries = \"x\"\nvalue = 1\nwithin = 1", "one of `figure`");
        check("figure = \"x\"\nvalues = [1]\nwithin = 1", "those of a `series`");
        check("figure = \"x\"", "bounds");
        check("figure = \"x\"\nvalue = 1\nwithin = 1\nat_least = 0", "bounds");
        check("figure = \"x\"\nvalue = 1", "`within`");
        check("figure = \"x\"\nat_least = 1\nwithin = 1", "`within`");
        check("figure = \"x\"\nvalue = 1\nwithin = \"3\"", "not a tolerance");
        check("figure = \"x\"\nat_least = 1\nbecause = \"\"", "why it fails");
        check("figure = \"x\"\nat_lest = 1", "unknown field");
        check("kind = \"statement\"\nfigure = \"x\"\nat_least = 1", "needs `facts`");
        check("kind = \"statement\"\nfacts = [\"f\"]\nfigure = \"x\"\nat_least = 1", "");
        check("kind = \"model\"\nfacts = [\"f\"]\nfigure = \"x\"\nat_least = 1", "another kind");
        check("kind = \"check\"\nfacts = [\"f\"]\nfigure = \"x\"\nat_least = 1", "");
        let fails =
            "kind = \"number\"\nfacts = [\"f\"]\nfigure = \"x\"\nat_least = 1\nbecause = \"why\"";
        check(fails, "needs `shown_by`");
        check(&format!("{fails}\nshown_by = \"b\""), "");
        check(&format!("{fails}\nshown_by = \"b\"\ncause_unknown = \"x\""), "one of `because`");
        let unknown = "kind = \"number\"\nfacts = [\"f\"]\nfigure = \"x\"\nat_least = 1";
        check(&format!("{unknown}\ncause_unknown = \"tried y\""), "");
        check(&format!("{unknown}\ncause_unknown = \"\""), "what was tried");
        check(&format!("{unknown}\nshown_by = \"b\""), "`shown_by` shows");
        check("figure = \"x\"\nat_least = 1\nreading = \"x\"", "reads a fact");
        check("kind = \"opinion\"\nfigure = \"x\"\nat_least = 1", "unknown variant");
        let twice = "figure = \"x\"\nat_least = 1\n[[claim]]\nid = \"a\"\nsays = \"a\"\nfrom = \"a\"\n\
                     era = \"both\"\nkind = \"goal\"\nfigure = \"x\"\nat_least = 1";
        check(twice, "two claims");
    }
}
