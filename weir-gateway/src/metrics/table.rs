//! The metrics: a line each, whose sentence is their documentation. `Counter` adds `_total` to the
//! written name. A value that no test's status has needs one in `text` of `tests.rs`.

use super::samples::{Family, Kind, Samples};
use weir_link::status::{Amount, ClassStatus, Delays, LaneStatus, PortStatus, Recent, Status};

/// Makes a table of families: kind, name, unit, help, and what gives its samples.
macro_rules! families {
    ($($kind:ident $name:literal $unit:literal $help:literal, $read:expr;)+) => {
        &[$(Family { name: $name, kind: Kind::$kind, unit: $unit, help: $help, read: $read }),+]
    };
}

/// Families with a sample for the link.
pub(super) const LINK: &[Family<Status>] = families! {
    Info "weir_build" "" "The version of Weir.",
        |_, out| out.labelled("version", env!("CARGO_PKG_VERSION"), 1);
    Gauge "weir_uptime_seconds" "seconds" "Time since the ports were opened.",
        |link, out| out.value(seconds(link.uptime_ns));
    Gauge "weir_status_age_seconds" "seconds" "Time since the counts were read.",
        |link, out| out.value(seconds(link.age_ns));
    Counter "weir_stalls" "" "Times the loop slept too long and the line started anew.",
        |link, out| out.value(link.stalls);
    Counter "weir_busy_seconds" "seconds" "Time that the loops spent on frames.",
        |link, out| out.value(seconds(link.busy_ns));
    Counter "weir_polling_seconds" "seconds" "Time that the loops looked for frames in vain.",
        |link, out| out.value(seconds(link.polling_ns));
    Gauge "weir_pool_free_frames" "frames" "Free frames of the pools.",
        |link, out| out.value(link.frames_free);
    Gauge "weir_pool_frames" "frames" "All frames of the pools.",
        |link, out| out.value(link.frames_max);
    Gauge "weir_frame_seconds" "seconds" "Processor time of a received frame in the last second.",
        |link, out| out.value(link.frame_ns / 1e9);
    Gauge "weir_keeper_up" "" "1 if the link has a keeper.",
        |link, out| out.value(u8::from(link.processes.is_some_and(|both| both.keeper.is_some())));
};

/// Families with a sample for each port.
pub(super) const PORTS: &[Family<PortStatus>] = families! {
    Gauge "weir_port_up" "" "1 if the interface is up, 0 if it is down or gone.",
        |port, out| out.value(u8::from(port.state == "up"));
    Counter "weir_port_received_frames" "frames" "Frames received.",
        |port, out| out.value(port.received);
    Counter "weir_port_received_bytes" "bytes" "Bytes received.",
        |port, out| out.value(port.received_bytes);
    Counter "weir_port_sent_frames" "frames" "Frames sent.", |port, out| out.value(port.sent);
    Counter "weir_port_sent_bytes" "bytes" "Bytes sent.", |port, out| out.value(port.sent_bytes);
    Counter "weir_port_lost_in_frames" "frames" "Frames lost on arrival, by cause.",
        |port, out| by_cause(&port.lost_in_by_cause, out);
    Counter "weir_port_lost_out_frames" "frames" "Frames lost on sending, by cause.",
        |port, out| by_cause(&port.lost_out_by_cause, out);
    Counter "weir_port_kept_frames" "frames" "Frames not forwarded on purpose, by cause.",
        |port, out| by_cause(&port.kept, out);
    Counter "weir_port_rebinds" "" "Times the interface came back.",
        |port, out| out.value(port.rebinds);
};

/// Families with a sample for each direction.
pub(super) const LANES: &[Family<LaneStatus>] = families! {
    Counter "weir_unread_frames" "frames" "Frames whose IP header could not be read, by cause.",
        |lane, out| by_cause(&lane.unread, out);
    Info "weir_policy" "" "The policy in force: what tells its text from others, its scheduler.",
        |lane, out| {
            let LaneStatus { policy, .. } = lane;
            let labels = [("identity", &*policy.identity), ("scheduler", &*policy.scheduler)];
            out.suffixed("", &labels, 1);
        };
    Gauge "weir_policy_age_seconds" "seconds" "How long the policy has been in force.",
        |lane, out| out.value(seconds(lane.policy.age_ns));
    Gauge "weir_policy_rate_bits_per_second" "bits_per_second" "The rate of the policy's link.",
        |lane, out| out.value(lane.policy.rate_bps);
    Gauge "weir_autorate_bits_per_second" "bits_per_second" "The rate that follows the line, by reason.",
        |lane, out| {
            let varies = lane.autorate.iter();
            varies.for_each(|varies| out.labelled("reason", &varies.reason, varies.rate_bps));
        };
    Gauge "weir_autorate_delay_seconds" "seconds" "How long frames wait behind the link.",
        |lane, out| {
            let delay = lane.autorate.as_ref().and_then(|varies| varies.delay_us);
            delay.into_iter().for_each(|delay| out.value(delay / 1e6));
        };
    Gauge "weir_autorate_round_trip_seconds" "seconds" "The round trip behind the link.",
        |lane, out| {
            let trip = lane.autorate.as_ref().and_then(|varies| varies.round_trip_us);
            trip.into_iter().for_each(|trip| out.value(trip / 1e6));
        };
    Gauge "weir_autorate_flows" "" "Flows that tell how long frames wait behind the link.",
        |lane, out| lane.autorate.iter().for_each(|varies| out.value(varies.flows));
    Counter "weir_backlogged_classes_found" "" "How many classes had frames inside, when asked.",
        |lane, out| {
            let found = lane.found;
            let counts = [("none", found.none), ("one", found.one), ("more", found.more)];
            counts.iter().for_each(|(word, count)| out.labelled("classes", word, count));
        };
    Gauge "weir_classes" "" "Classes of the direction in this scrape.",
        |lane, out| out.value(lane.classes.len());
    Gauge "weir_classes_left_out" "" "Classes that `limit` and `class` leave out of this scrape.",
        |lane, out| out.value(lane.left_out);
};

