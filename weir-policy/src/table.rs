//! Tables for people.
//!
//! Every table of the command is a [`Table`]: as wide as [`set_width`] allows, rates in Mbit/s
//! ([`megabits`]), times in ms ([`millis`]), rows of zeros folded.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use unicode_width::UnicodeWidthStr;

/// A table for people. The first columns have names, which identify the rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    head: Vec<String>,
    /// How many columns identify the rows, beside the first.
    more_names: usize,
    /// Columns of words; all others are numbers.
    words: Vec<usize>,
    /// Columns that are left out where they say nothing.
    optional: Vec<usize>,
    rows: Vec<Vec<String>>,
    /// Rows and columns of cells that are wrong.
    wrong: Vec<(usize, usize)>,
}

impl Table {
    /// Returns an empty table with these titles. All columns but the first are numbers.
    pub fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Self {
        let head = head.into_iter().map(Into::into).collect();
        Self { head, words: vec![0], ..Self::default() }
    }

    /// Lets the first `count` columns identify the rows: each part of a wide table has them.
    pub fn identified_by(mut self, count: usize) -> Self {
        self.more_names = count.saturating_sub(1).min(self.head.len().saturating_sub(1));
        self
    }

    /// Makes these columns words, as the first is.
    pub fn words(mut self, columns: &[usize]) -> Self {
        self.words.extend_from_slice(columns);
        self
    }

    /// Leaves these columns out if all their cells are empty or zero.
    pub fn optional(mut self, columns: &[usize]) -> Self {
        self.optional.extend_from_slice(columns);
        self
    }

