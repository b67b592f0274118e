//! Writes a page of each paper in Markdown, with what does not hold, and beside it every fact and
//! claim with its verdict in CSV, which a later run is compared with; equal on every machine.

use super::archive::row;
use super::facts::{Headline, holds_in_both, readings};
use crate::claims::{Decided, Decision, Judged, Outcome, Paper, PaperSet, Sheet, Verdict};

/// A file of `docs/lab/`.
pub struct Page {
    /// The name of the file in `docs/lab/`.
    pub file: String,
    /// The whole page in Markdown.
    pub text: String,
}

/// Returns `docs/lab/`: the index, then of each paper its page and its verdicts.
pub fn markdown(set: &PaperSet, outcomes: &[Outcome<'_>], facts: &[Decided]) -> Vec<Page> {
    let all = Headline::of(facts, outcomes);
    let mut index = format!("{HEAD}\n{all}.\n\n{INDEX_COLUMNS}");
    let mut pages = Vec::new();
    for paper in &set.papers {
        let headline = headline(paper, outcomes, facts);
        index += &index_row(paper, &headline);
        let own = || facts.iter().filter(|decided| decided.paper == paper.key);
        let text = page(paper, &headline, own(), outcomes);
        pages.push(Page { file: format!("{}.md", paper.key), text });
        let claims = set.of(paper).map(|sheet| verdicts(sheet, outcomes));
        let text = [COLUMNS.to_owned(), fact_verdicts(own())].into_iter().chain(claims).collect();
        pages.push(Page { file: format!("{}.csv", paper.key), text });
    }
    pages.insert(0, Page { file: INDEX.to_owned(), text: index });
    pages
}

/// Returns a paper's row in the table of the index.
pub fn index_row(paper: &Paper, headline: &Headline) -> String {
    let key = &paper.key;
    let Headline { tell_apart, no_counterpart, in_both, any_scheduler, .. } = headline;
    let Headline { under_one, fails, undecidable, untried, others, .. } = headline;
    let [good, all] = others.values().fold([0, 0], |sum, row| [sum[0] + row[0], sum[1] + row[1]]);
    let facts = headline.facts();
    let unknown = headline.cause_unknown + headline.unexplained;
    format!(
        "| [{key}]({key}.md) | {facts} | {tell_apart} | {no_counterpart} | {in_both} | \
         {any_scheduler} | {under_one} | {fails} | {unknown} | {undecidable} | {untried} | \
         {good} of {all} |\n"
    )
}

fn headline(paper: &Paper, outcomes: &[Outcome<'_>], facts: &[Decided]) -> Headline {
    let facts = facts.iter().filter(|decided| decided.paper == paper.key);
    Headline::of(facts, outcomes.iter().filter(|outcome| outcome.sheet.paper == paper.key))
}

/// Returns the page of a paper: what it asks, what Weir finds, and what does not hold.
pub fn page<'a>(
    paper: &Paper,
    headline: &Headline,
    facts: impl IntoIterator<Item = &'a Decided>,
    outcomes: &[Outcome<'_>],
) -> String {
    let Paper { key, title, question, found, picture, .. } = paper;
    let own = outcomes.iter().filter(|outcome| outcome.sheet.paper == *key);
    let facts: String = facts.into_iter().filter_map(fact_line).collect();
    let claims: String =
        own.flat_map(|of| of.claims.iter().filter_map(|one| line(of, one))).collect();
    let mut text = format!(
        "# {key}\n\n{title}\n\n*{question}* {found}\n\n{headline}. [All papers]({INDEX})\n\n\
         Every fact and claim, with what was expected and measured, is in [{key}.csv]({key}.csv); \
         `weir lab report {key}` runs them and writes all tables and pictures.\n"
    );
    if let Some(id) = picture {
        text += &format!(
            "\n![{id}: historic, sound and the paper's own values](../pictures/{id}.svg)\n"
        );
    }
    for (heading, lines) in [("Facts that do not simply hold", facts), ("Claims that fail", claims)]
    {
        if !lines.is_empty() {
            text += &format!("\n## {heading}\n\n{lines}");
        }
    }
    text
}

/// Returns the line of a fact, unless it holds.
fn fact_line(decided: &Decided) -> Option<String> {
    let Decided { fact, decision, holds_under, because, shown_by, .. } = decided;
    if *decision == Decision::Holds {
        return None;
    }
    let mut text = format!("- `{}` {} ({}): {}.", fact.id, fact.says, fact.at, decision.words());
    holds_under.iter().for_each(|reading| text += &format!(" Holds where {reading}."));
    because.iter().for_each(|because| text += &format!(" {because}"));
    if !shown_by.is_empty() {
        text += &format!(" Shown by {}.", shown_by.join(", "));
    }
    Some(text + "\n")
}

/// Returns the line of a claim that fails, or cannot be tested.
fn line(outcome: &Outcome<'_>, claim: &Judged) -> Option<String> {
    let Judged { id, era, says, expected, measured, verdict, because, shown_by, .. } = claim;
    let because = because.as_ref().map_or_else(String::new, |because| format!(" {because}"));
    let because = match shown_by {
        Some(shown_by) => format!("{because} Shown by `{shown_by}`."),
        None => because,
    };
    let place = outcome.id;
    match verdict {
        Verdict::Holds => None,
        Verdict::NotReproduced => Some(format!("- {place}, not reproduced: {says}.{because}\n")),
        _ => Some(format!(
            "- `{place}/{id}`, {}: {says} Expected {expected}, measured {measured}: {}.{because}\n",
            era.name(),
            verdict.words()
        )),
    }
}

/// Returns the lines of a paper's facts in the table of verdicts.
pub fn fact_verdicts<'a>(facts: impl IntoIterator<Item = &'a Decided>) -> String {
    let line = |decided: &Decided| {
        row(&["", &decided.fact.id, "", "", &readings(decided), "", decided.decision.words()])
    };
    facts.into_iter().map(line).collect()
}

/// Returns the lines of an experiment's claims in the table of verdicts.
pub fn verdicts(sheet: &Sheet, outcomes: &[Outcome<'_>]) -> String {
    let own = outcomes.iter().filter(|outcome| outcome.sheet.id == sheet.id);
    let judged = own.flat_map(|outcome| &outcome.claims);
    let judged = judged.filter(|claim| claim.verdict != Verdict::NotReproduced);
    let line = |claim: &Judged| {
        let Judged { id, era, expected, measured, .. } = claim;
        let sound_too = if holds_in_both(claim) { "yes" } else { "" };
        let verdict = claim.verdict.words();
        row(&[&sheet.id, id, era.name(), expected, measured, sound_too, verdict])
    };
    judged.map(line).collect()
}

/// The first line of a table of verdicts.
pub const COLUMNS: &str = "experiment,fact or claim,era,expected,measured,sound run too,verdict\n";

/// The file of the index, which forges show for the folder.
pub const INDEX: &str = "README.md";

const INDEX_COLUMNS: &str = "\
| paper | facts | tell historic from sound | no counterpart in sound | hold in both \
| hold with any scheduler | hold under one reading | fail, with a cause \
| fail, cause unknown | cannot be decided here | not tried yet | other rows that hold |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

const HEAD: &str = "\
# What the papers claim, and what Weir measures

Written by `weir lab report --markdown docs/lab`; a test runs the experiments again and compares.
*Historic* is the scheduler and machine of the paper, faults and all; *sound* the scheduler as it
should have been. A *fact* is a result sentence or number of a paper; each has one verdict, a
failure also says whether a run shows its cause. What is worth citing is the first number: facts
that tell the historic machine from a sound one. One that holds in both runs, or with any scheduler,
is no evidence of a fault. The list of facts was written from the papers' texts on 24 November 2026.
By then experiments that chose their own claims had run for days; the list was committed before the
rows that decide its facts. Sentences that it had missed were added on 27 November 2026, after those
runs; each file says which. What each verdict means, and how an experiment is written down, is in
[lab-format.md](../lab-format.md).
";
