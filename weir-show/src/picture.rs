//! A picture: parts below each other, each with a legend and plots, two in a row.

use crate::cells;
use crate::chart::{self, Area, FINE, Failure, Frame, fine, text};
use crate::joined::joined;
use crate::look::{COLOURS, DARK, GREY};
use crate::plot::{Kind, Plot, Style};
use plotters::prelude::*;

/// A heading, and the parts below it.
pub struct Picture {
    /// The heading at the top.
    pub title: String,
    /// Further facts, in a line below it.
    pub about: String,
    /// The parts, one below the other.
    pub parts: Vec<Part>,
}

/// A part of a picture.
pub struct Part {
    /// The heading; none if empty.
    pub title: String,
    /// The entries of the legend.
    pub keys: Vec<Key>,
    /// The plots or the painting.
    pub content: Content,
    /// Notes below it, a line each.
    pub notes: Vec<String>,
}

/// The contents of a part.
pub enum Content {
    /// Plots, two in a row.
    Plots(Vec<Plot>),
    /// A function that draws into an area of this height.
    Painted(u32, Painter),
}

/// A function that draws into an area.
pub(crate) type Painter = Box<dyn Fn(&Area<'_>) -> Result<(), Failure>>;

/// An entry of a legend.
#[derive(Clone, PartialEq, Debug)]
pub struct Key {
    /// The name in the legend.
    pub name: String,
    /// How that is drawn.
    pub style: Style,
}

/// A picture that is drawn.
pub struct Drawn {
    /// The picture as a text of SVG.
    pub svg: String,
    /// Each plot and where it is.
    pub plots: Vec<(Plot, Frame)>,
}

/// Returns a plot alone, without title and legend; `None` if there is nothing to draw.
pub fn svg(plot: &Plot) -> Option<String> {
    plot.series.iter().flat_map(|series| &series.points).next()?;
    let drawn = paint((ALONE_WIDTH, ALONE_HEIGHT), |area| draw(area, plot, false));
    // Writing to a text cannot fail.
    Some(named(&drawn.ok()?.0, &plot.title, ""))
}

/// Draws a plot with its title into an area; without a title if that stands elsewhere.
fn draw(area: &Area<'_>, plot: &Plot, titled: bool) -> Result<Frame, Failure> {
    match plot.kind {
        Kind::Cells => cells::draw(area, plot, titled),
        _ => chart::draw(area, plot, titled),
    }
}

impl Picture {
    /// Draws it.
    ///
    /// # Errors
    /// As the library says.
    pub fn draw(&self) -> Result<Drawn, String> {
        let height = HEAD + self.parts.iter().map(Part::height).sum::<u32>() + MARGIN;
        let (svg, plots) = paint((WIDTH, height), |area| self.paint(area))
            .map_err(|error| format!("cannot draw: {error}"))?;
        let style = format!("<style>{DARK}</style>\n");
        Ok(Drawn { svg: named(&svg, &self.title, &style), plots })
    }

    fn paint(&self, area: &Area<'_>) -> Result<Vec<(Plot, Frame)>, Failure> {
        let (head, mut rest) = area.split_vertically(fine(HEAD));
        write(&head, &self.title, Place { x: MARGIN, y: 10 }, 21, &BLACK)?;
        write(&head, &self.about, Place { x: MARGIN, y: 37 }, 14, &GREY)?;
        let mut plots = Vec::new();
        for part in &self.parts {
            let (own, below) = rest.split_vertically(fine(part.height()));
            plots.extend(part.paint(&own)?);
            rest = below;
        }
        Ok(plots)
    }
}

impl Part {
    fn height(&self) -> u32 {
        let title = if self.title.is_empty() { 0 } else { LINE + 6 };
        let content = match &self.content {
            Content::Plots(plots) => plots.len().div_ceil(2) as u32 * PLOT_HEIGHT,
            Content::Painted(height, _) => *height,
        };
        title + self.legend().1 + content + self.notes.len() as u32 * LINE + 6
    }

    /// Returns where each entry of the legend begins, and the height of all.
    fn legend(&self) -> (Vec<Place>, u32) {
        let (mut x, mut y) = (MARGIN, 0);
        let mut places = Vec::new();
        for key in &self.keys {
            let width = 40 + width(&key.name, 14);
            if x > MARGIN && x + width > WIDTH - MARGIN {
                (x, y) = (MARGIN, y + LINE);
            }
            places.push(Place { x, y });
            x += width;
        }
        (places, if self.keys.is_empty() { 0 } else { y + LINE + 4 })
    }

    fn paint(&self, area: &Area<'_>) -> Result<Vec<(Plot, Frame)>, Failure> {
        let mut rest = area.clone();
        if !self.title.is_empty() {
            let (head, below) = rest.split_vertically(fine(LINE + 6));
            write(&head, &self.title, Place { x: MARGIN, y: 4 }, 17, &BLACK)?;
            rest = below;
        }
        let (places, height) = self.legend();
        let (head, below) = rest.split_vertically(fine(height));
        for (key, place) in self.keys.iter().zip(places) {
            key.paint(&head, place)?;
        }
        let notes = self.notes.len() as u32 * LINE + 6;
        let (_, all) = below.dim_in_pixel();
        let (body, foot) = below.split_vertically(all.saturating_sub(fine(notes)));
        for (place, note) in (0..).zip(&self.notes) {
            write(&foot, note, Place { x: MARGIN, y: 2 + place * LINE }, 13, &GREY)?;
        }
        match &self.content {
            Content::Painted(_, painter) => painter(&body).map(|()| Vec::new()),
            Content::Plots(plots) => paint_plots(&body, plots),
        }
    }
}

/// Draws plots, two in a row.
fn paint_plots(area: &Area<'_>, plots: &[Plot]) -> Result<Vec<(Plot, Frame)>, Failure> {
    let areas = area.split_evenly((plots.len().div_ceil(2).max(1), 2));
    let mut drawn = Vec::new();
    for (plot, area) in plots.iter().zip(&areas) {
        drawn.push((plot.clone(), draw(area, plot, true)?));
    }
    Ok(drawn)
}

impl Key {
    fn paint(&self, area: &Area<'_>, Place { x, y }: Place) -> Result<(), Failure> {
        let at = |dx: u32, dy: u32| (fine(x + dx) as i32, fine(y + dy) as i32);
        let colour = |colour: usize| COLOURS[colour % COLOURS.len()];
        match self.style {
            Style::Line(of) | Style::Dots(of) => {
                area.draw(&Rectangle::new([at(0, 5), at(11, 16)], colour(of).filled()))?;
            }
            Style::Broken(of) => self.dashes(area, at, colour(of))?,
            Style::Limit => self.dashes(area, at, BLACK)?,
        }
        write(area, &self.name, Place { x: x + 17, y: y + 3 }, 14, &BLACK)
    }

    fn dashes(
        &self,
        area: &Area<'_>,
        at: impl Fn(u32, u32) -> (i32, i32),
        colour: RGBColor,
    ) -> Result<(), Failure> {
        for dash in [0, 8] {
            let ends = vec![at(dash, 10), at(dash + 5, 10)];
            area.draw(&PathElement::new(ends, colour.stroke_width(FINE * 3 / 2)))?;
        }
        Ok(())
    }
}

/// A place in an area, in pixels of the picture.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub x: u32,
    pub y: u32,
}

