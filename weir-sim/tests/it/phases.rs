//! Phases: where nothing is random, replications say so; random times at starts and in hosts make
//! means of what was one run's order.

use crate::common;

use common::{line, run, written};
use weir_sim::Report;
use weir_sim::replicate::Summary;

/// Two sources of one rhythm before a queue of two packets, which has room for one of them only.
const TWINS: &str = "[policy]\nlink = { rate = '1 Mbit/s', scheduler = 'fifo' }\n\
    class = { all = { default = true, queue = { limit = '2 packets' } } }\n\
    [[source]]\nname = 'one'\nkind = 'cbr'\nsize = '1250 B'\ninterval = '10 ms'\n\
    [[source]]\nname = 'two'\nkind = 'cbr'\nsize = '1250 B'\ninterval = '10 ms'\n";
const TRANSFER: &str = "[[source]]\nname = 'bulk'\nkind = 'tcp'\n";

fn runs(text: &str, count: u64) -> Vec<Report> {
    let mut scenario = written(text);
    let mut report = |seed| {
        scenario.seed = seed;
        run(&scenario)
    };
    (1..=count).map(&mut report).collect()
}

/// Returns the summary of some runs, and its text.
fn summary(text: &str) -> (Summary, String) {
    let summary = Summary::of(&runs(text, 4), 4).expect("there are four");
    let shown = summary.to_string();
    (summary, shown)
}

#[test]
fn replications_without_chance_say_so() {
    let (twins, shown) = summary(&format!("duration = '2 s'\n{TWINS}"));
    assert!(twins.alike && twins.utilisation.within.is_none());
    assert!(shown.contains("nothing in this scenario is random"), "{shown}");
    assert!(!shown.contains('±'), "{shown}");
    let (poisson, shown) = summary(&format!("duration = '2 s'\n{TWINS}").replace("cbr", "poisson"));
    assert!(!poisson.alike && shown.contains('±'), "{shown}");
}

#[test]
fn a_jitter_of_starts_makes_a_mean_of_what_was_a_phase() {
    let text = |head: &str| format!("{head}duration = '4 s'\n{TWINS}");
    let shares = |text: &str| {
        let lost = |report: &Report, name| report.source(name).map_or(0, |row| row.lost.packets);
        let sums =
            runs(text, 30).into_iter().map(|report| [lost(&report, "one"), lost(&report, "two")]);
        sums.fold([0, 0], |sum, row| [sum[0] + row[0], sum[1] + row[1]])
    };
    let [one, two] = shares(&text(""));
    assert_eq!(one.min(two), 0, "one of them always finds the last place: {one}, {two}");
    let [one, two] = shares(&text("start_jitter = '10 ms'\n"));
    let part = one as f64 / (one + two) as f64;
    assert!((0.3..0.7).contains(&part), "which one is by chance: {one}, {two}");
    // Another seed draws others, and the same one the same.
    let jittered = text("start_jitter = '10 ms'\n");
    assert_eq!(runs(&jittered, 2), runs(&jittered, 2));
    assert!(!summary(&jittered).0.alike);
}

#[test]
fn a_jitter_of_processing_moves_answers_and_keeps_their_order() {
    let single = |head: &str| {
        let policy = TWINS.split_once("[[source]]").map_or("", |row| row.0);
        format!("{head}duration = '2 s'\ndelay = '10 ms'\n{policy}{TRANSFER}")
    };
    let network = |head: &str| {
        let links = line(&[("10 Mbit/s", "5 ms", ""), ("2 Mbit/s", "5 ms", "")]);
        format!("{head}duration = '2 s'\n{links}{TRANSFER}from = 'n0'\nto = 'n2'\n")
    };
    for text in [single, network] {
        assert!(summary(&text("")).0.alike, "{}", text(""));
        let jittered = text("processing_jitter = '2 ms'\n");
        let (found, shown) = summary(&jittered);
        assert!(!found.alike, "{shown}");
        let goodput = |text: &str| runs(text, 1)[0].sources[0].goodput_bps;
        let (plain, late) = (goodput(&text("")), goodput(&jittered));
        assert!(late > plain / 2, "answers in their order are no duplicate ones: {late}, {plain}");
    }
}
