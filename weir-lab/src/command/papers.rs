//! The papers' experiments: claims beside measurements, historic and sound.

use super::{eras, threads};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::{IsTerminal, stderr};
use weir_cli::lab::{Era, Request, Which};
use weir_cli::output::{Exit, Format, Output};
use weir_cli::picture::Files;
use weir_host::signals::StopSignal;
use weir_lab::claims::{self, Decided, Fact, Judged, Outcome, PaperSet, Sheet, Verdict, decide};
use weir_lab::experiments;
use weir_lab::report::{Headline, Tally, fact_line, pictures};
use weir_show::Picture;

/// An experiment in the list.
#[derive(Serialize)]
struct Listed<'a> {
    id: &'a str,
    paper: &'a str,
    title: &'a str,
    question: &'a str,
    claims: usize,
}

/// Lists the experiments of each paper, then Weir's own.
pub fn list(set: &PaperSet, output: &Output) -> Exit {
    if output.format == Format::Json {
        let mut rows: Vec<Listed<'_>> = set.sheets.iter().map(listed).collect();
        rows.extend(experiments::own().map(|(row, _)| Listed {
            id: row.name,
            paper: "",
            title: row.summary,
            question: "",
            claims: 0,
        }));
        output.json(&rows);
        return Exit::Clean;
    }
    for paper in &set.papers {
        output.text(&format!("{}  {}\n  {}\n", paper.key, paper.title, paper.question));
        for sheet in set.of(paper) {
            output.text(&format!("    {:<18} {}\n", sheet.id, sheet.title));
            output.text(&format!("    {:<18} {}\n", "", sheet.question));
        }
    }
    output.text("On real packets: weir lab run --live PAPER\n");
    for sheet in &set.live {
        output.text(&format!("    {:<18} {}\n", sheet.id, sheet.title));
    }
    output.text("Weir's own\n");
    for (row, own) in experiments::own() {
        let live = if own.is_live { " (live)" } else { "" };
        output.text(&format!("    {:<18} {}{live}\n", row.name, row.summary));
    }
    Exit::Clean
}

fn listed(sheet: &Sheet) -> Listed<'_> {
    Listed {
        id: &sheet.id,
        paper: &sheet.paper,
        title: &sheet.title,
        question: &sheet.question,
        claims: sheet.claims.len(),
    }
}

/// The facts of a paper in the list.
#[derive(Serialize)]
struct Stated<'a> {
    paper: &'a str,
    facts: Vec<Fact>,
}

/// Lists what each paper, or this one, states.
pub fn facts(set: &PaperSet, paper: Option<&str>, output: &Output) -> Exit {
    let mut all = Vec::new();
    let papers = set.papers.iter().filter(|row| row.states_facts());
    let known: Vec<&str> = papers.clone().map(|row| row.key.as_str()).collect();
    for row in papers.filter(|row| paper.is_none_or(|paper| ["all", &row.key].contains(&paper))) {
        match PaperSet::facts(row) {
            Ok(facts) => all.push(Stated { paper: &row.key, facts }),
            Err(error) => return output.refuse(&error),
        }
    }
    if all.is_empty() {
        let name = paper.unwrap_or_default();
        let known = known.join(", ");
        return output.refuse(&format!("no paper `{name}` states facts; write all, {known}"));
    }
    if output.format == Format::Json {
        output.json(&all);
        return Exit::Clean;
    }
    for Stated { paper, facts } in &all {
        output.text(&format!("{paper}: {} facts\n", facts.len()));
        for Fact { id, at, kind, says, .. } in facts {
            output.text(&format!("    {id:<18} {:<9}  {says} [{at}]\n", kind.name()));
        }
    }
    Exit::Clean
}

/// The outcomes of experiments and what they say of the papers.
#[derive(Serialize)]
struct Told<'a> {
    facts: &'a [Decided],
    experiments: &'a [Outcome<'a>],
}

/// Runs these experiments; exits 1 if a claim fails without a reason, 130 after a stop.
pub fn run(set: &PaperSet, sheets: &[&Sheet], request: &Request, output: &Output) -> Exit {
    let (which, only) = (&request.which, request.only.as_deref());
    let files = match Files::open(request.plot.as_deref(), None) {
        Ok(files) => files,
        Err(error) => return output.refuse(&error),
    };
    let Measurement { outcomes, asked } = match measure(sheets, which, only) {
        Ok(measurement) => measurement,
        Err(error) => return output.refuse(&error),
    };
    if asked == 0 {
        return output.refuse(NO_CLAIM);
    }
    if let Err(error) = draw(set, &outcomes, files) {
        return output.refuse(&error);
    }
    let facts = match decided(set, sheets, &outcomes) {
        Ok(facts) => facts,
        Err(error) => return output.refuse(&error),
    };
    match output.format {
        Format::Json => output.json(&Told { facts: &facts, experiments: &outcomes }),
        Format::Text => {
            outcomes.iter().for_each(|outcome| output.text(&text(outcome)));
            if !facts.is_empty() {
                output.text("Facts of papers\n");
            }
            facts.iter().for_each(|decided| output.text(&fact_line(decided)));
            let headline = Headline::of(&facts, &outcomes).to_string();
            if !headline.is_empty() {
                output.text(&format!("{headline}.\n"));
            }
            if only.is_some() || !matches!(which.era, Era::Both) {
                output.text(PART);
            }
        }
    }
    ended(&outcomes, asked, output)
}

