//! Runs the `tc` commands of a shell script or a batch file.
//!
//! Simple commands, variables, whole-number arithmetic and `for` over words are interpreted.
//! Conditions, functions and the output of other programs are not; a command that depends on them
//! is lost, with a note. Commands run, words of a command and bytes of a value are bounded.

use super::super::lines::{LineId, Reading};
use super::super::words::Word;
use std::collections::BTreeMap;
use weir_policy::codes;
use weir_policy::finding::{Draft, Span};

/// A command of the file with its variables expanded.
pub(super) struct Command {
    pub line: LineId,
    pub words: Vec<Word>,
}

/// A command as written.
#[derive(Clone, Debug)]
struct Simple {
    span: Span,
    words: Vec<Word>,
}

/// Returns the commands in the order in which they run. A comment `# class 1:10 is NAME` becomes
/// the command `#class 1:10 NAME`.
pub(super) fn commands(text: &str, reading: &mut Reading) -> Vec<Command> {
    let simples = lex(text);
    let mut shell =
        Shell { simples: &simples, variables: BTreeMap::new(), out: Vec::new(), steps: 0 };
    shell.run(0, simples.len(), reading);
    shell.out
}

struct Shell<'s> {
    simples: &'s [Simple],
    /// `None`: the value comes from a command that is not run.
    variables: BTreeMap<String, Option<String>>,
    out: Vec<Command>,
    steps: usize,
}

