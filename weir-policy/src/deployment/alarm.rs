//! Alarms: what a running deployment watches, and what it does when a class is in trouble.
//!
//! ```toml
//! [deployment.alarm.slow-voice]
//! when = "voice.delay.p99 > 10 ms"                # the words of a promise
//! direction = "upload"                            # default: each that has the class
//! for = "10 s"
//! run = ["/usr/local/bin/page", "voice is slow"]  # or a webhook, or both; else an event only
//! webhook = "http://192.0.2.1:8080/alarm"
//! ```

use super::directions::Route;
use super::keys::{self, WORDS_MAX};
use super::{Direction, check_key, is_visible};
use crate::codes;
use crate::finding::{Draft, Report};
use crate::policy::promise::{self, Measure, Promised};
use crate::policy::{Goal, Policy};
use crate::reader::{Node, list, suggest};
use weir_core::ids::ClassId;
use weir_core::units::Duration;

/// A condition on the link's figures, and the actions that follow.
#[derive(Clone, PartialEq, Debug)]
pub struct Alarm {
    /// The name in events and messages.
    pub name: String,
    /// The condition as written.
    pub when: String,
    /// Where it is watched: at least one direction, each by itself.
    pub watches: Vec<Watch>,
    /// How long the condition holds before the alarm is raised.
    pub lasts: Duration,
    /// The program to run and its arguments; empty if none.
    pub run: Vec<String>,
    /// The address that is told, if one is.
    pub webhook: Option<Webhook>,
}

/// A condition in one direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Watch {
    /// The index of the direction.
    pub direction: usize,
    /// The condition of trouble; its goal, unlike a promise's, is what must not be reached.
    pub when: Promised<ClassId>,
}

/// An address of HTTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Webhook {
    /// The name or address of the machine; of IPv6 without brackets.
    pub host: String,
    /// The port of TCP.
    pub port: u16,
    /// The path with its leading slash, and the query.
    pub path: String,
}

/// Reads `[deployment.alarm.NAME]`, if there is any. After an error before, directions may be
/// missing, and are not looked at. Where no policy is read, alarms watch nothing.
pub(super) fn read(
    node: Option<&Node<'_>>,
    directions: &[impl Route],
    report: &mut Report,
) -> Vec<Alarm> {
    let Some(table) = node.and_then(|node| node.table(report)) else { return Vec::new() };
    let nodes: Vec<_> = table.entries().collect();
    if nodes.len() > ALARMS_MAX {
        let message =
            format!("{} alarms are written, but at most {ALARMS_MAX} may be", nodes.len());
        let draft = Draft::new(&codes::TOO_MANY, table.span(), message);
        report.push(draft.cure("keep those that matter"));
        return Vec::new();
    }
    let directions = (!report.failed()).then_some(directions);
    nodes.iter().filter_map(|node| alarm(node, directions, report)).collect()
}

fn alarm(node: &Node<'_>, directions: Option<&[impl Route]>, report: &mut Report) -> Option<Alarm> {
    check_key(node, "alarm", report);
    let mut table = node.table(report)?.named(("alarm", node.key())).with_keys(keys::ALARM);
    let when = table.required("when", report);
    let direction = table.field("direction");
    let lasts = table.value("for", report);
    let run = table.field("run").map(|node| command(&node, report));
    let webhook = table.field("webhook").map(|node| webhook(&node, report));
    table.finish(report);
    let directions = directions?;
    let among = match direction {
        Some(node) => vec![find(&node, directions, report)?],
        None => (0..directions.len()).collect(),
    };
    let when = when?;
    let watches = watches(&when, &among, directions, report)?;
    Some(Alarm {
        name: node.key().to_owned(),
        when: when.text(report)?.to_owned(),
        watches,
        lasts: lasts?,
        run: run.unwrap_or(Some(Vec::new()))?,
        webhook: webhook.map_or(Some(None), |webhook| webhook.map(Some))?,
    })
}

/// Returns the index of a direction of this name.
fn find(node: &Node<'_>, directions: &[impl Route], report: &mut Report) -> Option<usize> {
    let name = node.name(report)?;
    let found = directions.iter().position(|way| way.name() == name);
    if found.is_none() {
        let known: Vec<_> = directions.iter().map(Route::name).collect();
        let known = &known[..known.len().min(SUGGESTED_MAX)];
        let message = format!("there is no direction `{name}`");
        report.push(node.draft(&codes::BAD_ALARM, message).cure(suggest(name, known)));
    }
    found
}

/// Reads the condition, and looks its classes up in each of the directions `among`.
fn watches(
    node: &Node<'_>,
    among: &[usize],
    directions: &[impl Route],
    report: &mut Report,
) -> Option<Vec<Watch>> {
    let policies: Option<Vec<_>> = directions.iter().map(Route::policy).collect();
    if policies.is_none() {
        return Some(Vec::new());
    }
    let found = match node.value().as_str() {
        Some(text) => watches_among(text, among, directions),
        None => Err(("is not a text".to_owned(), EXAMPLE.to_owned())),
    };
    let refuse = |(message, cure): (String, String)| {
        report.push(node.draft(&codes::BAD_ALARM, message).cure(cure));
    };
    found.map_err(refuse).ok()
}

/// Reads a condition such as `voice.delay.p99 < 10 ms`, and looks its classes up in each of these
/// directions.
///
/// # Errors
/// When it is no condition, or no direction has its classes; the text has the cure.
pub fn watch(text: &str, directions: &[Direction]) -> Result<Vec<Watch>, String> {
    let among: Vec<_> = (0..directions.len()).collect();
    let refuse = |(message, cure): (String, String)| format!("{message}; {cure}");
    watches_among(text, &among, directions).map_err(refuse)
}

