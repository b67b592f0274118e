//! The sources of `weir import`: a file, the kernel, or the calls of a script that ran in a
//! sandbox.

use super::Import;
use crate::input;
use crate::output::Output;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use weir_host::disciplines::{Disciplines, disciplines};
use weir_host::netns::NetNs;
use weir_host::printable::printable;
use weir_host::script::{Asked, Note, Script};
use weir_import::import::kernel;

/// A text to import.
pub(super) struct Source {
    /// Its name in messages.
    pub name: String,
    pub bytes: Vec<u8>,
    /// The calls of a script beside tc.
    pub called: Vec<String>,
    /// The questions of a script.
    pub questions: Vec<Question>,
    /// Whether a script failed or lacked an answer, so that commands may be missing or wrong.
    pub is_cut: bool,
}

/// A call of a script that asked, such as `ip route get`.
#[derive(Debug, Serialize)]
pub(super) struct Question {
    call: String,
    /// Whether this machine answered.
    answered: bool,
    /// The line of the first command of tc after it.
    before_line: usize,
}

impl Import {
    /// Returns the text.
    pub(super) fn source(&self, output: &Output) -> Result<Source, String> {
        let of_tc = self.from_kernel || !self.run.is_empty();
        if of_tc && self.language != "tc" {
            return Err("`--from-kernel` and `--run` are for `weir import tc`".to_owned());
        }
        if self.from_kernel {
            return self.of_kernel();
        }
        if let Some((script, arguments)) = self.run.split_first() {
            if arguments.iter().any(|one| one.to_string_lossy().starts_with("--out")) {
                output.warn(
                    "`--out` behind the script is an argument of the script; write it before \
                     `--run`",
                );
            }
            let time_max = Duration::from_secs(self.time_limit.clamp(1, TIME_MAX));
            let script =
                Script { path: PathBuf::from(script), arguments: arguments.to_vec(), time_max };
            return of_script(&script, output);
        }
        let Some(file) = &self.file else {
            let other =
                if self.language == "tc" { ", or `--from-kernel`, or `--run SCRIPT`" } else { "" };
            return Err(format!("`weir import {}` wants a FILE{other}", self.language));
        };
        let name = file.display().to_string();
        let bytes = input::read(file).map_err(|error| format!("cannot read {name}: {error}"))?;
        Ok(Source::whole(name, bytes))
    }

    fn of_kernel(&self) -> Result<Source, String> {
        let dev = self.dev.as_deref();
        let found = match &self.netns {
            Some(name) => NetNs::named(name).and_then(|one| one.run(|| disciplines(dev))?),
            None => disciplines(dev),
        };
        let found = found.map_err(|error| error.to_string())?;
        let interfaces: Vec<_> = found.into_iter().map(interface).collect();
        let text = kernel::commands(&interfaces);
        if text.is_empty() {
            let which = dev.map_or("no interface".to_owned(), |dev| format!("`{dev}` does not"));
            let has = if dev.is_some() { "have" } else { "has" };
            return Err(format!(
                "{which} {has} a discipline but the kernel's own: `tc qdisc show`"
            ));
        }
        let name = "the kernel".to_owned();
        Ok(Source::whole(name, text.into_bytes()))
    }
}

impl Source {
    /// Returns a text that no script gave.
    fn whole(name: String, bytes: Vec<u8>) -> Self {
        Self { name, bytes, called: Vec::new(), questions: Vec::new(), is_cut: false }
    }
}

fn interface(one: Disciplines) -> kernel::Interface {
    let Disciplines { name, is_ethernet, mtu, queue_length, qdiscs, classes, filters } = one;
    let ethernet = is_ethernet;
    kernel::Interface { name, ethernet, mtu, queue_length, qdiscs, classes, filters }
}

