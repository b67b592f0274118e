//! `weir log`: lists the last changes of a running link, or prints what is in force.

use crate::Run;
use crate::change;
use crate::output::{Exit, Format, Output};
use serde_json::json;
use std::path::PathBuf;
use weir_control::places;
use weir_control::protocol::{Answer, Entry, InForce, PolicyOf, Request};
use weir_host::wait::realtime_ns;
use weir_link::events::rfc3339;
use weir_link::events::time::rfc3339_s;

/// Lists the last changes of a running link: number, time, user, what changed, and why.
///
/// The last line is in force. A link keeps 100 changes; they end with it. With --policy it prints
/// the policies in force instead, each under a comment with its directions, identity and age: of
/// one direction, `weir log home --policy --direction upload > up.toml` keeps what `weir set`
/// changed.
#[derive(clap::Args)]
#[command(override_usage = "weir log [OPTIONS] <NAME|--control <SOCKET>>")]
pub struct Log {
    /// The name of the deployment; needed unless there is a `--control`.
    #[arg(required_unless_present = "control")]
    name: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Print the policies in force.
    #[arg(long)]
    policy: bool,
    /// Only the policy of this direction.
    #[arg(long, value_name = "NAME", requires = "policy")]
    direction: Option<String>,
}

impl Run for Log {
    fn run(self, output: &Output) -> Exit {
        if self.policy {
            return self.in_force(output);
        }
        let name = self.name.unwrap_or_default();
        match change::ask(&name, self.control.as_ref(), &Request::Log {}) {
            Ok(Answer::Log(entries)) => {
                match output.format {
                    Format::Text => output.text(&list(&entries)),
                    Format::Json => {
                        let rows: Vec<_> = entries.iter().map(row).collect();
                        output.json(&json!({ "changes": rows }));
                    }
                }
                Exit::Clean
            }
            Ok(_) => output.refuse(change::OTHER),
            Err(why) => output.refuse(&why),
        }
    }
}

impl Log {
    fn in_force(self, output: &Output) -> Exit {
        let name = self.name.unwrap_or_default();
        let asked = change::ask(&name, self.control.as_ref(), &Request::Policy {});
        let told = match asked {
            Ok(Answer::Policy(policy)) => only(*policy, self.direction.as_deref()),
            Ok(_) => Err(change::OTHER.to_owned()),
            Err(why) => Err(why),
        };
        match told {
            Ok(policy) => {
                match output.format {
                    Format::Text => output.text(&texts(&policy, realtime_ns())),
                    Format::Json => output.json(&policy),
                }
                Exit::Clean
            }
            Err(why) => output.refuse(&why),
        }
    }
}

/// Returns what is in force in one direction, or in all.
fn only(mut policy: InForce, direction: Option<&str>) -> Result<InForce, String> {
    let Some(direction) = direction else { return Ok(policy) };
    let known: Vec<_> = policy.directions.iter().map(|way| way.direction.clone()).collect();
    policy.directions.retain(|way| way.direction == direction);
    let Some(way) = policy.directions.first() else {
        return Err(format!(
            "there is no direction `{direction}`; the link has {}",
            known.join(", ")
        ));
    };
    policy.files.retain(|file| file.name == way.file);
    Ok(policy)
}

/// Returns the texts of the policies, each under a comment.
fn texts(policy: &InForce, now_ns: u64) -> String {
    let of = |file: &weir_control::protocol::File| {
        let ways: Vec<_> = policy.directions.iter().filter(|way| way.file == file.name).collect();
        let names: Vec<_> = ways.iter().map(|way| way.direction.as_str()).collect();
        let names = names.join(", ");
        let about = ways.first().map_or(String::new(), |way| about(way, now_ns));
        format!("# {}: {names}; {about}\n{}\n", file.name, file.text.trim_end())
    };
    policy.files.iter().map(of).collect::<Vec<_>>().join("\n")
}

fn about(way: &PolicyOf, now_ns: u64) -> String {
    let seconds = now_ns.saturating_sub(way.since_ns) / 1_000_000_000;
    format!("identity {}, in force for {seconds} s", way.identity)
}

fn row(entry: &Entry) -> serde_json::Value {
    json!({
        "number": entry.number,
        "time": rfc3339(entry.at_ns),
        "user": entry.user,
        "by": entry.origin,
        "what": entry.what,
        "reason": entry.reason,
        "on_trial": entry.on_trial,
    })
}

/// Returns a line for each change, and below it what changed and why: neither is short.
fn list(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        let user = entry.user.map(places::user).unwrap_or_default();
        let on_trial = if entry.on_trial { " (on trial)" } else { "" };
        let head = format!(
            "{:>4}  {}  {user:<8}  {}{on_trial}",
            entry.number,
            rfc3339_s(entry.at_ns),
            entry.origin.word()
        );
        text += &format!("{}\n", head.trim_end());
        for line in [&entry.what, &entry.reason].into_iter().flat_map(|said| said.lines()) {
            text += &format!("      {line}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_control::protocol::File;

    fn in_force() -> InForce {
        let way = |direction: &str, file: &str| PolicyOf {
            direction: direction.to_owned(),
            file: file.to_owned(),
            identity: "0123456789abcdef".to_owned(),
            since_ns: 3_000_000_000,
        };
        let file =
            |name: &str| File { name: name.to_owned(), text: format!("[link] # {name}\n\n") };
        InForce {
            directions: vec![way("up", "a.toml"), way("down", "b.toml"), way("in", "a.toml")],
            files: vec![file("a.toml"), file("b.toml")],
        }
    }

    #[test]
    fn each_policy_is_printed_once_under_a_comment() {
        let told = only(in_force(), None).map(|policy| texts(&policy, 15_900_000_000));
        let id = "identity 0123456789abcdef, in force for 12 s";
        let expected = format!(
            "# a.toml: up, in; {id}\n[link] # a.toml\n\n# b.toml: down; {id}\n[link] # b.toml\n"
        );
        assert_eq!(told, Ok(expected));
    }

    #[test]
    fn a_change_is_a_line_with_what_and_why_below_it() {
        let entry = Entry {
            number: 7,
            what: "class.voice.rate 1 to 2 Mbit/s\nclass.web.rate".to_owned(),
            reason: "a call was bad".to_owned(),
            on_trial: true,
            ..Entry::default()
        };
        let lines: Vec<_> = list(&[entry]).lines().map(str::to_owned).collect();
        assert!(
            lines[0].starts_with("   7  1970-01-01T00:00:00") && lines[0].ends_with("(on trial)")
        );
        let below = ["class.voice.rate 1 to 2 Mbit/s", "class.web.rate", "a call was bad"];
        assert_eq!(lines[1..], below.map(|line| format!("      {line}")));
    }

    #[test]
    fn one_direction_is_chosen_by_its_name() {
        let told = only(in_force(), Some("in")).map(|policy| texts(&policy, 0));
        let id = "identity 0123456789abcdef, in force for 0 s";
        assert_eq!(told, Ok(format!("# a.toml: in; {id}\n[link] # a.toml\n")));
        let why = only(in_force(), Some("out")).expect_err("there is none");
        assert!(why.contains("the link has up, down, in"), "{why}");
    }
}
