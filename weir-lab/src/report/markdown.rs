//! Writes the claims as tables in Markdown, a page a paper; equal on every machine.

use super::facts::{Headline, fact_row, what};
use crate::claims::{Decided, Era, Judged, Outcome, Paper, PaperSet, Sheet, Verdict};

/// A page of `docs/lab/`.
pub struct Page {
    /// The name of the file in `docs/lab/`.
    pub file: String,
    /// The whole page in Markdown.
    pub text: String,
}

/// Returns `docs/lab/`: the index, then a page a paper with every fact, experiment and claim.
pub fn markdown(set: &PaperSet, outcomes: &[Outcome<'_>], facts: &[Decided]) -> Vec<Page> {
    let all = Headline::of(facts, outcomes);
    let mut index = format!("{HEAD}\n{all}.\n\n{INDEX_COLUMNS}");
    let mut pages = Vec::new();
    for paper in &set.papers {
        let headline = headline(paper, outcomes, facts);
        index += &index_row(paper, &headline);
        let mut text = head(paper, &headline);
        text += &table(facts.iter().filter(|decided| decided.paper == paper.key));
        set.of(paper).for_each(|sheet| text += &section(sheet, outcomes));
        pages.push(Page { file: format!("{}.md", paper.key), text });
    }
    pages.insert(0, Page { file: INDEX.to_owned(), text: index });
    pages
}

/// Returns a paper's row in the table of the index.
pub fn index_row(paper: &Paper, headline: &Headline) -> String {
    let key = &paper.key;
    let Headline { holds, sound_too, under_one, fails, undecidable, untried, others, .. } =
        headline;
    let [good, all] = others.values().fold([0, 0], |sum, row| [sum[0] + row[0], sum[1] + row[1]]);
    let facts = headline.facts();
    let unknown = headline.cause_unknown + headline.unexplained;
    format!(
        "| [{key}]({key}.md) | {facts} | {holds} | {sound_too} | {under_one} | {fails} | \
         {unknown} | {undecidable} | {untried} | {good} of {all} |\n"
    )
}

fn headline(paper: &Paper, outcomes: &[Outcome<'_>], facts: &[Decided]) -> Headline {
    let facts = facts.iter().filter(|decided| decided.paper == paper.key);
    Headline::of(facts, outcomes.iter().filter(|outcome| outcome.sheet.paper == paper.key))
}

/// Returns the text above the facts and experiments on a paper's page.
pub fn head(paper: &Paper, headline: &Headline) -> String {
    let Paper { key, title, question, found, .. } = paper;
    format!("# {key}\n\n{title}\n\n*{question}* {found}\n\n{headline}. [All papers]({INDEX})\n")
}

/// Returns the table of a paper's facts; empty if it states none.
pub fn table<'a>(facts: impl IntoIterator<Item = &'a Decided>) -> String {
    let rows: String = facts.into_iter().map(fact_row).collect();
    if rows.is_empty() {
        return rows;
    }
    format!(
        "\n## Facts\n\n| fact | where | verdict | rows | why |\n\
         | --- | --- | --- | --- | --- |\n{rows}"
    )
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
        text += "\n| claim | what | era | source | expected | measured | verdict |\n";
        text += "| --- | --- | --- | --- | --- | --- | --- |\n";
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
    let what = what(claim);
    let cells =
        [&format!("`{id}` {says}"), &*what, era.name(), section, expected, measured, verdict];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

/// Returns why a claim does not hold, or cannot be tested.
fn note(claim: &Judged) -> Option<String> {
    let because = claim.because.as_ref()?;
    // A statement about both eras is reported once.
    let Judged { id, era, says, shown_by, .. } = claim;
    let shown_by = shown_by.as_ref().map_or_else(String::new, |row| format!(" Shown by `{row}`."));
    Some(match claim.verdict {
        Verdict::NotReproduced => format!("- Not reproduced: {says}. {because}\n"),
        _ if *era == Era::Historic => format!("- `{id}`: {because}{shown_by}\n"),
        _ => format!("- `{id}`, {}: {because}{shown_by}\n", era.name()),
    })
}

/// The file of the index, which forges show for the folder.
pub const INDEX: &str = "README.md";

const INDEX_COLUMNS: &str = "\
| paper | facts | hold | in the sound run, too | hold under one reading | fail, with a cause \
| fail, cause unknown | cannot be decided here | not tried yet | other rows that hold |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

const HEAD: &str = "\
# What the papers claim, and what Weir measures

Written by `weir lab report --markdown docs/lab`; a test runs the experiments again and compares.
*Historic* is the scheduler and machine of the paper, faults and all; *sound* the scheduler as it
should have been. A *fact* is a result sentence or number of a paper; each has one verdict, a
failure also says whether a run shows its cause. A fact that holds in the sound run, too, is no
evidence of a fault. The list of facts was written from the papers' texts on 24 November 2026. By
then experiments that chose their own claims had run for days; the list was committed before the
rows that decide its facts. Sentences that it had missed were added on 27 November 2026, after those
runs; each file says which. What each verdict means, and how an experiment is written down, is in
[lab-format.md](../lab-format.md).
";