/// As [`watch`]; the error is what is wrong, and the cure.
fn watches_among(
    text: &str,
    among: &[usize],
    directions: &[impl Route],
) -> Result<Vec<Watch>, (String, String)> {
    let condition = promise::read(text).map_err(|error| {
        let (message, cure) = error.rsplit_once("; ").unwrap_or((&error, EXAMPLE));
        (message.to_owned(), cure.to_owned())
    })?;
    let Some(classes) = names(&condition) else {
        return Err(("fairness is known of simulated runs only".to_owned(), EXAMPLE.to_owned()));
    };
    let of = |way: &usize| {
        let policy: &Policy = directions[*way].policy()?;
        let when = condition.clone().map(|class| policy.class(class))?;
        Some(Watch { direction: *way, when })
    };
    let watches: Vec<_> = among.iter().filter_map(of).collect();
    if watches.is_empty() {
        let message = missing(&classes, among, directions);
        return Err((message, "name classes of the direction's policy".to_owned()));
    }
    Ok(watches)
}

/// Says which of these classes the directions do not have; none has them all.
fn missing(names: &[&str], among: &[usize], directions: &[impl Route]) -> String {
    let has = |way: &usize, name: &str| {
        directions[*way].policy().is_some_and(|policy| policy.class(name).is_some())
    };
    let is_nowhere = |name: &&str| !among.iter().any(|way| has(way, name));
    let nowhere: Vec<_> = names.iter().copied().filter(is_nowhere).collect();
    let place = match among {
        [one] => format!("direction `{}`", directions[*one].name()),
        _ => "no direction".to_owned(),
    };
    match (nowhere.as_slice(), among) {
        ([], _) => format!("no direction has all of the classes {}", list(names)),
        ([one], [_]) => format!("{place} has no class `{one}`"),
        ([one], _) => format!("{place} has a class `{one}`"),
        (_, [_]) => format!("{place} has none of the classes {}", list(&nowhere)),
        _ => format!("{place} has one of the classes {}", list(&nowhere)),
    }
}

/// Returns the classes of a condition; `None` if it is not about classes alone.
fn names<'t>(condition: &Promised<&'t str>) -> Option<Vec<&'t str>> {
    let class = |measure: &Measure<&'t str>| match measure {
        Measure::Class(class, _) => Some(*class),
        Measure::Fairness | Measure::Behind(_) => None,
    };
    let mut names = vec![class(&condition.measure)?];
    if let Goal::Part(_, other) = &condition.goal {
        names.push(class(other)?);
    }
    Some(names)
}

/// Reads a program and its arguments.
fn command(node: &Node<'_>, report: &mut Report) -> Option<Vec<String>> {
    let nodes = node.elements(report)?;
    if nodes.is_empty() || nodes.len() > WORDS_MAX {
        let message = format!("has {} words, and not 1 to {WORDS_MAX}", nodes.len());
        report.push(node.draft(&codes::BAD_VALUE, message).cure(COMMAND_EXAMPLE));
        return None;
    }
    let mut words = Vec::with_capacity(nodes.len());
    for word in &nodes {
        let text = word.text(report)?;
        if text.contains('\0') {
            report.push(word.draft(&codes::BAD_VALUE, "has a zero byte").cure(COMMAND_EXAMPLE));
            return None;
        }
        words.push(text.to_owned());
    }
    if words[0].starts_with('/') && is_visible(&words[0]) {
        return Some(words);
    }
    let message = format!("{:?} is not the whole path of a program", words[0]);
    report.push(nodes[0].draft(&codes::BAD_VALUE, message).cure(COMMAND_EXAMPLE));
    None
}

/// Reads an address of HTTP.
fn webhook(node: &Node<'_>, report: &mut Report) -> Option<Webhook> {
    let text = node.name(report)?;
    let (message, cure) = if text.starts_with("https://") {
        let cure = "let a program do it: `run = [\"/usr/bin/curl\", \"https://...\"]`";
        ("Weir has no encryption".to_owned(), cure)
    } else {
        match address(text) {
            Some(webhook) => return Some(webhook),
            None => (format!("{text:?} is not an address"), WEBHOOK_EXAMPLE),
        }
    };
    report.push(node.draft(&codes::BAD_VALUE, message).cure(cure));
    None
}

/// Reads `http://HOST[:PORT][/PATH]`, without a user.
fn address(text: &str) -> Option<Webhook> {
    let rest = text.strip_prefix("http://")?;
    let fits = |c: char| c.is_ascii_graphic();
    if text.len() > WEBHOOK_BYTES_MAX || !text.chars().all(fits) || text.contains(['@', '#']) {
        return None;
    }
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (place, path) = rest.split_at(at);
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port)
        }
        None => place.split_at(place.find(':').unwrap_or(place.len())),
    };
    let port = match port {
        "" => 80,
        port => port.strip_prefix(':')?.parse().ok().filter(|port| *port > 0)?,
    };
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    (!host.is_empty()).then(|| Webhook { host: host.to_owned(), port, path })
}

const EXAMPLE: &str = "write it like `voice.delay.p99 > 10 ms`, as in promises (docs/promises.md)";
const COMMAND_EXAMPLE: &str = "write it like `run = [\"/usr/local/bin/page\", \"voice\"]`";
const WEBHOOK_EXAMPLE: &str = "write it like `http://192.0.2.1:8080/alarm`";
/// Bound: alarms of a deployment; one with more is refused.
pub(super) const ALARMS_MAX: usize = 64;
const WEBHOOK_BYTES_MAX: usize = 1024;
/// Names compared to suggest one for an unknown name.
const SUGGESTED_MAX: usize = 64;
