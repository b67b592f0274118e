//! Finds circles: files of one crate that import each other, directly or around.
//!
//! A file imports another one if it names an item of it, by any path: `crate::a::B`, `super::B`, or
//! `a::B` where `a` is its own module. A name that a `use` brings into a module leads on to the
//! file that has the item, so a folder's `mod.rs` that only lists what its files offer imports none
//! of them. Tests import what they like.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::rules::{CIRCLES, Circle};
use super::source::{Source, Token};
use syn::{Item, UseTree, Visibility};

/// The imports of a file.
pub struct Imports {
    file: String,
    /// The folder of the crate.
    krate: String,
    /// The path of its module below the crate.
    module: Vec<String>,
    /// The items of this crate that it names, each by its path below the crate.
    names: BTreeSet<Vec<String>>,
    /// The names that `use` brings into it: paths below the crate, or none for other crates.
    bindings: BTreeMap<String, Option<Vec<String>>>,
}

/// Returns what a file imports, if it is one of a crate's sources.
pub fn imports(source: &Source) -> Option<Imports> {
    let (krate, rest) = source.path.split_once("/src/")?;
    let path = rest.strip_suffix(".rs")?;
    if source.is_test_file() || path.starts_with("bin/") {
        return None;
    }
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || matches!(path, "lib" | "main") {
        module.pop();
    }
    let children = children(&source.syntax.items);
    let (bindings, listed) = bindings(&source.syntax.items, &module, &children);
    let names = names(source, &module, &children, &listed);
    Some(Imports { file: source.path.clone(), krate: krate.to_owned(), module, names, bindings })
}

/// Returns the names of the modules that are files of their own.
fn children(items: &[Item]) -> BTreeSet<String> {
    let name = |item: &Item| match item {
        Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        _ => None,
    };
    items.iter().filter_map(name).collect()
}

type Bindings = BTreeMap<String, Option<Vec<String>>>;

/// Returns what `use` brings in, and the lines on which it offers items of the file's own modules
/// to others.
fn bindings(
    items: &[Item],
    module: &[String],
    children: &BTreeSet<String>,
) -> (Bindings, BTreeSet<usize>) {
    let (mut found, mut listed) = (Bindings::new(), BTreeSet::new());
    for item in items {
        let Item::Use(item) = item else { continue };
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves);
        let paths = leaves.iter().map(|(_, path)| absolute(path, module, children));
        let own = |path: &Option<Vec<String>>| {
            path.as_ref().is_some_and(|path| path.len() > module.len() && path.starts_with(module))
        };
        let paths: Vec<_> = paths.collect();
        if !matches!(item.vis, Visibility::Inherited) && paths.iter().all(own) {
            listed.extend(super::source::lines(item));
        }
        found.extend(leaves.into_iter().map(|(name, _)| name).zip(paths));
    }
    (found, listed)
}

/// Appends each name that a tree of `use` brings in, with its path.
fn flatten(tree: &UseTree, before: &mut Vec<String>, leaves: &mut Vec<(String, Vec<String>)>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, leaves);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            leaves.push((before.last().cloned().unwrap_or_default(), before.clone()));
        }
        UseTree::Name(name) => leaves.push((name.ident.to_string(), joined(before, &name.ident))),
        UseTree::Rename(name) => {
            leaves.push((name.rename.to_string(), joined(before, &name.ident)));
        }
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, before, leaves));
        }
        UseTree::Glob(_) => {}
    }
}

fn joined(before: &[String], name: &impl ToString) -> Vec<String> {
    before.iter().cloned().chain([name.to_string()]).collect()
}

/// Returns the path below the crate of a path that begins in this module, if it is the crate's.
fn absolute(
    path: &[String],
    module: &[String],
    children: &BTreeSet<String>,
) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    let (home, rest) = match path.first()?.as_str() {
        "crate" => (&module[..0], &path[1..]),
        "super" => (&module[..module.len().checked_sub(supers)?], &path[supers..]),
        "self" => (module, &path[1..]),
        first if children.contains(first) => (module, path),
        _ => return None,
    };
    Some([home, rest].concat())
}

