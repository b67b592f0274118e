//! How the processes of a deployment run: what follows their death, their rights, their log.

use super::{Bridge, Deployment, Port, Settings, Side, Wait, is_visible};
use crate::codes;
use crate::finding::{Draft, Report, Span};
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

impl Service {
    /// Returns what holds for these ports where a deployment says nothing.
    pub fn of(ports: &[Port]) -> Self {
        let is_host = ports.iter().any(|port| port.side == Side::Host);
        Self {
            // Without this a crash would cut off the machine itself, and who administers it.
            on_exit: if is_host { OnExit::Open } else { OnExit::Closed },
            drain: DRAIN_DEFAULT,
            restart: Restart::default(),
            wait_for_ports: Patience::AtMost(Duration::ZERO),
            watchdog: Some(WATCHDOG_DEFAULT),
            user: None,
            control_group: None,
            priority: Priority::default(),
            log: None,
            ring: None,
        }
    }
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
    let default = Service::of(ports);
    let on_exit = table.field("on_exit");
    let drain = table.field("drain").and_then(|node| drain(&node, report));
    let restart = table.field("restart").and_then(|node| restart(&node, report));
    let waits = table.field("wait_for_ports").and_then(|node| patience(&node, report));
    let watchdog = table.field("watchdog").and_then(|node| watchdog(&node, report));
    let user = table.field("user").and_then(|node| user(&node, report));
    let group = table.field("control_group").and_then(|node| group(&node, report));
    let priority = table.field("priority");
    let log = table.field("log").and_then(|node| path(&node, file, report));
    let ring = table.field("ring").and_then(|node| ring(&node, report));
    let spans = Spans {
        on_exit: on_exit.as_ref().map(Node::span),
        priority: priority.as_ref().map(Node::span),
    };
    let service = Service {
        on_exit: on_exit.and_then(|node| exit(&node, report)).unwrap_or(default.on_exit),
        drain: drain.unwrap_or(default.drain),
        restart: restart.unwrap_or(default.restart),
        wait_for_ports: waits.unwrap_or(default.wait_for_ports),
        watchdog: watchdog.unwrap_or(default.watchdog),
        user,
        control_group: group,
        priority: priority.and_then(|node| class(&node, report)).unwrap_or(default.priority),
        log,
        ring,
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

fn exit(node: &Node<'_>, report: &mut Report) -> Option<OnExit> {
    Some(match node.choice(&["closed", "open"], report)? {
        "open" => OnExit::Open,
        _ => OnExit::Closed,
    })
}

fn restart(node: &Node<'_>, report: &mut Report) -> Option<Restart> {
    Some(match node.choice(&["always", "never"], report)? {
        "never" => Restart::Never,
        _ => Restart::Always,
    })
}

fn class(node: &Node<'_>, report: &mut Report) -> Option<Priority> {
    Some(match node.choice(&["normal", "realtime"], report)? {
        "realtime" => Priority::Realtime,
        _ => Priority::Normal,
    })
}

fn drain(node: &Node<'_>, report: &mut Report) -> Option<Duration> {
    let cure = format!("leave it out for {DRAIN_DEFAULT}");
    within(node, (Duration::ZERO, DRAIN_MAX), &cure, report)
}

fn patience(node: &Node<'_>, report: &mut Report) -> Option<Patience> {
    if node.value().as_str() == Some(FOREVER) {
        return Some(Patience::Forever);
    }
    let cure = format!("write \"{FOREVER}\" to wait until they are there");
    within(node, (Duration::ZERO, PATIENCE_MAX), &cure, report).map(Patience::AtMost)
}

fn watchdog(node: &Node<'_>, report: &mut Report) -> Option<Option<Duration>> {
    if node.value().as_str() == Some(NONE) {
        return Some(None);
    }
    let cure = format!("leave it out for {WATCHDOG_DEFAULT}, or write \"{NONE}\"");
    within(node, (WATCHDOG_MIN, WATCHDOG_MAX), &cure, report).map(Some)
}

/// Reads a time from `min` to `max`, both included.
pub(super) fn within(
    node: &Node<'_>,
    (min, max): (Duration, Duration),
    cure: &str,
    report: &mut Report,
) -> Option<Duration> {
    let time = node.duration(report)?;
    if (min..=max).contains(&time) {
        return Some(time);
    }
    let message = format!("{time} is not in {min} to {max}");
    report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure));
    None
}

fn ring(node: &Node<'_>, report: &mut Report) -> Option<Bytes> {
    let bytes = node.bytes(report)?;
    if (RING_MIN..=RING_MAX).contains(&bytes) {
        return Some(bytes);
    }
    let (least, most) = (RING_MIN.get() >> 20, RING_MAX.get() >> 30);
    let message = format!("{bytes} is not in {least} MiB to {most} GiB");
    let cure = "leave it out to keep nothing";
    report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure));
    None
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
const FOREVER: &str = "forever";
/// The word for no watchdog.
const NONE: &str = "none";
const DRAIN_DEFAULT: Duration = Duration::from_millis(200);
const DRAIN_MAX: Duration = Duration::from_secs(10);
const PATIENCE_MAX: Duration = Duration::from_secs(24 * 3600);
const WATCHDOG_DEFAULT: Duration = Duration::from_secs(2);
/// A shorter one would kill a forwarder on a busy machine.
const WATCHDOG_MIN: Duration = Duration::from_millis(200);
const WATCHDOG_MAX: Duration = Duration::from_secs(60);
/// The smallest ring is in segments of this size, of which a loop has eight.
const RING_MIN: Bytes = Bytes::new(8 << 20);
const RING_MAX: Bytes = Bytes::new(4 << 30);
/// The longest name of a user or a group that useradd(8) and groupadd(8) allow.
const USER_BYTES_MAX: usize = 32;
