//! `cargo xtask ci third-party`: the copies of others' code are their release and our patch.
//!
//! The patch is taken off a copy in the build folder; then every file has to have the checksum that
//! it has in the release, and no file may be missing or left over.

use crate::nostd::target_directory;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The folder, from the workspace's root. Its files are not ours, so no rule of style holds there.
pub const FOLDER: &str = "third-party/";

/// Compares smoltcp with its release; returns what was compared.
pub fn compare(root: &Path) -> Result<String, String> {
    let folder = root.join(FOLDER);
    let sums = folder.join("smoltcp.sha256");
    let listed =
        fs::read_to_string(&sums).map_err(|error| format!("{}: {error}", sums.display()))?;
    let listed: Vec<&str> =
        listed.lines().filter_map(|line| line.split_once("  ")).map(|row| row.1).collect();
    let copy = target_directory(root).join("third-party/smoltcp");
    if copy.exists() {
        fs::remove_dir_all(&copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    }
    copy_files(&folder.join("smoltcp"), &copy)?;
    // Without a repository around it, git takes paths from the current folder.
    let mut git = Command::new("git");
    git.args(["apply", "--reverse"]).arg(folder.join("smoltcp.patch")).current_dir(&copy);
    git.env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap_or(&copy));
    succeed(&mut git, "take `smoltcp.patch` off")?;
    // The patch may add files, so they are counted without it.
    let found = count_files(&copy)?;
    if found != listed.len() {
        return Err(format!("{found} files, of which the release has {}", listed.len()));
    }
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "--quiet"]).arg(&sums).current_dir(&copy);
    succeed(&mut check, "compare with `smoltcp.sha256`")?;
    Ok(format!("{} files are the release and the patch", listed.len()))
}

fn copy_files(from: &Path, to: &Path) -> Result<(), String> {
    let trouble = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(trouble)?;
    for entry in fs::read_dir(from).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_files(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(trouble)?;
        }
    }
    Ok(())
}

/// Counts the files but for the manifest, which is ours, as third-party/README.md says.
fn count_files(folder: &Path) -> Result<usize, String> {
    let trouble = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut count = 0;
    for entry in fs::read_dir(folder).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        if path.is_dir() {
            count += count_files(&path)?;
        } else if path.file_name() != Some(OsStr::new("Cargo.toml")) {
            count += 1;
        }
    }
    Ok(count)
}

fn succeed(command: &mut Command, what: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("could not {what}: see above")),
        Err(error) => Err(format!("cannot run {:?}: {error}", command.get_program())),
    }
}
