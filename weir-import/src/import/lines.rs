//! The fate of each statement, and the findings of an imported file.

use super::{Fate, Line};
use weir_policy::codes;
use weir_policy::finding::{Code, Draft, Report, Source, Span};
use weir_policy::reader::{list, suggest};

/// The number of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LineId(usize);

/// The state of reading a file.
pub(super) struct Reading {
    pub report: Report,
    /// Advice for a file that gives no policy.
    pub way_out: Option<&'static str>,
    /// Why it gives none, if the language knows.
    pub why_empty: Option<&'static str>,
    lines: Vec<Statement>,
}

struct Statement {
    span: Span,
    fate: Fate,
    notes: Vec<String>,
}

impl Reading {
    pub(super) fn new(source: Source) -> Self {
        Self { report: Report::new(source), way_out: None, why_empty: None, lines: Vec::new() }
    }

    /// Adds a statement at `span`, kept unless another fate is reported. Past the bound all share
    /// the last one.
    pub(super) fn line(&mut self, span: Span) -> LineId {
        if self.lines.len() < LINES_MAX {
            self.lines.push(Statement { span, fate: Fate::Kept, notes: Vec::new() });
        } else if self.lines.len() == LINES_MAX && !self.report.failed() {
            let message = format!("the file has more than {LINES_MAX} statements");
            self.report.push(Draft::new(&codes::TOO_MANY, span, message).cure("split it up"));
        }
        LineId(self.lines.len() - 1)
    }

    /// The policy expresses it; `note` gives more detail.
    pub(super) fn noted(&mut self, line: LineId, note: impl Into<String>) {
        self.note(line, Fate::Kept, note.into());
    }

    /// The policy expresses something similar.
    pub(super) fn approximated(&mut self, line: LineId, note: impl Into<String>) {
        self.note(line, Fate::Approximated, note.into());
    }

    /// The policy does not express it.
    pub(super) fn lost(&mut self, line: LineId, note: impl Into<String>) {
        self.note(line, Fate::Lost, note.into());
    }

    fn note(&mut self, line: LineId, fate: Fate, note: String) {
        let statement = &mut self.lines[line.0];
        statement.fate = statement.fate.max(fate);
        if statement.notes.len() < NOTES_MAX && !statement.notes.contains(&note) {
            statement.notes.push(note);
        }
    }

    /// Returns why statements are lost, the first reasons only, each once.
    pub(super) fn reasons(&self) -> Vec<&str> {
        let lost = self.lines.iter().filter(|one| one.fate == Fate::Lost);
        let mut reasons: Vec<&str> = Vec::new();
        for note in lost.flat_map(|one| &one.notes) {
            if reasons.len() < REASONS_MAX && !reasons.contains(&note.as_str()) {
                reasons.push(note);
            }
        }
        reasons
    }

    /// Returns the place of the first lost statement.
    pub(super) fn first_lost(&self) -> Option<Span> {
        let lost = self.lines.iter().filter(|one| one.fate == Fate::Lost);
        lost.map(|one| one.span).min()
    }

    /// Returns the place of a statement.
    pub(super) fn span(&self, line: LineId) -> Span {
        self.lines[line.0].span
    }

    /// Reports an error at `span`.
    pub(super) fn error(
        &mut self,
        code: &'static Code,
        span: Span,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) {
        self.report.push_error(|| Draft::new(code, span, message).cure(cure));
    }

    /// Reports that `word` is not one of those allowed here.
    pub(super) fn unknown(&mut self, word: (&str, Span), what: &str, known: &[&str]) {
        let shown: String = word.0.chars().take(SHOWN_MAX).collect();
        let message = format!("`{shown}` is not a known {what}; known are {}", list(known));
        self.error(&codes::UNKNOWN_STATEMENT, word.1, message, suggest(word.0, known));
    }

    /// Reports that nothing of the name `word` is declared.
    pub(super) fn undeclared<'n>(
        &mut self,
        word: (&str, Span),
        what: &str,
        known: impl Iterator<Item = &'n str>,
    ) {
        let known: Vec<_> = known.take(SUGGESTED_MAX).collect();
        let shown: String = word.0.chars().take(SHOWN_MAX).collect();
        let message = format!("{what} `{shown}` is not declared");
        let cure = match known.is_empty() {
            true => {
                format!("declare it before this line, or remove the line: there is no {what} yet")
            }
            false => format!("declare it, or name another: {}", suggest(word.0, &known)),
        };
        self.error(&codes::UNDECLARED, word.1, message, cure);
    }

    pub(super) fn finish(mut self) -> (Report, Vec<Line>) {
        self.lines.sort_by_key(|statement| statement.span);
        let source = self.report.source();
        let line = |statement: Statement| Line {
            place: source.locate(statement.span),
            text: shown(&source.text()[statement.span.start..statement.span.end]),
            fate: statement.fate,
            note: statement.notes.join("\n"),
        };
        let lines = self.lines.into_iter().map(line).collect();
        (self.report, lines)
    }
}

/// Returns a statement on one line, without runs of blanks, cut if it is long.
fn shown(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| *word != "\\");
    let mut shown = String::new();
    for word in words {
        if shown.len() + word.len() > SHOWN_MAX {
            // A line of JSON without blanks is one word.
            if shown.is_empty() {
                shown.extend(word.chars().take(SHOWN_MAX));
            }
            shown.push_str(" ...");
            return shown;
        }
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(word);
    }
    shown
}

/// Bound: statements of an imported file; a file with more is refused.
const LINES_MAX: usize = 1 << 17;
/// Bound: notes on one statement; further ones are left out.
const NOTES_MAX: usize = 8;
/// Reasons of lost statements in the finding of a file without a policy.
const REASONS_MAX: usize = 3;
/// The most bytes of a statement, and characters of a word, in messages.
const SHOWN_MAX: usize = 160;
/// Names compared to suggest one for an unknown name.
const SUGGESTED_MAX: usize = 64;
