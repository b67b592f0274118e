//! Templates of circuits: their rows come and go while the link runs, by `[deployment.circuits]`.
//!
//! ```toml
//! [template.circuit]
//! circuits = true                        # in place of `list` and `name`
//! class.parent = "{site}"                # a class with `places`
//! class.rate = "{plan.rate}"
//! class.match = [{ dst = ["{addresses}"] }]
//! ```
//!
//! Each circuit has the columns of [`COLUMNS`], and its class the name of [`circuit_class`]. A
//! [`CircuitTemplate`] is the template and the plans as a text of their own, so that a row is
//! filled in by the code for lists, without the rest of the policy.

use super::fill::{Parsing, as_name};
use super::list::scalar;
use super::{Rows, Section};
use crate::codes::Severity;
use crate::finding::Report;
use crate::policy::written::text_of_class;
use crate::reader::{Document, Node};
use std::borrow::Cow;
use toml::de::DeValue;
use toml_edit::{InlineTable, Item, Table, Value};

/// A template whose rows are circuits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CircuitTemplate {
    /// Its name in the policy.
    pub name: String,
    /// The names of the plans that a circuit may have.
    pub plans: Vec<String>,
    /// The plans and the template, which lacks its list.
    text: String,
}

/// The row of a circuit.
#[derive(Clone, Copy, Debug, Default)]
pub struct CircuitRow<'r> {
    /// Identifies the circuit.
    pub id: &'r str,
    /// Its addresses and networks.
    pub addresses: &'r [String],
    /// The plan that it has, or nothing.
    pub plan: &'r str,
    /// Where in the tree it is, or nothing.
    pub site: &'r str,
}

/// The names of classes of circuits begin with this.
pub const CIRCUIT_PREFIX: &str = "circuit-";

/// Returns the name of a circuit's class.
pub fn circuit_class(id: &str) -> String {
    format!("{CIRCUIT_PREFIX}{}", as_name(id))
}

impl CircuitTemplate {
    /// Returns the columns that it names.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> {
        let is_named = |column: &&str| {
            let ends = ["}", "."].map(|end| format!("{{{column}{end}"));
            ends.iter().any(|placeholder| self.text.contains(placeholder))
        };
        COLUMNS.into_iter().filter(is_named)
    }

    /// Returns the table of the class of a circuit, in TOML, which carries `note` along.
    ///
    /// # Errors
    /// When the row lacks what the template needs, or names a plan that is not declared; the text
    /// says what to do.
    pub fn fill(&self, row: &CircuitRow<'_>, note: &str) -> Result<String, String> {
        self.fill_all(&[(*row, note)])
    }

    /// Returns the tables of the classes of circuits, each with its note. The template is read
    /// once for all of them, and takes longer to read than a row.
    ///
    /// # Errors
    /// As [`CircuitTemplate::fill`], of the first row that is wrong.
    pub fn fill_all(&self, rows: &[(CircuitRow<'_>, &str)]) -> Result<String, String> {
        let tables = rows.iter().map(|(row, _)| Value::InlineTable(row.table()));
        let list: toml_edit::Array = tables.collect();
        let text = format!("{}list = {list}\n", self.text);
        let outcome = Document::new(&self.name, text.as_bytes()).read(|top, report| {
            let section = Section::read(top, report);
            let (mut made, _) = section.make(&[], &[], report);
            let mut table = |(row, note): &(CircuitRow<'_>, &str)| {
                let name = circuit_class(row.id);
                let Value::InlineTable(class) = edit(made.remove(name.as_str())?.get_ref()) else {
                    return None;
                };
                let mut class = class.into_table();
                if !note.is_empty() {
                    class.insert("note", toml_edit::value(*note));
                }
                Some(text_of_class(&name, class))
            };
            rows.iter().map(&mut table).collect::<Option<String>>()
        });
        let error = outcome.findings.iter().find(|one| one.severity == Severity::Error);
        match (outcome.plan, error) {
            (Some(text), None) => Ok(text),
            (_, Some(error)) => Err(format!("{}; {}", error.message, error.cure)),
            (None, None) => Err("the template makes no class of it".to_owned()),
        }
    }
}

impl CircuitRow<'_> {
    fn table(&self) -> InlineTable {
        let mut table = InlineTable::new();
        let texts = [("id", self.id), ("plan", self.plan), ("site", self.site)];
        for (column, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            table.insert(column, text.into());
        }
        let addresses = self.addresses.iter().map(String::as_str);
        table.insert("addresses", Value::Array(addresses.collect()));
        // A column that no cell has would be unknown.
        for column in
            COLUMNS.iter().filter(|column| !table.contains_key(column)).copied().collect::<Vec<_>>()
        {
            table.insert(column, "".into());
        }
        table
    }
}

impl<'a> Section<'a> {
    /// Returns the templates whose rows are circuits.
    pub(in crate::policy) fn circuits(&self) -> Vec<CircuitTemplate> {
        let own = |template: &&super::Template<'a>| matches!(template.rows, Rows::Circuits);
        let plans: InlineTable =
            self.plans.0.iter().map(|(name, plan)| (*name, edit(plan.node.value()))).collect();
        let one = |template: &super::Template<'a>| {
            let mut body = Table::new();
            body.insert("name", toml_edit::value(format!("{CIRCUIT_PREFIX}{{id}}")));
            body.insert("class", Item::Value(edit(template.class.value())));
            let plans = Value::InlineTable(plans.clone());
            CircuitTemplate {
                name: template.key.to_owned(),
                plans: self.plans.0.keys().map(|name| (*name).to_owned()).collect(),
                text: format!("plan = {plans}\n[template.circuit]\n{body}"),
            }
        };
        self.templates.iter().filter(own).map(one).collect()
    }
}

/// Reports placeholders of a template of circuits that name no column; collects the keys of plans.
pub(super) fn check<'a>(class: &Node<'a>, plan_keys: &mut Vec<&'a str>, report: &mut Report) {
    let columns = COLUMNS.map(Cow::Borrowed);
    let mut parsing = Parsing { columns: &columns, plan_keys, report };
    parsing.value(class.value(), class.key_span(), "");
}

/// Returns a value as it is written.
fn edit(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::Array(values) => {
            Value::Array(values.iter().map(|one| edit(one.get_ref())).collect())
        }
        DeValue::Table(table) => {
            let entry = |(key, one): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let key: &toml::de::DeString<'_> = key.get_ref();
                (key.to_string(), edit(one.get_ref()))
            };
            Value::InlineTable(table.iter().map(entry).collect())
        }
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::String(text) => Value::from(text.as_ref()),
        number => {
            let text = scalar(number).unwrap_or_default();
            text.parse().unwrap_or_else(|_| Value::from(text))
        }
    }
}

/// The columns of a circuit.
const COLUMNS: [&str; 4] = ["id", "addresses", "plan", "site"];