impl Shell<'_> {
    /// Runs the commands of the range; returns false at the end of the script.
    fn run(&mut self, mut at: usize, end: usize, reading: &mut Reading) -> bool {
        while at < end {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                let span = self.simples[at].span;
                let message = format!("the script runs more than {STEPS_MAX} commands");
                let draft = Draft::new(&codes::TOO_MANY, span, message);
                if !reading.report.failed() {
                    reading.report.push(draft.cure("split it up"));
                }
                return false;
            }
            let first = self.simples[at].words[0].text.as_str();
            let close = BLOCKS.iter().find(|row| row.0 == first);
            match close {
                Some(("for", _)) => {
                    let done = self.close_of(at, end);
                    if !self.run_for(at, done, reading) {
                        return false;
                    }
                    at = done + 1;
                }
                Some(_) => {
                    let close = self.close_of(at, end);
                    self.lose(at, close + 1, "conditions and functions of the shell", reading);
                    at = close + 1;
                }
                None if first == "exit" || first == "return" => {
                    let line = reading.line(self.simples[at].span);
                    reading.noted(line, "ends the script");
                    self.lose(at + 1, end, "commands after the end of the script", reading);
                    return false;
                }
                None => {
                    self.simple(at, reading);
                    at += 1;
                }
            }
        }
        true
    }

    /// Returns the end of the block that begins at `at`, at most the last command of the file.
    fn close_of(&self, at: usize, end: usize) -> usize {
        let first = self.simples[at].words[0].text.as_str();
        let close = BLOCKS.iter().find(|row| row.0 == first).map_or("", |row| row.1);
        let mut depth = 0_usize;
        for index in at..end {
            let word = self.simples[index].words[0].text.as_str();
            depth += usize::from(BLOCKS.iter().any(|row| row.0 == word && row.1 == close));
            depth -= usize::from(word == close);
            if depth == 0 {
                return index;
            }
        }
        end.saturating_sub(1)
    }

    fn lose(&mut self, from: usize, to: usize, what: &str, reading: &mut Reading) {
        let to = to.min(self.simples.len());
        for simple in self.simples.get(from..to).unwrap_or_default() {
            if IGNORED.contains(&simple.words[0].text.as_str()) {
                continue;
            }
            let line = reading.line(simple.span);
            reading.way_out = Some(ECHO);
            reading.lost(line, format!("{what} are not run: {ECHO}"));
            if let Some((name, _)) = simple.words[0].text.split_once('=') {
                self.variables.insert(name.to_owned(), None);
            }
        }
    }

    /// Runs `for NAME in WORDS`, whose `do` and body follow up to `done`.
    fn run_for(&mut self, at: usize, done: usize, reading: &mut Reading) -> bool {
        let simples = self.simples;
        let simple = &simples[at];
        let line = reading.line(simple.span);
        let name = simple.words.get(1).map(|word| word.text.clone()).unwrap_or_default();
        let mut values = Vec::new();
        for word in simple.words.iter().skip(3) {
            match self.expand(word) {
                Some(expanded) => values.extend(expanded),
                None => {
                    reading.lost(line, "its words come from a command that is not run");
                    return true;
                }
            }
            if values.len() > WORDS_MAX {
                reading.lost(line, format!("it has more than {WORDS_MAX} words"));
                return true;
            }
        }
        for value in values {
            self.variables.insert(name.clone(), Some(value.text));
            if !self.run(at + 1, done, reading) {
                return false;
            }
        }
        true
    }

    fn simple(&mut self, at: usize, reading: &mut Reading) {
        let simples = self.simples;
        let simple = &simples[at];
        let first = simple.words[0].text.as_str();
        if IGNORED.contains(&first) {
            return;
        }
        let line = reading.line(simple.span);
        if simple.words.len() > WORDS_MAX {
            return reading.lost(line, format!("it has more than {WORDS_MAX} words"));
        }
        if self.assign(simple, line, reading) {
            return;
        }
        let mut words = Vec::new();
        for word in &simple.words {
            let Some(expanded) = self.expand(word) else {
                let shown: String = word.text.chars().take(40).collect();
                reading.way_out = Some(ECHO);
                let why = format!("`{shown}` cannot be known without running the script");
                return reading.lost(line, why);
            };
            words.extend(expanded);
            if words.len() > WORDS_MAX {
                return reading.lost(line, format!("it has more than {WORDS_MAX} words"));
            }
        }
        if !words.is_empty() {
            self.out.push(Command { line, words });
        }
    }

    /// Runs `NAME=VALUE`, also behind `export`, `local` or `readonly`.
    fn assign(&mut self, simple: &Simple, line: LineId, reading: &mut Reading) -> bool {
        let prefix = ["export", "local", "readonly", "declare"];
        let skip = usize::from(prefix.contains(&simple.words[0].text.as_str()));
        let is_name = |text: &str| {
            let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
            first && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let rows: Vec<(&str, &str, Span)> = simple.words[skip..]
            .iter()
            .filter_map(|word| Some((word.text.split_once('=')?, word.span)))
            .map(|((name, value), span)| (name, value, span))
            .collect();
        let all = rows.len() == simple.words.len() - skip && rows.iter().all(|row| is_name(row.0));
        if rows.is_empty() || !all {
            return false;
        }
        for (name, value, span) in rows {
            let word = Word { text: value.to_owned(), span };
            let value = self
                .expand(&word)
                .map(|words| words.into_iter().map(|word| word.text).collect::<Vec<_>>().join(" "));
            if value.is_none() {
                reading.lost(line, "its value comes from a command that is not run");
            }
            self.variables.insert(name.to_owned(), value);
        }
        true
    }

    /// Expands a word as written into words; none if a value is unknown.
    fn expand(&self, word: &Word) -> Option<Vec<Word>> {
        let mut out = vec![String::new()];
        let mut quoted_any = false;
        let mut quote = None;
        let mut rest = word.text.as_str();
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            let current = out.last_mut().expect("there is always a word");
            rest = match (quote, c) {
                (Some(open), c) if c == open => {
                    quote = None;
                    after
                }
                (None, '\'' | '"') => {
                    (quote, quoted_any) = (Some(c), true);
                    after
                }
                (Some('\''), c) => {
                    current.push(c);
                    after
                }
                (_, '\\') => {
                    let mut chars = after.chars();
                    current.extend(chars.next());
                    chars.as_str()
                }
                (_, '`') => return None,
                (_, '$') => {
                    let (value, after) = self.substitute(after)?;
                    splice(&mut out, &value, quote.is_some());
                    after
                }
                (_, c) => {
                    current.push(c);
                    after
                }
            };
            if out.iter().map(String::len).sum::<usize>() > VALUE_MAX {
                return None;
            }
        }
        if !quoted_any {
            out.retain(|text| !text.is_empty());
        }
        Some(out.into_iter().map(|text| Word { text, span: word.span }).collect())
    }

    /// Returns the value of the text behind a `$`, and the rest.
    fn substitute<'t>(&self, text: &'t str) -> Option<(String, &'t str)> {
        if let Some(after) = text.strip_prefix("((") {
            let end = after.find("))")?;
            let value = arithmetic(&after[..end], &|name| self.number(name))?;
            return Some((value.to_string(), &after[end + 2..]));
        }
        if text.starts_with('(') {
            return None;
        }
        if let Some(after) = text.strip_prefix('{') {
            let (inside, after) = after.split_once('}')?;
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default.trim_matches('"').to_owned())),
                None => (inside, None),
            };
            let known = self.variables.get(name);
            return match known {
                Some(value) => Some((value.clone()?, after)),
                None => Some((default?, after)),
            };
        }
        let name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        let end = text.chars().take_while(name).map(char::len_utf8).sum();
        let value = self.variables.get(&text[..end])?.clone()?;
        Some((value, &text[end..]))
    }

    fn number(&self, name: &str) -> Option<i64> {
        let value = self.variables.get(name)?.as_deref()?;
        value.trim().parse().ok()
    }
}

