//! A program that only notes its arguments, in the place of one that would set something up.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use super::Note;
use super::inside::{BASES, NOTES};

/// Notes a call; none outside a sandbox.
pub(super) fn note(name: String, arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let paths = BASES.iter().map(|base| Path::new(base).join(NOTES));
    let mut file = paths.into_iter().find_map(|path| open(&path))?;
    let lossy = |word: OsString| word.to_string_lossy().into_owned();
    let words: Vec<String> = std::iter::once(name).chain(arguments.map(lossy)).collect();
    if words[0] == "tc"
        && words.iter().any(|word| ["-V", "-Version", "-v"].contains(&word.as_str()))
    {
        println!("tc utility, iproute2-6.1.0");
        return Some(ExitCode::SUCCESS);
    }
    let input = batch(&words);
    let Ok(mut line) = serde_json::to_vec(&Note { words, input }) else { return failed() };
    line.push(b'\n');
    // One call of write: lines of several programs do not mix.
    match file.write(&line) {
        Ok(length) if length == line.len() => Some(ExitCode::SUCCESS),
        _ => failed(),
    }
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

/// Bound: bytes of a batch; the rest is not read.
const INPUT_MAX: u64 = 1 << 20;
