//! The papers figure by figure: of each figure and table of a paper one picture with historic,
//! sound and the paper's own values on the same axes, a sentence, and the verdict on what it shows.
//!
//! Where a fault can be moved, the picture is drawn for each step of a slider, all on one scale.
//! Every picture is made from runs that were made before; the page computes nothing.

use super::html::{drawn, fact, prose, set_up};
use crate::claims::{
    Cell, Decided, Decision, Draw, Era, Kind, Line, Measured, Outcome, Paper, PaperFigure,
    PaperSet, Plot, Series, Sheet, value,
};
use maud::{Markup, html as page};
use weir_show::{Content, Key, Part, Reach, Style};

/// Everything that the pictures are made of.
#[derive(Clone, Copy)]
pub(super) struct Museum<'a> {
    pub outcomes: &'a [Outcome<'a>],
    pub facts: &'a [Decided],
}

/// A picture at one step of its slider.
pub(super) struct Step {
    pub name: String,
    pub plot: Plot,
}

impl Museum<'_> {
    /// Shows each figure and table of a paper.
    pub fn of(&self, paper: &Paper) -> Markup {
        let paper_figures = PaperSet::paper_figures(paper).unwrap_or_default();
        page! {
            div.museum {
                @for paper_figure in &paper_figures { (self.card(paper, paper_figure)) }
            }
        }
    }

    fn card(&self, paper: &Paper, paper_figure: &PaperFigure) -> Markup {
        let facts = self.facts_of(paper, paper_figure);
        page! {
            section.card id=(id(paper, &paper_figure.number)) {
                h4 { (paper_figure.number) span.caption { ": " (paper_figure.caption) } }
                p.verdict { (verdict(&facts)) }
                (self.picture(paper_figure))
                p { (prose(&paper_figure.says)) }
                @if let Some(missing) = &paper_figure.missing { p.missing { (prose(missing)) } }
                @if !facts.is_empty() {
                    details {
                        summary { "What the paper says of it, and the verdicts" }
                        @for decided in &facts { (fact(decided)) }
                    }
                }
                @if let Some(sheet) = self.ran(paper_figure) {
                    p.more { a href={ "#" (sheet) } { "All of " (sheet) } }
                }
            }
        }
    }

    /// Returns the experiment of a figure, if it ran.
    fn ran<'a>(&self, paper_figure: &'a PaperFigure) -> Option<&'a str> {
        let sheet = paper_figure.sheet.as_deref()?;
        self.outcomes.iter().any(|outcome| outcome.id == sheet).then_some(sheet)
    }

    fn picture(&self, paper_figure: &PaperFigure) -> Markup {
        if paper_figure.draw == Draw::Setup {
            let own = |outcome: &&Outcome<'_>| Some(outcome.id) == paper_figure.sheet.as_deref();
            let setup = self.outcomes.iter().find(own);
            let setup = setup.and_then(|outcome| outcome.measured.as_ref().ok()?.setup.as_ref());
            return page! { @if let Some(setup) = setup { (set_up(setup)) } };
        }
        let steps = self.steps(paper_figure);
        page! {
            @if !steps.is_empty() {
                @if let Some(slider) = paper_figure.slider.as_ref().filter(|_| steps.len() > 1) {
                    label.slider {
                        (slider.label) " "
                        input type="range" min="0" max=(steps.len() - 1) value="0" step="1";
                        output { (steps[0].name) }
                    }
                }
                @for (place, step) in steps.iter().enumerate() {
                    div.step data-name=(step.name) hidden[place > 0] {
                        (drawn(&step.plot, &|name| label(name, paper_figure.values.as_deref())))
                    }
                }
            }
        }
    }

    /// Returns the picture at each step; none where nothing was measured.
    pub fn steps(&self, paper_figure: &PaperFigure) -> Vec<Step> {
        let plots = paper_figure.steps().into_iter().enumerate().filter_map(|(place, step)| {
            let [name, text] = step;
            let plot = match paper_figure.draw {
                Draw::Figures => self.figures(paper_figure, place, &text),
                Draw::Plot => self.overlaid(paper_figure),
                Draw::Setup | Draw::Nothing => None,
            };
            Some(Step { name, plot: plot? })
        });
        let mut steps: Vec<Step> = plots.collect();
        let most = |step: &Step| {
            let values = step.plot.series.iter().flat_map(|series| &series.points);
            values.map(|point| point.1).filter(|it| it.is_finite()).fold(0.0, f64::max)
        };
        let top = steps.iter().map(most).fold(0.0, f64::max);
        for step in &mut steps {
            step.plot.reach = Reach { y: Some(top), ..step.plot.reach };
        }
        steps
    }

    /// Draws figures of runs: a group of bars, or a point of a line, for each row.
    fn figures(&self, paper_figure: &PaperFigure, place: usize, step: &str) -> Option<Plot> {
        let first = paper_figure.lines.first()?;
        let text = |row: &Vec<Cell>| match row.first() {
            Some(Cell::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let names: Option<Vec<String>> = first.rows.iter().map(text).collect();
        let kind = if names.is_some() { Kind::Bars } else { Kind::Lines };
        let title = format!("{}: {}", paper_figure.number, paper_figure.caption);
        let [x, y] = &paper_figure.axes;
        let mut plot = Plot::new(kind, &title, x, y);
        plot.log_x = paper_figure.log_x;
        plot.names = names.unwrap_or_default();
        for line in &paper_figure.lines {
            plot = self.line(paper_figure, line, (place, step), plot);
        }
        plot.series.iter().any(|series| !series.points.is_empty()).then_some(plot)
    }

    /// Adds a line in each era, and the paper's.
    fn line(&self, paper_figure: &PaperFigure, line: &Line, at: (usize, &str), plot: Plot) -> Plot {
        let (place, step) = at;
        let x = |number: usize, row: &[Cell]| match row.first() {
            Some(Cell::Number(x)) => *x,
            _ => number as f64,
        };
        let points = |of: &dyn Fn(&[Cell]) -> Option<f64>| -> Vec<(f64, f64)> {
            let rows = line.rows.iter().enumerate();
            rows.filter_map(|(number, row)| Some((x(number, row), of(row)?))).collect()
        };
        let historic = points(&|row| self.value(paper_figure, line, (row, step), Era::Historic));
        let sound = points(&|row| self.value(paper_figure, line, (row, step), Era::Sound));
        let paper = points(&|row| Line::paper(row, place));
        let lines = plot.kind == Kind::Lines;
        // In lines the three share a colour: `paper: X` is a cross, `ideal of X` is broken.
        let name = match line.name.as_str() {
            "" => "historic".to_owned(),
            name => format!("{name}, historic"),
        };
        let (sound_name, paper_name) = match lines {
            true => (format!("ideal of {name}"), format!("paper: {name}")),
            false => ("sound".to_owned(), "paper".to_owned()),
        };
        let all = [(name, historic), (sound_name, sound), (paper_name, paper)];
        let some = all.into_iter().filter(|(_, points)| !points.is_empty());
        some.fold(plot, |plot, (name, points)| plot.with(name, points))
    }

    fn value(
        &self,
        paper_figure: &PaperFigure,
        line: &Line,
        (row, step): (&[Cell], &str),
        era: Era,
    ) -> Option<f64> {
        let (sheet, name) = line.figure(row, step, era)?;
        let id = sheet.as_deref().or(paper_figure.sheet.as_deref())?;
        let (sheet, measured) = self.run(id, era)?;
        if era == Era::Sound && line.names_sound() {
            return measured.value(&name);
        }
        value(measured, sheet, era, &name).map(|(value, _)| value)
    }

    fn run(&self, id: &str, era: Era) -> Option<(&Sheet, &Measured)> {
        let own = |outcome: &&Outcome<'_>| outcome.id == id && outcome.era == era;
        let outcome = self.outcomes.iter().find(own)?;
        Some((outcome.sheet, outcome.measured.as_ref().ok()?))
    }

    /// Returns a plot of the experiment, that of the sound run upon that of the historic one.
    fn overlaid(&self, paper_figure: &PaperFigure) -> Option<Plot> {
        let id = paper_figure.sheet.as_deref()?;
        let plot = |era: Era| {
            let (_, measured) = self.run(id, era)?;
            measured.plots.get(paper_figure.plot.checked_sub(1)?)
        };
        let (historic, sound) = (plot(Era::Historic), plot(Era::Sound));
        let base = historic.or(sound)?;
        let [x, y] = &paper_figure.axes;
        let label = |written: &String, own: &String| match written.is_empty() {
            true => own.clone(),
            false => written.clone(),
        };
        let mut both = Plot { series: Vec::new(), ..base.clone() };
        (both.x, both.y) = (label(x, &base.x), label(y, &base.y));
        let chosen = |name: &str| -> Option<String> {
            if paper_figure.series.is_empty() {
                return Some(name.to_owned());
            }
            let found = paper_figure.series.iter().find(|row| row[0] == name);
            found.map(|row| row[1].clone())
        };
        for series in base.series.iter() {
            if let Some(name) = chosen(&series.name) {
                both = both.with(format!("{name}, historic"), series.points.clone());
            }
        }
        for series in sound.iter().filter(|_| historic.is_some()).flat_map(|plot| &plot.series) {
            if let Some(name) = chosen(&series.name) {
                both = both.with(format!("ideal of {name}, historic"), series.points.clone());
            }
        }
        (!both.series.is_empty()).then_some(both)
    }

    /// Returns the verdicts on what a figure shows: facts whose place names it, and those that its
    /// entry names.
    fn facts_of(&self, paper: &Paper, paper_figure: &PaperFigure) -> Vec<&Decided> {
        let own = |decided: &&Decided| {
            let named = paper_figure.facts.contains(&decided.fact.id);
            decided.paper == paper.key && (named || paper_figure.is_at(&decided.fact.at))
        };
        self.facts.iter().filter(own).collect()
    }
}

/// Sums up the verdicts on a figure; what fails looks like a failure.
fn verdict(facts: &[&Decided]) -> Markup {
    let count = |of: &[Decision]| facts.iter().filter(|one| of.contains(&one.decision)).count();
    let holds = count(&[Decision::Holds]);
    let under = count(&[Decision::HoldsUnderOne]);
    let fails = count(&[Decision::Fails, Decision::FailsCauseUnknown, Decision::FailsUnexplained]);
    let open = count(&[Decision::Undecidable, Decision::Untried]);
    page! {
        @if facts.is_empty() { span.absent { "states no result" } }
        @if holds > 0 { span.badge.good { "✓ " (holds) " " (noun(holds, "holds", "hold")) } " " }
        @if under > 0 {
            span.badge.partly {
                "◐ " (under) " " (noun(under, "holds", "hold")) " under one reading"
            } " "
        }
        @if fails > 0 { span.badge.bad { "✗ " (fails) " " (noun(fails, "fails", "fail")) } " " }
        @if open > 0 { span.badge.open { "? " (open) " cannot be decided here" } }
    }
}

fn noun(count: usize, one: &'static str, several: &'static str) -> &'static str {
    if count == 1 { one } else { several }
}

