//! Checks a crate's manifest: arrows that point down, a reason beside each dependency, the
//! workspace's lints.

use super::Finding;
use super::rules::{CRATE_ARROWS, DEPENDENCY_FREE, FOR_TESTS};

/// One dependency as the manifest names it.
struct Dependency<'text> {
    name: &'text str,
    line: usize,
    /// Whether a comment is on its line or on the line before, or before its family: consecutive
    /// crates with the same first word.
    has_reason: bool,
    /// Whether the reason is in the workspace's own table.
    inherits: bool,
    /// It is built into the crate, not only into its tests.
    is_normal: bool,
}

/// Reports dependencies on other crates of Weir than the row allows, and any dependency of the
/// core.
pub fn arrows(path: &str, text: &str) -> Vec<Finding> {
    let Some(krate) = path.strip_suffix("/Cargo.toml") else {
        return Vec::new();
    };
    let Some((_, allowed)) = CRATE_ARROWS.iter().find(|(name, _)| *name == krate) else {
        let what = format!("the crate `{krate}` has no row in the table of arrows");
        let cure = "add it to CRATE_ARROWS in xtask/src/tidy/rules.rs";
        return vec![finding(path, 1, "crate-arrows", what, cure)];
    };
    let mut findings = Vec::new();
    for dependency in dependencies(text) {
        let Dependency { name, line, .. } = dependency;
        if is_ours(name) && !allowed.contains(&name) && !is_for_tests(krate, &dependency) {
            let what = format!("`{krate}` depends on `{name}`, which its row does not list");
            findings.push(finding(path, line, "crate-arrows", what, "arrows point down only"));
        }
        if !is_ours(name) && dependency.is_normal && DEPENDENCY_FREE.contains(&krate) {
            let what = format!("`{krate}` depends on `{name}`");
            findings.push(finding(path, line, "crate-arrows", what, "it has no dependencies"));
        }
    }
    findings
}

/// Requires a comment beside each outside dependency that says what it is for.
pub fn reasons(path: &str, text: &str) -> Vec<Finding> {
    let silent = dependencies(text)
        .filter(|dependency| !is_ours(dependency.name) && !dependency.inherits)
        .filter(|dependency| !dependency.has_reason);
    silent
        .map(|dependency| {
            let what = format!("the dependency `{}` has no reason beside it", dependency.name);
            let cure = "say in a comment above it what it is for";
            finding(path, dependency.line, "dependency-reason", what, cure)
        })
        .collect()
}

/// Requires that each crate of the workspace uses the workspace's lints.
pub fn lints(path: &str, text: &str) -> Vec<Finding> {
    let is_root = text.contains("[workspace]");
    let lints =
        sections(text).any(|(section, line, _)| section == "lints" && line == "workspace = true");
    if is_root || lints {
        return Vec::new();
    }
    let what = "the crate does not use the workspace's lints".to_owned();
    vec![finding(path, 1, "lints", what, "add `[lints]` with `workspace = true`")]
}

/// Returns whether this is a crate for tests, and the crate only tests with it or may link it.
fn is_for_tests(krate: &str, dependency: &Dependency<'_>) -> bool {
    let row = FOR_TESTS.iter().find(|(name, _)| *name == dependency.name);
    row.is_some_and(|(_, users)| !dependency.is_normal || users.contains(&krate))
}

fn is_ours(name: &str) -> bool {
    name == "weir" || name.starts_with("weir-")
}

fn finding(
    path: &str,
    line: usize,
    check: &'static str,
    what: String,
    cure: &'static str,
) -> Finding {
    Finding { file: path.to_owned(), line, check, what, cure }
}

/// Returns the lines with their section and number, from 1, without headings.
fn sections(text: &str) -> impl Iterator<Item = (&str, &str, usize)> {
    let mut section = "";
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let line = line.trim();
        if line.starts_with('[') && line.ends_with(']') && !line.contains('=') {
            section = line.trim_matches(['[', ']']);
            return None;
        }
        Some((section, line, number))
    })
}

