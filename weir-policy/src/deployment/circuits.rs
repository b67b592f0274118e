//! Circuits that come and go while a link runs: `[deployment.circuits]`.
//!
//! ```toml
//! [deployment.circuits]
//! from = "circuits.csv"             # a watched file, "http" or "radius"
//! template = "circuit"              # the template of each policy that shapes circuits
//! expire = "3 h"                    # default: a circuit stays until it leaves
//! listen = "192.0.2.1:1813"         # this and what follows: with "radius" only
//! clients = ["192.0.2.2"]
//! secret_file = "radius.secret"
//! id = "User-Name"                  # attributes that say which circuit, plan and site
//! plan = "Filter-Id"
//! site = "NAS-Identifier"
//! ```

use super::directions::Route;
use super::service::path;
use super::{api, keys};
use crate::codes;
use crate::finding::{Draft, Report};
use crate::policy::{CircuitRow, CircuitTemplate, JoinRequest, Policy, Seating};
use crate::reader::{Node, Table};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use weir_core::classify::Classifier;
use weir_core::units::Duration;

/// The table `[deployment.circuits]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Circuits {
    /// Where circuits are heard of.
    pub from: CircuitSource,
    /// The template of the policies that shape them.
    pub template: String,
    /// After this time without news a circuit leaves.
    pub expire: Option<Duration>,
}

/// Where circuits are heard of.
#[derive(Clone, PartialEq, Debug)]
pub enum CircuitSource {
    /// A CSV file with all of them, which is watched.
    File(PathBuf),
    /// Requests to the API.
    Http,
    /// RADIUS accounting.
    Radius(Box<Radius>),
}

/// A server of RADIUS accounting [rfc2866].
#[derive(Clone, PartialEq, Debug)]
pub struct Radius {
    /// The UDP address on which it listens.
    pub listen: SocketAddr,
    /// The addresses from which packets are taken.
    pub clients: Vec<IpAddr>,
    /// The file of the secret that they share.
    pub secret_file: PathBuf,
    /// The attribute that identifies the circuit: its number.
    pub id: u8,
    /// The attribute that names the plan.
    pub plan: u8,
    /// The attribute that names the site.
    pub site: u8,
}

/// Reads `[deployment.circuits]` of the deployment `file`, to whose folder paths are relative.
pub(super) fn read(
    node: &Node<'_>,
    directions: &[impl Route],
    file: &str,
    report: &mut Report,
) -> Option<Circuits> {
    let mut table = node.table(report)?.named("[deployment.circuits]").with_keys(keys::CIRCUITS);
    let from = table.required("from", report);
    let template = table.field("template");
    let expire = table.written("expire", report);
    let from = from.and_then(|from| source(&from, &mut table, file, report));
    table.finish(report);
    let name = match &template {
        Some(node) => node.name(report)?,
        None => TEMPLATE,
    };
    let circuits = Circuits { from: from?, template: name.to_owned(), expire: expire? };
    if !report.failed() {
        check(template.as_ref().unwrap_or(node), name, directions, report);
    }
    (!report.failed()).then_some(circuits)
}

fn source(
    node: &Node<'_>,
    table: &mut Table<'_>,
    file: &str,
    report: &mut Report,
) -> Option<CircuitSource> {
    let word = node.name(report)?;
    if word == "radius" {
        return radius(table, file, report).map(|found| CircuitSource::Radius(Box::new(found)));
    }
    for key in RADIUS_KEYS.iter().filter_map(|key| table.foreign(key)) {
        let message = format!("`{}` is for `from = \"radius\"`", key.key());
        let draft = Draft::new(&codes::BAD_CIRCUITS, key.key_span(), message);
        report.push(draft.cure("remove it, or write `from = \"radius\"`"));
    }
    if word == "http" {
        return Some(CircuitSource::Http);
    }
    if let Some(key) = table.foreign("expire") {
        let message = "`expire` is for \"http\" and \"radius\": a circuit stays as long as the \
                       file has it";
        let draft = Draft::new(&codes::BAD_CIRCUITS, key.key_span(), message);
        report.push(draft.cure("remove it, and let the circuit leave the file"));
    }
    if !word.ends_with(".csv") {
        let message = format!("{word:?} is no source of circuits");
        let cure = "write a file that ends in `.csv`, \"http\" or \"radius\"";
        report.push(node.draft(&codes::BAD_CIRCUITS, message).cure(cure));
        return None;
    }
    path(node, file, report).map(CircuitSource::File)
}

