//! A rate that follows the capacity of a line: `[direction.NAME.autorate]`.
//!
//! ```toml
//! [direction.download.autorate]
//! min = "5 Mbit/s"
//! base = "20 Mbit/s"
//! max = "80 Mbit/s"
//! target = "15 ms"                # how long frames may wait in the modem
//! controller = "delay-target"     # or another of `weir_autorate::controller`
//! modem = "outside"               # default: by the direction's name
//! probes = ["192.0.2.1", "2001:db8::1", …]   # asked where nothing that passes tells
//! ```

use super::{Port, Side, keys, ports};
use crate::calculus;
use crate::codes;
use crate::finding::{Draft, Report, Span};
use crate::policy::Policy;
use crate::reader::{Node, Table};
use std::net::IpAddr;
use weir_autorate::controller::named;
use weir_autorate::{Limits, REFLECTORS_MAX, REFLECTORS_MIN, Way};
use weir_core::ids::LeafId;
use weir_core::units::{Duration, Rate};

/// The table `[direction.NAME.autorate]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Autorate {
    /// Whether frames of the direction go to the modem, or come from it.
    pub way: Way,
    /// The index of the port behind which the modem is.
    pub modem: usize,
    /// Between which rates, and for which delay.
    pub limits: Limits,
    /// The controller's place in `weir_autorate::controller::CONTROLLERS`.
    pub controller: usize,
    /// The hosts that are asked where nothing that passes tells; often none.
    pub probes: Vec<IpAddr>,
}

/// Reads the table of a direction with this name and these ends.
pub(super) fn read(
    node: &Node<'_>,
    (name, ends): (&str, Option<&(Vec<usize>, usize)>),
    ports: &[Port],
    report: &mut Report,
) -> Option<Autorate> {
    let owner = format!("[direction.{name}.autorate]");
    let mut table = node.table(report)?.named(owner).with_keys(keys::AUTORATE);
    let limits = limits(&mut table, node, report);
    let controller = table.word("controller", report).and_then(named);
    let modem = table.field("modem");
    let probes = table.field("probes").map(|node| probes(&node, report)).unwrap_or_default();
    table.finish(report);
    let modem = modem.map(|modem| (ports::find(&modem, ports, report), modem));
    let (from, to) = ends?;
    let (way, modem) = match modem {
        Some((port, modem)) => {
            let found = port.and_then(|port| way_of(port, from, *to).map(|way| (way, port)));
            if port.is_some() && found.is_none() {
                let message = "the direction neither ends at this port, nor begins only there";
                let cure = "name the port behind which the modem is";
                report.push(modem.draft(&codes::BAD_AUTORATE, message).cure(cure));
            }
            found?
        }
        None => by_name(name, (from, *to), ports).or_else(|| {
            let message = "it is not known behind which port the modem is";
            let cure = "write `modem`, or begin the direction's name with `up` or `down`";
            report.push(Draft::new(&codes::BAD_AUTORATE, node.key_span(), message).cure(cure));
            None
        })?,
    };
    Some(Autorate { way, modem, limits: limits?, controller: controller?, probes })
}

/// Reads the hosts that are asked.
fn probes(node: &Node<'_>, report: &mut Report) -> Vec<IpAddr> {
    let nodes = node.elements(report).unwrap_or_default();
    let mut probes: Vec<IpAddr> = Vec::new();
    for node in &nodes {
        let Some(address) = node.parsed::<IpAddr>(report) else { continue };
        if let Some(what) = no_host(address) {
            let message = format!("{address} is {what}");
            let cure = "name a host behind the modem by its global address";
            report.push(node.draft(&codes::BAD_AUTORATE, message).cure(cure));
        }
        if probes.contains(&address) {
            let message = format!("{address} is there twice");
            report.push(node.draft(&codes::BAD_AUTORATE, message).cure("name each host once"));
        }
        probes.push(address);
    }
    if !(REFLECTORS_MIN..=REFLECTORS_MAX).contains(&nodes.len()) {
        let message = format!("{} hosts are not {REFLECTORS_MIN} to {REFLECTORS_MAX}", nodes.len());
        let cure = "name three or more that answer pings: of fewer, one that is slow would move \
                    the rate";
        report.push(node.draft(&codes::BAD_AUTORATE, message).cure(cure));
    }
    probes
}

