//! The command that makes a proposed change on the link of a load, as a shell reads it.

use crate::load::LinkWay;

/// Returns the command that sets a key of a link's policy; `NAME` stands for a link that is not
/// known.
pub fn set(link: Option<&LinkWay>, key: &str, value: &str) -> String {
    let mut words = vec!["weir".to_owned(), "set".to_owned()];
    match link {
        Some(link) => words.extend(link.words.iter().cloned()),
        None => words.push("NAME".to_owned()),
    }
    let change = format!("{key}={value}");
    match link.and_then(|link| link.direction.as_ref()) {
        // Before a key, such a name would be read as a part of it.
        Some(name) if name.contains([':', '=', '"']) => {
            words.extend(["--direction".to_owned(), name.clone(), change]);
        }
        Some(name) => words.push(format!("{name}:{change}")),
        None => words.push(change),
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], direction: Option<&str>, key: &str, expected: &str) {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        let link = LinkWay { words, direction: direction.map(str::to_owned) };
        assert_eq!(set(Some(&link), key, "9 Mbit/s"), expected);
    }

    #[test]
    fn a_command_names_link_and_direction_as_weir_set_takes_them() {
        check(&["home"], Some("up"), "link.rate", "weir set home 'up:link.rate=9 Mbit/s'");
        check(&["home"], None, "link.rate", "weir set home 'link.rate=9 Mbit/s'");
        check(
            &["--control", "/run/a b"],
            Some("a: b"),
            "class.\"it's\".rate",
            r#"weir set --control '/run/a b' --direction 'a: b' 'class."it'\''s".rate=9 Mbit/s'"#,
        );
        assert_eq!(set(None, "link.rate", "1 bit/s"), "weir set NAME 'link.rate=1 bit/s'");
    }
}