/// Returns the paths that the tokens name, but for lines that only list the file's own modules.
fn names(
    source: &Source,
    module: &[String],
    children: &BTreeSet<String>,
    listed: &BTreeSet<usize>,
) -> BTreeSet<Vec<String>> {
    let tokens = &source.tokens;
    let mut found = BTreeSet::new();
    let mut inner = Inner { module: module.to_vec(), depth: 0, opened: Vec::new() };
    for at in 0..tokens.len() {
        inner.step(&tokens[at..]);
        let before = at.checked_sub(1).map_or("", |at| tokens[at].text.as_str());
        let next = tokens.get(at + 1).map_or("", |token| token.text.as_str());
        let line = tokens[at].line;
        let is_start = !matches!(before, "::" | "." | "in") && next == "::";
        if !is_start || source.is_test(line) || listed.contains(&line) {
            continue;
        }
        let mut paths = Vec::new();
        spell(&tokens[at..], &mut Vec::new(), &mut paths);
        found.extend(paths.iter().filter_map(|path| absolute(path, &inner.module, children)));
    }
    found
}

/// The module in which a token stands: the file's, or one with a body in it.
struct Inner {
    module: Vec<String>,
    depth: usize,
    /// The depths of the bodies of modules.
    opened: Vec<usize>,
}

impl Inner {
    fn step(&mut self, tokens: &[Token]) {
        let text = |at: usize| tokens.get(at).map_or("", |token: &Token| token.text.as_str());
        match text(0) {
            "mod" if text(2) == "{" => {
                self.module.push(text(1).to_owned());
                self.opened.push(self.depth);
            }
            "{" => self.depth += 1,
            "}" => {
                self.depth -= 1;
                if self.opened.last() == Some(&self.depth) {
                    self.opened.pop();
                    self.module.pop();
                }
            }
            _ => {}
        }
    }
}

/// Appends the path at the start of these tokens, or one for each branch of its braces; returns how
/// many tokens that takes.
fn spell(tokens: &[Token], before: &mut Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    let depth = before.len();
    let text = |at: usize| tokens.get(at).map_or("", |token: &Token| token.text.as_str());
    let mut at = 0;
    loop {
        if text(at) == "{" {
            at += 1;
            while !matches!(text(at), "}" | "") {
                at += match text(at) {
                    "as" => 2,
                    "," => 1,
                    _ => spell(&tokens[at..], before, paths).max(1),
                };
            }
            at += 1;
            break;
        }
        if !is_word(text(at)) {
            paths.push(before.clone());
            break;
        }
        before.push(text(at).to_owned());
        at += 1;
        if text(at) != "::" {
            paths.push(before.clone());
            break;
        }
        at += 1;
    }
    before.truncate(depth);
    at
}

fn is_word(text: &str) -> bool {
    text.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_')
}

/// Returns each circle that has no line, and each line without a circle.
pub fn find(all: &[Imports]) -> Vec<Finding> {
    judge(&circles(all), CIRCLES)
}

/// Returns the circles, each as its files in order.
fn circles(all: &[Imports]) -> Vec<Vec<&str>> {
    let mut crates: BTreeMap<&str, Vec<&Imports>> = BTreeMap::new();
    for one in all {
        crates.entry(&one.krate).or_default().push(one);
    }
    crates.into_values().flat_map(|files| of_crate(&files)).collect()
}

fn of_crate<'a>(files: &[&'a Imports]) -> Vec<Vec<&'a str>> {
    let has_library = files.iter().any(|one| one.file.ends_with("/src/lib.rs"));
    let is_program = |one: &Imports| has_library && one.file.ends_with("/src/main.rs");
    let files: Vec<_> = files.iter().copied().filter(|one| !is_program(one)).collect();
    let places: BTreeMap<&[String], usize> =
        files.iter().enumerate().map(|(at, one)| (one.module.as_slice(), at)).collect();
    let targets = |at: usize| -> Vec<usize> {
        let resolved = files[at].names.iter();
        let resolved = resolved.filter_map(|path| resolve(&files, &places, path, LEADS_MAX));
        resolved.filter(|to| *to != at).collect()
    };
    let edges: Vec<Vec<usize>> = (0..files.len()).map(targets).collect();
    let reach: Vec<BTreeSet<usize>> = (0..files.len()).map(|at| reached(&edges, at)).collect();
    let mut found = BTreeSet::new();
    for (at, own) in reach.iter().enumerate().filter(|(at, own)| own.contains(at)) {
        let circle = own.iter().filter(|other| reach[**other].contains(&at));
        let mut names: Vec<_> = circle.map(|other| files[*other].file.as_str()).collect();
        names.sort_unstable();
        found.insert(names);
    }
    found.into_iter().collect()
}

