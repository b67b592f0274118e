//! Directions of a deployment, and the policies that they name.

use super::autorate::{self, Autorate};
use super::keys::{self, DIRECTIONS_MAX};
use super::{
    Deployment, Direction, Port, Settings, SuperPackets, check_key, pool, ports, sojourn, trains,
    translated,
};
use crate::codes;
use crate::file::ReadFile;
use crate::finding::{Draft, Outcome, Report, Span};
use crate::keyed::WordOr;
use crate::policy::{self, Policy};
use crate::reader::{Node, Table};
use std::path::{Path, PathBuf};
use weir_core::units::Duration;

/// A direction as its deployment describes it, perhaps with its policy.
pub(super) trait Route {
    /// Its name, and the ports where it begins and where it ends.
    fn way(&self) -> (&str, &[usize], usize);

    /// `None` where no policy is read.
    fn policy(&self) -> Option<&Policy>;

    /// Whether its frames get code points from the other way.
    fn restores_dscp(&self) -> bool;

    fn name(&self) -> &str {
        self.way().0
    }

    fn from(&self) -> &[usize] {
        self.way().1
    }

    fn to(&self) -> usize {
        self.way().2
    }
}

/// A direction whose policy is not read.
pub(super) struct Way {
    name: String,
    from: Vec<usize>,
    to: usize,
    restores_dscp: bool,
}

/// A direction as it is written.
pub(super) struct Written<'t> {
    name: String,
    /// Where it begins and ends, unless that is wrong: its policy is read even so.
    ends: Option<(Vec<usize>, usize)>,
    path: PathBuf,
    policy: Node<'t>,
    options: Options,
    autorate: Option<(Autorate, Span)>,
}

impl Written<'_> {
    /// Returns how its rate varies, and where that is written.
    pub fn autorate(&self) -> Option<(Autorate, Span)> {
        self.autorate.clone()
    }

    /// Returns the direction without what its policy says.
    pub fn way(self) -> Option<Way> {
        let (from, to) = self.ends?;
        let restores_dscp = self.options.restores.is_some();
        Some(Way { name: self.name, from, to, restores_dscp })
    }
}

impl Route for Way {
    fn way(&self) -> (&str, &[usize], usize) {
        (&self.name, &self.from, self.to)
    }

    fn policy(&self) -> Option<&Policy> {
        None
    }

    fn restores_dscp(&self) -> bool {
        self.restores_dscp
    }
}

impl Route for Direction {
    fn way(&self) -> (&str, &[usize], usize) {
        (&self.name, &self.from, self.to)
    }

    fn policy(&self) -> Option<&Policy> {
        Some(&self.policy)
    }

    fn restores_dscp(&self) -> bool {
        self.restores_dscp
    }
}