    /// Adds a row with one cell a column.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Marks a cell of the last row as wrong.
    pub fn mark(&mut self, column: usize) {
        self.wrong.push((self.rows.len().saturating_sub(1), column));
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the table, with what is wrong in red if `colour`.
    pub fn render(&self, colour: bool) -> String {
        self.render_within(WIDTH.load(Ordering::Relaxed), colour)
    }

    fn render_within(&self, width: usize, colour: bool) -> String {
        let folds = self.folds();
        let mut hidden = vec![false; self.rows.len()];
        folds.iter().for_each(|fold| hidden[fold.clone()].fill(true));
        let rows: Vec<usize> = (0..self.rows.len()).filter(|&row| !hidden[row]).collect();
        let blocks = self.blocks(&rows, width);
        let mut texts: Vec<String> =
            blocks.iter().map(|columns| self.block(columns, &rows, colour)).collect();
        for fold in folds {
            let name = |row: usize| &self.rows[row][0];
            let (first, last) = (name(fold.start), name(fold.end - 1));
            let what = match self.says_nothing(fold.start) {
                true => "rows of zeros".to_owned(),
                false => format!("rows as {}", name(fold.start - 1)),
            };
            texts.push(format!("{} {what}: {first} to {last}", fold.len()));
        }
        texts.join("\n")
    }

    /// Returns the runs of rows that are left out: long runs of zeros, and of rows that are equal
    /// but for their names, after the first.
    fn folds(&self) -> Vec<Range<usize>> {
        let mut folds = Vec::new();
        let mut start = 0;
        for row in 1..=self.rows.len() {
            let continues = row < self.rows.len() && self.is_alike(start, row);
            match row - start {
                _ if continues || self.head.len() == 1 => continue,
                run if self.says_nothing(start) && run >= FOLD_MIN => folds.push(start..row),
                run if run > REPEATS_MIN => folds.push(start + 1..row),
                _ => {}
            }
            start = row;
        }
        folds
    }

    fn says_nothing(&self, row: usize) -> bool {
        self.rows[row][1..].iter().all(|cell| is_zero(cell))
    }

    /// Returns whether two rows differ in their names only.
    fn is_alike(&self, one: usize, other: usize) -> bool {
        let zeros = self.says_nothing(one) && self.says_nothing(other);
        zeros || self.rows[one][1..] == self.rows[other][1..]
    }

    /// Returns whether a line of the table would be too wide.
    pub fn is_divided(&self) -> bool {
        let rows: Vec<usize> = (0..self.rows.len()).collect();
        self.blocks(&rows, WIDTH.load(Ordering::Relaxed)).len() > 1
    }

    /// Divides the columns into blocks of at most `most` characters; each begins with what
    /// identifies the rows.
    fn blocks(&self, rows: &[usize], most: usize) -> Vec<Vec<usize>> {
        let says = |column: usize| self.rows.iter().any(|cells| !is_zero(&cells[column]));
        let shown = |column: &usize| !self.optional.contains(column) || says(*column);
        let names: Vec<usize> = (0..=self.more_names).collect();
        let widths = names.iter().map(|&column| GAP + self.width(column, rows));
        let first = widths.sum::<usize>() - GAP;
        let mut blocks = vec![names.clone()];
        let mut width = first;
        for column in (names.len()..self.head.len()).filter(shown) {
            let own = GAP + self.width(column, rows);
            let last = blocks.last_mut().expect("there is a first block");
            if width.saturating_add(own) > most && last.len() > names.len() {
                blocks.push(names.iter().copied().chain([column]).collect());
                width = first + own;
            } else {
                last.push(column);
                width += own;
            }
        }
        blocks
    }

    fn width(&self, column: usize, rows: &[usize]) -> usize {
        let cells = rows.iter().map(|&row| self.rows[row][column].as_str());
        self.head[column].lines().chain(cells).map(UnicodeWidthStr::width).max().unwrap_or(0)
    }

    /// Formats the titles, a rule and the rows of these columns.
    fn block(&self, columns: &[usize], rows: &[usize], colour: bool) -> String {
        let sized: Vec<_> =
            columns.iter().map(|&column| (column, self.width(column, rows))).collect();
        let width = sized.iter().map(|column| column.1).sum::<usize>() + GAP * (columns.len() - 1);
        let heights = columns.iter().map(|&column| self.head[column].lines().count());
        let mut lines = Vec::with_capacity(rows.len() + 2);
        for at in 0..heights.max().unwrap_or(0) {
            let title = |column: usize| self.head[column].lines().nth(at).unwrap_or("");
            lines.push(self.line(&sized, columns.iter().map(|&column| (title(column), false))));
        }
        lines.push("─".repeat(width));
        for &row in rows {
            let wrong = |column| colour && self.wrong.contains(&(row, column));
            let cells = columns.iter().map(|&at| (self.rows[row][at].as_str(), wrong(at)));
            lines.push(self.line(&sized, cells));
        }
        lines.join("\n")
    }

    /// Formats a line of cells, each with whether it is red, for columns of these widths.
    fn line<'a>(
        &self,
        columns: &[(usize, usize)],
        cells: impl Iterator<Item = (&'a str, bool)>,
    ) -> String {
        let mut line = String::new();
        for (place, (&(column, width), (text, red))) in columns.iter().zip(cells).enumerate() {
            let before = if place == 0 { 0 } else { GAP };
            let space = width.saturating_sub(text.width());
            let left = if self.words.contains(&column) { 0 } else { space };
            let (on, off) = if red { (RED, PLAIN) } else { ("", "") };
            let (lead, rest) = (before + left, space - left);
            line += &format!("{:lead$}{on}{text}{off}{:rest$}", "", "");
        }
        line.trim_end().to_owned()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// Returns a table with these rows; all columns but the first are numbers.
pub fn number_table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new(head.iter().copied());
    rows.for_each(|row| table.row(row));
    table
}

/// Returns whether a cell says nothing: a zero, a dash or nothing.
fn is_zero(cell: &str) -> bool {
    cell.chars().all(|c| "0.-".contains(c))
}

/// Formats a rate in bit/s for a column in Mbit/s.
pub fn megabits(bits_per_second: f64) -> String {
    format!("{:.4}", bits_per_second / 1e6)
}

/// Formats a time in µs for a column in ms: to the microsecond below 100 ms.
pub fn millis(micros: f64) -> String {
    let decimals = if micros < 99_999.5 { 3 } else { 2 };
    format!("{:.decimals$}", micros / 1e3)
}

/// Formats a figure, `-` if it is unknown.
pub fn shown(figure: Option<f64>) -> String {
    match figure {
        None => "-".to_owned(),
        Some(figure) if figure < 1000.0 => format!("{figure:.3}"),
        Some(figure) => format!("{figure:.0}"),
    }
}

/// Sets how wide lines of tables may be: a program that prints to a pipe divides none, so that each
/// row stays on one line.
pub fn set_width(characters: usize) {
    WIDTH.store(characters, Ordering::Relaxed);
}

/// The characters of a line of a table where nothing else is set.
pub const TABLE_WIDTH: usize = 100;
static WIDTH: AtomicUsize = AtomicUsize::new(TABLE_WIDTH);
/// The sequence after which a terminal writes in red, and the one that ends it.
const RED: &str = "\u{1b}[31m";
const PLAIN: &str = "\u{1b}[0m";
/// The space between columns, in characters.
const GAP: usize = 2;
/// Fewer rows of zeros are shown.
const FOLD_MIN: usize = 4;
/// As many rows that are equal but for their names are shown.
const REPEATS_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: &Table, wanted: &[&str]) {
        let text = table.to_string();
        let words: Vec<&str> = text.lines().filter(|line| !line.starts_with('─')).collect();
        assert_eq!(words, wanted, "{text}");
        assert!(text.lines().all(|line| line.width() <= TABLE_WIDTH), "{text}");
    }

