//! Checks that an algorithm's name occurs only in its own file and in its registry line.
//!
//! The algorithms are read from the registries of `rules::REGISTRIES`, each a macro call in a
//! `mod.rs` with one line `module::Type,` for each algorithm.

use std::collections::BTreeSet;

use super::Finding;
use super::rules::{NAMING_PLACES, ORDINARY_WORDS, REGISTRIES};
use super::source::{Source, Token};

/// An algorithm, as its registry line names it.
struct Algorithm {
    /// The folder of its registry: `weir-core/src/sched`.
    folder: &'static str,
    /// The name of its module: `altq_wfq`.
    module: String,
    /// The name of its type: `AltqWfq`.
    kind: String,
    /// Its line in the folder's `mod.rs`.
    line: usize,
}

/// The algorithms of the core.
pub struct Algorithms(Vec<Algorithm>);

impl Algorithms {
    /// Reads the registries; `text` returns a file of the tree, if it exists.
    pub fn read(text: impl Fn(&str) -> Option<String>) -> Result<Algorithms, Finding> {
        let mut found = Vec::new();
        for (folder, macro_name) in REGISTRIES {
            let path = format!("{folder}/mod.rs");
            let Some(text) = text(&path) else { continue };
            let source = Source::parse(&path, &text)?;
            let before = found.len();
            found.extend(registered(folder, macro_name, &source.tokens));
            if found.len() == before {
                let what = format!("no algorithm is registered by `{macro_name}!`");
                let cure = "name the registry's macro in REGISTRIES of xtask/src/tidy/rules.rs";
                return Err(source.finding(1, "algorithm-name", what, cure));
            }
        }
        Ok(Algorithms(found))
    }

    /// Reports the names in this file that should not occur.
    pub fn check(&self, source: &Source) -> Vec<Finding> {
        let path = &source.path;
        if source.is_test_file() || NAMING_PLACES.iter().any(|(place, _)| path.starts_with(place)) {
            return Vec::new();
        }
        self.0.iter().flat_map(|algorithm| algorithm.check(source, &self.0)).collect()
    }
}

impl Algorithm {
    fn check(&self, source: &Source, all: &[Algorithm]) -> Vec<Finding> {
        // A name may be in two registries: for leaves, and for the flows in a leaf.
        let twin = |at: &&Algorithm| at.module == self.module && at.folder != self.folder;
        let twin = all.iter().filter(twin).any(|twin| {
            let inside = source.path.strip_prefix(twin.folder);
            inside.is_some_and(|inside| twin.is_home(inside))
        });
        if twin {
            return Vec::new();
        }
        if source.path.strip_prefix(self.folder).is_some_and(|inside| self.is_home(inside)) {
            return Vec::new();
        }
        // Most files contain none of its names, and need no look at each token.
        let names = [self.module.clone(), self.module.replace('_', "-"), self.kind.clone()];
        if !names.iter().any(|name| source.text.contains(name)) {
            return Vec::new();
        }
        let mut lines = self.lines(source);
        // A variant's line contains the name that it varies, as `cbq_ref` does.
        let place = source.path.strip_suffix("/mod.rs");
        lines.retain(|line| !all.iter().any(|at| Some(at.folder) == place && at.line == *line));
        self.findings(source, lines)
    }

    /// Returns true for the file of this algorithm, or one in its folder; the path is that in the
    /// registry.
    fn is_home(&self, inside: &str) -> bool {
        let folder = format!("/{}/", self.module);
        inside == format!("/{}.rs", self.module) || inside.starts_with(&folder)
    }

    /// Returns the lines that name this algorithm, each once, in order.
    fn lines(&self, source: &Source) -> Vec<usize> {
        let tokens = &source.tokens;
        let named = (0..tokens.len()).filter(|at| self.is_named_at(tokens, *at));
        let lines: BTreeSet<usize> =
            named.map(|at| tokens[at].line).filter(|line| !source.is_test(*line)).collect();
        lines.into_iter().collect()
    }

    fn is_named_at(&self, tokens: &[Token], at: usize) -> bool {
        let text = tokens[at].text.as_str();
        if is_documentation(tokens, at) {
            return false;
        }
        let keyword = self.module.replace('_', "-");
        if text.starts_with('"') || text.starts_with("r\"") || text.starts_with("r#") {
            // A raw string of several lines is an example, not compared by code.
            if text.starts_with('r') && text.contains('\n') {
                return false;
            }
            let inside = text.trim_start_matches('r').trim_matches(['#', '"']);
            return if self.is_ordinary() { inside == keyword } else { has_word(inside, &keyword) };
        }
        if self.is_ordinary() {
            let text_at = |at: usize| tokens.get(at).map(|token| token.text.as_str());
            let path = |side: Option<usize>| side.and_then(text_at) == Some("::");
            return text == self.module && (path(at.checked_sub(1)) || path(Some(at + 1)));
        }
        let rest = text.strip_prefix(self.kind.as_str());
        let is_type = rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_lowercase()));
        is_type || has_word(&text.replace('_', "-"), &keyword)
    }

    fn is_ordinary(&self) -> bool {
        ORDINARY_WORDS.contains(&self.module.as_str())
    }

    fn findings(&self, source: &Source, lines: Vec<usize>) -> Vec<Finding> {
        let finding = |line| {
            let what = format!("the algorithm `{}` is named outside its places", self.module);
            let cure = "use the registry, or state the difference in its descriptor";
            source.finding(line, "algorithm-name", what, cure)
        };
        lines.into_iter().map(finding).collect()
    }
}

