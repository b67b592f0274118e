//! The figures and tables of a paper: `papers/PAPER/figures.toml` has an entry for each, with what
//! the paper's text or table says in numbers. `docs/lab-format.md` has all keys.

use super::measured::Measured;
use super::sheet::{Era, Sheet};
use serde::Deserialize;

/// A figure or table of a paper, and how Weir draws it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    /// Its name in the paper, such as `Figure 9`.
    pub number: String,
    /// The paper's caption, or what stands there.
    pub caption: String,
    /// In a sentence: the result that the paper shows with it, and Weir's.
    pub says: String,
    /// The experiment that rebuilds it.
    #[serde(default)]
    pub sheet: Option<String>,
    /// The parts of it that our copy of the paper lacks.
    #[serde(default)]
    pub missing: Option<String>,
    /// The facts that it shows, beside those whose place in the paper names it.
    #[serde(default)]
    pub facts: Vec<String>,
    /// The kind of picture.
    #[serde(default)]
    pub draw: Draw,
    /// The titles of both axes.
    #[serde(default)]
    pub axes: [String; 2],
    /// The horizontal axis is logarithmic.
    #[serde(default)]
    pub log_x: bool,
    /// The setting that a reader can move.
    #[serde(default)]
    pub slider: Option<Slider>,
    /// The name of the rows' values, if they are not the paper's own: `the configured share`.
    #[serde(default)]
    pub values: Option<String>,
    /// The lines of the picture.
    #[serde(default)]
    pub lines: Vec<Line>,
    /// With `draw = "plot"`: the number of the experiment's plot, from 1.
    #[serde(default)]
    pub plot: usize,
    /// With `draw = "plot"`: only series whose name is here; the legend has the second text.
    #[serde(default)]
    pub series: Vec<[String; 2]>,
}

/// The kind of picture of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Draw {
    /// Figures of runs: bars where the rows have names, lines where they have numbers.
    #[default]
    Figures,
    /// A plot of the experiment, historic and sound upon each other.
    Plot,
    /// The nodes and classes of the experiment.
    Setup,
    /// Nothing: it shows nothing that is measured.
    Nothing,
}

/// A setting that a reader can move: each step is a run that was made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slider {
    /// Its name, such as `software buffer`.
    pub label: String,
    /// The name of each step, and the text that replaces `{step}` in the names of figures.
    pub steps: Vec<[String; 2]>,
}

/// A line of a picture, or its bars.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The name in the legend; empty if there is one line.
    #[serde(default)]
    pub name: String,
    /// A figure of the experiment, or `SHEET/FIGURE`: `{}` stands for the row's key.
    pub figure: String,
    /// The figure in the sound run, if it has another name than the sheet's `counterpart` says;
    /// `-` for none.
    #[serde(default)]
    pub sound: Option<String>,
    /// Each row: its name or number along the axis, then the paper's value, then its key. The
    /// paper's value is a number, a list with one for each step, or an empty text.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a row.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Cell {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A value for each step.
    Steps(Vec<Cell>),
}

/// The file `figures.toml` of a paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperFigures {
    figure: Vec<PaperFigure>,
}

impl PaperFigure {
    /// Reads the figures of a paper.
    ///
    /// # Errors
    /// When the text is no such list: which file, and why.
    pub(super) fn parse_all(text: &str, paper: &str) -> Result<Vec<Self>, String> {
        let place = format!("papers/{paper}/figures.toml");
        let PaperFigures { figure } =
            toml::from_str(text).map_err(|error| format!("{place}: {error}"))?;
        Ok(figure)
    }

    /// Returns whether a fact's place in the paper names it: `§4.1, Figures 5 and 6` names both.
    pub fn is_at(&self, at: &str) -> bool {
        let Some((kind, number)) = self.number.rsplit_once(' ') else { return at == self.number };
        let singular = at.replace("Figures ", "Figure ").replace("Tables ", "Table ");
        let Some((_, behind)) = singular.split_once(&format!("{kind} ")) else {
            return at.starts_with(&self.number);
        };
        let mut words = behind.split([' ', ',', ';']).filter(|word| !word.is_empty());
        words.any(|word| word == number || word.trim_end_matches(|c| "abcd".contains(c)) == number)
    }

