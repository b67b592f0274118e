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

/// The contents of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contents {
    /// Bytes that are UTF-8.
    Text(String),
    /// Other bytes, of which a finding tells.
    Bytes(Vec<u8>),
}

impl Contents {
    /// Returns the contents as bytes, whichever form they have in a message.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The files that a forwarder may read, and their texts: see the module.
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

    /// Has the files of this deployment be read from now on. If it is the one of before, files that
    /// were read stay known, and a reading that goes on is not disturbed.
    pub fn follow(&mut self, deployment: &File) {
        if !self.reads || self.texts.deployment != *deployment {
            *self = Self::beside(Texts { deployment: deployment.clone(), ..Texts::default() });
        }
    }

    /// Returns the deployment with the files that were read, each as it was read last.
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    /// Returns what a file contains.
    ///
    /// # Errors
    /// When no text that was read names it, there are too many, or the system refuses.
    pub fn read(&mut self, path: &Path) -> io::Result<Contents> {
        let name = path.display().to_string();
        let known = self.texts.files.iter().position(|file| file.name == name);
        match known {
            Some(place) if !self.reads => {
                return Ok(Contents::Text(self.texts.files[place].text.clone()));
            }
            // It may contain something else by now.
            Some(place) => self.texts.files[place].text.clear(),
            None if self.reads && self.is_named(&name) => {}
            None => return Err(io::Error::other(UNNAMED)),
        }
        let is_full = known.is_none() && self.texts.files.len() >= FILES_MAX;
        if is_full || self.texts.bytes() >= BYTES_MAX {
            let why = format!("the files are more than {FILES_MAX}, or {BYTES_MAX} bytes");
            return Err(io::Error::other(why));
        }
        Ok(match String::from_utf8(read_named(path)?) {
            Ok(text) => {
                let file = File { name, text: text.clone() };
                match known {
                    Some(place) => self.texts.files[place] = file,
                    None => self.texts.files.push(file),
                }
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
/// Bound: files that policies name together; a further one is refused.
const FILES_MAX: usize = 1024;
/// No further file is read beyond so many bytes: half of what a message holds, of which JSON may
/// escape some.
const BYTES_MAX: usize = 128 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Requests files, by the rest of their paths behind a folder, of a deployment there that names
    /// `p/up.toml`, which names `list.csv` and an absolute path; those that are read are expected.
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
    fn a_file_is_read_again_and_a_reading_that_goes_on_is_not_disturbed() {
        let folder = std::env::temp_dir().join(format!("weir-again-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("there is room");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("room");
        write("p.toml", "list = 'first.csv'");
        write("first.csv", "1");
        let name = folder.join("d.toml").display().to_string();
        let deployment = File { name, text: "policy = 'p.toml'".to_owned() };
        let mut files = Files::default();
        let read = |files: &mut Files, name: &str| {
            files.read(&folder.join(name)).ok().map(Contents::into_bytes)
        };
        assert_eq!(read(&mut files, "p.toml"), None, "nothing is read without a deployment");
        files.follow(&deployment);
        assert_eq!(read(&mut files, "p.toml"), Some(b"list = 'first.csv'".to_vec()));
        files.follow(&deployment);
        assert_eq!(read(&mut files, "first.csv"), Some(b"1".to_vec()), "the policy names it");
        write("p.toml", "list = 'other.csv'");
        assert_eq!(read(&mut files, "p.toml"), Some(b"list = 'other.csv'".to_vec()));
        let known: Vec<_> = files.texts().files.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(known, ["list = 'other.csv'", "1"]);
        files.follow(&File { text: "policy = 'q.toml'".to_owned(), ..deployment });
        assert_eq!(read(&mut files, "p.toml"), None, "another deployment does not name it");
        fs::remove_dir_all(&folder).expect("it is there");
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
