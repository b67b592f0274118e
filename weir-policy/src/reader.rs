//! Typed reading of spanned TOML: tables, keys and values that know their places.
//!
//! A reading function takes the [`Report`] and returns `None` for a value that it cannot read,
//! after pushing the finding that says why. So callers read on past an error and a user sees all
//! errors at once; [`Report::failed`] says whether there was one. A [`Table`] records which keys
//! were requested; [`Table::finish`] refuses all others and lists those.
//!
//! ```
//! use weir_policy::reader;
//! let text = "[link]\nrate = \"10 Mbit/s\"\nbuffre = 3\n";
//! let outcome = reader::read("x.toml", text.as_bytes(), |top, report| {
//!     let mut link = top.required("link", report)?.table(report)?;
//!     let rate = link.required("rate", report).and_then(|node| node.rate(report));
//!     link.field("buffer");
//!     link.finish(report);
//!     rate
//! });
//! assert_eq!(outcome.findings[0].code, "W010");
//! assert_eq!(outcome.findings[0].place.line, 3);
//! assert!(outcome.findings[0].cure.contains("buffer"));
//! ```

use crate::codes;
use crate::file::FILE_BYTES_MAX;
use crate::finding::{Code, Draft, Fix, Outcome, Report, Source, Span};
use crate::keys::{self, Key, Keys};
use crate::synonyms;
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::rc::Rc;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};
use weir_core::units::{Bytes, Dimension, Duration, Quantity, Rate, Share, UnitError};

/// A TOML table, and which of its keys were requested.
#[derive(Debug)]
pub struct Table<'a> {
    name: Owner<'a>,
    span: Span,
    map: &'a DeTable<'a>,
    asked: Vec<&'static str>,
    /// Keys that were reported in place of the missing ones that they are near to.
    misspelt: Vec<&'a str>,
    /// The rows of its keys; none where the registries of `weir-core` have them.
    keys: [Keys; 2],
}

/// The name of a table in messages. Of a hundred thousand tables hardly one is ever named, so the
/// words are formatted only then.
#[derive(Clone, Debug)]
pub enum Owner<'a> {
    /// Words of this program.
    Words(&'static str),
    /// These words, and the name that the file gives in quotes; without words, the name alone.
    Named(&'static str, &'a str),
    /// A text that had to be formatted.
    Text(Rc<str>),
}

/// A value, and its place.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    key: &'a str,
    key_span: Span,
    owner: Owner<'a>,
    span: Span,
    value: &'a DeValue<'a>,
}

/// A file parsed as TOML, before its kind is known.
#[derive(Debug)]
pub struct Document<'a> {
    name: String,
    text: &'a str,
    root: DeTable<'a>,
    faults: Vec<Draft>,
}

