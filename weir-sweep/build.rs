//! Tells the commit to provenance, where the sources are a git repository.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Sources inside another repository have not its commit.
    let own = git(&["rev-parse", "--show-prefix"]).is_some_and(|prefix| prefix == "weir-sweep/");
    let commit = git(&["rev-parse", "HEAD"]).filter(|_| own);
    println!("cargo::rustc-env=WEIR_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    // The log of HEAD grows with every commit and every change of branch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| own) {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