fn radius(table: &mut Table<'_>, file: &str, report: &mut Report) -> Option<Radius> {
    let listen = table.required("listen", report);
    let clients = table.required("clients", report);
    let secret_file = table.required("secret_file", report);
    let [id, plan, site] = ["id", "plan", "site"].map(|key| table.one_of(key, ATTRIBUTES, report));
    let listen = api::address(&listen?, report);
    let nodes = clients?.elements(report)?;
    let clients: Option<Vec<_>> = nodes.iter().map(|node| client(node, report)).collect();
    if nodes.is_empty() || nodes.len() > CLIENTS_MAX {
        let message = format!("there are {} clients, and may be 1 to {CLIENTS_MAX}", nodes.len());
        let draft = Draft::new(&codes::BAD_CIRCUITS, table.span(), message);
        report.push(draft.cure("write the address of each client in `clients`"));
    }
    let secret_file = path(&secret_file?, file, report)?;
    Some(Radius {
        listen: listen?,
        clients: clients?,
        secret_file,
        id: id?,
        plan: plan?,
        site: site?,
    })
}

fn client(node: &Node<'_>, report: &mut Report) -> Option<IpAddr> {
    let text = node.name(report)?;
    let address = text.parse().ok();
    if address.is_none() {
        let message = format!("{text:?} is not an address");
        report.push(node.draft(&codes::BAD_VALUE, message).cure("write one such as \"192.0.2.2\""));
    }
    address
}

/// Reports a template that no policy has, and plans that fit nowhere.
fn check(node: &Node<'_>, name: &str, directions: &[impl Route], report: &mut Report) {
    let policies: Vec<_> =
        directions.iter().filter_map(|way| Some((way.name(), way.policy()?))).collect();
    if policies.is_empty() {
        return;
    }
    let mut is_known = false;
    for (direction, policy) in policies {
        let Some(template) = policy.circuits.iter().find(|one| one.name == name) else { continue };
        is_known = true;
        for (code, message, cure) in misfits(template, policy) {
            let message = format!("direction `{direction}`: {message}");
            report.push(node.draft(code, message).cure(cure));
        }
    }
    if !is_known {
        let message = format!("no policy has a template `{name}` with `circuits = true`");
        let cure = format!("write `[template.{name}]` with `circuits = true` in a policy");
        report.push(node.draft(&codes::BAD_CIRCUITS, message).cure(cure));
    }
}

