//! Templates: a class for each row of a list, such as the subscribers of a provider.
//!
//! ```toml
//! [plan.gold]
//! rate = "20 Mbit/s"
//!
//! [template.subscriber]
//! list = "subscribers.csv"               # relative to the policy
//! name = "{id}"                          # of the class
//! class.parent = "{access point}"        # a column of the list
//! class.rate = "{plan.rate}"             # `rate` of the plan that the column `plan` names
//! class.match = [{ dst = ["{ipv4}", "{ipv6}"] }]
//! ```
//!
//! `[exception.NAME]` has keys of one class that differ from its row's. A template with `circuits =
//! true` in place of `list` and `name` makes no class here: `circuits.rs`.
//!
//! The classes of a template follow those that the policy writes, in the order of the rows, and are
//! read like them. Invariant: every place in such a class is an [`Origin`](crate::finding::Origin),
//! so that a finding points at the row and at the template.

mod circuits;
mod fill;
mod join;
mod list;

use crate::codes;
use crate::file::ReadFile;
use crate::finding::{Draft, FINDINGS_MAX, Report, Span};
use crate::reader::{Node, Owner, Table, unknown_key};
use fill::{Filling, Parsing, Text, Value};
use list::{File, List};
use std::collections::BTreeMap;
use std::net::IpAddr;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use weir_core::classify::Prefix;

pub use circuits::{CIRCUIT_PREFIX, CircuitRow, CircuitTemplate, circuit_class};

/// The templates and plans of a policy.
pub(super) struct Section<'a> {
    plans: Plans<'a>,
    templates: Vec<Template<'a>>,
    /// The tables `[exception.NAME]`: keys that replace those of the class of this name.
    exceptions: Vec<Node<'a>>,
    /// The errors before it was read.
    errors: usize,
}

/// By NAME, the tables `[plan.NAME]`.
#[derive(Default)]
struct Plans<'a>(BTreeMap<&'a str, Plan<'a>>);

struct Plan<'a> {
    span: Span,
    node: Node<'a>,
}

/// A table `[template.NAME]`, parsed.
struct Template<'a> {
    key: &'a str,
    rows: Rows<'a>,
    class: Node<'a>,
}

/// Where the rows of a template come from.
enum Rows<'a> {
    List {
        list: Node<'a>,
        name: Node<'a>,
        /// Whether rows of one name are one class.
        join: bool,
    },
    /// Circuits that come and go while the link runs.
    Circuits,
}

/// The classes that templates made.
pub(super) struct Made<'l>(DeTable<'l>);

impl<'a> Section<'a> {
    pub(super) fn read(top: &mut Table<'a>, report: &mut Report) -> Self {
        let errors = report.errors();
        let plans = Plans::read(top, report);
        let table = top.field("template").and_then(|node| node.table(report));
        let nodes: Vec<_> = table.iter().flat_map(Table::entries).collect();
        if let Some(node) = nodes.get(TEMPLATES_MAX) {
            let message = format!("{} templates are more than {TEMPLATES_MAX}", nodes.len());
            let draft = Draft::new(&codes::TOO_MANY, node.key_span(), message);
            report.push(draft.cure("join lists that have the same columns"));
        }
        let nodes = nodes.iter().take(TEMPLATES_MAX);
        let templates = nodes.filter_map(|node| Template::read(node, report)).collect();
        let table = top.field("exception").and_then(|node| node.table(report));
        let exceptions = table.iter().flat_map(Table::entries).collect();
        Self { plans, templates, exceptions, errors }
    }

    /// Reads the files that the templates name, each once.
    pub(super) fn files(&self, read_file: ReadFile<'_>, report: &mut Report) -> Vec<File> {
        let mut files: Vec<File> = Vec::new();
        let mut failed: Vec<&str> = Vec::new();
        for list in self.templates.iter().filter_map(Template::file) {
            let Some(name) = list.name(report) else { continue };
            if files.iter().any(|file| file.written == name) || failed.contains(&name) {
                continue;
            }
            match File::read(list, read_file, report) {
                Some(file) => files.push(file),
                None => failed.push(name),
            }
        }
        files
    }

    /// Makes the classes. `None` if a row or a template is wrong: findings about half of the
    /// classes would only mislead.
    pub(super) fn expand<'l>(
        &self,
        files: &'l [File],
        written: &[Node<'_>],
        report: &mut Report,
    ) -> Option<Made<'l>>
    where
        'a: 'l,
    {
        let (made, plan_keys) = self.make(files, written, report);
        if report.errors() == self.errors {
            self.plans.check_keys(&plan_keys, report);
        }
        (report.errors() == self.errors).then_some(Made(made))
    }