/// Reads a whole file with `build`, which gets the top-level table. Top-level keys that `build` did
/// not request are reported.
pub fn read<T>(
    name: &str,
    bytes: &[u8],
    build: impl FnOnce(&mut Table<'_>, &mut Report) -> Option<T>,
) -> Outcome<T> {
    Document::new(name, bytes).read(build)
}

/// Returns the names of the top-level tables of `bytes`, to tell kinds of file apart; none if
/// unreadable.
pub fn top_level(bytes: &[u8]) -> Vec<String> {
    Document::new("", bytes).top_level()
}

impl<'a> Document<'a> {
    /// Parses `bytes` of the file `name`; [`Document::read`] reports errors.
    pub fn new(name: &str, bytes: &'a [u8]) -> Self {
        let name = name.to_owned();
        match decode(bytes, TOO_LARGE_CURE) {
            Ok(text) => {
                let (root, errors) = DeTable::parse_recoverable(text);
                let faults = errors.iter().map(|error| syntax(error, text)).collect();
                Self { name, text, root: root.into_inner(), faults }
            }
            Err((text, fault)) => Self { name, text, root: DeTable::new(), faults: vec![*fault] },
        }
    }

    /// Returns the names of the top-level tables, to tell kinds of file apart.
    pub fn top_level(&self) -> Vec<String> {
        self.root.keys().map(|key| key.get_ref().to_string()).collect()
    }

    /// Builds a value from the whole file, as [`read()`] does.
    pub fn read<T>(
        &self,
        build: impl FnOnce(&mut Table<'_>, &mut Report) -> Option<T>,
    ) -> Outcome<T> {
        let mut report = Report::new(Source::new(self.name.as_str(), self.text));
        for fault in &self.faults {
            report.push(fault.clone());
        }
        if report.failed() {
            // Findings from half a file would only mislead.
            return report.finish(None);
        }
        let mut top = Table::new(Owner::Words("the file"), Span::default(), &self.root);
        let plan = build(&mut top, &mut report);
        top.finish(&mut report);
        report.finish(plan)
    }
}

/// The cure for a file that is too large.
const TOO_LARGE_CURE: &str = "name a policy, deployment or scenario, or split it up";

/// Returns the bytes as text; `too_large` is the cure for a file that is too large.
///
/// # Errors
/// When there are too many bytes or they are not UTF-8: the valid text, and the finding.
pub fn decode<'a>(
    bytes: &'a [u8],
    too_large: &'static str,
) -> Result<&'a str, (&'a str, Box<Draft>)> {
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("the file has more than {FILE_BYTES_MAX} bytes");
        let draft = Draft::new(&codes::TOO_LARGE, Span::default(), message);
        return Err(("", Box::new(draft.cure(too_large))));
    }
    str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let valid = str::from_utf8(&bytes[..at]).expect("it is valid up to there");
        let message = format!("byte {at}, {:#04x}, is not UTF-8", bytes[at]);
        let draft = Draft::new(&codes::NOT_UTF8, (at..at).into(), message);
        (valid, Box::new(draft.cure("save the file as UTF-8")))
    })
}

/// Makes the finding of a syntax error.
pub(crate) fn syntax(error: &toml::de::Error, text: &str) -> Draft {
    let span = error.span().unwrap_or(0..0);
    let message = error.message();
    let rest = text.get(span.start..).unwrap_or_default().lines().next().unwrap_or_default();
    let value = rest.split(['#', ',', ']', '}']).next().unwrap_or_default().trim();
    let truth = truth_of(value);
    let unquoted = message.starts_with("string values must be quoted");
    let (message, cure) = match truth {
        Some(flag) if unquoted || message.starts_with("invalid boolean") => {
            (format!("`{value}` is no value of TOML"), format!("write `{flag}`"))
        }
        _ if unquoted && !value.is_empty() && !value.contains('"') => {
            (format!("the text `{value}` has no quotes"), format!("write `\"{value}\"`"))
        }
        _ if message.starts_with("duplicate key") => {
            (message.to_owned(), "keep one of the two".to_owned())
        }
        _ => (message.to_owned(), "correct the TOML".to_owned()),
    };
    Draft::new(&codes::NOT_TOML, span.into(), message).cure(cure)
}

/// Returns what a word means that other languages write for true or false.
fn truth_of(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" | "y" => Some(true),
        "no" | "false" | "off" | "n" => Some(false),
        _ => None,
    }
}

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Words(words) => f.write_str(words),
            Owner::Named("", name) => write!(f, "`{name}`"),
            Owner::Named(words, name) => write!(f, "{words} `{name}`"),
            Owner::Text(text) => f.write_str(text),
        }
    }
}

impl From<&'static str> for Owner<'_> {
    fn from(words: &'static str) -> Self {
        Owner::Words(words)
    }
}

impl<'a> From<(&'static str, &'a str)> for Owner<'a> {
    fn from((words, name): (&'static str, &'a str)) -> Self {
        Owner::Named(words, name)
    }
}

impl From<String> for Owner<'_> {
    fn from(text: String) -> Self {
        Owner::Text(text.into())
    }
}

impl<'a> Table<'a> {
    /// A table that no file has as it is, for templates.
    pub(crate) fn new(name: Owner<'a>, span: Span, map: &'a DeTable<'a>) -> Self {
        let asked = Vec::with_capacity(KEYS_USUAL);
        Self { name, span, map, asked, misspelt: Vec::new(), keys: [&[]; 2] }
    }