/// Returns true for the string of a doc comment, which is `# [ doc = "…" ]` in tokens.
fn is_documentation(tokens: &[Token], at: usize) -> bool {
    at >= 2 && tokens[at - 1].text == "=" && tokens[at - 2].text == "doc"
}

/// Returns true if `word` occurs in `text` with no letter, digit or `-` beside it.
fn has_word(text: &str, word: &str) -> bool {
    let joins = |letter: char| letter.is_alphanumeric();
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(joins) && !after.is_some_and(joins)
    })
}

/// Returns the algorithms in the call of this macro.
fn registered(folder: &'static str, macro_name: &str, tokens: &[Token]) -> Vec<Algorithm> {
    let texts =
        |window: &[Token]| window.iter().map(|token| token.text.clone()).collect::<Vec<_>>();
    let start = tokens.windows(3).position(|call| texts(call) == [macro_name, "!", "{"]);
    let call = start.map_or(&tokens[..0], |start| &tokens[start + 3..]);
    let end = call.iter().position(|token| token.text == "}").unwrap_or(0);
    let inside = &call[..end];
    let lines = inside.split(|token| token.text == ",");
    let named = lines.map_while(|line| match line {
        [module, path, kind] if path.text == "::" => Some((module, kind)),
        _ => None,
    });
    named
        .map(|(module, kind)| Algorithm {
            folder,
            module: module.text.clone(),
            kind: kind.text.clone(),
            line: module.line,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULERS: &str = "//! x\nmacro_rules! schedulers { () => {} }\nschedulers! {\n\
        drr::Drr,\naltq_wfq::AltqWfq,\ncbq::Cbq,\ncbq_ref::CbqRef,\n}\n";

    fn registries(path: &str) -> Option<String> {
        match path {
            "weir-core/src/sched/mod.rs" => Some(SCHEDULERS.into()),
            "weir-core/src/queue/mod.rs" => Some("droppers! {\ntail::Tail,\n}".into()),
            _ => Some("classifiers! {\nlinear::LinearRules,\n}\nmeters! {\na::B,\n}".into()),
        }
    }

    fn check(path: &str, text: &str, expected: &[usize]) {
        let algorithms = Algorithms::read(registries).expect("the registries are there");
        let source = Source::parse(path, text).expect("the test's snippet is Rust");
        let findings = algorithms.check(&source);
        let lines: Vec<usize> = findings.iter().map(|found| found.line).collect();
        assert_eq!(lines, expected, "{path}: {text}");
    }

    #[test]
    fn a_registry_without_lines_is_found() {
        let empty = Algorithms::read(|_| Some("mod drr;".into()));
        assert_eq!(empty.err().map(|found| found.check), Some("algorithm-name"));
    }

    #[test]
    fn a_name_outside_its_places_is_found_in_every_form() {
        let rows: [(&str, &[usize]); 17] = [
            ("use sched::drr::Drr;", &[1]),
            ("fn f() { if name == \"drr\" {} }", &[1]),
            ("const C: &str = \"scheduler = 'drr'\";", &[1]),
            ("fn f(p: DrrParams) {}", &[1]),
            ("fn drr_quantum() {}", &[1]),
            ("fn f() { AltqWfq::new() }", &[1]),
            ("fn f() { g(\"altq-wfq\") }", &[1]),
            ("/// Like drr.\nfn f() {}", &[]),
            ("fn f() { let address = 1; }", &[]),
            ("const C: &str = \"sundrry\";", &[]),
            ("#[cfg(test)]\nmod t { use sched::drr::Drr; }", &[]),
            ("fn f() { let tail = queue.tail(); }", &[]),
            ("const C: &str = \"the tail of it\";", &[]),
            ("fn f() { queue::tail::new() }", &[1]),
            ("fn f() { g(\"tail\") }", &[1]),
            ("struct Drrx;", &[]),
            ("const C: &str = r#\"[link]\nscheduler = \"drr\"\"#;", &[]),
        ];
        for (text, expected) in rows {
            check("weir-policy/src/a.rs", text, expected);
        }
    }

    #[test]
    fn an_algorithm_names_itself_but_not_another() {
        check("weir-core/src/sched/drr.rs", "struct Drr;", &[]);
        check("weir-core/src/sched/cbq/ref.rs", "struct Cbq;", &[]);
        check("weir-core/src/sched/sfq.rs", "use super::drr::Drr;", &[1]);
    }

    #[test]
    fn the_folder_has_one_line_for_each() {
        check("weir-core/src/sched/mod.rs", SCHEDULERS, &[]);
        let more = format!("{SCHEDULERS}fn f(d: drr::Drr) {{}}");
        check("weir-core/src/sched/mod.rs", &more, &[9]);
        check("weir-core/src/sched/tree.rs", "struct Tree;\nfn f(d: Drr) {}", &[2]);
    }

    #[test]
    fn tests_and_listed_places_may_name_any() {
        check("weir-policy/tests/a.rs", "const C: &str = \"drr\";", &[]);
        check("weir-lab/src/a.rs", "const C: &str = \"drr\";", &[]);
    }
}