/// Reads `[direction.NAME]` of the deployment `file`, if there is any. `complete` makes the
/// direction of what is written.
pub(super) fn read<R: Route>(
    node: Option<&Node<'_>>,
    (file, settings): (&str, &Settings),
    report: &mut Report,
    complete: &mut impl FnMut(Written<'_>, &[Port], &mut Report) -> Option<R>,
) -> Vec<R> {
    let Some(table) = node.and_then(|node| node.table(report)) else { return Vec::new() };
    let nodes: Vec<_> = table.entries().collect();
    if nodes.len() > DIRECTIONS_MAX {
        let message =
            format!("{} directions are written, but at most {DIRECTIONS_MAX} may be", nodes.len());
        let cure = "write fewer, or several deployments";
        report.push(Draft::new(&codes::DIRECTION_COUNT, table.span(), message).cure(cure));
        // This also bounds the number of files to read.
        return Vec::new();
    }
    let mut directions: Vec<R> = Vec::new();
    let ports = settings.deployment.ports.as_slice();
    for node in &nodes {
        let written = direction(node, (file, settings), report);
        let restores = written.as_ref().and_then(|written| written.options.restores);
        let Some(direction) = written.and_then(|written| complete(written, ports, report)) else {
            continue;
        };
        check_pairs(&direction, &directions, (ports, node.key_span()), report);
        tell_apart(&direction, &directions, (ports, node.key_span()), report);
        if let Some(span) = restores {
            check_restored(&direction, &directions, (ports, span), report);
        }
        directions.push(direction);
    }
    directions
}

/// Reports a direction that leads where an earlier one does: each has a line of its own.
fn tell_apart<R: Route>(
    direction: &R,
    others: &[R],
    (ports, span): (&[Port], Span),
    report: &mut Report,
) {
    let begins = |port: &usize| direction.from().contains(port);
    let apart = |other: &&R| other.to() == direction.to() && !other.from().iter().any(begins);
    let Some(other) = others.iter().find(apart) else { return };
    let (first, second, to) = (other.name(), direction.name(), &ports[direction.to()].name);
    let message = format!(
        "directions `{first}` and `{second}` both lead to port `{to}`, but do not share a line: \
         each may send as much as its own policy says"
    );
    let all = other.from().iter().chain(direction.from());
    let all: Vec<_> = all.map(|&port| format!("\"{}\"", ports[port].name)).collect();
    let cure = format!(
        "where they should share one, write one direction with `from = [{}]`",
        all.join(", ")
    );
    report.push(Draft::new(&codes::LINES_APART, span, message).cure(cure));
}

/// Reports a direction that takes code points from one that takes them from it.
fn check_restored<R: Route>(
    direction: &R,
    others: &[R],
    (ports, span): (&[Port], Span),
    report: &mut Report,
) {
    let is_other_way = |other: &&R| {
        direction.from().contains(&other.to()) && other.from().contains(&direction.to())
    };
    let mut others = others.iter().filter(|other| other.restores_dscp());
    let Some(other) = others.find(is_other_way) else { return };
    let (first, second) = (other.name(), direction.name());
    let (near, far) = (&ports[other.to()].name, &ports[direction.to()].name);
    let message = format!(
        "directions `{first}` and `{second}`, between `{near}` and `{far}`, take code points from \
         each other: those of both ways would be exchanged"
    );
    let cure = "write `restore_dscp` in the direction towards the hosts that set code points, as a \
                rule the download";
    report.push(Draft::new(&codes::RESTORED_TWICE, span, message).cure(cure));
}

/// Reports a pair of ports that an earlier direction has already.
fn check_pairs<R: Route>(
    direction: &R,
    others: &[R],
    (ports, span): (&[Port], Span),
    report: &mut Report,
) {
    for &from in direction.from() {
        let same = |other: &&R| other.to() == direction.to() && other.from().contains(&from);
        let Some(other) = others.iter().find(same) else { continue };
        let (first, second) = (other.name(), direction.name());
        let (from, to) = (&ports[from].name, &ports[direction.to()].name);
        let message =
            format!("directions `{first}` and `{second}` both go from `{from}` to `{to}`");
        let cure = "name other ports in one of them";
        report.push(Draft::new(&codes::SAME_WAY, span, message).cure(cure));
    }
}

/// Reads a direction of the deployment `file`, to whose folder its policy is relative.
fn direction<'t>(
    node: &Node<'t>,
    (file, settings): (&str, &Settings),
    report: &mut Report,
) -> Option<Written<'t>> {
    let ports = &settings.deployment.ports;
    check_key(node, "direction", report);
    let table = node.table(report)?.named(format!("direction `{}`", node.key()));
    let mut table = table.with_keys(keys::DIRECTION);
    let from = table.required("from", report).and_then(|node| origins(&node, ports, report));
    let to_node = table.required("to", report);
    let to = to_node.as_ref().and_then(|node| ports::find(node, ports, report));
    let policy = table.required("policy", report);
    let options = Options::read(&mut table, settings, report);
    let varies = table.field("autorate");
    table.finish(report);
    let mut ends = from.zip(to);
    let is_loop = |ends: &mut (Vec<usize>, usize)| ends.0.contains(&ends.1);
    if let (Some(_), Some(node)) = (ends.take_if(is_loop), to_node) {
        let message = "a direction ends where it begins";
        report.push(node.draft(&codes::SAME_WAY, message).cure("name another port"));
    }
    let autorate = varies.and_then(|varies| {
        let way = (node.key(), ends.as_ref());
        Some((autorate::read(&varies, way, ports, report)?, varies.key_span()))
    });
    let policy = policy?;
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let path = folder.join(policy.name(report)?);
    Some(Written { name: node.key().to_owned(), ends, path, policy, options, autorate })
}

/// Reads the port, or the ports, where frames come in.
fn origins(node: &Node<'_>, ports: &[Port], report: &mut Report) -> Option<Vec<usize>> {
    let nodes = node.one_or_many();
    if nodes.is_empty() {
        let cure = "name the ports whose frames share the policy";
        report.push(node.draft(&codes::BAD_VALUE, "names no port").cure(cure));
        return None;
    }
    let mut origins = Vec::new();
    let mut complete = true;
    for node in &nodes {
        let Some(port) = ports::find(node, ports, report) else {
            complete = false;
            continue;
        };
        if origins.contains(&port) {
            let message = format!("names port `{}` twice", ports[port].name);
            report.push(node.draft(&codes::SAME_WAY, message).cure("name each port once"));
        }
        origins.push(port);
    }
    complete.then_some(origins)
}

