//! A queue that takes long to empty once it is full, and that nothing keeps short [rfc8289 §1]: the
//! class's packets then all come late by that time.

use super::{Subject, about, seconds, set};
use crate::codes::{Code, Severity};
use crate::finding::{Draft, Fix, Report};
use crate::policy::class::ClassDraft;
use weir_core::parameter::Parameter;
use weir_core::queue::{DROPPERS, Limit, SHORT_KEY};
use weir_core::units::{Bytes, Rate};

pub(super) static CODE: Code = Code {
    id: "W156",
    severity: Severity::Warning,
    title: "a queue that takes long to empty, or holds one packet",
    source: Some("rfc8289 §1"),
};

/// Reports each leaf whose full queue takes longer than [`LONG`] although it sends alone, and each
/// whose queue holds one packet.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let packet = subject.plan.tree.mtu().get();
    for (leaf, class) in subject.leaves() {
        let declares = class.demand.demand;
        if !is_plain(class) || declares.arrival.is_some() || declares.delay.is_some() {
            continue;
        }
        let limit = class.queue.limit();
        if limit == Limit::Packets(1) {
            report.push(of_one_packet(class));
            continue;
        }
        // A limit that is not written was hardly chosen for the class; `--bounds` tells its delay.
        let alone = class.queue_written.span("limit").and(subject.rates().alone[leaf]);
        let Some(rate) = alone.and_then(|rate| Rate::new(rate as u64)) else { continue };
        let (bytes, in_packets) = match limit {
            Limit::Packets(packets) => (u64::from(packets).saturating_mul(packet), true),
            Limit::Bytes(bytes) => (bytes.get(), false),
        };
        let least = LEAST * packet;
        if bytes > least && seconds(bytes, rate) > LONG {
            let most = (rate.bits_per_second() as f64 / 8.0 * LONG) as u64;
            let most = most.max(least);
            let limit = if in_packets {
                format!("{} packets", most / packet)
            } else {
                Bytes::new(most).to_string()
            };
            report.push(draft(class, (bytes, rate), &limit));
        }
    }
}

fn draft(class: &ClassDraft<'_>, (bytes, rate): (u64, Rate), limit: &str) -> Draft {
    let time = seconds(bytes, rate);
    let time = if time < 1.0 { format!("{:.0} ms", time * 1e3) } else { format!("{time:.1} s") };
    let message = format!(
        "its queue of {} takes {time} to empty at {rate}, even alone, and nothing keeps it short: \
         each packet behind a full one comes so late",
        match class.queue.limit() {
            Limit::Packets(packets) => format!("{packets} packets"),
            Limit::Bytes(bytes) => bytes.to_string(),
        }
    );
    let cure = format!(
        "write `{SHORT_KEY} = \"flows\"` in the class, in place of `queue`, so that flows do not \
         wait for each other and stay short, or a `limit` of at most {limit}"
    );
    let fix = set(class, "queue.limit", limit);
    let isolates = set(class, SHORT_KEY, "flows");
    // A dropper that is named cannot stand beside it.
    let fixes = if class.queue_span.is_some() { vec![fix] } else { vec![isolates, fix] };
    let span = class.queue_parameter_span(Some("limit"));
    about(&CODE, class, span, message).cure(cure).fix(fixes)
}

fn of_one_packet(class: &ClassDraft<'_>) -> Draft {
    let message = "its queue holds 1 packet, so of any two that come together one is dropped";
    let cure = "write a `limit` of at least the packets that a sender sends at once, such as 10";
    let fix = Fix::set(&["class", class.name, "queue", "limit"], "10 packets");
    let span = class.queue_parameter_span(Some("limit"));
    about(&CODE, class, span, message.to_owned()).cure(cure).fix([fix])
}

/// Returns whether nothing but its limit bounds the queue, and all flows share it.
fn is_plain(class: &ClassDraft<'_>) -> bool {
    let dropper = DROPPERS.iter().find(|row| row.keyword == class.queue.dropper);
    let is_limit = |row: &Parameter| row.name == "limit";
    dropper.is_some_and(|dropper| dropper.parameters.iter().all(is_limit))
}

/// The seconds that a full queue may take.
const LONG: f64 = 0.25;
/// Packets that a queue may always hold.
const LEAST: u64 = 2;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "drr"

[class.a]
match = { dport = 80 }

[class.b]
default = true
queue = { limit = "10000 packets" }
"#,
    replace: r#"queue = { limit = "10000 packets" }"#,
    by: r#"isolate = "flows""#,
};
