//! Findings: what is wrong in a file, where, why it matters and what to do about it.
//!
//! A [`Draft`] is a finding whose place is a byte range; the [`Report`] of a file turns it into a
//! [`Finding`] with line and column. Invariant: an [`Outcome`] holds a plan exactly if none of its
//! findings is an error.

pub use crate::codes::{Code, Severity};

use crate::codes;
use serde::Serialize;
use std::ops::Range;

/// A range of bytes in a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize)]
pub struct Span {
    /// The offset of the first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

/// A span in a named file, in lines and columns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Place {
    /// The file, as the user named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The same place as byte offsets.
    pub span: Span,
}

/// Another place that belongs to a finding.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Related {
    /// Where it is.
    pub place: Place,
    /// A description of what is there.
    pub label: String,
}

/// One thing found in a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The stable code, such as `W101`.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The problem and its reason, in one sentence.
    pub message: String,
    /// The place of the problem.
    pub place: Place,
    /// How to cure it.
    pub cure: String,
    /// The source that describes the trap, if it is in the literature.
    pub source: Option<&'static str>,
    /// Other places that explain it.
    pub related: Vec<Related>,
    /// Edits of which each cures it.
    #[serde(skip)]
    pub fixes: Vec<Fix>,
}

/// An edit that cures a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fix {
    /// Sets keys of the policy, as `weir set` does, in this order: each path with its value; an
    /// empty value removes the key.
    Set(Vec<(String, String)>),
    /// Writes this text in place of the bytes.
    Replace(Span, String),
    /// Removes a key with its value, which are these bytes, and the line or comma that was theirs.
    Remove(Span),
}

/// A finding before its [`Report`] locates it.
#[derive(Clone, Debug)]
pub struct Draft {
    code: &'static Code,
    span: Span,
    message: String,
    cure: String,
    related: Vec<(Span, String)>,
    fixes: Vec<Fix>,
}

/// A file that was read: its name, its text, and where its lines begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    name: String,
    text: String,
    line_starts: Vec<usize>,
}

/// Where a value comes from that a template made for a row of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The list's number in the report; none if its rows are in the file itself.
    pub list: Option<usize>,
    /// The cell or the row.
    pub row: Span,
    /// The place in the template.
    pub template: Span,
    /// Whether the value is the template's own, so that each row has the same.
    pub literal: bool,
}

/// Collects the findings of one file and of the lists that its templates name.
#[derive(Debug)]
pub struct Report {
    source: Source,
    lists: Vec<Source>,
    /// The place of the nth is a span of one byte, n bytes after the end of the file.
    origins: Vec<Origin>,
    findings: Vec<Finding>,
    suppressed: usize,
    errors: usize,
    homes: Homes,
}

/// Returns the tables that have a key, in words: where one belongs that is in another table.
pub type Homes = fn(&str) -> Vec<String>;

/// The result of reading a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome<T> {
    /// The plan, if no finding is an error.
    pub plan: Option<T>,
    /// The findings, in the order of the file.
    pub findings: Vec<Finding>,
    /// The files that findings point into.
    pub sources: Vec<Source>,
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

impl Draft {
    /// Makes a finding of this kind at `span`. The message names the value and the limit.
    pub fn new(code: &'static Code, span: Span, message: impl Into<String>) -> Self {
        let (message, cure) = (message.into(), String::new());
        Self { code, span, message, cure, related: Vec::new(), fixes: Vec::new() }
    }

    /// Moves the finding to `span`.
    pub fn at(mut self, span: Span) -> Self {
        self.span = span;
        self
    }

    /// Sets the cure, a clause without a full stop.
    pub fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = cure.into();
        self
    }

    /// Adds edits of which each cures it.
    pub fn fix(mut self, fixes: impl IntoIterator<Item = Fix>) -> Self {
        self.fixes.extend(fixes);
        self
    }

    /// Says where a key belongs, in place of any other cure.
    pub fn belongs(mut self, homes: &[String]) -> Self {
        let moved = match homes {
            [] => return self,
            [only] => format!("it is a key of {only}: move it there, or remove it"),
            homes => {
                format!("it is a key of {}: move it to one, or remove it", homes.join(", of "))
            }
        };
        self.fixes.clear();
        self.cure(moved)
    }

    /// Adds a related place. Places past [`RELATED_MAX`] are left out.
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        if self.related.len() < RELATED_MAX {
            self.related.push((span, label.into()));
        }
        self
    }
}

