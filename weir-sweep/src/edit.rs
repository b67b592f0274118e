//! Other values in a scenario and in the policies that it names.
//!
//! A path has keys with points between them, and quotes around a key with points. In an array of
//! tables a key is the `name` of one: `source.flood.rate`. A path that goes on behind a policy's
//! name leads into that file: `policy.class.voice.rate`, `link.uplink.back.policy.link.rate`. The
//! rest of every text stays as it is written, so that [`Lines`] finds the user's line of whatever
//! is at fault. Invariant: a policy that several links name changes for those only that a path
//! leads through.

use crate::lines::Lines;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// Reads a file that a scenario names, by the path that it writes.
pub type ReadNamed<'a> = &'a dyn Fn(&Path) -> Result<Vec<u8>, String>;

/// A scenario that may be edited.
#[derive(Clone)]
pub struct Edited {
    scenario: Text,
    /// Policies that have other values, by the paths that the edited scenario has.
    policies: BTreeMap<String, Text>,
    /// The path of the policy that stands in the place of the scenario's own.
    instead: Option<String>,
    /// The directions of links that have it: the link's place, and whether it is the way back.
    directions: Vec<(usize, bool)>,
}

/// A text as it was written, and as it is now.
#[derive(Clone)]
struct Text {
    /// The name that the user knows it by.
    name: String,
    written: String,
    document: DocumentMut,
}

impl Text {
    fn of(name: &str, written: String) -> Result<Self, String> {
        let told = |error: toml_edit::TomlError| format!("{name}: {error}");
        let document = written.parse().map_err(told)?;
        Ok(Self { name: name.to_owned(), written, document })
    }

    fn read(path: &str, read: ReadNamed<'_>) -> Result<Self, String> {
        let text = String::from_utf8(read(Path::new(path))?);
        Self::of(path, text.map_err(|error| format!("{path}: {error}"))?)
    }
}

impl Edited {
    /// Reads the scenario `text`, which findings call `name`.
    ///
    /// # Errors
    /// When it is no TOML.
    pub fn of(text: &str, name: &str) -> Result<Self, String> {
        Ok(Self {
            scenario: Text::of(name, text.to_owned())?,
            policies: BTreeMap::new(),
            instead: None,
            directions: Vec::new(),
        })
    }

    /// Puts the policy `text` in place of the scenario's own; `path` is that of its file, from the
    /// scenario's folder. In a network it takes the place of that file wherever a link names it, or
    /// of the only policy.
    ///
    /// # Errors
    /// When the text is no TOML, or a network does not say where the policy belongs.
    pub fn replace_policy(&mut self, path: &str, text: String) -> Result<(), String> {
        let policy = Text::of(path, text)?;
        let top = self.scenario.document.as_table_mut();
        match top.get_mut("link") {
            None => insert((top, false), "policy", path.into()),
            Some(links) => {
                let (named, directions) = named_in(links, path)?;
                self.directions = directions;
                let change = top.get_mut("change").map(rows_of).unwrap_or_default();
                let changes = change.into_iter().filter_map(|row| row.get_mut("policy"));
                changes.filter(|item| item.as_str() == Some(&named)).for_each(|item| {
                    *item = Item::Value(path.into());
                });
            }
        }
        self.policies.insert(path.to_owned(), policy);
        self.instead = Some(path.to_owned());
        Ok(())
    }

    /// Returns the directions of links that have the policy of [`Edited::replace_policy`]: the
    /// link's place among the links, and whether it is the way back.
    pub fn directions(&self) -> &[(usize, bool)] {
        &self.directions
    }

    /// Returns what stands before the classes of a direction of a link.
    pub fn place_of(&self, (place, is_back): (usize, bool)) -> Option<String> {
        let links = self.scenario.document.get("link")?;
        let named = match links {
            Item::ArrayOfTables(rows) => name_of(rows.get(place)?),
            links => name_of(links.as_array()?.get(place)?.as_inline_table()?),
        };
        Some(format!("link.{}.{}", named?, if is_back { "back." } else { "" }))
    }

