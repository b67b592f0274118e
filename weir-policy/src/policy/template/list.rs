//! Reads the list of a template: rows of cells under the names of their columns.
//!
//! A list is a CSV file with a header, a TOML file with one array of tables, or an array of tables
//! in the policy itself. Invariant: each row has a cell for each column.

use crate::codes;
use crate::csv::{self, COLUMNS_MAX, Fault, Record, Records};
use crate::file::ReadFile;
use crate::finding::{Draft, FINDINGS_MAX, Origin, Report, Source, Span};
use crate::reader::{self, Node};
use std::borrow::Cow;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file that `list` names.
pub(in crate::policy) struct File {
    /// Its name as the policy writes it.
    pub written: String,
    text: String,
    /// Its number in the report.
    number: usize,
}

/// The rows of a list.
#[derive(Debug, Default)]
pub(super) struct List<'l> {
    /// Its number in the report; none if the rows are in the policy.
    pub number: Option<usize>,
    pub columns: Vec<Cow<'l, str>>,
    pub rows: Vec<Row<'l>>,
}

#[derive(Debug)]
pub(super) struct Row<'l> {
    pub span: Span,
    /// One for each column.
    pub cells: Vec<Cell<'l>>,
}

/// One value of a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell<'l> {
    /// The value; several are joined by commas.
    pub text: Cow<'l, str>,
    /// The value in a TOML list, if it is not a text.
    pub value: Option<Box<DeValue<'l>>>,
    pub span: Span,
}

impl File {
    /// Reads the file that `node` names, relative to the policy.
    pub fn read(node: &Node<'_>, read_file: ReadFile<'_>, report: &mut Report) -> Option<Self> {
        let written = node.name(report)?.to_owned();
        let folder = Path::new(report.source().name()).parent().unwrap_or(Path::new(""));
        let path = folder.join(&written);
        let name = path.display().to_string();
        let bytes = match read_file(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let message = format!("cannot read {name}: {error}");
                let cure = "name a file, relative to the policy, or write the rows here: \
                            `list = [{ name = \"anna\" }]`";
                report.push(node.draft(&codes::UNREADABLE, message).cure(cure));
                return None;
            }
        };
        match reader::decode(&bytes, "split the list into several, with a template for each") {
            Ok(text) => {
                let text = text.to_owned();
                let number = report.add_list(Source::new(name, text.as_str()));
                Some(Self { written, text, number })
            }
            Err((text, fault)) => {
                let number = report.add_list(Source::new(name, text));
                let at = Span { start: text.len(), end: text.len() };
                let at = place(Some(number), at, node, report);
                report.push(fault.at(at));
                None
            }
        }
    }

    /// Parses the rows; `node` is the `list` that names the file.
    pub(super) fn rows(&self, node: &Node<'_>, report: &mut Report) -> Option<List<'_>> {
        let mut reading = Reading { list: List::default(), node, report, cells: 0 };
        reading.list.number = Some(self.number);
        let is_toml = Path::new(&self.written).extension().is_some_and(|kind| kind == "toml");
        if is_toml {
            reading.toml(&self.text)
        } else {
            reading.csv(&self.text)
        }
        reading.finish()
    }
}

impl<'l> List<'l> {
    /// Reads the rows that a policy has in `list` itself.
    pub fn inline(node: &Node<'l>, report: &mut Report) -> Option<Self> {
        let mut reading = Reading { list: List::default(), node, report, cells: 0 };
        if let DeValue::Array(rows) = node.value() {
            reading.tables(rows.iter().cloned());
        }
        reading.finish()
    }
}

/// A list while it is read.
struct Reading<'l, 'r> {
    list: List<'l>,
    node: &'r Node<'r>,
    report: &'r mut Report,
    cells: usize,
}