    /// Returns the steps; one without a name where nothing is moved.
    pub fn steps(&self) -> Vec<[String; 2]> {
        match &self.slider {
            Some(slider) => slider.steps.clone(),
            None => vec![[String::new(), String::new()]],
        }
    }
}

impl Line {
    /// Returns the name of the figure of a row, in an era, and the experiment that has it; none if
    /// the sound run has no such figure.
    pub fn figure(&self, row: &[Cell], step: &str, era: Era) -> Option<(Option<String>, String)> {
        let key = match row.get(2).or(row.first())? {
            Cell::Number(number) => number.to_string(),
            Cell::Text(text) => text.clone(),
            Cell::Steps(_) => return None,
        };
        let own = self.sound.as_deref().filter(|_| era == Era::Sound);
        let name = own.unwrap_or(&self.figure).replace("{step}", step).replace("{}", &key);
        match name.as_str() {
            "-" => None,
            name => Some(match name.split_once('/') {
                Some((sheet, figure)) => (Some(sheet.to_owned()), figure.to_owned()),
                None => (None, name.to_owned()),
            }),
        }
    }

    /// Returns whether the sound figure has a name of its own.
    pub const fn names_sound(&self) -> bool {
        self.sound.is_some()
    }

    /// Returns the paper's value of a row at a step.
    pub fn paper(row: &[Cell], step: usize) -> Option<f64> {
        match row.get(1)? {
            Cell::Number(number) => Some(*number),
            Cell::Text(_) => None,
            Cell::Steps(steps) => match steps.get(step)? {
                Cell::Number(number) => Some(*number),
                _ => None,
            },
        }
    }
}

/// Returns the value of a figure of the historic run, or of its counterpart in the sound one.
pub fn value(measured: &Measured, sheet: &Sheet, era: Era, name: &str) -> Option<(f64, String)> {
    let own = if era == Era::Sound { sheet.sound_name(name) } else { name.to_owned() };
    let figure = measured.figures.get(&own)?;
    Some((figure.mean, figure.unit.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_paper_names_its_figures() {
        let check = |number: &str, at: &str, expected: bool| {
            let text = format!(
                "[[figure]]\nnumber = \"{number}\"\ncaption = \"\"\nsays = \"\"\ndraw = \"nothing\""
            );
            let all = PaperFigure::parse_all(&text, "p").unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(all[0].is_at(at), expected, "{number} in {at}");
        };
        check("Figure 5", "§4.1, Figure 5", true);
        check("Figure 5", "§4.1, Figures 5 and 6", true);
        check("Figure 6", "§4.1, Figures 5 and 6", true);
        check("Figure 1", "§5.2, Figure 11", false);
        check("Figure 16", "§5.4, Figure 16a", true);
        check("Table 4", "Table 4, row 1", true);
        check("Table 4", "§6.2, Table 4", true);
        check("Table I", "§V, Table II", false);
        check("Table 7", "Tables 6 and 7", true);
        check("first table", "first table, row 1", true);
        check("first table", "second table, row 1", false);
        check("Traces, first test", "Traces, first test", true);
        check("Traces, second test", "Traces, second test, 4", true);
    }

    #[test]
    fn a_row_names_its_figure_and_the_papers_value() {
        let line = Line {
            name: String::new(),
            figure: "R-F6/{step}.{}.rate".to_owned(),
            sound: Some("{}.wire".to_owned()),
            rows: Vec::new(),
        };
        let text = |text: &str| Cell::Text(text.to_owned());
        let row = [text("Small"), Cell::Steps(vec![Cell::Number(6.0), text("")]), text("small")];
        let historic = line.figure(&row, "20", Era::Historic);
        assert_eq!(historic, Some((Some("R-F6".to_owned()), "20.small.rate".to_owned())));
        assert_eq!(line.figure(&row, "20", Era::Sound), Some((None, "small.wire".to_owned())));
        assert_eq!(Line::paper(&row, 0), Some(6.0));
        assert_eq!(Line::paper(&row, 1), None);
        let none = Line { sound: Some("-".to_owned()), ..line };
        assert_eq!(none.figure(&row, "20", Era::Sound), None);
    }
}