    /// Puts a value at the key; `read` reads the policy that it leads into.
    ///
    /// # Errors
    /// When the path leads through a value without keys, or to no element of an array, or a policy
    /// cannot be read.
    pub fn set(&mut self, key: &str, value: &Json, read: ReadNamed<'_>) -> Result<(), String> {
        let told = |why: String| format!("`{key}`: {why}");
        let (keys, value) = (split(key)?, value_of(value).map_err(told)?);
        let (document, rest) = match self.enter(&keys, read).map_err(told)? {
            Some((path, depth)) => {
                let policy = self.policies.get_mut(&path).expect("it was entered");
                (&mut policy.document, &keys[depth..])
            }
            None => (&mut self.scenario.document, keys.as_slice()),
        };
        place((document.as_table_mut(), false), rest, value).map_err(told)
    }

    /// Returns the path of the policy that the keys lead into, and how many of them lead there.
    fn enter(
        &mut self,
        keys: &[String],
        read: ReadNamed<'_>,
    ) -> Result<Option<(String, usize)>, String> {
        if let Some(path) = &self.instead
            && keys.len() > 1
            && keys[0] == "policy"
        {
            return Ok(Some((path.clone(), 1)));
        }
        let Some((depth, named)) = crossing(self.scenario.document.as_table(), keys) else {
            return Ok(None);
        };
        if self.policies.contains_key(&named) {
            return Ok(Some((named, depth)));
        }
        let policy = Text::read(&named, read)?;
        // The file of a single link is that of its changes, too.
        let path = if depth == 1 { named.clone() } else { self.own_path(&named) };
        if path != named {
            let top = self.scenario.document.as_table_mut();
            place((top, false), &keys[..depth], path.as_str().into())?;
            follow(top, &keys[..depth], (&named, &path));
        }
        self.policies.insert(path.clone(), policy);
        Ok(Some((path, depth)))
    }

    /// Returns another path of the same file, which nothing else names.
    fn own_path(&self, named: &str) -> String {
        let with = |dots: usize| match named.strip_prefix('/') {
            Some(rest) => format!("/{}{rest}", "./".repeat(dots)),
            None => format!("{}{named}", "./".repeat(dots)),
        };
        let is_free = |path: &String| {
            !self.policies.contains_key(path) && !self.scenario.written.contains(path.as_str())
        };
        (1..).map(with).find(is_free).expect("a text names few files")
    }

    /// Returns the text of the scenario.
    pub fn scenario(&self) -> String {
        self.scenario.document.to_string()
    }

    /// Returns the text of a policy that has other values, by the path that the scenario has.
    pub fn policy(&self, path: &Path) -> Option<String> {
        Some(self.policies.get(path.to_str()?)?.document.to_string())
    }

    /// Returns where the lines of the texts are that the user wrote; findings call the scenario
    /// `name`.
    pub fn lines(&self, name: &str) -> Lines {
        let row = |path: &str, text: &Text| {
            (path.to_owned(), text.name.clone(), text.written.clone(), text.document.to_string())
        };
        let mut scenario = row(name, &self.scenario);
        scenario.1 = name.to_owned();
        let policies = self.policies.iter().map(|(path, text)| row(path, text));
        Lines::of(std::iter::once(scenario).chain(policies))
    }
}

/// Returns how many keys lead to the name of a policy's file behind which they go on, and that
/// name.
fn crossing(top: &Table, keys: &[String]) -> Option<(usize, String)> {
    let mut table: &dyn TableLike = top;
    let mut rest = keys;
    while let [key, more @ ..] = rest {
        let item = table.get(key)?;
        rest = more;
        if let (Some(name), "policy", false) = (item.as_str(), key.as_str(), more.is_empty()) {
            return Some((keys.len() - more.len(), name.to_owned()));
        }
        table = match item.as_table_like() {
            Some(next) => next,
            None => {
                let (name, more) = rest.split_first()?;
                rest = more;
                let is_named = |row: &&dyn TableLike| name_of(*row) == Some(name.as_str());
                let rows: Vec<&dyn TableLike> = match item {
                    Item::ArrayOfTables(rows) => rows.iter().map(|row| row as _).collect(),
                    Item::Value(Value::Array(rows)) => {
                        rows.iter().filter_map(Value::as_inline_table).map(|row| row as _).collect()
                    }
                    _ => return None,
                };
                rows.into_iter().find(is_named)?
            }
        };
    }
    None
}

fn name_of(row: &dyn TableLike) -> Option<&str> {
    row.get("name")?.as_str()
}