/// Draws what was measured, if a file was asked for.
fn draw(set: &PaperSet, outcomes: &[Outcome<'_>], files: Files) -> Result<(), String> {
    if !files.any() {
        return Ok(());
    }
    let parts = pictures(set, outcomes);
    let first = outcomes.first().map(|outcome| outcome.sheet);
    let title = match first {
        Some(sheet) if outcomes.iter().all(|outcome| outcome.id == sheet.id) => {
            format!("{}: {}", sheet.id, sheet.title)
        }
        _ => "The papers rebuilt".to_owned(),
    };
    files.write_picture(&Picture { title, about: ABOUT.to_owned(), parts })
}

/// Runs these experiments on real packets, and prints each as it ends; exits as [`run`] does.
pub fn run_live(sheets: &[&Sheet], which: &Which, only: Option<&str>, output: &Output) -> Exit {
    let _first = match weir_bench::rig::prepare() {
        Ok(first) => first,
        Err(error) => return output.refuse(&error),
    };
    let (mut all, mut asked) = (Vec::new(), 0);
    for (place, sheet) in sheets.iter().enumerate() {
        let measurement = match measure(&sheets[place..=place], which, only) {
            Ok(measurement) => measurement,
            Err(error) => return output.refuse(&error),
        };
        asked += measurement.asked;
        if output.format == Format::Text {
            for outcome in &measurement.outcomes {
                output.text(&format!("{}, on real packets: {}\n", outcome.id, sheet.title));
                output.text(&rows(outcome));
            }
        }
        all.extend(measurement.outcomes);
        if all.len() < asked {
            break;
        }
    }
    if asked == 0 {
        return output.refuse(NO_CLAIM);
    }
    match output.format {
        Format::Json => output.json(&all),
        Format::Text => output.text(&format!("{}.\n", Tally::of(&all))),
    }
    ended(&all, asked, output)
}

/// Decides the facts of these experiments; those that no row reads are told only where the whole
/// paper runs.
///
/// # Errors
/// As [`decide`].
pub fn decided(
    set: &PaperSet,
    sheets: &[&Sheet],
    outcomes: &[Outcome<'_>],
) -> Result<Vec<Decided>, String> {
    let has = |id: &str| sheets.iter().any(|sheet| sheet.id == id);
    let whole = |paper: &str| set.select(paper).iter().all(|sheet| has(&sheet.id));
    let mut facts = decide(set, outcomes)?;
    facts.retain(|decided| !decided.readings.is_empty() || whole(&decided.paper));
    Ok(facts)
}

/// Returns the exit code.
pub fn ended(outcomes: &[Outcome<'_>], asked: usize, output: &Output) -> Exit {
    if outcomes.len() < asked {
        output.warn(&format!("stopped: {} of {asked} experiments ended", outcomes.len()));
        return Exit::Interrupted;
    }
    if Tally::of(outcomes).fails == 0 { Exit::Clean } else { Exit::Faults }
}

/// The outcomes of the experiments, and the number requested, which is larger after a stop.
pub struct Measurement<'a> {
    pub outcomes: Vec<Outcome<'a>>,
    pub asked: usize,
}

/// Runs the experiments with a progress bar; after Ctrl-C it returns those that have ended.
///
/// # Errors
/// When signals cannot be handled.
pub fn measure<'a>(
    sheets: &[&'a Sheet],
    which: &Which,
    only: Option<&str>,
) -> Result<Measurement<'a>, String> {
    let stop = StopSignal::install().map_err(|error| error.to_string())?;
    let bar = bar();
    let request = claims::Request {
        eras: eras(which.era),
        only,
        seed: which.seed,
        threads: threads(which),
        stop: stop.flag(),
    };
    let outcomes = experiments::run(sheets, &request, &|done, of, last| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(last.to_owned());
    });
    bar.finish_and_clear();
    Ok(Measurement { outcomes, asked: claims::count(sheets, &request) })
}

fn text(outcome: &Outcome<'_>) -> String {
    let head = format!("{} {}: {}\n", outcome.id, outcome.era.name(), outcome.sheet.title);
    head + &rows(outcome)
}

fn rows(outcome: &Outcome<'_>) -> String {
    let mut text = String::new();
    if let Err(error) = &outcome.measured {
        text += &format!("  was not measured: {error}\n");
    }
    outcome.claims.iter().for_each(|claim| text += &line(claim));
    text
}

fn line(claim: &Judged) -> String {
    let Judged { id, says, expected, measured, because, .. } = claim;
    let verdict = claim.verdict.words();
    let mut text = match claim.verdict {
        Verdict::NotReproduced => format!("  {verdict:<16} {says}\n"),
        _ => format!("  {verdict:<16} {id:<16} {measured}, expected {expected}: {says}\n"),
    };
    if let Some(because) = because {
        text += &format!("  {:<16} {because}\n", "");
    }
    text
}

/// A progress bar; hidden without a terminal.
fn bar() -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len}  {eta} left  {msg}");
    ProgressBar::new(0).with_style(style.expect("the template is well formed"))
}

const PART: &str = "With `--only` or one era rows are left out: facts may be decided by fewer \
                    rows, and what holds in the sound run, too, may not be seen.\n";
const ABOUT: &str =
    "historic: the scheduler and machine of the paper; sound: one without their faults";
const NO_CLAIM: &str = "no claim matches; `--only` must be part of a claim's id or sentence";