/// Returns the file that has an item: that of the longest path that is a module, or where a name
/// that is brought into that leads.
fn resolve(
    files: &[&Imports],
    places: &BTreeMap<&[String], usize>,
    path: &[String],
    leads: usize,
) -> Option<usize> {
    let (length, at) = (0..=path.len())
        .rev()
        .find_map(|length| places.get(&path[..length]).map(|at| (length, *at)))?;
    let lead = path.get(length).and_then(|name| files[at].bindings.get(name));
    match lead {
        Some(to) if leads > 0 => {
            resolve(files, places, &[to.as_ref()?, &path[length + 1..]].concat(), leads - 1)
        }
        _ => Some(at),
    }
}

fn reached(edges: &[Vec<usize>], from: usize) -> BTreeSet<usize> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        open.extend(edges[at].iter().copied().filter(|to| found.insert(*to)));
    }
    found
}

fn judge(circles: &[Vec<&str>], lines: &[Circle]) -> Vec<Finding> {
    let finding = |file: &str, what, cure| {
        let (file, line, check) = (file.to_owned(), 1, "circle");
        Finding { file, line, check, what, cure }
    };
    let of = |line: &Circle| circles.iter().find(|circle| circle[0] == line.first);
    let has_line = |circle: &Vec<&str>| {
        lines.iter().any(|line| line.first == circle[0] && line.files == circle.len())
    };
    let without_line = circles.iter().filter(|circle| !has_line(circle)).map(|circle| {
        let (count, names) = (circle.len(), circle.join(", "));
        let what = format!("these {count} files import each other in a circle: {names}");
        finding(circle[0], what, BREAK_IT)
    });
    let stale = lines.iter().filter(|line| of(line).is_none()).map(|line| {
        let what = format!("no circle begins with this file any more ({})", line.reason);
        finding(line.first, what, "remove its line from CIRCLES in xtask/src/tidy/rules.rs")
    });
    without_line.chain(stale).collect()
}

const BREAK_IT: &str = "move what they share into a file below them; if it has to stay, it has a \
                        line in CIRCLES in xtask/src/tidy/rules.rs, with its number of files";
/// How often a name may lead on to another one.
const LEADS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate with these files, each as its files' paths below `src`.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let parsed: Vec<_> = files
            .iter()
            .map(|(path, text)| {
                Source::parse(&format!("weir-x/src/{path}"), text).expect("the snippet is Rust")
            })
            .collect();
        let all: Vec<_> = parsed.iter().filter_map(imports).collect();
        let short = |circle: &Vec<&str>| circle.join(" ").replace("weir-x/src/", "");
        let found: Vec<_> = circles(&all).iter().map(short).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let root = ("lib.rs", "mod a; mod b; mod c;");
        let b = ("b.rs", "use crate::c::C; pub struct B;");
        let c = ("c.rs", "fn f() { crate::a::a() }");
        check(&[root, ("a.rs", "use crate::b::B;"), b, c], &["a.rs b.rs c.rs"]);
        check(&[root, ("a.rs", "use super::{b::{B, D}, x};"), b, c], &["a.rs b.rs c.rs"]);
        check(&[root, ("a.rs", "use crate::{x as b, c::D};"), b, c], &["a.rs c.rs"]);
        check(&[root, ("a.rs", "use weir_y::b::B;"), b, c], &[]);
        check(&[root, ("a.rs", "#[cfg(test)] mod tests { use crate::b::B; }"), b, c], &[]);
        check(&[root, ("a.rs", "mod inner { use super::b; }"), b, c], &[]);
    }

    #[test]
    fn a_folder_that_lists_its_files_imports_none() {
        let root = ("lib.rs", "mod d;");
        let (one, two) = ("pub struct One;", "use super::One; pub struct Two;");
        let files = |list| [root, ("d/mod.rs", list), ("d/one.rs", one), ("d/two.rs", two)];
        check(&files("mod one; mod two; pub use one::One; pub use two::Two;"), &[]);
        // Its own item, which one of them uses.
        let own = "mod one; mod two; pub use two::Two;\npub struct One(two::Two);";
        check(&files(own), &["d/mod.rs d/two.rs"]);
    }

    #[test]
    fn a_circle_has_a_line_and_a_line_has_a_circle() {
        let lines = [Circle { first: "a.rs", files: 2, reason: "r" }];
        let check = |circles: &[Vec<&str>], count| {
            assert_eq!(judge(circles, &lines).len(), count, "{circles:?}");
        };
        check(&[vec!["a.rs", "b.rs"]], 0);
        check(&[vec!["a.rs", "b.rs", "c.rs"]], 1);
        check(&[vec!["b.rs", "c.rs"]], 2);
        check(&[], 1);
    }
}