/// Returns the dependencies of every table; Weir's manifests have each on lines of its own.
fn dependencies(text: &str) -> impl Iterator<Item = Dependency<'_>> {
    let mut commented = false;
    let mut open = 0_usize;
    let mut family = "";
    sections(text).filter_map(move |(section, line, number)| {
        let kind = section.rsplit('.').next().unwrap_or_default();
        let was_commented = std::mem::replace(&mut commented, line.starts_with('#'));
        let inside = open > 0;
        open = (open + line.matches(['[', '{']).count())
            .saturating_sub(line.matches([']', '}']).count());
        if !kind.ends_with("dependencies") || inside || line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (key, value) = line.split_once('=')?;
        let name = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
        let has_reason = was_commented || value.contains('#') || family == first_word(name);
        family = if has_reason { first_word(name) } else { "" };
        let inherits = key.trim().ends_with(".workspace") || value.contains("workspace = true");
        let is_normal = kind == "dependencies";
        Some(Dependency { name, line: number, has_reason, inherits, is_normal })
    })
}

/// Returns the first word: `netlink-sys` belongs with `netlink-packet-core`.
fn first_word(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&str, &str) -> Vec<Finding>;

    fn check(check: Check, path: &str, text: &str, expected: &[usize]) {
        let lines: Vec<usize> = check(path, text).iter().map(|found| found.line).collect();
        assert_eq!(lines, expected, "{path}: {text}");
    }

    #[test]
    fn an_arrow_up_is_found() {
        let up = "[dependencies]\nweir-core.workspace = true\nweir-sim.workspace = true";
        check(arrows, "weir-policy/Cargo.toml", up, &[3]);
        check(arrows, "weir-lab/Cargo.toml", up, &[]);
        check(arrows, "weir-novel/Cargo.toml", up, &[1]);
    }

    #[test]
    fn a_crate_for_tests_is_linked_by_few() {
        let linked = "[dependencies]\nweir-testbed.workspace = true";
        let tested = "[dev-dependencies]\nweir-testbed.workspace = true";
        check(arrows, "weir-link/Cargo.toml", linked, &[2]);
        check(arrows, "weir-link/Cargo.toml", tested, &[]);
        check(arrows, "weir-lab/Cargo.toml", linked, &[]);
    }

    #[test]
    fn the_core_depends_on_nothing_but_for_tests() {
        let text = "[dependencies]\nlibc = \"1\"\n[dev-dependencies]\nproptest = \"1\"";
        check(arrows, "weir-core/Cargo.toml", text, &[2]);
        check(arrows, "weir-link/Cargo.toml", text, &[]);
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let rows: [(&str, &[usize]); 9] = [
            ("[dependencies]\n# Netlink.\nnetlink-a = \"1\"\nnetlink-b = \"1\"", &[]),
            ("[dependencies]\n# Netlink.\nnetlink-a = \"1\"\nlibc = \"1\"", &[4]),
            ("[dependencies]\nlibc = \"1\"", &[2]),
            ("[dependencies]\n# System calls.\nlibc = \"1\"", &[]),
            ("[dependencies]\nlibc = \"1\" # System calls.", &[]),
            ("[dependencies]\nlibc.workspace = true\nweir-core.workspace = true", &[]),
            (
                "[dev-dependencies]\nlibc = { version = \"1\", features = [\n\"a\",\n] }\nb = \"1\"",
                &[2, 5],
            ),
            ("[target.'cfg(unix)'.dependencies]\nlibc = \"1\"", &[2]),
            ("[features]\nlibc = []", &[]),
        ];
        for (text, expected) in rows {
            check(reasons, "weir-link/Cargo.toml", text, expected);
        }
    }

    #[test]
    fn a_crate_takes_the_lints() {
        check(lints, "weir/Cargo.toml", "[package]\nname = \"weir\"", &[1]);
        check(lints, "weir/Cargo.toml", "[lints]\nworkspace = true", &[]);
        check(lints, "Cargo.toml", "[workspace]\nmembers = []", &[]);
    }
}