/// Appends a value: unchanged inside quotes, as several words outside.
fn splice(out: &mut Vec<String>, value: &str, quoted: bool) {
    if quoted {
        out.last_mut().expect("there is always a word").push_str(value);
        return;
    }
    if value.starts_with(char::is_whitespace) {
        out.push(String::new());
    }
    for (index, part) in value.split_whitespace().enumerate() {
        if index > 0 {
            out.push(String::new());
        }
        out.last_mut().expect("there is always a word").push_str(part);
    }
    if value.ends_with(char::is_whitespace) {
        out.push(String::new());
    }
}

/// Evaluates whole numbers, names, `+ - * / %` and parentheses; none on an error.
fn arithmetic(text: &str, value: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    let mut parser = Arithmetic { rest: text, value, depth: 0 };
    let sum = parser.sum()?;
    parser.rest.trim().is_empty().then_some(sum)
}

struct Arithmetic<'t> {
    rest: &'t str,
    value: &'t dyn Fn(&str) -> Option<i64>,
    depth: usize,
}

impl Arithmetic<'_> {
    fn next(&mut self, wanted: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let c = self.rest.chars().next().filter(|c| wanted.contains(c))?;
        self.rest = &self.rest[1..];
        Some(c)
    }

    fn sum(&mut self) -> Option<i64> {
        let mut sum = self.product()?;
        while let Some(operator) = self.next(&['+', '-']) {
            let other = self.product()?;
            let other = if operator == '-' { other.checked_neg()? } else { other };
            sum = sum.checked_add(other)?;
        }
        Some(sum)
    }

    fn product(&mut self) -> Option<i64> {
        let mut product = self.atom()?;
        while let Some(operator) = self.next(&['*', '/', '%']) {
            let other = self.atom()?;
            product = match operator {
                '*' => product.checked_mul(other)?,
                '/' => product.checked_div(other)?,
                _ => product.checked_rem(other)?,
            };
        }
        Some(product)
    }

    fn atom(&mut self) -> Option<i64> {
        if self.next(&['(']).is_some() {
            self.depth += 1;
            let sum = if self.depth > ARITHMETIC_DEPTH { None } else { self.sum() };
            self.depth -= 1;
            self.next(&[')'])?;
            return sum;
        }
        self.next(&['$']);
        let name = |c: &char| c.is_ascii_alphanumeric() || "_{}".contains(*c);
        let end = self.rest.chars().take_while(name).map(char::len_utf8).sum();
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let word = word.trim_matches(['{', '}']);
        word.parse().ok().or_else(|| (self.value)(word))
    }
}

