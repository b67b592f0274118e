//! How the processes of a deployment run: what follows their death, their rights, their log.

use super::{Bridge, Deployment, Port, Settings, Side, Wait, is_visible};
use crate::codes;
use crate::finding::{Draft, Report, Span};
use crate::keyed::WordOr;
use crate::reader::{Node, Table};
use std::path::{Path, PathBuf};
use weir_core::units::{Bytes, Duration};

/// How the processes of a deployment run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// The path of traffic while no forwarder runs.
    pub on_exit: OnExit,
    /// How long frames that wait are still sent when the forwarder is to end; what is left then is
    /// dropped and counted.
    pub drain: Duration,
    /// Whether a forwarder that died is started again.
    pub restart: Restart,
    /// How long interfaces that do not exist yet are waited for at the start.
    pub wait_for_ports: Patience,
    /// A forwarder that gives no sign of life for so long is killed; `None`: it never is.
    pub watchdog: Option<Duration>,
    /// The user as which the forwarder runs, where the keeper may choose one; `None`: one of its
    /// own, which no other program has.
    pub user: Option<String>,
    /// The group whose members may read the status, beside root and the user who runs the link.
    pub control_group: Option<String>,
    /// The scheduling class of the threads that forward.
    pub priority: Priority,
    /// The file to which events are appended, too.
    pub log: Option<PathBuf>,
    /// How much is kept of what the link did of late; `None`: nothing.
    pub ring: Option<Bytes>,
}

/// The path of traffic while no forwarder runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnExit {
    /// No frame passes.
    #[default]
    Closed,
    /// The kernel carries it on, unshaped.
    Open,
}

/// Whether a forwarder that died is started again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Restart {
    /// It is, unless it dies too often.
    #[default]
    Always,
    /// It stays down.
    Never,
}

/// How long something is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// At most this long; zero: not at all.
    AtMost(Duration),
    /// Until it is there.
    Forever,
}

/// The scheduling class of the threads that forward.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Priority {
    /// That of ordinary threads, with the niceness that `nice` says.
    #[default]
    Normal,
    /// SCHED_FIFO: they run before every ordinary thread.
    Realtime,
}

/// Where keys are written of which findings tell.
pub(super) struct Spans {
    on_exit: Option<Span>,
    priority: Option<Span>,
}

/// Reads the keys of `[deployment]` that say how its processes run.
pub(super) fn read(
    table: &mut Table<'_>,
    (ports, file): (&[Port], &str),
    report: &mut Report,
) -> (Service, Spans) {
    let on_exit = table.field("on_exit");
    let drain = table.value("drain", report);
    let restart = table.one_of("restart", RESTARTS, report);
    let waits = table.value("wait_for_ports", report);
    let watchdog = table.value("watchdog", report);
    let user = table.field("user").and_then(|node| user(&node, report));
    let group = table.field("control_group").and_then(|node| group(&node, report));
    let spans = Spans {
        on_exit: on_exit.as_ref().map(Node::span),
        priority: table.field("priority").as_ref().map(Node::span),
    };
    let priority = table.one_of("priority", PRIORITIES, report);
    let log = table.field("log").and_then(|node| path(&node, file, report));
    let ring = table.written("ring", report);
    let is_host = ports.iter().any(|port| port.side == Side::Host);
    // Without this a crash would cut off the machine itself, and who administers it.
    let usual_exit = if is_host { OnExit::Open } else { OnExit::Closed };
    let service = Service {
        on_exit: on_exit.and_then(|node| node.one_of(EXITS, report)).unwrap_or(usual_exit),
        drain: drain.unwrap_or_default(),
        restart: restart.unwrap_or_default(),
        wait_for_ports: match waits {
            Some(WordOr::Word) => Patience::Forever,
            Some(WordOr::Value(time)) => Patience::AtMost(time),
            None => Patience::AtMost(Duration::ZERO),
        },
        watchdog: match watchdog {
            Some(WordOr::Value(time)) => Some(time),
            _ => None,
        },
        user,
        control_group: group,
        priority: priority.unwrap_or_default(),
        log,
        ring: ring.flatten(),
    };
    (service, spans)
}