/// Writes a text at a place.
pub(crate) fn write(
    area: &Area<'_>,
    words: &str,
    Place { x, y }: Place,
    size: u32,
    colour: &RGBColor,
) -> Result<(), Failure> {
    let place = (fine(x) as i32, fine(y) as i32);
    area.draw(&Text::new(words.to_owned(), place, text(size, colour)))
}

/// Returns about how wide a text is.
pub(crate) fn width(words: &str, size: u32) -> u32 {
    words.chars().count() as u32 * size * 52 / 100
}

/// Draws on a white area; returns the SVG, and what `draw` returns.
fn paint<T>(
    (width, height): (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<T, Failure>,
) -> Result<(String, T), Failure> {
    let mut svg = String::new();
    let drawn = {
        let size = (fine(width), fine(height));
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let drawn = draw(&area)?;
        area.present()?;
        drawn
    };
    // Drawn larger than it is shown, since the library draws at whole pixels.
    let drawn_at = format!("<svg width=\"{}\" height=\"{}\"", fine(width), fine(height));
    let shown_at = format!("<svg width=\"{width}\" height=\"{height}\"");
    Ok((joined(&svg).replacen(&drawn_at, &shown_at, 1), drawn))
}

/// Gives an SVG a name for those who do not see it, and a style sheet.
pub(crate) fn named(svg: &str, title: &str, style: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let svg = svg.replacen("<svg ", "<svg class=\"weir\" role=\"img\" ", 1);
    let Some((open, rest)) = svg.split_once(">\n") else { return svg };
    format!("{open}>\n<title>{title}</title>\n{style}{rest}")
}

/// The size of a plot alone.
const ALONE_WIDTH: u32 = 620;
const ALONE_HEIGHT: u32 = 330;
/// The size of a picture and its parts.
pub(crate) const WIDTH: u32 = 980;
const PLOT_HEIGHT: u32 = 250;
const HEAD: u32 = 62;
pub(crate) const MARGIN: u32 = 14;
const LINE: u32 = 21;
