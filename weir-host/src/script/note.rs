//! A program that only notes its arguments, in the place of one that would set something up.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use super::inside::{BASES, NOTES, PRINTED};
use super::questions::{Call, call, program};
use super::{Asked, Note, answers};

/// Notes a call; none outside a sandbox.
pub(super) fn note(name: String, arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut bases = BASES.iter().map(Path::new);
    let (base, mut file) = bases.find_map(|base| Some((base, open(&base.join(NOTES))?)))?;
    let lossy = |word: OsString| word.to_string_lossy().into_owned();
    let words: Vec<String> = std::iter::once(name).chain(arguments.map(lossy)).collect();
    if words[0] == "tc"
        && words.iter().any(|word| ["-V", "-Version", "-v"].contains(&word.as_str()))
    {
        println!("tc utility, iproute2-6.1.0");
        return Some(ExitCode::SUCCESS);
    }
    let input = batch(&words);
    let (asked, code) = asked(base, &words);
    let Ok(mut line) = serde_json::to_vec(&Note { words, input, asked }) else { return failed() };
    line.push(b'\n');
    // One call of write: lines of several programs do not mix.
    match file.write(&line) {
        Ok(length) if length == line.len() => Some(code),
        _ => failed(),
    }
}

/// Prints the answer to a call that asks; returns which it had, if the script may use it, and the
/// exit code.
fn asked(base: &Path, words: &[String]) -> (Option<Asked>, ExitCode) {
    let words = program(words);
    let none = |used: bool| (used.then_some(Asked::Unanswered), ExitCode::SUCCESS);
    let sink = Sink::of_output(base);
    let earlier = || earlier(base);
    match call(words) {
        Call::Sets => (None, ExitCode::SUCCESS),
        // Nothing is set up, until the script begins.
        Call::Unanswerable if words[0] == "tc" => {
            let sets = |note: &Note| note.words[0] == "tc" && call(&note.words) == Call::Sets;
            none(sink == Sink::Read && earlier().iter().any(sets))
        }
        Call::Unanswerable => none(sink != Sink::Shown || words[0].contains("ping")),
        Call::Answerable => match answers::ask(base, words) {
            Some(answer) if answer.code != Some(0) && is_made(words, &earlier()) => {
                none(sink == Sink::Read)
            }
            Some(answer) => {
                // A script that closed its end has read enough.
                let _ = std::io::stdout().write_all(answer.out.as_bytes());
                let _ = std::io::stderr().write_all(answer.err.as_bytes());
                let code = answer.code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                (Some(Asked::Answered), ExitCode::from(code))
            }
            None => none(sink != Sink::Shown),
        },
    }
}

/// Where the output of a call goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sink {
    /// To the operator.
    Shown,
    /// Nowhere: only the exit code counts.
    Null,
    /// To the script.
    Read,
}

impl Sink {
    fn of_output(base: &Path) -> Self {
        let of = |path: &Path| fs::metadata(path).map(|one| (one.dev(), one.ino())).ok();
        let own = of(Path::new("/proc/self/fd/1"));
        match own {
            own if own == of(&base.join(PRINTED)) => Sink::Shown,
            own if own == of(Path::new("/dev/null")) => Sink::Null,
            _ => Sink::Read,
        }
    }
}

/// Returns the calls before this one.
fn earlier(base: &Path) -> Vec<Note> {
    let text = fs::read(base.join(NOTES)).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    let notes = lines.filter_map(|line| serde_json::from_slice(line).ok());
    notes.filter(|note: &Note| note.asked.is_none() && !note.words.is_empty()).collect()
}

/// Returns whether the script made the device that it asks for, which this machine does not have.
fn is_made(words: &[String], earlier: &[Note]) -> bool {
    let asked = |word: &str| words.iter().skip(2).any(|one| one == word);
    earlier.iter().any(|note| {
        let made = program(&note.words);
        match made.first().map(String::as_str) {
            Some("ip" | "brctl" | "vconfig" | "ifconfig" | "iw") => {
                made.iter().skip(1).any(|word| asked(word) && !KEYWORDS.contains(&word.as_str()))
            }
            // `modprobe ifb` makes `ifb0` and `ifb1`.
            Some("modprobe" | "insmod") => made[1..].iter().any(|module| {
                words.iter().skip(2).any(|word| word.len() > 2 && word.starts_with(module.as_str()))
            }),
            _ => false,
        }
    })
}

/// A call that cannot be noted must not look like one that was.
fn failed() -> Option<ExitCode> {
    eprintln!("weir: this call cannot be noted: there are too many");
    Some(ExitCode::FAILURE)
}

fn open(path: &Path) -> Option<std::fs::File> {
    OpenOptions::new().append(true).open(path).ok()
}

/// Returns the lines that `tc -batch` reads: those of the file, or of standard input.
fn batch(words: &[String]) -> Option<String> {
    let at = words.iter().position(|word| ["-b", "-ba", "-batch"].contains(&word.as_str()))?;
    let mut bytes = Vec::new();
    let from: Box<dyn Read> = match words.get(at + 1).map(String::as_str) {
        None | Some("-") => Box::new(std::io::stdin()),
        Some(path) => Box::new(std::fs::File::open(path).ok()?),
    };
    from.take(INPUT_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Words of `ip` that are no device.
const KEYWORDS: &[&str] = &["show", "get", "list", "ls", "dev", "link", "up", "type"];
/// Bound: bytes of a batch; the rest is not read.
const INPUT_MAX: u64 = 1 << 20;
