//! Claims as a table: `[[claims]]` gives what its rows share, `columns` names what differs, and
//! each of `rows` is a claim. `docs/lab-format.md` describes it.
//!
//! Texts of the table have columns in braces. A column that none of them has is a key of the claim.
//! A row may end with keys of its own.

use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};

/// Why a table cannot be read, and the byte of the sheet where that is seen.
#[derive(Debug)]
pub(super) struct Fault {
    /// The offset in the sheet, in bytes.
    pub at: usize,
    /// The cause and the cure.
    pub message: String,
}

/// A table of claims.
struct Claims {
    columns: Vec<String>,
    rows: Vec<Spanned<Vec<Value>>>,
    /// The values that all rows share, by key.
    common: Table,
    at: usize,
}

/// Removes the tables of claims from a sheet and returns the keys of each row's claim, in order,
/// with the byte at which the row begins.
///
/// # Errors
/// When a table cannot be read.
pub(super) fn take_rows(sheet: &mut DeTable<'_>) -> Result<Vec<(usize, Table)>, Fault> {
    let Some(tables) = sheet.remove("claims") else { return Ok(Vec::new()) };
    let at = tables.span().start;
    let DeValue::Array(tables) = tables.into_inner() else {
        return Err(fault(at, "`claims` is no table of claims; write `[[claims]]`"));
    };
    let mut placed = Vec::new();
    for table in tables {
        let table = Claims::read(table)?;
        for row in &table.rows {
            let at = row.span().start;
            let claim = table.claim(row.get_ref()).map_err(|message| Fault { at, message })?;
            placed.push((at, claim));
        }
    }
    Ok(placed)
}

impl Claims {
    fn read(table: Spanned<DeValue<'_>>) -> Result<Self, Fault> {
        let at = table.span().start;
        let DeValue::Table(mut table) = table.into_inner() else {
            return Err(fault(at, "`claims` is no table of claims; write `[[claims]]`"));
        };
        let columns = take(&mut table, "columns", at, "a list of texts")?;
        let rows = take(&mut table, "rows", at, "a list of lists, a claim each")?;
        let table = ValueDeserializer::from(Spanned::new(at..at, DeValue::Table(table)));
        let common = Table::deserialize(table).map_err(|error| fault(at, error.message()))?;
        let table = Self { columns, rows, common, at };
        table.check()?;
        Ok(table)
    }

    /// Returns an error if no row could be a claim.
    fn check(&self) -> Result<(), Fault> {
        if self.rows.is_empty() {
            return Err(fault(self.at, "`rows` is empty; write a row or remove the table"));
        }
        for (place, column) in self.columns.iter().enumerate() {
            let message = if self.columns[..place].contains(column) {
                format!("`columns` names `{column}` twice; remove one")
            } else if self.is_key(column) && self.common.contains_key(column) {
                format!(
                    "`{column}` is a key of the table, too; remove it there, or write \
                     `{{{column}}}` in a text of the table"
                )
            } else {
                continue;
            };
            return Err(fault(self.at, &message));
        }
        Ok(())
    }

    /// Returns whether a column is a key of each claim: no text of the table has it in braces.
    fn is_key(&self, column: &str) -> bool {
        let part = format!("{{{column}}}");
        !self.common.values().any(|value| mentions(value, &part))
    }

    /// Returns the keys of the claim that a row stands for.
    fn claim(&self, row: &[Value]) -> Result<Table, String> {
        let (cells, mut claim) = match row.split_last() {
            Some((Value::Table(own), cells)) => (cells, own.clone()),
            _ => (row, Table::new()),
        };
        if cells.len() != self.columns.len() {
            return Err(format!(
                "the row has {} cells, but `columns` names {}: {}; write a cell for each",
                cells.len(),
                self.columns.len(),
                self.columns.join(", ")
            ));
        }
        for (column, cell) in self.columns.iter().zip(cells) {
            if self.is_key(column) {
                let twice = claim.insert(column.clone(), cell.clone());
                if twice.is_some() {
                    return Err(format!(
                        "`{column}` is a column and a key of the row; remove one of them"
                    ));
                }
            }
        }
        for (key, value) in &self.common {
            if !claim.contains_key(key) {
                let value = self.fill(value, cells).map_err(|error| format!("`{key}` {error}"))?;
                claim.insert(key.clone(), value);
            }
        }
        Ok(claim)
    }

    /// Returns a value of the table with cells in place of columns in braces.
    fn fill(&self, value: &Value, cells: &[Value]) -> Result<Value, String> {
        match value {
            Value::String(text) => self.fill_text(text, cells),
            Value::Array(values) => {
                let values = values.iter().map(|value| self.fill(value, cells));
                values.collect::<Result<_, _>>().map(Value::Array)
            }
            other => Ok(other.clone()),
        }
    }