    /// Returns its name in messages, such as "class `voice`".
    pub fn name(&self) -> &Owner<'a> {
        &self.name
    }

    /// Gives the table another name.
    pub fn named(mut self, name: impl Into<Owner<'a>>) -> Self {
        self.name = name.into();
        self
    }

    /// Gives the table the rows of its keys.
    pub fn with_keys(mut self, keys: Keys) -> Self {
        self.keys[0] = keys;
        self
    }

    /// Adds the rows of keys that another key decides about.
    pub fn add_keys(&mut self, keys: Keys) {
        self.keys[1] = keys;
    }

    /// Returns the row of a key.
    ///
    /// # Panics
    /// If it has none.
    pub fn row(&self, key: &str) -> &'static Key {
        let row = self.keys.iter().rev().find_map(|keys| keys::find(keys, key));
        row.unwrap_or_else(|| panic!("{} has no row for `{key}`", self.name))
    }

    /// Returns its place: its key, or its braces if it has no key.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Returns the value of `key`, if it is written. From now on `key` is known here.
    ///
    /// # Panics
    /// If the table has rows, and none for `key`: `weir schema` would not list it.
    pub fn field(&mut self, key: &'static str) -> Option<Node<'a>> {
        if self.keys.iter().any(|keys| !keys.is_empty()) {
            self.row(key);
        }
        self.foreign(key)
    }

    /// As [`Table::field`], for a key that has no row since it belongs elsewhere: who asks says
    /// where.
    pub fn foreign(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.asked.push(key);
        let (key, value) = self.find(key)?;
        Some(self.node(key, value))
    }

    /// In a short table comparing each key costs less than a hash.
    fn find(&self, key: &str) -> Option<(&'a Spanned<Cow<'a, str>>, &'a Spanned<DeValue<'a>>)> {
        if self.map.len() > KEYS_USUAL {
            return self.map.get_key_value(key);
        }
        self.map.iter().find(|(found, _)| found.get_ref() == key)
    }

    /// Returns the value of `key`; reports it if it is missing.
    pub fn required(&mut self, key: &'static str, report: &mut Report) -> Option<Node<'a>> {
        let node = self.field(key);
        if node.is_none() && !self.reports_misspelt(key, report) {
            let message = format!("{} has no `{key}`", self.name);
            report.push(
                Draft::new(&codes::MISSING_KEY, self.span, message).cure(format!("write `{key}`")),
            );
        }
        node
    }

    /// Reports a key that this table does not have and that is near to `key`, which is missing:
    /// one finding says both. Returns whether there is one.
    fn reports_misspelt(&mut self, key: &'static str, report: &mut Report) -> bool {
        let rows = self.keys.iter().flat_map(|keys| keys.iter().copied().flatten());
        let mut known: Vec<_> = rows.map(|row| row.name).collect();
        if known.is_empty() {
            known = self.known();
        }
        let is_misspelt =
            |node: &Node<'_>| !known.contains(&node.key) && nearest(node.key, &known) == Some(key);
        let Some(node) = self.unasked().find(is_misspelt) else { return false };
        let homes = report.homes(node.key);
        report.push(unknown_key(&node, &known).belongs(&homes));
        self.misspelt.push(node.key);
        true
    }

    /// Returns whether `key` is written; does not make it known.
    pub fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Returns all entries in the order of the file, for tables whose keys the user chooses. Do not
    /// `finish` such a table.
    pub fn entries(&self) -> impl Iterator<Item = Node<'a>> {
        self.map.iter().map(|(key, value)| self.node(key, value))
    }

    /// Returns the entries whose keys were not requested.
    pub fn unasked(&self) -> impl Iterator<Item = Node<'a>> {
        let unasked = self.map.iter().filter(|(key, _)| {
            let key = key.get_ref().as_ref();
            !self.asked.contains(&key) && !self.misspelt.contains(&key)
        });
        unasked.map(|(key, value)| self.node(key, value))
    }

    /// Returns the keys that are known here: those requested, each once.
    pub fn known(&self) -> Vec<&'static str> {
        let mut known = Vec::new();
        for key in &self.asked {
            if !known.contains(key) {
                known.push(*key);
            }
        }
        known
    }

    /// Refuses the keys that were not requested, and lists those that are known here.
    pub fn finish(&self, report: &mut Report) {
        for node in self.unasked() {
            let homes = report.homes(node.key);
            report.push_error(|| unknown_key(&node, &self.known()).belongs(&homes));
        }
    }

    fn node(&self, key: &'a Spanned<Cow<'a, str>>, value: &'a Spanned<DeValue<'a>>) -> Node<'a> {
        Node {
            key: key.get_ref(),
            key_span: key.span().into(),
            owner: self.name.clone(),
            span: value.span().into(),
            value: value.get_ref(),
        }
    }
}

