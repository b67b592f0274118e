//! Writes the report: one HTML file that needs no other file.

use super::facts::{Headline, what};
use super::museum::{self, Museum};
use super::{About, Tally};
use crate::claims::{
    Decided, Decision, Era, Judged, Kind, Measured, Outcome, Paper, PaperSet, Plot, RowKind, Setup,
    Sheet, Table, Verdict,
};
use maud::{DOCTYPE, Markup, PreEscaped, html as page};
use weir_show::{Origin, legend, look, setup_svg, svg};

/// Returns the report of these outcomes; papers without a run are left out.
pub fn html(set: &PaperSet, outcomes: &[Outcome<'_>], facts: &[Decided], about: &About) -> String {
    let ran = |paper: &&Paper| outcomes.iter().any(|outcome| outcome.sheet.paper == paper.key);
    let papers: Vec<&Paper> = set.papers.iter().filter(ran).collect();
    let museum = Museum { outcomes, facts };
    let page = page! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Weir: the papers rebuilt" }
                style { (PreEscaped(STYLE)) (PreEscaped(look::DARK)) }
            }
            body {
                h1 { "The papers rebuilt" }
                p { (Headline::of(facts, outcomes)) "." }
                (contents(&papers, outcomes, facts))
                details { summary { "How this was made" } (origin(about)) }
                p { (KEY) }
                @for paper in papers.iter().filter(|paper| paper.states_facts()) {
                    (figure_by_figure(paper, &museum))
                }
                @for paper in &papers { (of_paper(paper, set, outcomes, facts)) }
                script { (PreEscaped(museum::SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn origin(about: &About) -> Markup {
    page! {
        dl.origin {
            dt { "command" } dd { code { (about.command) } }
            dt { "seed" } dd { (about.seed) }
            dt { "version" } dd { "weir " (about.version) }
            dt { "machine" } dd { (about.machine) }
        }
    }
}

fn contents(papers: &[&Paper], outcomes: &[Outcome<'_>], facts: &[Decided]) -> Markup {
    page! {
        div.scroll { table.contents {
            thead { tr {
                th { "paper" } th { "question" } th { "facts" } th { "tell historic from sound" }
                th { "no counterpart in sound" } th { "hold in both" }
                th { "hold with any scheduler" } th { "hold under one reading" }
                th { "fail, with a cause" } th { "fail, cause unknown" }
                th { "cannot be decided here" } th { "not tried yet" }
            } }
            tbody {
                @for paper in papers {
                    @let of_paper = |one: &&Outcome<'_>| one.sheet.paper == paper.key;
                    @let own = facts.iter().filter(|decided| decided.paper == paper.key);
                    @let headline = Headline::of(own, outcomes.iter().filter(of_paper));
                    tr {
                        td { (paper_link(paper)) }
                        td { (paper.question) }
                        td { (headline.facts()) }
                        td { strong { (headline.tell_apart) } }
                        td { (headline.no_counterpart) }
                        td { (headline.in_both) }
                        td { (headline.any_scheduler) }
                        td { (headline.under_one) }
                        td { (headline.fails) }
                        td { (headline.cause_unknown + headline.unexplained) }
                        td { (headline.undecidable) }
                        td { (headline.untried) }
                    }
                }
            }
        } }
    }
}

/// Links to the figures of a paper, or to its experiments if it has none.
fn paper_link(paper: &Paper) -> Markup {
    let place = if paper.states_facts() { "-figures" } else { "" };
    page! { a href={ "#" (paper.key) (place) } { (paper.key) } }
}

/// Shows every figure and table of a paper, with links to each.
fn figure_by_figure(paper: &Paper, museum: &Museum<'_>) -> Markup {
    page! {
        section.figures id={ (paper.key) "-figures" } {
            h2 { (paper.key) ", figure by figure" }
            p { (paper.title) ". " em { (paper.question) } " " (paper.found) }
            nav {
                @for number in &paper.figures {
                    a href={ "#" (museum::id(paper, number)) } { (number) }
                }
                a href={ "#" (paper.key) } { "All facts and experiments" }
            }
            (museum.of(paper))
        }
    }
}

/// Links to the experiments of a paper, with how many of their claims hold.
fn index(sheets: &[&Sheet], outcomes: &[Outcome<'_>]) -> Markup {
    page! {
        nav {
            @for sheet in sheets {
                a href={ "#" (sheet.id) } title=(sheet.title) {
                    (sheet.id) " " (held(sheet, outcomes))
                }
            }
        }
    }
}

/// Says how many claims of an experiment hold.
fn held(sheet: &Sheet, outcomes: &[Outcome<'_>]) -> Markup {
    let of_sheet = |one: &&Outcome<'_>| one.sheet.id == sheet.id;
    let tally = Tally::of(outcomes.iter().filter(of_sheet));
    let all = tally.holds == tally.judged();
    page! {
        span class=(if all { "holds" } else { "fails" }) {
            (tally.holds) "/" (tally.judged())
        }
    }
}

/// Formats a sentence of a sheet; text between backticks is code.
pub(super) fn prose(text: &str) -> Markup {
    let parts = text.split('`').enumerate();
    page! {
        @for (place, part) in parts {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn of_paper(paper: &Paper, set: &PaperSet, outcomes: &[Outcome<'_>], facts: &[Decided]) -> Markup {
    let ran = |sheet: &&Sheet| outcomes.iter().any(|outcome| outcome.sheet.id == sheet.id);
    let sheets: Vec<&Sheet> = set.of(paper).filter(ran).collect();
    page! {
        section id=(paper.key) {
            h2 { (paper.title) }
            p { em { (paper.question) } " " (paper.found) }
            @for decided in facts.iter().filter(|decided| decided.paper == paper.key) {
                (fact(decided))
            }
            (index(&sheets, outcomes))
            @for sheet in sheets {
                @let of_sheet: Vec<&Outcome<'_>> =
                    outcomes.iter().filter(|outcome| outcome.sheet.id == sheet.id).collect();
                // Closed, so that a browser neither lays out nor draws what is folded; a link
                // to the article inside opens it.
                details.experiment {
                    summary { (sheet.id) ": " (sheet.title) " " (held(sheet, outcomes)) }
                    (experiment(sheet, &of_sheet))
                }
            }
        }
    }
}

/// Returns the sign before a verdict, for those who do not see its colour.
fn mark(class: &str) -> &'static str {
    match class {
        "holds" => "✓ ",
        "fails" => "✗ ",
        "explained" => "◐ ",
        _ => "",
    }
}

/// Shows a fact in a row; its readings and causes are folded below it.
pub(super) fn fact(decided: &Decided) -> Markup {
    let class = match decided.decision {
        Decision::Holds => "holds",
        Decision::HoldsUnderOne => "explained",
        Decision::Fails | Decision::FailsCauseUnknown | Decision::FailsUnexplained => "fails",
        Decision::Undecidable | Decision::Untried => "absent",
    };
    page! {
        details.fact {
            summary {
                span class=(class) { (mark(class)) (decided.decision.words()) } " "
                (prose(&decided.fact.says)) " [" (decided.fact.at) "]"
                @if decided.sound_too { " (in the sound run, too: no evidence of a fault)" }
            }
            @for reading in &decided.holds_under {
                p.because { "Holds where " (prose(reading)) "." }
            }
            @for because in &decided.because { p.because { (prose(because)) } }
            @if !decided.shown_by.is_empty() {
                p.because { "Shown by " (decided.shown_by.join(", ")) "." }
            }
            ul {
                @for reading in &decided.readings {
                    li { code { (reading.row) } " " (reading.verdict.words()) }
                }
            }
        }
    }
}

fn experiment(sheet: &Sheet, outcomes: &[&Outcome<'_>]) -> Markup {
    let drawn = outcomes.iter().find_map(|one| one.measured.as_ref().ok()?.setup.as_ref());
    page! {
        article id=(sheet.id) {
            h3 { (sheet.id) ": " (sheet.title) }
            p { (sheet.section) ". " em { (sheet.question) } }
            p { code { "weir lab run " (sheet.id) } }
            @if let Some(setup) = drawn { (set_up(setup)) }
            div.eras {
                @for outcome in outcomes { (run(sheet, outcome)) }
            }
            (claims(outcomes))
            @if !sheet.choices.is_empty() { (choices(sheet)) }
        }
    }
}

/// Draws the set-up; a long tree of classes is folded, since what was measured comes below it.
pub(super) fn set_up(setup: &Setup) -> Markup {
    let count = setup.classes.len();
    let (nodes, classes) = match count > CLASSES_OPEN {
        true => (
            Setup { classes: Vec::new(), ..setup.clone() },
            Some(Setup { edges: Vec::new(), ..setup.clone() }),
        ),
        false => (setup.clone(), None),
    };
    page! {
        @if let Some(svg) = setup_svg(&nodes) { div.setup { (PreEscaped(svg)) } }
        @if let Some(svg) = classes.as_ref().and_then(setup_svg) {
            details.long {
                summary { "The tree of " (count) " classes" }
                div.setup { (PreEscaped(svg)) }
            }
        }
    }
}

/// Formats the measurements in one era.
fn run(sheet: &Sheet, outcome: &Outcome<'_>) -> Markup {
    page! {
        div.era {
            h4 { (outcome.era.name()) }
            @match &outcome.measured {
                Ok(measured) => (shown(sheet, outcome.era, measured)),
                Err(error) => p.fails { "was not measured: " (error) },
            }
        }
    }
}

fn shown(sheet: &Sheet, era: Era, measured: &Measured) -> Markup {
    page! {
        @for plot in &measured.plots { (figure(&beside_paper(sheet, era, plot))) }
        @for table in &measured.tables { (table_of(table)) }
    }
}

/// Adds the paper's values to a plot.
pub(super) fn beside_paper(sheet: &Sheet, era: Era, plot: &Plot) -> Plot {
    let mut with_paper = plot.clone();
    for claim in sheet.claims.iter().filter(|claim| claim.era.include(era)) {
        let (Some(series), Some(values)) = (&claim.series, &claim.values) else { continue };
        if let Some(drawn) = plot.series.iter().find(|drawn| drawn.name == *series) {
            let xs = drawn.points.iter().map(|point| point.0);
            let points = xs.zip(values.iter().copied()).collect();
            with_paper = with_paper.with(format!("paper: {series}"), points);
        }
    }
    with_paper
}

fn figure(plot: &Plot) -> Markup {
    drawn(plot, &str::to_owned)
}

/// Draws a plot with its title and legend; `label` returns what the legend calls a series.
pub(super) fn drawn(plot: &Plot, label: &dyn Fn(&str) -> String) -> Markup {
    page! {
        @if let Some(svg) = svg(plot) {
            figure {
                figcaption { (plot.title) }
                div.drawn { (PreEscaped(svg)) }
                div.legend {
                    @for (index, series) in plot.series.iter().enumerate() {
                        (key(plot, index, &label(&series.name)))
                    }
                }
            }
        }
    }
}

/// Formats a series in the legend, marked as it is drawn.
fn key(plot: &Plot, index: usize, name: &str) -> Markup {
    let (colour, origin) = legend(plot, index);
    let class = match origin {
        Origin::Measured if index < look::COLOURS.len() => "solid",
        Origin::Paper if plot.kind != Kind::Bars => "cross",
        Origin::Paper => "hollow",
        _ => "broken",
    };
    // Black is ink, which is light on a dark screen.
    let style = (colour != INK).then(|| format!("color:{colour}"));
    page! { span { i class=(class) style=[style] {} (name) } }
}

/// Long tables are folded: their plot shows the same.
fn table_of(table: &Table) -> Markup {
    page! {
        @if table.rows.len() > ROWS_OPEN {
            details {
                summary { (table.title) ": a table of " (table.rows.len()) " rows" }
                (rows_of(table, false))
            }
        } @else { (rows_of(table, true)) }
    }
}

fn rows_of(table: &Table, titled: bool) -> Markup {
    page! {
        div.scroll {
            table {
                @if titled { caption { (table.title) } }
                thead { tr { @for column in &table.columns { th { (column) } } } }
                tbody {
                    @for row in &table.rows {
                        tr { @for cell in row { td { (cell) } } }
                    }
                }
            }
        }
    }
}

/// Formats the paper's and the measured values: what the paper states first, Weir's own rows
/// folded below.
fn claims(outcomes: &[&Outcome<'_>]) -> Markup {
    let all = || outcomes.iter().flat_map(|outcome| &outcome.claims);
    let (of_paper, own): (Vec<&Judged>, Vec<&Judged>) =
        all().partition(|claim| claim.kind.may_read_a_fact() || claim.kind == RowKind::Ns2);
    let failing = own.iter().filter(|claim| claim.verdict != Verdict::Holds).count();
    page! {
        @if !of_paper.is_empty() { (claim_table(&of_paper)) }
        @if !own.is_empty() {
            details.own {
                summary {
                    "Weir's own: " (own.len()) " rows of models, goals and causes"
                    @if failing > 0 { ", " span.fails { (failing) " of them do not hold" } }
                }
                (claim_table(&own))
            }
        }
    }
}

fn claim_table(claims: &[&Judged]) -> Markup {
    page! {
        div.scroll {
            table.claims {
                thead { tr {
                    th { "claim" } th { "what" } th { "era" } th { "source" } th { "expected" }
                    th { "measured" } th { "verdict" }
                } }
                tbody { @for claim in claims { (claim_row(claim)) } }
            }
        }
    }
}

fn claim_row(claim: &Judged) -> Markup {
    let class = match claim.verdict {
        Verdict::Holds => "holds",
        Verdict::Fails | Verdict::FailsBecause | Verdict::FailsCauseUnknown => "fails",
        Verdict::NotReproduced => "absent",
    };
    page! {
        tr {
            td {
                (prose(&claim.says))
                @if let Some(because) = &claim.because { div.because { (prose(because)) } }
            }
            td { (what(claim)) }
            td { (claim.era.name()) }
            td { (claim.section) }
            td title=(claim.from) { (prose(&claim.expected)) }
            td { (claim.measured) }
            td class=(class) { (mark(class)) (claim.verdict.words()) }
        }
    }
}

fn choices(sheet: &Sheet) -> Markup {
    page! {
        details {
            summary { "What the paper leaves open" }
            ul {
                @for choice in &sheet.choices {
                    li {
                        (prose(&choice.open)) ": " strong { (prose(&choice.choice)) } ". "
                        (prose(&choice.reason))
                    }
                }
            }
        }
    }
}

/// The colour of what has no colour of its own.
const INK: &str = "#000000";
/// Tables with more rows are folded.
const ROWS_OPEN: usize = 12;
/// Trees with more classes are folded.
const CLASSES_OPEN: usize = 16;
/// How the pictures are to be read.
const KEY: &str = "Each picture has what the rebuilt machine does (historic: the scheduler, driver \
                   and clock of the paper), what a sound scheduler does on a machine that adds \
                   nothing (sound), and the paper's own values, on the same axes. Where a slider \
                   is, it moves the fault: each step is a run of its own. Below the figures are \
                   all facts, experiments and rows.";
const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 84rem; margin: 0 auto; padding: 1rem; }
h2 { border-top: 2px solid; padding-top: 1rem; margin-top: 3rem; }
article { margin: 2rem 0; }
table { border-collapse: collapse; margin: .5rem 0; font-size: .9rem; }
th, td { border-bottom: 1px solid #8886; padding: .2rem .6rem; text-align: left; }
td { vertical-align: top; }
caption { text-align: left; font-weight: 600; }
.eras { display: flex; flex-wrap: wrap; gap: 1rem; }
.era { flex: 1 1 30rem; min-width: 0; }
.era h4 { margin: .5rem 0; text-transform: capitalize; }
.scroll, .setup { overflow-x: auto; }
figure { margin: 0 0 1rem; }
.drawn { overflow-x: auto; }
svg { max-width: 100%; height: auto; border-radius: 4px; }
.drawn svg { min-width: 30rem; }
.setup svg { max-width: none; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .9rem; }
code { overflow-wrap: anywhere; }
figcaption { font-weight: 600; }
.legend span { margin-right: 1rem; font-size: .85rem; }
.legend span { display: inline-block; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
.legend .solid { background: currentColor; }
.legend .hollow { border: 2px solid; box-sizing: border-box; }
.legend .broken { background: repeating-linear-gradient(90deg, currentColor 0 3px, #0000 3px 5px); }
.legend .cross::before { content: \"\u{d7}\"; font-style: normal; font-weight: 700; }
.claims { min-width: 44rem; } .contents { min-width: 34rem; }
.because { font-size: .85rem; opacity: .8; }
.holds { color: light-dark(#1a7f37, #4ac26b); }
.fails { color: light-dark(#d1242f, #ff8182); font-weight: 700; }
.explained { color: light-dark(#9a6700, #d4a72c); } .absent { opacity: .7; }
.origin { display: grid; grid-template-columns: max-content auto; gap: .1rem 1rem; }
.origin dd { margin: 0; }
.museum { display: grid; gap: 1.5rem 2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); }
.card { border: 1px solid #8884; border-radius: 6px; padding: .8rem 1rem; min-width: 0;
  break-inside: avoid; }
.card h4 { margin: 0; font-size: 1.05rem; } .card .caption { font-weight: 400; }
.card p { margin: .4rem 0; } .card figure { margin: .4rem 0; } .card figcaption { display: none; }
.card .drawn svg { min-width: 0; } .card .missing { font-size: .9rem; opacity: .8; }
.card .setup svg { max-width: 100%; } .card details, .card .more { font-size: .9rem; }
.figures > nav { margin-bottom: 1rem; }
.badge { display: inline-block; border-radius: 1em; padding: 0 .7em; font-size: .85rem;
  font-weight: 600; color: #fff; }
.badge.good { background: #1a7f37; } .badge.bad { background: #cf222e; }
.badge.partly { background: #9a6700; } .badge.open { background: #6e7781; }
.slider { display: flex; gap: .6rem; align-items: center; font-size: .9rem; font-weight: 600; }
.slider input { flex: 1 1 8rem; max-width: 16rem; } .slider output { min-width: 6rem; }
details.own { margin: .5rem 0; } details.own > summary { cursor: pointer; }
details.experiment { border-bottom: 1px solid #8886; content-visibility: auto; }
details.experiment > summary { padding: .35rem 0; cursor: pointer; font-weight: 600; }
article { content-visibility: auto; contain-intrinsic-size: auto 60rem; }
@media screen and (prefers-color-scheme: dark) {
.legend [style*='0072B2'] { color: #3b9fdc !important; }
.legend [style*='D55E00'] { color: #f07a24 !important; }
.legend [style*='009E73'] { color: #21bd91 !important; }
}
@media print {
:root { color-scheme: light; }
@page { size: A4; margin: 14mm 12mm; }
body { font-size: 9.5pt; max-width: none; padding: 0; }
details:not(.long)::details-content { content-visibility: visible; display: block; height: auto; }
details.experiment, article { content-visibility: visible; contain: none; }
details.long { display: none; }
details.experiment > summary { display: none; }
section[id] > h2 { break-before: page; border: 0; }
.museum { grid-template-columns: 1fr 1fr; gap: .6rem; } .slider input { display: none; }
.legend span { font-size: 8pt; } .because { font-size: 7.5pt; }
h2, h3, h4, figcaption, caption, summary { break-after: avoid; }
figure, tr, .setup, dl { break-inside: avoid; }
thead { display: table-header-group; }
.scroll, .setup, .drawn { overflow: visible; }
.eras { display: grid; grid-template-columns: 1fr 1fr; gap: .6rem; }
.eras > :only-child { grid-column: 1 / 3; max-width: 34rem; }
.era { min-width: 0; } .drawn svg { min-width: 0; } .setup svg { max-width: 100%; }
table { font-size: 8pt; } .claims, .contents { min-width: 0; }
nav { display: none; } a { color: inherit; text-decoration: none; }
}
";