    fn fill_text(&self, text: &str, cells: &[Value]) -> Result<Value, String> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or_else(|| {
                format!(
                    "has a `{{` without `}}` in `{text}`; write the name of a column, then `}}`"
                )
            })?;
            let place = self.columns.iter().position(|column| column == name);
            let cell = &cells[place.ok_or_else(|| {
                let known = self.columns.join(", ");
                format!("has `{{{name}}}`, but no column has this name; write one of {known}")
            })?];
            if text.len() == name.len() + 2 {
                return Ok(cell.clone());
            }
            filled += before;
            match cell {
                Value::String(cell) => filled += cell,
                Value::Array(_) | Value::Table(_) => {
                    return Err(format!(
                        "has `{{{name}}}` inside a text, but the cell is {cell}; write a text or \
                         a number there"
                    ));
                }
                other => filled += &other.to_string(),
            }
            rest = after;
        }
        Ok(Value::String(filled + rest))
    }
}

/// Removes a key of a table that it must have.
fn take<'de, T: Deserialize<'de>>(
    table: &mut DeTable<'de>,
    key: &str,
    at: usize,
    kind: &str,
) -> Result<T, Fault> {
    let value = table
        .remove(key)
        .ok_or_else(|| fault(at, &format!("the table has no `{key}`; write {kind}")))?;
    let at = value.span().start;
    T::deserialize(ValueDeserializer::from(value)).map_err(|error| {
        let at = error.span().map_or(at, |span| span.start);
        fault(at, &format!("`{key}` is not {kind}: {}", error.message()))
    })
}

/// Returns whether a text in this value has `part`.
fn mentions(value: &Value, part: &str) -> bool {
    match value {
        Value::String(text) => text.contains(part),
        Value::Array(values) => values.iter().any(|value| mentions(value, part)),
        _ => false,
    }
}

