//! Writes the claims as tables in Markdown, a page a paper; equal on every machine.

use super::Tally;
use crate::claims::{Era, Judged, Outcome, Paper, Sheet, Shelf, Verdict};

/// A page of `docs/lab/`.
pub struct Page {
    /// The file's name.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// Returns `docs/lab/`: the index, then a page a paper with every experiment and every claim.
pub fn markdown(shelf: &Shelf, outcomes: &[Outcome<'_>]) -> Vec<Page> {
    let mut pages = vec![Page { file: INDEX.to_owned(), text: index(shelf, outcomes) }];
    for paper in &shelf.papers {
        let mut text = head(paper, tally(paper, outcomes));
        shelf.of(paper).for_each(|sheet| text += &section(sheet, outcomes));
        pages.push(Page { file: format!("{}.md", paper.key), text });
    }
    pages
}

fn index(shelf: &Shelf, outcomes: &[Outcome<'_>]) -> String {
    let mut text = HEAD.to_owned();
    text += &format!("\n{}.\n\n", Tally::of(outcomes));
    text += "| paper | claims that hold | fail, explained | fail | cannot be reproduced |\n";
    text += "| --- | --- | --- | --- | --- |\n";
    for paper in &shelf.papers {
        text += &index_row(paper, tally(paper, outcomes));
    }
    text
}

/// Returns a paper's row in the table of the index.
pub fn index_row(paper: &Paper, tally: Tally) -> String {
    let (key, judged) = (&paper.key, tally.judged());
    let Tally { holds, explained, fails, not_reproduced } = tally;
    format!(
        "| [{key}]({key}.md) | {holds} of {judged} | {explained} | {fails} | {not_reproduced} |\n"
    )
}

fn tally(paper: &Paper, outcomes: &[Outcome<'_>]) -> Tally {
    Tally::of(outcomes.iter().filter(|outcome| outcome.sheet.paper == paper.key))
}

/// Returns the text above the experiments on a paper's page.
pub fn head(paper: &Paper, tally: Tally) -> String {
    let Paper { key, title, question, found, .. } = paper;
    format!("# {key}\n\n{title}\n\n*{question}* {found}\n\n{tally}. [All papers]({INDEX})\n")
}

/// Returns the section of one experiment; it begins with a heading of its id.
pub fn section(sheet: &Sheet, outcomes: &[Outcome<'_>]) -> String {
    let Sheet { id, title, section, question, .. } = sheet;
    let mut text = format!("\n## {id}: {title}\n\n{section}. {question}\n");
    let claims: Vec<&Judged> = outcomes
        .iter()
        .filter(|outcome| outcome.sheet.id == *id)
        .flat_map(|outcome| &outcome.claims)
        .collect();
    let judged = claims.iter().filter(|claim| claim.verdict != Verdict::NotReproduced);
    let rows: String = judged.map(|claim| row(claim)).collect();
    if !rows.is_empty() {
        text += "\n| claim | era | source | expected | measured | verdict |\n";
        text += "| --- | --- | --- | --- | --- | --- |\n";
        text += &rows;
    }
    let notes: String = claims.iter().filter_map(|claim| note(claim)).collect();
    if !notes.is_empty() {
        text += &format!("\n{notes}");
    }
    for choice in &sheet.choices {
        text += &format!("\nOpen: {}. Taken: {}. {}\n", choice.open, choice.choice, choice.reason);
    }
    text
}

fn row(claim: &Judged) -> String {
    let Judged { id, era, section, says, expected, measured, .. } = claim;
    let verdict = claim.verdict.words();
    let cells = [&format!("`{id}` {says}"), era.name(), section, expected, measured, verdict];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

/// Returns why a claim does not hold, or cannot be tested.
fn note(claim: &Judged) -> Option<String> {
    let because = claim.because.as_ref()?;
    // A statement about both eras is reported once.
    let Judged { id, era, says, .. } = claim;
    Some(match claim.verdict {
        Verdict::NotReproduced => format!("- Not reproduced: {says}. {because}\n"),
        _ if *era == Era::Historic => format!("- `{id}`: {because}\n"),
        _ => format!("- `{id}`, {}: {because}\n", era.name()),
    })
}

/// The file of the index, which forges show for the folder.
pub const INDEX: &str = "README.md";

const HEAD: &str = "\
# What the papers claim, and what Weir measures

Written by `weir lab report --markdown docs/lab`; a test runs the experiments again and compares.
*Historic* is the scheduler and machine of the paper, faults and all; *sound* the scheduler as it
should have been. How an experiment is written down is in [lab-format.md](../lab-format.md).
";
