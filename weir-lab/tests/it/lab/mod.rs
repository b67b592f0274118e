//! Compares the pages of `docs/lab/` with the experiments that are not slow, which run again, and
//! with the report.

mod page;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use weir_lab::claims::{
    Claim, Decided, Decision, Era, Eras, Judged, NEVER, Outcome, Paper, PaperSet, Request, Run,
    Sheet, Target, Verdict, decide, judge, judge_on_sound,
};
use weir_lab::experiments;
use weir_lab::report::{self, Headline};

/// Returns the lines of an experiment in a table of verdicts.
fn lines(table: &str, sheet: &Sheet) -> String {
    let own = format!("{},", sheet.id);
    table.split_inclusive('\n').filter(|line| line.starts_with(&own)).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/lab")
}

fn page(file: &str) -> String {
    fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error} {CURE}"))
}

static PAPER_SET: LazyLock<PaperSet> =
    LazyLock::new(|| PaperSet::open().unwrap_or_else(|error| panic!("{error}")));

/// The outcomes of all experiments that are not slow, run once for all tests.
static OUTCOMES: LazyLock<Vec<Outcome<'static>>> = LazyLock::new(|| {
    let sheets: Vec<&Sheet> = PAPER_SET.sheets.iter().filter(|sheet| !sheet.slow).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let request = Request { eras: Eras::Both, only: None, seed: 1, threads, stop: &NEVER };
    experiments::run(&sheets, &request, &|_, _, _| {})
});

static FACTS: LazyLock<Vec<Decided>> =
    LazyLock::new(|| decide(&PAPER_SET, &OUTCOMES).unwrap_or_else(|error| panic!("{error}")));

#[test]
#[ignore = "all experiments, in minutes: a part of `cargo xtask figures pages`"]
fn the_document_equals_the_measurements() {
    let (set, outcomes) = (&*PAPER_SET, &*OUTCOMES);
    for outcome in outcomes {
        let fails = |verdict| verdict == Verdict::Fails;
        let failing: Vec<_> = outcome.claims.iter().filter(|claim| fails(claim.verdict)).collect();
        assert!(failing.is_empty(), "{} has no reason: {failing:#?}", outcome.id);
    }
    for paper in &set.papers {
        check_verdicts(paper, outcomes);
    }
}

