//! One algorithm, one file, one registry line: an algorithm's name occurs nowhere else in the code.
//!
//! The algorithms are the files of `rules::ALGORITHM_FOLDERS`. In the folder's `mod.rs` a name may
//! take two lines, its `mod` and its registry line; in a file of its own, any number.

use std::collections::BTreeSet;

use super::Finding;
use super::rules::{ALGORITHM_FOLDERS, NAMING_PLACES, ORDINARY_WORDS};
use super::source::{Source, Token};

/// Lines of `mod.rs` that may hold a name: the `mod` and the registry line.
const REGISTRY_LINES: usize = 2;

/// One algorithm, known by its file or folder.
struct Algorithm {
    /// `weir-core/src/sched`.
    folder: &'static str,
    /// `altq_wfq`.
    module: String,
}

/// The algorithms of the core.
pub struct Algorithms(Vec<Algorithm>);

impl Algorithms {
    /// Reads the algorithms off the names of the files.
    pub fn of_files(files: &[String]) -> Algorithms {
        let mut found = Vec::new();
        for (folder, shared) in ALGORITHM_FOLDERS {
            let inside = files
                .iter()
                .filter_map(|file| file.strip_prefix(folder)?.strip_prefix('/'));
            let first = inside.map(|file| file.split('/').next().unwrap_or_default());
            let modules: BTreeSet<&str> = first
                .map(|part| part.strip_suffix(".rs").unwrap_or(part))
                .filter(|module| !shared.contains(module))
                .collect();
            let algorithm = |module: &str| Algorithm {
                folder,
                module: module.to_owned(),
            };
            found.extend(modules.into_iter().map(algorithm));
        }
        Algorithms(found)
    }

    /// The names that occur in this file and should not.
    pub fn check(&self, source: &Source) -> Vec<Finding> {
        let path = &source.path;
        if source.is_test_file()
            || NAMING_PLACES
                .iter()
                .any(|(place, _)| path.starts_with(place))
        {
            return Vec::new();
        }
        self.0
            .iter()
            .flat_map(|algorithm| algorithm.check(source))
            .collect()
    }
}

impl Algorithm {
    fn check(&self, source: &Source) -> Vec<Finding> {
        let Some(left) = source.path.strip_prefix(self.folder) else {
            return self.findings(source, self.lines(source));
        };
        if left == format!("/{}.rs", self.module) || left.starts_with(&format!("/{}/", self.module))
        {
            return Vec::new();
        }
        let mut lines = self.lines(source);
        if left == "/mod.rs" {
            lines.drain(..lines.len().min(REGISTRY_LINES));
        }
        self.findings(source, lines)
    }

    /// The lines that name this algorithm, each once, in order.
    fn lines(&self, source: &Source) -> Vec<usize> {
        let tokens = &source.tokens;
        let named = (0..tokens.len()).filter(|at| self.is_named_at(tokens, *at));
        let lines: BTreeSet<usize> = named
            .map(|at| tokens[at].line)
            .filter(|line| !source.is_test(*line))
            .collect();
        lines.into_iter().collect()
    }

    fn is_named_at(&self, tokens: &[Token], at: usize) -> bool {
        let text = tokens[at].text.as_str();
        if is_documentation(tokens, at) {
            return false;
        }
        let keyword = self.module.replace('_', "-");
        if text.starts_with('"') || text.starts_with("r\"") || text.starts_with("r#") {
            let inside = text.trim_start_matches('r').trim_matches(['#', '"']);
            return if self.is_ordinary() {
                inside == keyword
            } else {
                has_word(inside, &keyword)
            };
        }
        if self.is_ordinary() {
            let text_at = |at: usize| tokens.get(at).map(|token| token.text.as_str());
            let path = |side: Option<usize>| side.and_then(text_at) == Some("::");
            return text == self.module && (path(at.checked_sub(1)) || path(Some(at + 1)));
        }
        let type_name = camel(&self.module);
        let rest = text.strip_prefix(type_name.as_str());
        let is_type = rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_lowercase()));
        is_type || has_word(&text.replace('_', "-").to_lowercase(), &keyword)
    }

    fn is_ordinary(&self) -> bool {
        ORDINARY_WORDS.contains(&self.module.as_str())
    }

    fn findings(&self, source: &Source, lines: Vec<usize>) -> Vec<Finding> {
        let finding = |line| {
            let what = format!(
                "the algorithm `{}` is named outside its places",
                self.module
            );
            let cure = "ask the registry, or let its descriptor say what differs";
            source.finding(line, "algorithm-name", what, cure)
        };
        lines.into_iter().map(finding).collect()
    }
}

/// True for the string of a doc comment, which reads `# [ doc = "…" ]` in tokens.
fn is_documentation(tokens: &[Token], at: usize) -> bool {
    at >= 2 && tokens[at - 1].text == "=" && tokens[at - 2].text == "doc"
}

/// True if `word` stands in `text` with no letter, digit or `-` beside it.
fn has_word(text: &str, word: &str) -> bool {
    let joins = |letter: char| letter.is_alphanumeric();
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(joins) && !after.is_some_and(joins)
    })
}

/// `altq_wfq` as a type's name begins: `AltqWfq`.
fn camel(module: &str) -> String {
    let mut name = String::new();
    for part in module.split('_') {
        let mut letters = part.chars();
        name.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(letters.as_str());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[usize]) {
        let files = ["mod", "drr", "altq_wfq", "cbq/ref"]
            .map(|name| format!("weir-core/src/sched/{name}.rs"))
            .into_iter()
            .chain(["weir-core/src/queue/tail.rs".to_owned()]);
        let algorithms = Algorithms::of_files(&files.collect::<Vec<_>>());
        let source = Source::parse(path, text).expect("the test's snippet is Rust");
        let findings = algorithms.check(&source);
        let lines: Vec<usize> = findings.iter().map(|found| found.line).collect();
        assert_eq!(lines, expected, "{path}: {text}");
    }

    #[test]
    fn a_name_outside_its_places_is_found_in_every_form() {
        let rows: [(&str, &[usize]); 16] = [
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
        ];
        for (text, expected) in rows {
            check("weir-policy/src/a.rs", text, expected);
        }
    }

    #[test]
    fn an_algorithm_names_itself_but_not_another() {
        check("weir-core/src/sched/drr.rs", "struct Drr;", &[]);
        check("weir-core/src/sched/cbq/ref.rs", "struct Cbq;", &[]);
        check(
            "weir-core/src/sched/altq_wfq.rs",
            "use super::drr::Drr;",
            &[1],
        );
    }

    #[test]
    fn the_folder_has_two_lines_for_each() {
        let two = "mod drr;\nconst REGISTRY: &[D] = &[\n&drr::DESCRIPTOR,\n];\n";
        check("weir-core/src/sched/mod.rs", two, &[]);
        let three = format!("{two}fn f(d: drr::Drr) {{}}");
        check("weir-core/src/sched/mod.rs", &three, &[5]);
    }

    #[test]
    fn tests_and_listed_places_may_name_any() {
        check("weir-policy/tests/a.rs", "const C: &str = \"drr\";", &[]);
        check("weir-lab/src/a.rs", "const C: &str = \"drr\";", &[]);
    }
}
