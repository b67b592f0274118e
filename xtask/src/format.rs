//! `cargo xtask fmt`: formats every Rust file that git tracks or would track.
//!
//! `cargo fmt` follows `mod` declarations and misses those that a registry's macro writes, so it
//! never sees schedulers, lints, experiments and verbs.

use crate::tidy::tracked_files;
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;

/// Formats the files, or only reports those that are not formatted.
pub fn run(root: &Path, check: bool) -> Result<String, String> {
    let mut files = tracked_files(root)?;
    files.retain(|file| file.ends_with(".rs") && root.join(file).is_file());
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let each = files.len().div_ceil(processors).max(1);
    let started = files.chunks(each).map(|files| rustfmt(root, check, files).spawn());
    let mut processes = started.collect::<Result<Vec<_>, _>>().map_err(unable)?;
    let mut is_good = true;
    for process in &mut processes {
        is_good &= process.wait().map_err(unable)?.success();
    }
    match is_good {
        true => Ok(format!("{} files", files.len())),
        false if check => Err("`rustfmt --check` failed; run `cargo xtask fmt`".to_owned()),
        false => Err("`rustfmt` failed".to_owned()),
    }
}

fn rustfmt(root: &Path, check: bool, files: &[String]) -> Command {
    let mut command = Command::new("rustfmt");
    command.current_dir(root).args(["--edition", "2024"]);
    if check {
        command.arg("--check");
    }
    command.args(files);
    command
}

fn unable(error: io::Error) -> String {
    format!("cannot run rustfmt: {error}")
}
