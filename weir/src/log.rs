//! `weir log`: lists the last changes of a running link, or prints what is in force.

use crate::Run;
use crate::change;
use crate::output::{Exit, Format, Output};
use serde_json::json;
use std::path::PathBuf;
use weir_control::places;
use weir_control::protocol::{Answer, Entry, Events, InForce, PolicyOf, Request, Since};
use weir_host::wait::realtime_ns;
use weir_link::events::rfc3339;
use weir_link::events::time::rfc3339_s;

/// Lists the last changes of a running link: number, time, user, what changed, and why.
///
/// The last change is in force. A link keeps 100 changes; they end with it. Between them stand, as
/// `rate`, the changes of a rate that follows the line, as far as its events are remembered. With
/// --policy it prints the policies in force instead, each under a comment with its directions,
/// identity and age: of one direction, `weir log home --policy --direction upload > up.toml` keeps
/// what `weir set` changed.
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
                let events = Request::Events(Since::default());
                let rates = match change::ask(&name, self.control.as_ref(), &events) {
                    Ok(Answer::Events(events)) => RateChange::among(&events),
                    _ => Vec::new(),
                };
                match output.format {
                    Format::Text => output.text(&list(&entries, &rates)),
                    Format::Json => {
                        let rows: Vec<_> = entries.iter().map(row).collect();
                        let rates: Vec<_> = rates.iter().map(RateChange::row).collect();
                        output.json(&json!({ "changes": rows, "rates": rates }));
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

/// A change of a rate that follows the line.
struct RateChange {
    /// As events have it: UTC with nanoseconds.
    time: String,
    /// The direction, the rates, and why.
    text: String,
}

impl RateChange {
    /// Returns those among the events of a link, in their order.
    fn among(events: &Events) -> Vec<Self> {
        let of = |event: &serde_json::Map<String, serde_json::Value>| {
            let text = |key: &str| event.get(key)?.as_str().map(str::to_owned);
            let is_rate = text("event")? == "rate-changed";
            is_rate.then_some(Self { time: text("time")?, text: text("text")? })
        };
        events.events.iter().filter_map(of).collect()
    }

    fn row(&self) -> serde_json::Value {
        json!({ "time": self.time, "what": self.text })
    }
}

/// Returns a line for each change, and below it what changed and why: neither is short. Rates
/// stand between the changes by their times.
fn list(entries: &[Entry], rates: &[RateChange]) -> String {
    let mut text = String::new();
    let mut rates = rates.iter().peekable();
    let rate = |change: &RateChange| {
        let seconds = change.time.get(..19).unwrap_or(&change.time);
        format!("      {seconds}Z            rate\n      {}\n", change.text)
    };
    for entry in entries {
        let at = rfc3339(entry.at_ns);
        while let Some(change) = rates.next_if(|change| change.time < at) {
            text += &rate(change);
        }
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
    text + &rates.map(rate).collect::<String>()
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
        let lines: Vec<_> = list(&[entry], &[]).lines().map(str::to_owned).collect();
        assert!(
            lines[0].starts_with("   7  1970-01-01T00:00:00") && lines[0].ends_with("(on trial)")
        );
        let below = ["class.voice.rate 1 to 2 Mbit/s", "class.web.rate", "a call was bad"];
        assert_eq!(lines[1..], below.map(|line| format!("      {line}")));
    }

    #[test]
    fn rates_that_follow_the_line_stand_between_changes_by_their_times() {
        let entry = |seconds: u64| Entry { at_ns: seconds * 1_000_000_000, ..Entry::default() };
        let event = json!({ "event": "rate-changed", "time": rfc3339(5_000_000_000),
            "text": "download: rate 38 Mbit/s → 31 Mbit/s: the load needs it" });
        let other = json!({ "event": "port-down", "time": rfc3339(5_000_000_000), "text": "" });
        let events = [event, other].map(|row| row.as_object().cloned().unwrap_or_default());
        let rates = RateChange::among(&Events { lost: 0, events: events.into() });
        let text = list(&[entry(1), entry(9)], &rates);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("00:00:01Z") && lines[3].contains("00:00:09Z"), "{text}");
        let rate = [
            "1970-01-01T00:00:05Z            rate",
            "download: rate 38 Mbit/s → 31 Mbit/s: the load needs it",
        ];
        assert_eq!(lines[1..3], rate.map(|line| format!("      {line}")), "{text}");
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