/// Families with a sample for each class.
pub(super) const CLASSES: &[Family<ClassStatus>] = families! {
    Counter "weir_class_offered_packets" "packets" "Packets offered.",
        |class, out| out.value(class.offered.packets);
    Counter "weir_class_offered_bytes" "bytes" "Charged bytes offered.",
        |class, out| out.value(class.offered.bytes);
    Counter "weir_class_sent_packets" "packets" "Packets sent.",
        |class, out| out.value(class.sent.packets);
    Counter "weir_class_sent_bytes" "bytes" "Charged bytes sent.",
        |class, out| out.value(class.sent.bytes);
    Counter "weir_class_marked_packets" "packets" "Packets sent with another traffic class.",
        |class, out| out.value(class.marked);
    Counter "weir_class_marked_ecn_packets" "packets" "Packets that a dropper marked by ECN.",
        |class, out| out.value(class.marked_ecn);
    Counter "weir_class_marked_dscp_packets" "packets" "Packets sent with another DSCP.",
        |class, out| out.value(class.marked_dscp);
    Counter "weir_class_dropped_packets" "packets" "Packets dropped, by reason.",
        |class, out| by_reason(&class.dropped, |amount| amount.packets, out);
    Counter "weir_class_dropped_bytes" "bytes" "Charged bytes dropped, for all reasons.",
        |class, out| out.value(class.dropped.iter().map(|(_, amount)| amount.bytes).sum::<u64>());
    Counter "weir_class_lost_frames" "frames" "Frames lost before the link, by cause.",
        |class, out| by_cause(&class.lost, out);
    Gauge "weir_class_backlog_packets" "packets" "Packets that wait.",
        |class, out| out.value(class.backlog.packets);
    Gauge "weir_class_backlog_bytes" "bytes" "Charged bytes that wait.",
        |class, out| out.value(class.backlog.bytes);
    Summary "weir_class_delay_seconds" "seconds" "Delay of packets since the start or the last mark.",
        delays;
    Gauge "weir_class_delay_max_seconds" "seconds" "The longest of these delays.",
        |class, out| out.value(micros(class.delay.max_us));
    Gauge "weir_class_delay_mean_seconds" "seconds" "The mean of these delays.",
        |class, out| out.value(micros(class.delay.mean_us));
    Gauge "weir_class_share_bits_per_second" "bits_per_second" "What it gets while all want more.",
        |class, out| class.share_bps.iter().for_each(|rate| out.value(rate));
    Gauge "weir_class_ceiling_bits_per_second" "bits_per_second" "The most by its own limits.",
        |class, out| class.ceiling_bps.iter().for_each(|rate| out.value(rate));
    Counter "weir_class_borrowed_bytes" "bytes" "Bytes sent on the account of other classes.",
        |class, out| out.value(class.borrowed.iter().map(|loan| loan.bytes).sum::<u64>());
    Counter "weir_class_overlimit_seconds" "seconds" "Time that limits held waiting packets back.",
        |class, out| out.value(seconds(class.overlimit_ns));
    Gauge "weir_class_recent_offered_bits_per_second" "bits_per_second" "In the last second.",
        |class, out| recent(class, out, |recent| Some(recent.second.offered_bps));
    Gauge "weir_class_recent_sent_bits_per_second" "bits_per_second" "In the last second.",
        |class, out| recent(class, out, |recent| Some(recent.second.sent_bps));
    Gauge "weir_class_recent_borrowed_bits_per_second" "bits_per_second" "In the last second.",
        |class, out| recent(class, out, |recent| Some(recent.second.borrowed_bps));
    Gauge "weir_class_recent_queue_packets" "packets" "Average queue length of the last second.",
        |class, out| recent(class, out, |recent| recent.queue_packets);
    Gauge "weir_class_recent_overlimit" "" "Part of the last second in which limits held it back.",
        |class, out| recent(class, out, |recent| Some(recent.overlimit));
    Gauge "weir_class_recent_jitter_seconds" "seconds" "p99 less p50 of the last ten seconds.",
        |class, out| recent(class, out, |recent| Some(micros(recent.jitter_us)));
    Summary "weir_class_recent_delay_seconds" "seconds" "Delay of packets in the last ten seconds.",
        |class, out| class.recent.iter().for_each(|recent| quantiles(&recent.delay, out));
};

fn delays(class: &ClassStatus, out: &mut Samples<'_>) {
    quantiles(&class.delay, out);
}

/// Writes what a class did of late, once it is known.
fn recent(class: &ClassStatus, out: &mut Samples<'_>, of: fn(&Recent) -> Option<f64>) {
    class.recent.as_ref().and_then(of).iter().for_each(|value| out.value(value));
}

fn quantiles(delay: &Delays, out: &mut Samples<'_>) {
    for (quantile, value) in [("0.5", delay.p50_us), ("0.9", delay.p90_us), ("0.99", delay.p99_us)]
    {
        out.labelled("quantile", quantile, micros(value));
    }
}

fn by_cause(causes: &[(String, u64)], out: &mut Samples<'_>) {
    causes.iter().for_each(|(cause, frames)| out.labelled("cause", cause, frames));
}

fn by_reason(reasons: &[(String, Amount)], of: fn(&Amount) -> u64, out: &mut Samples<'_>) {
    reasons.iter().for_each(|(reason, amount)| out.labelled("reason", reason, of(amount)));
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn micros(micros: f64) -> f64 {
    micros / 1e6
}
