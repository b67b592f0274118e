//! Finds the scripts in a folder, and replays each.
//!
//! Invariant: the order is that of the paths, so that two runs print the same.

use crate::report::{Outcome, Verdict};
use crate::scope;
use crate::script::{Action, Script};
use crate::{defaults, parse};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the paths of all scripts below `folder`, in order.
pub fn find(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pkt") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Replays an applicable script and returns the verdict.
pub type Replay<'a> = &'a dyn Fn(&Script) -> Verdict;

/// Replays all scripts below `folder`.
pub fn run(
    folder: &Path,
    knows: &dyn Fn(&str) -> bool,
    replay: Replay,
) -> io::Result<Vec<Outcome>> {
    let mut first_with = HashMap::new();
    let mut outcomes = Vec::new();
    for path in find(folder)? {
        let text = std::fs::read_to_string(&path)?;
        let shown = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        let verdict = match parse::script(&text) {
            Err(why) => Verdict::NotApplicable(format!("not understood: {why}")),
            Ok(script) => {
                let first = first_with.entry(meaning(&script)).or_insert_with(|| shown.clone());
                if *first == shown {
                    judge(&script, knows, replay)
                } else {
                    Verdict::Same(first.clone())
                }
            }
        };
        outcomes.push(Outcome { is_counted: scope::is_counted(&path), path: shown, verdict });
    }
    Ok(outcomes)
}

fn judge(script: &Script, knows: &dyn Fn(&str) -> bool, replay: Replay) -> Verdict {
    match scope::obstacle(script, knows) {
        Some(reason) => Verdict::NotApplicable(reason),
        None => replay(script),
    }
}

/// Returns a key by which equal scripts are found: it has no line numbers and comments, and for
/// each shell command the sysctls that it sets.
fn meaning(script: &Script) -> String {
    let mut sysctls = defaults::Sysctls::default();
    let mut meaning = format!("{:?}", script.options);
    for event in &script.events {
        match &event.action {
            Action::Shell(command) => {
                let effects = sysctls.shell(command);
                meaning += &format!("{:?} {sysctls:?} {effects:?}", event.time);
            }
            other => meaning += &format!("{:?} {:?} {other:?}", event.time, event.until),
        }
    }
    meaning
}
