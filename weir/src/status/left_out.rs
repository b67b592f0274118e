//! The classes of a direction that are not shown, for people.

use weir_link::status::{LaneStatus, Sums};

/// Returns the line about classes that are not shown, with the sums over all.
pub fn text(lane: &LaneStatus) -> String {
    if lane.left_out == 0 {
        return String::new();
    }
    let more = if lane.left_out == 1 { "class is" } else { "classes are" };
    let Sums { leaves, sent, lost, backlog, sent_bps, .. } = &lane.sums;
    format!(
        "{} {more} not shown; see --class, --top and --limit\n\
         all {leaves} classes: {} packets sent, {:.3} Mbit/s now, {lost} dropped or lost, \
         {} wait\n",
        lane.left_out,
        sent.packets,
        sent_bps / 1e6,
        backlog.packets
    )
}
