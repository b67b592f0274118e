//! Reads values of parameters as the descriptor of a scheduler or dropper describes them.

use crate::codes;
use crate::finding::{Draft, Report, Span};
use crate::reader::{Node, Table};
use weir_core::parameter::{Kind, Parameter, Params, Scope, Value};
use weir_core::sched::Descriptor;
use weir_core::units::{Bytes, Dimension, Quantity, Rate};

/// The scheduler and the link, on which the parameters of a table depend.
#[derive(Clone, Copy, Default)]
pub(super) struct Basis {
    /// That of the scheduler, unless its name was already reported.
    pub descriptor: Option<&'static Descriptor>,
    /// The rate of the link, of which percentages are parts.
    pub rate: Option<Rate>,
}

/// The values written in one table, and where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub params: Params,
    pub spans: Vec<(&'static str, Span)>,
}

impl Written {
    /// Reads the `parameters` that belong in one of `scopes`. A rate may be a percentage of `link`.
    pub(super) fn read(
        table: &mut Table<'_>,
        parameters: &[Parameter],
        scopes: &[Scope],
        link: Option<Rate>,
        report: &mut Report,
    ) -> Self {
        let mut written = Self::default();
        for parameter in parameters.iter().filter(|row| scopes.contains(&row.scope)) {
            let Some(node) = table.field(parameter.name) else { continue };
            // A value that cannot be read also counts as written.
            written.spans.push((parameter.name, node.span()));
            if let Some(value) = value(&node, parameter.kind, link, report) {
                written.params.set(parameter.name, value);
            }
        }
        written
    }

    /// Reports the `parameters` without default that are not written.
    pub(super) fn check_required<'p>(
        &self,
        owner: &str,
        span: Span,
        parameters: impl IntoIterator<Item = &'p Parameter>,
        report: &mut Report,
    ) {
        let missing = |row: &&Parameter| row.default.is_none() && self.span(row.name).is_none();
        for row in parameters.into_iter().filter(missing) {
            let message =
                format!("{owner} has no `{}`: {}", row.name, row.summary.trim_end_matches('.'));
            let cure = format!("write `{}`", row.name);
            report.push(Draft::new(&codes::MISSING_KEY, span, message).cure(cure));
        }
    }

    /// Returns where `name` is written.
    pub(crate) fn span(&self, name: &str) -> Option<Span> {
        self.spans.iter().find(|row| row.0 == name).map(|row| row.1)
    }
}

fn value(node: &Node<'_>, kind: Kind, link: Option<Rate>, report: &mut Report) -> Option<Value> {
    Some(match kind {
        Kind::Quantity(Dimension::Rate) => {
            Value::Quantity(Quantity::Rate(node.rate_of(link, report)?))
        }
        Kind::Quantity(dimension) => Value::Quantity(node.quantity(dimension, report)?),
        Kind::Number(min, max) => Value::Quantity(Quantity::Number(node.number(min, max, report)?)),
        Kind::Size(min, max) => Value::Quantity(Quantity::Bytes(size(node, min, max, report)?)),
        Kind::Flag => Value::Flag(node.flag(report)?),
        Kind::Choice(words) => Value::Choice(node.choice(words, report)?),
        Kind::Limit => {
            let dimensions = [Dimension::Packets, Dimension::Bytes];
            Value::Quantity(node.quantity_of(&dimensions, report)?)
        }
    })
}

/// Reads a size from `min` to `max` bytes, both included.
pub(super) fn size(node: &Node<'_>, min: u64, max: u64, report: &mut Report) -> Option<Bytes> {
    let bytes = node.bytes(report)?;
    if (min..=max).contains(&bytes.get()) {
        return Some(bytes);
    }
    let (min, max) = (Bytes::new(min), Bytes::new(max));
    let message = format!("{bytes} is not in {min} to {max}");
    let cure = format!("write a size from {min} to {max}");
    report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure));
    None
}