/// Lets the changes of a link that go back to the policy with which it began have its values, too.
fn follow(top: &mut Table, keys: &[String], (named, path): (&str, &str)) {
    let [first, link, way @ ..] = keys else { return };
    if first != "link" {
        return;
    }
    let is_back = way.first().is_some_and(|key| key == "back");
    let mut links = top.get_mut("link").map(rows_of).unwrap_or_default();
    let row = links.iter_mut().find(|row| name_of(&***row) == Some(link.as_str()));
    let end = row.and_then(|row| {
        let ends = row.get("ends")?.as_array()?;
        Some(ends.get(usize::from(is_back))?.as_str()?.to_owned())
    });
    for change in top.get_mut("change").map(rows_of).unwrap_or_default() {
        let text = |key: &str| change.get(key).and_then(Item::as_str);
        let from = text("from").map_or(!is_back, |from| Some(from) == end.as_deref());
        if from && text("link") == Some(link) && text("policy") == Some(named) {
            change.insert("policy", Item::Value(path.into()));
        }
    }
}

/// Writes `path` wherever a direction of a link has that file, or the only policy; returns the name
/// that stood there, and the directions.
fn named_in(links: &mut Item, path: &str) -> Result<(String, Vec<(usize, bool)>), String> {
    let mut found = Vec::new();
    for (place, row) in rows_of(links).into_iter().enumerate() {
        let mut own = |row: &mut dyn TableLike, is_back| {
            let name = row.get("policy").map(|policy| policy.as_str().unwrap_or("").to_owned());
            found.extend(name.map(|name| (place, is_back, name)));
        };
        own(row, false);
        if let Some(back) = row.get_mut("back").and_then(Item::as_table_like_mut) {
            own(back, true);
        }
    }
    let names_it =
        |row: &&(usize, bool, String)| plain(Path::new(&row.2)) == plain(Path::new(path));
    let named: Vec<_> = found.iter().filter(names_it).cloned().collect();
    let chosen = match (named.is_empty(), found.as_slice()) {
        (false, _) => named,
        (true, [_]) => found,
        (true, []) => return Err(NO_POLICY.to_owned()),
        (true, _) => {
            let names: Vec<_> = found.iter().map(|row| format!("`{}`", row.2)).collect();
            return Err(format!(
                "its links have {}, and none has {path}; write `policy = \"{path}\"` at the one \
                 that is meant",
                names.join(", ")
            ));
        }
    };
    let mut rows = rows_of(links);
    for (place, is_back, _) in &chosen {
        let row = &mut rows[*place];
        match row.get_mut("back").and_then(Item::as_table_like_mut).filter(|_| *is_back) {
            Some(back) => drop(back.insert("policy", Item::Value(path.into()))),
            None => drop(row.insert("policy", Item::Value(path.into()))),
        }
    }
    let name = chosen[0].2.clone();
    Ok((name, chosen.into_iter().map(|(place, is_back, _)| (place, is_back)).collect()))
}

/// Returns the tables of an array.
fn rows_of(item: &mut Item) -> Vec<&mut dyn TableLike> {
    match item {
        Item::ArrayOfTables(rows) => rows.iter_mut().map(|row| row as _).collect(),
        Item::Value(Value::Array(rows)) => {
            rows.iter_mut().filter_map(Value::as_inline_table_mut).map(|row| row as _).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the path without `.` and what `..` takes back.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// A table of a text, and whether it stands in braces.
type Place<'a> = (&'a mut dyn TableLike, bool);

fn place((table, is_braced): Place<'_>, keys: &[String], value: Value) -> Result<(), String> {
    let [key, rest @ ..] = keys else { return Err("it has no key".to_owned()) };
    if rest.is_empty() {
        insert((table, is_braced), key, value);
        return Ok(());
    }
    let next = table.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        // A table that holds only tables needs no header.
        table.set_implicit(true);
        Item::Table(table)
    });
    let is_braced = is_braced || next.is_value();
    if next.is_table_like() {
        let next = next.as_table_like_mut().expect("it is one");
        return place((next, is_braced), rest, value);
    }
    let (name, rest) = (&rest[0], &rest[1..]);
    if !next.is_array_of_tables() && !next.is_array() {
        return Err(format!("`{key}` is a value without keys"));
    }
    let row = rows_of(next).into_iter().find(|row| name_of(&**row) == Some(name.as_str()));
    let row = row.ok_or_else(|| format!("no `{key}` is called `{name}`"))?;
    place((row, is_braced), rest, value)
}

