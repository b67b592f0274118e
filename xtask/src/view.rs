//! `cargo xtask figures view`: the page of `weir-gateway` in a real browser, against real links.
//!
//! It takes Chromium from Debian and the page's libraries from npm, both of which it installs and
//! says so, and root for private networks. `weir-gateway/page/tests` has the tests.

use crate::figures::{Verdict, program};
use crate::nostd::target_directory;
use std::path::Path;
use std::process::Command;

/// The folder of the page's source.
pub const PAGE: &str = "weir-gateway/page";

/// Checks that the committed page is what its source builds, and drives it in the browser.
/// Screenshots are left in `view` below the folder of build outputs.
pub fn run(root: &Path) -> Verdict {
    let target = target_directory(root);
    let weir = target.join("release/weir").display().to_string();
    let output = target.join("view").display().to_string();
    let steps: [&dyn Fn() -> Verdict; 7] = [
        &|| have("chromium", "chromium", root),
        &|| have("npm", "npm", root),
        &|| have("openssl", "openssl", root),
        &|| page(root, "npm", &["ci", "--ignore-scripts"]),
        &|| page(root, "npm", &["run", "--silent", "check"]),
        &|| program(root, Path::new("cargo"), &BUILD),
        &|| page(root, "node", &["tests/main.mjs", &weir, &output]),
    ];
    let failed = steps.iter().map(|step| step()).find(|verdict| *verdict != Verdict::Holds);
    println!("screenshots: {output}");
    failed.unwrap_or(Verdict::Holds)
}

/// Installs a Debian package unless its command is there.
pub fn have(command: &str, package: &str, root: &Path) -> Verdict {
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", command]).output();
    if found.is_ok_and(|found| found.status.success()) {
        return Verdict::Holds;
    }
    println!("installing with apt-get: {package}");
    let install = ["install", "-q", "-y", "--no-install-recommends", package];
    match program(root, Path::new("apt-get"), &install) {
        Verdict::Holds => Verdict::Holds,
        _ => Verdict::Unmeasured(format!("not measured: install {package} first, as root")),
    }
}

/// Runs a program in the folder of the page.
pub fn page(root: &Path, name: &str, arguments: &[&str]) -> Verdict {
    program(&root.join(PAGE), Path::new(name), arguments)
}

const BUILD: [&str; 6] = ["build", "--locked", "--release", "--quiet", "--package", "weir"];
