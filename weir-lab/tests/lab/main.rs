//! `docs/lab.md` says what the experiments measure now, and the report shows it: those that are not
//! slow run again.

mod page;

use std::sync::LazyLock;
use weir_lab::claims::{Eras, NEVER, Outcome, Request, Sheet, Shelf, Verdict};
use weir_lab::{experiments, report};

/// The part of the document that begins with this experiment's heading.
fn section<'a>(document: &'a str, sheet: &Sheet) -> Option<&'a str> {
    let start = document.find(&format!("\n### {}: ", sheet.id))?;
    let rest = &document[start..];
    let end = ["\n### ", "\n## "].iter().filter_map(|heading| rest[1..].find(heading)).min();
    Some(&rest[..end.map_or(rest.len(), |end| end + 1)])
}

static SHELF: LazyLock<Shelf> =
    LazyLock::new(|| Shelf::open().unwrap_or_else(|error| panic!("{error}")));

/// What came of all experiments that are not slow, run once for all tests.
static OUTCOMES: LazyLock<Vec<Outcome<'static>>> = LazyLock::new(|| {
    let sheets: Vec<&Sheet> = SHELF.sheets.iter().filter(|sheet| !sheet.slow).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let request = Request { eras: Eras::Both, only: None, seed: 1, threads, stop: &NEVER };
    experiments::run(&sheets, &request, &|_, _, _| {})
});

#[test]
fn the_document_says_what_is_measured() {
    let (shelf, outcomes) = (&*SHELF, &*OUTCOMES);
    for outcome in outcomes {
        let fails = |verdict| verdict == Verdict::Fails;
        let failing: Vec<_> = outcome.claims.iter().filter(|claim| fails(claim.verdict)).collect();
        assert!(failing.is_empty(), "{} has no reason: {failing:#?}", outcome.id);
    }
    for sheet in &shelf.sheets {
        let written = section(DOCUMENT, sheet).unwrap_or_else(|| panic!("{} {CURE}", sheet.id));
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
    for (line, heading) in
        DOCUMENT.lines().filter_map(|line| Some((line, line.strip_prefix("### ")?)))
    {
        let known =
            shelf.sheets.iter().any(|sheet| heading.starts_with(&format!("{}: ", sheet.id)));
        assert!(known, "`{line}` is no experiment: {CURE}");
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

const DOCUMENT: &str = include_str!("../../../docs/lab.md");
const CURE: &str =
    "is not as in docs/lab.md; write it with `weir lab report --markdown docs/lab.md`";
