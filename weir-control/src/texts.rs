//! The texts of a deployment: checked again, and with single values set, as `weir set` does it.

use crate::protocol::Setting;
use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::sync::Arc;
use weir_link::change::history::{File, Texts};
use weir_policy::deployment::{self, Deployment, Direction};
use weir_policy::edit::{self, Edit};
use weir_policy::file::{self, ReadFile};
use weir_policy::finding::Outcome;

/// Checks a deployment again from what was read.
pub fn read_again(texts: &Texts) -> Outcome<Deployment> {
    let read = |path: &Path| {
        let text = texts.file(&path.display().to_string());
        text.map(String::into_bytes).ok_or(io::ErrorKind::NotFound.into())
    };
    let File { name, text } = &texts.deployment;
    deployment::parse(text.as_bytes(), name, &read)
}

/// As [`read_again`], for a link: with a leaf for each place of the policies.
pub fn of_link(texts: &Texts) -> Outcome<Deployment> {
    read_again(texts).map(Deployment::with_places)
}

/// Checks a deployment as [`read_again`]. Files that its texts lack are read by `read_file`, and
/// the texts have them then. The error says which one could not be read: the first, with findings
/// on all.
pub fn complete(
    texts: &mut Texts,
    read_file: ReadFile<'_>,
) -> (Outcome<Deployment>, Result<(), String>) {
    let unread = Cell::new(None);
    let File { name, text } = texts.deployment.clone();
    let known = RefCell::new(texts);
    let read = |path: &Path| {
        let name = path.display().to_string();
        if let Some(text) = known.borrow().file(&name) {
            return Ok(text.into_bytes());
        }
        let bytes = read_file(path).inspect_err(|error| {
            let before = unread.take();
            unread.set(before.or_else(|| Some(format!("it names {name}: {error}"))));
        })?;
        match String::from_utf8(bytes) {
            Ok(text) => {
                known.borrow_mut().files.push(File { name: name.clone(), text });
                Ok(known.borrow().file(&name).expect("it was read").into_bytes())
            }
            // A finding tells of it.
            Err(error) => Ok(error.into_bytes()),
        }
    };
    let outcome = deployment::parse(text.as_bytes(), &name, &read);
    (outcome, unread.take().map_or(Ok(()), Err))
}

/// Reads a deployment and every file that it names, with the rights of this process; they may have
/// errors.
///
/// # Errors
/// When one cannot be read, or the deployment is no text.
pub fn of_files(path: &Path) -> Result<Texts, String> {
    let bytes = file::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    let deployment = File { name: path.display().to_string(), text };
    let mut texts = Texts { deployment, ..Texts::default() };
    // A link gets texts, and could only say that it lacks a file that is none.
    let read = |path: &Path| as_text(file::read_named(path)?);
    complete(&mut texts, &read).1?;
    Ok(texts)
}

/// Returns the bytes of a file if they are text.
fn as_text(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let text = String::from_utf8(bytes);
    text.map(String::into_bytes)
        .map_err(|error| io::Error::other(format!("it is no text: {error}")))
}

