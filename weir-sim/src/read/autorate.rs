//! The table `autorate` of a link: a controller of its rate, with the keys of a deployment.

use super::{bounded, codes, keys};
use crate::network::Control;
use weir_autorate::controller::{TARGET_MIN, named};
use weir_autorate::{Limits, Plan, REFLECTORS_MAX, REFLECTORS_MIN};
use weir_core::units::Duration;
use weir_policy::codes as common;
use weir_policy::finding::Report;
use weir_policy::reader::Node;

/// Reads a controller, and how long the reflectors take that it may ask: those are behind a modem,
/// so one without has none.
pub(super) fn control(
    node: &Node<'_>,
    has_modem: bool,
    report: &mut Report,
) -> Option<(Control, Vec<Duration>)> {
    let mut table = node.table(report)?.named("the controller").with_keys(keys::AUTORATES);
    let mut rate = |key| table.required(key, report).and_then(|node| node.rate(report));
    let (min, base, max) = (rate("min"), rate("base"), rate("max"));
    let target = table.value_by("target", report, bounded);
    let controller = table.word("controller", report).map(named);
    let probes = table.field("probes").map(|node| probes(&node, has_modem, report));
    table.finish(report);
    let (min, base, max, target) = (min?, base?, max?, target?);
    if target < TARGET_MIN {
        let message = format!("a `target` of {target} is below {TARGET_MIN}");
        let cure = "write how long packets may wait behind the link, such as `15 ms`";
        report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
        return None;
    }
    let Some(limits) = Limits::new(min, base, max, target) else {
        let message = format!("needs min <= base <= max, and has {min}, {base} and {max}");
        let cure = "write rates in this order, such as 5, 20 and 100 Mbit/s";
        report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
        return None;
    };
    let plan = Plan { limits, controller: controller?.unwrap_or_default() };
    Some((Control::Controller(plan), probes.unwrap_or(Some(Vec::new()))?))
}

/// Reads how long each reflector takes.
fn probes(node: &Node<'_>, has_modem: bool, report: &mut Report) -> Option<Vec<Duration>> {
    if !has_modem {
        let message = "they answer from behind a modem, and this way of the link has no `behind`";
        let cure = "write them where the line of the upload is, which has a `behind`";
        report.push(node.draft(&codes::NEEDLESS, message).cure(cure));
        return None;
    }
    let nodes = node.elements(report)?;
    if !(REFLECTORS_MIN..=REFLECTORS_MAX).contains(&nodes.len()) {
        let message =
            format!("{} reflectors are not {REFLECTORS_MIN} to {REFLECTORS_MAX}", nodes.len());
        let cure = "write three or more times such as `20 ms`: of fewer, a slow one would move the \
                    rate";
        report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
        return None;
    }
    nodes.iter().map(|node| bounded(node, report)).collect()
}