/// Runs a script, and returns the commands of tc that it gave.
fn of_script(script: &Script, output: &Output) -> Result<Source, String> {
    output.warn(&script.announcement());
    let outcome = script.run().map_err(|error| error.to_string())?;
    if !outcome.printed.is_empty() {
        output.warn(&format!("the script printed:\n{}", outcome.printed));
    }
    let name = script.path.display();
    if let Some(why) = outcome.ended {
        return Err(format!(
            "{name} was ended: {why}; nothing is imported. Take that out of it, or run it where it \
             belongs and read the result with `weir import tc --from-kernel`"
        ));
    }
    let failed = outcome.code.filter(|code| *code != 0);
    if let Some(code) = failed {
        output.warn(&format!(
            "{name} ended with exit code {code}: if it stopped midway, what follows there is \
             missing here (a last line such as `[ ... ] && ...` whose condition is false ends so, \
             too)"
        ));
    }
    if outcome.printed.contains("Permission denied") {
        output.warn(
            "the script was refused a file: it reads what you may or, where you are root, what the \
             user `nobody` may",
        );
    }
    let (mut text, mut called, mut questions) = (String::new(), Vec::new(), Vec::new());
    for note in &outcome.notes {
        let line = line(&note.words);
        if let Some(asked) = note.asked {
            questions.push(Question {
                call: printable(&line).into_owned(),
                answered: asked == Asked::Answered,
                before_line: 1 + text.matches('\n').count(),
            });
            continue;
        }
        match &note.input {
            Some(input) => text += &format!("{input}\n"),
            None if is_tc(note) => text += &format!("{line}\n"),
            None => called.push(printable(&line).into_owned()),
        }
    }
    let lines = text.matches('\n').count();
    let doubtful = |one: &Question| !one.answered && one.before_line <= lines;
    let is_cut = failed.is_some() || questions.iter().any(doubtful);
    if text.is_empty() {
        tell(&questions, lines);
        return Err(format!("{name} called no tc; {} other calls were noted", called.len()));
    }
    // Lines are counted among its commands, not in the script.
    let name = format!("commands of {name}");
    Ok(Source { name, bytes: text.into_bytes(), called, questions, is_cut })
}

/// Returns whether the import reads a call: one of tc, wherever it is run, or a queue's length.
fn is_tc(note: &Note) -> bool {
    let words: Vec<&str> = note.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tc", ..] | ["sudo", "tc", ..] => true,
        ["ip", rest @ ..] => {
            let length = rest.contains(&"txqueuelen") || rest.contains(&"qlen");
            let elsewhere = matches!(rest, ["netns", "exec", _, "tc", ..]);
            elsewhere || length && rest.contains(&"set")
        }
        _ => false,
    }
}

/// Writes the words of a call so that they are read back as they are.
fn line(words: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-+.,:/%=@".contains(c);
    let written = |word: &String| {
        let bare = !word.is_empty() && word.chars().all(plain);
        match word.contains('\'') {
            _ if bare => word.clone(),
            true => format!("\"{word}\""),
            false => format!("'{word}'"),
        }
    };
    words.iter().map(written).collect::<Vec<_>>().join(" ")
}

impl Source {
    /// Lists what a script asked, and what it called beside tc.
    pub(super) fn list(&self) {
        tell(&self.questions, self.bytes.iter().filter(|byte| **byte == b'\n').count());
        list(&self.called);
    }
}

/// Lists what a script asked: questions without an answer one by one, with what depends on them.
fn tell(questions: &[Question], lines: usize) {
    let mut text = String::new();
    let (answered, open): (Vec<_>, Vec<_>) = questions.iter().partition(|one| one.answered);
    for one in open.iter().take(LISTED_MAX) {
        text += &format!("the script asked `{}` and got no answer: ", one.call);
        text += &match one.before_line {
            line if line == lines => format!("line {line} of its commands may depend on it\n"),
            line if line < lines => {
                format!("lines {line} to {lines} of its commands may depend on it\n")
            }
            _ => "no command of tc came after it\n".to_owned(),
        };
    }
    if !answered.is_empty() {
        text += "this machine answered, and another one may answer otherwise:\n";
        let mut calls: Vec<&str> = answered.iter().map(|one| one.call.as_str()).collect();
        calls.dedup();
        for call in calls.iter().take(LISTED_MAX) {
            text += &format!("    {call}\n");
        }
    }
    // If standard error is closed, the error cannot be reported anywhere.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Lists what a script called beside tc.
fn list(called: &[String]) {
    if called.is_empty() {
        return;
    }
    let mut text = match called.len() {
        1 => "another call was noted and not run:\n".to_owned(),
        count => format!("{count} other calls were noted and not run:\n"),
    };
    for line in called.iter().take(LISTED_MAX) {
        text += &format!("    {line}\n");
    }
    if called.len() > LISTED_MAX {
        text += &format!("    and {} more\n", called.len() - LISTED_MAX);
    }
    // If standard error is closed, the error cannot be reported anywhere.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Bound: seconds that a script may run; a longer `--time-limit` is this.
const TIME_MAX: u64 = 3600;
/// Bound: calls that are listed as text; JSON has all.
const LISTED_MAX: usize = 40;