/// Returns the texts with these values.
///
/// # Errors
/// When a key is none, or it is open which policy is meant.
pub fn edited(
    texts: &Texts,
    deployment: &Deployment,
    settings: &[Setting],
) -> Result<Texts, String> {
    let mut texts = texts.clone();
    // One file after another, so that each is read once.
    let mut rest: Vec<(String, Edit<'_>)> = Vec::new();
    for setting in settings {
        let file = file_of(setting, &texts, deployment)?;
        rest.push((file, Edit { key: &setting.key, value: &setting.value }));
    }
    while let Some((name, _)) = rest.first() {
        let name = name.clone();
        let (own, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|row| row.0 == name);
        let edits: Vec<_> = own.iter().map(|row| row.1).collect();
        rest = others;
        let (joined, edits): (Vec<_>, Vec<_>) =
            edits.into_iter().partition(|edit| joined_table(&mut texts, &name, edit).is_some());
        for edit in joined {
            let table = joined_table(&mut texts, &name, &edit).expect("it is there");
            let text = edit::set_all(table, &[edit]).map_err(|why| format!("{name}: {why}"))?;
            *table = text.into();
        }
        if edits.is_empty() {
            continue;
        }
        let way = deployment.directions.iter().find(|way| way.path.display().to_string() == name);
        let is_class = |class: &str| way.is_some_and(|way| way.policy.class(class).is_some());
        let file = texts.files.iter_mut().find(|file| file.name == name);
        let file = file.unwrap_or(&mut texts.deployment);
        let keys = edits.iter().map(|edit| edit::place(&file.text, edit.key, &is_class));
        let keys: Vec<_> = keys.collect();
        let edits = edits.iter().zip(&keys).map(|(edit, key)| Edit { key, ..*edit });
        let edits: Vec<_> = edits.collect();
        file.text = edit::set_all(&file.text, &edits).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(texts)
}

/// Returns the table of the class that joined and has the key of an edit.
fn joined_table<'t>(texts: &'t mut Texts, file: &str, edit: &Edit<'_>) -> Option<&'t mut Arc<str>> {
    let path = edit.key.trim().strip_prefix("class.")?;
    let tables = texts.added.get_mut(file)?;
    let own = |name: &&String| {
        let behind = path.strip_prefix('"').unwrap_or(path).strip_prefix(name.as_str());
        behind.is_some_and(|behind| behind.starts_with('.') || behind.starts_with("\"."))
    };
    let name = tables.keys().find(own)?.clone();
    tables.get_mut(&name)
}

/// Returns the name of the file that has the key of a setting.
fn file_of(setting: &Setting, texts: &Texts, deployment: &Deployment) -> Result<String, String> {
    let key = &setting.key;
    let is_own = ["deployment.", "direction."].iter().any(|table| key.starts_with(table));
    if key.starts_with(AUTORATE) {
        return Err(format!(
            "`{key}` is no key of a policy but of [direction.NAME.autorate] in {}: change it \
             there, and `weir restart`",
            texts.deployment.name
        ));
    }
    let ways = &deployment.directions;
    let named = |way: &&Direction| Some(&way.name) == setting.direction.as_ref();
    let (way, others) = match (&setting.direction, ways.as_slice()) {
        _ if is_own => return Ok(texts.deployment.name.clone()),
        (Some(name), _) => {
            let way = ways.iter().find(named).ok_or_else(|| {
                let known: Vec<_> = ways.iter().map(|way| way.name.as_str()).collect();
                format!("there is no direction `{name}`; the link has {}", known.join(", "))
            })?;
            (way, ways.iter().filter(|other| other.name != way.name).collect::<Vec<_>>())
        }
        (None, [first, rest @ ..]) => {
            if let Some(other) = rest.iter().find(|other| other.path != first.path) {
                return Err(format!(
                    "directions `{}` and `{}` have different policies; write `{}:{key}=...`, or \
                     name one by --direction",
                    first.name, other.name, first.name
                ));
            }
            (first, Vec::new())
        }
        (None, []) => return Err("the link has no directions".to_owned()),
    };
    // Where others have another policy, a name says which policy is meant, for all that have it.
    let is_for_all = others.iter().all(|other| other.path == way.path);
    if let Some(twin) = others.first().filter(|_| is_for_all) {
        return Err(format!(
            "directions `{}` and `{}` have the policy {} together; leave the direction out to \
             change it for both, or give each a file of its own and use `weir reload`",
            way.name,
            twin.name,
            shown(&way.path)
        ));
    }
    Ok(shown(&way.path))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// How keys of a rate that varies begin.
const AUTORATE: &str = "autorate.";

#[cfg(test)]
mod tests {
    use super::*;

    /// A deployment of two directions with these policies.
    fn texts(up: &str, down: &str) -> Texts {
        let deployment = format!(
            "[deployment]\nname = 'd'\nports = {{ a = 'a0', b = 'b0' }}\n\
             [direction.up]\nfrom = 'a'\nto = 'b'\npolicy = '{up}'\n\
             [direction.down]\nfrom = 'b'\nto = 'a'\npolicy = '{down}'\n"
        );
        let policy = "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.a]\ndefault = true\n";
        let file = |name: &str| File { name: name.to_owned(), text: policy.to_owned() };
        let files = [up, down].map(file);
        let deployment = File { name: "d.toml".to_owned(), text: deployment };
        let added = std::collections::BTreeMap::new();
        Texts { added, deployment, files: files[..1 + usize::from(up != down)].to_vec() }
    }

    /// Sets `key=value` of a direction; checks which files have the value then, or the refusal.
    fn check(
        policies: (&str, &str),
        way: Option<&str>,
        key: &str,
        expected: Result<&[&str], &str>,
    ) {
        let texts = texts(policies.0, policies.1);
        let outcome = read_again(&texts);
        let deployment = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings));
        let direction = way.map(str::to_owned);
        let setting = Setting { direction, key: key.to_owned(), value: "77 ms".to_owned() };
        match (edited(&texts, &deployment, &[setting]), expected) {
            (Ok(edited), Ok(names)) => {
                let all = edited.files.iter().chain([&edited.deployment]);
                let changed = all.filter(|file| file.text.contains("77 ms"));
                let changed: Vec<_> = changed.map(|file| file.name.as_str()).collect();
                assert_eq!(changed, names, "{key} of {way:?}");
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{key}: {error}"),
            (outcome, _) => panic!("{key} of {way:?}: {outcome:?}"),
        }
    }

    #[test]
    fn files_that_texts_lack_are_read_once_with_the_classes_that_joined() {
        let mut whole = texts("p.toml", "q.toml");
        let joined = "[class.b]\n".into();
        whole.added.entry("p.toml".to_owned()).or_default().insert("b".to_owned(), joined);
        let mut some = Texts { files: Vec::new(), ..whole.clone() };
        let asked = RefCell::new(Vec::new());
        let read = |path: &Path| {
            let name = path.display().to_string();
            asked.borrow_mut().push(name.clone());
            let file = whole.files.iter().find(|file| file.name == name);
            file.map(|file| file.text.clone().into_bytes()).ok_or(io::ErrorKind::NotFound.into())
        };
        let (outcome, read_all) = complete(&mut some, &read);
        assert!(outcome.plan.is_some() && read_all.is_ok(), "{:?}", outcome.findings);
        assert_eq!((&some, asked.take()), (&whole, vec!["p.toml".to_owned(), "q.toml".to_owned()]));
        let class =
            |way: usize| outcome.plan.as_ref().and_then(|it| it.directions[way].policy.class("b"));
        assert!(class(0).is_some() && class(1).is_none(), "it joined one of them");
        // Now they have all.
        assert!(complete(&mut some, &read).0.plan.is_some() && asked.take().is_empty());
    }

    #[test]
    fn the_first_file_that_cannot_be_read_is_named() {
        let mut texts = Texts { files: Vec::new(), ..texts("p.toml", "q.toml") };
        let (outcome, read_all) = complete(&mut texts, &weir_policy::file::none);
        assert!(outcome.plan.is_none());
        assert!(read_all.is_err_and(|why| why.starts_with("it names p.toml: ")));
    }

    #[test]
    fn a_file_that_is_no_text_is_named_as_such() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("d.toml");
        let File { text, .. } = texts("p.toml", "p.toml").deployment;
        std::fs::write(&path, text).expect("written");
        std::fs::write(folder.path().join("p.toml"), b"[link]\nrate = \"\xff\"\n")
            .expect("written");
        let why = of_files(&path).expect_err("the policy is no text");
        for part in ["p.toml", "it is no text: invalid utf-8"] {
            assert!(why.contains(part), "{part}: {why}");
        }
    }

    #[test]
    fn a_setting_goes_to_the_file_that_has_its_key() {
        let (one, two) = (("p.toml", "p.toml"), ("p.toml", "q.toml"));
        check(one, None, "link.x", Ok(&["p.toml"]));
        check(one, Some("up"), "link.x", Err("leave the direction out"));
        check(two, None, "link.x", Err("write `up:link.x=...`"));
        check(two, Some("down"), "link.x", Ok(&["q.toml"]));
        check(two, Some("dwn"), "link.x", Err("the link has up, down"));
        check(two, None, "deployment.lag_max", Ok(&["d.toml"]));
        check(two, None, "direction.up.sojourn_max", Ok(&["d.toml"]));
    }
}
