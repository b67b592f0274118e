//! The claims as tables in Markdown: the same on every machine.

use super::Tally;
use crate::claims::{Era, Judged, Outcome, Paper, Sheet, Shelf, Verdict};

/// `docs/lab.md`: every paper, every experiment, every claim.
pub fn markdown(shelf: &Shelf, outcomes: &[Outcome<'_>]) -> String {
    let mut text = HEAD.to_owned();
    text += &format!("\n{}.\n\n", Tally::of(outcomes));
    text += "| paper | claims that hold | fail, explained | fail | cannot be reproduced |\n";
    text += "| --- | --- | --- | --- | --- |\n";
    for paper in &shelf.papers {
        let of_paper = outcomes.iter().filter(|outcome| outcome.sheet.paper == paper.key);
        let tally = Tally::of(of_paper);
        let Tally { holds, explained, fails, not_reproduced } = tally;
        let (key, judged) = (&paper.key, tally.judged());
        text += &format!(
            "| `{key}` | {holds} of {judged} | {explained} | {fails} | {not_reproduced} |\n"
        );
    }
    for paper in shelf.papers.iter().filter(|paper| shelf.of(paper).next().is_some()) {
        text += &of_paper(paper);
        for sheet in shelf.of(paper) {
            text += &section(sheet, outcomes);
        }
    }
    text
}

fn of_paper(paper: &Paper) -> String {
    let Paper { key, title, question, found, .. } = paper;
    format!("\n## {key}\n\n{title}\n\n*{question}* {found}\n")
}

/// The section of one experiment; it begins with a heading of its id.
pub fn section(sheet: &Sheet, outcomes: &[Outcome<'_>]) -> String {
    let Sheet { id, title, section, question, .. } = sheet;
    let mut text = format!("\n### {id}: {title}\n\n{section}. {question}\n");
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

/// Why a claim does not hold, or cannot be looked at.
fn note(claim: &Judged) -> Option<String> {
    let because = claim.because.as_ref()?;
    // What one run says in both eras is told once.
    let Judged { id, era, says, .. } = claim;
    Some(match claim.verdict {
        Verdict::NotReproduced => format!("- Not reproduced: {says}. {because}\n"),
        _ if *era == Era::Historic => format!("- `{id}`: {because}\n"),
        _ => format!("- `{id}`, {}: {because}\n", era.name()),
    })
}

const HEAD: &str = "\
# What the papers claim, and what Weir measures

Written by `weir lab report --markdown docs/lab.md`; a test runs the experiments again and compares.
*Historic* is the scheduler and machine of the paper, faults and all; *sound* the scheduler as it
should have been. How an experiment is written down is in [lab-format.md](lab-format.md).
";
