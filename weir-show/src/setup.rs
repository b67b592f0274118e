//! Draws the set-up of an experiment as SVG: nodes and lines from left to right, and the tree of
//! classes.

use crate::chart::{Area, Failure};
use crate::look::FONT;
use crate::picture::named;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_core::sched::Tree;

type Drawn = Result<(), Failure>;

/// The set-up: nodes joined by lines, and the tree of classes on the link in question.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Setup {
    /// The lines, from left to right.
    pub edges: Vec<Edge>,
    /// Each class with its parent and a note, parents first.
    pub classes: Vec<(String, Option<String>, String)>,
}

/// A line from a node to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// The node where it begins.
    pub from: String,
    /// The node where it ends.
    pub to: String,
    /// The rate, delay and scheduler of the line, in words.
    pub label: String,
}

impl Setup {
    /// Adds a line between two nodes.
    #[must_use]
    pub fn edge(mut self, from: &str, to: &str, label: &str) -> Self {
        let text = str::to_owned;
        self.edges.push(Edge { from: text(from), to: text(to), label: text(label) });
        self
    }

    /// Adds a class of the link in question.
    #[must_use]
    pub fn class(mut self, name: &str, parent: Option<&str>, note: impl Into<String>) -> Self {
        self.classes.push((name.to_owned(), parent.map(str::to_owned), note.into()));
        self
    }

    /// Adds the classes of `tree`, each with its rate.
    #[must_use]
    pub fn tree(self, tree: &Tree) -> Self {
        tree.classes().fold(self, |setup, (_, spec)| {
            let parent = spec.parent.map(|parent| tree.class(parent).name.as_str());
            let rate = spec.params.rate("rate").map_or_else(String::new, |rate| rate.to_string());
            setup.class(&spec.name, parent, rate)
        })
    }
}

/// Returns the SVG; `None` if there is nothing to draw.
pub fn setup_svg(setup: &Setup) -> Option<String> {
    if setup.edges.is_empty() && setup.classes.is_empty() {
        return None;
    }
    let places = places(setup);
    let rows = places.values().map(|place| place.1 + 1).max().unwrap_or(0);
    let columns = places.values().map(|place| place.0 + 1).max().unwrap_or(0);
    let nodes_height = MARGIN + rows * ROW;
    let height = nodes_height + setup.classes.len() as i32 * LINE + MARGIN;
    let grid = Grid::of(setup);
    // Lines begin left of the last column.
    let width = MARGIN * 2 + (columns - 1).max(0) * grid.column + grid.box_width;
    let width = width.max(WIDTH_MIN);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (width as u32, height as u32));
        let root = root.into_drawing_area();
        // Writing to a text cannot fail.
        draw(&root, setup, (&places, grid), nodes_height).ok()?;
    }
    Some(named(&text, "set-up", ""))
}

/// The width of a node's box, and the distance of columns.
#[derive(Clone, Copy)]
struct Grid {
    box_width: i32,
    column: i32,
}

impl Grid {
    /// Wide enough for the names of nodes, and for the labels of the lines between them.
    fn of(setup: &Setup) -> Self {
        let wide = |text: &str| text.chars().count() as i32 * LETTER;
        let names = setup.edges.iter().flat_map(|edge| [&edge.from, &edge.to]);
        let name = names.map(|name| wide(name)).max().unwrap_or(0) + 16;
        let label = setup.edges.iter().map(|edge| wide(&edge.label)).max().unwrap_or(0) + 16;
        let box_width = name.max(BOX_MIN);
        Self { box_width, column: label.max(box_width + GAP) }
    }

    fn middle(self, (column, row): (i32, i32)) -> (i32, i32) {
        (MARGIN + column * self.column + self.box_width / 2, MARGIN + row * ROW + 14)
    }
}

