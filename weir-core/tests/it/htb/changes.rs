//! Why a packet was held back, and what a class retains when its policy changes.

use crate::htb::world::{Leaves, Row, tree};
use weir_core::ids::{ClassId, LeafId};
use weir_core::sched::htb::Htb;
use weir_core::sched::{
    Changes, Discipline, Explains, Kin, Regulation, Scheduler, Selection, Tree, Why,
};
use weir_core::units::Instant;

const K: u64 = 1000;
const M: u64 = 1_000_000;

/// Serves the packets in `leaves` until `end` (µs); calls `each` for every departure before its
/// charge.
fn serve(
    scheduler: &mut Htb,
    leaves: &mut Leaves,
    (mut now, end): (Instant, u64),
    mut each: impl FnMut(Instant, LeafId, Why),
) {
    while now <= Instant::from_nanos(end * 1000) {
        match scheduler.select(now) {
            Selection::Leaf(leaf) => {
                each(now, leaf, scheduler.why(now, leaf, Instant::ZERO));
                let (bytes, next) = leaves.pop(leaf);
                scheduler.charge(now, leaf, bytes, next);
            }
            Selection::At(at) => now = at,
            Selection::Idle => return,
        }
    }
}

fn fill(scheduler: &mut Htb, leaves: &mut Leaves, backlog: &str) {
    for letter in backlog.bytes() {
        let leaf = LeafId(u32::from(letter - b'a'));
        let head = leaves.push(leaf, 1000);
        scheduler.enqueued(Instant::ZERO, leaf, head);
    }
}

/// A word for each departure: the leaf, the instant (µs), since when it might have been sent, what
/// held it until then, and from which class it borrowed.
fn check_why(rows: &[Row], backlog: &str, expected: &str) {
    let tree = tree(1000 * M, rows);
    let (mut scheduler, mut leaves) =
        (Htb::build(&tree).expect("a plan"), Leaves::new(tree.leaf_count()));
    fill(&mut scheduler, &mut leaves, backlog);
    let mut words = Vec::new();
    serve(&mut scheduler, &mut leaves, (Instant::ZERO, M), |now, leaf, why| {
        let micros = |instant: Instant| instant.as_nanos() / 1000;
        let lender = why.lender.map_or("", |class: ClassId| &tree.class(class).name);
        let (name, released) = (char::from(b'a' + leaf.0 as u8), micros(why.released));
        let held = if why.regulation == Regulation::None { "-" } else { why.regulation.name() };
        words.push(format!("{name}{}:{released}:{held}:{lender}", micros(now)));
    });
    assert_eq!(words.join(" "), expected);
}

const TWO_K: &[(&str, u64)] = &[("burst", 2 * K), ("cburst", 2 * K)];

#[test]
fn a_packet_waits_for_tokens_of_its_own_rate() {
    check_why(
        &[("a", None, M, M, TWO_K)],
        "aaaaa",
        "a0:0:-: a0:0:-: a0:0:-: a8000:8000:tokens: a16000:16000:tokens:",
    );
}

#[test]
fn a_packet_waits_for_a_ceil_or_for_its_lender() {
    // The root has tokens for all but one of the packets that leave at 0, and then lends one a
    // millisecond, so b and a wait for the root, at 1 and 2 ms. a may send one every 2 ms, so at 3
    // ms it waits for its ceil.
    let own = &[("burst", 1), ("cburst", 1)];
    let wide = &[("burst", 1), ("cburst", 100 * K)];
    check_why(
        &[
            ("root", None, 8 * M, 8 * M, TWO_K),
            ("a", Some(0), K, 4 * M, own),
            ("b", Some(0), K, 8 * M, wide),
        ],
        "aaabbb",
        "a0:0:-: b0:0:-: b0:0:-:root b1000:1000:tokens:root a2000:2000:tokens:root \
         a3998:3998:ceiling:root",
    );
}

fn one(rate: u64, name: &'static str) -> Tree {
    tree(1000 * M, &[(name, None, rate, rate, TWO_K)])
}

/// Three packets leave at once, then the policy changes: checks when the others leave (ms).
fn check_change(name: &'static str, rate: u64, expected: &[u64]) {
    let (before, after) = (one(M, "a"), one(rate, name));
    let mut old = Htb::build(&before).expect("builds");
    let mut leaves = Leaves::new(1);
    fill(&mut old, &mut leaves, "aaaaaa");
    serve(&mut old, &mut leaves, (Instant::ZERO, 0), |_, _, _| {});
    let now = Instant::from_nanos(M);
    let mut new = Htb::build(&after).expect("builds");
    new.inherit(now, &old, &Kin::by_name(&before, &after));
    new.enqueued(now, LeafId(0), leaves.head(LeafId(0)).expect("three are left"));
    let mut sent = Vec::new();
    serve(&mut new, &mut leaves, (now, 1000 * K), |at, _, _| sent.push(at.as_nanos() / M));
    assert_eq!(sent, expected, "{name} {rate}");
}

#[test]
fn a_change_of_policy_forgives_no_debt_and_gives_no_burst() {
    check_change("a", M, &[8, 16, 24]);
    check_change("a", 2 * M, &[8, 12, 16]);
    // Another class starts anew.
    check_change("b", M, &[1, 1, 1]);
}
