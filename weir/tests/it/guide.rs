//! Runs each command of the guide and compares its output with what the guide shows.
//!
//! `WEIR_WRITE=1 cargo test -p weir --test it guide` first puts what commands print now in place of
//! shown lines that they no longer print, by the first word of a line; read the difference. The
//! tests of `weir-lab` contain this file, too, and run the commands of `weir lab`; that is a part
//! of `cargo xtask figures pages`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A command and the lines shown of its output.
struct Shown {
    page: String,
    command: String,
    lines: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the commands in the console blocks of a page.
fn commands(page: &str, text: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            let (page, command) = (page.to_owned(), command.to_owned());
            shown.push(Shown { page, command, lines: Vec::new() });
        } else if inside && !line.trim().is_empty() {
            let last = shown.last_mut().expect("a block begins with a command");
            last.lines.push(words(line));
        }
    }
    shown
}

/// The program that these tests are of; the other is `None`.
const WEIR: Option<&str> = option_env!("CARGO_BIN_EXE_weir");
const WEIR_LAB: Option<&str> = option_env!("CARGO_BIN_EXE_weir-lab");

/// Returns whether a command is of the program that these tests are of.
fn is_ours(command: &str) -> bool {
    command.starts_with("weir lab ") == WEIR_LAB.is_some()
}

/// Runs a command of the guide; returns what it prints and says, and whether it succeeded.
fn run(page: &str, command: &str) -> (String, String, bool) {
    let mut arguments = command.split_whitespace();
    assert_eq!(arguments.next(), Some("weir"), "{page}: `{command}` is not a command of weir");
    let mut program = Command::new(WEIR_LAB.or(WEIR).expect("the tests are of a program"));
    if WEIR_LAB.is_some() {
        arguments.next();
    }
    program.args(arguments).current_dir(root()).env("COLUMNS", "100");
    let output = program.output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.success())
}

fn check(shown: &Shown) {
    let Shown { page, command, lines } = shown;
    let (printed, said, succeeded) = run(page, command);
    assert!(succeeded, "{page}: `{command}`: {printed}{said}");
    for line in lines {
        let found = printed.lines().any(|printed| words(printed).starts_with(line.as_str()));
        assert!(found, "{page}: `{command}` does not print `{line}`:\n{printed}");
    }
}

/// Returns the page with the lines that its commands print now.
fn rewritten(page: &str, text: &str) -> String {
    let mut inside = false;
    // What the last command printed and the page has not shown yet.
    let mut printed: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            let text = if is_ours(command) { run(page, command).0 } else { String::new() };
            printed = text.lines().map(str::to_owned).collect();
        } else if inside && !line.trim().is_empty() {
            let first = |text: &str| text.split_whitespace().next().map(str::to_owned);
            let same = |now: &String| words(now).starts_with(&words(&line));
            let alike = |now: &String| first(now) == first(&line);
            let place = printed.iter().position(same);
            if let Some(place) = place.or_else(|| printed.iter().position(alike)) {
                line = if same(&printed[place]) { line } else { printed[place].clone() };
                printed.drain(..=place);
            }
        }
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

/// Checks that the commands of the guide that are of this program print what it shows.
pub fn check_commands() {
    let folder = root().join("docs/guide");
    let mut count = 0;
    let mut pages: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("there is a guide")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    for path in pages {
        let mut text = std::fs::read_to_string(&path).expect("a page is text");
        let page = path.file_name().unwrap_or_default().to_string_lossy();
        if std::env::var_os("WEIR_WRITE").is_some() {
            text = rewritten(&page, &text);
            std::fs::write(&path, &text).expect("a page can be written");
        }
        let shown = commands(&page, &text);
        let index = page == "README.md";
        assert!(index || !shown.is_empty(), "{page} shows no command");
        let ours = shown.iter().filter(|shown| is_ours(&shown.command));
        count += ours.map(check).count();
    }
    assert!(count > 5, "{count} commands");
}

/// Returns the pictures that a page shows.
fn pictures(text: &str) -> Vec<&str> {
    let named = |part: &'static str| text.split(part).skip(1);
    let markdown = named("](../pictures/").filter_map(|rest| rest.split(')').next());
    let html = named("\"../pictures/").filter_map(|rest| rest.split('"').next());
    markdown.chain(html).collect()
}

#[test]
fn each_page_of_guide_and_lab_shows_pictures_that_are_there_and_small() {
    for folder in ["docs/guide", "docs/lab"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("it is there") {
            let path = entry.expect("it can be read").path();
            let is_page = path.extension().is_some_and(|extension| extension == "md");
            if !is_page || path.ends_with("README.md") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a page is text");
            let shown = pictures(&text);
            assert!(!shown.is_empty(), "{} shows no picture", path.display());
            for name in shown {
                let file = root().join("docs/pictures").join(name);
                let size = file.metadata().map(|file| file.len());
                let is_small = size.is_ok_and(|size| (1000..=PICTURE_MAX).contains(&size));
                assert!(is_small, "{}: {name}", path.display());
            }
        }
    }
}

/// The most bytes of a picture, as for `cargo xtask pictures`.
const PICTURE_MAX: u64 = 300_000;
