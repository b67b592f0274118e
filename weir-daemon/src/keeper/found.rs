//! The findings of a forwarder on the files of its link, as its keeper prints them: a keeper reads
//! no policy.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sanitise::{NOTES_MAX, sanitise_text};
use weir_host::printable::printable;
use weir_policy::Severity;
use weir_policy::finding::Outcome;
use weir_policy::render;

/// Findings on a deployment and its policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// How many of them are errors.
    pub errors: usize,
    /// How many of them are warnings.
    pub warnings: usize,
    /// All of them, as `weir check` prints them.
    pub text: String,
    /// Their numbers, in a line.
    pub summary: String,
    /// All of them, in the form that they have in JSON.
    pub findings: Vec<Value>,
    /// Classes that the kernel cannot keep apart, if there is no error.
    pub notes: Vec<String>,
    /// Whether the classes that had joined the link do not fit its files any more, and were left
    /// out.
    pub leaves_joined: bool,
}

impl Found {
    /// Describes what reading found.
    pub fn of<T>(outcome: &Outcome<T>, colour: bool) -> Self {
        let Outcome { findings, sources, .. } = outcome;
        let json = |finding| serde_json::to_value(finding).expect("findings have a form in JSON");
        Self {
            errors: outcome.count(Severity::Error),
            warnings: outcome.count(Severity::Warning),
            text: render::render(findings, sources, colour),
            summary: render::summary(findings),
            findings: findings.iter().map(json).collect(),
            notes: Vec::new(),
            leaves_joined: false,
        }
    }

    /// Returns all of it as text, of the deployment `name`.
    pub fn describe(&self, name: &str) -> String {
        format!("{}{name}: {}", self.text, self.summary)
    }

    /// Makes it fit for a keeper, which prints it: only colours stay of what controls a terminal.
    /// In JSON nothing does.
    pub(super) fn sanitise(&mut self) {
        sanitise_text(&mut self.summary);
        self.notes.truncate(NOTES_MAX);
        self.notes.iter_mut().for_each(sanitise_text);
        self.findings.truncate(FINDINGS_MAX);
        cut_lines(&mut self.text);
        self.text = coloured_lines(&self.text);
        // What is escaped is longer than before.
        cut_lines(&mut self.text);
    }
}

/// Cuts a text to the whole lines of its first [`TEXT_MAX`] characters.
fn cut_lines(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_MAX) {
        text.truncate(text[..end].rfind('\n').map_or(0, |line| line + 1));
    }
}

/// Returns a text of which lines and colours stay, and nothing else that controls a terminal.
fn coloured_lines(text: &str) -> String {
    let line = |line: &str| {
        let mut parts = line.split('\u{1b}');
        let first = parts.next().unwrap_or_default();
        let coloured = parts.map(|part| {
            let end = part.find(|c: char| !(c.is_ascii_digit() || "[;".contains(c)));
            match end.filter(|end| part.starts_with('[') && part[*end..].starts_with('m')) {
                Some(end) => format!("\u{1b}{}{}", &part[..=end], printable(&part[end + 1..])),
                None => printable(&format!("\u{1b}{part}")).into_owned(),
            }
        });
        let rest: String = coloured.collect();
        format!("{}{rest}", printable(first))
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Bound: findings of a forwarder's report; further ones are left out. Those of a deployment and of
/// 64 policies, each with its own bound.
const FINDINGS_MAX: usize = 10_000;
/// The most characters of all of them as text.
const TEXT_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_colours_stay_and_nothing_else_that_controls() {
        let rows = [
            ("one\ntwo\n\n", "one\ntwo\n\n"),
            (
                "\u{1b}[1m\u{1b}[38;5;9merror\u{1b}[0m: x",
                "\u{1b}[1m\u{1b}[38;5;9merror\u{1b}[0m: x",
            ),
            ("\u{1b}[2Jx", "\\u{1b}[2Jx"),
            ("\u{1b}", "\\u{1b}"),
            ("\u{1b}]0;title\u{7}m", "\\u{1b}]0;title\\u{7}m"),
            ("\u{1b}31mx", "\\u{1b}31mx"),
            ("a\rb\u{202e}", "a\\u{d}b\\u{202e}"),
        ];
        for (text, expected) in rows {
            assert_eq!(coloured_lines(text), expected);
        }
    }

    #[test]
    fn findings_are_those_of_a_check() {
        let outcome = weir_policy::parse("[link]\nrate = 1\n", "p.toml");
        let found = Found::of(&outcome, false);
        assert_eq!(found.errors, outcome.count(Severity::Error));
        assert_eq!(found.findings.len(), outcome.findings.len());
        let mut sanitised = found.clone();
        sanitised.sanitise();
        assert_eq!(sanitised, found, "what a check prints is fit to print");
        let last = found.describe("d.toml");
        assert!(last.ends_with(&format!("\n\nd.toml: {}", found.summary)), "{last}");
    }
}
