//! Departures worked by hand: instants and order.

use crate::htb::world::{Leaves, Row, htb, tree};
use weir_core::ids::LeafId;
use weir_core::sched::Selection;
use weir_core::units::Instant;

const K: u64 = 1000;
const M: u64 = 1_000_000;

/// Packets of 1000 bytes wait in leaves a, b, ... from time 0, as many as `backlog` has letters.
/// `order` has a word for each instant (in µs) at which packets leave.
fn check(rows: &[Row], backlog: &str, order: &str) {
    let tree = tree(1000 * M, rows);
    let mut scheduler = htb(&tree);
    let mut leaves = Leaves::new(tree.leaf_count());
    for letter in backlog.bytes() {
        let leaf = LeafId(u32::from(letter - b'a'));
        let head = leaves.push(leaf, 1000);
        scheduler.enqueued(Instant::ZERO, leaf, head);
    }
    let (mut now, mut word, mut words) = (Instant::ZERO, String::new(), Vec::new());
    loop {
        match scheduler.select(now) {
            Selection::Leaf(leaf) => {
                let (bytes, next) = leaves.pop(leaf);
                scheduler.charge(now, leaf, bytes, next);
                word.push(char::from(b'a' + leaf.0 as u8));
                continue;
            }
            Selection::At(at) if word.is_empty() => now = at,
            answer => {
                words.push(format!("{}:{word}", now.as_nanos() / 1000));
                word.clear();
                let Selection::At(at) = answer else { break };
                now = at;
            }
        }
    }
    assert_eq!(words.join(" "), order);
}

/// Both buckets of 2000 bytes.
const TWO_K: &[(&str, u64)] = &[("burst", 2 * K), ("cburst", 2 * K)];
/// A bucket of one byte: one packet at once.
const TIGHT: &[(&str, u64)] = &[("burst", 1), ("cburst", 1), ("quantum", 1000)];

#[test]
fn a_full_bucket_of_two_packets_lets_three_out_at_once() {
    // [algorithms §5.8] 1 Mbit/s, 2000 B burst, 1000-byte packets: 0 0 0 8 16 24 32 ms.
    check(&[("a", None, M, M, TWO_K)], "aaaaaaa", "0:aaa 8000:a 16000:a 24000:a 32000:a");
}

#[test]
fn a_bucket_that_nearly_holds_two_lets_two_out_at_once() {
    let burst = &[("burst", 1999), ("cburst", 1999)];
    check(&[("a", None, M, M, burst)], "aaaaa", "0:aa 8:a 8008:a 16008:a");
}

#[test]
fn without_a_parent_no_class_lends() {
    let wide = &[("burst", 1), ("cburst", 100 * K)];
    check(&[("a", None, M, 10 * M, wide)], "aaa", "0:a 7992:a 15992:a");
}

#[test]
fn siblings_borrow_in_turns_of_their_quanta() {
    // The rates of 1 kbit/s do not matter after the first packet of each; the root lends 8 Mbit/s,
    // a packet a millisecond, from a bucket that holds what both take at the start. The first turn
    // is one packet shorter: a deficit starts at 0, and a packet on it uses the turn up.
    let own = &[("burst", 1), ("cburst", 100 * K), ("quantum", 1000)];
    let twice = &[("burst", 1), ("cburst", 100 * K), ("quantum", 2000)];
    let root = ("root", None, 8 * M, 8 * M, &[("burst", 2 * K), ("cburst", 2 * K)][..]);
    check(
        &[root, ("a", Some(0), K, 8 * M, twice), ("b", Some(0), K, 8 * M, own)],
        "aaaaaaabbbbbbb",
        "0:aba 1000:b 2000:a 3000:a 4000:b 5000:a 6000:a 7000:b 8000:a 9000:b 10000:b 11000:b",
    );
}

#[test]
fn own_rate_precedes_borrowed_rate_and_the_smaller_prio_is_first() {
    // At 0 all three use their own byte of burst, by prio. Then the root, a packet a millisecond
    // and 2.999 ms in debt, lends to b while b waits, then to a and c in turns. At 7.992 ms c has
    // earned what it used at 0, since borrowing cost it nothing, and need not wait for 7.999.
    let prio = |prio| vec![("burst", 1), ("cburst", 100 * K), ("quantum", 1000), ("prio", prio)];
    let (first, second) = (prio(0), prio(1));
    check(
        &[
            ("root", None, 8 * M, 8 * M, TIGHT),
            ("a", Some(0), K, 8 * M, &second),
            ("b", Some(0), K, 8 * M, &first),
            ("c", Some(0), M, 8 * M, &second),
        ],
        "aabbbbccc",
        "0:bac 2999:b 3999:b 4999:b 5999:a 6999:c 7992:c",
    );
}

#[test]
fn the_nearest_ancestor_lends_first() {
    // mid lends to a every 2 ms; the root pays for what mid lends too. When the root has earned a
    // packet itself, at 2.999 ms, it is the turn of mid, whose feed is at its right end: it starts
    // again and passes the turn to b. So b gets what mid leaves.
    let own = &[("burst", 1), ("cburst", 100 * K), ("quantum", 1000)];
    check(
        &[
            ("root", None, 8 * M, 8 * M, TIGHT),
            ("mid", Some(0), 4 * M, 8 * M, own),
            ("a", Some(1), K, 8 * M, own),
            ("b", Some(0), K, 8 * M, own),
        ],
        "aaaaabbb",
        "0:ab 1998:a 2999:b 3998:a 4999:b 5998:a 6999:a",
    );
}
