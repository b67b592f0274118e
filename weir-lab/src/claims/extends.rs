//! A file of `papers/` that extends another one: it writes only what differs. `docs/lab-format.md`
//! describes it.
//!
//! The texts are merged before the simulator reads them, and keep the form in which they are
//! written: a header stays a header, and a table in braces a value.

use super::paper_set;
use super::sheet::line_of;
use toml_edit::{DocumentMut, Item, Table};

/// Returns the text of a file by its path below `papers/`.
pub(super) type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Returns the text of the file at `path` below `papers/`, merged with what it extends.
///
/// # Errors
/// When a file is missing or is not TOML, or files extend each other in a circle: where and why.
pub(super) fn extended(path: &str, read_file: ReadFile<'_>) -> Result<String, String> {
    extended_by(path, read_file, &mut Vec::new())
}

/// Does the work of [`extended`]; `chain` has the files that lead here.
fn extended_by(
    path: &str,
    read_file: ReadFile<'_>,
    chain: &mut Vec<String>,
) -> Result<String, String> {
    let text = read_file(path)?;
    let Some(line) = extends_line(&text) else { return Ok(text) };
    let told = |error: String| format!("papers/{path}: line {line}: {error}");
    let mut own = parse(path, &text)?;
    let Some(Item::Value(base)) = own.remove("extends") else {
        return Err(told("`extends` is not a text; write the name of a file".to_owned()));
    };
    let Some(file) = base.as_str() else {
        let base = base.to_string();
        return Err(told(format!("`extends` is {}; write the name of a file", base.trim())));
    };
    chain.push(path.to_owned());
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let base = paper_set::find(folder, file, &|path| read_file(path).is_ok())
        .map_err(|error| told(format!("`extends` names `{file}`, but {error}")))?;
    if chain.contains(&base) {
        let circle = chain.join(", which extends ");
        return Err(told(format!(
            "files extend each other in a circle: {circle}, which extends {base}; write one of \
             them without `extends`"
        )));
    }
    let text = extended_by(&base, read_file, chain)?;
    let mut merged = parse(&base, &text)?;
    for gone in paths(&mut own).map_err(told)? {
        if !remove(&mut merged, &gone) {
            return Err(told(format!(
                "`without` names `{gone}`, which papers/{base} does not have; remove it there"
            )));
        }
    }
    merge(&mut merged, std::mem::take(own.as_table_mut()));
    forget_positions(&mut merged);
    Ok(merged.to_string())
}

/// Returns the line that has `extends`, if the text has it before its first header.
fn extends_line(text: &str) -> Option<usize> {
    let head = text.lines().take_while(|line| !line.starts_with('['));
    let is_key = |line: &str| line.split('=').next().is_some_and(|key| key.trim() == "extends");
    head.into_iter().position(|line| line.contains('=') && is_key(line)).map(|line| line + 1)
}

fn parse(path: &str, text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        format!("papers/{path}: line {line}: {}", error.message())
    })
}

/// Removes `without` and returns its paths.
fn paths(own: &mut Table) -> Result<Vec<String>, String> {
    let Some(without) = own.remove("without") else { return Ok(Vec::new()) };
    let texts = without.as_array().map(|array| array.iter().map(|path| path.as_str()));
    let texts = texts.and_then(|texts| texts.map(|path| Some(path?.to_owned())).collect());
    texts.ok_or_else(|| {
        "`without` is no list of texts; write such as [\"link.pvc3.driver\"]".to_owned()
    })
}

/// Removes what a path denotes: keys with points between them, and in an array of tables the name
/// of one. Returns whether it was there.
fn remove(table: &mut Table, path: &str) -> bool {
    let Some((key, rest)) = path.split_once('.') else { return table.remove(path).is_some() };
    match table.get_mut(key) {
        Some(Item::Table(table)) => remove(table, rest),
        Some(Item::ArrayOfTables(tables)) => {
            let (name, rest) = rest.split_once('.').map_or((rest, None), |(a, b)| (a, Some(b)));
            let Some(place) = tables.iter().position(|table| name_of(table) == Some(name)) else {
                return false;
            };
            match (rest, tables.get_mut(place)) {
                (Some(rest), Some(table)) => remove(table, rest),
                _ => {
                    tables.remove(place);
                    true
                }
            }
        }
        _ => false,
    }
}

/// Puts what `own` has over `base`: tables are merged, arrays of tables by `name`, anything else
/// is replaced.
fn merge(base: &mut Table, own: Table) {
    for (key, item) in own {
        match (base.get_mut(&key), item) {
            (Some(Item::Table(base)), Item::Table(own)) => merge(base, own),
            (Some(Item::ArrayOfTables(base)), Item::ArrayOfTables(own)) => {
                for own in own {
                    let name = name_of(&own);
                    let is_own = |base: &Table| name.is_some() && name_of(base) == name;
                    let place = base.iter().position(is_own);
                    match place.and_then(|place| base.get_mut(place)) {
                        Some(base) => merge(base, own),
                        None => base.push(own),
                    }
                }
            }
            (_, item) => {
                base.insert(&key, item);
            }
        }
    }
}

fn name_of(table: &Table) -> Option<&str> {
    table.get("name")?.as_str()
}

