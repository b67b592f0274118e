//! Checks the arrows between the core's modules, from `rules::CORE_ARROWS`.

use super::Finding;
use super::rules::CORE_ARROWS;
use super::source::{Source, Token};

/// The folder whose modules have arrows.
const CORE: &str = "weir-core/src/";

/// Reports every `crate::x` and `super::x` that leaves its module without an arrow.
pub fn core_modules(source: &Source) -> Vec<Finding> {
    let Some(module) = module_path(&source.path) else {
        return Vec::new();
    };
    let Some(home) = module.first().copied().filter(|home| *home != "lib") else {
        return Vec::new();
    };
    if source.is_test_file() {
        return Vec::new();
    }
    let allowed = CORE_ARROWS.iter().find(|(name, _)| *name == home).map(|(_, uses)| *uses);
    let Some(allowed) = allowed else {
        let what = format!("the core's module `{home}` has no row in the table of arrows");
        let cure = "add it to CORE_ARROWS in xtask/src/tidy/rules.rs";
        return vec![source.finding(1, "core-arrows", what, cure)];
    };
    let uses = uses(&source.tokens, module.len());
    let wrong = uses
        .into_iter()
        .filter(|(name, line)| *name != home && !allowed.contains(name) && !source.is_test(*line));
    wrong
        .map(|(name, line)| {
            let what = format!("`{home}` uses `crate::{name}`; it may use {}", listed(allowed));
            let cure = "name the module that owns the item, or reverse the dependency";
            source.finding(line, "core-arrows", what, cure)
        })
        .collect()
}

/// `weir-core/src/sched/drr.rs` is `["sched", "drr"]`; `sched/mod.rs` is `["sched"]`.
fn module_path(path: &str) -> Option<Vec<&str>> {
    let path = path.strip_prefix(CORE)?.strip_suffix(".rs")?;
    let mut parts: Vec<&str> = path.split('/').collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    Some(parts)
}

/// Returns the names directly under the crate's root that these tokens use, from a module `depth`
/// below it.
fn uses(tokens: &[Token], depth: usize) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let start = at;
        at += 1;
        if start > 0 && tokens[start - 1].text == "::" {
            continue;
        }
        let Some(after) = after_root(&tokens[start..], depth) else {
            continue;
        };
        found.extend(names_at(&tokens[start + after..]));
    }
    found
}

/// Returns how many tokens a path takes to reach the crate's root, if it does: `crate ::`, or
/// enough `super ::`.
fn after_root(tokens: &[Token], depth: usize) -> Option<usize> {
    let text = |at: usize| tokens.get(at).map(|token: &Token| token.text.as_str());
    if text(0) == Some("crate") && text(1) == Some("::") {
        return Some(2);
    }
    let mut supers = 0;
    while text(2 * supers) == Some("super") && text(2 * supers + 1) == Some("::") {
        supers += 1;
    }
    (supers > 0 && supers == depth).then_some(2 * supers)
}

/// Returns the name at the start, or the first name of each branch of `{a::b, c}`.
fn names_at(tokens: &[Token]) -> Vec<(&str, usize)> {
    let Some(first) = tokens.first() else {
        return Vec::new();
    };
    if first.text != "{" {
        return vec![(&first.text, first.line)];
    }
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut before = "";
    for token in tokens {
        let starts = depth == 1 && matches!(before, "{" | ",");
        match token.text.as_str() {
            "{" => depth += 1,
            "}" if depth == 1 => break,
            "}" => depth -= 1,
            name if starts => names.push((name, token.line)),
            _ => {}
        }
        before = &token.text;
    }
    names
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "no other module".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[usize]) {
        let source = Source::parse(path, text).expect("the test's snippet is Rust");
        let lines: Vec<usize> = core_modules(&source).iter().map(|found| found.line).collect();
        assert_eq!(lines, expected, "{path}: {text}");
    }

    #[test]
    fn an_arrow_that_the_table_lacks_is_found() {
        let rows: [(&str, &str, &[usize]); 12] = [
            ("sched/drr.rs", "use crate::units::Rate;", &[]),
            ("sched/drr.rs", "use crate::queue::Leaf;", &[1]),
            ("sched/drr.rs", "use crate::{units::{Rate, Bytes},\nqueue};", &[2]),
            ("sched/drr.rs", "use super::super::queue::Leaf;", &[1]),
            ("sched/drr.rs", "use super::{Head, Selection};", &[]),
            ("sched/mod.rs", "use super::queue::Leaf;", &[1]),
            ("sched/drr.rs", "fn f() { crate::link::poll() }", &[1]),
            ("sched/drr.rs", "#[cfg(test)]\nmod tests { use crate::queue::Leaf; }", &[]),
            ("sched/drr.rs", "use crate::Rate;", &[1]),
            ("units.rs", "use crate::ids::ClassId;", &[1]),
            ("link.rs", "use crate::{sched, queue, account};", &[]),
            ("lib.rs", "pub use crate::link::Link;", &[]),
        ];
        for (file, text, expected) in rows {
            check(&format!("weir-core/src/{file}"), text, expected);
        }
    }

    #[test]
    fn a_module_without_a_row_is_found() {
        check("weir-core/src/novel/a.rs", "fn f() {}", &[1]);
    }

    #[test]
    fn other_crates_have_no_such_arrows() {
        check("weir-sim/src/a.rs", "use crate::queue::Leaf;", &[]);
    }
}