    /// Makes the classes; returns also the keys of plans that templates name.
    fn make<'l>(
        &self,
        files: &'l [File],
        written: &[Node<'_>],
        report: &mut Report,
    ) -> (DeTable<'l>, Vec<&'a str>)
    where
        'a: 'l,
    {
        let names = written.iter().map(|node| (node.key().to_owned(), node.key_span())).collect();
        let mut making = Making {
            plans: &self.plans,
            made: DeTable::new(),
            names,
            room: TEXT_MAX,
            join: false,
            report,
        };
        let mut plan_keys = Vec::new();
        for template in &self.templates {
            making.expand(template, files, &mut plan_keys);
        }
        if making.report.errors() == self.errors {
            self.exceptions.iter().for_each(|exception| making.except(exception));
        }
        (making.made, plan_keys)
    }
}

impl<'a> Plans<'a> {
    fn read(top: &mut Table<'a>, report: &mut Report) -> Self {
        let table = top.field("plan").and_then(|node| node.table(report));
        let nodes = table.iter().flat_map(Table::entries);
        let tables = nodes.filter(|node| node.table(report).is_some());
        Self(tables.map(|node| (node.key(), Plan { span: node.key_span(), node })).collect())
    }

    fn get(&self, name: &str) -> Option<&Plan<'a>> {
        self.0.get(name)
    }

    /// Returns some of the names, to suggest one.
    fn names(&self) -> Vec<&str> {
        self.0.keys().take(SUGGESTED_MAX).copied().collect()
    }

    /// Reports keys that no template uses.
    fn check_keys(&self, used: &[&str], report: &mut Report) {
        let mut used = used.to_vec();
        used.sort_unstable();
        used.dedup();
        for plan in self.0.values() {
            let Some(table) = plan.node.table(report) else { continue };
            let table = table.named(("plan", plan.node.key()));
            for node in table.entries().filter(|node| used.binary_search(&node.key()).is_err()) {
                report.push_error(|| unknown_key(&node, &used));
            }
        }
    }
}

impl<'a> Plan<'a> {
    fn value(&self, key: &str) -> Option<&'a DeValue<'a>> {
        let DeValue::Table(table) = self.node.value() else { return None };
        table.get(key).map(Spanned::get_ref)
    }
}

impl<'a> Template<'a> {
    fn read(node: &Node<'a>, report: &mut Report) -> Option<Self> {
        let mut table = node.table(report)?.named(("template", node.key()));
        let circuits = table.field("circuits").and_then(|node| node.flag(report));
        let rows = match circuits {
            Some(true) => Some(Rows::Circuits),
            _ => Rows::read(&mut table, report),
        };
        let class = table.required("class", report);
        table.finish(report);
        class.as_ref().and_then(|class| class.table(report))?;
        Some(Self { key: node.key(), rows: rows?, class: class? })
    }

    /// Returns where the file of its list is named.
    fn file(&self) -> Option<&Node<'a>> {
        match &self.rows {
            Rows::List { list, .. } if !list.is_array() => Some(list),
            _ => None,
        }
    }
}

impl<'a> Rows<'a> {
    fn read(table: &mut Table<'a>, report: &mut Report) -> Option<Self> {
        let list = table.required("list", report);
        let name = table.required("name", report);
        let join = table.field("join").and_then(|node| node.flag(report)) == Some(true);
        let name = name.filter(|name| name.name(report).is_some());
        Some(Self::List { list: list?, name: name?, join })
    }
}

impl Made<'_> {
    /// Returns the classes as if the policy had written them.
    pub(super) fn classes(&self) -> Vec<Node<'_>> {
        Table::new(Owner::Words("the policy"), Span::default(), &self.0).entries().collect()
    }
}

/// The classes of a policy while templates make them.
struct Making<'m, 'l> {
    plans: &'m Plans<'l>,
    made: DeTable<'l>,
    /// The names of classes, and where they are written.
    names: BTreeMap<String, Span>,
    /// Bytes that rows may still fill in.
    room: usize,
    /// Whether rows of one name are one class, in the template that is expanded.
    join: bool,
    report: &'m mut Report,
}