impl Source {
    /// The file called `name` that holds `text`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let after_newline = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(after_newline).collect();
        Self { name: name.into(), text, line_starts }
    }

    /// Returns the name, as the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the place of `span`, moved to the nearest character boundaries.
    pub fn locate(&self, span: Span) -> Place {
        let start = char_start(&self.text, span.start);
        let end = char_start(&self.text, span.end.max(start));
        let line = self.line_starts.partition_point(|&at| at <= start);
        let column = self.text[self.line_starts[line - 1]..start].chars().count() + 1;
        Place { file: self.name.clone(), line, column, span: Span { start, end } }
    }

    /// Returns the bytes of the lines that `span` covers, and the number of the first, from 1.
    pub fn lines_of(&self, span: Span) -> (Span, usize) {
        let first = self.line_starts.partition_point(|&at| at <= span.start).max(1);
        let last = self.line_starts.partition_point(|&at| at < span.end).max(first);
        let end = self.line_starts.get(last).map_or(self.text.len(), |next| next - 1);
        (Span { start: self.line_starts[first - 1], end }, first)
    }
}

impl Report {
    /// An empty report on `source`.
    pub fn new(source: Source) -> Self {
        let (lists, origins, findings) = (Vec::new(), Vec::new(), Vec::new());
        Self { source, lists, origins, findings, suppressed: 0, errors: 0, homes: |_| Vec::new() }
    }

    /// Lets findings on unknown keys name the tables that have them.
    pub fn know_homes(&mut self, homes: Homes) {
        self.homes = homes;
    }

    /// Returns the tables that have a key, in words.
    pub fn homes(&self, key: &str) -> Vec<String> {
        (self.homes)(key)
    }

    /// Adds a list, so that findings can point into it; returns its number.
    pub fn add_list(&mut self, list: Source) -> usize {
        self.lists.push(list);
        self.lists.len() - 1
    }

    /// Returns a span that stands for `origin`: a finding there points at both of its places.
    pub fn derive(&mut self, origin: Origin) -> Span {
        let start = self.origins_start() + self.origins.len();
        self.origins.push(origin);
        Span { start, end: start + 1 }
    }

    /// Returns how many values templates made.
    pub fn derived(&self) -> usize {
        self.origins.len()
    }

    fn origins_start(&self) -> usize {
        self.source.text.len() + 1
    }

    /// Returns what a span stands for if a template made it.
    fn origin(&self, span: Span) -> Option<&Origin> {
        self.origins.get(span.start.checked_sub(self.origins_start())?)
    }

    /// Returns the place of a span, and for a value that a template made its other place.
    fn locate(&self, span: Span) -> (Place, Option<Related>) {
        let Some(origin) = self.origin(span) else { return (self.source.locate(span), None) };
        let template = self.source.locate(origin.template);
        let row = origin.list.map_or(&self.source, |list| &self.lists[list]).locate(origin.row);
        if origin.literal {
            return (template, Some(Related { place: row, label: ROW_LABEL.to_owned() }));
        }
        (row, Some(Related { place: template, label: TEMPLATE_LABEL.to_owned() }))
    }

    /// Returns the place to name beside a finding: of a value that a template made, its row.
    fn locate_related(&self, span: Span, label: String) -> Related {
        let place = match (self.origin(span), self.locate(span)) {
            (Some(Origin { literal: true, .. }), (_, Some(row))) => row.place,
            (_, (place, _)) => place,
        };
        Related { place, label }
    }

    /// Returns the text that the findings point into.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns whether an error was found.
    pub fn failed(&self) -> bool {
        self.errors > 0
    }

    /// Returns the number of errors, including those past the bound.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Adds a finding. Past [`FINDINGS_MAX`] findings are only counted.
    pub fn push(&mut self, draft: Draft) {
        self.errors += usize::from(draft.code.severity == Severity::Error);
        let (place, other) = self.locate(draft.span);
        // A class of a template has no text of its own.
        let fixes = if self.origin(draft.span).is_some() { Vec::new() } else { draft.fixes };
        if self.origin(draft.span).is_some_and(|origin| origin.literal) {
            // The next rows have the same value: one finding is enough.
            let known = |known: &Finding| known.code == draft.code.id && known.place == place;
            if self.findings.iter().any(known) {
                return;
            }
        }
        if self.findings.len() >= FINDINGS_MAX {
            self.suppressed += 1;
            return;
        }
        let related = draft.related.into_iter();
        let related = related.map(|(span, label)| self.locate_related(span, label));
        self.findings.push(Finding {
            code: draft.code.id,
            severity: draft.code.severity,
            message: draft.message,
            place,
            cure: draft.cure,
            source: draft.code.source,
            related: other.into_iter().chain(related).take(RELATED_MAX).collect(),
            fixes,
        });
    }

