//! Splits a text into the commands of `tc`, each judged alone: plain lines of `tc` and of
//! `tc -batch`, and what `tc ... show` prints. Nothing is run, and nothing of a shell is evaluated:
//! a line that is anything else is an error that names what reads a script and a kernel.

use super::super::lines::{LineId, Reading};
use super::super::words::Word;
use super::shown::{self, Shown};
use super::{ACTIONS, OBJECTS};
use weir_policy::codes;
use weir_policy::finding::{Draft, Span};
use weir_policy::reader::suggest;

/// A command of the file, from its object on: `qdisc add dev eth0 ...`.
pub(in crate::import) struct Command {
    pub line: LineId,
    pub words: Vec<Word>,
}

/// Returns the commands in the order in which they would run. A comment `# class 1:10 is NAME`
/// becomes the command `#class 1:10 NAME`, and `# device NAME has no Ethernet header` becomes
/// `#device NAME no`. `device` is that of shown lines that name none.
pub(super) fn commands(text: &str, device: &str, reading: &mut Reading) -> Vec<Command> {
    let mut all = All { out: Vec::new(), shown: Vec::new() };
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.trim_start().starts_with(['[', '{']) {
            let blank = rest.len() - rest.trim_start().len();
            if let Some((found, length)) = shown::json(&rest[blank..], at + blank) {
                all.shown.extend(found);
                at += blank + length.max(1);
                continue;
            }
        }
        let (line, length) = logical_line(rest);
        if !all.line(line, at, reading) {
            return Vec::new();
        }
        at += length;
    }
    for (span, words) in shown::commands(all.shown, device) {
        all.out.push(Command { line: reading.line(span), words });
    }
    all.out
}

struct All {
    out: Vec<Command>,
    shown: Vec<Shown>,
}

impl All {
    /// Reads a line; returns false after one that ends the reading.
    fn line(&mut self, line: &str, at: usize, reading: &mut Reading) -> bool {
        let trimmed = line.trim();
        let start = at + (line.len() - line.trim_start().len());
        let span = Span { start, end: start + trimmed.len() };
        if trimmed.is_empty() || trimmed == ":" || trimmed.starts_with(": ") {
            return true;
        }
        if let Some(comment) = trimmed.strip_prefix('#') {
            self.comment(comment, span, reading);
            return true;
        }
        if line.starts_with(char::is_whitespace)
            && let Some(last) = self.shown.last_mut()
        {
            last.further(trimmed);
            return true;
        }
        if self.shown.last().is_some_and(|last| last.has_figures(trimmed)) {
            return true;
        }
        if let Some(one) = Shown::begin(trimmed, span) {
            self.shown.push(one);
            return true;
        }
        // The command runs whatever its exit code is.
        let whole = HARMLESS.iter().find_map(|end| line.trim_end().strip_suffix(end));
        let read = match split(whole.unwrap_or(line), at) {
            Ok(words) if words.len() > WORDS_MAX => {
                let line = reading.line(span);
                reading.lost(line, format!("it has more than {WORDS_MAX} words"));
                return true;
            }
            Ok(words) => plain(words),
            Err(()) => None,
        };
        match read {
            Some(words) => {
                self.out.push(Command { line: reading.line(span), words });
                true
            }
            None => refuse(trimmed, span, reading),
        }
    }

    fn comment(&mut self, comment: &str, span: Span, reading: &mut Reading) {
        let word = |text: &str| Word { text: text.to_owned(), span };
        let words: Vec<&str> = comment.split_whitespace().collect();
        let words = match words.as_slice() {
            ["class", id, "is", name] => vec![word("#class"), word(id), word(name)],
            ["device", name, "has", which @ ("a" | "an" | "no"), "Ethernet", "header"] => {
                vec![word("#device"), word(name), word(which)]
            }
            _ => return,
        };
        self.out.push(Command { line: reading.line(span), words });
    }
}

/// Reports a line that is no command of tc; returns whether the rest is read.
fn refuse(line: &str, span: Span, reading: &mut Reading) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    if suggest(first, &OBJECTS).starts_with("did you mean") {
        let word = Span { start: span.start, end: span.start + first.len() };
        reading.unknown((first, word), "object of tc", &OBJECTS);
        return true;
    }
    let shown: String = line.chars().take(SHOWN_MAX).collect();
    let message = format!("`{shown}` is no plain line of tc, and Weir evaluates no shell");
    let draft = Draft::new(&codes::UNKNOWN_STATEMENT, span, message);
    if !reading.report.failed() {
        reading.report.push(draft.cure(WAYS));
    }
    false
}

