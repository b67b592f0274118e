//! Splits a `pf.conf` into statements: comments, continued lines, lists, macros.

use super::super::lines::{LineId, Reading};
use super::super::words::{Word, Words};
use super::join;
use std::collections::BTreeMap;
use weir_policy::codes;
use weir_policy::finding::{Draft, Span};

/// Returns the statements with macros expanded. A line ends where no brace is open and no backslash
/// precedes it; a macro's line is a statement of its own, with the fate kept.
pub(super) fn statements(text: &str, reading: &mut Reading) -> Vec<(LineId, Vec<Word>)> {
    let mut macros: BTreeMap<String, Vec<Word>> = BTreeMap::new();
    let mut out = Vec::new();
    let mut total = 0;
    for words in raw(text) {
        let (first, last) = (words[0].span, words[words.len() - 1].span);
        let line = reading.line(join(first, last));
        let is_macro = words.get(1).is_some_and(|word| word.text == "=" && !is_quoted(word, text));
        let fixed = |word: &Word| !is_macro && is_quoted(word, text);
        let Some(expanded) = expand(&words, fixed, &macros, reading) else { continue };
        total += expanded.len();
        if total > WORDS_MAX {
            let message = format!("with macros the file has more than {WORDS_MAX} words");
            reading.report.push(Draft::new(&codes::TOO_MANY, first, message).cure("split it up"));
            return out;
        }
        if is_macro {
            let value = expanded[2..].iter().flat_map(|word| words_of(&word.text, word.span));
            macros.insert(words[0].text.clone(), value.take(WORDS_MAX).collect());
        } else if !expanded.is_empty() {
            out.push((line, expanded));
        }
    }
    out
}

fn is_quoted(word: &Word, text: &str) -> bool {
    text[word.span.start..].starts_with(['"', '\''])
}

/// Returns the words of each statement; quoted text is one word, without the quotes.
fn raw(text: &str) -> Vec<Vec<Word>> {
    let mut statements = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let (mut at, mut depth, mut anchors) = (0, 0_usize, 0_usize);
    while let Some(c) = text[at..].chars().next() {
        let next = at + c.len_utf8();
        at = match c {
            '#' => at + text[at..].find('\n').unwrap_or(text.len() - at),
            '\\' => next + usize::from(text[next..].starts_with('\n')),
            '\n' if depth == 0 => {
                statements.extend((!words.is_empty()).then(|| std::mem::take(&mut words)));
                next
            }
            '"' | '\'' => {
                let length = text[next..].find(c);
                let end = length.map_or(text.len(), |length| next + length);
                let inside = text[next..end].replace("\\\n", " ");
                words.push(Word { text: inside, span: Span { start: at, end } });
                (end + 1).min(text.len())
            }
            c if c.is_whitespace() => next,
            '{' if depth == 0 && opens(&words) => {
                words[0].text = ANCHOR.to_owned();
                statements.push(std::mem::take(&mut words));
                anchors += 1;
                next
            }
            '}' if depth == 0 && anchors > 0 => {
                statements.extend((!words.is_empty()).then(|| std::mem::take(&mut words)));
                let span = Span { start: at, end: next };
                statements.push(vec![Word { text: c.to_string(), span }]);
                anchors -= 1;
                next
            }
            c if OWN.contains(c) => {
                depth += usize::from(c == '{');
                depth = depth.saturating_sub(usize::from(c == '}'));
                let span = Span { start: at, end: next };
                words.push(Word { text: c.to_string(), span });
                next
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || OWN.contains(c) || "#\"'\\".contains(c);
                let end = text[at..].find(ends).map_or(text.len(), |length| at + length);
                let word = text[at..end].to_owned();
                words.push(Word { text: word, span: Span { start: at, end } });
                end
            }
        };
    }
    statements.extend((!words.is_empty()).then_some(words));
    statements
}

/// Whether a brace behind these words opens the body of an anchor rather than a list.
fn opens(words: &[Word]) -> bool {
    let is_list = |word: &Word| ["proto", "on", "from", "to", "port", "!"].contains(&&*word.text);
    let is_anchor = words.first().is_some_and(|word| word.text == "anchor");
    is_anchor && !words.last().is_some_and(is_list)
}

/// Returns the words of a macro's value, all at the place of the value.
fn words_of(text: &str, span: Span) -> Vec<Word> {
    if text.is_empty() || text.len() == 1 {
        return vec![Word { text: text.to_owned(), span }];
    }
    let words = raw(&text.replace('\n', " ")).into_iter().flatten();
    words.map(|word| Word { span, ..word }).collect()
}

/// Replaces macros, but not in words that are `fixed`: `label "$nr"` is for pf to fill in.
fn expand(
    words: &[Word],
    fixed: impl Fn(&Word) -> bool,
    macros: &BTreeMap<String, Vec<Word>>,
    reading: &mut Reading,
) -> Option<Vec<Word>> {
    let mut out = Vec::new();
    for word in words {
        // Also inside quotes: the value of a macro may name other macros.
        if !word.text.contains('$') || fixed(word) {
            out.push(word.clone());
            continue;
        }
        for part in word.text.split_whitespace() {
            let Some((before, name)) = part.split_once('$') else {
                out.push(Word { text: part.to_owned(), span: word.span });
                continue;
            };
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            let (name, after) = name.split_at(end);
            let Some(value) = macros.get(name) else {
                let names = macros.keys().map(String::as_str);
                reading.undeclared((name, word.span), "macro", names);
                return None;
            };
            let values = value.iter().map(|value| Word { span: word.span, ..value.clone() });
            let start = out.len();
            out.extend(values);
            if let Some(first) = out.get_mut(start).filter(|_| !before.is_empty()) {
                first.text.insert_str(0, before);
            }
            if let Some(last) = out.last_mut().filter(|_| !after.is_empty()) {
                last.text.push_str(after);
            }
            if out.len() > WORDS_MAX {
                return Some(out);
            }
        }
    }
    Some(out)
}

/// Reads one word, or several in braces, with or without commas.
pub(super) fn list(words: &mut Words, what: &str, reading: &mut Reading) -> Option<Vec<Word>> {
    let first = words.need(what, reading)?;
    if first.text == "{" {
        return rest_of_list(words, what, reading);
    }
    Some(vec![first])
}

/// Reads the words up to the closing brace.
pub(super) fn rest_of_list(
    words: &mut Words,
    what: &str,
    reading: &mut Reading,
) -> Option<Vec<Word>> {
    let (mut list, mut depth) = (Vec::new(), 1_usize);
    // Lists in lists come from macros, and are flattened.
    while depth > 0 {
        let word = words.need(&format!("{what}, or `}}`"), reading)?;
        match word.text.as_str() {
            "}" => depth -= 1,
            "{" => depth += 1,
            "," => {}
            _ => list.push(word),
        }
    }
    Some(list)
}

/// The first word of the statement that opens an anchor with a body, which ends with `}`.
pub(super) const ANCHOR: &str = "anchor {";
/// Characters that are words of their own.
const OWN: &str = "{}(),=!<>";
/// Bound: words of a file of pf with macros expanded; a file with more is refused.
const WORDS_MAX: usize = 1 << 20;
