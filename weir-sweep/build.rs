//! Tells the commit to provenance, where the sources are a git repository and the build is for use.
//! A development build says only that it is one, and is not linked anew after each commit.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=WEIR_COMMIT={}", commit().as_deref().unwrap_or("unknown"));
}

fn commit() -> Option<String> {
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        return Some("development".to_owned());
    }
    // Sources inside another repository have not its commit.
    git(&["rev-parse", "--show-prefix"]).filter(|prefix| prefix == "weir-sweep/")?;
    // The log of HEAD grows with every commit and every change of branch.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
