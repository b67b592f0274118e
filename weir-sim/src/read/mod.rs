//! Scenarios in TOML, checked like policies: every fault is a finding that points at its line.
//!
//! ```toml
//! policy = "home.toml"       # relative to this file; or the policy itself under [policy]
//! duration = "30 s"
//! warmup = "5 s"             # not counted; default 0 s
//! seed = 1                   # default 1
//! delay = "10 ms"            # from the line to every receiver; default 0 s
//!
//! [[source]]
//! name = "voice"
//! kind = "cbr"               # or "poisson", "on-off", "tcp", "web", "voip", ...
//! dport = 5004
//! payload = "160 B"
//! interval = "20 ms"
//!
//! [behind]                   # a modem whose capacity varies
//! rate = { trace = "lte.csv" }
//! buffer = "250 KB"
//!
//! [[change]]                 # from then on the link has another policy
//! at = "15 s"
//! policy = "night.toml"
//! ```
//!
//! `docs/scenarios.md` lists all keys.

mod autorate;
mod behind;
mod change;
pub mod codes;
mod driver;
pub(crate) mod files;
pub mod keys;
mod network;
pub(crate) mod quic;
mod rsvp;
pub(crate) mod source;
pub(crate) mod tcp;
mod values;

pub use change::CHANGES_MAX;

use crate::behind::Behind;
use crate::scenario::{Jitter, Scenario, Source};
use files::Files;
use std::path::Path;
use weir_core::units::Duration;
use weir_policy::codes as common;
use weir_policy::deployment::ReadFile;
use weir_policy::finding::{Draft, Outcome, Report};
use weir_policy::policy::{self, Policy};
use weir_policy::reader::{self, Node, Table};

/// Whether a file with these top-level keys is a scenario.
pub fn is_scenario(top_level: &[String]) -> bool {
    top_level.iter().any(|key| key == "source" || key == "duration")
}

/// Checks the scenario `bytes` of the file `name`, and the policies it names, which `read_file`
/// reads.
pub fn parse(bytes: &[u8], name: &str, read_file: ReadFile<'_>) -> Outcome<Scenario> {
    parse_as(bytes, name, (read_file, None))
}

/// As [`parse`], with `policy` in place of the one that the scenario begins with.
pub fn parse_with(
    bytes: &[u8],
    name: &str,
    read_file: ReadFile<'_>,
    policy: &Policy,
) -> Outcome<Scenario> {
    parse_as(bytes, name, (read_file, Some(policy)))
}

/// Checks a text that holds tables `[[source]]` only: what a generator sends on a real network.
pub fn parse_sources(bytes: &[u8], name: &str, read_file: ReadFile<'_>) -> Outcome<Vec<Source>> {
    reader::read(name, bytes, |top, report| {
        top.add_keys(keys::FILE);
        let files = Files { scenario: name, read_file };
        Some(sources(top, None, Place::Link(None), &files, report))
    })
}

fn parse_as(
    bytes: &[u8],
    name: &str,
    (read_file, instead): (ReadFile<'_>, Option<&Policy>),
) -> Outcome<Scenario> {
    let mut policies = Policies { scenario: name, read_file, named: Vec::new() };
    let mut outcome = reader::read(name, bytes, |top, report| {
        top.add_keys(keys::FILE);
        report.know_homes(keys::homes);
        let mut network =
            network::is_written(top).then(|| network::read(top, &mut policies, report));
        let policy = match network {
            Some(_) => refuse_keys_of_one_link(top, report),
            None => {
                let node = top.required("policy", report);
                instead.cloned().or_else(|| node.and_then(|node| policies.read(&node, report)))
            }
        };
        let times = times(top, report);
        let jitter = jitter(top, report);
        let seed = top.value("seed", report);
        let title = top.field("name").and_then(|node| node.name(report)).map(str::to_owned);
        let place = match &network {
            Some(network) => Place::Network(network.as_ref()),
            None => Place::Link(policy.as_ref()),
        };
        let files = Files { scenario: name, read_file };
        let behind = behind_link(top, network.is_some(), &files, report);
        let sources = sources(top, times, place, &files, report);
        let changes = change::read_all(top, times, place, &mut policies, report);
        match &mut network {
            Some(network) => {
                let others = rsvp::Others { sources: &sources, changes: &changes };
                rsvp::read(top, times, network.as_mut(), others, report);
            }
            None => refuse_reservations(top, report),
        }
        let mut demands = Vec::new();
        let (link, classifier, network) = match (policy, network) {
            (_, Some(read)) => {
                let read = read?;
                (read.main.link, read.main.classifier, Some(Box::new(read.network)))
            }
            (policy, None) => {
                let policy = policy?;
                let classifier = policy.classifier();
                demands = policy.demands;
                (policy.link, classifier, None)
            }
        };
        let (duration, warmup, delay) = times?;
        Some(Scenario {
            name: title.or_else(|| stem(name)).unwrap_or_default(),
            link,
            classifier,
            delay,
            duration,
            warmup,
            seed: seed.unwrap_or(SEED_DEFAULT),
            demands,
            sources,
            changes,
            network,
            behind: behind?.map(Box::new),
            jitter: jitter?,
        })
    });
    policies.merge_into(&mut outcome);
    outcome
}

/// Returns the name of a file without its folder and its ending.
fn stem(name: &str) -> Option<String> {
    Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned())
}

