//! Reads the report as a browser would: one well-formed page that loads nothing, in which every
//! experiment has its section, its set-up, its plots and its claims.

use super::{FACTS, OUTCOMES, PAPER_SET};
use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use std::collections::BTreeSet;
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
        let loads = ["script", "link", "img", "iframe", "object", "embed", "base", "image", "use"];
        assert!(!loads.contains(&element.name.as_str()), "a {} loads something", element.name);
        for (name, value) in &element.attributes {
            let refers = ["href", "src", "srcset", "data", "action", "poster", "background"];
            if refers.contains(&name.as_str()) {
                let inside = value.strip_prefix('#').is_some_and(|id| known.contains(id));
                assert!(inside, "{} {name}={value} refers outside the page", element.name);
            }
            assert!(!name.starts_with("on") && !value.contains("url("), "{name}={value}");
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
    let drawn: usize =
        ["polyline", "circle", "rect"].map(|name| figure.below(name).len()).iter().sum();
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

/// Every experiment of the papers, without ns-2's tests, which are in `papers/ns2/`.
#[rustfmt::skip]
const IDS: &[&str] = &[
    "R-F5", "R-F6", "R-F7", "R-F8", "R-F9", "R-F10", "R-F11", "R-F12", "R-F13", "R-F14", "R-F15",
    "R-F16", "R-F18", "R-F19", "R-F20", "R-F21", "R-F22", "R-F23", "R-T4", "R-T5", "R-T6", "R-RED",
    "R-EFF", "R-FRAG", "R-RSVP", "R-100", "P-1", "P-2", "P-3", "P-4", "Q-1", "Q-2", "Q-3", "D-1",
    "D-2", "D-3", "D-4", "D-5", "D-6", "W-1", "W-2", "W-3", "W-4", "W-5", "W-6", "H-1", "H-2",
    "H-3", "H-4", "H-5", "H-6",
];
