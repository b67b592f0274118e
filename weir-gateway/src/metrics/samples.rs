//! Families of metrics and their samples as text [openmetrics §"Text format"].

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

/// The type of a family's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number of now.
    Gauge,
    /// Quantiles with a count and a sum.
    Summary,
    /// A constant 1, with facts that do not change as labels.
    Info,
    /// Counts of values up to bounds.
    Histogram,
}

/// A metric of many things `T`.
pub(super) struct Family<T: 'static> {
    /// Without the suffix of its samples.
    pub name: &'static str,
    pub kind: Kind,
    /// The unit, with which the name ends; empty for none.
    pub unit: &'static str,
    pub help: &'static str,
    /// Gives the samples of one.
    pub read: fn(&T, &mut Samples<'_>),
}

impl<T> Family<T> {
    /// Returns the name of its samples.
    pub fn sample(&self) -> String {
        format!("{}{}", self.name, self.kind.suffix())
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
            Self::Info => "info",
            Self::Histogram => "histogram",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Summary | Self::Histogram => "",
        }
    }
}

/// Labels as they stand between braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(String);

impl Labels {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns these labels and another one.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut text = String::with_capacity(self.0.len() + name.len() + value.len() + 4);
        text.push_str(&self.0);
        add(&mut text, name, value);
        Self(text)
    }
}

/// Adds a label to those that `text` has.
fn add(text: &mut String, name: &str, value: &str) {
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(name);
    text.push_str("=\"");
    escape(text, value);
    text.push('"');
}

fn escape(text: &mut String, value: &str) {
    for one in value.chars() {
        match one {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            one => text.push(one),
        }
    }
}

/// The samples of a family on their way out.
pub(super) struct Samples<'a> {
    out: &'a mut dyn Write,
    name: String,
    labels: String,
    /// Lines before they are written.
    lines: String,
    written: io::Result<()>,
}

impl<'a> Samples<'a> {
    /// Writes the head of a family, before its samples.
    pub fn begin<T>(out: &'a mut dyn Write, family: &Family<T>) -> io::Result<Self> {
        let Family { name, kind, unit, help, .. } = family;
        writeln!(out, "# TYPE {name} {}", kind.name())?;
        if !unit.is_empty() {
            writeln!(out, "# UNIT {name} {unit}")?;
        }
        writeln!(out, "# HELP {name} {help}")?;
        let name = family.sample();
        let lines = String::with_capacity(2 * PART);
        Ok(Self { out, name, labels: String::new(), lines, written: Ok(()) })
    }

    /// Samples from here on have these labels.
    pub fn of(&mut self, labels: &Labels) {
        self.labels.clone_from(&labels.0);
    }

    /// Writes a sample with the present labels.
    pub fn value(&mut self, value: impl Display) {
        self.suffixed("", &[], value);
    }

    /// Writes a value that has a further label.
    pub fn labelled(&mut self, name: &str, label: &str, value: impl Display) {
        self.suffixed("", &[(name, label)], value);
    }

    /// Writes a value with a suffix and further labels.
    pub fn suffixed(&mut self, suffix: &str, more: &[(&str, &str)], value: impl Display) {
        let Self { name, labels, lines, .. } = self;
        for part in [name, suffix, "{", labels] {
            lines.push_str(part);
        }
        for (name, label) in more {
            add(lines, name, label);
        }
        let _infallible = writeln!(lines, "}} {value}");
        if lines.len() >= PART {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.written.is_ok() {
            self.written = self.out.write_all(self.lines.as_bytes());
        }
        self.lines.clear();
    }

    /// Writes the samples that are left.
    pub fn end(mut self) -> io::Result<()> {
        self.flush();
        self.written
    }
}

/// The bytes of lines that are written at once.
const PART: usize = 16 << 10;