/// The link or network that sources and changes refer to; without it where that has errors.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// One link with a policy.
    Link(Option<&'a Policy>),
    /// A network of links.
    Network(Option<&'a network::Read>),
}

/// In a network each link has its own policy and delay.
fn refuse_keys_of_one_link(top: &mut Table<'_>, report: &mut Report) -> Option<Policy> {
    for key in ["policy", "delay"] {
        if let Some(node) = top.field(key) {
            let cure = format!("write `{key}` in a table `[[link]]`");
            let draft = node.draft(&codes::NOT_ON_LINKS, "belongs to a link of the network");
            report.push(draft.cure(cure));
        }
    }
    None
}

/// On one link no node could send a message.
fn refuse_reservations(top: &mut Table<'_>, report: &mut Report) {
    for key in ["rsvp", "reservation"] {
        // Asked for only where it is, so that no message names it among the keys of one link.
        if let Some(node) = top.has(key).then(|| top.field(key)).flatten() {
            let draft = node.draft(&codes::NEEDLESS, "needs a network");
            report.push(draft.cure("write tables `[[node]]` and `[[link]]`"));
        }
    }
}

/// The bottleneck behind the one link, `None` inside without one.
fn behind_link(
    top: &mut Table<'_>,
    is_network: bool,
    files: &Files<'_>,
    report: &mut Report,
) -> Option<Option<Behind>> {
    let Some(node) = top.field("behind") else { return Some(None) };
    if is_network {
        let draft = node.draft(&codes::NOT_ON_LINKS, "belongs to a link of the network");
        report.push(draft.cure("write `behind` in a table `[[link]]`"));
        return None;
    }
    behind::behind(&node, files, report).map(Some)
}

/// Duration, warm-up and delay.
type Times = (Duration, Duration, Duration);

/// Reads the policies that a scenario names or holds.
struct Policies<'a> {
    scenario: &'a str,
    read_file: ReadFile<'a>,
    /// The findings of each file that was read.
    named: Vec<(String, Outcome<()>)>,
}

impl Policies<'_> {
    /// Adds the findings of the files that were read.
    fn merge_into<T>(self, outcome: &mut Outcome<T>) {
        for (_, findings) in self.named {
            findings.merge_into(outcome);
        }
    }

    fn files(&self) -> Files<'_> {
        Files { scenario: self.scenario, read_file: self.read_file }
    }

    fn read(&mut self, node: &Node<'_>, report: &mut Report) -> Option<Policy> {
        if node.is_table() { self.inline(node, report) } else { self.read_file(node, report) }
    }

    fn inline(&self, node: &Node<'_>, report: &mut Report) -> Option<Policy> {
        let mut table = node.table(report)?.named("[policy]");
        let policy = policy::build(&mut table, report, None, self.read_file);
        table.finish(report);
        policy
    }

    /// Returns the policy of another file, if it has one, and stores the findings.
    fn read_file(&mut self, node: &Node<'_>, report: &mut Report) -> Option<Policy> {
        let folder = Path::new(self.scenario).parent().unwrap_or(Path::new(""));
        let path = folder.join(node.name(report)?);
        let name = path.display().to_string();
        let bytes = match (self.read_file)(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let message = format!("cannot read {name}: {error}");
                let cure = "name a policy, relative to this file";
                report.push(node.draft(&common::UNREADABLE, message).cure(cure));
                return None;
            }
        };
        let outcome = policy::parse_bytes(&bytes, &name, None, self.read_file);
        if outcome.failed() {
            let message = format!("{name} has errors");
            let cure = "mend the policy first; its findings follow";
            report.push(node.draft(&codes::POLICY_FAULTY, message).cure(cure));
        }
        let mut policy = None;
        let findings = outcome.map(|plan| policy = Some(plan));
        if self.named.iter().all(|named| named.0 != name) {
            self.named.push((name, findings));
        }
        policy
    }
}

