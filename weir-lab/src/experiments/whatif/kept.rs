//! The records of a pair, live or from a folder.
//!
//! Inference can be repeated on the same truth: what `--keep` writes, `--from` reads. A record is a
//! file for itself that `weir whatif` and `weir infer` read, too.

use super::live;
use super::pairs::Pair;
use crate::rows::Options;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the records of a pair under both policies.
///
/// # Errors
/// When networks, bridge or sockets fail, or a file cannot be written or read.
pub fn records(
    pair: &Pair,
    texts: &[String; 2],
    options: &Options,
) -> Result<[Vec<u8>; 2], String> {
    let record = |place: usize| match &options.from {
        Some(folder) => read(&path(folder, pair, place)),
        None => {
            let made = live::record(pair, &texts[place], options.duration);
            let bytes = made.map_err(|error| error.to_string())?;
            if let Some(folder) = &options.keep {
                write(folder, &path(folder, pair, place), &bytes)?;
            }
            Ok::<_, String>(bytes)
        }
    };
    Ok([record(0)?, record(1)?])
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(folder: &Path, path: &Path, bytes: &[u8]) -> Result<(), String> {
    let failed = |error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(folder).map_err(failed)?;
    fs::write(path, bytes).map_err(failed)
}

/// Returns the file of a record: the words of the pair, and which of the two it is.
fn path(folder: &Path, pair: &Pair, place: usize) -> PathBuf {
    let mut name = String::new();
    for letter in pair.name().to_lowercase().chars() {
        match letter {
            'a'..='z' | '0'..='9' | '.' => name.push(letter),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    let which = if place == 0 { "was" } else { "then" };
    folder.join(format!("{}-{which}.rec", name.trim_end_matches('-')))
}

#[cfg(test)]
mod tests {
    use super::super::pairs::{FURTHER, PAIRS};
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_record_has_a_file_of_its_own_that_a_shell_can_name() {
        let all = PAIRS.iter().chain(&FURTHER);
        let paths = all.flat_map(|pair| [0, 1].map(|which| path("".as_ref(), pair, which)));
        let names: BTreeSet<String> = paths.map(|path| path.display().to_string()).collect();
        assert_eq!(names.len(), 2 * (PAIRS.len() + FURTHER.len()));
        let first = "codel-to-fq-codel-20-mbit-s-60-ms-mix-0-6-0-1-0-then.rec";
        assert!(names.contains(first), "{names:?}");
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        assert!(names.iter().all(|name| name.chars().all(is_plain)), "{names:?}");
    }

    #[test]
    fn a_record_that_was_not_kept_is_missed_by_name() {
        let folder = Some(PathBuf::from("no-such-folder"));
        let options = Options { from: folder, ..Options::default() };
        let texts = [String::new(), String::new()];
        let why = records(&PAIRS[0], &texts, &options).err().unwrap_or_default();
        assert!(why.starts_with("cannot read no-such-folder/fifo-of-400-ms-to-fq-codel"), "{why}");
    }
}
