//! Checks what must not be in any tracked text: paths of one machine, hosts of package registries,
//! open ends without an issue, names of documents that are not in the repository.

use super::Finding;

/// Roots of absolute paths that exist on one machine only. Written in parts, so that this file does
/// not contain them.
const MACHINE_ROOTS: [&str; 3] = [concat!("/", "work"), concat!("/", "root"), concat!("/", "home")];

/// Hosts of package registries.
const REGISTRY_HOSTS: [&str; 7] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
    concat!("deb.debian", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("maven.apache", ".org"),
];

/// Words for unfinished work.
const OPEN_ENDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Reports absolute paths of one machine.
pub fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let has = |line: &str| MACHINE_ROOTS.iter().any(|root| has_path(line, root));
    findings((path, text), &MACHINE_ROOTS, has, |line, number| Finding {
        file: path.to_owned(),
        line: number,
        check: "machine-path",
        what: format!("a path that exists on one machine only: `{}`", line.trim()),
        cure: "make it relative, or take it as an argument",
    })
}

/// Reports hosts of package registries; the lock file may name its own.
pub fn registry_hosts(path: &str, text: &str) -> Vec<Finding> {
    if path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    let has = |line: &str| REGISTRY_HOSTS.iter().any(|host| line.contains(host));
    findings((path, text), &REGISTRY_HOSTS, has, |_, number| Finding {
        file: path.to_owned(),
        line: number,
        check: "registry-host",
        what: "the host of a package registry".to_owned(),
        cure: "name the package; its client knows where to look",
    })
}

/// Reports open ends without the number of an issue, as in `(issue 12)` or `#12`.
pub fn open_ends(path: &str, text: &str) -> Vec<Finding> {
    let has = |line: &str| OPEN_ENDS.iter().any(|word| has_word(line, word)) && !has_issue(line);
    findings((path, text), &OPEN_ENDS, has, |_, number| Finding {
        file: path.to_owned(),
        line: number,
        check: "open-end",
        what: "an open end without an issue".to_owned(),
        cure: "do it now, or name its issue",
    })
}

/// Reports names of Markdown files that are not among `files`, in a comment, a sheet or a document.
pub fn documents(path: &str, text: &str, files: &[String]) -> Vec<Finding> {
    let comment = |line: &str| line.trim_start().starts_with("//");
    let reads = |line: &str| match path.rsplit('.').next() {
        Some("rs") => comment(line),
        Some("toml" | "md") => true,
        _ => false,
    };
    let has = |line: &str| reads(line) && markdown_names(line).any(|name| !is_among(name, files));
    findings((path, text), &[".md"], has, |line, number| Finding {
        file: path.to_owned(),
        line: number,
        check: "document",
        what: format!("a document that is not in the repository: `{}`", line.trim()),
        cure: "name one that is, or a public source of docs/sources.md",
    })
}

/// Returns the words of a line that end like the name of a Markdown file.
fn markdown_names(line: &str) -> impl Iterator<Item = &str> {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "./-_".contains(letter);
    let words = line.split(move |letter| !letters(letter));
    let words = words.map(|word| word.trim_end_matches('.').trim_start_matches(['.', '/']));
    words.filter(|word| word.len() > ".md".len() && word.ends_with(".md"))
}

/// Returns whether a file has this name, or a path that ends in it.
fn is_among(name: &str, files: &[String]) -> bool {
    files.iter().any(|file| {
        file.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    })
}

/// Returns a finding for each line that `has` something, if one of the words is in the text.
fn findings(
    (path, text): (&str, &str),
    words: &[&str],
    has: impl Fn(&str) -> bool,
    finding: impl Fn(&str, usize) -> Finding,
) -> Vec<Finding> {
    // The text of a licence is not Weir's.
    if path.starts_with("LICENSE") || !words.iter().any(|word| text.contains(word)) {
        return Vec::new();
    }
    let lines = text.lines().zip(1..).filter(|(line, _)| has(line));
    lines.map(|(line, number)| finding(line, number)).collect()
}

/// Returns true if an absolute path below `root` is in the line: `root` begins a path and ends a
/// part of it.
fn has_path(line: &str, root: &str) -> bool {
    line.match_indices(root).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + root.len()..].chars().next();
        let inside = |letter: char| letter.is_alphanumeric() || "._-/~}*>$".contains(letter);
        !before.is_some_and(inside) && after == Some('/')
    })
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let joins = |letter: char| letter.is_alphanumeric() || letter == '_';
        !before.is_some_and(joins) && !after.is_some_and(joins)
    })
}

fn has_issue(line: &str) -> bool {
    ["#", "issue "].iter().any(|mark| {
        let mut after = line.split(mark).skip(1);
        after.any(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&str, &str) -> Vec<Finding>;

    fn check(check: Check, text: &str, expected: usize) {
        assert_eq!(check("docs/a.md", text).len(), expected, "{text}");
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let [first, second, third] = MACHINE_ROOTS;
        check(machine_paths, &format!("see {first}/main/x"), 1);
        check(machine_paths, &format!("`{second}/x`\n(\"{third}/me\")"), 2);
        check(machine_paths, "the network/root/x, ./work/x, at root, ../home/x", 0);
        check(machine_paths, &format!("the mark {first}ing {second}"), 0);
    }

    #[test]
    fn registry_hosts_are_found_except_in_the_lock_file() {
        let [host, ..] = REGISTRY_HOSTS;
        check(registry_hosts, &format!("a\nget it at {host}"), 1);
        check(registry_hosts, "install it by name", 0);
        assert!(registry_hosts("Cargo.lock", host).is_empty());
    }

    #[test]
    fn a_document_that_is_not_in_the_repository_is_found() {
        let files = ["docs/a.md", "README.md", "docs/lab/b-c.md"].map(str::to_owned);
        let rows = [
            ("a.rs", "// See `docs/a.md`, a.md and README.md.", 0),
            ("a.rs", "// See notes.md.", 1),
            ("a.rs", "let name = \"notes.md\";", 0),
            ("docs/x.md", "[here](../docs/lab/b-c.md), [there](c.md)", 1),
            ("papers/p/claims.toml", "from = \"notes.md P-1.\"", 1),
            ("a.sh", "notes.md", 0),
        ];
        for (path, text, expected) in rows {
            assert_eq!(documents(path, text, &files).len(), expected, "{path}: {text}");
        }
    }

    #[test]
    fn an_open_end_needs_an_issue() {
        let [first, second, _] = OPEN_ENDS;
        check(open_ends, &format!("// {first}: finish"), 1);
        check(open_ends, &format!("// {second} (issue 12): finish\n// {first} #3"), 0);
        check(open_ends, &format!("the {first}S word"), 0);
    }
}