    /// As [`Report::push`]; does not show the same finding at the same place twice.
    pub fn push_once(&mut self, draft: Draft) {
        let (place, _) = self.locate(draft.span);
        let same = |known: &Finding| known.place == place && known.message == draft.message;
        if !self.findings.iter().any(same) {
            self.push(draft);
        }
    }

    /// Adds an error whose message is costly to build: past the bound it is only counted, so that a
    /// hostile file costs no more than its length.
    pub fn push_error(&mut self, draft: impl FnOnce() -> Draft) {
        if self.findings.len() < FINDINGS_MAX {
            return self.push(draft());
        }
        self.errors += 1;
        self.suppressed += 1;
    }

    /// Finishes the report: `plan` is dropped if an error was found.
    pub fn finish<T>(mut self, plan: Option<T>) -> Outcome<T> {
        assert!(plan.is_some() || self.failed(), "without a plan an error says why");
        let file = |name: &str| self.lists.iter().position(|list| list.name == name);
        self.findings.sort_by_cached_key(|found| (file(&found.place.file), found.place.span));
        if self.suppressed > 0 {
            let code = if self.failed() { &codes::MORE_ERRORS } else { &codes::MORE };
            let message = format!("{} more findings are not shown", self.suppressed + 1);
            let end = Span { start: self.source.text.len(), end: self.source.text.len() };
            // Remove the last finding to stay within the bound.
            self.findings.pop();
            let cure = format!("correct the first {} and check again", self.findings.len());
            let draft = Draft::new(code, end, message).cure(cure);
            self.push(draft);
        }
        let plan = if self.failed() { None } else { plan };
        let sources = std::iter::once(self.source).chain(self.lists).collect();
        Outcome { plan, findings: self.findings, sources }
    }
}

impl<T> Outcome<T> {
    /// Returns whether a finding is an error.
    pub fn failed(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// Returns the number of findings of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Converts the plan; the findings stay.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        let Outcome { plan, findings, sources } = self;
        Outcome { plan: plan.map(change), findings, sources }
    }

    /// Takes the plan and moves the findings to `other`, but for those that it has: two files may
    /// read the same list.
    pub fn merge_into<U>(self, other: &mut Outcome<U>) -> Option<T> {
        let what = |found: &Finding| (found.code, found.message.clone(), found.place.clone());
        let known: Vec<_> = other.findings.iter().map(what).collect();
        let is_new = |found: &Finding| !known.contains(&what(found));
        other.findings.extend(self.findings.into_iter().filter(is_new));
        other.sources.extend(self.sources);
        self.plan
    }
}

/// Returns the nearest character boundary at or before byte `at`; the end of a shorter text.
fn char_start(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    // Terminates: 0 is a boundary, and the nearest is at most three bytes away.
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Bound: findings of one file; further ones are counted. As many as a user may read at once.
pub const FINDINGS_MAX: usize = 100;
/// The most related places of one finding.
pub const RELATED_MAX: usize = 8;
const ROW_LABEL: &str = "for this row, among others";
const TEMPLATE_LABEL: &str = "the template";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let source = Source::new("f", "a\nµb = 1\n\n");
        let rows =
            [(0..1, 1, 1), (2..4, 2, 1), (4..5, 2, 2), (3..4, 2, 1), (9..9, 2, 7), (10..10, 3, 1)];
        for (span, line, column) in rows {
            let place = source.locate(span.clone().into());
            assert_eq!((place.line, place.column), (line, column), "{span:?}");
        }
        assert_eq!(source.locate((99..120).into()).line, 4);
    }

    #[test]
    fn the_lines_of_a_span_are_whole() {
        let source = Source::new("f", "ab\ncd\nef");
        let rows = [(0..1, 0..2, 1), (3..4, 3..5, 2), (1..4, 0..5, 1), (8..8, 6..8, 3)];
        for (span, lines, first) in rows {
            assert_eq!(source.lines_of(span.into()), (lines.into(), first));
        }
        assert_eq!(Source::new("f", "").lines_of(Span::default()), (Span::default(), 1));
    }

    #[test]
    fn findings_past_the_bound_are_counted_and_still_fail() {
        let mut report = Report::new(Source::new("f", ""));
        for _ in 0..FINDINGS_MAX {
            report.push(Draft::new(&codes::MORE, Span::default(), "w"));
        }
        report.push(Draft::new(&codes::NOT_UTF8, Span::default(), "e"));
        let outcome = report.finish(Some(()));
        assert_eq!((outcome.findings.len(), outcome.plan), (FINDINGS_MAX, None));
        assert!(outcome.failed());
    }
}