type Misfit = (&'static codes::Code, String, String);

/// Lets a circuit of each plan join at each site, where it would be alone; returns those that
/// cannot. Circuits that joined are no fault of what is written.
fn misfits(template: &CircuitTemplate, policy: &Policy) -> Vec<Misfit> {
    let policy = policy.clone().with_places().vacated();
    let sites: Vec<&str> = policy
        .places
        .iter()
        .map(|places| match places.parent {
            Some(class) => policy.link.tree.class(class).name.as_str(),
            None => "",
        })
        .collect();
    if sites.is_empty() {
        let cure = "write `places = 1000` in a class with children".to_owned();
        return vec![(&codes::BAD_CIRCUITS, "no class has places for circuits".to_owned(), cure)];
    }
    let none = [String::new()];
    let plans = if template.plans.is_empty() { &none } else { template.plans.as_slice() };
    let of_plan = |plan: &String| {
        let tried = sites.iter().map(|site| (*site, fits(template, &policy, plan, site)));
        let failed: Vec<_> =
            tried.filter_map(|(site, outcome)| Some((site, outcome.err()?))).collect();
        let (site, why) = failed.first()?;
        if failed.len() == sites.len() {
            let message = format!("a circuit of plan `{plan}` cannot join: {why}");
            let cure = "correct the plan or the template, or give its parent more".to_owned();
            return Some((&codes::BAD_CIRCUITS, message, cure));
        }
        let message = format!(
            "a circuit of plan `{plan}` cannot join at {} of {} sites, such as `{site}`: {why}",
            failed.len(),
            sites.len()
        );
        let cure = "give these sites more, or sell the plan elsewhere".to_owned();
        Some((&codes::LARGE_PLAN, message, cure))
    };
    plans.iter().filter_map(of_plan).collect()
}

/// Tries whether a circuit could join.
fn fits(template: &CircuitTemplate, policy: &Policy, plan: &str, site: &str) -> Result<(), String> {
    let addresses = ["192.0.2.1".to_owned()];
    let row = CircuitRow { id: "example", addresses: &addresses, plan, site };
    seats(template, policy, &[row]).map(drop)
}

/// A policy with all its places, and a classifier of its rules, which circuits join as a running
/// link lets them.
#[derive(Debug)]
pub struct Rehearsal {
    policy: Policy,
    classifier: Classifier,
}

impl Rehearsal {
    /// Begins without circuits.
    pub fn new(policy: &Policy) -> Self {
        let policy = policy.clone().with_places();
        let classifier = policy.classifier();
        Self { policy, classifier }
    }

    /// Lets circuits join at once. Returns what is said of those that join and get nothing.
    ///
    /// # Errors
    /// When one of them cannot join; then none does, and the text says why.
    pub fn join(
        &mut self,
        template: &CircuitTemplate,
        rows: &[CircuitRow<'_>],
    ) -> Result<Vec<String>, String> {
        let (seats, warnings) = seats(template, &self.policy, rows)?;
        for (at, seat) in seats.iter().enumerate() {
            let Some(rules) = seat.rules() else { continue };
            if let Err(why) = self.classifier.fits(seat.leaf, &rules) {
                seats[..at].iter().for_each(|seat| drop(self.classifier.leave(seat.leaf)));
                return Err(format!("class `{}`: {why}", seat.name));
            }
            self.classifier.join(seat.leaf, rules);
        }
        seats.iter().for_each(|seat| self.policy.follow(seat));
        Ok(warnings)
    }

    /// Returns what would be said of circuits that join and get nothing, of those that can join at
    /// all; none joins.
    pub fn hidden(&self, template: &CircuitTemplate, rows: &[CircuitRow<'_>]) -> Vec<String> {
        let said = |rows: &[CircuitRow<'_>]| {
            seats(template, &self.policy, rows).map(|(_, warnings)| warnings)
        };
        said(rows).unwrap_or_else(|_| {
            let alone = rows.iter().filter_map(|row| said(std::slice::from_ref(row)).ok());
            alone.flatten().collect()
        })
    }
}

/// Returns the places that circuits would have, with warnings of rules that decide nothing, or why
/// one of them has none.
fn seats(
    template: &CircuitTemplate,
    policy: &Policy,
    rows: &[CircuitRow<'_>],
) -> Result<(Vec<Seating>, Vec<String>), String> {
    let tables = template.fill_all(&rows.iter().map(|row| (*row, "")).collect::<Vec<_>>())?;
    let request = JoinRequest { remove: &[], tables: &tables, name: &template.name };
    let outcome = policy.seat_without_text(&request);
    let of = |severity| outcome.findings.iter().filter(move |one| one.severity == severity);
    if let Some(error) = of(codes::Severity::Error).next() {
        return Err(error.message.clone());
    }
    let hidden = of(codes::Severity::Warning).filter(|one| one.code == codes::SHADOWED.id);
    let hidden = hidden.map(|one| one.message.clone()).collect();
    Ok((outcome.plan.unwrap_or_default(), hidden))
}

/// The template, unless the deployment names one.
const TEMPLATE: &str = "circuit";
/// Keys that only a source by RADIUS has.
const RADIUS_KEYS: [&str; 6] = ["listen", "clients", "secret_file", "id", "plan", "site"];
/// Attributes of RADIUS that are texts, and their numbers [rfc2865 §5] [rfc2869 §5].
pub const ATTRIBUTES: &[(&str, u8)] = &[
    ("User-Name", 1),
    ("Filter-Id", 11),
    ("Reply-Message", 18),
    ("Class", 25),
    ("Called-Station-Id", 30),
    ("Calling-Station-Id", 31),
    ("NAS-Identifier", 32),
    ("Connect-Info", 77),
    ("NAS-Port-Id", 87),
];
/// Bound: clients of RADIUS; a deployment with more is refused.
pub(super) const CLIENTS_MAX: usize = 64;
