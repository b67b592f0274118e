//! Checks that every source that the code cites, as in `[key §3]`, is in `docs/sources.md`.

use std::collections::BTreeSet;

use super::Finding;

/// Where the keys are defined.
pub const SOURCES: &str = "docs/sources.md";

/// The known keys.
pub struct Citations(BTreeSet<String>);

impl Citations {
    /// Reads the keys from the first column of the tables, each in back quotes.
    pub fn read(sources: &str) -> Citations {
        let rows = sources.lines().filter_map(|line| line.strip_prefix("| `"));
        let cells = rows.filter_map(|row| row.split('|').next());
        let keys = cells.flat_map(|cell| cell.split(['`', ',', ' ']));
        Citations(keys.filter(|key| !key.is_empty()).map(str::to_owned).collect())
    }

    /// Reports the citations of unknown sources in a Rust file.
    pub fn check(&self, path: &str, text: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            for key in cited(line).filter(|key| !self.0.contains(*key)) {
                findings.push(Finding {
                    file: path.to_owned(),
                    line: number,
                    check: "citation",
                    what: format!("`{key}` is cited, but {SOURCES} does not define it"),
                    cure: "add its row there, with what Weir takes from it",
                });
            }
        }
        findings
    }
}

/// Returns the words that open a citation: right behind `[` or `"`, right before ` §`.
fn cited(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.match_indices(" §").map(|(end, _)| end);
    ends.filter_map(|end| {
        let start = line[..end].rfind(['[', '"'])? + 1;
        let key = &line[start..end];
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        // `[key §n]` stands for any citation where the form itself is explained.
        (!key.is_empty() && key.chars().all(letters) && key != "key").then_some(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_source_is_found() {
        let sources = "| key | source |\n| --- | --- |\n| `drr95` | S |\n| `rfc1`, `rfc2` | S |\n";
        // `$` stands for the section sign here, so that this file cites nothing itself.
        let rows = [
            ("// [drr95 $3] Why.", 0),
            ("// [rfc2 $3.1, $4]", 0),
            ("// [nobody $3] Why.", 1),
            ("sources: &[\"drr95 $3\", \"nobody $1\"],", 1),
            ("/// `[key $n]` is the form.", 0),
            ("/// See section $3 of [`Other`].", 0),
        ];
        for (line, count) in rows {
            let found = Citations::read(sources).check("a.rs", &line.replace('$', "§"));
            assert_eq!(found.len(), count, "{line}");
        }
    }
}
