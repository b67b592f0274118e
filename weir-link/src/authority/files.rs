//! Files that policies name, read for a forwarder, which opens none.
//!
//! The keeper knows a deployment and not its policies, so it cannot know which files they name: the
//! forwarder asks for each. Invariant: only a file is read whose name stands, as it is, in a text
//! that was read before, beginning with the deployment. So a forwarder that was taken over gets
//! nothing but what the operator's own files name.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::change::history::{File, Texts};
use weir_policy::file::read_named;

/// What a file contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contents {
    /// A text.
    Text(String),
    /// Other bytes, of which a finding tells.
    Bytes(Vec<u8>),
}

impl Contents {
    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Files {
    texts: Texts,
    /// Whether files are read that the texts do not have yet.
    reads: bool,
}

impl Files {
    /// Files of a deployment, of which none was read yet.
    pub fn beside(texts: Texts) -> Self {
        Self { texts, reads: true }
    }

    /// Returns the deployment with the files that were read.
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    /// Returns what a file contains.
    ///
    /// # Errors
    /// When no text that was read names it, there are too many, or the system refuses.
    pub fn read(&mut self, path: &Path) -> io::Result<Contents> {
        let name = path.display().to_string();
        if let Some(known) = self.texts.files.iter().find(|file| file.name == name) {
            return Ok(Contents::Text(known.text.clone()));
        }
        if !self.reads || !self.is_named(&name) {
            return Err(io::Error::other(UNNAMED));
        }
        if self.texts.files.len() >= FILES_MAX || self.texts.bytes() >= BYTES_MAX {
            let why = format!("the files are more than {FILES_MAX}, or {BYTES_MAX} bytes");
            return Err(io::Error::other(why));
        }
        Ok(match String::from_utf8(read_named(path)?) {
            Ok(text) => {
                self.texts.files.push(File { name, text: text.clone() });
                Contents::Text(text)
            }
            Err(error) => Contents::Bytes(error.into_bytes()),
        })
    }

    /// Returns whether a text names this path, which is relative to the folder of that text.
    fn is_named(&self, path: &str) -> bool {
        let known = self.texts.files.iter().chain([&self.texts.deployment]);
        known.into_iter().any(|file| {
            let folder = Path::new(&file.name).parent().unwrap_or(Path::new(""));
            let folder = folder.display().to_string();
            let relative = path.strip_prefix(&folder).and_then(|rest| rest.strip_prefix('/'));
            let written = if folder.is_empty() { Some(path) } else { relative };
            let is_written = |name: &str| !name.is_empty() && file.text.contains(name);
            written.is_some_and(is_written) || path.starts_with('/') && is_written(path)
        })
    }
}

const UNNAMED: &str = "neither the deployment nor a file that it names has this name as it is; \
                       write it without escapes";
/// The most files that policies may name together.
const FILES_MAX: usize = 1024;
/// No further file is read beyond so many bytes: half of what a message holds, of which JSON may
/// escape some.
const BYTES_MAX: usize = 128 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Asks for files, by what follows a folder, of a deployment in it that names `p/up.toml`,
    /// which names `list.csv` and an absolute path; those that are read are expected.
    fn check(asked: &[&str], expected: &[&str]) {
        let number = std::process::id();
        let folder = std::env::temp_dir()
            .join(format!("weir-files-{number}-{}", asked.join("+").replace('/', "-")));
        fs::create_dir_all(folder.join("p")).expect("there is room");
        let outside = folder.join("outside.csv");
        let policy = format!("list = 'list.csv'\nother = '{}'\n", outside.display());
        for (name, text) in [("p/up.toml", policy.as_str()), ("p/list.csv", "name\nanna\n")] {
            fs::write(folder.join(name), text).expect("there is room");
        }
        for name in ["outside.csv", "secret", "list.csv"] {
            fs::write(folder.join(name), "x").expect("there is room");
        }
        fs::write(folder.join("p/bytes.csv"), b"\xff").expect("there is room");
        let name = folder.join("d.toml").display().to_string();
        let text = "policy = 'p/up.toml'\nlist = 'p/bytes.csv'\n".to_owned();
        let deployment = File { name, text };
        let mut files = Files::beside(Texts { deployment, ..Texts::default() });
        let read = asked.iter().copied().filter(|name| files.read(&folder.join(name)).is_ok());
        let read: Vec<_> = read.collect();
        fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!(read, expected, "of {asked:?}");
    }

    #[test]
    fn only_files_that_a_known_text_names_are_read() {
        check(&["p/up.toml"], &["p/up.toml"]);
        check(&["p/list.csv"], &[]);
        check(&["p/up.toml", "p/list.csv"], &["p/up.toml", "p/list.csv"]);
        check(&["p/up.toml", "outside.csv"], &["p/up.toml", "outside.csv"]);
        check(&["outside.csv"], &[]);
        check(&["p/up.toml", "secret", "../../etc/passwd", ""], &["p/up.toml"]);
        check(&["p/up.toml", "list.csv"], &["p/up.toml"]);
        check(&["p/bytes.csv"], &["p/bytes.csv"]);
        check(&["p/up.toml", "p/../secret", "/etc/passwd"], &["p/up.toml"]);
    }

    #[test]
    fn texts_that_are_in_force_are_given_and_nothing_more() {
        let file = |name: &str| File { name: name.to_owned(), text: "of then".to_owned() };
        let deployment = File { text: "policy = 'p.toml', 'q.toml'".to_owned(), ..file("d.toml") };
        let texts = Texts { deployment, files: vec![file("p.toml")], ..Texts::default() };
        let mut files = Files { texts, reads: false };
        let read = files.read(Path::new("p.toml")).expect("it is known");
        assert_eq!(read.into_bytes(), b"of then");
        assert!(files.read(Path::new("q.toml")).is_err());
    }
}