/// Splits a script into simple commands; keywords that open or divide blocks are commands of their
/// own.
fn lex(text: &str) -> Vec<Simple> {
    let mut lexer = Lexer { simples: Vec::new(), words: Vec::new(), word: None };
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let next = at + c.len_utf8();
        at = match c {
            '\\' if text[next..].starts_with('\n') => {
                lexer.end_word(text, at);
                next + 1
            }
            '\\' => {
                lexer.begin_word(at);
                next + text[next..].chars().next().map_or(0, char::len_utf8)
            }
            '\'' | '"' | '`' => {
                lexer.begin_word(at);
                next + text[next..].find(c).map_or(text.len() - next, |end| end + 1)
            }
            '$' => {
                lexer.begin_word(at);
                next + expansion(&text[next..])
            }
            '#' if lexer.word.is_none() => {
                let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
                lexer.comment(text, at, end);
                end
            }
            '\n' | ';' | '&' | '|' | '(' | ')' => {
                // `2>&1` is one word.
                let redirected = c == '&' && text[..at].ends_with('>');
                if !redirected {
                    lexer.end_word(text, at);
                    lexer.end_command();
                }
                next
            }
            c if c.is_whitespace() => {
                lexer.end_word(text, at);
                next
            }
            _ => {
                lexer.begin_word(at);
                next
            }
        };
    }
    lexer.end_word(text, text.len());
    lexer.end_command();
    lexer.simples
}

/// Returns the length of an expansion behind a `$` that may contain blanks.
fn expansion(text: &str) -> usize {
    let (open, close) = match text.chars().next() {
        Some('(') => ('(', ')'),
        Some('{') => ('{', '}'),
        _ => return 0,
    };
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        depth += usize::from(c == open);
        depth -= usize::from(c == close);
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

struct Lexer {
    simples: Vec<Simple>,
    words: Vec<Word>,
    word: Option<usize>,
}

impl Lexer {
    fn begin_word(&mut self, at: usize) {
        self.word.get_or_insert(at);
    }

    fn end_word(&mut self, text: &str, at: usize) {
        let Some(start) = self.word.take() else { return };
        let word = &text[start..at];
        let redirection = word.trim_start_matches(|c: char| c.is_ascii_digit());
        if redirection.starts_with(['>', '<']) {
            return;
        }
        self.words.push(Word { text: word.to_owned(), span: Span { start, end: at } });
        let keyword = self.words.len() == 1 && ALONE.contains(&word);
        if keyword {
            self.end_command();
        }
    }

    fn end_command(&mut self) {
        let words = std::mem::take(&mut self.words);
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return };
        let span = Span { start: first.span.start, end: last.span.end };
        self.simples.push(Simple { span, words });
    }

    fn comment(&mut self, text: &str, start: usize, end: usize) {
        let words: Vec<&str> = text[start + 1..end].split_whitespace().collect();
        let ["class", id, "is", name] = words.as_slice() else { return };
        self.end_command();
        let span = Span { start, end };
        let word = |text: &str| Word { text: text.to_owned(), span };
        let words = vec![word("#class"), word(id), word(name)];
        self.simples.push(Simple { span, words });
    }
}

/// How to import what is not interpreted.
const ECHO: &str = "put `echo` before each `tc`, run the script, and import what it prints";
/// Words that open a block, each with the word that ends it.
const BLOCKS: [(&str, &str); 6] = [
    ("for", "done"),
    ("while", "done"),
    ("until", "done"),
    ("if", "fi"),
    ("case", "esac"),
    ("{", "}"),
];
/// Words behind which another command begins.
const ALONE: [&str; 9] = ["do", "then", "else", "{", "}", "done", "fi", "esac", "!"];
/// Commands without effect on an interface.
const IGNORED: [&str; 16] = [
    "do", "then", "else", "done", "fi", "esac", "}", "!", "set", "echo", "shift", "true", ":",
    "sleep", "printf", "#!",
];
/// Bound: commands that an imported script runs; the rest is not run, and that is reported.
const STEPS_MAX: usize = 1 << 16;
/// The most words of a command.
const WORDS_MAX: usize = 512;
/// The most bytes of a word with its variables expanded.
const VALUE_MAX: usize = 1 << 14;
const ARITHMETIC_DEPTH: usize = 16;