/// Returns what an address is that no single host behind a modem has.
fn no_host(address: IpAddr) -> Option<&'static str> {
    let is_near = matches!(address, IpAddr::V6(six) if six.is_unicast_link_local());
    let is_all = matches!(address, IpAddr::V4(four) if four.is_broadcast());
    match address {
        _ if address.is_loopback() => Some("this machine itself"),
        _ if address.is_multicast() || is_all => Some("the address of a group"),
        _ if address.is_unspecified() => Some("no address of a host"),
        _ if is_near => Some("a link-local address, to which no route leads"),
        _ => None,
    }
}

/// Gives the modems' ports the hosts that directions ask through them.
pub(super) fn give_probes(
    (autorate, span): (&Autorate, Span),
    ports: &mut [Port],
    report: &mut Report,
) {
    let port = &mut ports[autorate.modem];
    if autorate.probes.is_empty() || port.reflectors == autorate.probes {
        return;
    }
    if !port.reflectors.is_empty() {
        let message = "two directions have other `probes` by the same modem, which has one queue \
                       of each way";
        let cure = "write the same hosts in both, or `probes` in one of them";
        report.push(Draft::new(&codes::BAD_AUTORATE, span, message).cure(cure));
        return;
    }
    port.reflectors = autorate.probes.clone();
}

fn limits(table: &mut Table<'_>, node: &Node<'_>, report: &mut Report) -> Option<Limits> {
    let [min, base, max] =
        ["min", "base", "max"].map(|key| Some(table.required(key, report)?.rate(report)));
    let target: Option<Duration> = table.value("target", report);
    let (min, base, max) = (min??, base??, max??);
    let limits = Limits::new(min, base, max, target?);
    if limits.is_none() {
        let message = format!("`min` {min}, `base` {base} and `max` {max} are not in this order");
        let draft = Draft::new(&codes::BAD_AUTORATE, node.key_span(), message);
        report.push(draft.cure("write the least rate as `min`, and the largest as `max`"));
    }
    limits
}

/// Returns the way of a direction with these ends, whose modem is behind `modem`.
fn way_of(modem: usize, from: &[usize], to: usize) -> Option<Way> {
    match (to == modem, from == [modem]) {
        (true, _) => Some(Way::Up),
        (_, true) => Some(Way::Down),
        _ => None,
    }
}

/// Returns the way and the modem's port of a direction, by its name or by the kind of its ports.
fn by_name(name: &str, (from, to): (&[usize], usize), ports: &[Port]) -> Option<(Way, usize)> {
    let is_wire = |port: usize| ports[port].side == Side::Wire;
    let first = *from.first()?;
    if is_wire(to) || name.starts_with("up") {
        return Some((Way::Up, to));
    }
    let is_down = is_wire(first) || name.starts_with("down");
    (is_down && from.len() == 1).then_some((Way::Down, first))
}

/// Reports a policy whose rate follows its arrivals besides, and warns of classes that get less
/// than they declare when the rate is the least. All rates of a policy scale with its link's.
pub(super) fn check(autorate: &Autorate, policy: &Policy, span: Span, report: &mut Report) {
    if policy.link.follows_arrivals {
        let message = "its policy has `follows_arrivals` in [link]: two rules would set one rate";
        let cure = "leave out `follows_arrivals`, which is for bottlenecks that nothing measures; \
                    or leave out this table";
        report.push(Draft::new(&codes::BAD_AUTORATE, span, message).cure(cure));
    }
    let (min, planned) = (autorate.limits.min(), policy.link.tree.rate());
    if min >= planned {
        return;
    }
    let share = min.bits_per_second() as f64 / planned.bits_per_second() as f64;
    let least = calculus::at_least(&policy.link, &policy.demands);
    let mut short = Vec::new();
    for (leaf, (least, demand)) in least.iter().zip(&policy.demands).enumerate() {
        let (Some(least), Some(arrival)) = (least.rate, demand.arrival) else { continue };
        let gets = Rate::new((least * share) as u64).unwrap_or(Rate::MIN);
        if gets < arrival.rate {
            let name = policy.leaf_name(LeafId(leaf as u32));
            short.push(format!("class `{name}` gets {gets} of its {}", arrival.rate));
        }
    }
    if short.is_empty() {
        return;
    }
    let message = format!(
        "at the least rate of {min}, {}: all rates of the policy scale with the link's, which it \
         says is {planned}",
        short.join(", ")
    );
    let cure = format!(
        "write the policy for the least rate, `rate = \"{min}\"` in its [link]: what it \
         guarantees then only grows; or raise `min`"
    );
    report.push(Draft::new(&codes::SMALLEST_RATE, span, message).cure(cure));
}
