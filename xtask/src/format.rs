//! `cargo xtask fmt`: formats every Rust file that git tracks or would track.
//!
//! `cargo fmt` follows `mod` declarations and misses those that a registry's macro writes, so it
//! never sees schedulers, lints, experiments and verbs.

use crate::tidy::tracked_files;
use std::path::Path;
use std::process::Command;

/// Formats the files, or only reports those that are not formatted.
pub fn run(root: &Path, check: bool) -> Result<String, String> {
    let mut files = tracked_files(root)?;
    files.retain(|file| file.ends_with(".rs") && root.join(file).is_file());
    let mut command = Command::new("rustfmt");
    command.current_dir(root).args(["--edition", "2024"]);
    if check {
        command.arg("--check");
    }
    let status = command.args(&files).status();
    match status.map_err(|error| format!("cannot run rustfmt: {error}"))?.success() {
        true => Ok(format!("{} files", files.len())),
        false if check => Err("`rustfmt --check` failed; run `cargo xtask fmt`".to_owned()),
        false => Err("`rustfmt` failed".to_owned()),
    }
}
