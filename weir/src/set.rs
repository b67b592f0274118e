//! `weir set`: changes single values of the policies of a running link.

use crate::Run;
use crate::change::{self, Options};
use crate::output::{Exit, Output};
use weir_control::protocol::{Request, Setting};

/// Changes values of a running link, such as `weir set home upload:class.voice.rate=2Mbit/s`.
///
/// All values change together, between two frames; nothing is lost but what a new limit has no room
/// for. The files stay as they are: `weir reload` and `weir restart` go back to what they say. If
/// the policy would have errors, nothing changes and this exits 1.
#[derive(clap::Args)]
#[command(
    override_usage = "weir set [OPTIONS] <NAME|--control <SOCKET>> <[DIRECTION:]KEY=VALUE>..."
)]
pub struct Set {
    /// The name of the deployment, and what to set: KEY is a path with points as in the policy, or
    /// begins with `deployment.` or `direction.`; VALUE is TOML or a plain text, and empty to
    /// remove the key.
    #[arg(required = true, value_name = "NAME KEY=VALUE")]
    words: Vec<String>,
    /// The direction whose policy has the keys, where directions have several policies.
    #[arg(long, value_name = "NAME")]
    direction: Option<String>,
    #[command(flatten)]
    options: Options,
}

impl Run for Set {
    fn run(self, output: &Output) -> Exit {
        let (name, words) = match (self.options.control.is_some(), self.words.split_first()) {
            (false, Some((name, words))) => (name.as_str(), words),
            _ => ("", self.words.as_slice()),
        };
        if name.contains('=') {
            let all = self.words.join(" ");
            return output.refuse(&format!(
                "`{name}` is what to set, and no link is named; write the name of the deployment \
                 before it: `weir set home {all}`"
            ));
        }
        if words.is_empty() {
            return output.refuse("nothing to set; write it like `class.voice.rate=2Mbit/s`");
        }
        let setting = |word: &String| setting(word, self.direction.as_deref());
        match words.iter().map(setting).collect() {
            Ok(settings) => {
                let request = Request::Set { settings, terms: self.options.terms() };
                change::change(output, name, &self.options, &request)
            }
            Err(why) => output.refuse(&why),
        }
    }
}

/// Reads `[DIRECTION:]KEY=VALUE`.
pub fn setting(word: &str, direction: Option<&str>) -> Result<Setting, String> {
    let Some((key, value)) = word.split_once('=') else {
        return Err(format!("`{word}` has no `=`; write it like `class.voice.rate=2Mbit/s`"));
    };
    let (own, key) = match key.split_once(':') {
        Some((own, key)) if !own.contains('"') => (Some(own), key),
        _ => (None, key),
    };
    let direction = own.or(direction).map(str::to_owned);
    Ok(Setting { direction, key: key.trim().to_owned(), value: value.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_split_into_direction_key_and_value() {
        let rows = [
            ("class.a.rate=2Mbit/s", (None, "class.a.rate", "2Mbit/s")),
            ("up:class.a.rate = 20% ", (Some("up"), "class.a.rate", "20%")),
            (
                "class.a.match=[{ src = \"fe80::1\" }]",
                (None, "class.a.match", "[{ src = \"fe80::1\" }]"),
            ),
            ("class.\"a:b\".rate=1", (None, "class.\"a:b\".rate", "1")),
            ("class.a=", (None, "class.a", "")),
        ];
        for (word, (way, key, value)) in rows {
            let read = setting(word, None).expect(word);
            assert_eq!((read.direction.as_deref(), &*read.key, &*read.value), (way, key, value));
        }
        assert!(setting("class.a.rate", None).is_err());
    }
}