/// Compares the verdicts of a paper with the measurements.
fn check_verdicts(paper: &Paper, outcomes: &[Outcome<'_>]) {
    let table = page(&format!("{}.csv", paper.key));
    let own = FACTS.iter().filter(|decided| decided.paper == paper.key);
    let mut wanted = report::COLUMNS.to_owned() + &report::fact_verdicts(own);
    for sheet in PAPER_SET.of(paper) {
        let written = lines(&table, sheet);
        if sheet.slow {
            for claim in &sheet.claims {
                let row = format!("{},{},", sheet.id, claim.id);
                assert!(written.contains(&row), "{} {}: {CURE}", sheet.id, claim.id);
            }
        } else {
            assert_eq!(written, report::verdicts(sheet, outcomes), "{} {CURE}", sheet.id);
        }
        wanted += &written;
    }
    assert_eq!(table, wanted, "{} {CURE}", paper.key);
}

#[test]
#[ignore = "all experiments, in minutes: a part of `cargo xtask figures pages`"]
fn the_index_and_the_pages_tell_what_does_not_hold() {
    let index = page(report::INDEX);
    let mut files = vec![report::INDEX.to_owned()];
    for paper in &PAPER_SET.papers {
        let file = format!("{}.md", paper.key);
        let own = || FACTS.iter().filter(|decided| decided.paper == paper.key);
        let headline =
            Headline::of(own(), OUTCOMES.iter().filter(|one| one.sheet.paper == paper.key));
        let now = report::page(paper, &headline, own(), &OUTCOMES);
        assert_eq!(page(&file), now, "{file} {CURE}");
        let row = report::index_row(paper, &headline);
        assert!(index.contains(&row), "{} in the index {CURE}", paper.key);
        files.extend([file, format!("{}.csv", paper.key)]);
    }
    for entry in fs::read_dir(folder()).expect("it is in the tree") {
        let name = entry.expect("it can be listed").file_name().to_string_lossy().into_owned();
        assert!(files.contains(&name), "docs/lab/{name} is not a page of a paper");
    }
}

/// Every fact has a verdict, and every failure the run that shows its cause.
#[test]
#[ignore = "all experiments, in minutes: a part of `cargo xtask figures pages`"]
fn every_fact_is_decided_and_every_cause_is_shown() {
    let stating = PAPER_SET.papers.iter().filter(|paper| paper.states_facts());
    let all: usize =
        stating.map(|paper| PaperSet::facts(paper).map_or(0, |facts| facts.len())).sum();
    assert_eq!(FACTS.len(), all);
    for decided in FACTS.iter() {
        let place = format!("{} {}", decided.paper, decided.fact.id);
        assert_ne!(decided.decision, Decision::FailsUnexplained, "{place}");
        if decided.decision == Decision::Fails {
            assert!(!decided.shown_by.is_empty(), "{place}: no run shows its cause");
        }
        for row in &decided.shown_by {
            let (sheet, id) = row.split_once('/').expect("a place has a sheet");
            let outcome = OUTCOMES.iter().filter(|outcome| outcome.id == sheet);
            let shown = outcome.flat_map(|outcome| &outcome.claims).find(|claim| claim.id == id);
            let verdict = shown.map(|claim| claim.verdict);
            assert_eq!(verdict, Some(Verdict::Holds), "{place}: {row} shows its cause");
        }
    }
}

/// A historic row of a paper is judged on the sound run, too, or says why it has none there.
#[test]
#[ignore = "all experiments, in minutes: a part of `cargo xtask figures pages`"]
fn every_claim_has_its_null_test() {
    let mut missing = Vec::new();
    for outcome in OUTCOMES.iter().filter(|outcome| outcome.era.name() == "historic") {
        for row in outcome.claims.iter().filter(|row| row.kind.is_of_a_paper()) {
            let claim = outcome.sheet.claims.iter().find(|claim| claim.id == row.id);
            let excused = claim.is_none_or(|claim| claim.no_counterpart.is_some());
            if row.sound_too.is_none() && row.verdict != Verdict::NotReproduced && !excused {
                missing.push(format!("{}/{}", outcome.id, row.id));
            }
            assert!(!(excused && row.sound_too.is_some()), "{}/{}", outcome.id, row.id);
        }
    }
    assert!(missing.is_empty(), "not judged on the sound run: {missing:#?}");
}

/// A row that holds in the sound run, too, and with a FIFO in place of each scheduler, is true of
/// every scheduler, and must be a check. Sheets whose trees a FIFO cannot have are left out.
#[test]
#[ignore = "all experiments, in minutes: a part of `cargo xtask figures pages`"]
fn no_row_holds_with_a_fifo_too_unless_it_is_a_check() {
    let (mut tried, mut of_all) = (BTreeSet::new(), Vec::new());
    let historic = OUTCOMES.iter().filter(|outcome| outcome.era == Era::Historic);
    for outcome in historic {
        let held = |row: &&Judged| row.verdict == Verdict::Holds && row.sound_too == Some(true);
        let mut rows: Vec<Judged> = outcome.claims.iter().filter(held).cloned().collect();
        let sheet = outcome.sheet;
        let run = Run { sheet, era: Era::Sound, seed: 1, fifo: true };
        if rows.is_empty() || !SIMULATED.contains(&&*sheet.measure) {
            continue;
        }
        let Ok(measured) = experiments::measure(&run) else { continue };
        tried.insert(&*sheet.measure);
        judge_on_sound(sheet, &mut rows, &measured);
        let too = rows.iter().filter(|row| row.sound_too == Some(true));
        of_all.extend(too.map(|row| format!("{}/{}", sheet.id, row.id)));
    }
    assert_eq!(tried.into_iter().collect::<Vec<_>>(), SIMULATED);
    assert!(of_all.is_empty(), "true of every scheduler: {of_all:#?}");
}

/// The families whose runs are scenarios with a scheduler. quadros is none of them: its rows are
/// about the dropper, which a FIFO leaves as it is.
const SIMULATED: [&str; 4] = ["altqtest", "benita", "nieminen", "risso99"];

/// The schedulers whose figures stand beside each other in one run.
const SCHEDULERS: [&str; 3] = ["cbq", "dbhpd", "priq"];

/// A row that is as true of each other scheduler as of its own says that it is a check.
#[test]
#[ignore = "all experiments, in minutes: a part of `cargo xtask figures pages`"]
fn no_row_is_true_of_every_scheduler_unless_it_is_a_check() {
    let (mut tried, mut of_all) = (0, Vec::new());
    for outcome in OUTCOMES.iter().filter(|outcome| outcome.sheet.measure == "nieminen") {
        let measured = outcome.measured.as_ref().expect("it was measured");
        for claim in outcome.sheet.claims.iter().filter(|claim| claim.kind.is_of_a_paper()) {
            let others: Vec<Claim> =
                SCHEDULERS.iter().filter_map(|other| of_another(claim, other)).collect();
            if others.len() + 1 < SCHEDULERS.len() || !claim.era.include(outcome.era) {
                continue;
            }
            tried += 1;
            let claims = others.into_iter().chain([claim.clone()]).collect();
            let sheet = Sheet { claims, irreproducible: Vec::new(), ..outcome.sheet.clone() };
            let judged = judge(&sheet, outcome.era, Ok(measured));
            if judged.iter().all(|row| row.verdict == Verdict::Holds) {
                of_all.push(format!("{} {}/{}", outcome.era.name(), outcome.id, claim.id));
            }
        }
    }
    assert!(tried > 0, "some rows name one scheduler");
    assert!(of_all.is_empty(), "true of every scheduler: {of_all:#?}");
}

/// Returns the claim about another scheduler, if it is about one alone.
fn of_another(claim: &Claim, other: &str) -> Option<Claim> {
    let mut another = claim.clone();
    let mut own = None;
    let mut replace = |name: &mut String| {
        let mut words: Vec<&str> = name.split('.').collect();
        let place = words.iter().position(|word| SCHEDULERS.contains(word))?;
        let is_own = own.get_or_insert_with(|| words[place].to_owned()) == words[place];
        let goes_on = is_own && words[place] != other;
        words[place] = other;
        *name = words.join(".");
        goes_on.then_some(())
    };
    replace(another.figure.as_mut()?)?;
    let targets = [
        &mut another.value,
        &mut another.at_least,
        &mut another.at_most,
        &mut another.more_than,
        &mut another.less_than,
    ];
    for target in targets.into_iter().flatten() {
        if let Target::Figure(name) = target {
            replace(name)?;
        }
    }
    Some(another)
}

/// One experiment in [`SAMPLE`], which ones follows from the commit, so that each change tries others.
#[test]
fn a_sample_of_experiments_measures_what_the_pages_say() {
    let seed = std::env::var("WEIR_SEED").unwrap_or_default();
    let first = u64::from_str_radix(&seed, 16).unwrap_or(0) % SAMPLE;
    println!("each {SAMPLE}th experiment from number {first} on (WEIR_SEED={seed})");
    let measured = PAPER_SET.sheets.iter().filter(|sheet| !sheet.slow);
    let chosen = (0..).zip(measured).filter(|(number, _)| number % SAMPLE == first);
    let sheets: Vec<&Sheet> = chosen.map(|(_, sheet)| sheet).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let request = Request { eras: Eras::Both, only: None, seed: 1, threads, stop: &NEVER };
    let outcomes = experiments::run(&sheets, &request, &|_, _, _| {});
    assert!(!outcomes.is_empty(), "there are experiments");
    for sheet in sheets {
        let table = page(&format!("{}.csv", sheet.paper));
        assert_eq!(lines(&table, sheet), report::verdicts(sheet, &outcomes), "{} {CURE}", sheet.id);
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let sheets = PAPER_SET.select("H-5");
    let run = |threads| {
        let request = Request { eras: Eras::Both, only: None, seed: 7, threads, stop: &NEVER };
        serde_json::to_string(&experiments::run(&sheets, &request, &|_, _, _| {}))
            .expect("it is JSON")
    };
    assert_eq!(run(1), run(5));
}

/// Of so many experiments one is tried on a change.
const SAMPLE: u64 = 40;
const CURE: &str = "differs from docs/lab/; write it with `weir lab report --markdown docs/lab`";
