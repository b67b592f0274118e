//! Reads the report as a browser would: one well-formed page that loads nothing, in which every
//! experiment has its section, its set-up, its plots and its claims.

use super::{FACTS, OUTCOMES, PAPER_SET};
use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use weir_lab::claims::{Era, Eras, NEVER, PaperSet, Request, decide};
use weir_lab::experiments;
use weir_lab::report::{About, html};

fn page() -> String {
    html(&PAPER_SET, &OUTCOMES, &FACTS, &About::this("weir lab report".to_owned(), 1))
}

/// An element: its name, its attributes, and its descendants.
#[derive(Clone)]
struct Element {
    node: Handle,
    name: String,
    attributes: Vec<(String, String)>,
}

/// Returns the elements below `node`, in their order.
fn elements(node: &Handle) -> Vec<Element> {
    let mut found = Vec::new();
    for child in node.children.borrow().iter() {
        if let NodeData::Element { name, attrs, .. } = &child.data {
            let attributes = attrs.borrow();
            let attribute =
                |it: &html5ever::Attribute| (it.name.local.to_string(), it.value.to_string());
            found.push(Element {
                node: child.clone(),
                name: name.local.to_string(),
                attributes: attributes.iter().map(attribute).collect(),
            });
        }
        found.extend(elements(child));
    }
    found
}

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|attribute| attribute.0 == name);
        found.map(|attribute| attribute.1.as_str())
    }

    /// Returns the elements of this name below it.
    fn below(&self, name: &str) -> Vec<Element> {
        elements(&self.node).into_iter().filter(|element| element.name == name).collect()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut nodes = vec![self.node.clone()];
        while let Some(node) = nodes.pop() {
            if let NodeData::Text { contents } = &node.data {
                text += &contents.borrow();
            }
            nodes.extend(node.children.borrow().iter().rev().cloned());
        }
        text
    }
}

