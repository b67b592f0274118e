//! Cures that are edits: what a program may write in the place of its user.
//!
//! A finding has a fix for each cure that leaves nothing to choose. A fix is a proposal made from
//! the one finding; [`cured`] applies it and keeps the result only if the finding is gone and no
//! error came in its place.

pub use crate::finding::Fix;

use crate::edit::{self, Edit};
use crate::finding::{Finding, Severity, Span};
use std::fmt::Display;

impl Fix {
    /// Sets one key, whose path has these parts.
    pub fn set(path: &[&str], value: impl Display) -> Self {
        Self::Set(vec![(edit::path(path), value.to_string())])
    }

    /// Returns the edit in a few words.
    pub fn title(&self) -> String {
        match self {
            Self::Set(keys) => {
                let one = |(key, value): &(String, String)| match value.as_str() {
                    "" => format!("remove `{key}`"),
                    value => format!("write `{key} = {}`", edit::as_value(value)),
                };
                let mut words: Vec<_> = keys.iter().take(SHOWN_MAX).map(one).collect();
                let rest = keys.len().saturating_sub(SHOWN_MAX);
                words.extend((rest > 0).then(|| format!("{rest} more")));
                words.join(", and ")
            }
            Self::Replace(_, text) => format!("write `{text}`"),
            Self::Remove(_) => "remove it".to_owned(),
        }
    }

    /// Returns whether the edit takes away what a person wrote: whether that may go is theirs to
    /// say.
    pub fn removes(&self) -> bool {
        match self {
            Self::Set(keys) => keys.iter().any(|(_, value)| value.is_empty()),
            Self::Replace(..) => false,
            Self::Remove(_) => true,
        }
    }

    /// Returns the text with the edit.
    ///
    /// # Errors
    /// When a key cannot be set, or the place is not in the text.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        match self {
            Self::Set(keys) => {
                let edits: Vec<_> = keys.iter().map(|(key, value)| Edit { key, value }).collect();
                edit::set_all(text, &edits)
            }
            Self::Replace(span, new) => splice(text, *span, new),
            Self::Remove(span) => splice(text, with_separator(text, *span), ""),
        }
    }
}

/// Returns the text with the fix if that cures the finding: `check` reports it less often than
/// before, and no error where there was none.
pub fn cured(
    (text, findings): (&str, &[Finding]),
    finding: &Finding,
    fix: &Fix,
    check: &dyn Fn(&str) -> Vec<Finding>,
) -> Option<String> {
    let new = fix.apply(text).ok()?;
    let after = check(&new);
    let is_same =
        |other: &&Finding| (other.code, &other.message) == (finding.code, &finding.message);
    let fewer = after.iter().filter(is_same).count() < findings.iter().filter(is_same).count();
    let failed =
        |findings: &[Finding]| findings.iter().any(|other| other.severity == Severity::Error);
    (fewer && (failed(findings) || !failed(&after))).then_some(new)
}

/// Returns the text with every fix that leaves nothing to choose and removes nothing, as [`cured`]
/// applies them, and each in a few words with its line.
pub fn all(text: &str, check: &dyn Fn(&str) -> Vec<Finding>) -> (String, Vec<String>) {
    let (mut text, mut fixed) = (text.to_owned(), Vec::new());
    // Terminates: at the bound, or when a round cures nothing.
    while fixed.len() < FIXED_MAX {
        let findings = check(&text);
        let cure = |finding: &Finding| match &finding.fixes[..] {
            [only] if !only.removes() => {
                let new = cured((&text, &findings), finding, only, check)?;
                Some((new, format!("{}: {}", finding.place.line, only.title())))
            }
            _ => None,
        };
        let Some((new, words)) = findings.iter().find_map(cure) else { break };
        text = new;
        fixed.push(words);
    }
    (text, fixed)
}

fn splice(text: &str, Span { start, end }: Span, new: &str) -> Result<String, String> {
    let outside = || "the place is not in the file".to_owned();
    let (before, after) = text.get(..start).zip(text.get(end..)).ok_or_else(outside)?;
    (start <= end).then(|| [before, new, after].concat()).ok_or_else(outside)
}

/// Extends the bytes of a key and its value: over the line if it holds nothing else but a comment,
/// or else over one comma.
fn with_separator(text: &str, Span { start, end }: Span) -> Span {
    let Some((before, after)) = text.get(..start).zip(text.get(end..)) else {
        return Span { start, end };
    };
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let rest = after.split('\n').next().unwrap_or(after);
    let is_alone = before[line..].trim().is_empty()
        && (rest.trim().is_empty() || rest.trim_start().starts_with('#'));
    if is_alone {
        return Span { start: line, end: (end + rest.len() + 1).min(text.len()) };
    }
    let blank = after.len() - after.trim_start().len();
    if let Some(rest) = after[blank..].strip_prefix(',') {
        return Span { start, end: text.len() - rest.trim_start().len() };
    }
    let start = before.trim_end().strip_suffix(',').map_or(start, str::len);
    Span { start, end }
}

/// Bound: fixes that are applied to one file at once; further ones stay.
const FIXED_MAX: usize = 1000;
/// The most keys that a title names.
const SHOWN_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Removes `key` from `text`.
    fn check(text: &str, key: &str, wanted: &str) {
        let start = text.find(key).expect("it is there");
        let fix = Fix::Remove(Span { start, end: start + key.len() });
        assert_eq!(fix.apply(text).as_deref(), Ok(wanted), "{text}");
    }

    #[test]
    fn a_key_is_removed_with_its_line_or_comma() {
        check("a = 1\nb = 2 # two\nc = 3\n", "b = 2", "a = 1\nc = 3\n");
        check("a = 1\nb = 2", "b = 2", "a = 1\n");
        check("t = { a = 1, b = 2 }", "a = 1", "t = { b = 2 }");
        check("t = { a = 1, b = 2 }", "b = 2", "t = { a = 1 }");
        check("t = { a = 1 }", "a = 1", "t = {  }");
    }

    #[test]
    fn a_place_outside_the_text_is_refused() {
        for (start, end) in [(2, 9), (3, 2), (9, 9)] {
            assert!(Fix::Replace(Span { start, end }, String::new()).apply("é=1").is_err());
            assert!(Fix::Remove(Span { start, end }).apply("é=1").is_err(), "{start} {end}");
        }
        assert!(Fix::Remove(Span { start: 1, end: 2 }).apply("é=1").is_err());
    }

    #[test]
    fn a_title_says_what_is_written() {
        let set = Fix::set(&["class", "a b", "rate"], "1 Mbit/s");
        assert_eq!(set.title(), "write `class.\"a b\".rate = \"1 Mbit/s\"`");
        assert_eq!(Fix::set(&["link", "places"], "").title(), "remove `link.places`");
        let many = vec![("a".to_owned(), "1".to_owned()); 5];
        assert!(Fix::Set(many).title().ends_with("`a = 1`, and 2 more"));
    }
}