/// Reports settings of a deployment's processes whose effect its author may not expect.
pub(super) fn check(settings: &Settings, bridges: &[Bridge], report: &mut Report) {
    let Settings { deployment: Deployment { service, ports, wait, .. }, service_spans, .. } =
        settings;
    let largest = bridges.iter().max_by_key(|bridge| bridge.ports.len());
    let hub = largest.filter(|bridge| bridge.ports.len() > 2);
    if let (OnExit::Open, Some(bridge), Some(span)) = (service.on_exit, hub, service_spans.on_exit)
    {
        let name = &ports[bridge.ports[0]].name;
        let message = format!(
            "while nothing forwards, the bridge of port `{name}` is a hub: the kernel sends each \
             frame to all of its {} other ports, also those behind which its destination is not",
            bridge.ports.len() - 1
        );
        let cure = "write `on_exit = \"closed\"` if that is too much, or make bridges of two ports";
        report.push(Draft::new(&codes::OPEN_HUB, span, message).cure(cure));
    }
    if let (Priority::Realtime, Wait::Spin, Some(span)) =
        (service.priority, *wait, service_spans.priority)
    {
        let message = "with `wait = \"spin\"` the threads never sleep, and with `priority = \
                       \"realtime\"` nothing ordinary runs on their processors";
        let cure = "write `wait = \"hybrid\"`, or leave `priority` out";
        report.push(Draft::new(&codes::NEVER_YIELDS, span, message).cure(cure));
    }
}

/// Reads a name of a user; whether there is one is seen by `weir up`.
fn user(node: &Node<'_>, report: &mut Report) -> Option<String> {
    let cure = "write one that `getent passwd` shows, or leave it out for one of the link's own";
    let name = account(node, "user", cure, report)?;
    if name != "root" {
        return Some(name);
    }
    report.push(node.draft(&codes::BAD_VALUE, "the forwarder may not be root").cure(cure));
    None
}

/// Reads a name of a group; whether there is one is seen by `weir up`.
fn group(node: &Node<'_>, report: &mut Report) -> Option<String> {
    account(node, "group", "write one that `getent group` shows, or leave it out", report)
}

/// Reads a name of a user or a group.
fn account(node: &Node<'_>, what: &str, cure: &str, report: &mut Report) -> Option<String> {
    let name = node.name(report)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.len() <= USER_BYTES_MAX && name.chars().all(fits) && !name.starts_with('-') {
        return Some(name.to_owned());
    }
    let message = format!("{name:?} is not a name of a {what}");
    report.push(node.draft(&codes::BAD_VALUE, message).cure(cure));
    None
}

/// Reads a path, which is relative to the folder of the deployment `file`.
pub(super) fn path(node: &Node<'_>, file: &str, report: &mut Report) -> Option<PathBuf> {
    let path = node.name(report)?;
    if is_visible(path) {
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        return Some(folder.join(path));
    }
    let message = format!("{path:?} has control characters");
    report.push(node.draft(&codes::BAD_VALUE, message).cure("write a path without them"));
    None
}

/// The word for a wait without end.
pub(super) const FOREVER: &str = "forever";
/// The word for no watchdog, and no limit.
pub(super) const NONE: &str = "none";
/// The words of `on_exit`, `restart` and `priority`.
pub(super) const EXITS: &[(&str, OnExit)] = &[("closed", OnExit::Closed), ("open", OnExit::Open)];
pub(super) const RESTARTS: &[(&str, Restart)] =
    &[("always", Restart::Always), ("never", Restart::Never)];
pub(super) const PRIORITIES: &[(&str, Priority)] =
    &[("normal", Priority::Normal), ("realtime", Priority::Realtime)];
/// The longest name of a user or a group that useradd(8) and groupadd(8) allow.
const USER_BYTES_MAX: usize = 32;