/// Parses the page; returns the tree's root, which owns it, and its elements.
fn read(page: &str) -> (RcDom, Vec<Element>) {
    let dom = parse_document(RcDom::default(), ParseOpts::default()).one(page);
    assert_eq!(*dom.errors.borrow(), [] as [std::borrow::Cow<'_, str>; 0], "it is well formed");
    let elements = elements(&dom.document);
    (dom, elements)
}

#[test]
#[ignore = "all experiments, in minutes: a part of `cargo xtask figures pages`"]
fn the_report_is_well_formed_and_loads_nothing() {
    let page = page();
    let (_dom, elements) = read(&page);
    let ids: Vec<&str> = elements.iter().filter_map(|element| element.attribute("id")).collect();
    let known: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(known.len(), ids.len(), "no id occurs twice");
    for element in &elements {
        let loads = ["link", "img", "iframe", "object", "embed", "base", "image", "use"];
        assert!(!loads.contains(&element.name.as_str()), "a {} loads something", element.name);
        for (name, value) in &element.attributes {
            let refers = ["href", "src", "srcset", "data", "action", "poster", "background"];
            if refers.contains(&name.as_str()) {
                let inside = value.strip_prefix('#').is_some_and(|id| known.contains(id));
                assert!(inside, "{} {name}={value} refers outside the page", element.name);
            }
            assert!(!name.starts_with("on") && !value.contains("url("), "{name}={value}");
        }
        if element.name == "script" {
            let script = element.text();
            let asks = ["fetch(", "XMLHttpRequest", "import", "://", "WebSocket"];
            assert!(!asks.iter().any(|word| script.contains(word)), "{script}");
        }
        if element.name == "style" {
            let style = element.text();
            assert!(!style.contains("url(") && !style.contains("@import"), "{style}");
        }
    }
}

#[test]
#[ignore = "all experiments, in minutes: a part of `cargo xtask figures pages`"]
fn every_experiment_has_its_section_set_up_plots_and_claims() {
    let (_dom, elements) = read(&page());
    let articles: Vec<_> = elements.iter().filter(|element| element.name == "article").collect();
    for sheet in PAPER_SET.sheets.iter().filter(|sheet| !sheet.slow) {
        let id = sheet.id.as_str();
        let article = articles.iter().find(|article| article.attribute("id") == Some(id));
        let article = article.unwrap_or_else(|| panic!("{id} has no section"));
        let text = article.text();
        assert!(text.contains(&sheet.question), "{id}: what is asked");
        assert!(text.contains(&format!("weir lab run {id}")), "{id}: the command");
        let drawn = article.below("div");
        let drawn = drawn.iter().find(|row| row.attribute("class") == Some("setup"));
        assert!(drawn.is_some_and(|row| !row.below("svg").is_empty()), "{id}: the set-up");
        let figures = article.below("figure");
        assert!(!figures.is_empty(), "{id}: a plot");
        for figure in &figures {
            check_figure(id, figure);
        }
        for claim in sheet.claims.iter().map(|claim| claim.says.replace('`', "")) {
            assert!(text.contains(&claim), "{id}: {claim}");
        }
        for absent in &sheet.irreproducible {
            assert!(text.contains(&absent.reason.replace('`', "")), "{id}: why there is none");
        }
    }
    for id in IDS {
        let part = |name: &str| {
            name.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let found = articles.iter().filter_map(|article| article.attribute("id")).any(part);
        assert!(found, "{id} of the experiments has no section");
    }
}

/// Checks that a plot has a title, two named axes, numbers or names along them, and something
/// drawn.
fn check_figure(id: &str, figure: &Element) {
    let caption: String = figure.below("figcaption").iter().map(Element::text).collect();
    assert!(!caption.is_empty(), "{id}: a plot without a title");
    let labels = figure.below("text").iter().map(Element::text).collect::<Vec<_>>();
    let said = labels.iter().filter(|label| !label.trim().is_empty()).count();
    assert!(said >= 5, "{id} {caption}: axes without numbers or names: {labels:?}");
    // The first rectangle is the background.
    let drawn: usize = ["path", "rect"].map(|name| figure.below(name).len()).iter().sum();
    assert!(drawn > 1, "{id} {caption}: nothing is drawn");
    let legend = figure.below("span");
    assert!(legend.iter().all(|row| !row.text().trim().is_empty()) && !legend.is_empty(), "{id}");
}

#[test]
#[ignore = "all experiments, in minutes: a part of `cargo xtask figures pages`"]
fn the_report_names_the_origin_of_its_figures() {
    let (_dom, elements) = read(&page());
    let text = elements[0].text();
    for word in ["weir lab report", env!("CARGO_PKG_VERSION"), "cores, Linux", "seed"] {
        assert!(text.contains(word), "{word}");
    }
    for paper in &PAPER_SET.papers {
        assert!(text.contains(&paper.question), "{}", paper.key);
    }
}

/// A sheet of each paper that is quick: with it the page has every figure of every paper.
const QUICK: [&str; 5] = ["R-T5", "P-2", "D-6-operations", "W-2", "H-5"];

/// The page of the quick sheets, made once for all tests.
static QUICK_PAGE: LazyLock<String> = LazyLock::new(|| {
    let sheets: Vec<_> = QUICK.iter().flat_map(|id| PAPER_SET.select(id)).collect();
    let request = Request { eras: Eras::Both, only: None, seed: 1, threads: 2, stop: &NEVER };
    let outcomes = experiments::run(&sheets, &request, &|_, _, _| {});
    let facts = decide(&PAPER_SET, &outcomes).unwrap_or_else(|error| panic!("{error}"));
    html(&PAPER_SET, &outcomes, &facts, &About::this("weir lab report".to_owned(), 1))
});

/// Returns the cards of figures below a section.
fn cards(elements: &[Element], paper: &str) -> Vec<Element> {
    let section = format!("{paper}-figures");
    let found = elements.iter().find(|element| element.attribute("id") == Some(&section));
    let found = found.unwrap_or_else(|| panic!("{paper} has no figures"));
    let is_card = |element: &Element| element.attribute("class") == Some("card");
    found.below("section").into_iter().filter(is_card).collect()
}

#[test]
fn every_figure_and_table_of_the_papers_has_its_card() {
    let (_dom, elements) = read(&QUICK_PAGE);
    let mut count = 0;
    for paper in PAPER_SET.papers.iter().filter(|paper| paper.states_facts()) {
        let cards = cards(&elements, &paper.key);
        let titles: Vec<String> = cards.iter().map(|card| card.below("h4")[0].text()).collect();
        assert_eq!(titles.len(), paper.figures.len(), "{}: {titles:?}", paper.key);
        for (number, title) in paper.figures.iter().zip(&titles) {
            assert!(title.starts_with(&format!("{number}: ")), "{}: {title}", paper.key);
        }
        count += cards.len();
    }
    assert_eq!(count, 71, "figures and tables of the five papers");
}

/// The paper's own values are drawn beside historic and sound, on the same axes.
#[test]
fn a_card_draws_historic_sound_and_the_papers_values_in_one_picture() {
    let (_dom, elements) = read(&QUICK_PAGE);
    let cards = cards(&elements, "risso99");
    let card = cards.iter().find(|card| card.attribute("id") == Some("risso99-table-5"));
    let card = card.unwrap_or_else(|| panic!("Table 5 has a card"));
    let steps: Vec<Element> = card.below("div");
    let steps: Vec<&Element> =
        steps.iter().filter(|row| row.attribute("class") == Some("step")).collect();
    assert_eq!(steps.len(), 2, "a step for each way to find a filter");
    let shown = |step: &&&Element| step.attribute("hidden").is_none();
    assert_eq!(steps.iter().filter(shown).count(), 1, "the first step is shown");
    let slider = &card.below("input")[0];
    assert_eq!((slider.attribute("min"), slider.attribute("max")), (Some("0"), Some("1")));
    for step in steps {
        let legend: Vec<String> = step.below("span").iter().map(Element::text).collect();
        assert_eq!(legend, ["historic", "sound", "paper"]);
        let svg = &step.below("svg")[0];
        assert_eq!(step.below("svg").len(), 1, "one picture");
        // Six values of the paper, a cross each; two lines with a dot at each value.
        // Neighbours of one style are one path; a dot is a line of no length.
        let paths: String = svg.below("path").iter().filter_map(|one| one.attribute("d")).collect();
        let dots = paths.matches("h0").count();
        assert!(dots >= 6, "historic and sound have their dots");
        assert!(svg.below("line").len() + paths.matches('M').count() - dots >= 12, "and crosses");
    }
}

/// A verdict that fails looks like a failure, whether its cause is known or not.
#[test]
fn a_failure_looks_like_one() {
    let (_dom, elements) = read(&QUICK_PAGE);
    let of_class = |class: &str| {
        let own = elements.iter().filter(|element| element.attribute("class") == Some(class));
        own.map(Element::text).collect::<Vec<_>>()
    };
    let fails = of_class("fails");
    assert!(fails.iter().any(|text| text.contains("✗ fails, cause unknown")), "{fails:?}");
    let holds = of_class("holds");
    assert!(!holds.iter().any(|text| text.contains("fails")), "{holds:?}");
    let bad = of_class("badge bad");
    assert!(bad.iter().any(|text| text.starts_with('✗')), "{bad:?}");
}

/// Each figure that an entry draws was measured, in the historic run at least.
#[test]
#[ignore = "all experiments, in minutes: a part of `cargo xtask figures pages`"]
fn what_the_figures_draw_was_measured() {
    let run = |id: &str, era: Era| OUTCOMES.iter().find(|one| one.id == id && one.era == era);
    let mut missing = Vec::new();
    for paper in &PAPER_SET.papers {
        let all = PaperSet::paper_figures(paper).unwrap_or_else(|error| panic!("{error}"));
        for (one, line) in all.iter().flat_map(|one| one.lines.iter().map(move |it| (one, it))) {
            for ([_, step], row) in
                one.steps().iter().flat_map(|step| line.rows.iter().map(move |row| (step, row)))
            {
                let Some((sheet, name)) = line.figure(row, step, Era::Historic) else { continue };
                let id = sheet.or(one.sheet.clone()).unwrap_or_default();
                let outcome = run(&id, Era::Historic).or_else(|| run(&id, Era::Sound));
                let measured = outcome.and_then(|outcome| outcome.measured.as_ref().ok());
                if measured.and_then(|measured| measured.value(&name)).is_none() {
                    missing.push(format!("{} {}: {id}/{name}", paper.key, one.number));
                }
            }
        }
    }
    assert!(missing.is_empty(), "not measured: {missing:#?}");
}

/// Every experiment of the papers, without ns-2's tests, which are in `papers/ns2/`.
#[rustfmt::skip]
const IDS: &[&str] = &[
    "R-F5", "R-F6", "R-F7", "R-F8", "R-F9", "R-F10", "R-F11", "R-F12", "R-F13", "R-F14", "R-F15",
    "R-F16", "R-F18", "R-F19", "R-F20", "R-F21", "R-F22", "R-F23", "R-T4", "R-T5", "R-T6", "R-RED",
    "R-EFF", "R-FRAG", "R-RSVP", "R-100", "P-1", "P-2", "P-3", "P-4", "Q-1", "Q-2", "Q-3", "D-1",
    "D-2", "D-3", "D-4", "D-5", "D-6", "W-1", "W-2", "W-3", "W-4", "W-5", "W-6", "H-1", "H-2",
    "H-3", "H-4", "H-5", "H-6",
];