fn draw(
    root: &Area<'_>,
    setup: &Setup,
    (places, grid): (&Places<'_>, Grid),
    classes_top: i32,
) -> Drawn {
    root.fill(&WHITE)?;
    let middle = |place| grid.middle(place);
    let half = grid.box_width / 2;
    for edge in &setup.edges {
        let (from, to) = (middle(places[edge.from.as_str()]), middle(places[edge.to.as_str()]));
        let sides = [(from.0 + half, from.1), (to.0 - half, to.1)];
        root.draw(&PathElement::new(sides, BLACK.mix(0.5).stroke_width(2)))?;
    }
    for (name, &place) in places {
        let (x, y) = middle(place);
        let corners = [(x - half, y - 13), (x + half, y + 13)];
        root.draw(&Rectangle::new(corners, WHITE.filled()))?;
        root.draw(&Rectangle::new(corners, BLACK.stroke_width(1)))?;
        label(root, name, (x, y), HPos::Center)?;
    }
    for edge in &setup.edges {
        // Near its beginning, where lines that meet are still apart.
        let (x, y) = middle(places[edge.from.as_str()]);
        let (x, y) = (x - half, y + 22);
        // A background keeps it readable where lines pass behind it.
        let width = edge.label.chars().count() as i32 * LETTER;
        root.draw(&Rectangle::new([(x, y - 7), (x + width, y + 7)], WHITE.mix(0.85).filled()))?;
        label(root, &edge.label, (x, y), HPos::Left)?;
    }
    draw_classes(root, setup, classes_top)?;
    root.present()
}

/// Draws the tree of classes, each below its parent, with a line from there.
fn draw_classes(root: &Area<'_>, setup: &Setup, top: i32) -> Drawn {
    let order = by_parents(&setup.classes);
    let middle = |row: usize| top + row as i32 * LINE + LINE / 2;
    for (row, &(index, depth)) in order.iter().enumerate() {
        let (name, parent, note) = &setup.classes[index];
        let (x, y) = (MARGIN + depth * INDENT, middle(row));
        let is_parent = |place: &&(usize, i32)| Some(&setup.classes[place.0].0) == parent.as_ref();
        if let Some(above) = order.iter().position(|place| is_parent(&place)) {
            let elbow =
                [(x - INDENT / 2, middle(above) + LINE / 2), (x - INDENT / 2, y), (x - 4, y)];
            root.draw(&PathElement::new(elbow, BLACK.mix(0.5)))?;
        }
        label(root, &format!("{name}  {note}"), (x, y), HPos::Left)?;
    }
    Ok(())
}

/// Returns the classes in the order of the tree, each behind its parent and before the parent's
/// next child: its index, and its depth.
fn by_parents(classes: &[(String, Option<String>, String)]) -> Vec<(usize, i32)> {
    let children = |parent: Option<&str>| -> Vec<usize> {
        let is_child = |index: &usize| classes[*index].1.as_deref() == parent;
        (0..classes.len()).filter(is_child).collect()
    };
    let mut open: Vec<(usize, i32)> =
        children(None).into_iter().rev().map(|index| (index, 0)).collect();
    let mut order = Vec::new();
    while let Some((index, depth)) = open.pop() {
        // A tree has no loop, but this is data: what was placed is not placed again.
        if order.len() < classes.len() {
            order.push((index, depth));
            let below = children(Some(classes[index].0.as_str()));
            open.extend(below.into_iter().rev().map(|index| (index, depth + 1)));
        }
    }
    order
}

fn label(root: &Area<'_>, text: &str, at: (i32, i32), side: HPos) -> Drawn {
    let style = TextStyle::from((FONT, 14).into_font()).pos(Pos::new(side, VPos::Center));
    root.draw(&Text::new(text.to_owned(), at, style))
}

/// Column and row of each node.
type Places<'a> = BTreeMap<&'a str, (i32, i32)>;

/// Places a node right of all that lead to it, below those that came first in its column.
fn places(setup: &Setup) -> Places<'_> {
    let mut columns: BTreeMap<&str, i32> = BTreeMap::new();
    for edge in &setup.edges {
        columns.entry(&edge.from).or_default();
        columns.entry(&edge.to).or_default();
    }
    // As many times as a path can be long; so a loop terminates too.
    for _ in 0..columns.len() {
        for edge in &setup.edges {
            let from = columns[edge.from.as_str()];
            let to = columns.get_mut(edge.to.as_str()).expect("it was put in above");
            *to = (*to).max((from + 1).min(COLUMNS_MAX));
        }
    }
    let mut rows: BTreeMap<i32, i32> = BTreeMap::new();
    let mut places = Places::new();
    let names = setup.edges.iter().flat_map(|edge| [edge.from.as_str(), edge.to.as_str()]);
    for name in names {
        let column = columns[name];
        if !places.contains_key(name) {
            let row = rows.entry(column).or_default();
            places.insert(name, (column, *row));
            *row += 1;
        }
    }
    places
}

const MARGIN: i32 = 14;
const ROW: i32 = 56;
const BOX_MIN: i32 = 110;
/// The least space between boxes, for the line.
const GAP: i32 = 80;
/// The average width of a letter.
const LETTER: i32 = 7;
const LINE: i32 = 20;
const INDENT: i32 = 24;
const WIDTH_MIN: i32 = 320;
/// No set-up has more nodes in a row.
const COLUMNS_MAX: i32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_right_of_those_that_lead_to_them() {
        let setup = Setup::default()
            .edge("a", "router", "3 Mbit/s")
            .edge("b", "router", "3 Mbit/s")
            .edge("router", "sink", "2 Mbit/s & cbq")
            .class("root", None, "2 Mbit/s")
            .class("big", Some("root"), "75 %");
        let places = places(&setup);
        let expected = [("a", (0, 0)), ("b", (0, 1)), ("router", (1, 0)), ("sink", (2, 0))];
        assert_eq!(places, BTreeMap::from(expected));
        assert_eq!(by_parents(&setup.classes), [(0, 0), (1, 1)]);
        let svg = setup_svg(&setup).expect("it draws");
        assert!(svg.contains("2 Mbit/s &amp; cbq"), "{svg}");
    }

    /// Declared parents first, as a policy may: each class is still below its own parent.
    #[test]
    fn classes_are_drawn_below_their_parents() {
        let tree = [
            ("root", None),
            ("realtime", Some("root")),
            ("rest", Some("root")),
            ("voip", Some("realtime")),
            ("video", Some("realtime")),
            ("http", Some("rest")),
        ];
        let setup = tree
            .iter()
            .fold(Setup::default(), |setup, (name, parent)| setup.class(name, *parent, "1 Mbit/s"));
        let order = by_parents(&setup.classes);
        let names: Vec<(&str, i32)> =
            order.iter().map(|(index, depth)| (setup.classes[*index].0.as_str(), *depth)).collect();
        let expected =
            [("root", 0), ("realtime", 1), ("voip", 2), ("video", 2), ("rest", 1), ("http", 2)];
        assert_eq!(names, expected);
        let svg = setup_svg(&setup).expect("it draws");
        let at = |name: &str| svg.find(&format!("\n{name} ")).unwrap_or_else(|| panic!("{name}"));
        assert!(at("video") < at("rest") && at("rest") < at("http"), "{svg}");
    }

    #[test]
    fn a_loop_is_drawn_and_an_empty_setup_is_not() {
        let around = Setup::default().edge("a", "b", "").edge("b", "a", "");
        assert!(setup_svg(&around).is_some());
        assert_eq!(setup_svg(&Setup::default()), None);
    }
}