/// Makes the tables be written in the order in which they are held: their places in the two files
/// would mix them.
fn forget_positions(table: &mut Table) {
    table.set_position(None);
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(table) => forget_positions(table),
            Item::ArrayOfTables(tables) => tables.iter_mut().for_each(forget_positions),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::extended;

    /// The files of a paper `p`.
    const FILES: &[(&str, &str)] = &[
        (
            "p/base.toml",
            "duration = \"40 s\"\n\n[[link]]\nname = \"a\"\nrate = \"3 Mbit/s\"\n\n[[link]]\n\
             name = \"b\"\n\n[link.policy.link]\nscheduler = \"cbq\"\ncbq = { hz = 1 }\n\n\
             [link.policy.class.x]\nrate = \"1 Mbit/s\"\nborrow = true\n\n[[source]]\nname = \"s\"\n",
        ),
        ("p/E/same.toml", "extends = \"base.toml\"\n"),
        ("p/E/number.toml", "extends = \"base.toml\"\nduration = \"9 s\"\n"),
        (
            "p/E/tables.toml",
            "extends = \"../base.toml\"\n[[link]]\nname = \"b\"\ndriver = \"en\"\n\
             [link.policy.link]\ncbq = { fine = true }\n[link.policy.class.x]\nborrow = false\n\
             [link.policy.class.y]\nborrow = true\n[[link]]\nname = \"c\"\n[[source]]\n\
             name = \"t\"\n",
        ),
        (
            "p/E/less.toml",
            "extends = \"number.toml\"\nwithout = [\"link.a\", \"link.b.policy.link.cbq\", \
             \"link.b.policy.class.x\", \"duration\"]\n",
        ),
        ("p/shadow.toml", "seed = 1\n\n[a]\n"),
        ("p/E/shadow.toml", "extends = \"../shadow.toml\"\nwarmup = \"1 s\"\n"),
        ("p/E/one.toml", "\nextends = \"two.toml\"\n"),
        ("p/E/two.toml", "extends = \"one.toml\"\n"),
        ("p/E/lost.toml", "extends = \"gone.toml\"\n"),
        ("p/E/none.toml", "seed = 1\nextends = \"base.toml\"\nwithout = [\"link.z\"]\n"),
        ("p/E/list.toml", "extends = \"base.toml\"\nwithout = \"link\"\n"),
        ("p/E/value.toml", "extends = 1\n"),
        ("p/E/torn.toml", "extends = \"base.toml\"\n\nrate = \n"),
        ("p/E/class.toml", "[class.extends]\nextends = \"not at the head\"\n"),
    ];

    fn read(path: &str) -> Result<String, String> {
        let found = FILES.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| format!("no {path}"))
    }

    fn check(file: &str, expected: &str) {
        let text = extended(&format!("p/E/{file}"), &read);
        assert_eq!(text, Ok(expected.to_owned()), "{file}");
    }

    fn refuse(file: &str, expected: &str) {
        let error = extended(&format!("p/E/{file}"), &read);
        assert_eq!(error, Err(format!("papers/p/E/{file}: {expected}")));
    }

    #[test]
    fn what_a_file_writes_is_put_over_what_it_extends() {
        let base = FILES[0].1;
        check("same.toml", base);
        check("number.toml", &base.replace("40 s", "9 s"));
        check(
            "tables.toml",
            "duration = \"40 s\"\n\n[[link]]\nname = \"a\"\nrate = \"3 Mbit/s\"\n\n[[link]]\n\
             name = \"b\"\ndriver = \"en\"\n\n[link.policy.link]\nscheduler = \"cbq\"\n\
             cbq = { fine = true }\n\n[link.policy.class.x]\nrate = \"1 Mbit/s\"\n\
             borrow = false\n[link.policy.class.y]\nborrow = true\n[[link]]\nname = \"c\"\n\n\
             [[source]]\nname = \"s\"\n[[source]]\nname = \"t\"\n",
        );
        check("shadow.toml", "seed = 1\nwarmup = \"1 s\"\n\n[a]\n");
        check("class.toml", "[class.extends]\nextends = \"not at the head\"\n");
    }

    #[test]
    fn what_without_names_is_left_out() {
        check(
            "less.toml",
            "\n[[link]]\nname = \"b\"\n\n[link.policy.link]\nscheduler = \"cbq\"\n\n[[source]]\n\
             name = \"s\"\n",
        );
    }

    #[test]
    fn a_file_that_cannot_be_extended_is_told_with_its_line_and_the_cure() {
        refuse(
            "none.toml",
            "line 2: `without` names `link.z`, which papers/p/base.toml does not have; remove it \
             there",
        );
        refuse(
            "list.toml",
            "line 1: `without` is no list of texts; write such as [\"link.pvc3.driver\"]",
        );
        refuse("value.toml", "line 1: `extends` is 1; write the name of a file");
        refuse("torn.toml", "line 3: string values must be quoted, expected literal string");
        refuse(
            "lost.toml",
            "line 1: `extends` names `gone.toml`, but there is neither papers/p/E/gone.toml nor \
             papers/p/gone.toml",
        );
        let circle = extended("p/E/one.toml", &read);
        assert_eq!(
            circle,
            Err("papers/p/E/two.toml: line 1: files extend each other in a circle: p/E/one.toml, \
                 which extends p/E/two.toml, which extends p/E/one.toml; write one of them \
                 without `extends`"
                .to_owned())
        );
    }
}