impl<'l> Reading<'l, '_> {
    fn finish(self) -> Option<List<'l>> {
        if self.list.rows.is_empty() && !self.report.failed() {
            let draft = self.node.draft(&codes::BAD_LIST, "has no rows");
            self.report.push(draft.cure("add a row, or remove the template"));
        }
        (!self.list.rows.is_empty()).then_some(self.list)
    }

    fn csv(&mut self, text: &'l str) {
        let mut records = Records::new(text);
        match records.next() {
            None => return,
            Some(Ok(header)) => self.header(header),
            Some(Err(fault)) => return self.fault(fault),
        }
        for record in records {
            match record {
                Ok(record) => self.record(record),
                Err(fault) => self.fault(fault),
            }
            if self.is_full() {
                return;
            }
        }
    }

    fn header(&mut self, record: Record<'l>) {
        for (name, span) in record.cells {
            if !name.is_empty() && self.list.columns.contains(&name) {
                let message = format!("two columns are called `{name}`").into();
                let (code, cure) = (&codes::BAD_LIST, "rename one of them");
                self.fault(Fault { code, span, message, cure });
            }
            if !self.push_column(name, span) {
                return;
            }
        }
    }

    /// Adds a column; returns whether there was room for it.
    fn push_column(&mut self, name: Cow<'l, str>, span: Span) -> bool {
        if self.list.columns.len() == COLUMNS_MAX {
            let message = format!("there are more than {COLUMNS_MAX} columns").into();
            let (code, cure) = (&codes::TOO_MANY, "remove columns that the template does not name");
            self.fault(Fault { code, span, message, cure });
            return false;
        }
        self.list.columns.push(name);
        true
    }

    fn record(&mut self, mut record: Record<'l>) {
        let names = self.list.columns.iter().map(AsRef::as_ref);
        for at in csv::left_out(names, record.cells.len()) {
            record.cells.insert(at, (Cow::Borrowed(""), record.span));
        }
        let (count, columns) = (record.cells.len(), self.list.columns.len());
        if record.cells.iter().all(|(text, _)| text.is_empty()) {
            return;
        }
        let surplus = record.cells.iter().skip(columns).any(|(text, _)| !text.is_empty());
        if count < columns || surplus {
            let message = format!("the row has {count} cells, but the header {columns}").into();
            let cure = "put quotes around a cell with a comma, and leave no cell out";
            return self.fault(Fault { code: &codes::BAD_LIST, span: record.span, message, cure });
        }
        let cell = |(text, span)| Cell { text, value: None, span };
        let cells = record.cells.into_iter().take(columns).map(cell).collect();
        self.push_row(Row { span: record.span, cells });
    }

    fn toml(&mut self, text: &'l str) {
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in errors.iter().take(FINDINGS_MAX) {
            let at = error.span().unwrap_or(0..0).into();
            let at = place(self.list.number, at, self.node, self.report);
            self.report.push(reader::syntax(error, text).at(at));
        }
        if !errors.is_empty() {
            return;
        }
        let mut entries = root.into_inner().into_iter();
        match (entries.next().map(|(_, value)| value.into_inner()), entries.next()) {
            (Some(DeValue::Array(rows)), None) => self.tables(rows.into_iter()),
            (None, _) => {}
            _ => {
                let message = "the list is not one array of tables".into();
                let (code, cure) = (&codes::BAD_LIST, "write each row as `[[row]]`, nothing else");
                self.fault(Fault { code, span: Span::default(), message, cure });
            }
        }
    }

    fn tables(&mut self, rows: impl Iterator<Item = Spanned<DeValue<'l>>>) {
        for row in rows {
            let span = row.span().into();
            if let DeValue::Table(table) = row.into_inner() {
                self.table(table, span);
            } else {
                let (code, message) = (&codes::BAD_LIST, "a row of the list is not a table".into());
                let cure = "write it as `{ column = \"value\" }`";
                self.fault(Fault { code, span, message, cure });
            }
            if self.is_full() {
                break;
            }
        }
        // A key that only later rows have is an empty cell in earlier ones.
        let columns = self.list.columns.len();
        for row in &mut self.list.rows {
            row.cells.resize(columns, Cell { span: row.span, ..Cell::default() });
        }
    }

    /// Adds a row in TOML: its keys are the columns.
    fn table(&mut self, table: DeTable<'l>, span: Span) {
        let mut cells = vec![Cell { span, ..Cell::default() }; self.list.columns.len()];
        for (key, value) in table {
            let key_span = key.span().into();
            let key = key.into_inner();
            let known = self.list.columns.iter().position(|column| *column == key);
            if known.is_none() && !self.push_column(key, key_span) {
                return;
            }
            let Some(cell) = self.cell(value) else { continue };
            match known {
                Some(at) => cells[at] = cell,
                None => cells.push(cell),
            }
        }
        self.push_row(Row { span, cells });
    }

    fn cell(&mut self, value: Spanned<DeValue<'l>>) -> Option<Cell<'l>> {
        let span = value.span().into();
        let mut texts = Vec::new();
        let value = match value.into_inner() {
            DeValue::String(text) => return Some(Cell { text, value: None, span }),
            DeValue::Array(values) => {
                texts.extend(values.iter().filter_map(|value| scalar(value.get_ref())));
                (texts.len() == values.len()).then_some(None)
            }
            value => scalar(&value).map(|text| {
                texts.push(text);
                Some(Box::new(value))
            }),
        };
        let Some(value) = value else {
            let message = "a cell is neither a text, a number nor a list of them".into();
            let (code, cure) = (&codes::WRONG_TYPE, "write it in quotes");
            self.fault(Fault { code, span, message, cure });
            return None;
        };
        Some(Cell { text: Cow::Owned(texts.join(",")), value, span })
    }

    fn push_row(&mut self, row: Row<'l>) {
        self.cells += row.cells.len();
        self.list.rows.push(row);
    }

    /// Returns whether to read no further, after reporting a list that is too long.
    fn is_full(&mut self) -> bool {
        if self.list.rows.len() > ROWS_MAX || self.cells > CELLS_MAX {
            let message = format!("there are more than {ROWS_MAX} rows or {CELLS_MAX} cells");
            let span = self.list.rows.last().map_or(Span::default(), |row| row.span);
            let (code, cure) = (&codes::TOO_MANY, "remove columns that the template does not name");
            self.fault(Fault { code, span, message: message.into(), cure });
            return true;
        }
        self.report.errors() > FINDINGS_MAX
    }

    fn fault(&mut self, fault: Fault) {
        let span = place(self.list.number, fault.span, self.node, self.report);
        self.report.push(Draft::new(fault.code, span, fault.message).cure(fault.cure));
    }
}

/// Returns the text of a scalar.
pub(super) fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Returns the span of a place in a list that `node` names.
fn place(number: Option<usize>, row: Span, node: &Node<'_>, report: &mut Report) -> Span {
    report.derive(Origin { list: number, row, template: node.span(), literal: false })
}

/// Bound: rows of a template's list, as many as a policy may have rules; a longer list is refused.
const ROWS_MAX: usize = 1 << 18;
/// Bound: cells of a template's list, sixteen in each row; a larger list is refused.
const CELLS_MAX: usize = 1 << 22;
