//! The verdict on each fact of a paper: `holds`, `holds under one reading`, `fails` with its cause
//! or without one, `cannot be decided here`, `not tried yet`.
//!
//! A fact is decided by the historic rows of the sheets that name it; all of them have to hold.
//! Where the source can be read in several ways, rows say which reading they test: the fact holds
//! under a reading if all rows of it hold and all that name none. Of a fact without a row,
//! `papers/PAPER/undecided.toml` says why.

use super::fact::Fact;
use super::judge::{Judged, Verdict};
use super::kind::RowKind;
use super::paper_set::{self, PaperSet};
use super::run::Outcome;
use super::sheet::{Claim, Era, Eras, Paper};
use serde::{Deserialize, Serialize};

/// A fact with its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Decided {
    /// The key of the paper.
    pub paper: String,
    /// The fact as the paper states it.
    pub fact: Fact,
    /// The verdict on it.
    pub decision: Decision,
    /// The rows that read it, as `SHEET/ID`, with their verdicts.
    pub readings: Vec<Reading>,
    /// Whether all of them hold in the sound run, too: then they are no evidence of a fault.
    pub sound_too: bool,
    /// The readings of the source under which it holds, where it does not hold under all.
    pub holds_under: Vec<String>,
    /// Why it fails, or is not decided.
    pub because: Vec<String>,
    /// The rows that show the causes.
    pub shown_by: Vec<String>,
}

/// A row that reads a fact.
#[derive(Clone, Debug, Serialize)]
pub struct Reading {
    /// The row, as `SHEET/ID`.
    pub row: String,
    /// The row checks the set-up only.
    pub is_check: bool,
    /// The verdict on the row.
    pub verdict: Verdict,
    /// The reading of the source that it tests, where there are several.
    pub under: Option<String>,
    /// The row holds in the sound run, too.
    pub sound_too: Option<bool>,
}

/// The verdict on a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Every row that reads it holds.
    Holds,
    /// It holds under one reading of the source and fails under another.
    HoldsUnderOne,
    /// A row fails; the sheet says why, and which run shows it.
    Fails,
    /// A row fails, and the cause is not known; the sheet says what was tried.
    FailsCauseUnknown,
    /// A row fails without a reason.
    FailsUnexplained,
    /// It cannot be decided from what is at hand.
    Undecidable,
    /// No row reads it yet.
    Untried,
}

/// The evidence that a fact which holds gives of the historic machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A row that reads it fails in the sound run: it tells the two machines apart.
    TellsApart,
    /// Its rows hold, and the sound run has no such figure to compare with.
    NoCounterpart,
    /// It holds in the sound run, too.
    InBoth,
    /// Any scheduler meets it: only checks of the set-up read it.
    AnyScheduler,
}

/// A fact that no row reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Undecided {
    id: String,
    verdict: Decision,
    because: String,
}

/// The file `undecided.toml` of a paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UndecidedFacts {
    fact: Vec<Undecided>,
}

impl Decision {
    /// Returns the words in tables.
    pub const fn words(self) -> &'static str {
        match self {
            Decision::Holds => "holds",
            Decision::HoldsUnderOne => "holds under one reading",
            Decision::Fails => "fails, because",
            Decision::FailsCauseUnknown => "fails, cause unknown",
            Decision::FailsUnexplained => "FAILS",
            Decision::Undecidable => "cannot be decided here",
            Decision::Untried => "not tried yet",
        }
    }
}

impl Decided {
    /// Returns what the fact is evidence of; `None` if it does not hold.
    pub fn evidence(&self) -> Option<Evidence> {
        let differs = |reading: &Reading| !reading.is_check && reading.sound_too == Some(false);
        match () {
            () if self.decision != Decision::Holds => None,
            () if self.is_check() => Some(Evidence::AnyScheduler),
            () if self.sound_too => Some(Evidence::InBoth),
            () if self.readings.iter().any(differs) => Some(Evidence::TellsApart),
            () => Some(Evidence::NoCounterpart),
        }
    }

    /// Returns whether nothing but checks of the set-up read it.
    pub fn is_check(&self) -> bool {
        !self.readings.is_empty() && self.readings.iter().all(|reading| reading.is_check)
    }
}

