//! Words that other tools use, with Weir's word or the way to have the same.

use weir_core::queue::DROPPERS;

/// Pairs of a key of tc, pf, nftables, FireQOS or ALTQ and the key that means the same here. Of
/// several rows for a word the first whose key the table has holds.
const KEYS: &[(&str, &str)] = &[
    ("in", "interface"),
    ("iif", "interface"),
    ("iifname", "interface"),
    ("inface", "interface"),
    ("protocol", "proto"),
    ("ip_proto", "proto"),
    ("source", "src"),
    ("saddr", "src"),
    ("from", "src"),
    ("destination", "dst"),
    ("daddr", "dst"),
    ("to", "dst"),
    ("src_port", "sport"),
    ("dst_port", "dport"),
    ("port", "dport"),
    ("tos", "dscp"),
    ("dsfield", "dscp"),
    ("fwmark", "mark"),
    ("bandwidth", "rate"),
    ("commit", "rate"),
    ("max", "ceil"),
    ("ceiling", "ceil"),
    ("upperlimit", "ul_m2"),
    ("realtime", "rt_m2"),
    ("linkshare", "ls_m2"),
    ("qdisc", "scheduler"),
    ("qlimit", "queue"),
];

/// Pairs of a queueing discipline of Linux that is no scheduler of Weir and the way to its effect.
const DISCIPLINES: &[(&str, &str)] = &[
    ("fq_pie", "write the dropper `fq-pie`, which takes turns among flows, with PIE for each"),
    ("pfifo_fast", "write `priq` with a class for each band"),
    ("pfifo", "write `fifo`, with `limit` in packets"),
    ("bfifo", "write `fifo`, with `limit` in bytes"),
    ("prio", "write `priq`, with a class for each band"),
    (
        "mqprio",
        "Weir has one scheduler for all queues of an interface: write `htb` with priorities",
    ),
    ("mq", "Weir has one scheduler for all queues of an interface: name that of the queues below"),
    ("netem", "loss and delay are keys of a scenario's link (`loss`, `delay`), not of a policy"),
];

/// Returns the key of `known` that means what other tools call `word`.
pub fn key<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let meant = KEYS.iter().filter(|row| row.0 == word);
    meant.filter_map(|row| known.iter().find(|key| **key == row.1)).next().copied()
}

/// Returns what to write where another tool would name the discipline `word`, if `known` are
/// schedulers or droppers.
pub fn discipline(word: &str, known: &[&str]) -> Option<String> {
    let small = word.to_lowercase();
    if known.contains(&"htb") && DROPPERS.iter().any(|row| row.keyword == small) {
        let queue = format!("`queue = {{ dropper = \"{small}\" }}`");
        return Some(format!("it is a dropper: write {queue} in a class"));
    }
    let row = DISCIPLINES.iter().find(|row| row.0 == small)?;
    known.contains(&"fq-codel").then(|| row.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::sched::SCHEDULERS;

    #[test]
    fn a_word_of_another_tool_has_its_key_where_the_table_has_it() {
        assert_eq!(key("in", &["proto", "interface"]), Some("interface"));
        assert_eq!(key("in", &["proto"]), None);
        assert_eq!(key("bandwidth", &["rate", "ceil"]), Some("rate"));
    }

    #[test]
    fn no_row_shadows_a_word_of_weir() {
        let schedulers = SCHEDULERS.iter().map(|entry| entry.descriptor.keyword);
        let droppers = DROPPERS.iter().map(|row| row.keyword);
        let own: Vec<_> = schedulers.chain(droppers).collect();
        for (word, cure) in DISCIPLINES {
            assert!(!own.contains(word) && !cure.is_empty(), "{word}");
            assert_eq!(discipline(word, &own).as_deref(), Some(*cure));
        }
        assert_eq!(discipline("cake", &["first", "altq"]), None);
        let dropper = discipline("pie", &["htb", "drr"]).expect("it is known");
        assert!(dropper.contains("a dropper"), "{dropper}");
    }
}
