//! Files that belong together: a policy, the deployments and scenarios that name it, and the sweeps
//! that name those. Open buffers go before what is on disk.

use crate::classes::{self, Occurrence};
use crate::document::Document;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use weir_policy::file::ReadFile;

/// The open files, and how others are read.
#[derive(Clone, Copy)]
pub struct Workspace<'a> {
    /// By their names.
    pub open: &'a BTreeMap<String, Document>,
    /// Reads a file that is not open.
    pub read_file: ReadFile<'a>,
}

/// Where a class is declared and used, by file.
pub type Uses = Vec<(Document, Vec<Occurrence>)>;

impl Workspace<'_> {
    /// Returns the files in which the class of that name in `document` occurs, the declaring one
    /// first.
    ///
    /// # Errors
    /// When no file declares it, or several that `document` names do.
    pub fn uses(&self, document: &Document, class: &str) -> Result<Uses, String> {
        let mut loaded = BTreeMap::new();
        let own = self.reach(&document.name, &mut loaded);
        for name in self.open.keys() {
            self.reach(name, &mut loaded);
        }
        let declares = |name: &String| loaded.get(name).is_some_and(|one| is_declared(one, class));
        let owner = match declares(&document.name) {
            true => document.name.clone(),
            false => match own.iter().filter(|name| declares(name)).collect::<Vec<_>>()[..] {
                [owner] => owner.clone(),
                [] => return Err(format!("no file that is named here declares class `{class}`")),
                [one, other, ..] => {
                    return Err(format!(
                        "{one} and {other} both declare a class `{class}`; go to one of them"
                    ));
                }
            },
        };
        let names: Vec<_> = loaded.keys().cloned().collect();
        let is_user = |name: &String| {
            let reached = self.reach(name, &mut BTreeMap::new());
            let declaring: Vec<_> = reached.iter().filter(|name| declares(name)).collect();
            *name != owner && !declares(name) && declaring == [&owner]
        };
        let users: Vec<_> = names.into_iter().filter(is_user).collect();
        let mut uses = Vec::new();
        for name in std::iter::once(&owner).chain(&users) {
            let Some(document) = loaded.remove(name) else { continue };
            let mut found = classes::occurrences(&document);
            found.retain(|one| one.name == class);
            if !found.is_empty() {
                uses.push((document, found));
            }
        }
        Ok(uses)
    }

    /// Loads a file and those that it names, and those that they name; returns their names.
    fn reach(&self, name: &str, loaded: &mut BTreeMap<String, Document>) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut next = vec![name.to_owned()];
        while let Some(name) = next.pop().filter(|_| reached.len() < FILES_MAX) {
            if reached.contains(&name) {
                continue;
            }
            if !loaded.contains_key(&name) {
                let Some(document) = self.load(&name) else { continue };
                loaded.insert(name.clone(), document);
            }
            next.extend(loaded.get(&name).into_iter().flat_map(named));
            reached.insert(name);
        }
        reached
    }

    fn load(&self, name: &str) -> Option<Document> {
        let text = match self.open.get(name) {
            Some(open) => open.text().to_owned(),
            None => String::from_utf8((self.read_file)(Path::new(name)).ok()?).ok()?,
        };
        Some(Document::new(name, text))
    }
}

fn is_declared(document: &Document, class: &str) -> bool {
    classes::occurrences(document).iter().any(|one| one.declares && one.name == class)
}

/// Returns the names of the files that a document names.
fn named(document: &Document) -> Vec<String> {
    let folder = Path::new(&document.name).parent().unwrap_or(Path::new(""));
    classes::named_files(document).map(|name| normal(&folder.join(name))).collect()
}

/// Returns a path without `.` and `..`, as the editor names an open file.
pub fn normal(path: &Path) -> String {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.display().to_string()
}

/// Bound: files that one file leads to; further ones are not checked with it.
const FILES_MAX: usize = 64;
