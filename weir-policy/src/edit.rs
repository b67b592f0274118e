//! Sets single values in a file of TOML and leaves everything else as it was written, with its
//! comments: what `weir set` does to a policy.
//!
//! A key is a path with points as in the file, such as `class.voice.rate`; a part with other
//! characters is quoted as there. A value is TOML, or else a text as it stands: `2Mbit/s`. An empty
//! value removes the key. A class is added whole, `class.guests={ rate = "1 Mbit/s" }`, so that a
//! slip in a name makes none.

use crate::reader::suggest;
use std::borrow::Cow;
use toml_edit::{DocumentMut, Item, Key, Table, TableLike, Value};

/// A value to set.
#[derive(Clone, Copy, Debug)]
pub struct Edit<'a> {
    /// The path of the key.
    pub key: &'a str,
    /// The value; empty to remove the key.
    pub value: &'a str,
}

/// Returns the text with these values, which are set in their order.
///
/// # Errors
/// When the text is no TOML, a key is none, or a path leads through a value; the message has the
/// cure.
pub fn set_all(text: &str, edits: &[Edit<'_>]) -> Result<String, String> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    for edit in edits {
        set(document.as_table_mut(), *edit)?;
    }
    Ok(document.to_string())
}

/// Returns where a key of a class is set: that of a class that a template makes, which `text` does
/// not write although `is_class` knows it, is set at `[exception.NAME]`.
pub fn place<'k>(text: &str, key: &'k str, is_class: &dyn Fn(&str) -> bool) -> Cow<'k, str> {
    let Ok(path) = path(key) else { return Cow::Borrowed(key) };
    let [table, class, _, ..] = path.as_slice() else { return Cow::Borrowed(key) };
    let is_written = |top: &DocumentMut| {
        let classes = top.get("class").and_then(Item::as_table_like);
        classes.is_some_and(|classes| classes.contains_key(class.get()))
    };
    let is_made = table.get() == "class"
        && is_class(class.get())
        && text.parse::<DocumentMut>().is_ok_and(|top| !is_written(&top));
    if !is_made {
        return Cow::Borrowed(key);
    }
    let rest: Vec<_> = path[1..].iter().map(|part| part.display_repr().into_owned()).collect();
    Cow::Owned(format!("exception.{}", rest.join(".")))
}

fn set(top: &mut Table, Edit { key, value }: Edit<'_>) -> Result<(), String> {
    let path = path(key)?;
    let (last, folders) = path.split_last().ok_or_else(|| not_a_key(key))?;
    let mut table: &mut dyn TableLike = top;
    for (depth, part) in folders.iter().enumerate() {
        let is_removed = value.is_empty() && !table.contains_key(part.get());
        if is_removed {
            return Err(absent(key, part.get(), table));
        }
        if depth == 1 && folders[0].get() == "class" && !table.contains_key(part.get()) {
            return Err(no_class(part.get(), table));
        }
        let item = table.entry_format(part).or_insert_with(|| new_table(depth));
        table = item.as_table_like_mut().ok_or_else(|| {
            format!("`{}` in `{key}` is a value and has no keys; name it alone", part.get())
        })?;
    }
    if value.is_empty() {
        return match table.remove(last.get()) {
            Some(_) => Ok(()),
            None => Err(absent(key, last.get(), table)),
        };
    }
    let mut value = read_value(value);
    if let Some(old) = table.get(last.get()).and_then(Item::as_value) {
        // Such as a comment behind it.
        *value.decor_mut() = old.decor().clone();
    }
    let item = match value {
        // A new class has a header, and stands behind the others: their order may decide ties.
        Value::InlineTable(class) if folders.len() == 1 && folders[0].get() == "class" => {
            Item::Table(class.into_table())
        }
        value => Item::Value(value),
    };
    match table.get_mut(last.get()) {
        Some(old) => *old = item,
        None => drop(table.entry_format(last).or_insert(item)),
    }
    Ok(())
}

fn path(key: &str) -> Result<Vec<Key>, String> {
    let too_long = key.len() > KEY_MAX;
    Key::parse(key).ok().filter(|path| !path.is_empty() && !too_long).ok_or_else(|| not_a_key(key))
}

fn not_a_key(key: &str) -> String {
    let shown: String = key.chars().take(SHOWN_MAX).collect();
    format!("`{shown}` is not a key; write it like `class.voice.rate` or `class.\"a b\".weight`")
}

/// A table below `[class]` has a header of its own; `[class]` itself needs none.
fn new_table(depth: usize) -> Item {
    let mut table = Table::new();
    table.set_implicit(depth == 0);
    Item::Table(table)
}