/// The settings of one direction, or the defaults in `[deployment]`.
struct Options {
    pool: u32,
    pool_span: Option<Span>,
    sojourn_max: Option<WordOr<Duration>>,
    super_packets: SuperPackets,
    /// Where it is written that frames get code points from the other way, if they do.
    restores: Option<Span>,
}

impl Options {
    fn read(table: &mut Table<'_>, settings: &Settings, report: &mut Report) -> Self {
        let Settings { deployment: Deployment { pool, .. }, pool_span, .. } = settings;
        let node = table.field("pool");
        let own = node.as_ref().and_then(|_| pool::read(table, report));
        let sojourn_max = table.written("sojourn_max", report).flatten();
        let restores = table.field("restore_dscp").map(|node| node.span());
        let restores = restores.filter(|_| table.value("restore_dscp", report) == Some(true));
        Self {
            pool: own.unwrap_or(*pool),
            pool_span: node.map(|node| node.span()).or(*pool_span),
            sojourn_max: sojourn_max.or(settings.sojourn_max),
            super_packets: settings.super_packets,
            restores,
        }
    }
}

/// Reads the policies that directions name, each file once.
pub(super) struct Policies<'a> {
    read_file: ReadFile<'a>,
    /// The policies that were read, and what reading them found.
    outcomes: Vec<(PathBuf, Option<Policy>, Outcome<Policy>)>,
}

impl<'a> Policies<'a> {
    /// Prepares to read policies by this function.
    pub(super) fn new(read_file: ReadFile<'a>) -> Self {
        Self { read_file, outcomes: Vec::new() }
    }

    /// Reads the policy of a direction.
    pub(super) fn complete(
        &mut self,
        written: Written<'_>,
        ports: &[Port],
        report: &mut Report,
    ) -> Option<Direction> {
        let Written { name, ends, path, policy: node, options, autorate } = written;
        let policy = self.read(&path, &node, ports, report)?;
        let (from, to) = ends?;
        let sojourn_max = match options.sojourn_max {
            Some(WordOr::Value(time)) => vec![time; policy.link.tree.leaf_count()],
            Some(WordOr::Word) => Vec::new(),
            None => sojourn::of_policy(&policy),
        };
        if let Some((autorate, span)) = &autorate {
            autorate::check(autorate, &policy, *span, report);
        }
        let train_max = trains::of_policy(&policy, options.super_packets);
        let direction = Direction {
            name,
            from,
            to,
            path,
            policy,
            autorate: autorate.map(|(autorate, _)| autorate),
            pool: options.pool,
            sojourn_max,
            train_max,
            restores_dscp: options.restores.is_some(),
        };
        pool::check(&direction, options.pool_span.unwrap_or(node.span()), report);
        translated::check(&direction, ports, node.span(), report);
        Some(direction)
    }

    fn read(
        &mut self,
        path: &Path,
        node: &Node<'_>,
        ports: &[Port],
        report: &mut Report,
    ) -> Option<Policy> {
        let name = path.display().to_string();
        if !self.outcomes.iter().any(|known| known.0 == path) {
            match (self.read_file)(path) {
                Ok(bytes) => self.parse(path, &bytes, ports),
                Err(error) => {
                    let message = format!("cannot read {name}: {error}");
                    let cure = "name a file, relative to this one";
                    report.push(node.draft(&codes::UNREADABLE, message).cure(cure));
                    return None;
                }
            }
        }
        let (_, policy, _) = self.outcomes.iter().find(|known| known.0 == path)?;
        if policy.is_none() {
            let message = format!("the policy {name} has errors");
            report.push(node.draft(&codes::POLICY_FAULTY, message).cure("correct the policy"));
        }
        policy.clone()
    }

    fn parse(&mut self, path: &Path, bytes: &[u8], ports: &[Port]) {
        let names: Vec<_> = ports.iter().map(|port| port.name.clone()).collect();
        let name = path.display().to_string();
        let mut outcome = policy::parse_bytes(bytes, &name, Some(&names), self.read_file);
        let policy = outcome.plan.take().filter(|_| !outcome.failed());
        self.outcomes.push((path.to_owned(), policy, outcome));
    }

    /// Adds what reading the policies found to what the deployment's own text has.
    pub(super) fn merge_into(self, outcome: &mut Outcome<Deployment>) {
        for (_, _, found) in self.outcomes {
            found.merge_into(outcome);
        }
    }
}