/// Puts a value into a table, in place of the one that is there.
fn insert((table, is_braced): Place<'_>, key: &str, mut value: Value) {
    let Some(old) = table.get_mut(key) else {
        let item = match value {
            // A table of its own stands behind the others: the order of classes may matter.
            Value::InlineTable(inner) if !is_braced => Item::Table(inner.into_table()),
            value => Item::Value(value),
        };
        table.insert(key, item);
        return;
    };
    if let Some(old) = old.as_value() {
        // Such as a comment behind it.
        *value.decor_mut() = old.decor().clone();
    }
    *old = Item::Value(value);
}

/// Splits a path at its points.
pub fn split(path: &str) -> Result<Vec<String>, String> {
    let (mut keys, mut key, mut quoted) = (Vec::new(), String::new(), false);
    for letter in path.chars() {
        match letter {
            '"' => quoted = !quoted,
            '.' if !quoted => keys.push(std::mem::take(&mut key)),
            letter => key.push(letter),
        }
    }
    keys.push(key);
    if quoted || keys.iter().any(String::is_empty) {
        return Err(format!("`{path}` is no path of keys, such as `policy.class.voice.rate`"));
    }
    Ok(keys)
}

fn value_of(value: &Json) -> Result<Value, String> {
    Ok(match value {
        Json::Bool(flag) => Value::from(*flag),
        Json::String(text) => Value::from(text.as_str()),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(number)) => Value::from(number),
            (None, None) => return Err(format!("{number} is too large")),
        },
        Json::Array(values) => {
            Value::from(values.iter().map(value_of).collect::<Result<Array, String>>()?)
        }
        Json::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| Ok((key.as_str(), value_of(value)?)));
            Value::from(fields.collect::<Result<InlineTable, String>>()?)
        }
        Json::Null => return Err("TOML has no null".to_owned()),
    })
}

