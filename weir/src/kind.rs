//! The kinds of file that verbs read or write: the one place that tells them apart.
//!
//! A verb first reads a file as the kind that it takes. Only if that fails does it ask here whether
//! the file is of another kind, so a file that a verb can read is never refused.

use crate::check;
use crate::output::{Exit, Output};
use weir_daemon::keeper::found::Found;
use weir_import::import::known::{self, Known};
use weir_lsp::kind;
use weir_policy::finding::Outcome;
use weir_policy::reader;
use weir_trace::capture::CaptureReader;

/// A kind of file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The classes of a link.
    Policy,
    /// Interfaces and the policies between them.
    Deployment,
    /// Sources, and the links that they share.
    Scenario,
    /// A capture: recorded packets.
    Capture,
    /// The output of `--format json` and `--json`, or other JSON.
    Json,
    /// The output of `--parquet`.
    Parquet,
    /// A file of another tool.
    Foreign(&'static Known),
    /// Rows of cells in CSV, such as the list of a template.
    List,
}

impl Kind {
    /// Returns the kind of a file with this content, if it is known.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if let Some(kind) = Self::of_tables(&reader::top_level(bytes)) {
            return Some(kind);
        }
        if bytes.starts_with(b"PAR1") {
            return Some(Self::Parquet);
        }
        if CaptureReader::new(bytes).is_ok() {
            return Some(Self::Capture);
        }
        let text = String::from_utf8_lossy(bytes);
        if let Some(known) = known::of(&text) {
            return Some(Self::Foreign(known));
        }
        if serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok() {
            return Some(Self::Json);
        }
        Self::of_rows(&text)
    }

    /// Returns the kind of a text whose first two lines are rows of equally many cells. A key or a
    /// bracket is in none of them.
    fn of_rows(text: &str) -> Option<Self> {
        let is_row = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
        let mut rows = text.lines().filter(is_row).take(2);
        let (first, second) = (rows.next()?, rows.next()?);
        let cells = |row: &str| row.matches([',', ';', '\t']).count();
        let alike = cells(first) > 0 && cells(first) == cells(second);
        (alike && !first.contains(['=', '[', '{', '('])).then_some(Self::List)
    }

    /// Returns the kind of a TOML file with these top-level keys.
    pub fn of_tables(keys: &[String]) -> Option<Self> {
        match kind::Kind::of_keys(keys)? {
            kind::Kind::Policy => Some(Self::Policy),
            kind::Kind::Deployment => Some(Self::Deployment),
            kind::Kind::Scenario => Some(Self::Scenario),
            kind::Kind::Sweep => None,
        }
    }

    /// Returns the kind of files in a language of `weir import`.
    pub fn of_language(name: &str) -> Self {
        Self::Foreign(known::named(name).expect("each language is a kind of file"))
    }

    /// Returns the name of the kind, with its article.
    fn noun(self) -> &'static str {
        match self {
            Self::Policy => "a policy",
            Self::Deployment => "a deployment",
            Self::Scenario => "a scenario",
            Self::Capture => "a capture",
            Self::Json => "JSON, such as Weir's reports",
            Self::Parquet => "a Parquet file, such as `weir sim --parquet` writes",
            Self::Foreign(known) => known.noun,
            Self::List => "a list in CSV",
        }
    }

    /// Returns the name without an article.
    fn word(self) -> &'static str {
        self.noun().trim_start_matches("a ")
    }

    /// Returns a sentence with the verbs that take the file.
    fn takers(self, name: &str) -> String {
        match self {
            Self::Policy => format!(
                "`weir check {name}` checks it; `replay`, `test`, `diff` and `export tc` take it"
            ),
            Self::Deployment => {
                format!("`weir check {name}` checks it, and `weir up {name}` runs it")
            }
            Self::Scenario => {
                format!("`weir check {name}` checks it; `weir sim` and `weir compare` run it")
            }
            Self::Capture => format!(
                "`weir replay POLICY {name}` runs it through a policy, and `weir measure` compares \
                 two of them"
            ),
            Self::Json | Self::Parquet => "no verb of weir reads it".to_owned(),
            Self::Foreign(known) => match known.instead {
                None => format!("`weir import {} {name}` makes a policy of it", known.name),
                Some(instead) => format!("Weir does not read it: {instead}"),
            },
            Self::List => format!(
                "no verb of weir reads it alone: write `list = \"{name}\"` in a template of a \
                 policy (docs/templates.md), or `file = \"{name}\"` in a source of a scenario"
            ),
        }
    }

    /// Returns how to get a file of this kind for one of kind `there`, in words that follow "for".
    fn cure(self, there: Self, name: &str) -> String {
        match (self, there) {
            (Self::Scenario, Self::Policy) => format!(
                "a scenario, write a file with `policy = \"{name}\"`, a `duration` and \
                 `[[source]]` tables (docs/scenarios.md)"
            ),
            (Self::Scenario, Self::Capture) => "a scenario, write a file with a policy, a \
                 `duration` and a `[[source]]` of the kind `capture` (docs/scenarios.md)"
                .to_owned(),
            (Self::Scenario, _) => "a scenario, write a file with a policy, a `duration` and \
                 `[[source]]` tables (docs/scenarios.md)"
                .to_owned(),
            (Self::Deployment, Self::Policy) => format!(
                "a deployment, write a file with `[deployment]`, its `ports`, and a \
                 `[direction.NAME]` with `from`, `to` and `policy = \"{name}\"`"
            ),
            (Self::Deployment, _) => {
                "a deployment, write a file with `[deployment]`, its `ports`, \
                 and a `[direction.NAME]` with `from`, `to` and `policy`"
                    .to_owned()
            }
            (Self::Policy, Self::Deployment) => {
                "a policy, name a file that a `policy` of it names".to_owned()
            }
            (Self::Policy, Self::Scenario) => {
                "a policy, name the file that its `policy` names".to_owned()
            }
            (Self::Policy, Self::Foreign(known)) if known.instead.is_none() => {
                "a policy, import it with `--out policy.toml`".to_owned()
            }
            (Self::Policy, _) => "a policy, write `[link]` and `[class.NAME]` tables, or import \
                 one (`weir import --help`)"
                .to_owned(),
            (Self::Capture, _) => {
                "a capture, record one with `tcpdump -i DEV -w FILE`; the policy \
                 comes before it"
                    .to_owned()
            }
            (Self::Foreign(known), Self::Policy) if known.name == "tc" => {
                format!("tc commands, write them with `weir export tc {name} --dev DEV`")
            }
            (wanted, _) => format!("{}, name the file of the other tool", wanted.noun()),
        }
    }
}

/// Returns why a file cannot be used where a file of the kind `wanted` is, if it is of another kind
/// that is known.
pub fn mistaken(name: &str, bytes: &[u8], wanted: Kind) -> Option<String> {
    let there = Kind::of(bytes).filter(|there| *there != wanted)?;
    let (is, takers) = (there.noun(), there.takers(name));
    let not = wanted.noun();
    Some(format!("{name} is {is}, not {not}; {takers}; for {}", wanted.cure(there, name)))
}

/// Explains why a file with errors cannot be used: it is of another kind, or has these findings.
pub fn refuse<T>(
    output: &Output,
    (name, bytes): (&str, &[u8]),
    wanted: Kind,
    outcome: &Outcome<T>,
) -> Exit {
    match mistaken(name, bytes, wanted) {
        Some(message) => output.refuse(&message),
        None => check::print(output, name, wanted.word(), outcome),
    }
}

/// As [`refuse`], of a file of which another process found these errors.
pub fn refuse_found(
    output: &Output,
    (name, bytes): (&str, &[u8]),
    wanted: Kind,
    found: &Found,
) -> Exit {
    match mistaken(name, bytes, wanted) {
        Some(message) => output.refuse(&message),
        None => check::print_found(output, name, wanted.word(), found),
    }
}
