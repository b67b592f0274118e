//! A class that stays below its ceiling since the turns of others are too long [algorithms §5.6]:
//! while they last, it saves no more than its `cburst`, and loses the rest.

use super::{Subject, about, seconds, span};
use crate::calculus;
use crate::codes::{Code, Severity};
use crate::finding::{Draft, Fix, Report};
use crate::policy::class::ClassDraft;
use std::collections::BTreeMap;
use weir_core::sched::Service;
use weir_core::sched::service::{Bucket, Buckets, Excess};
use weir_core::units::{Bytes, Rate};

pub(super) static CODE: Code = Code {
    id: "W155",
    severity: Severity::Warning,
    title: "a class below its ceiling for want of smaller turns of others",
    source: Some("algorithms §5.6"),
};

/// A leaf whose ceiling limits it, beside one that borrows from the same class in long turns.
struct Turns<'c> {
    ceil: Rate,
    cburst: u64,
    /// The bytes of a turn of the other.
    turn: u64,
    other: &'c str,
}

/// Reports each leaf that gets less than [`PART`] of a ceiling that its turns would let it reach.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let Service::Buckets(buckets) = &subject.service else { return };
    if buckets.excess != Excess::Turns {
        return;
    }
    let longest = longest_turns(subject, &buckets.leaves);
    let rates = rates_of_siblings(subject, &buckets.leaves);
    for (leaf, class) in subject.leaves() {
        let family = (class.above, buckets.leaves[leaf].rank);
        let Some(longest) = longest.get(&family).filter(|longest| longest.leaf != leaf) else {
            continue;
        };
        let Some(turns) = turns(subject, (leaf, class), longest, rates[&class.above]) else {
            continue;
        };
        let saved = turns.cburst + subject.plan.tree.mtu().get();
        let pause = seconds(turns.turn, subject.link_rate());
        let gets = saved as f64 * 8.0 / pause;
        if gets < turns.ceil.bits_per_second() as f64 * PART {
            report.push(draft(subject, class, &turns, (pause, gets)));
        }
    }
}

/// A parent and a rank: the leaves that take turns with each other.
type Family = (Option<usize>, u32);

/// The longest turn of a family.
struct Longest<'c> {
    leaf: usize,
    name: &'c str,
    /// Bytes.
    turn: u64,
}

/// Returns for each family the leaf that borrows with the longest turn.
fn longest_turns<'c>(
    subject: &Subject<'c, '_>,
    buckets: &[Bucket],
) -> BTreeMap<Family, Longest<'c>> {
    let mut longest: BTreeMap<Family, Longest<'c>> = BTreeMap::new();
    for (leaf, class) in subject.leaves() {
        let ceil = class.written.params.rate("ceil").filter(|&ceil| ceil > buckets[leaf].rate);
        let (Some(turn), Some(_)) = (buckets[leaf].turn, ceil) else { continue };
        let row = Longest { leaf, name: class.name, turn: turn.get() };
        let family = (class.above, buckets[leaf].rank);
        if longest.get(&family).is_none_or(|most| row.turn > most.turn) {
            longest.insert(family, row);
        }
    }
    longest
}

/// Returns the sum of the rates of the leaves below each parent, in bits a second.
fn rates_of_siblings(
    subject: &Subject<'_, '_>,
    buckets: &[Bucket],
) -> BTreeMap<Option<usize>, u64> {
    let mut rates = BTreeMap::new();
    for (leaf, class) in subject.leaves() {
        *rates.entry(class.above).or_insert(0) += buckets[leaf].rate.bits_per_second();
    }
    rates
}

/// Returns the turns of a leaf that borrows, if they would let it reach its ceiling beside siblings
/// that have `rates` with it, in bits a second.
fn turns<'c>(
    subject: &Subject<'c, '_>,
    (leaf, class): (usize, &ClassDraft<'_>),
    longest: &Longest<'c>,
    rates: u64,
) -> Option<Turns<'c>> {
    let Service::Buckets(Buckets { leaves: buckets, .. }) = &subject.service else { return None };
    let own = buckets[leaf];
    let ceil = class.written.params.rate("ceil").filter(|&ceil| ceil > own.rate)?;
    let by_default = ceil.bits_per_second() / 8 / TICK_HZ;
    let by_default = by_default + subject.plan.tree.mtu().get().max(BURST_LOW);
    let cburst = class.written.params.bytes("cburst").map_or(by_default, Bytes::get);
    // Its part by turns with the other class, of the rate that all siblings leave.
    let lender = subject.parent(class).and_then(super::rate)?;
    let whole = lender.min(subject.link_rate()).bits_per_second();
    let excess = whole.saturating_sub(rates) as f64;
    let mine = own.turn?.get();
    let by_turns = excess * mine as f64 / (mine + longest.turn) as f64;
    let reaches = own.rate.bits_per_second() as f64 + by_turns >= ceil.bits_per_second() as f64;
    reaches.then_some(Turns { ceil, cburst, turn: longest.turn, other: longest.name })
}

fn draft(
    subject: &Subject<'_, '_>,
    class: &ClassDraft<'_>,
    turns: &Turns<'_>,
    (pause, gets): (f64, f64),
) -> Draft {
    let Turns { ceil, cburst, turn, other } = *turns;
    let lasts = seconds(cburst, ceil);
    let message = format!(
        "beside `{other}` it gets about {:.2} Mbit/s of its ceiling of {ceil}: a turn of {} takes \
         {}, and meanwhile it saves no more than its `cburst` of {}, which lasts {}",
        gets / 1e6,
        Bytes::new(turn),
        calculus::shown(pause),
        Bytes::new(cburst),
        calculus::shown(lasts)
    );
    // The turn with which the pause is no longer than that.
    let quantum = lasts * subject.link_rate().bits_per_second() as f64 / 8.0;
    let quantum = quantum as u64 / 100 * 100;
    let needed = Bytes::new((pause * ceil.bits_per_second() as f64 / 8.0).ceil() as u64);
    let draft = about(&CODE, class, span(class, "ceil"), message);
    let saves = super::set(class, "cburst", needed);
    if quantum < subject.plan.tree.mtu().get() {
        return draft.cure(format!("write `cburst = \"{needed}\"` here")).fix([saves]);
    }
    let quantum = Bytes::new(quantum);
    draft
        .cure(format!(
            "write `quantum = \"{quantum}\"` or less in `{other}`, or `cburst = \"{needed}\"` here"
        ))
        .fix([Fix::set(&["class", other, "quantum"], quantum), saves])
}

/// The part of its ceiling below which a class is reported.
const PART: f64 = 0.95;
/// The default `cburst`: what the ceiling sends in a tick of this frequency, and so many bytes.
const TICK_HZ: u64 = 250;
const BURST_LOW: u64 = 1600;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "20 Mbit/s"
scheduler = "htb"

[class.line]
rate = "20 Mbit/s"

[class.guest]
parent = "line"
rate = "1 Mbit/s"
ceil = "3 Mbit/s"
match = { dport = 80 }
isolate = "flows"

[class.own]
parent = "line"
rate = "3 Mbit/s"
ceil = "20 Mbit/s"
default = true
"#,
    replace: r#"ceil = "20 Mbit/s"
default = true"#,
    by: r#"ceil = "20 Mbit/s"
quantum = "20 KB"
default = true"#,
};