/// Reads `duration`, `warmup` and `delay`.
fn times(top: &mut Table<'_>, report: &mut Report) -> Option<Times> {
    let duration = top.required("duration", report);
    let duration_span = duration.as_ref().map(Node::span).unwrap_or_default();
    let duration = duration.and_then(|node| bounded(&node, report));
    let warmup_node = top.field("warmup");
    let warmup = top.value_by("warmup", report, bounded);
    let delay = top.value_by("delay", report, bounded);
    let (duration, warmup, delay) = (duration?, warmup?, delay?);
    if warmup >= duration {
        let message = format!("a warm-up of {warmup} leaves nothing of a duration of {duration}");
        let span = warmup_node.as_ref().map_or(duration_span, Node::span);
        let cure = "lengthen `duration` or shorten `warmup`";
        report.push(Draft::new(&codes::NOTHING_COUNTS, span, message).cure(cure));
    }
    Some((duration, warmup, delay))
}

/// Reads `start_jitter` and `processing_jitter`.
fn jitter(top: &mut Table<'_>, report: &mut Report) -> Option<Jitter> {
    let start = top.value_by("start_jitter", report, bounded);
    let processing = top.value_by("processing_jitter", report, bounded);
    Some(Jitter { start: start?, processing: processing? })
}

/// A length of time that simulated clocks can add up.
pub(crate) fn bounded(node: &Node<'_>, report: &mut Report) -> Option<Duration> {
    let duration = node.duration(report)?;
    if duration <= DURATION_MAX {
        return Some(duration);
    }
    let message = format!("{duration} is more than {DURATION_MAX}");
    let cure = format!("write at most {DURATION_MAX}");
    report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    None
}

/// The elements of an array, of which there may be so many.
fn rows<'a>(
    node: &Node<'a>,
    (what, most): (&str, usize),
    report: &mut Report,
) -> Option<Vec<Node<'a>>> {
    let nodes = node.elements(report)?;
    if nodes.len() <= most {
        return Some(nodes);
    }
    let message = format!("there are {} {what}, more than {most}", nodes.len());
    report.push(node.draft(&common::TOO_MANY, message).cure("take some out"));
    None
}

fn sources(
    top: &mut Table<'_>,
    times: Option<Times>,
    place: Place<'_>,
    files: &Files<'_>,
    report: &mut Report,
) -> Vec<Source> {
    let Some(node) = top.field("source") else {
        let message = "no source sends anything";
        let end = report.source().text().len();
        let cure = "write a table `[[source]]` for each sender";
        report.push(Draft::new(&codes::NO_SOURCE, (end..end).into(), message).cure(cure));
        return Vec::new();
    };
    let nodes = rows(&node, ("sources", SOURCES_MAX), report).unwrap_or_default();
    let mut reading = source::Reading::new(times.map(|times| times.0), place, files);
    let mut sources = Vec::with_capacity(nodes.len());
    for node in &nodes {
        sources.extend(reading.read(node, report).into_iter().flatten());
    }
    if sources.len() > SOURCES_MAX {
        let message = format!("there are {} sources, more than {SOURCES_MAX}", sources.len());
        let cure = "take some out, or `flows` of captures";
        report.push(node.draft(&common::TOO_MANY, message).cure(cure));
        return Vec::new();
    }
    sources
}

/// The seed of a scenario without one.
pub const SEED_DEFAULT: u64 = 1;
/// The largest seed: TOML has no larger number.
pub const SEED_MAX: u64 = i64::MAX as u64;
/// Bound: simulated time of a scenario; a longer one is refused. Ten years: sums of a few such
/// times stay well below the end of simulated time.
pub const DURATION_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Bound: sources of a scenario; one with more is refused.
pub const SOURCES_MAX: usize = 1 << 16;
