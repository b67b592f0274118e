//! The report: one HTML file that needs nothing else.

use super::{About, Tally, plot, setup};
use crate::claims::{Era, Judged, Measured, Outcome, Paper, Plot, Sheet, Shelf, Table, Verdict};
use maud::{DOCTYPE, Markup, PreEscaped, html as page};

/// The report of these outcomes; papers of which nothing was run are left out.
pub fn html(shelf: &Shelf, outcomes: &[Outcome<'_>], about: &About) -> String {
    let ran = |paper: &&Paper| outcomes.iter().any(|outcome| outcome.sheet.paper == paper.key);
    let papers: Vec<&Paper> = shelf.papers.iter().filter(ran).collect();
    let page = page! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Weir: the papers rebuilt" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "The papers rebuilt" }
                p { (Tally::of(outcomes)) "." }
                (origin(about))
                (contents(&papers, outcomes))
                @for paper in &papers { (of_paper(paper, shelf, outcomes)) }
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

fn contents(papers: &[&Paper], outcomes: &[Outcome<'_>]) -> Markup {
    page! {
        table {
            thead { tr {
                th { "paper" } th { "question" } th { "claims that hold" } th { "fail, explained" }
                th { "fail" } th { "cannot be reproduced" }
            } }
            tbody {
                @for paper in papers {
                    @let of_paper = |one: &&Outcome<'_>| one.sheet.paper == paper.key;
                    @let tally = Tally::of(outcomes.iter().filter(of_paper));
                    tr {
                        td { a href={ "#" (paper.key) } { (paper.key) } }
                        td { (paper.question) }
                        td { (tally.holds) " of " (tally.judged()) }
                        td { (tally.explained) }
                        td { (tally.fails) }
                        td { (tally.not_reproduced) }
                    }
                }
            }
        }
    }
}

fn of_paper(paper: &Paper, shelf: &Shelf, outcomes: &[Outcome<'_>]) -> Markup {
    page! {
        section id=(paper.key) {
            h2 { (paper.title) }
            p { em { (paper.question) } " " (paper.found) }
            @for sheet in shelf.of(paper) {
                @let of_sheet: Vec<&Outcome<'_>> =
                    outcomes.iter().filter(|outcome| outcome.sheet.id == sheet.id).collect();
                @if !of_sheet.is_empty() { (experiment(sheet, &of_sheet)) }
            }
        }
    }
}

fn experiment(sheet: &Sheet, outcomes: &[&Outcome<'_>]) -> Markup {
    let drawn = outcomes.iter().filter_map(|one| one.measured.as_ref().ok()?.setup.as_ref());
    page! {
        article id=(sheet.id) {
            h3 { (sheet.id) ": " (sheet.title) }
            p { (sheet.section) ". " em { (sheet.question) } }
            p { code { "weir lab run " (sheet.id) } }
            @if let Some(svg) = drawn.filter_map(setup::svg).next() {
                div.setup { (PreEscaped(svg)) }
            }
            div.eras {
                @for outcome in outcomes { (run(sheet, outcome)) }
            }
            (claims(outcomes))
            @if !sheet.choices.is_empty() { (choices(sheet)) }
        }
    }
}

/// What was measured in one era.
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

/// The plot with what the paper says of its series.
fn beside_paper(sheet: &Sheet, era: Era, plot: &Plot) -> Plot {
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
    page! {
        @if let Some(svg) = plot::svg(plot) {
            figure {
                figcaption { (plot.title) }
                (PreEscaped(svg))
                div.legend {
                    @for (index, series) in plot.series.iter().enumerate() {
                        span {
                            i style={ "background:" (plot::colour_name(index, series)) } {}
                            (series.name)
                        }
                    }
                }
            }
        }
    }
}

fn table_of(table: &Table) -> Markup {
    page! {
        div.scroll {
            table {
                caption { (table.title) }
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

/// The paper's and the measured values in one table.
fn claims(outcomes: &[&Outcome<'_>]) -> Markup {
    let rows = || outcomes.iter().flat_map(|outcome| &outcome.claims);
    page! {
        @if rows().next().is_some() {
            div.scroll {
                table.claims {
                    thead { tr {
                        th { "claim" } th { "era" } th { "source" } th { "expected" }
                        th { "measured" } th { "verdict" }
                    } }
                    tbody { @for claim in rows() { (claim_row(claim)) } }
                }
            }
        }
    }
}

fn claim_row(claim: &Judged) -> Markup {
    let class = match claim.verdict {
        Verdict::Holds => "holds",
        Verdict::Fails => "fails",
        Verdict::FailsBecause => "explained",
        Verdict::NotReproduced => "absent",
    };
    page! {
        tr {
            td {
                (claim.says)
                @if let Some(because) = &claim.because { div.because { (because) } }
            }
            td { (claim.era.name()) }
            td { (claim.section) }
            td title=(claim.from) { (claim.expected) }
            td { (claim.measured) }
            td class=(class) { (claim.verdict.words()) }
        }
    }
}

fn choices(sheet: &Sheet) -> Markup {
    page! {
        details {
            summary { "What the paper leaves open" }
            ul {
                @for choice in &sheet.choices {
                    li { (choice.open) ": " strong { (choice.choice) } ". " (choice.reason) }
                }
            }
        }
    }
}

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
svg { max-width: 100%; height: auto; border-radius: 4px; }
figcaption { font-weight: 600; }
.legend span { margin-right: 1rem; font-size: .85rem; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
.because { font-size: .85rem; opacity: .8; }
.holds { color: #1a7f37; } .fails { color: #d1242f; font-weight: 700; }
.explained { color: #9a6700; } .absent { opacity: .7; }
.origin { display: grid; grid-template-columns: max-content auto; gap: .1rem 1rem; }
.origin dd { margin: 0; }
";
