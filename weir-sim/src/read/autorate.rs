//! The table `autorate` of a link: a controller of its rate, with the keys of a deployment.

use super::{bounded, keys};
use crate::network::Control;
use weir_autorate::controller::{TARGET_MIN, named};
use weir_autorate::{Limits, Plan};
use weir_policy::codes as common;
use weir_policy::finding::Report;
use weir_policy::reader::Node;

/// Reads a controller.
pub(super) fn control(node: &Node<'_>, report: &mut Report) -> Option<Control> {
    let mut table = node.table(report)?.named("the controller").with_keys(keys::AUTORATES);
    let mut rate = |key| table.required(key, report).and_then(|node| node.rate(report));
    let (min, base, max) = (rate("min"), rate("base"), rate("max"));
    let target = table.value_by("target", report, bounded);
    let controller = table.word("controller", report).map(named);
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
    Some(Control::Controller(plan))
}