fn fault(at: usize, message: &str) -> Fault {
    Fault { at, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::sheet::Sheet;

    const HEAD: &str =
        "title = \"a\"\nsection = \"a\"\nquestion = \"a\"\nmeasure = \"a\"\n[[claims]]\n";
    const COMMON: &str = "kind = \"goal\"\nera = \"both\"\nfrom = \"a\"\n";

    fn read(text: &str) -> Result<Sheet, String> {
        Sheet::parse(&format!("{HEAD}{COMMON}{text}"), "p", "i")
    }

    /// Compares a table with the claims of `single`, or its error with `single`.
    fn check(table: &str, single: &[&str]) {
        let claims: String =
            single.iter().map(|claim| format!("\n[[claim]]\n{COMMON}{claim}")).collect();
        let expected = Sheet::parse(&HEAD.replace("[[claims]]\n", &claims), "p", "i");
        match (read(table), expected) {
            (Ok(sheet), Ok(expected)) => {
                assert_eq!(format!("{sheet:?}"), format!("{expected:?}"), "{table}");
            }
            (table, single) => panic!("{table:?}\n{single:?}"),
        }
    }

    /// Tests that the error of a table is `expected`, behind the name of the file.
    fn refuse(table: &str, expected: &str) {
        let error = read(table).map(|_| "it reads".to_owned()).unwrap_or_else(|error| error);
        assert_eq!(error, format!("papers/p/i/claims.toml: {expected}"), "{table}");
    }

    #[test]
    fn a_row_is_the_claim_that_it_stands_for() {
        check(
            "id = \"{class}-{size}\"\nsays = \"{class} sends {size} B.\"\n\
             figure = \"{class}-{size}.rate\"\nwithin = \"3 %\"\n\
             columns = [\"class\", \"size\", \"value\"]\n\
             rows = [[\"big\", 64, 971], [\"small\", 128, 1.5]]",
            &[
                "id = \"big-64\"\nsays = \"big sends 64 B.\"\nfigure = \"big-64.rate\"\n\
                 value = 971\nwithin = \"3 %\"",
                "id = \"small-128\"\nsays = \"small sends 128 B.\"\n\
                 figure = \"small-128.rate\"\nvalue = 1.5\nwithin = \"3 %\"",
            ],
        );
    }

    #[test]
    fn a_placeholder_alone_takes_the_cell_over() {
        check(
            "id = \"{id}\"\nsays = \"{id}\"\nfigure = \"{id}\"\nat_least = \"{least}\"\n\
             columns = [\"id\", \"least\"]\nrows = [[\"a\", 1], [\"b\", \"c\"]]",
            &[
                "id = \"a\"\nsays = \"a\"\nfigure = \"a\"\nat_least = 1",
                "id = \"b\"\nsays = \"b\"\nfigure = \"b\"\nat_least = \"c\"",
            ],
        );
    }

    #[test]
    fn keys_of_a_row_are_added_and_go_before_those_of_the_table() {
        check(
            "says = \"{id}\"\nfigure = \"a\"\nat_least = 1\nid = \"{id}\"\ncolumns = [\"id\"]\n\
             rows = [[\"a\", { at_least = 2, at_most = 3 }], [\"b\", { says = \"{\" }]]",
            &[
                "id = \"a\"\nsays = \"a\"\nfigure = \"a\"\nat_least = 2\nat_most = 3",
                "id = \"b\"\nsays = \"{\"\nfigure = \"a\"\nat_least = 1",
            ],
        );
    }

    #[test]
    fn texts_in_lists_have_placeholders_too() {
        let table = "id = \"{id}\"\nsays = \"a\"\nfigure = \"a\"\nat_least = 1\n\
                     cause_unknown = \"a\"\nfacts = [\"T{id}\"]\n\
                     columns = [\"id\"]\nrows = [[\"5\"]]";
        let head = HEAD.to_owned() + &COMMON.replace("goal", "number");
        let sheet = Sheet::parse(&format!("{head}{table}"), "p", "i");
        let facts = sheet.map(|sheet| sheet.claims[0].facts.clone());
        assert_eq!(facts, Ok(vec!["T5".to_owned()]));
    }

    #[test]
    fn claims_and_tables_keep_the_order_of_the_file() {
        let row = |id: &str| {
            format!(
                "says = \"a\"\nfigure = \"a\"\nat_least = 1\ncolumns = [\"id\"]\n\
                 rows = [[\"{id}1\"], [\"{id}2\"]]\n"
            )
        };
        let claim = "id = \"b\"\nsays = \"a\"\nfigure = \"a\"\nat_least = 1\n";
        let text =
            format!("{}[[claim]]\n{COMMON}{claim}[[claims]]\n{COMMON}{}", row("c"), row("a"));
        let ids = read(&text).map(|sheet| {
            sheet.claims.into_iter().map(|claim| claim.id).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(ids, Ok("c1 c2 b a1 a2".to_owned()));
    }

    #[test]
    fn a_table_that_cannot_be_read_is_refused_with_its_line_and_the_cure() {
        let common = "says = \"a\"\nfigure = \"a\"\nat_least = 1\n";
        let rows = [
            ("rows = [[1]]", "line 5: the table has no `columns`; write a list of texts"),
            (
                "columns = [\"id\"]",
                "line 5: the table has no `rows`; write a list of lists, a claim each",
            ),
            (
                "columns = \"id\"\nrows = []",
                "line 12: `columns` is not a list of texts: invalid type: string \"id\", expected \
                 a sequence",
            ),
            (
                "columns = [\"id\"]\nrows = []",
                "line 5: `rows` is empty; write a row or remove the table",
            ),
            (
                "columns = [\"id\", \"id\"]\nrows = [[\"a\", \"a\"]]",
                "line 5: `columns` names `id` twice; remove one",
            ),
            (
                "columns = [\"id\", \"says\"]\nrows = [[\"a\", \"a\"]]",
                "line 5: `says` is a key of the table, too; remove it there, or write `{says}` in a \
                 text of the table",
            ),
            (
                "columns = [\"id\", \"times\"]\nrows = [[\"a\", 1], \n[\"b\"]]",
                "line 14: the row has 1 cells, but `columns` names 2: id, times; write a cell for each",
            ),
            (
                "section = \"{sise}\"\ncolumns = [\"id\", \"size\"]\nrows = [[\"a\", 1]]",
                "line 14: `section` has `{sise}`, but no column has this name; write one of id, size",
            ),
            (
                "section = \"{id\"\ncolumns = [\"id\"]\nrows = [[\"a\"]]",
                "line 14: `section` has a `{` without `}` in `{id`; write the name of a column, then \
                 `}`",
            ),
            (
                "section = \"a {x}\"\ncolumns = [\"id\", \"x\"]\nrows = [[\"a\", [1]]]",
                "line 14: `section` has `{x}` inside a text, but the cell is [1]; write a text or a \
                 number there",
            ),
            (
                "columns = [\"id\", \"times\"]\nrows = [[\"a\", \"b\"]]",
                "line 13: invalid type: string \"b\", expected f64",
            ),
            (
                "columns = [\"times\"]\nrows = [[1, { id = \"a\" }],\n[1]]",
                "line 14: missing field `id`",
            ),
            (
                "columns = [\"id\"]\nrows = [[\"a\", { id = \"b\" }]]",
                "line 13: `id` is a column and a key of the row; remove one of them",
            ),
            (
                "columns = [\"id\"]\nrows = [[\"a\"],\n[\"a\"]]",
                "lines 13 and 14: two claims are called `a`; rename one",
            ),
            (
                "within = 1\ncolumns = [\"id\"]\nrows = [[\"a\"]]",
                "line 14: claim `a`: `within` needs `value` or `values`",
            ),
        ];
        for (table, expected) in rows {
            refuse(&format!("{common}{table}"), expected);
        }
        let unknown = "columns = [\"id\", \"size\"]\nrows = [[\"a\", 1]]";
        let error = read(&format!("{common}{unknown}")).map(|_| ()).expect_err("no key is `size`");
        assert!(error.contains("line 13: unknown field `size`, expected one of `id`"), "{error}");
    }
}
