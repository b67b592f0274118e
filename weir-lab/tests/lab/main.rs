//! Compares the pages of `docs/lab/` with the experiments that are not slow, which run again, and
//! with the report.

mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use weir_lab::claims::{Eras, NEVER, Outcome, Paper, Request, Sheet, Shelf, Verdict};
use weir_lab::experiments;
use weir_lab::report::{self, Tally};

/// Returns the part of a page that begins with this experiment's heading.
fn section<'a>(page: &'a str, sheet: &Sheet) -> Option<&'a str> {
    let start = page.find(&format!("\n## {}: ", sheet.id))?;
    let rest = &page[start..];
    let end = rest[1..].find("\n## ");
    Some(&rest[..end.map_or(rest.len(), |end| end + 1)])
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/lab")
}

fn page(file: &str) -> String {
    fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error} {CURE}"))
}

/// Counts the verdicts that a page shows.
fn tally(page: &str) -> Tally {
    let rows = |verdict: Verdict| {
        let end = format!("| {} |", verdict.words());
        page.lines().filter(|line| line.ends_with(&end)).count()
    };
    Tally {
        holds: rows(Verdict::Holds),
        explained: rows(Verdict::FailsBecause),
        fails: rows(Verdict::Fails),
        not_reproduced: page.lines().filter(|line| line.starts_with("- Not reproduced: ")).count(),
    }
}

static SHELF: LazyLock<Shelf> =
    LazyLock::new(|| Shelf::open().unwrap_or_else(|error| panic!("{error}")));

/// The outcomes of all experiments that are not slow, run once for all tests.
static OUTCOMES: LazyLock<Vec<Outcome<'static>>> = LazyLock::new(|| {
    let sheets: Vec<&Sheet> = SHELF.sheets.iter().filter(|sheet| !sheet.slow).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let request = Request { eras: Eras::Both, only: None, seed: 1, threads, stop: &NEVER };
    experiments::run(&sheets, &request, &|_, _, _| {})
});

#[test]
fn the_document_equals_the_measurements() {
    let (shelf, outcomes) = (&*SHELF, &*OUTCOMES);
    for outcome in outcomes {
        let fails = |verdict| verdict == Verdict::Fails;
        let failing: Vec<_> = outcome.claims.iter().filter(|claim| fails(claim.verdict)).collect();
        assert!(failing.is_empty(), "{} has no reason: {failing:#?}", outcome.id);
    }
    for paper in &shelf.papers {
        check_page(paper, outcomes);
    }
}

/// Compares the page of a paper with the measurements.
fn check_page(paper: &Paper, outcomes: &[Outcome<'_>]) {
    let page = page(&format!("{}.md", paper.key));
    for sheet in SHELF.of(paper) {
        let written = section(&page, sheet).unwrap_or_else(|| panic!("{} {CURE}", sheet.id));
        if sheet.slow {
            for claim in &sheet.claims {
                let row = format!("| `{}` {}", claim.id, claim.says.replace('|', "\\|"));
                assert!(written.contains(&row), "{} {}: {CURE}", sheet.id, claim.id);
            }
        } else {
            let now = report::section(sheet, outcomes);
            assert_eq!(written.trim(), now.trim(), "{} {CURE}", sheet.id);
        }
    }
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    for heading in headings {
        let known = SHELF.of(paper).any(|sheet| heading.starts_with(&format!("{}: ", sheet.id)));
        assert!(known, "`{heading}` is not an experiment of {}: {CURE}", paper.key);
    }
}

#[test]
fn the_index_and_the_heads_of_the_pages_count_the_verdicts_shown() {
    let index = page(report::INDEX);
    let mut files = vec![report::INDEX.to_owned()];
    for paper in &SHELF.papers {
        let file = format!("{}.md", paper.key);
        let page = page(&file);
        let tally = tally(&page);
        assert!(page.starts_with(&report::head(paper, tally)), "the head of {file} {CURE}");
        assert!(
            index.contains(&report::index_row(paper, tally)),
            "{} in the index {CURE}",
            paper.key
        );
        files.push(file);
    }
    for entry in fs::read_dir(folder()).expect("it is in the tree") {
        let name = entry.expect("it can be listed").file_name().to_string_lossy().into_owned();
        assert!(files.contains(&name), "docs/lab/{name} is not a page of a paper");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let sheets = SHELF.select("H-5");
    let run = |threads| {
        let request = Request { eras: Eras::Both, only: None, seed: 7, threads, stop: &NEVER };
        serde_json::to_string(&experiments::run(&sheets, &request, &|_, _, _| {}))
            .expect("it is JSON")
    };
    assert_eq!(run(1), run(5));
}

const CURE: &str = "differs from docs/lab/; write it with `weir lab report --markdown docs/lab`";
