//! Other values in a scenario and its policy.
//!
//! A path has keys with points between them, and quotes around a key with points. In an array of
//! tables a key is the `name` of one: `source.flood.rate`. A path that begins with `policy.` leads
//! into the policy, also where the scenario names its file. The rest of the text keeps its meaning
//! and order.

use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A scenario that may be edited.
#[derive(Clone)]
pub struct Edited {
    scenario: Table,
    /// The policy that it names, and its path beside the scenario.
    policy: Option<(PathBuf, Table)>,
}

impl Edited {
    /// Reads the scenario `text`; `read` reads the policy that it names.
    ///
    /// # Errors
    /// When one of them is no TOML, or the policy cannot be read.
    pub fn of(text: &str, read: &dyn Fn(&Path) -> Result<Vec<u8>, String>) -> Result<Self, String> {
        let scenario: Table = text.parse().map_err(|error| format!("the scenario: {error}"))?;
        let policy = match scenario.get("policy") {
            Some(Value::String(path)) => {
                let text = String::from_utf8(read(Path::new(path))?)
                    .map_err(|error| format!("{path}: {error}"))?;
                let policy = text.parse().map_err(|error| format!("{path}: {error}"))?;
                Some((PathBuf::from(path), policy))
            }
            _ => None,
        };
        Ok(Self { scenario, policy })
    }

    /// Puts a value at the key.
    ///
    /// # Errors
    /// When the path leads through a value without keys, or to no element of an array.
    pub fn set(&mut self, key: &str, value: &Json) -> Result<(), String> {
        let keys = split(key)?;
        let value = toml_of(value).map_err(|why| format!("`{key}`: {why}"))?;
        let placed = match (&mut self.policy, keys.as_slice()) {
            (Some((_, policy)), [first, rest @ ..]) if first == "policy" && !rest.is_empty() => {
                place(policy, rest, value)
            }
            _ => place(&mut self.scenario, &keys, value),
        };
        placed.map_err(|why| format!("`{key}`: {why}"))
    }

    /// Returns the text of the scenario.
    pub fn scenario(&self) -> String {
        self.scenario.to_string()
    }

    /// Returns the path and the text of the policy, if the scenario still names that file.
    pub fn policy(&self) -> Option<(&Path, String)> {
        let (path, policy) = self.policy.as_ref()?;
        let named = self.scenario.get("policy").and_then(Value::as_str);
        (named.map(Path::new) == Some(path)).then(|| (path.as_path(), policy.to_string()))
    }
}

fn place(table: &mut Table, keys: &[String], value: Value) -> Result<(), String> {
    let [key, rest @ ..] = keys else { return Err("it has no key".to_owned()) };
    if rest.is_empty() {
        table.insert(key.clone(), value);
        return Ok(());
    }
    let next = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
    match next {
        Value::Table(next) => place(next, rest, value),
        Value::Array(rows) => {
            let (name, rest) = (&rest[0], &rest[1..]);
            let named =
                |row: &&mut Value| row.get("name").and_then(Value::as_str) == Some(name.as_str());
            let row = rows.iter_mut().find(named).and_then(Value::as_table_mut);
            place(row.ok_or_else(|| format!("no `{key}` is called `{name}`"))?, rest, value)
        }
        _ => Err(format!("`{key}` is a value without keys")),
    }
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

fn toml_of(value: &Json) -> Result<Value, String> {
    Ok(match value {
        Json::Bool(flag) => Value::Boolean(*flag),
        Json::String(text) => Value::String(text.clone()),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::Integer(integer),
            (None, Some(number)) => Value::Float(number),
            (None, None) => return Err(format!("{number} is too large")),
        },
        Json::Array(values) => Value::Array(values.iter().map(toml_of).collect::<Result<_, _>>()?),
        Json::Object(fields) => {
            let field = |(key, value): (&String, &Json)| Ok((key.clone(), toml_of(value)?));
            Value::Table(fields.iter().map(field).collect::<Result<_, String>>()?)
        }
        Json::Null => return Err("TOML has no null".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SCENARIO: &str =
        "policy = \"p.toml\"\n[[source]]\nname = \"a\"\n[[source]]\nname = \"b\"\n";

    fn edited() -> Edited {
        let read = |path: &Path| match path == Path::new("p.toml") {
            true => Ok(b"[class.z]\nrate = 1\n[class.a]\nrate = 2\n".to_vec()),
            false => Err("no such file".to_owned()),
        };
        Edited::of(SCENARIO, &read).expect("both are TOML")
    }

    #[test]
    fn values_go_where_their_path_leads() {
        let mut edited = edited();
        let rows = [
            ("source.b.rate", json!("5 Mbit/s")),
            ("duration", json!("9 s")),
            ("policy.class.a.rate", json!(7)),
            ("policy.class.\"x.y\".queue.limit", json!(["q", true])),
        ];
        for (key, value) in rows {
            assert_eq!(edited.set(key, &value), Ok(()), "{key}");
        }
        let scenario: Table = edited.scenario().parse().expect("it is TOML");
        assert_eq!(scenario["source"][1]["rate"].as_str(), Some("5 Mbit/s"));
        assert_eq!(scenario["duration"].as_str(), Some("9 s"));
        let (path, text) = edited.policy().expect("it names one");
        assert_eq!(path, Path::new("p.toml"));
        let policy: Table = text.parse().expect("it is TOML");
        assert_eq!(policy["class"]["a"]["rate"].as_integer(), Some(7));
        assert_eq!(policy["class"]["x.y"]["queue"]["limit"][1].as_bool(), Some(true));
        let names: Vec<_> = policy["class"].as_table().expect("a table").keys().collect();
        assert_eq!(names, ["z", "a", "x.y"], "the order of classes stays");
    }

    #[test]
    fn another_policy_takes_the_place_of_the_edited_one() {
        let mut edited = edited();
        assert_eq!(edited.set("policy", &json!("other.toml")), Ok(()));
        assert!(edited.policy().is_none());
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
            let set = edited().set(key, &json!(1));
            assert!(set.is_err_and(|said| said.contains(why)), "{key}");
        }
        assert!(edited().set("duration", &Json::Null).is_err());
    }
}