/// Makes the finding that the key of `node` is not among `known`.
pub fn unknown_key(node: &Node<'_>, known: &[&str]) -> Draft {
    let message = format!("{} has no key `{}`; it has {}", node.owner, node.key, list(known));
    let near = nearest(node.key, known).map(|key| format!("did you mean `{key}`?"));
    let cure = near.unwrap_or_else(|| "remove it".to_owned());
    Draft::new(&codes::UNKNOWN_KEY, node.key_span, message).cure(cure).fix(node.corrected(known))
}

impl<'a> Node<'a> {
    /// Returns the key, as it is written.
    pub fn key(&self) -> &'a str {
        self.key
    }

    /// Returns the place of the key.
    pub fn key_span(&self) -> Span {
        self.key_span
    }

    /// Returns the place of the value.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Makes a finding at the value; `message` follows "`key` of owner".
    pub fn draft(&self, code: &'static Code, message: impl Display) -> Draft {
        Draft::new(code, self.span, format!("`{}` of {}: {message}", self.key, self.owner))
    }

    /// Returns the edit that makes the key the nearest of `known`, or else removes it.
    pub fn corrected(&self, known: &[&str]) -> Option<Fix> {
        let near = nearest(self.key, known);
        near.map_or_else(|| self.removal(), |key| Some(Fix::Replace(self.key_span, key.to_owned())))
    }

    /// Returns the edit that removes key and value, unless the value is a table, which may have a
    /// header and many lines.
    pub fn removal(&self) -> Option<Fix> {
        let Span { start, .. } = self.key_span;
        let is_one = start < self.span.start && !self.is_table() && !self.is_array();
        is_one.then_some(Fix::Remove(Span { start, end: self.span.end }))
    }

    /// Returns the value as it is in the file, for templates.
    pub(crate) fn value(&self) -> &'a DeValue<'a> {
        self.value
    }

    /// Returns whether the value is a table.
    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// Returns whether the value is an array.
    pub fn is_array(&self) -> bool {
        self.value.is_array()
    }

    /// Reads a text in quotes.
    pub fn text(&self, report: &mut Report) -> Option<&'a str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.wrong_type("a text", "write it in quotes", report);
        }
        text
    }

    /// Reads a text that is not empty.
    pub fn name(&self, report: &mut Report) -> Option<&'a str> {
        let text = self.text(report)?;
        if text.is_empty() {
            report.push(self.draft(&codes::BAD_VALUE, "is empty").cure("write a name"));
            return None;
        }
        Some(text)
    }

    /// Reads `true` or `false`.
    pub fn flag(&self, report: &mut Report) -> Option<bool> {
        let flag = self.value.as_bool();
        if flag.is_none() {
            let cure = match self.value.as_str().and_then(truth_of) {
                Some(flag) => format!("write `{flag}` without quotes"),
                None => "write `true` or `false` without quotes".to_owned(),
            };
            self.wrong_type("true or false", &cure, report);
        }
        flag
    }

    /// Reads a table, named after its key until [`Table::named`].
    pub fn table(&self, report: &mut Report) -> Option<Table<'a>> {
        let Some(map) = self.value.as_table() else {
            self.wrong_type("a table", "write `{ key = value }` or a `[table]`", report);
            return None;
        };
        // A key that is a header locates more precisely than the braces or the whole table.
        Some(Table::new(Owner::Named("", self.key), self.key_span, map))
    }

    /// Returns the elements of an array; each has its own place and the array's key.
    pub fn elements(&self, report: &mut Report) -> Option<Vec<Node<'a>>> {
        let Some(array) = self.value.as_array() else {
            self.wrong_type("an array", "write `[ ... ]`", report);
            return None;
        };
        Some(self.nodes(array))
    }

    /// Returns the elements of an array, or the value itself if it is not an array.
    pub fn one_or_many(&self) -> Vec<Node<'a>> {
        match self.value.as_array() {
            Some(array) => self.nodes(array),
            None => vec![self.clone()],
        }
    }

    fn nodes(&self, array: &'a DeArray<'a>) -> Vec<Node<'a>> {
        let node = |value: &'a Spanned<DeValue<'a>>| Node {
            span: value.span().into(),
            key_span: value.span().into(),
            value: value.get_ref(),
            ..self.clone()
        };
        array.iter().map(node).collect()
    }

    /// Reads one of `words`.
    pub fn choice(&self, words: &[&'static str], report: &mut Report) -> Option<&'static str> {
        let Some(text) = self.value.as_str() else {
            self.wrong_type(&format!("one of {}", list(words)), "write one, in quotes", report);
            return None;
        };
        let found = words.iter().find(|word| **word == text).copied();
        if found.is_none() {
            let message = format!("`{text}` is not one of {}", list(words));
            let near = nearest(text, words);
            let fix = near.map(|word| Fix::Replace(self.span, format!("\"{word}\"")));
            let draft = self.draft(&codes::UNKNOWN_CHOICE, message).cure(suggest(text, words));
            report.push(draft.fix(fix));
        }
        found
    }

    /// Reads a whole number from `min` to `max`, both included.
    pub fn number(&self, min: u64, max: u64, report: &mut Report) -> Option<u64> {
        let Some(integer) = self.value.as_integer() else {
            self.wrong_type("a whole number", "write it without quotes and unit", report);
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let message = format!("{integer} is not in {min}..={max}");
            let cure = format!("write a number from {min} to {max}");
            report.push(self.draft(&codes::OUT_OF_RANGE, message).cure(cure));
        }
        number
    }

    /// Reads a whole number of either sign.
    pub fn integer(&self, report: &mut Report) -> Option<i64> {
        let Some(integer) = self.value.as_integer() else {
            self.wrong_type("a whole number", "write it without quotes and unit", report);
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        if number.is_none() {
            let cure = "write a number of at most 63 bits";
            report.push(self.draft(&codes::OUT_OF_RANGE, "is too large").cure(cure));
        }
        number
    }

    /// Reads a quantity of `dimension`. A number without unit may be written with or without
    /// quotes.
    pub fn quantity(&self, dimension: Dimension, report: &mut Report) -> Option<Quantity> {
        self.quantity_of(&[dimension], report)
    }

    /// Reads a quantity of one of `dimensions`.
    pub fn quantity_of(&self, dimensions: &[Dimension], report: &mut Report) -> Option<Quantity> {
        let Some(text) = self.scalar() else {
            self.wrong_type("a quantity", &examples(dimensions), report);
            return None;
        };
        if let Some(number) = bare_number(&text)
            && !dimensions.contains(&Dimension::Number)
        {
            let message = format!("`{text}` has no unit");
            let cure = with_unit((number, &text), dimensions);
            report.push(self.draft(&codes::BAD_QUANTITY, message).cure(cure));
            return None;
        }
        match Quantity::from_str(&text) {
            Ok(quantity) if dimensions.contains(&quantity.dimension()) => Some(quantity),
            Ok(_) => {
                let names: Vec<_> = dimensions.iter().map(|wanted| wanted.name()).collect();
                let message = format!("`{text}` is not a {}", names.join(" or a "));
                report.push(self.draft(&codes::BAD_QUANTITY, message).cure(examples(dimensions)));
                None
            }
            Err(error) => {
                report.push(self.unit_draft(&error, dimensions));
                None
            }
        }
    }

    /// Reads a rate, with its unit.
    pub fn rate(&self, report: &mut Report) -> Option<Rate> {
        match self.quantity(Dimension::Rate, report)? {
            Quantity::Rate(rate) => Some(rate),
            _ => None,
        }
    }

    /// Reads a rate, or a percentage of `whole`, rounded down. If `whole` could not be read, which
    /// was reported, a percentage gives no rate.
    pub fn rate_of(&self, whole: Option<Rate>, report: &mut Report) -> Option<Rate> {
        match self.quantity_of(&[Dimension::Rate, Dimension::Share], report)? {
            Quantity::Rate(rate) => Some(rate),
            Quantity::Share(share) if share.ppb() == 0 => {
                let message = "`0 %` is out of range: a rate is at least 1 bit/s";
                let cure = "write a percentage above 0, such as `20 %`";
                report.push(self.draft(&codes::OUT_OF_RANGE, message).cure(cure));
                None
            }
            Quantity::Share(share) => whole.map(|whole| whole.part(share)),
            _ => None,
        }
    }

    /// Reads a duration, with its unit.
    pub fn duration(&self, report: &mut Report) -> Option<Duration> {
        match self.quantity(Dimension::Duration, report)? {
            Quantity::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    /// Reads a size in bytes.
    pub fn bytes(&self, report: &mut Report) -> Option<Bytes> {
        match self.quantity(Dimension::Bytes, report)? {
            Quantity::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Reads a share of a whole, as in `60 %`.
    pub fn share(&self, report: &mut Report) -> Option<Share> {
        match self.quantity(Dimension::Share, report)? {
            Quantity::Share(share) => Some(share),
            _ => None,
        }
    }

    /// Reads a number of packets.
    pub fn packets(&self, report: &mut Report) -> Option<u32> {
        match self.quantity(Dimension::Packets, report)? {
            Quantity::Packets(packets) => Some(packets),
            _ => None,
        }
    }

    /// Parses any type from text; a whole number counts as its text. The error's text becomes the
    /// message; the part behind its last `; ` becomes the cure.
    pub fn parsed<T: FromStr>(&self, report: &mut Report) -> Option<T>
    where
        T::Err: Display,
    {
        self.parsed_by(report, T::from_str)
    }

    /// Parses text as [`Node::parsed`] does, with this function.
    pub fn parsed_by<T, E: Display>(
        &self,
        report: &mut Report,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let Some(text) = self.scalar() else {
            let cure = match self.value {
                DeValue::Array(_) => "write one value, without `[` and `]`",
                _ => "write it in quotes",
            };
            self.wrong_type("a text or a number", cure, report);
            return None;
        };
        match parse(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                let error = error.to_string();
                let (message, cure) = error.rsplit_once("; ").unwrap_or((&error, ""));
                report.push(self.draft(&codes::BAD_VALUE, message).cure(cure));
                None
            }
        }
    }

    /// Returns the text of a string or a whole number.
    fn scalar(&self) -> Option<Cow<'a, str>> {
        match self.value {
            DeValue::String(text) => Some(Cow::Borrowed(text)),
            DeValue::Integer(integer) => Some(Cow::Owned(integer.to_string())),
            DeValue::Float(float) => Some(Cow::Owned(float.to_string())),
            _ => None,
        }
    }

    fn unit_draft(&self, error: &UnitError, dimensions: &[Dimension]) -> Draft {
        let code = match error {
            UnitError::Ambiguous { .. } => &codes::AMBIGUOUS_UNIT,
            UnitError::OutOfRange(..) => &codes::OUT_OF_RANGE,
            _ => &codes::BAD_QUANTITY,
        };
        let text = error.to_string();
        let (message, cure) = match error {
            UnitError::Ambiguous { text, bits, bytes } => (
                format!("`{text}` is ambiguous: it may mean {bits} or {bytes}"),
                format!("write `{bits}` or `{bytes}`"),
            ),
            UnitError::NotANumber(text) => {
                (format!("`{text}` does not start with a number"), examples(dimensions))
            }
            UnitError::Misspelt(unit, meant) => {
                (format!("unknown unit `{unit}`"), format!("write `{meant}`"))
            }
            UnitError::UnknownUnit(unit) => (format!("unknown unit `{unit}`"), units(dimensions)),
            _ => match text.split_once("; ") {
                Some((message, cure)) => (message.to_owned(), cure.to_owned()),
                None => (text, "write a value in range".to_owned()),
            },
        };
        let meant = match error {
            UnitError::Ambiguous { bits, bytes, .. } => vec![bits, bytes],
            UnitError::Misspelt(_, meant) => vec![meant],
            _ => Vec::new(),
        };
        let fix = |text| Fix::Replace(self.span, format!("\"{text}\""));
        self.draft(code, message).cure(cure).fix(meant.into_iter().map(fix))
    }

    fn wrong_type(&self, wanted: &str, cure: &str, report: &mut Report) {
        let found = match self.value {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        let message = format!("is {found}, not {wanted}");
        report.push(self.draft(&codes::WRONG_TYPE, message).cure(cure));
    }
}

/// Returns the cure for an unknown unit.
fn units(dimensions: &[Dimension]) -> String {
    let units: Vec<_> = dimensions.iter().flat_map(|wanted| wanted.units()).collect();
    match units.is_empty() {
        true => examples(dimensions),
        false => format!("write one of {}", units.join(", ")),
    }
}

fn examples(dimensions: &[Dimension]) -> String {
    let examples: Vec<_> =
        dimensions.iter().map(|wanted| format!("`{}`", wanted.example())).collect();
    format!("write it like {}", examples.join(" or "))
}

/// Returns the number of a text that has nothing behind it.
fn bare_number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"._".contains(&byte));
    text.replace('_', "").parse().ok().filter(|_| plain)
}

/// Returns the cure of a number without a unit: a part of a whole may be meant, or percent.
fn with_unit((number, text): (f64, &str), dimensions: &[Dimension]) -> String {
    if dimensions != [Dimension::Share] {
        return examples(dimensions);
    }
    if number > 0.0 && number <= 1.0 {
        let percent = (number * 1e8).round() / 1e6;
        return format!("write `{percent} %` for that part of the whole, or `{text} %`");
    }
    format!("write `{text} %`")
}

/// Formats `words` as a list in a message.
pub fn list(words: &[&str]) -> String {
    if words.is_empty() {
        return "none".to_owned();
    }
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

/// Returns a cure for an unknown `word`: the nearest of `known`, if one is similar.
pub fn suggest(word: &str, known: &[&str]) -> String {
    match (synonyms::discipline(word, known), nearest(word, known)) {
        (Some(cure), _) => cure,
        (None, Some(other)) => format!("did you mean `{other}`?"),
        _ if known.is_empty() => "remove it".to_owned(),
        _ => format!("remove it, or write one of {}", list(known)),
    }
}

/// Returns the nearest of `known`, if one is similar or means what another tool calls so.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Comparing a hostile word would cost the product of the lengths.
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    if let Some(key) = synonyms::key(word, known) {
        return Some(key);
    }
    let small = word.to_lowercase();
    let distance = |other: &&str| strsim::damerau_levenshtein(&small, &other.to_lowercase());
    let (distance, other) = known.iter().map(|other| (distance(other), *other)).min()?;
    (distance * 3 <= other.len().max(word.len())).then_some(other)
}

/// The number of keys that most tables have.
const KEYS_USUAL: usize = 16;
/// Longer words are not compared.
const WORD_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what reading `value` in `x = value` reports, as `code message [cure]`, or `ok`.
    fn check(value: &str, read_it: impl FnOnce(&Node<'_>, &mut Report) -> bool, wanted: &str) {
        let text = format!("x = {value}");
        let outcome = read("f", text.as_bytes(), |top, report| {
            let node = top.required("x", report)?;
            read_it(&node, report).then_some(())
        });
        let found = match outcome.findings.first() {
            Some(finding) => format!("{} {} [{}]", finding.code, finding.message, finding.cure),
            None => "ok".to_owned(),
        };
        assert_eq!(found, wanted, "{value}");
        assert_eq!(outcome.plan.is_some(), wanted == "ok");
    }

    #[test]
    fn values_are_read_or_say_what_is_wrong() {
        let rate = |node: &Node<'_>, report: &mut Report| node.rate(report).is_some();
        check("'10 Mbit/s'", rate, "ok");
        check("10", rate, "W013 `x` of the file: `10` has no unit [write it like `10 Mbit/s`]");
        check(
            "true",
            rate,
            "W012 `x` of the file: is true or false, not a quantity [write it like `10 Mbit/s`]",
        );
        check(
            "'5 ms'",
            rate,
            "W013 `x` of the file: `5 ms` is not a rate [write it like `10 Mbit/s`]",
        );
        check(
            "'many'",
            |node, report| node.packets(report).is_some(),
            "W013 `x` of the file: `many` does not start with a number [write it like `15 packets`]",
        );
        check(
            "'3 fortnights'",
            |node, report| node.duration(report).is_some(),
            "W013 `x` of the file: unknown unit `fortnights` [write one of ns, us, µs, ms, s, min, h]",
        );
        check(
            "'10 mbps'",
            rate,
            "W014 `x` of the file: `10 mbps` is ambiguous: it may mean 10 Mbit/s or 10 MB/s \
             [write `10 Mbit/s` or `10 MB/s`]",
        );
        check(
            "'0 bit/s'",
            rate,
            "W015 `x` of the file: `0 bit/s` is out of range: a rate is at least 1 bit/s \
             [write a value in range]",
        );
        let number = |node: &Node<'_>, report: &mut Report| node.number(1, 9, report).is_some();
        check("0x9", number, "ok");
        check(
            "-1",
            number,
            "W015 `x` of the file: -1 is not in 1..=9 [write a number from 1 to 9]",
        );
        check(
            "1.5",
            number,
            "W012 `x` of the file: is a number, not a whole number [write it without quotes and unit]",
        );
        let word =
            |node: &Node<'_>, report: &mut Report| node.choice(&["tail", "head"], report).is_some();
        check("'tail'", word, "ok");
        check(
            "'tial'",
            word,
            "W016 `x` of the file: `tial` is not one of `tail`, `head` [did you mean `tail`?]",
        );
        check(
            "'red'",
            word,
            "W016 `x` of the file: `red` is not one of `tail`, `head` [remove it, or write one of `tail`, `head`]",
        );
        let parsed = |node: &Node<'_>, report: &mut Report| node.parsed::<Rate>(report).is_some();
        check("'1 kbit/s'", parsed, "ok");
        check(
            "[]",
            parsed,
            "W012 `x` of the file: is an array, not a text or a number \
             [write one value, without `[` and `]`]",
        );
    }

    /// Checks the findings of a file in which only `a` and the table `t` with key `k` are known.
    fn check_file(bytes: &[u8], wanted: &[&str]) {
        let outcome = read("f", bytes, |top, report| {
            top.field("a");
            let mut table = top.field("t")?.table(report)?;
            table.field("k");
            table.finish(report);
            Some(())
        });
        let rows: Vec<_> = outcome
            .findings
            .iter()
            .map(|finding| {
                format!("{}@{}:{}", finding.code, finding.place.line, finding.place.column)
            })
            .collect();
        assert_eq!(rows, wanted, "{:?} {:?}", String::from_utf8_lossy(bytes), outcome.findings);
    }

    #[test]
    fn errors_of_the_file_point_at_their_place() {
        check_file(b"a = 1\n[t]\nk = 1\n", &[]);
        check_file(b"a = 1\n[t]\nkk = 1\n", &["W010@3:1"]);
        check_file(b"b = 1\n[t]\nk = 1\n[u]\n", &["W010@1:1", "W010@4:2"]);
        check_file(b"a = 1\na = 2\n[t]\n", &["W003@2:1"]);
        check_file(b"[t]\nk = 1\n[t]\n", &["W003@3:2"]);
        check_file(b"a = \n[t\nk = 1\n", &["W003@1:5", "W003@2:3"]);
        check_file(b"a = 'x\xff'", &["W001@1:7"]);
        check_file(&vec![b'#'; FILE_BYTES_MAX + 1], &["W002@1:1"]);
    }
}