/// Returns the pictures of what ran, for a file: of each figure of a paper those of all its steps,
/// and of an experiment that rebuilds none its plots in each era.
pub fn pictures(set: &PaperSet, outcomes: &[Outcome<'_>]) -> Vec<Part> {
    let museum = Museum { outcomes, facts: &[] };
    let mut parts = Vec::new();
    let mut shown: Vec<&str> = Vec::new();
    for paper in &set.papers {
        for paper_figure in &PaperSet::paper_figures(paper).unwrap_or_default() {
            let sheet = museum.ran(paper_figure);
            let steps = museum.steps(paper_figure);
            let Some(sheet) = sheet.filter(|_| !steps.is_empty()) else { continue };
            shown.extend(outcomes.iter().map(|outcome| outcome.id).filter(|id| *id == sheet));
            let title = format!("{}: {}", paper_figure.number, paper_figure.caption);
            let plot = |step: Step| Plot { title: step.name, ..step.plot };
            let values = paper_figure.values.as_deref();
            parts.push(part(title, values, steps.into_iter().map(plot).collect()));
        }
    }
    for outcome in outcomes.iter().filter(|outcome| !shown.contains(&outcome.id)) {
        let title = format!("{}, {}", outcome.sheet.title, outcome.era.name());
        let plots = outcome.measured.as_ref().map_or(Vec::new(), |it| it.plots.clone());
        if !plots.is_empty() {
            parts.push(part(title, None, plots));
        }
    }
    parts
}

fn part(title: String, values: Option<&str>, plots: Vec<Plot>) -> Part {
    let most = plots.iter().max_by_key(|plot| plot.series.len());
    // What is broken has the colour of the line whose ideal it is.
    let style = |plot: &Plot, place: usize, name: &str| match name.strip_prefix("ideal of ") {
        Some(of) => {
            let own = plot.series.iter().position(|other| other.name == of);
            Style::Broken(own.unwrap_or(place))
        }
        None if name.starts_with("paper") => Style::Limit,
        None => Style::Line(place),
    };
    let key = |plot: &Plot, place: usize, series: &Series| Key {
        name: label(&series.name, values),
        style: style(plot, place, &series.name),
    };
    let of = |plot: &&Plot| -> Vec<Key> {
        let series = plot.series.iter().enumerate();
        series.map(|(place, series)| key(plot, place, series)).collect()
    };
    let keys = most.as_ref().map(of).unwrap_or_default();
    Part { title, keys, notes: Vec::new(), content: Content::Plots(plots) }
}

/// Returns what the legend calls a series; `values` is what stands in place of the paper's.
fn label(name: &str, values: Option<&str>) -> String {
    let own = |name: &str, as_what: &str| match name.strip_suffix("historic") {
        Some(begin) => format!("{begin}{as_what}"),
        None => format!("{name}, {as_what}"),
    };
    match (name.strip_prefix("ideal of "), name.strip_prefix("paper: ")) {
        // Beside a historic run it is the sound one, and else the fluid ideal.
        (Some(of), _) => own(of, if of.ends_with("historic") { "sound" } else { "ideal" }),
        (_, Some(of)) => own(of, values.unwrap_or("paper")),
        _ if name == "paper" => values.unwrap_or(name).to_owned(),
        _ => name.to_owned(),
    }
}

/// Returns the address of a figure in the page.
pub(super) fn id(paper: &Paper, number: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let number: String = number.to_lowercase().chars().map(letter).collect();
    format!("{}-{number}", paper.key)
}

/// Moves the sliders: shows the step that is chosen.
pub(super) const SCRIPT: &str = "
for (const slider of document.querySelectorAll('label.slider')) {
  const card = slider.closest('.card'), range = slider.querySelector('input');
  const steps = [...card.querySelectorAll('.step')];
  range.addEventListener('input', () => {
    steps.forEach((step, place) => { step.hidden = place !== +range.value; });
    slider.querySelector('output').textContent = steps[+range.value].dataset.name;
  });
}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_legend_says_whose_a_series_is() {
        let check = |name: &str, expected: &str| assert_eq!(label(name, None), expected);
        check("historic", "historic");
        check("ideal of historic", "sound");
        check("paper: historic", "paper");
        check("ideal of CBQ, historic", "CBQ, sound");
        check("ideal of flow 1", "flow 1, ideal");
        check("paper: CBQ, historic", "CBQ, paper");
        check("sound", "sound");
        assert_eq!(label("paper", Some("one tick")), "one tick");
    }

    #[test]
    fn a_key_has_the_colour_of_its_line() {
        let plot = Plot::new(Kind::Lines, "p", "x", "y");
        let points = || vec![(0.0, 0.0)];
        let names = ["a", "b", "ideal of a", "ideal of b", "paper: a"];
        let plot = names.into_iter().fold(plot, |plot, name| plot.with(name, points()));
        let styles: Vec<Style> =
            part("t".to_owned(), None, vec![plot]).keys.iter().map(|key| key.style).collect();
        let wanted =
            [Style::Line(0), Style::Line(1), Style::Broken(0), Style::Broken(1), Style::Limit];
        assert_eq!(styles, wanted);
    }
}
