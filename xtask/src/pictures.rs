//! `cargo xtask pictures`: makes the pictures of README and docs from the real thing.
//!
//! It builds the command and the lab, takes views of the page in Chromium, light and dark, and lets
//! `--plot` draw the rest. `weir-gateway/page/tests/pictures.mjs` has the list.

use crate::figures::{Verdict, program};
use crate::nostd::target_directory;
use crate::view::{PAGE, have, page};
use std::path::Path;

/// Makes all pictures, or the named parts; returns whether it did.
pub fn run(root: &Path, parts: &[&str]) -> bool {
    let target = target_directory(root).join("release");
    let [weir, lab] = ["weir", "weir-lab"].map(|name| target.join(name).display().to_string());
    let output = root.join("docs/pictures").display().to_string();
    let arguments = [&["tests/pictures.mjs", &weir, &lab, &output], parts].concat();
    let steps: [&dyn Fn() -> Verdict; 5] = [
        &|| have("chromium", "chromium", root),
        &|| have("npm", "npm", root),
        &|| page(root, "npm", &["ci", "--ignore-scripts"]),
        &|| program(root, Path::new("cargo"), &BUILD),
        &|| page(root, "node", &arguments),
    ];
    let failed = steps.iter().map(|step| step()).find(|verdict| *verdict != Verdict::Holds);
    if let Some(Verdict::Unmeasured(why)) = &failed {
        eprintln!("{why}");
    }
    println!("pictures: {output}, drawn by {PAGE}/tests/pictures.mjs");
    failed.is_none()
}

const BUILD: [&str; 8] =
    ["build", "--locked", "--release", "--quiet", "--package", "weir", "--package", "weir-lab"];
