//! Puts the commit into the version, where the sources are a git repository.

use std::process::Command;

/// Sets `WEIR_VERSION` to `0.1.0 (COMMIT)`; without git, or from an archive of the sources, to
/// `0.1.0`.
fn main() {
    let version = env!("CARGO_PKG_VERSION");
    // An archive may lie in another project's repository, where this crate has another prefix.
    let own = git(&["rev-parse", "--show-prefix"]).is_some_and(|prefix| prefix == "weir-cli/");
    let commit = git(&["rev-parse", "--short=10", "HEAD"]).filter(|_| own);
    let shown = commit.map_or(version.to_owned(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=WEIR_VERSION={shown}");
    println!("cargo::rerun-if-changed=build.rs");
    // The log of HEAD grows with every commit and every change of branch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| own) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// Returns what git prints in the folder of this crate, if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