/// Why a policy has no place in a network.
const NO_POLICY: &str = "none of its links has a policy; write `policy` in the `[[link]]` that is \
                         meant";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use toml::Table;

    const SCENARIO: &str =
        "policy = \"p.toml\"\n[[source]]\nname = \"a\"\n[[source]]\nname = \"b\"\n";
    const NETWORK: &str = "# two links\nlink = [\n  { name = \"in\", ends = [\"a\", \"b\"], policy = \
                           \"p.toml\" },\n  { name = \"out\", ends = [\"b\", \"c\"], policy = \
                           \"p.toml\", back = { policy = \"q.toml\" } },\n]\n[[change]]\nlink = \
                           \"out\"\npolicy = \"p.toml\"\n[[change]]\nlink = \"in\"\npolicy = \
                           \"p.toml\"\n";

    fn read(path: &Path) -> Result<Vec<u8>, String> {
        match path.to_str() {
            Some("p.toml") => Ok(b"[class.z]\nrate = 1\n[class.a]\nrate = 2\n".to_vec()),
            Some("q.toml") => Ok(b"[class.q]\nrate = 3\n".to_vec()),
            _ => Err("no such file".to_owned()),
        }
    }

    fn edited(text: &str) -> Edited {
        Edited::of(text, "s.toml").expect("it is TOML")
    }

    fn table(text: &str) -> Table {
        text.parse().expect("it is TOML")
    }

    #[test]
    fn values_go_where_their_path_leads() {
        let mut edited = edited(SCENARIO);
        let rows = [
            ("source.b.rate", json!("5 Mbit/s")),
            ("duration", json!("9 s")),
            ("policy.class.a.rate", json!(7)),
            ("policy.class.\"x.y\".queue.limit", json!(["q", true])),
            ("policy.class.b", json!({ "rate": 3 })),
        ];
        for (key, value) in rows {
            assert_eq!(edited.set(key, &value, &read), Ok(()), "{key}");
        }
        let scenario = table(&edited.scenario());
        assert_eq!(scenario["source"][1]["rate"].as_str(), Some("5 Mbit/s"));
        assert_eq!(scenario["duration"].as_str(), Some("9 s"));
        let text = edited.policy(Path::new("p.toml")).expect("it was entered");
        let policy = table(&text);
        assert_eq!(policy["class"]["a"]["rate"].as_integer(), Some(7));
        assert_eq!(policy["class"]["x.y"]["queue"]["limit"][1].as_bool(), Some(true));
        let names: Vec<_> = policy["class"].as_table().expect("a table").keys().collect();
        assert_eq!(names, ["z", "a", "x.y", "b"], "the order of classes stays: {text}");
    }

    #[test]
    fn a_links_policy_changes_for_that_link_and_its_changes_only() {
        let mut edited = edited(NETWORK);
        let rows = [
            ("link.out.policy.class.a.rate", json!(7)),
            ("link.out.policy.class.z.rate", json!(8)),
            ("link.out.back.policy.class.q.rate", json!(9)),
            ("link.in.delay", json!("5 ms")),
        ];
        for (key, value) in rows {
            assert_eq!(edited.set(key, &value, &read), Ok(()), "{key}");
        }
        let scenario = table(&edited.scenario());
        let links = &scenario["link"];
        assert_eq!(links[0]["policy"].as_str(), Some("p.toml"));
        assert_eq!(links[0]["delay"].as_str(), Some("5 ms"));
        let path = links[1]["policy"].as_str().expect("a name");
        assert_eq!((plain(Path::new(path)), path != "p.toml"), (PathBuf::from("p.toml"), true));
        let changes = [0, 1].map(|at| scenario["change"][at]["policy"].as_str());
        assert_eq!(changes, [Some(path), Some("p.toml")]);
        let policy = table(&edited.policy(Path::new(path)).expect("it was entered"));
        let rates = ["a", "z"].map(|class| policy["class"][class]["rate"].as_integer());
        assert_eq!(rates, [Some(7), Some(8)]);
        let back = links[1]["back"]["policy"].as_str().expect("a name");
        let back = table(&edited.policy(Path::new(back)).expect("it was entered"));
        assert_eq!(back["class"]["q"]["rate"].as_integer(), Some(9));
        assert!(
            edited.policy(Path::new("p.toml")).is_none(),
            "the other link's has no other value"
        );
    }

    #[test]
    fn a_policy_takes_the_place_of_its_file_in_a_network() {
        let new = "[class.n]\nrate = 1\n";
        let placed = |path: &str| {
            let mut edited = edited(NETWORK);
            let done = edited.replace_policy(path, new.to_owned());
            done.map(|()| (edited.directions().to_vec(), edited.scenario()))
        };
        let (directions, scenario) = placed("./q.toml").expect("a link names it");
        assert_eq!((directions, scenario.contains("./q.toml")), (vec![(1, true)], true));
        let (directions, scenario) = placed("x/../p.toml").expect("two links name it");
        assert_eq!(directions, [(0, false), (1, false)]);
        assert_eq!(scenario.matches("x/../p.toml").count(), 4, "changes have it, too");
        let refused = placed("n.toml").expect_err("three others are named");
        assert!(refused.contains("`p.toml`, `p.toml`, `q.toml`, and none has n.toml"), "{refused}");
        let mut single = edited(SCENARIO);
        assert_eq!(single.replace_policy("n.toml", new.to_owned()), Ok(()));
        assert_eq!(single.set("policy.class.n.rate", &json!(2), &read), Ok(()));
        let policy = single.policy(Path::new("n.toml")).expect("it was given");
        assert_eq!(policy, new.replace('1', "2"));
        assert!(single.scenario().starts_with("policy = \"n.toml\"\n"));
    }

    #[test]
    fn another_policy_takes_the_place_of_the_edited_one() {
        let mut edited = edited(SCENARIO);
        assert_eq!(edited.set("policy", &json!("other.toml"), &read), Ok(()));
        assert!(edited.policy(Path::new("p.toml")).is_none());
    }

    #[test]
    fn wrong_paths_are_refused() {
        let rows = [
            ("source.c.rate", "no `source` is called `c`"),
            ("policy.class.a.rate.x", "without keys"),
            ("a..b", "no path"),
            ("", "no path"),
        ];
        for (key, why) in rows {
            let set = edited(SCENARIO).set(key, &json!(1), &read);
            assert!(set.is_err_and(|said| said.contains(why)), "{key}");
        }
        assert!(edited(SCENARIO).set("duration", &Json::Null, &read).is_err());
    }
}