/// Decides each fact of these papers whose rows all ran; the others are missing.
///
/// # Errors
/// When a list of facts cannot be read: which and why. A test reads all of them.
pub fn decide(set: &PaperSet, outcomes: &[Outcome<'_>]) -> Result<Vec<Decided>, String> {
    let mut all = Vec::new();
    for paper in set.papers.iter().filter(|paper| paper.states_facts()) {
        let undecided = undecided(paper)?;
        for fact in PaperSet::facts(paper)? {
            let decided = match undecided.iter().find(|row| row.id == fact.id) {
                Some(row) => Some(left_open(paper, fact, row)),
                None => by_rows(set, paper, fact, outcomes),
            };
            all.extend(decided);
        }
    }
    // Of papers that did not run nothing is said.
    let ran = |paper: &str| outcomes.iter().any(|outcome| outcome.sheet.paper == paper);
    all.retain(|decided| ran(&decided.paper));
    Ok(all)
}

fn left_open(paper: &Paper, fact: Fact, row: &Undecided) -> Decided {
    Decided {
        paper: paper.key.clone(),
        fact,
        decision: row.verdict,
        readings: Vec::new(),
        sound_too: false,
        holds_under: Vec::new(),
        because: vec![row.because.clone()],
        shown_by: Vec::new(),
    }
}

/// Decides a fact by its rows; `None` if one of them did not run.
fn by_rows(set: &PaperSet, paper: &Paper, fact: Fact, outcomes: &[Outcome<'_>]) -> Option<Decided> {
    let (mut readings, mut because, mut shown_by) = (Vec::new(), Vec::new(), Vec::new());
    for sheet in set.of(paper) {
        let reads = |claim: &&Claim| claim.era != Eras::Sound && claim.facts.contains(&fact.id);
        for claim in sheet.claims.iter().filter(reads) {
            let ran = |outcome: &&Outcome<'_>| {
                outcome.sheet.id == sheet.id && outcome.era == Era::Historic
            };
            let outcome = outcomes.iter().find(ran)?;
            let row = outcome.claims.iter().find(|row| row.id == claim.id)?;
            readings.push(row.reading(&sheet.id));
            if row.verdict != Verdict::Holds {
                push_new(&mut because, row.because.as_ref());
                let place = |row: &String| paper_set::place(&sheet.id, row);
                push_new(&mut shown_by, row.shown_by.as_ref().map(place).as_ref());
            }
        }
    }
    let holds_under = holds_under(&readings);
    let decision = decision(&readings, &holds_under);
    let sound_too = decision == Decision::Holds
        && readings.iter().all(|reading| reading.is_check || reading.sound_too == Some(true));
    let paper = paper.key.clone();
    Some(Decided { paper, fact, decision, readings, sound_too, holds_under, because, shown_by })
}

fn decision(readings: &[Reading], holds_under: &[String]) -> Decision {
    let is = |verdict| readings.iter().any(|reading| reading.verdict == verdict);
    match () {
        () if readings.is_empty() => Decision::Untried,
        () if is(Verdict::Fails) => Decision::FailsUnexplained,
        () if !holds_under.is_empty() => Decision::HoldsUnderOne,
        () if is(Verdict::FailsCauseUnknown) => Decision::FailsCauseUnknown,
        () if is(Verdict::FailsBecause) => Decision::Fails,
        () => Decision::Holds,
    }
}

/// Returns the readings of the source under which a fact holds; none if it holds under all, or the
/// rows name none.
fn holds_under(readings: &[Reading]) -> Vec<String> {
    let mut named = Vec::new();
    readings.iter().for_each(|reading| push_new(&mut named, reading.under.as_ref()));
    let holds = |name: &String| {
        let own = |row: &&Reading| row.under.as_ref().is_none_or(|under| under == name);
        readings.iter().filter(own).all(|row| row.verdict == Verdict::Holds)
    };
    let all = named.len();
    named.retain(holds);
    if named.len() == all { Vec::new() } else { named }
}

fn push_new(list: &mut Vec<String>, one: Option<&String>) {
    if let Some(one) = one.filter(|one| !list.contains(one)) {
        list.push(one.clone());
    }
}

impl Judged {
    fn reading(&self, sheet: &str) -> Reading {
        Reading {
            row: paper_set::place(sheet, &self.id),
            is_check: self.kind == RowKind::Check,
            verdict: self.verdict,
            under: self.reading.clone(),
            sound_too: self.sound_too,
        }
    }
}

/// Reads the facts of a paper that no row reads.
fn undecided(paper: &Paper) -> Result<Vec<Undecided>, String> {
    let text = paper_set::text(&paper.key, "undecided.toml")?;
    let place = format!("papers/{}/undecided.toml", paper.key);
    let UndecidedFacts { fact } =
        toml::from_str(text).map_err(|error| format!("{place}: {error}"))?;
    let open = |row: &Undecided| {
        matches!(row.verdict, Decision::Undecidable | Decision::Untried)
            && !row.because.trim().is_empty()
    };
    match fact.iter().find(|row| !open(row)) {
        Some(row) => Err(format!(
            "{place}: {}: write `undecidable` or `untried`, and why in `because`",
            row.id
        )),
        None => Ok(fact),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sheet::Target;
    use super::*;
    use std::collections::BTreeSet;

    fn set() -> PaperSet {
        PaperSet::open().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_fact_has_rows_or_a_reason_and_never_both() {
        let set = set();
        for paper in set.papers.iter().filter(|paper| paper.states_facts()) {
            let facts = PaperSet::facts(paper).unwrap_or_else(|error| panic!("{error}"));
            let known: BTreeSet<&str> = facts.iter().map(|fact| fact.id.as_str()).collect();
            let undecided = undecided(paper).unwrap_or_else(|error| panic!("{error}"));
            let open: BTreeSet<&str> = undecided.iter().map(|row| row.id.as_str()).collect();
            assert_eq!(open.len(), undecided.len(), "{}: a fact twice", paper.key);
            let historic = |claim: &&Claim| claim.era != Eras::Sound;
            let rows = set.of(paper).flat_map(|sheet| sheet.claims.iter().filter(historic));
            let read: BTreeSet<&str> =
                rows.flat_map(|claim| claim.facts.iter().map(String::as_str)).collect();
            let both: Vec<_> = open.intersection(&read).collect();
            assert!(both.is_empty(), "{}: rows read them: {both:?}", paper.key);
            let named: BTreeSet<&str> = open.union(&read).copied().collect();
            let missing: Vec<_> = known.difference(&named).collect();
            assert!(missing.is_empty(), "{}: no row, no reason: {missing:?}", paper.key);
            let unknown: Vec<_> = named.difference(&known).collect();
            assert!(unknown.is_empty(), "{}: no such fact: {unknown:?}", paper.key);
        }
    }

    #[test]
    fn a_fact_that_holds_is_evidence_only_where_the_sound_run_differs() {
        use Evidence::{AnyScheduler, InBoth, NoCounterpart, TellsApart};
        let check = |rows: &[(bool, Option<bool>)], expected: Evidence| {
            let reading = |&(is_check, sound_too): &(bool, Option<bool>)| Reading {
                row: String::new(),
                is_check,
                verdict: Verdict::Holds,
                under: None,
                sound_too,
            };
            let decided = Decided {
                paper: String::new(),
                fact: Fact {
                    id: String::new(),
                    at: String::new(),
                    kind: super::super::FactKind::Statement,
                    says: String::new(),
                    values: Vec::new(),
                    unit: None,
                },
                decision: Decision::Holds,
                readings: rows.iter().map(reading).collect(),
                sound_too: rows.iter().all(|row| row.0 || row.1 == Some(true)),
                holds_under: Vec::new(),
                because: Vec::new(),
                shown_by: Vec::new(),
            };
            assert_eq!(decided.evidence(), Some(expected), "{rows:?}");
            let fails = Decided { decision: Decision::Fails, ..decided };
            assert_eq!(fails.evidence(), None);
        };
        check(&[(true, None)], AnyScheduler);
        check(&[(false, Some(true)), (true, None)], InBoth);
        check(&[(false, Some(true)), (false, Some(false))], TellsApart);
        check(&[(false, Some(true)), (false, None)], NoCounterpart);
    }

    #[test]
    fn a_fact_holds_under_the_readings_whose_rows_all_hold() {
        use Verdict::{FailsBecause, FailsCauseUnknown, Holds};
        check(&[("", Holds), ("", Holds)], Decision::Holds, &[]);
        check(&[("", Holds), ("", FailsBecause)], Decision::Fails, &[]);
        check(&[("", FailsCauseUnknown), ("", FailsBecause)], Decision::FailsCauseUnknown, &[]);
        check(&[("x", Holds), ("y", FailsBecause)], Decision::HoldsUnderOne, &["x"]);
        check(&[("x", Holds), ("y", FailsBecause), ("", FailsBecause)], Decision::Fails, &[]);
        check(&[("x", Holds), ("y", Holds), ("", Holds)], Decision::Holds, &[]);
        check(&[("x", FailsBecause), ("x", Holds)], Decision::Fails, &[]);
        check(&[("x", Holds), ("y", Verdict::Fails)], Decision::FailsUnexplained, &["x"]);
        check(&[], Decision::Untried, &[]);
    }

    /// Checks the decision on rows, each under a reading, or under each where it is empty.
    fn check(rows: &[(&str, Verdict)], expected: Decision, under: &[&str]) {
        let reading = |&(under, verdict): &(&str, Verdict)| Reading {
            row: String::new(),
            is_check: false,
            verdict,
            under: Some(under.to_owned()).filter(|under| !under.is_empty()),
            sound_too: None,
        };
        let readings: Vec<Reading> = rows.iter().map(reading).collect();
        let holds_under = holds_under(&readings);
        assert_eq!(holds_under, under, "{rows:?}");
        assert_eq!(decision(&readings, &holds_under), expected, "{rows:?}");
    }

    /// Returns the numbers with which a claim compares.
    fn numbers(claim: &Claim) -> Vec<f64> {
        let Claim { value, at_least, at_most, more_than, less_than, .. } = claim;
        let number = |target: &Option<Target>| match target {
            Some(Target::Number(number)) => Some(*number),
            _ => None,
        };
        [value, at_least, at_most, more_than, less_than].into_iter().filter_map(number).collect()
    }

    /// Facts in numbers of which no row compares with one of the numbers, and why.
    const WITHOUT_NUMBER: [(&str, &str, &str); 1] =
        [("benita", "formula", "its rows are ratios to what the formula gives at each rate")];

    #[test]
    fn a_fact_in_numbers_is_read_by_a_row_that_compares_with_one() {
        let set = set();
        let mut without = Vec::new();
        for paper in set.papers.iter().filter(|paper| paper.states_facts()) {
            let facts = PaperSet::facts(paper).unwrap_or_else(|error| panic!("{error}"));
            let historic = |claim: &&Claim| claim.era != Eras::Sound;
            let rows = || set.of(paper).flat_map(|sheet| sheet.claims.iter().filter(historic));
            for fact in facts.iter().filter(|fact| !fact.values.is_empty()) {
                let mut read = rows().filter(|claim| claim.facts.contains(&fact.id)).peekable();
                let is_read = read.peek().is_some();
                let is_one = |number: &f64| fact.values.contains(number);
                let compares = |claim: &Claim| numbers(claim).iter().any(is_one);
                if is_read && !read.any(compares) {
                    without.push((paper.key.clone(), fact.id.clone()));
                }
            }
        }
        let excused = WITHOUT_NUMBER.map(|(paper, fact, _)| (paper.to_owned(), fact.to_owned()));
        assert_eq!(without, excused);
    }

    /// A row that is called the paper's number compares with a number that facts.toml holds.
    #[test]
    fn a_papers_number_is_one_of_its_fact() {
        let set = set();
        for paper in set.papers.iter().filter(|paper| paper.states_facts()) {
            let facts = PaperSet::facts(paper).unwrap_or_else(|error| panic!("{error}"));
            for sheet in set.of(paper) {
                for claim in sheet.claims.iter().filter(|claim| claim.kind == RowKind::Number) {
                    let read = facts.iter().filter(|fact| claim.facts.contains(&fact.id));
                    let numbers: Vec<f64> = read.flat_map(|fact| fact.values.clone()).collect();
                    assert!(!numbers.is_empty(), "{}/{}", sheet.id, claim.id);
                    if let Some(Target::Number(value)) = claim.value {
                        let place = paper_set::place(&sheet.id, &claim.id);
                        assert!(numbers.contains(&value), "{place}: {value} of {numbers:?}");
                    }
                }
            }
        }
    }

    /// Only a run that varies what is said to be the cause shows it: a row of kind `cause`.
    #[test]
    fn the_row_that_shows_a_cause_is_there() {
        let set = set();
        let mut faults = Vec::new();
        for sheet in &set.sheets {
            for claim in &sheet.claims {
                let Some(shown_by) = &claim.shown_by else { continue };
                let place = paper_set::place(&sheet.id, shown_by);
                let found = set.row(&place);
                let found = found.unwrap_or_else(|| panic!("{} {}: {place}", sheet.id, claim.id));
                let fails = found.because.is_some() || found.cause_unknown.is_some();
                assert!(!fails, "{place} fails itself");
                // A row of another reading shows that the reading is the cause.
                let other = found.reading.is_some()
                    && found.reading != claim.reading
                    && found.facts.iter().any(|fact| claim.facts.contains(fact));
                if found.kind != RowKind::Cause && !other {
                    faults.push(format!("{}/{}: {place}", sheet.id, claim.id));
                }
            }
        }
        assert!(faults.is_empty(), "shown by a row of another kind: {faults:#?}");
    }
}