/// Addresses of a template's rules: the key, the prefix, and where it is written first.
type Addresses = BTreeMap<(&'static str, IpAddr, u8), (usize, Span)>;

impl<'l> Making<'_, 'l> {
    fn expand<'a: 'l>(
        &mut self,
        template: &Template<'a>,
        files: &'l [File],
        plan_keys: &mut Vec<&'a str>,
    ) {
        let errors = self.report.errors();
        let Rows::List { list: node, name, join } = &template.rows else {
            return circuits::check(&template.class, plan_keys, self.report);
        };
        let list = if node.is_array() {
            List::inline(node, self.report)
        } else {
            let written = node.name(self.report);
            let file = files.iter().find(|file| Some(file.written.as_str()) == written);
            file.and_then(|file| file.rows(node, self.report))
        };
        let Some(list) = list.filter(|_| self.report.errors() == errors) else { return };
        let mut parsing = Parsing { columns: &list.columns, plan_keys, report: self.report };
        let DeValue::String(text) = name.value() else { return };
        let name = parsing.text(text, name.span(), true);
        let class = parsing.value(template.class.value(), template.class.key_span(), "");
        if self.report.errors() == errors {
            self.join = *join;
            self.fill(&list, node.span(), (&name, &class));
        }
    }

    fn fill(&mut self, list: &List<'l>, span: Span, template: (&Text<'_>, &Value<'l>)) {
        let mut addresses = Addresses::new();
        for at in 0..list.rows.len() {
            self.row(list, at, template, &mut addresses);
            if self.report.errors() > FINDINGS_MAX {
                return;
            }
            if self.report.derived() > VALUES_MAX || self.room == 0 {
                let message = format!(
                    "the templates of the policy make more than {VALUES_MAX} values or \
                     {TEXT_MAX} bytes"
                );
                let draft = Draft::new(&codes::TOO_MANY, span, message);
                return self.report.push(draft.cure("shorten the template or its list"));
            }
        }
    }

    fn row(
        &mut self,
        list: &List<'l>,
        at: usize,
        (name, class): (&Text<'_>, &Value<'l>),
        addresses: &mut Addresses,
    ) {
        let row = &list.rows[at];
        let mut filling = Filling {
            list,
            plans: self.plans,
            room: &mut self.room,
            addresses: Vec::new(),
            report: self.report,
        };
        let name = name.fill(row, &mut filling);
        let class = class.fill(row, "", &mut filling);
        let noted = filling.addresses;
        for (key, text, span) in noted {
            self.check_address((key, &text), at, span, addresses);
        }
        if let (Some((name, span)), Some(class)) = (name, class) {
            self.add(name, span, class);
        }
    }

    /// Adds a class, or its rules if rows of one name are one class.
    fn add(&mut self, name: String, span: Span, class: Spanned<DeValue<'l>>) {
        let Some(&other) = self.names.get(&name) else {
            self.names.insert(name.clone(), span);
            let key = Spanned::new(span.start..span.end, DeString::from(name));
            self.made.insert(key, class);
            return;
        };
        let made = self.made.get_mut(name.as_str()).map(Spanned::get_mut);
        let (message, cure) = match (made, class.into_inner()) {
            (Some(DeValue::Table(made)), DeValue::Table(class)) if self.join => {
                let Err(key) = join::join(made, class) else { return };
                let message =
                    format!("two rows of class `{name}` have different values of `{key}`");
                (message, "write the same in both rows, or give them different names")
            }
            _ => {
                let message = format!("there are two classes `{name}`");
                (message, "give each row a name of its own, or write `join = true` in the template")
            }
        };
        let draft = Draft::new(&codes::SAME_NAME, span, message).related(other, "the other");
        self.report.push(draft.cure(cure));
    }

    /// Replaces keys of one class by those of an exception.
    fn except(&mut self, exception: &Node<'l>) {
        let Some(keys) = exception.table(self.report) else { return };
        let name = exception.key();
        let Some(DeValue::Table(class)) = self.made.get_mut(name).map(Spanned::get_mut) else {
            let message = format!("no template makes a class `{name}`");
            let draft = Draft::new(&codes::NO_SUCH_ROW, exception.key_span(), message);
            let cure =
                "name a class of a row, or write the keys of other classes at `[class.NAME]`";
            return self.report.push(draft.cure(cure));
        };
        for node in keys.entries() {
            let (at, span) = (node.key_span(), node.span());
            class.remove(node.key());
            let key = Spanned::new(at.start..at.end, DeString::from(node.key()));
            class.insert(key, Spanned::new(span.start..span.end, node.value().clone()));
        }
    }

    /// Reports an address that an earlier row of the template has. Texts that are no address are
    /// the reader's to report.
    fn check_address(
        &mut self,
        (key, text): (&'static str, &str),
        row: usize,
        span: Span,
        addresses: &mut Addresses,
    ) {
        let Ok(prefix) = Prefix::parse(text) else { return };
        let first = addresses.entry((key, prefix.network(), prefix.prefix_len()));
        let (other, first) = *first.or_insert((row, span));
        if other != row {
            let message =
                format!("two rows have the address {text}, and one class gets its packets");
            let draft = Draft::new(&codes::SAME_ADDRESS, span, message);
            let draft = draft.related(first, "the other row");
            self.report.push(draft.cure("correct the address in one of the rows"));
        }
    }
}

/// Bound: templates of a policy; one with more is refused. This bounds the number of files to read.
const TEMPLATES_MAX: usize = 64;
/// Bound: keys and values that all rows of templates make; a policy with more is refused. Sixteen
/// for each row of the longest list.
const VALUES_MAX: usize = 1 << 22;
/// Bound: bytes that placeholders stand for, in all rows together; a policy with more is refused.
const TEXT_MAX: usize = 64 << 20;
/// Names compared to suggest one for an unknown name.
const SUGGESTED_MAX: usize = 64;