/// Returns the words from the object on, if the line runs `tc`.
fn plain(mut words: Vec<Word>) -> Option<Vec<Word>> {
    let starts = |words: &[Word], at: usize, name: &str| {
        words.get(at).is_some_and(|word| {
            word.text == name || word.text.rsplit('/').next() == Some(name) && name.len() < 9
        })
    };
    let span = words.first()?.span;
    if starts(&words, 0, "sudo") {
        words.remove(0);
    }
    // `ip netns exec NAME tc ...` and `ip -n NAME ...` act in another network.
    if starts(&words, 0, "ip") && starts(&words, 1, "netns") && starts(&words, 2, "exec") {
        words.drain(..4.min(words.len()));
    }
    if starts(&words, 0, "ip") {
        while words.get(1).is_some_and(|word| word.text.starts_with('-')) {
            let valued = ["-n", "-netns"].contains(&words[1].text.as_str());
            words.drain(1..(2 + usize::from(valued)).min(words.len()));
        }
        let length = words.iter().any(|word| ["txqueuelen", "qlen"].contains(&word.text.as_str()));
        let sets = starts(&words, 1, "link") && starts(&words, 2, "set");
        return (length && sets).then_some(words);
    }
    if starts(&words, 0, "tc") {
        words.remove(0);
        while let Some(option) = words.first().filter(|word| word.text.starts_with('-')) {
            let valued = VALUED.contains(&option.text.as_str());
            words.drain(..(1 + usize::from(valued)).min(words.len()));
        }
        if words.is_empty() {
            words.push(Word { text: "#batch".to_owned(), span });
        }
        return Some(words);
    }
    let first = words.first()?.text.as_str();
    let object = OBJECTS.contains(&first);
    let short = words.get(1).is_some_and(|word| ACTIONS.contains(&word.text.as_str()));
    let known = OBJECTS.iter().any(|object| object.starts_with(first));
    (object || short && known).then_some(words)
}

/// Returns the first line with those that a backslash joins to it, and its length with the end.
fn logical_line(text: &str) -> (&str, usize) {
    let mut end = 0;
    loop {
        let here = text[end..].find('\n').map_or(text.len(), |found| end + found);
        if here == text.len() || !text[..here].trim_end_matches('\r').ends_with('\\') {
            return (&text[..here], (here + 1).min(text.len()));
        }
        end = here + 1;
    }
}

/// Splits a line into words, with the quotes of `tc -batch`; an error where a shell would do more
/// than that. What goes to `/dev/null` is left out.
fn split(line: &str, offset: usize) -> Result<Vec<Word>, ()> {
    let mut words: Vec<Word> = Vec::new();
    let mut chars = line.char_indices().peekable();
    while let Some(&(start, c)) = chars.peek() {
        if c.is_whitespace() {
            chars.next();
            continue;
        }
        if c == '#' {
            break;
        }
        let (mut text, mut quotes) = (String::new(), false);
        let mut end = start;
        while let Some(&(at, c)) = chars.peek() {
            if c.is_whitespace() {
                break;
            }
            chars.next();
            end = at + c.len_utf8();
            match c {
                '\'' | '"' => {
                    quotes = true;
                    let quoted: String =
                        chars.by_ref().map(|(_, c)| c).take_while(|other| *other != c).collect();
                    let evaluated = c == '"' && quoted.contains(['$', '`', '\\']);
                    end += quoted.len() + 1;
                    text.push_str(&quoted);
                    if evaluated || end > line.len() {
                        return Err(());
                    }
                }
                '\\' => match chars.next() {
                    Some((_, '\n' | '\r')) | None => break,
                    Some((at, c)) => {
                        end = at + c.len_utf8();
                        text.push(c);
                    }
                },
                '$' | '`' | ';' | '|' | '(' | ')' | '<' | '*' | '?' | '{' | '}' => return Err(()),
                '&' if !text.ends_with('>') => return Err(()),
                c => text.push(c),
            }
        }
        let span = Span { start: offset + start, end: offset + end };
        if quotes || !text.is_empty() {
            words.push(Word { text, span });
        }
    }
    without_redirections(words)
}

/// Leaves out redirections to `/dev/null` and of one output into another.
fn without_redirections(words: Vec<Word>) -> Result<Vec<Word>, ()> {
    let mut out = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let Some((before, after)) = word.text.split_once('>') else {
            out.push(word);
            continue;
        };
        let target = match after.trim_start_matches('>') {
            "" => words.next().map_or_else(String::new, |word| word.text),
            after => after.to_owned(),
        };
        let harmless = target == "/dev/null" || target.starts_with('&');
        if !harmless || !before.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(());
        }
    }
    if out.is_empty() { Err(()) } else { Ok(out) }
}

/// The ways out for a list of commands that needs a shell.
const WAYS: &str = "`weir import tc --run FILE` runs a script in a sandbox and imports the \
                    commands that it gives, `weir import tc --from-kernel` reads what is in \
                    force; or give the tc commands alone";
/// Ends of a line without any effect on what it does.
const HARMLESS: [&str; 2] = ["|| true", "|| :"];
/// Options of tc with a value.
const VALUED: [&str; 7] = ["-n", "-net", "-netns", "-b", "-batch", "-cf", "-conf"];
/// The most words of a command.
const WORDS_MAX: usize = 512;
/// The most characters of a line in a message.
const SHOWN_MAX: usize = 60;
