//! Checks that every source that the tree cites, as in `[key §3]`, is in `docs/sources.md`, and
//! that a cited document of this repository exists and has the section.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;

/// Where the keys are defined.
pub const SOURCES: &str = "docs/sources.md";

/// The numbers of headings in a document: `## 3.` and `**3.14 The model.**`.
type Sections = BTreeSet<String>;

/// The keys that may be cited.
pub struct Citations {
    /// Each key; with sections if it denotes a document of this repository.
    keys: BTreeMap<String, Option<Sections>>,
    /// Keys whose document is not in the repository, with its path.
    missing: Vec<(String, String)>,
}

impl Citations {
    /// Reads the keys from the first column of the tables, each in back quotes, and the documents
    /// of this repository that the second column links to.
    pub fn read(sources: &str, read: impl Fn(&str) -> Option<String>) -> Citations {
        let mut citations = Citations { keys: BTreeMap::new(), missing: Vec::new() };
        for row in sources.lines().filter_map(|line| line.strip_prefix("| `")) {
            let mut cells = row.split('|');
            let keys = cells.next().unwrap_or_default();
            let path = cells.next().and_then(linked);
            let text = path.as_ref().and_then(|path| read(path));
            for key in keys.split(['`', ',', ' ']).filter(|key| !key.is_empty()) {
                if let (Some(path), None) = (&path, &text) {
                    citations.missing.push((key.to_owned(), path.clone()));
                }
                citations.keys.insert(key.to_owned(), text.as_deref().map(sections));
            }
        }
        citations
    }

    /// Reports the keys whose document is not in the repository.
    pub fn documents(&self) -> Vec<Finding> {
        let finding = |(key, path): &(String, String)| Finding {
            file: SOURCES.to_owned(),
            line: 1,
            check: "citation",
            what: format!("`{key}` denotes {path}, which is not in the repository"),
            cure: "add the document, or cite a public source in its place",
        };
        self.missing.iter().map(finding).collect()
    }

    /// Reports citations of unknown sources, and of sections that a document does not have.
    pub fn check(&self, path: &str, text: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let mut push = |what, cure| {
                let file = path.to_owned();
                findings.push(Finding { file, line: number, check: "citation", what, cure });
            };
            for key in cited(line).filter(|key| !self.keys.contains_key(*key)) {
                let what = format!("`{key}` is cited, but {SOURCES} does not define it");
                push(what, "add its row there, with what Weir takes from it");
            }
            for (key, section) in self.absent_sections(line) {
                let what = format!("`{key}` has no section {section}");
                push(what, "write the section, or cite an existing one");
            }
        }
        findings
    }

    /// Returns the citations in a line of sections that a document of this repository does not
    /// have.
    fn absent_sections<'a>(&'a self, line: &'a str) -> Vec<(&'a str, &'a str)> {
        let documents =
            self.keys.iter().filter_map(|(key, sections)| Some((key, sections.as_ref()?)));
        let mut absent = Vec::new();
        for (key, sections) in documents {
            let places = line.match_indices(key.as_str());
            let ends = places.map(|(start, key)| &line[start + key.len()..]);
            let cited = ends.filter_map(|rest| rest.strip_prefix(" §")).flat_map(cited_sections);
            absent.extend(
                cited.filter(|cited| !sections.contains(*cited)).map(|cited| (key.as_str(), cited)),
            );
        }
        absent
    }
}

/// Returns the sections in `3.3, §11.2]` or `3.9: the code`, up to the end of the citation.
fn cited_sections(rest: &str) -> impl Iterator<Item = &str> {
    let end = rest.find([']', '"', ';', ':', '(', ')', '`']).unwrap_or(rest.len());
    rest[..end].split('§').filter_map(|part| {
        let end = part.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
        let section = part[..end.unwrap_or(part.len())].trim_end_matches('.');
        section.starts_with(|digit: char| digit.is_ascii_digit()).then_some(section)
    })
}

/// Returns the path in the repository of the Markdown file that a cell links to.
fn linked(cell: &str) -> Option<String> {
    let (_, rest) = cell.split_once("](")?;
    let (path, _) = rest.split_once(')')?;
    Some(format!("docs/{path}"))
}

/// Returns the numbers of a document's sections.
fn sections(text: &str) -> Sections {
    let heads = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("**").or_else(|| line.strip_prefix("## "))?;
        let number = rest.split([' ', '*']).next()?.trim_end_matches('.');
        number.starts_with(|digit: char| digit.is_ascii_digit()).then(|| number.to_owned())
    });
    heads.collect()
}

/// Returns the words that open a citation: the last of the keys behind `[` or `"`, before ` §`.
fn cited(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.match_indices(" §").map(|(end, _)| end);
    ends.filter_map(|end| {
        let start = line[..end].rfind(['[', '"'])? + 1;
        let inside = &line[start..end];
        let list = line[..start].ends_with('[');
        let key = if list { inside.rsplit(", ").next()? } else { inside };
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        // `[key §n]` stands for any citation where the form itself is explained.
        (!key.is_empty() && key.chars().all(letters) && key != "key").then_some(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "| key | source |\n| --- | --- |\n| `drr95` | S |\n| `rfc1`, `rfc2` | S |\n\
        | `rules` | [rules.md](rules.md) |\n";

    fn documents(path: &str) -> Option<String> {
        let text = "## 2. Two\n\n**2.1 One.**\n\n**2.10** Ten\n";
        (path == "docs/rules.md").then(|| text.to_owned())
    }

    #[test]
    fn citations_of_unknown_sources_or_sections_are_found() {
        // `$` is the section sign here, so that this file cites nothing itself.
        let rows = [
            ("// [drr95 $3] Why.", 0),
            ("// [rfc2 $3.1, $4]", 0),
            ("// [nobody $3] Why.", 1),
            ("// [drr95, nobody $3] Why.", 1),
            ("sources: &[\"drr95 $3\", \"nobody $1\"],", 1),
            ("/// `[key $n]` is the form.", 0),
            ("reason = \"drr95 $2, and $3.\"", 0),
            ("/// See section $3 of [`Other`].", 0),
            ("// [rules $2.1, $2.10]", 0),
            ("// [drr95, rules $2, $2.2]", 1),
            ("from = \"The model of rules $2.3; 3 %\"", 1),
            ("reason = \"rules $2.1: so does the code.\"", 0),
        ];
        for (line, count) in rows {
            let found = Citations::read(ROWS, documents).check("a.rs", &line.replace('$', "§"));
            assert_eq!(found.len(), count, "{line}");
        }
    }

    #[test]
    fn a_document_that_is_not_in_the_repository_is_found() {
        assert!(Citations::read(ROWS, documents).documents().is_empty());
        let rows = format!("{ROWS}| `notes` | [notes.md](notes.md) |\n");
        let found = Citations::read(&rows, documents).documents();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.contains("docs/notes.md"), "{}", found[0].what);
    }
}