    #[test]
    fn a_wide_table_is_divided_and_each_part_names_the_rows() {
        let mut table = Table::new(["class", "one", "two", "three"]).words(&[2]);
        table.row(["a".to_owned(), "1".repeat(40), "2".repeat(40), "3".repeat(40)]);
        let (ones, twos, threes) = ("1".repeat(40), "2".repeat(40), "3".repeat(40));
        check(
            &table,
            &[
                &format!("class  {:>40}  two", "one"),
                &format!("a      {ones}  {twos}"),
                &format!("class  {:>40}", "three"),
                &format!("a      {threes}"),
            ],
        );
        let whole = table.render_within(usize::MAX, false);
        assert_eq!(whole.lines().count(), 3, "{whole}");
        assert!(whole.contains(&format!("{ones}  {twos}  {threes}")), "{whole}");
    }

    #[test]
    fn every_part_of_a_wide_table_has_all_that_identifies_a_row() {
        let mut table = Table::new(["key", "other", "one", "two"]).identified_by(2);
        table.row(["1".to_owned(), "2 ms".to_owned(), "3".repeat(50), "4".repeat(50)]);
        let (threes, fours) = ("3".repeat(50), "4".repeat(50));
        check(
            &table,
            &[
                &format!("key  other  {:>50}", "one"),
                &format!("1     2 ms  {threes}"),
                &format!("key  other  {:>50}", "two"),
                &format!("1     2 ms  {fours}"),
            ],
        );
    }

    #[test]
    fn rows_of_zeros_are_folded_and_empty_columns_left_out() {
        let mut table = Table::new(["class", "sent", "marked"]).optional(&[2]);
        for (name, sent) in [("a", 3), ("b", 0), ("c", 0), ("d", 0), ("e", 0), ("f", 1), ("g", 0)] {
            table.row([name.to_owned(), sent.to_string(), "0".to_owned()]);
        }
        let wanted =
            ["class  sent", "a         3", "f         1", "g         0", "4 rows of zeros: b to e"];
        check(&table, &wanted);
        let mut table = Table::new(["class", "sent"]);
        (0..20).for_each(|class| table.row([class.to_string(), "7".to_owned()]));
        check(&table, &["class  sent", "0         7", "19 rows as 0: 1 to 19"]);
    }

    #[test]
    fn only_what_is_wrong_is_coloured() {
        let mut table = Table::new(["class", "verdict"]);
        table.row(["a", "kept"]);
        table.row(["b", "broken"]);
        table.mark(1);
        let red = |text: String| text.lines().filter(|line| line.contains("\u{1b}[")).count();
        assert_eq!((red(table.render(false)), red(table.render(true))), (0, 1));
    }

    #[test]
    fn times_are_in_milliseconds() {
        let rows = [(0.0, "0.000"), (99_999.4, "99.999"), (117_910.4, "117.91")];
        rows.into_iter().for_each(|(micros, wanted)| assert_eq!(millis(micros), wanted));
    }
}