/// Reads a value as TOML; what is none is a text.
fn read_value(text: &str) -> Value {
    text.parse::<Value>().unwrap_or_else(|_| Value::from(text))
}

/// A key of a class that is not there is a slip more often than a new class.
fn no_class(name: &str, classes: &dyn TableLike) -> String {
    let known: Vec<_> = classes.iter().map(|(name, _)| name).take(KNOWN_MAX).collect();
    let quoted = Key::new(name);
    format!(
        "there is no class `{name}`; {}. To add a class, set it whole: `class.{quoted}={{ … }}`",
        suggest(name, &known)
    )
}

fn absent(key: &str, part: &str, table: &dyn TableLike) -> String {
    let known: Vec<_> = table.iter().map(|(name, _)| name).take(KNOWN_MAX).collect();
    format!("there is no `{part}` to remove for `{key}`; {}", suggest(part, &known))
}

/// The most bytes of a key.
const KEY_MAX: usize = 1024;
const SHOWN_MAX: usize = 64;
/// Names compared to suggest one for an unknown name.
const KNOWN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "# the line\n[link]\nrate = \"10 Mbit/s\" # as sold\n\n\
        [class.voice] # telephones\nrate = \"1 Mbit/s\"   # two calls\nqueue = { limit = 5 }\n\n\
        [class.rest]\ndefault = true\n";

    /// Sets `key=value` in the policy; checks what stands there instead of `before`, or a part of
    /// the refusal.
    fn check(edit: &str, before: &str, expected: Result<&str, &str>) {
        let (key, value) = edit.split_once('=').expect("an edit has two sides");
        let outcome = set_all(POLICY, &[Edit { key, value }]);
        match (outcome, expected) {
            (Ok(text), Ok(after)) => assert_eq!(text, POLICY.replace(before, after), "{edit}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{edit}: {error}"),
            (outcome, _) => panic!("{edit}: {outcome:?}"),
        }
    }

    #[test]
    fn an_edit_changes_one_value_and_no_comment() {
        let voice = "rate = \"1 Mbit/s\"   # two calls";
        check("class.voice.rate=2Mbit/s", voice, Ok("rate = \"2Mbit/s\"   # two calls"));
        check("class.voice.rate=\"2 Mbit/s\"", voice, Ok("rate = \"2 Mbit/s\"   # two calls"));
        check("class.voice.rate=20%", voice, Ok("rate = \"20%\"   # two calls"));
        check("class.voice.rate=", &format!("{voice}\n"), Ok(""));
        check("class.voice.queue.limit=9", "limit = 5", Ok("limit = 9"));
        check("class.rest.default=false", "default = true", Ok("default = false"));
        let after = "default = true\nweight = 3";
        check("class.rest.weight=3", "default = true", Ok(after));
        let added = "default = true\n\n[class.\"a b\"]\nweight = 1";
        check("class.\"a b\"={ weight = 1 }", "default = true", Ok(added));
        check("class.rest=", "\n[class.rest]\ndefault = true\n", Ok(""));
        let list = "default = true\nmatch = [{ proto = \"udp\" }]";
        check("class.rest.match=[{ proto = \"udp\" }]", "default = true", Ok(list));
    }

    #[test]
    fn a_class_that_a_template_makes_is_set_by_an_exception() {
        let is_class = |name: &str| ["voice", "s 1"].contains(&name);
        let rows = [
            ("class.voice.rate", "class.voice.rate"),
            ("class.\"s 1\".queue.limit", "exception.\"s 1\".queue.limit"),
            ("class.s2.rate", "class.s2.rate"),
            ("class.\"s 1\"", "class.\"s 1\""),
            ("link.rate", "link.rate"),
            ("class..rate", "class..rate"),
        ];
        for (key, wanted) in rows {
            assert_eq!(place(POLICY, key, &is_class), wanted, "{key}");
        }
    }

    #[test]
    fn what_is_no_edit_is_refused_with_a_cure() {
        check("=1", "", Err("is not a key"));
        check("class.vioce.rate=1", "", Err("there is no class `vioce`; did you mean `voice`?"));
        check("class.guests.rate=1", "", Err("set it whole: `class.guests={"));
        check("class..rate=1", "", Err("write it like"));
        check("link.rate.x=1", "", Err("`rate` in `link.rate.x` is a value"));
        check("class.voise=", "", Err("voice"));
        check("class.voice.rte=", "", Err("rate"));
    }
}
